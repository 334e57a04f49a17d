//! The choice of algorithms: one table by operation, bytes, ranks and nodes, with the reasons.
//!
//! The reasons are of `clump lab collectives --all`, which measures all algorithms of a case; its
//! figures stand in docs/benchmarks/collectives.md. All ranks of a team must choose alike, so a
//! choice depends on nothing that ranks may know differently: where each gives as many bytes as it
//! likes, not on bytes.

use clump_trace::Counter;

/// A collective operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// [`crate::Team::barrier`].
    Barrier,
    /// [`crate::Team::broadcast`].
    Broadcast,
    /// [`crate::Team::reduce`].
    Reduce,
    /// [`crate::Team::all_reduce`].
    AllReduce,
    /// [`crate::Team::scan`].
    Scan,
    /// [`crate::Team::gather`].
    Gather,
    /// [`crate::Team::all_gather`].
    AllGather,
    /// [`crate::Team::scatter`].
    Scatter,
    /// [`crate::Team::all_to_all`].
    AllToAll,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Barrier,
        Self::Broadcast,
        Self::Reduce,
        Self::AllReduce,
        Self::Scan,
        Self::Gather,
        Self::AllGather,
        Self::Scatter,
        Self::AllToAll,
    ];

    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::AllReduce => "all-reduce",
            Self::Scan => "scan",
            Self::Gather => "gather",
            Self::AllGather => "all-gather",
            Self::Scatter => "scatter",
            Self::AllToAll => "all-to-all",
        }
    }

    /// Returns the counter of its calls.
    pub(crate) const fn counter(self) -> Counter {
        match self {
            Self::Barrier => Counter::Barriers,
            Self::Broadcast => Counter::Broadcasts,
            Self::Reduce => Counter::Reduces,
            Self::AllReduce => Counter::AllReduces,
            Self::Scan => Counter::Scans,
            Self::Gather => Counter::Gathers,
            Self::AllGather => Counter::AllGathers,
            Self::Scatter => Counter::Scatters,
            Self::AllToAll => Counter::AllToAlls,
        }
    }

    /// Returns the operation of that name.
    ///
    /// # Errors
    /// There is none; the error names all.
    pub fn parse(name: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|it| it.name() == name);
        found.ok_or_else(|| format!("no such collective; there are {}", names()))
    }
}

/// An algorithm of a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Lines of all ranks that every rank of the node reads; messages between nodes (ADR 7, 14).
    Flags,
    /// Messages in rounds, to the rank 2^k further (Mellor-Crummey and Scott).
    Dissemination,
    /// Messages along a binomial tree; for several nodes, one over them and one in each.
    Tree,
    /// Messages in rounds between ranks whose numbers differ by 2^k.
    Doubling,
    /// Messages in rounds, in which what is known doubles (Bruck).
    Bruck,
    /// Messages between a root and every rank, or every node.
    Linear,
    /// Messages between every two ranks.
    Pairwise,
    /// Messages by way of the lowest rank of each node.
    Leaders,
    /// Memory that all ranks of a node read; messages between one rank of each node.
    Staged,
    /// Staged; each rank combines its share of the values.
    Shares,
    /// Staged; all ranks get all contributions, and combine them themselves.
    Everything,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Flags,
        Self::Dissemination,
        Self::Tree,
        Self::Doubling,
        Self::Bruck,
        Self::Linear,
        Self::Pairwise,
        Self::Leaders,
        Self::Staged,
        Self::Shares,
        Self::Everything,
    ];

    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flags => "flags",
            Self::Dissemination => "dissemination",
            Self::Tree => "tree",
            Self::Doubling => "doubling",
            Self::Bruck => "bruck",
            Self::Linear => "linear",
            Self::Pairwise => "pairwise",
            Self::Leaders => "leaders",
            Self::Staged => "staged",
            Self::Shares => "shares",
            Self::Everything => "everything",
        }
    }
}

/// Properties of a team that decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TeamShape {
    pub(crate) ranks: usize,
    /// Nodes of the team; 1 if its order mixes them.
    pub(crate) nodes: usize,
    /// True if the tree of an all-reduce is one tree in each node and one over the nodes.
    pub(crate) even: bool,
    /// True if its ranks have memory in common on each node.
    pub(crate) staged: bool,
    /// True if it is the team of all ranks, which has lines for its barrier.
    pub(crate) lines: bool,
}

/// Maximum bytes of a contribution that every rank of a node combines by itself: above, each rank
/// reading all of them costs more than a second turn of all ranks.
const COMBINED_BY_ALL: usize = 2048;
/// Maximum bytes of all contributions that every node gets, to combine them itself, where no tree
/// over nodes gives the same bits.
const EVERYTHING: usize = 16 << 10;
/// Maximum bytes of a rank's parts for its node to exchange them together with other nodes: then a
/// message for each pair of nodes costs less than one for each pair of ranks.
const BY_LEADERS: usize = 4096;

/// Most algorithms of a case.
const MOST: usize = 4;

/// Algorithms of a case, the chosen one first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidates {
    all: [Algorithm; MOST],
    count: usize,
}

