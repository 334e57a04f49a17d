//! Merging sorted runs with a tree of losers: one comparison per level and record.
//!
//! Knuth, The Art of Computer Programming 3, 5.4.1: inner nodes keep the loser of their match, so
//! that replacing the winner replays one path and never reads the sibling's sibling.

use crate::lanes::{Lanes, Refill};
use crate::record::{RECORD, order};
use anyhow::Result;

/// Stands for a lane that has ended: above every real entry, whose position is a lane number.
const ENDED: u128 = u128::MAX;

/// A tournament among lanes.
#[derive(Debug)]
struct Losers {
    /// Node 0 holds the winner, nodes 1.. the losers of their matches.
    nodes: Vec<u128>,
    leaves: usize,
}

impl Losers {
    /// Creates a tournament of the lanes' first entries; entry `i` has `i` as its position.
    fn new(mut entries: Vec<u128>) -> Self {
        let leaves = entries.len().next_power_of_two().max(1);
        entries.resize(leaves, ENDED);
        // Winners bottom-up, as in a heap; each inner node keeps the other one.
        let mut winners = vec![ENDED; leaves];
        winners.extend(entries);
        let mut nodes = vec![ENDED; leaves];
        for node in (1..leaves).rev() {
            let (a, b) = (winners[2 * node], winners[2 * node + 1]);
            (winners[node], nodes[node]) = (a.min(b), a.max(b));
        }
        nodes[0] = winners[1];
        Self { nodes, leaves }
    }

    #[inline(always)]
    fn winner(&self) -> u128 {
        self.nodes[0]
    }

    /// Replays the path of `lane`, the last winner's, with its next entry.
    #[inline(always)]
    fn replace(&mut self, lane: usize, entry: u128) {
        let mut winner = entry;
        let mut node = (lane + self.leaves) / 2;
        while node > 0 {
            let other = self.nodes[node];
            // Both sides are written unconditionally: with random keys a branch would be
            // unpredictable.
            self.nodes[node] = winner.max(other);
            winner = winner.min(other);
            node /= 2;
        }
        self.nodes[0] = winner;
    }
}

/// Passes all records of `count` sorted lanes to `out` in order of their keys.
///
/// # Errors
/// Fails if reading or `out` fails.
pub fn merge(
    lanes: &mut Lanes,
    count: usize,
    mut out: impl FnMut(u128, &[u8]) -> Result<()>,
) -> Result<()> {
    let mut entries = Vec::with_capacity(count);
    for lane in 0..count {
        entries.push(entry(lanes, lane)?);
    }
    let mut losers = Losers::new(entries);
    loop {
        let best = losers.winner();
        if best == ENDED {
            return Ok(());
        }
        let lane = crate::record::position(best) as usize;
        if let Some(record) = lanes.first(lane) {
            out(best, record)?;
        }
        lanes.consume(lane, RECORD);
        let next = entry(lanes, lane)?;
        debug_assert!(next >= best, "a run is out of order");
        losers.replace(lane, next);
    }
}

/// Returns the first entry of `lane`, waiting for the disk if needed.
#[inline(always)]
fn entry(lanes: &mut Lanes, lane: usize) -> Result<u128> {
    if let Some(record) = lanes.first(lane) {
        return Ok(order(record, lane as u64));
    }
    match lanes.refill(lane, None)? {
        Refill::End => Ok(ENDED),
        Refill::Ready | Refill::Pending => {
            Ok(lanes.first(lane).map_or(ENDED, |record| order(record, lane as u64)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_tournament_is_a_sort(lists in prop::collection::vec(
            prop::collection::vec(0u128..50, 0..20), 0..12))
        {
            let mut expected: Vec<u128> = lists.concat();
            expected.sort_unstable();
            let mut queues: Vec<std::collections::VecDeque<u128>> = lists
                .into_iter()
                .map(|mut l| { l.sort_unstable(); l.into() })
                .collect();
            let first = (0..queues.len()).map(|l| {
                queues[l].pop_front().map_or(ENDED, |k| (k << 48) | l as u128)
            }).collect();
            let mut losers = Losers::new(first);
            let mut got = Vec::new();
            while losers.winner() != ENDED {
                let best = losers.winner();
                let lane = crate::record::position(best) as usize;
                got.push(best >> 48);
                let next = queues[lane].pop_front().map_or(ENDED, |k| (k << 48) | lane as u128);
                losers.replace(lane, next);
            }
            prop_assert_eq!(got, expected);
        }
    }
}
