//! Mapped memory as words that many processes read and write at once.
//!
//! Every access is atomic: a naturally aligned access of 1, 2, 4 or 8 bytes is never torn, and
//! longer ones are made of such accesses. So accesses of local ranks to a segment and those of its
//! network interface for remote ranks are compatible.

use clump_os::map::Mapping;
use clump_os::sync::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// Words of a mapping that many processes read and write atomically at once.
#[derive(Debug, Clone)]
pub struct Cells {
    map: Mapping,
}

/// Defines accessors of cells, by their type.
macro_rules! cell {
    ($name:ident, $cell:ty, $doc:literal) => {
        #[doc = $doc]
        /// Returns `None` when it is not all inside, or not aligned.
        #[inline(always)]
        pub fn $name(&self, offset: u64) -> Option<&$cell> {
            const BYTES: u64 = size_of::<$cell>() as u64;
            if !self.holds(offset, BYTES) || !offset.is_multiple_of(BYTES) {
                return None;
            }
            // SAFETY: in bounds and aligned (just checked; mappings are page aligned); the mapping
            // lives as long as the reference, and all processes that share the memory use atomics
            // or raw copies.
            Some(unsafe { self.map.base().add(offset as usize).cast::<$cell>().as_ref() })
        }
    };
}

impl Cells {
    /// Creates cells over a mapping.
    pub fn over(map: Mapping) -> Self {
        debug_assert!(map.base().cast::<AtomicU64>().is_aligned(), "mappings are page aligned");
        Self { map }
    }

    /// Returns the address of the first byte. The caller checks bounds and keeps the memory mapped.
    #[inline(always)]
    pub fn base(&self) -> std::ptr::NonNull<u8> {
        self.map.base()
    }

    /// Returns the number of bytes that are mapped.
    #[inline(always)]
    pub fn bytes(&self) -> u64 {
        self.map.bytes() as u64
    }

    /// Returns true if `[offset, offset + bytes)` lies inside.
    #[inline(always)]
    pub fn holds(&self, offset: u64, bytes: u64) -> bool {
        offset.checked_add(bytes).is_some_and(|end| end <= self.bytes())
    }

    cell!(word, AtomicU64, "The 64-bit word at `offset`.");
    cell!(half, AtomicU32, "The 32-bit word at `offset`.");
    cell!(quarter, AtomicU16, "The 16-bit word at `offset`.");
    cell!(byte, AtomicU8, "The byte at `offset`.");

    /// Returns `count` words from `offset` on; `None` when they are not all inside, or not aligned.
    pub fn words(&self, offset: u64, count: usize) -> Option<&[AtomicU64]> {
        let bytes = u64::try_from(count).ok()?.checked_mul(8)?;
        if !self.holds(offset, bytes) || !offset.is_multiple_of(8) {
            return None;
        }
        // SAFETY: in bounds and aligned (just checked); as for one word.
        Some(unsafe {
            let first = self.map.base().add(offset as usize).cast::<AtomicU64>();
            debug_assert!(first.is_aligned(), "a word that is not aligned may be torn");
            std::slice::from_raw_parts(first.as_ptr(), count)
        })
    }

    /// Copies `to.len()` bytes from `offset` on; returns false, and copies nothing, when they are
    /// not all inside.
    #[inline]
    pub fn read(&self, offset: u64, to: &mut [u8]) -> bool {
        if !self.holds(offset, to.len() as u64) {
            return false;
        }
        let (mut at, mut to) = (offset, to);
        let end = offset + to.len() as u64;
        while !to.is_empty() {
            let step = step(at, to.len());
            let Some((piece, rest)) = to.split_at_mut_checked(step) else {
                clump_bug::bug!("a step is no longer than what is left");
                return false;
            };
            self.read_fragment(at, piece);
            at += step as u64;
            to = rest;
            if at.is_multiple_of(8) && to.len() >= 8 {
                let words = to.as_chunks_mut::<8>().0;
                for word in words.iter_mut() {
                    self.read_fragment(at, word);
                    at += 8;
                }
                let done = words.len() * 8;
                to = to.get_mut(done..).unwrap_or_default();
            }
            debug_assert_eq!(at + to.len() as u64, end, "every byte is copied once");
        }
        debug_assert_eq!(at, end, "all bytes are copied");
        true
    }

    /// Copies `from` to `offset`; returns false, and writes nothing, when it does not fit.
    #[inline]
    pub fn write(&self, offset: u64, from: &[u8]) -> bool {
        if !self.holds(offset, from.len() as u64) {
            return false;
        }
        let (mut at, mut from) = (offset, from);
        let end = offset + from.len() as u64;
        while !from.is_empty() {
            let step = step(at, from.len());
            let Some((piece, rest)) = from.split_at_checked(step) else {
                clump_bug::bug!("a step is no longer than what is left");
                return false;
            };
            self.write_fragment(at, piece);
            at += step as u64;
            from = rest;
            if at.is_multiple_of(8) && from.len() >= 8 {
                let (words, tail) = from.as_chunks::<8>();
                for word in words {
                    self.write_fragment(at, word);
                    at += 8;
                }
                from = tail;
            }
            debug_assert_eq!(at + from.len() as u64, end, "every byte is copied once");
        }
        debug_assert_eq!(at, end, "all bytes are copied");
        true
    }

