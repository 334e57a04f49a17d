//! Shared virtual memory as a rank uses it: the heap, its allocations, and synchronisation.

use crate::breakdown::{Breakdown, Part, Sums};
use crate::caller::{CallFailure, checked};
use crate::dynamic_heap::STATE_WORDS;
use crate::dynamic_part::{DynamicPart, HeapWords};
use crate::error::{Error, ErrorKind, Result};
use crate::heap_view::{own_region, region};
use crate::kept_locks::FIRST_ALONE;
use crate::mailbox::{HEAP_REGION, op};
use crate::node_locks::{MAX_ENTRIES, NodeLocks};
use crate::node_pages::PAGE;
use crate::opening::{Coherence, SvmOptions, agreed, by_hardware, by_protocol};
use crate::program_globals::ProgramGlobals;
use crate::settings::Home;
use crate::thread_locks::ThreadLocks;
use clump_am::{AsContext, RankContext, own_actor};
use clump_coll::{Max, Team};
use clump_os::clock;
use clump_os::sync::{AtomicBool, AtomicU64, Ordering};
use clump_shm::export::SegmentName;
use clump_shm::supply::{MachineSupply, Shortage};
use clump_shm::virtual_time::Call;
use clump_trace::Counter;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, OnceLock};

static OPEN: AtomicBool = AtomicBool::new(false);
/// Bytes of an allocation from which it asks for memory: far less than what a supply leaves to
/// others.
const EXAMINED_BYTES: u64 = 4 << 20;

#[derive(Debug)]
struct Inner {
    team: Arc<Team>,
    context: Arc<RankContext>,
    coherence: Coherence,
    base: NonNull<u8>,
    /// Bytes of the heap, and of its part for collective allocation.
    all_bytes: u64,
    heap_bytes: u64,
    /// First page that is not allocated; the same at all ranks.
    next_page: AtomicU64,
    /// First number that no lock or flag has; the same at all ranks.
    next_id: AtomicU64,
    /// Locks and flags that this rank has made alone.
    made_alone: AtomicU64,
    dynamic: OnceLock<DynamicPart>,
    thread_locks: ThreadLocks,
    nnodes: usize,
    /// True if pages move to their sole writers at barriers.
    pages_move: bool,
}

// SAFETY: the base is an address; what lies there is accessed through raw pointers alone.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// The shared heap, at the same address in all ranks. Clones are the same heap.
///
/// Any thread of a rank uses it. Threads of one rank see each other's stores as in any process;
/// towards others they release and acquire as one: what a thread releases includes what others of
/// its rank have written so far. [`Svm::barrier`], and what is a collective, is called by one
/// thread of each rank; [`Svm::thread_barrier`] is a barrier of all threads.
#[derive(Debug, Clone)]
pub struct Svm {
    inner: Arc<Inner>,
}

impl Svm {
    /// Opens the heap. A collective: all ranks of the job call it, once, with the same options.
    ///
    /// # Errors
    /// Fails if it was opened before, if address space or memory has run out, if ranks pass
    /// different options, or if a rank died or left.
    pub fn open(rank: &impl AsContext, team: &Arc<Team>, options: &SvmOptions) -> Result<Self> {
        let context = rank.context();
        let heap_bytes = options.heap_bytes.max(1).next_multiple_of(PAGE as u64);
        let nnodes = context.nnodes() as usize;
        let heap = || -> Result<SegmentName> {
            context.check_alive()?;
            if OPEN.swap(true, Ordering::AcqRel) {
                return Err(ErrorKind::AlreadyOpen.into());
            }
            let heap = own_region(context, HEAP_REGION);
            region(context.node(), heap, heap_bytes)?;
            Ok(heap)
        };
        let heap = agreed(team, heap())?;
        let (coherence, pages_move) = match nnodes {
            1 => (by_hardware(context, team, (heap, heap_bytes), options)?, false),
            _ => by_protocol(context, team, (heap, heap_bytes), options)?,
        };
        team.meet_all()?;
        let base = match &coherence {
            Coherence::Hardware { view, .. } => view.base(),
            Coherence::Protocol(domain, _) => domain.base(),
        };
        let dynamic_pages = options.dynamic_bytes.min(heap_bytes) / PAGE as u64;
        let inner = Inner {
            team: team.clone(),
            context: context.clone(),
            coherence,
            base,
            all_bytes: heap_bytes,
            heap_bytes: heap_bytes - dynamic_pages * PAGE as u64,
            next_page: AtomicU64::new(0),
            next_id: AtomicU64::new(0),
            made_alone: AtomicU64::new(0),
            dynamic: OnceLock::new(),
            thread_locks: ThreadLocks::default(),
            nnodes,
            pages_move,
        };
        let svm = Self { inner: Arc::new(inner) };
        svm.reserve(options.globals, dynamic_pages)?;
        Ok(svm)
    }

