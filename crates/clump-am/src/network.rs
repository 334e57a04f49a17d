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
/// Peers that are sent to by sockets of their own.
const MAX_CONNECTIONS: usize = 16;
/// How long a closing rank waits for news before it says again that it closes.
const CLOSE_PAUSE: Duration = Duration::from_millis(2);
/// Polls between two looks at what could not be handed to a proxy.
const PORTAL_POLLS: u32 = 256;
const MIN_CREDIT: u64 = 64 << 10;
/// Bytes of requests that all endpoints of all peers together may leave unconsumed at one endpoint.
const ALL_CREDIT: u64 = 64 << 20;

/// What the network is to do wrong, if the settings want it to.
pub fn faults(config: &clump_boot::Config) -> Option<(FaultPlan, u64)> {
    let chance = |ppm: u64| ppm as f64 / 1e6;
    let plan = FaultPlan {
        // On arrival, so that a stream without any other fault goes out as it does without loss.
        loss_on_arrival: chance(config.net_loss_ppm),
        duplication: chance(config.net_duplicate_ppm),
        reordering: chance(config.net_reorder_ppm),
        corruption: chance(config.net_corrupt_ppm),
        delay_ns: config.net_delay_ns,
        ..FaultPlan::default()
    };
    (plan != FaultPlan::default()).then_some((plan, config.net_seed))
}

/// What a rank needs to talk to other nodes.
#[derive(Debug)]
pub struct NetworkResources {
    /// Its sockets: UDP, bound to the addresses that the others know, in order.
    pub sockets: Vec<OwnedFd>,
    /// What a driver with more direct access needs besides, for each; empty for UDP.
    pub direct: Vec<OwnedFd>,
    /// The key of the job.
    pub key: Secret<[u8; 32]>,
    /// How packets are protected.
    pub security: Security,
    /// Looks at shared memory from one look at the network to the next, at least and at most.
    pub polling: (u32, u32),
    /// Bytes under way to each peer; `None`: found by congestion control.
    pub window: Option<usize>,
    /// What the network is to do wrong, and the seed that decides what it does it to.
    pub faults: Option<(FaultPlan, u64)>,
}

/// Bytes of requests that one endpoint may leave unconsumed at another of another node.
pub fn credit_bytes(node: &NodeMemory) -> u64 {
    (ALL_CREDIT / node.ranks() as u64).clamp(MIN_CREDIT, MAX_CREDIT)
}

/// The ranks of other nodes, and where they are.
pub fn remote_ranks(node: &NodeMemory) -> impl Iterator<Item = (u32, ProcessAddress)> + '_ {
    let remote = (0..node.ranks() as u32).filter(|&other| !node.is_local(other));
    remote.filter_map(|other| Some((other, node.rank(other)?.place()?)))
}

/// The network interfaces of other nodes that have this number at their node, and where they are.
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

/// A place as stacks know it.
pub fn peer_address((id, place): (u32, ProcessAddress)) -> PeerAddress {
    PeerAddress { id, address: place.address, epoch: place.epoch }
}

/// Which of the paths between two stacks is used while all are well, modulo their number: both say the same, and
/// pairs of stacks are spread evenly over the paths.
fn preferred_path(node: &NodeMemory, me: u32, peer: u32) -> usize {
    let sum = match (node.node_of_interface(me), node.node_of_interface(peer)) {
        // Interfaces talk to those of their own number.
        (Some(here), Some(there)) => me - node.interface_id(here) + here + there,
        _ => me.wrapping_add(peer),
    };
    sum as usize
}

