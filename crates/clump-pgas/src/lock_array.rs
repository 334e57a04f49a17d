//! Arrays of locks, dealt out over all ranks: queues, and naive ones for comparison.

use crate::element_fn::ElementFn;
use crate::error::{Error, ErrorKind, Result};
use crate::global_ptr::GlobalPtr;
use crate::layout::{ElementPlace, Layout, SpreadLayout};
use crate::pgas::{Pgas, took_part};
use crate::remote_calls::RemoteCalls;
use crate::spread::Spread;
use clump_rma::{Lock, LockTable, Rma, Segment, SegmentName};
use clump_trace::Counter;
use std::cell::{Cell, OnceCell};

/// Manner in which ranks wait for the locks of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// In a queue at the lock's home, without messages: fair.
    Queue,
    /// By test-and-set, again and again, in remote atomics that interfaces execute.
    Spin,
    /// By test-and-set, again and again, in calls that the home rank executes when it polls. A home
    /// to which attempts come faster than it answers them never goes on (paper 001, section 5.1): a
    /// [`LockArray::serve`] that has executed more calls than this, and finds another, fails.
    Served(u64),
}

/// Attempts of this rank at the locks of an array.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LockAttempts {
    /// Attempts that acquired a lock.
    pub acquired: u64,
    /// Attempts that found it held. Of queues there are none.
    pub failed: u64,
}

/// Locks of all ranks, a block of them at each. Its memory is freed when a rank drops it: let all
/// ranks be done with it before ([`Pgas::barrier`]).
#[derive(Debug)]
pub struct LockArray {
    pgas: Pgas,
    layout: SpreadLayout,
    means: LockMeans,
    attempts: Cell<LockAttempts>,
}

#[derive(Debug)]
enum LockMeans {
    Queue { locks: Vec<HomeLocks>, _own: Segment },
    Spin(Spread<u64>),
    Served(ServedLocks),
}

/// Locks of one home, mapped by the first that is used.
#[derive(Debug)]
struct HomeLocks {
    name: SegmentName,
    table: OnceCell<LockTable>,
}

impl HomeLocks {
    fn lock(&self, rma: &Rma, index: usize) -> clump_rma::Result<Lock> {
        if let Some(table) = self.table.get() {
            return Ok(table.lock(index as u64));
        }
        let table = rma.lock_table(self.name)?;
        debug_assert!(self.table.get().is_none(), "opening it uses no lock");
        Ok(self.table.get_or_init(|| table).lock(index as u64))
    }
}

/// Words that are 1 while a rank holds a lock, and the functions that change them at their homes.
#[derive(Debug)]
struct ServedLocks {
    words: Spread<u64>,
    calls: RemoteCalls,
    take: ElementFn<u64, (), bool>,
    free: ElementFn<u64, (), ()>,
    limit: u64,
}

impl LockMeans {
    fn queues(pgas: &Pgas, own: usize) -> Result<Self> {
        debug_assert!(pgas.rank() < pgas.nranks(), "one of the ranks");
        let exported = pgas.rma().export_locks(own.max(1) as u64);
        // A rank without its part reports it: the others do not wait for it.
        let name = exported.as_ref().map_or(0, |own| own.name().to_bits());
        let names = pgas.inner.together(|team| team.all_gather(name))?;
        let own = took_part(exported)?;
        debug_assert_eq!(names.len(), pgas.nranks(), "a part of each rank");
        if let Some(rank) = names.iter().position(|&name| name == 0) {
            return Err(ErrorKind::RankFailed { rank }.into());
        }
        let named = |bits| HomeLocks { name: SegmentName::from_bits(bits), table: OnceCell::new() };
        let locks = names.into_iter().map(named).collect();
        Ok(Self::Queue { locks, _own: own })
    }
}

impl ServedLocks {
    fn create(pgas: &Pgas, (count, limit): (usize, u64)) -> Result<Self> {
        let words = pgas.spread(count, Layout::Block)?;
        let calls = pgas.remote_calls()?;
        let take = calls.register_atomic("take a lock", |word: &mut u64, ()| {
            debug_assert!(*word <= 1, "held or free");
            Ok(std::mem::replace(word, 1) == 0)
        })?;
        let free = calls.register_atomic("free a lock", |word: &mut u64, ()| {
            debug_assert_eq!(*word, 1, "a rank holds it");
            *word = 0;
            Ok(())
        })?;
        Ok(Self { words, calls, take, free, limit })
    }
}

impl LockArray {
    /// Creates `count` locks, all free. A collective: all ranks name the same number and kind.
    ///
    /// # Errors
    /// Fails if memory or endpoints have run out, or if a rank died or left.
    pub fn create(pgas: &Pgas, count: usize, kind: LockKind) -> Result<Self> {
        let layout = SpreadLayout::new(count, Layout::Block, pgas.nranks());
        let bad = ErrorKind::BadArray { len: count, bytes: size_of::<u64>(), block: 0 };
        let layout = layout.ok_or(bad)?;
        let means = match kind {
            LockKind::Queue => LockMeans::queues(pgas, layout.count(pgas.rank()))?,
            LockKind::Spin => LockMeans::Spin(pgas.spread(count, Layout::Block)?),
            LockKind::Served(limit) => {
                LockMeans::Served(ServedLocks::create(pgas, (count, limit))?)
            }
        };
        debug_assert_eq!(layout.len(), count, "as many as are created");
        Ok(Self { pgas: pgas.clone(), layout, means, attempts: Cell::default() })
    }

