//! The decisions of a launcher with several nodes, without sockets or processes.
//!
//! The launcher feeds [`JobCoordinator`] with what its agents report, with lost agents
//! ([`JobCoordinator::handle_lost`]) and with the user's signals
//! ([`JobCoordinator::handle_interrupt`]), wakes it at [`JobCoordinator::next_deadline_ns`]
//! ([`JobCoordinator::handle_timeout`]), and executes [`JobCoordinator::poll_decision`] until it
//! returns nothing more.
//!
//! 1. Ranks start when all nodes are reached: then every address is known.
//! 2. The end of a job is decided here alone, by [`RankSupervisor`], so all nodes hear of the same
//!    deaths in the same order.
//! 3. A node that other nodes do not hear is evicted as the [`MembershipArbiter`] decides, and
//!    then lost.
//! 4. A node whose agent is gone is lost; one that does not obey an order to end within [`END_NS`]
//!    is cut off and then lost.
//! 5. What all nodes are told is one decision, and an agent hears few of them: that ranks have
//!    joined, none; that they have finalized, at intervals ([`MirrorBatch`]); that the ranks of a
//!    node are lost, one.

use crate::death::{OnDeath, RankDeath};
use crate::event::{AgentCommand, Event, RankStatus};
use crate::membership_arbiter::{Eviction, MembershipArbiter};
use crate::mirror_batch::MirrorBatch;
use crate::supervisor::{RankSupervisor, RanksLeft, SupervisorAction};
use std::collections::VecDeque;
use std::ops::Range;

/// Time that an agent has to end its node: it needs 2 s at most to kill what it can.
pub const END_NS: u64 = 4_000_000_000;
/// Part of the node timeout for weighing suspicions: more than two periods of agents, so that both
/// sides of a cut have reported it. Agents suspect after three quarters at most; the rest is for
/// the order to reach all nodes.
pub(crate) const WEIGHING_SHARE: u64 = 6;

/// Something that the launcher has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Send every node that is not lost the addresses of all: its ranks start.
    Start,
    /// Send every node that is not lost this command.
    Command(AgentCommand),
    /// Tell the user.
    Notice(RanksLeft),
    /// End the agent of this node, which cannot be reached or does not respond.
    CutOff(u32),
}

/// Reason why a node was cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CutOffReason {
    /// These nodes did not hear it any more.
    Silent(Vec<u32>),
    /// It did not answer when the job was to end.
    Disobedient,
}

/// Meaning of the end of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentLoss {
    /// None: it had reported its node's part of the outcome, or was lost before.
    InOrder,
    /// The job, which had not started yet, cannot start.
    BeforeStart,
    /// Its node was lost, with these ranks that had not ended.
    Running(Vec<u32>),
}

/// One node as the coordinator sees it.
#[derive(Debug)]
struct CoordinatedNode {
    ranks: Range<u32>,
    /// True once it has bound its sockets.
    reached: bool,
    /// True once it has reported its part of the outcome.
    reported: bool,
    cut_off: Option<CutOffReason>,
    lost: bool,
}

/// The life of a job over several nodes.
#[derive(Debug)]
pub struct JobCoordinator {
    watch: RankSupervisor,
    arbiter: MembershipArbiter,
    nodes: Vec<CoordinatedNode>,
    /// Number of nodes that have bound their sockets.
    reached: usize,
    mirrors: MirrorBatch,
    decisions: VecDeque<Decision>,
    /// True once ranks have been started.
    started: bool,
    refused: bool,
    concluded: bool,
    end_by: Option<u64>,
    started_ns: u64,
    ended_ns: Option<u64>,
}

impl JobCoordinator {
    /// Creates the coordinator of a job with these ranks on its nodes.
    pub fn new(
        ranks_of_nodes: impl IntoIterator<Item = Range<u32>>,
        (on_death, linger_ms): (OnDeath, Option<u64>),
        node_timeout_ns: u64,
        now_ns: u64,
    ) -> Self {
        let node = |ranks| CoordinatedNode {
            ranks,
            reached: false,
            reported: false,
            cut_off: None,
            lost: false,
        };
        let nodes: Vec<CoordinatedNode> = ranks_of_nodes.into_iter().map(node).collect();
        let ranks = nodes.iter().map(|node| node.ranks.end).max().unwrap_or(0);
        debug_assert!(
            nodes.windows(2).all(|pair| pair[0].ranks.end == pair[1].ranks.start),
            "every rank is on one node"
        );
        Self {
            watch: RankSupervisor::new(ranks, on_death, linger_ms),
            arbiter: MembershipArbiter::new(node_timeout_ns / WEIGHING_SHARE),
            mirrors: MirrorBatch::new(ranks, nodes.len()),
            nodes,
            reached: 0,
            decisions: VecDeque::new(),
            started: false,
            refused: false,
            concluded: false,
            end_by: None,
            started_ns: now_ns,
            ended_ns: None,
        }
    }

