//! A cluster whose ranks use each other's memory, in virtual time: one thread, one queue of events, one plan.

use super::caller::{Around, Caller};
use super::layout::Layout;
use super::model::Model;
use super::plan::{Fault, Plan};
use super::{Counts, Outcome};
use crate::driver::SimDriver;
use crate::outcome::Failure;
use crate::plan::SECOND;
use crate::random::{Random, mix};
use crate::rank::Mode;
use crate::switch::{Event, Link, SharedSwitch, Switch, Time, address_of};
use crate::time::{Costs, SeatClock};
use crate::world::key_of;
use anyhow::Context as _;
use clump_net::seal::JobKey;
use clump_net::{Batch, Stack, StackConfig};
use clump_ni::{Server, Wiring};
use clump_os::alarm::Alarm;
use clump_shm::job::{Death, How};
use clump_shm::node::{NodeConfig, NodeMemory};
use clump_shm::rank::Place;

/// Once healed everything must have ended within this.
const PATIENCE: Time = 60 * SECOND;
/// Events after which a run counts as one that never ends.
const MOST_EVENTS: u64 = 5_000_000;
/// What the sum of all ports carries once healed, at least.
const HEALED_RATE: u64 = 50_000_000;

/// A node: its memory, and its interface.
struct Node {
    memory: NodeMemory,
    server: Server<SeatClock>,
    clock: Time,
    frozen_until: Time,
    turn_at: Time,
    lost: bool,
}

/// See the module.
pub(crate) struct World {
    plan: Plan,
    switch: SharedSwitch,
    layout: Layout,
    model: Model,
    callers: Vec<Caller>,
    nodes: Vec<Node>,
    batch: Batch,
    faults: Vec<Fault>,
    healed_at: Option<Time>,
    events: u64,
    digest: u64,
    trace: bool,
}

impl World {
    pub(crate) fn new(plan: Plan, trace: bool) -> anyhow::Result<Self> {
        let (ranks, nodes) = (plan.ranks(), plan.nodes());
        let random = Random::new(mix(plan.seed));
        let ports = vec![plan.port.clone(); (ranks + nodes) as usize];
        let switch = SharedSwitch::new(Switch::new(0, ports, &plan.link, random));
        let key = key_of(plan.seed).context("no key")?;
        let memories =
            (0..nodes).map(|node| memory_of(&plan, node)).collect::<anyhow::Result<Vec<_>>>()?;
        let layout = Layout::export(&plan.node_of, &memories).context("nothing can be exported")?;
        let caller = |rank: u32| {
            let memory = &memories[plan.node_of[rank as usize] as usize];
            Caller::new(rank, &plan, memory, &key, &switch).context("no rank")
        };
        let callers = (0..ranks).map(caller).collect::<anyhow::Result<Vec<_>>>()?;
        let node = |memory: NodeMemory| -> anyhow::Result<Node> {
            let clock = plan.clocks[(ranks + memory.node()) as usize];
            let server = server_of(&plan, &memory, &key, &switch)?;
            Ok(Node { memory, server, clock, frozen_until: 0, turn_at: Time::MAX, lost: false })
        };
        let nodes = memories.into_iter().map(node).collect::<anyhow::Result<Vec<_>>>()?;
        let mut world = Self {
            switch,
            layout,
            model: Model::new(ranks),
            callers,
            nodes,
            batch: Batch::default(),
            faults: Vec::new(),
            healed_at: None,
            events: 0,
            digest: 0,
            trace,
            plan,
        };
        for (at, fault) in world.plan.faults.clone() {
            world.schedule_fault(at, fault);
        }
        for actor in 0..world.plan.ranks() + world.plan.nodes() {
            world.wake(actor, 0);
        }
        Ok(world)
    }

    fn schedule_fault(&mut self, at: Time, fault: Fault) {
        self.faults.push(fault);
        self.switch.lock().schedule(at, Event::Step(self.faults.len() as u32 - 1));
    }

    /// Lets a rank, or an interface, act at a time; it does so earlier if that was planned.
    fn wake(&mut self, actor: u32, at: Time) {
        let ranks = self.callers.len() as u32;
        let turn_at = match actor.checked_sub(ranks) {
            None => &mut self.callers[actor as usize].turn_at,
            Some(node) => match self.nodes.get_mut(node as usize) {
                Some(node) if !node.lost => &mut node.turn_at,
                _ => return,
            },
        };
        if at < *turn_at {
            *turn_at = at;
            self.switch.lock().schedule(at, Event::Turn(actor));
        }
    }

