//! A cluster whose ranks share a heap, in virtual time.

use super::heap_rank::{HeapEnvironment, HeapRank, RankEnd, Reference};
use super::message_counts::{CountedService, SharedCounts};
use super::plan::{SharedHeapPlan, TASK};
use super::summary::{HeapCounts, SharedHeapSummary};
use crate::alarms::NodeAlarms;
use crate::interface::{InterfaceEnvironment, SimInterface, memory_of};
use crate::kernel::{
    Departure, Kernel, KernelConfig, Mode, PlannedFault, Random, SECOND, Time, World, key_of, mix,
};
use crate::summary::RunFailure;
use anyhow::Context as _;
use clump_hlrc::MessageLimits;
use clump_interface::Services;
use clump_net::Batch;
use clump_shm::job::{Death, DeathCause};
use clump_shm::node::{NodeConfig, NodeMemory};
use std::sync::PoisonError;

/// Once healed, everything must end within this time.
const LIMIT: Time = 60 * SECOND;
/// Number of events after which a run counts as endless.
const MAX_EVENTS: u64 = 5_000_000;

/// A running simulation of a shared heap. Its actors are the ranks, and behind them the interfaces;
/// its sites are the nodes.
pub(super) struct HeapCluster {
    plan: SharedHeapPlan,
    kernel: Kernel,
    reference: Reference,
    messages: SharedCounts,
    ranks: Vec<HeapRank>,
    memories: Vec<NodeMemory>,
    alarms: Vec<NodeAlarms>,
    /// Interfaces, one for each node.
    interfaces: Vec<SimInterface>,
    all_open: bool,
    batch: Batch,
}

impl HeapCluster {
    pub(super) fn new(plan: SharedHeapPlan, trace: bool) -> anyhow::Result<Self> {
        let (ranks, nodes) = (plan.ranks(), plan.nodes());
        let key = key_of(plan.base.seed).context("no key")?;
        let memory = |node| {
            memory_of(&NodeConfig {
                ranks: ranks as usize,
                node,
                node_of: &plan.node_of,
                proxies: plan.proxies,
                virtual_nodes: 0,
                job_id: plan.base.seed,
                survive: true,
                spin_ns: 0,
                yield_ns: 0,
            })
        };
        let memories = (0..nodes).map(memory).collect::<anyhow::Result<Vec<_>>>()?;
        let alarms = memories.iter().map(NodeAlarms::new).collect::<anyhow::Result<Vec<_>>>()?;
        let site = |memory: &NodeMemory| memory.local_ranks().chain(memory.own_interfaces());
        let actors = plan.base.clocks.len() as u32;
        let mut kernel = Kernel::new(KernelConfig {
            begin: 0,
            ports: vec![plan.base.port.clone(); actors as usize],
            link: &plan.base.link,
            random: Random::new(mix(plan.base.seed)),
            actors,
            sites: memories.iter().map(|memory| site(memory).collect()).collect(),
            max_events: MAX_EVENTS,
            trace,
        });
        let environment = InterfaceEnvironment {
            switch: &kernel.switch,
            key: &key,
            security: plan.base.security,
            channel: plan.base.channel.clone(),
            costs: None,
            spin: plan.spin,
        };
        let messages = SharedCounts::default();
        let mut interfaces = Vec::new();
        for memory in &memories {
            let times = (0, plan.base.clocks[memory.interface_id(memory.node()) as usize]);
            let services = services(memory, &plan, &messages)?;
            interfaces.push(SimInterface::new(memory, 0, times, &environment, services)?);
        }
        let rank = |rank: u32| {
            let memory = &memories[plan.node_of[rank as usize] as usize];
            HeapRank::new(rank, &plan, memory).context("no memory for a heap")
        };
        let all = (0..ranks).map(rank).collect::<anyhow::Result<Vec<_>>>()?;
        for (at, fault) in plan.base.faults.clone() {
            kernel.schedule(at, fault);
        }
        (0..actors).for_each(|actor| kernel.wake(actor, 0));
        Ok(Self {
            plan,
            kernel,
            reference: Reference::default(),
            messages,
            ranks: all,
            memories,
            alarms,
            interfaces,
            all_open: false,
            batch: Batch::default(),
        })
    }