    /// Allocates what the heap begins with, and what its dynamic part needs. A collective.
    fn reserve(&self, globals: Option<ProgramGlobals>, dynamic_pages: u64) -> Result<()> {
        if let Some(globals) = globals {
            let (address, bytes) = globals.place();
            let first = self.alloc_sparse(bytes as u64, Home::Block)?;
            debug_assert_eq!(first.addr().get(), address, "the heap begins with them");
        }
        if dynamic_pages > 0 {
            self.reserve_dynamic((self.inner.heap_bytes / PAGE as u64, dynamic_pages))?;
        }
        Ok(())
    }

    /// Allocates what the dynamic part needs. A collective.
    fn reserve_dynamic(&self, pages: (u64, u64)) -> Result<()> {
        let words = |len: u64, home: Home| -> Result<HeapWords> {
            let first = self.alloc_sparse(len * 8, home)?;
            // SAFETY: just allocated, of so many words.
            Ok(unsafe { HeapWords::over(first, len as usize) })
        };
        let (state, uses) =
            (words(STATE_WORDS as u64, Home::Node(0))?, words(pages.1, Home::Cyclic)?);
        let (lock, own) = (self.new_ids(1)?, Mutex::default());
        let set = self.inner.dynamic.set(DynamicPart { pages, lock, state, uses, own });
        debug_assert!(set.is_ok(), "a heap is opened once");
        Ok(())
    }

    /// Returns this rank.
    pub fn rank(&self) -> usize {
        self.inner.team.rank()
    }

    /// Returns the number of ranks.
    pub fn nranks(&self) -> usize {
        self.inner.team.nranks()
    }

    /// Returns the ranks that share the heap, for collectives of messages.
    pub fn team(&self) -> &Arc<Team> {
        &self.inner.team
    }

    /// Returns the number of nodes.
    pub fn nnodes(&self) -> usize {
        self.inner.nnodes
    }

    /// Returns the address of the heap, which is the same in all ranks.
    pub fn base(&self) -> NonNull<u8> {
        self.inner.base
    }

    /// Returns the number of pages, from the first on, that collectives have allocated.
    pub(crate) fn allocated_pages(&self) -> u64 {
        self.inner.next_page.load(Ordering::Relaxed)
    }

    /// Returns the bytes of the heap that are not allocated.
    pub fn bytes_left(&self) -> u64 {
        let used = self.inner.next_page.load(Ordering::Relaxed) * PAGE as u64;
        self.inner.heap_bytes.saturating_sub(used)
    }

    /// Allocates `bytes` bytes, zeroed, in whole pages, with homes as `home` says. A collective:
    /// all ranks pass the same, and get the same address.
    ///
    /// # Errors
    /// Fails if the heap is full, if there is no such node, if ranks pass different arguments, if a
    /// rank died or left, or, on one node, if the machine has less memory than `bytes`. What fails
    /// at one rank fails at all, but for different lengths: the longest is not reported. The next
    /// allocation finds them in step.
    pub fn alloc(&self, bytes: u64, home: Home) -> Result<NonNull<u8>> {
        self.alloc_after(|| self.check_memory(bytes), bytes, home)
    }

