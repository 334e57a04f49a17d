//! Parts that a stack is built from: sockets, the job's key, and its tuning.

use crate::credit::credit_bytes;
use crate::error::{Error, Result};
use clump_boot::NetBulk;
use clump_driver::{Clock, Fault, FaultPlan, TcpStreams, Timestamps, UdpOptions};
use clump_net::seal::JobKey;
use clump_net::{EndpointTable, PeerDirectory, Stack, StackConfig, StreamUse};
use clump_os::secret::Secret;
use clump_proto::Congestion;
use clump_shm::node::NodeMemory;
use clump_wire::Security;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// Peers that have a connected socket of their own.
const MAX_CONNECTIONS: usize = 16;

/// Settings of a stack that have defaults.
#[derive(Debug, Clone)]
pub struct NetworkTuning {
    /// Bytes in flight to each peer; `None`: found by congestion control.
    pub window: Option<usize>,
    /// Faults to inject, and their seed.
    pub faults: Option<(FaultPlan, u64)>,
    /// True if control messages go ahead of bulk.
    pub control_first: bool,
    /// The messages that go by streams; `None`: none.
    pub streams: Option<StreamUse>,
    /// Longest time for which an acknowledgement waits for a packet to ride on.
    pub ack_delay: Duration,
}

impl Default for NetworkTuning {
    fn default() -> Self {
        let ack_delay = Duration::from_nanos(clump_proto::Config::default().ack_delay);
        Self { window: None, faults: None, control_first: true, streams: None, ack_delay }
    }
}

impl NetworkTuning {
    /// Returns what the settings of the job ask for.
    pub fn configured(config: &clump_boot::Config) -> Self {
        // A window that is fixed by the laboratory is one of datagrams.
        let streams = match config.net_bulk {
            _ if config.lab.net_window != 0 => None,
            NetBulk::Auto => Some(StreamUse::SHORT_PACKETS),
            NetBulk::Stream => Some(StreamUse::ALWAYS),
            NetBulk::Datagram => None,
        };
        let window = (config.lab.net_window != 0).then_some(config.lab.net_window as usize);
        Self {
            window,
            faults: faults(config),
            control_first: config.lab.net_control_first,
            streams,
            ..Self::default()
        }
    }
}

/// Returns the faults that the network is to inject, and their seed, if the settings ask for any.
pub fn faults(config: &clump_boot::Config) -> Option<(FaultPlan, u64)> {
    let chance = |ppm: u64| ppm as f64 / 1e6;
    let faults = config.net_faults;
    let plan = FaultPlan {
        // Loss on arrival: a stream without any other fault goes out as it does without loss.
        loss_on_arrival: chance(faults.loss_ppm),
        duplication: chance(faults.duplicate_ppm),
        reordering: chance(faults.reorder_ppm),
        corruption: chance(faults.corrupt_ppm),
        delay_ns: faults.delay_ns,
        ..FaultPlan::default()
    };
    (plan != FaultPlan::default()).then_some((plan, faults.seed))
}

/// Resources that a rank needs to talk to other nodes.
#[derive(Debug)]
pub struct NetworkResources {
    /// Its sockets: UDP, bound to the addresses that the others know, in order.
    pub sockets: Vec<OwnedFd>,
    /// Descriptors that a driver with more direct access needs besides, as many for each socket;
    /// empty for UDP.
    pub direct: Vec<OwnedFd>,
    /// The key of the job.
    pub key: Secret<[u8; 32]>,
    /// Protection of packets.
    pub security: Security,
    /// Minimum and maximum number of polls of shared memory between two polls of the network.
    pub polling: (u32, u32),
    /// Its other settings.
    pub tuning: NetworkTuning,
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
        peers: Arc<dyn PeerDirectory>,
        endpoints: Box<dyn EndpointTable>,
    ) -> Result<Stack> {
        let Self { sockets, direct, mut key, security, tuning, .. } = self;
        let NetworkTuning { window, faults, control_first, streams, ack_delay } = tuning;
        debug_assert!(peers.find(me).is_none(), "a stack is no peer of itself");
        let shared_out = direct.len().is_multiple_of(sockets.len().max(1));
        debug_assert!(shared_out, "a driver takes as many descriptors with each socket");
        let refused = |why: &dyn std::fmt::Display| Error::Unusable(why.to_string());
        let options = UdpOptions {
            connections: MAX_CONNECTIONS,
            // A packet's wait in a crowded socket buffer is not a delay of the path.
            timestamps: Timestamps::Crowds,
            ..UdpOptions::default()
        };
        let driver = clump_driver::take_all(sockets, direct, options);
        let driver = driver.map_err(|e| refused(&e))?;
        let driver = match faults {
            None => driver,
            Some((plan, seed)) => {
                Box::new(Fault::new(driver, seed ^ u64::from(me) << 32, plan, Clock::Steady))
            }
        };
        let readiness = driver.readiness().filter(|_| window.is_none());
        let network = readiness.zip(streams).and_then(|(fd, stream_use)| {
            Some((TcpStreams::new(driver.local().ip(), fd)?, stream_use))
        });
        let key = JobKey::new(&mut key).map_err(|e| refused(&e))?;
        let congestion = window.map_or(Congestion::Adaptive, Congestion::Static);
        let config = StackConfig {
            me,
            epoch,
            security,
            channel: clump_proto::Config {
                congestion,
                control_first,
                ack_delay: u64::try_from(ack_delay.as_nanos()).unwrap_or(u64::MAX),
                ..clump_proto::Config::default()
            },
            credit_bytes: credit_bytes(node),
            peers,
        };
        let mut stack = Stack::new(config, &key, driver, endpoints).map_err(|e| refused(&e))?;
        if let Some((network, stream_use)) = network {
            stack.set_streams(Box::new(network), &key, stream_use).map_err(|e| refused(&e))?;
        }
        Ok(stack)
    }
}
