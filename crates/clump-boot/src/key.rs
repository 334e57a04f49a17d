//! A setting: its names, its bounds, its default, and its values as text.

use crate::{Error, Result};

/// A row of the table of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Name in code and in the file.
    pub name: &'static str,
    /// Name in the environment.
    pub variable: &'static str,
    /// Value unless set otherwise.
    pub default: u64,
    /// Least value.
    pub least: u64,
    /// Largest value.
    pub most: u64,
    /// Unit of the value: `ns`, `ms`, `bool`, or empty for a count or a choice.
    pub unit: &'static str,
    /// Names of a choice's values, by number; empty for everything else.
    pub choices: &'static [&'static str],
    /// Its description.
    pub doc: &'static str,
}

impl Key {
    /// Writes a value as the file has it.
    pub(crate) fn show(&self, number: u64) -> String {
        let choice = usize::try_from(number).ok().and_then(|at| self.choices.get(at));
        match choice {
            Some(name) => (*name).to_owned(),
            None if self.unit == "bool" => (number != 0).to_string(),
            None => number.to_string(),
        }
    }

    /// Describes the valid values of this key, for messages.
    pub fn expected(&self) -> String {
        if !self.choices.is_empty() {
            return format!("one of {}", self.choices.join(", "));
        }
        if self.unit == "bool" {
            return "true or false (or 1, 0, yes, no, on, off)".into();
        }
        let unit =
            if self.unit.is_empty() { String::new() } else { format!(" (in {})", self.unit) };
        format!("a whole number from {} to {}{unit}", self.least, self.most)
    }

    /// Reads a value; `origin` says where it stands.
    ///
    /// # Errors
    /// Fails if it is not a valid value of this key.
    pub(crate) fn parse(&self, origin: impl Fn() -> String, text: &str) -> Result<u64> {
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
            trimmed.replace('_', "").parse::<u64>().ok()
        };
        number.filter(|n| (self.least..=self.most).contains(n)).ok_or_else(|| Error::BadValue {
            origin: origin(),
            value: text.into(),
            expected: self.expected(),
        })
    }
}
