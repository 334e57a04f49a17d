//! The agent: one event loop over the ends of its ranks, their output, and the launcher.
//!
//! It observes what happens on its node ([`Event`]) and executes commands ([`AgentCommand`]). On a
//! job of one node its own [`RankSupervisor`] decides on them, on a job of several nodes the
//! launcher's. If the launcher is lost, every agent ends its ranks by itself ([`decide`]).

mod close;
mod decide;
mod opening;

use crate::frame::{Assembler, Frame, Stream};
use crate::heartbeat_socket::HeartbeatSocket;
use crate::narrow::Narrow;
use crate::net::NodeNetwork;
use crate::outcome::RankActivity;
use crate::output::Outputs;
use crate::rank::{Rank, RankEnvironment, Refusal};
use crate::receiving::Receiving;
use crate::silence::UnresponsivePeers;
use crate::spec::AddressTable;
use crate::spec::JobSpec;
use crate::{rank_state, sweep};
use clump_boot::boot::{self, SeatNews};
use clump_control::{Event, ProcessEnd, RankStatus, RankSupervisor};
use clump_ni::NetworkInterface;
use clump_os::epoll::{Interest, Poller};
use clump_os::process::{ChildEvent, ChildEvents};
use clump_os::procfs::{self, Process};
use clump_os::signal::{self, Signals};
use clump_os::writer::say_within;
use clump_os::{clock, process};
use clump_shm::node::MEMORY_LABEL;
use clump_shm::rank::RankState;
use opening::{AgentSetup, OpenedNode};
use std::io::{ErrorKind, Read};
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// Meanings of tokens in the poller; the lower half is a rank or a pipe.
mod token {
    pub(super) const LAUNCHER: u64 = 0;
    pub(super) const SIGNALS: u64 = 1 << 32;
    pub(super) const END: u64 = 2 << 32;
    pub(super) const PIPE: u64 = 3 << 32;
    pub(super) const SEAT: u64 = 4 << 32;
    pub(super) const HEART: u64 = 5 << 32;
    pub(super) const KIND: u64 = !0 << 32;
}

/// Interval between searches for processes to kill while killing: the end of a grandchild sends no
/// signal to this process.
const SWEEP_EVERY: Duration = Duration::from_millis(2);
/// Part of the node timeout after which silence counts; the rest is for agreeing on which node is
/// lost.
const SILENCE_SHARE: (u64, u64) = (3, 4);
/// Longest time that an agent tries to say why it ends: the launcher does not wait for that.
const LAST_WORD: Duration = Duration::from_millis(200);
/// Longest time of trying to kill.
const SWEEP_NS: u64 = 2_000_000_000;

/// Runs the agent of a node; the launcher is at the other end of inherited descriptor `control`.
/// Returns the exit code.
pub fn agent_main(control: RawFd) -> u8 {
    match AgentSetup::open(control).and_then(|connection| connection.serve()) {
        Ok(()) => 0,
        Err(why) => {
            say_within(LAST_WORD, &format!("clump: the agent cannot go on: {why:#}\n"));
            125
        }
    }
}

type Result<T> = std::result::Result<T, anyhow::Error>;

struct Agent {
    launcher: Arc<UnixStream>,
    poller: Poller,
    signals: Signals,
    assembler: Assembler,
    outputs: Outputs,
    /// Decides about the job, if this agent does.
    watch: Option<RankSupervisor>,
    node: OpenedNode,
    /// Heartbeats to and from other agents, once all are known.
    heartbeats: Option<HeartbeatSocket>,
    /// Ranks of other nodes that do not respond though their agent does.
    silence: UnresponsivePeers,
    /// Paths to other nodes that lose long packets.
    narrow: Narrow,
    /// Sockets of this node that nothing can be received from.
    receiving: Receiving,
    /// Interfaces, which execute operations of ranks of other nodes on this node's memory.
    interfaces: Vec<NetworkInterface>,
    spec: JobSpec,
    ranks: Vec<Rank>,
    started_ns: u64,
    ended_ns: u64,
    /// Activity of every rank when the job was told to end.
    scene: Option<Vec<RankActivity>>,
    refusal: Option<Refusal>,
    leftovers: Vec<Process>,
    sweep_until: Option<u64>,
    /// True while everything is being killed.
    killing: bool,
    finished: bool,
    launcher_lost: bool,
}