    /// Returns the number of locks.
    pub fn len(&self) -> usize {
        self.layout.len()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.layout.is_empty()
    }

    /// Returns the rank whose memory a lock is in; `None` beyond the end.
    pub fn home(&self, index: usize) -> Option<usize> {
        Some(self.layout.place(index)?.rank)
    }

    /// Returns the attempts of this rank.
    pub fn attempts(&self) -> LockAttempts {
        self.attempts.get()
    }

    /// Waits for a lock, runs `run` under it, and gives it back when everything that this thread
    /// began has happened.
    ///
    /// # Errors
    /// Fails as `run` does, which is not run if the lock does not exist, or if a rank died with it;
    /// or as [`Pgas::sync`] does.
    pub fn with<R, E: From<Error>>(
        &self,
        index: usize,
        run: impl FnOnce() -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        let synced = || {
            let result = run();
            let synced = self.pgas.sync();
            result.and_then(|value| Ok(synced.map(|()| value)?))
        };
        self.with_unsynced(index, synced)
    }

    /// Runs `run` under a lock, as [`LockArray::with`] does, for callers that wait for what they
    /// have begun themselves.
    pub(crate) fn with_unsynced<R, E: From<Error>>(
        &self,
        index: usize,
        run: impl FnOnce() -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        let missing = || ErrorKind::NoSuchElement { index, len: self.len() };
        let place = self.layout.place(index).ok_or_else(|| Error::from(missing()))?;
        debug_assert!(place.rank < self.pgas.nranks(), "its home is a rank");
        let inner = &self.pgas.inner;
        match &self.means {
            LockMeans::Queue { locks, .. } => {
                let home = locks.get(place.rank).ok_or_else(|| Error::from(missing()))?;
                let lock = home.lock(self.pgas.rma(), place.local).map_err(Error::from)?;
                let guard = inner.wait(|| Ok(lock.acquire()?))?;
                self.note(true);
                let result = run();
                inner.releases.set(true);
                guard.release().map_err(Error::from)?;
                result
            }
            LockMeans::Spin(words) => {
                while words.at(index).now().compare_swap(0, 1)? != 0 {
                    self.failed_once()?;
                }
                self.note(true);
                let result = run();
                words.at(index).write(0)?;
                result
            }
            LockMeans::Served(served) => {
                let pointer = served.words.ptr(index).ok_or_else(|| Error::from(missing()))?;
                self.await_served(served, (index, place), pointer)?;
                let result = run();
                self.free(served, place, pointer)?;
                result
            }
        }
    }

    /// Executes attempts at locks of this rank until none waits, as polls of message systems of
    /// 1997 did at each access: programs call it there to compare. Does nothing for locks that
    /// ranks do not serve.
    ///
    /// # Errors
    /// Fails if there is no end of attempts, or if a message fails.
    pub fn serve(&self) -> Result<()> {
        let LockMeans::Served(served) = &self.means else { return Ok(()) };
        let mut attempts = 0;
        loop {
            let now = served.calls.poll_counted()?;
            debug_assert!(attempts <= served.limit, "it has gone on");
            attempts += now;
            if now == 0 {
                return Ok(());
            }
            if attempts > served.limit {
                let failed = self.attempts.get().failed;
                return Err(ErrorKind::Livelock { attempts, failed }.into());
            }
        }
    }

    /// Tries until a lock is acquired that its home serves.
    fn await_served(
        &self,
        served: &ServedLocks,
        (index, place): (usize, ElementPlace),
        pointer: GlobalPtr<u64>,
    ) -> Result<()> {
        debug_assert!(self.layout.place(index) == Some(place), "a lock of the array");
        loop {
            // A home takes its own locks without messages: no handler runs meanwhile.
            debug_assert_eq!(pointer.rank(), place.rank, "the home of the lock");
            let is_taken = if place.rank == self.pgas.rank() {
                let local = served.words.local();
                let is_free = local.get(place.local)? == 0;
                local.set(place.local, 1)?;
                is_free
            } else {
                served.calls.atomic(served.take, pointer, &())?.wait()?
            };
            if is_taken {
                self.note(true);
                return Ok(());
            }
            self.failed_once()?;
            served.calls.poll()?;
        }
    }

    fn free(&self, served: &ServedLocks, at: ElementPlace, pointer: GlobalPtr<u64>) -> Result<()> {
        debug_assert_eq!(pointer.rank(), at.rank, "the home of the lock");
        if at.rank == self.pgas.rank() {
            return served.words.local().set(at.local, 0);
        }
        served.calls.atomic(served.free, pointer, &())?.wait()
    }

    /// Counts an attempt that failed, and lets others go on.
    fn failed_once(&self) -> Result<()> {
        self.note(false);
        self.pgas.poll()?;
        std::thread::yield_now();
        Ok(())
    }

    fn note(&self, acquired: bool) {
        let LockAttempts { acquired: before, failed } = self.attempts.get();
        let (before, failed) = (before + u64::from(acquired), failed + u64::from(!acquired));
        debug_assert!(acquired || !matches!(self.means, LockMeans::Queue { .. }), "queues wait");
        self.attempts.set(LockAttempts { acquired: before, failed });
        let is_counted_below = matches!(self.means, LockMeans::Queue { .. });
        if !is_counted_below {
            let counter = if acquired { Counter::RmaLocks } else { Counter::RmaLocksFailed };
            self.pgas.context().counters().bump(counter);
        }
    }
}
