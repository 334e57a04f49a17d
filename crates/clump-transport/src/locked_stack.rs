//! The transport of a rank that drives a stack of its own, shared by its threads.
//!
//! The lock is never held while a handler runs, so handlers may send through any endpoint. A
//! progress thread (the backstop) drives the stack when the rank does not (it computes): it
//! receives, acknowledges and retransmits, some hundred times a second, and runs no handlers.

use crate::error::{Error, Result};
use crate::peers::{NodeDirectory, gone_peers};
use crate::registry::Registry;
use crate::report::{
    count_stack, count_times, note_narrowed, note_receive_failure, note_unanswered,
};
use crate::resources::NetworkResources;
use crate::timing::Timing;
use crate::transport::{Accept, ReplyRoom, Snapshot, Transport, Urgency};
use clump_net::{Batch, FlowId, Progress, Stack};
use clump_os::fence::FenceKind;
use clump_os::sync::{AtomicBool, AtomicU64, Ordering};
use clump_os::{clock, forked, socket, thread};
use clump_proto::Nanos;
use clump_shm::geometry::ENDPOINTS;
use clump_shm::name::Name;
use clump_shm::node::NodeMemory;
use clump_shm::rank::RankBlock;
use clump_trace::{Counters, Gauge, Gauges};
use clump_wire::frame::{FrameKind, stack_of};
use clump_wire::{Message, OwnedMessage, Reason, SendResult};
use spin::Yield;
use spin::mutex::{SpinMutex, SpinMutexGuard};
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval of the progress thread while something is in flight, and the time for which no other
/// thread must have polled.
const BACKSTOP: Duration = Duration::from_millis(2);
/// Interval of the progress thread otherwise.
const BACKSTOP_IDLE: Duration = Duration::from_millis(20);

/// Number of messages in one batch from which on they are acknowledged before they are handled.
const CROWD: usize = 256;

/// Time a closing rank waits for news before it announces its close again.
const CLOSE_PAUSE: Duration = Duration::from_millis(2);

/// A rank's stack behind a lock, and the progress thread that drives it when the rank does not.
#[derive(Debug)]
pub(crate) struct LockedStack {
    shared: Arc<Shared>,
    backstop: Mutex<Option<JoinHandle<()>>>,
}

/// A stack, and the sample of its messages' times.
#[derive(Debug)]
struct TimedStack {
    stack: Stack,
    timing: Timing,
}

impl Deref for TimedStack {
    type Target = Stack;

    #[inline]
    fn deref(&self) -> &Stack {
        &self.stack
    }
}

impl DerefMut for TimedStack {
    #[inline]
    fn deref_mut(&mut self) -> &mut Stack {
        &mut self.stack
    }
}

impl TimedStack {
    /// Records the result of sending a message that is due to be timed, or that found no room.
    #[cold]
    fn on_pushed(&mut self, pushed: SendResult, began: Nanos, peer: Option<u32>, bytes: usize) {
        let Self { stack, timing } = self;
        let now = clock::ticked_ns();
        debug_assert!(began <= now, "it was offered before");
        match pushed {
            SendResult::Sent => timing.on_pushed(stack, (began, now), peer, bytes),
            SendResult::Full => timing.on_refused(now),
            SendResult::Refused(_) => {}
        }
        timing.on_sent(stack, now);
    }

    /// Records the packets that the stack has sent.
    #[inline]
    fn on_sent(&mut self) {
        if self.timing.is_waiting() {
            self.timing.on_sent(&self.stack, clock::ticked_ns());
        }
    }

    /// Begins a turn: returns its start time, if it is timed.
    #[inline]
    fn begin_turn(&mut self) -> Option<Nanos> {
        self.timing.is_turn_due().then(clock::ticked_ns)
    }

    /// Ends a turn; `found` tells if there was anything to do.
    #[inline]
    fn end_turn(&mut self, began: Option<Nanos>, found: bool) {
        debug_assert!(began.is_none_or(|began| began > 0), "the clock runs");
        if let Some(began) = began {
            let time = found.then(|| clock::ticked_ns().saturating_sub(began));
            self.timing.on_turn(time);
        }
        self.on_sent();
    }
}

