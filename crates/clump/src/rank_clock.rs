//! The clock of a rank, and the cost of its computation where time is virtual.

use clump_am::RankContext;
use clump_shm::virtual_time::Actor;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Nanoseconds of the measured executions of each region.
#[derive(Debug, Default)]
struct SampledRegions(Mutex<HashMap<String, Vec<u64>>>);

impl SampledRegions {
    fn known(&self) -> MutexGuard<'_, HashMap<String, Vec<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the mean cost of a region that was measured `times` times.
    fn mean(&self, name: &str, times: usize) -> Option<u64> {
        let known = self.known();
        let costs = known.get(name).filter(|costs| costs.len() >= times.max(1))?;
        let mean = costs.iter().sum::<u64>() / costs.len() as u64;
        debug_assert!(costs.iter().any(|&ns| ns <= mean) && costs.iter().any(|&ns| ns >= mean));
        Some(mean)
    }

    fn note(&self, name: String, ns: u64) {
        self.known().entry(name).or_default().push(ns);
    }
}

/// The clock of a rank. Its methods may be called by any thread.
#[derive(Debug)]
pub struct RankClock {
    context: Arc<RankContext>,
    regions: Arc<SampledRegions>,
}

impl RankClock {
    pub(crate) fn new(context: Arc<RankContext>) -> Self {
        Self { context, regions: Arc::default() }
    }

    /// Returns the nanoseconds since the program began: in virtual time those of this rank's clock,
    /// else those of the machine.
    pub fn now_ns(&self) -> u64 {
        self.context.actor().map_or_else(clump_os::clock::now_ns, Actor::read_clock)
    }

    /// Gives the cost of the computation between the call of clump before this and the next, where
    /// time is virtual: it counts instead of what is measured. Costs that are given before the same
    /// call add up.
    pub fn cost(&self, ns: u64) {
        if let Some(actor) = self.context.actor() {
            actor.give_cost(ns);
        }
    }

    /// Begins to execute a region of the program that it executes often, `name` for each, and at
    /// about equal cost. Where time is virtual, `times` executions are measured; `None` is returned
    /// for those that follow: they are not to be executed, and have cost the mean. Elsewhere every
    /// one is executed. The region calls nothing of clump, and ends when the value is dropped.
    ///
    /// ```no_run
    /// # let cl = clump::init().unwrap();
    /// # fn multiply() {}
    /// for _ in 0..1000 {
    ///     if let Some(_measured) = cl.clock().sample("multiply", 5) {
    ///         multiply();
    ///     }
    /// }
    /// ```
    pub fn sample(&self, name: &str, times: usize) -> Option<SampledRegion> {
        let Some(actor) = self.context.actor() else {
            return Some(SampledRegion { _measured: None });
        };
        // What the program has computed before is charged by itself.
        let begun_ns = actor.read_clock();
        if let Some(mean) = self.regions.mean(name, times) {
            actor.give_cost(mean);
            actor.read_clock();
            return None;
        }
        let (context, regions) = (self.context.clone(), self.regions.clone());
        let measured = Measured { context, regions, name: name.to_owned(), begun_ns };
        Some(SampledRegion { _measured: Some(measured) })
    }
}

/// Execution of a region, which it measures until it is dropped.
#[derive(Debug)]
#[must_use = "the region is executed until this is dropped"]
pub struct SampledRegion {
    /// `None` where time is not virtual.
    _measured: Option<Measured>,
}

/// Region that is executed and measured, in virtual time.
#[derive(Debug)]
struct Measured {
    context: Arc<RankContext>,
    regions: Arc<SampledRegions>,
    name: String,
    begun_ns: u64,
}

impl Drop for Measured {
    fn drop(&mut self) {
        let Some(actor) = self.context.actor() else {
            clump_bug::bug!("a region is measured where time is not virtual");
            return;
        };
        let taken = actor.read_clock() - self.begun_ns;
        debug_assert!(taken >= Actor::CLOCK_READ_NS, "the clock was read");
        self.regions.note(std::mem::take(&mut self.name), taken - Actor::CLOCK_READ_NS);
    }
}
