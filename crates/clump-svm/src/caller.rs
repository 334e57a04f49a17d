//! A rank's side of its mailboxes: calls, and the wait for their answers.

use crate::asked_reads::{self, AskedRead};
use crate::barrier_period::BarrierPeriod;
use crate::breakdown::SentMessages;
use crate::error::{ErrorKind, Result};
use crate::held_lease::HeldLease;
use crate::kept_locks::{KeptLock, word_offset};
use crate::mailbox::{
    Call, Mailbox, RightsStep, Slot, control_bytes, ends_at_once, is_scanned, log_place, op,
    rank_time_place, result, state, turn_place,
};
use crate::node_word::SEEN_AT;
use crate::page_leases::LeaseTable;
use crate::protocol_step::REQUEST_KINDS;
use crate::published_time::PublishedTime;
use crate::rank_threads::RankThreads;
use crate::scan_turn::ScanTurn;
use crate::sent_counts::SentCounts;
use crate::time_record::TimeRecord;
use crate::woken_counts::WokenCounts;
use crate::written_log::WrittenLog;
use clump_am::RankContext;
use clump_os::alarm::Alarm;
use clump_os::sync::{AtomicU32, AtomicUsize, Ordering};
use clump_os::{clock, console, futex, process, thread};
use clump_shm::cells::Cells;
use clump_shm::job::Death;
use clump_shm::rank::{HeapWait, Published, RankBlock, WaitReason};
use clump_shm::shared::Shared;
use clump_shm::waiter::{WaitStep, Waiter};
use std::sync::Arc;
use std::time::Duration;

/// Exit code of a rank whose access cannot be served.
pub(crate) const UNSERVED: i32 = 1;
/// Longest sleep before a rank checks for deaths again.
const NAP: Duration = Duration::from_millis(20);

/// Lock of this process alone, which may be taken in a signal handler: one rank, some threads.
#[derive(Debug, Default)]
pub(crate) struct HandlerLock {
    word: AtomicU32,
    /// The thread that has it, as [`thread::pointer`] distinguishes them; 0 if none is known.
    holder: AtomicUsize,
}

/// A [`HandlerLock`] that is held.
#[derive(Debug)]
pub(crate) struct Held<'a>(&'a HandlerLock);

impl HandlerLock {
    /// Takes the lock, if it is free.
    fn try_lock(&self) -> Option<Held<'_>> {
        // SYNC 27: pairs with drop of Held
        let free = self.word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        free.is_ok().then(|| self.held())
    }

    pub(crate) fn lock(&self) -> Held<'_> {
        // SYNC 27: pairs with drop of Held
        let free = |new| self.word.compare_exchange(0, new, Ordering::Acquire, Ordering::Relaxed);
        if free(1).is_err() {
            if self.is_own() {
                end_of_own_wait();
            }
            while self.word.swap(2, Ordering::Acquire) != 0 {
                futex::wait(&self.word, 2, Some(NAP));
            }
        }
        self.held()
    }

    fn held(&self) -> Held<'_> {
        self.holder.store(thread::pointer(), Ordering::Relaxed);
        Held(self)
    }

    /// Returns true if the calling thread has the lock: a handler of a signal has interrupted it.
    fn is_own(&self) -> bool {
        let me = thread::pointer();
        me != 0 && self.holder.load(Ordering::Relaxed) == me
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.holder.store(0, Ordering::Relaxed);
        // SYNC 27: pairs with lock
        if self.0.word.swap(0, Ordering::Release) == 2 {
            futex::wake_all(&self.0.word);
        }
    }
}

/// Ends this rank, a handler of which would wait for the thread that it has interrupted.
fn end_of_own_wait() -> ! {
    let text = "clump: a signal handler used the shared heap while the thread that it interrupted \
                was inside a call of shared virtual memory, and would wait for that thread for \
                ever: block the signal around such calls, or let the handler only set a flag\n";
    console::err_at_once(&[text]);
    process::exit_at_once(UNSERVED)
}

/// Turn of this rank at the scans of its stores, where the interface of its node scans, too.
#[derive(Debug)]
pub(crate) struct HeldTurn<'a> {
    caller: &'a Caller,
    turn: ScanTurn<'a>,
}

