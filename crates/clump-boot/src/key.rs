//! A setting: its names, its bounds, its default, and its values as text.

use crate::{Error, Result};

/// A row of the table of settings, or of the keys of a setting that is a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Name in code and in the file, or in a list.
    pub name: &'static str,
    /// Name in the environment, for a key of a list that of the list.
    pub variable: &'static str,
    /// Value unless set otherwise.
    pub default: u64,
    /// Least value.
    pub least: u64,
    /// Largest value.
    pub most: u64,
    /// Unit of the value: `ns`, `ms`, `bool`, or empty for a count or a choice.
    pub unit: &'static str,
    /// Units that can be written behind a number, with their sizes; none where the name says it.
    pub units: &'static [(&'static str, u64)],
    /// Names of a choice's values, by number; empty for everything else.
    pub choices: &'static [&'static str],
    /// Its description.
    pub doc: &'static str,
}

impl Key {
    /// Creates the row of a setting, or of a key of the list of a variable; its names: of its
    /// field, and as users write it.
    pub(crate) const fn new(
        list: Option<&'static str>,
        (field, written): (&'static str, &'static str),
        (default, least, most): (u64, u64, u64),
        unit: &'static str,
        choices: &'static [&'static str],
        doc: &'static str,
    ) -> Self {
        let (name, variable, units) = match list {
            None => (field, written, &[] as &[_]),
            Some(variable) => (written, variable, units(unit)),
        };
        Self { name, variable, default, least, most, unit, units, choices, doc }
    }

    /// Creates the row of a setting that is a text.
    pub(crate) const fn text(
        name: &'static str,
        variable: &'static str,
        doc: &'static str,
    ) -> Self {
        Self::new(None, (name, variable), (0, 0, 0), "text", &[], doc)
    }

    /// Writes a value as the file or the list has it.
    pub(crate) fn show(&self, number: u64) -> String {
        let choice = usize::try_from(number).ok().and_then(|at| self.choices.get(at));
        match choice {
            Some(name) => (*name).to_owned(),
            None if self.unit == "bool" => (number != 0).to_string(),
            None if self.units.is_empty() => number.to_string(),
            None => format!("{number}{}", self.unit),
        }
    }

    /// Returns its default as text.
    pub fn default_text(&self) -> String {
        self.show(self.default)
    }

    /// Describes the valid values of this key, for messages.
    pub fn expected(&self) -> String {
        if !self.choices.is_empty() {
            return format!("one of {}", self.choices.join(", "));
        }
        if self.unit == "bool" {
            return "true or false (or 1, 0, yes, no, on, off)".into();
        }
        let (least, most) = (self.least, self.most);
        if !self.units.is_empty() {
            let units: Vec<_> = self.units.iter().map(|(name, _)| *name).collect();
            return format!(
                "a whole number with its unit ({}), from {least} to {most} {}",
                units.join(", "),
                self.unit
            );
        }
        let unit =
            if self.unit.is_empty() { String::new() } else { format!(" (in {})", self.unit) };
        format!("a whole number from {least} to {most}{unit}")
    }

    /// Reads a value; `origin` says where it stands.
    ///
    /// # Errors
    /// Fails if it is not a valid value of this key.
    pub(crate) fn parse(&self, origin: impl FnOnce() -> String, text: &str) -> Result<u64> {
        let trimmed = text.trim();
        let number = if !self.choices.is_empty() {
            self.choices.iter().position(|name| *name == trimmed).map(|at| at as u64)
        } else if self.unit == "bool" {
            match trimmed.to_ascii_lowercase().as_str() {
                "1" | "true" | "yes" | "on" => Some(1),
                "0" | "false" | "no" | "off" => Some(0),
                _ => None,
            }
        } else {
            self.amount(trimmed)
        };
        number.filter(|n| (self.least..=self.most).contains(n)).ok_or_else(|| Error::BadValue {
            origin: origin(),
            value: text.into(),
            expected: self.expected(),
        })
    }

    /// Reads a number, with its unit if one can be written; 0 needs none.
    fn amount(&self, text: &str) -> Option<u64> {
        let digits = |text: &str| text.replace('_', "").parse::<u64>().ok();
        if self.units.is_empty() || text == "0" {
            return digits(text);
        }
        let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '_')?;
        let (number, unit) = text.split_at(end);
        let size = self.units.iter().find(|(name, _)| *name == unit.trim_start());
        digits(number)?.checked_mul(size?.1)
    }
}

/// Returns the units that can be written for numbers of a unit.
const fn units(unit: &str) -> &'static [(&'static str, u64)] {
    match unit.as_bytes() {
        b"ppm" => &[("ppm", 1), ("%", 10_000)],
        b"ns" => &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)],
        b"B" => &[("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)],
        _ => &[],
    }
}
