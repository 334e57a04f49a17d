//! Points of a sweep beside the models' predictions.

use crate::study::input::{StudiedProgram, Study};
use crate::sweep::{RunEnd, SweepJournal};
use clump_loggp::knobs::KnobTable;
use clump_loggp::{
    AddedTimes, BaseParameters, KnobClass, KnobScope, Knobs, Median, Model, Workload,
};
use clump_trace::{Counter, Profile, Snapshot};

/// A knob that a setting turns alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Knob {
    /// o, or one of its halves.
    Overhead,
    /// g.
    Gap,
    /// L.
    Latency,
    /// G.
    ByteGap,
}

impl Knob {
    /// All knobs, in the order of paper 001's figures.
    pub const ALL: [Self; 4] = [Self::Overhead, Self::Gap, Self::Latency, Self::ByteGap];

    /// Returns its symbol.
    pub fn symbol(self) -> &'static str {
        ["o", "g", "L", "G"][self as usize]
    }

    /// Returns the models of it.
    pub fn models(self) -> &'static [Model] {
        match self {
            Knob::Overhead => &[Model::M1, Model::M1b, Model::M5],
            Knob::Gap => {
                &[Model::M2Burst, Model::M2Uniform, Model::M2Intervals, Model::M2Events, Model::M5]
            }
            Knob::Latency => &[Model::M3, Model::M5],
            Knob::ByteGap => &[Model::M4, Model::M5],
        }
    }

    /// Returns the knob that a text turns, if it turns one alone.
    fn of(text: &str) -> Option<Self> {
        let words = text.split([',', ';']).filter_map(|word| Some(word.split_once('=')?.0.trim()));
        let mut knobs =
            words.filter(|name| !matches!(*name, "scope" | "class" | "capacity")).map(|name| {
                match name {
                    "o" | "o_s" | "o_r" => Some(Knob::Overhead),
                    "g" => Some(Knob::Gap),
                    "L" => Some(Knob::Latency),
                    "G" => Some(Knob::ByteGap),
                    _ => None,
                }
            });
        let first = knobs.next()??;
        knobs.next().is_none().then_some(first)
    }
}

/// A setting of a sweep.
#[derive(Debug, Clone)]
pub struct SweepPoint {
    /// The knob that it turns.
    pub knob: Knob,
    /// Text of the setting.
    pub text: String,
    /// Times that it adds.
    pub added: AddedTimes,
    /// Time of the program at no setting in s: of the runs beside those of the setting, which
    /// slowdown and predictions divide by.
    pub base_s: f64,
    /// Time at the setting, in s; `None` where it did not end cleanly.
    pub time_s: Option<Median>,
    /// True if it was run.
    pub was_run: bool,
    /// True if its time is virtual: each run is the same.
    pub is_exact: bool,
    /// Time for which ranks waited for processors beyond that at no setting, in s.
    pub waited_s: f64,
    /// Times that the kernel took the processor from a rank beyond those at no setting, if known.
    pub preemptions: Option<u64>,
    /// Time over that of the runs at no setting beside it.
    pub slowdown: Option<Median>,
    /// Predicted slowdown by model.
    pub predicted: Vec<(Model, f64)>,
}

impl SweepPoint {
    /// Returns the setting as a number: microseconds added to o or L, or between two messages;
    /// ns a byte.
    pub fn setting(&self) -> f64 {
        match self.knob {
            Knob::Overhead => self.added.o / 1e3,
            Knob::Gap => self.added.g / 1e3,
            Knob::Latency => self.added.l / 1e3,
            Knob::ByteGap => self.added.big_g,
        }
    }

    /// Returns the bandwidth that a setting of G leaves at most, in MB/s.
    pub fn bandwidth_mb_s(&self, base: Option<f64>) -> f64 {
        1e3 / (self.added.big_g + base.unwrap_or(0.0)).max(1e-3)
    }
}

/// Returns the points of all sweeps of a program, by knob and setting.
pub fn points(study: &Study, program: &StudiedProgram) -> Vec<SweepPoint> {
    let of = |journal| points_of(journal, program, study);
    let mut all: Vec<_> = program.sweeps.iter().flat_map(of).collect();
    all.sort_by(|a, b| a.knob.cmp(&b.knob).then(a.setting().total_cmp(&b.setting())));
    all
}

