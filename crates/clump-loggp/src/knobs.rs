//! The knobs of the laboratory: parameters of an emulated slower network.
//!
//! A [`KnobTable`] has a row for each path and class of messages. It is written as text, as in
//! `o=+5us,L=+20us,scope=net`, and kept as words in the memory of each node, so that all ranks of a
//! job have the same. Parts with another scope or class are separated by semicolons.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The path that a knob is turned for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KnobScope {
    /// Messages between ranks of one node.
    Shm,
    /// Messages between nodes.
    Net,
}

/// The class of messages that a knob is turned for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KnobClass {
    /// Messages of words only.
    Short,
    /// Messages with a payload: medium and long ones.
    Bulk,
    /// One-sided operations.
    OneSided,
}

/// Both paths, in the order of the table.
pub const SCOPES: [(KnobScope, &str); 2] = [(KnobScope::Shm, "shm"), (KnobScope::Net, "net")];
/// All classes, in the order of the table.
pub const CLASSES: [(KnobClass, &str); 3] =
    [(KnobClass::Short, "short"), (KnobClass::Bulk, "bulk"), (KnobClass::OneSided, "onesided")];

/// Words of one row.
const ROW_WORDS: usize = 7;
/// Words of a table.
pub const TABLE_WORDS: usize = SCOPES.len() * CLASSES.len() * ROW_WORDS;
/// Longest time of a knob: ten seconds.
const MAX_NS: f64 = 1e10;
/// Largest G, in ns a byte.
const MAX_NS_PER_BYTE: f64 = 1e6;
/// Most requests of a bounded window.
const MAX_CAPACITY: u64 = 1 << 16;

/// Knobs of one path and class of messages. All zero: messages are as fast as they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Knobs {
    /// Added to o_s: time that the processor of the sender is busy for each message.
    pub send_ns: u64,
    /// Added to o_r: time that the processor of the receiver is busy for each message.
    pub receive_ns: u64,
    /// Least interval between two messages that a rank injects.
    pub gap_ns: u64,
    /// Added to L.
    pub latency_ns: u64,
    /// Added to the time of each byte of a payload, in picoseconds.
    pub byte_ps: u64,
    /// Least time for a byte of a stream of payloads, in picoseconds.
    pub stream_ps: u64,
    /// Requests of an endpoint that are in flight at most, as on the rig of paper 001; 0: as many
    /// as there is room for, so that a large L does not raise g.
    pub capacity: u64,
}

impl Knobs {
    /// Returns true if nothing is slowed down.
    pub fn is_off(&self) -> bool {
        *self == Self::default()
    }

    fn words(&self) -> [u64; ROW_WORDS] {
        let Self { send_ns, receive_ns, gap_ns, latency_ns, byte_ps, stream_ps, capacity } = *self;
        [send_ns, receive_ns, gap_ns, latency_ns, byte_ps, stream_ps, capacity]
    }

    fn of_words(words: [u64; ROW_WORDS]) -> Self {
        let [send_ns, receive_ns, gap_ns, latency_ns, byte_ps, stream_ps, capacity] = words;
        let capacity = capacity.min(MAX_CAPACITY);
        Self { send_ns, receive_ns, gap_ns, latency_ns, byte_ps, stream_ps, capacity }
    }
}

/// Parameters of a path of this machine without knobs, as far as it was calibrated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct BaseParameters {
    /// o_s and o_r, in ns.
    pub o_s_ns: Option<f64>,
    /// Time to receive a short message.
    pub o_r_ns: Option<f64>,
    /// g, in ns.
    pub g_ns: Option<f64>,
    /// L, in ns.
    pub l_ns: Option<f64>,
    /// G, in ns a byte.
    pub big_g_ns_per_byte: Option<f64>,
}

/// An invalid text of a table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KnobError {
    /// An unknown word.
    #[error(
        "`{0}` is no knob; o, o_s, o_r, g, L, G, capacity, scope and class are, as in \
         o=+5us,scope=net"
    )]
    Unknown(String),
    /// An invalid capacity.
    #[error("`capacity={0}` is no number of requests from 1 to 65536")]
    Capacity(String),
    /// An invalid value, or one out of range.
    #[error("`{0}` is no time from 0 to 10 s; write +5us, 200ns or 1ms (G: +1ns/B, up to 1ms/B)")]
    Value(String),
    /// An absolute value below what the path takes anyway, or with nothing to compare it with.
    #[error(
        "`{0}` is absolute, but this path {1}; write {0} with a plus to add to it, or calibrate \
         (clump lab calibrate)"
    )]
    Absolute(String, String),
}

/// The knobs of all paths and classes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnobTable {
    rows: [[Knobs; CLASSES.len()]; SCOPES.len()],
}

impl KnobTable {
    /// Returns the knobs of a path and class.
    #[inline]
    pub fn get(&self, scope: KnobScope, class: KnobClass) -> &Knobs {
        &self.rows[scope as usize][class as usize]
    }

