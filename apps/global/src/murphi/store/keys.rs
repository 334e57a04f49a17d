//! Keys of states, their owners, and the bounds of a store.

use std::path::PathBuf;

/// Returns a number that differs for different words, but by chance. It is neither 0 nor the
/// largest one.
pub fn fingerprint(words: &[u64]) -> u64 {
    let mut hash = 0x9e37_79b9_7f4a_7c15 ^ words.len() as u64;
    for word in words {
        hash = mix(hash ^ word, 0xd6e8_feb8_6659_fd93);
        hash ^= word.rotate_left(29);
    }
    mix(hash, 0xa076_1d64_78bd_642f).clamp(1, u64::MAX - 1)
}

/// Multiplies, and folds both halves of the product.
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0x2545_f491_4f6c_dd1d) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

/// Returns the rank that owns the state with a key.
pub fn owner(key: u64, ranks: usize) -> usize {
    let spread = mix(key, 0xe703_7ed1_a0b4_28db) >> 32;
    ((spread * ranks as u64) >> 32) as usize
}

/// Bounds of a rank's states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreBounds {
    /// Words of a state.
    pub words: usize,
    /// Bits of a key that stands for its state.
    pub compact: Option<u32>,
    /// Bytes of memory.
    pub max_bytes: u64,
    /// Folder for what memory has no room for.
    pub spill: Option<PathBuf>,
    /// False if no parents are kept: then there is no path to an error.
    pub traces: bool,
}

/// Returns a key of as many bits as are kept.
pub fn short_key(bounds: &StoreBounds, print: u64) -> u64 {
    match bounds.compact {
        Some(bits) if bits < 64 => (print >> (64 - bits)).max(1),
        _ => print,
    }
}
