//! Predictions of a traced run for the settings of a sweep: the file beside its journal, so that a
//! report needs no trace.

use crate::sweep::SweepPlan;
use crate::traces::graph::MAX_EVENTS;
use crate::traces::{RunGraph, Timeline};
use clump_loggp::{KnobScope, KnobTable};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Number of the file's format.
pub const FORMAT: u32 = 2;

/// A traced run at no setting, played again at each setting of a sweep.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SweepReplay {
    /// [`FORMAT`].
    pub clump_replay: u32,
    /// The command of the sweep.
    pub command: Vec<String>,
    /// Reason why nothing was played.
    pub missing: Option<String>,
    /// Time of the traced run, of its ranks' lives, in ns.
    pub recorded_ns: u64,
    /// Time of the phases that the program times, of the traced run, in ns.
    pub phases_ns: Option<u64>,
    /// Waits that no message of the traces ended, of the rank with most, in ns. They stay as long.
    pub unexplained_ns: u64,
    /// Messages and meetings without their other end.
    pub unmatched: u64,
    /// n of M1b: messages of serial phases, within a node and between nodes.
    pub serial_messages: [u64; 2],
    /// Predictions by the text of the setting.
    pub settings: BTreeMap<String, PlayedSetting>,
}

/// Prediction for one setting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PlayedSetting {
    /// Time by which the run takes longer by M5, in ns.
    pub m5_ns: f64,
    /// Time by which the phases that the program times take longer, where it times any, in ns.
    pub m5_phases_ns: Option<f64>,
    /// That by M2e, where a gap is set.
    pub m2e_ns: Option<f64>,
}

impl PlayedSetting {
    /// Returns the time by which the run takes longer by M5, in ns; `of_phases`: of the phases that
    /// the program times, where it times any.
    pub fn of(&self, of_phases: bool) -> f64 {
        self.m5_phases_ns.filter(|_| of_phases).unwrap_or(self.m5_ns)
    }
}

impl SweepReplay {
    /// Returns the file of a program of which no trace is to be had.
    pub fn missing(plan: &SweepPlan, why: impl Into<String>) -> Self {
        let (command, missing) = (plan.command.clone(), Some(why.into()));
        Self { clump_replay: FORMAT, command, missing, ..Self::default() }
    }

    /// Plays the traces of a folder at each setting of a plan; `knobs`: its settings, the baseline
    /// left out. Traces that are incomplete or unreadable give the reason instead.
    pub fn of_traces(plan: &SweepPlan, folder: &Path, knobs: &[KnobTable]) -> Self {
        debug_assert_eq!(knobs.len() + 1, plan.settings.len(), "knobs of each setting");
        let opened = Timeline::open(folder);
        let mut timeline = match opened {
            Ok(timeline) => timeline,
            Err(error) => return Self::missing(plan, error.fault.to_string()),
        };
        let dropped: u64 = timeline.files().iter().map(|file| file.reader().dropped()).sum();
        if dropped > 0 {
            let why = format!("{dropped} events had no room (CLUMP_TRACE_EVENTS)");
            return Self::missing(plan, why);
        }
        if let Err(why) = RunGraph::fits(&timeline, MAX_EVENTS) {
            return Self::missing(plan, why);
        }
        let machine = plan.virtual_time.as_ref().map(|time| time.machine.machine());
        let machine = match machine.transpose() {
            Ok(machine) => machine,
            Err(why) => return Self::missing(plan, why),
        };
        match RunGraph::of(&mut timeline, machine) {
            Ok(graph) => Self::of_graph(plan, &graph, knobs),
            Err(error) => Self::missing(plan, error.fault.to_string()),
        }
    }

    fn of_graph(plan: &SweepPlan, graph: &RunGraph, knobs: &[KnobTable]) -> Self {
        let base = graph.play(&KnobTable::default());
        let setting = |(text, knobs): (&String, &KnobTable)| {
            let played = graph.play(knobs);
            let more = |ns: u64, base_ns: u64| float(ns.saturating_sub(base_ns));
            let phases = base.of_phases_ns().zip(played.of_phases_ns());
            let m5_phases_ns = phases.map(|(base_ns, ns)| more(ns, base_ns));
            let m5_ns = more(played.end().ns, base.end().ns);
            (text.clone(), PlayedSetting { m5_ns, m5_phases_ns, m2e_ns: graph.late_by_gap(knobs) })
        };
        Self {
            clump_replay: FORMAT,
            command: plan.command.clone(),
            missing: None,
            recorded_ns: graph.recorded_ns,
            phases_ns: base.of_phases_ns(),
            unexplained_ns: graph.unexplained_ns,
            unmatched: base.unmatched,
            serial_messages: graph.serial_messages,
            settings: plan.settings.iter().skip(1).zip(knobs).map(setting).collect(),
        }
    }

    /// Returns true if it is of a sweep: of its command and of all its settings.
    pub fn is_of(&self, plan: &SweepPlan) -> bool {
        let mut settings = plan.settings.iter().skip(1);
        self.clump_replay == FORMAT
            && self.command == plan.command
            && (self.missing.is_some() || settings.all(|text| self.settings.contains_key(text)))
    }

