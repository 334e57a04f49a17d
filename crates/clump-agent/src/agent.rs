//! The agent: one event loop over the ends of its ranks, their output, and the launcher.
//!
//! It observes what happens on its node ([`Event`]) and executes commands ([`AgentCommand`]). On a
//! job of one node its own [`RankSupervisor`] decides on them, on a job of several nodes the
//! launcher's. If the launcher is lost, every agent ends its ranks by itself ([`decide`]).

mod adopting;
mod begin;
mod close;
mod decide;
mod launcher_stream;
mod opening;
mod reaching;
mod token;

use crate::adoption::Adoption;
use crate::frame::{Assembler, Frame, Stream};
use crate::heartbeat_socket::HeartbeatSocket;
use crate::keeper;
use crate::metrics_server::MetricsServer;
use crate::narrow::Narrow;
use crate::net::NodeNetwork;
use crate::outcome::RankActivity;
use crate::output::Outputs;
use crate::overflow::Overflow;
use crate::rank::{Rank, RankEnvironment};
use crate::rank_input::RankInput;
use crate::rank_state;
use crate::receiving::Receiving;
use crate::refusal::Refusal;
use crate::relay;
use crate::silence::UnresponsivePeers;
use crate::spec::{AddressTable, AgentOffer, JobSpec};
use crate::stream_watch::StreamWatch;
use crate::waits::JobWaits;
use clump_boot::boot::{self, BootSocketEvent};
use clump_control::{Event, ProcessEnd, RankStatus, RankSupervisor};
use clump_interface::NetworkInterface;
use clump_os::epoll::{Interest, Poller};
use clump_os::oom::OomCounters;
use clump_os::process::{ChildEvent, ChildEvents, Exit};
use clump_os::procfs::{self, Process};
use clump_os::signal::{self, Signals};
use clump_os::writer::say_within;
use clump_os::{clock, process};
use clump_shm::node::MEMORY_LABEL;
use clump_shm::rank::RankState;
use opening::{AgentSetup, OpenedNode};
use std::os::fd::RawFd;
use std::time::Duration;

/// Interval between searches for processes to kill while killing: the end of a grandchild sends no
/// signal to this process.
const SWEEP_EVERY: Duration = Duration::from_millis(2);
/// Longest time of trying to kill.
const SWEEP_NS: u64 = 2_000_000_000;
/// Longest time that an agent tries to say why it ends: the launcher does not wait for that.
const LAST_WORD: Duration = Duration::from_millis(200);

/// Place where an agent was started, and with it its streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentPlace {
    /// By the launcher itself, with its stream under this descriptor.
    Here(RawFd),
    /// By a remote shell, with standard input and output as streams: below a keeper of its own. If
    /// `staged`, the folder of this program goes with the job.
    Elsewhere {
        /// True if so.
        staged: bool,
    },
    /// Below that keeper.
    Kept,
    /// No agent but a relay, with standard input and output as streams: it starts the machine's
    /// agent and reaches further machines. If `staged`, the folder of this program goes with it.
    Relay {
        /// True if so.
        staged: bool,
    },
}

/// Runs the agent of a node. Returns the exit code.
pub fn agent_main(place: AgentPlace) -> u8 {
    let done = match place {
        AgentPlace::Elsewhere { staged } => keeper::keep(staged),
        AgentPlace::Here(control) => serve(Some(control)),
        AgentPlace::Kept => serve(None),
        AgentPlace::Relay { staged } => relay::relay(staged),
    };
    done.unwrap_or_else(|why| {
        say_within(LAST_WORD, &format!("clump: the agent cannot go on: {why:#}\n"));
        125
    })
}

/// Runs the agent until its job has ended. Returns the exit code.
fn serve(control: Option<RawFd>) -> Result<u8> {
    if let Some(opened) = AgentSetup::open(control)?.prepare()? {
        Agent::begin(opened).run()?;
    }
    Ok(0)
}

type Result<T> = std::result::Result<T, anyhow::Error>;

