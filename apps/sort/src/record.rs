//! The record of the sort benchmarks: 100 bytes, of which the first 10 are the key
//! (sortbenchmark.org).

/// Bytes of a record.
pub const RECORD: usize = 100;
/// Bytes of its key, the first of the record, compared as unsigned bytes.
pub const KEY: usize = 10;
/// Low bits of an [`order`] that hold a position; the 80 key bits stand above them.
pub const POSITION_BITS: u32 = 48;
/// Records that one job can number.
pub const MAX_RECORDS: u64 = 1 << POSITION_BITS;

/// Returns a key and a position in one number, which compares as (key, position).
///
/// The position breaks ties, so that a splitter can fall in the middle of a million equal keys.
#[inline(always)]
pub fn order(record: &[u8], position: u64) -> u128 {
    debug_assert!(position < MAX_RECORDS, "a position has 48 bits");
    let mut wide = [0u8; 16];
    wide[..KEY].copy_from_slice(&record[..KEY]);
    u128::from_be_bytes(wide) | u128::from(position)
}

/// Returns the position inside an [`order`].
#[inline(always)]
pub fn position(order: u128) -> u64 {
    (order as u64) & (MAX_RECORDS - 1)
}

/// Formats an 80-bit key as 20 hexadecimal digits.
pub fn key_hex(key: u128) -> String {
    format!("{key:020x}")
}

/// Sum of the CRC-32s of records: equal multisets of records have equal sums, in any order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordSum(pub u128);

impl RecordSum {
    /// Adds one record.
    #[inline]
    pub fn add(&mut self, record: &[u8]) {
        self.0 = self.0.wrapping_add(u128::from(crc32fast::hash(record)));
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: Self) {
        self.0 = self.0.wrapping_add(other.0);
    }

    /// Parses the text that [`RecordSum::hex`] writes.
    ///
    /// # Errors
    /// Fails if the text is no hexadecimal number.
    pub fn from_hex(text: &str) -> anyhow::Result<Self> {
        let digits = text.trim().trim_start_matches("0x");
        u128::from_str_radix(digits, 16).map(Self).map_err(|_| {
            anyhow::anyhow!("'{text}' is not a checksum: hexadecimal digits are wanted")
        })
    }

    /// Formats the sum as gensort and valsort print it: hexadecimal, no prefix, no leading zeros.
    pub fn hex(self) -> String {
        format!("{:x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_compares_by_key_and_then_by_position() {
        let (mut a, mut b) = ([0u8; RECORD], [0u8; RECORD]);
        (a[9], b[9]) = (1, 2);
        assert!(order(&a, 77) < order(&b, 3));
        assert!(order(&a, 3) < order(&a, 77));
        assert_eq!(position(order(&b, 77)), 77);
        b[10] = 255;
        assert_eq!(order(&b, 5) >> POSITION_BITS, 2, "bytes after the key do not count");
        assert_eq!(key_hex(order(&b, 5) >> POSITION_BITS), "00000000000000000002");
    }
}
