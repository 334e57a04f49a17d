//! A model of agents and their launcher: heartbeats over links that lose, delay and are cut, and
//! reliable control streams. It has no rules of its own: it runs those of the crate.

use clump_control::{
    AgentCommand, AgentLoss, Decision, DetectorAction, Event, FailureDetector, Heartbeat,
    JobCoordinator, OnDeath, ProcessEnd, RankStatus,
};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

pub const MS: u64 = 1_000_000;
/// Time without a sign after which a node counts as lost.
pub const TIMEOUT: u64 = 2_000 * MS;
/// Longest delay of a datagram that is not late, and of a frame on a control stream.
const DELAY: u64 = 5 * MS;
/// Time that the launcher takes to send a command to one agent of many.
const SEND: u64 = 20_000;

/// A sequence of numbers that look random, repeatable by its seed.
pub struct Sequence(SplitMix64);

impl Sequence {
    /// Returns the sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    /// Returns a number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0.next_u64() % limit
    }
}

/// A fault, from the time at which it happens.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    /// The agent of this node is stopped: it neither sends nor receives.
    Stop(u32),
    /// It is stopped, and the launcher knows that the machine keeps it from running.
    Starve(u32),
    /// It goes on.
    Continue(u32),
    /// The launcher is stopped.
    StopLauncher,
    /// It goes on.
    ContinueLauncher,
    /// The agent of this node is killed; its stream ends.
    Kill(u32),
    /// Nothing passes from the first of these nodes to the second.
    Cut(u32, u32),
    /// It does again.
    Mend(u32, u32),
    /// This rank is killed.
    RankDies(u32),
    /// This rank ends as it should.
    RankEnds(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Wake(u32),
    Heartbeat { from: u32, to: u32, probe: Heartbeat },
    Report(u32, EventKey),
    Part(u32),
    Gone(u32),
    Command(u32, usize),
    Fault(usize),
    Launcher,
}

/// An event by number, since events have no order.
type EventKey = usize;

struct Agent {
    detector: FailureDetector,
    started: bool,
    stopped: bool,
    starved: bool,
    alive: bool,
    concluded: bool,
    /// Messages that arrived while it was stopped, or before it had started.
    unread: Vec<(u32, Heartbeat)>,
    /// Commands that reached it, by number, and when.
    commands: Vec<(u64, usize)>,
    /// Datagrams that it has sent.
    sent: u64,
}

/// Agents of a job over several nodes with two ranks each, and their launcher.
pub struct Cluster {
    pub rules: JobCoordinator,
    now: u64,
    nodes: u32,
    agents: Vec<Agent>,
    steps: BinaryHeap<Reverse<(u64, u64, Step)>>,
    serial: u64,
    launcher_due: Option<u64>,
    /// Time until which the launcher sends commands.
    sent_until: u64,
    /// Steps that wait for the launcher while it is stopped, and since when it is.
    held: Option<(u64, Vec<Step>)>,
    events: Vec<Event>,
    commands: Vec<AgentCommand>,
    cut: BTreeSet<(u32, u32)>,
    faults: Vec<Fault>,
    random: Sequence,
    /// Delay of every path, beside what is random.
    pub path_ns: u64,
    /// Datagrams of 1,000 that are lost; of others a tenth comes twice, and a tenth late.
    loss: u64,
    /// Datagrams that agents have sent.
    pub sent: u64,
    /// Nodes that were cut off, and when.
    pub evicted: Vec<(u32, u64)>,
}

impl Cluster {
    pub fn new(nodes: u32, on_death: OnDeath, loss: u64, seed: u64) -> Self {
        let ranks = (0..nodes).map(|node| 2 * node..2 * node + 2);
        let mut cluster = Self {
            rules: JobCoordinator::new(ranks, (on_death, None), TIMEOUT, 0),
            now: 0,
            nodes,
            agents: Vec::new(),
            steps: BinaryHeap::new(),
            serial: 0,
            launcher_due: None,
            sent_until: 0,
            held: None,
            events: Vec::new(),
            commands: Vec::new(),
            cut: BTreeSet::new(),
            faults: Vec::new(),
            random: Sequence::new(seed),
            path_ns: 0,
            loss,
            sent: 0,
            evicted: Vec::new(),
        };
        for node in 0..nodes {
            let start = cluster.random.below(100) * MS;
            cluster.agents.push(Agent {
                detector: FailureDetector::new((node, nodes), TIMEOUT * 3 / 4, seed, start),
                started: false,
                stopped: false,
                starved: false,
                alive: true,
                concluded: false,
                unread: Vec::new(),
                commands: Vec::new(),
                sent: 0,
            });
            cluster.rules.handle_reached(node, 0);
            cluster.at(start, Step::Wake(node));
        }
        for rank in 0..2 * nodes {
            cluster.report(rank / 2, Event::Joined(rank));
        }
        cluster.at(0, Step::Launcher);
        cluster
    }

