//! Somebody on the same network who knows everything about a job but its key.

use clump_wire::{Flags, Header, Kind};
use std::net::{SocketAddr, UdpSocket};

/// What a packet of the enemy is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trick {
    /// Noise.
    Noise,
    /// Begins like a packet of ours and ends too soon.
    Truncated,
    /// Everything right but the job.
    Foreign,
    /// Everything right but the incarnation of its source.
    Restarted,
    /// Everything right but the seal: only the key could tell.
    Forged,
}

pub const TRICKS: [Trick; 5] =
    [Trick::Noise, Trick::Truncated, Trick::Foreign, Trick::Restarted, Trick::Forged];

/// Sends packets as rank `source`, incarnation `epoch`, to a rank of known address and incarnation.
pub struct Enemy {
    socket: UdpSocket,
    state: u64,
    pub source: (u32, u32),
    pub target: (u32, u32),
    pub job: u32,
    pub to: SocketAddr,
}

impl Enemy {
    pub fn new(source: (u32, u32), target: (u32, u32), job: u32, to: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        Self { socket, state: 0x9e37_79b9_7f4a_7c15, source, target, job, to }
    }

    fn random(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// Sends one packet; whether the system took it.
    pub fn send(&mut self, trick: Trick) -> bool {
        let header = Header {
            kind: if self.random().is_multiple_of(4) { Kind::Close } else { Kind::Data },
            flags: Flags::HAS_ECHO,
            job: if trick == Trick::Foreign { !self.job } else { self.job },
            source: self.source.0,
            epoch: self.source.1 + u32::from(trick == Trick::Restarted),
            target: self.target.0,
            target_epoch: self.target.1,
            number: self.random() % 1_000_000,
            unit: self.random() % 1_000,
            ack: self.random() % 1_000,
            window: u32::MAX,
            ..Header::default()
        };
        let mut bytes = header.encode(0).to_vec();
        for _ in 0..self.random() % 160 {
            bytes.extend_from_slice(&self.random().to_le_bytes());
        }
        match trick {
            Trick::Truncated => bytes.truncate((self.random() % 64) as usize),
            Trick::Noise => bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_mul(167) ^ 0x55),
            Trick::Foreign | Trick::Restarted | Trick::Forged => {}
        }
        self.socket.send_to(&bytes, self.to).is_ok()
    }
}
