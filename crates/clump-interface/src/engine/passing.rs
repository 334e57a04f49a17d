//! Locks that pass from one rank to its successor without this interface (paper 003, 2: the holder
//! hands the lock to the next).
//!
//! The interface notifies a rank that holds a lock, or waits for it, of the next claim; that rank
//! then reports that it *passed* the lock. Two ranks report on one lock in turn, so the later
//! report may arrive first: it is kept until the earlier one arrives.

use super::account::Account;
use super::claims::{At, ClaimAccount, ClaimState};
use super::wait::{Wait, WaitTarget, queue_lock};
use super::{Engine, ReplySink};
use crate::memory::Memory;
use clump_onesided::Refusal;
use clump_onesided::protocol::tell;
use clump_shm::queue_lock::LockHead;

/// Release of a lock: the rank, the word, and a mark if the lock was passed to the successor at
/// once.
#[derive(Debug, Clone, Copy)]
struct Return {
    at: At,
    rank: u32,
    word: u64,
    passed: bool,
    /// True if it follows from another report: its own arrived early, or its endpoint has closed.
    kept: bool,
    /// True if the rank that releases it has left by now.
    gone: bool,
}

impl<M: Memory> Engine<M> {
    /// Executes `segment offset 0 position word passed`: releases a lock. Returns false when that
    /// is to happen later.
    pub(super) fn unlock(
        &mut self,
        account: usize,
        at: At,
        (word, passed): (u64, bool),
    ) -> Result<bool, Refusal> {
        let from = self.accounts[account].name;
        if let Err(why) = queue_lock(&mut self.memory, self.ranks, at.segment, at.offset) {
            // Nothing can access it any more.
            if self.places.get(at).is_some_and(|place| place.from == from) {
                self.places.remove(at);
                self.end_promise(at.next());
            }
            return Err(why);
        }
        if let Some(place) = self.places.get_mut(at)
            && (place.state, place.from, place.gone) == (ClaimState::Promised, from, false)
        {
            debug_assert_eq!(place.account, account, "an endpoint has one account");
            place.state = ClaimState::Early(word, passed);
            let cookie = place.cookie;
            self.waits.retain(|wait| (wait.from, wait.cookie) != (from, cookie));
            return Ok(false);
        }
        let (rank, kept, gone) = (from.rank(), false, false);
        self.give_back(Return { at, rank, word, passed, kept, gone }).map(|()| true)
    }

    /// Applies a release, and then the kept releases that follow it.
    fn give_back(&mut self, first: Return) -> Result<(), Refusal> {
        debug_assert!(!first.kept && !first.gone, "the first release was reported just now");
        let mut last = first.at;
        let mut next = self.play(first)?;
        while let Some(later) = next {
            debug_assert_eq!(later.at, last.next(), "the lock goes from claim to claim");
            debug_assert!(later.kept, "what follows was reported before, or never will be");
            last = later.at;
            // An error in a kept release is not the fault of the sender of this one, and no sender
            // waits for its result.
            next = self.play(later).unwrap_or(None);
        }
        Ok(())
    }

    /// Applies one release. Returns the next to apply.
    fn play(&mut self, one: Return) -> Result<Option<Return>, Refusal> {
        let Return { at, rank, word, passed, kept, gone } = one;
        debug_assert!(kept || !gone, "the releasing rank has not left");
        if !passed {
            let lock = queue_lock(&mut self.memory, self.ranks, at.segment, at.offset)?;
            if !lock.release(at.position, rank, word) {
                return Err(self.why_not_held(at));
            }
            self.places.remove(at);
            self.end_promise(at.next());
            self.pass_on(at.segment, at.offset);
            return Ok(None);
        }
        let successor = self.places.get(at.next()).copied().filter(ClaimAccount::is_promised);
        let successor = successor.ok_or_else(|| self.why_not_held(at))?;
        let dead = self.memory.dead();
        if !kept && dead.contains(&rank) {
            // Waiting ranks may have been notified of the death already.
            return Err(Refusal::HolderDied);
        }
        let lock = queue_lock(&mut self.memory, self.ranks, at.segment, at.offset)?;
        debug_assert!(successor.is_promised(), "the claim before it decides about it");
        let ranks = (rank, successor.from.rank());
        if !lock.hand_over(at.position, ranks, word) {
            return Err(self.why_not_held(at));
        }
        self.places.remove(at);
        self.waits.retain(|wait| (wait.from, wait.cookie) != (successor.from, successor.cookie));
        let (at, rank) = (at.next(), successor.from.rank());
        let back = Return { at, rank, word, passed: false, kept: true, gone: successor.gone };
        match successor.state {
            ClaimState::Early(word, passed) => {
                self.count_late(&successor);
                return Ok(Some(Return { word, passed, ..back }));
            }
            _ if successor.gone && dead.contains(&rank) => {
                // It may have had the lock: no rank gets it any more.
                self.places.remove(at);
                self.end_promise(at.next());
                self.memory.wake_all();
            }
            // An endpoint that was opened anew, or has left, has no use for it.
            _ if successor.gone => return Ok(Some(back)),
            _ => {
                let state = if gone {
                    ClaimState::Orphaned(word)
                } else {
                    ClaimState::Passed(ranks.0, word)
                };
                self.orphans |= gone;
                if let Some(place) = self.places.get_mut(at) {
                    debug_assert_eq!(place.state, ClaimState::Promised, "a lock goes as promised");
                    place.state = state;
                } else {
                    clump_bug::bug!("the successor is recorded");
                }
            }
        }
        Ok(None)
    }

