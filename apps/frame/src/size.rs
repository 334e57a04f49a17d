//! Sizes as users write them: `64K`, `4M`, `1.5G`, with powers of 1024 (`KiB` alike) and `kB` as
//! 1000.

/// Parses a size in bytes.
///
/// # Errors
/// Fails with the accepted forms if the text is no size.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale: u64 = match unit.trim() {
        "" | "B" => 1,
        "k" | "K" | "KiB" => 1 << 10,
        "m" | "M" | "MiB" => 1 << 20,
        "g" | "G" | "GiB" => 1 << 30,
        "t" | "T" | "TiB" => 1 << 40,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        other => {
            return Err(format!("unknown unit '{other}': use K, M, G, T (1024) or kB, MB, GB, TB"));
        }
    };
    let value: f64 = number
        .parse()
        .map_err(|_| format!("'{text}' is not a size: write for example 4M, 256M or 1.5G"))?;
    let bytes = value * scale as f64;
    if bytes.is_finite() && bytes < 9e18 {
        Ok(bytes as u64)
    } else {
        Err(format!("'{text}' is too much"))
    }
}

/// Formats a size for users, in powers of 1000 as disks are sold.
pub fn show_bytes(bytes: u64) -> String {
    let units = [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    let value = bytes as f64;
    match units.iter().find(|(_, scale)| value >= *scale) {
        Some((unit, scale)) => format!("{:.1} {unit}", value / scale),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_nonsense_is_refused() {
        assert_eq!(parse_bytes("4M"), Ok(4 << 20));
        assert_eq!(parse_bytes("1.5 GiB"), Ok(3 << 29));
        assert_eq!(parse_bytes("1GB"), Ok(1_000_000_000));
        assert_eq!(parse_bytes("512"), Ok(512));
        for bad in ["", "M", "4X", "1e99T", "-3M", "1.2.3"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
        assert_eq!(show_bytes(1_000_000_000), "1.0 GB");
        assert_eq!(show_bytes(12), "12 B");
    }
}