fn points_of(journal: &SweepJournal, program: &StudiedProgram, study: &Study) -> Vec<SweepPoint> {
    let Some(base) = journal.time(0) else { return Vec::new() };
    let profile = program.profile.as_ref();
    let bases = bases(journal, study);
    let waited = journal.waited(0).unwrap_or(0.0);
    let replay = program.replays.iter().find(|replay| replay.command == journal.plan.command);
    let mut points = Vec::new();
    for (setting, text) in journal.plan.settings.iter().enumerate().skip(1) {
        let Some(knob) = Knob::of(text) else { continue };
        let Ok(table) = KnobTable::parse(text, &bases) else { continue };
        let slowdown = journal.slowdown(setting);
        let base_s = slowdown.map_or(base.value, |slowdown| slowdown.base_s);
        let base_ns = base_s * 1e9;
        let scope = scope(text, profile);
        let class = if knob == Knob::ByteGap { KnobClass::Bulk } else { KnobClass::Short };
        let added = added(table.get(scope, class), &bases[scope as usize]);
        let serial_messages = replay.map_or(0.0, |replay| replay.serial(scope));
        let work = profile
            .map(|profile| Workload { serial_messages, ..workload(profile, scope, base_ns) });
        let played = replay.and_then(|replay| replay.settings.get(text));
        let predict = |model: &Model| {
            let ns = match model {
                Model::M5 => base_ns + played?.of(journal.is_of_phases()),
                Model::M2Events => base_ns + played?.m2e_ns?,
                _ => model.predict(work.as_ref()?, &added)?,
            };
            Some((*model, ns / base_ns))
        };
        points.push(SweepPoint {
            knob,
            text: text.clone(),
            added,
            base_s,
            time_s: journal.time(setting),
            was_run: journal.was_run(setting),
            is_exact: journal.is_exact(),
            waited_s: (journal.waited(setting).unwrap_or(waited) - waited).max(0.0),
            preemptions: preemptions(journal, setting),
            slowdown: slowdown.map(|slowdown| slowdown.ratio),
            predicted: knob.models().iter().filter_map(predict).collect(),
        });
    }
    points
}

/// Returns how much more often the kernel took the processor from a rank than at no setting.
fn preemptions(journal: &SweepJournal, setting: usize) -> Option<u64> {
    let more = journal.preemptions(setting)? - journal.preemptions(0)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    Some(more.max(0.0) as u64)
}

/// Returns the parameters that the settings of a sweep are beside, within a node and between nodes:
/// of its virtual machine, or of this one as it was calibrated then.
fn bases(journal: &SweepJournal, study: &Study) -> [BaseParameters; 2] {
    let of_virtual = journal.plan.virtual_time.as_ref();
    let of_virtual = of_virtual.and_then(|time| time.machine.bases().ok());
    let of_this = study.machine.as_ref().map(|machine| [machine.shm, machine.net]);
    let of_plan = journal.plan.base.as_ref().map(|base| base.paths);
    of_virtual.or(of_plan).or(of_this).unwrap_or_default()
}

/// Returns how the setting ended, where it did not end cleanly, for all sweeps of a program.
pub fn unclean(program: &StudiedProgram) -> Vec<(String, RunEnd)> {
    let of = |journal: &SweepJournal| {
        let settings = journal.plan.settings.iter().enumerate();
        let ends = settings.filter_map(|(at, text)| Some((text.clone(), journal.unclean(at)?)));
        ends.collect::<Vec<_>>()
    };
    program.sweeps.iter().flat_map(of).collect()
}

/// Returns the settings of all sweeps of a program that were not run.
pub fn not_run(program: &StudiedProgram) -> impl Iterator<Item = &String> {
    program.sweeps.iter().flat_map(|journal| {
        let settings = journal.plan.settings.iter().enumerate();
        settings.filter(|&(at, _)| !journal.was_run(at)).map(|(_, text)| text)
    })
}

/// Returns the settings of all sweeps of a program at which attempts at locks failed, each with a
/// sentence about them.
pub fn lock_notes(program: &StudiedProgram) -> Vec<String> {
    let of = |journal: &SweepJournal| {
        let settings = journal.plan.settings.iter().enumerate();
        let named = |text: &String| if text.is_empty() { "none".into() } else { text.clone() };
        let notes = settings.filter_map(|(at, text)| {
            Some(format!("{}: {}", named(text), journal.locks(at).note()?))
        });
        notes.collect::<Vec<_>>()
    };
    program.sweeps.iter().flat_map(of).collect()
}

