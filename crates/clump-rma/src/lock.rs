//! Locks and flags of a home node, kept by its network interface and by its ranks together (paper
//! 003, 2).

mod flag;

pub use flag::Flag;

use crate::error::{Refusal, Result, refused};
use crate::request_payload::RequestPayload;
use crate::rma::{Inner, Rma};
use crate::segment::Segment;
use crate::target::Target;
use clump_am::WaitFor;
use clump_onesided::protocol::{ask, how};
use clump_onesided::{AnswerSink, LockTurn, TurnStatus};
use clump_os::clock;
use clump_shm::export::SegmentName;
use clump_shm::queue_lock::{Claim, LockHead, QueueLock, lock_words};
use clump_shm::rank::WaitReason;
use clump_trace::Counter;
use std::rc::Rc;
use std::time::Duration;

/// Distance from one flag to the next: a cache line.
const FLAG_STEP: u64 = 64;

/// A fair lock of all ranks, with a word that travels with it. Its home is the node of the rank
/// that exported it.
#[derive(Debug)]
pub struct Lock {
    target: Rc<Target>,
    offset: u64,
}

/// The locks that a rank has exported, mapped once for all of them.
#[derive(Debug, Clone)]
pub struct LockTable {
    target: Rc<Target>,
}

impl LockTable {
    /// Returns lock number `index`.
    pub fn lock(&self, index: u64) -> Lock {
        let bytes = self.target.inner.lock_bytes();
        debug_assert!(bytes.is_multiple_of(64), "locks share no cache line");
        Lock { target: self.target.clone(), offset: index.saturating_mul(bytes) }
    }
}

/// A lock that this thread holds; dropping it releases the lock.
#[derive(Debug)]
#[must_use = "the lock is given back at once"]
pub struct Guard<'a> {
    lock: &'a Lock,
    position: u64,
    word: u64,
    /// Number of the claim at its home; 0: the lock is on this node.
    cookie: u64,
}

/// A lock that this thread holds, without the borrow of a [`Guard`]: for callers whose acquire and
/// release are calls of their own. Dropping it keeps the lock.
#[derive(Debug)]
#[must_use = "the lock is held until it is resumed and released"]
pub struct HeldClaim {
    position: u64,
    word: u64,
    cookie: u64,
}

impl Rma {
    /// Exports `count` locks, all free, their words 0.
    ///
    /// # Errors
    /// Fails as [`Rma::export`] does.
    pub fn export_locks(&self, count: u64) -> Result<Segment> {
        self.export(count.saturating_mul(self.inner.lock_bytes()))
    }

    /// Returns lock number `index` of those exported under that name.
    ///
    /// # Errors
    /// Fails as [`Rma::target`] does.
    pub fn lock(&self, locks: SegmentName, index: u64) -> Result<Lock> {
        Ok(self.lock_table(locks)?.lock(index))
    }

    /// Returns the locks exported under that name, for a thread that uses many of them.
    ///
    /// # Errors
    /// Fails as [`Rma::target`] does.
    pub fn lock_table(&self, locks: SegmentName) -> Result<LockTable> {
        Ok(LockTable { target: Rc::new(self.target(locks)?) })
    }

    /// Exports `count` flags, all 0.
    ///
    /// # Errors
    /// Fails as [`Rma::export`] does.
    pub fn export_flags(&self, count: u64) -> Result<Segment> {
        self.export(count.saturating_mul(FLAG_STEP))
    }

    /// Returns flag number `index` of those exported under that name.
    ///
    /// # Errors
    /// Fails as [`Rma::target`] does.
    pub fn flag(&self, flags: SegmentName, index: u64) -> Result<Flag> {
        let target = self.target(flags)?;
        Ok(Flag::new(target, index.saturating_mul(FLAG_STEP)))
    }
}

impl Inner {
    /// Returns the distance from one lock to the next: whole cache lines.
    fn lock_bytes(&self) -> u64 {
        (lock_words(self.context.node().ranks()) * 8).next_multiple_of(64) as u64
    }
}