impl Agent {
    fn run(mut self) -> Result<()> {
        match &self.node.net {
            None => self.start_ranks()?,
            Some(net) => {
                let bound = Box::new(net.bound.clone());
                self.outputs.say(&self.poller, &Frame::Bound(bound))?;
            }
        }
        while self.refusal.is_none() && !self.finished {
            self.turn(None)?;
        }
        self.ended_ns = clock::now_ns();
        self.sweep_rest()?;
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
        NodeNetwork::place_all(&self.node.memory, table);
        // Interfaces, to which ranks hand messages, must exist when ranks start.
        if let Some(net) = &self.node.net {
            let interfaces = self.node.memory.interfaces() * self.node.plan.sharing_nodes;
            let sharing = self.node.plan.sharing.len() + interfaces as usize;
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
        if let Some(net) = self.node.net.take() {
            let silence_ns =
                SILENCE_SHARE.0 * self.node.plan.node_timeout_ms * 1_000_000 / SILENCE_SHARE.1;
            let times = (silence_ns, self.node.plan.job_id, clock::now_ns());
            let NodeNetwork { own, mut key, security, access, .. } = net;
            self.node.access = Some(access);
            let heartbeats =
                HeartbeatSocket::new(own, &mut key, security, (self.node.plan.node, table), times)?;
            for socket in heartbeats.sockets() {
                self.poller.add(socket, token::HEART, Interest::Read)?;
            }
            self.heartbeats = Some(heartbeats);
        }
        if let Some(refusal) = self.refusal.take_if(|_| self.watch.is_none()) {
            let frame = Frame::Refused(refusal.why, refusal.code);
            self.outputs.say(&self.poller, &frame)?;
        }
        Ok(())
    }

    fn start_ranks(&mut self) -> Result<()> {
        let Self { spec, node, .. } = self;
        let (net, limit) = (node.net.as_ref(), node.descriptors);
        let crew =
            RankEnvironment::new(spec, &node.plan, &node.memory, net, limit, &node.placement);
        for number in node.memory.local_ranks() {
            let mut rank = match crew.start(number) {
                Ok(rank) => rank,
                Err(refusal) => {
                    self.refusal = Some(refusal);
                    break;
                }
            };
            let low = u64::from(number);
            self.poller.add(&rank.child.pidfd, token::END | low, Interest::Read)?;
            self.poller.add(&rank.seat, token::SEAT | low, Interest::Read)?;
            let pipes = [rank.child.output.take(), rank.child.errors.take()];
            for (pipe, stream) in pipes.into_iter().zip([Stream::Output, Stream::Errors]) {
                if let Some(pipe) = pipe {
                    self.outputs.add(&self.poller, (number, stream), pipe, token::PIPE)?;
                }
            }
            self.ranks.push(rank);
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
                token::END => self.reap()?,
                token::PIPE => self.outputs.on_readable(&self.poller, low as usize)?,
                _ => self.handle_boot_socket(low)?,
            }
            // Deaths are handled between any two chunks of output.
            self.act()?;
        }
        self.handle_timeout()?;
        self.act()?;
        if self.killing {
            self.reap()?;
            self.kill_everything();
            self.act()?;
        }
        Ok(())
    }

    fn read_signals(&mut self) -> Result<()> {
        while let Some(signal) = self.signals.next() {
            if signal == signal::CHILD {
                self.reap()?;
            } else {
                self.tell(Event::Interrupted(signal))?;
            }
        }
        Ok(())
    }

    fn handle_launcher(&mut self) -> Result<()> {
        let mut piece = [0; 4096];
        let lost = match (&*self.launcher).read(&mut piece) {
            Ok(0) => true,
            Ok(bytes) => {
                self.assembler.handle_bytes(&piece[..bytes]);
                false
            }
            Err(e) => !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        while let Some(frame) = self.assembler.poll_frame()? {
            match frame {
                Frame::Room(bytes) => self.outputs.on_room(&self.poller, bytes)?,
                Frame::Interrupt(signal) => self.tell(Event::Interrupted(signal))?,
                Frame::Kill => self.kill_now(),
                Frame::Go(table) => self.go(&table)?,
                Frame::Order(order) => self.obey(order),
                _ => {}
            }
        }
        if lost && !self.launcher_lost {
            self.launcher_lost = true;
            self.outputs.on_launcher_lost(&self.poller)?;
            self.on_launcher_lost();
        }
        Ok(())
    }

    fn handle_boot_socket(&mut self, rank: u32) -> Result<()> {
        let Some(at) = self.local(rank) else { return Ok(()) };
        let seat = &self.ranks[at].seat;
        let Some(news) = boot::seat_news(seat) else { return Ok(()) };
        if news == SeatNews::Joined {
            self.node.placement.on_joined(at, self.ranks[at].child.pid, clock::now_ns());
            return self.tell(Event::Joined(rank));
        }
        self.poller.remove(seat)?;
        let closed = news == SeatNews::Closed;
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
        let own = || procfs::descendants(process::own_pid());
        procfs::maps_memory(pid, MEMORY_LABEL) == Some(false) && own().iter().any(|p| p.pid == pid)
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
                    let end = rank_state::end_of(exit);
                    self.ranks[at].end = Some((end, rank_state::state_of(standing)));
                    self.tell(Event::Ended { rank, end, standing })?;
                    self.act()?;
                }
                ChildEvent::Ended(_) => {}
                ChildEvent::Stopped => {
                    self.ranks[at].stopped = true;
                    self.tell(Event::Stopped(rank))?;
                }
                ChildEvent::Continued => {
                    self.ranks[at].stopped = false;
                    self.tell(Event::Continued(rank))?;
                }
            }
        }
        Ok(())
    }

    fn signal_ranks(&self, signal: u8) {
        for rank in &self.ranks {
            // A process number is ours until the process has been reaped, and no longer.
            if rank.end.is_none() {
                let _ = process::signal_group(rank.child.pid, signal);
            }
        }
    }

    fn kill_everything(&mut self) {
        for process in sweep::kill_below(&[]) {
            let is_rank = self.ranks.iter().any(|rank| rank.child.pid == process.pid);
            let known =
                self.leftovers.iter().any(|p| p.pid == process.pid && p.started == process.started);
            if !is_rank && !known {
                self.leftovers.push(process);
            }
        }
    }

    /// Kills what ended ranks left running. All ranks have ended.
    fn sweep_rest(&mut self) -> Result<()> {
        let until = *self.sweep_until.get_or_insert(clock::now_ns() + SWEEP_NS);
        self.killing |= self.refusal.is_some();
        loop {
            let mut news = process::changed()?;
            while let ChildEvents::Of(..) = news {
                news = process::changed()?;
            }
            if news == ChildEvents::Childless {
                return Ok(());
            }
            if clock::now_ns() > until {
                return self.outputs.abandon(&self.poller).map_err(Into::into);
            }
            self.kill_everything();
            self.turn(Some(SWEEP_EVERY))?;
        }
    }

    /// Records the activity of every rank of the node, at the first call only.
    fn set_scene(&mut self) {
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
        self.scene = Some(crate::scene::observe_ranks(&self.node.memory, known));
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