impl Drop for HeldTurn<'_> {
    fn drop(&mut self) {
        if self.turn.end_as_rank() {
            self.caller.ring();
        }
    }
}

/// Publication of what a rank has written: from when it takes written pages until the interface
/// handles the call that tells of them.
#[derive(Debug)]
pub(crate) struct Publication<'a> {
    /// Towards other threads of this rank.
    pub(crate) one: Held<'a>,
    /// Towards the interface, which ends it with that call.
    pub(crate) turn: Option<HeldTurn<'a>>,
}

/// Reason why a call failed; small, because it is returned inside signal handlers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallFailure {
    Died(Death),
    Result(u64),
}

impl CallFailure {
    /// Returns the error of a call outside of handlers.
    #[cold]
    pub(crate) fn into_error(self) -> ErrorKind {
        match self {
            Self::Died(death) => ErrorKind::RankDied(death),
            Self::Result(result::NO_MEMORY) => ErrorKind::NoMemory,
            Self::Result(result::DIFFERENT) => ErrorKind::Different,
            Self::Result(result::BAD_MESSAGE) => ErrorKind::BadMessage,
            Self::Result(result::NO_THREAD) => ErrorKind::NoThread,
            Self::Result(result::UNREACHABLE) => ErrorKind::Unreachable,
            Self::Result(result::NO_PORT) => ErrorKind::NoPort,
            Self::Result(result::OTHER_THREAD) => ErrorKind::OtherThread,
            Self::Result(_) => ErrorKind::Misuse,
        }
    }
}

/// The mailboxes of this rank.
#[derive(Debug)]
pub(crate) struct Caller {
    context: Arc<RankContext>,
    cells: Cells,
    local_rank: u32,
    interface: Shared<RankBlock>,
    alarm: Option<Arc<Alarm>>,
    leases: LeaseTable,
    /// By mailbox: one call at a time.
    locks: [HandlerLock; Slot::COUNT as usize],
    /// Number, in its lower bits, of the last answer whose steps have been carried out.
    carried_out: AtomicU32,
    threads: RankThreads,
    /// Held while a read of the interface is under way, and taken.
    asking: HandlerLock,
}

impl Caller {
    /// Opens the mailboxes of a rank, in the mapped region, and the leases of the heap's pages;
    /// `None` if its node has no interface.
    pub(crate) fn open(
        context: &Arc<RankContext>,
        (cells, leases): (Cells, LeaseTable),
    ) -> Option<Self> {
        let node = context.node();
        let interface = node.rank(node.interface_id(node.node()))?;
        let alarm = node.interface_alarm().cloned();
        let local_rank = context.rank() - node.local_ranks().start;
        let (context, carried_out) = (context.clone(), AtomicU32::new(0));
        let locks = std::array::from_fn(|_| HandlerLock::default());
        let threads = RankThreads::new();
        let caller = Self {
            context,
            cells,
            local_rank,
            interface,
            alarm,
            leases,
            locks,
            carried_out,
            threads,
            asking: HandlerLock::default(),
        };
        Some(caller)
    }

