//! A barrier over flags, which network interfaces set: no rank has to poll for messages so that
//! others proceed.
//!
//! Ranks of a node meet at the lowest of them by flags in shared memory, and the lowest ones of all
//! nodes in rounds: in round r each notifies the node 2^r further on (dissemination, as in the
//! barrier over messages between more than eight nodes, ADR 14). Flags only grow, so a number that
//! arrives early is never wrong.
//!
//! The lowest rank of a node exports all flags of the node: the one that releases the others, one
//! for each round, and one for each other rank by its number on the node.

use crate::error::{Error, ErrorKind, Result};
use crate::lock::Flag;
use crate::rma::Rma;
use clump_shm::export::SegmentName;

/// Longest way between nodes, so that 4,096 of them meet.
const MAX_ROUNDS: u32 = 12;

/// Flags of a round: the one to set, and the one to wait for with the rank that sets it.
#[derive(Debug)]
struct Round {
    tell: Flag,
    hear: Flag,
    from: u32,
}

#[derive(Debug)]
enum BarrierRole {
    /// Role of the lowest rank of a node: flags by which the others arrive, and rounds between
    /// nodes.
    Lowest { members: Vec<(u32, Flag)>, rounds: Vec<Round>, go: Flag },
    /// Role of every other rank: the flag by which it arrives, and the one that releases it.
    Other { here: Flag, go: Flag, lowest: u32 },
}

/// A barrier of all ranks over flags. Each rank takes part with one thread, the owner of this
/// value.
#[derive(Debug)]
pub struct Barrier {
    part: BarrierRole,
    passed: u64,
}

impl Barrier {
    /// Returns the number of flags that this rank has to export for it ([`Rma::export_flags`]).
    pub fn flags(rma: &Rma) -> u64 {
        let local = rma.inner.context.ranks_of(rma.inner.context.node_number());
        debug_assert!(local.contains(&rma.inner.context.rank()), "a rank of this node");
        if rma.inner.context.rank() != local.start {
            return 1; // never used: a name of its own keeps names in rank order
        }
        1 + rounds_between(rma.inner.context.nnodes() as usize).count() as u64 + local.len() as u64
            - 1
    }

    /// Creates the barrier over the flags that ranks have exported under these names, in rank
    /// order.
    ///
    /// # Errors
    /// Fails if there is not one name for each rank ([`ErrorKind::NotAllNamed`]), if there are more
    /// than 4,096 nodes ([`ErrorKind::TooManyNodes`]), or as [`Rma::target`].
    pub fn over(rma: &Rma, flags: &[SegmentName]) -> Result<Self> {
        let memory = rma.inner.context.node();
        let context = &rma.inner.context;
        let (me, node, nodes) = (context.rank(), context.node_number(), context.nnodes());
        let ranks = 0..memory.interface_id(0);
        let not_all =
            || Error::from(ErrorKind::NotAllNamed { given: flags.len(), ranks: ranks.end });
        if flags.len() != ranks.len() {
            return Err(not_all());
        }
        if nodes > 1 << MAX_ROUNDS {
            return Err(ErrorKind::TooManyNodes { nodes, limit: 1 << MAX_ROUNDS }.into());
        }
        let flag = |rank: u32, index: u64| {
            let name = flags.get(rank as usize).copied();
            rma.flag(name.ok_or_else(not_all)?, index)
        };
        let (local, nodes) = (context.ranks_of(node), nodes as usize);
        let steps: Vec<usize> = rounds_between(nodes).collect();
        let here = |rank: u32| 1 + steps.len() as u64 + u64::from(rank - local.start - 1);
        debug_assert!(local.contains(&me), "a rank of this node");
        if me != local.start {
            let (here, go) = (flag(local.start, here(me))?, flag(local.start, 0)?);
            return Ok(Self {
                part: BarrierRole::Other { here, go, lowest: local.start },
                passed: 0,
            });
        }
        let mut lowest: Vec<u32> = ranks.clone().collect();
        lowest.dedup_by_key(|rank| context.node_of(*rank));
        debug_assert_eq!(lowest.len(), nodes, "every node has ranks, and they are consecutive");
        let members = (local.start + 1..local.end).map(|rank| Ok((rank, flag(me, here(rank))?)));
        let rounds = (1..).zip(&steps).map(|(index, step)| {
            let at =
                |step: usize| lowest.get((node as usize + step) % nodes).copied().unwrap_or(me);
            let (to, from) = (at(*step), at(nodes - step));
            Ok(Round { tell: flag(to, index)?, hear: flag(me, index)?, from })
        });
        let (members, rounds) =
            (members.collect::<Result<Vec<_>>>()?, rounds.collect::<Result<Vec<_>>>()?);
        debug_assert_eq!(members.len() + 1, local.len(), "all others arrive here");
        debug_assert!(1 << rounds.len() >= nodes, "after the last round all nodes are heard of");
        Ok(Self { part: BarrierRole::Lowest { members, rounds, go: flag(me, 0)? }, passed: 0 })
    }

    /// Returns once all ranks have called it as often as this one. Data put before has arrived only
    /// after [`Rma::quiet`].
    ///
    /// # Errors
    /// Fails if a rank has died, or if a rank that is waited for has left.
    pub fn meet(&mut self) -> Result<()> {
        self.passed += 1;
        let passed = self.passed;
        debug_assert!(passed > 0, "flags begin at 0");
        match &self.part {
            BarrierRole::Other { here, go, lowest } => {
                here.add(1)?;
                go.wait_for(passed, *lowest)
            }
            BarrierRole::Lowest { members, rounds, go } => {
                debug_assert!(rounds.len() <= MAX_ROUNDS as usize, "each round has a flag");
                for (rank, here) in members {
                    here.wait_for(passed, *rank)?;
                }
                for Round { tell, hear, from } in rounds {
                    tell.add(1)?;
                    hear.wait_for(passed, *from)?;
                }
                go.add(1)
            }
        }
    }
}

/// Returns the distance, in nodes, of each round's notification.
fn rounds_between(nodes: usize) -> impl Iterator<Item = usize> {
    debug_assert!(nodes > 0, "a job has nodes");
    (0..MAX_ROUNDS).map(|round| 1 << round).take_while(move |&step| step < nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_the_last_round_every_node_has_heard_of_every_other() {
        let sizes = (1..=300).chain([511, 512, 513, 1000, 2048, 2049, 4095, 4096]);
        for nodes in sizes {
            // Distances over which a node has heard of others, the same for all nodes.
            let mut heard = vec![false; nodes];
            heard[0] = true;
            for step in rounds_between(nodes) {
                let told = heard.clone();
                (0..nodes).filter(|&at| told[at]).for_each(|at| heard[(at + step) % nodes] = true);
            }
            assert!(heard.iter().all(|&heard| heard), "{nodes} nodes");
        }
    }
}