impl Lock {
    /// Waits for the lock. Claims are served in the order in which they reach its home.
    ///
    /// # Errors
    /// Fails if the rank that held it died with it, or while the lock was on its way to that rank
    /// ([`Refusal::HolderDied`]), and so for all ranks from then on; if the rank that exported it
    /// died ([`Refusal::OwnerDead`]); if its home is lost; if a rank died and survivors do not
    /// continue.
    pub fn acquire(&self) -> Result<Guard<'_>> {
        let guard = self.counted(self.acquire_until(None)?)?;
        guard.ok_or_else(|| refused(self.target.name(), self.offset, Refusal::TimedOut))
    }

    /// Waits for the lock, at most for `limit`. Returns `None` when that has passed.
    ///
    /// # Errors
    /// Fails as [`Lock::acquire`] does.
    pub fn acquire_within(&self, limit: Duration) -> Result<Option<Guard<'_>>> {
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        self.counted(self.acquire_until(Some(clock::now_ns().saturating_add(limit)))?)
    }

    /// Takes the lock if it is free. Returns `None` while another rank holds it or waits for it.
    /// That is also the result after the death of the holder, until its node or the launcher has
    /// notified the home of the lock; from then on every try fails with [`Refusal::HolderDied`], as
    /// every wait does.
    ///
    /// # Errors
    /// Fails as [`Lock::acquire`] does.
    pub fn try_acquire(&self) -> Result<Option<Guard<'_>>> {
        self.counted(self.try_once()?)
    }

    /// Counts the end of an attempt.
    fn counted<'a>(&self, guard: Option<Guard<'a>>) -> Result<Option<Guard<'a>>> {
        let counter = if guard.is_some() { Counter::RmaLocks } else { Counter::RmaLocksFailed };
        self.inner().context.counters().bump(counter);
        Ok(guard)
    }

    fn try_once(&self) -> Result<Option<Guard<'_>>> {
        let rank = self.rank();
        if self.target.near.is_none() {
            let cookie = self.ask(how::TRIES)?;
            return match self.await_grant(cookie, None) {
                Err(error) if error.why() == Some(Refusal::LockBusy) => Ok(None),
                granted => granted,
            };
        }
        debug_assert!(self.target.near.is_some(), "others ask the home");
        self.target.access_word();
        let lock = self.near()?;
        lock.pass_over_withdrawn(|rank| self.is_dead(rank));
        match lock.claim_free(rank) {
            Claim::None => match lock.pass_over_withdrawn(|_| false) {
                LockHead::Broken(_) => Err(self.refused(Refusal::HolderDied)),
                LockHead::Held(holder) if self.is_dead(holder) && lock.break_held(holder) => {
                    Err(self.refused(Refusal::HolderDied))
                }
                _ => Ok(None),
            },
            Claim::At(position) => {
                let word = lock.enter(position, rank);
                Ok(word.map(|word| Guard { lock: self, position, word, cookie: 0 }))
            }
        }
    }

    fn acquire_until(&self, until: Option<u64>) -> Result<Option<Guard<'_>>> {
        if self.target.near.is_none() {
            let cookie = self.ask(if until.is_some() { how::WAITS } else { how::STAYS })?;
            return self.await_grant(cookie, until);
        }
        self.target.access_word();
        let lock = self.near()?;
        let (turn, end) = (LockTurn::new(self.rank(), self.target.name().rank()), None);
        let mut mine = MyTurn { owner: self, lock, turn, until, end };
        let waited =
            if mine.is_over() { Ok(()) } else { self.inner().endpoint.block_on(&mut mine) };
        let MyTurn { turn, end, .. } = mine;
        debug_assert!(end.is_some() || waited.is_err(), "a wait ends or fails");
        debug_assert!(until.is_some() || !matches!(end, Some(LockWaitEnd::TimedOut)));
        if let Some(end @ LockWaitEnd::Taken(..)) = end {
            return self.end_of(end);
        }
        if turn.give_up(lock) {
            self.pass_on(lock);
        }
        waited?;
        end.map_or(Ok(None), |end| self.end_of(end))
    }

    fn end_of(&self, end: LockWaitEnd) -> Result<Option<Guard<'_>>> {
        debug_assert!(self.target.near.is_some(), "waits for other nodes end by an answer");
        match end {
            LockWaitEnd::Taken(position, word) => {
                Ok(Some(Guard { lock: self, position, word, cookie: 0 }))
            }
            LockWaitEnd::Died(why) => Err(self.refused(why)),
            LockWaitEnd::TimedOut => Ok(None),
        }
    }

    /// Waits for the answer of the home's interface.
    fn await_grant(&self, cookie: u64, until: Option<u64>) -> Result<Option<Guard<'_>>> {
        let inner = self.inner();
        debug_assert!(self.target.near.is_none(), "ranks of the home take the lock themselves");
        let mut wait =
            Granted { inner, cookie, until, cancelled: false, reason: self.wait_reason(None) };
        let waited = inner.endpoint.block_on(&mut wait);
        debug_assert!(until.is_some() || !wait.cancelled, "only waits with a limit are cancelled");
        if wait.cancelled && waited.is_ok() && !inner.has_ended(cookie) {
            inner.cancel(self.target.node, cookie)?;
        }
        match inner.await_pair(cookie) {
            Ok((position, word)) => Ok(Some(Guard { lock: self, position, word, cookie })),
            Err(error) if error.why() == Some(Refusal::TimedOut) => Ok(None),
            Err(error) => waited.map_err(Into::into).and(Err(error)),
        }
    }

    fn ask(&self, how: u64) -> Result<u64> {
        debug_assert!(self.target.near.is_none(), "ranks of the home claim by themselves");
        debug_assert!(matches!(how, how::WAITS | how::TRIES | how::STAYS), "a mode of a request");
        let words = |cookie| [self.target.name().to_bits(), self.offset, cookie, how];
        self.inner().begin(
            self.target.node,
            ask::LOCK,
            AnswerSink::Value,
            words,
            RequestPayload::Nothing,
        )
    }

    fn near(&self) -> Result<QueueLock<'_>> {
        debug_assert!(self.target.near.is_some(), "only a home has the words of a lock");
        let count = lock_words(self.inner().context.node().ranks());
        debug_assert!(count as u64 * 8 <= self.inner().lock_bytes(), "locks do not overlap");
        let cells = self.target.reach_grown(self.offset, count as u64 * 8)?;
        let words = cells.words(self.offset, count).and_then(QueueLock::over);
        words.ok_or_else(|| self.refused(Refusal::Misaligned))
    }

    /// Wakes the rank to which the lock is offered.
    fn pass_on(&self, lock: QueueLock<'_>) {
        if let LockHead::Offered(next) = lock.pass_over_withdrawn(|rank| self.is_dead(rank)) {
            wake(self.inner(), next);
        }
    }

    fn release(&self, (position, word): (u64, u64), cookie: u64) -> Result<()> {
        let near = self.target.near.is_some();
        debug_assert_eq!(cookie == 0, near, "only homes on other nodes use it");
        if !near {
            let (inner, node) = (self.inner(), self.target.node);
            // The successor is notified before the home.
            let passed = u64::from(inner.pass(cookie, node, (position, word)));
            let words = [self.target.name().to_bits(), self.offset, 0, position, word, passed];
            return inner.send(node, ask::UNLOCK, &words, RequestPayload::Nothing);
        }
        self.target.access_word();
        let lock = self.near()?;
        if !lock.release(position, self.rank(), word) {
            return Err(self.refused(Refusal::NotHeld));
        }
        self.pass_on(lock);
        Ok(())
    }

    fn inner(&self) -> &Inner {
        &self.target.inner
    }

    fn rank(&self) -> u32 {
        self.inner().context.rank()
    }

    /// Returns the wait reason that waits for this lock publish.
    fn wait_reason(&self, holder: Option<u32>) -> WaitReason {
        WaitReason::Lock { segment: self.target.name(), offset: self.offset, holder }
    }

    fn is_dead(&self, rank: u32) -> bool {
        self.inner().context.node().death_of(rank).is_some()
    }

    fn refused(&self, why: Refusal) -> crate::Error {
        refused(self.target.name(), self.offset, why)
    }
}

