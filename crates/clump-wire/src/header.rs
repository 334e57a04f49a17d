//! The header of a packet: stacks and their incarnations, packet and unit numbers, and
//! acknowledgements.

use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Version of the format; packets of other versions are refused.
pub const VERSION: u8 = 2;
/// Bytes of a header.
pub const HEADER_BYTES: usize = 64;
/// Maximum words of selective acknowledgements in one packet: 8192 units. With its header they fit
/// into any datagram.
pub const MAX_SACK_WORDS: usize = 128;

/// Purpose of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum PacketKind {
    /// Carries a unit: frames that are acknowledged, and retransmitted when lost.
    #[default]
    Data = 1,
    /// Acknowledges only; is not acknowledged itself.
    Ack = 2,
    /// Has the length that the path is hoped to carry; requests a [`PacketKind::ProbeAck`] (RFC
    /// 8899, 4.1).
    Probe = 3,
    /// Answers a probe; `unit` is the probe's length.
    ProbeAck = 4,
    /// Heartbeat of an agent.
    Heartbeat = 5,
    /// The source takes nothing more; units that it has not acknowledged by this were not received.
    Close = 6,
    /// Confirms a [`PacketKind::Close`].
    CloseAck = 7,
    /// Carries a fragment of a unit that is longer than the path now carries
    /// ([`UnitFragment`](crate::UnitFragment)).
    Fragment = 8,
}

impl PacketKind {
    /// All kinds, in the order of their numbers, which begin with 1.
    const ALL: [Self; 8] = [
        Self::Data,
        Self::Ack,
        Self::Probe,
        Self::ProbeAck,
        Self::Heartbeat,
        Self::Close,
        Self::CloseAck,
        Self::Fragment,
    ];

    fn from_bits(bits: u8) -> Option<Self> {
        let at = usize::from(bits).wrapping_sub(1);
        Self::ALL.get(at).copied()
    }
}

/// Flags of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(u8);

impl Flags {
    /// No flags.
    pub const NONE: Flags = Flags(0);
    /// The receiver should acknowledge at once.
    pub const ACK_NOW: Flags = Flags(1);
    /// `echo` and `held` are valid.
    pub const HAS_ECHO: Flags = Flags(2);
    /// No unit has arrived beyond those that the packet describes.
    pub const WHOLE: Flags = Flags(4);
    /// The packet that `echo` is of may have waited in a socket before `held` began.
    pub const MAY_HAVE_WAITED: Flags = Flags(8);

    /// Returns true if all flags of `other` are set.
    #[inline]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the union of both.
    #[inline]
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// The header of a packet. Times are counted in units of 64 ns and wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// Purpose of the packet.
    pub kind: PacketKind,
    /// Flags.
    pub flags: Flags,
    /// Number of packets of the other direction that arrived with a congestion mark, modulo 256
    /// (RFC 3168).
    pub ce: u8,
    /// Job, derived from its key; identifies foreign packets at no cost.
    pub job: u32,
    /// The stack that sent it: a rank's or, numbered behind the ranks, a network interface's;
    /// `0xff00_0000` and a node for an agent's heartbeat.
    pub source: u32,
    /// The stack it is for.
    pub target: u32,
    /// Incarnation of the source; distinguishes a restarted or pretended stack from the known one.
    pub epoch: u32,
    /// Incarnation of the target that the source means.
    pub target_epoch: u32,
    /// Number of this packet, never used twice under one key (it is the nonce of the AEAD).
    pub number: u64,
    /// Number of the unit, in data packets; in those that only acknowledge, the units between `ack`
    /// and the first that the selective acknowledgements describe, less one.
    pub unit: u64,
    /// All units below this number have arrived.
    pub ack: u64,
    /// Bytes that may be in flight towards the source of this packet.
    pub window: u32,
    /// Send time, by the source's clock.
    pub sent: u32,
    /// `sent` of the newest packet that the source has received.
    pub echo: u32,
    /// Time from the arrival of that packet until this one was sent, as far as it is known.
    pub held: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    version_kind: u8,
    flags: u8,
    sack_words: u8,
    ce: u8,
    job: U32,
    source: U32,
    target: U32,
    epoch: U32,
    target_epoch: U32,
    number: U64,
    unit: U64,
    ack: U64,
    window: U32,
    sent: U32,
    echo: U32,
    held: U32,
}

