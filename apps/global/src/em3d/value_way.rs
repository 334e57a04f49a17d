//! The way of values to the ranks that need them.

use clap::ValueEnum;

/// Way of values to the ranks that need them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ValueWay {
    /// Owners store them
    Write,
    /// Each edge reads its value, and waits for it
    Read,
}

impl ValueWay {
    /// Returns the name that the command line has for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
        }
    }
}