/// Wakes a rank of this node, or this node's interface on behalf of a rank of another.
pub(crate) fn wake(inner: &Inner, rank: u32) {
    let node = inner.context.node();
    if !inner.context.is_near(rank) {
        if let Some(actor) = inner.context.actor() {
            actor.notify_executor();
        } else if let Some(alarm) = node.interface_alarm() {
            alarm.ring();
        }
    } else if let Some(block) = node.rank(rank) {
        let alarm = node.alarm(rank).map(|alarm| &**alarm);
        block.park().wake_if_asleep(node.fence(), alarm);
    } else {
        clump_bug::bug!("every rank of this node has a block");
    }
}

impl Lock {
    /// Returns the guard of a lock whose [`Guard::keep`] gave `claim` on this thread.
    #[expect(clippy::needless_pass_by_value, reason = "the claim is used up")]
    pub fn resume(&self, claim: HeldClaim) -> Guard<'_> {
        let HeldClaim { position, word, cookie } = claim;
        debug_assert_eq!(cookie == 0, self.target.near.is_some(), "as it was acquired");
        Guard { lock: self, position, word, cookie }
    }
}

impl Guard<'_> {
    /// Keeps the lock without a guard.
    pub fn keep(self) -> HeldClaim {
        let claim = HeldClaim { position: self.position, word: self.word, cookie: self.cookie };
        std::mem::forget(self);
        claim
    }

    /// Returns the word that came with the lock.
    pub fn word(&self) -> u64 {
        self.word
    }

    /// Sets the word that travels on with the lock.
    pub fn set_word(&mut self, word: u64) {
        self.word = word;
    }

    /// Releases the lock. On another node it is passed directly to the successor, if that is known
    /// by now. Data put to other nodes meanwhile has arrived only after [`Rma::quiet`].
    ///
    /// # Errors
    /// Fails if its home is lost.
    pub fn release(self) -> Result<()> {
        let Guard { lock, position, word, cookie } = self;
        std::mem::forget(self);
        lock.release((position, word), cookie)
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        // The rank holds the lock, not its child by `fork`.
        if clump_os::forked::is_child() {
            return;
        }
        debug_assert_eq!(self.cookie == 0, self.lock.target.near.is_some(), "as it was acquired");
        // A home that is lost takes the lock with it.
        let _ = self.lock.release((self.position, self.word), self.cookie);
    }
}

