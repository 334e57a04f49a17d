//! Offsets between the clocks of machines, from the shortest one-way times of messages (docs/adr/
//! 0043): those of both directions between two clocks bound the offset from both sides. Pure.

use std::collections::HashMap;

/// Offset of a clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClockOffset {
    /// Time to add to the clock's times, in ns, so that they are of the first clock.
    pub add_ns: i64,
    /// Largest error of that, in ns; 0: both are one clock.
    pub error_ns: u64,
}

/// The shortest one-way times of messages, by the clocks that sender and receiver read.
#[derive(Debug, Clone, Default)]
pub struct LeastTimes(HashMap<(usize, usize), i64>);

impl LeastTimes {
    /// Takes the times of a message: of sending by clock `from`, of handling by clock `to`.
    pub fn add(&mut self, (from, to): (usize, usize), sent_ns: i64, handled_ns: i64) {
        let took = handled_ns.saturating_sub(sent_ns);
        let least = self.0.entry((from, to)).or_insert(took);
        *least = took.min(*least);
    }

    /// Returns the offset between two clocks that messages crossed both ways: what to add to the
    /// times of `b`, so that they are of `a`.
    fn between(&self, a: usize, b: usize) -> Option<ClockOffset> {
        let there = *self.0.get(&(a, b))?;
        let back = *self.0.get(&(b, a))?;
        // A message takes some time: -back <= -add <= there, where add is from b to a.
        let add_ns = (back - there) / 2;
        let error_ns = (there.saturating_add(back).max(0) as u64).div_ceil(2);
        Some(ClockOffset { add_ns, error_ns })
    }

    /// Returns the offset of each of `clocks` clocks from the first, by way of those between which
    /// the error is least; `None` where no messages lead both ways.
    pub fn offsets(&self, clocks: usize) -> Vec<Option<ClockOffset>> {
        let mut offsets = vec![None; clocks];
        let mut done = vec![false; clocks];
        if let Some(first) = offsets.first_mut() {
            *first = Some(ClockOffset::default());
        }
        // Dijkstra's algorithm over the errors.
        let nearest = |offsets: &[Option<ClockOffset>], done: &[bool]| {
            let open = (0..clocks).filter(|&at| !done[at]);
            let known = open.filter_map(|at| Some((offsets[at]?, at)));
            known.min_by_key(|(offset, _)| offset.error_ns)
        };
        while let Some((here, at)) = nearest(&offsets, &done) {
            done[at] = true;
            for other in 0..clocks {
                let Some(step) = self.between(at, other).filter(|_| !done[other]) else { continue };
                let error_ns = here.error_ns.saturating_add(step.error_ns);
                let add_ns = here.add_ns + step.add_ns;
                if offsets[other].is_none_or(|known| error_ns < known.error_ns) {
                    offsets[other] = Some(ClockOffset { add_ns, error_ns });
                }
            }
        }
        debug_assert!(offsets.first().is_none_or(|first| *first == Some(ClockOffset::default())));
        offsets
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};

    #[test]
    fn known_offsets_are_found_within_the_error_that_is_said() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        // True times are those of clock 0; clock k shows true + ahead[k].
        let ahead = [0, 5_000_000_000, -77_000_123, 40];
        for _ in 0..50 {
            let mut least = LeastTimes::default();
            // Clocks 2 and 3 hear of clock 0 by way of clock 1 alone.
            for (from, to) in [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)] {
                for n in 0..40 {
                    let sent = 1_000_000 * n;
                    let took = 4_000 + (random.next_u64() % 90_000) as i64;
                    least.add((from, to), sent + ahead[from], sent + took + ahead[to]);
                }
            }
            for (clock, found) in least.offsets(4).into_iter().enumerate() {
                let found = found.unwrap();
                let wrong = found.add_ns.abs_diff(-ahead[clock]);
                assert!(wrong <= found.error_ns, "{clock}: {found:?}");
                assert!(found.error_ns <= 3 * 30_000, "{found:?}");
                assert_eq!(found.error_ns == 0, clock == 0);
            }
        }
    }

    #[test]
    fn the_path_with_the_least_error_counts_and_one_way_is_no_path() {
        let mut least = LeastTimes::default();
        for (pair, took) in [((0, 1), 90_000), ((1, 0), 90_000), ((0, 2), 500), ((2, 0), 500)] {
            least.add(pair, 0, took);
        }
        for pair in [(1, 2), (2, 1)] {
            least.add(pair, 0, 700);
        }
        least.add((0, 3), 0, 1);
        let errors: Vec<_> =
            least.offsets(4).iter().map(|offset| offset.map(|o| o.error_ns)).collect();
        assert_eq!(errors, [Some(0), Some(1_200), Some(500), None]);
    }
}
