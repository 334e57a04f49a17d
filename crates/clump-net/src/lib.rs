//! The network interface of a process: what carries messages between nodes.

pub mod seal;