    /// Returns the number of the interface that an actor is; `None` for a rank.
    fn interface_number(&self, actor: u32) -> Option<usize> {
        actor.checked_sub(self.ranks.len() as u32).map(|number| number as usize)
    }

    fn turn_of_rank(&mut self, now: Time, actor: u32) {
        let Self { ranks, reference, plan, kernel, all_open, .. } = self;
        let Some(rank) = ranks.get_mut(actor as usize) else {
            clump_bug::bug!("actor {actor} is a rank");
            return;
        };
        let before = kernel.traces().then(|| rank.describe(plan));
        let mut around = HeapEnvironment { now, plan, reference, all_open: *all_open };
        let next = rank.act(&mut around);
        let after = before.as_ref().map(|_| rank.describe(plan));
        if before != after {
            kernel.say(now, &after.unwrap_or_default());
        }
        let node = rank.node;
        kernel.wake(actor, next);
        if !self.all_open && self.ranks.iter().all(|rank| rank.is_open(&self.plan)) {
            // Ranks meet by messages before they use the heap.
            self.all_open = true;
            (0..self.plan.ranks()).for_each(|rank| self.kernel.wake(rank, now + 1));
        }
        self.wake_alarmed(now, node);
    }

    fn turn_of_interface(&mut self, now: Time, actor: u32, number: usize) {
        let Some(interface) = self.interfaces.get_mut(number) else {
            clump_bug::bug!("actor {actor} is an interface");
            return;
        };
        if now < interface.frozen_until {
            let until = interface.frozen_until;
            return self.kernel.wake(actor, until);
        }
        let next = interface.turn(now, self.plan.base.turn, &mut self.batch);
        if interface.overslept {
            let what = format!("something was there for interface {actor}, which was not woken");
            self.reference.complain(what);
        }
        let node = interface.memory.node();
        self.kernel.wake(actor, next.max(now + 1));
        // An answer wakes the rank that sleeps on its mailbox.
        for (rank, own) in (0..).zip(&self.ranks) {
            if own.node == node && own.is_answered() {
                self.kernel.wake(rank, now + self.plan.base.turn);
            }
        }
        self.wake_alarmed(now, node);
    }

    /// Schedules a turn of the interface of a node whose alarm was rung.
    fn wake_alarmed(&mut self, now: Time, node: u32) {
        let Self { kernel, alarms, interfaces, plan, ranks, .. } = self;
        let first = ranks.len() as u32;
        let rung = alarms[node as usize].rung(|actor| {
            let number = actor.checked_sub(first);
            number.is_some_and(|number| interfaces[number as usize].sleeps())
        });
        rung.into_iter().for_each(|actor| kernel.wake(actor, now + plan.base.turn));
    }

    fn kill(&mut self, rank: u32) {
        let own = &mut self.ranks[rank as usize];
        self.reference.counts.died += 1;
        if own.end == Some(RankEnd::Finished) {
            self.reference.counts.finished -= 1;
        }
        own.end = Some(RankEnd::Died);
        self.reference.dead |= 1 << rank;
        self.kernel.retire(rank);
    }

