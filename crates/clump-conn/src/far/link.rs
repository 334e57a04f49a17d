//! A connection to another job: a stack of its own, beside the rank's (paper 002, 2.3:
//! sub-connections are made before the connection, when the other side is ready to take them).

use crate::between::Between;
use crate::error::{End, Error, Result};
use crate::line::ConnectionLine;
use crate::lock::lock;
use crate::transport::{ConnectionTransport, send_due, with_numbers};
use crate::words::ask;
use clump_am::SendAttempt;
use clump_driver::{Clock, Fault, Timestamps, UdpOptions};
use clump_net::seal::JobKey;
use clump_net::{Batch, EndpointTable, FlowId, PeerAddress, Stack, StackConfig};
use clump_os::alarm::Alarm;
use clump_os::clock;
use clump_os::secret::Secret;
use clump_os::sync::{AtomicBool, AtomicU64, Ordering};
use clump_shm::name::Name;
use clump_wire::frame::{FrameKind, Route};
use clump_wire::{Message, Reason, SendResult};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

/// Stack number of the side that connected, and of the side that was connected to.
pub(crate) const CLIENT: u32 = 0;
pub(crate) const SERVER: u32 = 1;
/// Maximum silence for which a side that is closing waits for a peer that has not received
/// everything.
const LAST_SILENCE_NS: u64 = 2_000_000_000;
/// Time for which a side that is closing still answers retransmissions.
const LAST_ANSWERS_NS: u64 = 50_000_000;
/// Receptions of one poll.
const ROUNDS: usize = 16;

/// A connection to another job, with its own stack.
pub(crate) struct FarLink {
    core: Mutex<Core>,
    /// The number of the other side's stack.
    peer: u32,
    line: Arc<ConnectionLine>,
    address: SocketAddr,
    silence_ns: u64,
    /// Wakes the thread that services it.
    alarm: Arc<Alarm>,
    service_due: AtomicBool,
    /// True if credit or the rest of a message is to be sent.
    due: AtomicBool,
    /// The time at which this side began to close it; 0 before.
    closing_ns: AtomicU64,
    opened_ns: u64,
}

struct Core {
    stack: Stack,
    batch: Batch,
    flow: FlowId,
}

/// Result of servicing a link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkEvents {
    /// Something for the program has arrived.
    pub(crate) news: bool,
    /// The time of the next service, by `clock::ticked_ns`.
    pub(crate) due_ns: u64,
    /// Nothing is left to do for it.
    pub(crate) over: bool,
}

/// Parameters of a link, besides the socket.
#[derive(Debug)]
pub(crate) struct LinkParameters {
    pub(crate) me: u32,
    pub(crate) epoch: u32,
    pub(crate) peer: SocketAddr,
    pub(crate) peer_epoch: u32,
    pub(crate) key: JobKey,
}

impl std::fmt::Debug for FarLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "link to {}", self.address)
    }
}

/// Returns a random incarnation.
pub(crate) fn epoch() -> Result<u32> {
    let random = Secret::<[u8; 4]>::random().map_err(|e| Error::Between(e.to_string()))?;
    Ok(u32::from_le_bytes(*random))
}

fn name_of(stack: u32) -> u64 {
    Name::new(stack, 0, 1).to_bits()
}