    /// Lets it all happen.
    pub(crate) fn run(mut self) -> Result<Outcome, Failure> {
        loop {
            let event = self.switch.lock().next();
            let Some(event) = event else {
                return Err(self.failure("nothing is left to happen".to_owned()));
            };
            let now = self.switch.lock().now;
            self.events += 1;
            self.digest = mix(self.digest ^ now);
            match event {
                Event::AtSocket(seat, _) => self.on_datagram(now, seat),
                Event::Turn(actor) => self.turn(now, actor),
                Event::Step(index) => {
                    if let Some(fault) = self.faults.get(index as usize).cloned() {
                        self.fault(now, fault);
                    }
                }
                Event::AtPort(..) => {}
            }
            if let Some(what) = self.wrong(now) {
                return Err(self.failure(what));
            }
            if self.healed_at.is_some() && self.callers.iter().all(|caller| caller.finished) {
                self.model.check_end(&self.layout);
                if let Some(what) = self.model.wrong().map(str::to_owned) {
                    return Err(self.failure(what));
                }
                return Ok(self.outcome(now));
            }
        }
    }

    fn on_datagram(&mut self, now: Time, seat: u32) {
        let polls = self
            .callers
            .get(seat as usize)
            .is_none_or(|caller| caller.mode == Mode::Polling && !caller.is_dead());
        if polls {
            self.wake(seat, now + self.plan.turn);
        }
    }

    fn turn(&mut self, now: Time, actor: u32) {
        let node = match actor.checked_sub(self.callers.len() as u32) {
            None => self.turn_of_rank(now, actor),
            Some(node) => self.turn_of_interface(now, node),
        };
        let Some(node) = node else { return };
        self.model.look_at_locks(&self.layout, node);
        self.hear_alarms(now, node);
    }

    fn turn_of_rank(&mut self, now: Time, rank: u32) -> Option<u32> {
        let Self { callers, nodes, layout, model, batch, plan, healed_at, .. } = self;
        let caller = callers.get_mut(rank as usize)?;
        if caller.turn_at != now || caller.is_dead() {
            return None; // it was woken earlier
        }
        caller.turn_at = Time::MAX;
        let memory = &nodes[caller.node as usize].memory;
        let healed = healed_at.is_some();
        let mut around = Around { now, memory, layout, model, batch, plan, healed };
        let (before, node) = (self.trace.then(|| format!("{:?}", caller.doing)), caller.node);
        let next = caller.act(&mut around);
        let after = before.as_ref().map(|_| format!("{:?}", caller.doing));
        if before != after {
            self.say(now, &format!("rank {rank}: {}", after.unwrap_or_default()));
        }
        self.wake(rank, next);
        Some(node)
    }

    fn turn_of_interface(&mut self, now: Time, number: u32) -> Option<u32> {
        let node = self.nodes.get_mut(number as usize).filter(|node| !node.lost)?;
        if node.turn_at != now {
            return None;
        }
        node.turn_at = Time::MAX;
        let next = if now < node.frozen_until {
            node.frozen_until
        } else {
            if let Some(alarm) = node.memory.interface_alarm() {
                alarm.clear();
            }
            node.server.clock().set(now + node.clock);
            if node.server.turn(&mut self.batch) {
                now + self.plan.turn
            } else {
                node.server.attend();
                now + node.server.before_sleep().as_nanos() as Time
            }
        };
        self.wake(self.callers.len() as u32 + number, next.max(now + 1));
        Some(number)
    }

    /// Who was rung for, on a node, acts soon.
    fn hear_alarms(&mut self, now: Time, number: u32) {
        let Some(node) = self.nodes.get(number as usize).filter(|node| !node.lost) else { return };
        let is_rung = |alarm: &Alarm| alarm.wait(None, Some(std::time::Duration::ZERO)).rung;
        let mut rung = Vec::new();
        if node.memory.interface_alarm().is_some_and(|alarm| is_rung(alarm)) {
            rung.push(self.callers.len() as u32 + number);
        }
        for rank in node.memory.local_ranks() {
            let sleeps = self.callers.get(rank as usize).is_some_and(Caller::sleeps);
            if sleeps && node.memory.alarm(rank).is_some_and(|alarm| is_rung(alarm)) {
                rung.push(rank);
            }
        }
        for actor in rung {
            self.wake(actor, now + self.plan.turn);
        }
    }