const _: () = assert!(size_of::<Raw>() == HEADER_BYTES);

impl Header {
    /// Encodes the header of a packet that carries `sack_words` words of selective acknowledgements
    /// (at most [`MAX_SACK_WORDS`]) after it.
    #[inline]
    pub fn encode(&self, sack_words: usize) -> [u8; HEADER_BYTES] {
        debug_assert!(sack_words <= MAX_SACK_WORDS, "callers have no more");
        let raw = Raw {
            version_kind: VERSION << 4 | self.kind as u8,
            flags: self.flags.0,
            sack_words: sack_words.min(MAX_SACK_WORDS) as u8,
            ce: self.ce,
            job: self.job.into(),
            source: self.source.into(),
            target: self.target.into(),
            epoch: self.epoch.into(),
            target_epoch: self.target_epoch.into(),
            number: self.number.into(),
            unit: self.unit.into(),
            ack: self.ack.into(),
            window: self.window.into(),
            sent: self.sent.into(),
            echo: self.echo.into(),
            held: self.held.into(),
        };
        zerocopy::transmute!(raw)
    }
}

/// Reason why bytes are not a packet of this format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Shorter than its own header says.
    #[error("too short")]
    Short,
    /// Another version.
    #[error("another version")]
    Version,
    /// A kind, a flag or a length that no stack sends.
    #[error("malformed")]
    Malformed,
}

/// A datagram split into its parts. Nothing in it is authenticated yet.
#[derive(Debug, Clone, Copy)]
pub struct Packet {
    /// The header.
    pub header: Header,
    /// Offset of the protected bytes; all before it is header and selective acknowledgements.
    pub sealed_at: usize,
}

impl Packet {
    /// Splits a datagram into its parts.
    ///
    /// # Errors
    /// Fails if the datagram is too short, of another version, or malformed.
    #[inline]
    pub fn parse(datagram: &[u8]) -> Result<Self, Refused> {
        let (raw, _) = Raw::ref_from_prefix(datagram).map_err(|_| Refused::Short)?;
        if raw.version_kind >> 4 != VERSION {
            return Err(Refused::Version);
        }
        let kind = PacketKind::from_bits(raw.version_kind & 0xf).ok_or(Refused::Malformed)?;
        let words = usize::from(raw.sack_words);
        if words > MAX_SACK_WORDS || raw.flags & !15 != 0 {
            return Err(Refused::Malformed);
        }
        let sealed_at = HEADER_BYTES + words * 8;
        if sealed_at > datagram.len() {
            return Err(Refused::Short);
        }
        let header = Header {
            kind,
            flags: Flags(raw.flags),
            ce: raw.ce,
            job: raw.job.get(),
            source: raw.source.get(),
            target: raw.target.get(),
            epoch: raw.epoch.get(),
            target_epoch: raw.target_epoch.get(),
            number: raw.number.get(),
            unit: raw.unit.get(),
            ack: raw.ack.get(),
            window: raw.window.get(),
            sent: raw.sent.get(),
            echo: raw.echo.get(),
            held: raw.held.get(),
        };
        Ok(Self { header, sealed_at })
    }

    /// Returns the number of words of selective acknowledgements after the header.
    #[inline]
    pub fn sack_words(&self) -> usize {
        (self.sealed_at - HEADER_BYTES) / 8
    }

    /// Reads the selective acknowledgements from the parsed datagram and returns them. Bit `i` of
    /// word `w` means that unit `ack + 1 + offset + 64 w + i` has arrived.
    #[inline]
    pub fn sack<'a>(&self, datagram: &[u8], into: &'a mut [u64; MAX_SACK_WORDS]) -> &'a [u64] {
        let bytes = datagram.get(HEADER_BYTES..self.sealed_at).unwrap_or_default();
        let mut count = 0;
        for (word, bytes) in into.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
            count += 1;
        }
        into.get(..count).unwrap_or_default()
    }
}
