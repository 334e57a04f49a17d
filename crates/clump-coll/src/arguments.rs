//! Arguments of collectives, which are checked when the rank takes part: a rank that went before
//! would leave the others waiting for it, and its next collective would meet theirs of now.

use crate::Team;
use crate::stage::call::StagedCall;
use clump_am::{AsContext, ErrorKind, Result};
use std::fmt::Display;

/// Bytes that a collective moves at one time, at most: so many that no rank has them, and few
/// enough that all ranks refuse more before one of them waits for another.
const MAX_BYTES: u64 = 1 << 36;

/// Fails if a collective would move `bytes` bytes or more to a rank, all parts together.
pub(crate) fn check_bytes(bytes: u64) -> Result<()> {
    if bytes <= MAX_BYTES {
        return Ok(());
    }
    Err(ErrorKind::TooMuch { given: bytes, most: MAX_BYTES }.into())
}

impl Team {
    /// Takes part in the collective that this rank has called and cannot execute: ranks that wait
    /// for its contribution fail with an error that names it and says `why`, and its next
    /// collective is the next one of all. For bindings of other languages, which have arguments of
    /// their own to check.
    ///
    /// # Errors
    /// Fails in a handler: the rank takes no part then.
    #[doc(hidden)]
    pub fn decline(&self, why: &dyn Display) -> Result<()> {
        let mut state = self.state.lock()?;
        state.next(self.post(), self.id());
        let seq = state.seq;
        if let Some(group) = self.stage() {
            // As it goes, it tells that this rank reads nothing of the collective.
            drop(StagedCall::new(self, group, seq));
        }
        self.tell_disagreement(seq, &self.lack(why));
        debug_assert_eq!(state.seq, seq, "one collective is over");
        Ok(())
    }

    /// Returns what a check of arguments, or a step before a collective, gives. If it fails, the
    /// rank takes part first.
    pub(crate) fn prepared<R>(&self, step: impl FnOnce() -> Result<R>) -> Result<R> {
        step().map_err(|error| match self.decline(&error) {
            Ok(()) => error.having_taken_part(),
            Err(in_handler) => in_handler,
        })
    }

    /// Checks that the team has a rank `rank`.
    pub(crate) fn check_rank(&self, rank: usize) -> Result<()> {
        let ranks = self.nranks();
        if rank < ranks {
            return Ok(());
        }
        Err(ErrorKind::NoSuchRank { rank, ranks }.into())
    }

    /// Checks that `given` values, one for each rank, were given.
    pub(crate) fn check_one_each(&self, given: usize) -> Result<()> {
        let ranks = self.nranks();
        if given == ranks {
            return Ok(());
        }
        Err(ErrorKind::NotOneEach { given, ranks }.into())
    }

    /// Checks that a rank's memory of `bytes` bytes has `each` bytes for each rank of the team.
    pub(crate) fn check_room(&self, bytes: usize, each: usize) -> Result<()> {
        let expected = each.saturating_mul(self.nranks());
        self.check_given(self.context().rank(), bytes, expected)
    }
}
