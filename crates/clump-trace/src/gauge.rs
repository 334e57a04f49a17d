//! The cells in which a network interface, or a rank's own stack, notes how busy it is and where the time of messages
//! goes; [`crate::Monitor`] is what is read out of them.

use clump_os::sync::{AtomicU64, Ordering};
use serde::{Deserialize, Serialize};

/// Cells of a block, those that are not used yet included.
pub const GAUGES: usize = 40;

/// What a cell holds.
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

/// The cells of an interface or of a rank's stack, to be written by it alone.
#[derive(Debug, Clone, Copy)]
pub struct Gauges<'a> {
    cells: &'a [AtomicU64; GAUGES],
}

/// Cells of one stage and size: how often, how long in all, the least.
const TIMES: usize = 3;

const _: () = assert!(Gauge::Stages as usize + 2 * Stage::ALL.len() * TIMES <= GAUGES);

/// Times that were added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timed {
    /// How many.
    pub count: u64,
    /// All of them together, in ns.
    pub sum_ns: u64,
    /// The least.
    pub least_ns: u64,
}

impl Timed {
    /// One more.
    pub fn add(&mut self, ns: u64) {
        self.least_ns = if self.count == 0 { ns } else { self.least_ns.min(ns) };
        self.sum_ns = self.sum_ns.wrapping_add(ns);
        self.count += 1;
    }
}

fn at(stage: Stage, large: bool) -> usize {
    Gauge::Stages as usize + (stage as usize * 2 + usize::from(large)) * TIMES
}

impl<'a> Gauges<'a> {
    /// Over the cells of a block.
    pub fn over(cells: &'a [AtomicU64; GAUGES]) -> Self {
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
        let mut timed = self.times(stage, large);
        timed.add(ns);
        self.set_times(stage, large, timed);
    }

    /// Of a stage and size: how many were timed, their time in all, and the least.
    pub fn times(self, stage: Stage, large: bool) -> Timed {
        let first = at(stage, large);
        let [count, sum_ns, least_ns] =
            [0, 1, 2].map(|cell| self.cells[first + cell].load(Ordering::Relaxed));
        Timed { count, sum_ns, least_ns }
    }

    /// Sets them, where somebody else has added them up.
    pub fn set_times(self, stage: Stage, large: bool, timed: Timed) {
        let values = [timed.count, timed.sum_ns, timed.least_ns];
        for (cell, value) in (at(stage, large)..).zip(values) {
            self.cells[cell].store(value, Ordering::Relaxed);
        }
    }
}
