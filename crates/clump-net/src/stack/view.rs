//! Read access to the state of a stack.

use super::{Nanos, PeerConnection, Stack};
use crate::flow::FlowId;
use crate::stats::Stats;
use clump_wire::Security;

/// Bytes of headers before a datagram in its IP packet.
const IPV4_UDP_BYTES: usize = 20 + 8;
const IPV6_UDP_BYTES: usize = 40 + 8;

impl Stack {
    /// Returns the counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Returns the protection of packets.
    pub fn security(&self) -> Security {
        self.config.security
    }

    /// Returns the peer that a flow leads to.
    pub fn peer_of(&self, flow: FlowId) -> Option<u32> {
        self.flows.get(flow).map(|flow| flow.peer)
    }

    /// Returns the bytes of requests on a flow that are not known to be consumed.
    pub fn outstanding(&self, flow: FlowId) -> u64 {
        self.flows.get(flow).map_or(0, |flow| flow.outstanding())
    }

    /// Returns true if messages wait for an endpoint.
    #[inline]
    pub fn has_queued(&self, index: u8) -> bool {
        self.queued.get(usize::from(index)).is_some_and(|queued| !queued.is_empty())
    }

    /// Describes the state of every channel, for people.
    pub fn describe(&self) -> String {
        use std::fmt::Write;
        let mut text = String::new();
        for (id, peer) in self.peers.iter().enumerate() {
            let Some(connection) = peer.as_ref().and_then(|peer| peer.connection.as_deref()) else {
                continue;
            };
            let waiting = connection.outbox.waiting();
            let stats = connection.channel.stats();
            let _ = writeln!(text, "to {id}: {waiting} B waiting, {stats:?}");
        }
        text
    }

    /// Returns the bytes kept for peers: in flight, waiting, not whole or in turn yet, and waiting
    /// for endpoints.
    pub fn memory_bytes(&self) -> usize {
        let connections = self.peers.iter().flatten().filter_map(|peer| peer.connection.as_deref());
        let kept = connections.map(|connection| {
            let whole = connection.order_in.bytes() + connection.assembly.bytes();
            connection.outbox.bytes() + whole + connection.unit_fragments.bytes()
        });
        kept.sum::<usize>()
            + self.queued.iter().flatten().map(crate::QueuedMessage::bytes).sum::<usize>()
    }

    /// Returns the number by which packets of this job are told from those of others; every packet
    /// carries it.
    pub fn job_tag(&self) -> u32 {
        self.job
    }

    /// Returns the time since the last arrival from a connected peer; `None` for any other.
    pub fn silent_for(&self, peer: u32, now: Nanos) -> Option<Nanos> {
        let known = self.peers.get(peer as usize)?.as_ref()?;
        known.connection.as_deref().map(|connection| connection.channel.silent_for(now))
    }

    /// Returns the peer that has not answered for longest, and for how long, among those with data
    /// in flight.
    pub fn unanswered(&self, now: Nanos) -> Option<(u32, Nanos)> {
        let silence = |(peer, connection): (u32, &PeerConnection)| {
            Some((peer, connection.channel.unanswered_for(now)?))
        };
        self.open_connections().filter_map(silence).max_by_key(|&(_, silent_ns)| silent_ns)
    }

    /// Takes a path that was found to carry less than before, reported once: the peer, and the
    /// bytes of the longest IP packet that the path carries now.
    pub fn take_narrowed(&mut self, now: Nanos) -> Option<(u32, u32)> {
        let Self { talking, peers, .. } = self;
        talking.iter().find_map(|&id| {
            let known = peers.get_mut(id as usize)?.as_mut().filter(|known| known.is_open())?;
            let headers = if known.address.is_ipv4() { IPV4_UDP_BYTES } else { IPV6_UDP_BYTES };
            let connection =
                known.connection.as_deref_mut().filter(|connection| !connection.told_narrow)?;
            let bytes = connection.channel.narrowed(now)?;
            connection.told_narrow = true;
            Some((id, u32::try_from(bytes + headers).unwrap_or(u32::MAX)))
        })
    }

    /// Units that were sent again although they had arrived the first time.
    pub fn spurious(&self) -> u64 {
        let connections = self.peers.iter().flatten().filter_map(|peer| peer.connection.as_deref());
        connections.map(|connection| connection.channel.spurious()).sum()
    }

    /// Returns true if a peer has been given up.
    pub fn is_lost(&self, peer: u32) -> bool {
        self.lost(peer).is_some()
    }

    /// Iterates over the peers that this stack has a connection to and has not lost.
    pub fn talking_to(&self) -> impl Iterator<Item = u32> + '_ {
        self.open_connections().map(|(id, _)| id)
    }

    /// Iterates over the connections to these peers.
    pub(super) fn open_connections(&self) -> impl Iterator<Item = (u32, &PeerConnection)> + '_ {
        self.talking.iter().filter_map(|&id| {
            let known = self.peers.get(id as usize)?.as_ref().filter(|known| known.is_open())?;
            Some((id, known.connection.as_deref()?))
        })
    }

    /// Returns true if anything waits to be sent for the first time.
    pub fn holds_back(&self) -> bool {
        self.open_connections().any(|(_, connection)| connection.outbox.has_waiting())
    }

    /// Returns true if everything sent to all peers has been acknowledged.
    pub fn is_quiet(&self) -> bool {
        let quiet = |connection: &PeerConnection| {
            connection.channel.is_quiet() && !connection.outbox.has_waiting()
        };
        self.open_connections().all(|(_, connection)| quiet(connection))
    }
}
