//! A rank's network interface: its stack, shared by its threads.
//!
//! The lock is never held while a handler runs, so handlers may send through any endpoint. A
//! progress thread (the backstop) drives the stack when the rank does not (it computes): it
//! receives, acknowledges and retransmits, some hundred times a second, and runs no handlers.

mod timing;

use crate::batch::Batch;
use crate::deliveries::ENDPOINTS;
use crate::flow::FlowId;
use crate::outbox::Progress;
use crate::stack::Stack;
use clump_os::sync::{AtomicBool, AtomicU64, Ordering};
use clump_os::{clock, thread};
use clump_proto::Nanos;
use clump_wire::frame::FrameKind;
use clump_wire::{Message, SendResult};
use spin::Yield;
use spin::mutex::{SpinMutex, SpinMutexGuard};
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
pub use timing::Times;
use timing::Timing;

/// Interval of the progress thread while something is in flight, and the time for which no other
/// thread must have polled.
const BACKSTOP: Duration = Duration::from_millis(2);
/// Interval of the progress thread otherwise.
const BACKSTOP_IDLE: Duration = Duration::from_millis(20);

/// Number of messages in one batch from which on they are acknowledged before they are handled.
const CROWD: usize = 256;

/// A rank's stack behind a lock, and the progress thread that drives it when the rank does not.
#[derive(Debug)]
pub struct Backstop {
    shared: Arc<Shared>,
    backstop: Mutex<Option<JoinHandle<()>>>,
}

/// A stack, and the sample of its messages' times.
#[derive(Debug)]
pub struct TimedStack {
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
    looked_at: AtomicU64,
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
        let mut ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        let mut batch = Batch::default();
        let mut pause = BACKSTOP;
        while !*ending {
            let waited = self.ended.wait_timeout(ending, pause);
            ending = waited.unwrap_or_else(PoisonError::into_inner).0;
            let now = clock::ticked_ns();
            let idle = now.saturating_sub(self.looked_at.load(Ordering::Relaxed));
            if *ending || u128::from(idle) < BACKSTOP.as_nanos() {
                continue;
            }
            let mut stack = self.stack();
            while stack.receive(clock::ticked_ns, None, &mut batch) > 0 {}
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

impl Backstop {
    /// Creates the interface over `stack`; `wake` wakes the owner's threads that have these
    /// endpoints.
    pub fn new(stack: Stack, wake: Box<dyn Fn(u32) + Send + Sync>) -> Self {
        let readiness = stack.readiness().and_then(|fd| fd.try_clone_to_owned().ok());
        let timing = Timing::new(clock::ticked_ns());
        let shared = Shared {
            stack: SpinMutex::new(TimedStack { stack, timing }),
            readiness,
            service_due: AtomicBool::new(false),
            looked_at: AtomicU64::new(clock::ticked_ns()),
            heard: AtomicU64::new(0),
            ending: Mutex::new(false),
            ended: Condvar::new(),
            started: AtomicBool::new(false),
            wake,
        };
        Self { shared: Arc::new(shared), backstop: Mutex::new(None) }
    }

    /// Locks the stack, for everything rare.
    #[inline]
    pub fn stack(&self) -> SpinMutexGuard<'_, TimedStack> {
        self.shared.stack()
    }

    /// Returns true if no thread has the stack: the calling thread, which may be in a signal
    /// handler, does not wait for itself.
    pub fn is_free(&self) -> bool {
        self.shared.stack.try_lock().is_some()
    }

    /// Returns a descriptor that becomes readable when packets arrive.
    pub fn readiness(&self) -> Option<BorrowedFd<'_>> {
        self.shared.readiness.as_ref().map(AsFd::as_fd)
    }

