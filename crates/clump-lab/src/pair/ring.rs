//! A ring of long messages whose receiver reads every byte.
//!
//! A stream that is deposited at the same place, and that nobody reads, stays in the sender's cache
//! and says nothing of the way between two processors.

use crate::baseline::PageAligned;
use clump_am::Payload;

/// Bytes of the ring that long messages go through, beyond the caches of one core.
pub const RING_BYTES: usize = 16 << 20;
/// Bytes of a payload that are copied out at a time to be summed: they stay in the first cache.
const SUMMED: usize = 4096;

/// Returns the places of a ring of messages of `bytes`, as in `peers/mpi_bench.c`.
pub fn ring_places(bytes: usize) -> usize {
    debug_assert!(bytes <= RING_BYTES / 4, "a ring has four places at least");
    (RING_BYTES / bytes.max(1)).clamp(1, 64)
}

/// The side that reads.
#[derive(Debug)]
pub struct RingReader {
    part: PageAligned,
    read: u64,
    total: u64,
}

impl Default for RingReader {
    fn default() -> Self {
        Self { part: PageAligned::filled(SUMMED, 1), read: 0, total: 0 }
    }
}

impl RingReader {
    /// Reads a message; returns how many it has read.
    pub fn take(&mut self, payload: &Payload<'_>) -> u64 {
        self.read_parts(payload.len(), |from, part| payload.copy_part(from, part));
        std::hint::black_box(self.total);
        self.read += 1;
        self.read
    }

    /// Sums `len` bytes, which `copy` copies from an offset on, as many as there is room for.
    fn read_parts(&mut self, len: usize, copy: impl Fn(usize, &mut [u8]) -> usize) {
        for from in (0..len).step_by(SUMMED) {
            let copied = copy(from, &mut self.part);
            debug_assert_eq!(copied, SUMMED.min(len - from), "a part of the payload");
            self.total = self.total.wrapping_add(sum(&self.part[..copied]));
        }
    }
}

/// Sums bytes as words, four at a time, as the programs of peers do.
fn sum(bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<32>();
    let mut sums = [0_u64; 4];
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (sum, word) in sums.iter_mut().zip(words) {
            *sum = sum.wrapping_add(u64::from_ne_bytes(*word));
        }
    }
    let rest = rest.iter().map(|&byte| u64::from(byte));
    sums.into_iter().chain(rest).fold(0, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_has_four_places_for_the_longest_and_is_larger_than_a_cache() {
        assert_eq!([4096, 1 << 20, 4 << 20].map(ring_places), [64, 16, 4]);
        assert_eq!(sum(&[1; 64]), 8 * 0x0101_0101_0101_0101);
        assert_eq!(sum(&[]), 0);
    }

    #[test]
    fn a_reader_sums_every_byte_of_a_message() {
        let total = |message: &[u8]| {
            let mut reader = RingReader::default();
            reader.read_parts(message.len(), |from, part| {
                let copied = part.len().min(message.len() - from);
                part[..copied].copy_from_slice(&message[from..from + copied]);
                copied
            });
            reader.total
        };
        let mut message: Vec<u8> = (0..SUMMED + 77).map(|at| (at * 7) as u8).collect();
        let all = total(&message);
        for at in 0..message.len() {
            message[at] ^= 1;
            assert_ne!(total(&message), all, "byte {at} is not read");
            message[at] ^= 1;
        }
        assert_eq!(total(&message), all);
    }
}
