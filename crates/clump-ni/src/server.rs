//! What the thread of a network interface does.
//!
//! It looks at the lanes of ranks and at its socket; when nothing comes for a while it sleeps on its socket and its
//! alarm at once. A proxy yields before, for ranks that wait for it are likely to have the processor; but not where
//! they compute ([`Courtesy`]).

use crate::courtesy::Courtesy;
use crate::doors::{INDEX, NodeDoors};
use crate::farewell::business_name;
use crate::inlet::Inlet;
use crate::monitor::Watcher;
use crate::outlets::Outlets;
use crate::routes::Routes;
use clump_am::{
    ErrorKind, NetworkSeat, Result, credit_bytes, gone, gone_peers, peer_address,
    remote_interfaces, remote_ranks,
};
use clump_net::{Arrival, Batch, Push, Sort, Stack};
use clump_os::alarm::Alarm;
use clump_os::clock;
use clump_os::sync::{AtomicBool, Ordering};
use clump_rma::NodeSegments;
use clump_rma::engine::{Engine, Outlet, Request};
use clump_rma::protocol::interface_name;
use clump_shm::name::Name;
use clump_shm::node::NodeMemory;
use clump_shm::rank::RankBlock;
use clump_shm::shared::Shared;
use clump_wire::frame::Kind;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Longest sleep: whoever dies or changes a lock rings, so this is for what nobody foresaw.
const NAP: Duration = Duration::from_millis(100);
/// Longest sleep while messages wait for endpoints to read: nobody rings when one does.
const NAP_FOR_ROOM: Duration = Duration::from_micros(500);
/// Shortest sleep while all that was answered only has to be acknowledged. Setting a timer that is due before
/// the kernel's next tick costs a virtual machine some 10 us, and a lost answer is rare: whoever misses it
/// asks again sooner.
const LEAST_NAP: Duration = Duration::from_millis(4);
/// Turns between two looks at who has died or finalized.
const ATTEND_TURNS: u32 = 256;

/// A network interface, before its thread runs and in it.
pub(crate) struct Server {
    memory: NodeMemory,
    id: u32,
    /// What other proxies call this one.
    business: u64,
    routes: Routes,
    stack: Stack,
    /// The first interface of a node executes one-sided operations.
    engine: Option<Executor>,
    /// Where proxies drive the network for ranks.
    inlet: Option<Inlet>,
    outlets: Outlets,
    readiness: Option<OwnedFd>,
    spin_ns: u64,
    courtesy: Courtesy,
    watcher: Watcher,
}

/// The engine, and the name that it answers under.
struct Executor {
    engine: Engine<NodeSegments>,
    name: Name,
    /// Ranks of other nodes that may still ask for something.
    living: Vec<(u32, Shared<RankBlock>)>,
}

impl Server {
    pub(crate) fn new(
        memory: &NodeMemory,
        which: u32,
        seat: NetworkSeat,
        spin_ns: u64,
    ) -> Result<Self> {
        let node = memory.node();
        let id = memory.interface_id(node) + which;
        let missing = || ErrorKind::Network("this node's interface has no address".into());
        let block = memory.rank(id).ok_or_else(missing)?;
        let place = block.place().ok_or_else(missing)?;
        let watcher = Watcher::new(block);
        let routes = Routes::new(memory.clone(), which);
        let name = (which == 0).then(|| interface_name(memory, node));
        let proxies = memory.proxies() != 0;
        let peers = if proxies {
            remote_interfaces(memory, which).map(peer_address).collect()
        } else {
            remote_ranks(memory).map(peer_address).collect()
        };
        let business = business_name(id).to_bits();
        let doors = NodeDoors::new(memory, name.map(Name::to_bits), business, routes.clone());
        let stack = seat.into_stack(memory, (id, place.epoch), peers, Box::new(doors))?;
        let readiness = stack.driver().readiness().and_then(|fd| fd.try_clone_to_owned().ok());
        let engine = name.map(|name| {
            let (segments, ranks) = (NodeSegments::new(memory.clone()), memory.interface_id(0));
            let remote = (0..ranks).filter(|&rank| !memory.is_local(rank));
            let living = remote.filter_map(|rank| Some((rank, memory.rank(rank)?))).collect();
            Executor { engine: Engine::new(segments, ranks, credit_bytes(memory)), name, living }
        });
        let inlet = proxies.then(|| Inlet::open(memory, id, routes.clone())).transpose()?;
        let outlets = Outlets::new(memory, Name::new(id, 0, 1));
        let courtesy = Courtesy::new(if proxies { memory.patience_ns().1 } else { 0 });
        let memory = memory.clone();
        Ok(Self {
            memory,
            id,
            business,
            routes,
            stack,
            engine,
            inlet,
            outlets,
            readiness,
            spin_ns,
            courtesy,
            watcher,
        })
    }

