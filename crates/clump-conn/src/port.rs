//! Ports of nodes, and the order of messages.

use std::fmt;

/// A port of a node, 1 to 65535; as in paper 002, section 2.3, a node's number and a port lead to a
/// process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Port(pub u16);

impl Port {
    /// Any free port from 49152 on, for binding.
    pub const ANY: Port = Port(0);
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "port {}", self.0)
    }
}

/// The order in which messages of a connection are received. The connecting side chooses, for both
/// directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Order {
    /// As they were sent; a message that comes early waits for those before it.
    #[default]
    Ordered,
    /// As they arrive: no message waits for another.
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
