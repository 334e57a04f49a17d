//! Memory of a rank's node, and one-sided operations on that of others, as one thread of the rank
//! has them.

use crate::asked_reads::AskedRead;
use crate::caller::{CallFailure, Caller, check_deaths};
use crate::home_frames::{HomeFrames, WORD_HEAD, copy_words, place};
use crate::mailbox::{HEAP_REGION, LOCK_REGION, RECORD_REGION, TWIN_REGION, result};
use crate::node_pages::{PAGE, difference};
use crate::settings::PlacementRules;
use clump_am::{RankContext, own_actor};
use clump_hlrc::deposit::{DepositPort, DepositedBytes, DepositedNotices, PageBytes, PagePart};
use clump_hlrc::{Diff, Strides};
use clump_onesided::protocol::MAX_PIECE;
use clump_onesided::{AdvanceWord, AtomicOp};
use clump_os::futex;
use clump_os::sync::{AtomicU32, Ordering, fence};
use clump_rma::{HeldClaim, LockTable, Rma, SegmentName, Target};
use clump_shm::cells::Cells;
use clump_shm::rank::{Published, WaitReason};
use clump_shm::supply::MachineSupply;
use clump_shm::virtual_time::PageCosts;
use clump_shm::waiter::{WaitStep, Waiter};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

/// Longest sleep before a rank checks for deaths again.
const NAP: Duration = Duration::from_millis(20);
/// Sleep between looks at a word that an interface changes without waking this rank.
const GLANCE: Duration = Duration::from_micros(50);

/// Ports opened so far.
static PORTS: AtomicU32 = AtomicU32::new(0);

/// A node, as this thread reaches it.
#[derive(Debug)]
struct NodeTargets {
    records: Target,
    heap: Target,
}

/// Port of one thread.
#[derive(Debug)]
pub(crate) struct RankPort {
    /// Number among the ports of the process, from 1.
    pub(crate) number: u32,
    context: Arc<RankContext>,
    rma: Rma,
    records: Cells,
    frames: Cells,
    twins: Cells,
    heap: SegmentName,
    twin: SegmentName,
    nodes: Vec<NodeTargets>,
    /// Locks of this node's ranks: of those, one at a time has a lock of the job, or asks for it.
    locks: LockTable,
    rules: Arc<PlacementRules>,
    supply: MachineSupply,
    /// Calls of the node's interface, for faults that have interrupted this rank's stack.
    caller: Option<Arc<Caller>>,
    strides: RefCell<Strides>,
    /// Locks that this thread holds.
    held: RefCell<FxHashMap<u64, HeldClaim>>,
}

impl RankPort {
    /// Opens the port of the calling thread. Takes one of the rank's endpoints.
    pub(crate) fn open(
        context: &Arc<RankContext>,
        rules: &Arc<PlacementRules>,
        caller: Option<&Arc<Caller>>,
    ) -> crate::Result<Self> {
        let (node, own) = (context.node(), context.node_number());
        let missing = || clump_shm::Error::NotANode("a region of it is not there");
        let mapped = |region: u8| -> crate::Result<(SegmentName, Cells)> {
            let name = SegmentName::of_node(own, region);
            Ok((name, node.exported(name)?.ok_or_else(missing)?.0))
        };
        let ((_, records), (heap, frames), (twin, twins)) =
            (mapped(RECORD_REGION)?, mapped(HEAP_REGION)?, mapped(TWIN_REGION)?);
        let rma = Rma::open_restricted(context)?;
        let targets = |number: u32| -> crate::Result<NodeTargets> {
            Ok(NodeTargets {
                records: rma.target(SegmentName::of_node(number, RECORD_REGION))?,
                heap: rma.target(SegmentName::of_node(number, HEAP_REGION))?,
            })
        };
        let nodes = (0..context.nnodes()).map(targets).collect::<crate::Result<Vec<_>>>()?;
        let locks = rma.lock_table(SegmentName::of_node(own, LOCK_REGION))?;
        let (context, rules, caller) = (context.clone(), rules.clone(), caller.cloned());
        let (strides, held) = Default::default();
        debug_assert_eq!(u32::from(rules.nodes), context.nnodes(), "rules of this job");
        debug_assert!(nodes.len() > 1, "one of several nodes");
        debug_assert!(
            caller.is_some() || context.actor().is_some(),
            "else a node has an interface"
        );
        let supply = MachineSupply::new(node.ranks());
        let number = 1 + PORTS.fetch_add(1, Ordering::Relaxed);
        Ok(Self {
            number,
            context,
            rma,
            records,
            frames,
            twins,
            heap,
            twin,
            nodes,
            locks,
            rules,
            supply,
            caller,
            strides,
            held,
        })
    }

