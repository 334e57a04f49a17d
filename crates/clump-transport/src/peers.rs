//! The peers of a node's stacks: their addresses, and whether they are still there.

use clump_net::{PeerAddress, Refusal, Stack};
use clump_shm::node::NodeMemory;
use clump_shm::peer::Peer;
use clump_shm::rank::{ProcessAddress, RankState};

/// Iterates over the ranks of other nodes and their addresses.
pub fn remote_ranks(node: &NodeMemory) -> impl Iterator<Item = (u32, ProcessAddress)> + '_ {
    let remote = (0..node.ranks() as u32).filter(|&other| !node.is_local(other));
    remote.filter_map(|other| Some((other, node.peer(other)?.place()?)))
}

/// Iterates over the network interfaces that have number `which` on other nodes, and their
/// addresses.
pub fn remote_interfaces(
    node: &NodeMemory,
    which: u32,
) -> impl Iterator<Item = (u32, ProcessAddress)> + '_ {
    debug_assert!(which < node.interfaces().max(1), "nodes have interfaces of that number");
    let remote = (0..node.nnodes()).filter(|&other| other != node.node());
    remote.filter_map(move |other| {
        let id = node.interface_id(other) + which;
        Some((id, node.peer(id)?.place()?))
    })
}

/// Converts an interface's id and address to the form that stacks use.
pub fn peer_address((id, place): (u32, ProcessAddress)) -> PeerAddress {
    PeerAddress { id, address: place.address, epoch: place.epoch }
}

/// Returns the reason for which unread messages of a rank are returned, if the rank died or
/// finalized.
pub fn gone(rank: Peer<'_>) -> Option<Refusal> {
    match rank.state() {
        RankState::Dead => Some(Refusal::PeerLost),
        RankState::Finalized => Some(Refusal::EndpointGone),
        RankState::Absent | RankState::Joined => None,
    }
}

/// Lists the peers of `stack` that died or finalized, with the reason for which messages to them
/// are returned.
pub fn gone_peers(stack: &Stack, node: &NodeMemory) -> Vec<(u32, Refusal)> {
    let why = |peer: u32| {
        if let Some(other) = node.node_of_interface(peer) {
            return node.is_node_lost(other).then_some(Refusal::PeerLost);
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
