//! A cluster whose ranks use each other's memory, in virtual time: one thread, one queue of events,
//! one plan.

use super::caller::{Caller, CallerEnvironment};
use super::layout::Layout;
use super::model::Model;
use super::plan::{OneSidedFault, OneSidedPlan};
use super::{ModelCounts, OneSidedSummary};
use crate::interface::{InterfaceEnvironment, SimInterface, memory_of};
use crate::plan::SECOND;
use crate::random::{Random, mix};
use crate::rank::Mode;
use crate::summary::RunFailure;
use crate::switch::{LinkFaults, SharedSwitch, Switch, SwitchEvent, Time};
use crate::turns::{ActorSchedule, Simulation, play, rung};
use crate::world::key_of;
use anyhow::Context as _;
use clump_net::Batch;
use clump_shm::job::{Death, DeathCause};
use clump_shm::node::{NodeConfig, NodeMemory};

/// Once healed, everything must end within this time.
const PATIENCE: Time = 60 * SECOND;
/// Number of events after which a run counts as endless.
const MAX_EVENTS: u64 = 5_000_000;
/// A running simulation of one-sided operations.
pub(crate) struct OneSidedCluster {
    plan: OneSidedPlan,
    turns: ActorSchedule,
    layout: Layout,
    model: Model,
    callers: Vec<Caller>,
    memories: Vec<NodeMemory>,
    /// Interfaces, ordered by node.
    interfaces: Vec<SimInterface>,
    batch: Batch,
    faults: Vec<OneSidedFault>,
    healed_at: Option<Time>,
    events: u64,
    digest: u64,
    trace: bool,
}