    fn fault(&mut self, now: Time, fault: Fault) {
        if self.trace {
            self.say(now, &format!("{fault:?}"));
        }
        let faulty = self.healed_at.is_none();
        match fault {
            Fault::Weather { from, to, link } if faulty => {
                self.between(from, to, |old| *old = Link { cut: old.cut, ..(*link).clone() });
            }
            Fault::Partition { nodes, cut } if faulty => {
                for from in 0..self.plan.nodes() {
                    for to in 0..self.plan.nodes() {
                        if (nodes >> from ^ nodes >> to) & 1 != 0 {
                            self.between(from, to, |link| link.cut = cut);
                        }
                    }
                }
            }
            Fault::Weather { .. } | Fault::Partition { .. } => {}
            Fault::Compute { rank, span } => self.pause(rank, now, Mode::Computing(now + span)),
            Fault::Freeze { actor, span } => {
                match actor.checked_sub(self.plan.ranks()) {
                    None => self.pause(actor, now, Mode::Frozen(now + span)),
                    Some(node) => self.nodes[node as usize].frozen_until = now + span,
                };
            }
            Fault::Kill { rank, known_after } => {
                self.kill(rank);
                self.schedule_fault(
                    now + known_after,
                    Fault::Tell { ranks: 1 << rank, node: false },
                );
            }
            Fault::LoseNode { node, known_after } => {
                self.nodes[node as usize].lost = true;
                self.switch.lock().attach(self.plan.ranks() + node, false);
                let of_node = |rank: &u32| self.plan.node_of[*rank as usize] == node;
                let all: Vec<u32> = (0..self.plan.ranks()).filter(of_node).collect();
                for &rank in &all {
                    self.kill(rank);
                }
                let ranks = all.iter().map(|rank| 1 << rank).sum();
                self.schedule_fault(now + known_after, Fault::Tell { ranks, node: true });
            }
            Fault::Tell { ranks, node } => {
                for rank in (0..self.plan.ranks()).filter(|rank| ranks >> rank & 1 != 0) {
                    let how = if node { How::NodeLost } else { How::Signal(9) };
                    for node in &self.nodes {
                        node.memory.declare_dead(Death { rank, how });
                    }
                }
                for node in 0..self.plan.nodes() {
                    self.hear_alarms(now, node);
                }
            }
            Fault::Heal => self.heal(now),
        }
    }

    fn kill(&mut self, rank: u32) {
        self.callers[rank as usize].die();
        self.switch.lock().attach(rank, false);
        self.model.on_death(rank);
    }

    fn pause(&mut self, rank: u32, now: Time, mode: Mode) {
        let Some(caller) = self.callers.get_mut(rank as usize).filter(|c| !c.is_dead()) else {
            return;
        };
        caller.mode = mode;
        self.wake(rank, now + self.plan.turn);
    }

    /// Changes all links from one node to another.
    fn between(&self, from: u32, to: u32, change: impl Fn(&mut Link)) {
        let mut switch = self.switch.lock();
        let seats = |node: u32| {
            let own = move |rank: &u32| self.plan.node_of[*rank as usize] == node;
            (0..self.plan.ranks()).filter(own).chain([self.plan.ranks() + node])
        };
        for a in seats(from) {
            for b in seats(to) {
                if let Some(link) = switch.link_mut(a, b) {
                    change(link);
                }
            }
        }
    }

    fn heal(&mut self, now: Time) {
        self.healed_at = Some(now);
        let base = self.plan.link.clone();
        for from in 0..self.plan.nodes() {
            for to in 0..self.plan.nodes() {
                self.between(from, to, |link| *link = Link::clean(base.delay, base.mtu));
            }
        }
        for port in self.switch.lock().ports_mut() {
            port.rate = port.rate.max(HEALED_RATE);
            port.refuse = 0;
        }
        for rank in 0..self.plan.ranks() {
            if !self.callers[rank as usize].is_dead() {
                self.wake(rank, now);
            }
        }
    }