impl NetworkResources {
    /// The stack of this seat: number and incarnation, whom it talks to, and who is behind it.
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
            // How long a crowd waits here is no delay of the path.
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
        // For the laboratory, which sets it for whole jobs; what cannot be read was refused at the start.
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

/// Whether a rank has left, and why what it has not read goes back.
pub fn gone(block: &RankBlock) -> Option<Refusal> {
    match block.state() {
        RankState::Dead => Some(Refusal::PeerLost),
        RankState::Finalized => Some(Refusal::EndpointGone),
        RankState::Absent | RankState::Joined => None,
    }
}

/// Whether a deposit lies inside a segment.
///
/// # Errors
/// Why it does not.
pub fn fits(segment: &Segment, offset: u64, bytes: u64) -> std::result::Result<(), Refusal> {
    if segment.holds(offset, bytes) {
        Ok(())
    } else if offset <= segment.len() as u64 {
        Err(Refusal::BadLength)
    } else {
        Err(Refusal::BadOffset)
    }
}

/// Which peers of `stack` are lost or have left, and why what they did not take comes back.
pub fn gone_peers(stack: &Stack, node: &NodeMemory) -> Vec<(u32, Refusal)> {
    let why = |peer: u32| {
        if let Some(other) = node.node_of_interface(peer) {
            return node.is_node_lost(other).then_some(Refusal::PeerLost);
        }
        gone(&*node.rank(peer)?)
    };
    stack.talking_to().filter_map(|peer| Some((peer, why(peer)?))).collect()
}

/// See the module.
#[derive(Debug)]
pub struct Network {
    transport: Transport,
    pub(crate) registry: Arc<Registry>,
    pub(crate) credit: u64,
    polling: Polling,
}

impl Network {
    /// Takes the rank's seat at the network.
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
        // A rank that is alone on its node has nothing else to look at.
        let (least, most) = if node.local_ranks().len() == 1 { (1, 1) } else { polling };
        let interface = Backstop::new(stack, wake);
        if let Some(block) = node.rank(rank) {
            Gauges::over(block.gauges()).set(Gauge::Started, clock::now_ns());
        }
        let (transport, polling) = (Transport::Own(interface), Polling::new(least, most));
        Ok(Self { transport, registry, credit, polling })
    }

    /// The same by way of the node's proxies.
    ///
    /// # Errors
    /// Address space has run out.
    pub fn through_proxies(node: &NodeMemory, rank: u32, dispatch: Dispatch) -> Result<Self> {
        let registry = Arc::new(Registry::new(rank));
        let transport = Transport::Proxies(Box::new(ProxyClient::open(node, rank, dispatch)?));
        // What comes lies in the lanes of endpoints; a look only hands on what had to wait.
        let polling = Polling::new(PORTAL_POLLS, PORTAL_POLLS);
        Ok(Self { transport, registry, credit: credit_bytes(node), polling })
    }

    /// Says good-bye to all peers: waits until everything sent has arrived, tells them that nothing more
    /// is taken, and waits until they know. Peers that die or finalize meanwhile are not waited for.
    /// All endpoints are closed.
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
                    // Whoever looked for a sleeper before the announcement had said what it had to say.
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

    /// Bytes kept for peers: under way, waiting to be sent, and waiting for endpoints.
    pub fn memory_bytes(&self) -> usize {
        match &self.transport {
            Transport::Own(interface) => interface.stack().memory_bytes(),
            Transport::Proxies(client) => client.memory_bytes(),
        }
    }

    /// Bytes of buffers that this rank's stack may keep for reuse, beyond what has been under way at one time. For programs
    /// that count their memory.
    pub fn set_spare(&self, bytes: usize) {
        if let Transport::Own(interface) = &self.transport {
            interface.stack().set_spare(bytes);
        }
    }

    /// What tells packets of this job from those of others; every packet says it. A rank that has proxies
    /// does not know.
    pub fn job_tag(&self) -> Option<u32> {
        match &self.transport {
            Transport::Own(interface) => Some(interface.stack().job_tag()),
            Transport::Proxies(_) => None,
        }
    }

    /// How often an endpoint looks at the network.
    pub(crate) fn polling(&self) -> Polling {
        self.polling.clone()
    }

    /// Gives up peers that died or finalized, and copies what the stack has counted.
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

/// Copies what the times of a rank's own stack are, and notes what its channels know of the wire.
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

/// Silence of a peer that is noted.
const UNANSWERED_NS: u64 = 500_000_000;

/// Notes which peer of a stack does not answer, for whoever has to explain why a job does not go on. The time is that of the
/// stack, and that of the machine.
pub fn note_unanswered(block: &RankBlock, stack: &Stack, (ticked_ns, now_ns): (u64, u64)) {
    let long = stack.unanswered(ticked_ns).filter(|&(_, silent_ns)| silent_ns >= UNANSWERED_NS);
    block.note_unanswered(long.map(|(peer, silent_ns)| (peer, now_ns.saturating_sub(silent_ns))));
}

/// Notes a path of a stack that carries less than before, for whoever tells the user; one at a time.
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

/// The reason that programs see.
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
