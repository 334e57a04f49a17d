//! Waits for one of two words of a near segment.

use super::Target;
use crate::error::{Refusal, Result, refused};
use crate::lock::nap;
use clump_am::WaitFor;
use clump_onesided::{AtomicOp, Word};
use clump_shm::rank::WaitReason;
use std::time::Duration;

impl Target {
    /// Waits until a word of a near segment is at least so much, or until another word is: places
    /// and values. Returns false if it was the other. Sleeps as [`Target::wait_until`] does.
    ///
    /// # Errors
    /// Those of [`Target::wait_until`].
    pub fn wait_for_either(&self, word: (u64, u64), other: Option<(u64, u64)>) -> Result<bool> {
        for (at, _) in [Some(word), other].into_iter().flatten() {
            self.reach_grown(at, size_of::<u64>() as u64)?;
        }
        let mut either = Either { target: self, word, other, seen: None };
        self.inner.endpoint.block_on(&mut either)?;
        let why = if self.is_owner_dead() { Refusal::OwnerDead } else { Refusal::Misaligned };
        either.seen.ok_or_else(|| refused(self.name, word.0, why))
    }
}

struct Either<'a> {
    target: &'a Target,
    word: (u64, u64),
    other: Option<(u64, u64)>,
    /// True once the word is at least so much, false once the other is.
    seen: Option<bool>,
}

impl Either<'_> {
    /// Returns true if a word is at least so much; none if there is no such word.
    fn is_reached(&self, (at, least): (u64, u64)) -> Option<bool> {
        let Some(near) = &self.target.near else {
            clump_bug::bug!("interfaces wait for words of other nodes");
            return None;
        };
        let cell = u64::find(&near.cells, at)?;
        Some(u64::apply(cell, AtomicOp::Load, 0, 0) >= least)
    }
}

impl WaitFor for Either<'_> {
    #[inline]
    fn done(&mut self) -> clump_am::Result<bool> {
        self.target.inner.order_words();
        for (word, first) in [(Some(self.word), true), (self.other, false)] {
            let Some(word) = word else { continue };
            match self.is_reached(word) {
                Some(true) => {
                    // Also if it is asked again.
                    self.seen = Some(first);
                    return Ok(true);
                }
                Some(false) => {}
                None => return Ok(true),
            }
        }
        Ok(self.target.is_owner_dead())
    }

    fn nap(&self) -> Duration {
        nap(None)
    }

    fn waiting(&self) -> WaitReason {
        WaitReason::Word { segment: self.target.name, offset: self.word.0, from: None }
    }
}
