//! clump-sort: sorts 100-byte records from disk to disk on all ranks of a job, generates such
//! records, and checks the result.
//!
//! A program (`clump app gensort|sort|valsort`, or `examples/alone.rs`) mounts three commands:
//! [`gensort`], [`command`] and [`valsort`], each an `Args` struct and a `run` function.
//! [`valsort`] and `oracles/valsort.py` share no code with the sort.
//!
//! A sort ([`job`]) copies streams to the disk, or makes records there ([`intake`]), samples the
//! keys ([`mod@sample`]), reads and sends every record to the rank that owns its key while others
//! arrive and are spilled as sorted runs ([`pass_one`], [`collect`]), merges the runs
//! ([`pass_two`], [`mod@merge`]), and gives the files their names ([`output`], [`manifest`]). It is
//! the NOW-Sort of paper 001 (its table 3), with sampling for skewed keys.
//!
//! Main types: [`job::Spec`] and [`report::SortReport`] (input and output), [`exchange::Exchange`]
//! (the ranks: [`over_clump`] for processes, [`threads`] within one), [`budget::Budget`] (memory),
//! [`lanes::Lanes`] and [`behind::WriteBehind`] (the disk).
//!
//! # Invariants
//! 1. All ranks make the same collective calls in the same order, errors included
//!    ([`exchange::agree`]): all succeed or all fail.
//! 2. No file has its final name before every rank has written and synced its part and the
//!    checksums of input and output agree; the manifest comes last.
//! 3. Every buffer is taken from the rank's [`budget::Budget`], which never exceeds its share of
//!    `--memory`. Records of a `--size` are made before, in buffers of their own.
//! 4. No record is allocated: records are copied between buffers that are reused.
//! 5. A rank that fails keeps receiving until the stream ends, so that no other rank waits for it.
//!
//! ```no_run
//! use clump_sort::job::{Silent, Spec, sort};
//! # fn main() -> anyhow::Result<()> {
//! let spec = Spec {
//!     inputs: vec!["records".into()],
//!     output: "sorted".into(),
//!     scratch: None,
//!     made: None,
//!     memory: 256 << 20,
//!     memory_grows: false,
//!     force: false,
//!     two_pass: false,
//!     direct: true,
//!     measure_disk: false,
//! };
//! let reports = clump_sort::threads::run(4, |mut rank| sort(&mut rank, &spec, &mut Silent));
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod agreement;
pub mod bar;
pub mod behind;
pub mod budget;
pub mod collect;
pub mod command;
pub mod exchange;
pub mod generate;
pub mod gensort;
pub mod input;
pub mod intake;
pub mod job;
pub mod lanes;
pub mod lcg;
pub mod manifest;
pub mod measure;
pub mod memory;
pub mod merge;
pub mod output;
pub mod over_clump;
pub mod pass_one;
pub mod pass_two;
pub mod paths;
pub mod plan;
mod progress;
pub mod record;
pub mod report;
pub mod room;
pub mod sample;
pub mod sized_run;
mod spec;
pub mod threads;
pub mod valsort;

#[cfg(test)]
fn test_dir(name: &str) -> std::path::PathBuf {
    use clump_os::sync::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("clump-{name}-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}
