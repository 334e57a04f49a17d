//! Protection of single packets: sealing on their way out, opening on their way in.

use clump_os::secret::{Secret, scrub_registers};
use clump_wire::{Packet, Security};
use crc_fast::{CrcAlgorithm, Digest, crc32_iscsi};
use ring::aead::{Aad, LessSafeKey, NONCE_LEN, Nonce};

/// Packets up to so many bytes are checksummed directly, without the setup that longer ones pay
/// for.
const SHORT: usize = 256;
/// Bytes of a checksum.
const CRC_BYTES: usize = size_of::<u32>();

/// Seals the packets of one path.
#[derive(Debug)]
pub struct Sealer(Option<Secret<LessSafeKey>>);

/// Opens the packets of one path.
#[derive(Debug)]
pub struct Opener(Option<Secret<LessSafeKey>>);

/// Returns the protection of packets that have this key.
fn security(key: Option<&Secret<LessSafeKey>>) -> Security {
    if key.is_some() { Security::Aead } else { Security::Crc }
}

impl Sealer {
    pub(super) fn new(key: Option<Secret<LessSafeKey>>) -> Self {
        Self(key)
    }

    /// Returns the bytes of the tag behind the body: the length of `tag` in the calls below.
    #[inline]
    pub fn tag_bytes(&self) -> usize {
        security(self.0.as_ref()).trailer_bytes()
    }

    /// Returns true if sealing changes the body, which then must be a copy: [`Sealer::seal`] is to
    /// be called. Otherwise the body can stay where it is: [`Sealer::checksum`] suffices.
    #[inline]
    pub fn in_place(&self) -> bool {
        self.0.is_some()
    }

    /// Seals the packet `number`: encrypts `body` in place, and writes the tag of `head` and
    /// `body`. Without encryption, it does the same as [`Sealer::checksum`].
    ///
    /// `head` is all that lies before the body, header and selective acks, in its final form. A
    /// `tag` of another length than [`Sealer::tag_bytes`] is a fault of the caller: the packet
    /// becomes zeros, which no receiver opens and which reveal nothing.
    #[inline]
    pub fn seal(&self, number: u64, head: &[u8], body: &mut [u8], tag: &mut [u8]) {
        let Some(key) = &self.0 else { return self.checksum(head, body, tag) };
        debug_assert_eq!(tag.len(), self.tag_bytes(), "the tag has the length of this security");
        let sealed = key.seal_in_place_separate_tag(nonce(number), Aad::from(head), body);
        scrub_registers();
        match sealed {
            Ok(made) if tag.len() == made.as_ref().len() => tag.copy_from_slice(made.as_ref()),
            // Otherwise only for a body of 64 GiB, which is no packet.
            _ => {
                body.fill(0);
                tag.fill(0);
            }
        }
    }

    /// Returns the body of a packet that this sealer encrypted; `None` for anything else. Needed
    /// for retransmissions and returned messages; it allocates.
    #[cold]
    pub fn reopen(&self, packet: &[u8]) -> Option<Vec<u8>> {
        let key = self.0.as_ref()?;
        let parsed = Packet::parse(packet).ok()?;
        let (head, sealed) = packet.split_at_checked(parsed.sealed_at)?;
        let mut body = sealed.to_vec();
        let opened = key.open_in_place(nonce(parsed.header.number), Aad::from(head), &mut body);
        scrub_registers();
        let bytes = opened.ok()?.len();
        debug_assert!(bytes + self.tag_bytes() == sealed.len(), "all but the tag is the body");
        body.truncate(bytes);
        Some(body)
    }

    /// Writes the checksum of `head` and `body`, which stay as they are. Only if
    /// [`Sealer::in_place`] is false; otherwise, a fault of the caller, the tag is zeros and the
    /// packet is refused by its receiver.
    #[inline]
    pub fn checksum(&self, head: &[u8], body: &[u8], tag: &mut [u8]) {
        debug_assert!(!self.in_place(), "a packet that must be encrypted is not merely checked");
        let made = checksum(head, body);
        debug_assert!(tag.len() == made.len(), "the tag has the length of a checksum");
        if self.0.is_none() && tag.len() == made.len() {
            tag.copy_from_slice(&made);
        } else {
            tag.fill(0);
        }
    }

