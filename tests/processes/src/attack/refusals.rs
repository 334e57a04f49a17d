//! Attacks by one system call that is refused: to the whole job, or to its ranks only.

use super::errand::{self, Errand};
use super::event::{Event, What, When};
use super::job::{Job, Promise};
use super::place::AttackPlace;
use anyhow::Result;
use clump_test_tier::Sampler;
use std::time::Duration;

/// Calls that clump makes, or could make.
const CALLS: &[&str] = &[
    "recvmmsg",
    "sendmmsg",
    "recvmsg",
    "sendmsg",
    "recvfrom",
    "sendto",
    "setsockopt",
    "getsockopt",
    "socket",
    "socketpair",
    "memfd_create",
    "membarrier",
    "pidfd_open",
    "pidfd_send_signal",
    "eventfd2",
    "signalfd4",
    "timerfd_create",
    "epoll_create1",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_pwait2",
    "ppoll",
    "userfaultfd",
    "sched_setaffinity",
    "sched_getaffinity",
    "sched_yield",
    "prctl",
    "clone3",
    "unshare",
    "setns",
    "mmap-hugetlb",
    "mmap-populate",
    "madvise",
    "mlock",
    "fallocate",
    "fsync",
    "flock",
    "linkat",
    "splice",
    "vmsplice",
    "copy_file_range",
    "getrandom",
    "statx",
    "prlimit64",
    "bpf",
    "io_uring_setup",
    "process_vm_readv",
    "rseq",
    "pipe2",
    "kill",
];

/// Calls without which the standard library gives up by itself, before clump is asked; or without
/// which no process can be stopped.
const ONLY_MISSING: &[&str] = &["getrandom", "epoll_pwait", "ppoll", "kill"];

/// Calls without which the standard library panics where it starts a process: refused to ranks
/// only.
const FOR_STARTERS: &[&str] = &["recvfrom"];

/// Calls that send packets. A firewall's verdict is a refusal too, and may change: a job goes on
/// trying and says so, until it is interrupted.
const SENDERS: &[&str] = &["sendto", "sendmsg", "sendmmsg"];
/// Time after which a job that goes on trying is interrupted, and its exit code then.
const NUDGE: Duration = Duration::from_secs(5);
const TERMINATED: i32 = 143;

/// Draws a job.
///
/// # Errors
/// Fails if the folder or the records cannot be made.
pub fn draw(sampler: &mut Sampler, place: &AttackPlace) -> Result<Job> {
    let call = sampler.one_of(CALLS);
    let errno = match call {
        call if call.starts_with("mmap-") => "ENOMEM",
        call if ONLY_MISSING.contains(&call) => "ENOSYS",
        _ => sampler.one_of(&["EPERM", "ENOSYS", "EACCES"]),
    };
    let errand = if sampler.once_in(4) {
        Errand::of("run -n 2 --nodes 2 %onesided deaf").prints()
    } else {
        errand::quiet(sampler)
    };
    let mut job = errand.job(place)?;
    let refusal = format!("{call}={errno}");
    let program = job.command.iter().position(|word| {
        ["prog", "onesided"].iter().any(|name| *word == *place.program(name).as_os_str())
    });
    let starts = FOR_STARTERS.contains(&call);
    match program.filter(|_| sampler.once_in(3) || starts) {
        // The ranks only.
        Some(at) => {
            let hinder = [place.program("hinder").into(), "--refuse".into(), refusal.into()];
            job.command.splice(at..at, hinder);
        }
        // If there is no program of its own, nothing is refused.
        None if starts => {}
        None => job.condition("--refuse", &refusal),
    }
    job.promise = Promise {
        absent: job.promise.absent.clone(),
        check: job.promise.check.clone(),
        ..Promise::or_refusal(errand.code)
    };
    if SENDERS.contains(&call) {
        job.event = Some(Event { when: When::After(NUDGE), what: What::Signal("TERM") });
        job.promise.codes.push(TERMINATED);
    }
    Ok(job)
}
