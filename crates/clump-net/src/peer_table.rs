//! The peers of a stack by their numbers, and those that it communicates with.

use crate::connection::{Connection, PacketSink};
use crate::endpoint_table::Refusal;
use crate::peer::Peer;
use crate::schedule::Schedule;
use crate::transmitter::Transmitter;
use clump_proto::Nanos;

/// Bytes of buffers kept for reuse beyond those in flight, unless the program sets another value
/// (ADR 22).
const SPARE: usize = 8 << 20;
/// Least window that a peer is given, however many there are.
const MIN_WINDOW: usize = 16 << 10;

/// All peers.
#[derive(Debug)]
pub(crate) struct PeerTable {
    peers: Vec<Option<Peer>>,
    /// Peers that there is a connection to.
    talking: Vec<u32>,
    /// Configuration of each channel.
    channel: clump_proto::Config,
    /// Bytes of buffers kept beyond those in flight.
    spare: usize,
}

impl PeerTable {
    pub(crate) fn new(channel: clump_proto::Config) -> Self {
        Self { peers: Vec::new(), talking: Vec::new(), channel, spare: SPARE }
    }

    /// Adds a peer.
    pub(crate) fn insert(&mut self, peer: Peer) {
        let at = peer.path.peer() as usize;
        if self.peers.len() <= at {
            self.peers.resize_with(at + 1, || None);
        }
        if let Some(place) = self.peers.get_mut(at) {
            debug_assert!(place.is_none(), "each peer is configured once");
            *place = Some(peer);
        }
        debug_assert!(self.get(at as u32).is_some(), "it is known by its number");
    }