    /// Returns the word of a lock, if it may be kept.
    pub(crate) fn kept_lock(&self, lock: u64) -> Option<KeptLock<'_>> {
        let ranks = self.context.node().local_ranks().len() as u32;
        let at = control_bytes(ranks) + word_offset(lock)?;
        KeptLock::over(&self.cells, at, self.local_rank)
    }

    /// Takes the lease of a page of the heap, if this rank may fetch it by itself.
    pub(crate) fn lease(&self, page: u32) -> Option<HeldLease<'_>> {
        self.published_time()?;
        HeldLease::take(&self.cells, self.leases, (self.local_rank, page))
    }

    /// Returns the time up to which this rank has carried out what notices ask for, if the
    /// interface has told it.
    fn published_time(&self) -> Option<TimeRecord> {
        let told = PublishedTime::over(&self.cells, rank_time_place(self.local_rank))?;
        // SYNC 34: pairs with call, of whichever thread has carried the answer out
        let carried_out = self.carried_out.load(Ordering::Acquire);
        told.is_of(carried_out).then(|| told.time())
    }

    /// Returns true if this rank may use a page that depends on `time` and on what its node has
    /// seen: it has carried out all that their notices ask for. It has the lock of the node.
    pub(crate) fn covers(&self, time: &TimeRecord) -> bool {
        let seen = PublishedTime::over(&self.cells, SEEN_AT).filter(|seen| seen.is_of(0));
        let (Some(own), Some(seen)) = (self.published_time(), seen) else { return false };
        own.covers(time) && own.covers(&seen.time())
    }

    /// Returns the requests of each kind that this node's protocol thread was woken for, at the
    /// first rank of the node.
    pub(crate) fn woken(&self) -> [u64; REQUEST_KINDS.len()] {
        let first = self.local_rank == 0;
        if first { WokenCounts::over(&self.cells).read() } else { REQUEST_KINDS.map(|_| 0) }
    }

    /// Returns the messages that this node has sent, at its first rank.
    pub(crate) fn sent(&self) -> SentMessages {
        let first = self.local_rank == 0;
        if first { SentCounts::over(&self.cells).read() } else { SentMessages::default() }
    }

    /// Returns the words of the period since the last barrier.
    pub(crate) fn period(&self) -> BarrierPeriod<'_> {
        BarrierPeriod::over(&self.cells)
    }

    /// Returns true if the interface knows of all pages that this rank has logged.
    pub(crate) fn is_log_empty(&self) -> bool {
        let log = WrittenLog::over(&self.cells, log_place(self.local_rank));
        log.is_some_and(|log| log.is_empty())
    }

    /// Notes written pages for the interface. Returns false if it is to be reported by a call.
    pub(crate) fn log_written(&self, written: &[RightsStep]) -> bool {
        let log = WrittenLog::over(&self.cells, log_place(self.local_rank));
        written.is_empty() || log.is_some_and(|log| log.append(written))
    }

    /// Returns true if the interface finds this rank's stores by itself, when it takes a lock back.
    pub(crate) fn is_scanned(&self) -> bool {
        is_scanned(&self.cells, self.local_rank)
    }

    /// Begins this rank's turn at the scans of its stores, if the interface scans, too. None is
    /// needed once a rank has died.
    pub(crate) fn scan_turn(&self) -> Option<HeldTurn<'_>> {
        let turn = ScanTurn::over(&self.cells, turn_place(self.local_rank));
        let turn = turn.filter(|_| self.is_scanned())?;
        let is_over = || check_deaths(&self.context).is_err();
        turn.begin_as_rank(is_over).then_some(HeldTurn { caller: self, turn })
    }

    /// Reads memory of another node by the interface of this one, on behalf of a fault.
    pub(crate) fn ask(
        &self,
        node: u16,
        read: AskedRead,
        to: &mut [u8],
    ) -> std::result::Result<(), CallFailure> {
        debug_assert_eq!(to.len(), read.bytes(), "all of it");
        let [kind, second, third] = read.pack();
        let call = Call { op: op::ASK, words: [u64::from(node), kind, second, third] };
        // What was read lies there until the next one.
        let _one = self.asking.lock();
        self.call((call, &[]), None, |_| ())?;
        debug_assert!(!to.is_empty(), "something was asked for");
        let taken = asked_reads::take(&self.cells, self.local_rank, to);
        if taken { Ok(()) } else { Err(CallFailure::Result(result::MISUSE)) }
    }

    /// Has the interface look for calls and notes of this rank.
    pub(crate) fn ring(&self) {
        self.interface.call_interface(self.context.rank(), self.alarm.as_deref());
    }

    /// Returns the threads of this rank that use the heap.
    pub(crate) fn threads(&self) -> &RankThreads {
        &self.threads
    }

    /// Takes a mailbox for a call.
    fn slot(&self, call: u64) -> (Slot, Held<'_>) {
        let lock = |slot: Slot| (slot, self.locks[slot.number()].lock());
        if matches!(call, op::FAULT | op::ASK) || ends_at_once(call) {
            let brief = ends_at_once(call);
            return lock(if brief { Slot::BRIEF } else { Slot::FAULT });
        }
        let free = |slot: Slot| Some((slot, self.locks[slot.number()].try_lock()?));
        let mut last = Slot::BRIEF;
        for slot in Slot::waiting() {
            if let Some(taken) = free(slot) {
                return taken;
            }
            last = slot;
        }
        lock(last)
    }

    /// Calls the interface, tells it of pages that were written, at most as many as fit, waits for
    /// the answer, and carries out its steps, those of earlier answers first. Ends `publication` as
    /// soon as the interface handles the call. Takes no lock but that of the mailbox, and allocates
    /// nothing. Returns the time of the waits, in ns.
    pub(crate) fn call(
        &self,
        (call, written): (Call, &[RightsStep]),
        publication: Option<Publication<'_>>,
        step: impl FnMut(RightsStep),
    ) -> std::result::Result<u64, CallFailure> {
        let (slot, _one) = self.slot(call.op);
        let (mut step, mut waited_ns) = (step, 0);
        let place = Mailbox::place(self.local_rank, slot);
        let mailbox =
            Mailbox::over(&self.cells, place).ok_or(CallFailure::Result(result::MISUSE))?;
        slot.announce(&self.cells, self.local_rank);
        let reason = wait_reason(&call);
        let (mut call, mut written) = (call, written);
        let (mut gate, mut turn) = publication.map_or((None, None), |p| (Some(p.one), p.turn));
        let threads = self.threads.are_several();
        loop {
            mailbox.leave(&call, written, (threads && gate.is_some(), turn.is_some()));
            // The interface ends it.
            std::mem::forget(turn.take());
            written = &[];
            self.ring();
            let began = clock::ticked_ns();
            self.wait(&mailbox, &mut gate, reason)?;
            waited_ns += clock::ticked_ns().saturating_sub(began);
            let number = mailbox.answer_number() as u32;
            self.await_turn(number)?;
            let outcome = mailbox.take(&mut step);
            // SYNC 34: pairs with await_turn
            self.carried_out.store(number, Ordering::Release);
            if threads {
                futex::wake_all(&self.carried_out);
            }
            match outcome {
                result::DONE => return Ok(waited_ns),
                result::MORE => call = Call { op: op::CONTINUE, words: [0; 4] },
                why => return Err(CallFailure::Result(why)),
            }
        }
    }

    /// Waits for an answer; publishes `reason` to observers while it sleeps.
    fn wait(
        &self,
        mailbox: &Mailbox<'_>,
        gate: &mut Option<Held<'_>>,
        reason: WaitReason,
    ) -> std::result::Result<(), CallFailure> {
        let mut waiter = Waiter::new(self.context.spin_policy());
        let mut published = Published::none(self.context.block());
        loop {
            match mailbox.state() {
                state::ANSWERED => break,
                state::CALLED => {}
                _ => drop(gate.take()),
            }
            if waiter.step() == WaitStep::Sleep {
                check_deaths(&self.context)?;
                published.publish(reason);
                mailbox.sleep(NAP);
            }
        }
        drop(gate.take());
        Ok(())
    }

    /// Waits until the steps of all earlier answers have been carried out, by whichever threads got
    /// them: later steps suppose them.
    fn await_turn(&self, number: u32) -> std::result::Result<(), CallFailure> {
        loop {
            // SYNC 34: pairs with call
            let carried_out = self.carried_out.load(Ordering::Acquire);
            if carried_out == number.wrapping_sub(1) {
                return Ok(());
            }
            check_deaths(&self.context)?;
            futex::wait(&self.carried_out, carried_out, Some(NAP));
        }
    }
}

/// Returns what observers read of the wait for the answer to a call.
fn wait_reason(call: &Call) -> WaitReason {
    let what = match call.op {
        op::ACQUIRE => HeapWait::Lock,
        op::AWAIT_FLAG => HeapWait::Flag,
        op::BARRIER => HeapWait::Barrier,
        op::FAULT | op::ASK => HeapWait::Page,
        _ => HeapWait::Interface,
    };
    WaitReason::Heap { what, number: call.words[0], holder: None }
}

/// Checks that all ranks live: each may be the home of pages, and hold locks, also where survivors
/// go on.
pub(crate) fn check_deaths(context: &RankContext) -> std::result::Result<(), CallFailure> {
    context.node().job().first_death().map_or(Ok(()), |death| Err(CallFailure::Died(death)))
}

/// Returns the result of a call as an error of this crate.
pub(crate) fn checked(result: std::result::Result<(), CallFailure>) -> Result<()> {
    result.map_err(|failure| failure.into_error().into())
}
