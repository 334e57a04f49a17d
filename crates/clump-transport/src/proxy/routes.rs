//! Routing of messages to stacks, by target endpoint.

use clump_shm::name::Name;
use clump_shm::node::NodeMemory;

/// Routes from one interface to all endpoints.
#[derive(Debug, Clone)]
pub struct Routes {
    memory: NodeMemory,
    /// The number of this interface on its node.
    which: u32,
}

impl Routes {
    /// Creates the routes from interface number `which` of its node.
    pub fn new(memory: NodeMemory, which: u32) -> Self {
        debug_assert!(which < memory.interfaces(), "it is an interface of its node");
        Self { memory, which }
    }

    /// Returns the stack of an endpoint. Where proxies drive the network it is the peer of this
    /// interface on the endpoint's node, else the endpoint's rank, or the interface that is meant.
    pub fn stack_of(&self, name: u64) -> u32 {
        let rank = Name::from_bits(name).rank();
        if self.memory.proxies() == 0 {
            return rank;
        }
        let node = self.memory.node_of_interface(rank);
        let node = node.unwrap_or_else(|| self.memory.node_of(rank));
        if node < self.memory.nnodes() {
            let stack = self.memory.interface_id(node) + self.which;
            debug_assert_eq!(self.memory.node_of_interface(stack), Some(node), "one of that node");
            stack
        } else {
            u32::MAX
        }
    }
}
