//! A thread's access to the global address space: completion, and what all arrays share.

use crate::aggregator::{Aggregation, Aggregator, PeerSegment, PgasOptions};
use crate::error::{Error, ErrorKind, Result};
use crate::stored::{COUNT_BYTES, StoreCounts};
use clump_am::{AsContext, RankContext};
use clump_coll::Team;
use clump_os::clock;
use clump_rma::{Rma, SegmentName, Target};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// The global address space, as one thread of a rank uses it. Clones share all state.
#[derive(Debug, Clone)]
pub struct Pgas {
    pub(crate) inner: Rc<Inner>,
}

/// Messages that are collected beside the updates, and leave when they do.
pub(crate) trait Collected: std::fmt::Debug {
    /// Sends those that wait too long.
    fn send_old(&self, now: u64) -> Result<()>;
    /// Sends all.
    fn send_all(&self) -> Result<()>;
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) rma: Rma,
    pub(crate) team: Arc<Team>,
    pub(crate) aggregator: Aggregator,
    pub(crate) stored: StoreCounts,
    /// True if updates are collected now: not while the rank waits (invariant 4).
    aggregates: Cell<bool>,
    peers: RefCell<HashMap<SegmentName, Weak<PeerSegment>>>,
    collected: RefCell<Vec<Weak<dyn Collected>>>,
    pub(crate) options: PgasOptions,
    /// Locks that were created.
    pub(crate) mutexes: Cell<usize>,
    /// True if a lock was released, and its home may not be notified yet.
    pub(crate) releases: Cell<bool>,
    /// First error that a collective with a result has found, and that is not its own.
    kept: RefCell<Option<Error>>,
}

impl Pgas {
    /// Opens the global address space. A collective: all ranks of the team, which are all of the
    /// job, call it. Takes one of the rank's endpoints.
    ///
    /// # Errors
    /// Fails if endpoints or memory have run out, or if a rank died or left.
    pub fn open(rank: &impl AsContext, team: &Arc<Team>) -> Result<Self> {
        Self::with(rank, team, &PgasOptions::default())
    }

    /// Opens the global address space with other bounds of aggregation. They need not be the same
    /// at all ranks.
    ///
    /// # Errors
    /// Fails as [`Pgas::open`] does.
    pub fn with(rank: &impl AsContext, team: &Arc<Team>, options: &PgasOptions) -> Result<Self> {
        let rma = Rma::open(rank);
        let own = rma.as_ref().map_or(Ok(None), |rma| rma.export(COUNT_BYTES).map(Some));
        // A rank without one reports it: the others do not wait for it.
        let name = own.as_ref().ok().and_then(Option::as_ref).map_or(0, |own| own.name().to_bits());
        let names = team.all_gather(name)?;
        let (rma, own) = (took_part(rma)?, took_part(own)?);
        let missing = names.iter().position(|&name| name == 0);
        let (None, Some(own)) = (missing, own) else {
            return Err(ErrorKind::RankFailed { rank: missing.unwrap_or_default() }.into());
        };
        let open = |bits: u64| rma.target(SegmentName::from_bits(bits));
        let counts: clump_rma::Result<Vec<Target>> = names.into_iter().map(open).collect();
        let aggregator = Aggregator::new(options, rma.clone(), rank.context().clone());
        let counts = counts?.into_iter().map(|target| aggregator.peer(target)).collect();
        let inner = Inner {
            stored: StoreCounts::new(own, counts),
            aggregator,
            aggregates: Cell::new(options.aggregates),
            team: team.clone(),
            peers: RefCell::default(),
            collected: RefCell::default(),
            options: *options,
            mutexes: Cell::new(0),
            releases: Cell::new(false),
            kept: RefCell::default(),
            rma,
        };
        Ok(Self { inner: Rc::new(inner) })
    }

    /// Returns this rank.
    pub fn rank(&self) -> usize {
        self.inner.team.rank()
    }

    /// Returns the number of ranks.
    pub fn nranks(&self) -> usize {
        self.inner.team.nranks()
    }

    /// Returns the ranks that share the space, for collectives.
    pub fn team(&self) -> &Team {
        &self.inner.team
    }

