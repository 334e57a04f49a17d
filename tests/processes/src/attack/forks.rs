//! Attacks by ranks that fork at a random point, whose children act in various ways.

use super::errand;
use super::job::Job;
use super::place::AttackPlace;
use anyhow::Result;
use clump_test_tier::Sampler;

/// Actions of `forker`'s children.
const WAYS: &[&str] = &["exit", "exit-at-once", "failed-exec", "exec", "return", "daemon", "send"];
/// Rounds of its communication.
const ROUNDS: u64 = 6;

/// Draws a job.
///
/// # Errors
/// Fails if the folder cannot be made.
pub fn draw(sampler: &mut Sampler, place: &AttackPlace) -> Result<Job> {
    let layout = errand::layout(sampler, 1);
    let way = sampler.one_of(WAYS);
    // 0: before it joins.
    let at = sampler.below(ROUNDS + 1);
    layout.run(&format!("%forker {way} {ROUNDS} {at}")).job(place)
}
