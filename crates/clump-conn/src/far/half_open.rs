//! Handshakes that were answered, and whose first packet has not come: a socket and a key each, no
//! stack.
//!
//! Each holds a place in the queue of its listener, so a token holder that never completes could
//! keep the others out. Three rules bound that:
//!
//! 1. A source (an address of IPv4, a /64 of IPv6) gets a place only while it holds fewer than are
//!    free: one takes half of them at most, and the next always finds some (dynamic thresholds:
//!    Choudhury and Hahne, 1998).
//! 2. Otherwise its oldest handshake is given up, or if it has none, the oldest of the source with
//!    the most; but none younger than [`GRACE_NS`], so that a client that is completing completes.
//! 3. Otherwise the client is sent a cookie, to come again. It is refused only when all places are
//!    taken by connections that wait to be accepted.

use super::handshake::{BUSY, FULL, KEY_BYTES, NOBODY};
use super::link;
use super::link::{FarLink, LinkParameters, SERVER};
use crate::between::Between;
use crate::line::ConnectionLine;
use crate::port::Order;
use crate::queue::{Queue, QueueReservation, Queued};
use clump_os::alarm::Alarm;
use clump_wire::Packet;
use clump_wire::Security;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

/// Time for which a handshake keeps its place though others want it.
pub(crate) const GRACE_NS: u64 = 100_000_000;
/// Maximum time from the answer to the first packet.
pub(crate) const LIMIT_NS: u64 = 5_000_000_000;
/// Packets of one check.
const MAX_LOOK: usize = 16;
/// Bytes of the longest datagram.
const DATAGRAM_BYTES: usize = 1 << 16;

/// A handshake that was answered.
#[derive(Debug)]
pub(crate) struct HalfOpen {
    /// The token under which its socket is watched.
    pub(crate) number: u64,
    pub(crate) socket: UdpSocket,
    pub(crate) terms: LinkParameters,
    pub(crate) order: Order,
    pub(crate) reservation: Arc<QueueReservation>,
    /// The client's key, which identifies the handshake.
    pub(crate) client: [u8; KEY_BYTES],
    /// The handshake socket that answered.
    pub(crate) handshake_socket: SocketAddr,
    pub(crate) opened_ns: u64,
}

impl HalfOpen {
    /// Returns true if a packet waits that only the client can have made. Other packets are
    /// dropped.
    pub(crate) fn has_client_packet(&self, security: Security) -> bool {
        let LinkParameters { me, epoch, peer_epoch, ref key, .. } = self.terms;
        debug_assert_eq!(me, SERVER);
        let Ok(opener) = key.opener(security, link::CLIENT, peer_epoch, me) else { return false };
        let mut datagram = vec![0; DATAGRAM_BYTES];
        for _ in 0..MAX_LOOK {
            let Ok((bytes, _)) = self.socket.peek_from(&mut datagram) else { return false };
            let datagram = datagram.get_mut(..bytes).unwrap_or_default();
            let opened = Packet::parse(datagram).ok().and_then(|Packet { header, sealed_at }| {
                let is_for_this = header.job == key.job_tag()
                    && (header.source, header.epoch) == (link::CLIENT, peer_epoch)
                    && (header.target, header.target_epoch) == (me, epoch);
                is_for_this.then(|| opener.open_whole(header.number, datagram, sealed_at))?
            });
            if opened.is_some() {
                return true;
            }
            let _ = self.socket.recv_from(&mut []);
        }
        false
    }

    /// Opens the connection, which finds the packet that authenticated the client.
    pub(crate) fn open(
        self,
        between: &Between,
        alarm: &Arc<Alarm>,
    ) -> crate::error::Result<(Arc<FarLink>, Arc<QueueReservation>)> {
        let line = Arc::new(ConnectionLine::new(self.order, 0));
        let link = FarLink::open(self.socket.into(), &self.terms, between, line, alarm.clone())?;
        Ok((Arc::new(link), self.reservation))
    }
}

/// The half-open handshakes of one invitation, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct HalfOpens {
    all: Vec<HalfOpen>,
    /// Number of handshakes given up: they timed out, or their place went to others.
    pub(crate) given_up: u64,
}

/// Returns the source that an address counts as.
fn source(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        // One holder of a network has all addresses of its last 64 bits.
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into(),
        v4 => v4,
    }
}

impl HalfOpens {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the place of a client that came by another handshake socket already, and has not
    /// sent its first packet.
    pub(crate) fn reservation_of(&self, client: &[u8; KEY_BYTES]) -> Option<Arc<QueueReservation>> {
        let known =
            self.all.iter().find(|one| one.client == *client && !one.reservation.is_taken());
        known.map(|one| one.reservation.clone())
    }

    /// Returns a place for a client from `ip`.
    ///
    /// # Errors
    /// The verdict that explains why there is none.
    pub(crate) fn reserve(
        &mut self,
        queue: &Arc<Queue>,
        ip: IpAddr,
        now_ns: u64,
    ) -> Result<Arc<QueueReservation>, u8> {
        self.forget_old(now_ns);
        let free = match queue.free() {
            Ok(free) => free,
            Err(Queued::Full) => return Err(FULL),
            Err(_) => return Err(NOBODY),
        };
        let mut held: HashMap<IpAddr, usize> = HashMap::new();
        for one in &self.all {
            *held.entry(source(one.terms.peer.ip())).or_default() += 1;
        }
        let own = held.get(&source(ip)).copied().unwrap_or(0);
        if own >= free {
            let most = held.iter().max_by_key(|(_, count)| **count).map(|(source, _)| *source);
            let loser = if own > 0 { Some(source(ip)) } else { most }.ok_or(BUSY)?;
            let oldest = self.all.iter().position(|one| source(one.terms.peer.ip()) == loser);
            let old = |at: &usize| now_ns.saturating_sub(self.all[*at].opened_ns) >= GRACE_NS;
            let oldest = oldest.filter(old).ok_or(BUSY)?;
            drop(self.all.remove(oldest));
            self.given_up += 1;
        }
        // Another handshake of the client that was given up may still hold its place.
        queue.reserve().map_err(|_| BUSY)
    }

    /// Enters a handshake. It replaces an older one of the same client at the same handshake
    /// socket.
    pub(crate) fn enter(&mut self, half_open: HalfOpen) {
        self.all.retain(|one| {
            (one.client, one.handshake_socket) != (half_open.client, half_open.handshake_socket)
        });
        self.all.push(half_open);
    }

    /// Takes out the one that is watched under `number`, if its client has sent its first packet.
    pub(crate) fn take_arrived(&mut self, number: u64, security: Security) -> Option<HalfOpen> {
        let at = self.all.iter().position(|one| one.number == number)?;
        self.all[at].has_client_packet(security).then(|| self.all.remove(at))
    }

    /// Gives up handshakes that took too long, and removes those whose clients came by another
    /// handshake socket.
    pub(crate) fn forget_old(&mut self, now_ns: u64) {
        let before = self.all.len();
        self.all.retain(|one| !one.reservation.is_taken());
        let waiting = self.all.len();
        self.all.retain(|one| now_ns.saturating_sub(one.opened_ns) < LIMIT_NS);
        self.given_up += (waiting - self.all.len()) as u64;
        if self.all.is_empty() && before > 0 {
            self.all = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests;
