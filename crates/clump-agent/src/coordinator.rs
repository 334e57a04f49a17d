//! The launcher's side of a job over several nodes, without sockets or processes: frames in,
//! frames and other effects out.
//!
//! Decisions are [`JobCoordinator`]'s (`clump-control`); this adds what it needs no knowledge of:
//! addresses, machines, process numbers, words. The launcher feeds [`Coordinator`] with frames of
//! agents ([`Coordinator::handle_frame`]), with lost agents ([`Coordinator::handle_lost`]) and with
//! the user's signals ([`Coordinator::handle_interrupt`]), wakes it at
//! [`Coordinator::next_deadline_ns`] ([`Coordinator::handle_timeout`]), and executes
//! [`Coordinator::poll_effect`] until it returns nothing more. When all agents have left,
//! [`Coordinator::close`] gives the outcome.

use crate::frame::Frame;
use crate::ledger::{Ledger, NodeLoss};
use crate::outcome::{JobOutcome, NodeOutcome};
use crate::report::{lingering, rank_list};
use crate::spec::{AddressTable, AgentOffer, BoundAddresses, JobSpec};
use clump_control::{AgentLoss, CutOffReason, Decision, JobCoordinator};
use std::collections::VecDeque;

/// An action of the launcher.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Send this frame to all agents that are not lost ([`Coordinator::listeners`]).
    Say(Frame),
    /// Tell the user.
    Notice(String),
    /// End the agent of this node, which cannot be reached or does not respond.
    CutOff(u32),
}

/// Facts that an agent has reported of its node.
#[derive(Debug, Default)]
struct Node {
    offer: Option<AgentOffer>,
    bound: Option<BoundAddresses>,
    part: Option<NodeOutcome>,
    pid: u32,
}

/// A job over several nodes.
#[derive(Debug)]
pub struct Coordinator {
    spec: JobSpec,
    rules: JobCoordinator,
    nodes: Vec<Node>,
    /// Numbers of nodes that have offered themselves, and that have bound their sockets.
    offered: usize,
    bound: usize,
    losses: Vec<NodeLoss>,
    refusal: Option<(String, u8)>,
    effects: VecDeque<Effect>,
    /// Time by which all nodes must have been reached, until they have.
    start_by_ns: Option<u64>,
}

impl Coordinator {
    /// Creates the coordinator of the job `spec`, whose agents are these processes. A node that has
    /// not got ready in the time for the start ends the job.
    pub fn new(
        spec: &JobSpec,
        agents: &[u32],
        (node_timeout_ms, start_limit_ms): (u64, u64),
        now_ns: u64,
    ) -> Self {
        debug_assert_eq!(agents.len(), spec.nodes as usize, "each node has an agent");
        let start_ns = start_limit_ms.saturating_mul(1_000_000);
        let policy = (spec.on_death, spec.linger_ms);
        let ranks = (0..spec.nodes).map(|node| spec.ranks_of(node));
        let node = |&pid| Node { pid, ..Node::default() };
        Self {
            spec: spec.clone(),
            rules: JobCoordinator::new(ranks, policy, node_timeout_ms * 1_000_000, now_ns),
            nodes: agents.iter().map(node).collect(),
            offered: 0,
            bound: 0,
            losses: Vec::new(),
            refusal: None,
            effects: VecDeque::new(),
            start_by_ns: Some(now_ns.saturating_add(start_ns)),
        }
    }

    /// Handles a frame of an agent.
    pub fn handle_frame(&mut self, from: u32, frame: Frame, now_ns: u64) {
        let Some(node) = self.nodes.get_mut(from as usize) else {
            clump_bug::bug!("the launcher numbers the agents");
            return;
        };
        if self.rules.is_lost(from) {
            return;
        }
        match frame {
            Frame::Offered(offer) => {
                let is_new = node.offer.replace(*offer).is_none();
                self.offered += usize::from(is_new);
                if is_new {
                    self.introduce();
                }
            }
            Frame::Bound(bound) => {
                self.bound += usize::from(node.bound.replace(*bound).is_none());
                if self.bound == self.nodes.len() {
                    self.start_by_ns = None;
                }
                self.rules.handle_reached(from, now_ns);
            }
            Frame::Event(event) => self.rules.handle_event(from, event, now_ns),
            Frame::Refused(why, code) => {
                self.refusal.get_or_insert((why, code));
                self.rules.handle_refused(from, now_ns);
            }
            Frame::Part(part) => {
                node.part = Some(*part);
                self.rules.handle_reported(from, now_ns);
            }
            _ => {}
        }
    }

    /// Records that the agent of a node is gone, in this way; its last frames have been handled.
    /// Returns true, once, if it had not sent its last frame, so that the launcher must clean up
    /// in its place.
    pub fn handle_lost(&mut self, number: u32, how: &str, now_ns: u64) -> bool {
        let loss = self.rules.handle_lost(number, now_ns);
        let Some(node) = self.nodes.get(number as usize) else {
            clump_bug::bug!("the launcher numbers the agents");
            return false;
        };
        let pid = node.pid;
        let how = self.rules.cut_off_reason(number).map_or_else(|| how.into(), describe);
        match loss {
            AgentLoss::InOrder => return false,
            AgentLoss::BeforeStart => {
                let why = format!(
                    "the agent of node {number} (pid {pid}) {how} before the job had started"
                );
                self.refusal.get_or_insert((why, 125));
            }
            AgentLoss::Running(ranks) => {
                let host = node.offer.as_ref().map(|offer| offer.host.clone()).unwrap_or_default();
                self.losses.push(NodeLoss { node: number, pid, host, how, ranks });
            }
        }
        true
    }