    /// Allocates as [`Svm::alloc`] does, whatever memory the machine has: for what is touched in
    /// part only. On one node the kernel ends a rank that touches more than there is.
    ///
    /// # Errors
    /// As [`Svm::alloc`], but for a lack of memory.
    pub fn alloc_sparse(&self, bytes: u64, home: Home) -> Result<NonNull<u8>> {
        self.alloc_after(|| Ok(()), bytes, home)
    }

    /// Allocates if `examine` succeeds at the first rank.
    fn alloc_after(
        &self,
        examine: impl FnOnce() -> Result<()>,
        bytes: u64,
        home: Home,
    ) -> Result<NonNull<u8>> {
        /// Marks the sum of ranks one of which has failed.
        const FAILED: u64 = 1 << 63;
        let inner = &*self.inner;
        let _call = own_actor(&inner.context).map(|actor| Call::of_heap(actor, false));
        let first = self.allocated_pages();
        let place = || -> Result<u64> {
            if self.rank() == 0 {
                examine()?;
            }
            self.check_home(home)?;
            let pages = bytes.max(1).div_ceil(PAGE as u64);
            if pages > inner.heap_bytes / PAGE as u64 - first {
                let (heap, left) = (inner.heap_bytes, self.bytes_left());
                return Err(ErrorKind::HeapFull { asked: bytes, heap, left }.into());
            }
            if let Coherence::Protocol(domain, _) = &inner.coherence {
                let [rule, node] = home.pack();
                domain.call(op::PLACE, [first, pages, rule, node])?;
            }
            Ok(pages)
        };
        let placed = place();
        let (failed, pages) = placed.as_ref().map_or((FAILED, 0), |&pages| (0, pages));
        // No rank uses a page before all nodes know its home. Pages that some have placed are not
        // placed again, so all go on behind them.
        let all = inner.team.all_reduce(failed | (first + pages), Max)?;
        debug_assert!(all & !FAILED >= first, "pages that are allocated stay so");
        inner.next_page.store(all & !FAILED, Ordering::Relaxed);
        placed.map_err(Error::having_taken_part)?;
        match all {
            all if all & FAILED != 0 => Err(ErrorKind::OtherRankFailed.into()),
            all if all != first + pages => Err(ErrorKind::Different.into()),
            // SAFETY: within the heap, as was just checked.
            _ => Ok(unsafe { inner.base.add(first as usize * PAGE) }),
        }
    }

    /// Examines, where ranks touch memory without asking, if the machine has `bytes` more: the
    /// kernel would end a process of it that touches what is not there. Nodes of several ask for
    /// each page instead.
    pub(crate) fn check_memory(&self, bytes: u64) -> Result<()> {
        if bytes < EXAMINED_BYTES || matches!(self.inner.coherence, Coherence::Protocol(..)) {
            return Ok(());
        }
        let refused =
            |why: Shortage| clump_shm::Error::NoMemory { asked: bytes, available: why.available };
        Ok(MachineSupply::examine(bytes).map_err(refused)?)
    }

    pub(crate) fn check_home(&self, home: Home) -> Result<()> {
        match home {
            Home::Node(node) if node >= self.inner.nnodes => {
                Err(ErrorKind::NoSuchNode(node).into())
            }
            _ => Ok(()),
        }
    }

    /// Returns the dynamic part of the heap.
    pub(crate) fn dynamic(&self) -> Result<&DynamicPart> {
        Ok(self.inner.dynamic.get().ok_or(ErrorKind::NotDynamic)?)
    }

    /// Returns the number of this rank's node.
    pub(crate) fn node(&self) -> usize {
        self.inner.context.node_number() as usize
    }

    /// Returns true if an address lies in the heap.
    pub fn contains(&self, address: usize) -> bool {
        let (begin, end) = self.addresses();
        (begin..end).contains(&address)
    }

