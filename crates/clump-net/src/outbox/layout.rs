//! Memory around a unit, and the sizes by which units are filled.

/// Room before a unit, and the largest room behind it.
pub(super) const HEADROOM: usize = clump_wire::HEADER_BYTES;
pub(super) const TAILROOM: usize = 16;
/// Least room for payload for which a message is begun in a packet that is not empty.
pub(super) const MIN_FRAGMENT: usize = 256;
