//! The unit in which memory is mapped.

/// The smallest unit of a mapping, in bytes. Offsets in memory files are multiples of it, so a
/// kernel with larger pages is refused ([`crate::map::sealed_memory`]).
pub const PAGE: usize = 4096;
