//! Two ranks as the measurements see them: one issues, the other answers.
//!
//! The measurements are written against [`Pair`], so that they run on a live job ([`live`]) and on a
//! machine with known parameters and a virtual clock ([`fake`]), where what comes out can be checked.

#[cfg(test)]
pub mod fake;
pub mod live;

use anyhow::Result;
use clump_loggp::Median;

/// The two ways bulk data goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Copied into a buffer of the receiver, and out of it by its handler: two copies.
    Medium,
    /// Deposited in the receiver's segment: one copy.
    Long,
}

impl Way {
    /// As tables name it.
    pub const fn name(self) -> &'static str {
        match self {
            Way::Medium => "medium",
            Way::Long => "long",
        }
    }
}

/// The issuing side of a pair. Everything times itself in ticks of [`Pair::now`].
pub trait Pair {
    /// The clock, as cheap as the machine has one.
    fn now(&mut self) -> u64;
    /// Nanoseconds per tick.
    fn ns_per_tick(&self) -> f64;
    /// Computes for a while that grows with `loops`, without looking for messages.
    fn delay(&mut self, loops: u32);
    /// One short request that the other side answers. Looks for messages once after sending, as every
    /// request of Active Messages II does (paper 000, 4.3).
    fn request(&mut self) -> Result<()>;
    /// One short request that is not answered; looks for messages too.
    fn post(&mut self) -> Result<()>;
    /// One message with `bytes` of payload that is not answered; at most [`Pair::largest`].
    fn bulk(&mut self, way: Way, bytes: usize) -> Result<()>;
    /// Most payload of one message.
    fn largest(&self, way: Way) -> usize;
    /// Looks for messages once.
    fn poll(&mut self) -> Result<()>;
    /// Requests that are not answered yet.
    fn outstanding(&self) -> u64;
    /// Returns when everything posted and sent in bulk has been handled by the other side.
    fn settle(&mut self) -> Result<()>;
    /// Requests that fit between the two before a sender has to wait.
    fn window(&self) -> u32;
    /// Plays `rounds` rounds of the raw game that bounds any message: one side writes a line that the
    /// other watches, and the other way round. Returns ticks.
    fn flag_rounds(&mut self, rounds: u32) -> Result<u64>;

    /// Looks for messages until all requests are answered.
    fn drain(&mut self) -> Result<()> {
        while self.outstanding() > 0 {
            self.poll()?;
        }
        Ok(())
    }

    /// Ticks as nanoseconds.
    fn ns(&self, ticks: u64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "spans of a measurement are far below 2^53")]
        let ticks = ticks as f64;
        ticks * self.ns_per_tick()
    }

    /// What reading the clock twice costs, in nanoseconds; every measured span contains it.
    fn clock_cost_ns(&mut self) -> f64 {
        let samples: Vec<f64> = (0..101)
            .map(|_| {
                let start = self.now();
                let end = self.now();
                self.ns(end.wrapping_sub(start))
            })
            .collect();
        Median::of(samples).map_or(0.0, |m| m.value)
    }
}

/// Where the two ranks sit, judged by how long a cache line travels between them (the rule:
/// hyper-thread siblings share a first-level cache and take 20-25 ns; separate cores take over 90).
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Below 60 ns one way: two threads of one core.
    Siblings,
    /// Above 90 ns: two cores.
    SeparateCores,
    /// In between, or moving from one to the other during the measurement.
    Unclear,
}

impl Placement {
    /// Judges a one-way time.
    pub fn of(one_way_ns: f64) -> Self {
        match one_way_ns {
            t if t < 60.0 => Placement::Siblings,
            t if t > 90.0 => Placement::SeparateCores,
            _ => Placement::Unclear,
        }
    }

    /// As a sentence says it.
    pub const fn text(self) -> &'static str {
        match self {
            Placement::Siblings => {
                "the ranks sit on hyper-thread siblings (a line travels in under 60 ns)"
            }
            Placement::SeparateCores => {
                "the ranks sit on separate cores (a line travels in over 90 ns)"
            }
            Placement::Unclear => "where the ranks sit is unclear (a line travels in 60 to 90 ns)",
        }
    }
}