    /// Returns a table whose gaps are at least those of the paths, in ns by scope.
    #[must_use]
    pub fn with_least_gaps(mut self, gaps_ns: [u64; 2]) -> Self {
        for (rows, least) in self.rows.iter_mut().zip(gaps_ns) {
            rows.iter_mut().for_each(|row| row.gap_ns = row.gap_ns.max(least));
        }
        debug_assert!(gaps_ns.iter().all(|&gap| gap <= MAX_NS as u64), "gaps of a machine");
        self
    }

    /// Returns true if nothing is slowed down.
    pub fn is_off(&self) -> bool {
        self.rows.iter().flatten().all(Knobs::is_off)
    }

    /// Returns the table as words.
    pub fn to_words(&self) -> [u64; TABLE_WORDS] {
        let mut words = [0; TABLE_WORDS];
        let rows = self.rows.iter().flatten();
        for (part, row) in words.chunks_exact_mut(ROW_WORDS).zip(rows) {
            part.copy_from_slice(&row.words());
        }
        words
    }

    /// Reads [`KnobTable::to_words`]. A value beyond the range of a knob is cut to it.
    pub fn from_words(words: &[u64; TABLE_WORDS]) -> Self {
        let mut table = Self::default();
        let rows = table.rows.iter_mut().flatten();
        for (row, part) in rows.zip(words.as_chunks::<ROW_WORDS>().0) {
            *row = Knobs::of_words(part.map(|word| word.min(MAX_NS as u64)));
        }
        table
    }

    /// Reads a text; `bases`: what the paths take without knobs, in the order of [`SCOPES`].
    ///
    /// # Errors
    /// The text names no knob, or a value that cannot be had.
    pub fn parse(text: &str, bases: &[BaseParameters; 2]) -> Result<Self, KnobError> {
        let mut table = Self::default();
        for group in text.split(';').filter(|group| !group.trim().is_empty()) {
            table.turn(group, bases)?;
        }
        Ok(table)
    }

    /// Applies one group: its scope and class, all if none is named, hold for all its knobs.
    fn turn(&mut self, group: &str, bases: &[BaseParameters; 2]) -> Result<(), KnobError> {
        let words = group.split(',').map(str::trim).filter(|word| !word.is_empty());
        let (mut scopes, mut classes, mut knobs) = (vec![0, 1], vec![0, 1, 2], Vec::new());
        for word in words {
            let unknown = || KnobError::Unknown(word.to_owned());
            let (name, value) = word.split_once('=').ok_or_else(unknown)?;
            let (name, value) = (name.trim(), value.trim());
            let at = |names: &[&str]| names.iter().position(|known| *known == value);
            match name {
                "scope" if value == "all" => {}
                "scope" => scopes = vec![at(&SCOPES.map(|(_, name)| name)).ok_or_else(unknown)?],
                "class" if value == "all" => {}
                "class" => classes = vec![at(&CLASSES.map(|(_, name)| name)).ok_or_else(unknown)?],
                "o" | "o_s" | "o_r" | "g" | "L" | "G" | "capacity" => knobs.push((name, value)),
                _ => return Err(unknown()),
            }
        }
        for (name, value) in knobs {
            for (&scope, &class) in scopes.iter().flat_map(|s| classes.iter().map(move |c| (s, c)))
            {
                let (Some(row), Some(base)) =
                    (self.rows.get_mut(scope).and_then(|row| row.get_mut(class)), bases.get(scope))
                else {
                    continue;
                };
                set(row, base, name, value)?;
            }
        }
        Ok(())
    }
}

/// Turns one knob of one row.
fn set(row: &mut Knobs, base: &BaseParameters, name: &str, value: &str) -> Result<(), KnobError> {
    if name == "capacity" {
        let number = value.parse().ok().filter(|number| (1..=MAX_CAPACITY).contains(number));
        row.capacity = number.ok_or_else(|| KnobError::Capacity(value.to_owned()))?;
        return Ok(());
    }
    let (added, number) = amount(name, value)?;
    let word = format!("{name}={value}");
    let beside = |base: Option<f64>| -> Result<f64, KnobError> {
        match base {
            _ if added => Ok(number),
            Some(base) if number >= base => Ok(number - base),
            Some(base) => {
                Err(KnobError::Absolute(word.clone(), format!("takes {base:.0} ns anyway")))
            }
            None => Err(KnobError::Absolute(word.clone(), "was not calibrated".into())),
        }
    };
    // A least interval: what is added to it is added to what the path takes, if that is known.
    let least = |base: Option<f64>| if added { number + base.unwrap_or(0.0) } else { number };
    match name {
        "o" => {
            row.send_ns = whole(beside(base.o_s_ns)?);
            row.receive_ns = whole(beside(base.o_r_ns)?);
        }
        "o_s" => row.send_ns = whole(beside(base.o_s_ns)?),
        "o_r" => row.receive_ns = whole(beside(base.o_r_ns)?),
        // No gap is added where none is requested.
        "g" => row.gap_ns = if number == 0.0 { 0 } else { whole(least(base.g_ns)) },
        "L" => row.latency_ns = whole(beside(base.l_ns)?),
        _ => {
            let bare = base.big_g_ns_per_byte.unwrap_or(0.0);
            let extra = if added { number } else { (number - bare).max(0.0) };
            let total = if number == 0.0 { 0.0 } else { least(Some(bare)) };
            (row.byte_ps, row.stream_ps) = (whole(extra * 1e3), whole(total * 1e3));
        }
    }
    Ok(())
}