    fn lose_node(&mut self, now: Time, node: u32, known_after: Time) {
        self.memories[node as usize].own_interfaces().for_each(|actor| self.kernel.retire(actor));
        let of_node = |rank: &u32| self.plan.node_of[*rank as usize] == node;
        let all: Vec<u32> = (0..self.plan.ranks()).filter(of_node).collect();
        all.iter().for_each(|&rank| self.kill(rank));
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

    fn freeze(&mut self, now: Time, actor: u32, span: Time) {
        match self.interface_number(actor) {
            Some(number) => self.interfaces[number].frozen_until = now + span,
            None => self.ranks[actor as usize].mode = Mode::Frozen(now + span),
        }
    }

    fn wrong(&self, now: Time) -> Option<String> {
        if let Some(wrong) = self.reference.wrong() {
            return Some(wrong.to_owned());
        }
        let late = now > self.kernel.healed_at()? + LIMIT;
        late.then(|| format!("{} s after healing a rank waits for ever", LIMIT / SECOND))
    }

    fn counts(&self) -> HeapCounts {
        let resent = |interface: &SimInterface| interface.server.stack().stats().units_resent;
        HeapCounts {
            runs: 1,
            messages: *self.messages.lock().unwrap_or_else(PoisonError::into_inner),
            units_resent: self.interfaces.iter().map(resent).sum(),
            ..self.reference.counts
        }
    }
}

/// Returns the services of a node: the real ones, and that of the heap counted.
fn services(
    memory: &NodeMemory,
    plan: &SharedHeapPlan,
    counts: &SharedCounts,
) -> anyhow::Result<Services> {
    let limits =
        MessageLimits { nodes: plan.nodes() as u16, ranks: u16::MAX, pages: plan.heap.pages };
    let inner = clump_svm::heap_service(memory);
    let mut services = Services::default();
    let counted = CountedService { inner, limits, counts: counts.clone() };
    services.add(Box::new(counted)).map_err(anyhow::Error::msg)?;
    Ok(services)
}

impl World for HeapCluster {
    type End = SharedHeapSummary;
    type Error = RunFailure;

    fn kernel(&mut self) -> &mut Kernel {
        &mut self.kernel
    }

    fn on_datagram(&mut self, now: Time, actor: u32) {
        let sleeps = |number: usize| self.interfaces[number].sleeps();
        if self.interface_number(actor).is_some_and(sleeps) {
            self.kernel.wake(actor, now + self.plan.base.turn);
        }
    }

    fn on_turn(&mut self, now: Time, actor: u32) -> Result<(), RunFailure> {
        match self.interface_number(actor) {
            None => self.turn_of_rank(now, actor),
            Some(number) => self.turn_of_interface(now, actor, number),
        }
        Ok(())
    }

    fn on_fault(&mut self, now: Time, fault: &PlannedFault) -> Result<(), RunFailure> {
        match *fault {
            PlannedFault::Compute { rank, span } => {
                self.ranks[rank as usize].mode = Mode::Computing(now + span);
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
            _ => {
                return Err(self.failure(format!("simulations of a heap do not support {fault:?}")));
            }
        }
        Ok(())
    }

    fn check_progress(&mut self, now: Time) -> Result<Option<SharedHeapSummary>, RunFailure> {
        if let Some(what) = self.wrong(now) {
            return Err(self.failure(what));
        }
        if self.kernel.healed_at().is_none() || self.ranks.iter().any(|rank| rank.end.is_none()) {
            return Ok(None);
        }
        let (events, digest) = self.kernel.history();
        Ok(Some(SharedHeapSummary {
            seed: self.plan.base.seed,
            ranks: self.plan.ranks(),
            nodes: self.plan.nodes(),
            proxies: self.plan.proxies,
            network_ns: now,
            events,
            counts: self.counts(),
            net: self.kernel.network().1,
            digest,
        }))
    }

    fn failure(&self, what: String) -> RunFailure {
        let (now, net) = self.kernel.network();
        let ranks = self.ranks.iter().map(|rank| rank.describe(&self.plan));
        let mut states: Vec<String> = ranks.collect();
        for interface in &self.interfaces {
            let (sleeps, stack) = (interface.sleeps(), interface.server.stack().describe());
            states.push(format!("interface {}: sleeps {sleeps}, {stack}", interface.id));
        }
        let heap = (self.plan.heap, &self.plan.places, self.plan.keeps_locks);
        RunFailure {
            task: TASK.to_owned(),
            seed: self.plan.base.seed,
            at_ns: now,
            healed: self.kernel.healed_at().is_some(),
            what,
            detail: format!("{heap:?}\n{net:?}\n{:?}\n{}", self.counts(), states.join("\n")),
        }
    }
}