impl FarLink {
    /// Opens a link on a bound socket.
    ///
    /// # Errors
    /// The socket or the key cannot be used.
    pub(crate) fn open(
        socket: OwnedFd,
        terms: &LinkParameters,
        between: &Between,
        line: Arc<ConnectionLine>,
        alarm: Arc<Alarm>,
    ) -> Result<Self> {
        let LinkParameters { me, epoch, peer: address, peer_epoch, ref key } = *terms;
        let unusable = |why: &dyn std::fmt::Display| Error::Between(why.to_string());
        let options = UdpOptions { timestamps: Timestamps::Crowds, ..UdpOptions::default() };
        let driver = clump_driver::take(socket, Vec::new(), options).map_err(|e| unusable(&e))?;
        let driver = match between.faults.clone() {
            None => driver,
            Some((plan, seed)) => {
                Box::new(Fault::new(driver, seed ^ u64::from(epoch), plan, Clock::Steady))
            }
        };
        let peer = 1 - me.min(1);
        let silence_ns = u64::try_from(between.silence.as_nanos()).unwrap_or(u64::MAX).max(8);
        let channel = clump_proto::Config {
            keepalive: Some(silence_ns / 8),
            ..clump_proto::Config::default()
        };
        let config = StackConfig {
            me,
            epoch,
            security: between.security,
            channel,
            // The connection's own window bounds what its program has not received.
            credit_bytes: u64::MAX / 4,
            peers: Arc::new(vec![PeerAddress { id: peer, address, epoch: peer_epoch }]),
        };
        let endpoints = Box::new(LinkEndpoint { name: name_of(me) });
        let mut stack = Stack::new(config, key, driver, endpoints).map_err(|e| unusable(&e))?;
        let flow = stack.open_flow(name_of(me), name_of(peer), peer, false);
        Ok(Self {
            core: Mutex::new(Core { stack, batch: Batch::default(), flow }),
            peer,
            line,
            address,
            silence_ns,
            alarm,
            service_due: AtomicBool::new(false),
            due: AtomicBool::new(false),
            closing_ns: AtomicU64::new(0),
            opened_ns: clock::ticked_ns(),
        })
    }