/// Reads a value: true if it is added to what there is, and nanoseconds (G: nanoseconds a byte).
fn amount(name: &str, value: &str) -> Result<(bool, f64), KnobError> {
    let bad = || KnobError::Value(format!("{name}={value}"));
    let (added, text) = match value.strip_prefix('+') {
        Some(rest) => (true, rest),
        None => (false, value),
    };
    let (text, most) = match (name, text.strip_suffix("/B")) {
        ("G", Some(text)) => (text, MAX_NS_PER_BYTE),
        (_, None) if name != "G" => (text, MAX_NS),
        _ if text == "0" => (text, 0.0),
        _ => return Err(bad()),
    };
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let ns = match unit {
        "ps" => 1e-3,
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "" if number == "0" => 0.0,
        _ => return Err(bad()),
    };
    let number = number.parse::<f64>().map_err(|_| bad())? * ns;
    // Not a number compares with nothing.
    if (0.0..=most).contains(&number) { Ok((added, number)) } else { Err(bad()) }
}

/// Returns the texts of one knob at several settings, given one by one (`L=+5us,+10us`) or as a
/// range (`L=+5us..+80us/5`: five settings, each the same multiple of the one before).
///
/// # Errors
/// The text names no knob, or a value that cannot be had.
pub fn settings(text: &str) -> Result<Vec<String>, KnobError> {
    let unknown = || KnobError::Unknown(text.to_owned());
    let (name, values) = text.split_once('=').ok_or_else(unknown)?;
    let name = name.trim();
    if !["o", "o_s", "o_r", "g", "L", "G"].contains(&name) {
        return Err(unknown());
    }
    let Some((low, rest)) = values.split_once("..") else {
        let each = values.split(',').map(str::trim);
        return each.map(|value| amount(name, value).map(|_| format!("{name}={value}"))).collect();
    };
    let bad = || KnobError::Value(text.to_owned());
    let (high, count) = rest
        .split_once('/')
        .filter(|_| !rest.contains("/B"))
        .or_else(|| {
            let (high, count) = rest.rsplit_once('/')?;
            (!count.starts_with('B')).then_some((high, count))
        })
        .ok_or_else(bad)?;
    let count = count.trim().parse::<u32>().ok().filter(|count| (2..=1000).contains(count));
    let ((added, low), (_, high)) = (amount(name, low.trim())?, amount(name, high.trim())?);
    let count = count.filter(|_| low > 0.0 && high > low).ok_or_else(bad)?;
    let (plus, unit, scale) = match (added, name) {
        (true, "G") => ("+", "ps/B", 1e3),
        (false, "G") => ("", "ps/B", 1e3),
        (true, _) => ("+", "ns", 1.0),
        (false, _) => ("", "ns", 1.0),
    };
    let setting = |at: u32| {
        let value = low * (high / low).powf(f64::from(at) / f64::from(count - 1));
        format!("{name}={plus}{}{unit}", whole(value * scale))
    };
    Ok((0..count).map(setting).collect())
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "amount() admits 0 to 10^10, and bases are added to that"
)]
fn whole(number: f64) -> u64 {
    number.round() as u64
}

impl fmt::Display for KnobTable {
    /// Writes the table as it can be read back; nothing where all is off.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (rows, (_, scope)) in self.rows.iter().zip(SCOPES) {
            for (row, (_, class)) in rows.iter().zip(CLASSES).filter(|(row, _)| !row.is_off()) {
                let separator = if std::mem::take(&mut first) { "" } else { ";" };
                write!(f, "{separator}scope={scope},class={class}")?;
                for (name, ns, plus) in [
                    ("o_s", row.send_ns, "+"),
                    ("o_r", row.receive_ns, "+"),
                    ("g", row.gap_ns, ""),
                    ("L", row.latency_ns, "+"),
                ] {
                    if ns != 0 {
                        write!(f, ",{name}={plus}{ns}ns")?;
                    }
                }
                if row.stream_ps != 0 {
                    write!(f, ",G=+{}ps/B", row.byte_ps)?;
                }
                if row.capacity != 0 {
                    write!(f, ",capacity={}", row.capacity)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
