//! The way of one peer's packets: its path, and what all peers share.

use crate::peer_path::PeerPath;
use crate::schedule::Schedule;
use crate::transmitter::Transmitter;

/// Everything needed to send to one peer.
pub(crate) struct PacketSink<'a> {
    pub(crate) path: &'a PeerPath,
    pub(crate) transmitter: &'a mut Transmitter,
    pub(crate) schedule: &'a mut Schedule,
}
