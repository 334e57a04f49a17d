//! Decides about a job over several nodes: frames of agents, losses and times in, frames for
//! agents out. No processes, no sockets.
//!
//! The launcher feeds [`Coordinator`] with frames of agents ([`Coordinator::handle_frame`]), with
//! lost agents ([`Coordinator::on_lost`]) and with the user's signals
//! ([`Coordinator::on_interrupt`]), wakes it at [`Coordinator::next_deadline_ns`]
//! ([`Coordinator::handle_timeout`]), and executes [`Coordinator::poll_effect`] until it returns
//! nothing more. When all agents have left, [`Coordinator::close`] gives the outcome.
//!
//! 1. Ranks start when all nodes are reached: then every address is known.
//! 2. The end of a job is decided here alone, by [`RankSupervisor`], so all nodes hear of the same
//!    deaths in the same order.
//! 3. A node that other nodes do not hear is evicted as the [`MembershipArbiter`] decides, and
//!    then lost.
//! 4. A node whose agent is gone is lost; one that does not obey an order to end within [`END_NS`]
//!    is cut off and then lost.

use crate::event::{AgentCommand, Event, RankStatus};
use crate::frame::Frame;
use crate::ledger::{Ledger, NodeLoss};
use crate::membership_arbiter::{Eviction, MembershipArbiter};
use crate::outcome::{JobOutcome, NodeOutcome};
use crate::report::rank_list;
use crate::spec::{AddressTable, BoundAddresses, JobSpec};
use crate::supervisor::{RankSupervisor, SupervisorAction};
use std::collections::VecDeque;

/// Time that an agent has to end its node: it needs 2 s at most to kill what it can.
pub const END_NS: u64 = 4_000_000_000;

/// An action of the launcher.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Send this frame to the agent of this node.
    Say(u32, Frame),
    /// Tell the user.
    Notice(String),
    /// End the agent of this node, which cannot be reached or does not respond.
    CutOff(u32),
}

#[derive(Debug, Default)]
struct Node {
    bound: Option<BoundAddresses>,
    part: Option<NodeOutcome>,
    pid: u32,
    /// Reason for cutting it off, if it was.
    cut_off: Option<String>,
    lost: bool,
}

/// The life of a job over several nodes.
#[derive(Debug)]
pub struct Coordinator {
    spec: JobSpec,
    watch: RankSupervisor,
    arbiter: MembershipArbiter,
    nodes: Vec<Node>,
    losses: Vec<NodeLoss>,
    refusal: Option<(String, u8)>,
    effects: VecDeque<Effect>,
    /// True once ranks have been started.
    gone: bool,
    concluded: bool,
    end_by: Option<u64>,
    started_ns: u64,
    ended_ns: u64,
}

impl Coordinator {
    /// Creates the coordinator of the job `spec`, whose agents are these processes.
    pub fn new(spec: &JobSpec, agents: &[u32], node_timeout_ms: u64, now_ns: u64) -> Self {
        let node = |&pid| Node { pid, ..Node::default() };
        Self {
            spec: spec.clone(),
            watch: RankSupervisor::new(spec.ranks, spec.on_death, spec.linger_ms),
            // An eighth of the timeout: agents suspect after three quarters, and check twelve
            // times in that.
            arbiter: MembershipArbiter::new(node_timeout_ms * 1_000_000 / 8),
            nodes: agents.iter().map(node).collect(),
            losses: Vec::new(),
            refusal: None,
            effects: VecDeque::new(),
            gone: false,
            concluded: false,
            end_by: None,
            started_ns: now_ns,
            ended_ns: now_ns,
        }
    }

    /// Handles a frame of an agent.
    pub fn handle_frame(&mut self, from: u32, frame: Frame, now_ns: u64) {
        let Some(node) = self.nodes.get_mut(from as usize).filter(|node| !node.lost) else {
            return;
        };
        match frame {
            Frame::Bound(bound) => {
                node.bound = Some(*bound);
                self.go(now_ns);
            }
            Frame::Event(event) => self.on_event(from, event, now_ns),
            Frame::Refused(why, code) => {
                self.refusal.get_or_insert((why, code));
                self.conclude(now_ns);
            }
            Frame::Part(part) => node.part = Some(*part),
            _ => {}
        }
        self.act(now_ns);
    }

    fn go(&mut self, now_ns: u64) {
        if self.gone || self.concluded || self.nodes.iter().any(|node| node.bound.is_none()) {
            return;
        }
        self.gone = true;
        self.started_ns = now_ns;
        let bound = || self.nodes.iter().filter_map(|node| node.bound.as_ref());
        let agents = bound().map(|bound| bound.agent).collect();
        let interfaces = bound().flat_map(|bound| bound.interfaces.iter().copied()).collect();
        let ranks = bound().flat_map(|bound| bound.ranks.iter().copied()).collect();
        self.say_all(&Frame::Go(Box::new(AddressTable { agents, interfaces, ranks })));
    }

    fn on_event(&mut self, from: u32, event: Event, now_ns: u64) {
        if let Event::Joined(rank)
        | Event::Leaving(rank)
        | Event::Finalized(rank, _)
        | Event::Replaced(rank)
        | Event::Ended { rank, .. } = event
            && !self.spec.ranks_of(from).contains(&rank)
        {
            return; // only the launcher sends these
        }
        match event {
            // An agent that is killing everything may well be silent.
            Event::Silent(node) if !self.watch.is_killing() && !self.concluded => {
                self.arbiter.on_silent(from, node, now_ns);
            }
            Event::Heard(node) => self.arbiter.on_heard(from, node),
            _ => {}
        }
        self.watch.handle(event, now_ns);
        let (rank, standing) = match event {
            Event::Joined(rank) => (rank, RankStatus::Joined),
            Event::Finalized(rank, barrier) => (rank, RankStatus::Finalized(barrier)),
            Event::Ended { rank, standing: standing @ RankStatus::Finalized(_), .. } => {
                (rank, standing)
            }
            _ => return,
        };
        for node in (0..self.spec.nodes).filter(|&node| node != from) {
            self.say(node, Frame::Order(AgentCommand::Mirror(rank, standing)));
        }
    }

