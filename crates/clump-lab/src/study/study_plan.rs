//! The plan of a study: how much work each application does, at which settings, how often, and how
//! long all of it takes.
//!
//! It follows from a run of each application at no setting, and stays in the folder of the study,
//! so that an interrupted study goes on with the same journals.

use crate::study::application::{APPLICATIONS, StudyApplication};
use clump_boot::virtual_machine::VirtualMachine;
use clump_loggp::{AddedTimes, Model, Workload};
use serde::{Deserialize, Serialize};

/// Number of the plan's format.
pub const FORMAT: u32 = 1;
/// Shortest phases of a run at no setting, in s: of shorter ones the variation is what is seen.
pub const MIN_BASE_S: f64 = 0.5;
/// Least time that the largest setting of o, g or L adds to a run, in s.
pub const MIN_ADDED_S: f64 = 0.2;
/// Aim above the least, so that variation does not lead below it.
const ABOVE: f64 = 1.2;
/// Times that a size is tried to find the amount of work.
pub const MAX_PILOTS: usize = 4;
/// Fewest rounds, and fewest settings of a knob, to which the time is bounded.
const FEWEST: (usize, usize) = (3, 2);
/// Runs at no setting, for each run at one: those between three, and at both ends.
const BASELINES: f64 = 0.45;

/// Knobs and their settings: microseconds added to o and L, between messages (g); ns a byte. Those
/// of paper 001 reach to a hundred times the base, these to less, because jobs are small.
const LADDERS: [(&str, &str, [u32; 4]); 4] = [
    ("o=", "us", [1, 5, 20, 50]),
    ("g=", "us", [5, 10, 25, 50]),
    ("L=", "us", [5, 20, 50, 100]),
    ("G=", "ns/B", [1, 5, 20, 100]),
];

/// Settings in virtual time, of the same knobs: those of paper 001, figures 5 to 8. Its bandwidths
/// are 30, 20, 15, 10, 5, 2 and 1 MB/s.
const VIRTUAL_LADDERS: [&[u32]; 4] = [
    &[1, 2, 5, 10, 20, 50, 100],
    &[8, 10, 15, 30, 55, 80, 105],
    &[5, 10, 25, 50, 75, 100],
    &[33, 50, 67, 100, 200, 500, 1000],
];

/// A plan.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StudyPlan {
    /// Number of the plan's format.
    pub clump_study: u32,
    /// Ranks, each a node.
    pub ranks: u32,
    /// Most runs of a setting.
    pub rounds: usize,
    /// Time that it may take in s, if that is bounded.
    pub limit_s: Option<f64>,
    /// The machine in whose time programs run; `None`: this one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_machine: Option<VirtualMachine>,
    /// The applications.
    pub programs: Vec<PlannedProgram>,
}

/// An application as it is planned.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PlannedProgram {
    /// Its name.
    pub name: String,
    /// The amount of its work.
    pub amount: u64,
    /// Time of a whole run at no setting, in s.
    pub wall_s: f64,
    /// The run at no setting as models see it; its time is that of the phases.
    pub work: Workload,
    /// Settings by knob, in the order of paper 001.
    pub settings: [Vec<u32>; 4],
}

impl PlannedProgram {
    /// Creates one with every setting, from a run at no setting.
    pub fn new(name: &str, amount: u64, wall_s: f64, work: Workload) -> Self {
        let settings = LADDERS.map(|(_, _, all)| all.to_vec());
        Self { name: name.into(), amount, wall_s, work, settings }
    }

    /// Creates one for virtual time, in which no run is too short.
    pub fn in_virtual_time(name: &str, amount: u64) -> Self {
        let settings = VIRTUAL_LADDERS.map(<[u32]>::to_vec);
        Self { name: name.into(), amount, settings, ..Self::default() }
    }

    /// Returns how many times the work has to be for phases and effects long enough; about 1 where
    /// it is right already.
    pub fn wanted(&self) -> f64 {
        let base = ABOVE * MIN_BASE_S * 1e9 / self.work.runtime_ns.max(1e3);
        let top_ns = f64::from(LADDERS[0].2[3]) * 1e3;
        // An application that sends nothing gains nothing by more work.
        let added = match self.work.messages {
            messages if messages >= 1.0 => ABOVE * MIN_ADDED_S * 1e9 / (messages * top_ns),
            _ => 0.0,
        };
        base.max(added)
    }

    /// Returns true if the work is as much as is wanted, and not several times that.
    pub fn is_right(&self) -> bool {
        (0.4..=ABOVE).contains(&self.wanted())
    }