struct Agent {
    poller: Poller,
    signals: Signals,
    assembler: Assembler,
    outputs: Outputs,
    /// Signs of life on the stream to a launcher on another machine.
    life: Option<StreamWatch>,
    /// Input of rank 0, if it comes from the launcher, and what has come before the rank started.
    input: Option<RankInput>,
    early_input: Vec<Vec<u8>>,
    /// Decides about the job, if this agent does.
    watch: Option<RankSupervisor>,
    node: OpenedNode,
    /// Heartbeats to and from other agents, once all are known.
    heartbeats: Option<HeartbeatSocket>,
    /// All agents, and the own addresses that are of use, once both are known.
    offers: Vec<AgentOffer>,
    chosen: Vec<usize>,
    /// Ranks of other nodes that do not respond though their agent does.
    silence: UnresponsivePeers,
    /// Paths to other nodes that lose long packets.
    narrow: Narrow,
    overflow: Overflow,
    /// Sockets of this node that nothing can be received from.
    receiving: Receiving,
    /// Interfaces, which execute operations of ranks of other nodes on this node's memory.
    interfaces: Vec<NetworkInterface>,
    spec: JobSpec,
    ranks: Vec<Rank>,
    /// Tells ranks that the kernel killed for memory from others.
    oom: OomCounters,
    started_ns: u64,
    ended_ns: u64,
    /// Activity of every rank when the order to end arrived.
    scene: Option<Vec<RankActivity>>,
    /// Waits of its ranks when the job was interrupted.
    waits: Option<JobWaits>,
    refusal: Option<Refusal>,
    leftovers: Vec<Process>,
    sweep_until: Option<u64>,
    /// Ranks that an engine has started, and that come to this agent.
    adoption: Option<Adoption>,
    metrics: Option<MetricsServer>,
    /// True while everything is being killed.
    killing: bool,
    finished: bool,
    launcher_lost: bool,
    /// True while the user has suspended the job, and the time at which that began.
    suspended: bool,
    suspended_at_ns: u64,
}

impl Agent {
    fn run(mut self) -> Result<()> {
        match &self.node.unbound {
            None => self.start_ranks()?,
            Some(own) => {
                let offer = Box::new(own.offer.clone());
                self.outputs.say(&self.poller, &Frame::Offered(offer))?;
            }
        }
        // What came right behind the job is not told of by the poller.
        self.handle_frames()?;
        while self.refusal.is_none() && !self.finished {
            self.turn(None)?;
        }
        self.ended_ns = clock::now_ns();
        self.sweep_rest()?;
        if self.input.is_some() {
            self.feed_input(None)?;
        }
        // No rank writes any more: what is left in the pipes is all there will be.
        while !self.outputs.all_ended() && !self.launcher_lost {
            self.turn(Some(Duration::from_secs(1)))?;
        }
        let last = self.last_words();
        self.outputs.say(&self.poller, &last)?;
        while !self.outputs.all_sent() && !self.launcher_lost {
            self.turn(Some(Duration::from_secs(1)))?;
        }
        // Dropped before the access to the network, which then holds its sockets last and closes
        // all of them concurrently.
        self.interfaces.clear();
        self.node.access = None;
        if self.launcher_lost {
            let (job, ranks) = (self.spec.program_name(), self.ranks.len());
            let node = self.node.plan.node;
            let whose =
                if self.spec.nodes > 1 { format!(" on node {node}") } else { String::new() };
            let text = format!(
                "clump: the launcher of `{job}` is gone without a word; its {ranks} ranks{whose} have been ended\n"
            );
            say_within(LAST_WORD, &text);
        }
        Ok(())
    }

    /// Starts the ranks: all nodes are ready.
    fn go(&mut self, table: &AddressTable) -> Result<()> {
        let routed = self.routed(table);
        NodeNetwork::place_all(&self.node.memory, &routed);
        if self.spec.verbose {
            let text = self.describe_routes(&routed);
            self.outputs.say(&self.poller, &Frame::Routes(text))?;
        }
        // Interfaces, to which ranks hand messages, must exist when ranks start.
        if let Some(net) = &self.node.net {
            let shared = self.node.plan.sharing;
            let sharing = shared.ranks + self.node.memory.interfaces() * shared.nodes;
            let sharing = sharing as usize;
            match net.start_interfaces(&self.node.memory, &self.node.config, sharing) {
                Ok(interfaces) => self.interfaces = interfaces,
                Err(refusal) => {
                    self.refusal.get_or_insert(refusal);
                }
            }
        }
        let starts = self.ranks.is_empty() && self.refusal.is_none();
        if starts && !self.killing && !self.finished {
            self.start_ranks()?;
        }
        self.release_network()?;
        if let Some(refusal) = self.refusal.take_if(|_| self.watch.is_none()) {
            let frame = Frame::Refused(refusal.why, refusal.code);
            self.outputs.say(&self.poller, &frame)?;
        }
        Ok(())
    }

