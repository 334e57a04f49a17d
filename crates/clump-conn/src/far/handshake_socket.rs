//! Handshake sockets: a listener answers hellos of clients that have its token.

use super::cookie::{Cookies, LIFE_NS};
use super::half_open::{HalfOpen, HalfOpens};
use super::handshake::{
    BUSY, Hello, KEY_BYTES, NOBODY, PACKET_BYTES, Packet, RETRY, WELCOME, Words,
};
use super::link::{LinkParameters, SERVER, epoch};
use crate::between::Between;
use crate::error::{Error, Result};
use crate::lock::lock;
use crate::port::{Order, Port};
use crate::queue::{Queue, QueueReservation};
use crate::token::SECRET_BYTES;
use clump_os::clock;
use clump_os::secret::Secret;
use clump_os::udp;
use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};

/// Hellos whose answers are kept, to be given again: answers get lost, and hellos are duplicated
/// and replayed.
const MAX_KEPT: usize = 1024;
/// Hellos of one poll.
const MAX_HELLOS: usize = 64;

/// The shared state of the handshake sockets of one token: a client sends hellos to each with one
/// key.
#[derive(Debug)]
pub(crate) struct Invitation {
    pub(crate) port: Port,
    pub(crate) secret: Arc<Secret<[u8; SECRET_BYTES]>>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) between: Between,
    cookies: Mutex<Cookies>,
    /// Clients admitted lately, the oldest first.
    answered: Mutex<VecDeque<Answered>>,
    pub(crate) half_open: Mutex<HalfOpens>,
}

/// A hello whose answer admitted the client.
#[derive(Debug)]
struct Answered {
    hello: Packet,
    answer: Packet,
    /// Address of the handshake socket that gave the answer.
    gate: SocketAddr,
    at_ns: u64,
}

/// One socket of an invitation.
#[derive(Debug)]
pub(crate) struct HandshakeSocket {
    pub(crate) socket: UdpSocket,
    pub(crate) local: SocketAddr,
    pub(crate) invitation: Arc<Invitation>,
}

/// Counts of one poll of a handshake socket.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HelloBatch {
    /// Packets that were not made with the secret.
    pub(crate) foreign: u64,
    /// Hellos made with the secret that found no place.
    pub(crate) refused: u64,
    /// Hellos that were deferred, because other clients are being admitted.
    pub(crate) put_off: u64,
}

impl Invitation {
    /// Makes the invitation of a listener.
    ///
    /// # Errors
    /// There are no random numbers.
    pub(crate) fn new(
        queue: &Arc<Queue>,
        port: Port,
        between: &Between,
        secret: Arc<Secret<[u8; SECRET_BYTES]>>,
    ) -> Result<Self> {
        let none = || Error::Between("no random numbers".into());
        Ok(Self {
            port,
            secret,
            queue: queue.clone(),
            between: between.clone(),
            cookies: Mutex::new(Cookies::new().ok_or_else(none)?),
            answered: Mutex::default(),
            half_open: Mutex::default(),
        })
    }

    /// Forgets state of clients that is too old. Returns the number of handshakes given up since
    /// the last call.
    pub(crate) fn forget_old(&self, now_ns: u64) -> u64 {
        lock(&self.cookies).forget_old(now_ns);
        let mut answered = lock(&self.answered);
        while answered.front().is_some_and(|one| now_ns.saturating_sub(one.at_ns) > LIFE_NS) {
            answered.pop_front();
        }
        if answered.is_empty() {
            *answered = VecDeque::new();
        }
        drop(answered);
        let mut half_open = lock(&self.half_open);
        half_open.forget_old(now_ns);
        std::mem::take(&mut half_open.given_up)
    }

    /// Returns the answer that the handshake socket at `gate` gave to a hello when it admitted the
    /// client.
    fn answered(&self, hello: &[u8], gate: SocketAddr) -> Option<Packet> {
        let answered = lock(&self.answered);
        let mut known = answered.iter().filter(|one| one.gate == gate);
        known.find(|one| one.hello == *hello).map(|one| one.answer)
    }

    /// Returns the numbers of spent cookies and answers that memory is allocated for.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> (usize, usize) {
        (lock(&self.cookies).capacity(), lock(&self.answered).capacity())
    }

    fn keep(&self, answered: Answered) {
        let mut kept = lock(&self.answered);
        if kept.len() >= MAX_KEPT {
            kept.pop_front();
        }
        kept.push_back(answered);
    }
}

