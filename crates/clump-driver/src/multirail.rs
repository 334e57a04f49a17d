//! Multirail: several interfaces of this machine as one driver, with one inner driver for each
//! local address.
//!
//! Path `i` leads from the `i`-th local address to the `i`-th of the peer. A peer is named by its
//! first address. Each is sent to by one path at a time, so a channel's datagrams keep their order;
//! other peers prefer other paths. The state of a path follows from authenticated datagrams only
//! ([`Driver::on_authenticated`]): a stranger that forges a peer's address makes no dead path live.
//! [`paths`] decides.

mod rails;

use crate::driver::{Capabilities, Driver, MAX_PATHS, Outgoing, PROBE_KEY_BYTES, PathCounts};
use crate::error::{DriverError, or_received};
use crate::inbound::Inbound;
use crate::peer_paths::PeerPaths;
use crate::watch::watch;
use clump_os::clock;
use rails::Rails;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Number of polls of the path by which datagrams arrive between two polls of the others.
const LOOKS: u32 = 4;
/// Maximum number of datagrams of one run to one destination that are readdressed at once.
const RUN: usize = 64;

/// A driver over several inner drivers.
#[derive(Debug)]
pub struct Multirail<D> {
    /// Inner drivers, by path.
    inner: Vec<D>,
    peers: Vec<Rails>,
    index: HashMap<SocketAddr, usize>,
    /// The peer that was sent to last, and the one that was received from last.
    last: (usize, usize),
    watch: Option<OwnedFd>,
    capabilities: Capabilities,
    counts: PathCounts,
    /// The path by which a datagram arrived last, and the number of polls of it since all were
    /// polled.
    hot: usize,
    looks: u32,
}

impl<D: Driver> Multirail<D> {
    /// Drives `inner`, one for each path. Destinations that are no peers
    /// ([`Driver::add_peer`]) are reached by the first.
    ///
    /// # Errors
    /// Fails if no driver or too many are given, or if the kernel refuses to watch all of them at
    /// once.
    pub fn new(inner: Vec<D>) -> Result<Self, DriverError> {
        if inner.len() > MAX_PATHS {
            return Err(DriverError::Socket("more addresses were given than a driver has paths"));
        }
        let mut capabilities =
            inner.first().ok_or(DriverError::Socket("no path was given"))?.capabilities().clone();
        capabilities.name = format!("{} x {}", inner.len(), capabilities.name);
        capabilities.answerable &= inner.len() == 1;
        for other in inner.iter().map(Driver::capabilities) {
            capabilities.max_datagram = capabilities.max_datagram.min(other.max_datagram);
            capabilities.gso &= other.gso;
            capabilities.gro &= other.gro;
            capabilities.ecn &= other.ecn;
            capabilities.timestamps &= other.timestamps;
            capabilities.receive_buffer = capabilities.receive_buffer.min(other.receive_buffer);
            capabilities.send_buffer = capabilities.send_buffer.min(other.send_buffer);
        }
        let (peers, index) = (Vec::new(), HashMap::new());
        let all: Option<Vec<_>> = inner.iter().map(Driver::readiness).collect();
        let watch = all.map(watch).transpose()?;
        let (counts, hot, looks) = (PathCounts::default(), 0, 0);
        let last = (0, 0);
        Ok(Self { inner, peers, index, last, watch, capabilities, counts, hot, looks })
    }

    /// Returns the inner drivers, by path.
    pub fn inner(&self) -> &[D] {
        &self.inner
    }

    #[inline]
    fn find(&self, name: &SocketAddr, last: usize) -> Option<usize> {
        if self.peers.get(last).is_some_and(|peer| peer.to[0] == *name) {
            return Some(last);
        }
        self.index.get(name).copied()
    }

