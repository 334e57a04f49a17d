//! The performance monitor of a network interface: how busy it is, how long its queue is, and where the time of a
//! message goes (papers 002, table 2, and 003, section 4).
//!
//! Written by the interface into the cells of its block, read by anybody at any time. Four stages of a message:
//! *source*, from the rank until the interface takes it; *to wire*, until its packet is sent; *wire*, half of the
//! round trip that channels measure; *delivery*, from its arrival until it lies in the lane of its endpoint. One in
//! eight messages is timed ([`crate::Dice`]), but not on the wire: there each channel gives one sample, its smoothed
//! round trip, each time the interface looks who is gone, whatever went by it meanwhile. A long message is one, and
//! its first part is what is timed.
//!
//! Where ranks drive the network themselves an interface executes one-sided operations and nothing else. Then the queue
//! is of those that have arrived and are not executed, and *delivery* is from the arrival of one until it is executed.
//! What ranks' own stacks do is in their counters.

use crate::block::CAPACITY;
use crate::snapshot::Snapshot;
use clump_os::sync::{AtomicU64, Ordering};
use serde::{Deserialize, Serialize};

/// Longest payload of a small message, in bytes (paper 003, tables 3 and 4).
pub const SMALL: usize = 256;

/// One cell of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Gauge {
    /// When the interface started, in ns of the machine's clock.
    Started,
    /// Time spent in turns that found something to do, in ns.
    Busy,
    /// Messages that ranks of the node handed over.
    Taken,
    /// Messages handed to endpoints of the node.
    Brought,
    /// One-sided operations executed.
    Executed,
    /// Messages taken and not yet sent, or operations not yet executed, now.
    Queue,
    /// The most that ever was.
    QueueMost,
    /// The same, times how long it was so: messages times ns.
    QueueTime,
    /// The last change of the queue, in ns of the machine's clock.
    Changed,
    /// First of the cells of stages.
    Stages,
}

/// Where the time of a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// In the rank's lane.
    Source,
    /// In the interface, until its packet is sent.
    ToWire,
    /// Between the nodes.
    Wire,
    /// From its arrival to its endpoint's lane, or until it is executed.
    Delivery,
}

impl Stage {
    /// All of them, in the order of a message's life.
    pub const ALL: [Self; 4] = [Self::Source, Self::ToWire, Self::Wire, Self::Delivery];

    /// As people write it.
    pub fn name(self) -> &'static str {
        ["source", "to wire", "wire", "delivery"][self as usize]
    }
}

/// The cells of an interface, to be written by it alone.
#[derive(Debug, Clone, Copy)]
pub struct Gauges<'a> {
    cells: &'a [AtomicU64; CAPACITY],
}

/// Cells of one stage and size: how often, how long in all, the least.
const TIMES: usize = 3;

fn at(stage: Stage, large: bool) -> usize {
    Gauge::Stages as usize + (stage as usize * 2 + usize::from(large)) * TIMES
}

impl<'a> Gauges<'a> {
    /// Over the cells of a block.
    pub fn over(cells: &'a [AtomicU64; CAPACITY]) -> Self {
        Self { cells }
    }

    /// What a cell holds.
    #[inline]
    pub fn get(self, gauge: Gauge) -> u64 {
        self.cells[gauge as usize].load(Ordering::Relaxed)
    }

    /// Sets a cell.
    #[inline]
    pub fn set(self, gauge: Gauge, value: u64) {
        self.cells[gauge as usize].store(value, Ordering::Relaxed);
    }

    /// Adds to a cell.
    #[inline]
    pub fn add(self, gauge: Gauge, value: u64) {
        self.set(gauge, self.get(gauge).wrapping_add(value));
    }

    /// One message spent so long in a stage.
    pub fn time(self, stage: Stage, large: bool, ns: u64) {
        let first = at(stage, large);
        let [count, sum, least] = [0, 1, 2].map(|cell| &self.cells[first + cell]);
        let known = count.load(Ordering::Relaxed);
        let before = if known == 0 { u64::MAX } else { least.load(Ordering::Relaxed) };
        least.store(before.min(ns), Ordering::Relaxed);
        sum.store(sum.load(Ordering::Relaxed).wrapping_add(ns), Ordering::Relaxed);
        count.store(known + 1, Ordering::Relaxed);
    }

    fn times(self, stage: Stage, large: bool) -> Option<Times> {
        let first = at(stage, large);
        let [count, sum, least] =
            [0, 1, 2].map(|cell| self.cells[first + cell].load(Ordering::Relaxed));
        (count != 0).then(|| {
            let mean_us = real(sum) / real(count) / 1e3;
            let least_us = real(least) / 1e3;
            let ratio = if least == 0 { 1.0 } else { mean_us / least_us };
            Times { stage, large, timed: count, mean_us, least_us, ratio }
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "averages of counts far below 2^53")]
fn real(count: u64) -> f64 {
    count as f64
}

/// How long messages of one size spent in one stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// The stage.
    pub stage: Stage,
    /// Whether their payload is longer than [`SMALL`].
    pub large: bool,
    /// How many were timed.
    pub timed: u64,
    /// How long on average, in microseconds.
    pub mean_us: f64,
    /// The least of all: what it takes when nothing else goes on.
    pub least_us: f64,
    /// The average over the least: what contention costs.
    pub ratio: f64,
}

/// What the monitor of an interface shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Monitor {
    /// Its node.
    pub node: u32,
    /// Its number there.
    pub which: u32,
    /// Whether ranks hand to it what they send; otherwise they drive the network themselves, and it executes one-sided
    /// operations only.
    #[serde(default)]
    pub carries: bool,
    /// For how long it has run, in ms.
    pub elapsed_ms: f64,
    /// Share of that in which it was busy, 0 to 1.
    pub utilisation: f64,
    /// Messages that ranks of the node handed over.
    pub taken: u64,
    /// Messages handed to endpoints of the node.
    pub brought: u64,
    /// One-sided operations executed.
    pub executed: u64,
    /// Messages taken and not yet sent, or operations not yet executed, on average over time.
    pub queue_mean: f64,
    /// The most there were at one time.
    pub queue_most: u64,
    /// Little's law: the average queue over rate times average stay. 1 when the monitor is right; `None` while too
    /// few messages were timed.
    pub little: Option<f64>,
    /// Where the time of messages went.
    pub stages: Vec<Times>,
    /// What its stack has counted.
    #[serde(default)]
    pub network: Snapshot,
}

