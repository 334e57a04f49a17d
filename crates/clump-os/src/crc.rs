//! CRC-32C (RFC 3720, B.4) of short inputs by the processor's own instruction.
//!
//! Libraries interleave several streams, which pays from some hundred bytes up; below that their
//! preparations cost more than the sum. (A head of 64 and a body of 40 bytes: 70 instructions here,
//! 260 in the crate crc32c.)

/// Returns the checksum of `head` and `body`, one behind the other; `None` where the processor has
/// no instruction for it.
#[inline]
pub fn crc32c_short(head: &[u8], body: &[u8]) -> Option<u32> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has SSE 4.2, as was just checked.
        return Some(unsafe { x86_64(head, body) });
    }
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("crc") {
        // SAFETY: the processor has the instructions, as was just checked.
        return Some(unsafe { aarch64(head, body) });
    }
    let _ = (head, body);
    None
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn x86_64(head: &[u8], body: &[u8]) -> u32 {
    use core::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u64};
    let mut sum = u64::from(u32::MAX);
    for piece in [head, body] {
        let (words, rest) = piece.as_chunks::<8>();
        for word in words {
            sum = _mm_crc32_u64(sum, u64::from_le_bytes(*word));
        }
        for byte in rest {
            // The instruction leaves the upper half zero.
            sum = u64::from(_mm_crc32_u8(sum as u32, *byte));
        }
    }
    !(sum as u32)
}

#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "crc")]
fn aarch64(head: &[u8], body: &[u8]) -> u32 {
    use core::arch::aarch64::{__crc32cb, __crc32cd};
    let mut sum = u32::MAX;
    for piece in [head, body] {
        let (words, rest) = piece.as_chunks::<8>();
        for word in words {
            sum = __crc32cd(sum, u64::from_le_bytes(*word));
        }
        for byte in rest {
            sum = __crc32cb(sum, *byte);
        }
    }
    !sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit by bit, as the RFC defines it.
    fn slow(bytes: &[u8]) -> u32 {
        let step = |sum: u32, byte: &u8| {
            (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
                if sum & 1 == 1 { sum >> 1 ^ 0x82f6_3b78 } else { sum >> 1 }
            })
        };
        !bytes.iter().fold(u32::MAX, step)
    }

    #[test]
    fn as_the_rfc_says() {
        // RFC 3720, B.4: 32 bytes of zeros, and of ones.
        assert_eq!(slow(&[0; 32]), 0x8a91_36aa);
        assert_eq!(slow(&[0xff; 32]), 0x62a8_ab43);
        let bytes: Vec<u8> = (0..100_u8).map(|i| i.wrapping_mul(7)).collect();
        for cut in 0..bytes.len() {
            let (head, body) = bytes.split_at(cut);
            let sum = crc32c_short(head, body);
            assert!(sum.is_none_or(|sum| sum == slow(&bytes)), "cut at {cut}");
        }
    }
}
