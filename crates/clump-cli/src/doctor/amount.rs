//! Amounts of memory, as reports show them.

/// Formats bytes in the largest unit that keeps a digit before the point.
pub fn bytes(n: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    for (unit, shift) in UNITS {
        if n >> shift > 0 {
            let tenths = (n >> (shift - 4)) * 10 / 16;
            let (whole, tenth) = (tenths / 10, tenths % 10);
            let fraction = if tenth == 0 { String::new() } else { format!(".{tenth}") };
            return format!("{whole}{fraction} {unit}");
        }
    }
    format!("{n} B")
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn bytes_are_written_in_the_unit_that_fits() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(512 << 10), "512 KiB");
        assert_eq!(bytes((3 << 30) / 2), "1.5 GiB");
        assert_eq!(bytes(32 << 20), "32 MiB");
        assert_eq!(bytes(u64::MAX), "16777215.9 TiB");
    }
}
