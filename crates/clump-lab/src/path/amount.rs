//! Amounts on the command line of `clump lab path`: times, rates, sizes, shares, with their units.

/// Units of times, in ns.
const TIMES: &[(&str, f64)] = &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
/// Units of rates, in bits per second.
const RATES: &[(&str, f64)] = &[("bit", 1.0), ("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];
/// Units of sizes, in bytes.
const SIZES: &[(&str, f64)] =
    &[("B", 1.0), ("KiB", 1024.0), ("MiB", 1_048_576.0), ("GiB", 1_073_741_824.0)];
/// Units of shares, in a million.
const SHARES: &[(&str, f64)] = &[("ppm", 1.0), ("%", 1e4)];

/// Reads a time, such as `2ms`, up to 100 s, in ns.
///
/// # Errors
/// It is none.
pub fn time(text: &str) -> Result<u64, String> {
    amount(text, TIMES, 1e11)
}

/// Reads a rate, such as `1gbit`, up to 1000 Gbit/s and not 0, in bits per second.
///
/// # Errors
/// It is none.
pub fn rate(text: &str) -> Result<u64, String> {
    match amount(text, RATES, 1e12)? {
        0 => Err("a path of no rate carries nothing".into()),
        rate => Ok(rate),
    }
}

/// Reads a share, such as `0.1%` or `20ppm`, in a million.
///
/// # Errors
/// It is none.
pub fn share(text: &str) -> Result<u32, String> {
    let ppm = amount(text, SHARES, 1e6)?;
    u32::try_from(ppm).map_err(|why| why.to_string())
}

/// Length of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueLength {
    /// As long as the rate takes to carry it, ns.
    Time(u64),
    /// Bytes.
    Bytes(u64),
}

/// Reads the length of a queue, as a time or a size.
///
/// # Errors
/// It is neither.
pub fn queue(text: &str) -> Result<QueueLength, String> {
    let bytes = || amount(text, SIZES, 1e12).map(QueueLength::Bytes);
    let both = |_| format!("{} or {}", expected(TIMES), expected(SIZES));
    time(text).map(QueueLength::Time).or_else(|_| bytes()).map_err(both)
}

/// Reads pauses, as `10ms/1s`: the length of each, and the time from one to the next, ns.
///
/// # Errors
/// They are none.
pub fn pause(text: &str) -> Result<(u64, u64), String> {
    let (length, every) = text.split_once('/').ok_or("expected LENGTH/EVERY, as in 10ms/1s")?;
    match (time(length)?, time(every)?) {
        (length, every) if length < every => Ok((length, every)),
        _ => Err("a pause is shorter than the time from one to the next".into()),
    }
}

fn amount(text: &str, units: &[(&str, f64)], most: f64) -> Result<u64, String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let size = units.iter().find(|(name, _)| *name == unit.trim_start());
    let value = match (number.parse::<f64>(), size) {
        (Ok(number), Some((_, size))) => number * size,
        (Ok(0.0), None) if unit.is_empty() => 0.0,
        _ => return Err(expected(units)),
    };
    if value > most {
        return Err(format!("{text} is too much"));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 10^12")]
    Ok(value.round() as u64)
}

fn expected(units: &[(&str, f64)]) -> String {
    let names: Vec<_> = units.iter().map(|(name, _)| *name).collect();
    format!("expected a number with its unit ({})", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_units() {
        assert_eq!((time("2ms"), time("0.5 us"), time("0")), (Ok(2_000_000), Ok(500), Ok(0)));
        assert_eq!((rate("1gbit"), rate("2.5mbit")), (Ok(1_000_000_000), Ok(2_500_000)));
        assert_eq!((share("0.1%"), share("20ppm")), (Ok(1000), Ok(20)));
        assert_eq!(queue("5ms"), Ok(QueueLength::Time(5_000_000)));
        assert_eq!(queue("64KiB"), Ok(QueueLength::Bytes(65_536)));
        assert_eq!(pause("10ms/1s"), Ok((10_000_000, 1_000_000_000)));
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for text in ["", "2", "ms", "-1ms", "1.2.3ms", "2 minutes", "1e3s", "101s", "NaNs"] {
            assert!(time(text).is_err(), "{text}");
        }
        assert!(time("2").unwrap_err().contains("ns, us, ms, s"));
        assert!(rate("0gbit").is_err() && rate("2tbit").is_err() && share("101%").is_err());
        assert!(queue("5").unwrap_err().contains("KiB"));
        assert!(pause("1s").is_err() && pause("2s/1s").is_err());
    }
}