    fn why_not_held(&mut self, at: At) -> Refusal {
        match self.why_taken(at.segment, at.offset) {
            Refusal::HolderDied => Refusal::HolderDied,
            _ => Refusal::NotHeld,
        }
    }

    /// Counts a kept request of an endpoint as executed. Returns its account, unless the endpoint
    /// has closed and another has its place.
    fn count_late(&mut self, place: &ClaimAccount) -> Option<&mut Account> {
        debug_assert!(matches!(place.state, ClaimState::Early(..)), "only releases are kept here");
        let account = &mut self.accounts[place.account];
        debug_assert!(place.gone || account.name == place.from, "claims end with their endpoint");
        if account.name != place.from {
            return None;
        }
        account.executed += 1;
        self.moved.push(place.account);
        Some(account)
    }

    /// Ends the promise of a claim: the claim before it no longer decides about it.
    fn end_promise(&mut self, at: At) {
        let mut at = at;
        while let Some(place) = self.places.get_mut(at).filter(|place| place.is_promised()) {
            let early = matches!(place.state, ClaimState::Early(..));
            if !early && !place.gone {
                place.state = ClaimState::Ours;
                return;
            }
            let place = *place;
            self.places.remove(at);
            if early && let Some(account) = self.count_late(&place) {
                account.failed += 1;
                let refused = (Refusal::HolderDied, at.segment.to_bits(), at.offset);
                account.first_failure.get_or_insert(refused);
            }
            self.give_up(at, place.from.rank());
            at = at.next();
        }
        debug_assert!(
            !self.places.get(at).is_some_and(ClaimAccount::is_promised),
            "a promise ends with the claim that gave it"
        );
    }

    /// Gives up a claim that waits.
    fn give_up(&mut self, at: At, rank: u32) {
        let lock = queue_lock(&mut self.memory, self.ranks, at.segment, at.offset);
        if lock.is_ok_and(|lock| lock.give_up(at.position, rank)) {
            self.pass_on(at.segment, at.offset);
        }
    }

    /// Records a claim that waits or holds the lock. If it stays, the rank of the claim before it
    /// is notified, if that is of another node too.
    pub(super) fn line_up(&mut self, wait: &Wait, out: &mut impl ReplySink) {
        let Some((at, stays)) = place_of(wait) else {
            clump_bug::bug!("a claim that is recorded has a position");
            return;
        };
        let Wait { account, from, cookie, .. } = *wait;
        debug_assert_eq!(self.accounts[account].name, from, "a claim is of its account");
        let place = ClaimAccount { account, from, cookie, state: ClaimState::Ours, gone: false };
        if !self.places.insert(at, place) || !stays {
            return;
        }
        let before = at.before().and_then(|before| self.places.get(before));
        let Some(&before) = before.filter(|b| !b.gone && b.from != from) else { return };
        let given_back = matches!(before.state, ClaimState::Early(..));
        if given_back || self.memory.dead().contains(&before.from.rank()) {
            return;
        }
        debug_assert_eq!(
            self.accounts[before.account].name, before.from,
            "the notified claim is its own"
        );
        let words = [before.cookie, from.to_bits(), cookie, at.position];
        if self.accounts[before.account].offer(out, tell::NEXT, &words)
            && let Some(place) = self.places.get_mut(at)
        {
            place.state = ClaimState::Promised;
        }
    }

