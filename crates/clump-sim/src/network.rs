//! A network to measure on.

use crate::kernel::{LinkFaults, Port};

/// Network to measure on.
#[derive(Debug, Clone)]
pub struct Network {
    /// Its name.
    pub name: String,
    /// Its links.
    pub link: LinkFaults,
    /// Its ports.
    pub port: Port,
}
