//! Connecting to another job: sends hellos until an answer comes.

use super::handshake::{BUSY, FULL, Handshake, PACKET_BYTES, Told, Words};
use super::link::{CLIENT, FarLink, LinkParameters, epoch};
use crate::between::Between;
use crate::connection::{CONNECT_LIMIT, Connection};
use crate::deadline::after;
use crate::error::{ConnectTarget, Error, Refusal, Result};
use crate::hub::Hub;
use crate::line::ConnectionLine;
use crate::port::Order;
use crate::route::ConnectionRoute;
use crate::token::Token;
use crate::wait::wait;
use clump_am::AsContext;
use clump_net::seal::JobKey;
use clump_os::{clock, udp};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

/// Interval between two hellos.
const AGAIN_NS: u64 = 20_000_000;

impl Connection {
    /// Connects to the listener of another job that gave the token. It need not have accepted when
    /// this returns; messages sent before wait for that.
    ///
    /// # Errors
    /// Its queue is full, or no answer comes within 10 s: the listener is gone, or the token is
    /// another's.
    pub fn connect_to(rank: &impl AsContext, token: &Token, order: Order) -> Result<Self> {
        Self::connect_between(rank, token, order, CONNECT_LIMIT, &Between::configured()?)
    }

    /// Connects as [`Connection::connect_to`] does, within `limit` and with the settings of
    /// `between`; its security is the token's.
    ///
    /// # Errors
    /// As [`Connection::connect_to`].
    pub fn connect_between(
        rank: &impl AsContext,
        token: &Token,
        order: Order,
        limit: Duration,
        between: &Between,
    ) -> Result<Self> {
        let until = after(limit);
        let hub = Hub::within(rank, until)?;
        let between = Between { security: token.security, ..between.clone() };
        let Some(&first) = token.addresses.first() else {
            return Err(Error::BadToken("it has no address"));
        };
        let (place, port) = (ConnectTarget::Job(first), token.port);
        let own = epoch()?;
        let words = Words { code: order.bit() as u8, epoch: own, port: port.0 };
        let unusable = |why: String| Error::Between(why);
        let endpoints = candidate_addresses(token)?;
        let handshake = Handshake::begin(&token.secret, words, endpoints.len())
            .ok_or_else(|| unusable("no random numbers".into()))?;
        let met = match (ConnectAttempt { handshake, endpoints, token }).until(&hub, until)? {
            Heard::HandshakeReply(met) => met,
            Heard::Nothing => return Err(Error::NoAnswer { place, port, limit }),
            Heard::Refused(FULL | BUSY) => {
                return Err(Error::Refused { place, port, why: Refusal::QueueFull });
            }
            Heard::Refused(_) => {
                return Err(Error::Refused { place, port, why: Refusal::NoListener });
            }
        };
        let peer = SocketAddr::new(met.from.ip(), met.words.port);
        let peer_epoch = met.words.epoch;
        let terms = LinkParameters { me: CLIENT, epoch: own, peer, peer_epoch, key: met.key };
        let shared = hub.far.shared()?;
        let line = Arc::new(ConnectionLine::new(order, 0));
        let link =
            FarLink::open(met.socket.into(), &terms, &between, line.clone(), shared.alarm.clone())?;
        let link = Arc::new(link);
        shared.enter_link(link.clone())?;
        // The listener queues only clients that have sent a packet made with the key.
        link.greet();
        Ok(Self::over(hub, line, ConnectionRoute::Far(link)))
    }
}

/// An address to send hellos to, and a socket that reaches it and receives the answer.
type CandidateAddress = (SocketAddr, UdpSocket);

/// Returns the addresses of a token that can be reached from here.
fn candidate_addresses(token: &Token) -> Result<Vec<CandidateAddress>> {
    let bind = |&to: &SocketAddr| {
        let any: IpAddr = match to.ip() {
            ip if ip.is_loopback() => ip,
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        udp::bind(SocketAddr::new(any, 0)).map(|socket| (to, UdpSocket::from(socket)))
    };
    let (mut endpoints, mut wrong) = (Vec::new(), None);
    for door in token.addresses.iter().map(bind) {
        match door {
            Ok(door) => endpoints.push(door),
            // This machine may lack an address family; one that works is enough.
            Err(why) => wrong = Some(why),
        }
    }
    match wrong {
        Some(why) if endpoints.is_empty() => Err(Error::Between(why.to_string())),
        _ => Ok(endpoints),
    }
}

/// A client that waits for an answer.
struct ConnectAttempt<'a> {
    handshake: Handshake,
    endpoints: Vec<CandidateAddress>,
    token: &'a Token,
}

/// The answer that admits the client.
struct HandshakeReply {
    words: Words,
    key: JobKey,
    from: SocketAddr,
    socket: UdpSocket,
}

/// Result of a connect attempt.
enum Heard {
    HandshakeReply(Box<HandshakeReply>),
    Refused(u8),
    Nothing,
}

/// Effect of one answer that ends the connect attempt; others only change a hello.
enum Answer {
    HandshakeReply { door: usize, from: SocketAddr, words: Words, key: JobKey },
    Refused(u8),
}

impl ConnectAttempt<'_> {
    /// Sends hellos to one address after the other until one answers.
    fn until(mut self, hub: &Hub, until: u64) -> Result<Heard> {
        let (mut answer, mut put_off, mut again_at, mut turns) = (None, false, 0, 0);
        wait(hub, &[], Some(until), || {
            answer = answer.take().or_else(|| self.hear(&mut put_off));
            if answer.is_some() {
                return Ok(true);
            }
            let now = clock::now_ns();
            if now >= again_at {
                again_at = now + AGAIN_NS;
                self.say(turns % self.endpoints.len().max(1));
                turns += 1;
            }
            Ok(false)
        })?;
        Ok(match answer {
            Some(Answer::HandshakeReply { door, from, words, key }) => {
                let (_, socket) = self.endpoints.swap_remove(door);
                Heard::HandshakeReply(Box::new(HandshakeReply { words, key, from, socket }))
            }
            Some(Answer::Refused(verdict)) => Heard::Refused(verdict),
            None if put_off => Heard::Refused(BUSY),
            None => Heard::Nothing,
        })
    }

    fn say(&self, door: usize) {
        if let Some((address, socket)) = self.endpoints.get(door) {
            // If no route exists now, one may exist later, or to another address.
            let _ = socket.send_to(self.handshake.hello(door), address);
        }
    }

    /// Returns the listener's answer, if it has come. Sends a hello at once if the answer demands
    /// it.
    fn hear(&mut self, put_off: &mut bool) -> Option<Answer> {
        // A longer packet is truncated, and no answer.
        let mut packet = [0; PACKET_BYTES + 1];
        for door in 0..self.endpoints.len() {
            while let Some(Ok((bytes, from))) =
                self.endpoints.get(door).map(|(_, socket)| socket.recv_from(&mut packet))
            {
                let packet = packet.get(..bytes).unwrap_or_default();
                match self.handshake.handle_answer(&self.token.secret, door, packet) {
                    Ok(Told::HandshakeReply(words, key)) => {
                        return Some(Answer::HandshakeReply { door, from, words, key });
                    }
                    Ok(Told::Refused(verdict)) => return Some(Answer::Refused(verdict)),
                    Ok(Told::Again) => self.say(door),
                    Ok(Told::Later(verdict)) => *put_off |= verdict == BUSY,
                    // Not from the listener, or an answer to an older hello.
                    Err(_) => {}
                }
            }
        }
        None
    }
}
