//! clump-sort.

pub mod bar;
pub mod behind;
pub mod budget;
pub mod collect;
pub mod command;
pub mod exchange;
pub mod generate;
pub mod gensort;
pub mod input;
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
pub mod plan;
pub mod record;
pub mod report;
pub mod room;
pub mod sample;
pub mod size;
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