    /// Plans a fault.
    pub fn plan(&mut self, at_ns: u64, fault: Fault) {
        self.faults.push(fault);
        self.at(at_ns, Step::Fault(self.faults.len() - 1));
    }

    fn at(&mut self, at_ns: u64, step: Step) {
        self.serial += 1;
        self.steps.push(Reverse((at_ns.max(self.now), self.serial, step)));
    }

    fn report(&mut self, node: u32, event: Event) {
        self.events.push(event);
        let (at, key) = (self.now + DELAY + self.path_ns, self.events.len() - 1);
        self.at(at, Step::Report(node, key));
    }

    /// Runs until `until_ns`.
    pub fn run(&mut self, until_ns: u64) {
        while let Some(Reverse((at, _, _))) = self.steps.peek()
            && *at <= until_ns
        {
            let Some(Reverse((at, _, step))) = self.steps.pop() else { return };
            assert!(at >= self.now, "time runs forward");
            self.now = at;
            self.step(step);
            self.launcher();
        }
    }

    fn step(&mut self, step: Step) {
        let of_launcher =
            matches!(step, Step::Report(..) | Step::Part(_) | Step::Gone(_) | Step::Launcher);
        if let Some((_, held)) = self.held.as_mut().filter(|_| of_launcher) {
            held.push(step);
            return;
        }
        match step {
            Step::Wake(node) => self.wake(node),
            Step::Heartbeat { from, to, probe } => {
                let agent = &mut self.agents[to as usize];
                if self.cut.contains(&(from, to)) || !agent.alive {
                } else if agent.stopped || !agent.started {
                    agent.unread.push((from, probe));
                } else {
                    agent.detector.handle_probe(from, probe, self.now);
                    self.execute(to);
                }
            }
            Step::Report(node, key) => {
                self.rules.handle_event(node, self.events[key], self.now);
            }
            Step::Part(node) => self.rules.handle_reported(node, self.now),
            Step::Command(node, number) => self.obey(node, number),
            Step::Gone(node) => {
                let loss = self.rules.handle_lost(node, self.now);
                let concluded = self.agents[node as usize].concluded;
                assert_eq!(loss == AgentLoss::InOrder, concluded, "{loss:?}");
            }
            Step::Fault(number) => self.fault(self.faults[number]),
            Step::Launcher => self.look(self.now),
        }
    }

    /// Lets the launcher look at its deadlines when it has read what arrived until `read_ns`.
    fn look(&mut self, read_ns: u64) {
        self.launcher_due = None;
        let agents = &self.agents;
        self.rules.handle_timeout(self.now, read_ns, &|node| agents[node as usize].starved);
    }

    fn wake(&mut self, node: u32) {
        let now = self.now;
        let agent = &mut self.agents[node as usize];
        if !agent.alive || agent.stopped {
            return;
        }
        agent.started = true;
        // An agent reads its sockets before it looks which peers are silent.
        for (from, probe) in std::mem::take(&mut agent.unread) {
            agent.detector.handle_probe(from, probe, now);
        }
        agent.detector.handle_timeout(now);
        agent.detector.check_invariants();
        let next = agent.detector.next_deadline_ns();
        self.execute(node);
        let late = self.random.below(10) * MS;
        self.at(next + late, Step::Wake(node));
    }

    /// Executes what the detector of a node wants.
    fn execute(&mut self, node: u32) {
        while let Some(action) = self.agents[node as usize].detector.poll_action() {
            match action {
                DetectorAction::Send(to, probe) => self.send(node, to, probe),
                DetectorAction::Silent(other) => self.report(node, Event::Silent(other)),
                DetectorAction::Heard(other) => self.report(node, Event::Heard(other)),
            }
        }
    }

    fn send(&mut self, from: u32, to: u32, probe: Heartbeat) {
        self.sent += 1;
        self.agents[from as usize].sent += 1;
        let copies = if self.random.below(10) == 0 { 2 } else { 1 };
        for _ in 0..copies {
            if self.random.below(1000) >= self.loss {
                let late = if self.random.below(10) == 0 { 20 } else { 1 };
                let delay = self.path_ns + 1 + self.random.below(late * DELAY);
                self.at(self.now + delay, Step::Heartbeat { from, to, probe });
            }
        }
    }

