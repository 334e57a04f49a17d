//! Packets of somebody on the same network who knows everything about a job but its key. For tests, and
//! for the laboratory: no packet of these may be taken in.

use crate::{Flags, Header, Kind};

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

impl Trick {
    /// All of them.
    pub const ALL: [Trick; 5] =
        [Trick::Noise, Trick::Truncated, Trick::Foreign, Trick::Restarted, Trick::Forged];
}

/// Whom the enemy claims to be, and whom it sends to: stack and incarnation; the job of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// It says that it is this stack.
    pub source: (u32, u32),
    /// It sends to this one.
    pub target: (u32, u32),
    /// What tells packets of their job from those of others.
    pub job: u32,
}

/// Makes packets, always the same ones in the same order.
#[derive(Debug)]
pub struct Enemy {
    claim: Claim,
    state: u64,
}

impl Enemy {
    /// One that makes this claim.
    pub fn new(claim: Claim) -> Self {
        Self { claim, state: 0x9e37_79b9_7f4a_7c15 }
    }

    /// xorshift64 (Marsaglia 2003).
    fn random(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// The next packet.
    pub fn packet(&mut self, trick: Trick) -> Vec<u8> {
        let Claim { source, target, job } = self.claim;
        let header = Header {
            kind: if self.random().is_multiple_of(4) { Kind::Close } else { Kind::Data },
            flags: Flags::HAS_ECHO,
            job: if trick == Trick::Foreign { !job } else { job },
            source: source.0,
            epoch: source.1.wrapping_add(u32::from(trick == Trick::Restarted)),
            target: target.0,
            target_epoch: target.1,
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
            Trick::Truncated => bytes.truncate(usize::from(self.random().to_le_bytes()[0] % 64)),
            Trick::Noise => bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_mul(167) ^ 0x55),
            Trick::Foreign | Trick::Restarted | Trick::Forged => {}
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Packet;

    #[test]
    fn tricks_are_what_they_say() {
        let mut enemy = Enemy::new(Claim { source: (1, 11), target: (2, 22), job: 33 });
        for _ in 0..100 {
            for trick in [Trick::Foreign, Trick::Restarted, Trick::Forged] {
                let bytes = enemy.packet(trick);
                let Ok(Packet { header, .. }) = Packet::parse(&bytes) else { continue };
                assert_eq!(header.job == 33, trick != Trick::Foreign);
                assert_eq!(header.epoch == 11, trick != Trick::Restarted);
            }
            for trick in [Trick::Noise, Trick::Truncated] {
                assert!(Packet::parse(&enemy.packet(trick)).is_err(), "{trick:?}");
            }
        }
        let parsed = (0..100).filter(|_| Packet::parse(&enemy.packet(Trick::Forged)).is_ok());
        assert!(parsed.count() > 90, "most look like packets");
    }
}
