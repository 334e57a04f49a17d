//! Counters and times of one rank: what it waited for (paper 003, figure 3).

use crate::thread_time::ThreadTime;
use clump_am::{RankContext, own_actor};
use clump_os::clock;
use clump_os::sync::{AtomicU64, Ordering};
use clump_shm::virtual_time::Call;
use clump_trace::{Counter, Counters, EventKind};
use std::sync::Arc;

/// Parts of a rank's time that are not its own computation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Page faults.
    Data,
    /// Acquires of locks, and waits for flags.
    Lock,
    /// Releases of locks, and other releases.
    Release,
    /// Barriers.
    Barrier,
    /// Changes of rights by the kernel.
    Protection,
    /// Waits for flags, within those for locks and flags.
    Flag,
    /// Waits for the other ranks, within barriers.
    Others,
}

const PARTS: usize = 7;

/// Running sums of one rank.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    count: [AtomicU64; PARTS],
    ns: [AtomicU64; PARTS],
    stores: AtomicU64,
    own_fetches: AtomicU64,
    put_off: AtomicU64,
    threads: ThreadTime,
    /// Its rank, for the trace; `None` in tests.
    context: Option<Arc<RankContext>>,
}

impl Sums {
    /// Creates sums of zero for the rank of `context`.
    pub(crate) fn of(context: &Arc<RankContext>) -> Self {
        Self { context: Some(context.clone()), ..Self::default() }
    }

    /// Notes the beginning or end of a part in the rank's trace; barriers note themselves.
    fn note(&self, part: Part, ends: bool) {
        let kind = match part {
            Part::Data => EventKind::Fault,
            Part::Lock => EventKind::Lock,
            Part::Release | Part::Barrier | Part::Protection | Part::Flag | Part::Others => return,
        };
        let kind = if ends { kind.end().unwrap_or(kind) } else { kind };
        if let Some(context) = &self.context {
            context.note(kind, (0, 0, 0));
        }
    }

    /// Runs `work`, and adds its time.
    #[inline]
    pub(crate) fn time<R>(&self, part: Part, work: impl FnOnce() -> R) -> R {
        let actor = self.context.as_ref().and_then(|context| own_actor(context));
        let _call = actor.map(|actor| Call::of_heap(actor, part == Part::Data));
        self.note(part, false);
        let now_ns = || actor.map_or_else(clock::ticked_ns, |actor| actor.clock_ns());
        let began = now_ns();
        self.threads.used_at(began);
        let outcome = work();
        let ended = now_ns();
        // Before the sum, so that no report has more waits than time.
        self.threads.used_at(ended);
        self.add(part, ended.saturating_sub(began));
        self.note(part, true);
        outcome
    }

    /// Adds an event of a part.
    pub(crate) fn add(&self, part: Part, ns: u64) {
        self.count[part as usize].fetch_add(1, Ordering::Relaxed);
        self.ns[part as usize].fetch_add(ns, Ordering::Relaxed);
    }

    /// Counts a fault by a store.
    pub(crate) fn count_store(&self) {
        self.stores.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a page that the rank has fetched by itself.
    pub(crate) fn count_own_fetch(&self) {
        self.own_fetches.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a release that has published nothing.
    pub(crate) fn count_put_off(&self) {
        self.put_off.fetch_add(1, Ordering::Relaxed);
    }

    /// Copies the sums to the counters of the rank, for reports of its job.
    pub(crate) fn publish(&self, counters: &Counters<'_>, elapsed_ns: u64) {
        use Counter as C;
        let of = [
            (Part::Data, C::SvmFaults, C::SvmFaultWait),
            (Part::Lock, C::SvmLocks, C::SvmLockWait),
            (Part::Release, C::SvmReleases, C::SvmReleaseTime),
            (Part::Barrier, C::SvmBarriers, C::SvmBarrierWait),
            (Part::Protection, C::SvmProtections, C::SvmProtectionTime),
            (Part::Flag, C::SvmFlags, C::SvmFlagWait),
        ];
        for (part, count, ns) in of {
            counters.set(count, self.count[part as usize].load(Ordering::Relaxed));
            counters.set(ns, self.ns[part as usize].load(Ordering::Relaxed));
        }
        let others = self.ns[Part::Others as usize].load(Ordering::Relaxed);
        counters.set(C::SvmBarrierOthers, others);
        counters.set(C::SvmStoreFaults, self.stores.load(Ordering::Relaxed));
        counters.set(C::SvmPutOff, self.put_off.load(Ordering::Relaxed));
        counters.set(C::SvmOpen, elapsed_ns + self.threads.others_ns());
    }

    /// Returns the sums so far.
    pub(crate) fn read(&self, elapsed_ns: u64) -> Breakdown {
        let of = |part: Part| PartSum {
            count: self.count[part as usize].load(Ordering::Relaxed),
            ns: self.ns[part as usize].load(Ordering::Relaxed),
        };
        Breakdown {
            elapsed_ns,
            threads_ns: elapsed_ns.saturating_add(self.threads.others_ns()),
            data: of(Part::Data),
            lock: of(Part::Lock),
            release: of(Part::Release),
            barrier: of(Part::Barrier),
            protection: of(Part::Protection),
            flag: of(Part::Flag),
            others: of(Part::Others),
            store_faults: self.stores.load(Ordering::Relaxed),
            own_fetches: self.own_fetches.load(Ordering::Relaxed),
            put_off: self.put_off.load(Ordering::Relaxed),
            woken: WokenRequests::default(),
            sent: SentMessages::default(),
            ahead: AheadPages::default(),
        }
    }
}

/// Count and total time of one kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PartSum {
    /// Number of events.
    pub count: u64,
    /// Their total time, in ns.
    pub ns: u64,
}

/// Requests of other nodes for which the protocol thread of a node was woken, by kind: those that
/// the step of the protocol ladder (`CLUMP_SVM`) does not leave to network interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WokenRequests {
    /// Protocol data: notices, arrivals at barriers, homes.
    pub notices: u64,
    /// Pages.
    pub fetches: u64,
    /// Diffs for home pages.
    pub diffs: u64,
    /// Locks and flags.
    pub locks: u64,
}

