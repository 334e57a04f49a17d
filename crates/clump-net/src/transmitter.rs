//! The way of all packets of a stack: its driver, the packets about to be sent, the counters.

use crate::burst::Burst;
use crate::stats::Stats;
use crate::stream_port::StreamPort;
use clump_driver::{Driver, DriverError, Inbound, ReceiveFailure, ReceiveFailures};
use clump_proto::Nanos;
use std::net::SocketAddr;

/// Length of a datagram that nearly every path carries, and therefore the first length used: 1500
/// bytes less IPv4 and UDP headers. The channel's base is the length that every path carries.
const USUAL_DATAGRAM: usize = 1472;

/// The driver of a stack and what is shared by all packets through it.
pub(crate) struct Transmitter {
    pub(crate) driver: Box<dyn Driver>,
    pub(crate) burst: Burst,
    pub(crate) stats: Stats,
    /// Makes streams beside the datagrams, where there are any.
    pub(crate) streams: Option<StreamPort>,
    failures: ReceiveFailures,
    /// The driver has several paths, and needs to know what is authentic.
    many_paths: bool,
    /// Time at which the driver was last polled for packets.
    polled_at: Nanos,
    /// Time until which the owner waited for packets: none lay in the socket before.
    watched_until: Nanos,
}

impl Transmitter {
    pub(crate) fn new(driver: Box<dyn Driver>) -> Self {
        Self {
            many_paths: driver.paths().is_some(),
            driver,
            burst: Burst::default(),
            stats: Stats::default(),
            streams: None,
            failures: ReceiveFailures::default(),
            polled_at: 0,
            watched_until: 0,
        }
    }

    /// Returns the time at which the driver was last polled for packets.
    #[inline]
    pub(crate) fn polled_at(&self) -> Nanos {
        self.polled_at
    }

    /// Returns true if the driver has several paths, and needs to know what is authentic.
    #[inline]
    pub(crate) fn has_many_paths(&self) -> bool {
        self.many_paths
    }

    /// Notes that the owner waited until now for a packet to arrive.
    pub(crate) fn note_watched(&mut self, now: Nanos) {
        self.watched_until = now;
    }

    /// Receives available packets once; returns their number, the time after the call, and the
    /// time for which they may have waited.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        now: impl Fn() -> Nanos,
        inbound: &mut Inbound,
    ) -> (usize, Nanos, Nanos) {
        let result = self.driver.receive(inbound);
        let now = now();
        let received = result.unwrap_or_else(|e| {
            self.on_receive_failed(now, &e);
            0
        });
        // A packet has lain in the socket since the poll before at most.
        let unseen = now.saturating_sub(self.polled_at.max(self.watched_until));
        debug_assert!(received <= inbound.len(), "what came lies in the batch");
        self.polled_at = now;
        (received, now, unseen)
    }

    /// Notes that the driver did not receive: it will be asked again, and what is missing will be
    /// sent again. A call that never works is kept for the explanation why a job does not go on.
    #[cold]
    fn on_receive_failed(&mut self, now: Nanos, error: &DriverError) {
        self.stats.receives_failed += 1;
        if let DriverError::Receive(failure) = error {
            self.failures.on_failure(now, self.stats.packets_received, *failure);
        }
    }

    /// Returns the reason for which nothing is received any more, if that has lasted for a second.
    pub(crate) fn receive_failure(&self) -> Option<ReceiveFailure> {
        self.failures.lasting()
    }

    /// Returns the configuration of a channel over the path to `to`.
    pub(crate) fn channel_config(
        &self,
        common: &clump_proto::Config,
        to: SocketAddr,
    ) -> clump_proto::Config {
        let hint = self.driver.path_hint(to).unwrap_or(USUAL_DATAGRAM);
        let most = hint.min(self.driver.capabilities().max_datagram);
        let mut config = common.clone();
        config.base_datagram_bytes = most.min(config.base_datagram_bytes);
        config.first_datagram_bytes = most.min(USUAL_DATAGRAM);
        // An interface that carries less than usual now may carry more later; until then it refuses
        // such probes.
        let reach = most.max(USUAL_DATAGRAM);
        config.datagram_candidates.retain(|&bytes| bytes <= reach && bytes != most);
        let longer = config.datagram_candidates.partition_point(|&bytes| bytes < most);
        config.datagram_candidates.insert(longer, most);
        debug_assert!(config.datagram_candidates.is_sorted(), "candidates are tried in order");
        debug_assert!(config.first_datagram_bytes <= most, "the interface carries the first");
        debug_assert!(config.base_datagram_bytes <= most, "and the fallback");
        debug_assert!(config.datagram_candidates.contains(&most), "its longest is tried");
        config
    }
}
