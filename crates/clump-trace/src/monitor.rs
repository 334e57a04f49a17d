//! The performance monitor of a network interface: its load, the length of its queue, and the time
//! of messages by stage (papers 002, table 2, and 003, section 4).
//!
//! The interface writes it into the cells of its block; any process may read it at any time. Four
//! stages of a message: *source*, from the rank until the interface takes it; *to wire*, until its
//! packet is sent; *wire*, half of the round trip that channels measure; *delivery*, from its
//! arrival until it is in the lane of its endpoint. One in eight messages is timed
//! ([`crate::Sampler`]), but not on the wire: there each channel gives one sample, its smoothed
//! round trip, each time the interface checks for lost peers, however many messages it carried
//! meanwhile. A long message counts once, and its first fragment is timed.
//!
//! If ranks drive the network themselves, an interface executes one-sided operations and nothing
//! else. Then the queue consists of those that have arrived and are not executed, and *delivery* is
//! from the arrival of one until it is executed.
//!
//! A rank that drives the network itself has a stack of its own, of which one message in 64 is
//! timed, and one turn in 8, at random: a message there costs less than reading the clock. *Source*
//! is the time it waits for room in its rank's hands (most wait for none), *to wire* as above, and
//! *delivery* from the poll that found it until its handler begins. The queue is not counted one by
//! one: it is rate times stay, which is Little's law and so no test of it.

use crate::counter::{Counter, Flow, kinds};
use crate::gauge::{GAUGES, Gauge, Gauges, Stage, Timed};
use crate::snapshot::Snapshot;
use clump_os::sync::AtomicU64;
use serde::{Deserialize, Serialize};

/// Longest payload of a small message, in bytes (paper 003, tables 3 and 4).
pub const SMALL: usize = 256;

#[expect(clippy::cast_precision_loss, reason = "averages of counts far below 2^53")]
fn real(count: u64) -> f64 {
    count as f64
}

/// Times that messages of one size spent in one stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// The stage.
    pub stage: Stage,
    /// True if their payload is longer than [`SMALL`].
    pub large: bool,
    /// Number of messages timed.
    pub timed: u64,
    /// Mean time, in microseconds.
    pub mean_us: f64,
    /// Minimum time: the time without contention.
    pub min_us: f64,
    /// The mean over the minimum: the cost of contention. `None` where the minimum is zero.
    pub ratio: Option<f64>,
}

impl Times {
    fn of(gauges: Gauges<'_>, stage: Stage, large: bool) -> Option<Self> {
        let Timed { count: timed, sum_ns, min_ns } = gauges.times(stage, large);
        (timed != 0).then(|| {
            let mean_us = real(sum_ns) / real(timed) / 1e3;
            let min_us = real(min_ns) / 1e3;
            let ratio = (min_ns != 0).then(|| mean_us / min_us);
            Self { stage, large, timed, mean_us, min_us, ratio }
        })
    }

    fn all(gauges: Gauges<'_>) -> Vec<Self> {
        let both = Stage::ALL.into_iter().flat_map(|stage| [(stage, false), (stage, true)]);
        both.filter_map(|(stage, large)| Self::of(gauges, stage, large)).collect()
    }

    /// Returns the number of messages timed in a stage, and their mean in ns.
    fn stay(all: &[Self], stage: Stage) -> (u64, f64) {
        let of = all.iter().filter(|times| times.stage == stage);
        let (timed, sum) = of.fold((0, 0.0), |(timed, sum), times| {
            (timed + times.timed, sum + times.mean_us * real(times.timed))
        });
        (timed, sum * 1e3 / real(timed.max(1)))
    }
}

