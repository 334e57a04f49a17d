//! The peers that a stack communicates with, by their numbers.

use crate::connection::{Connection, PacketSink};
use crate::peer::Peer;
use crate::peer_maker::PeerMaker;
use crate::schedule::Schedule;
use crate::transmitter::Transmitter;
use clump_proto::Nanos;
use clump_wire::Header;
use clump_wire::Reason;

/// Bytes of buffers kept for reuse beyond those in flight, unless the program sets another value
/// (ADR 22).
const SPARE: usize = 8 << 20;
/// Least window that a peer is given, however many there are.
const MIN_WINDOW: usize = 16 << 10;

/// Peers that neighbouring numbers share a page of the table.
const PAGE_PEERS: usize = 64;

/// Peers of consecutive numbers.
type Page = [Option<Box<Peer>>; PAGE_PEERS];

/// The peers that this stack has talked to, or lost.
#[derive(Debug)]
pub(crate) struct PeerTable {
    /// Pages by number, as far as there are peers.
    pages: Vec<Option<Box<Page>>>,
    /// Makes the others when they are first talked to.
    maker: PeerMaker,
    /// Peers that there is a connection to.
    talking: Vec<u32>,
    /// Configuration of each channel.
    channel: clump_proto::Config,
    /// Bytes of buffers kept beyond those in flight.
    spare: usize,
}

/// Returns the page of a peer, and its place there.
#[inline]
fn place_of(id: u32) -> (usize, usize) {
    (id as usize / PAGE_PEERS, id as usize % PAGE_PEERS)
}

impl PeerTable {
    pub(crate) fn new(channel: clump_proto::Config, maker: PeerMaker) -> Self {
        Self { pages: Vec::new(), maker, talking: Vec::new(), channel, spare: SPARE }
    }

    /// Adds a peer.
    fn insert(&mut self, peer: Box<Peer>) {
        let id = peer.path.peer();
        let (page, at) = place_of(id);
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || None);
        }
        if let Some(page) = self.pages.get_mut(page) {
            let page = page.get_or_insert_with(|| Box::new([const { None }; PAGE_PEERS]));
            if let Some(place) = page.get_mut(at) {
                debug_assert!(place.is_none(), "each peer is made once");
                *place = Some(peer);
            }
        }
        debug_assert!(self.get(id).is_some(), "it is known by its number");
    }

    /// Returns a peer that was talked to, or lost.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<&Peer> {
        let (page, at) = place_of(id);
        self.pages.get(page)?.as_ref()?.get(at)?.as_deref()
    }

    /// Returns a peer that was talked to, or lost, mutably.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Peer> {
        let (page, at) = place_of(id);
        self.pages.get_mut(page)?.as_mut()?.get_mut(at)?.as_deref_mut()
    }

    /// Returns true if there is a peer of that number, talked to or not.
    pub(crate) fn is_known(&self, id: u32) -> bool {
        self.maker.find(id).is_some()
    }

    /// Returns a peer, made now unless it was; `None` if there is no such peer.
    #[cold]
    pub(crate) fn introduced(
        &mut self,
        id: u32,
        transmitter: &mut Transmitter,
    ) -> Option<&mut Peer> {
        if self.get(id).is_none() {
            let peer = self.maker.find(id)?;
            let made = self.maker.make(peer).ok()?;
            if transmitter.has_many_paths()
                && let Some(paths) = self.maker.directory().paths(id)
            {
                transmitter.driver.add_peer(paths);
            }
            self.insert(made);
        }
        self.get_mut(id)
    }

    /// Returns a peer that accepts messages, with its connection opened on first use.
    ///
    /// # Errors
    /// There is no such peer, or no memory for its keys, or it is lost.
    #[inline]
    fn connected(
        &mut self,
        now: impl Fn() -> Nanos,
        id: u32,
        transmitter: &mut Transmitter,
    ) -> Result<&mut Peer, Reason> {
        let known = self.get(id);
        if let Some(refusal) = known.and_then(|known| known.lost) {
            return Err(refusal);
        }
        if known.is_none_or(|known| known.connection.is_none()) {
            self.open(now(), id, transmitter)?;
        }
        debug_assert!(self.get(id).is_some_and(Peer::is_open), "it is connected");
        self.get_mut(id).ok_or(Reason::NoSuchEndpoint)
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
    ) -> Result<(&'a mut Connection, PacketSink<'a>), Reason> {
        let split = self.connected(now, id, transmitter)?.split(transmitter, schedule);
        debug_assert!(split.is_some(), "the connection is open");
        split.ok_or(Reason::NoSuchEndpoint)
    }

    /// Opens the connection to a peer, which gets its share of buffers.
    ///
    /// # Errors
    /// There is no such peer, or no memory for its keys.
    #[cold]
    pub(crate) fn open(
        &mut self,
        now: Nanos,
        id: u32,
        transmitter: &mut Transmitter,
    ) -> Result<(), Reason> {
        debug_assert!(!self.talking.contains(&id), "opened once");
        self.introduced(id, transmitter).ok_or(Reason::NoSuchEndpoint)?;
        let channel = self.channel.clone();
        let peer = self.get_mut(id).ok_or(Reason::NoSuchEndpoint)?;
        peer.open(now, &channel, transmitter);
        debug_assert!(peer.connection.is_some(), "and it is open");
        self.talking.push(id);
        self.share(transmitter);
        Ok(())
    }

    /// Returns the peer that a packet with this header names. One that was not talked to yet stays
    /// only if it is opened.
    #[inline]
    pub(crate) fn source_of(&mut self, header: &Header) -> Option<&mut Peer> {
        if self.get(header.source).is_none() {
            return self.maker.candidate(header);
        }
        self.get_mut(header.source)
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
        for at in 0..self.talking.len() {
            let connection = self.connected_mut(at).and_then(|peer| peer.connection.as_mut());
            debug_assert!(connection.is_some(), "only connections are listed");
            if let Some(connection) = connection {
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

    /// Iterates over all peers that are kept, with their numbers.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, &Peer)> + '_ {
        let peers = self.pages.iter().flatten().flat_map(|page| page.iter().flatten());
        peers.map(|peer| (peer.path.peer(), &**peer))
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
            let found = self.get(id).is_some_and(|found| std::ptr::eq(found, peer));
            assert!(found, "peers lie at their numbers");
            let lists = self.talking.iter().filter(|listed| **listed == id).count();
            assert!(lists <= 1, "a peer is listed once");
            if let Some(connection) = peer.connection.as_deref() {
                connection.check_invariants(peer.lost.is_some());
            }
        }
    }
}