impl HandshakeSocket {
    /// Answers hellos. `watch` registers a socket with the poller, and returns its number.
    pub(crate) fn answer(&self, watch: &dyn Fn(&UdpSocket) -> Option<u64>) -> HelloBatch {
        let mut hellos = HelloBatch::default();
        // A longer packet is truncated, and no hello.
        let mut packet = [0; PACKET_BYTES + 1];
        for _ in 0..MAX_HELLOS {
            // An error of an earlier answer does not concern this packet.
            let Ok((bytes, from)) = self.socket.recv_from(&mut packet) else { break };
            let packet = packet.get(..bytes).unwrap_or_default();
            let known = self.invitation.answered(packet, self.local);
            let answer = known.or_else(|| self.receive(packet, from, watch, &mut hellos));
            if let Some(answer) = answer {
                // A client that does not receive it repeats its hello.
                let _ = self.socket.send_to(&answer, from);
            }
        }
        hellos
    }

    fn receive(
        &self,
        packet: &[u8],
        from: SocketAddr,
        watch: &dyn Fn(&UdpSocket) -> Option<u64>,
        hellos: &mut HelloBatch,
    ) -> Option<Packet> {
        let (invitation, now_ns) = (&*self.invitation, clock::now_ns());
        let Ok(hello) = Hello::read(&invitation.secret, packet) else {
            hellos.foreign += 1;
            return None;
        };
        let put_off = |hello: &Hello, verdict| {
            let cookie = lock(&invitation.cookies).issue(hello, (from, self.local), now_ns);
            hello.put_off(&invitation.secret, verdict, cookie)
        };
        let mut cookies = lock(&invitation.cookies);
        let Some(fresh) = cookies.check(&hello, (from, self.local), now_ns) else {
            drop(cookies);
            return put_off(&hello, RETRY);
        };
        // In all cases below, this hello is worthless afterwards.
        cookies.spend(fresh);
        drop(cookies);
        let reservation = match self.reserve(&hello, from, now_ns) {
            Ok(reservation) => reservation,
            Err(BUSY) => {
                hellos.put_off += 1;
                return put_off(&hello, BUSY);
            }
            Err(verdict) => {
                hellos.refused += 1;
                return hello.refuse(&invitation.secret, verdict);
            }
        };
        let Ok((answer, half_open)) = self.welcome(hello, from, reservation, watch, now_ns) else {
            // Without a socket no answer is sent; the client's attempt times out.
            hellos.refused += 1;
            return None;
        };
        let hello = packet.try_into().ok()?;
        lock(&invitation.half_open).enter(half_open);
        invitation.keep(Answered { hello, answer, gate: self.local, at_ns: now_ns });
        Some(answer)
    }

    /// Returns a place for a client: the one that it has from another handshake socket, or a free
    /// one.
    ///
    /// # Errors
    /// The verdict that explains why there is none.
    fn reserve(
        &self,
        hello: &Hello,
        from: SocketAddr,
        now_ns: u64,
    ) -> std::result::Result<Arc<QueueReservation>, u8> {
        if hello.words().port != self.invitation.port.0 {
            return Err(NOBODY);
        }
        let mut half_open = lock(&self.invitation.half_open);
        if let Some(reservation) = half_open.reservation_of(hello.key()) {
            return Ok(reservation);
        }
        half_open.reserve(&self.invitation.queue, from.ip(), now_ns)
    }

    fn welcome(
        &self,
        hello: Hello,
        from: SocketAddr,
        reservation: Arc<QueueReservation>,
        watch: &dyn Fn(&UdpSocket) -> Option<u64>,
        now_ns: u64,
    ) -> Result<(Packet, HalfOpen)> {
        let unusable = |why: &str| Error::Between(why.into());
        let socket = udp::bind(SocketAddr::new(self.local.ip(), 0));
        let socket = UdpSocket::from(socket.map_err(|e| unusable(&e.to_string()))?);
        let port = udp::bound(&socket).ok_or_else(|| unusable("no port for it"))?.port();
        let epoch = epoch()?;
        let (Words { code, epoch: peer_epoch, .. }, client): (_, [u8; KEY_BYTES]) =
            (hello.words(), *hello.key());
        let words = Words { code: WELCOME, epoch, port };
        let foreign_packet = |_| unusable("the hello holds no key");
        let (answer, key) = hello.answer(&self.invitation.secret, words).map_err(foreign_packet)?;
        let number = watch(&socket).ok_or_else(|| unusable("its socket cannot be watched"))?;
        let half_open = HalfOpen {
            number,
            socket,
            terms: LinkParameters { me: SERVER, epoch, peer: from, peer_epoch, key },
            order: Order::of_bit(u64::from(code)),
            reservation,
            client,
            handshake_socket: self.local,
            opened_ns: now_ns,
        };
        Ok((answer, half_open))
    }
}
