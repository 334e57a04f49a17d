//! The rank's network interface as its endpoints use it.

pub(crate) mod forward;
pub(crate) mod proxy_client;
pub(crate) mod registry;
mod transport;

pub use transport::Accept;

use crate::error::{ErrorKind, Result};
use crate::returned::Reason;
pub use clump_boot::Dispatch;
use clump_driver::{Clock, Fault, FaultPlan, PathCounts, PeerPaths, Timestamps, UdpOptions};
use clump_net::seal::JobKey;
use clump_net::{
    Backstop, Batch, EndpointTable, PeerAddress, Polling, Refusal, Stack, StackConfig, Times,
};
use clump_os::fence::FenceKind;
use clump_os::secret::Secret;
use clump_os::{clock, socket};
use clump_proto::Congestion;
use clump_shm::node::NodeMemory;
use clump_shm::rank::{ProcessAddress, RankBlock, RankState};
use clump_shm::segment::Segment;
use clump_trace::{Counter, Counters, Gauge, Gauges, Stage};
use clump_wire::Security;
pub use forward::{Forward, Spill, stamped};
pub use proxy_client::{ProxyClient, ProxyClientClock, proxy_name};
use registry::Registry;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use transport::Transport;

/// Bytes of requests between two endpoints that may be unconsumed, when few ranks share the memory.
const MAX_CREDIT: u64 = 1 << 20;
/// Peers that have a connected socket of their own.
const MAX_CONNECTIONS: usize = 16;
/// Time a closing rank waits for news before it announces its close again.
const CLOSE_PAUSE: Duration = Duration::from_millis(2);
/// Polls between two attempts to hand stored messages to a proxy.
const PROXY_POLLS: u32 = 256;
const MIN_CREDIT: u64 = 64 << 10;
/// Bytes of requests that all endpoints of all peers together may leave unconsumed at one endpoint.
const ALL_CREDIT: u64 = 64 << 20;

/// Returns the faults that the network is to inject, and their seed, if the settings ask for any.
pub fn faults(config: &clump_boot::Config) -> Option<(FaultPlan, u64)> {
    let chance = |ppm: u64| ppm as f64 / 1e6;
    let plan = FaultPlan {
        // Loss on arrival: a stream without any other fault goes out as it does without loss.
        loss_on_arrival: chance(config.net_loss_ppm),
        duplication: chance(config.net_duplicate_ppm),
        reordering: chance(config.net_reorder_ppm),
        corruption: chance(config.net_corrupt_ppm),
        delay_ns: config.net_delay_ns,
        ..FaultPlan::default()
    };
    (plan != FaultPlan::default()).then_some((plan, config.net_seed))
}

/// Resources that a rank needs to talk to other nodes.
#[derive(Debug)]
pub struct NetworkResources {
    /// Its sockets: UDP, bound to the addresses that the others know, in order.
    pub sockets: Vec<OwnedFd>,
    /// Descriptors that a driver with more direct access needs besides, one for each socket; empty
    /// for UDP.
    pub direct: Vec<OwnedFd>,
    /// The key of the job.
    pub key: Secret<[u8; 32]>,
    /// Protection of packets.
    pub security: Security,
    /// Minimum and maximum number of polls of shared memory between two polls of the network.
    pub polling: (u32, u32),
    /// Bytes in flight to each peer; `None`: found by congestion control.
    pub window: Option<usize>,
    /// Faults to inject, and their seed.
    pub faults: Option<(FaultPlan, u64)>,
}

/// Returns how many bytes of requests one endpoint may leave unconsumed at another of another node.
pub fn credit_bytes(node: &NodeMemory) -> u64 {
    (ALL_CREDIT / node.ranks() as u64).clamp(MIN_CREDIT, MAX_CREDIT)
}

/// Iterates over the ranks of other nodes and their addresses.
pub fn remote_ranks(node: &NodeMemory) -> impl Iterator<Item = (u32, ProcessAddress)> + '_ {
    let remote = (0..node.ranks() as u32).filter(|&other| !node.is_local(other));
    remote.filter_map(|other| Some((other, node.rank(other)?.place()?)))
}

