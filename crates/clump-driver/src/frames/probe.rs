//! Questions whether frames arrive, and answers: made with a key of the job, so that nobody else on
//! the wire decides by what way datagrams go.
//!
//! ```text
//! byte 0       8     24
//!     | number | code |     the code: HMAC-SHA256, cut, over kind, number, and both addresses
//! ```
//! An answer has the number of its question. Only that to the question asked last is believed, so
//! one that was recorded says nothing later.

use super::format::FrameKind;
use clump_os::secret::{Secret, scrubbed};
use ring::hmac::{self, HMAC_SHA256};
use std::net::SocketAddrV4;

const KEY_BYTES: usize = crate::driver::PROBE_KEY_BYTES;
const NUMBER_BYTES: usize = 8;
const CODE_BYTES: usize = 16;
/// Bytes behind the beginning of the frame.
pub(super) const PROBE_BYTES: usize = NUMBER_BYTES + CODE_BYTES;

/// The maker and checker of probes.
#[derive(Debug)]
pub(super) struct Probes {
    key: Secret<hmac::Key>,
    /// That of the question asked last.
    number: u64,
}

impl Probes {
    /// With a key that everybody knows, for drivers whose stack gives them none: probes are checked
    /// only.
    ///
    /// # Errors
    /// No memory for a key, or no random numbers.
    pub(super) fn new() -> clump_os::Result<Self> {
        // Numbers of an earlier life are not used again.
        Ok(Self { key: made(&[0; KEY_BYTES])?, number: clump_os::process::random()? })
    }

    /// With this key from now on. Without memory for it there is none, and what needs one stays as
    /// it was.
    pub(super) fn take_key(&mut self, key: &[u8; KEY_BYTES]) {
        if let Ok(key) = made(key) {
            self.key = key;
        }
    }

    /// A number that no question has had.
    pub(super) fn next_number(&mut self) -> u64 {
        self.number = self.number.wrapping_add(1);
        self.number
    }

    /// The probe `number` from one address to another.
    pub(super) fn write(
        &self,
        kind: FrameKind,
        number: u64,
        (from, to): (SocketAddrV4, SocketAddrV4),
    ) -> [u8; PROBE_BYTES] {
        let mut probe = [0; PROBE_BYTES];
        let (front, code) = probe.split_at_mut(NUMBER_BYTES);
        front.copy_from_slice(&number.to_le_bytes());
        let tag = scrubbed(|| hmac::sign(&self.key, &claim(kind, number, (from, to))));
        code.copy_from_slice(&tag.as_ref()[..CODE_BYTES]);
        probe
    }

    /// The number of a probe, if it was made with the key.
    pub(super) fn read(
        &self,
        kind: FrameKind,
        probe: &[u8; PROBE_BYTES],
        (from, to): (SocketAddrV4, SocketAddrV4),
    ) -> Option<u64> {
        let (number, _) = probe.split_first_chunk::<NUMBER_BYTES>()?;
        let number = u64::from_le_bytes(*number);
        let right = self.write(kind, number, (from, to));
        // All bytes are compared, so that the time does not say how many are right.
        let differ = right.iter().zip(probe).fold(0, |all, (a, b)| all | (a ^ b));
        (differ == 0).then_some(number)
    }
}

fn made(key: &[u8; KEY_BYTES]) -> clump_os::Result<Secret<hmac::Key>> {
    Secret::new(|| hmac::Key::new(HMAC_SHA256, key))
}

fn claim(kind: FrameKind, number: u64, (from, to): (SocketAddrV4, SocketAddrV4)) -> [u8; 21] {
    let mut bytes = [0; 21];
    bytes[0] = kind as u8;
    bytes[1..9].copy_from_slice(&number.to_le_bytes());
    for (at, address) in [(9, from), (15, to)] {
        bytes[at..at + 4].copy_from_slice(&address.ip().octets());
        bytes[at + 4..at + 6].copy_from_slice(&address.port().to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_believed_with_its_key_kind_and_addresses_only() {
        let (a, b) = ("10.0.0.1:7".parse().unwrap(), "10.0.0.2:9".parse().unwrap());
        let mut probes = Probes::new().unwrap();
        let foreign = Probes::new().unwrap();
        probes.take_key(&[7; KEY_BYTES]);
        let number = probes.next_number();
        assert_ne!(number, probes.next_number());
        let probe = probes.write(FrameKind::Ask, number, (a, b));
        assert_eq!(probes.read(FrameKind::Ask, &probe, (a, b)), Some(number));
        assert_eq!(probes.read(FrameKind::Answer, &probe, (a, b)), None);
        assert_eq!(probes.read(FrameKind::Ask, &probe, (b, a)), None);
        assert_eq!(foreign.read(FrameKind::Ask, &probe, (a, b)), None);
        for at in 0..PROBE_BYTES {
            let mut forged = probe;
            forged[at] ^= 1;
            assert_eq!(probes.read(FrameKind::Ask, &forged, (a, b)), None, "byte {at}");
        }
    }
}
