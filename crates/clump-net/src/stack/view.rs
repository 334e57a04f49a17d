//! Read access to the state of a stack.

use super::Stack;
use crate::connection::Connection;
use crate::flow::FlowId;
use crate::stats::Stats;
use clump_driver::{Driver, ReceiveFailure};
use clump_proto::Nanos;
use clump_wire::Security;
use clump_wire::frame::Route;
use std::os::fd::BorrowedFd;

/// Bytes of headers before a datagram in its IP packet.
const IPV4_UDP_BYTES: usize = 20 + 8;
const IPV6_UDP_BYTES: usize = 40 + 8;

impl Stack {
    /// Returns the driver, for everything that only it knows.
    pub fn driver(&self) -> &dyn Driver {
        &*self.transmitter.driver
    }

    /// Returns the descriptor that becomes readable when anything arrives; `None` inside one
    /// process.
    pub fn readiness(&self) -> Option<BorrowedFd<'_>> {
        let streams = self.transmitter.streams.as_ref();
        streams.and_then(|streams| streams.readiness()).or_else(|| self.driver().readiness())
    }

    /// Returns the time at which the driver was last polled for packets.
    #[inline]
    pub fn polled_at(&self) -> Nanos {
        self.transmitter.polled_at()
    }

    /// Returns the reason for which this stack receives nothing any more, if that has lasted for a
    /// second.
    pub fn receive_failure(&self) -> Option<ReceiveFailure> {
        self.transmitter.receive_failure()
    }

    /// Returns the counters.
    pub fn stats(&self) -> &Stats {
        &self.transmitter.stats
    }

    /// Returns the protection of packets.
    pub fn security(&self) -> Security {
        self.security
    }

    /// Returns the number that distinguishes packets of this job from those of others; every packet
    /// carries it.
    pub fn job_tag(&self) -> u32 {
        self.job
    }

    /// Returns the peer that a flow leads to.
    pub fn peer_of(&self, flow: FlowId) -> Option<u32> {
        self.flows.get(flow).map(|flow| flow.peer)
    }

    /// Returns the route of messages on a flow that show `tag`; `None` if the flow is not open.
    pub fn route_of(&self, flow: FlowId, tag: u64) -> Option<Route> {
        self.flows.get(flow).map(|flow| flow.route(tag))
    }

    /// Returns the bytes of requests on a flow that are not known to be consumed.
    pub fn outstanding(&self, flow: FlowId) -> u64 {
        self.flows.get(flow).map_or(0, |flow| flow.outstanding())
    }

    /// Returns true if messages wait for an endpoint.
    #[inline]
    pub fn has_queued(&self, index: u8) -> bool {
        self.deliveries.has_queued(index)
    }

    /// Describes the state of every channel, for people.
    pub fn describe(&self) -> String {
        use std::fmt::Write;
        let mut text = String::new();
        for (id, peer) in self.peers.talking() {
            let Some(connection) = peer.connection.as_deref() else { continue };
            let (waiting, stats) = (connection.queue().waiting(), connection.channel().stats());
            let _ = writeln!(text, "to {id}: {waiting} B waiting, {stats:?}");
        }
        text
    }

    /// Returns the bytes kept for peers: in flight, waiting, not whole or in turn yet, and waiting
    /// for endpoints.
    pub fn memory_bytes(&self) -> usize {
        let connections = self.peers.talking().filter_map(|(_, peer)| peer.connection.as_deref());
        connections.map(Connection::memory_bytes).sum::<usize>() + self.deliveries.bytes()
    }

    /// Returns the bytes of buffers and tables that nothing needs at present: they are given back
    /// once their connections are idle.
    pub fn spare_bytes(&self) -> usize {
        self.peers.open_connections().map(|(_, connection)| connection.spare_bytes()).sum()
    }

    /// Returns the time since the last arrival from a connected peer; `None` for any other.
    pub fn silent_for(&self, peer: u32, now: Nanos) -> Option<Nanos> {
        let connection = self.peers.get(peer)?.connection.as_deref()?;
        Some(connection.channel().silent_for(now))
    }

    /// Returns the peer that has not answered for longest, and for how long, among those with data
    /// in flight.
    pub fn unanswered(&self, now: Nanos) -> Option<(u32, Nanos)> {
        let silence = |(peer, connection): (u32, &Connection)| {
            Some((peer, connection.channel().unanswered_for(now)?))
        };
        self.peers.open_connections().filter_map(silence).max_by_key(|&(_, silent_ns)| silent_ns)
    }

    /// Takes a path that was found to carry less than before, reported once: the peer, and the
    /// bytes of the longest IP packet that the path carries now.
    pub fn take_narrowed(&mut self, now: Nanos) -> Option<(u32, u32)> {
        (0..self.peers.connected_count()).find_map(|at| {
            let known = self.peers.connected_mut(at).filter(|known| known.is_open())?;
            let (id, ipv4) = (known.path.peer(), known.path.address.is_ipv4());
            let headers = if ipv4 { IPV4_UDP_BYTES } else { IPV6_UDP_BYTES };
            let bytes = known.connection.as_deref_mut()?.take_narrowed(now)?;
            Some((id, u32::try_from(bytes + headers).unwrap_or(u32::MAX)))
        })
    }

    /// Units that were sent again although they had arrived the first time.
    pub fn spurious(&self) -> u64 {
        let connections = self.peers.talking().filter_map(|(_, peer)| peer.connection.as_deref());
        connections.map(|connection| connection.channel().spurious()).sum()
    }

    /// Returns true if a peer has been given up, or was never known.
    pub fn is_lost(&self, peer: u32) -> bool {
        match self.peers.get(peer) {
            Some(known) => known.lost.is_some(),
            None => !self.peers.is_known(peer),
        }
    }

    /// Returns the number of peers that this stack keeps anything for: those that it has talked to
    /// or lost.
    pub fn peer_count(&self) -> usize {
        self.peers.all().count()
    }

    /// Iterates over the peers that this stack has a connection to and has not lost.
    pub fn talking_to(&self) -> impl Iterator<Item = u32> + '_ {
        self.peers.open_connections().map(|(id, _)| id)
    }

    /// Iterates over the smoothed round-trip times to connected peers, where they are known.
    pub fn round_trips(&self) -> impl Iterator<Item = Nanos> + '_ {
        let connections = self.peers.open_connections();
        connections.map(|(_, connection)| connection.channel().srtt()).filter(|&srtt| srtt != 0)
    }

    /// Returns true if anything waits to be sent for the first time.
    pub fn holds_back(&self) -> bool {
        self.peers.open_connections().any(|(_, connection)| {
            connection.queue().waiting() != 0 || connection.has_unwritten_records()
        })
    }

    /// Returns true if everything sent to all peers has been acknowledged.
    pub fn is_quiet(&self) -> bool {
        self.peers.open_connections().all(|(_, connection)| connection.is_quiet())
    }

    /// Asserts what always holds between calls: for tests and simulations.
    pub fn check_invariants(&self) {
        self.peers.check_invariants();
        self.deliveries.check_invariants();
        self.flows.check_invariants();
        let connections = self.peers.all().filter_map(|(_, peer)| peer.connection.as_deref());
        let listed = connections.filter(|connection| connection.is_listed()).count();
        assert_eq!(listed, self.schedule.len(), "connections know that they are listed");
        for at in 0..self.schedule.len() {
            let peer = self.schedule.get(at).and_then(|id| self.peers.get(id));
            let connection = peer.and_then(|peer| peer.connection.as_deref());
            assert!(connection.is_some_and(Connection::is_listed), "the list is of connections");
        }
    }
}
