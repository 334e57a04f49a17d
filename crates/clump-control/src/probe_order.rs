//! The order in which an agent probes its peers: round robin by random permutations that all agents
//! share, so that in each period every node is probed by one other.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// The order of one agent.
#[derive(Debug)]
pub(crate) struct ProbeOrder {
    own: u32,
    nodes: u32,
    seed: u64,
    round: u64,
    /// Distances to peers, each once: the permutation of `round`.
    distances: Vec<u32>,
}

impl ProbeOrder {
    /// Creates the order of node `own` among `nodes`; the `seed` is the same at all.
    pub(crate) fn new(own: u32, nodes: u32, seed: u64) -> Self {
        debug_assert!(own < nodes, "the agent is one of the job's");
        let mut order = Self { own, nodes, seed, round: 0, distances: (1..nodes).collect() };
        order.shuffle(0);
        order
    }

    /// Returns the peer to probe in this period; none if there is no peer.
    pub(crate) fn peer_of(&mut self, period: u64) -> Option<u32> {
        let peers = u64::from(self.nodes) - 1;
        let round = period.checked_div(peers)?;
        if round != self.round {
            self.shuffle(round);
        }
        let distance = *self.distances.get((period % peers) as usize)?;
        debug_assert!((1..self.nodes).contains(&distance), "no agent probes itself");
        Some((self.own + distance) % self.nodes)
    }

    fn shuffle(&mut self, round: u64) {
        self.round = round;
        self.distances.clear();
        self.distances.extend(1..self.nodes);
        let seed = self.seed.wrapping_add(round.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut random = SplitMix64::seed_from_u64(seed);
        for at in (1..self.distances.len()).rev() {
            self.distances.swap(at, random_below(&mut random, at as u64 + 1) as usize);
        }
        debug_assert_eq!(self.distances.len() + 1, self.nodes as usize, "each peer once");
    }
}

/// Returns the next number below `limit`.
pub(crate) fn random_below(random: &mut SplitMix64, limit: u64) -> u64 {
    debug_assert!(limit > 0, "there is a number to choose");
    random.next_u64() % limit
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_node_is_probed_once_a_period_and_every_peer_once_a_round() {
        for nodes in [2_u32, 3, 7, 50] {
            let mut orders: Vec<_> = (0..nodes).map(|own| ProbeOrder::new(own, nodes, 9)).collect();
            for round in 0..3 {
                let mut seen = vec![BTreeSet::new(); nodes as usize];
                for turn in 0..u64::from(nodes) - 1 {
                    let period = round * (u64::from(nodes) - 1) + turn;
                    let probed: BTreeSet<_> = (0..)
                        .zip(&mut orders)
                        .map(|(own, order)| {
                            let peer = order.peer_of(period).unwrap();
                            assert_ne!(peer, own);
                            assert!(seen[own as usize].insert(peer), "once a round");
                            peer
                        })
                        .collect();
                    assert_eq!(probed.len(), nodes as usize, "once a period");
                }
            }
        }
        assert_eq!(ProbeOrder::new(0, 1, 9).peer_of(5), None);
    }
}