    pub(crate) fn context(&self) -> &Arc<RankContext> {
        self.inner.aggregator.context()
    }

    /// Returns the one-sided operations below.
    pub fn rma(&self) -> &Rma {
        &self.inner.rma
    }

    /// Returns the counters of aggregation.
    pub fn aggregation(&self) -> Aggregation {
        self.inner.aggregator.counts()
    }

    /// Waits until the puts, stores and atomics that this thread began have happened, everywhere.
    ///
    /// # Errors
    /// Fails with the first refusal of an operation without an answer since the last time, or if a
    /// node or a rank is lost; what this thread began is over then, too. Also with an error that a
    /// collective before has found and kept ([`Pgas::spread`]).
    pub fn sync(&self) -> Result<()> {
        let done = self.inner.wait(|| Ok(self.inner.rma.quiet()?));
        done.and_then(|()| self.inner.report_kept())
    }

    /// Waits until nothing that this thread began is in flight any more, what its handlers began
    /// meanwhile included.
    ///
    /// # Errors
    /// Fails as [`Pgas::sync`] does.
    pub fn quiet(&self) -> Result<()> {
        let done = self.sync();
        // While the rank waited, handlers sent by themselves what they began.
        let rest = self.sync();
        done.and(rest)
    }

    /// Waits until `bytes` bytes more have been stored at this rank, by any rank.
    ///
    /// The count does not distinguish senders. Where two ranks store here in rounds, one that is a
    /// round ahead makes up for the other, and this rank reads what is not there yet; and it
    /// overwrites what this rank still reads. Use it where all ranks meet between rounds, or one
    /// rank stores here; for boundaries of neighbours there is [`Pgas::halo`].
    ///
    /// # Errors
    /// Fails if a rank is lost, and survivors do not continue.
    pub fn store_sync(&self, bytes: usize) -> Result<()> {
        self.inner.wait(|| self.inner.stored.wait(bytes as u64))
    }

    /// Returns when every store, put and atomic that any rank began before has landed, everywhere.
    /// A collective. Bytes that were not waited for by [`Pgas::store_sync`] are forgotten.
    ///
    /// # Errors
    /// Fails as [`Pgas::sync`] does, with an error of a rank that took part ([`Error::took_part`]):
    /// the other ranks continue. Or if a rank died or left.
    pub fn all_store_sync(&self) -> Result<()> {
        let before = self.quiet();
        // Nothing is sent in between: a count of this epoch would arrive in the next.
        let passed = self.inner.waiting(|| self.inner.pass_barrier())?;
        self.inner.stored.next_epoch()?;
        took_part(before.and(passed))
    }

    /// Returns once all ranks have called it. Sends what was collected, and does not wait for it,
    /// but for locks that were given back: behind a barrier, their homes may drop them.
    ///
    /// # Errors
    /// Fails if a rank died or left. If sending fails, if a handler has failed, or, after a lock
    /// was released, as [`Pgas::sync`] does: with an error of a rank that took part
    /// ([`Error::took_part`]), when all ranks have called it.
    pub fn barrier(&self) -> Result<()> {
        let released = if self.inner.releases.replace(false) { self.sync() } else { Ok(()) };
        let sent = self.inner.flush();
        let passed = self.inner.waiting(|| self.inner.pass_barrier())?;
        took_part(released.and(sent).and(passed).and_then(|()| self.inner.report_kept()))
    }

    /// Sends what was collected.
    ///
    /// # Errors
    /// Fails if sending does.
    pub fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    /// Handles messages that have arrived, and sends batches that are old. Programs that compute
    /// for long between operations call it.
    ///
    /// # Errors
    /// Fails if sending, or handling a message, fails.
    pub fn poll(&self) -> Result<()> {
        let now = clock::now_ns();
        self.inner.aggregator.send_old(now)?;
        self.inner.each_collected(|it| it.send_old(now))?;
        self.inner.rma.poll()?;
        self.inner.report_kept()
    }
}

