//! Requests whose answer has to wait for another rank: locks, and words that are to reach a value.

use super::claims::ClaimAccount;
use super::wait::{MAX_WAITS, Wait, WaitTarget, flag_words, queue_lock};
use super::{Engine, ReplySink};
use crate::memory::Memory;
use clump_onesided::protocol::{how, tell};
use clump_onesided::{Comparison, Refusal};
use clump_shm::export::SegmentName;
use clump_shm::name::Name;
use clump_shm::queue_lock::{Claim, LockHead};

/// State of a wait.
enum WaitStatus {
    NotYet,
    Value(u64),
    Granted(u64, u64),
    Refused(Refusal),
}

impl<M: Memory> Engine<M> {
    /// Executes `segment offset cookie how`: takes a lock, or waits for it unless it only tries.
    pub(super) fn lock(
        &mut self,
        at: usize,
        (segment, offset, cookie): (SegmentName, u64, u64),
        how: u64,
        out: &mut impl ReplySink,
    ) -> Result<(), Refusal> {
        let tries = match how {
            how::WAITS | how::STAYS => false,
            how::TRIES => true,
            _ => return Err(Refusal::Unknown),
        };
        let from = self.accounts[at].name;
        if tries {
            // Claims of ranks that died waiting do not count.
            self.pass_on(segment, offset);
        }
        let lock = queue_lock(&mut self.memory, self.ranks, segment, offset)?;
        let claim = if tries { lock.claim_free(from.rank()) } else { lock.claim(from.rank()) };
        let position = match claim {
            Claim::None if tries => return Err(self.why_taken(segment, offset)),
            Claim::None => None,
            Claim::At(position) => Some(position),
        };
        debug_assert!(!tries || position.is_some(), "a try does not wait for room for a claim");
        let what = WaitTarget::Lock { position, stays: how == how::STAYS };
        self.wait(Wait { account: at, from, cookie, segment, offset, what, lined_up: false }, out)
    }

    /// Executes `segment offset cookie comparison value`: waits for a flag.
    pub(super) fn watch(
        &mut self,
        at: usize,
        (segment, offset, cookie): (SegmentName, u64, u64),
        (comparison, value): (u64, u64),
        out: &mut impl ReplySink,
    ) -> Result<(), Refusal> {
        let comparison = Comparison::from_bits(comparison).ok_or(Refusal::Unknown)?;
        flag_words(&mut self.memory, segment, offset)?.watch();
        let from = self.accounts[at].name;
        let what = WaitTarget::Word(comparison, value);
        let wait = Wait { account: at, from, cookie, segment, offset, what, lined_up: true };
        self.wait(wait, out).inspect_err(|_| self.unwatch(segment, offset))
    }

    fn unwatch(&mut self, segment: SegmentName, offset: u64) {
        if let Ok(flag) = flag_words(&mut self.memory, segment, offset) {
            flag.unwatch();
        }
    }

    fn wait(&mut self, wait: Wait, out: &mut impl ReplySink) -> Result<(), Refusal> {
        let mut wait = wait;
        debug_assert_eq!(self.accounts[wait.account].name, wait.from, "a wait is its account's");
        if self.answer_wait(&mut wait, out) {
            return Ok(());
        }
        if self.waits.iter().filter(|other| other.from == wait.from).count() >= MAX_WAITS {
            self.abandon(&wait);
            return Err(Refusal::LockBusy);
        }
        self.line_up_once(&mut wait, out);
        wait.check_invariants();
        self.waits.push(wait);
        Ok(())
    }

    /// Records a waiting claim in the queue, once it has a position.
    fn line_up_once(&mut self, wait: &mut Wait, out: &mut impl ReplySink) {
        if !wait.lined_up && wait.has_claim() {
            wait.lined_up = true;
            self.line_up(wait, out);
        }
    }

    /// Answers all requests whose wait has ended. Called when something may have changed.
    pub fn handle_waits(&mut self, out: &mut impl ReplySink) {
        self.notify_orphans(out);
        self.release_moved(out);
        let mut at = 0;
        while let Some(&wait) = self.waits.get(at) {
            let (mut wait, waits) = (wait, self.waits.len());
            if self.answer_wait(&mut wait, out) {
                debug_assert_eq!(self.waits.len(), waits, "an answer ends no other wait");
                self.waits.remove(at);
            } else {
                self.line_up_once(&mut wait, out);
                debug_assert_eq!(self.waits.len(), waits, "a claim that waits ends no wait");
                self.waits[at] = wait;
                at += 1;
            }
        }
        debug_assert_eq!(at, self.waits.len(), "all waits were looked at");
        self.check_invariants();
    }

    /// Returns true if requests wait, or messages are due.
    pub fn has_waits(&self) -> bool {
        !self.waits.is_empty() || self.orphans || !self.moved.is_empty()
    }