#[derive(Debug, Clone, Copy)]
enum LockWaitEnd {
    Taken(u64, u64),
    Died(Refusal),
    TimedOut,
}

/// Waits for the head of a lock of this node.
struct MyTurn<'a> {
    owner: &'a Lock,
    lock: QueueLock<'a>,
    turn: LockTurn,
    until: Option<u64>,
    end: Option<LockWaitEnd>,
}

impl MyTurn<'_> {
    fn is_over(&mut self) -> bool {
        self.owner.inner().order_words();
        self.end =
            self.end.or_else(|| match self.turn.poll(self.lock, |r| self.owner.is_dead(r)) {
                TurnStatus::Taken(position, word) => Some(LockWaitEnd::Taken(position, word)),
                TurnStatus::HolderDied => Some(LockWaitEnd::Died(Refusal::HolderDied)),
                TurnStatus::OwnerDied => Some(LockWaitEnd::Died(Refusal::OwnerDead)),
                TurnStatus::NotYet => None,
            });
        if self.end.is_none() && self.until.is_some_and(|until| clock::now_ns() >= until) {
            self.end = Some(LockWaitEnd::TimedOut);
        }
        let taken = matches!(self.end, Some(LockWaitEnd::Taken(..)));
        debug_assert!(!taken || self.turn.has_claimed(), "the lock is acquired by a claim");
        self.end.is_some()
    }
}

impl WaitFor for MyTurn<'_> {
    fn done(&mut self) -> clump_am::Result<bool> {
        Ok(self.is_over())
    }

    fn waiting(&self) -> WaitReason {
        self.owner.wait_reason(self.lock.holder())
    }

    fn nap(&self) -> Duration {
        nap(self.until)
    }
}

/// Waits for an answer, or until its time limit.
pub(crate) struct Granted<'a> {
    pub(crate) inner: &'a Inner,
    pub(crate) cookie: u64,
    pub(crate) until: Option<u64>,
    pub(crate) cancelled: bool,
    /// The wait, for observers.
    pub(crate) reason: WaitReason,
}

impl WaitFor for Granted<'_> {
    fn done(&mut self) -> clump_am::Result<bool> {
        debug_assert_ne!(self.cookie, 0, "a wait has an answer");
        if self.inner.has_ended(self.cookie) {
            return Ok(true);
        }
        self.cancelled = self.until.is_some_and(|until| clock::now_ns() >= until);
        Ok(self.cancelled)
    }

    fn waiting(&self) -> WaitReason {
        self.reason
    }

    fn nap(&self) -> Duration {
        nap(self.until)
    }
}

/// Returns the time to sleep until the next check.
pub(crate) fn nap(until: Option<u64>) -> Duration {
    const NAP: Duration = Duration::from_millis(10);
    let left = |until: u64| Duration::from_nanos(until.saturating_sub(clock::now_ns()));
    until.map_or(NAP, |until| left(until).min(NAP))
}