/// Report of the monitor of an interface, or of a rank's own stack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Monitor {
    /// Node of the interface.
    pub node: u32,
    /// Number of the interface on that node.
    pub which: u32,
    /// The rank whose own stack it is; `None` for an interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// True if ranks hand their messages to it; otherwise they drive the network themselves, and it
    /// executes one-sided operations only.
    #[serde(default)]
    pub carries: bool,
    /// Running time, in ms.
    pub elapsed_ms: f64,
    /// Share of that in which it was busy, 0 to 1.
    pub utilisation: f64,
    /// Messages that ranks of the node handed over.
    pub taken: u64,
    /// Messages handed to endpoints of the node.
    pub brought: u64,
    /// One-sided operations executed.
    pub executed: u64,
    /// Time average of messages taken and not yet sent, or of operations not yet executed.
    pub queue_mean: f64,
    /// Maximum of that number.
    pub queue_max: u64,
    /// Little's law: the mean queue over rate times mean stay. 1 when the monitor is right; `None`
    /// while too few messages were timed.
    pub little: Option<f64>,
    /// Times of messages by stage.
    pub stages: Vec<Times>,
    /// Counters of its stack.
    #[serde(default)]
    pub network: Snapshot,
}

/// Number of timed messages that suffice for a mean.
const ENOUGH: u64 = 64;

impl Monitor {
    /// Reads the cells of an interface, and the counters of its stack, at `now_ns` of the machine's
    /// clock; `None` before it has started.
    pub fn read(
        (node, which, carries): (u32, u32, bool),
        cells: &[AtomicU64; GAUGES],
        network: Snapshot,
        now_ns: u64,
    ) -> Option<Self> {
        let gauges = Gauges::over(cells);
        let started = gauges.get(Gauge::Started);
        if started == 0 {
            return None;
        }
        let elapsed = real(now_ns.saturating_sub(started).max(1));
        let since = now_ns.saturating_sub(gauges.get(Gauge::Changed));
        let still = gauges.get(Gauge::Queue).saturating_mul(since);
        let queue_mean = real(gauges.get(Gauge::QueueTime).saturating_add(still)) / elapsed;
        let stages = Times::all(gauges);
        let (taken, executed) = (gauges.get(Gauge::Taken), gauges.get(Gauge::Executed));
        // Members of the queue: the messages that ranks handed over, or else operations until they
        // are executed.
        let (customers, stay) =
            if taken > 0 { (taken, Stage::ToWire) } else { (executed, Stage::Delivery) };
        let (timed, stay_ns) = Times::stay(&stages, stay);
        let expected = real(customers) / elapsed * stay_ns;
        Some(Self {
            node,
            which,
            rank: None,
            carries,
            elapsed_ms: elapsed / 1e6,
            utilisation: (real(gauges.get(Gauge::Busy)) / elapsed).min(1.0),
            taken,
            brought: gauges.get(Gauge::Brought),
            executed,
            queue_mean,
            queue_max: gauges.get(Gauge::QueueMost),
            little: (timed >= ENOUGH && expected > 0.0).then(|| queue_mean / expected),
            stages,
            network,
        })
    }

    /// Reads the cells of a rank's own stack, at `now_ns` of the machine's clock; `counters` are
    /// all counters of the rank. `None` where it has no such stack.
    pub fn of_rank(
        (node, rank): (u32, u32),
        cells: &[AtomicU64; GAUGES],
        counters: &Snapshot,
        now_ns: u64,
    ) -> Option<Self> {
        let gauges = Gauges::over(cells);
        let started = gauges.get(Gauge::Started);
        if started == 0 {
            return None;
        }
        let ended = Some(counters[Counter::Finalized]).filter(|&ns| ns != 0).unwrap_or(now_ns);
        let elapsed = real(ended.saturating_sub(started).max(1));
        let messages = |wanted: Flow| -> u64 {
            let of = kinds().filter(|&(_, _, flow)| flow == wanted);
            of.map(|(role, size, flow)| {
                counters[Counter::messages(role, size, flow).over_network()]
            })
            .sum()
        };
        let (taken, brought) = (messages(Flow::Sent), messages(Flow::Received));
        let stages = Times::all(gauges);
        let (_, stay_ns) = Times::stay(&stages, Stage::ToWire);
        Some(Self {
            node,
            which: 0,
            rank: Some(rank),
            carries: true,
            elapsed_ms: elapsed / 1e6,
            utilisation: (real(gauges.get(Gauge::Busy)) / elapsed).min(1.0),
            taken,
            brought,
            executed: 0,
            queue_mean: real(taken) / elapsed * stay_ns,
            queue_max: 0,
            little: None,
            stages,
            network: Snapshot::ZERO,
        })
    }