    /// Runs a send, and notes whether anything is left to be sent later.
    #[inline]
    fn send(
        &self,
        bytes: usize,
        peer: impl FnOnce(&Stack) -> Option<u32>,
        send: impl FnOnce(&mut Stack) -> SendResult,
    ) -> SendResult {
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

    /// Sends a request over the flow between its endpoints; of a long one as much as there is room
    /// for, which `progress` tells.
    #[inline]
    pub fn request(
        &self,
        flow: FlowId,
        message: &Message<'_>,
        progress: &mut Progress,
    ) -> SendResult {
        let peer = |stack: &Stack| stack.peer_of(flow);
        self.send(message.payload.len(), peer, |stack| match message.kind {
            FrameKind::Long => stack.request_long(clock::ticked_ns, flow, message, progress),
            _ => stack.request(clock::ticked_ns, flow, message),
        })
    }

    /// Sends a reply.
    #[inline]
    pub fn reply(&self, peer: u32, reply: &Message<'_>) -> SendResult {
        let bytes = reply.payload.len();
        self.send(bytes, |_| Some(peer), |stack| stack.reply(clock::ticked_ns, peer, reply))
    }

    /// Opens the flow between two endpoints.
    pub fn open_flow(&self, from: u64, to: u64, peer: u32, ordered: bool) -> FlowId {
        self.start_backstop();
        self.shared.stack().open_flow(from, to, peer, ordered)
    }

    /// Polls once. Messages of endpoint `wanted` are handed over in `batch`; if there are any, the
    /// packets they cause are sent by [`Backstop::flush`]. Returns the number of packets, and which
    /// message is to be timed.
    #[inline]
    pub fn poll(&self, wanted: u8, batch: &mut Batch) -> (usize, Option<usize>) {
        debug_assert!(usize::from(wanted) < ENDPOINTS, "an endpoint of the rank");
        let mut stack = self.shared.stack();
        let began = stack.begin_turn();
        let received = stack.receive(clock::ticked_ns, Some(wanted), batch);
        let now = stack.polled_at();
        self.shared.looked_at.store(now, Ordering::Relaxed);
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

    /// Notes that the message to be timed, of so many bytes, is about to be handled.
    #[cold]
    pub fn on_delivery(&self, bytes: usize) {
        let waited =
            clock::ticked_ns().saturating_sub(self.shared.looked_at.load(Ordering::Relaxed));
        self.shared.stack().timing.on_delivery(bytes, waited);
    }

    /// Returns the times of messages sampled up to now.
    pub fn times(&self) -> Times {
        self.shared.stack().timing.times()
    }

    /// Returns the number of packets of peers that polls have found so far.
    pub fn packets_heard(&self) -> u64 {
        self.shared.heard.load(Ordering::Relaxed)
    }

    /// Sends what messages since the last poll have left to be sent; returns true if there was
    /// anything.
    #[inline]
    pub fn flush(&self) -> bool {
        if !self.shared.service_due.load(Ordering::Relaxed) {
            return false;
        }
        let mut stack = self.shared.stack();
        self.shared.service_due.store(false, Ordering::Relaxed);
        if stack.wants_service() {
            let began = stack.begin_turn();
            stack.service(clock::ticked_ns(), true);
            stack.end_turn(began, true);
        }
        true
    }

    /// Sends and acknowledges everything before a sleep; returns the time until the stack has to be
    /// serviced.
    pub fn before_sleep(&self) -> Option<Duration> {
        let mut stack = self.shared.stack();
        let now = clock::ticked_ns();
        stack.service(now, true);
        stack.acknowledge_all(now);
        stack.on_sent();
        // A sleeping thread services the stack itself, in time.
        self.shared.looked_at.store(now, Ordering::Relaxed);
        stack.next_timeout().map(|at| Duration::from_nanos(at.saturating_sub(now)))
    }

    fn start_backstop(&self) {
        if self.shared.started.swap(true, Ordering::Relaxed) {
            return;
        }
        let shared = self.shared.clone();
        // Without the thread, a rank that computes merely makes its peers wait.
        let thread = thread::spawn("clump-net", move || shared.watch()).ok();
        *self.backstop.lock().unwrap_or_else(PoisonError::into_inner) = thread;
    }
}

impl Drop for Backstop {
    fn drop(&mut self) {
        // A child by `fork` has no such thread, and the thread may have held the lock.
        if clump_os::forked::is_child() {
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
