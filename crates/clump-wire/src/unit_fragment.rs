//! Fragments of units that are longer than their path now carries, one in each packet.

use zerocopy::byteorder::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the fragment header, before those of the unit.
pub const UNIT_FRAGMENT_BYTES: usize = 8;

/// Position of a fragment in its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnitFragment {
    /// Offset of its first byte.
    pub offset: u32,
    /// Bytes of the whole unit.
    pub total: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    offset: U32,
    total: U32,
}

const _: () = assert!(size_of::<Raw>() == UNIT_FRAGMENT_BYTES);

impl UnitFragment {
    /// Encodes the fragment header.
    pub fn encode(self) -> [u8; UNIT_FRAGMENT_BYTES] {
        zerocopy::transmute!(Raw { offset: self.offset.into(), total: self.total.into() })
    }

    /// Splits the body of a packet into header and bytes; `None` if it is no fragment: cut short,
    /// empty, or beyond its unit's end.
    pub fn parse(body: &[u8]) -> Option<(Self, &[u8])> {
        let (raw, bytes) = Raw::ref_from_prefix(body).ok()?;
        let slice = Self { offset: raw.offset.get(), total: raw.total.get() };
        let end = u64::from(slice.offset) + bytes.len() as u64;
        (!bytes.is_empty() && end <= u64::from(slice.total)).then_some((slice, bytes))
    }
}
