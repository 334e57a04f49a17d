//! The ranks of the job that form a team.

use clump_shm::node::NodeMemory;
use std::ops::Range;

/// Ranks of the job, by rank of the team.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Members {
    /// So many, all of the job: no list of them is kept at each.
    All(u32),
    Chosen(Vec<u32>),
}

impl Members {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::All(ranks) => *ranks as usize,
            Self::Chosen(ranks) => ranks.len(),
        }
    }

    /// Returns the rank of the job of a member; of one beyond the last, none.
    pub(crate) fn get(&self, member: usize) -> Option<u32> {
        match self {
            Self::All(ranks) => u32::try_from(member).ok().filter(|rank| rank < ranks),
            Self::Chosen(ranks) => ranks.get(member).copied(),
        }
    }

    /// Returns the ranks of the job of these members.
    pub(crate) fn of(&self, members: Range<usize>) -> Vec<u32> {
        members.filter_map(|member| self.get(member)).collect()
    }

    /// Returns the ranks of the job, in order.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        (0..self.len()).map(|member| {
            let rank = self.get(member);
            debug_assert!(rank.is_some(), "each member is a rank");
            rank.unwrap_or_default()
        })
    }

    /// Returns the first that is dead, if one is.
    pub(crate) fn first_dead(&self, node: &NodeMemory) -> Option<u32> {
        // Fast path: no rank has died.
        node.job().first_death()?;
        self.iter().find(|&rank| node.death_of(rank).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ranks_are_members_as_if_they_were_listed() {
        let (all, listed) = (Members::All(5), Members::Chosen((0..5).collect()));
        assert!(all.iter().eq(listed.iter()));
        assert_eq!((all.len(), all.get(4), all.get(5)), (5, Some(4), None));
        assert_eq!((listed.len(), listed.get(4), listed.get(5)), (5, Some(4), None));
        let some = Members::Chosen(vec![7, 3]);
        assert_eq!((some.get(0), some.iter().last()), (Some(7), Some(3)));
    }
}