    /// Records that a node has bound its sockets. When all have, ranks start.
    pub fn handle_reached(&mut self, number: u32, now_ns: u64) {
        let Some(node) = self.present(number) else { return };
        debug_assert!(
            node.cut_off.is_none() || !node.reported,
            "a node that has reported is not cut off"
        );
        let new = !std::mem::replace(&mut node.reached, true);
        self.reached += usize::from(new);
        if self.reached == self.nodes.len() && !self.started && !self.concluded {
            self.started = true;
            self.started_ns = now_ns;
            debug_assert!(!self.refused, "a refused job is concluded");
            self.decisions.push_back(Decision::Start);
        }
        self.act(now_ns);
    }

    /// Handles an event of a node.
    pub fn handle_event(&mut self, from: u32, event: Event, now_ns: u64) {
        let Some(node) = self.present(from) else { return };
        // What happens to a rank is reported by its own node.
        if event.rank().is_some_and(|rank| !node.ranks.contains(&rank)) {
            return;
        }
        match event {
            // An agent that is killing everything may well be silent.
            Event::Silent(node) if self.is_member(node) && !self.is_ending() => {
                self.arbiter.handle_silent(from, node, now_ns);
            }
            Event::Heard(node) => self.arbiter.handle_heard(from, node),
            _ => {}
        }
        debug_assert!(!self.is_lost(from), "the lost report nothing");
        self.watch.handle(event, now_ns);
        match event {
            Event::Finalized(rank, barrier)
            | Event::Ended { rank, standing: RankStatus::Finalized(barrier), .. } => {
                self.mirrors.handle_finalized(rank, barrier);
            }
            _ => {}
        }
        self.act(now_ns);
    }

    /// Records that the job cannot be started, or must not go on: a node says why.
    pub fn handle_refused(&mut self, from: u32, now_ns: u64) {
        if self.present(from).is_some() {
            self.refused = true;
            self.conclude(now_ns);
            self.act(now_ns);
            debug_assert!(self.concluded && self.next_deadline_ns().is_some());
        }
    }

    /// Records that a node has reported its part of the outcome.
    pub fn handle_reported(&mut self, from: u32, now_ns: u64) {
        if let Some(node) = self.present(from) {
            node.reported = true;
            self.act(now_ns);
        }
    }

    /// Records that the agent of a node is gone; what it sent last has been handled.
    pub fn handle_lost(&mut self, number: u32, now_ns: u64) -> AgentLoss {
        let Some(node) = self.present(number) else { return AgentLoss::InOrder };
        node.lost = true;
        let (reported, here) = (node.reported, node.ranks.clone());
        self.arbiter.handle_gone(number);
        if reported {
            return AgentLoss::InOrder;
        }
        if !self.started && !self.refused {
            self.refused = true;
            self.conclude(now_ns);
            self.act(now_ns);
            return AgentLoss::BeforeStart;
        }
        let runs = |rank: &u32| self.watch.end_of(*rank).end.is_none();
        let lost: Vec<u32> = here.clone().filter(runs).collect();
        self.watch.handle_node_lost(here.clone(), now_ns);
        self.act(now_ns);
        debug_assert!(here.clone().all(|rank| self.watch.end_of(rank).end.is_some()), "rule 4");
        debug_assert!(self.is_lost(number) && lost.len() <= here.len());
        AgentLoss::Running(lost)
    }

    /// Records that the user had suspended the job for so long: see
    /// [`RankSupervisor::handle_resumed`].
    pub fn handle_resumed(&mut self, suspended_ns: u64) {
        let before = self.watch.next_deadline_ns();
        self.watch.handle_resumed(suspended_ns);
        debug_assert!(self.watch.next_deadline_ns() >= before, "no deadline is nearer than it was");
    }

    /// Ends the job for the user; the second time, at once.
    pub fn handle_interrupt(&mut self, signal: u8, now_ns: u64) {
        self.watch.handle_interrupt(signal, now_ns);
        self.act(now_ns);
    }

    /// Returns the time for the next call of [`JobCoordinator::handle_timeout`].
    pub fn next_deadline_ns(&self) -> Option<u64> {
        let rules = [self.watch.next_deadline_ns(), self.arbiter.next_deadline_ns()];
        let times = rules.into_iter().chain([self.mirrors.next_deadline_ns(), self.end_by]);
        times.flatten().min()
    }

    /// Handles deadlines that have passed. What arrived until `read_ns` has been handled;
    /// `is_starved` tells of a node whether its machine is known to keep its agent from running.
    pub fn handle_timeout(&mut self, now_ns: u64, read_ns: u64, is_starved: &dyn Fn(u32) -> bool) {
        debug_assert!(read_ns <= now_ns, "nothing is read before it arrives");
        self.watch.handle_timeout(now_ns);
        self.act(now_ns);
        for Eviction { node, reporters } in self.arbiter.handle_timeout(read_ns, is_starved) {
            self.cut_off(node, CutOffReason::Silent(reporters));
        }
        debug_assert!(self.arbiter.next_deadline_ns().is_none_or(|at| at > read_ns), "5: decided");
        if self.end_by.is_some_and(|at| at <= now_ns) {
            debug_assert!(self.is_ending(), "only an end has this deadline");
            self.end_by = None;
            for node in 0..self.nodes.len() as u32 {
                self.cut_off(node, CutOffReason::Disobedient);
            }
        }
        self.check_invariants();
    }

