//! Protection of the records of streams: a key for each stream, and a proof that its sender has it.

use super::KeyError;
use super::packet::{checksum, nonce};
use clump_os::secret::{Secret, scrub_registers, scrubbed};
use clump_wire::Security;
use clump_wire::record::{PROOF_BYTES, RECORD_TAG_BYTES};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Tag, UnboundKey};
use ring::hkdf::{KeyType, Prk};

/// Purposes of derived keys.
const FOR_RECORDS: &[u8] = b"clump stream records";
const FOR_PROOF: &[u8] = b"clump stream hello";

/// The secret from which the keys of streams are derived.
#[derive(Debug)]
pub struct StreamKeys(Secret<Prk>);

/// Identity of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamPath {
    /// The stack that sends, and its incarnation.
    pub from: (u32, u32),
    /// The stack that receives, and its incarnation.
    pub to: (u32, u32),
    /// Number of the stream.
    pub stream: u32,
    /// Random numbers that the receiver has chosen for it: no two streams have the same key.
    pub random: [u64; 2],
}

/// Seals and opens the records of one stream.
#[derive(Debug)]
pub struct RecordCipher(Option<Secret<LessSafeKey>>);

struct Proof;

impl KeyType for Proof {
    fn len(&self) -> usize {
        PROOF_BYTES
    }
}

impl StreamKeys {
    pub(super) fn new(secret: Secret<Prk>) -> Self {
        Self(secret)
    }

    /// Returns the cipher of a stream.
    ///
    /// # Errors
    /// There is no memory for its key, or the key cannot be derived.
    pub fn cipher(&self, security: Security, path: &StreamPath) -> Result<RecordCipher, KeyError> {
        if security == Security::Crc {
            return Ok(RecordCipher(None));
        }
        let key = Secret::try_new(|| {
            let info = path.encode();
            let info = [FOR_RECORDS, info.as_flattened()];
            let derived = self.0.expand(&info, &AES_128_GCM);
            let key = derived.map_err(|_| KeyError::Derivation)?;
            Ok::<_, KeyError>(LessSafeKey::new(UnboundKey::from(key)))
        });
        debug_assert!(security == Security::Aead, "there are two");
        Ok(RecordCipher(Some(key?)))
    }

    /// Returns what the sender of a stream shows in its hello. It is used once and reveals nothing
    /// of any key.
    ///
    /// # Errors
    /// The proof cannot be derived.
    pub fn proof(&self, path: &StreamPath) -> Result<[u8; PROOF_BYTES], KeyError> {
        let info = path.encode();
        scrubbed(|| {
            let mut proof = [0; PROOF_BYTES];
            let info = [FOR_PROOF, info.as_flattened()];
            let derived = self.0.expand(&info, Proof);
            derived.and_then(|okm| okm.fill(&mut proof)).map_err(|_| KeyError::Derivation)?;
            debug_assert!(proof != [0; PROOF_BYTES], "it was filled in");
            Ok(proof)
        })
    }
}

impl StreamPath {
    fn encode(&self) -> [[u8; 4]; 9] {
        let Self { from, to, stream, random: [one, two] } = *self;
        debug_assert!(from.0 != to.0, "a stream leads to another stack");
        let halves = |number: u64| [number as u32, (number >> 32) as u32];
        let ([a, b], [c, d]) = (halves(one), halves(two));
        [from.0, from.1, to.0, to.1, stream, a, b, c, d].map(u32::to_le_bytes)
    }
}

impl RecordCipher {
    /// Returns true if sealing changes what it seals.
    #[inline]
    pub fn encrypts(&self) -> bool {
        self.0.is_some()
    }

    /// Seals a part in place, and returns its tag. The caller uses each number once.
    #[inline]
    pub fn seal(&self, number: u64, bound: &[u8], part: &mut [u8]) -> [u8; RECORD_TAG_BYTES] {
        let mut tag = [0; RECORD_TAG_BYTES];
        let Some(key) = &self.0 else {
            write_sum(&mut tag, bound, part);
            return tag;
        };
        let made = key.seal_in_place_separate_tag(nonce(number), Aad::from(bound), part);
        scrub_registers();
        match made {
            Ok(made) if made.as_ref().len() == tag.len() => tag.copy_from_slice(made.as_ref()),
            // Only for 64 GiB: zeros, which no receiver opens and which reveal nothing.
            _ => part.fill(0),
        }
        debug_assert!(tag != [0; RECORD_TAG_BYTES], "parts are short enough");
        tag
    }