/// Iterates over the network interfaces that have number `which` on other nodes, and their
/// addresses.
pub fn remote_interfaces(
    node: &NodeMemory,
    which: u32,
) -> impl Iterator<Item = (u32, ProcessAddress)> + '_ {
    let remote = (0..node.nnodes()).filter(|&other| other != node.node());
    remote.filter_map(move |other| {
        let id = node.interface_id(other) + which;
        Some((id, node.rank(id)?.place()?))
    })
}

/// Converts an interface's id and address to the form that stacks use.
pub fn peer_address((id, place): (u32, ProcessAddress)) -> PeerAddress {
    PeerAddress { id, address: place.address, epoch: place.epoch }
}

/// Returns the path that two stacks use while all are well, modulo the number of paths. Both stacks
/// compute the same, and pairs of stacks are spread evenly over the paths.
fn preferred_path(node: &NodeMemory, me: u32, peer: u32) -> usize {
    let sum = match (node.node_of_interface(me), node.node_of_interface(peer)) {
        // Interfaces talk to those of their own number.
        (Some(here), Some(there)) => me - node.interface_id(here) + here + there,
        _ => me.wrapping_add(peer),
    };
    sum as usize
}

impl NetworkResources {
    /// Builds the stack of interface `me` in incarnation `epoch`, with its peers and its endpoint
    /// table.
    ///
    /// # Errors
    /// The socket or the key cannot be used.
    pub fn into_stack(
        self,
        node: &NodeMemory,
        (me, epoch): (u32, u32),
        peers: Vec<PeerAddress>,
        endpoints: Box<dyn EndpointTable>,
    ) -> Result<Stack> {
        let Self { sockets, direct, mut key, security, window, faults, .. } = self;
        let refused = |why: &dyn std::fmt::Display| ErrorKind::Network(why.to_string());
        let options = UdpOptions {
            connections: MAX_CONNECTIONS,
            // A packet's wait in a crowded socket buffer is not a delay of the path.
            timestamps: Timestamps::Crowds,
            ..UdpOptions::default()
        };
        let paths = peers.iter().filter(|_| sockets.len() > 1).filter_map(|peer| {
            let addresses = node.rank(peer.id)?.place()?.addresses().collect();
            Some(PeerPaths { addresses, preferred: preferred_path(node, me, peer.id) })
        });
        let paths: Vec<_> = paths.collect();
        let driver = clump_driver::take_all(sockets, direct, options, paths);
        let driver = driver.map_err(|e| refused(&e))?;
        let driver = match faults {
            None => driver,
            Some((plan, seed)) => {
                Box::new(Fault::new(driver, seed ^ u64::from(me) << 32, plan, Clock::Steady))
            }
        };
        let key = JobKey::new(&mut key).map_err(|e| refused(&e))?;
        let congestion = window.map_or(Congestion::Adaptive, Congestion::Static);
        // For the laboratory, which sets it for whole jobs; a setting that cannot be parsed was
        // refused at the start.
        let control_first =
            clump_boot::Config::load().map_or(true, |config| config.net_control_first);
        let config = StackConfig {
            me,
            epoch,
            security,
            channel: clump_proto::Config {
                congestion,
                control_first,
                ..clump_proto::Config::default()
            },
            credit_bytes: credit_bytes(node),
            peers,
        };
        Ok(Stack::new(config, &key, driver, endpoints).map_err(|e| refused(&e))?)
    }
}

/// Returns the reason for which unread messages of a rank are returned, if the rank died or
/// finalized.
pub fn gone(block: &RankBlock) -> Option<Refusal> {
    match block.state() {
        RankState::Dead => Some(Refusal::PeerLost),
        RankState::Finalized => Some(Refusal::EndpointGone),
        RankState::Absent | RankState::Joined => None,
    }
}

