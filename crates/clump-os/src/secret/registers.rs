//! Vector registers: overwriting the secrets that encryption and copying leave in them.
//!
//! Seen with ring 0.17.14 and AES-128-GCM (AVX2): after any packet, xmm9 held the key itself and
//! xmm10 the last round key, and a rank does not overwrite them soon after. A core dump contains
//! them.

/// Overwrites the vector registers, where encryption leaves round keys and copying leaves the
/// copied bytes. About 3 ns. Without effect where this is not written yet: other than x86-64.
#[inline]
pub fn scrub_registers() {
    #[cfg(target_arch = "x86_64")]
    x86_64::scrub_registers();
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::asm;

    #[inline]
    pub(super) fn scrub_registers() {
        if !std::is_x86_feature_detected!("avx") {
            scrub_sse();
            return;
        }
        // SAFETY: the processor has AVX; every register that changes is one that a call may change.
        unsafe {
            asm!("vzeroall", clobber_abi("sysv64"), options(nomem, nostack, preserves_flags));
        }
        if std::is_x86_feature_detected!("avx512f") {
            scrub_upper_half();
        }
    }

    #[cold]
    fn scrub_sse() {
        // SAFETY: every x86-64 processor has SSE2; a call may change these registers.
        unsafe {
            asm!(
                "xorps xmm0, xmm0",
                "xorps xmm1, xmm1",
                "xorps xmm2, xmm2",
                "xorps xmm3, xmm3",
                "xorps xmm4, xmm4",
                "xorps xmm5, xmm5",
                "xorps xmm6, xmm6",
                "xorps xmm7, xmm7",
                "xorps xmm8, xmm8",
                "xorps xmm9, xmm9",
                "xorps xmm10, xmm10",
                "xorps xmm11, xmm11",
                "xorps xmm12, xmm12",
                "xorps xmm13, xmm13",
                "xorps xmm14, xmm14",
                "xorps xmm15, xmm15",
                clobber_abi("sysv64"),
                options(nomem, nostack, preserves_flags),
            );
        }
    }

    /// Overwrites registers 16 to 31, which exist with AVX-512 only; the C library copies through
    /// them there.
    fn scrub_upper_half() {
        // SAFETY: called where the processor has AVX-512; a call may change these registers.
        unsafe {
            asm!(
                "vpxord zmm16, zmm16, zmm16",
                "vpxord zmm17, zmm17, zmm17",
                "vpxord zmm18, zmm18, zmm18",
                "vpxord zmm19, zmm19, zmm19",
                "vpxord zmm20, zmm20, zmm20",
                "vpxord zmm21, zmm21, zmm21",
                "vpxord zmm22, zmm22, zmm22",
                "vpxord zmm23, zmm23, zmm23",
                "vpxord zmm24, zmm24, zmm24",
                "vpxord zmm25, zmm25, zmm25",
                "vpxord zmm26, zmm26, zmm26",
                "vpxord zmm27, zmm27, zmm27",
                "vpxord zmm28, zmm28, zmm28",
                "vpxord zmm29, zmm29, zmm29",
                "vpxord zmm30, zmm30, zmm30",
                "vpxord zmm31, zmm31, zmm31",
                clobber_abi("sysv64"),
                options(nomem, nostack, preserves_flags),
            );
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// Returns the contents of xmm7 and xmm15 after `scrub` ran between writing and reading
        /// them.
        fn left_after(scrub: extern "sysv64" fn()) -> [u64; 2] {
            let (low, high): (u64, u64);
            // SAFETY: declared to change what a call may change; the stack is aligned for it.
            unsafe {
                asm!(
                    "movq xmm7, {mark}",
                    "movq xmm15, {mark}",
                    "call {scrub}",
                    "movq rax, xmm7",
                    "movq rdx, xmm15",
                    mark = in(reg) 0x1122_3344_5566_7788_u64,
                    scrub = in(reg) scrub,
                    lateout("rax") low,
                    lateout("rdx") high,
                    clobber_abi("sysv64"),
                );
            }
            [low, high]
        }

        #[test]
        fn vector_registers_are_overwritten() {
            extern "sysv64" fn nothing() {}
            extern "sysv64" fn all() {
                super::super::scrub_registers();
            }
            extern "sysv64" fn sse() {
                scrub_sse();
            }
            assert_eq!(left_after(nothing), [0x1122_3344_5566_7788; 2]);
            assert_eq!(left_after(all), [0; 2]);
            assert_eq!(left_after(sse), [0; 2]);
        }
    }
}
