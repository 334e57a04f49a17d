//! A node's network interface: a thread of the agent that owns a stack and executes what ranks of other
//! nodes ask for, so that no rank here has to.
//!
//! It looks at its socket; when nothing comes for a while it sleeps on the socket and its alarm at once. It
//! never yields: a rank that computes would have the processor for its whole slice, while a sleeper that
//! wakes gets it at once.

use crate::engine::{Engine, Outlet, Request};
use crate::error::Result;
use crate::memory::NodeSegments;
use crate::protocol::{TAG, deposit_place, interface_name};
use clump_am::{NetworkSeat, credit_bytes, gone_peers, peer_address, remote_ranks};
use clump_net::{Arrival, Batch, Doors, Push, Refusal, Sort, Stack};
use clump_os::alarm::Alarm;
use clump_os::clock;
use clump_os::sync::{AtomicBool, Ordering};
use clump_shm::name::Name;
use clump_shm::node::NodeMemory;
use clump_shm::rank::Place;
use clump_wire::frame::Kind;
use std::cell::RefCell;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// The only endpoint of an interface.
const INDEX: u8 = 0;
/// Longest sleep: whoever dies or changes a lock rings, so this is for what nobody foresaw.
const NAP: Duration = Duration::from_millis(100);
/// Shortest sleep while all that was answered only has to be acknowledged. Setting a timer that is due before
/// the kernel's next tick costs a virtual machine some 10 us, and a lost answer is rare: whoever misses it
/// asks again sooner.
const LEAST_NAP: Duration = Duration::from_millis(4);
/// Batches between two looks at who has died or finalized.
const ATTEND_BATCHES: u32 = 256;

/// A running network interface; ends when dropped.
#[derive(Debug)]
pub struct Interface {
    ending: Arc<AtomicBool>,
    alarm: Arc<Alarm>,
    thread: Option<JoinHandle<()>>,
}

impl Interface {
    /// Starts the interface of the node of `memory`, whose place and alarm stand there. It spins for so long
    /// before it sleeps: 0 unless a core is left for it.
    ///
    /// # Errors
    /// The seat cannot be used, or there is no thread to be had.
    pub fn start(memory: &NodeMemory, seat: NetworkSeat, spin_ns: u64) -> Result<Self> {
        let refused = |why: &str| clump_am::ErrorKind::Network(why.into());
        let node = memory.node();
        let place: Place = memory
            .interface_place(node)
            .ok_or_else(|| refused("this node's interface has no address"))?;
        let alarm = memory
            .interface_alarm()
            .cloned()
            .ok_or_else(|| refused("this node's interface has no alarm"))?;
        let name = interface_name(memory, node);
        let first = memory.local_ranks().start;
        let peers = remote_ranks(memory).map(peer_address).collect();
        let segments = RefCell::new(NodeSegments::new(memory.clone()));
        let doors = Box::new(NodeDoors { name: name.to_bits(), first, segments });
        let stack = seat.into_stack(memory, (name.rank(), place.epoch), peers, doors)?;
        let readiness = stack.driver().readiness().and_then(|fd| fd.try_clone_to_owned().ok());
        let ranks = memory.interface_id(0);
        let engine = Engine::new(NodeSegments::new(memory.clone()), ranks, credit_bytes(memory));
        let ending = Arc::new(AtomicBool::new(false));
        let (over, bell) = (ending.clone(), alarm.clone());
        let server = Server { memory: memory.clone(), name, stack, engine, readiness, spin_ns };
        let thread = std::thread::Builder::new().name("clump-interface".into());
        let thread = thread
            .spawn(move || server.serve(&bell, &over))
            .map_err(|e| refused(&format!("no thread for it: {e}")))?;
        Ok(Self { ending, alarm, thread: Some(thread) })
    }
}

impl Drop for Interface {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Release);
        self.alarm.ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Server {
    memory: NodeMemory,
    name: Name,
    stack: Stack,
    engine: Engine<NodeSegments>,
    readiness: Option<OwnedFd>,
    spin_ns: u64,
}

impl Server {
    fn serve(mut self, alarm: &Alarm, ending: &AtomicBool) {
        let mut batch = Batch::default();
        let (mut batches, mut idle_since) = (0_u32, None);
        while !ending.load(Ordering::Acquire) {
            let received = self.look(&mut batch);
            if received > 0 || !batch.is_empty() {
                idle_since = None;
                batches = batches.wrapping_add(1);
                if batches.is_multiple_of(ATTEND_BATCHES) {
                    self.attend();
                }
                continue;
            }
            let now = clock::ticked_ns();
            if now - *idle_since.get_or_insert(now) >= self.spin_ns {
                self.attend();
                self.sleep(alarm);
                idle_since = None;
            }
        }
    }

