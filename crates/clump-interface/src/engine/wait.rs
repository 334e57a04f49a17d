//! A request that waits for another rank: its condition, its claim on a lock, and its end.

use super::claims::{At, ClaimAccount};
use super::execution_context::ExecutionContext;
use super::locks::Locks;
use clump_onesided::protocol::tell;
use clump_onesided::{Comparison, Refusal};
use clump_shm::export::SegmentName;
use clump_shm::name::Name;
use clump_shm::queue_lock::Claim;

/// Condition that a request waits for.
#[derive(Debug, Clone, Copy)]
pub(super) enum WaitTarget {
    /// A lock: the claimed position, once there was room for a claim; `stays`: the wait has no time
    /// limit.
    Lock { position: Option<u64>, stays: bool },
    /// A word that compares in this way to a value.
    Word(Comparison, u64),
}

/// A request that waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    pub(super) account: usize,
    pub(super) from: Name,
    pub(super) cookie: u64,
    pub(super) segment: SegmentName,
    pub(super) offset: u64,
    pub(super) what: WaitTarget,
    /// True if the rank of the claim before it was notified, where that is needed.
    pub(super) lined_up: bool,
}

/// State of a wait.
enum WaitStatus {
    NotYet,
    Value(u64),
    Granted(u64, u64),
    Refused(Refusal),
}

impl Wait {
    /// Returns the place of its claim on a lock, once there is one, and true if it stays.
    pub(super) fn claim(&self) -> Option<(At, bool)> {
        let WaitTarget::Lock { position: Some(position), stays } = self.what else { return None };
        Some((At { segment: self.segment, offset: self.offset, position }, stays))
    }

    /// Returns the record of its claim.
    fn claim_account(&self) -> ClaimAccount {
        ClaimAccount::new(self.account, self.from, self.cookie)
    }

    /// Records its claim in the queue, once it has a position.
    pub(super) fn line_up(&mut self, locks: &mut Locks, on: &mut ExecutionContext<'_>) {
        if let Some((at, stays)) = self.claim().filter(|_| !self.lined_up) {
            self.lined_up = true;
            locks.line_up(at, self.claim_account(), stays, on);
        }
        self.check_invariants();
    }

    /// Answers it if its condition holds, or never will. Returns true if it has ended.
    pub(super) fn answer(&mut self, locks: &mut Locks, on: &mut ExecutionContext<'_>) -> bool {
        let turn = self.turn(on).unwrap_or_else(WaitStatus::Refused);
        let Self { account, cookie, segment, offset, .. } = *self;
        debug_assert_eq!(on.accounts[account].name, self.from, "waits end with their endpoint");
        match turn {
            WaitStatus::NotYet => return false,
            WaitStatus::Value(value) => {
                on.answer(account, tell::VALUE, &[cookie, value]);
                self.abandon(locks, on);
            }
            WaitStatus::Granted(position, word) => {
                on.answer(account, tell::GRANTED, &[cookie, position, word]);
                locks.grant(At { segment, offset, position }, self.claim_account());
            }
            WaitStatus::Refused(why) => {
                let words = [cookie, why as u64, segment.to_bits(), offset];
                on.answer(account, tell::FAILED, &words);
                self.abandon(locks, on);
            }
        }
        true
    }

    fn turn(&mut self, on: &mut ExecutionContext<'_>) -> Result<WaitStatus, Refusal> {
        let Self { from, segment, offset, .. } = *self;
        if let WaitTarget::Word(comparison, value) = self.what {
            let word = on.flag(segment, offset)?.get();
            return Ok(if comparison.holds(word, value) {
                WaitStatus::Value(word)
            } else {
                WaitStatus::NotYet
            });
        }
        debug_assert!(!self.lined_up || self.claim().is_some(), "what is recorded has a claim");
        let lock = on.lock(segment, offset)?;
        if let WaitTarget::Lock { position: place @ None, .. } = &mut self.what
            && let Claim::At(position) = lock.claim(from.rank())
        {
            *place = Some(position);
        }
        if let Some((at, _)) = self.claim() {
            if let Some(word) = lock.enter(at.position, from.rank()) {
                return Ok(WaitStatus::Granted(at.position, word));
            }
            // Claims before it may have been given up, or be of ranks that died.
            on.pass_on(segment, offset);
        }
        match on.why_taken(segment, offset) {
            Refusal::LockBusy => Ok(WaitStatus::NotYet),
            why => Err(why),
        }
    }

    /// Gives up its claim or watch.
    pub(super) fn abandon(&self, locks: &mut Locks, on: &mut ExecutionContext<'_>) {
        match (self.what, self.claim()) {
            (WaitTarget::Word(..), _) => {
                if let Ok(flag) = on.flag(self.segment, self.offset) {
                    flag.unwatch();
                }
            }
            (_, Some((at, _))) => locks.withdraw(at, self.from.rank(), on),
            (_, None) => debug_assert!(!self.lined_up, "what is recorded has a claim"),
        }
    }

    /// Checks that a claim is recorded once it has a position.
    pub(super) fn check_invariants(&self) {
        match self.what {
            WaitTarget::Lock { position, .. } => {
                debug_assert_eq!(self.lined_up, position.is_some(), "a claim is recorded once");
            }
            WaitTarget::Word(..) => debug_assert!(self.lined_up, "a watch needs no record"),
        }
    }
}
