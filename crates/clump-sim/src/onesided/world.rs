//! A cluster whose ranks use each other's memory, in virtual time.

use super::caller::{Caller, CallerEnvironment};
use super::layout::Layout;
use super::model::{Model, ModelCounts};
use super::plan::OneSidedPlan;
use super::summary::OneSidedSummary;
use crate::alarms::NodeAlarms;
use crate::interface::{InterfaceEnvironment, SimInterface, memory_of};
use crate::kernel::{
    Departure, Kernel, KernelConfig, Mode, PlannedFault, Random, SECOND, Time, World, key_of, mix,
};
use crate::summary::RunFailure;
use anyhow::Context as _;
use clump_interface::Services;
use clump_net::Batch;
use clump_shm::job::{Death, DeathCause};
use clump_shm::node::{NodeConfig, NodeMemory};

/// Once healed, everything must end within this time.
const LIMIT: Time = 60 * SECOND;
/// Number of events after which a run counts as endless.
const MAX_EVENTS: u64 = 5_000_000;

/// A running simulation of one-sided operations. Its actors are the ranks, and behind them the
/// interfaces; its sites are the nodes.
pub(crate) struct OneSidedCluster {
    plan: OneSidedPlan,
    kernel: Kernel,
    layout: Layout,
    model: Model,
    callers: Vec<Caller>,
    memories: Vec<NodeMemory>,
    alarms: Vec<NodeAlarms>,
    /// Interfaces, ordered by node.
    interfaces: Vec<SimInterface>,
    batch: Batch,
}

impl OneSidedCluster {
    pub(crate) fn new(plan: OneSidedPlan, trace: bool) -> anyhow::Result<Self> {
        let (ranks, nodes) = (plan.ranks(), plan.nodes());
        let key = key_of(plan.base.seed).context("no key")?;
        let memory = |node| {
            memory_of(&NodeConfig {
                node,
                node_of: &plan.node_of,
                proxies: plan.proxies,
                job_id: plan.base.seed,
                survive: true,
                spin_ns: 0,
                yield_ns: 0,
                ..NodeConfig::new(ranks as usize)
            })
        };
        let memories = (0..nodes).map(memory).collect::<anyhow::Result<Vec<_>>>()?;
        let alarms = memories.iter().map(NodeAlarms::new).collect::<anyhow::Result<Vec<_>>>()?;
        let site = |memory: &NodeMemory| memory.local_ranks().chain(memory.own_interfaces());
        let actors = plan.base.clocks.len() as u32;
        let mut kernel = Kernel::new(KernelConfig {
            begin: 0,
            ports: vec![plan.base.port.clone(); plan.base.clocks.len()],
            link: &plan.base.link,
            random: Random::new(mix(plan.base.seed)),
            actors,
            sites: memories.iter().map(|memory| site(memory).collect()).collect(),
            max_events: MAX_EVENTS,
            trace,
        });
        let layout = Layout::export(&plan.node_of, &memories).context("nothing can be exported")?;
        let trade = InterfaceEnvironment {
            switch: &kernel.switch,
            key: &key,
            security: plan.base.security,
            channel: plan.base.channel.clone(),
            costs: None,
            spin: plan.spin,
        };
        let mut interfaces = Vec::new();
        for memory in &memories {
            for (which, id) in (0..).zip(memory.own_interfaces()) {
                let times = (0, plan.base.clocks[id as usize]);
                interfaces.push(SimInterface::new(
                    memory,
                    which,
                    times,
                    &trade,
                    Services::default(),
                )?);
            }
        }
        let caller = |rank: u32| {
            let memory = &memories[plan.node_of[rank as usize] as usize];
            Caller::new(rank, &plan, memory, &trade)
        };
        let callers = (0..ranks).map(caller).collect::<anyhow::Result<Vec<_>>>()?;
        for (at, fault) in plan.base.faults.clone() {
            kernel.schedule(at, fault);
        }
        (0..actors).for_each(|actor| kernel.wake(actor, 0));
        Ok(Self {
            kernel,
            layout,
            model: Model::new(ranks),
            callers,
            memories,
            alarms,
            interfaces,
            batch: Batch::default(),
            plan,
        })
    }