    fn start_ranks(&mut self) -> Result<()> {
        if let Some(adoption) = &mut self.adoption {
            adoption.is_due = true;
            return self.adopt_ranks();
        }
        let Self { spec, node, .. } = self;
        let (net, limit) = (node.net.as_ref(), node.descriptors);
        let environment =
            RankEnvironment::new(spec, &node.plan, &node.memory, net, limit, &node.placement);
        for number in node.memory.local_ranks() {
            let mut rank = match environment.start(number) {
                Ok(rank) => rank,
                Err(refusal) => {
                    self.refusal = Some(refusal);
                    break;
                }
            };
            let low = u64::from(number);
            self.poller.add(&rank.child.pidfd, token::END | low, Interest::Read)?;
            self.poller.add(&rank.boot_socket, token::BOOT_SOCKET | low, Interest::Read)?;
            if let Some(pipe) = rank.child.input.take() {
                self.input = Some(RankInput::new(pipe, token::INPUT));
            }
            let pipes = [rank.child.output.take(), rank.child.errors.take()];
            for (pipe, stream) in pipes.into_iter().zip([Stream::Output, Stream::Errors]) {
                if let Some(pipe) = pipe {
                    self.outputs.add(&self.poller, (number, stream), pipe, token::PIPE)?;
                }
            }
            self.oom.watch(rank.child.pid);
            self.ranks.push(rank);
        }
        for bytes in std::mem::take(&mut self.early_input) {
            self.feed_input(Some(&bytes))?;
        }
        Ok(())
    }

    /// Runs one turn of the event loop: waits for an event, at most for `limit`, and handles it.
    fn turn(&mut self, limit: Option<Duration>) -> Result<()> {
        let now = clock::now_ns();
        let due = self.next_deadline_ns().map(|at| Duration::from_nanos(at.saturating_sub(now)));
        let sweep = self.killing.then_some(SWEEP_EVERY);
        let limit = [limit, due, sweep].into_iter().flatten().min();
        for ready in self.poller.wait(limit)? {
            let low = u32::try_from(ready.token & !token::KIND).unwrap_or(u32::MAX);
            match ready.token & token::KIND {
                token::LAUNCHER => {
                    if ready.writable {
                        self.outputs.flush(&self.poller)?;
                    }
                    if ready.readable {
                        self.handle_launcher()?;
                    }
                }
                token::SIGNALS => self.read_signals()?,
                token::HEART => self.handle_heartbeats()?,
                token::INPUT => self.feed_input(None)?,
                token::END if self.adoption.is_some() => self.handle_adopted_end(low)?,
                token::CALLER => self.handle_caller(low)?,
                token::STARTER => self.handle_starter_end(low)?,
                token::METRICS => {
                    if let Some(metrics) = &mut self.metrics {
                        metrics.handle(&self.poller, low, &self.node.memory)?;
                    }
                }
                token::END => self.reap()?,
                token::PIPE => self.outputs.on_readable(&self.poller, low as usize)?,
                _ => self.handle_boot_socket(low)?,
            }
            // Deaths are handled between any two chunks of output.
            self.act()?;
        }
        self.watch_stream()?;
        self.handle_timeout()?;
        self.act()?;
        if self.killing {
            self.reap()?;
            self.kill_everything();
            self.act()?;
        }
        Ok(())
    }

    /// Gives rank 0 more of its input, or what has waited for room.
    fn feed_input(&mut self, bytes: Option<&[u8]>) -> Result<()> {
        let Some(input) = &mut self.input else {
            self.early_input.extend(bytes.map(<[u8]>::to_vec));
            return Ok(());
        };
        let taken = match bytes {
            Some(bytes) => input.handle_input(&self.poller, bytes)?,
            None => input.flush(&self.poller)?,
        };
        if taken > 0 {
            self.outputs.say(&self.poller, &Frame::InputRoom(taken))?;
        }
        Ok(())
    }

    fn read_signals(&mut self) -> Result<()> {
        while let Some(signal) = self.signals.next() {
            match signal {
                signal::CHILD => self.reap()?,
                // Batch systems send them to all processes of a job, ranks among them.
                signal if signal::OF_PROGRAMS.contains(&signal) => {}
                signal => self.tell(Event::Interrupted(signal))?,
            }
        }
        Ok(())
    }

