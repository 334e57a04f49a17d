//! gensort's random numbers: a 128-bit linear congruential generator that can jump.
//!
//! `x' = a x + c mod 2^128`, starting from 0. The multiplier is one of L'Ecuyer's ("Tables of
//! linear congruential generators of different sizes and good lattice structure", Mathematics of
//! Computation 68, 1999, pp. 249-260); both constants are those of gensort 1.5
//! (ordinal.com/gensort.html), which Hadoop's TeraGen uses too.

const A: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;
const C: u128 = 0x4a69_6d47_7261_7952_4950_2020_2020_2001;

/// The generator after some number of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lcg(u128);

impl Lcg {
    /// Returns the generator that has already made `steps` numbers, in O(log steps).
    pub fn skip(steps: u128) -> Self {
        // x -> a x + c applied twice is x -> a^2 x + (a + 1) c: square and multiply on such maps.
        let (mut a, mut c) = (A, C);
        let mut x = 0u128;
        let mut left = steps;
        while left > 0 {
            if left & 1 == 1 {
                x = a.wrapping_mul(x).wrapping_add(c);
            }
            c = a.wrapping_add(1).wrapping_mul(c);
            a = a.wrapping_mul(a);
            left >>= 1;
        }
        Self(x)
    }

    /// Returns the next number.
    #[inline(always)]
    pub fn next_number(&mut self) -> u128 {
        self.0 = A.wrapping_mul(self.0).wrapping_add(C);
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumping_is_stepping() {
        let mut walked = Lcg::skip(0);
        for steps in 0..2000u128 {
            assert_eq!(walked, Lcg::skip(steps));
            walked.next_number();
        }
        let mut far = Lcg::skip((1 << 100) + 12_345);
        for _ in 0..55 {
            far.next_number();
        }
        assert_eq!(far, Lcg::skip((1 << 100) + 12_400));
    }

    #[test]
    fn powers_of_two_are_those_of_rand16() {
        // The additive constants of rand16.c's table are the states after 2^i steps from 0.
        assert_eq!(Lcg::skip(1 << 3).0, 0x5efc_4abf_aca2_3e8c_a8ed_b1f2_dfbf_6478);
        assert_eq!(Lcg::skip(1 << 20).0, 0x1b25_cb9c_fe5a_0c96_3174_f91a_97f0_0000);
        assert_eq!(Lcg::skip(1 << 64).0, 0xf0b1_944b_fd71_a97f_0000_0000_0000_0000);
    }
}