    /// Returns the options for `clump lab sweep`.
    pub fn knobs(&self) -> Vec<String> {
        let knobs = LADDERS.iter().zip(&self.settings).filter(|(_, settings)| !settings.is_empty());
        let option = |((knob, unit, _), settings): (&(&str, &str, _), &Vec<u32>)| {
            let plus = if *knob == "g=" || *knob == "G=" { "" } else { "+" };
            let each: Vec<_> = settings.iter().map(|s| format!("{plus}{s}{unit}")).collect();
            format!("{knob}{}", each.join(","))
        };
        knobs.map(option).collect()
    }

    /// Returns the time that a run at a setting is expected to take, in s.
    fn run_s(&self, knob: usize, setting: u32) -> f64 {
        let ns = f64::from(setting) * 1e3;
        let (added, model) = match knob {
            0 => (AddedTimes { o: ns, ..AddedTimes::default() }, Model::M1),
            1 => (AddedTimes { g: ns, ..AddedTimes::default() }, Model::M2Burst),
            2 => (AddedTimes { l: ns, ..AddedTimes::default() }, Model::M3),
            _ => (AddedTimes { big_g: ns / 1e3, ..AddedTimes::default() }, Model::M4),
        };
        let predicted_ns = model.predict(&self.work, &added).unwrap_or(self.work.runtime_ns);
        self.wall_s + (predicted_ns - self.work.runtime_ns).max(0.0) / 1e9
    }

    /// Returns the time that `rounds` rounds are expected to take, in s.
    pub fn expected_s(&self, rounds: usize) -> f64 {
        let settings = self.settings.iter().enumerate();
        let runs = settings.flat_map(|(knob, all)| all.iter().map(move |&s| (knob, s)));
        let each = |(knob, setting)| self.run_s(knob, setting) + BASELINES * self.wall_s;
        #[expect(clippy::cast_precision_loss, reason = "rounds are few")]
        let rounds = rounds as f64;
        // A further run is traced.
        rounds * runs.map(each).sum::<f64>() + 2.0 * self.wall_s
    }

    /// Returns the dearest setting that may be left out: its time, knob and index.
    fn dearest(&self) -> Option<(f64, usize)> {
        let knobs = self.settings.iter().enumerate().filter(|(_, all)| all.len() > FEWEST.1);
        let top = knobs.filter_map(|(knob, all)| Some((self.run_s(knob, *all.last()?), knob)));
        top.max_by(|a, b| a.0.total_cmp(&b.0))
    }
}

impl StudyPlan {
    /// Returns the time that it is expected to take, in s.
    pub fn expected_s(&self) -> f64 {
        self.programs.iter().map(|program| program.expected_s(self.rounds)).sum()
    }

    /// Makes it fit into the time that it may take: fewer rounds first, then without the settings
    /// that take longest. Returns false if it still takes longer.
    pub fn fit(&mut self) -> bool {
        let Some(limit_s) = self.limit_s else { return true };
        while self.expected_s() > limit_s && self.rounds > FEWEST.0 {
            self.rounds -= 1;
        }
        while self.expected_s() > limit_s {
            let dearest = self.programs.iter_mut().filter_map(|one| Some((one.dearest()?, one)));
            let Some(((_, knob), program)) = dearest.max_by(|a, b| a.0.0.total_cmp(&b.0.0)) else {
                return false;
            };
            program.settings[knob].pop();
        }
        true
    }

    /// Returns the time that the program at `at` may take of `left_s`, as far as time is bounded:
    /// the share that is expected of it and of those that follow.
    pub fn budget_s(&self, at: usize, left_s: f64) -> Option<f64> {
        self.limit_s?;
        let rest = self.programs.get(at..)?;
        let expected = rest.iter().map(|one| one.expected_s(self.rounds));
        let all: f64 = expected.clone().sum();
        Some(left_s.max(0.0) * expected.into_iter().next()? / all.max(1e-9))
    }

    /// Returns a line for each application: its work, its messages, what it is expected to take.
    pub fn lines(&self) -> Vec<String> {
        let line = |one: &PlannedProgram| {
            let knobs = one.knobs().join(" ");
            if self.virtual_machine.is_some() {
                return format!("{}: {} of work: {knobs}", one.name, one.amount);
            }
            let (messages, s) = (one.work.messages, one.expected_s(self.rounds));
            let (name, amount, base) = (&one.name, one.amount, one.work.runtime_ns / 1e9);
            format!(
                "{name}: {amount} of work, {base:.2} s, {messages:.0} messages, {s:.0} s: {knobs}"
            )
        };
        let all = format!("{} rounds, {:.0} s in all", self.rounds, self.expected_s());
        let all = self.virtual_machine.is_none().then_some(all);
        self.programs.iter().map(line).chain(all).collect()
    }