struct Shared {
    /// Taken for each message; contention is rare. A spinlock that does not track waiters saves a
    /// locked instruction on release (8 of 65 ns). A contender yields.
    stack: SpinMutex<TimedStack, Yield>,
    readiness: Option<OwnedFd>,
    /// True if messages may wait to share a packet; a thread that has nothing else to do sends
    /// them.
    service_due: AtomicBool,
    /// Time at which a thread of the rank last polled.
    last_poll_ns: AtomicU64,
    /// Packets of peers that polls have found so far.
    heard: AtomicU64,
    ending: Mutex<bool>,
    ended: Condvar,
    started: AtomicBool,
    /// Wakes the rank's threads: messages are queued for these endpoints, as bits.
    wake: Box<dyn Fn(u32) + Send + Sync>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

impl Shared {
    #[inline]
    fn stack(&self) -> SpinMutexGuard<'_, TimedStack> {
        self.stack.lock()
    }

    fn watch(&self) {
        debug_assert!(!forked::is_child(), "a child by `fork` has its parent's threads no more");
        let mut ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        let mut batch = Batch::default();
        let mut pause = BACKSTOP;
        while !*ending {
            let waited = self.ended.wait_timeout(ending, pause);
            ending = waited.unwrap_or_else(PoisonError::into_inner).0;
            let now = clock::ticked_ns();
            let idle = now.saturating_sub(self.last_poll_ns.load(Ordering::Relaxed));
            if *ending || u128::from(idle) < BACKSTOP.as_nanos() {
                continue;
            }
            let mut stack = self.stack();
            while stack.receive(clock::ticked_ns, None, &mut batch) > 0 {}
            debug_assert!(batch.is_empty(), "no handler runs here, so all messages are queued");
            // Notify endpoints before acknowledging: a peer that knows that a message has arrived
            // may rely on it.
            let newly_queued = stack.take_newly_queued();
            if newly_queued != 0 {
                (self.wake)(newly_queued);
            }
            // Time in the stack never goes back: it is read with the lock held, in order.
            let now = stack.polled_at();
            stack.service(now, true);
            stack.acknowledge_all(now);
            stack.on_sent();
            pause = if stack.is_quiet() { BACKSTOP_IDLE } else { BACKSTOP };
        }
    }
}

impl LockedStack {
    /// Opens the stack of `rank`, which notifies the endpoints of `registry` of arrivals.
    ///
    /// # Errors
    /// The rank has no address, or the socket or the key cannot be used.
    pub(crate) fn open(
        node: &NodeMemory,
        rank: u32,
        resources: NetworkResources,
        registry: &Arc<Registry>,
    ) -> Result<Self> {
        let mine = node.peer(rank).and_then(|mine| mine.place());
        let mine = mine.ok_or_else(|| Error::Unusable("this rank has no address".into()))?;
        let me = (rank, mine.epoch);
        debug_assert!(node.is_local(rank), "a rank drives its own stack");
        let peers = Arc::new(NodeDirectory::new(node, rank, 0, true));
        let stack = resources.into_stack(node, me, peers, Box::new(registry.endpoint_table()))?;
        debug_assert!(stack.is_quiet() && !stack.wants_service(), "nothing was sent yet");
        let (home, fence): (NodeMemory, FenceKind) = (node.clone(), node.fence());
        let entries = registry.clone();
        let wake = Box::new(move |queued: u32| {
            entries.notify(queued);
            if let Some(block) = home.rank(rank) {
                block.park().wake_if_asleep(fence, home.alarm(rank).map(|alarm| &**alarm));
            }
        });
        if let Some(block) = node.rank(rank) {
            Gauges::over(block.gauges()).set(Gauge::Started, clock::now_ns());
        }
        let shared = Shared {
            readiness: stack.readiness().and_then(|fd| fd.try_clone_to_owned().ok()),
            stack: SpinMutex::new(TimedStack { stack, timing: Timing::new(clock::ticked_ns()) }),
            service_due: AtomicBool::new(false),
            last_poll_ns: AtomicU64::new(clock::ticked_ns()),
            heard: AtomicU64::new(0),
            ending: Mutex::new(false),
            ended: Condvar::new(),
            started: AtomicBool::new(false),
            wake,
        };
        Ok(Self { shared: Arc::new(shared), backstop: Mutex::new(None) })
    }

    /// Runs a send, and notes whether anything is left to be sent later.
    #[inline]
    fn timed(
        &self,
        bytes: usize,
        peer: impl FnOnce(&Stack) -> Option<u32>,
        send: impl FnOnce(&mut Stack) -> SendResult,
    ) -> SendResult {
        debug_assert!(!forked::is_child(), "the holder of the lock may not exist here");
        let mut stack = self.shared.stack();
        let began = if stack.timing.is_due() { clock::ticked_ns() } else { 0 };
        let pushed = send(&mut stack);
        if pushed == SendResult::Sent && began == 0 {
            stack.timing.on_taken();
        } else {
            let peer = peer(&stack);
            stack.on_pushed(pushed, began, peer, bytes);
        }
        self.shared.service_due.store(stack.wants_service(), Ordering::Relaxed);
        pushed
    }