    /// Records that this interface has granted the lock to a claim.
    pub(super) fn note_grant(&mut self, wait: &Wait) {
        let Some((at, _)) = place_of(wait) else {
            clump_bug::bug!("a lock is granted to a claim");
            return;
        };
        let Wait { account, from, cookie, .. } = *wait;
        debug_assert_eq!(self.accounts[account].name, from, "a grant goes to the endpoint");
        if self.places.get(at).is_none_or(|known| (known.from, known.cookie) != (from, cookie)) {
            let place =
                ClaimAccount { account, from, cookie, state: ClaimState::Ours, gone: false };
            self.places.insert(at, place);
        } else if let Some(place) = self.places.get_mut(at) {
            place.state = ClaimState::Ours;
        }
        debug_assert!(!self.is_promised(wait), "no other claim decides about it any more");
    }

    /// Gives up a wait for a lock, unless the lock may be on its way to it.
    pub(super) fn withdraw_claim(&mut self, wait: &Wait) {
        let Some((at, _)) = place_of(wait) else { return };
        self.places.remove(at);
        self.give_up(at, wait.from.rank());
        self.end_promise(at.next());
        self.pass_on(at.segment, at.offset);
        debug_assert!(self.places.get(at).is_none(), "a claim that was given up has no record");
    }

    /// Returns true if the claim before a waiting one decides about it.
    pub(super) fn is_promised(&self, wait: &Wait) -> bool {
        let place = place_of(wait).and_then(|(at, _)| self.places.get(at));
        place.is_some_and(ClaimAccount::is_promised)
    }

    /// Removes the claims of closed endpoints, except those that may have got the lock, or may
    /// still get it.
    pub(super) fn withdraw_claims_of(&mut self, gone: impl Fn(&ClaimAccount) -> bool) {
        for at in self.places.find(&gone) {
            match self.places.get_mut(at) {
                Some(place) if place.is_promised() => place.gone = true,
                Some(_) => {
                    self.places.remove(at);
                    self.end_promise(at.next());
                }
                None => {}
            }
        }
        let stays = |place: &ClaimAccount| place.gone && place.is_promised();
        debug_assert!(!self.places.any(|place| gone(place) && !stays(place)), "promises stay");
    }

    /// Marks the claims to which a rank that has left passed a lock: this interface repeats the
    /// grant.
    pub(super) fn orphan(&mut self, rank: u32) {
        let by_it =
            |place: &ClaimAccount| matches!(place.state, ClaimState::Passed(by, _) if by == rank);
        for at in self.places.find(by_it) {
            if let Some(place) = self.places.get_mut(at)
                && let ClaimState::Passed(_, word) = place.state
            {
                place.state = ClaimState::Orphaned(word);
                self.orphans = true;
            } else {
                clump_bug::bug!("nothing else changes claims meanwhile");
            }
        }
        debug_assert!(!self.places.any(by_it), "what it has passed is orphaned");
    }

    /// Grants locks again that a rank passed before it left. A rank that got the first grant
    /// ignores the second.
    pub(super) fn notify_orphans(&mut self, out: &mut impl ReplySink) {
        if !std::mem::take(&mut self.orphans) {
            return;
        }
        for at in self.places.find(|place| matches!(place.state, ClaimState::Orphaned(_))) {
            let place = self.places.get_mut(at);
            let Some((place, word)) = place.and_then(ClaimAccount::orphaned) else {
                clump_bug::bug!("nothing else changes claims meanwhile");
                continue;
            };
            debug_assert!(!place.gone, "claims end with their endpoint");
            place.state = ClaimState::Ours;
            let account = &mut self.accounts[place.account];
            account.answer(out, tell::GRANTED, &[place.cookie, at.position, word], &[]);
            self.stuck |= account.is_stuck();
        }
    }

    /// Wakes the rank at the head of a lock that has moved on. [`Engine::handle_waits`] notifies
    /// ranks of other nodes.
    pub(super) fn pass_on(&mut self, segment: clump_shm::export::SegmentName, offset: u64) {
        let Self { memory, ranks, .. } = self;
        let dead = memory.dead();
        let Ok(lock) = queue_lock(memory, *ranks, segment, offset) else { return };
        if let LockHead::Offered(rank) = lock.pass_over_withdrawn(|rank| dead.contains(&rank)) {
            self.memory.wake(rank);
        }
    }
}

/// Returns the claim of a wait, once there is one, and true if it stays.
fn place_of(wait: &Wait) -> Option<(At, bool)> {
    let WaitTarget::Lock { position: Some(position), stays } = wait.what else { return None };
    Some((At { segment: wait.segment, offset: wait.offset, position }, stays))
}
