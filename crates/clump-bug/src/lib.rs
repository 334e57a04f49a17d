//! Reports of what can only be a bug of clump: a relation between its own parts does not hold.
//!
//! Debug builds end there. Release builds count it, print one line for each place in the code, and
//! go on: the caller fails its call, or leaves out what it cannot do. Input of a network or a user
//! is never a bug: it is an error.
//!
//! ```should_panic
//! fn half(even: u64) -> u64 {
//!     if even % 2 == 1 {
//!         clump_bug::bug!("{even} is even");
//!     }
//!     even / 2
//! }
//! assert_eq!(half(4), 2);
//! half(3);
//! ```
//!
//! # Invariants
//! 1. A place in the code prints one line at most, however often it is reached.
//! 2. Reporting allocates one line, and waits for nothing but the standard error.
#![forbid(unsafe_code)]

use std::fmt::Arguments;
use std::io::Write as _;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static FOUND: AtomicU64 = AtomicU64::new(0);

/// Reports that something does not hold which the code relies on; the text says what should.
#[macro_export]
macro_rules! bug {
    ($($text:tt)+) => {{
        static SITE: $crate::BugSite = $crate::BugSite::new();
        SITE.on_found(format_args!($($text)+));
    }};
}

/// Returns the number of bugs found in this process.
pub fn count() -> u64 {
    FOUND.load(Ordering::Relaxed)
}

/// A place in the code that reports a bug, once.
#[derive(Debug)]
pub struct BugSite {
    is_reported: AtomicBool,
}

impl BugSite {
    /// Creates a place that has reported nothing.
    #[expect(clippy::new_without_default, reason = "it is made by the macro, as a static")]
    pub const fn new() -> Self {
        Self { is_reported: AtomicBool::new(false) }
    }

    /// Counts a bug, and reports it if it is the first of its place.
    ///
    /// # Panics
    /// Panics in debug builds.
    #[cold]
    #[track_caller]
    pub fn on_found(&self, text: Arguments<'_>) {
        debug_assert!(false, "{text}");
        FOUND.fetch_add(1, Ordering::Relaxed);
        if !self.is_reported.swap(true, Ordering::Relaxed) {
            let line = report(text, Location::caller());
            // Without a standard error there is nobody to report to.
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }
}

fn report(text: Arguments<'_>, place: &Location<'_>) -> String {
    format!(
        "clump: a bug of clump, please report it: at {}:{} it does not hold that {text}; what it \
         was about may fail or be missing\n",
        place.file(),
        place.line()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_the_place_and_what_should_hold() {
        let line = report(format_args!("{} is even", 3), Location::caller());
        assert!(line.contains("src/lib.rs:") && line.contains("that 3 is even;"), "{line}");
        assert_eq!((line.lines().count(), count()), (1, 0));
    }

    #[cfg(debug_assertions)]
    #[test]
    #[should_panic(expected = "twice two is four")]
    fn debug_builds_end_there() {
        bug!("twice {} is four", "two");
    }

    #[cfg(not(debug_assertions))]
    #[test]
    fn release_builds_count_and_go_on() {
        (0..3).for_each(|_| bug!("twice two is four"));
        assert_eq!(count(), 3);
    }
}
