//! A rank of a simulation: it calls the interface of its node through the real mailboxes, one step
//! at a time, and accesses the node's copy of the heap as its rights permit.
//!
//! It does what [`crate::Svm`] does in a process: a page that it has no right on is asked for, and
//! rights to write are taken from the rank before it publishes. Only the protection of pages, and
//! fetches by ranks themselves, are missing.

use crate::caller::CallFailure;
use crate::error::{ErrorKind, Result};
use crate::heap_view::{mapped, region};
use crate::kept_locks::{KeptLock, word_offset};
use crate::mailbox::{
    CONTROL_REGION, Call, HEAP_REGION, Mailbox, RightsStep, Slot, TWIN_REGION, control_bytes,
    ends_at_once, op, result, state,
};
use crate::node_pages::PAGE;
use crate::page_leases::LeaseTable;
use crate::settings::{Home, ProtocolSettings};
use clump_boot::SvmProtocol;
use clump_hlrc::{DiffTransfer, FetchRule, NoticeTransfer, PageAccess};
use clump_os::alarm::Alarm;
use clump_shm::cells::Cells;
use clump_shm::export::SegmentName;
use clump_shm::node::NodeMemory;
use clump_shm::rank::RankBlock;
use clump_shm::shared::Shared;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bytes of a page of the heap.
pub const PAGE_BYTES: usize = PAGE;

/// Settings of a simulated heap; interfaces execute all requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimulatedHeap {
    /// Pages.
    pub pages: u32,
    /// True if faults acquire what the page depends on.
    pub fetch_consistency: bool,
    /// Way of write notices.
    pub notices: NoticeTransfer,
    /// Answer of a home that is behind.
    pub fetch: FetchRule,
    /// Way of diffs.
    pub diffs: DiffTransfer,
    /// Periods between barriers after which a page moves to its sole writer; 0: never.
    pub move_after: u8,
    /// True if stores are no faults, and ranks tell of them.
    pub scans: bool,
}

/// Call of a rank to the interface of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeapCall {
    /// Takes part.
    Open,
    /// Gives pages their homes: the first page, and their number.
    Place(u32, u32, Home),
    /// Asks for a page.
    Fault(u32, PageAccess),
    /// Acquires a lock.
    Acquire(u64),
    /// Releases a lock.
    Release(u64),
    /// Passes a barrier of so many ranks.
    Barrier(u64, u32),
    /// Sets a flag to a value.
    SetFlag(u64, u64),
    /// Waits until a flag has a value.
    AwaitFlag(u64, u64),
    /// Publishes what was written.
    Fence,
}

/// A simulated rank that shares a heap.
#[derive(Debug)]
pub struct SimulatedRank {
    memory: NodeMemory,
    rank: u32,
    local_rank: u32,
    all_ranks: u32,
    settings: ProtocolSettings,
    control: Cells,
    heap: Cells,
    interface: Shared<RankBlock>,
    alarm: Option<Arc<Alarm>>,
    rights: BTreeMap<u32, PageAccess>,
    /// Pages that it has written and not reported, where stores are no faults.
    written: BTreeSet<u32>,
    /// Mailbox of the call that is under way.
    called: Option<Slot>,
}

