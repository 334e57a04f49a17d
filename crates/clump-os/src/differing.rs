//! Bytes in which two blocks of memory differ, by the processor's vector instructions.
//!
//! They compare 32 or 64 bytes at once: a page of 4 KiB takes some 100 ns, and byte by byte ten
//! times as long.

/// Number of bytes that one word of marks covers.
const MARKED: usize = u64::BITS as usize;

/// Marks the bytes in which `a` and `b` differ: each word of `marks` has a bit for each of 64
/// bytes, the first byte's lowest. Returns false, and marks nothing, where the processor has no
/// instructions for it.
///
/// # Panics
/// Panics unless `a` and `b` are 64 bytes long for each word of `marks`.
pub fn mark_differing(a: &[u8], b: &[u8], marks: &mut [u64]) -> bool {
    assert!(a.len() == b.len() && a.len() == marks.len() * MARKED, "64 bytes for each word");
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512bw") {
        // SAFETY: the processor has AVX-512BW, as was just checked; the lengths were checked above.
        unsafe { avx512(a, b, marks) };
        return true;
    } else if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, as was just checked; the lengths were checked above.
        unsafe { avx2(a, b, marks) };
        return true;
    }
    false
}

/// # Safety
/// `a` and `b` are 64 bytes long for each word of `marks`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn avx512(a: &[u8], b: &[u8], marks: &mut [u64]) {
    use core::arch::x86_64::{_mm512_cmpneq_epi8_mask, _mm512_loadu_si512};
    debug_assert!(a.len() == b.len() && a.len() == marks.len() * MARKED);
    for (word, mark) in marks.iter_mut().enumerate() {
        // SAFETY: 64 bytes from `word * 64` on are within both, by this function's contract.
        let (left, right) = unsafe {
            let at = word * MARKED;
            let left = _mm512_loadu_si512(a.as_ptr().add(at).cast());
            (left, _mm512_loadu_si512(b.as_ptr().add(at).cast()))
        };
        *mark = _mm512_cmpneq_epi8_mask(left, right);
    }
}

/// # Safety
/// `a` and `b` are 64 bytes long for each word of `marks`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2(a: &[u8], b: &[u8], marks: &mut [u64]) {
    use core::arch::x86_64::{_mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_movemask_epi8};
    debug_assert!(a.len() == b.len() && a.len() == marks.len() * MARKED);
    let equal = |at: usize| {
        // SAFETY: 32 bytes from `at` on are within both, by this function's contract.
        let (left, right) = unsafe {
            let left = _mm256_loadu_si256(a.as_ptr().add(at).cast());
            (left, _mm256_loadu_si256(b.as_ptr().add(at).cast()))
        };
        u64::from(_mm256_movemask_epi8(_mm256_cmpeq_epi8(left, right)).cast_unsigned())
    };
    for (word, mark) in marks.iter_mut().enumerate() {
        let at = word * MARKED;
        *mark = !(equal(at) | equal(at + MARKED / 2) << (MARKED / 2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Byte by byte.
    fn slow(a: &[u8], b: &[u8]) -> Vec<u64> {
        let word = |(a, b): (&[u8], &[u8])| {
            let bits = a.iter().zip(b).enumerate();
            bits.fold(0, |word, (at, (a, b))| word | u64::from(a != b) << at)
        };
        a.chunks(MARKED).zip(b.chunks(MARKED)).map(word).collect()
    }

    /// Marks by each kind of instructions that this processor has.
    fn fast(a: &[u8], b: &[u8]) -> Vec<Vec<u64>> {
        let mut found = Vec::new();
        let mut marks = vec![7; a.len() / MARKED];
        if mark_differing(a, b, &mut marks) {
            found.push(marks.clone());
        }
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2, and the lengths fit.
            unsafe { avx2(a, b, &mut marks) };
            found.push(marks);
        }
        found
    }

    #[test]
    fn random_blocks_as_byte_by_byte() {
        let mut random = clump_test_tier::Sampler::new(1);
        for case in 0..500 {
            let a: Vec<u8> = (0..4096).map(|_| random.number() as u8).collect();
            let mut b = a.clone();
            for _ in 0..random.index(200) {
                b[random.index(4096)] = random.number() as u8;
            }
            // Blocks need not be aligned, and may be empty.
            let skew = random.index(MARKED);
            let words = random.index(4096 / MARKED);
            let part = skew..skew + words * MARKED;
            let (a, b) = (&a[part.clone()], &b[part]);
            for marks in fast(a, b) {
                assert_eq!(marks, slow(a, b), "case {case}");
            }
        }
    }

    #[test]
    fn single_bytes_and_bits_everywhere() {
        let a = [0x80; 192];
        for at in 0..a.len() {
            for bit in [1, 0x80] {
                let mut b = a;
                b[at] ^= bit;
                for marks in fast(&a, &b) {
                    assert_eq!(marks, slow(&a, &b), "byte {at}");
                    assert_eq!(marks[at / MARKED], 1 << (at % MARKED));
                }
            }
        }
        for marks in fast(&[1; 64], &[2; 64]) {
            assert_eq!(marks, [u64::MAX]);
        }
    }
}