    fn handle_boot_socket(&mut self, rank: u32) -> Result<()> {
        let Some(at) = self.local(rank) else { return Ok(()) };
        let boot_socket = &self.ranks[at].boot_socket;
        let Some(news) = boot::boot_socket_event(boot_socket) else { return Ok(()) };
        if news == BootSocketEvent::Joined {
            self.node.placement.on_joined(at, self.ranks[at].child.pid, clock::now_ns());
            return self.tell(Event::Joined(rank));
        }
        self.poller.remove(boot_socket)?;
        let closed = news == BootSocketEvent::Closed;
        match rank_state::status_of(&self.node.memory, rank) {
            // Ranks of other nodes must hear of that before its process ends.
            RankStatus::Finalized(barrier) => self.tell(Event::Finalized(rank, barrier)),
            RankStatus::Joined if closed && self.is_replaced(rank) => {
                self.tell(Event::Replaced(rank))
            }
            _ => Ok(()),
        }
    }

    /// Returns true if the process that joined as `rank`, and has closed its boot connection
    /// without a word, runs without the node's memory. Exec brings that about: a process that ends
    /// has no memory at all before it closes anything.
    fn is_replaced(&self, rank: u32) -> bool {
        let Some(pid) = self.node.memory.rank(rank).map(|block| block.pid()) else { return false };
        procfs::maps_memory(pid, MEMORY_LABEL) == Some(false)
            && (self.adoption.is_some()
                || crate::sweep::own_descendants().iter().any(|p| p.pid == pid))
    }

    /// Records every child that ended, stopped or continued.
    fn reap(&mut self) -> Result<()> {
        while let ChildEvents::Of(pid, change) = process::changed()? {
            let Some(at) = self.ranks.iter().position(|rank| rank.child.pid == pid) else {
                continue; // an orphan
            };
            let rank = self.number(at);
            match change {
                ChildEvent::Ended(exit) if self.ranks[at].end.is_none() => {
                    self.poller.remove(&self.ranks[at].child.pidfd)?;
                    let standing = rank_state::status_of(&self.node.memory, rank);
                    let end = self.end_of(at, exit);
                    self.ranks[at].end = Some((end, rank_state::state_of(standing)));
                    self.tell(Event::Ended { rank, end, standing })?;
                    self.act()?;
                }
                ChildEvent::Ended(_) => {}
                ChildEvent::Stopped => {
                    self.ranks[at].stopped = true;
                    if !self.suspended {
                        self.tell(Event::Stopped(rank))?;
                    }
                }
                ChildEvent::Continued => {
                    self.ranks[at].stopped = false;
                    self.tell(Event::Continued(rank))?;
                }
            }
        }
        Ok(())
    }

    /// Returns the end of the process of the rank at index `at`.
    fn end_of(&mut self, at: usize, exit: Exit) -> ProcessEnd {
        let pid = self.ranks[at].child.pid;
        let is_killed = exit == Exit::Signal(signal::KILL) && !self.killing;
        if is_killed && self.oom.account(pid) {
            return ProcessEnd::OutOfMemory;
        }
        rank_state::end_of(exit)
    }

    /// Records the activity of every rank of the node, at the first call only; of an interrupted
    /// job also what they wait for.
    fn set_scene(&mut self, interrupted: bool) {
        if self.scene.is_some() {
            return;
        }
        let known = |rank| {
            let rank = self.ranks.get(self.local(rank)?)?;
            match rank.end {
                Some((ProcessEnd::Exit(0), state)) if state != RankState::Joined => {
                    Some("ended".into())
                }
                None if rank.stopped => Some("stopped (SIGSTOP)".into()),
                _ => None,
            }
        };
        let memory = &self.node.memory;
        let waits = interrupted.then(|| JobWaits::observe(std::slice::from_ref(memory), known));
        self.scene = Some(crate::scene::observe_ranks(memory, known));
        self.waits = waits;
    }

    /// Returns the index of `rank` among the node's ranks.
    fn local(&self, rank: u32) -> Option<usize> {
        let at = rank.checked_sub(self.node.memory.local_ranks().start)? as usize;
        (at < self.ranks.len()).then_some(at)
    }

    /// Returns the rank at index `at` of the node.
    fn number(&self, at: usize) -> u32 {
        self.node.memory.local_ranks().start + u32::try_from(at).unwrap_or(u32::MAX)
    }
}
