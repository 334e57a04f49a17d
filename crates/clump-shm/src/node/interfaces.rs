//! Network interfaces in the memory of a node: numbered behind the ranks of the job. Those of the
//! node have blocks as its ranks have.

use super::NodeMemory;
use super::interface_count::of_each;
use clump_os::alarm::Alarm;
use std::ops::Range;
use std::sync::Arc;

impl NodeMemory {
    /// Returns the number of proxies of each node; 0: ranks drive stacks of their own.
    pub fn proxies(&self) -> u32 {
        self.proxies
    }

    /// Returns the number of network interfaces of each node; 0 on a job of one node.
    pub fn interfaces(&self) -> u32 {
        of_each(self.nnodes(), self.proxies)
    }

    /// Returns the number of the first network interface of `node`, as of a rank: behind the ranks.
    #[inline]
    pub fn interface_id(&self, node: u32) -> u32 {
        let ranks = u32::try_from(self.ranks()).unwrap_or(u32::MAX);
        ranks.saturating_add(node.saturating_mul(self.interfaces()))
    }

    /// Returns the numbers of the network interfaces of this node.
    pub fn own_interfaces(&self) -> Range<u32> {
        self.interface_id(self.node)..self.interface_id(self.node + 1)
    }

    /// Returns the numbers of the network interfaces of all nodes.
    pub fn all_interfaces(&self) -> Range<u32> {
        self.interface_id(0)..self.interface_id(self.nnodes())
    }

    /// Returns the node of a network interface.
    pub fn node_of_interface(&self, id: u32) -> Option<u32> {
        debug_assert!(
            self.interfaces() != 0 || self.nnodes() == 1,
            "each of several nodes has some"
        );
        let number = id.checked_sub(self.interface_id(0))?;
        number.checked_div(self.interfaces()).filter(|&node| node < self.nnodes())
    }

    /// Returns the alarm that wakes the first network interface of this node, if this job has
    /// alarms.
    pub fn interface_alarm(&self) -> Option<&Arc<Alarm>> {
        self.alarm(self.interface_id(self.node))
    }
}
