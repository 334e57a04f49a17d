//! The error of a command line.

/// A command line that parses but makes no sense: the program ends with code 2, whichever command
/// it was.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WrongCommand(String);

impl WrongCommand {
    /// Creates it with the reason and the remedy.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}