    pub(crate) fn line(&self) -> &Arc<ConnectionLine> {
        &self.line
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the descriptor that becomes readable when packets arrive.
    pub(crate) fn readiness(&self) -> Option<OwnedFd> {
        let core = lock(&self.core);
        core.stack.driver().readiness().and_then(|fd| fd.try_clone_to_owned().ok())
    }

    /// Sends one message if there is space now.
    fn push(&self, handler: u8, words: &[u64], payload: &[u8]) -> SendAttempt {
        let mut core = lock(&self.core);
        let Core { stack, flow, .. } = &mut *core;
        let kind = if payload.is_empty() { FrameKind::Short } else { FrameKind::Medium };
        let route = Route { from: name_of(1 - self.peer.min(1)), to: name_of(self.peer), tag: 0 };
        let request = Message::request((kind, handler), route, (words, payload));
        let pushed = stack.request(clock::ticked_ns, *flow, &request);
        if handler != ask::FRAGMENT {
            stack.service(clock::ticked_ns(), true);
        } else if stack.wants_service() && !self.service_due.swap(true, Ordering::AcqRel) {
            // It may wait to be batched with others, but not until this thread calls again.
            self.alarm.ring();
        }
        match pushed {
            SendResult::Full => SendAttempt::Full,
            // A lost peer takes nothing; the line records the loss.
            SendResult::Sent | SendResult::Refused(_) => SendAttempt::Sent,
        }
    }

    /// Receives packets, unless another thread does; true when a message was handled.
    pub(crate) fn poll(&self) -> bool {
        let Ok(mut core) = self.core.try_lock() else { return false };
        let handled = self.take_in(&mut core);
        if handled || core.stack.wants_service() {
            let now = clock::ticked_ns();
            core.stack.service(now, true);
        }
        drop(core);
        self.send_due();
        handled
    }

    fn take_in(&self, core: &mut Core) -> bool {
        let Core { stack, batch, .. } = core;
        let mut handled = false;
        for _ in 0..ROUNDS {
            let received = stack.receive(clock::ticked_ns, Some(0), batch);
            for at in 0..batch.len() {
                let mut words = clump_net::Words::default();
                let Some(arrival) = batch.arrival(at, &mut words) else { break };
                if !matches!(arrival.kind, FrameKind::Short | FrameKind::Medium) {
                    continue;
                }
                handled = true;
                if self.line.handle(arrival.handler, arrival.words, arrival.payload) {
                    self.due.store(true, Ordering::Release);
                }
            }
            if received == 0 {
                break;
            }
        }
        handled
    }

    pub(crate) fn mark_due(&self) {
        self.due.store(true, Ordering::Release);
        self.alarm.ring();
    }

    /// Sends what the line owes.
    fn send_due(&self) {
        // A link never fails permanently here: silence ends it.
        if self.due.swap(false, Ordering::AcqRel) && !matches!(send_due(self, &self.line), Ok(true))
        {
            self.due.store(true, Ordering::Release);
        }
    }

    /// Begins to close: messages sent before still go out.
    pub(crate) fn begin_close(&self) {
        let now = clock::ticked_ns().max(1);
        let _ = self.closing_ns.compare_exchange(0, now, Ordering::AcqRel, Ordering::Relaxed);
        self.alarm.ring();
    }

    /// Tells the other side that it will not be accepted.
    pub(crate) fn hang_up(&self) {
        // If the close packet cannot be queued, the peer times out.
        let _ = self.push(ask::CLOSE, &[0, 0, 0, 0], &[]);
        self.begin_close();
    }

    /// Sends a packet that proves that this side has the key.
    pub(crate) fn greet(&self) {
        // The first message of a stack finds space.
        let _ = self.push(ask::BEAT, &[0, 0], &[]);
    }

    /// Does everything that is due for this link; the thread calls it.
    pub(crate) fn service(self: &Arc<Self>) -> LinkEvents {
        self.service_due.store(false, Ordering::Release);
        let mut core = lock(&self.core);
        let mut news = self.take_in(&mut core);
        let now = core.stack.polled_at();
        core.stack.service(now, true);
        core.stack.acknowledge_all(now);
        // Before the first packet there is no channel.
        let unheard = now.saturating_sub(self.opened_ns);
        let since = self.closing_ns.load(Ordering::Acquire);
        let quiet_for = core.stack.silent_for(self.peer, now).unwrap_or(unheard);
        // A side that is closing asks the peer, and waits for the answer.
        let last = since != 0 && quiet_for.min(now.saturating_sub(since)) >= LAST_SILENCE_NS;
        let silent = last || quiet_for >= self.silence_ns;
        let quiet = core.stack.is_quiet();
        if silent {
            core.stack.lose(self.peer, Reason::PeerLost);
        }
        let due_ns = core.stack.next_timeout().unwrap_or(u64::MAX);
        drop(core);
        if silent {
            self.line.end(End::Silent);
            news = true;
        }
        self.send_due();
        let done = quiet || self.line.has_ended();
        let over = since != 0 && done && now.saturating_sub(since) >= LAST_ANSWERS_NS;
        let over = over || silent && since != 0;
        // A timer that is due and finds nothing to do must not keep the thread awake.
        let due_ns = due_ns.max(now + 100_000).min(now + self.silence_ns / 8);
        let due_ns = if since == 0 { due_ns } else { due_ns.min(now + LAST_ANSWERS_NS / 4) };
        LinkEvents { news, due_ns, over }
    }
}

impl ConnectionTransport for FarLink {
    fn send(
        &self,
        _: &ConnectionLine,
        handler: u8,
        rest: &[u64],
        payload: &[u8],
    ) -> clump_am::Result<SendAttempt> {
        Ok(with_numbers(0, 0, rest, |words| self.push(handler, words, payload)))
    }
}

/// The only endpoint of a link.
#[derive(Debug)]
struct LinkEndpoint {
    name: u64,
}

impl EndpointTable for LinkEndpoint {
    fn admit(&self, to: u64, _tag: Option<u64>) -> std::result::Result<u8, Reason> {
        if to == self.name { Ok(0) } else { Err(Reason::NoSuchEndpoint) }
    }

    fn fits(&self, _to: u64, _offset: u64, _bytes: u64) -> std::result::Result<(), Reason> {
        Err(Reason::BadOffset)
    }

    fn deposit(&self, _to: u64, _offset: u64, _data: &[u8]) -> std::result::Result<(), Reason> {
        Err(Reason::BadOffset)
    }
}
