//! How a rank's messages are spread over the proxies of its node, as users choose it.

use std::fmt;

/// Which proxy a message takes (paper 002, section 3.6). Messages in order, and one-sided operations, always take
/// the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dispatch {
    /// All of a rank the same.
    #[default]
    Fixed,
    /// One after the other.
    RoundRobin,
    /// The one that has the least to do for this rank.
    LeastLoaded,
}

impl Dispatch {
    /// All, by number.
    pub const ALL: [Self; 3] = [Self::Fixed, Self::RoundRobin, Self::LeastLoaded];
    /// Their names.
    pub const NAMES: [&str; 3] = ["fixed", "round-robin", "least-loaded"];

    /// As users write it.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

impl fmt::Display for Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
