//! Paths between nodes that lose long packets. Stacks find a shorter size that passes and
//! continue. A notice says so, since shorter packets cost more, and since nothing else shows it.

use crate::silence::name;
use clump_shm::node::NodeMemory;
use std::collections::BTreeSet;

/// Nodes to which the path is known to be narrow.
#[derive(Debug, Default)]
pub(crate) struct Narrow {
    told: BTreeSet<u32>,
}

impl Narrow {
    /// Returns notices about what ranks and interfaces of the node have recorded, once for each
    /// other node.
    pub(crate) fn poll_notices(&mut self, node: &NodeMemory) -> Vec<String> {
        let own = node.local_ranks().chain(node.own_interfaces());
        let noted = own.filter_map(|id| Some((id, node.rank(id)?.take_narrowed()?)));
        let new = noted.filter_map(|(id, (peer, bytes))| {
            let there = node_of(node, peer);
            self.told.insert(there).then(|| text(node, (id, peer), there, bytes))
        });
        new.collect()
    }
}

/// Returns the node of a rank or an interface.
fn node_of(node: &NodeMemory, id: u32) -> u32 {
    node.node_of_interface(id).unwrap_or_else(|| node.node_of(id))
}

fn text(node: &NodeMemory, (id, peer): (u32, u32), there: u32, bytes: u32) -> String {
    let (this, other) = (name(node, id), name(node, peer));
    format!(
        "the path to node {there} loses IP packets of more than {bytes} bytes (a smaller MTU on the way: a tunnel, an \
         overlay, a VPN?), as {this} found out towards {other}; the job goes on with packets of {bytes} bytes, which is \
         slower: raise the MTU of that path if it can be raised"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clump_shm::node::NodeConfig;

    #[test]
    fn a_narrow_path_is_told_of_once_for_each_node() {
        let config = NodeConfig { node_of: &[0, 0, 1, 1, 2], ..NodeConfig::new(5) };
        let node = NodeMemory::create(&config).unwrap();
        let mut narrow = Narrow::default();
        assert!(narrow.poll_notices(&node).is_empty());
        node.rank(0).unwrap().note_narrowed((3, 1400));
        node.rank(1).unwrap().note_narrowed((2, 1400));
        let said = narrow.poll_notices(&node);
        assert_eq!(said.len(), 1, "one path: {said:?}");
        assert!(said[0].contains("to node 1 loses IP packets of more than 1400 bytes"), "{said:?}");
        assert!(said[0].contains("as rank 0 found out towards rank 3"), "{said:?}");
        node.rank(1).unwrap().note_narrowed((2, 1260));
        assert!(node.rank(1).unwrap().take_narrowed().is_some_and(|noted| noted == (2, 1260)));
        assert!(node.rank(1).unwrap().is_narrowed_taken() && narrow.poll_notices(&node).is_empty());
        let interface = node.own_interfaces().next().unwrap();
        node.rank(interface).unwrap().note_narrowed((interface + 2, 1260));
        let said = narrow.poll_notices(&node);
        assert_eq!(said.len(), 1, "another path: {said:?}");
        assert!(said[0].contains("node 2 loses IP packets of more than 1260 bytes"), "{said:?}");
        node.rank(0).unwrap().note_narrowed((4, 1260));
        assert!(narrow.poll_notices(&node).is_empty(), "told before");
    }
}
