//! Attacks by names in the environment that are nearly those of settings: a user who mistypes one
//! is told, and the job runs.

use super::errand::{self, Amount};
use super::job::Job;
use super::place::AttackPlace;
use anyhow::Result;
use clump_test_tier::Sampler;

/// Names of settings and of variables that clump reads.
pub const KNOWN: &[&str] = &[
    "CLUMP_LANES",
    "CLUMP_STATS",
    "CLUMP_NET_BULK",
    "CLUMP_NET_FAULTS",
    "CLUMP_START_TIMEOUT_MS",
    "CLUMP_TRACE_EVENTS",
    "CLUMP_EMU",
];
/// Values, of which some would be wrong for a setting.
const VALUES: &[&str] = &["1", "", "0", "lots", "-1"];

/// Draws a job.
///
/// # Errors
/// Fails if the folder or the records cannot be made.
pub fn draw(sampler: &mut Sampler, place: &AttackPlace) -> Result<Job> {
    let known = sampler.one_of(KNOWN);
    let name = mistyped(sampler, known);
    let value = sampler.one_of(VALUES);
    let errand = errand::layout(sampler, 2).run("%prog barrier 3");
    debug_assert_eq!(errand.amount, Amount::Nothing, "only clump prints");
    let mut job = errand.job(place)?;
    job.variables.push((name.clone().into(), value.into()));
    job.promise.said.push(name);
    Ok(job)
}

/// Returns a name that differs from a known one by one slip of the fingers.
pub fn mistyped(sampler: &mut Sampler, known: &str) -> String {
    let prefix = "CLUMP_".len();
    let mut letters: Vec<char> = known.chars().collect();
    let most = letters.len() as u64 - prefix as u64 - 1;
    let at = prefix + usize::try_from(sampler.below(most)).unwrap_or(0);
    match sampler.below(4) {
        0 => drop(letters.remove(at)),
        1 => letters.insert(at, letters[at]),
        2 if letters[at] != letters[at + 1] => letters.swap(at, at + 1),
        _ => letters.push('X'),
    }
    letters.into_iter().collect()
}