    /// Returns true if the thread may use the rank's stack now. Not so in a fault that has
    /// interrupted the stack itself; nor while another thread has it, which a fault cannot tell.
    fn has_stack(&self) -> bool {
        self.rma.may_wait_in_fault()
    }

    /// Reads memory of another node by the interface of this one, which jobs in virtual time have
    /// none of.
    fn ask(&self, node: u16, read: AskedRead, to: &mut [u8]) -> Result<(), CallFailure> {
        debug_assert!(!self.has_stack(), "else the rank reads by itself");
        let caller = self.caller.as_ref().ok_or(CallFailure::Result(result::NO_INTERFACE))?;
        caller.ask(node, read, to)
    }

    /// Reads pages of another node, and words behind each, by the interface of this one.
    fn ask_pages(
        &self,
        home: u16,
        (pages, to): (&[u32], &mut [PageBytes]),
        (at, words): (u64, &mut [u64]),
    ) -> Result<(), CallFailure> {
        debug_assert_eq!(pages.len(), to.len(), "a place for each page");
        let mut bytes = vec![0; PAGE + size_of_val(words)];
        for (&page, to) in pages.iter().zip(to) {
            let read = AskedRead::Page { page, at, words: words.len() as u32 };
            self.ask(home, read, &mut bytes)?;
            let (frame, behind) = bytes.split_at(PAGE);
            to.copy_from_slice(frame);
            copy_words(behind, words);
        }
        Ok(())
    }

    /// Returns pages to be fetched with one that this thread reads.
    pub(crate) fn ahead_of(&self, page: u32) -> Vec<u32> {
        debug_assert!(page < self.rules.pages, "the page exists");
        // A fault inside the stack asks the interface for each.
        let has_stack = self.has_stack();
        let ahead = has_stack.then(|| self.strides.borrow_mut().on_fault(page));
        let ahead = ahead.unwrap_or_default();
        debug_assert!(!ahead.contains(&page), "others");
        ahead
    }

    /// Reads words of another node by the interface of this one.
    fn ask_words(&self, node: u16, read: AskedRead, to: &mut [u64]) -> Result<(), CallFailure> {
        debug_assert_eq!(read.bytes(), size_of_val(to), "all of them");
        debug_assert!(!self.has_stack() || !to.is_empty(), "words to be read");
        let mut bytes = vec![0; size_of_val(to)];
        self.ask(node, read, &mut bytes)?;
        copy_words(&bytes, to);
        Ok(())
    }

    /// Orders an access to words of the node, where time is virtual: no actor of the node acts on
    /// them before it.
    fn order(&self) {
        if let Some(actor) = self.context.actor() {
            debug_assert!(own_actor(&self.context).is_some(), "the thread has the clock");
            actor.order_words();
        }
    }

    /// Charges what the machine file says, where time is virtual.
    fn pay(&self, cost: impl FnOnce(PageCosts) -> u64) {
        if let Some(actor) = self.context.actor() {
            debug_assert!(own_actor(&self.context).is_some(), "the thread has the clock");
            actor.work(cost(actor.page_costs()));
        }
    }

    fn target(&self, node: u16) -> Result<&NodeTargets, CallFailure> {
        debug_assert_eq!(self.nodes.len(), usize::from(self.rules.nodes), "all nodes of the job");
        debug_assert!(node < self.rules.nodes, "a node of the job");
        self.nodes.get(usize::from(node)).ok_or(CallFailure::Result(result::MISUSE))
    }

