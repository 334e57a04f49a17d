//! A network to measure on.

use crate::kernel::{LinkFaults, Port};

/// Network to measure on.
#[derive(Debug, Clone)]
pub struct Network {
    /// Name of the network.
    pub name: String,
    /// Faults of links.
    pub link: LinkFaults,
    /// Properties of ports.
    pub port: Port,
}
