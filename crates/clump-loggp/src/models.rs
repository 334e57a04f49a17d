//! Models that predict how long a program takes on a slower network (paper 001, sections 5 and 6;
//! M1 to M4): from its unmodified time, and from the profile of its messages.

use serde::{Deserialize, Serialize};

/// A program as the models see it: the rank that sends most, on the path whose knobs are turned.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Time of the program as it is, in ns.
    pub runtime_ns: f64,
    /// m: messages that the busiest rank sent.
    pub messages: f64,
    /// n: messages of phases in which one rank sends and the others wait, of ranks other than the
    /// busiest; zero where unknown.
    pub serial_messages: f64,
    /// Requests whose sender waited for the reply, of the rank with most.
    pub reads: f64,
    /// Payload bytes of medium and long messages, of the rank with most.
    pub bulk_bytes: f64,
    /// Mean interval between two messages of the busiest rank, in ns.
    pub interval_ns: f64,
    /// Intervals between two sends: the interval in ns, and how many of a sample were like it.
    pub intervals: Vec<(f64, f64)>,
}

/// Times added to the parameters of a path, in ns (G: ns a byte).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct AddedTimes {
    /// Added to o: the mean of what is added to o_s and to o_r.
    pub o: f64,
    /// g as it is set, the least interval between two messages.
    pub g: f64,
    /// g as it was.
    pub base_g: f64,
    /// Added to L.
    pub l: f64,
    /// Added to G.
    pub big_g: f64,
}

impl AddedTimes {
    /// Returns what the knob adds to g.
    fn added_g(&self) -> f64 {
        (self.g - self.base_g).max(0.0)
    }
}

/// A model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Model {
    /// Overhead: r + 2 m do.
    M1,
    /// Overhead with the serial phase: r + (2 m + n) do.
    M1b,
    /// Gap, where all messages are sent in bursts: r + m dg.
    M2Burst,
    /// Gap, where messages are sent at even intervals: r + m (g - I).
    M2Uniform,
    /// Gap by the intervals between sends as they were found: r + m E(g - i), of those below g.
    M2Intervals,
    /// Gap by the times at which each rank sent, replayed through its interface ([`replay`]).
    M2Events,
    /// Latency, where each reply is waited for: r + 2 dL reads.
    M3,
    /// Time for a byte: r + bytes dG.
    M4,
    /// Critical path of a trace, played again ([`crate::replay`]).
    M5,
}

impl Model {
    /// All models, in the order of tables.
    pub const ALL: [Self; 9] = [
        Self::M1,
        Self::M1b,
        Self::M2Burst,
        Self::M2Uniform,
        Self::M2Intervals,
        Self::M2Events,
        Self::M3,
        Self::M4,
        Self::M5,
    ];

    /// Returns its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Model::M1 => "M1",
            Model::M1b => "M1b",
            Model::M2Burst => "M2b",
            Model::M2Uniform => "M2u",
            Model::M2Intervals => "M2i",
            Model::M2Events => "M2e",
            Model::M3 => "M3",
            Model::M4 => "M4",
            Model::M5 => "M5",
        }
    }

    /// Returns its formula and the condition under which it holds.
    pub fn holds(self) -> &'static str {
        match self {
            Model::M1 => "r + 2 m do: the busiest rank is the slowest, and nothing is serial",
            Model::M1b => {
                "r + (2 m + n) do: n messages are serial; where n > 0, M1 is a lower bound"
            }
            Model::M2Burst => "r + m dg: messages are sent as fast as the path takes them",
            Model::M2Uniform => "r + m (g - I): messages are sent at even intervals I",
            Model::M2Intervals => "r + m E(g - i): by the sampled intervals i between sends",
            Model::M2Events => "send times of a trace, replayed: no rank waits for late messages",
            Model::M3 => "r + 2 dL reads: each answered request is waited for",
            Model::M4 => "r + bytes dG: the busiest rank's payload is its bottleneck",
            Model::M5 => "critical path of a trace: what ended each wait is in the trace",
        }
    }

    /// Predicts the time of the program in ns; `None` where the model has no input. Those of a
    /// trace ([`Model::M2Events`], [`Model::M5`]) have more input than a [`Workload`].
    pub fn predict(self, work: &Workload, added: &AddedTimes) -> Option<f64> {
        let Workload { runtime_ns, messages, .. } = *work;
        let more = match self {
            Model::M1 => 2.0 * messages * added.o,
            Model::M1b if work.serial_messages > 0.0 => {
                (2.0 * messages + work.serial_messages) * added.o
            }
            Model::M1b => return None,
            Model::M2Burst => messages * added.added_g(),
            Model::M2Uniform => messages * (added.g - work.interval_ns.max(added.base_g)).max(0.0),
            Model::M2Intervals => messages * excess(&work.intervals, added.g, added.base_g)?,
            Model::M3 => 2.0 * added.l * work.reads,
            Model::M4 => work.bulk_bytes * added.big_g,
            Model::M2Events | Model::M5 => return None,
        };
        debug_assert!(more >= 0.0, "a slower network makes nothing faster");
        Some(runtime_ns + more)
    }
}