    fn frames_at(&self, home: u16) -> Result<HomeFrames<'_>, CallFailure> {
        let NodeTargets { records, heap } = self.target(home)?;
        Ok(HomeFrames { rma: &self.rma, records, heap })
    }

    /// Returns the reason of a failed operation.
    fn failed(&self, error: &clump_rma::Error) -> CallFailure {
        match check_deaths(&self.context) {
            Err(death) => death,
            Ok(()) if error.why() == Some(clump_rma::Refusal::NoMemory) => {
                CallFailure::Result(result::NO_MEMORY)
            }
            Ok(()) => CallFailure::Result(result::UNREACHABLE),
        }
    }

    fn checked<T>(&self, done: clump_rma::Result<T>) -> Result<T, CallFailure> {
        done.map_err(|error| self.failed(&error))
    }

    fn word(&self, at: u64) -> &clump_os::sync::AtomicU64 {
        debug_assert!(at.is_multiple_of(8), "words are aligned");
        // The layout is that of the region, which is mapped whole.
        match self.records.word(at) {
            Some(word) => word,
            None => unreachable!("word {at} of the records"),
        }
    }

    /// Waits while a word of the own node is so, for `nap` at a time.
    fn sleep_while(
        &self,
        at: u64,
        nap: Duration,
        is_so: impl Fn(u64) -> bool,
    ) -> Result<(), CallFailure> {
        debug_assert!(at.is_multiple_of(8), "words are aligned");
        let mut waiter = Waiter::new(self.context.spin_policy());
        let mut published = Published::none(self.context.block());
        loop {
            self.order();
            let now = self.load(at);
            if !is_so(now) {
                return Ok(());
            }
            if waiter.step() == WaitStep::Sleep {
                check_deaths(&self.context)?;
                let segment = SegmentName::of_node(self.context.node_number(), RECORD_REGION);
                published.publish(WaitReason::Word { segment, offset: at, from: None });
                if let Some(low) = self.records.half(at) {
                    futex::wait(low, now as u32, Some(nap));
                }
            }
        }
    }

    /// Waits until no other rank of the node has a lock; calls `serve` before, if one has.
    pub(crate) fn enter_lock(
        &self,
        lock: u64,
        serve: impl FnOnce() -> Result<(), CallFailure>,
    ) -> Result<(), CallFailure> {
        debug_assert!(!self.has_lock(lock), "a rank has a lock once");
        let own = self.locks.lock(lock);
        let guard = match self.checked(own.try_acquire())? {
            Some(guard) => guard,
            None => {
                serve()?;
                self.checked(own.acquire())?
            }
        };
        let before = self.held.borrow_mut().insert(lock, guard.keep());
        debug_assert!(before.is_none(), "a rank has a lock once");
        Ok(())
    }

    /// Returns true if this thread has a lock.
    pub(crate) fn has_lock(&self, lock: u64) -> bool {
        self.held.borrow().contains_key(&lock)
    }

    /// Lets other ranks of the node have a lock.
    pub(crate) fn leave_lock(&self, lock: u64) -> Result<(), CallFailure> {
        let claim = self.held.borrow_mut().remove(&lock);
        let claim = claim.ok_or(CallFailure::Result(result::MISUSE))?;
        self.checked(self.locks.lock(lock).resume(claim).release())
    }

    /// Waits until all that this thread has written at other nodes is there.
    pub(crate) fn complete(&self) -> Result<(), CallFailure> {
        self.checked(self.rma.quiet())
    }

    /// Writes words of another node.
    pub(crate) fn put_words(&self, node: u16, at: u64, words: &[u64]) -> Result<(), CallFailure> {
        debug_assert!(!words.is_empty() && at.is_multiple_of(8), "whole words");
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        debug_assert_eq!(bytes.len(), size_of_val(words), "all of them");
        self.checked(self.target(node)?.records.put_bytes(at, &bytes))
    }
}

impl DepositPort for RankPort {
    type Error = CallFailure;

    fn load(&self, at: u64) -> u64 {
        self.word(at).load(Ordering::Acquire)
    }

    fn store(&self, at: u64, value: u64) {
        self.word(at).store(value, Ordering::Release);
    }

