//! Judges the resource limits that a job can run into.

use super::amount::bytes;
use super::facts::Facts;
use super::finding::{Finding, Verdict, ok};
use clump_os::probe::Limit;

/// Checks every limit that matters, and locked memory, for completeness.
pub fn limits(facts: &Facts) -> Vec<Finding> {
    let limits = &facts.limits;
    let files = Limit { soft: limits.open_files.hard, hard: limits.open_files.hard };
    vec![
        enough(
            "open files",
            files,
            4096,
            "A job may open as many as the hard limit; the agent needs several a rank.",
            "Jobs of hundreds of ranks may fail to start.",
            "raise the hard limit: ulimit -Hn 65536 as root, or nofile in /etc/security/limits.conf",
        ),
        enough(
            "processes",
            limits.processes,
            1024,
            "Each rank is a process.",
            "Jobs of hundreds of ranks may fail to start.",
            "ulimit -u 65536, or nproc in /etc/security/limits.conf",
        ),
        amount("locked memory", limits.locked_bytes, 0, "clump locks no memory.", "", ""),
        amount(
            "file size",
            limits.file_bytes,
            u64::MAX,
            "A job's shared memory counts as a file.",
            "Shared memory and sorted files cannot be larger than this.",
            "ulimit -f unlimited",
        ),
        amount(
            "address space",
            limits.address_bytes,
            u64::MAX,
            "Each rank maps the shared memory of all ranks of its node.",
            "A rank may fail to map its node's shared memory, which is large and mostly untouched.",
            "ulimit -v unlimited",
        ),
    ]
}

/// Checks a limit on a number of things.
fn enough(
    name: &'static str,
    limit: Limit,
    least: u64,
    meaning: &'static str,
    lack: &'static str,
    remedy: &str,
) -> Finding {
    let found = limit.soft.map_or_else(|| "unlimited".to_owned(), |n| n.to_string());
    judged(ok(name, found, meaning), limit, least, lack, remedy)
}

/// Checks a limit in bytes; `least` of `u64::MAX`: should be unlimited.
fn amount(
    name: &'static str,
    limit: Limit,
    least: u64,
    meaning: &'static str,
    lack: &'static str,
    remedy: &str,
) -> Finding {
    let found = limit.soft.map_or_else(|| "unlimited".to_owned(), bytes);
    judged(ok(name, found, meaning), limit, least, lack, remedy)
}

fn judged(finding: Finding, limit: Limit, least: u64, lack: &'static str, remedy: &str) -> Finding {
    if limit.soft.is_none_or(|soft| soft >= least) {
        return finding;
    }
    finding.but(Verdict::Degraded, lack, remedy)
}
