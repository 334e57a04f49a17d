//! A rank that runs a program on a shared heap, one step at a time.

use super::plan::SharedHeapPlan;
use super::summary::HeapCounts;
use crate::kernel::{Mode, Random, Time};
use clump_hlrc::PageAccess;
use clump_hlrc::testing::{Op, Oracle};
use clump_shm::node::NodeMemory;
use clump_svm::{ErrorKind, HeapCall, SimulatedRank};

/// Longest sleep of a rank that waits for its interface before it checks for deaths (`clump-svm`).
const NAP: Time = 20_000_000;

/// Surroundings of a rank.
pub(super) struct HeapEnvironment<'a> {
    pub(super) now: Time,
    pub(super) plan: &'a SharedHeapPlan,
    pub(super) reference: &'a mut Reference,
    /// True once all ranks have opened the heap and placed its pages.
    pub(super) all_open: bool,
}

/// One memory of all ranks, the last holder of each lock, and the errors found.
#[derive(Debug, Default)]
pub(super) struct Reference {
    pub(super) oracle: Oracle,
    pub(super) counts: HeapCounts,
    /// Node of each lock's last holder.
    pub(super) holders: std::collections::BTreeMap<u64, u32>,
    /// Ranks that have died, a bit each.
    pub(super) dead: u64,
    wrong: Option<String>,
}

impl Reference {
    /// Returns the first violation.
    pub(super) fn wrong(&self) -> Option<&str> {
        self.wrong.as_deref().or(self.oracle.wrong())
    }

    pub(super) fn complain(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }

    fn enter(&mut self, (rank, node): (usize, u32), lock: u64) {
        self.oracle.enter(rank, lock);
        let before = self.holders.insert(lock, node);
        self.counts.locks += 1;
        self.counts.locks_from_other_nodes += u64::from(before.is_some_and(|last| last != node));
    }
}

/// End of a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RankEnd {
    /// End of its program.
    Finished,
    /// Error because of a death.
    Error(String),
    /// Death.
    Died,
}

/// A simulated rank.
#[derive(Debug)]
pub(super) struct HeapRank {
    rank: u32,
    pub(super) node: u32,
    heap: SimulatedRank,
    pub(super) mode: Mode,
    /// Calls before the program that have been made.
    opened: usize,
    /// Next step of the program.
    next: usize,
    /// True while a call is under way.
    calls: bool,
    pub(super) end: Option<RankEnd>,
    random: Random,
}

impl HeapRank {
    pub(super) fn new(
        rank: u32,
        plan: &SharedHeapPlan,
        memory: &NodeMemory,
    ) -> clump_svm::Result<Self> {
        Ok(Self {
            rank,
            node: memory.node(),
            heap: SimulatedRank::new(memory, rank, &plan.heap)?,
            mode: Mode::Polling,
            opened: 0,
            next: 0,
            calls: false,
            end: None,
            random: Random::new(plan.base.seed ^ u64::from(rank + 1) << 48),
        })
    }

    /// Returns true if it has an answer that it has not read.
    pub(super) fn is_answered(&self) -> bool {
        self.end.is_none() && self.heap.is_answered()
    }

    /// Returns true if it has opened the heap and placed its pages, and waits for the others.
    pub(super) fn is_open(&self, plan: &SharedHeapPlan) -> bool {
        debug_assert!(self.opened <= 1 + plan.places.len(), "each call is made once");
        !self.calls && self.opened == 1 + plan.places.len()
    }

    pub(super) fn describe(&self, plan: &SharedHeapPlan) -> String {
        let Self { rank, node, mode, opened, next, calls, end, .. } = self;
        let op = plan.programs[*rank as usize].get(*next);
        format!(
            "rank {rank} of node {node}: {mode:?}, {opened} calls before, step {next} {op:?}, \
             calls {calls}, end {end:?}"
        )
    }

    /// Acts. Returns the time at which it acts next.
    pub(super) fn act(&mut self, around: &mut HeapEnvironment<'_>) -> Time {
        match self.mode {
            Mode::Frozen(until) | Mode::Computing(until) if around.now < until => return until,
            _ => self.mode = Mode::Polling,
        }
        if self.end.is_some() {
            return Time::MAX;
        }
        if self.calls {
            match self.heap.poll() {
                None => return self.wait(around),
                Some(Err(error)) => {
                    let rank = self.rank;
                    around.reference.complain(format!("a call of rank {rank} failed: {error}"));
                    return Time::MAX;
                }
                Some(Ok(())) => self.end_call(around),
            }
        }
        if self.opened <= around.plan.places.len() {
            let place = self.opened.checked_sub(1).map(|at| around.plan.places[at]);
            self.opened += 1;
            return self.call(
                place.map_or(HeapCall::Open, |(first, pages, home)| {
                    HeapCall::Place(first, pages, home)
                }),
                around,
            );
        }
        if !around.all_open {
            return self.wait(around);
        }
        self.step(around)
    }