impl OneSidedCluster {
    pub(crate) fn new(plan: OneSidedPlan, trace: bool) -> anyhow::Result<Self> {
        let (ranks, nodes) = (plan.ranks(), plan.nodes());
        let random = Random::new(mix(plan.seed));
        let ports = vec![plan.port.clone(); plan.clocks.len()];
        let switch = SharedSwitch::new(Switch::new(0, ports, &plan.link, random));
        let key = key_of(plan.seed).context("no key")?;
        let memory = |node| {
            memory_of(&NodeConfig {
                ranks: ranks as usize,
                node,
                node_of: &plan.node_of,
                proxies: plan.proxies,
                job_id: plan.seed,
                survive: true,
                spin_ns: 0,
                yield_ns: 0,
            })
        };
        let memories = (0..nodes).map(memory).collect::<anyhow::Result<Vec<_>>>()?;
        let layout = Layout::export(&plan.node_of, &memories).context("nothing can be exported")?;
        let trade = InterfaceEnvironment {
            switch: &switch,
            key: &key,
            security: plan.security,
            channel: plan.channel.clone(),
            costs: None,
            spin: plan.spin,
        };
        let mut interfaces = Vec::new();
        for memory in &memories {
            for (which, id) in (0..).zip(memory.own_interfaces()) {
                let times = (0, plan.clocks[id as usize]);
                interfaces.push(SimInterface::new(memory, which, times, &trade)?);
            }
        }
        let caller = |rank: u32| {
            let memory = &memories[plan.node_of[rank as usize] as usize];
            Caller::new(rank, &plan, memory, &trade)
        };
        let callers = (0..ranks).map(caller).collect::<anyhow::Result<Vec<_>>>()?;
        let actors = ranks + interfaces.len() as u32;
        let mut world = Self {
            turns: ActorSchedule::new(switch, actors),
            layout,
            model: Model::new(ranks),
            callers,
            memories,
            interfaces,
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
        (0..actors).for_each(|actor| world.turns.wake(actor, 0));
        Ok(world)
    }

    fn schedule_fault(&mut self, at: Time, fault: OneSidedFault) {
        self.faults.push(fault);
        self.turns.switch.lock().schedule(at, SwitchEvent::Step(self.faults.len() as u32 - 1));
    }

    /// Runs the simulation to its end.
    pub(crate) fn run(self) -> Result<OneSidedSummary, RunFailure> {
        play(self)
    }

    /// Returns the interface that an actor is; `None` for a rank.
    fn interface(&mut self, actor: u32) -> Option<&mut SimInterface> {
        self.interfaces.get_mut(actor.checked_sub(self.callers.len() as u32)? as usize)
    }

    /// Runs a turn of a rank. Returns the node whose memory may have changed.
    fn turn_of_rank(&mut self, now: Time, rank: u32) -> Option<u32> {
        let Self { callers, memories, layout, model, batch, plan, healed_at, .. } = self;
        let caller = callers.get_mut(rank as usize)?;
        let memory = &memories[caller.node as usize];
        let healed = healed_at.is_some();
        let mut around = CallerEnvironment { now, memory, layout, model, batch, plan, healed };
        let (before, node) = (self.trace.then(|| format!("{:?}", caller.doing)), caller.node);
        let away = caller.is_away(now);
        let next = caller.act(&mut around);
        let after = before.as_ref().map(|_| format!("{:?}", caller.doing));
        if before != after {
            self.say(now, &format!("rank {rank}: {}", after.unwrap_or_default()));
        }
        self.turns.wake(rank, next);
        (!away).then_some(node)
    }

    /// Runs a turn of an interface. Returns the node whose memory may have changed.
    fn turn_of_interface(&mut self, now: Time, actor: u32) -> Option<u32> {
        let number = actor - self.callers.len() as u32;
        let interface = self.interfaces.get_mut(number as usize)?;
        let frozen_until = interface.frozen_until;
        let node = (now >= frozen_until).then(|| interface.memory.node());
        let next = match node {
            Some(_) => interface.turn(now, self.plan.turn, &mut self.batch),
            None => frozen_until,
        };
        if interface.overslept {
            let what = format!("something lay there for interface {actor}, and nobody woke it");
            self.model.complain(what);
        }
        self.turns.wake(actor, next.max(now + 1));
        node
    }

    /// Schedules turns of the actors of a node whose alarms were rung.
    fn wake_alarmed(&mut self, now: Time, node: u32) {
        let Self { turns, callers, memories, interfaces, plan, .. } = self;
        let ranks = callers.len() as u32;
        let rung = rung(&memories[node as usize], |actor| match actor.checked_sub(ranks) {
            None => callers[actor as usize].sleeper.sleeps(),
            Some(number) => interfaces[number as usize].sleeps(),
        });
        rung.into_iter().for_each(|actor| turns.wake(actor, now + plan.turn));
    }

    fn fault(&mut self, now: Time, fault: OneSidedFault) {
        if self.trace {
            self.say(now, &format!("{fault:?}"));
        }
        let faulty = self.healed_at.is_none();
        match fault {
            OneSidedFault::LinkChange { from, to, link } if faulty => {
                self.between(from, to, |old| *old = LinkFaults { cut: old.cut, ..(*link).clone() });
            }
            OneSidedFault::Partition { nodes, cut } if faulty => {
                for from in 0..self.plan.nodes() {
                    for to in 0..self.plan.nodes() {
                        if (nodes >> from ^ nodes >> to) & 1 != 0 {
                            self.between(from, to, |link| link.cut = cut);
                        }
                    }
                }
            }
            OneSidedFault::LinkChange { .. } | OneSidedFault::Partition { .. } => {}
            OneSidedFault::Compute { rank, span } => {
                self.pause(rank, now, Mode::Computing(now + span));
            }
            OneSidedFault::Freeze { actor, span } => {
                match self.interface(actor) {
                    None => self.pause(actor, now, Mode::Frozen(now + span)),
                    Some(interface) => interface.frozen_until = now + span,
                };
            }
            OneSidedFault::Kill { rank, known_after } => {
                self.kill(rank);
                self.schedule_fault(
                    now + known_after,
                    OneSidedFault::Tell { ranks: 1 << rank, node: false },
                );
            }
            OneSidedFault::LoseNode { node, known_after } => {
                self.memories[node as usize].own_interfaces().for_each(|actor| self.retire(actor));
                let of_node = |rank: &u32| self.plan.node_of[*rank as usize] == node;
                let all: Vec<u32> = (0..self.plan.ranks()).filter(of_node).collect();
                for &rank in &all {
                    self.kill(rank);
                }
                let ranks = all.iter().map(|rank| 1 << rank).sum();
                self.schedule_fault(now + known_after, OneSidedFault::Tell { ranks, node: true });
            }
            OneSidedFault::Tell { ranks, node } => {
                for rank in (0..self.plan.ranks()).filter(|rank| ranks >> rank & 1 != 0) {
                    let how = if node { DeathCause::NodeLost } else { DeathCause::Signal(9) };
                    for memory in &self.memories {
                        memory.declare_dead(Death { rank, how });
                    }
                }
                for node in 0..self.plan.nodes() {
                    self.wake_alarmed(now, node);
                }
            }
            OneSidedFault::Heal => self.heal(now),
        }
    }

    fn kill(&mut self, rank: u32) {
        self.callers[rank as usize].die();
        self.retire(rank);
        self.model.on_death(rank);
    }

    /// Removes an actor, and its socket with it.
    fn retire(&mut self, actor: u32) {
        self.turns.retire(actor);
        self.turns.switch.lock().attach(actor, false);
    }

    fn pause(&mut self, rank: u32, now: Time, mode: Mode) {
        let Some(caller) = self.callers.get_mut(rank as usize).filter(|c| !c.is_dead()) else {
            return;
        };
        caller.mode = mode;
        self.turns.wake(rank, now + self.plan.turn);
    }

    /// Changes all links from one node to another.
    fn between(&self, from: u32, to: u32, change: impl Fn(&mut LinkFaults)) {
        let mut switch = self.turns.switch.lock();
        let seats = |node: u32| {
            let memory = &self.memories[node as usize];
            memory.local_ranks().chain(memory.own_interfaces())
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
                self.between(from, to, |link| *link = LinkFaults::clean(base.delay, base.mtu));
            }
        }
        self.turns.switch.lock().heal_ports();
        (0..self.plan.ranks()).for_each(|rank| self.turns.wake(rank, now));
    }

