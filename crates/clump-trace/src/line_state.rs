//! The distance of the machine's processors while something is measured: the round trip of a cache
//! line between two of them.
//!
//! On a shared host it is 80 to 115 ns or 450 to 620, as the host places the virtual processors,
//! and changes within minutes. It decides every figure of shared memory, so each report has it from
//! before and after, and figures of unlike states are not mixed.
#![allow(clippy::disallowed_types, reason = "taken from clump_os::sync; the lint sees through it")]

use clump_os::sync::{AtomicU64, Ordering};
use clump_os::topology::{Topology, set_affinity};
use clump_os::{clock, thread};
use serde::{Deserialize, Serialize};

/// Round trips of a sample, and samples: some 2 ms where the processors are near.
const TRIPS: u64 = 1_000;
const SAMPLES: u64 = 18;
/// Time after which no further sample is waited for: other programs have the processors.
const LIMIT_NS: u64 = 250_000_000;
/// Largest ratio of two round trips in one state of the machine.
const ALIKE: f64 = 1.5;
/// Polls after which a side yields, in case both share one processor.
const POLLS: u32 = 1 << 14;
/// Number that tells the answering side to end.
const END: u64 = u64::MAX;

/// Round trips of a line before and after a measurement, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LineTimes {
    /// Round trip before it.
    pub before_ns: f64,
    /// Round trip after it.
    pub after_ns: f64,
}

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

    /// Measures it again behind the measurement; `None` where either cannot be measured.
    pub fn end(self) -> Option<LineTimes> {
        Some(LineTimes { before_ns: self.before_ns?, after_ns: round_trip_ns()? })
    }
}

impl LineTimes {
    /// Returns true if both are of one state of the machine.
    pub fn is_steady(&self) -> bool {
        alike(self.before_ns, self.after_ns)
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

/// Measures the round trip of a cache line between two processors; `None` if there is only one, or
/// if other programs leave no time for it.
pub fn round_trip_ns() -> Option<f64> {
    let processors = Topology::read().spread();
    let [first, second, ..] = processors[..] else { return None };
    measured([first, second], LIMIT_NS)
}

/// Polls a line until it has another number than `last`, or until it is time to give up, which is
/// looked at when a side yields; returns the number.
fn awaited(line: &AtomicU64, last: u64, give_up: impl Fn() -> bool) -> u64 {
    let mut polls = 0_u32;
    loop {
        let number = line.load(Ordering::Acquire);
        if number != last {
            return number;
        }
        polls = polls.wrapping_add(1);
        if polls.is_multiple_of(POLLS) {
            if give_up() {
                return last;
            }
            clock::yield_now();
        }
    }
}

/// Measures the round trip between two processors, for as long as a limit.
fn measured([first, second]: [usize; 2], limit_ns: u64) -> Option<f64> {
    let lines = [const { AtomicU64::new(0) }; 32];
    // Two lines that no other word shares, whatever the array begins with.
    let (ping, pong) = (&lines[8], &lines[24]);
    std::thread::scope(|threads| {
        let answering = thread::spawn_scoped(threads, "clump-line-2", || {
            let _ = set_affinity(&[second]);
            let mut last = 0;
            while last != END {
                last = awaited(ping, last, || false);
                pong.store(last, Ordering::Release);
            }
        });
        answering.ok()?;
        let opening = thread::spawn_scoped(threads, "clump-line-1", || {
            let _ = set_affinity(&[first]);
            let begun = clock::now_ns();
            let is_late = || clock::now_ns().saturating_sub(begun) >= limit_ns;
            let trip = |number: u64| {
                ping.store(number, Ordering::Release);
                awaited(pong, number - 1, is_late) == number
            };
            let sample = |sample: u64| {
                let start = clock::now_ns();
                let mut numbers = sample * TRIPS + 1..=(sample + 1) * TRIPS;
                let whole = !is_late() && numbers.all(trip);
                #[expect(clippy::cast_precision_loss, reason = "a sample is far below 2^53 ns")]
                let ns = (clock::now_ns() - start) as f64 / TRIPS as f64;
                whole.then_some(ns)
            };
            // The least: whatever else runs only adds.
            (0..SAMPLES).map_while(sample).reduce(f64::min)
        });
        let trip_ns = opening.ok().and_then(|opening| opening.join().ok()?);
        ping.store(END, Ordering::Release);
        trip_ns
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
    fn a_round_trip_takes_some_time_where_there_are_two_processors() {
        let processors = Topology::read().spread();
        if let [first, second, ..] = processors[..] {
            assert!(measured([first, second], u64::MAX).is_some_and(|ns| ns > 1.0));
        } else {
            assert_eq!((round_trip_ns(), LineWatch::begin().end()), (None, None));
        }
    }

    #[test]
    fn processors_that_others_have_are_not_waited_for() {
        let first = Topology::read().spread()[0];
        assert_eq!(measured([first, first], 0), None);
        let silent = AtomicU64::new(7);
        assert_eq!(awaited(&silent, 7, || true), 7);
        assert_eq!(awaited(&silent, 6, || true), 7);
    }
}
