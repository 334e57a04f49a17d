//! A barrier over flags, which network interfaces set: no rank has to poll for messages so that
//! others proceed.
//!
//! Ranks of a node meet at the lowest of them by flags in shared memory, and the lowest ones of all
//! nodes in rounds: in round r each tells the node 2^r further on (dissemination, as in the barrier
//! over messages between more than eight nodes, ADR 14). Flags only grow, so a number that arrives
//! early is never wrong.

use crate::error::{Error, ErrorKind, Result};
use crate::lock::Flag;
use crate::rma::Rma;
use clump_shm::export::SegmentName;

/// Rounds between nodes, of which there are at most 64.
const ROUNDS: u64 = 6;

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
    /// Returns the number of flags that each rank has to export for it ([`Rma::export_flags`]).
    pub fn flags(ranks: usize) -> u64 {
        1 + ROUNDS + ranks as u64
    }

    /// Creates the barrier over the flags that ranks have exported under these names, in rank
    /// order.
    ///
    /// # Errors
    /// Fails if there is not one name for each rank ([`ErrorKind::NotAllNamed`]), or as
    /// [`Rma::target`].
    pub fn over(rma: &Rma, flags: &[SegmentName]) -> Result<Self> {
        let memory = rma.inner.context.node();
        let (me, node) = (rma.inner.context.rank(), memory.node());
        let ranks = 0..memory.interface_id(0);
        let not_all =
            || Error::from(ErrorKind::NotAllNamed { given: flags.len(), ranks: ranks.end });
        if flags.len() != ranks.len() {
            return Err(not_all());
        }
        let lowest_of = |node| ranks.clone().find(|&rank| memory.node_of(rank) == node);
        let lowest: Vec<u32> = (0..memory.nnodes()).filter_map(lowest_of).collect();
        debug_assert_eq!(lowest.len(), memory.nnodes() as usize, "every node has ranks");
        debug_assert!(lowest.len() <= 1 << ROUNDS, "rounds reach all nodes");
        let flag = |rank: u32, index| {
            let name = flags.get(rank as usize).copied();
            rma.flag(name.ok_or_else(not_all)?, index)
        };
        let here = |of: u32| 1 + ROUNDS + u64::from(of);
        let mine = lowest.get(node as usize).copied().unwrap_or(me);
        debug_assert!(mine <= me && memory.is_local(mine), "the lowest rank of this node");
        if me != mine {
            let (here, go) = (flag(mine, here(me))?, flag(mine, 0)?);
            return Ok(Self { part: BarrierRole::Other { here, go, lowest: mine }, passed: 0 });
        }
        let others = ranks.clone().filter(|&rank| rank != me && memory.node_of(rank) == node);
        let members = others.map(|rank| Ok((rank, flag(me, here(rank))?)));
        let nodes = lowest.len();
        let steps = (0..ROUNDS).map(|round| (round, 1_usize << round));
        let rounds = steps.take_while(|&(_, step)| step < nodes).map(|(round, step)| {
            let at =
                |step: usize| lowest.get((node as usize + step) % nodes).copied().unwrap_or(me);
            let (to, from) = (at(step), at(nodes - step));
            Ok(Round { tell: flag(to, 1 + round)?, hear: flag(me, 1 + round)?, from })
        });
        let (members, rounds) =
            (members.collect::<Result<Vec<_>>>()?, rounds.collect::<Result<Vec<_>>>()?);
        debug_assert_eq!(members.len() + 1, memory.local_ranks().len(), "all others arrive here");
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
        match &self.part {
            BarrierRole::Other { here, go, lowest } => {
                here.add(1)?;
                go.wait_for(passed, *lowest)
            }
            BarrierRole::Lowest { members, rounds, go } => {
                for (rank, here) in members {
                    here.wait_for(passed, *rank)?;
                }
                debug_assert!(rounds.len() as u64 <= ROUNDS, "each round has a flag");
                for Round { tell, hear, from } in rounds {
                    tell.add(1)?;
                    hear.wait_for(passed, *from)?;
                }
                go.add(1)
            }
        }
    }
}
