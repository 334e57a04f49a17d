//! The path to a peer: address, identity and keys.

use crate::seal::{Opener, Sealer};
use clump_wire::{Header, Packet};
use std::net::SocketAddr;

/// Constants of the path to a peer.
#[derive(Debug)]
pub(crate) struct PeerPath {
    pub(crate) address: SocketAddr,
    /// The header of every packet to the peer, without the fields that its channel fills in.
    pub(crate) header: Header,
    pub(crate) sealer: Sealer,
    pub(crate) opener: Opener,
}

impl PeerPath {
    /// Returns the peer's number.
    #[inline]
    pub(crate) fn peer(&self) -> u32 {
        self.header.target
    }

    /// Returns true if the header of an arrived packet names this path in the other direction.
    #[inline]
    pub(crate) fn matches(&self, header: &Header) -> bool {
        Self::match_each_other(&self.header, header)
    }

    /// Returns true if a packet with one of these headers answers packets with the other.
    #[inline]
    pub(crate) fn match_each_other(own: &Header, header: &Header) -> bool {
        header.job == own.job
            && header.target == own.source
            && header.target_epoch == own.epoch
            && header.epoch == own.target_epoch
    }

    /// Returns true if the peer has sent this packet.
    #[cold]
    pub(crate) fn authenticates(&self, packet: &Packet, datagram: &mut [u8]) -> bool {
        debug_assert!(packet.sealed_at <= datagram.len(), "parsed from this datagram");
        let (head, sealed) = datagram.split_at_mut(packet.sealed_at);
        self.opener.open(packet.header.number, head, sealed).is_some()
    }
}