    /// Returns the mean time that a message, or an operation, is in the queue, in us; `None` where
    /// none was timed.
    pub fn stay_us(&self) -> Option<f64> {
        let stage = if self.taken > 0 { Stage::ToWire } else { Stage::Delivery };
        let (timed, stay_ns) = Times::stay(&self.stages, stage);
        (timed != 0).then(|| stay_ns / 1e3)
    }

    /// Returns a short name: the rank, or the node and the number on it.
    pub fn name(&self) -> String {
        match self.rank {
            Some(rank) => format!("rank {rank}"),
            None => format!("{}.{}", self.node, self.which),
        }
    }

    fn title(all: &[Self]) -> &'static str {
        if all.iter().any(|one| one.rank.is_some()) {
            "stacks of ranks, which drive the network themselves; of a sample of messages:"
        } else if all.iter().any(|one| one.carries) {
            "interfaces, which carry all messages between nodes:"
        } else {
            "interfaces, which execute one-sided operations of other nodes:"
        }
    }

    /// Formats the reports as lines of a table.
    pub fn lines(all: &[Self]) -> Vec<String> {
        let mut lines = vec![
            Self::title(all).to_owned(),
            format!(
                "{:<12} {:>6} {:>10} {:>10} {:>10} {:>10} {:>6} {:>7}",
                "of", "busy", "taken", "brought", "executed", "queue", "most", "Little"
            ),
        ];
        for one in all {
            let counted = |number: u64| match one.rank {
                Some(_) => "-".to_owned(),
                None => number.to_string(),
            };
            lines.push(format!(
                "{:<12} {:>4.0} % {:>10} {:>10} {:>10} {:>10.3} {:>6} {:>7}",
                one.name(),
                one.utilisation * 100.0,
                one.taken,
                one.brought,
                counted(one.executed),
                one.queue_mean,
                counted(one.queue_max),
                one.little.map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}")),
            ));
        }
        lines.extend(Self::stage_lines(all));
        lines
    }

    /// Returns the times of a stage and size of several interfaces together; `None` where no
    /// message was timed.
    pub fn stage(all: &[Self], stage: Stage, large: bool) -> Option<Times> {
        let of = all.iter().flat_map(|one| &one.stages);
        let of = of.filter(|times| (times.stage, times.large) == (stage, large));
        let (timed, sum, min_us) = of.fold((0, 0.0, f64::MAX), |(n, sum, least), times| {
            let sum = sum + times.mean_us * real(times.timed);
            (n + times.timed, sum, f64::min(least, times.min_us))
        });
        (timed != 0).then(|| {
            let mean_us = sum / real(timed);
            let ratio = (min_us > 0.0).then(|| mean_us / min_us);
            Times { stage, large, timed, mean_us, min_us, ratio }
        })
    }

    fn stage_lines(all: &[Self]) -> Vec<String> {
        let mut lines = Vec::new();
        for stage in Stage::ALL {
            for large in [false, true] {
                let Some(times) = Self::stage(all, stage, large) else { continue };
                let Times { mean_us: mean, min_us: least, ratio, .. } = times;
                let name = stage.name();
                let size = match (stage, large) {
                    (Stage::Wire, _) => "all",
                    (_, true) => "large",
                    (_, false) => "small",
                };
                let ratio = ratio.map_or_else(|| "-".into(), |ratio| format!("{ratio:.1}"));
                lines.push(format!("{name:<12} {size:>8} {mean:>10.2} {least:>10.2} {ratio:>8}"));
            }
        }
        if !lines.is_empty() {
            let [stage, size, mean] = ["stage", "size", "mean, us"];
            let head =
                format!("{stage:<12} {size:>8} {mean:>10} {:>10} {:>8}", "least, us", "ratio");
            lines.splice(0..0, [String::new(), head]);
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells() -> [AtomicU64; GAUGES] {
        std::array::from_fn(|_| AtomicU64::new(0))
    }

    #[test]
    fn an_interface_that_never_started_shows_nothing() {
        assert_eq!(Monitor::read((0, 0, false), &cells(), Snapshot::ZERO, 5), None);
    }

    #[test]
    fn a_queue_that_obeys_littles_law_shows_one() {
        let cells = cells();
        let gauges = Gauges::over(&cells);
        gauges.set(Gauge::Started, 1_000);
        // A thousand messages, one every microsecond, each of which stays for 500 ns.
        for _ in 0..1_000 {
            gauges.add(Gauge::Taken, 1);
            gauges.add(Gauge::QueueTime, 500);
            gauges.time(Stage::ToWire, false, 500);
        }
        let monitor = Monitor::read((1, 2, true), &cells, Snapshot::ZERO, 1_001_000).unwrap();
        assert!((monitor.queue_mean - 0.5).abs() < 1e-9);
        assert!((monitor.little.unwrap() - 1.0).abs() < 1e-9);
        assert_eq!((monitor.stages.len(), monitor.stages[0].timed), (1, 1_000));
        assert_eq!(monitor.stay_us(), Some(0.5));
        let lines = Monitor::lines(&[monitor]);
        assert!(lines.iter().any(|line| line.starts_with("1.2")), "{lines:?}");
        assert!(lines.iter().any(|line| line.starts_with("to wire")), "{lines:?}");
    }

    #[test]
    fn the_queue_of_an_interface_that_only_executes_is_of_operations() {
        let cells = cells();
        let gauges = Gauges::over(&cells);
        gauges.set(Gauge::Started, 1_000);
        for _ in 0..1_000 {
            gauges.add(Gauge::Executed, 1);
            gauges.add(Gauge::QueueTime, 250);
            gauges.time(Stage::Delivery, true, 250);
        }
        let monitor = Monitor::read((0, 0, false), &cells, Snapshot::ZERO, 1_001_000).unwrap();
        assert!((monitor.little.unwrap() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_queue_of_a_ranks_stack_is_rate_times_stay_until_the_rank_ended() {
        let cells = cells();
        let gauges = Gauges::over(&cells);
        let mut counters = Snapshot::ZERO;
        assert_eq!(Monitor::of_rank((0, 3), &cells, &counters, 9), None);
        gauges.set(Gauge::Started, 1_000);
        gauges.set(Gauge::Busy, 250_000);
        for _ in 0..10 {
            gauges.time(Stage::Source, false, 0);
            gauges.time(Stage::ToWire, false, 4_000);
        }
        counters[Counter::NetRequestShortSent] = 600;
        counters[Counter::NetReplyMediumSent] = 40;
        counters[Counter::NetReplyShortReceived] = 7;
        counters[Counter::Finalized] = 1_001_000;
        let monitor = Monitor::of_rank((0, 3), &cells, &counters, 77_000_000).unwrap();
        assert_eq!((monitor.taken, monitor.brought, monitor.little), (640, 7, None));
        assert!((monitor.queue_mean - 2.56).abs() < 1e-9, "{}", monitor.queue_mean);
        assert!((monitor.utilisation - 0.25).abs() < 1e-9);
        assert_eq!(monitor.stages[0].ratio, None, "nothing is no measure");
        let lines = Monitor::lines(&[monitor]);
        assert!(lines.iter().any(|line| line.starts_with("rank 3")), "{lines:?}");
    }

    #[test]
    fn the_min_and_the_mean_of_a_stage_are_kept() {
        let cells = cells();
        let gauges = Gauges::over(&cells);
        gauges.set(Gauge::Started, 1);
        for ns in [3_000, 1_000, 2_000] {
            gauges.time(Stage::Delivery, true, ns);
        }
        let monitor = Monitor::read((0, 0, false), &cells, Snapshot::ZERO, 10).unwrap();
        let times = &monitor.stages[0];
        assert_eq!((times.stage, times.large, times.timed), (Stage::Delivery, true, 3));
        assert!((times.mean_us - 2.0).abs() < 1e-9 && (times.min_us - 1.0).abs() < 1e-9);
        assert!((times.ratio.unwrap() - 2.0).abs() < 1e-9);
        // Two interfaces together: the mean of all messages over the least of any.
        let other = Times { timed: 1, mean_us: 6.0, min_us: 6.0, ..times.clone() };
        let other = Monitor { stages: vec![other], ..monitor.clone() };
        let both = Monitor::stage(&[monitor, other], Stage::Delivery, true).unwrap();
        assert_eq!((both.timed, both.mean_us, both.ratio), (4, 3.0, Some(3.0)));
        assert_eq!(Monitor::stage(&[], Stage::Delivery, true), None);
    }
}