    fn wrong(&mut self, now: Time) -> Option<String> {
        if let Some(wrong) = self.model.wrong() {
            return Some(wrong.to_owned());
        }
        if self.events > MOST_EVENTS {
            return Some(format!("after {MOST_EVENTS} events there is no end in sight"));
        }
        let late = now > self.healed_at? + PATIENCE;
        late.then(|| format!("{} s after healing somebody waits for ever", PATIENCE / SECOND))
    }

    fn outcome(&self, now: Time) -> Outcome {
        Outcome {
            seed: self.plan.seed,
            ranks: self.plan.ranks(),
            nodes: self.plan.nodes(),
            network_ns: now,
            events: self.events,
            counts: Counts { ..self.model.counts },
            net: self.switch.lock().counts,
            digest: self.digest,
        }
    }

    fn failure(&self, what: String) -> Failure {
        let (now, counts) = {
            let switch = self.switch.lock();
            (switch.now, switch.counts)
        };
        let mut states: Vec<String> = self.callers.iter().map(Caller::tell).collect();
        for node in &self.nodes {
            let (number, lost) = (node.memory.node(), node.lost);
            let claims = node.memory.local_ranks().filter_map(|home| {
                Some((home, self.layout.lock(home)?.claims().collect::<Vec<_>>()))
            });
            let claims: Vec<_> = claims.collect();
            let stack = node.server.stack().describe();
            states.push(format!("node {number}: lost {lost}, locks {claims:?}, {stack}"));
        }
        let healed = self.healed_at.is_some();
        let detail = format!("{counts:?}\n{:?}\n{}", self.model.counts, states.join("\n"));
        Failure { task: "one-sided ", seed: self.plan.seed, at_ns: now, healed, what, detail }
    }

    fn say(&self, now: Time, line: &str) {
        use std::io::Write as _;
        if self.trace {
            let _ = writeln!(std::io::stderr(), "{:>12.6} s: {line}", now as f64 / 1e9);
        }
    }
}

/// The memory of a node, with alarms, and the addresses of all actors.
fn memory_of(plan: &Plan, node: u32) -> anyhow::Result<NodeMemory> {
    let config = NodeConfig {
        ranks: plan.ranks() as usize,
        node,
        node_of: &plan.node_of,
        proxies: 0,
        job_id: plan.seed,
        survive: true,
        spin_ns: 0,
        yield_ns: 0,
    };
    let mut memory = NodeMemory::create(&config).context("no memory for a node")?;
    let awake = memory.local_ranks().chain(memory.own_interfaces());
    let alarms = awake.map(|actor| Ok((actor, Alarm::new()?)));
    let alarms = alarms.collect::<Result<Vec<_>, clump_os::error::OsError>>();
    memory.set_alarms(alarms.context("no alarm")?);
    for actor in 0..plan.ranks() + plan.nodes() {
        let place = Place { address: address_of(actor), others: Default::default(), epoch: 1 };
        memory.rank(actor).context("no block")?.set_place(place);
    }
    for rank in memory.local_ranks() {
        let joined = memory.rank(rank).context("no block")?.join(std::process::id());
        joined.map_err(|pid| anyhow::anyhow!("{pid} has joined already"))?;
    }
    Ok(memory)
}

fn server_of(
    plan: &Plan,
    memory: &NodeMemory,
    key: &JobKey,
    switch: &SharedSwitch,
) -> anyhow::Result<Server<SeatClock>> {
    let clock = SeatClock::new(Costs::default());
    let server = Server::new(memory, 0, clock, |Wiring { me: (me, epoch), peers, doors }| {
        let config = StackConfig {
            me,
            epoch,
            security: plan.security,
            channel: plan.channel.clone(),
            credit_bytes: clump_am::credit_bytes(memory),
            peers,
        };
        let driver = Box::new(SimDriver::new(switch, me));
        switch.lock().attach(me, true);
        let stack = Stack::new(config, key, driver, doors);
        stack.map_err(|e| clump_am::ErrorKind::Network(e.to_string()).into())
    });
    server.map_err(|e| anyhow::anyhow!("no interface: {e}"))
}
