//! Attacks by a control group that gives a job little memory.

use super::errand;
use super::job::{Job, Promise};
use super::place::AttackPlace;
use anyhow::Result;
use clump_test_tier::Sampler;

/// Limits in MiB.
const LIMITS: &[u64] = &[24, 48, 96, 192, 384, 768];
/// Sizes of arrays, as parts of the limit in 1/8.
const PARTS: &[u64] = &[1, 4, 9, 16, 64, 1 << 20];
/// Words of a job that the kernel has ended for memory, or that was refused some.
const WORDS: &[&str] = &["memory", "no array of"];
/// Exit code of a job of which the kernel killed a process.
const KILLED: i32 = 137;

/// Draws a job.
///
/// # Errors
/// Fails if the folder or the records cannot be made.
pub fn draw(sampler: &mut Sampler, place: &AttackPlace) -> Result<Job> {
    let limit = sampler.one_of(LIMITS);
    let asks = sampler.once_in(2);
    let part = sampler.one_of(PARTS);
    let (mut job, code) = if asks {
        let bytes = (limit << 20) / 8 * part;
        let errand = errand::layout(sampler, 2).run(&format!("%pending spread {bytes}"));
        (errand.job(place)?, errand.code)
    } else {
        let errand = errand::quiet(sampler);
        (errand.job(place)?, errand.code)
    };
    let (absent, check) = (job.promise.absent.clone(), job.promise.check.clone());
    job.promise = Promise { absent, check, ..Promise::or_refusal(code) };
    // An array that is larger than what the job may have is refused, and nobody is killed; a job
    // that has no room to start may be killed.
    let fits_nothing = limit < 96;
    if fits_nothing || !asks {
        job.promise.codes.push(KILLED);
    } else {
        job.promise.words.extend(WORDS.iter().map(|word| (*word).to_owned()));
    }
    job.memory_mib = Some(limit);
    Ok(job)
}

/// Returns the reason why there can be no such groups here.
pub fn missing(place: &AttackPlace) -> Option<String> {
    place.memory_groups().is_none().then(|| {
        "no control group with a limit of memory can be made here; run as root with a writable \
         /sys/fs/cgroup whose memory controller is on"
            .to_owned()
    })
}