impl Candidates {
    fn new(first: &[Algorithm], then: &[Algorithm]) -> Self {
        let count = first.len() + then.len();
        debug_assert!((1..=MOST).contains(&count), "every operation has an algorithm");
        let mut all = [Algorithm::Tree; MOST];
        all.iter_mut().zip(first.iter().chain(then)).for_each(|(to, from)| *to = *from);
        Self { all, count: count.min(MOST) }
    }
}

impl std::ops::Deref for Candidates {
    type Target = [Algorithm];

    fn deref(&self) -> &[Algorithm] {
        &self.all[..self.count]
    }
}

/// Returns the algorithm for contributions of `bytes` bytes; `None` where ranks need not agree
/// about them.
pub(crate) fn choose(operation: Operation, bytes: Option<usize>, team: &TeamShape) -> Algorithm {
    candidates(operation, bytes, team).all[0]
}

/// Returns all algorithms of a case.
pub(crate) fn candidates(
    operation: Operation,
    bytes: Option<usize>,
    team: &TeamShape,
) -> Candidates {
    let one_node = team.nodes <= 1;
    let size = bytes.unwrap_or(0);
    let by_messages: &[Algorithm] = match operation {
        Operation::Barrier => &[Algorithm::Dissemination],
        Operation::Broadcast | Operation::Reduce => &[Algorithm::Tree],
        Operation::AllReduce if team.even && !one_node => {
            &[Algorithm::Leaders, Algorithm::Doubling]
        }
        Operation::AllReduce | Operation::Scan => &[Algorithm::Doubling],
        Operation::Gather | Operation::Scatter => &[Algorithm::Linear],
        Operation::AllGather => &[Algorithm::Bruck],
        Operation::AllToAll if one_node || bytes.is_none() => &[Algorithm::Pairwise],
        Operation::AllToAll if size > BY_LEADERS => &[Algorithm::Pairwise, Algorithm::Leaders],
        Operation::AllToAll => &[Algorithm::Leaders, Algorithm::Pairwise],
    };
    let by_memory: &[Algorithm] = match operation {
        Operation::Barrier if team.lines => &[Algorithm::Flags],
        _ if !team.staged => &[],
        Operation::Reduce | Operation::AllReduce => combining(size, team),
        Operation::Scan if !one_node => &[Algorithm::Everything],
        Operation::AllToAll if !one_node && bytes.is_none() => &[],
        _ => &[Algorithm::Staged],
    };
    let messages_first = !one_node
        && match operation {
            Operation::Scan => size.saturating_mul(team.ranks) > EVERYTHING,
            Operation::AllToAll => size > BY_LEADERS,
            _ => false,
        };
    match messages_first {
        true => Candidates::new(by_messages, by_memory),
        false => Candidates::new(by_memory, by_messages),
    }
}

/// Returns the algorithms with memory in common of a reduce or all-reduce.
fn combining(bytes: usize, team: &TeamShape) -> &'static [Algorithm] {
    if team.nodes > 1 && !team.even {
        // Trees over ranks that nodes cut somewhere: bits stay the same if all is combined in one
        // place, or along the tree by messages.
        let few = bytes.saturating_mul(team.ranks) <= EVERYTHING;
        return if few { &[Algorithm::Everything] } else { &[] };
    }
    // Two ranks read one contribution each, and need no second turn.
    if bytes <= COMBINED_BY_ALL || team.ranks <= 2 * team.nodes {
        &[Algorithm::Staged, Algorithm::Shares]
    } else {
        &[Algorithm::Shares, Algorithm::Staged]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_an_algorithm_of_messages_alone() {
        let flags = [false, true];
        for (nodes, even, staged) in [1, 2, 3]
            .into_iter()
            .flat_map(|nodes| flags.into_iter().flat_map(move |e| flags.map(|s| (nodes, e, s))))
        {
            let team = TeamShape { ranks: 6, nodes, even, staged, lines: false };
            for operation in Operation::ALL {
                for bytes in [None, Some(0), Some(8), Some(1 << 20)] {
                    let all = candidates(operation, bytes, &team);
                    let memory = [Algorithm::Staged, Algorithm::Shares, Algorithm::Everything];
                    assert!(all.iter().any(|it| !memory.contains(it)), "{operation:?}");
                    assert!(staged || !all.iter().any(|it| memory.contains(it)));
                    assert_eq!(all.first(), Some(&choose(operation, bytes, &team)));
                }
            }
        }
        let many = TeamShape { ranks: 16, nodes: 1, even: true, staged: true, lines: true };
        let chosen = |operation, bytes| choose(operation, Some(bytes), &many);
        assert_eq!(chosen(Operation::Broadcast, 8), Algorithm::Staged);
        assert_eq!(chosen(Operation::AllReduce, 8), Algorithm::Staged);
        assert_eq!(chosen(Operation::AllReduce, 1 << 15), Algorithm::Shares);
        assert_eq!(chosen(Operation::Barrier, 8), Algorithm::Flags);
        let spread = TeamShape { nodes: 2, ..many };
        let all = candidates(Operation::AllToAll, Some(1 << 15), &spread);
        assert_eq!(*all, [Algorithm::Pairwise, Algorithm::Leaders, Algorithm::Staged]);
        assert_eq!(Operation::parse("scan"), Ok(Operation::Scan));
        assert!(Operation::parse("sum").unwrap_err().contains("all-to-all"));
    }
}
