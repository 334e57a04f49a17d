//! The distance of the machine's processors while something is measured: the round trip of a cache
//! line between two of them.
//!
//! On a shared host it is 80 to 115 ns or 450 to 620, as the host places the virtual processors,
//! and changes within minutes. It decides every figure of shared memory, so each report has it from
//! before and after, and figures of unlike states are not mixed.
#![allow(clippy::disallowed_types, reason = "taken from clump_os::sync; the lint sees through it")]

use anyhow::{Context, Result};
use clump_os::sync::{AtomicU64, Ordering};
use clump_os::topology::{Topology, set_affinity};
use clump_os::{clock, text_file, thread};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Round trips of a sample, and samples: some 2 ms where the processors are near.
const TRIPS: u64 = 2_000;
const SAMPLES: usize = 9;
/// Largest ratio of two round trips in one state of the machine.
const ALIKE: f64 = 1.5;
/// Polls after which a side yields, in case both share one processor.
const POLLS: u32 = 1 << 14;

/// Round trips of a line before and after a measurement, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LineTimes {
    /// Round trip before it.
    pub before_ns: f64,
    /// Round trip after it.
    pub after_ns: f64,
}

/// File of a folder of traces that has them.
pub const FILE: &str = "lines.json";
/// Most bytes of that file that are read.
const MAX_BYTES: u64 = 1 << 10;

/// The beginning of a measurement.
#[derive(Debug, Clone, Copy)]
pub struct LineWatch {
    before_ns: Option<f64>,
}

impl LineWatch {
    /// Measures the round trip before a measurement.
    pub fn begin() -> Self {
        Self { before_ns: round_trip_ns() }
    }

    /// Measures it again behind the measurement; `None` on a machine of one processor.
    pub fn end(self) -> Option<LineTimes> {
        Some(LineTimes { before_ns: self.before_ns?, after_ns: round_trip_ns()? })
    }
}

impl LineTimes {
    /// Returns true if both are of one state of the machine.
    pub fn is_steady(&self) -> bool {
        alike(self.before_ns, self.after_ns)
    }

    /// Writes them into a folder of traces.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        let named = || format!("writing {}", path.display());
        std::fs::write(&path, serde_json::to_string(self)? + "\n").with_context(named)
    }

    /// Reads those of a folder of traces; `None` where there are none.
    pub fn of_folder(folder: &Path) -> Option<Self> {
        let text = text_file::read(&folder.join(FILE), MAX_BYTES).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Returns a line about them.
    pub fn note(&self) -> String {
        let Self { before_ns, after_ns } = self;
        let changed = match self.is_steady() {
            true => "",
            false => ": the machine changed meanwhile, so repeat this",
        };
        format!(
            "round trip between the processors: {before_ns:.0} ns before, {after_ns:.0} ns after{changed}"
        )
    }
}

/// Returns true if two round trips are of one state of the machine.
pub fn alike(one_ns: f64, other_ns: f64) -> bool {
    one_ns.max(other_ns) <= ALIKE * one_ns.min(other_ns)
}

/// Measures the round trip of a cache line between two processors; `None` if there is only one.
pub fn round_trip_ns() -> Option<f64> {
    let processors = Topology::read().spread();
    let [first, second, ..] = processors[..] else { return None };
    let lines = [const { AtomicU64::new(0) }; 32];
    // Two lines that no other word shares, whatever the array begins with.
    let (ping, pong) = (&lines[8], &lines[24]);
    let wait = |line: &AtomicU64, number: u64| {
        let mut polls = 0_u32;
        while line.load(Ordering::Acquire) != number {
            polls += 1;
            if polls.is_multiple_of(POLLS) {
                clock::yield_now();
            }
        }
    };
    let all = TRIPS * SAMPLES as u64;
    std::thread::scope(|threads| {
        let answering = thread::spawn_scoped(threads, "clump-line-2", || {
            let _ = set_affinity(&[second]);
            for number in 1..=all {
                wait(ping, number);
                pong.store(number, Ordering::Release);
            }
        });
        answering.ok()?;
        let opening = thread::spawn_scoped(threads, "clump-line-1", || {
            let _ = set_affinity(&[first]);
            let sample = |sample: u64| {
                let start = clock::now_ns();
                for number in sample * TRIPS + 1..=(sample + 1) * TRIPS {
                    ping.store(number, Ordering::Release);
                    wait(pong, number);
                }
                #[expect(clippy::cast_precision_loss, reason = "a sample is far below 2^53 ns")]
                let ns = (clock::now_ns() - start) as f64 / TRIPS as f64;
                ns
            };
            // The least: whatever else runs only adds.
            (0..SAMPLES as u64).map(sample).reduce(f64::min)
        });
        let Ok(opening) = opening else {
            // The other side waits for all of it.
            for number in 1..=all {
                ping.store(number, Ordering::Release);
                wait(pong, number);
            }
            return None;
        };
        opening.join().ok()?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_changed_is_said_to_have() {
        let steady = LineTimes { before_ns: 95.0, after_ns: 112.0 };
        assert!(steady.is_steady() && steady.note().ends_with("95 ns before, 112 ns after"));
        let changed = LineTimes { before_ns: 95.0, after_ns: 480.0 };
        assert!(!changed.is_steady() && changed.note().contains("repeat this"));
        assert!(!alike(480.0, 95.0) && alike(450.0, 620.0) && alike(80.0, 115.0));
    }

    #[test]
    fn a_folder_of_traces_has_those_of_its_run() {
        let folder = clump_os::scratch::Scratch::new(&std::env::temp_dir(), "lines").unwrap();
        assert_eq!(LineTimes::of_folder(folder.path()), None);
        let times = LineTimes { before_ns: 95.5, after_ns: 480.0 };
        times.save(folder.path()).unwrap();
        assert_eq!(LineTimes::of_folder(folder.path()), Some(times));
        assert!(times.save(Path::new("/no/such/folder")).is_err());
    }

    #[test]
    fn a_round_trip_takes_some_time_where_there_are_two_processors() {
        let processors = Topology::read().spread().len();
        assert_eq!(round_trip_ns().is_some_and(|ns| ns > 1.0), processors > 1);
        assert_eq!(LineWatch::begin().end().is_some(), processors > 1);
    }
}