    /// Sends a run to one destination.
    #[inline]
    fn send_run(&mut self, run: &[Outgoing<'_>]) -> Result<usize, DriverError> {
        let Some(at) = self.find(&run[0].to, self.last.0) else { return self.inner[0].send(run) };
        self.last.0 = at;
        let Self { inner, peers, counts, .. } = self;
        let (peer, now_ns) = (&mut peers[at], clock::ticked_ns());
        let mut path = peer.choose(now_ns);
        let mut result = Ok(0);
        for _ in 0..peer.to.len() {
            let driver = &mut inner[path];
            let before = driver.unreachable();
            result = send_by(driver, peer.to[path], run);
            let refused = matches!(result, Err(DriverError::Send { .. }));
            if !refused && driver.unreachable() == before {
                break;
            }
            if !peer.on_refused(path, now_ns, counts) {
                break;
            }
            path = peer.choose(now_ns);
        }
        let taken = match &result {
            Ok(taken) => *taken,
            Err(e) => e.index().unwrap_or(0),
        };
        counts.sent[path] += taken as u64;
        // A wire that takes nothing and delivers nothing, for long, is dead too: a cable whose
        // other end is off.
        peer.on_sent(path, taken.max(1), now_ns);
        if taken > 0
            && let Some(other) = peer.wants_copy(now_ns)
        {
            // A receiver that gets both sees a duplicate, which does no harm.
            let copied = send_by(&mut inner[other], peer.to[other], &run[..1]);
            counts.sent[other] += u64::from(matches!(copied, Ok(1)));
        }
        result
    }

    /// Receives by one path.
    #[inline]
    fn receive_by(&mut self, path: usize, into: &mut Inbound) -> Result<usize, DriverError> {
        into.set_path(path as u8);
        let received = self.inner[path].receive(into);
        into.set_path(0);
        received
    }
}

/// Sends datagrams to the peer's address on one path.
#[inline]
fn send_by<D: Driver>(
    driver: &mut D,
    to: SocketAddr,
    run: &[Outgoing<'_>],
) -> Result<usize, DriverError> {
    let (name, first) = (run[0].to, Outgoing { to, ..run[0] });
    if name == to {
        return driver.send(run);
    }
    if run.len() == 1 {
        return driver.send(&[first]).map_err(|e| e.about(name));
    }
    let (mut taken, mut moved) = (0, [first; RUN]);
    for some in run.chunks(RUN) {
        for (place, datagram) in moved.iter_mut().zip(some) {
            *place = Outgoing { to, ..*datagram };
        }
        let sent = driver.send(&moved[..some.len()]).map_err(|e| e.behind(taken).about(name))?;
        taken += sent;
        if sent < some.len() {
            break;
        }
    }
    Ok(taken)
}

impl<D: Driver> Driver for Multirail<D> {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn local(&self) -> SocketAddr {
        self.inner[0].local()
    }

    fn send(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, DriverError> {
        let mut taken = 0;
        while let Some(first) = batch.get(taken) {
            let rest = &batch[taken..];
            let run = rest.iter().take_while(|datagram| datagram.to == first.to).count();
            let sent = self.send_run(&rest[..run]).map_err(|e| e.behind(taken))?;
            taken += sent;
            if sent < run {
                break;
            }
        }
        Ok(taken)
    }

    fn receive(&mut self, into: &mut Inbound) -> Result<usize, DriverError> {
        let mut result = self.receive_by(self.hot, into);
        self.looks += 1;
        if self.looks < LOOKS && matches!(result, Ok(1..)) {
            return result;
        }
        self.looks = 0;
        let (count, first) = (self.inner.len(), self.hot);
        for path in (1..count).map(|k| (first + k) % count) {
            // As long as something comes by one path, the others' troubles are no error.
            let more = self.receive_by(path, into);
            if matches!((&result, &more), (Ok(0) | Err(_), Ok(1..))) {
                self.hot = path;
            }
            result = or_received(result, more);
        }
        result
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(AsFd::as_fd)
    }

    fn path_hint(&self, to: SocketAddr) -> Option<usize> {
        let Some(at) = self.find(&to, self.last.0) else { return self.inner[0].path_hint(to) };
        // Any datagram may have to go by another path.
        let all = self.inner.iter().zip(&self.peers[at].to);
        all.filter_map(|(driver, to)| driver.path_hint(*to)).min()
    }

    fn set_probe_key(&mut self, key: &[u8; PROBE_KEY_BYTES]) {
        self.inner.iter_mut().for_each(|driver| driver.set_probe_key(key));
    }

    fn add_peer(&mut self, peer: PeerPaths) {
        let Some(&name) = peer.addresses.first() else { return };
        debug_assert!(!self.index.contains_key(&name), "each peer is added once");
        self.index.insert(name, self.peers.len());
        self.peers.push(Rails::new(peer.addresses, self.inner.len(), peer.preferred));
    }

    #[inline]
    fn on_authenticated(&mut self, peer: SocketAddr, path: u8) {
        if let Some(at) = self.find(&peer, self.last.1) {
            self.last.1 = at;
            self.peers[at].on_heard(usize::from(path), clock::ticked_ns(), &mut self.counts);
        }
    }

    fn unreachable(&self) -> u64 {
        self.inner.iter().map(Driver::unreachable).sum()
    }

    fn overflowed(&self) -> u64 {
        self.inner.iter().map(Driver::overflowed).sum()
    }

    fn paths(&self) -> Option<&PathCounts> {
        Some(&self.counts)
    }
}
