//! Rounds of a barrier between nodes: which nodes notify which, and in which order.

/// Most nodes of which each notifies all others at once: one message time, (nodes - 1) messages a
/// node. Above, messages are disseminated: ceil(log2 nodes) message times and messages.
pub const DIRECT: usize = 8;

/// One round of messages: sent once the rounds before it are complete, complete once all are here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    /// The nodes that this one notifies.
    pub to: Vec<usize>,
    /// The nodes that notify this one.
    pub from: Vec<usize>,
}

/// Returns the rounds of node `own` of `nodes`.
///
/// In round k of a dissemination, node n notifies n + 2^k and is notified by n - 2^k: the set of
/// nodes it has arrivals of doubles. All powers are smaller than the number of nodes, so no node is
/// notified by another in two rounds, and one number for each notifying node is enough.
pub fn rounds(own: usize, nodes: usize) -> Vec<Round> {
    debug_assert!(own < nodes.max(1), "one of the nodes");
    if nodes <= 1 {
        return Vec::new();
    }
    if nodes <= DIRECT {
        let others: Vec<usize> = (1..nodes).map(|far| (own + far) % nodes).collect();
        debug_assert_eq!(others.len() + 1, nodes, "this node and the others are all");
        debug_assert!(!others.contains(&own), "no node tells itself");
        return vec![Round { to: others.clone(), from: others }];
    }
    let powers = (0..usize::BITS).map(|k| 1 << k).take_while(|&far: &usize| far < nodes);
    let rounds: Vec<Round> = powers
        .map(|far| Round { to: vec![(own + far) % nodes], from: vec![(own + nodes - far) % nodes] })
        .collect();
    debug_assert!(!rounds.iter().any(|round| round.to.contains(&own)), "no node tells itself");
    debug_assert_eq!(1 << rounds.len(), nodes.next_power_of_two(), "each doubles what is known");
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_has_a_sender_and_a_receiver_in_the_same_round() {
        for nodes in 1..70 {
            let all: Vec<_> = (0..nodes).map(|own| rounds(own, nodes)).collect();
            for (own, mine) in all.iter().enumerate() {
                for (at, round) in mine.iter().enumerate() {
                    assert!(round.to.iter().all(|&to| all[to][at].from.contains(&own)));
                    assert!(round.from.iter().all(|&from| all[from][at].to.contains(&own)));
                }
            }
        }
    }

    #[test]
    fn everybody_has_heard_of_everybody_in_the_end_and_from_nobody_twice() {
        for nodes in [2, 3, DIRECT, DIRECT + 1, 16, 17, 33, 64] {
            let mut known: Vec<Vec<usize>> = (0..nodes).map(|own| vec![own]).collect();
            for at in 0..rounds(0, nodes).len() {
                let before = known.clone();
                for (own, known) in known.iter_mut().enumerate() {
                    let from = &rounds(own, nodes)[at].from;
                    known.extend(from.iter().flat_map(|&from| before[from].clone()));
                    known.sort_unstable();
                    known.dedup();
                }
            }
            assert!(known.iter().all(|known| known.len() == nodes), "{nodes} nodes");
            let mut heard: Vec<usize> =
                rounds(1, nodes).into_iter().flat_map(|round| round.from).collect();
            let messages = heard.len();
            heard.sort_unstable();
            heard.dedup();
            assert_eq!(heard.len(), messages);
        }
    }
}