    pub(crate) fn serve(mut self, alarm: &Alarm, ending: &AtomicBool) {
        let mut batch = Batch::default();
        let (mut turns, mut idle_since) = (0_u32, None);
        while !ending.load(Ordering::Acquire) {
            let began = clock::ticked_ns();
            let busy = self.turn(&mut batch);
            if busy {
                self.watcher.on_turn(began, clock::ticked_ns());
                idle_since = None;
                turns = turns.wrapping_add(1);
                if turns.is_multiple_of(ATTEND_TURNS) {
                    self.attend();
                }
                continue;
            }
            let now = clock::ticked_ns();
            let idle_ns = now - *idle_since.get_or_insert(now);
            if idle_ns >= self.spin_ns && !self.courtesy.step(idle_ns - self.spin_ns) {
                self.attend();
                self.sleep(alarm);
                idle_since = None;
            }
        }
    }

    /// Takes what ranks have handed over, receives once, does what is to be done with it, and sends what that
    /// set off. Says whether there was anything.
    fn turn(&mut self, batch: &mut Batch) -> bool {
        let Self { stack, engine, inlet, outlets, routes, business, watcher, .. } = self;
        let mut taken = 0;
        if let Some(inlet) = inlet {
            taken = inlet.look(stack, watcher);
            for mail in inlet.lost.drain(..) {
                outlets.bring_back(stack, &mail);
            }
        }
        let received = stack.receive(clock::ticked_ns, Some(INDEX), batch);
        if outlets.wants_room() {
            outlets.handle_room(stack);
        }
        if let Some(executor) = engine
            && executor.engine.wants_room()
        {
            let mut out = Answers { stack, routes, name: executor.name };
            executor.engine.handle_room(&mut out);
        }
        for at in 0..batch.len() {
            let Some(arrival) = batch.arrival(at) else { break };
            match engine {
                Some(executor) if executor.is_for(&arrival) => {
                    let mut out = Answers { stack, routes, name: executor.name };
                    take(&mut executor.engine, &arrival, &mut out);
                    watcher.on_executed();
                }
                _ if arrival.route.to == *business => {
                    let token = arrival.words().first().copied().unwrap_or(0);
                    match (arrival.sort, &mut *inlet) {
                        (Sort::Message(Kind::Ask), _) => {
                            let rank = arrival.words().get(1).copied().unwrap_or(0);
                            outlets.on_question(stack, arrival.route.from, token, rank as u32);
                        }
                        (Sort::Message(Kind::Credit), Some(inlet)) => {
                            inlet.farewells.on_answer(arrival.route.from, token);
                        }
                        _ => {}
                    }
                }
                _ => {
                    outlets.deliver(stack, &arrival);
                    watcher.on_brought(stack.looked_at(), arrival.payload.len());
                }
            }
        }
        if let Some(executor) = engine
            && executor.engine.has_waits()
        {
            let mut out = Answers { stack, routes, name: executor.name };
            executor.engine.handle_waits(&mut out);
        }
        let now = clock::ticked_ns();
        if stack.wants_service() || stack.next_timeout().is_some_and(|at| at <= now) {
            stack.service(now, true);
        }
        watcher.on_sent(stack);
        received + taken > 0 || !batch.is_empty()
    }