impl SimulatedRank {
    /// Creates a rank of the node of `memory`; all ranks of the job have the same settings.
    ///
    /// # Errors
    /// Fails if memory has run out, or if the node has no interface.
    pub fn new(memory: &NodeMemory, rank: u32, heap: &SimulatedHeap) -> Result<Self> {
        let bytes = u64::from(heap.pages) * PAGE as u64;
        let missing = || clump_shm::Error::NotANode("it has no network interface");
        let interface = memory.rank(memory.interface_id(memory.node())).ok_or_else(missing)?;
        let local_ranks = memory.local_ranks();
        debug_assert!(local_ranks.contains(&rank), "a rank of the node");
        let own = |region: u8| SegmentName::of_node(memory.node(), region);
        region(memory, own(TWIN_REGION), bytes)?;
        let leases = LeaseTable::of_node(local_ranks.len() as u32, u64::from(heap.pages));
        let SimulatedHeap { pages, fetch_consistency, notices, fetch, diffs, move_after, scans } =
            *heap;
        let step = SvmProtocol::Nil;
        Ok(Self {
            memory: memory.clone(),
            rank,
            local_rank: rank - local_ranks.start,
            all_ranks: memory.ranks() as u32,
            settings: ProtocolSettings {
                pages,
                fetch_consistency,
                notices,
                fetch,
                diffs,
                move_after,
                scans,
                step,
            },
            control: mapped(memory, own(CONTROL_REGION), leases.end())?,
            heap: mapped(memory, own(HEAP_REGION), bytes)?,
            interface,
            alarm: memory.interface_alarm().cloned(),
            rights: BTreeMap::new(),
            written: BTreeSet::new(),
            called: None,
        })
    }

    /// Returns true if it has the right to access a page.
    pub fn has(&self, page: u32, access: PageAccess) -> bool {
        debug_assert!(page < self.settings.pages, "a page of the heap");
        self.rights.get(&page).is_some_and(|&had| had >= self.needed(access))
    }

    /// Returns the right that is asked for: stores that are no faults need no right of their own.
    fn needed(&self, access: PageAccess) -> PageAccess {
        if self.settings.scans { PageAccess::Read } else { access }
    }

    fn place(&self, page: u32, offset: usize) -> u64 {
        debug_assert!(offset < PAGE && page < self.settings.pages, "a byte of the heap");
        u64::from(page) * PAGE as u64 + offset as u64
    }

    /// Reads a byte of a page that it has the right on.
    pub fn read(&self, page: u32, offset: usize) -> u8 {
        debug_assert!(self.has(page, PageAccess::Read), "a read without the right is a fault");
        let mut byte = [0];
        let there = self.heap.read(self.place(page, offset), &mut byte);
        debug_assert!(there, "the heap is mapped");
        byte[0]
    }

    /// Writes a byte of a page that it has the right on.
    pub fn write(&mut self, page: u32, offset: usize, byte: u8) {
        debug_assert!(self.has(page, PageAccess::Write), "a store without the right is a fault");
        let there = self.heap.write(self.place(page, offset), &[byte]);
        debug_assert!(there, "the heap is mapped");
        if self.settings.scans {
            self.written.insert(page);
        }
    }

