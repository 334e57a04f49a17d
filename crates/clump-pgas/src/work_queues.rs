//! Queues of tasks, one at each rank, from which idle ranks steal: half of a queue at a time, of
//! ranks of the node first.

use crate::element::Element;
use crate::error::{Error, ErrorKind, Result};
use crate::layout::Layout;
use crate::lock_array::{LockArray, LockKind};
use crate::pgas::{Pgas, took_part};
use crate::ring::{RingSpan, places};
use crate::spread::Spread;
use clump_rma::Comparison;
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// Shortest and longest sleep of an idle rank before it looks again if others have tasks.
const MIN_NAP: Duration = Duration::from_micros(20);
const MAX_NAP: Duration = Duration::from_millis(2);

/// Queues of all ranks. Their memory is freed when a rank drops them: let all ranks be done with
/// them before ([`Pgas::barrier`]).
#[derive(Debug)]
pub struct WorkQueues<T> {
    pgas: Pgas,
    tasks: Spread<T>,
    /// First and end of each rank's queue.
    spans: Spread<[u64; 2]>,
    locks: LockArray,
    /// Ranks that have tasks, or may get some.
    active: Spread<u64>,
    /// A word of each rank: the last run of which all tasks are done.
    over: Spread<u64>,
    runs: Cell<u64>,
    capacity: usize,
    /// Tasks of this rank beyond the capacity, which nobody steals.
    private: RefCell<Vec<T>>,
    /// Ranks to steal from, in turn.
    victims: Vec<usize>,
    counts: Cell<WorkCounts>,
}

/// Tasks of a rank, since its queue was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkCounts {
    /// Tasks done.
    pub done: u64,
    /// Tasks stolen from others.
    pub stolen: u64,
    /// Steals that brought tasks.
    pub steals: u64,
    /// Steals of which the victim had no task any more.
    pub failed: u64,
}

impl<T: Element> WorkQueues<T> {
    /// Creates queues of which others may steal up to `capacity` tasks at a time. A collective.
    ///
    /// # Errors
    /// Fails if memory has run out, or if a rank died or left.
    pub fn create(pgas: &Pgas, capacity: usize) -> Result<Self> {
        let (me, ranks, capacity) = (pgas.rank(), pgas.nranks(), capacity.max(1));
        let context = pgas.context();
        let is_near = |rank: &usize| u32::try_from(*rank).is_ok_and(|rank| context.is_near(rank));
        let others = (1..ranks).map(|turn| (me + turn) % ranks);
        let (mut victims, far): (Vec<_>, Vec<_>) = others.partition(is_near);
        victims.extend(far);
        debug_assert_eq!(victims.len() + 1, ranks, "all others");
        Ok(Self {
            pgas: pgas.clone(),
            tasks: pgas.spread(capacity.saturating_mul(ranks), Layout::Block)?,
            spans: pgas.spread(ranks, Layout::Block)?,
            locks: LockArray::create(pgas, ranks, LockKind::Queue)?,
            active: pgas.spread(1, Layout::Block)?,
            over: pgas.spread(ranks, Layout::Block)?,
            runs: Cell::new(0),
            capacity,
            private: RefCell::default(),
            victims,
            counts: Cell::default(),
        })
    }

    /// Returns the counts of this rank.
    pub fn counts(&self) -> WorkCounts {
        self.counts.get()
    }

    /// Adds a task to this rank's queue.
    ///
    /// # Errors
    /// Fails if a rank died with the queue's lock, or is lost.
    pub fn push(&self, task: T) -> Result<()> {
        self.push_all(&[task])
    }

    /// Adds tasks to this rank's queue. Those that others have no room to steal stay with it.
    ///
    /// # Errors
    /// Fails as [`WorkQueues::push`] does.
    pub fn push_all(&self, tasks: &[T]) -> Result<()> {
        let me = self.pgas.rank();
        let taken = self.locks.with_unsynced(me, || {
            let span = self.span(me)?;
            let fit = span.room(self.capacity).min(tasks.len());
            debug_assert!(span.len() + fit <= self.capacity, "no task is overwritten");
            let mut rest = tasks;
            for (place, count) in places(span.end, fit, self.capacity) {
                let (these, behind) = rest.split_at(count);
                self.tasks.local().copy_from(place, these)?;
                rest = behind;
            }
            self.spans.local().set(0, [span.first, span.end + fit as u64])?;
            Ok::<_, Error>(fit)
        })?;
        debug_assert!(taken <= tasks.len(), "no more than there are");
        self.private.borrow_mut().extend(tasks.get(taken..).unwrap_or_default());
        Ok(())
    }

    fn span(&self, rank: usize) -> Result<RingSpan> {
        let [first, end] = self.spans.at(rank).read()?;
        let span = RingSpan { first, end };
        debug_assert!(rank != self.pgas.rank() || span.len() <= self.capacity, "tasks fit");
        Ok(span)
    }

    /// Takes the task of this rank that was added last.
    fn pop(&self) -> Result<Option<T>> {
        if let Some(task) = self.private.borrow_mut().pop() {
            return Ok(Some(task));
        }
        let me = self.pgas.rank();
        self.locks.with_unsynced(me, || {
            let span = self.span(me)?;
            if span.len() == 0 {
                return Ok::<_, Error>(None);
            }
            debug_assert!(span.first < span.end, "there is one");
            let last = span.end - 1;
            let [(place, _), _] = places(last, 1, self.capacity);
            let task = self.tasks.local().get(place)?;
            self.spans.local().set(0, [span.first, last])?;
            Ok(Some(task))
        })
    }

