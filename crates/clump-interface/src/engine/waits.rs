//! Requests whose answer has to wait for another rank: locks, and words that are to reach a value.

use super::accounts::Accounts;
use super::execution_context::ExecutionContext;
use super::locks::Locks;
use super::wait::{Wait, WaitTarget};
use clump_onesided::protocol::{how, tell};
use clump_onesided::{Comparison, Refusal};
use clump_shm::export::SegmentName;
use clump_shm::name::Name;
use clump_shm::queue_lock::Claim;

/// Maximum number of waits of an endpoint at one time: it is one thread, which waits for one thing.
const MAX_WAITS: usize = 64;

/// The requests that wait, in the order of their arrival.
#[derive(Debug, Default)]
pub(super) struct Waits {
    all: Vec<Wait>,
}

impl Waits {
    /// Executes `segment offset cookie how`: takes a lock, or waits for it unless it only tries.
    pub(super) fn lock(
        &mut self,
        account: usize,
        (segment, offset, cookie): (SegmentName, u64, u64),
        how: u64,
        (locks, on): (&mut Locks, &mut ExecutionContext<'_>),
    ) -> Result<(), Refusal> {
        let tries = match how {
            how::WAITS | how::STAYS => false,
            how::TRIES => true,
            _ => return Err(Refusal::Unknown),
        };
        let from = on.accounts[account].name;
        if tries {
            // Claims of ranks that died waiting do not count.
            on.pass_on(segment, offset);
        }
        let lock = on.lock(segment, offset)?;
        let claim = if tries { lock.claim_free(from.rank()) } else { lock.claim(from.rank()) };
        let position = match claim {
            Claim::None if tries => return Err(on.why_taken(segment, offset)),
            Claim::None => None,
            Claim::At(position) => Some(position),
        };
        debug_assert!(!tries || position.is_some(), "a try does not wait for room for a claim");
        let what = WaitTarget::Lock { position, stays: how == how::STAYS };
        let lined_up = false;
        self.wait(Wait { account, from, cookie, segment, offset, what, lined_up }, locks, on)
    }

    /// Executes `segment offset cookie comparison value`: waits for a flag.
    pub(super) fn watch(
        &mut self,
        account: usize,
        (segment, offset, cookie): (SegmentName, u64, u64),
        (comparison, value): (u64, u64),
        (locks, on): (&mut Locks, &mut ExecutionContext<'_>),
    ) -> Result<(), Refusal> {
        let comparison = Comparison::from_bits(comparison).ok_or(Refusal::Unknown)?;
        on.flag(segment, offset)?.watch();
        let from = on.accounts[account].name;
        let (what, lined_up) = (WaitTarget::Word(comparison, value), true);
        self.wait(Wait { account, from, cookie, segment, offset, what, lined_up }, locks, on)
    }

    fn wait(
        &mut self,
        mut wait: Wait,
        locks: &mut Locks,
        on: &mut ExecutionContext<'_>,
    ) -> Result<(), Refusal> {
        debug_assert_eq!(on.accounts[wait.account].name, wait.from, "a wait is its account's");
        if wait.answer(locks, on) {
            return Ok(());
        }
        if self.all.iter().filter(|other| other.from == wait.from).count() >= MAX_WAITS {
            wait.abandon(locks, on);
            return Err(Refusal::LockBusy);
        }
        wait.line_up(locks, on);
        self.all.push(wait);
        Ok(())
    }

    /// Answers all requests whose wait has ended.
    pub(super) fn answer(&mut self, locks: &mut Locks, on: &mut ExecutionContext<'_>) {
        self.all.retain_mut(|wait| {
            let ended = wait.answer(locks, on);
            if !ended {
                wait.line_up(locks, on);
            }
            !ended
        });
        debug_assert!(self.all.iter().all(|wait| wait.account < on.accounts.len()), "they stay");
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Removes waits whose claims have got their locks in another way.
    pub(super) fn end(&mut self, ended: &[(Name, u64)]) {
        if !ended.is_empty() {
            self.all.retain(|wait| !ended.contains(&(wait.from, wait.cookie)));
        }
        let is_ended = |wait: &Wait| ended.contains(&(wait.from, wait.cookie));
        debug_assert!(!self.all.iter().any(is_ended), "they wait no more");
    }

    /// Executes `cookie`: ends a wait that has lasted too long. A wait whose claim is promised,
    /// which only an unlimited one's can be, cannot be ended.
    pub(super) fn cancel(
        &mut self,
        account: usize,
        cookie: u64,
        (locks, on): (&mut Locks, &mut ExecutionContext<'_>),
    ) {
        let is_it = |wait: &Wait| (wait.account, wait.cookie) == (account, cookie);
        let Some(place) = self.all.iter().position(is_it) else { return };
        if self.all.get(place).is_none_or(|wait| is_promised(wait, locks)) {
            return;
        }
        let wait = self.all.remove(place);
        debug_assert_eq!(wait.from, on.accounts[account].name, "only its requester cancels it");
        wait.abandon(locks, on);
        let words = [cookie, Refusal::TimedOut as u64, wait.segment.to_bits(), wait.offset];
        on.answer(account, tell::FAILED, &words);
    }

    /// Gives up the waits and claims of closed endpoints.
    pub(super) fn abandon(
        &mut self,
        gone: impl Fn(Name) -> bool,
        locks: &mut Locks,
        on: &mut ExecutionContext<'_>,
    ) {
        let waits: Vec<_> = self.all.extract_if(.., |wait| gone(wait.from)).collect();
        for wait in &waits {
            // The claim of a promised wait stays: `withdraw_closed` decides.
            if !is_promised(wait, locks) {
                wait.abandon(locks, on);
            }
        }
        locks.withdraw_closed(|claim| gone(claim.from), on);
        debug_assert!(waits.iter().all(|wait| gone(wait.from)), "all others wait on");
        debug_assert!(!self.has_any(gone), "they wait no more");
    }

    /// Returns true if an endpoint waits.
    pub(super) fn has_any(&self, like: impl Fn(Name) -> bool) -> bool {
        self.all.iter().any(|wait| like(wait.from))
    }

    /// Checks that each wait is of its account, and that an endpoint has few.
    pub(super) fn check_invariants(&self, accounts: &Accounts) {
        for wait in &self.all {
            let of_it = self.all.iter().filter(|other| other.from == wait.from).count();
            debug_assert!(of_it <= MAX_WAITS, "an endpoint has few waits");
            debug_assert!(wait.account < accounts.len(), "a wait has an account");
            let name = accounts[wait.account].name;
            debug_assert_eq!(name, wait.from, "the account of a wait is that of its endpoint");
            wait.check_invariants();
        }
    }
}

/// Returns true if the claim before a waiting one decides about it.
fn is_promised(wait: &Wait, locks: &Locks) -> bool {
    wait.claim().is_some_and(|(at, _)| locks.is_promised(at))
}