    fn exchange(&self, at: u64, old: u64, new: u64) -> bool {
        self.order();
        debug_assert!(at.is_multiple_of(8), "words are aligned");
        let (done, missed) = (Ordering::SeqCst, Ordering::Acquire);
        self.word(at).compare_exchange(old, new, done, missed).is_ok()
    }

    fn set_bits(&self, at: u64, bits: u64) -> u64 {
        debug_assert_ne!(bits, 0, "there are bits to be set");
        self.order();
        self.word(at).fetch_or(bits, Ordering::SeqCst)
    }

    fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    fn wait_changed(&self, at: u64, seen: u64) -> Result<(), CallFailure> {
        self.sleep_while(at, NAP, |now| now == seen)
    }

    fn wait_deposited(
        &self,
        (at, least): (u64, u64),
        other: Option<(u64, u64)>,
    ) -> Result<bool, CallFailure> {
        debug_assert!(at.is_multiple_of(8), "words are aligned");
        debug_assert!(other.is_none_or(|(at, _)| at.is_multiple_of(8)), "both are");
        if !self.has_stack() {
            // A fault publishes nothing.
            return self.sleep_while(at, GLANCE, |now| now < least).map(|()| true);
        }
        let own = self.target(self.context.node_number() as u16)?;
        self.checked(own.records.wait_for_either((at, least), other))
    }

    fn wake(&self, at: u64) {
        if let Some(low) = self.records.half(at) {
            futex::wake_all(low);
        }
    }

    fn read_frame(&self, page: u32, to: &mut PageBytes) {
        debug_assert!(page < self.rules.pages, "the page exists");
        let there = self.frames.read(place(page), to);
        debug_assert!(there, "page {page} of the heap is mapped");
    }

    fn commit(&self, page: u32, part: PagePart) -> Result<(), CallFailure> {
        debug_assert!(page < self.rules.pages, "the page exists");
        let name = match part {
            PagePart::Frame => self.heap,
            PagePart::Twin => self.twin,
        };
        // A supply that is kept looks at the machine's memory once in some MiB.
        let (node, supply) = (self.context.node(), &mut &self.supply);
        let committed = node.commit(name, (place(page), PAGE as u64), supply);
        committed.map_err(|_| CallFailure::Result(result::NO_MEMORY))
    }

    fn write_frame(&self, page: u32, first: usize, bytes: &[u8]) {
        debug_assert!(first + bytes.len() <= PAGE, "of one page");
        debug_assert!(page < self.rules.pages, "the page exists");
        let there = self.frames.write(place(page) + first as u64, bytes);
        debug_assert!(there, "page {page} of the heap is mapped");
    }

    fn read_twin(&self, page: u32, to: &mut PageBytes) {
        debug_assert!(page < self.rules.pages, "the page exists");
        let there = self.twins.read(place(page), to);
        debug_assert!(there, "the twin of page {page} is mapped");
    }

    fn write_twin(&self, page: u32, bytes: &PageBytes) {
        debug_assert!(page < self.rules.pages, "the page exists");
        let there = self.twins.write(place(page), bytes);
        self.pay(|costs| costs.twin_ns);
        debug_assert!(there, "the twin of page {page} is mapped");
    }

    fn difference(&self, twin: &PageBytes, page: &PageBytes) -> Diff {
        let diff = difference(twin, page);
        self.pay(|costs| costs.diff_ns);
        debug_assert_eq!(diff.is_empty(), twin == page, "what differs is found");
        diff
    }

    fn placed_home(&self, page: u32) -> Option<u16> {
        debug_assert!(page < self.rules.pages, "the page exists");
        self.rules.home(page)
    }

    fn fetch(
        &self,
        home: u16,
        (before, arrived): (u64, &mut [u64]),
        (pages, to): (&[u32], &mut [PageBytes]),
        (at, words): (u64, &mut [u64]),
    ) -> Result<(), CallFailure> {
        debug_assert_eq!(pages.len(), to.len(), "a place for each page");
        debug_assert!(pages.is_sorted() && !pages.is_empty(), "pages ascend");
        debug_assert_ne!(u32::from(home), self.context.node_number(), "frames are here already");
        if !self.has_stack() {
            if !arrived.is_empty() {
                self.read_words(home, before, arrived)?;
            }
            return self.ask_pages(home, (pages, to), (at, words));
        }
        let fetched = self.frames_at(home)?.fetch((before, arrived), (pages, to), (at, words));
        self.checked(fetched)
    }