    fn wrong(&mut self, now: Time) -> Option<String> {
        if let Some(wrong) = self.model.wrong() {
            return Some(wrong.to_owned());
        }
        if self.events > MAX_EVENTS {
            return Some(format!("after {MAX_EVENTS} events there is no end in sight"));
        }
        let late = now > self.healed_at? + PATIENCE;
        late.then(|| format!("{} s after healing somebody waits for ever", PATIENCE / SECOND))
    }

    fn outcome(&self, now: Time) -> OneSidedSummary {
        OneSidedSummary {
            seed: self.plan.seed,
            ranks: self.plan.ranks(),
            nodes: self.plan.nodes(),
            proxies: self.plan.proxies,
            network_ns: now,
            events: self.events,
            counts: ModelCounts { ..self.model.counts },
            net: self.turns.switch.lock().counts,
            digest: self.digest,
        }
    }

    fn failure(&self, what: String) -> RunFailure {
        let (now, counts) = {
            let switch = self.turns.switch.lock();
            (switch.now, switch.counts)
        };
        let mut states: Vec<String> = self.callers.iter().map(Caller::describe).collect();
        for (node, memory) in self.memories.iter().enumerate() {
            let claims = memory.local_ranks().filter_map(|home| {
                Some((home, self.layout.lock(home)?.claims().collect::<Vec<_>>()))
            });
            states.push(format!("node {node}: locks {:?}", claims.collect::<Vec<_>>()));
        }
        for interface in &self.interfaces {
            let (sleeps, stack) = (interface.sleeps(), interface.server.stack().describe());
            states.push(format!("interface {}: sleeps {sleeps}, {stack}", interface.id));
        }
        let healed = self.healed_at.is_some();
        let detail = format!("{counts:?}\n{:?}\n{}", self.model.counts, states.join("\n"));
        RunFailure {
            task: self.plan.network_mode().task(),
            seed: self.plan.seed,
            at_ns: now,
            healed,
            what,
            detail,
        }
    }

    fn say(&self, now: Time, line: &str) {
        use std::io::Write as _;
        if self.trace {
            let _ = writeln!(std::io::stderr(), "{:>12.6} s: {line}", now as f64 / 1e9);
        }
    }
}

impl Simulation for OneSidedCluster {
    type End = OneSidedSummary;
    type Error = RunFailure;

    fn turns(&mut self) -> &mut ActorSchedule {
        &mut self.turns
    }

    fn on_datagram(&mut self, now: Time, actor: u32) {
        let looks = match self.interface(actor) {
            Some(interface) => interface.sleeps(),
            None => self.callers[actor as usize].mode == Mode::Polling,
        };
        if looks {
            self.turns.wake(actor, now + self.plan.turn);
        }
    }

    fn on_turn(&mut self, now: Time, actor: u32) -> Result<(), RunFailure> {
        let node = match actor.checked_sub(self.callers.len() as u32) {
            None => self.turn_of_rank(now, actor),
            Some(_) => self.turn_of_interface(now, actor),
        };
        if let Some(node) = node {
            self.model.check_lock_order(&self.layout, node);
            self.wake_alarmed(now, node);
        }
        Ok(())
    }

    fn on_step(&mut self, now: Time, index: u32) {
        if let Some(fault) = self.faults.get(index as usize).cloned() {
            self.fault(now, fault);
        }
    }

    fn check_progress(&mut self, now: Time) -> Result<Option<OneSidedSummary>, RunFailure> {
        self.events += 1;
        self.digest = mix(self.digest ^ now);
        if let Some(what) = self.wrong(now) {
            return Err(self.failure(what));
        }
        if self.healed_at.is_none() || !self.callers.iter().all(|caller| caller.finished) {
            return Ok(None);
        }
        self.model.check_end(&self.layout);
        match self.model.wrong().map(str::to_owned) {
            Some(what) => Err(self.failure(what)),
            None => Ok(Some(self.outcome(now))),
        }
    }

    fn dries_up(&self) -> RunFailure {
        self.failure("nothing is left to happen".to_owned())
    }
}
