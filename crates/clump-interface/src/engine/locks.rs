//! Locks that pass from one rank to its successor without this interface (paper 003, 2: the holder
//! hands the lock to the next).
//!
//! The interface notifies a rank that holds a lock, or waits for it, of the next claim; that rank
//! then reports that it *passed* the lock. Two ranks report on one lock in turn, so the later
//! report may arrive first: it is kept until the earlier one arrives.

use super::accounts::Accounts;
use super::claims::{At, ClaimAccount, ClaimState, Claims};
use super::execution_context::ExecutionContext;
use clump_onesided::Refusal;
use clump_onesided::protocol::tell;
use clump_shm::name::Name;

/// The claims of ranks of other nodes on the locks of this node.
#[derive(Debug, Default)]
pub(super) struct Locks {
    pub(super) claims: Claims,
    /// True if some claims are orphaned: this interface has to repeat the grant of a rank that has
    /// left.
    pub(super) orphans: bool,
}

/// Result of a release.
pub(super) struct Released {
    /// True if it was executed; else it is kept until the report before it arrives.
    pub(super) executed: bool,
    /// Claims that wait no more, by endpoint and cookie: their locks were passed to them.
    pub(super) ended: Vec<(Name, u64)>,
}

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

impl Locks {
    /// Executes `segment offset 0 position word passed`: releases a lock, now or later.
    pub(super) fn unlock(
        &mut self,
        account: usize,
        at: At,
        (word, passed): (u64, bool),
        on: &mut ExecutionContext<'_>,
    ) -> Result<Released, Refusal> {
        let from = on.accounts[account].name;
        if let Err(why) = on.lock(at.segment, at.offset) {
            // Nothing can access it any more.
            if self.claims.get(at).is_some_and(|claim| claim.from == from) {
                self.claims.remove(at);
                self.end_promise(at.next(), on);
            }
            return Err(why);
        }
        if let Some(claim) = self.claims.get_mut(at)
            && (claim.state, claim.from, claim.gone) == (ClaimState::Promised, from, false)
        {
            debug_assert_eq!(claim.account, account, "an endpoint has one account");
            claim.state = ClaimState::Early(word, passed);
            return Ok(Released { executed: false, ended: vec![(from, claim.cookie)] });
        }
        let (rank, kept, gone) = (from.rank(), false, false);
        let ended = self.give_back(Return { at, rank, word, passed, kept, gone }, on)?;
        Ok(Released { executed: true, ended })
    }

    /// Applies a release, and then the kept releases that follow it. Returns the claims to which
    /// the lock was passed.
    fn give_back(
        &mut self,
        first: Return,
        on: &mut ExecutionContext<'_>,
    ) -> Result<Vec<(Name, u64)>, Refusal> {
        debug_assert!(!first.kept && !first.gone, "the first release was reported just now");
        let (mut last, mut ended) = (first.at, Vec::new());
        let mut next = self.play(first, &mut ended, on)?;
        while let Some(later) = next {
            debug_assert_eq!(later.at, last.next(), "the lock goes from claim to claim");
            debug_assert!(later.kept, "what follows was reported before, or never will be");
            last = later.at;
            // An error in a kept release is not the fault of the sender of this one, and no sender
            // waits for its result.
            next = self.play(later, &mut ended, on).unwrap_or(None);
        }
        Ok(ended)
    }

    /// Applies one release. Returns the next to apply.
    fn play(
        &mut self,
        one: Return,
        ended: &mut Vec<(Name, u64)>,
        on: &mut ExecutionContext<'_>,
    ) -> Result<Option<Return>, Refusal> {
        let Return { at, rank, word, passed, kept, gone } = one;
        debug_assert!(kept || !gone, "the releasing rank has not left");
        if !passed {
            let lock = on.lock(at.segment, at.offset)?;
            if !lock.release(at.position, rank, word) {
                return Err(why_not_held(at, on));
            }
            self.claims.remove(at);
            self.end_promise(at.next(), on);
            on.pass_on(at.segment, at.offset);
            return Ok(None);
        }
        let successor = self.claims.get(at.next()).copied().filter(ClaimAccount::is_promised);
        let successor = successor.ok_or_else(|| why_not_held(at, on))?;
        let dead = on.memory.dead();
        if !kept && dead.contains(&rank) {
            // Waiting ranks may have been notified of the death already.
            return Err(Refusal::HolderDied);
        }
        let lock = on.lock(at.segment, at.offset)?;
        debug_assert!(successor.is_promised(), "the claim before it decides about it");
        let ranks = (rank, successor.from.rank());
        if !lock.hand_over(at.position, ranks, word) {
            return Err(why_not_held(at, on));
        }
        self.claims.remove(at);
        ended.push((successor.from, successor.cookie));
        let (at, rank) = (at.next(), successor.from.rank());
        let back = Return { at, rank, word, passed: false, kept: true, gone: successor.gone };
        match successor.state {
            ClaimState::Early(word, passed) => {
                count_late(&successor, on.accounts);
                return Ok(Some(Return { word, passed, ..back }));
            }
            _ if successor.gone && dead.contains(&rank) => {
                // It may have had the lock: no rank gets it any more.
                self.claims.remove(at);
                self.end_promise(at.next(), on);
                on.memory.wake_all();
            }
            // An endpoint that was opened anew, or has left, has no use for it.
            _ if successor.gone => return Ok(Some(back)),
            _ => self.record_passed(at, (ranks.0, word), gone),
        }
        Ok(None)
    }