/// Marks an error that a collective reports behind its end, and that is not the collective's own.
pub(crate) fn took_part<T, E: Into<Error>>(result: std::result::Result<T, E>) -> Result<T> {
    result.map_err(|error| {
        let error = error.into();
        if error.took_part() { error } else { ErrorKind::TookPart(error).into() }
    })
}

impl Inner {
    /// Returns true if updates of other nodes are to be collected.
    #[inline(always)]
    pub(crate) fn aggregates(&self) -> bool {
        self.aggregates.get()
    }

    /// Sends all batches, and the counts of the stores in them.
    pub(crate) fn flush(&self) -> Result<()> {
        let announcement = self.stored.prepare();
        let stored = self.aggregator.flush().and_then(|()| {
            announcement.map_or(Ok(()), |it| self.stored.announce(&self.rma, &self.aggregator, it))
        });
        self.each_collected(|it| it.send_all()).and(stored)
    }

    /// Sends messages with the updates from now on, as long as their owner lives.
    pub(crate) fn collect_with(&self, messages: Weak<dyn Collected>) {
        let mut collected = self.collected.borrow_mut();
        collected.retain(|it| it.strong_count() > 0);
        collected.push(messages);
    }

    fn each_collected(&self, act: impl Fn(&(dyn Collected + 'static)) -> Result<()>) -> Result<()> {
        // Nothing is borrowed meanwhile: what is sent may run handlers.
        let next = |at: usize| self.collected.borrow().get(at).map(Weak::upgrade);
        (0..).map_while(next).flatten().try_for_each(|it| act(&*it))
    }

    /// Sends collected operations, and runs `wait`. Operations that handlers begin meanwhile are
    /// not collected, since nothing would send them. An error of sending is reported behind the
    /// wait.
    pub(crate) fn wait<R>(&self, wait: impl FnOnce() -> Result<R>) -> Result<R> {
        self.waiting(|| {
            let sent = self.flush();
            let waited = wait();
            sent.and(waited)
        })
    }

    /// Executes a collective that has a result. An error that is not its own, of sending what was
    /// collected before, does not take the result from this rank alone: the next call that
    /// synchronizes or polls reports it.
    pub(crate) fn together<R>(
        &self,
        collective: impl FnOnce(&Team) -> clump_am::Result<R>,
    ) -> Result<R> {
        self.waiting(|| {
            if let Err(error) = self.flush() {
                self.kept.borrow_mut().get_or_insert(error);
            }
            Ok(collective(&self.team)?)
        })
    }

    /// Passes a barrier of all ranks. Returns an error that is not the barrier's own apart.
    fn pass_barrier(&self) -> Result<Result<()>> {
        match self.team.barrier() {
            Err(error) if error.took_part() => Ok(Err(error.into())),
            passed => Ok(Ok(passed?)),
        }
    }

    /// Reports an error that a collective, or a wait, has found and kept.
    pub(crate) fn report_kept(&self) -> Result<()> {
        if let Some(error) = self.kept.borrow_mut().take() {
            return Err(error);
        }
        self.rma.take_kept_failure().map_or(Ok(()), |error| Err(error.into()))
    }

    /// Runs `wait` while nothing is collected.
    fn waiting<R>(&self, wait: impl FnOnce() -> Result<R>) -> Result<R> {
        let before = self.aggregates.replace(false);
        let _restored = Collecting { aggregates: &self.aggregates, before };
        wait()
    }

    /// Returns the segment of that name, with its batches.
    pub(crate) fn peer(&self, name: SegmentName) -> Result<Rc<PeerSegment>> {
        let known = self.peers.borrow().get(&name).and_then(Weak::upgrade);
        if let Some(known) = known {
            return Ok(known);
        }
        let peer = self.aggregator.peer(self.rma.target(name)?);
        let mut peers = self.peers.borrow_mut();
        peers.retain(|_, peer| peer.strong_count() > 0);
        peers.insert(name, Rc::downgrade(&peer));
        Ok(peer)
    }
}

/// Restores, when dropped, whether updates are collected: also after a panic in a handler.
struct Collecting<'a> {
    aggregates: &'a Cell<bool>,
    before: bool,
}

impl Drop for Collecting<'_> {
    fn drop(&mut self) {
        self.aggregates.set(self.before);
    }
}