    /// Ends the job for the user; the second time, at once.
    pub fn handle_interrupt(&mut self, signal: u8, now_ns: u64) {
        self.rules.handle_interrupt(signal, now_ns);
    }

    /// Returns the time for the next call of [`Coordinator::handle_timeout`].
    pub fn next_deadline_ns(&self) -> Option<u64> {
        self.rules.next_deadline_ns().into_iter().chain(self.start_by_ns).min()
    }

    /// Handles deadlines that have passed. What arrived until `read_ns` has been handled;
    /// `is_starved` tells of a node whether its machine is known to keep its agent from running.
    pub fn handle_timeout(&mut self, now_ns: u64, read_ns: u64, is_starved: &dyn Fn(u32) -> bool) {
        self.rules.handle_timeout(now_ns, read_ns, is_starved);
        if self.start_by_ns.is_some_and(|at| at <= now_ns) {
            self.start_by_ns = None;
            self.refuse_late(now_ns);
        }
    }

    /// Records that the launcher was stopped for so long: the limits for the start, and for ranks
    /// that run on, are later.
    pub fn handle_resumed(&mut self, stopped_ns: u64) {
        self.start_by_ns = self.start_by_ns.map(|at| at.saturating_add(stopped_ns));
        self.rules.handle_resumed(stopped_ns);
    }

    /// Ends the job: a node has not got ready in time.
    fn refuse_late(&mut self, now_ns: u64) {
        let mut late = (0..).zip(&self.nodes).filter(|(_, node)| node.bound.is_none());
        let Some((number, node)) = late.next() else { return };
        let host = node.offer.as_ref().map(|offer| offer.host.as_str());
        let machine = self.spec.machines.get(number as usize).map(|one| one.name.as_str());
        let name = host.or(machine).unwrap_or("this machine");
        let why = format!(
            "node {number} ({name}) has not got ready in time: its agent (pid {}) hangs, or is cut off; look whether \
             that machine runs and is reachable (CLUMP_START_TIMEOUT_MS bounds the time)",
            node.pid
        );
        self.refusal.get_or_insert((why, 125));
        self.rules.handle_refused(number, now_ns);
    }

    /// Tells all agents of each other, once all have offered themselves.
    fn introduce(&mut self) {
        debug_assert!(self.offered <= self.nodes.len(), "each node offers itself once");
        if self.offered < self.nodes.len() {
            return;
        }
        let offers: Vec<_> = self.nodes.iter().filter_map(|node| node.offer.clone()).collect();
        let known = || offers.iter().filter(|offer| !offer.program.is_empty());
        let first = known().next();
        let other = first.and_then(|one| known().find(|other| other.program != one.program));
        if let (Some(one), Some(other)) = (first, other) {
            self.effects.push_back(Effect::Notice(format!(
                "`{}` is not the same on all machines: build {} on {}, {} on {}; ranks of different builds may \
                 misunderstand each other (--stage copies this one)",
                self.spec.program_name(),
                one.program,
                one.host,
                other.program,
                other.host
            )));
        }
        self.effects.push_back(Effect::Say(Frame::Probe(offers)));
    }

    /// Returns the nodes whose agents are not lost.
    pub fn listeners(&self) -> impl Iterator<Item = u32> {
        (0..self.spec.nodes).filter(|&node| !self.rules.is_lost(node))
    }

    /// Returns the next action of the launcher.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        if let Some(effect) = self.effects.pop_front() {
            return Some(effect);
        }
        Some(match self.rules.poll_decision()? {
            Decision::Start => Effect::Say(Frame::Go(Box::new(self.table()))),
            Decision::Command(command) => Effect::Say(Frame::Order(command)),
            Decision::Notice(left) => Effect::Notice(lingering(&left)),
            Decision::CutOff(node) => Effect::CutOff(node),
        })
    }

    fn table(&self) -> AddressTable {
        let bound = || self.nodes.iter().filter_map(|node| node.bound.as_ref());
        AddressTable {
            interfaces: bound().flat_map(|bound| bound.interfaces.iter().copied()).collect(),
            ranks: bound().flat_map(|bound| bound.ranks.iter().copied()).collect(),
        }
    }

    /// Composes the outcome. All agents have left.
    pub fn close(&mut self, now_ns: u64) -> JobOutcome {
        Ledger {
            spec: &self.spec,
            watch: self.rules.supervisor(),
            parts: self.nodes.iter_mut().map(|node| node.part.take()).collect(),
            losses: std::mem::take(&mut self.losses),
            refusal: self.refusal.take(),
            started_ns: self.rules.started_ns(),
            ended_ns: self.rules.ended_ns().unwrap_or(now_ns),
        }
        .close()
    }
}

/// Describes why a node was cut off, as follows "its agent".
fn describe(why: &CutOffReason) -> String {
    match why {
        CutOffReason::Silent(reporters) => {
            let reporters: Vec<usize> = reporters.iter().map(|&node| node as usize).collect();
            let s = if reporters.len() == 1 { "" } else { "s" };
            let list = rank_list(&reporters);
            format!("was not heard by node{s} {list} any more: stopped, or cut off")
        }
        CutOffReason::Disobedient => "did not answer when the job was to end".into(),
    }
}

#[cfg(test)]
mod tests;