/// Checks that a deposit lies inside a segment.
///
/// # Errors
/// The offset or the end lies outside of it.
pub fn fits(segment: &Segment, offset: u64, bytes: u64) -> std::result::Result<(), Refusal> {
    if segment.holds(offset, bytes) {
        Ok(())
    } else if offset <= segment.len() as u64 {
        Err(Refusal::BadLength)
    } else {
        Err(Refusal::BadOffset)
    }
}

/// Lists the peers of `stack` that died or finalized, with the reason for which messages to them
/// are returned.
pub fn gone_peers(stack: &Stack, node: &NodeMemory) -> Vec<(u32, Refusal)> {
    let why = |peer: u32| {
        if let Some(other) = node.node_of_interface(peer) {
            return node.is_node_lost(other).then_some(Refusal::PeerLost);
        }
        gone(&*node.rank(peer)?)
    };
    stack.talking_to().filter_map(|peer| Some((peer, why(peer)?))).collect()
}

/// A rank's interface to other nodes: a stack of its own or the node's proxies, and its endpoints.
#[derive(Debug)]
pub struct Network {
    transport: Transport,
    pub(crate) registry: Arc<Registry>,
    pub(crate) credit: u64,
    polling: Polling,
}

impl Network {
    /// Opens the rank's network interface.
    ///
    /// # Errors
    /// The socket or the key cannot be used.
    pub fn open(node: &NodeMemory, rank: u32, seat: NetworkResources) -> Result<Self> {
        let mine = node.rank(rank).and_then(|block| block.place());
        let mine = mine.ok_or_else(|| ErrorKind::Network("this rank has no address".into()))?;
        let polling = seat.polling;
        let registry = Arc::new(Registry::new(rank));
        let me = (rank, mine.epoch);
        let interfaces = remote_interfaces(node, 0);
        let peers = remote_ranks(node).chain(interfaces).map(peer_address).collect();
        let stack = seat.into_stack(node, me, peers, Box::new(registry.endpoint_table()))?;
        let credit = credit_bytes(node);
        let (home, fence): (NodeMemory, FenceKind) = (node.clone(), node.fence());
        let entries = registry.clone();
        let wake = Box::new(move |mailed: u32| {
            entries.notify(mailed);
            if let Some(block) = home.rank(rank) {
                block.park().wake_if_asleep(fence, home.alarm(rank).map(|alarm| &**alarm));
            }
        });
        // A rank that is alone on its node has nothing else to poll.
        let (least, most) = if node.local_ranks().len() == 1 { (1, 1) } else { polling };
        let interface = Backstop::new(stack, wake);
        if let Some(block) = node.rank(rank) {
            Gauges::over(block.gauges()).set(Gauge::Started, clock::now_ns());
        }
        let (transport, polling) = (Transport::Own(interface), Polling::new(least, most));
        Ok(Self { transport, registry, credit, polling })
    }

    /// Opens the network by way of the node's proxies.
    ///
    /// # Errors
    /// Address space has run out.
    pub fn through_proxies(node: &NodeMemory, rank: u32, dispatch: Dispatch) -> Result<Self> {
        let registry = Arc::new(Registry::new(rank));
        let transport = Transport::Proxies(Box::new(ProxyClient::open(node, rank, dispatch)?));
        // Arriving messages lie in the lanes of endpoints; a poll only hands on messages that had
        // to wait.
        let polling = Polling::new(PROXY_POLLS, PROXY_POLLS);
        Ok(Self { transport, registry, credit: credit_bytes(node), polling })
    }