    /// Returns the first address of the heap, and the one behind it.
    pub fn addresses(&self) -> (usize, usize) {
        let begin = self.inner.base.addr().get();
        (begin, begin + self.inner.all_bytes as usize)
    }

    /// Returns the address of a page.
    pub(crate) fn page_address(&self, page: u64) -> NonNull<u8> {
        assert!(page < self.inner.all_bytes / PAGE as u64, "page {page} of the heap");
        // SAFETY: within the heap, as was just checked.
        unsafe { self.inner.base.add(page as usize * PAGE) }
    }

    /// Gives pages their homes, at all nodes.
    pub(crate) fn place_alone(&self, first: u64, pages: u64, home: Home) -> Result<()> {
        let [rule, node] = home.pack();
        match &self.inner.coherence {
            Coherence::Hardware { .. } => Ok(()),
            Coherence::Protocol(domain, _) => {
                domain.call(op::PLACE_ALONE, [first, pages, rule, node])
            }
        }
    }

    /// Returns the number of a new lock or flag that this rank makes alone.
    pub(crate) fn new_id_alone(&self) -> Result<u64> {
        let made = self.inner.made_alone.fetch_add(1, Ordering::Relaxed);
        let (rank, ranks) = (self.rank() as u64, self.nranks() as u64);
        self.checked_id(FIRST_ALONE + made * ranks + rank, 1, MAX_ENTRIES)
    }

    /// Returns the first of new numbers, which end below a limit.
    fn checked_id(&self, first: u64, count: u64, end: u64) -> Result<u64> {
        if count > end.saturating_sub(first) {
            let left = end.saturating_sub(first);
            return Err(ErrorKind::HeapFull { asked: count, heap: end, left }.into());
        }
        Ok(first)
    }

    /// Returns numbers of `count` new locks or flags, the first of consecutive ones. A collective.
    pub(crate) fn new_ids(&self, count: u64) -> Result<u64> {
        let first = self.inner.next_id.load(Ordering::Relaxed);
        let first = self.checked_id(first, count, FIRST_ALONE)?;
        self.inner.next_id.store(first + count, Ordering::Relaxed);
        Ok(first)
    }

    fn sums(&self) -> &Sums {
        match &self.inner.coherence {
            Coherence::Hardware { sums, .. } => sums,
            Coherence::Protocol(domain, _) => domain.sums(),
        }
    }

    /// Executes a call that may wait.
    fn sync(
        &self,
        part: Part,
        call: (u64, [u64; 4]),
        here: impl FnOnce(&NodeLocks) -> std::result::Result<(), CallFailure>,
    ) -> Result<()> {
        let done = self.sums().time(part, || match &self.inner.coherence {
            Coherence::Hardware { locks, .. } => checked(here(locks)),
            Coherence::Protocol(domain, _) => {
                if part == Part::Lock {
                    domain.call(call.0, call.1)
                } else {
                    domain.release(call.0, call.1)
                }
            }
        });
        self.publish();
        done
    }

    /// Copies times and counts to where reports of the job find them.
    fn publish(&self) {
        let counters = self.inner.context.counters();
        self.sums().publish(&counters, self.elapsed_ns());
        if let Coherence::Protocol(domain, _) = &self.inner.coherence {
            counters.set(Counter::SvmProtocol, domain.step as u64 + 1);
            counters.set(Counter::SvmWoken, domain.woken().total());
            counters.set(Counter::SvmSent, domain.sent().all);
            counters.set(Counter::SvmSentDiffs, domain.sent().diffs);
            let ahead = domain.fetched_ahead();
            counters.set(Counter::SvmAhead, ahead.pages);
            counters.set(Counter::SvmAheadUnused, ahead.unused);
        }
    }

    /// Returns the time since the heap was opened.
    fn elapsed_ns(&self) -> u64 {
        let opened = match &self.inner.coherence {
            Coherence::Hardware { opened_ns, .. } => *opened_ns,
            Coherence::Protocol(domain, _) => domain.opened_ns,
        };
        clock::now_ns().saturating_sub(opened)
    }