    fn start_backstop(&self) {
        if self.shared.started.swap(true, Ordering::Relaxed) {
            return;
        }
        let shared = self.shared.clone();
        // Without the thread, a rank that computes merely makes its peers wait.
        let thread = thread::spawn("clump-net", move || shared.watch()).ok();
        debug_assert!(self.shared.started.load(Ordering::Relaxed), "it is started once");
        *self.backstop.lock().unwrap_or_else(PoisonError::into_inner) = thread;
    }
}

impl Transport for LockedStack {
    fn open_flow(&self, from: u64, to: u64, ordered: bool) -> FlowId {
        self.start_backstop();
        let mut stack = self.shared.stack();
        let flow = stack.open_flow(from, to, stack_of(to), ordered);
        debug_assert_eq!(stack.peer_of(flow), Some(stack_of(to)), "a flow leads to its endpoint");
        flow
    }

    #[inline]
    fn send(&self, flow: FlowId, message: &Message<'_>, progress: &mut Progress) -> SendResult {
        debug_assert!(!forked::is_child(), "invariant 2: endpoints refuse what a child sends");
        let peer = |stack: &Stack| stack.peer_of(flow);
        self.timed(message.payload.len(), peer, |stack| match message.kind {
            FrameKind::Long => stack.request_long(clock::ticked_ns, flow, message, progress),
            _ => stack.request(clock::ticked_ns, flow, message),
        })
    }

    #[inline]
    fn reply(&self, reply: &Message<'_>, room: ReplyRoom) -> SendResult {
        let (peer, now) = (stack_of(reply.route.to), clock::ticked_ns);
        debug_assert!(reply.reply, "it goes the way of replies");
        let report = reply.kind == FrameKind::Credit;
        debug_assert!(!report || room == ReplyRoom::Unlimited, "a peer may wait for it alone");
        if room == ReplyRoom::Limited {
            let bytes = reply.payload.len();
            return self.timed(bytes, |_| Some(peer), |stack| stack.reply(now, peer, reply));
        }
        let mut stack = self.shared.stack();
        match (reply.kind, reply.words) {
            (FrameKind::Credit, &[total, granted]) => {
                let names = (reply.route.from, reply.route.to);
                stack.report(now, peer, names, [total, granted]);
            }
            _ => stack.reply_anyway(now, peer, reply),
        }
        SendResult::Sent
    }

    fn request_consumption_report(&self, flow: FlowId) -> bool {
        self.shared.stack().request_consumption_report(clock::ticked_ns, flow)
    }

    #[inline]
    fn poll(&self, wanted: u8, batch: &mut Batch) -> (usize, Option<usize>) {
        debug_assert!(usize::from(wanted) < ENDPOINTS, "an endpoint of the rank");
        debug_assert!(!forked::is_child(), "a child does not receive for its parent");
        let mut stack = self.shared.stack();
        let began = stack.begin_turn();
        let received = stack.receive(clock::ticked_ns, Some(wanted), batch);
        let now = stack.polled_at();
        self.shared.last_poll_ns.store(now, Ordering::Relaxed);
        self.shared.heard.store(stack.stats().packets_received, Ordering::Relaxed);
        if batch.is_empty() {
            stack.service(now, false);
        } else {
            self.shared.service_due.store(true, Ordering::Relaxed);
        }
        if batch.len() >= CROWD {
            // Handling them takes long; their senders should not have to wait for it.
            stack.acknowledge_all(now);
        }
        stack.end_turn(began, received > 0 || !batch.is_empty());
        let timed = stack.timing.arrival(batch.len());
        debug_assert!(timed.is_none_or(|at| at < batch.len()), "one of the batch is timed");
        let others = stack.take_newly_queued() & !1_u32.wrapping_shl(u32::from(wanted));
        drop(stack);
        if others != 0 {
            (self.shared.wake)(others);
        }
        (received, timed)
    }

    /// Never called: this transport puts nothing into lanes.
    fn accept(&self, _queued: &OwnedMessage) -> Accept {
        clump_bug::bug!("no lane brings messages of other nodes");
        Accept::Done
    }

    #[cold]
    fn on_delivery(&self, bytes: usize) {
        let waited =
            clock::ticked_ns().saturating_sub(self.shared.last_poll_ns.load(Ordering::Relaxed));
        self.shared.stack().timing.on_delivery(bytes, waited);
    }