/// Returns the mean of what `gap` exceeds intervals by, where the gap was `base` before; `None`
/// without intervals.
fn excess(intervals: &[(f64, f64)], gap: f64, base: f64) -> Option<f64> {
    let total: f64 = intervals.iter().map(|(_, count)| count).sum();
    let of = |&(interval, count): &(f64, f64)| count * (gap - interval.max(base)).max(0.0);
    (total > 0.0).then(|| intervals.iter().map(of).sum::<f64>() / total)
}

/// M2e: replays the times at which a rank sends through its interface, which is free again `gap_ns`
/// after each message. Returns how much later the last message leaves it than it was sent.
pub fn replay(sent_ns: &[u64], gap_ns: u64) -> u64 {
    let (mut free, mut late) = (0, 0);
    for &sent in sent_ns {
        let at = free.max(sent);
        free = at.saturating_add(gap_ns);
        late = at - sent;
    }
    debug_assert!(gap_ns > 0 || late == 0, "times ascend");
    late
}

/// Returns the error of a prediction over a measurement, in percent; negative where the program
/// took longer than predicted.
pub fn error_percent(predicted: f64, measured: f64) -> f64 {
    100.0 * (predicted - measured) / measured
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Radix of paper 001 on 32 nodes (tables 4 and 5).
    fn radix() -> Workload {
        Workload {
            runtime_ns: 7.8e9,
            messages: 1_279_018.0,
            interval_ns: 6_100.0,
            ..Workload::default()
        }
    }

    #[test]
    fn overhead_and_gap_match_the_tables_of_paper_001() {
        // Predictions of table 5, at 53 and 103 us of overhead: 50 and 100 us more than 3.
        let at = |o: f64| {
            let added = AddedTimes { o, ..AddedTimes::default() };
            Model::M1.predict(&radix(), &added).unwrap() / 1e9
        };
        assert!((at(50_000.0) - 135.7).abs() < 0.05);
        assert!((at(100_000.0) - 263.6).abs() < 0.05);
        // 15.8 us between messages instead of 5.8.
        let added = AddedTimes { g: 15_800.0, base_g: 5_800.0, ..AddedTimes::default() };
        let burst = Model::M2Burst.predict(&radix(), &added).unwrap() / 1e9;
        assert!((burst - (7.8 + 12.79018)).abs() < 1e-3);
        let uniform = Model::M2Uniform.predict(&radix(), &added).unwrap() / 1e9;
        assert!((uniform - (7.8 + 1.279018 * 9.7)).abs() < 1e-3);
    }

    #[test]
    fn a_gap_below_the_interval_costs_nothing_at_even_intervals() {
        let work = Workload { runtime_ns: 1e6, messages: 100.0, interval_ns: 10_000.0, ..radix() };
        let added = AddedTimes { g: 8_000.0, base_g: 1_000.0, ..AddedTimes::default() };
        assert_eq!(Model::M2Uniform.predict(&work, &added), Some(1e6));
        // Half of the messages are sent 2 us apart, half 18 us: the mean is that of above.
        let work = Workload { intervals: vec![(2_000.0, 5.0), (18_000.0, 5.0)], ..work };
        assert_eq!(Model::M2Intervals.predict(&work, &added), Some(1e6 + 100.0 * 3_000.0));
        assert_eq!(Model::M2Intervals.predict(&radix(), &added), None, "no intervals are known");
    }

    #[test]
    fn a_serial_phase_is_what_m1_misses() {
        // Two ranks send 100 messages each at once; then rank 0 sends 50 more while rank 1 waits
        // for the last of them. Each message costs both ends.
        let work = Workload { runtime_ns: 1e6, messages: 100.0, ..Workload::default() };
        let (added, serial) = (AddedTimes { o: 1_000.0, ..AddedTimes::default() }, 50.0);
        let really = 1e6 + (2.0 * 100.0 + 50.0) * 1_000.0;
        let m1 = Model::M1.predict(&work, &added).unwrap();
        assert!(error_percent(m1, really) < -3.0, "M1 underestimates");
        assert_eq!(Model::M1b.predict(&work, &added), None);
        let work = Workload { serial_messages: serial, ..work };
        assert_eq!(Model::M1b.predict(&work, &added), Some(really));
    }

    #[test]
    fn reads_and_bytes_pay_for_latency_and_bulk_gap() {
        let work = Workload { runtime_ns: 5e5, reads: 7.0, bulk_bytes: 1e6, ..radix() };
        let added = AddedTimes { l: 10_000.0, big_g: 0.5, ..AddedTimes::default() };
        assert_eq!(Model::M3.predict(&work, &added), Some(5e5 + 140_000.0));
        assert_eq!(Model::M4.predict(&work, &added), Some(1e6));
        assert_eq!(error_percent(90.0, 100.0), -10.0);
    }

    #[test]
    fn an_interface_that_keeps_up_delays_nothing() {
        assert_eq!(replay(&[], 5), 0);
        assert_eq!(replay(&[0, 10, 20], 10), 0);
        assert_eq!(replay(&[0, 10, 20], 15), 10);
    }
}