    /// Returns the launcher's next task.
    pub fn poll_decision(&mut self) -> Option<Decision> {
        self.decisions.pop_front()
    }

    /// Returns the rules of dying, for what they know at the end.
    pub fn supervisor(&self) -> &RankSupervisor {
        &self.watch
    }

    /// Returns true if this node is lost, or none of the job.
    pub fn is_lost(&self, number: u32) -> bool {
        self.nodes.get(number as usize).is_none_or(|node| node.lost)
    }

    /// Returns the reason why a node was cut off, if it was.
    pub fn cut_off_reason(&self, number: u32) -> Option<&CutOffReason> {
        self.nodes.get(number as usize)?.cut_off.as_ref()
    }

    /// Returns the time when ranks started, in ns.
    pub fn started_ns(&self) -> u64 {
        self.started_ns
    }

    /// Returns the time when the job was over, in ns.
    pub fn ended_ns(&self) -> Option<u64> {
        self.ended_ns
    }

    /// Asserts what always holds; numbers are the crate's invariants.
    pub fn check_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        self.watch.check_invariants();
        self.arbiter.check_invariants();
        debug_assert_eq!(self.concluded, self.ended_ns.is_some(), "3: an end has a time");
        debug_assert!(!self.watch.is_finished() || self.concluded, "4: all ends are told");
        debug_assert!(self.reached <= self.nodes.len(), "a node is reached once");
        debug_assert!(
            self.arbiter.concerned().all(|node| !self.is_lost(node)),
            "6: the lost neither suspect nor are suspected"
        );
    }

    fn is_ending(&self) -> bool {
        self.watch.is_killing() || self.concluded
    }

    /// Returns true for a node that can still be suspected.
    fn is_member(&self, number: u32) -> bool {
        let node = self.nodes.get(number as usize);
        node.is_some_and(|node| !node.lost && node.cut_off.is_none())
    }

    /// Returns a node that is not lost: late frames of a lost one are dropped.
    fn present(&mut self, number: u32) -> Option<&mut CoordinatedNode> {
        debug_assert!((number as usize) < self.nodes.len(), "the launcher numbers the nodes");
        self.nodes.get_mut(number as usize).filter(|node| !node.lost)
    }

    /// Cuts a node off, unless it has ended.
    fn cut_off(&mut self, number: u32, why: CutOffReason) {
        let Some(node) = self.present(number) else { return };
        if !node.reported && node.cut_off.is_none() {
            node.cut_off = Some(why);
            debug_assert!(!self.is_member(number), "it is suspected no more");
            self.decisions.push_back(Decision::CutOff(number));
        }
    }

    /// Executes the supervisor's decisions.
    fn act(&mut self, now_ns: u64) {
        while let Some(action) = self.watch.poll_action() {
            match action {
                SupervisorAction::Declare(death) => self.declare(death),
                SupervisorAction::Signal(signal) => self.command(AgentCommand::Signal(signal)),
                SupervisorAction::Kill => {
                    self.command(AgentCommand::Kill);
                    self.end_by.get_or_insert(now_ns + END_NS);
                    if !self.started {
                        self.conclude(now_ns); // no rank will be started, so none will end
                    }
                }
                SupervisorAction::Notice(left) => {
                    self.decisions.push_back(Decision::Notice(left));
                }
                SupervisorAction::Finished => self.conclude(now_ns),
            }
        }
        if let Some(ends) = self.mirrors.poll_due(now_ns) {
            self.decisions.push_back(Decision::Command(AgentCommand::Mirror(ends)));
        }
        self.check_invariants();
    }

    fn conclude(&mut self, now_ns: u64) {
        if !self.concluded {
            debug_assert!(self.started_ns <= now_ns, "time runs forward");
            self.concluded = true;
            self.ended_ns = Some(now_ns);
            self.end_by.get_or_insert(now_ns + END_NS);
            self.command(AgentCommand::Conclude);
        }
    }

    /// Declares a death, with the one before it if they are of one kind and follow each other: as
    /// those of a lost node do.
    fn declare(&mut self, death: RankDeath) {
        if let Some(Decision::Command(AgentCommand::Declare(ranks, manner))) =
            self.decisions.back_mut()
            && *manner == death.manner
        {
            match ranks.last_mut() {
                Some(last) if last.end == death.rank => last.end += 1,
                _ => ranks.push(death.ranks()),
            }
            return;
        }
        self.command(death.into());
    }

    /// Gives all nodes a command, after all that happened before it.
    fn command(&mut self, command: AgentCommand) {
        debug_assert!(!matches!(command, AgentCommand::Mirror(_)), "mirrors go before it");
        let before = self.mirrors.poll_all().map(AgentCommand::Mirror);
        let commands = before.into_iter().chain([command]);
        self.decisions.extend(commands.map(Decision::Command));
    }
}