    /// Performs the close handshake with all peers: waits until everything sent has arrived, tells
    /// them that this rank accepts nothing more, and waits until they know. Peers that die or
    /// finalize meanwhile are not waited for. All endpoints are closed.
    pub fn close(&self, node: &NodeMemory, rank: u32) {
        let Some(block) = node.rank(rank) else { return };
        let over = || {
            let lost = node.job().first_death().is_some() && !node.job().survive();
            lost || block.death().is_some()
        };
        let interface = match &self.transport {
            Transport::Own(interface) => interface,
            Transport::Proxies(client) => {
                client.begin_close();
                let gone = || client.flush() && block.close_handshakes() >= node.proxies();
                while !over() && !gone() {
                    let announced = block.park().announce(node.fence());
                    client.request_room();
                    // A waker that saw no sleeper before the announcement had published its news by
                    // then.
                    if over() || gone() {
                        block.park().withdraw(announced);
                        return;
                    }
                    if let Some(alarm) = node.alarm(rank) {
                        block.park().sleep_on(announced, alarm, None, Some(CLOSE_PAUSE));
                    } else {
                        block.park().sleep(announced, Some(CLOSE_PAUSE));
                    }
                }
                return;
            }
        };
        let mut batch = Batch::default();
        loop {
            self.housekeeping(node, &block);
            let mut stack = interface.stack();
            while stack.receive(clock::ticked_ns, None, &mut batch) > 0 {}
            let now = stack.polled_at();
            stack.service(now, true);
            if stack.is_quiet() {
                stack.close(now);
            }
            stack.acknowledge_all(now);
            if stack.is_closed() || over() {
                return;
            }
            drop(stack);
            socket::wait_readable(interface.readiness(), CLOSE_PAUSE);
        }
    }

    /// Returns the bytes kept for peers: in flight, waiting to be sent, and waiting for endpoints.
    pub fn memory_bytes(&self) -> usize {
        match &self.transport {
            Transport::Own(interface) => interface.stack().memory_bytes(),
            Transport::Proxies(client) => client.memory_bytes(),
        }
    }

    /// Sets the bytes of buffers that this rank's stack may keep for reuse, beyond those in flight
    /// at one time. For programs that count their memory.
    pub fn set_spare(&self, bytes: usize) {
        if let Transport::Own(interface) = &self.transport {
            interface.stack().set_spare(bytes);
        }
    }

    /// Returns the number by which packets of this job are told from those of others; every packet
    /// carries it. A rank that has proxies does not know it.
    pub fn job_tag(&self) -> Option<u32> {
        match &self.transport {
            Transport::Own(interface) => Some(interface.stack().job_tag()),
            Transport::Proxies(_) => None,
        }
    }

    /// Returns the schedule by which an endpoint polls the network.
    pub(crate) fn polling(&self) -> Polling {
        self.polling.clone()
    }

    /// Gives up peers that died or finalized, and copies the stack's counters.
    pub(crate) fn housekeeping(&self, node: &NodeMemory, block: &RankBlock) {
        let interface = match &self.transport {
            Transport::Own(interface) => interface,
            Transport::Proxies(client) => return client.housekeeping(),
        };
        let mut stack = interface.stack();
        for (peer, why) in gone_peers(&stack, node) {
            stack.lose(peer, why);
        }
        count_stack(Counters::over(block.counters()), &stack);
        note_unanswered(block, &stack, (clock::ticked_ns(), clock::now_ns()));
        note_narrowed(block, &mut stack, clock::ticked_ns());
        note_receive_failure(block, &stack);
        let round_trips: Vec<_> = stack.round_trips().collect();
        drop(stack);
        count_times(Gauges::over(block.gauges()), interface.times(), &round_trips);
    }
}

/// Copies the time gauges of a rank's own stack, and the round-trip times of its channels.
fn count_times(gauges: Gauges<'_>, times: Times, round_trips: &[u64]) {
    for large in [false, true] {
        for (stage, of) in [
            (Stage::Source, times.source),
            (Stage::ToWire, times.to_wire),
            (Stage::Delivery, times.delivery),
        ] {
            gauges.set_times(stage, large, of[usize::from(large)]);
        }
    }
    gauges.set(Gauge::Busy, times.busy);
    for srtt in round_trips {
        gauges.time(Stage::Wire, false, srtt / 2);
    }
}

/// Shortest silence of a peer that is noted.
const UNANSWERED_NS: u64 = 500_000_000;

