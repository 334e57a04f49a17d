//! Protection of packets between nodes.

/// Protection of packets, chosen once per job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Security {
    /// Encrypted and authenticated: AES-128-GCM under keys of the job.
    #[default]
    Aead = 0,
    /// Protected against corruption only, for links that no attacker reaches: CRC-32C.
    Crc = 1,
}

impl Security {
    /// Returns the bytes after the body of a packet.
    pub const fn trailer_bytes(self) -> usize {
        if matches!(self, Security::Aead) { 16 } else { 4 }
    }

    /// Returns the name in options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Security::Aead => "aead",
            Security::Crc => "crc",
        }
    }
}

impl std::str::FromStr for Security {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "aead" => Ok(Security::Aead),
            "crc" => Ok(Security::Crc),
            _ => Err(format!("`{name}` is no protection between nodes; there are aead and crc")),
        }
    }
}

impl std::fmt::Display for Security {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