    /// Records that the agent of a node is gone, in this way; its last frames have been handled.
    /// Returns true, once, if it had not sent its last frame, so that the launcher must clean up
    /// in its place.
    pub fn on_lost(&mut self, number: u32, how: &str, now_ns: u64) -> bool {
        let Some(node) = self.nodes.get_mut(number as usize).filter(|node| !node.lost) else {
            return false;
        };
        node.lost = true;
        self.arbiter.on_gone(number);
        if node.part.is_some() {
            return false;
        }
        let how = node.cut_off.clone().unwrap_or_else(|| how.into());
        let host = node.bound.as_ref().map(|bound| bound.host.clone()).unwrap_or_default();
        let pid = node.pid;
        if !self.gone && self.refusal.is_none() {
            let why =
                format!("the agent of node {number} (pid {pid}) {how} before the job had started");
            self.refusal = Some((why, 125));
            self.conclude(now_ns);
            return true;
        }
        let here = self.spec.ranks_of(number);
        let running = |rank: &u32| self.watch.end_of(*rank).0.is_none();
        let ranks = here.clone().filter(running).collect();
        self.losses.push(NodeLoss { node: number, pid, host, how, ranks });
        self.watch.on_node_lost(here, now_ns);
        self.act(now_ns);
        true
    }

    /// Ends the job for the user; the second time, at once.
    pub fn on_interrupt(&mut self, signal: u8, now_ns: u64) {
        self.watch.on_interrupt(signal, now_ns);
        self.act(now_ns);
    }

    /// Returns the time for the next call of [`Coordinator::handle_timeout`].
    pub fn next_deadline_ns(&self) -> Option<u64> {
        let times = [self.watch.next_deadline_ns(), self.arbiter.next_deadline_ns(), self.end_by];
        times.into_iter().flatten().min()
    }

    /// Handles deadlines that have passed.
    pub fn handle_timeout(&mut self, now_ns: u64) {
        self.watch.handle_timeout(now_ns);
        self.act(now_ns);
        for Eviction { node, reporters } in self.arbiter.handle_timeout(now_ns) {
            let reporters: Vec<usize> = reporters.into_iter().map(|node| node as usize).collect();
            let (list, s) = (rank_list(&reporters), if reporters.len() == 1 { "" } else { "s" });
            let why = format!("was not heard by node{s} {list} any more: stopped, or cut off");
            self.cut_off(node, &why);
        }
        if self.end_by.is_some_and(|at| at <= now_ns) {
            self.end_by = None;
            for number in 0..self.spec.nodes {
                self.cut_off(number, "did not answer when the job was to end");
            }
        }
    }

    /// Cuts a node off, unless it has ended.
    fn cut_off(&mut self, number: u32, why: &str) {
        let Some(node) = self.nodes.get_mut(number as usize) else { return };
        if !node.lost && node.part.is_none() && node.cut_off.is_none() {
            node.cut_off = Some(why.into());
            self.effects.push_back(Effect::CutOff(number));
        }
    }

    /// Returns the next action of the launcher.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Composes the outcome. All agents have left.
    pub fn close(&mut self, now_ns: u64) -> JobOutcome {
        let ended_ns = if self.concluded { self.ended_ns } else { now_ns };
        Ledger {
            spec: &self.spec,
            watch: &self.watch,
            parts: self.nodes.iter_mut().map(|node| node.part.take()).collect(),
            losses: std::mem::take(&mut self.losses),
            refusal: self.refusal.take(),
            started_ns: self.started_ns,
            ended_ns,
        }
        .close()
    }

    /// Executes the supervisor's decisions.
    fn act(&mut self, now_ns: u64) {
        while let Some(action) = self.watch.poll_action() {
            match action {
                SupervisorAction::Declare(death) => self.say_all(&Frame::Order(death.into())),
                SupervisorAction::Signal(signal) => {
                    self.say_all(&Frame::Order(AgentCommand::Signal(signal)));
                }
                SupervisorAction::Kill => {
                    self.say_all(&Frame::Order(AgentCommand::Kill));
                    self.end_by.get_or_insert(now_ns + END_NS);
                    if !self.gone {
                        self.conclude(now_ns); // no rank will be started, so none will end
                    }
                }
                SupervisorAction::Notice(text) => self.effects.push_back(Effect::Notice(text)),
                SupervisorAction::Finished => self.conclude(now_ns),
            }
        }
    }

    fn conclude(&mut self, now_ns: u64) {
        if !self.concluded {
            self.concluded = true;
            self.ended_ns = now_ns;
            self.end_by.get_or_insert(now_ns + END_NS);
            self.say_all(&Frame::Order(AgentCommand::Conclude));
        }
    }

    fn say_all(&mut self, frame: &Frame) {
        for node in 0..self.spec.nodes {
            self.say(node, frame.clone());
        }
    }

    fn say(&mut self, number: u32, frame: Frame) {
        if self.nodes.get(number as usize).is_some_and(|node| !node.lost) {
            self.effects.push_back(Effect::Say(number, frame));
        }
    }
}

#[cfg(test)]
mod tests;
