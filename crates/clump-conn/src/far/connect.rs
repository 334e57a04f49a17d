//! Connecting to another job: knock until somebody answers.

use super::link::{CLIENT, Link, Terms};
use super::meeting::{FULL, Meeting, PACKET_BYTES, Packet, WELCOME, Words};
use super::{Between, epoch};
use crate::connection::Connection;
use crate::error::{Error, Place, Refusal, Result};
use crate::hub::Hub;
use crate::line::Line;
use crate::port::Order;
use crate::token::Token;
use crate::wait::{after, wait};
use crate::way::Way;
use clump_am::AsContext;
use clump_net::seal::JobKey;
use clump_os::{clock, udp};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// How long connecting waits for an answer, if nobody says otherwise.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// How long until the hello is said again.
const AGAIN_NS: u64 = 20_000_000;

impl Connection {
    /// Connects to the listener of another job that gave the token. It need not have accepted when this
    /// returns; what is sent waits for that.
    ///
    /// # Errors
    /// Its queue is full, or nobody answers within 10 s: the listener is gone, or the token another's.
    pub fn connect_to(rank: &impl AsContext, token: &Token, order: Order) -> Result<Self> {
        Self::connect_between(rank, token, order, CONNECT_LIMIT, &Between::configured()?)
    }

    /// The same within `limit`, and as `between` says; its security is the token's.
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
        let hub = Hub::of(rank)?;
        let between = Between { security: token.security, ..between.clone() };
        let Some(&first) = token.addresses.first() else {
            return Err(Error::BadToken("it has no address"));
        };
        let (place, port) = (Place::Job(first), token.port);
        let own = epoch()?;
        let words = Words { code: order.bit() as u8, epoch: own, port: port.0 };
        let unusable = |why: String| Error::Between(why);
        let begun = Meeting::begin(&token.secret, words)
            .ok_or_else(|| unusable("no random numbers".into()))?;
        let socket = socket_towards(first)?;
        let met = Knock { meeting: begun.0, hello: begun.1, socket, token };
        let Some((socket, met)) = met.until(&hub, after(limit))? else {
            return Err(Error::NoAnswer { place, port, limit });
        };
        match met.words.code {
            WELCOME => {}
            FULL => return Err(Error::Refused { place, port, why: Refusal::QueueFull }),
            _ => return Err(Error::Refused { place, port, why: Refusal::NoListener }),
        }
        let peer = SocketAddr::new(met.from.ip(), met.words.port);
        let peer_epoch = met.words.epoch;
        let terms = Terms { me: CLIENT, epoch: own, peer, peer_epoch, key: met.key };
        let shared = hub.far.shared()?;
        let line = Arc::new(Line::new(order, 0));
        let link = Link::open(socket, &terms, &between, line.clone(), shared.alarm.clone())?;
        let link = Arc::new(link);
        shared.enter_link(link.clone())?;
        // The listener lets only who is there wait.
        link.greet();
        Ok(Self::over(hub, line, Way::Far(link)))
    }
}

/// A socket that reaches `to` and can be answered.
fn socket_towards(to: SocketAddr) -> Result<OwnedFd> {
    let any: IpAddr = match to.ip() {
        ip if ip.is_loopback() => ip,
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    udp::bind(SocketAddr::new(any, 0)).map_err(|e| Error::Between(e.to_string()))
}

/// A client that waits to be answered.
struct Knock<'a> {
    meeting: Meeting,
    hello: Packet,
    socket: OwnedFd,
    token: &'a Token,
}

/// The answer.
struct Met {
    words: Words,
    key: JobKey,
    from: SocketAddr,
}

impl Knock<'_> {
    /// Knocks at one address after the other until one answers; `None` when none does in time.
    fn until(mut self, hub: &Hub, until: u64) -> Result<Option<(OwnedFd, Met)>> {
        let socket = self.socket.try_clone().map_err(|e| Error::Between(e.to_string()))?;
        let socket = UdpSocket::from(socket);
        let (mut met, mut again_at) = (None, 0);
        let mut addresses = self.token.addresses.iter().cycle();
        wait(hub, &[], Some(until), || {
            if met.is_some() {
                return Ok(true);
            }
            // A longer packet is cut, and no answer.
            let mut packet = [0; PACKET_BYTES + 1];
            while let Ok((bytes, from)) = socket.recv_from(&mut packet) {
                let packet = packet.get(..bytes).unwrap_or_default();
                if let Ok((words, key)) = self.meeting.handle_answer(&self.token.secret, packet) {
                    met = Some(Met { words, key, from });
                    return Ok(true);
                }
            }
            let now = clock::now_ns();
            if now >= again_at {
                again_at = now + AGAIN_NS;
                if let Some(address) = addresses.next() {
                    // Where there is no way now there may be one later, or to another address.
                    let _ = socket.send_to(&self.hello, address);
                }
            }
            Ok(false)
        })?;
        Ok(met.map(|met| (self.socket, met)))
    }
}
