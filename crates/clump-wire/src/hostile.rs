//! Packets of an attacker on the same network that knows everything about a job but its key. For
//! tests, and for the laboratory: none of these packets may be accepted.

use crate::{Flags, Header, PacketKind};

/// Kind of an attack packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trick {
    /// Random bytes.
    Noise,
    /// Begins like a valid packet and ends too soon.
    Truncated,
    /// Valid but for the job.
    Foreign,
    /// Valid but for the incarnation of its source.
    Restarted,
    /// Valid but for the seal: only the key reveals it.
    Forged,
}

impl Trick {
    /// All kinds.
    pub const ALL: [Trick; 5] =
        [Trick::Noise, Trick::Truncated, Trick::Foreign, Trick::Restarted, Trick::Forged];
}

/// Identity that the attacker claims, and its target: stack and incarnation of each; the job of
/// both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// Stack that it claims to be.
    pub source: (u32, u32),
    /// Stack that it sends to.
    pub target: (u32, u32),
    /// Job number of the packets.
    pub job: u32,
}

/// Generator of attack packets, always the same ones in the same order.
#[derive(Debug)]
pub struct Attacker {
    claim: Claim,
    state: u64,
}

impl Attacker {
    /// Creates a generator with this claim.
    pub fn new(claim: Claim) -> Self {
        Self { claim, state: 0x9e37_79b9_7f4a_7c15 }
    }

    /// Returns the next number of xorshift64 (Marsaglia 2003).
    fn random(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// Returns the next packet.
    pub fn packet(&mut self, trick: Trick) -> Vec<u8> {
        let Claim { source, target, job } = self.claim;
        let header = Header {
            kind: if self.random().is_multiple_of(4) {
                PacketKind::Close
            } else {
                PacketKind::Data
            },
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
        let mut attacker = Attacker::new(Claim { source: (1, 11), target: (2, 22), job: 33 });
        for _ in 0..100 {
            for trick in [Trick::Foreign, Trick::Restarted, Trick::Forged] {
                let bytes = attacker.packet(trick);
                let Ok(Packet { header, .. }) = Packet::parse(&bytes) else { continue };
                assert_eq!(header.job == 33, trick != Trick::Foreign);
                assert_eq!(header.epoch == 11, trick != Trick::Restarted);
            }
            for trick in [Trick::Noise, Trick::Truncated] {
                assert!(Packet::parse(&attacker.packet(trick)).is_err(), "{trick:?}");
            }
        }
        let parsed = (0..100).filter(|_| Packet::parse(&attacker.packet(Trick::Forged)).is_ok());
        assert!(parsed.count() > 90, "most look like packets");
    }
}