    /// Opens a part in place; returns false, and leaves useless bytes, if it is forged or damaged.
    #[inline]
    pub fn open(
        &self,
        number: u64,
        bound: &[u8],
        part: &mut [u8],
        tag: &[u8; RECORD_TAG_BYTES],
    ) -> bool {
        let Some(key) = &self.0 else {
            let mut expected = [0; RECORD_TAG_BYTES];
            write_sum(&mut expected, bound, part);
            return expected == *tag;
        };
        let Ok(tag) = Tag::try_from(&tag[..]) else { return false };
        let bytes = part.len();
        let (bound, number) = (Aad::from(bound), nonce(number));
        let opened = key.open_in_place_separate_tag(number, bound, tag, part, 0..);
        scrub_registers();
        debug_assert!(opened.as_ref().map_or(bytes, |part| part.len()) == bytes, "all of it");
        opened.is_ok()
    }
}

fn write_sum(tag: &mut [u8; RECORD_TAG_BYTES], bound: &[u8], part: &[u8]) {
    let sum = checksum(bound, part);
    debug_assert!(sum.len() <= tag.len(), "there is room for it");
    for (to, from) in tag.iter_mut().zip(sum) {
        *to = from;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot begin has failed")]

    use super::super::JobKey;
    use super::*;

    const PATH: StreamPath = StreamPath { from: (0, 10), to: (1, 11), stream: 1, random: [5, 6] };

    #[test]
    fn what_is_sealed_opens_and_nothing_else_does() {
        let keys = JobKey::new(&mut [3; 32]).unwrap().stream_keys().unwrap();
        for security in [Security::Crc, Security::Aead] {
            let cipher = keys.cipher(security, &PATH).unwrap();
            let mut part = *b"some bytes of a record";
            let tag = cipher.seal(4, b"head", &mut part);
            let sealed = part;
            assert_eq!(sealed != *b"some bytes of a record", security == Security::Aead);
            assert!(cipher.open(4, b"head", &mut part, &tag));
            assert_eq!(&part, b"some bytes of a record");
            for at in 0..sealed.len() {
                let mut changed = sealed;
                changed[at] ^= 1;
                assert!(!cipher.open(4, b"head", &mut changed, &tag), "byte {at}");
            }
            assert!(!cipher.open(4, b"heat", &mut sealed.clone(), &tag), "another head");
            let mut other = tag;
            other[0] ^= 1;
            assert!(!cipher.open(4, b"head", &mut sealed.clone(), &other), "another tag");
        }
    }

    #[test]
    fn every_part_of_a_streams_identity_changes_its_key() {
        let keys = JobKey::new(&mut [3; 32]).unwrap().stream_keys().unwrap();
        let others = [
            StreamPath { from: (2, 10), ..PATH },
            StreamPath { from: (0, 12), ..PATH },
            StreamPath { to: (2, 11), ..PATH },
            StreamPath { to: (1, 12), ..PATH },
            StreamPath { stream: 2, ..PATH },
            StreamPath { random: [7, 6], ..PATH },
            StreamPath { random: [5, 6 | 1 << 63], ..PATH },
        ];
        let cipher = keys.cipher(Security::Aead, &PATH).unwrap();
        let mut part = *b"bytes";
        let tag = cipher.seal(0, b"", &mut part);
        for other in others {
            assert_ne!(keys.proof(&other).unwrap(), keys.proof(&PATH).unwrap(), "{other:?}");
            let cipher = keys.cipher(Security::Aead, &other).unwrap();
            assert!(!cipher.open(0, b"", &mut part.clone(), &tag), "{other:?}");
        }
        let foreign = JobKey::new(&mut [4; 32]).unwrap().stream_keys().unwrap();
        assert_ne!(foreign.proof(&PATH).unwrap(), keys.proof(&PATH).unwrap());
    }
}
