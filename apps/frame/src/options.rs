//! Options that applications share.

use clap::ValueEnum;

/// Size of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum InputSize {
    /// Seconds, for tests
    Ci,
    /// Up to a minute or two, to measure
    Measure,
    /// That of the paper or of the benchmark's rules
    Paper,
}

impl InputSize {
    /// Returns the name that the command line has for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ci => "ci",
            Self::Measure => "measure",
            Self::Paper => "paper",
        }
    }

    /// Returns one of three values.
    pub fn of<T>(self, ci: T, measure: T, paper: T) -> T {
        match self {
            Self::Ci => ci,
            Self::Measure => measure,
            Self::Paper => paper,
        }
    }
}

/// Manner of small remote operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Manner {
    /// Collected, and sent many at a time
    Aggregated,
    /// Each sent by itself, and waited for at the end
    Single,
    /// Each sent by itself, and waited for before the next
    Blocking,
}

impl Manner {
    /// Returns the name that the command line has for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aggregated => "aggregated",
            Self::Single => "single",
            Self::Blocking => "blocking",
        }
    }
}
