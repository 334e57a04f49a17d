//! The carrier of long payloads between nodes, as users set it.

use std::fmt;

/// Carrier of long payloads between nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NetBulk {
    /// Datagrams, as for everything else.
    #[default]
    Datagram,
    /// Streams (TCP) for payloads of 128 KiB and more where datagrams are short, datagrams
    /// elsewhere.
    Auto,
    /// Streams for payloads of 32 KiB and more, and datagrams where there is none.
    Stream,
}

impl NetBulk {
    /// All, by number.
    pub const ALL: [Self; 3] = [Self::Datagram, Self::Auto, Self::Stream];
    /// Their names.
    pub const NAMES: [&str; 3] = ["datagram", "auto", "stream"];

    /// Returns its name as users write it.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

impl fmt::Display for NetBulk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
