//! Flags: words that any rank can set and wait for.

use super::{FLAG_STEP, Granted, nap};
use crate::error::{Refusal, Result, refused};
use crate::request_payload::RequestPayload;
use crate::target::Target;
use clump_am::WaitFor;
use clump_onesided::protocol::ask;
use clump_onesided::{AnswerSink, Comparison, FLAG_BYTES, FlagWords};
use clump_os::clock;
use clump_shm::rank::WaitReason;
use std::time::Duration;

/// A word that any rank sets or adds to, and any rank waits for.
#[derive(Debug)]
pub struct Flag {
    target: Target,
    offset: u64,
}

impl Flag {
    pub(super) fn new(target: Target, offset: u64) -> Self {
        debug_assert!(offset.is_multiple_of(FLAG_STEP) || offset == u64::MAX, "a line each");
        Self { target, offset }
    }

    /// Sets the flag. A rank that sees the new value sees the data that this thread has put to the
    /// flag's node before a [`crate::Rma::fence`] that came before this.
    ///
    /// # Errors
    /// On this node it fails if the operation is refused. On another, [`crate::Rma::quiet`] reports
    /// a refusal.
    pub fn set(&self, value: u64) -> Result<()> {
        self.change(value, false)
    }

    /// Adds to the flag, with the ordering of [`Flag::set`].
    ///
    /// # Errors
    /// Fails as [`Flag::set`] does.
    pub fn add(&self, value: u64) -> Result<()> {
        self.change(value, true)
    }

    /// Returns the flag's value.
    ///
    /// # Errors
    /// Fails as [`Target::load`] does.
    pub fn get(&self) -> Result<u64> {
        self.target.load(self.offset)
    }

    fn change(&self, value: u64, adds: bool) -> Result<()> {
        if self.target.near.is_some() {
            return self.set_near(value, adds);
        }
        debug_assert_ne!(self.target.node, self.target.inner.context.node_number());
        let name = self.target.name().to_bits();
        let words = [name, self.offset, 0, u64::from(adds), value];
        self.target.inner.send(self.target.node, ask::SET, &words, RequestPayload::Nothing)
    }

    fn set_near(&self, value: u64, adds: bool) -> Result<()> {
        debug_assert!(self.target.near.is_some(), "flags of other nodes are set there");
        self.target.access_word();
        if self.near()?.change(value, adds) {
            // Waiters may be any ranks, on any node.
            self.target.inner.context.node().wake_all();
        }
        self.target.notify(self.offset);
        Ok(())
    }

    fn near(&self) -> Result<FlagWords<'_>> {
        let cells = self.target.reach_grown(self.offset, FLAG_BYTES)?;
        let words = FlagWords::over(cells, self.offset);
        words.ok_or_else(|| refused(self.target.name(), self.offset, Refusal::Misaligned))
    }

    /// Waits until the flag compares in this way to `value`. Returns the flag's value.
    ///
    /// # Errors
    /// Fails if its rank has died ([`Refusal::OwnerDead`]), if its node is lost, or if a rank died
    /// and survivors do not continue.
    pub fn wait(&self, comparison: Comparison, value: u64) -> Result<u64> {
        let seen = self.wait_until(comparison, value, None)?;
        seen.ok_or_else(|| refused(self.target.name(), self.offset, Refusal::TimedOut))
    }

    /// Waits as [`Flag::wait`] does, at most for `limit`. Returns `None` when that has passed.
    ///
    /// # Errors
    /// Fails as [`Flag::wait`] does.
    pub fn wait_within(
        &self,
        comparison: Comparison,
        value: u64,
        limit: Duration,
    ) -> Result<Option<u64>> {
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        self.wait_until(comparison, value, Some(clock::now_ns().saturating_add(limit)))
    }

    fn wait_until(
        &self,
        comparison: Comparison,
        value: u64,
        until: Option<u64>,
    ) -> Result<Option<u64>> {
        let Target { inner, node, name, near, .. } = &self.target;
        if near.is_some() {
            let (owner, flag) = (&self.target, self.near()?);
            let offset = self.offset;
            let wait =
                Becomes { owner, offset, flag, comparison, value, until, from: None, seen: None };
            return self.wait_near(wait);
        }
        let words = |cookie| [name.to_bits(), self.offset, cookie, comparison as u64, value];
        let cookie =
            inner.begin(*node, ask::WAIT, AnswerSink::Value, words, RequestPayload::Nothing)?;
        let reason = WaitReason::Word { segment: *name, offset: self.offset, from: None };
        let mut wait = Granted { inner, cookie, until, cancelled: false, reason };
        let waited = inner.endpoint.block_on(&mut wait);
        debug_assert!(until.is_some() || !wait.cancelled, "only waits with a limit are cancelled");
        if wait.cancelled && waited.is_ok() && !inner.has_ended(cookie) {
            inner.cancel(*node, cookie)?;
        }
        match inner.await_one(cookie) {
            Ok(seen) => Ok(Some(seen)),
            Err(error) if error.why() == Some(Refusal::TimedOut) => Ok(None),
            Err(error) => waited.map_err(Into::into).and(Err(error)),
        }
    }
}

