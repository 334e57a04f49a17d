//! Numbers of ranks by state, kept up to date so that no event takes a look at all ranks.

use crate::rank_life::RankLife;

/// Ranks of a job in each state that the rules of dying ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RankTally {
    pub(crate) joined: usize,
    pub(crate) running: usize,
    /// Ranks that left without joining, undeclared.
    pub(crate) absent: usize,
    /// Ranks that no other has to wait for.
    pub(crate) done: usize,
    pub(crate) stopped: usize,
}

impl RankTally {
    /// Counts these ranks.
    pub(crate) fn of(lives: &[RankLife]) -> Self {
        let mut tally = Self::default();
        lives.iter().for_each(|life| tally.add(life));
        debug_assert!(tally.done + tally.stopped <= lives.len(), "the stopped are not done");
        tally
    }

    /// Adds a rank.
    pub(crate) fn add(&mut self, life: &RankLife) {
        for (count, counts) in self.counts(life) {
            *count += usize::from(counts);
        }
    }

    /// Takes a rank out, as it was when it was added.
    pub(crate) fn remove(&mut self, life: &RankLife) {
        for (count, counts) in self.counts(life) {
            debug_assert!(!counts || *count > 0, "it was added");
            *count -= usize::from(counts);
        }
    }

    fn counts(&mut self, life: &RankLife) -> [(&mut usize, bool); 5] {
        debug_assert!(!life.stopped || life.runs(), "what has ended is not stopped");
        [
            (&mut self.joined, life.joined),
            (&mut self.running, life.runs()),
            (&mut self.absent, life.is_absent()),
            (&mut self.done, life.is_done()),
            (&mut self.stopped, life.stopped),
        ]
    }
}