/// Timed messages that make an average.
const ENOUGH: u64 = 64;

impl Monitor {
    /// Reads the cells of an interface, and the counters of its stack, at `now_ns` of the machine's clock; `None`
    /// before it has started.
    pub fn read(
        (node, which, carries): (u32, u32, bool),
        cells: &[AtomicU64; CAPACITY],
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
        let both = Stage::ALL.into_iter().flat_map(|stage| [(stage, false), (stage, true)]);
        let stages: Vec<Times> =
            both.filter_map(|(stage, large)| gauges.times(stage, large)).collect();
        let (taken, executed) = (gauges.get(Gauge::Taken), gauges.get(Gauge::Executed));
        // Who stands in the queue: what ranks handed over, or else operations until they are executed.
        let (customers, stay) =
            if taken > 0 { (taken, Stage::ToWire) } else { (executed, Stage::Delivery) };
        let stays = stages.iter().filter(|times| times.stage == stay);
        let (timed, sum) = stays.fold((0, 0.0), |(timed, sum), times| {
            (timed + times.timed, sum + times.mean_us * real(times.timed))
        });
        let stay_ns = sum * 1e3 / real(timed.max(1));
        let expected = real(customers) / elapsed * stay_ns;
        Some(Self {
            node,
            which,
            carries,
            elapsed_ms: elapsed / 1e6,
            utilisation: (real(gauges.get(Gauge::Busy)) / elapsed).min(1.0),
            taken,
            brought: gauges.get(Gauge::Brought),
            executed,
            queue_mean,
            queue_most: gauges.get(Gauge::QueueMost),
            little: (timed >= ENOUGH && expected > 0.0).then(|| queue_mean / expected),
            stages,
            network,
        })
    }

    /// As lines for people.
    pub fn lines(all: &[Self]) -> Vec<String> {
        let what = if all.iter().any(|one| one.carries) {
            "interfaces, which carry all messages between nodes:"
        } else {
            "interfaces, which execute one-sided operations; what ranks send themselves is counted by rank:"
        };
        let mut lines = vec![
            what.to_owned(),
            format!(
                "{:<12} {:>6} {:>10} {:>10} {:>10} {:>10} {:>6} {:>7}",
                "interface", "busy", "taken", "brought", "executed", "queue", "most", "Little"
            ),
        ];
        for one in all {
            lines.push(format!(
                "{:<12} {:>4.0} % {:>10} {:>10} {:>10} {:>10.3} {:>6} {:>7}",
                format!("{}.{}", one.node, one.which),
                one.utilisation * 100.0,
                one.taken,
                one.brought,
                one.executed,
                one.queue_mean,
                one.queue_most,
                one.little.map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}")),
            ));
        }
        let stages = || all.iter().flat_map(|one| &one.stages);
        if stages().next().is_some() {
            lines.push(String::new());
            lines.push(format!(
                "{:<12} {:>8} {:>10} {:>10} {:>8}",
                "stage", "size", "mean, us", "least, us", "ratio"
            ));
        }
        for stage in Stage::ALL {
            for large in [false, true] {
                let of = stages().filter(|times| (times.stage, times.large) == (stage, large));
                let (timed, sum, least) = of.fold((0, 0.0, f64::MAX), |(n, sum, least), times| {
                    let sum = sum + times.mean_us * real(times.timed);
                    (n + times.timed, sum, f64::min(least, times.least_us))
                });
                if timed > 0 {
                    let (name, mean) = (stage.name(), sum / real(timed));
                    let size = match (stage, large) {
                        (Stage::Wire, _) => "all",
                        (_, true) => "large",
                        (_, false) => "small",
                    };
                    let ratio = mean / least.max(1e-3);
                    lines.push(format!(
                        "{name:<12} {size:>8} {mean:>10.2} {least:>10.2} {ratio:>8.1}"
                    ));
                }
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells() -> [AtomicU64; CAPACITY] {
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
    fn the_least_and_the_mean_of_a_stage_are_kept() {
        let cells = cells();
        let gauges = Gauges::over(&cells);
        gauges.set(Gauge::Started, 1);
        for ns in [3_000, 1_000, 2_000] {
            gauges.time(Stage::Delivery, true, ns);
        }
        let monitor = Monitor::read((0, 0, false), &cells, Snapshot::ZERO, 10).unwrap();
        let times = &monitor.stages[0];
        assert_eq!((times.stage, times.large, times.timed), (Stage::Delivery, true, 3));
        assert!((times.mean_us - 2.0).abs() < 1e-9 && (times.least_us - 1.0).abs() < 1e-9);
        assert!((times.ratio - 2.0).abs() < 1e-9);
    }
}
