//! The driver of packets between nodes, as users choose it.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A choice of driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetDriver {
    /// The fastest that this machine offers and that helps on the path at hand.
    #[default]
    Auto,
    /// UDP sockets: everywhere, without privileges.
    Udp,
    /// Short messages as Ethernet frames through packet sockets (AF_PACKET), long ones by UDP.
    Packet,
    /// Short messages through AF_XDP for one rank of a node, through packet sockets for the
    /// others; long ones by UDP.
    Xdp,
}

impl NetDriver {
    /// All, by number.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Udp, Self::Packet, Self::Xdp];
    /// Their names.
    pub const NAMES: [&str; 4] = ["auto", "udp", "packet", "xdp"];

    /// Returns its name as users write it.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

impl fmt::Display for NetDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for NetDriver {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|driver| driver.name() == text);
        found.ok_or_else(|| format!("`{text}` is no driver; one of {}", Self::NAMES.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for (number, driver) in NetDriver::ALL.into_iter().enumerate() {
            assert_eq!((driver as usize, driver.to_string().parse()), (number, Ok(driver)));
        }
        assert!("tcp".parse::<NetDriver>().unwrap_err().contains("udp, packet"));
    }
}
