//! Where other jobs knock: a socket of a listener that answers those who have its token.

use super::Between;
use super::link::{Link, SERVER, Terms};
use super::meeting::{FULL, Hello, NOBODY, PACKET_BYTES, Packet, WELCOME, Words};
use crate::hub::lock;
use crate::line::Line;
use crate::port::{Order, Port};
use crate::queue::{Queue, Queued, Seat};
use crate::token::SECRET_BYTES;
use clump_os::alarm::Alarm;
use clump_os::secret::Secret;
use clump_os::udp;
use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, Weak};

/// Hellos whose answers are kept, to be given again: answers get lost, and hellos are doubled and replayed.
const MOST_KEPT: usize = 1024;
/// Hellos of one look.
const MOST_HELLOS: usize = 64;

/// See the module.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) socket: UdpSocket,
    pub(crate) local: SocketAddr,
    pub(crate) port: Port,
    pub(crate) secret: Arc<Secret<[u8; SECRET_BYTES]>>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) between: Between,
    /// What the gates of one invitation have answered: a client knocks at each with one hello.
    pub(crate) answered: Arc<Mutex<VecDeque<Answered>>>,
}

/// A hello and what it was answered.
#[derive(Debug)]
pub(crate) struct Answered {
    hello: Packet,
    answer: Packet,
    /// Where the gate is that gave the answer.
    gate: SocketAddr,
    /// What is kept for the client, until it has come or is given up.
    seat: Weak<Seat>,
}

/// What a look at a gate found.
#[derive(Debug, Default)]
pub(crate) struct Knocks {
    /// Connections that were made.
    pub(crate) links: Vec<Arc<Link>>,
    /// Packets that were not made with the secret.
    pub(crate) strangers: u64,
    /// Those that were, and found no room.
    pub(crate) refused: u64,
}

impl Gate {
    /// Answers those who knock.
    pub(crate) fn answer(&self, alarm: &Arc<Alarm>) -> Knocks {
        let mut knocks = Knocks::default();
        // A longer packet is cut, and no hello.
        let mut packet = [0; PACKET_BYTES + 1];
        for _ in 0..MOST_HELLOS {
            // An error of an earlier answer is none of this packet.
            let Ok((bytes, from)) = self.socket.recv_from(&mut packet) else { break };
            let packet = packet.get(..bytes).unwrap_or_default();
            let known = lock(&self.answered)
                .iter()
                .find(|a| a.hello == *packet && a.gate == self.local)
                .map(|a| a.answer);
            let answer = known.or_else(|| self.receive(packet, from, alarm, &mut knocks));
            if let Some(answer) = answer {
                // Who does not get it asks again.
                let _ = self.socket.send_to(&answer, from);
            }
        }
        knocks
    }

    fn receive(
        &self,
        packet: &[u8],
        from: SocketAddr,
        alarm: &Arc<Alarm>,
        knocks: &mut Knocks,
    ) -> Option<Packet> {
        let Ok(hello) = Hello::read(&self.secret, packet) else {
            knocks.strangers += 1;
            return None;
        };
        let seat = match self.seat_for(packet, hello.words().port) {
            Ok(seat) => seat?,
            Err(code) => {
                knocks.refused += 1;
                let words = Words { code, epoch: 0, port: 0 };
                // Not kept: who asks again later may find room.
                return hello.answer(&self.secret, words).ok().map(|(answer, _)| answer);
            }
        };
        let Ok((answer, link)) = self.welcome(hello, from, alarm) else {
            // Without a socket there is nothing to say; the client hears nothing, and says so.
            knocks.refused += 1;
            return None;
        };
        let answered = Answered {
            hello: packet.try_into().ok()?,
            answer,
            gate: self.local,
            seat: Arc::downgrade(&seat),
        };
        link.await_in(seat);
        knocks.links.push(Arc::new(link));
        let mut kept = lock(&self.answered);
        if kept.len() >= MOST_KEPT {
            kept.pop_front();
        }
        kept.push_back(answered);
        Some(answer)
    }

    /// The seat of who knocks: the one that it has since it knocked at another gate, or a free one. None for
    /// a client that has come already.
    ///
    /// # Errors
    /// The code of the answer that says why there is none.
    fn seat_for(&self, hello: &[u8], port: u16) -> Result<Option<Arc<Seat>>, u8> {
        if port != self.port.0 {
            return Err(NOBODY);
        }
        let elsewhere = lock(&self.answered)
            .iter()
            .find(|answered| answered.hello == *hello)
            .map(|answered| answered.seat.upgrade().filter(|seat| !seat.is_taken()));
        if let Some(seat) = elsewhere {
            return Ok(seat);
        }
        match self.queue.reserve() {
            Ok(seat) => Ok(Some(seat)),
            Err(Queued::Full) => Err(FULL),
            Err(_) => Err(NOBODY),
        }
    }

    fn welcome(
        &self,
        hello: Hello,
        from: SocketAddr,
        alarm: &Arc<Alarm>,
    ) -> crate::error::Result<(Packet, Link)> {
        let unusable = |why: String| crate::error::Error::Between(why);
        let socket = udp::bind(SocketAddr::new(self.local.ip(), 0));
        let socket = socket.map_err(|e| unusable(e.to_string()))?;
        let port = udp::bound(&socket).ok_or_else(|| unusable("no port for it".into()))?.port();
        let epoch = super::epoch()?;
        let Words { code, epoch: peer_epoch, .. } = hello.words();
        let words = Words { code: WELCOME, epoch, port };
        let stranger = |_| unusable("the hello holds no key".into());
        let (answer, key) = hello.answer(&self.secret, words).map_err(stranger)?;
        let line = Arc::new(Line::new(Order::of_bit(u64::from(code)), 0));
        let terms = Terms { me: SERVER, epoch, peer: from, peer_epoch, key };
        let link = Link::open(socket, &terms, &self.between, line, alarm.clone())?;
        Ok((answer, link))
    }
}