    /// Returns the programs that were run with each operation a message and with operations
    /// collected, each with how many times the work the second did.
    pub fn pairs(&self) -> Vec<(&PlannedProgram, &PlannedProgram, f64)> {
        let named = |name: &str| self.programs.iter().find(|one| one.name == name);
        let pair = |application: &StudyApplication| {
            let (one, other) = (named(application.name)?, named(application.collected()?.name)?);
            Some((one, other, application.work(other.amount) / application.work(one.amount)))
        };
        APPLICATIONS.iter().filter_map(pair).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program of so many messages and seconds.
    fn program(name: &str, messages: f64, base_s: f64) -> PlannedProgram {
        let work = Workload { runtime_ns: base_s * 1e9, messages, ..Workload::default() };
        PlannedProgram::new(name, 1000, base_s + 0.1, work)
    }

    fn plan(limit_s: Option<f64>) -> StudyPlan {
        let programs = vec![program("radix", 250_000.0, 0.6), program("connect", 5000.0, 0.6)];
        StudyPlan {
            clump_study: FORMAT,
            ranks: 2,
            rounds: 5,
            limit_s,
            programs,
            ..Default::default()
        }
    }

    #[test]
    fn work_grows_until_base_and_effects_are_long_enough() {
        assert!((program("p", 1e6, 0.06).wanted() - 10.0).abs() < 1e-6, "the base is too short");
        let few = program("p", 480.0, 5.0);
        assert!((few.wanted() - 10.0).abs() < 1e-6, "480 messages at 50 us are 24 ms");
        assert!(program("p", 5000.0, 0.6).is_right() && program("p", 1e6, 0.55).is_right());
        assert!(!program("p", 1e6, 0.49).is_right() && !program("p", 3900.0, 0.6).is_right());
        assert!(!program("p", 1e6, 2.6).is_right(), "several times as long as it need be");
        assert!(program("p", 0.0, 0.6).is_right(), "without messages, by its time");
    }

    #[test]
    fn time_is_bounded_by_fewer_rounds_and_then_by_dropping_what_takes_longest() {
        let mut free = plan(None);
        assert!(free.fit());
        assert_eq!(free, plan(None));
        let all_s = free.expected_s();
        // o of radix: 2 x 250,000 x 76 us a round.
        assert!(all_s > 5.0 * 38.0, "{all_s}");
        let mut less = plan(Some(0.7 * all_s));
        assert!(less.fit() && less.rounds == 3 && less.expected_s() <= 0.7 * all_s);
        assert_eq!(less.programs, plan(None).programs, "every setting");
        let mut least = plan(Some(0.4 * all_s));
        assert!(least.fit() && least.expected_s() <= 0.4 * all_s);
        assert_eq!(least.programs[0].settings[0], [1, 5, 20], "o of radix takes longest");
        assert_eq!(least.programs[1], plan(None).programs[1]);
        let mut none = plan(Some(1.0));
        assert!(!none.fit(), "a second is too little");
        assert!(none.programs.iter().all(|one| one.settings.iter().all(|all| all.len() == 2)));
    }

    #[test]
    fn in_virtual_time_the_settings_are_those_of_the_paper() {
        let machine = VirtualMachine::find("now1997").unwrap();
        let programs = vec![PlannedProgram::in_virtual_time("radix", 4096)];
        let plan = StudyPlan { virtual_machine: Some(machine), programs, ..StudyPlan::default() };
        let expected = "radix: 4096 of work: o=+1us,+2us,+5us,+10us,+20us,+50us,+100us \
                        g=8us,10us,15us,30us,55us,80us,105us L=+5us,+10us,+25us,+50us,+75us,+100us \
                        G=33ns/B,50ns/B,67ns/B,100ns/B,200ns/B,500ns/B,1000ns/B";
        assert_eq!(plan.lines(), [expected]);
    }

    #[test]
    fn time_is_shared_by_what_is_expected() {
        let plan = plan(Some(1000.0));
        let [first, second] = [0, 1].map(|at| plan.budget_s(at, 100.0).unwrap());
        let expected = plan.programs[0].expected_s(5) / plan.expected_s();
        assert!((first - 100.0 * expected).abs() < 1e-9);
        assert!((second - 100.0).abs() < 1e-9, "the last has all that is left");
        assert_eq!(StudyPlan { limit_s: None, ..plan.clone() }.budget_s(0, 1.0), None);
        let lines = plan.lines();
        assert!(lines[0].contains("o=+1us,+5us,+20us,+50us g=5us,10us"), "{}", lines[0]);
        assert!(lines[2].starts_with("5 rounds, "), "{}", lines[2]);
    }

    #[test]
    fn programs_that_collect_stand_beside_those_that_do_not() {
        let mut plan = plan(None);
        assert!(plan.pairs().is_empty());
        let collected = PlannedProgram { amount: 4000, ..program("radix-collected", 500.0, 0.6) };
        plan.programs.push(collected);
        let [(one, other, times)] = plan.pairs()[..] else { panic!("one pair") };
        assert_eq!((one.name.as_str(), other.name.as_str()), ("radix", "radix-collected"));
        assert!((times - 4.0).abs() < 1e-9);
    }
}
