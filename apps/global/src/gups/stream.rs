//! The numbers of HPCC RandomAccess: a shift register over the polynomial x^64 + x^2 + x + 1.

/// Lower terms of the polynomial.
const POLYNOMIAL: u64 = 7;

/// Numbers from any place of the stream on.
#[derive(Debug, Clone)]
pub struct Stream(u64);

impl Stream {
    /// Creates the stream that gives number `n + 1`, `n + 2` and so on; number 0 is 1.
    pub fn after(n: u64) -> Self {
        // Squares of the step: each the one before, applied twice.
        let mut square: [u64; 64] = std::array::from_fn(|bit| shifted(1 << bit));
        let (mut number, mut rest) = (1, n);
        while rest > 0 {
            if rest & 1 == 1 {
                number = applied(&square, number);
            }
            square = std::array::from_fn(|bit| applied(&square, square[bit]));
            rest >>= 1;
        }
        Self(number)
    }
}

impl Iterator for Stream {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        self.0 = shifted(self.0);
        Some(self.0)
    }
}

#[inline]
fn shifted(number: u64) -> u64 {
    (number << 1) ^ if number >> 63 == 1 { POLYNOMIAL } else { 0 }
}

/// Applies a linear map, given by its values of single bits.
fn applied(map: &[u64; 64], number: u64) -> u64 {
    let bits = (0..64).filter(|bit| number >> bit & 1 == 1);
    bits.fold(0, |sum, bit: usize| sum ^ map[bit])
}

#[cfg(test)]
mod tests {
    use super::Stream;

    #[test]
    fn skipping_is_stepping() {
        let all: Vec<_> = Stream::after(0).take(2000).collect();
        for n in [0, 1, 2, 63, 64, 65, 1000, 1999] {
            assert_eq!(Stream::after(n as u64).next(), Some(all[n]), "{n}");
        }
    }
}