    /// Returns the interface that an actor is; `None` for a rank.
    fn interface(&mut self, actor: u32) -> Option<&mut SimInterface> {
        self.interfaces.get_mut(actor.checked_sub(self.callers.len() as u32)? as usize)
    }

    /// Runs a turn of a rank. Returns the node whose memory may have changed.
    fn turn_of_rank(&mut self, now: Time, rank: u32) -> Option<u32> {
        let Self { callers, memories, layout, model, batch, plan, kernel, .. } = self;
        let caller = callers.get_mut(rank as usize)?;
        let memory = &memories[caller.node as usize];
        let healed = kernel.healed_at().is_some();
        let mut around = CallerEnvironment { now, memory, layout, model, batch, plan, healed };
        let (before, node) = (kernel.traces().then(|| format!("{:?}", caller.doing)), caller.node);
        let away = caller.is_away(now);
        let next = caller.act(&mut around);
        let after = before.as_ref().map(|_| format!("{:?}", caller.doing));
        if before != after {
            kernel.say(now, &format!("rank {rank}: {}", after.unwrap_or_default()));
        }
        self.kernel.wake(rank, next);
        (!away).then_some(node)
    }

    /// Runs a turn of an interface. Returns the node whose memory may have changed.
    fn turn_of_interface(&mut self, now: Time, actor: u32) -> Option<u32> {
        let number = actor - self.callers.len() as u32;
        let interface = self.interfaces.get_mut(number as usize)?;
        let frozen_until = interface.frozen_until;
        let node = (now >= frozen_until).then(|| interface.memory.node());
        let next = match node {
            Some(_) => interface.turn(now, self.plan.base.turn, &mut self.batch),
            None => frozen_until,
        };
        if interface.overslept {
            let what = format!("something was there for interface {actor}, which was not woken");
            self.model.complain(what);
        }
        self.kernel.wake(actor, next.max(now + 1));
        node
    }

    /// Schedules turns of the actors of a node whose alarms were rung.
    fn wake_alarmed(&mut self, now: Time, node: u32) {
        let Self { kernel, callers, alarms, interfaces, plan, .. } = self;
        let ranks = callers.len() as u32;
        let rung = alarms[node as usize].rung(|actor| match actor.checked_sub(ranks) {
            None => callers[actor as usize].sleeper.sleeps(),
            Some(number) => interfaces[number as usize].sleeps(),
        });
        rung.into_iter().for_each(|actor| kernel.wake(actor, now + plan.base.turn));
    }

    fn freeze(&mut self, now: Time, actor: u32, span: Time) {
        match self.interface(actor) {
            None => self.pause(actor, now, Mode::Frozen(now + span)),
            Some(interface) => interface.frozen_until = now + span,
        }
    }

    fn lose_node(&mut self, now: Time, node: u32, known_after: Time) {
        self.memories[node as usize].own_interfaces().for_each(|actor| self.kernel.retire(actor));
        let of_node = |rank: &u32| self.plan.node_of[*rank as usize] == node;
        let all: Vec<u32> = (0..self.plan.ranks()).filter(of_node).collect();
        for &rank in &all {
            self.kill(rank);
        }
        let ranks = all.iter().map(|rank| 1 << rank).sum();
        let told = PlannedFault::Tell { ranks, why: Departure::NodeLost };
        self.kernel.schedule(now + known_after, told);
    }

    fn tell(&mut self, now: Time, ranks: u64, why: Departure) {
        let how = match why {
            Departure::NodeLost => DeathCause::NodeLost,
            Departure::Died | Departure::Closed => DeathCause::Signal(9),
        };
        for rank in (0..self.plan.ranks()).filter(|rank| ranks >> rank & 1 != 0) {
            for memory in &self.memories {
                memory.declare_dead(Death { rank, how });
            }
        }
        (0..self.plan.nodes()).for_each(|node| self.wake_alarmed(now, node));
    }