/// Returns the path whose knobs a text turns, as far as it matters for the program.
fn scope(text: &str, profile: Option<&Profile>) -> KnobScope {
    let several = profile.is_some_and(|profile| profile.node_of.iter().any(|&node| node != 0));
    match text {
        _ if text.contains("scope=net") => KnobScope::Net,
        _ if text.contains("scope=shm") => KnobScope::Shm,
        _ if several => KnobScope::Net,
        _ => KnobScope::Shm,
    }
}

fn added(knobs: &Knobs, base: &BaseParameters) -> AddedTimes {
    let Knobs { send_ns, receive_ns, gap_ns, latency_ns, byte_ps, stream_ps, .. } = *knobs;
    let stream = stream_ps as f64 / 1e3 - base.big_g_ns_per_byte.unwrap_or(0.0);
    AddedTimes {
        o: (send_ns + receive_ns) as f64 / 2.0,
        g: gap_ns as f64,
        base_g: base.g_ns.unwrap_or(0.0),
        l: latency_ns as f64,
        big_g: byte_ps as f64 / 1e3 + stream.max(0.0),
    }
}

/// Returns a program as the models see it: what its ranks sent by one path. Serial messages are in
/// no profile.
pub fn workload(profile: &Profile, scope: KnobScope, runtime_ns: f64) -> Workload {
    let most = |names: &[&str]| {
        let of = |all: &Snapshot| names.iter().map(|name| on_path(all, scope, name)).sum::<u64>();
        profile.counters.iter().map(of).max().unwrap_or(0) as f64
    };
    let kinds = ["request.short", "request.medium", "request.long"];
    let replies = ["reply.short", "reply.medium", "reply.long"];
    let named = |kinds: &[&str], end: &str| -> Vec<String> {
        kinds.iter().map(|kind| format!("{kind}.{end}")).collect()
    };
    let sum = |names: Vec<String>| most(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let messages = sum([named(&kinds, "sent"), named(&replies, "sent")].concat());
    let bulk = [named(&kinds[1..], "sent_bytes"), named(&replies[1..], "sent_bytes")].concat();
    let intervals = clump_trace::Intervals::sum(&profile.intervals).sends;
    let lifetime = profile.summary.elapsed_ms * 1e6;
    Workload {
        runtime_ns,
        messages,
        serial_messages: 0.0,
        reads: sum(named(&replies, "received")),
        bulk_bytes: sum(bulk),
        interval_ns: if messages > 0.0 { lifetime / messages } else { 0.0 },
        intervals: intervals
            .cells()
            .filter(|(_, count)| *count != 0)
            .map(|(from, count)| (from as f64 * 1.5, count as f64))
            .collect(),
    }
}

/// Returns a counter of messages of one path.
fn on_path(all: &Snapshot, scope: KnobScope, name: &str) -> u64 {
    let path = if scope == KnobScope::Shm { "shm" } else { "net" };
    Counter::named(&format!("{path}.{name}")).map_or(0, |counter| all[counter])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_turns_one_knob_is_of_that_knob() {
        assert_eq!(Knob::of("o_s=+5us,scope=net"), Some(Knob::Overhead));
        assert_eq!(Knob::of("G=+1ns/B;"), Some(Knob::ByteGap));
        assert_eq!(Knob::of("L=+5us,g=10us"), None, "two at once");
        assert_eq!(Knob::of("scope=net"), None);
        assert_eq!(Knob::ALL.map(Knob::symbol), ["o", "g", "L", "G"]);
    }

    #[test]
    fn the_workload_is_that_of_the_busiest_rank_on_the_path() {
        let mut counters = vec![Snapshot::ZERO; 2];
        counters[0][Counter::NetRequestShortSent] = 100;
        counters[0][Counter::NetReplyShortReceived] = 40;
        counters[1][Counter::NetReplyMediumSent] = 120;
        counters[1][Counter::NetReplyMediumSentBytes] = 9_000;
        counters[1][Counter::RequestShortSent] = 7;
        let profile = crate::study::fake::profile(counters);
        let net = workload(&profile, KnobScope::Net, 5.0);
        assert_eq!((net.messages, net.reads, net.bulk_bytes), (120.0, 40.0, 9_000.0));
        assert_eq!(workload(&profile, KnobScope::Shm, 5.0).messages, 7.0);
    }
}
