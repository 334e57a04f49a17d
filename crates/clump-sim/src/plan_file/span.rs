//! Times and chances as plans write them: `"20 ms"`, `0.01`.

use crate::kernel::{MICROSECOND, MILLISECOND, SECOND, Time};
use serde::{Deserialize, Deserializer, de::Error};

/// A time: a number and its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Time);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        parse(&text).map(Self).ok_or_else(|| {
            D::Error::custom(format!("{text:?} is no time, such as \"20 ms\": ns, us, ms, s"))
        })
    }
}

fn parse(text: &str) -> Option<Time> {
    let (number, unit) = text.trim().split_once(' ')?;
    let scale = match unit.trim() {
        "ns" => 1,
        "us" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => SECOND,
        _ => return None,
    };
    let number: f64 = number.parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some((number * scale as f64) as Time)
}

/// A chance from 0 to 1, kept in a million.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chance(pub(crate) u32);

impl<'de> Deserialize<'de> for Chance {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let chance = f64::deserialize(from)?;
        if !(0.0..=1.0).contains(&chance) {
            return Err(D::Error::custom(format!("{chance} is no chance: 0.0 to 1.0")));
        }
        Ok(Self((chance * 1e6) as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_number_and_a_unit() {
        let known = [("20 ms", 20 * MILLISECOND), ("0.5 s", SECOND / 2), ("7 ns", 7), ("0 us", 0)];
        for (text, time) in known {
            assert_eq!(parse(text), Some(time), "{text}");
        }
        for text in ["20", "20ms", "-1 s", "NaN s", "1 h", ""] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
