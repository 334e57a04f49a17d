//! Regions of a program of which the first executions are measured and the others are not executed,
//! where time is virtual.

use clump_am::RankContext;
use clump_shm::virtual_time::Actor;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Nanoseconds of the measured executions of each region.
#[derive(Debug, Default)]
pub(crate) struct SampledRegions(Mutex<HashMap<String, Vec<u64>>>);

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

impl SampledRegion {
    /// Begins to execute a region; returns `None` where it is not executed, and its cost was
    /// charged.
    pub(crate) fn begin(
        context: &Arc<RankContext>,
        regions: &Arc<SampledRegions>,
        (name, times): (&str, usize),
    ) -> Option<Self> {
        let Some(actor) = context.actor() else { return Some(Self { _measured: None }) };
        // What the program has computed before is charged by itself.
        let begun_ns = actor.read_clock();
        if let Some(mean) = regions.mean(name, times) {
            actor.give_cost(mean);
            actor.read_clock();
            return None;
        }
        let (context, regions, name) = (context.clone(), regions.clone(), name.to_owned());
        Some(Self { _measured: Some(Measured { context, regions, name, begun_ns }) })
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        let Some(actor) = self.context.actor() else { return };
        let taken = actor.read_clock() - self.begun_ns;
        debug_assert!(taken >= Actor::CLOCK_READ_NS, "the clock was read");
        self.regions.note(std::mem::take(&mut self.name), taken - Actor::CLOCK_READ_NS);
    }
}