    /// Returns once all ranks have called it; each then sees what the others had written.
    ///
    /// # Errors
    /// Fails if a rank died, or if a page could not be kept.
    pub fn barrier(&self) -> Result<()> {
        let inner = &*self.inner;
        let done = self.sums().time(Part::Barrier, || match &inner.coherence {
            Coherence::Hardware { sums, .. } => {
                sums.time(Part::Others, || Ok(inner.team.barrier()?))
            }
            Coherence::Protocol(domain, _) => domain.barrier(&inner.team, inner.pages_move),
        });
        self.publish();
        done
    }

    /// Publishes what this rank has written: for ranks that learn of it by other means than locks,
    /// barriers and flags of this crate, such as messages.
    ///
    /// # Errors
    /// Fails if a rank died, or if a page could not be kept.
    pub fn fence(&self) -> Result<()> {
        self.sync(Part::Release, (op::FENCE, [0; 4]), |_| Ok(()))
    }

    /// Takes a lock, first among the threads of this rank, then for the rank.
    pub(crate) fn acquire(&self, lock: u64) -> Result<()> {
        let threads = &self.inner.thread_locks;
        checked(threads.enter(lock, &self.inner.context))?;
        let taken = match &self.inner.coherence {
            Coherence::Hardware { locks, sums, .. } => {
                checked(sums.time(Part::Lock, || locks.acquire(lock)))
            }
            Coherence::Protocol(domain, _) => domain.acquire(lock),
        };
        if taken.is_err() {
            threads.leave(lock);
        }
        taken
    }

    pub(crate) fn release(&self, lock: u64) -> Result<()> {
        let threads = &self.inner.thread_locks;
        if !threads.has(lock) {
            return Err(ErrorKind::Misuse.into());
        }
        let given = match &self.inner.coherence {
            Coherence::Hardware { locks, sums, .. } => {
                checked(sums.time(Part::Release, || locks.release(lock)))
            }
            Coherence::Protocol(domain, _) => domain.release_lock(lock),
        };
        threads.leave(lock);
        given
    }

    /// Returns this rank in its job.
    pub(crate) fn context(&self) -> &RankContext {
        &self.inner.context
    }

    pub(crate) fn set_flag(&self, flag: u64, value: u64) -> Result<()> {
        let call = (op::SET_FLAG, [flag, value, 0, 0]);
        self.sync(Part::Release, call, |locks| locks.set(flag, value))
    }

    pub(crate) fn await_flag(&self, flag: u64, least: u64) -> Result<()> {
        let call = (op::AWAIT_FLAG, [flag, least, 0, 0]);
        self.sums().time(Part::Flag, || {
            self.sync(Part::Lock, call, |locks| locks.await_at_least(flag, least))
        })
    }

    /// Returns the way in which accesses to pages are found, as the setting `svm_faults` names it;
    /// none on one node.
    pub fn faults(&self) -> Option<&'static str> {
        match &self.inner.coherence {
            Coherence::Hardware { .. } => None,
            Coherence::Protocol(domain, _) => Some(domain.engine()),
        }
    }

    /// Returns the step of the protocol ladder, as the setting `svm` names it; none on one node.
    pub fn protocol(&self) -> Option<&'static str> {
        match &self.inner.coherence {
            Coherence::Hardware { .. } => None,
            Coherence::Protocol(domain, _) => Some(domain.step.name()),
        }
    }

    /// Returns where this rank's time went since the heap was opened.
    pub fn breakdown(&self) -> Breakdown {
        let sums = self.sums().read(self.elapsed_ns());
        match &self.inner.coherence {
            Coherence::Hardware { .. } => sums,
            Coherence::Protocol(domain, _) => {
                let (woken, sent) = (domain.woken(), domain.sent());
                Breakdown { woken, sent, ahead: domain.fetched_ahead(), ..sums }
            }
        }
    }
}
