//! Attacks by one limit at a time, at several values.

use super::errand::{self, Errand};
use super::job::{Job, Promise};
use super::place::AttackPlace;
use anyhow::Result;
use clump_test_tier::Sampler;

/// Limits in bytes or numbers.
const LIMITS: &[(&str, &[&str])] = &[
    ("AS", &["64000000", "256000000", "1000000000", "4000000000", "100000000000"]),
    ("DATA", &["2000000", "4000000", "16000000", "64000000", "256000000"]),
    ("STACK", &["65536", "131072", "262144", "524288", "1048576", "unlimited"]),
    ("FSIZE", &["0", "1", "4096", "100000", "1000000"]),
    ("NOFILE", &["4", "8", "12", "16", "24", "32", "64", "128"]),
    ("NPROC", &["1", "2", "3", "4", "6", "8", "12", "20"]),
    ("PIDS", &["1", "2", "3", "4", "6", "8", "12", "20"]),
    ("CPU", &["1", "2"]),
    ("MEMLOCK", &["0", "4096", "65536"]),
    ("CORE", &["0", "1", "4096"]),
    ("SIGPENDING", &["0", "1"]),
];
/// First number of users without processes, and their count.
const USERS: u64 = 100_000;

/// Draws a job.
///
/// # Errors
/// Fails if the folder or the records cannot be made.
pub fn draw(sampler: &mut Sampler, place: &AttackPlace) -> Result<Job> {
    let (name, values) = sampler.one_of(LIMITS);
    let value = sampler.one_of(values);
    let errand = match name {
        "CPU" => return computing(place, value),
        "FSIZE" if sampler.once_in(2) => errand::small_sort(),
        _ => errand::quiet(sampler),
    };
    let mut job = errand.job(place)?;
    let unhurt = matches!(name, "MEMLOCK" | "CORE" | "SIGPENDING");
    if !unhurt {
        // An end with the reason is accepted instead.
        job.promise = Promise {
            absent: job.promise.absent.clone(),
            check: job.promise.check.clone(),
            ..Promise::or_refusal(errand.code)
        };
    }
    match name {
        "PIDS" if place.groups().is_some() => job.group = value.parse().ok(),
        // Root's processes are not counted.
        "PIDS" | "NPROC" => {
            if rustix::process::geteuid().is_root() {
                let user = USERS + sampler.below(USERS);
                job.condition("--user", &user.to_string());
            }
            job.condition("--limit", &format!("NPROC={value}"));
        }
        _ => job.condition("--limit", &format!("{name}={value}")),
    }
    Ok(job)
}

/// Draws ranks that compute until the limit of CPU time.
fn computing(place: &AttackPlace, seconds: &str) -> Result<Job> {
    let mut job = Errand::of("run -n 2 sh -c").job(place)?;
    job.command.push("while :; do :; done".into());
    job.condition("--limit", &format!("CPU={seconds}"));
    // The kernel ends them by SIGXCPU, or by SIGKILL where soft and hard limit are equal.
    job.promise = Promise::exactly(&[152, 137]);
    job.promise.words.push("rank".to_owned());
    Ok(job)
}