/// Notes which peer of a stack does not answer, so that the agent can explain why a job makes no
/// progress. The times are that of the stack, and that of the machine.
pub fn note_unanswered(block: &RankBlock, stack: &Stack, (ticked_ns, now_ns): (u64, u64)) {
    let long = stack.unanswered(ticked_ns).filter(|&(_, silent_ns)| silent_ns >= UNANSWERED_NS);
    block.note_unanswered(long.map(|(peer, silent_ns)| (peer, now_ns.saturating_sub(silent_ns))));
}

/// Notes a path of a stack that carries less than before, so that the agent can tell the user; one
/// at a time.
pub fn note_narrowed(block: &RankBlock, stack: &mut Stack, ticked_ns: u64) {
    if block.is_narrowed_taken()
        && let Some(narrowed) = stack.take_narrowed(ticked_ns)
    {
        block.note_narrowed(narrowed);
    }
}

/// Notes that a stack receives nothing any more, for its agent, which ends the job.
pub fn note_receive_failure(block: &RankBlock, stack: &Stack) {
    if let Some(failure) = stack.receive_failure() {
        block.note_receive_failure(failure.to_bits());
    }
}

/// Copies what a stack has counted, and its driver if that has several paths.
pub fn count_stack(counters: Counters<'_>, stack: &Stack) {
    let stats = stack.stats();
    for (counter, value) in [
        (Counter::NetPacketsSent, stats.packets_sent),
        (Counter::NetBytesSent, stats.bytes_sent),
        (Counter::NetAcksSent, stats.acks_sent),
        (Counter::NetUnitsSent, stats.units_sent),
        (Counter::NetUnitsResent, stats.units_resent),
        (Counter::NetUnitsSpurious, stack.spurious()),
        (Counter::NetUnitsAhead, stats.units_ahead),
        (Counter::NetUnitsSliced, stats.units_sliced),
        (Counter::NetPathsNarrowed, stats.paths_narrowed),
        (Counter::NetPacketsReceived, stats.packets_received),
        (Counter::NetBytesReceived, stats.bytes_received),
        (Counter::NetDuplicates, stats.units_duplicate),
        (Counter::NetForeign, stats.packets_foreign),
        (Counter::NetForged, stats.packets_forged),
        (Counter::NetReplayed, stats.packets_replayed),
        (Counter::NetMalformed, stats.packets_malformed),
        (Counter::NetFramesMalformed, stats.frames_malformed),
        (Counter::NetSendsRefused, stats.sends_refused),
        (Counter::NetReceivesFailed, stats.receives_failed),
        (Counter::NetReturnedHere, stats.returned_here),
        (Counter::NetCreditsSent, stats.credits_sent),
        (Counter::NetMarks, stats.marks_received),
    ] {
        counters.set(counter, value);
    }
    if let Some(paths) = stack.driver().paths() {
        count_paths(counters, paths);
    }
}

fn count_paths(counters: Counters<'_>, paths: &PathCounts) {
    let sent = [Counter::NetPath0, Counter::NetPath1, Counter::NetPath2, Counter::NetPath3];
    for (counter, value) in sent.into_iter().zip(paths.sent) {
        counters.set(counter, value);
    }
    counters.set(Counter::NetPathsOut, paths.taken_out);
    counters.set(Counter::NetPathsBack, paths.came_back);
}

/// Converts a refusal to the reason that programs see.
pub(crate) fn reason_of(refusal: Refusal) -> Reason {
    Reason::from_bits(refusal as u8).unwrap_or(Reason::PeerLost)
}

#[cfg(test)]
mod tests {
    use clump_shm::name::Name;

    #[test]
    fn a_name_leads_the_stack_to_its_rank() {
        for rank in [0, 1, 77, 0xff_ffff] {
            let name = Name::new(rank, 31, u32::MAX);
            assert_eq!(clump_wire::frame::stack_of(name.to_bits()), name.rank());
        }
    }
}