    fn call(&mut self, call: HeapCall, around: &HeapEnvironment<'_>) -> Time {
        self.heap.begin(call);
        self.calls = true;
        around.now + NAP
    }

    /// Waits for an answer, or for other ranks: checks for deaths now and then.
    fn wait(&mut self, around: &mut HeapEnvironment<'_>) -> Time {
        let Err(error) = self.heap.check_deaths() else { return around.now + NAP };
        let named = match error.kind() {
            ErrorKind::RankDied(death) => around.reference.dead >> death.rank & 1 != 0,
            _ => false,
        };
        if !named {
            let rank = self.rank;
            around.reference.complain(format!("rank {rank} ended by no death: {error}"));
        }
        around.reference.counts.ended_by_deaths += 1;
        self.end = Some(RankEnd::Error(error.to_string()));
        Time::MAX
    }

    /// Takes in that the call of a step has ended.
    fn end_call(&mut self, around: &mut HeapEnvironment<'_>) {
        self.calls = false;
        let rank = self.rank as usize;
        if self.opened <= around.plan.places.len() || !around.all_open {
            return;
        }
        let Reference { oracle, counts, .. } = around.reference;
        match around.plan.programs[rank].get(self.next) {
            // The page is there, or was taken away again.
            None | Some(Op::Read(_) | Op::Write(..)) => return,
            Some(&Op::Lock(lock)) => around.reference.enter((rank, self.node), lock),
            Some(&Op::Barrier(barrier, members)) => {
                counts.barriers += 1;
                oracle.depart(rank, barrier, members);
            }
            Some(&Op::Await(flag, at_least)) => {
                counts.flags_awaited += 1;
                oracle.reached(rank, flag, at_least);
            }
            Some(_) => {}
        }
        self.next += 1;
    }

    /// Makes the next step of the program.
    fn step(&mut self, around: &mut HeapEnvironment<'_>) -> Time {
        let rank = self.rank as usize;
        let Some(&op) = around.plan.programs[rank].get(self.next) else {
            self.end = Some(RankEnd::Finished);
            around.reference.counts.finished += 1;
            return Time::MAX;
        };
        let Reference { oracle, counts, .. } = around.reference;
        let call = match op {
            Op::Read(addr) | Op::Write(addr, _) => {
                let access =
                    if matches!(op, Op::Read(_)) { PageAccess::Read } else { PageAccess::Write };
                let (page, _) = around.plan.place_of(addr);
                if self.heap.has(page, access) {
                    self.access(op, addr, around);
                    return self.go_on(around);
                }
                counts.faults += 1;
                HeapCall::Fault(page, access)
            }
            Op::Lock(lock) if around.plan.keeps_locks && self.heap.enter_kept(lock) => {
                counts.locks_kept += 1;
                around.reference.enter((rank, self.node), lock);
                return self.go_on(around);
            }
            Op::Lock(lock) => HeapCall::Acquire(lock),
            Op::Unlock(lock) => {
                oracle.leave(rank, lock);
                if around.plan.keeps_locks && self.heap.keep_lock(lock) {
                    return self.go_on(around);
                }
                HeapCall::Release(lock)
            }
            Op::Barrier(barrier, members) => {
                oracle.arrive(rank, barrier);
                HeapCall::Barrier(barrier, members)
            }
            Op::Set(flag, value) => {
                oracle.set(rank, flag, value);
                HeapCall::SetFlag(flag, value)
            }
            Op::Await(flag, at_least) => HeapCall::AwaitFlag(flag, at_least),
            Op::Fence => HeapCall::Fence,
            Op::Place(..) | Op::Peek(_) | Op::Follow(..) => {
                around.reference.complain(format!("programs here have no {op:?}"));
                return Time::MAX;
            }
        };
        self.call(call, around)
    }

    /// Reads a byte, and compares it, or writes one.
    fn access(&mut self, op: Op, addr: usize, around: &mut HeapEnvironment<'_>) {
        let (page, offset) = around.plan.place_of(addr);
        let rank = self.rank as usize;
        let Reference { oracle, counts, .. } = around.reference;
        if let Op::Write(_, value) = op {
            counts.writes += 1;
            oracle.write(rank, addr, value);
            self.heap.write(page, offset, value);
            return;
        }
        counts.reads += 1;
        let expected = oracle.read(rank, addr);
        let found = self.heap.read(page, offset);
        if found != expected {
            let what = format!(
                "rank {rank} read {found} and not {expected} at offset {offset} of page {page}"
            );
            around.reference.complain(what);
        }
    }

    fn go_on(&mut self, around: &HeapEnvironment<'_>) -> Time {
        self.next += 1;
        around.now + around.plan.base.turn + self.random.wait(around.plan.think)
    }
}