    /// Receives once, executes what came, and sends what that set off.
    fn look(&mut self, batch: &mut Batch) -> usize {
        let Self { stack, engine, name, .. } = self;
        let received = stack.receive(clock::ticked_ns, Some(INDEX), batch);
        let mut out = Answers { stack, name: *name };
        if engine.wants_room() {
            engine.handle_room(&mut out);
        }
        for at in 0..batch.len() {
            let Some(arrival) = batch.arrival(at) else { break };
            take(engine, &arrival, &mut out);
        }
        if engine.has_waits() {
            engine.handle_waits(&mut out);
        }
        let now = clock::ticked_ns();
        if stack.wants_service() || stack.next_timeout().is_some_and(|at| at <= now) {
            stack.service(now, true);
        }
        received
    }

    /// Gives up ranks that died or finalized.
    fn attend(&mut self) {
        for (peer, why) in gone_peers(&self.stack, &self.memory) {
            self.stack.lose(peer, why);
            self.engine.forget(peer);
        }
    }

    fn sleep(&mut self, alarm: &Alarm) {
        let now = clock::ticked_ns();
        self.stack.acknowledge_all(now);
        let due = self.stack.next_timeout();
        let due = due.map_or(NAP, |at| Duration::from_nanos(at.saturating_sub(now)).min(NAP));
        // What is paced goes out in time, and so do answers that wait for it.
        let nap = if self.stack.holds_back() { due } else { due.max(LEAST_NAP) };
        if alarm.wait(self.readiness.as_ref().map(AsFd::as_fd), Some(nap)).rung {
            alarm.clear();
        }
    }
}

/// Hands an arrival to the engine.
#[inline]
fn take(engine: &mut Engine<NodeSegments>, arrival: &Arrival<'_>, out: &mut Answers<'_>) {
    let from = Name::from_bits(arrival.route.from);
    let all = arrival.words();
    let (words, deposited) = match (arrival.sort, arrival.reply) {
        (Sort::Message(Kind::Ask), _) => {
            return engine.handle_question(from, all.first().copied().unwrap_or(0), out);
        }
        (Sort::Message(Kind::Short | Kind::Medium), false) => (all, 0),
        (Sort::Message(Kind::Long), false) => match all {
            [_, bytes, words @ ..] => (words, *bytes),
            _ => return,
        },
        // Answers that their requester did not get: it is gone.
        _ => return,
    };
    let payload = if deposited == 0 { arrival.payload } else { &[] };
    let request = Request { from, handler: arrival.handler, words, payload, deposited };
    engine.handle_request(&request, out);
}

/// Answers over the interface's stack.
struct Answers<'a> {
    stack: &'a mut Stack,
    name: Name,
}

impl Outlet for Answers<'_> {
    fn answer(&mut self, to: Name, handler: u8, words: &[u64], payload: &[u8]) -> bool {
        let kind = if payload.is_empty() { Kind::Short } else { Kind::Medium };
        let names = (self.name.to_bits(), to.to_bits());
        let body = (words, payload);
        let now = clock::ticked_ns;
        // Who is lost needs no answer.
        self.stack.reply(now, to.rank(), (kind, handler), names, body) != Push::Full
    }

    fn report(&mut self, to: Name, consumed: u64) {
        let names = (self.name.to_bits(), to.to_bits());
        self.stack.report(clock::ticked_ns, to.rank(), names.0, names.1, consumed);
    }
}

/// The interface as its stack sees it. It lets everything in that is meant for it: what is wrong with a
/// request the engine tells its requester, so that requests can be counted.
#[derive(Debug)]
struct NodeDoors {
    name: u64,
    first: u32,
    segments: RefCell<NodeSegments>,
}

impl Doors for NodeDoors {
    fn admit(&self, to: u64, tag: Option<u64>) -> std::result::Result<u8, Refusal> {
        match tag {
            _ if to != self.name => Err(Refusal::NoSuchEndpoint),
            Some(tag) if tag != TAG => Err(Refusal::BadTag),
            _ => Ok(INDEX),
        }
    }

    fn fits(&self, _to: u64, _offset: u64, _bytes: u64) -> std::result::Result<(), Refusal> {
        Ok(())
    }

    fn deposit(&self, _to: u64, offset: u64, data: &[u8]) -> std::result::Result<(), Refusal> {
        let mut segments = self.segments.borrow_mut();
        let (rank, index, generation, at) = deposit_place(offset, self.first);
        if let Some(name) = segments.at_place(rank, index, generation)
            && let Ok(cells) = crate::Memory::segment(&mut *segments, name, at, data.len() as u64)
        {
            cells.write(at, data);
        }
        Ok(())
    }
}