    /// Records that a rank, which has left by now if `gone`, has passed a lock to a claim.
    fn record_passed(&mut self, at: At, (by, word): (u32, u64), gone: bool) {
        let Some(claim) = self.claims.get_mut(at) else {
            clump_bug::bug!("the successor is recorded");
            return;
        };
        debug_assert_eq!(claim.state, ClaimState::Promised, "a lock goes as promised");
        claim.state = if gone { ClaimState::Orphaned(word) } else { ClaimState::Passed(by, word) };
        self.orphans |= gone;
    }

    /// Ends the promise of a claim: the claim before it no longer decides about it.
    fn end_promise(&mut self, mut at: At, on: &mut ExecutionContext<'_>) {
        while let Some(claim) = self.claims.get_mut(at).filter(|claim| claim.is_promised()) {
            let early = matches!(claim.state, ClaimState::Early(..));
            if !early && !claim.gone {
                claim.state = ClaimState::Ours;
                return;
            }
            let claim = *claim;
            self.claims.remove(at);
            if early && count_late(&claim, on.accounts) {
                let refused = (Refusal::HolderDied, at.segment.to_bits(), at.offset);
                on.accounts[claim.account].fail(refused);
            }
            on.give_up(at, claim.from.rank());
            at = at.next();
        }
        debug_assert!(!self.is_promised(at), "a promise ends with the claim that gave it");
    }

    /// Records a claim that waits or holds the lock. If it `stays`, the rank of the claim before it
    /// is notified, if that is of another node too.
    pub(super) fn line_up(
        &mut self,
        at: At,
        claim: ClaimAccount,
        stays: bool,
        on: &mut ExecutionContext<'_>,
    ) {
        let ClaimAccount { account, from, cookie, .. } = claim;
        debug_assert_eq!(on.accounts[account].name, from, "a claim is of its account");
        if !self.claims.insert(at, claim) || !stays {
            return;
        }
        let before = at.before().and_then(|before| self.claims.get(before));
        let Some(&before) = before.filter(|b| !b.gone && b.from != from) else { return };
        let given_back = matches!(before.state, ClaimState::Early(..));
        if given_back || on.memory.dead().contains(&before.from.rank()) {
            return;
        }
        let name = on.accounts[before.account].name;
        debug_assert_eq!(name, before.from, "the notified claim is its own");
        let words = [before.cookie, from.to_bits(), cookie, at.position];
        if on.accounts.offer(before.account, on.out, (tell::NEXT, &words))
            && let Some(claim) = self.claims.get_mut(at)
        {
            claim.state = ClaimState::Promised;
        }
    }

    /// Records that this interface has granted the lock to a claim.
    pub(super) fn grant(&mut self, at: At, claim: ClaimAccount) {
        let (from, cookie) = (claim.from, claim.cookie);
        if self.claims.get(at).is_none_or(|known| (known.from, known.cookie) != (from, cookie)) {
            self.claims.insert(at, claim);
        } else if let Some(claim) = self.claims.get_mut(at) {
            claim.state = ClaimState::Ours;
        }
        debug_assert!(!self.is_promised(at), "no other claim decides about it any more");
    }

    /// Gives up the waiting claim of a rank, unless the lock may be on its way to it.
    pub(super) fn withdraw(&mut self, at: At, rank: u32, on: &mut ExecutionContext<'_>) {
        self.claims.remove(at);
        on.give_up(at, rank);
        self.end_promise(at.next(), on);
        on.pass_on(at.segment, at.offset);
        debug_assert!(self.claims.get(at).is_none(), "a claim that was given up has no record");
    }