impl Flag {
    /// Waits until the flag, which is on this node, is at least `value`; rank `from` has to set it.
    pub(crate) fn wait_for(&self, value: u64, from: u32) -> Result<()> {
        debug_assert_ne!(from, self.target.inner.context.rank(), "a rank waits for others");
        let (owner, flag, comparison) = (&self.target, self.near()?, Comparison::AtLeast);
        let (offset, until, from) = (self.offset, None, Some(from));
        let wait = Becomes { owner, offset, flag, comparison, value, until, from, seen: None };
        self.wait_near(wait).map(drop)
    }

    fn wait_near(&self, mut wait: Becomes<'_>) -> Result<Option<u64>> {
        debug_assert!(std::ptr::eq(wait.owner, &self.target), "the flag is the target's");
        debug_assert!(wait.seen.is_none(), "a wait begins once");
        if wait.look() {
            return Ok(wait.seen);
        }
        wait.flag.watch();
        let waited = self.target.inner.endpoint.block_on(&mut wait);
        wait.flag.unwatch();
        waited?;
        let dead = wait.seen.is_none() && self.target.is_owner_dead();
        debug_assert!(wait.seen.is_some() || dead || wait.until.is_some(), "a wait has an end");
        if dead {
            return Err(refused(self.target.name(), self.offset, Refusal::OwnerDead));
        }
        Ok(wait.seen)
    }
}

struct Becomes<'a> {
    owner: &'a Target,
    offset: u64,
    flag: FlagWords<'a>,
    comparison: Comparison,
    value: u64,
    until: Option<u64>,
    /// Rank that has to set it, if that is known.
    from: Option<u32>,
    seen: Option<u64>,
}

impl Becomes<'_> {
    fn look(&mut self) -> bool {
        self.owner.inner.order_words();
        let word = self.flag.get();
        self.seen = self.comparison.holds(word, self.value).then_some(word);
        self.seen.is_some()
    }
}

impl WaitFor for Becomes<'_> {
    fn done(&mut self) -> clump_am::Result<bool> {
        debug_assert!(self.from.is_none() || self.until.is_none(), "barriers have no time limit");
        let job = self.owner.inner.context.node().job();
        if self.from.is_some()
            && !self.look()
            && let Some(death) = job.first_death()
        {
            return Err(clump_am::ErrorKind::RankDied(death).into());
        }
        let until = self.until;
        let late = || until.is_some_and(|until| clock::now_ns() >= until);
        // Ranks of other nodes cannot change it any more once its rank is dead.
        Ok(self.look() || late() || self.owner.is_owner_dead())
    }

    fn waiting(&self) -> WaitReason {
        let segment = self.owner.name();
        WaitReason::Word { segment, offset: self.offset, from: self.from }
    }

    fn depends_on(&self) -> Option<u32> {
        self.from
    }

    fn nap(&self) -> Duration {
        nap(self.until)
    }

    /// In a barrier other ranks wait for this one.
    fn keeps_failures(&self) -> bool {
        self.from.is_some()
    }
}
