//! The cells in which a network interface, or a rank's own stack, records its load and the time of
//! messages by stage; [`crate::Monitor`] is read from them.

use clump_os::sync::{AtomicU64, Ordering};
use serde::{Deserialize, Serialize};

/// Cells of a block, unused ones included.
pub const GAUGES: usize = 40;

/// Content of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Gauge {
    /// Start time of the interface, in ns of the machine's clock.
    Started,
    /// Time spent in turns that found work, in ns.
    Busy,
    /// Messages that ranks of the node handed over.
    Taken,
    /// Messages handed to endpoints of the node.
    Brought,
    /// One-sided operations executed.
    Executed,
    /// Messages taken and not yet sent, or operations not yet executed, now.
    Queue,
    /// Maximum of [`Gauge::Queue`].
    QueueMost,
    /// Integral of [`Gauge::Queue`] over time: messages times ns.
    QueueTime,
    /// Last change of the queue, in ns of the machine's clock.
    Changed,
    /// First of the cells of stages.
    Stages,
}

/// Stage in which a message spends time.
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
    /// All stages, in the order of a message's life.
    pub const ALL: [Self; 4] = [Self::Source, Self::ToWire, Self::Wire, Self::Delivery];

    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        ["source", "to wire", "wire", "delivery"][self as usize]
    }
}

/// The cells of an interface or of a rank's stack, which it alone writes.
#[derive(Debug, Clone, Copy)]
pub struct Gauges<'a> {
    cells: &'a [AtomicU64; GAUGES],
}

/// Cells of one stage and size: number of times, their sum, the minimum.
const TIMES: usize = 3;

const _: () = assert!(Gauge::Stages as usize + 2 * Stage::ALL.len() * TIMES <= GAUGES);

/// Times that were added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timed {
    /// Number of times.
    pub count: u64,
    /// Sum of the times, in ns.
    pub sum_ns: u64,
    /// Minimum, in ns.
    pub min_ns: u64,
}

impl Timed {
    /// Adds a time.
    pub fn add(&mut self, ns: u64) {
        self.min_ns = if self.count == 0 { ns } else { self.min_ns.min(ns) };
        self.sum_ns = self.sum_ns.wrapping_add(ns);
        self.count += 1;
    }
}

fn at(stage: Stage, large: bool) -> usize {
    Gauge::Stages as usize + (stage as usize * 2 + usize::from(large)) * TIMES
}

impl<'a> Gauges<'a> {
    /// Creates the view over the cells of a block.
    pub fn over(cells: &'a [AtomicU64; GAUGES]) -> Self {
        Self { cells }
    }

    /// Returns the content of a cell.
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

    /// Records the time that one message spent in a stage.
    pub fn time(self, stage: Stage, large: bool, ns: u64) {
        let mut timed = self.times(stage, large);
        timed.add(ns);
        self.set_times(stage, large, timed);
    }

    /// Returns the times of a stage and size.
    pub fn times(self, stage: Stage, large: bool) -> Timed {
        let first = at(stage, large);
        let [count, sum_ns, min_ns] =
            [0, 1, 2].map(|cell| self.cells[first + cell].load(Ordering::Relaxed));
        Timed { count, sum_ns, min_ns }
    }

    /// Sets the times of a stage and size, where another owner has added them up.
    pub fn set_times(self, stage: Stage, large: bool, timed: Timed) {
        let values = [timed.count, timed.sum_ns, timed.min_ns];
        for (cell, value) in (at(stage, large)..).zip(values) {
            self.cells[cell].store(value, Ordering::Relaxed);
        }
    }
}
