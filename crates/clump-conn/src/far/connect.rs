//! Connecting to another job: knock until somebody answers.

use super::link::{CLIENT, Link, Terms};
use super::meeting::{BUSY, FULL, Meeting, PACKET_BYTES, Told, Words};
use super::{Between, epoch};
use crate::connection::{CONNECT_LIMIT, Connection};
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
use std::sync::Arc;
use std::time::Duration;

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
        let doors = doors(token)?;
        let meeting = Meeting::begin(&token.secret, words, doors.len())
            .ok_or_else(|| unusable("no random numbers".into()))?;
        let met = match (Knock { meeting, doors, token }).until(&hub, after(limit))? {
            Heard::Met(met) => met,
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
        let terms = Terms { me: CLIENT, epoch: own, peer, peer_epoch, key: met.key };
        let shared = hub.far.shared()?;
        let line = Arc::new(Line::new(order, 0));
        let link =
            Link::open(met.socket.into(), &terms, &between, line.clone(), shared.alarm.clone())?;
        let link = Arc::new(link);
        shared.enter_link(link.clone())?;
        // The listener lets only who is there wait.
        link.greet();
        Ok(Self::over(hub, line, Way::Far(link)))
    }
}

/// An address to knock at, and a socket that reaches it and can be answered.
type Door = (SocketAddr, UdpSocket);

/// The addresses of a token that can be reached from here.
fn doors(token: &Token) -> Result<Vec<Door>> {
    let bind = |&to: &SocketAddr| {
        let any: IpAddr = match to.ip() {
            ip if ip.is_loopback() => ip,
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        udp::bind(SocketAddr::new(any, 0)).map(|socket| (to, UdpSocket::from(socket)))
    };
    let (mut doors, mut wrong) = (Vec::new(), None);
    for door in token.addresses.iter().map(bind) {
        match door {
            Ok(door) => doors.push(door),
            // This machine may lack a family of addresses; one that works is enough.
            Err(why) => wrong = Some(why),
        }
    }
    match wrong {
        Some(why) if doors.is_empty() => Err(Error::Between(why.to_string())),
        _ => Ok(doors),
    }
}

/// A client that waits to be answered.
struct Knock<'a> {
    meeting: Meeting,
    doors: Vec<Door>,
    token: &'a Token,
}

/// The answer that lets the client in.
struct Met {
    words: Words,
    key: JobKey,
    from: SocketAddr,
    socket: UdpSocket,
}

/// What became of knocking.
enum Heard {
    Met(Box<Met>),
    Refused(u8),
    Nothing,
}

/// What one answer does: it ends the knocking, or nothing else than change a hello.
enum Answer {
    Met { door: usize, from: SocketAddr, words: Words, key: JobKey },
    Refused(u8),
}

impl Knock<'_> {
    /// Knocks at one address after the other until one answers.
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
                self.say(turns % self.doors.len().max(1));
                turns += 1;
            }
            Ok(false)
        })?;
        Ok(match answer {
            Some(Answer::Met { door, from, words, key }) => {
                let (_, socket) = self.doors.swap_remove(door);
                Heard::Met(Box::new(Met { words, key, from, socket }))
            }
            Some(Answer::Refused(verdict)) => Heard::Refused(verdict),
            None if put_off => Heard::Refused(BUSY),
            None => Heard::Nothing,
        })
    }

    fn say(&self, door: usize) {
        if let Some((address, socket)) = self.doors.get(door) {
            // Where there is no way now there may be one later, or to another address.
            let _ = socket.send_to(self.meeting.hello(door), address);
        }
    }

    /// The listener's answer, if it has come. A hello that is to be said again at once is.
    fn hear(&mut self, put_off: &mut bool) -> Option<Answer> {
        // A longer packet is cut, and no answer.
        let mut packet = [0; PACKET_BYTES + 1];
        for door in 0..self.doors.len() {
            while let Some(Ok((bytes, from))) =
                self.doors.get(door).map(|(_, socket)| socket.recv_from(&mut packet))
            {
                let packet = packet.get(..bytes).unwrap_or_default();
                match self.meeting.handle_answer(&self.token.secret, door, packet) {
                    Ok(Told::Met(words, key)) => {
                        return Some(Answer::Met { door, from, words, key });
                    }
                    Ok(Told::Refused(verdict)) => return Some(Answer::Refused(verdict)),
                    Ok(Told::Again) => self.say(door),
                    Ok(Told::Later(verdict)) => *put_off |= verdict == BUSY,
                    // Not the listener's, or an answer to an older hello.
                    Err(_) => {}
                }
            }
        }
        None
    }
}