impl WokenRequests {
    /// Returns the number of all of them.
    pub fn total(&self) -> u64 {
        self.notices + self.fetches + self.diffs + self.locks
    }
}

/// Pages that a rank has fetched before their use, for what it used before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AheadPages {
    /// All of them.
    pub pages: u64,
    /// Those found not to be used; one use in eight is looked at.
    pub unused: u64,
}

/// Messages of the protocol that the interface of a node has sent to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SentMessages {
    /// All of them.
    pub all: u64,
    /// Those with diffs.
    pub diffs: u64,
}

/// Breakdown of a rank's time since it opened the heap (paper 003, figure 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Breakdown {
    /// Time since the heap was opened, in ns.
    pub elapsed_ns: u64,
    /// That time of all threads of this rank, in ns: of further threads from their first use of
    /// the heap to their last. What follows are sums over them.
    pub threads_ns: u64,
    /// Page faults: waits for data, what follows them included.
    pub data: PartSum,
    /// Acquires of locks, and waits for flags.
    pub lock: PartSum,
    /// Releases of locks, flags that were set, and fences.
    pub release: PartSum,
    /// Barriers.
    pub barrier: PartSum,
    /// Changes of rights by the kernel; within the times above.
    pub protection: PartSum,
    /// Waits for flags; within those for locks and flags.
    pub flag: PartSum,
    /// Waits until all ranks had arrived and the interface answered; within barriers, whose other
    /// time is this rank's part of the protocol.
    pub others: PartSum,
    /// Page faults that were stores.
    pub store_faults: u64,
    /// Pages that the rank has fetched by its own stack, without the interface of its node.
    pub own_fetches: u64,
    /// Releases of locks that have published nothing: that happens when another rank waits.
    pub put_off: u64,
    /// Requests that this rank's node was woken for; at the first rank of each node.
    pub woken: WokenRequests,
    /// Messages that this rank's node has sent; at the first rank of each node.
    pub sent: SentMessages,
    /// Pages that came before their use.
    pub ahead: AheadPages,
}

impl Breakdown {
    /// Returns the time of all threads outside of all of these, in ns: the rank's own computation.
    pub fn compute_ns(&self) -> u64 {
        let parts = [self.data, self.lock, self.release, self.barrier];
        self.threads_ns.saturating_sub(parts.iter().map(|part| part.ns).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_waited_for_is_computed() {
        let sums = Sums::default();
        assert_eq!(sums.time(Part::Lock, || 7), 7);
        sums.count_store();
        let read = sums.read(u64::MAX);
        assert_eq!((read.lock.count, read.data.count, read.store_faults), (1, 0, 1));
        assert_eq!(read.compute_ns(), u64::MAX - read.lock.ns);
    }

    #[test]
    fn waits_of_threads_are_no_more_than_their_time() {
        let sums = Sums::default();
        let wait = || {
            sums.time(Part::Lock, || {
                let began = clock::ticked_ns();
                while clock::ticked_ns() == began {}
            });
        };
        std::thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(wait))));
        let read = sums.read(1);
        assert!(read.lock.ns >= 3, "{read:?}");
        assert_eq!(read.compute_ns(), read.elapsed_ns, "the opener has waited for nothing");
    }
}
