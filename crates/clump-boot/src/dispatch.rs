//! The choice of a proxy for each of a rank's messages, as users set it.

use std::fmt;

/// The policy that chooses a message's proxy (paper 002, section 3.6). Messages in order, and
/// one-sided operations, always take the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dispatch {
    /// One proxy for all messages of a rank.
    #[default]
    Fixed,
    /// The proxies in turn.
    RoundRobin,
    /// The one that has the least to do for this rank.
    LeastLoaded,
}

impl Dispatch {
    /// All, by number.
    pub const ALL: [Self; 3] = [Self::Fixed, Self::RoundRobin, Self::LeastLoaded];
    /// Their names.
    pub const NAMES: [&str; 3] = ["fixed", "round-robin", "least-loaded"];

    /// Returns its name as users write it.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

impl fmt::Display for Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
