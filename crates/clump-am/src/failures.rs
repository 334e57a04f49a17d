//! Errors kept for later polls.

use crate::error::Error;
use std::collections::VecDeque;

/// Most errors kept.
const MAX_FAILURES: usize = 64;

/// Errors found by a call that succeeded all the same, and is not to be repeated: the next polls
/// return them. Of a program that never polls the oldest are kept.
#[derive(Debug, Default)]
pub(crate) struct Failures(VecDeque<Error>);

impl Failures {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn keep(&mut self, error: Error) {
        if self.0.len() < MAX_FAILURES {
            self.0.push_back(error);
        }
        debug_assert!((1..=MAX_FAILURES).contains(&self.0.len()), "an error is kept");
    }

    /// Takes the oldest error.
    pub(crate) fn next(&mut self) -> Option<Error> {
        debug_assert!(self.0.len() <= MAX_FAILURES, "more than are kept");
        self.0.pop_front()
    }
}
