//! Records: what a stream beside the datagrams carries, and the hello that begins it.
//!
//! ```text
//! hello:  "clumps01" | job | source | target | stream | proof, 16 bytes
//! record: number | bytes of payload and of frame | frame without payload | tag || payload | tag
//!         8        4 + 4                          168                     16               16
//! ```
//! Head and payload are sealed each by itself, so that a receiver knows that a head is genuine
//! before it writes the payload to where the head says.

use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a hello.
pub const HELLO_BYTES: usize = 40;
/// Bytes of a proof in a hello.
pub const PROOF_BYTES: usize = 16;
/// Bytes of a record's head, with its tag.
pub const RECORD_HEAD_BYTES: usize = RECORD_FRAME_AT + RECORD_FRAME_BYTES + RECORD_TAG_BYTES;
/// Bytes of a record's head that are not encrypted.
pub const RECORD_FRAME_AT: usize = 16;
/// Room for the frame in a record's head.
pub const RECORD_FRAME_BYTES: usize = crate::frame::MAX_HEAD_BYTES + 8 * crate::frame::MAX_WORDS;
/// Bytes of each of the two tags.
pub const RECORD_TAG_BYTES: usize = 16;
/// Longest payload of a record.
pub const MAX_RECORD_PAYLOAD: usize = 1 << 20;

/// Begins every hello: other protocols, and other versions of this one, begin otherwise.
const MAGIC: [u8; 8] = *b"clumps01";

/// The first bytes of a stream, from the stack that sends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// Number that tells the job from others.
    pub job: u32,
    /// The stack that sends.
    pub source: u32,
    /// The stack that it is for.
    pub target: u32,
    /// Number of the stream, among those of this source to this target.
    pub stream: u32,
    /// A proof that the source has the key.
    pub proof: [u8; PROOF_BYTES],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHello {
    magic: [u8; 8],
    job: U32,
    source: U32,
    target: U32,
    stream: U32,
    proof: [u8; PROOF_BYTES],
}

const _: () = assert!(size_of::<RawHello>() == HELLO_BYTES);

impl Hello {
    /// Encodes the hello.
    pub fn encode(&self) -> [u8; HELLO_BYTES] {
        let Self { job, source, target, stream, proof } = *self;
        zerocopy::transmute!(RawHello {
            magic: MAGIC,
            job: job.into(),
            source: source.into(),
            target: target.into(),
            stream: stream.into(),
            proof,
        })
    }

    /// Parses a hello; `None` if it is none of this version.
    pub fn parse(bytes: &[u8; HELLO_BYTES]) -> Option<Self> {
        let raw: RawHello = zerocopy::transmute!(*bytes);
        (raw.magic == MAGIC).then(|| Self {
            job: raw.job.get(),
            source: raw.source.get(),
            target: raw.target.get(),
            stream: raw.stream.get(),
            proof: raw.proof,
        })
    }
}

/// The part of a record's head that is not encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHead {
    /// Number of the record in its stream, from 0.
    pub number: u64,
    /// Bytes of its payload.
    pub payload: u32,
    /// Bytes of its frame.
    pub frame: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRecord {
    number: U64,
    payload: U32,
    frame: U32,
}

const _: () = assert!(size_of::<RawRecord>() == RECORD_FRAME_AT);

impl RecordHead {
    /// Encodes the head.
    pub fn encode(&self) -> [u8; RECORD_FRAME_AT] {
        let Self { number, payload, frame } = *self;
        zerocopy::transmute!(RawRecord {
            number: number.into(),
            payload: payload.into(),
            frame: frame.into(),
        })
    }

    /// Parses the head of a record; `None` if no correct peer sends it.
    pub fn parse(head: &[u8]) -> Option<Self> {
        let (raw, _) = RawRecord::ref_from_prefix(head).ok()?;
        let head =
            Self { number: raw.number.get(), payload: raw.payload.get(), frame: raw.frame.get() };
        let fits = head.payload as usize <= MAX_RECORD_PAYLOAD
            && head.frame as usize <= RECORD_FRAME_BYTES;
        fits.then_some(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let hello = Hello { job: 1, source: 2, target: 3, stream: 4, proof: [5; PROOF_BYTES] };
        assert_eq!(Hello::parse(&hello.encode()), Some(hello));
        let mut other = hello.encode();
        other[7] ^= 1;
        assert_eq!(Hello::parse(&other), None, "another version");
        let head = RecordHead { number: 1 << 40, payload: 1 << 20, frame: 168 };
        assert_eq!(head.encode()[..10], [0, 0, 0, 0, 0, 1, 0, 0, 0, 0], "little endian");
        assert_eq!(RecordHead::parse(&head.encode()), Some(head));
    }

    #[test]
    fn lengths_that_no_peer_sends_are_refused() {
        let head = RecordHead { number: 0, payload: MAX_RECORD_PAYLOAD as u32 + 1, frame: 8 };
        assert_eq!(RecordHead::parse(&head.encode()), None);
        let head = RecordHead { number: 0, payload: 8, frame: RECORD_FRAME_BYTES as u32 + 1 };
        assert_eq!(RecordHead::parse(&head.encode()), None);
        assert_eq!(RecordHead::parse(&[0; 15]), None, "cut short");
    }
}