    /// Steals half of a rank's tasks, the oldest. Returns false if it has none.
    fn steal(&self, victim: usize) -> Result<bool> {
        debug_assert_ne!(victim, self.pgas.rank(), "its own tasks are taken one by one");
        let stolen = self.locks.with_unsynced(victim, || {
            let span = self.span(victim)?;
            let mut stolen = vec![T::new_zeroed(); span.half()];
            let mut rest = &mut stolen[..];
            for (place, count) in places(span.first, span.half(), self.capacity) {
                let (these, behind) = rest.split_at_mut(count);
                if let Some(begin) = self.tasks.on(victim).filter(|_| count > 0) {
                    self.pgas.bulk_get(begin.offset_by(place as isize), these)?;
                }
                rest = behind;
            }
            debug_assert!(rest.is_empty(), "each is copied");
            if !stolen.is_empty() {
                let first = span.first + stolen.len() as u64;
                self.spans.at(victim).write([first, span.end])?;
            }
            Ok::<_, Error>(stolen)
        })?;
        debug_assert!(stolen.len() <= self.capacity, "they fit into an empty queue");
        let mut counts = self.counts.get();
        if stolen.is_empty() {
            counts.failed += 1;
        } else {
            counts.steals += 1;
            counts.stolen += stolen.len() as u64;
        }
        self.counts.set(counts);
        self.push_all(&stolen)?;
        Ok(!stolen.is_empty())
    }

    /// Steals from the first rank that has tasks, if one has.
    fn steal_from_any(&self) -> Result<bool> {
        for &victim in &self.victims {
            // Most have none, which shows without their lock.
            if self.span(victim)?.len() > 0 && self.steal(victim)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Does tasks until no rank has any: those of this rank, then those of its node's ranks, then
    /// those of others. `work` does a task, and may push others. A collective.
    ///
    /// # Errors
    /// Fails with the first error of `work`, after which this rank does no more, once the others
    /// have done what is left that they can steal ([`Error::took_part`]); or if a rank died or
    /// left.
    pub fn run(&self, mut work: impl FnMut(&Self, T) -> Result<()>) -> Result<()> {
        let counter = || self.active.at(0);
        if self.pgas.rank() == 0 {
            counter().write(self.pgas.nranks() as u64)?;
        }
        self.runs.set(self.runs.get() + 1);
        self.pgas.barrier()?;
        let mut failure = Ok(());
        loop {
            // This rank is counted as active.
            while failure.is_ok()
                && let Some(task) = self.pop()?
            {
                failure = work(self, task);
                let counts = self.counts.get();
                self.counts.set(WorkCounts { done: counts.done + 1, ..counts });
            }
            if failure.is_err() {
                // What it kept for itself, others may do.
                let private = self.private.take();
                self.push_all(&private)?;
            } else if self.steal_from_any()? {
                continue;
            }
            self.go_idle()?;
            if !self.await_tasks(failure.is_ok())? {
                break;
            }
        }
        debug_assert!(failure.is_err() || self.private.borrow().is_empty(), "it has done its own");
        if failure.is_err() {
            // No rank does the rest. A thief that is late reads the queue under its lock.
            self.private.borrow_mut().clear();
            let me = self.pgas.rank();
            self.locks.with_unsynced(me, || self.spans.local().set(0, [0, 0]))?;
        }
        let over = self.pgas.barrier();
        over.and(took_part(failure))
    }

    /// Counts this rank as idle. The last one tells the others.
    fn go_idle(&self) -> Result<()> {
        let active = self.active.at(0).fetch_add(u64::MAX)?.wait()?;
        debug_assert!(active > 0, "this rank was active");
        if active > 1 {
            return Ok(());
        }
        for rank in 0..self.pgas.nranks() {
            let word = self.over.part(rank).ok_or(ErrorKind::NoSuchRank { rank })?;
            word.target.signal(0, self.runs.get(), false)?;
        }
        Ok(())
    }

    /// Returns true if all tasks of this run are done; sleeps until then, at most so long.
    fn is_over(&self, nap: Duration) -> Result<bool> {
        let rank = self.pgas.rank();
        let own = self.over.part(rank).ok_or(ErrorKind::NoSuchRank { rank })?;
        debug_assert!(nap <= MAX_NAP, "others may get tasks meanwhile");
        let (reached, run) = (Comparison::AtLeast, self.runs.get());
        let over = || Ok(own.target.when_within(0, reached, run, Some(nap))?.is_some());
        self.pgas.inner.wait(over)
    }

    /// Waits, as an idle rank, until others have tasks, and is active again with some. Returns
    /// false once all ranks are idle: then there are none, since each went idle with an empty
    /// queue, or with an error, and gets tasks only while it is active.
    fn await_tasks(&self, works: bool) -> Result<bool> {
        debug_assert!(!works || self.private.borrow().is_empty(), "it went idle without tasks");
        let mut nap = Duration::ZERO;
        while !self.is_over(nap)? {
            nap = (nap * 2).clamp(MIN_NAP, MAX_NAP);
            if !works {
                continue;
            }
            debug_assert!(self.victims.len() < self.pgas.nranks(), "each other rank once");
            for &victim in &self.victims {
                if self.span(victim)?.len() == 0 {
                    continue;
                }
                self.active.at(0).fetch_add(1)?.wait()?;
                if self.steal(victim)? {
                    return Ok(true);
                }
                self.go_idle()?;
            }
        }
        Ok(false)
    }
}