    /// Returns n of M1b on a path.
    pub fn serial(&self, scope: KnobScope) -> f64 {
        float(self.serial_messages[scope as usize])
    }
}

/// Returns the file in which a sweep leaves what its trace predicts.
pub fn replay_beside(journal: &Path) -> PathBuf {
    let mut name = journal.as_os_str().to_owned();
    name.push(".replay.json");
    name.into()
}

#[expect(clippy::cast_precision_loss, reason = "times and counts are far below 2^53")]
fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use clump_os::clock;
    use clump_os::scratch::Scratch;
    use clump_trace::event::send_key;
    use clump_trace::{EventKind, PhaseName, Recorder};

    fn plan() -> SweepPlan {
        let settings = ["L=+5us", "g=10us"].map(String::from);
        SweepPlan::new(vec!["./p".into()], settings.into(), 1, 3)
    }

    fn knobs(plan: &SweepPlan) -> Vec<KnobTable> {
        let parse = |text: &String| KnobTable::parse(text, &Default::default()).unwrap();
        plan.settings.iter().skip(1).map(parse).collect()
    }

    /// Traces of two ranks: rank 1 waits for three messages that rank 0 sends 2 us apart. The first
    /// is sent in a phase that both time, and handled in it.
    fn traced(room: u64) -> Scratch {
        let folder = Scratch::new(&std::env::temp_dir(), "replays").unwrap();
        let ranks = [0, 1].map(|r| Recorder::create(folder.path(), (r, 2, r), room).unwrap());
        let base = clock::now_ns();
        let phase = PhaseName::of("first").to_event();
        ranks.iter().for_each(|rank| rank.note(base, EventKind::Phase, 0, phase));
        ranks[1].note(base, EventKind::Wait, 0, (0, 2, 0));
        for at in [1_000, 3_000, 5_000] {
            let (sent, to) = (base + at, base + at + 4_000);
            ranks[0].note(sent, EventKind::Send, 0, (1, 2, 8));
            ranks[1].note(to, EventKind::Handle, 0, (0, 2, send_key(sent)));
            ranks[1].note(to + 100, EventKind::HandleEnd, 0, (0, 0, 0));
            if at == 1_000 {
                ranks[0].note(sent + 500, EventKind::PhaseEnd, 0, phase);
                ranks[1].note(to + 150, EventKind::WaitEnd, 0, (0, 0, 0));
                ranks[1].note(to + 150, EventKind::PhaseEnd, 0, phase);
                ranks[1].note(to + 150, EventKind::Wait, 0, (0, 2, 0));
            }
        }
        ranks[1].note(base + 9_200, EventKind::WaitEnd, 0, (0, 0, 0));
        folder
    }

    #[test]
    fn a_trace_predicts_every_setting_and_is_read_back() {
        let (plan, folder) = (plan(), traced(100));
        let replay = SweepReplay::of_traces(&plan, folder.path(), &knobs(&plan));
        assert_eq!((replay.missing.as_deref(), replay.unmatched), (None, 0));
        let [latency, gap] = ["L=+5us", "g=10us"].map(|text| replay.settings[text]);
        assert_eq!((latency.m5_ns, latency.m2e_ns), (5_000.0, None));
        // Messages leave at 1, 11 and 21 us instead of at 1, 3 and 5.
        assert_eq!((gap.m5_ns, gap.m2e_ns), (16_000.0, Some(16_000.0)));
        // Of the phase: its message is the first, which no gap delays.
        assert_eq!(replay.phases_ns, Some(5_150));
        assert_eq!((latency.of(true), gap.of(true)), (5_000.0, 0.0));
        assert_eq!((latency.of(false), gap.of(false)), (5_000.0, 16_000.0));
        let job = PlayedSetting { m5_phases_ns: None, ..gap };
        assert_eq!(job.of(true), 16_000.0, "no phase was traced");
        assert_eq!(replay.serial_messages, [0, 0], "they are those of the busiest rank");
        let text = serde_json::to_string(&replay).unwrap();
        let again: SweepReplay = serde_json::from_str(&text).unwrap();
        assert_eq!(again, replay);
        assert!(again.is_of(&plan));
        let other = SweepPlan::new(plan.command.clone(), vec!["L=+6us".into()], 1, 3);
        assert!(!again.is_of(&other) && !SweepReplay::default().is_of(&plan));
    }

    #[test]
    fn a_trace_with_lost_events_or_none_gives_the_reason() {
        let plan = plan();
        let replay = SweepReplay::of_traces(&plan, traced(3).path(), &knobs(&plan));
        let why = replay.missing.clone().unwrap_or_default();
        assert!(why.contains("11 events had no room"), "{why}");
        assert!(replay.is_of(&plan) && replay.settings.is_empty());
        let empty = Scratch::new(&std::env::temp_dir(), "replays").unwrap();
        let replay = SweepReplay::of_traces(&plan, empty.path(), &knobs(&plan));
        assert!(replay.missing.unwrap_or_default().contains("rank 0 is missing"));
    }
}
