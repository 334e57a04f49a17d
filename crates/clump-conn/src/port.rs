//! Where connections go, and what they promise.

use std::fmt;

/// A port of a node, 1 to 65535; as in paper 002, section 2.3, a node's number and a port lead to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Port(pub u16);

impl Port {
    /// To bind: any port from 49152 on that is free.
    pub const ANY: Port = Port(0);
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "port {}", self.0)
    }
}

/// In which order messages of a connection are received. Whoever connects chooses, for both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Order {
    /// As they were sent; one that comes early waits for those before it.
    #[default]
    Ordered,
    /// As they come: none waits for another.
    Any,
}

impl Order {
    pub(crate) fn bit(self) -> u64 {
        u64::from(self == Order::Any)
    }

    pub(crate) fn of_bit(bit: u64) -> Self {
        if bit == 0 { Order::Ordered } else { Order::Any }
    }
}