    /// Seals the contiguous packet `number`: head, body from `body_at` on, and room for the tag.
    /// Where that is a checksum, it is made in one pass.
    #[inline]
    pub fn seal_whole(&self, number: u64, packet: &mut [u8], body_at: usize) {
        debug_assert!(packet.len() >= body_at + self.tag_bytes(), "there is room for the tag");
        if self.in_place() {
            let (head, rest) = packet.split_at_mut(body_at.min(packet.len()));
            let (body, tag) = rest.split_at_mut(rest.len().saturating_sub(self.tag_bytes()));
            self.seal(number, head, body, tag);
        } else if let Some((covered, tag)) = packet.split_last_chunk_mut::<CRC_BYTES>() {
            *tag = checksum(covered, &[]);
        }
    }
}

impl Opener {
    pub(super) fn new(key: Option<Secret<LessSafeKey>>) -> Self {
        Self(key)
    }

    /// Returns the bytes of the tag behind the body.
    #[inline]
    pub fn tag_bytes(&self) -> usize {
        security(self.0.as_ref()).trailer_bytes()
    }

    /// Returns the body of the packet `number`, decrypted in place; `None` if the packet is forged,
    /// damaged or too short. `head` is all that lies before the body, `sealed` the body and its
    /// tag; after a `None` the contents of `sealed` are useless.
    #[inline]
    pub fn open<'a>(&self, number: u64, head: &[u8], sealed: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let Some(key) = &self.0 else { return checked(head, sealed) };
        let bytes = sealed.len();
        let opened = key.open_in_place(nonce(number), Aad::from(head), sealed).ok();
        scrub_registers();
        let body = opened.as_ref().map_or(bytes, |body| body.len() + self.tag_bytes());
        debug_assert!(body == bytes, "all but the tag is the body");
        opened
    }

    /// Opens a contiguous packet, with its body and tag from `sealed_at` on; returns the offset at
    /// which the body ends.
    #[inline]
    pub fn open_whole(&self, number: u64, packet: &mut [u8], sealed_at: usize) -> Option<usize> {
        if self.0.is_some() {
            let (head, sealed) = packet.split_at_mut_checked(sealed_at)?;
            return self.open(number, head, sealed).map(|body| sealed_at + body.len());
        }
        let (covered, tag) = packet.split_last_chunk::<CRC_BYTES>()?;
        let genuine = covered.len() >= sealed_at && checksum(covered, &[]) == *tag;
        genuine.then_some(covered.len())
    }
}

/// Returns the body of a packet with a checksum, if that is right.
#[inline]
fn checked<'a>(head: &[u8], sealed: &'a mut [u8]) -> Option<&'a mut [u8]> {
    let (body, tag) = sealed.split_last_chunk_mut()?;
    (checksum(head, body) == *tag).then_some(body)
}

/// Derives the nonce of a number. Numbers are unique under a key (invariant 2), and so are nonces.
#[inline]
pub(super) fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    let (_, counter) = bytes.split_at_mut(NONCE_LEN - size_of::<u64>());
    counter.copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// Returns the CRC-32C of both, one behind the other. By the crate crc-fast: of the two well-kept
/// ones (ns for a body of 64 B / 1400 B / 60 KiB on a virtual AMD EPYC with carry-less products of
/// 512 bits) it took 5 / 44 / 1040, crc32c 8 / 94 / 2290.
#[inline]
pub(super) fn checksum(head: &[u8], body: &[u8]) -> [u8; 4] {
    let short = head.len() + body.len() <= SHORT;
    if short && let Some(sum) = clump_os::crc::crc32c_short(head, body) {
        return sum.to_le_bytes();
    }
    if body.is_empty() {
        return crc32_iscsi(head).to_le_bytes();
    }
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(head);
    digest.update(body);
    // The upper half of the result is zero.
    (digest.finalize() as u32).to_le_bytes()
}
