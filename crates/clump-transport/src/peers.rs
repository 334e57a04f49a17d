//! The peers of a node's stacks: their addresses, and whether they are still there.

use clump_driver::PeerPaths;
use clump_net::{PeerAddress, PeerDirectory, Stack};
use clump_shm::node::NodeMemory;
use clump_shm::peer::Peer;
use clump_shm::rank::{ProcessAddress, RankState};
use clump_wire::Reason;

/// The stacks of other nodes that a rank or a network interface may talk to, as the node's memory
/// names them.
#[derive(Debug)]
pub struct NodeDirectory {
    node: NodeMemory,
    /// The stack whose peers they are.
    me: u32,
    /// Number of the interface of each node that is a peer.
    which: u32,
    /// True if ranks are peers too.
    ranks: bool,
}

impl NodeDirectory {
    /// Creates the directory of stack `me`: of the interfaces that have number `which` on their
    /// nodes and, if `ranks`, of the ranks.
    pub fn new(node: &NodeMemory, me: u32, which: u32, ranks: bool) -> Self {
        debug_assert!(which < node.interfaces().max(1), "nodes have interfaces of that number");
        Self { node: node.clone(), me, which, ranks }
    }

    /// Returns the address of a stack that is a peer.
    fn place(&self, id: u32) -> Option<ProcessAddress> {
        let node = &self.node;
        let is_peer = match node.node_of_interface(id) {
            Some(other) => other != node.node() && id == node.interface_id(other) + self.which,
            None => self.ranks && (id as usize) < node.ranks() && !node.is_local(id),
        };
        node.peer(id).filter(|_| is_peer)?.place()
    }
}

impl PeerDirectory for NodeDirectory {
    fn find(&self, id: u32) -> Option<PeerAddress> {
        let ProcessAddress { address, epoch, .. } = self.place(id)?;
        debug_assert!(id != self.me, "a stack is no peer of its own");
        Some(PeerAddress { id, address, epoch })
    }

    fn paths(&self, id: u32) -> Option<PeerPaths> {
        let addresses: Vec<_> = self.place(id)?.addresses().collect();
        debug_assert!(!addresses.is_empty(), "a peer has an address");
        Some(PeerPaths { addresses, preferred: preferred_path(&self.node, self.me, id) })
    }
}

/// Returns the path that two stacks use while all are well, modulo the number of paths. Both stacks
/// compute the same, and pairs of stacks are spread evenly over the paths.
fn preferred_path(node: &NodeMemory, me: u32, peer: u32) -> usize {
    debug_assert_ne!(me, peer, "paths lead to others");
    let sum = match (node.node_of_interface(me), node.node_of_interface(peer)) {
        // Interfaces talk to those of their own number.
        (Some(here), Some(there)) => {
            debug_assert!(me >= node.interface_id(here), "interfaces are numbered node by node");
            me - node.interface_id(here) + here + there
        }
        _ => me.wrapping_add(peer),
    };
    sum as usize
}

/// Returns the reason for which unread messages of a rank are returned, if the rank died or
/// finalized.
pub fn gone(rank: Peer<'_>) -> Option<Reason> {
    match rank.state() {
        RankState::Dead => Some(Reason::PeerLost),
        RankState::Finalized => Some(Reason::EndpointGone),
        RankState::Absent | RankState::Joined => None,
    }
}

/// Lists the peers of `stack` that died or finalized, with the reason for which messages to them
/// are returned.
pub fn gone_peers(stack: &Stack, node: &NodeMemory) -> Vec<(u32, Reason)> {
    let why = |peer: u32| {
        if let Some(other) = node.node_of_interface(peer) {
            return node.is_node_lost(other).then_some(Reason::PeerLost);
        }
        gone(node.peer(peer)?)
    };
    stack.talking_to().filter_map(|peer| Some((peer, why(peer)?))).collect()
}

#[cfg(test)]
mod tests {
    use clump_shm::name::Name;

    #[test]
    fn a_name_leads_the_stack_to_its_rank() {
        for rank in [0, 1, 77, 0xff_ffff] {
            let name = Name::new(rank, 31, u32::MAX);
            assert_eq!(clump_wire::frame::stack_of(name.to_bits()), name.rank());
        }
    }
}