    fn fault(&mut self, fault: Fault) {
        match fault {
            Fault::Stop(node) => self.agents[node as usize].stopped = true,
            Fault::Starve(node) => {
                let agent = &mut self.agents[node as usize];
                (agent.stopped, agent.starved) = (true, true);
            }
            Fault::Continue(node) => {
                let agent = &mut self.agents[node as usize];
                (agent.stopped, agent.starved) = (false, false);
                self.at(self.now, Step::Wake(node));
            }
            Fault::StopLauncher => self.held = Some((self.now, Vec::new())),
            Fault::ContinueLauncher => {
                let (since, held) = self.held.take().unwrap_or((self.now, Vec::new()));
                // It was stopped after it had read, and before it looked at its clock.
                self.look(since);
                let unread = held.into_iter().filter(|step| *step != Step::Launcher);
                unread.for_each(|step| self.at(self.now, step));
            }
            Fault::Kill(node) => self.kill(node),
            Fault::Cut(from, to) => drop(self.cut.insert((from, to))),
            Fault::Mend(from, to) => drop(self.cut.remove(&(from, to))),
            Fault::RankDies(rank) => {
                let (end, standing) = (ProcessEnd::Signal(9), RankStatus::Joined);
                self.report(rank / 2, Event::Ended { rank, end, standing });
            }
            Fault::RankEnds(rank) => {
                let (end, standing) = (ProcessEnd::Exit(0), RankStatus::Finalized(1));
                self.report(rank / 2, Event::Ended { rank, end, standing });
            }
        }
    }

    fn kill(&mut self, node: u32) {
        if std::mem::replace(&mut self.agents[node as usize].alive, false) {
            self.at(self.now + DELAY + self.path_ns, Step::Gone(node));
        }
    }

    fn launcher(&mut self) {
        if self.held.is_some() {
            return;
        }
        while let Some(decision) = self.rules.poll_decision() {
            match decision {
                Decision::Start | Decision::Notice(_) => {}
                Decision::CutOff(node) => {
                    self.evicted.push((node, self.now));
                    self.kill(node);
                }
                Decision::Command(command) => {
                    self.commands.push(command);
                    let number = self.commands.len() - 1;
                    // One after another, behind those of the command before: none overtakes.
                    self.sent_until = self.sent_until.max(self.now + DELAY + self.path_ns);
                    for node in 0..self.nodes {
                        if !self.rules.is_lost(node) {
                            self.sent_until += SEND;
                            self.at(self.sent_until, Step::Command(node, number));
                        }
                    }
                }
            }
        }
        self.rules.check_invariants();
        let due = self.rules.next_deadline_ns();
        if let Some(at) = due.filter(|_| due != self.launcher_due) {
            self.at(at, Step::Launcher);
        }
        self.launcher_due = due;
    }

    fn obey(&mut self, node: u32, number: usize) {
        let agent = &mut self.agents[node as usize];
        agent.commands.push((self.now, number));
        if agent.stopped || !agent.alive {
            return;
        }
        match self.commands[number] {
            AgentCommand::Kill => {
                for rank in [2 * node, 2 * node + 1] {
                    let (end, standing) = (ProcessEnd::Signal(9), RankStatus::Joined);
                    self.report(node, Event::Ended { rank, end, standing });
                }
            }
            AgentCommand::Conclude => {
                agent.concluded = true;
                self.at(self.now + DELAY + self.path_ns, Step::Part(node));
                self.kill(node);
            }
            _ => {}
        }
    }

    /// Returns the deaths that a node received, in order.
    pub fn deaths_told(&self, node: u32) -> Vec<u32> {
        let told = self.agents[node as usize].commands.iter();
        told.flat_map(|&(_, number)| match &self.commands[number] {
            AgentCommand::Declare(ranks, _) => ranks.clone(),
            _ => Vec::new(),
        })
        .flatten()
        .collect()
    }

    /// Returns the time when the last member received the death of a rank, if all did.
    pub fn known_everywhere(&self, rank: u32) -> Option<u64> {
        let tells = |number: usize| match &self.commands[number] {
            AgentCommand::Declare(ranks, _) => ranks.iter().any(|ranks| ranks.contains(&rank)),
            _ => false,
        };
        let told = |node: u32| {
            let mut all = self.agents[node as usize].commands.iter();
            all.find(|(_, number)| tells(*number)).map(|(at, _)| *at)
        };
        self.members().into_iter().map(told).collect::<Option<Vec<u64>>>()?.into_iter().max()
    }

    /// Returns the datagrams that each agent has sent.
    pub fn sent_by(&self) -> Vec<u64> {
        self.agents.iter().map(|agent| agent.sent).collect()
    }

    /// Returns the nodes that are neither lost nor cut off.
    pub fn members(&self) -> Vec<u32> {
        (0..self.nodes).filter(|&node| self.agents[node as usize].alive).collect()
    }
}