    /// Gives up who died or finalized, on other nodes and on this one.
    fn attend(&mut self) {
        self.watcher.on_attend(&self.stack);
        for (peer, why) in gone_peers(&self.stack, &self.memory) {
            self.stack.lose(peer, why);
        }
        if let Some(executor) = &mut self.engine {
            executor.attend();
        }
        if let Some(inlet) = &mut self.inlet {
            inlet.attend(&mut self.stack);
            self.outlets.attend(&mut self.stack);
        }
    }

    fn sleep(&mut self, alarm: &Alarm) {
        let now = clock::ticked_ns();
        self.stack.acknowledge_all(now);
        // What is paced goes out in time, and so do answers that wait for it; what ranks have handed over is sent
        // again in time.
        let in_time = match &self.inlet {
            Some(_) => !self.stack.is_quiet(),
            None => self.stack.holds_back(),
        };
        let due = self.stack.next_timeout().map(|at| Duration::from_nanos(at.saturating_sub(now)));
        let nap = nap(due, in_time, self.outlets.wants_room());
        let readiness = self.readiness.as_ref().map(AsFd::as_fd);
        let (Some(inlet), Some(block)) = (&mut self.inlet, self.memory.rank(self.id)) else {
            if alarm.wait(readiness, Some(nap)).rung {
                alarm.clear();
            }
            return;
        };
        inlet.cool();
        let announced = block.park().announce(self.memory.fence());
        if inlet.anything_waiting() {
            block.park().withdraw(announced);
        } else {
            block.park().sleep_on(announced, alarm, readiness, Some(nap));
        }
    }
}

/// How long to sleep when the next timer is `due`; `in_time`: it is not to be late.
fn nap(due: Option<Duration>, in_time: bool, wants_room: bool) -> Duration {
    let due = due.unwrap_or(NAP).min(NAP);
    let nap = if in_time { due } else { due.max(LEAST_NAP) };
    if wants_room { nap.min(NAP_FOR_ROOM) } else { nap }
}

impl Executor {
    /// Forgets ranks that are gone.
    fn attend(&mut self) {
        let Self { engine, living, .. } = self;
        living.retain(|(rank, block)| {
            let here = gone(block).is_none();
            if !here {
                engine.forget(*rank);
            }
            here
        });
    }

    /// Whether a message is for the engine, and not for an endpoint.
    #[inline]
    fn is_for(&self, arrival: &Arrival<'_>) -> bool {
        let route = arrival.route;
        let name = self.name.to_bits();
        match arrival.sort {
            Sort::Message(_) => route.to == name,
            Sort::Lost(..) => route.from == name,
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
    routes: &'a Routes,
    name: Name,
}

impl Outlet for Answers<'_> {
    fn answer(&mut self, to: Name, handler: u8, words: &[u64], payload: &[u8]) -> bool {
        let kind = if payload.is_empty() { Kind::Short } else { Kind::Medium };
        let names = (self.name.to_bits(), to.to_bits());
        let body = (words, payload);
        let now = clock::ticked_ns;
        // Who is lost needs no answer.
        self.stack.reply(now, self.routes.stack_of(to.to_bits()), (kind, handler), names, body)
            != Push::Full
    }

    fn report(&mut self, to: Name, consumed: u64) {
        let names = (self.name.to_bits(), to.to_bits());
        self.stack.report(
            clock::ticked_ns,
            self.routes.stack_of(to.to_bits()),
            names.0,
            names.1,
            consumed,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_sleeps_no_longer_than_until_something_has_to_be_sent_again() {
        let soon = Some(Duration::from_micros(50));
        assert_eq!(nap(soon, true, false), Duration::from_micros(50));
        assert_eq!(nap(soon, false, false), LEAST_NAP);
        assert_eq!(nap(None, true, false), NAP);
        assert_eq!(nap(None, false, true), NAP_FOR_ROOM);
        assert_eq!(nap(soon, true, true), Duration::from_micros(50));
    }
}