    #[inline]
    fn flush(&self, urgency: Urgency) -> Option<Duration> {
        let gathered = urgency == Urgency::Gathered;
        if gathered && !self.shared.service_due.load(Ordering::Relaxed) {
            return None;
        }
        let mut stack = self.shared.stack();
        if gathered {
            self.shared.service_due.store(false, Ordering::Relaxed);
            if stack.wants_service() {
                let began = stack.begin_turn();
                stack.service(clock::ticked_ns(), true);
                stack.end_turn(began, true);
            }
            // An answer may come at once.
            return Some(Duration::ZERO);
        }
        let now = clock::ticked_ns();
        stack.service(now, true);
        if urgency == Urgency::Sleep {
            stack.acknowledge_all(now);
            stack.on_sent();
            // A sleeping thread services the stack itself, in time.
            self.shared.last_poll_ns.store(now, Ordering::Relaxed);
        }
        let due = stack.next_timeout().map(|at| Duration::from_nanos(at.saturating_sub(now)));
        due.into_iter().chain(stack.driver().due_in()).min()
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        self.shared.readiness.as_ref().map(AsFd::as_fd)
    }

    fn note_watched(&self) {
        self.shared.stack().note_watched(clock::ticked_ns());
    }

    fn packets_heard(&self) -> u64 {
        self.shared.heard.load(Ordering::Relaxed)
    }

    fn has_queued(&self, index: u8) -> bool {
        debug_assert!(usize::from(index) < ENDPOINTS, "messages wait for endpoints");
        self.shared.stack().has_queued(index)
    }

    fn close_endpoint(&self, name: u64, unhandled: Vec<OwnedMessage>) {
        let (mut stack, index) = (self.shared.stack(), Name::from_bits(name).index());
        debug_assert!(unhandled.iter().all(|one| one.route.to == name), "it was handed its own");
        stack.return_queued(clock::ticked_ns, unhandled, Reason::EndpointGone);
        stack.close_endpoint(clock::ticked_ns, index, name);
        debug_assert!(!stack.has_queued(index), "nothing waits for a closed endpoint");
        stack.service(clock::ticked_ns(), true);
    }

    fn housekeeping(&self, node: &NodeMemory, block: &RankBlock) {
        let mut stack = self.shared.stack();
        for (peer, why) in gone_peers(&stack, node) {
            stack.lose(peer, why);
            debug_assert!(stack.is_lost(peer), "a peer that is gone is lost once");
        }
        count_stack(Counters::over(block.counters()), &stack);
        note_unanswered(block, &stack, (clock::ticked_ns(), clock::now_ns()));
        note_narrowed(block, &mut stack, clock::ticked_ns());
        note_receive_failure(block, &stack);
        let round_trips: Vec<_> = stack.round_trips().collect();
        let times = stack.timing.times();
        drop(stack);
        count_times(Gauges::over(block.gauges()), times, &round_trips);
    }

    fn close(&self, node: &NodeMemory, block: &RankBlock, over: &dyn Fn() -> bool) {
        let mut batch = Batch::default();
        loop {
            self.housekeeping(node, block);
            let mut stack = self.shared.stack();
            while stack.receive(clock::ticked_ns, None, &mut batch) > 0 {}
            debug_assert!(batch.is_empty(), "no endpoint is open");
            let now = stack.polled_at();
            stack.service(now, true);
            if stack.is_quiet() {
                stack.close(now);
            }
            stack.acknowledge_all(now);
            if stack.is_closed() || over() {
                return;
            }
            drop(stack);
            socket::wait_readable(self.readiness(), CLOSE_PAUSE);
        }
    }

    fn snapshot(&self) -> Snapshot {
        let stack = self.shared.stack();
        Snapshot { memory_bytes: stack.memory_bytes(), job_tag: Some(stack.job_tag()) }
    }

    fn set_spare(&self, bytes: usize) {
        self.shared.stack().set_spare(bytes);
    }

    /// False while a thread has the stack: the calling thread, which may be in a signal handler,
    /// does not wait for itself.
    fn is_free(&self) -> bool {
        self.shared.stack.try_lock().is_some()
    }
}

impl Drop for LockedStack {
    fn drop(&mut self) {
        // A child by `fork` has no such thread, and the thread may have held the lock.
        if forked::is_child() {
            return;
        }
        *self.shared.ending.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.ended.notify_all();
        let thread = self.backstop.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}