    fn kill(&mut self, rank: u32) {
        self.callers[rank as usize].die();
        self.kernel.retire(rank);
        self.model.on_death(rank);
    }

    fn pause(&mut self, rank: u32, now: Time, mode: Mode) {
        let Some(caller) = self.callers.get_mut(rank as usize).filter(|c| !c.is_dead()) else {
            return;
        };
        caller.mode = mode;
        self.kernel.wake(rank, now + self.plan.base.turn);
    }

    fn wrong(&mut self, now: Time) -> Option<String> {
        if let Some(wrong) = self.model.wrong() {
            return Some(wrong.to_owned());
        }
        let late = now > self.kernel.healed_at()? + LIMIT;
        late.then(|| format!("{} s after healing somebody waits for ever", LIMIT / SECOND))
    }

    fn outcome(&self, now: Time) -> OneSidedSummary {
        let (events, digest) = self.kernel.history();
        OneSidedSummary {
            seed: self.plan.base.seed,
            ranks: self.plan.ranks(),
            nodes: self.plan.nodes(),
            proxies: self.plan.proxies,
            network_ns: now,
            events,
            counts: ModelCounts { ..self.model.counts },
            net: self.kernel.network().1,
            digest,
        }
    }
}

impl World for OneSidedCluster {
    type End = OneSidedSummary;
    type Error = RunFailure;

    fn kernel(&mut self) -> &mut Kernel {
        &mut self.kernel
    }

    fn on_datagram(&mut self, now: Time, actor: u32) {
        let looks = match self.interface(actor) {
            Some(interface) => interface.sleeps(),
            None => self.callers[actor as usize].mode == Mode::Polling,
        };
        if looks {
            self.kernel.wake(actor, now + self.plan.base.turn);
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

    fn on_fault(&mut self, now: Time, fault: &PlannedFault) -> Result<(), RunFailure> {
        match *fault {
            PlannedFault::Compute { rank, span } => {
                self.pause(rank, now, Mode::Computing(now + span));
            }
            PlannedFault::Freeze { actor, span } => self.freeze(now, actor, span),
            PlannedFault::Kill { rank, known_after } => {
                self.kill(rank);
                let told = PlannedFault::Tell { ranks: 1 << rank, why: Departure::Died };
                self.kernel.schedule(now + known_after, told);
            }
            PlannedFault::LoseNode { node, known_after } => self.lose_node(now, node, known_after),
            PlannedFault::Tell { ranks, why } => self.tell(now, ranks, why),
            PlannedFault::Heal => {
                (0..self.plan.ranks()).for_each(|rank| self.kernel.wake(rank, now));
            }
            _ => return Err(self.failure(format!("simulations of nodes do not support {fault:?}"))),
        }
        Ok(())
    }

    fn check_progress(&mut self, now: Time) -> Result<Option<OneSidedSummary>, RunFailure> {
        if let Some(what) = self.wrong(now) {
            return Err(self.failure(what));
        }
        if self.kernel.healed_at().is_none() || !self.callers.iter().all(|caller| caller.finished) {
            return Ok(None);
        }
        self.model.check_end(&self.layout);
        match self.model.wrong().map(str::to_owned) {
            Some(what) => Err(self.failure(what)),
            None => Ok(Some(self.outcome(now))),
        }
    }

    fn failure(&self, what: String) -> RunFailure {
        let (now, counts) = self.kernel.network();
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
        let healed = self.kernel.healed_at().is_some();
        let detail = format!("{counts:?}\n{:?}\n{}", self.model.counts, states.join("\n"));
        RunFailure {
            task: self.plan.network_mode().task().to_owned(),
            seed: self.plan.base.seed,
            at_ns: now,
            healed,
            what,
            detail,
        }
    }
}
