//! Number of network interfaces of a node.

/// Returns the number of interfaces of each node. Each node of several has one at least: it
/// executes one-sided operations.
pub(super) fn of_each(nnodes: u32, proxies: u32) -> u32 {
    if nnodes > 1 { proxies.max(1) } else { 0 }
}