    /// Returns a peer.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<&Peer> {
        self.peers.get(id as usize)?.as_ref()
    }

    /// Returns a peer, mutably.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Peer> {
        self.peers.get_mut(id as usize)?.as_mut()
    }

    /// Returns a peer that accepts messages, with its connection opened on first use.
    ///
    /// # Errors
    /// There is no such peer, or it is lost.
    #[inline]
    fn connected(
        &mut self,
        now: impl Fn() -> Nanos,
        id: u32,
        transmitter: &Transmitter,
    ) -> Result<&mut Peer, Refusal> {
        let known = self.get(id).ok_or(Refusal::NoSuchEndpoint)?;
        if let Some(refusal) = known.lost {
            return Err(refusal);
        }
        if known.connection.is_none() {
            self.open(now(), id, transmitter);
        }
        debug_assert!(self.get(id).is_some_and(Peer::is_open), "it is connected");
        self.get_mut(id).ok_or(Refusal::NoSuchEndpoint)
    }

    /// Returns the connection to a peer that accepts messages, opened on first use, and the way of
    /// its packets.
    ///
    /// # Errors
    /// There is no such peer, or it is lost.
    #[inline]
    pub(crate) fn connect<'a>(
        &'a mut self,
        now: impl Fn() -> Nanos,
        id: u32,
        transmitter: &'a mut Transmitter,
        schedule: &'a mut Schedule,
    ) -> Result<(&'a mut Connection, PacketSink<'a>), Refusal> {
        let split = self.connected(now, id, transmitter)?.split(transmitter, schedule);
        debug_assert!(split.is_some(), "the connection is open");
        split.ok_or(Refusal::NoSuchEndpoint)
    }

    #[cold]
    fn open(&mut self, now: Nanos, id: u32, transmitter: &Transmitter) {
        let Self { peers, channel, .. } = self;
        let Some(Some(peer)) = peers.get_mut(id as usize) else {
            debug_assert!(false, "the caller has found it");
            return;
        };
        peer.open(now, channel, transmitter);
        self.on_opened(id, transmitter);
    }

    /// Opens the connection to a peer that a packet came from, unless it is open. Returns true if
    /// it was not: [`PeerTable::on_opened`] is to be called.
    #[inline]
    pub(crate) fn ensure_open(
        channel: &clump_proto::Config,
        peer: &mut Peer,
        now: Nanos,
        transmitter: &Transmitter,
    ) -> bool {
        let opens = peer.connection.is_none();
        if opens {
            peer.open(now, channel, transmitter);
        }
        debug_assert!(peer.connection.is_some());
        opens
    }

    /// Notes that there is a connection to a peer now: it gets its share of buffers.
    #[cold]
    pub(crate) fn on_opened(&mut self, id: u32, transmitter: &Transmitter) {
        debug_assert!(!self.talking.contains(&id), "opened once");
        debug_assert!(self.get(id).is_some_and(|peer| peer.connection.is_some()), "and it is");
        self.talking.push(id);
        self.share(transmitter);
    }

    /// Returns the peer to be found under `id`, and the configuration of channels.
    #[inline]
    pub(crate) fn source_of(&mut self, id: u32) -> Option<(&mut Peer, &clump_proto::Config)> {
        let peer = self.peers.get_mut(id as usize)?.as_mut()?;
        Some((peer, &self.channel))
    }

    /// Sets the bytes of buffers kept for reuse, for all peers together.
    pub(crate) fn set_spare(&mut self, bytes: usize, transmitter: &Transmitter) {
        self.spare = bytes;
        self.share(transmitter);
    }

    /// Shares the socket's receive buffer among all channels, so that eight senders at once do not
    /// overrun it, and likewise the buffers kept for reuse.
    fn share(&mut self, transmitter: &Transmitter) {
        let connections = self.talking.len().max(1);
        let buffer = transmitter.driver.capabilities().receive_buffer / 2 / connections;
        let spare = self.spare / connections;
        let window = u32::try_from(buffer.max(MIN_WINDOW)).unwrap_or(u32::MAX);
        debug_assert!(window >= MIN_WINDOW as u32, "no peer is shut out");
        for peer in self.peers.iter_mut().flatten() {
            if let Some(connection) = &mut peer.connection {
                connection.set_shares(window, spare);
            }
        }
    }

    /// Returns the number of peers that there is a connection to.
    #[inline]
    pub(crate) fn connected_count(&self) -> usize {
        self.talking.len()
    }

    /// Returns the `at`-th peer that there is a connection to.
    #[inline]
    pub(crate) fn connected_mut(&mut self, at: usize) -> Option<&mut Peer> {
        let id = *self.talking.get(at)?;
        let peer = self.get_mut(id);
        debug_assert!(peer.as_ref().is_some_and(|peer| peer.connection.is_some()), "connected");
        peer
    }

    /// Iterates over all peers with their numbers.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, &Peer)> + '_ {
        (0..).zip(&self.peers).filter_map(|(id, peer)| Some((id, peer.as_ref()?)))
    }

    /// Iterates over all peers, mutably.
    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Peer> + '_ {
        self.peers.iter_mut().flatten()
    }

    /// Iterates over the peers that there was ever a connection to.
    pub(crate) fn talking(&self) -> impl Iterator<Item = (u32, &Peer)> + '_ {
        self.talking.iter().filter_map(|&id| Some((id, self.get(id)?)))
    }

    /// Iterates over the connections to peers that are not lost.
    pub(crate) fn open_connections(&self) -> impl Iterator<Item = (u32, &Connection)> + '_ {
        self.talking().filter_map(|(id, peer)| Some((id, peer.open_connection()?)))
    }

    /// Asserts what always holds between calls.
    pub(crate) fn check_invariants(&self) {
        let connected = self.all().filter(|(_, peer)| peer.connection.is_some()).count();
        assert_eq!(connected, self.talking.len(), "every connection is listed");
        let listed = self.talking().filter(|(_, peer)| peer.connection.is_some()).count();
        assert_eq!(listed, connected, "only connections are listed");
        for (id, peer) in self.all() {
            assert_eq!(peer.path.peer(), id, "peers lie at their numbers");
            let lists = self.talking.iter().filter(|listed| **listed == id).count();
            assert!(lists <= 1, "a peer is listed once");
            if let Some(connection) = peer.connection.as_deref() {
                connection.check_invariants(peer.lost.is_some());
            }
        }
    }
}