    fn count(&self, node: u16, words: &[u64]) -> Result<(), CallFailure> {
        debug_assert!(!words.is_empty(), "there is something to count");
        debug_assert!(words.iter().all(|at| at.is_multiple_of(8)), "words are aligned");
        if !self.has_stack() {
            let add = |&at| self.ask_words(node, AskedRead::Add { at, value: 1 }, &mut [0]);
            return words.iter().try_for_each(add);
        }
        let records = &self.target(node)?.records;
        let all: Vec<_> = words.iter().map(|&at| AdvanceWord::by(at, 1)).collect();
        for some in all.chunks(MAX_PIECE / WORD_HEAD) {
            self.checked(records.apply(&[], some))?;
            self.rma.fence();
        }
        Ok(())
    }

    fn read_words(&self, node: u16, at: u64, to: &mut [u64]) -> Result<(), CallFailure> {
        if !self.has_stack() {
            return self.ask_words(node, AskedRead::Words { at, words: to.len() as u32 }, to);
        }
        let mut bytes = vec![0; size_of_val(to)];
        self.checked(self.target(node)?.records.get_bytes(at, &mut bytes))?;
        copy_words(&bytes, to);
        Ok(())
    }

    fn raise(&self, node: u16, words: &[(u64, u64)]) -> Result<(), CallFailure> {
        debug_assert!(words.iter().all(|(at, _)| at.is_multiple_of(8)), "words are aligned");
        self.rma.fence();
        let advances: Vec<_> =
            words.iter().map(|&(at, value)| AdvanceWord::at_least(at, value)).collect();
        self.checked(self.target(node)?.records.apply(&[], &advances))
    }

    fn claim(&self, node: u16, at: u64, value: u64) -> Result<u64, CallFailure> {
        if !self.has_stack() {
            let mut word = [0];
            self.ask_words(node, AskedRead::Claim { at, value }, &mut word)?;
            return Ok(word[0]);
        }
        debug_assert_ne!(value, 0, "0 is no claim");
        let before = self.checked(self.target(node)?.records.compare_swap(at, 0, value))?;
        Ok(if before == 0 { value } else { before })
    }

    fn swap(&self, node: u16, at: u64, value: u64) -> Result<u64, CallFailure> {
        debug_assert!(at.is_multiple_of(8), "words are aligned");
        self.checked(self.target(node)?.records.swap(at, value))
    }

    fn fetch_or(&self, node: u16, at: u64, bits: u64) -> Result<u64, CallFailure> {
        debug_assert_ne!(bits, 0, "there are bits to be set");
        self.checked(self.target(node)?.records.fetch(at, AtomicOp::Or, bits))
    }

    fn grant(&self, node: u16, at: u64, bits: u64) -> Result<(), CallFailure> {
        debug_assert_ne!(u32::from(node), self.context.node_number(), "granted to another node");
        // Bits that are not set are added; this also wakes who waits for the word.
        self.checked(self.target(node)?.records.apply(&[], &[AdvanceWord::by(at, bits)]))
    }

    fn deposit_bytes(&self, home: u16, bytes: &DepositedBytes<'_>) -> Result<(), CallFailure> {
        debug_assert!(!bytes.runs.is_empty(), "there is something to deposit");
        debug_assert_ne!(u32::from(home), self.context.node_number(), "frames are here already");
        let deposited = self.frames_at(home)?.deposit(bytes);
        self.checked(deposited)
    }

    fn deposit_notices(
        &self,
        node: u16,
        notices: &DepositedNotices<'_>,
    ) -> Result<(), CallFailure> {
        debug_assert_ne!(u32::from(node), self.context.node_number(), "for another node");
        debug_assert!(notices.slot.0.is_multiple_of(8), "a slot of words");
        let deposited = self.frames_at(node)?.deposit_notices(notices);
        self.checked(deposited)
    }
}
