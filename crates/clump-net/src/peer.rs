//! Another stack of the job: the path to it, the connection, and its end.

use crate::close_handshake::CloseHandshake;
use crate::connection::{Connection, PacketSink};
use crate::peer_path::PeerPath;
use crate::schedule::Schedule;
use crate::transmitter::Transmitter;
use clump_proto::Nanos;
use clump_wire::Reason;

/// A peer. Its connection is opened on first use.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) path: PeerPath,
    pub(crate) connection: Option<Box<Connection>>,
    pub(crate) lost: Option<Reason>,
    pub(crate) close_handshake: CloseHandshake,
}

impl Peer {
    pub(crate) fn new(path: PeerPath) -> Self {
        debug_assert!(path.header.target != path.header.source, "a stack is no peer of its own");
        Self { path, connection: None, lost: None, close_handshake: CloseHandshake::default() }
    }

    /// Returns true if there is a connection, and the peer is not lost.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.connection.is_some() && self.lost.is_none()
    }

    /// Returns the connection if the peer is not lost.
    #[inline]
    pub(crate) fn open_connection(&self) -> Option<&Connection> {
        self.connection.as_deref().filter(|_| self.lost.is_none())
    }

    /// Returns true if a packet of that number has come before.
    #[inline]
    pub(crate) fn has_received(&self, number: u64) -> bool {
        self.connection.as_deref().is_some_and(|connection| connection.is_replay(number))
    }

    /// Returns true if anything waits to be sent for the first time.
    fn has_waiting(&self) -> bool {
        self.connection.as_deref().is_some_and(|connection| connection.queue().waiting() != 0)
    }

    /// Opens the connection.
    #[cold]
    pub(crate) fn open(
        &mut self,
        now: Nanos,
        config: &clump_proto::Config,
        transmitter: &Transmitter,
    ) {
        debug_assert!(self.connection.is_none(), "packet numbers must not be used again");
        let config = transmitter.channel_config(config, self.path.address);
        self.connection = Some(Box::new(Connection::new(now, &config, &self.path.sealer)));
        debug_assert!(self.is_open() || self.lost.is_some(), "open until the peer is lost");
    }

    /// Returns the connection, and the way of its packets.
    #[inline]
    pub(crate) fn split<'a>(
        &'a mut self,
        transmitter: &'a mut Transmitter,
        schedule: &'a mut Schedule,
    ) -> Option<(&'a mut Connection, PacketSink<'a>)> {
        debug_assert!(self.lost.is_none() || !self.has_waiting(), "nothing waits for a lost peer");
        let sink = PacketSink { path: &self.path, transmitter, schedule };
        self.connection.as_deref_mut().map(|connection| (connection, sink))
    }
}