    /// Asserts that one access copies `len` bytes at `at`.
    #[inline(always)]
    fn check_fragment(&self, at: u64, len: usize) {
        debug_assert!(matches!(len, 1 | 2 | 4 | 8), "one access is 1, 2, 4 or 8 bytes long");
        debug_assert!(at.is_multiple_of(len as u64), "an access that is not aligned may be torn");
        debug_assert!(self.holds(at, len as u64), "nothing outside is touched");
    }

    #[inline(always)]
    fn read_fragment(&self, at: u64, to: &mut [u8]) {
        const RELAXED: Ordering = Ordering::Relaxed;
        self.check_fragment(at, to.len());
        match to.len() {
            8 => to.copy_from_slice(&self.word(at).map_or(0, |w| w.load(RELAXED)).to_ne_bytes()),
            4 => to.copy_from_slice(&self.half(at).map_or(0, |w| w.load(RELAXED)).to_ne_bytes()),
            2 => to.copy_from_slice(&self.quarter(at).map_or(0, |w| w.load(RELAXED)).to_ne_bytes()),
            _ => to.copy_from_slice(&self.byte(at).map_or(0, |w| w.load(RELAXED)).to_ne_bytes()),
        }
    }

    #[inline(always)]
    fn write_fragment(&self, at: u64, from: &[u8]) {
        const RELAXED: Ordering = Ordering::Relaxed;
        self.check_fragment(at, from.len());
        if let [a, b, c, d, e, f, g, h] = *from
            && let Some(word) = self.word(at)
        {
            word.store(u64::from_ne_bytes([a, b, c, d, e, f, g, h]), RELAXED);
        } else if let [a, b, c, d] = *from
            && let Some(half) = self.half(at)
        {
            half.store(u32::from_ne_bytes([a, b, c, d]), RELAXED);
        } else if let [a, b] = *from
            && let Some(quarter) = self.quarter(at)
        {
            quarter.store(u16::from_ne_bytes([a, b]), RELAXED);
        } else if let [a] = *from
            && let Some(byte) = self.byte(at)
        {
            byte.store(a, RELAXED);
        }
    }
}

/// Returns the bytes of the largest aligned access at `at` of which `left` bytes are left.
#[inline(always)]
fn step(at: u64, left: usize) -> usize {
    let aligned = 1_usize << at.trailing_zeros().min(3);
    let step = match left {
        0..=1 => 1,
        2..=3 => aligned.min(2),
        4..=7 => aligned.min(4),
        _ => aligned,
    };
    debug_assert!(step <= left, "an access takes no more than is left");
    step
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(bytes: usize) -> Cells {
        let fd = clump_os::map::sealed_memory("cells", bytes as u64).unwrap();
        Cells::over(Mapping::shared(&fd, 0, bytes).unwrap())
    }

    #[test]
    fn every_offset_and_length_is_copied_as_it_is() {
        let cells = cells(4096);
        for offset in 0..17 {
            for len in 0..64 {
                let sent: Vec<u8> = (0..len).map(|i| (i * 7 + offset as usize + 1) as u8).collect();
                assert!(cells.write(100, &[0xee; 100]));
                assert!(cells.write(104 + offset, &sent));
                let mut got = vec![0; len + 8];
                assert!(cells.read(100 + offset, &mut got));
                assert_eq!(got[..4], [0xee; 4]);
                assert_eq!(got[4..len + 4], sent);
                assert_eq!(got[len + 4..], [0xee; 4]);
            }
        }
    }

    #[test]
    fn nothing_outside_is_touched() {
        let cells = cells(4096);
        assert!(cells.word(4088).is_some() && cells.word(4089).is_none());
        assert!(cells.word(4).is_none() && cells.half(4).is_some() && cells.half(4094).is_none());
        for offset in [4090, 4096, u64::MAX - 3, u64::MAX] {
            assert!(cells.word(offset).is_none());
            assert!(!cells.write(offset, &[1; 8]) && !cells.read(offset, &mut [0; 8]), "{offset}");
        }
        assert!(cells.write(4096, &[]) && cells.write(4088, &[1; 8]));
    }

    #[test]
    fn aligned_pieces_are_never_torn() {
        let cells = cells(4096);
        let other = cells.clone();
        let done = std::sync::Arc::new(clump_os::sync::AtomicBool::new(false));
        let seen = done.clone();
        let writer = std::thread::spawn(move || {
            let mut value = 0_u8;
            while !seen.load(Ordering::Relaxed) {
                value = value.wrapping_add(1);
                other.write(64, &[value; 8]);
                other.write(80, &[value; 4]);
            }
        });
        for _ in 0..100_000 {
            let (mut eight, mut four) = ([0; 8], [0; 4]);
            cells.read(64, &mut eight);
            cells.read(80, &mut four);
            assert!(eight.iter().all(|b| *b == eight[0]) && four.iter().all(|b| *b == four[0]));
        }
        done.store(true, Ordering::Relaxed);
        writer.join().unwrap();
    }
}