    /// Returns the reason why a lock that is not free cannot be had now, or never.
    pub(super) fn why_taken(&mut self, segment: SegmentName, offset: u64) -> Refusal {
        let dead = self.memory.dead();
        match queue_lock(&mut self.memory, self.ranks, segment, offset) {
            Ok(lock) => match lock.pass_over_withdrawn(|_| false) {
                LockHead::Broken(_) => Refusal::HolderDied,
                LockHead::Held(holder) if dead.contains(&holder) && lock.break_held(holder) => {
                    Refusal::HolderDied
                }
                _ => Refusal::LockBusy,
            },
            Err(why) => why,
        }
    }

    /// Answers a wait if its condition holds. Returns true if the wait has ended.
    fn answer_wait(&mut self, wait: &mut Wait, out: &mut impl ReplySink) -> bool {
        let turn = self.turn(wait).unwrap_or_else(WaitStatus::Refused);
        let account = &mut self.accounts[wait.account];
        debug_assert_eq!(account.name, wait.from, "waits end with their endpoint");
        let cookie = wait.cookie;
        match turn {
            WaitStatus::NotYet => return false,
            WaitStatus::Value(value) => account.answer(out, tell::VALUE, &[cookie, value], &[]),
            WaitStatus::Granted(position, word) => {
                account.answer(out, tell::GRANTED, &[cookie, position, word], &[]);
                self.stuck |= account.is_stuck();
                self.note_grant(wait);
                return true;
            }
            WaitStatus::Refused(why) => {
                let words = [cookie, why as u64, wait.segment.to_bits(), wait.offset];
                account.answer(out, tell::FAILED, &words, &[]);
                self.stuck |= account.is_stuck();
                self.abandon(wait);
                return true;
            }
        }
        self.stuck |= account.is_stuck();
        if matches!(wait.what, WaitTarget::Word(..)) {
            self.unwatch(wait.segment, wait.offset);
        }
        true
    }

    fn turn(&mut self, wait: &mut Wait) -> Result<WaitStatus, Refusal> {
        let Wait { from, segment, offset, .. } = *wait;
        if let WaitTarget::Word(comparison, value) = wait.what {
            let word = flag_words(&mut self.memory, segment, offset)?.get();
            return Ok(if comparison.holds(word, value) {
                WaitStatus::Value(word)
            } else {
                WaitStatus::NotYet
            });
        }
        debug_assert!(!wait.lined_up || wait.has_claim(), "what is recorded has a claim");
        let lock = queue_lock(&mut self.memory, self.ranks, segment, offset)?;
        if let WaitTarget::Lock { position: place @ None, .. } = &mut wait.what
            && let Claim::At(position) = lock.claim(from.rank())
        {
            *place = Some(position);
        }
        if let WaitTarget::Lock { position: Some(position), .. } = wait.what {
            if let Some(word) = lock.enter(position, from.rank()) {
                return Ok(WaitStatus::Granted(position, word));
            }
            // Claims before it may have been given up, or be of ranks that died.
            self.pass_on(segment, offset);
        }
        match self.why_taken(segment, offset) {
            Refusal::LockBusy => Ok(WaitStatus::NotYet),
            why => Err(why),
        }
    }

    /// Gives up the claim or watch of a wait.
    fn abandon(&mut self, wait: &Wait) {
        match wait.what {
            WaitTarget::Word(..) => self.unwatch(wait.segment, wait.offset),
            WaitTarget::Lock { .. } => self.withdraw_claim(wait),
        }
    }

    /// Executes `cookie`: ends a wait that has lasted too long. A wait whose claim is promised,
    /// which only an unlimited one's can be, cannot be ended.
    pub(super) fn cancel(&mut self, at: usize, cookie: u64, out: &mut impl ReplySink) {
        let is_it = |wait: &Wait| (wait.account, wait.cookie) == (at, cookie);
        if self.cancel_later(at, cookie, out) {
            return;
        }
        let Some(place) = self.waits.iter().position(is_it) else { return };
        if self.waits.get(place).is_none_or(|wait| self.is_promised(wait)) {
            return;
        }
        let wait = self.waits.remove(place);
        debug_assert_eq!(wait.from, self.accounts[at].name, "only its requester cancels a wait");
        self.abandon(&wait);
        let words = [cookie, Refusal::TimedOut as u64, wait.segment.to_bits(), wait.offset];
        self.accounts[at].answer(out, tell::FAILED, &words, &[]);
    }

    /// Gives up the waits of a rank, or of an endpoint of it that was opened anew.
    pub(super) fn abandon_all(&mut self, gone: impl Fn(Name) -> bool) {
        let is_gone = |place: &ClaimAccount| gone(place.from);
        self.abandon_laters(&gone);
        let (waits, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waits).into_iter().partition(|wait| gone(wait.from));
        self.waits = rest;
        for wait in &waits {
            // The claim of a promised wait stays: `withdraw_claims_of` decides.
            if !self.is_promised(wait) {
                self.abandon(wait);
            }
        }
        self.withdraw_claims_of(is_gone);
        debug_assert!(waits.iter().all(|wait| gone(wait.from)), "all others wait on");
        debug_assert!(!self.waits.iter().any(|wait| gone(wait.from)), "it waits no more");
    }
}