    /// Returns true if the claim before one decides about it.
    pub(super) fn is_promised(&self, at: At) -> bool {
        self.claims.get(at).is_some_and(ClaimAccount::is_promised)
    }

    /// Removes the claims of closed endpoints, except those that may have got the lock, or may
    /// still get it.
    pub(super) fn withdraw_closed(
        &mut self,
        gone: impl Fn(&ClaimAccount) -> bool,
        on: &mut ExecutionContext<'_>,
    ) {
        for at in self.claims.find(&gone) {
            match self.claims.get_mut(at) {
                Some(claim) if claim.is_promised() => claim.gone = true,
                Some(_) => {
                    self.claims.remove(at);
                    self.end_promise(at.next(), on);
                }
                None => {}
            }
        }
        let stays = |claim: &ClaimAccount| claim.gone && claim.is_promised();
        debug_assert!(!self.claims.any(|claim| gone(claim) && !stays(claim)), "promises stay");
    }

    /// Marks the claims to which a rank that has left passed a lock: this interface repeats the
    /// grant.
    pub(super) fn orphan(&mut self, rank: u32) {
        let by_it =
            |claim: &ClaimAccount| matches!(claim.state, ClaimState::Passed(by, _) if by == rank);
        for at in self.claims.find(by_it) {
            if let Some(claim) = self.claims.get_mut(at)
                && let ClaimState::Passed(_, word) = claim.state
            {
                claim.state = ClaimState::Orphaned(word);
                self.orphans = true;
            } else {
                clump_bug::bug!("nothing else changes claims meanwhile");
            }
        }
        debug_assert!(!self.claims.any(by_it), "what it has passed is orphaned");
    }

    /// Returns true if grants are to be repeated.
    #[inline]
    pub(super) fn has_orphans(&self) -> bool {
        self.orphans
    }

    /// Grants locks again that a rank passed before it left. A rank that got the first grant
    /// ignores the second.
    pub(super) fn notify_orphans(&mut self, on: &mut ExecutionContext<'_>) {
        if !std::mem::take(&mut self.orphans) {
            return;
        }
        for at in self.claims.find(|claim| matches!(claim.state, ClaimState::Orphaned(_))) {
            let claim = self.claims.get_mut(at);
            let Some((claim, word)) = claim.and_then(ClaimAccount::orphaned) else {
                clump_bug::bug!("nothing else changes claims meanwhile");
                continue;
            };
            debug_assert!(!claim.gone, "claims end with their endpoint");
            claim.state = ClaimState::Ours;
            on.answer(claim.account, tell::GRANTED, &[claim.cookie, at.position, word]);
        }
    }

    /// Checks that each claim is of its endpoint, and that orphaned ones are found.
    pub(super) fn check_invariants(&self, accounts: &Accounts) {
        self.claims.check_invariants();
        let all = self.claims.find(|_| true);
        for claim in all.iter().filter_map(|at| self.claims.get(*at)) {
            let ClaimAccount { account, from, state, gone, .. } = *claim;
            debug_assert!(account < accounts.len(), "a claim has an account");
            let name = accounts[account].name;
            let place = |name: Name| (name.rank(), name.index());
            debug_assert_eq!(place(name), place(from), "the account of a claim is of its place");
            debug_assert!(gone || name == from, "of the same endpoint, unless that is gone");
            debug_assert!(!gone || claim.is_promised(), "only promises outlive an endpoint");
            let orphan = matches!(state, ClaimState::Orphaned(_));
            debug_assert!(!orphan || self.orphans, "orphaned claims are granted from here");
        }
    }
}

fn why_not_held(at: At, on: &mut ExecutionContext<'_>) -> Refusal {
    match on.why_taken(at.segment, at.offset) {
        Refusal::HolderDied => Refusal::HolderDied,
        _ => Refusal::NotHeld,
    }
}

/// Counts a kept request of an endpoint as executed. Returns false if the endpoint has closed and
/// another has its place.
fn count_late(claim: &ClaimAccount, accounts: &mut Accounts) -> bool {
    debug_assert!(matches!(claim.state, ClaimState::Early(..)), "only releases are kept here");
    let name = accounts[claim.account].name;
    debug_assert!(claim.gone || name == claim.from, "claims end with their endpoint");
    let same = name == claim.from;
    if same {
        accounts.on_ended_later(claim.account);
    }
    same
}
