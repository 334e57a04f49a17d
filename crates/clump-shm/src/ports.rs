//! The ports of a node: which endpoint is bound to which, in memory that every rank of the node
//! reads.
//!
//! A port is an entry in a table, so a single compare-and-swap binds it. A port bound by a rank
//! that died or left is free again. Ranks of other nodes query the node's network interface.

use crate::name::Name;
use crate::node::NodeMemory;
use crate::rank::RankState;

impl NodeMemory {
    /// Binds `port` of this node to the endpoint `name` of a rank of it.
    ///
    /// # Errors
    /// The port is held by the endpoint in the error.
    pub fn claim_port(&self, port: u16, name: Name) -> Result<(), Name> {
        let Some(entry) = self.port_entry(port) else {
            clump_bug::bug!("the table has an entry for every port");
            return Err(name);
        };
        entry.claim(name, |holder| !self.holds_ports(holder))
    }

    /// Frees `port`, if `name` holds it.
    pub fn release_port(&self, port: u16, name: Name) {
        let Some(entry) = self.port_entry(port) else {
            clump_bug::bug!("the table has an entry for every port");
            return;
        };
        entry.release(name);
    }

    /// Returns the endpoint at `port` of this node, if its rank is there.
    pub fn port_holder(&self, port: u16) -> Option<Name> {
        self.port_entry(port)?.holder().filter(|&holder| self.holds_ports(holder))
    }

    /// Returns true if a name, which a rank wrote, is of a rank of this node that has neither died
    /// nor left.
    fn holds_ports(&self, holder: Name) -> bool {
        let rank = self.peer(holder.rank()).filter(|_| self.is_local(holder.rank()));
        rank.is_some_and(|rank| !matches!(rank.state(), RankState::Dead | RankState::Finalized))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Death, DeathCause};
    use crate::node::NodeConfig;

    fn node(ranks: usize) -> NodeMemory {
        let (spin_ns, yield_ns) = (300, 50_000);
        let config = NodeConfig { survive: true, spin_ns, yield_ns, ..NodeConfig::new(ranks) };
        NodeMemory::create(&config).unwrap()
    }

    #[test]
    fn a_port_has_one_holder_until_it_is_released() {
        let node = node(2);
        let (one, other) = (Name::new(0, 3, 1), Name::new(1, 3, 1));
        for port in [1, 80, u16::MAX] {
            assert_eq!(node.port_holder(port), None);
            node.claim_port(port, one).unwrap();
            assert_eq!(node.claim_port(port, other), Err(one));
            node.release_port(port, other);
            assert_eq!(node.port_holder(port), Some(one), "only its holder releases it");
            node.release_port(port, one);
            node.claim_port(port, other).unwrap();
            assert_eq!(node.port_holder(port), Some(other));
        }
    }

    #[test]
    fn what_a_dead_rank_held_is_free_again_and_nonsense_is_nobody() {
        let node = node(2);
        let (dead, alive) = (Name::new(1, 0, 1), Name::new(0, 0, 1));
        node.claim_port(7, dead).unwrap();
        node.declare_dead(Death { rank: 1, how: DeathCause::Signal(9) });
        assert_eq!(node.port_holder(7), None);
        node.claim_port(7, alive).unwrap();
        // A rank wrote a name that no correct rank writes.
        node.claim_port(8, Name::new(9_999, 0, 1)).unwrap();
        assert_eq!(node.port_holder(8), None);
        node.claim_port(8, alive).unwrap();
    }
}
