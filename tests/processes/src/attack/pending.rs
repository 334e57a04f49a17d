//! Attacks by an error that is pending at one rank when all call a collective: that rank takes
//! part, and then reports; no rank hangs, and none is paired with another collective.

use super::errand;
use super::job::Job;
use super::place::AttackPlace;
use anyhow::Result;
use clump_test_tier::Sampler;

/// The collectives, as the program names them.
const COLLECTIVES: &[&str] = &[
    "barrier",
    "all-reduce",
    "broadcast",
    "all-gather",
    "split",
    "all-store-sync",
    "pgas-barrier",
    "termination",
    "spread",
];

/// Draws a job.
///
/// # Errors
/// Fails if the folder cannot be made.
pub fn draw(sampler: &mut Sampler, place: &AttackPlace) -> Result<Job> {
    let (collective, failing) = (sampler.one_of(COLLECTIVES), sampler.below(2));
    let layout = errand::layout(sampler, 2);
    layout.run(&format!("%pending {collective} {failing}")).job(place)
}
