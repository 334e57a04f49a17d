//! The name of an endpoint.

use clump_am::Name;

/// An endpoint's name as C has it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct en_t {
    pub(crate) bits: u64,
}

impl en_t {
    /// The name of no endpoint.
    pub(crate) const NONE: Self = Self { bits: 0 };

    pub(crate) fn of(name: Name) -> Self {
        Self { bits: name.to_bits() }
    }

    pub(crate) fn name(self) -> Name {
        Name::from_bits(self.bits)
    }
}
