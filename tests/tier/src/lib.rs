//! Amounts of work in tests, by the tier of checks that runs them: `cargo test` of a newcomer and
//! the check of a change do a part of the random cases, seeds, turns and shapes; the night tier
//! does all. Random numbers of tests are here too.
//!
//! Layer 0: depends on no crate of the tree. A development dependency of any crate.
//!
//! `cargo xtask ci` and `cargo xtask mutants` name the tier in the environment variable
//! `CLUMP_TEST_TIER`; without it, the tier is *edit*. A binary says its tier once, on standard
//! error, as soon as a test asks for it.
//!
//! Types to know: [`Sampler`], a sequence of random numbers; [`pick`] chooses between two amounts,
//! [`first_of`] between a beginning of a list and the whole.
//!
//! # Invariants
//! 1. No test is left out in any tier: each does at least one case.
//! 2. The night tier does everything.
#![forbid(unsafe_code)]
#![allow(clippy::panic, reason = "a test fails that way")]

mod sampler;

pub use sampler::Sampler;

use std::io::Write;
use std::sync::OnceLock;

/// Variable with the name of the tier.
pub const VARIABLE: &str = "CLUMP_TEST_TIER";

/// Returns `full` in the night tier, and `part` in the others.
///
/// # Panics
/// Panics if the environment names an unknown tier.
pub fn pick<T>(part: T, full: T) -> T {
    if is_full() { full } else { part }
}

/// Returns all items in the night tier, and the first `count` in the others.
///
/// # Panics
/// Panics if no item were left, or the environment names an unknown tier.
pub fn first_of<T>(count: usize, all: &[T]) -> &[T] {
    assert!(0 < count && count <= all.len(), "{count} of {} items", all.len());
    &all[..pick(count, all.len())]
}

/// Returns true if tests do everything they can.
fn is_full() -> bool {
    static FULL: OnceLock<bool> = OnceLock::new();
    *FULL.get_or_init(|| {
        #[expect(clippy::disallowed_methods, reason = "no setting of a program, but of its tests")]
        let named = std::env::var(VARIABLE).ok();
        let full = parsed(named.as_deref());
        let done = if full { "all cases" } else { "a part of the cases" };
        let tier = named.as_deref().unwrap_or("edit");
        // The harness keeps what tests print by macros; this line is for everybody.
        let line = format!("test tier {tier}: {done} ({VARIABLE}=night: all)\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
        full
    })
}

/// Returns true if the tier of this name does everything.
fn parsed(name: Option<&str>) -> bool {
    match name {
        None | Some("edit" | "merge") => false,
        Some("night") => true,
        Some(other) => panic!("{VARIABLE}={other}: there are edit, merge and night"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_night_tier_does_everything() {
        assert_eq!([None, Some("edit"), Some("merge")].map(parsed), [false; 3]);
        assert!(parsed(Some("night")));
    }

    #[test]
    #[should_panic(expected = "there are edit, merge and night")]
    fn a_misspelt_tier_is_no_smaller_one() {
        parsed(Some("Night"));
    }

    #[test]
    fn at_least_one_case_is_left() {
        assert!(pick(1, 2) >= 1);
        assert!(first_of(1, &[7, 8, 9]).starts_with(&[7]));
        assert!(std::panic::catch_unwind(|| first_of(0, &[7])).is_err());
    }
}