    fn kept_lock(&self, lock: u64) -> Option<KeptLock<'_>> {
        let at = control_bytes(self.memory.local_ranks().len() as u32) + word_offset(lock)?;
        KeptLock::over(&self.control, at, self.local_rank)
    }

    /// Enters a lock that it keeps, without a call. Returns false if it is to be acquired.
    pub fn enter_kept(&self, lock: u64) -> bool {
        self.kept_lock(lock).is_some_and(|kept| kept.enter())
    }

    /// Keeps a lock that it gives back, without a call. Returns false if it is to be released:
    /// others want it, or nobody but this rank knows what it has written.
    pub fn keep_lock(&self, lock: u64) -> bool {
        !self.settings.scans && self.kept_lock(lock).is_some_and(|kept| kept.keep())
    }

    /// Returns a call as words.
    fn encoded(&self, call: HeapCall) -> Call {
        let (op, words) = match call {
            HeapCall::Open => {
                let [pages, rest] = self.settings.pack();
                // Address 0: this rank tells of its stores itself.
                (op::OPEN, [pages, u64::from(self.all_ranks), rest, 0])
            }
            HeapCall::Place(first, pages, home) => {
                let [rule, node] = home.pack();
                (op::PLACE, [u64::from(first), u64::from(pages), rule, node])
            }
            HeapCall::Fault(page, access) => {
                let stores = self.needed(access) == PageAccess::Write;
                (op::FAULT, [u64::from(page), u64::from(stores), 0, 0])
            }
            HeapCall::Acquire(lock) => (op::ACQUIRE, [lock, 0, 0, 0]),
            HeapCall::Release(lock) => (op::RELEASE, [lock, 0, 0, 0]),
            HeapCall::Barrier(barrier, members) => {
                (op::BARRIER, [barrier, u64::from(members), 0, 0])
            }
            HeapCall::SetFlag(flag, value) => (op::SET_FLAG, [flag, value, 0, 0]),
            HeapCall::AwaitFlag(flag, at_least) => (op::AWAIT_FLAG, [flag, at_least, 0, 0]),
            HeapCall::Fence => (op::FENCE, [0; 4]),
        };
        Call { op, words }
    }

    /// Takes the right to write from this rank. Returns the pages that it has to tell of.
    fn take_written(&mut self) -> Vec<RightsStep> {
        self.rights.values_mut().for_each(|access| *access = PageAccess::Read);
        let pages = std::mem::take(&mut self.written).into_iter();
        pages.map(|first| RightsStep { first, pages: 1, access: None }).collect()
    }

    /// Leaves a call in a mailbox, and rings the interface.
    pub fn begin(&mut self, call: HeapCall) {
        debug_assert!(self.called.is_none(), "one call at a time");
        let publishes = matches!(
            call,
            HeapCall::Release(_) | HeapCall::Barrier(..) | HeapCall::SetFlag(..) | HeapCall::Fence
        );
        let written = if publishes { self.take_written() } else { Vec::new() };
        let call = self.encoded(call);
        let slot = match call.op {
            op::FAULT => Slot::FAULT,
            brief if ends_at_once(brief) => Slot::BRIEF,
            _ => Slot::waiting().next().unwrap_or(Slot::BRIEF),
        };
        slot.announce(&self.control, self.local_rank);
        self.leave(slot, &call, &written);
        self.called = Some(slot);
    }

    fn mailbox(&self, slot: Slot) -> Option<Mailbox<'_>> {
        let mailbox = Mailbox::over(&self.control, Mailbox::place(self.local_rank, slot));
        debug_assert!(mailbox.is_some(), "mailboxes are mapped");
        mailbox
    }

    fn leave(&self, slot: Slot, call: &Call, written: &[RightsStep]) {
        if let Some(mailbox) = self.mailbox(slot) {
            mailbox.leave(call, written, (false, false));
        }
        self.interface.call_interface(self.rank, self.alarm.as_deref());
    }

    /// Returns true if the call under way has been answered.
    pub fn is_answered(&self) -> bool {
        let mailbox = self.called.and_then(|slot| self.mailbox(slot));
        mailbox.is_some_and(|mailbox| mailbox.state() == state::ANSWERED)
    }

    /// Takes the answer, if there is one: changes the rights as it says, and ends the call.
    pub fn poll(&mut self) -> Option<Result<()>> {
        let slot = self.called.filter(|_| self.is_answered())?;
        let mut steps = Vec::new();
        let outcome = self.mailbox(slot)?.take(|step| steps.push(step));
        for RightsStep { first, pages, access } in steps {
            for page in first..first + pages {
                match access {
                    Some(access) => self.rights.insert(page, access),
                    None => self.rights.remove(&page),
                };
            }
        }
        if outcome == result::MORE {
            self.leave(slot, &Call { op: op::CONTINUE, words: [0; 4] }, &[]);
            return None;
        }
        self.called = None;
        let done = outcome == result::DONE;
        Some(if done { Ok(()) } else { Err(CallFailure::Result(outcome).into_error().into()) })
    }

    /// Checks that all ranks live, as ranks that wait for an answer do now and then.
    ///
    /// # Errors
    /// Fails with the first death.
    pub fn check_deaths(&self) -> Result<()> {
        let death = self.memory.job().first_death();
        death.map_or(Ok(()), |death| Err(ErrorKind::RankDied(death).into()))
    }
}
