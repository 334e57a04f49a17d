//! Numbers read from blocks: to add up, to subtract, to keep and to send.

use crate::block::Counters;
use crate::counter::{Counter, CounterUnit};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::ops::{Add, Index, IndexMut, Sub};

/// The counters of one rank, or of several added up, at one time. Its JSON form is an object from
/// name to number that leaves out zeroes; names unknown to this build are ignored on reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    values: [u64; Counter::COUNT],
}

impl Snapshot {
    /// All counters zero.
    pub const ZERO: Snapshot = Snapshot { values: [0; Counter::COUNT] };

    /// Reads all cells. Cells of a running rank are read one after the other, not all at once.
    pub fn of(counters: Counters<'_>) -> Self {
        let mut out = Self::ZERO;
        for &counter in Counter::ALL {
            out[counter] = counters.get(counter);
        }
        out
    }

    /// Returns the messages sent: requests and replies of every size.
    pub fn messages_sent(&self) -> u64 {
        self.requests_sent() + self.replies_sent()
    }

    /// Returns the requests sent, of every size.
    pub fn requests_sent(&self) -> u64 {
        use Counter as C;
        self[C::RequestShortSent] + self[C::RequestMediumSent] + self[C::RequestLongSent]
    }

    /// Returns the replies sent, of every size.
    pub fn replies_sent(&self) -> u64 {
        use Counter as C;
        self[C::ReplyShortSent] + self[C::ReplyMediumSent] + self[C::ReplyLongSent]
    }

    /// Returns the medium and long messages sent.
    pub fn bulk_sent(&self) -> u64 {
        use Counter as C;
        self[C::RequestMediumSent]
            + self[C::RequestLongSent]
            + self[C::ReplyMediumSent]
            + self[C::ReplyLongSent]
    }

    /// Returns the payload bytes of the medium and long messages sent.
    pub fn bulk_bytes_sent(&self) -> u64 {
        use Counter as C;
        self[C::RequestMediumSentBytes]
            + self[C::RequestLongSentBytes]
            + self[C::ReplyMediumSentBytes]
            + self[C::ReplyLongSentBytes]
    }

    /// Returns the payload bytes of the short messages sent.
    pub fn short_bytes_sent(&self) -> u64 {
        self[Counter::RequestShortSentBytes] + self[Counter::ReplyShortSentBytes]
    }

    /// Returns a copy in which messages between nodes are added to those within nodes.
    #[must_use]
    pub fn over_all_paths(&self) -> Self {
        let mut all = self.clone();
        for (role, size, flow) in crate::counter::kinds() {
            for counter in [Counter::messages(role, size, flow), Counter::bytes(role, size, flow)] {
                all[counter] = self[counter].wrapping_add(self[counter.over_network()]);
            }
        }
        all
    }

    /// Returns a copy without the messages between nodes.
    #[must_use]
    pub fn within_nodes(&self) -> Self {
        self.of_one_path(false)
    }

    /// Returns a copy in which the messages between nodes replace those within nodes.
    #[must_use]
    pub fn between_nodes(&self) -> Self {
        self.of_one_path(true)
    }

    /// Returns a copy in which all messages are between nodes.
    #[must_use]
    pub fn all_between_nodes(&self) -> Self {
        let mut all = self.clone();
        for (role, size, flow) in crate::counter::kinds() {
            for counter in [Counter::messages(role, size, flow), Counter::bytes(role, size, flow)] {
                all[counter.over_network()] += std::mem::take(&mut all[counter]);
            }
        }
        debug_assert_eq!(all.within_nodes().messages_sent(), 0, "none is left");
        all
    }

    fn of_one_path(&self, network: bool) -> Self {
        let mut all = self.clone();
        for (role, size, flow) in crate::counter::kinds() {
            for counter in [Counter::messages(role, size, flow), Counter::bytes(role, size, flow)] {
                let there = counter.over_network();
                (all[counter], all[there]) = (self[if network { there } else { counter }], 0);
            }
        }
        all
    }

    /// Returns the number of messages returned to sender, for any reason.
    pub fn returned(&self) -> u64 {
        let reasons = Counter::ReturnedBadArguments..=Counter::ReturnedReplyRejected;
        Counter::ALL.iter().filter(|c| reasons.contains(c)).map(|&c| self[c]).sum()
    }

    /// Returns the time from joining to leaving, in nanoseconds, if both have happened.
    pub fn lifetime_ns(&self) -> Option<u64> {
        let (joined, finalized) = (self[Counter::Joined], self[Counter::Finalized]);
        (joined != 0 && finalized >= joined).then(|| finalized - joined)
    }
}

impl Default for Snapshot {
    fn default() -> Self {
        Self::ZERO
    }
}

impl Index<Counter> for Snapshot {
    type Output = u64;
    fn index(&self, counter: Counter) -> &u64 {
        &self.values[counter as usize]
    }
}

impl IndexMut<Counter> for Snapshot {
    fn index_mut(&mut self, counter: Counter) -> &mut u64 {
        &mut self.values[counter as usize]
    }
}

impl Add<&Snapshot> for Snapshot {
    type Output = Snapshot;

    /// Adds counts; of times, the first joining and the last leaving remain.
    fn add(mut self, other: &Snapshot) -> Snapshot {
        for &counter in Counter::ALL {
            let (a, b) = (self[counter], other[counter]);
            self[counter] = match counter {
                Counter::Joined if a == 0 || b == 0 => a.max(b),
                Counter::Joined => a.min(b),
                Counter::Finalized => a.max(b),
                _ => a.wrapping_add(b),
            };
        }
        self
    }
}

impl Sub<&Snapshot> for Snapshot {
    type Output = Snapshot;

    /// Returns the counts since `earlier`; times stay those of the later snapshot.
    fn sub(mut self, earlier: &Snapshot) -> Snapshot {
        for &counter in Counter::ALL {
            if counter.unit() != CounterUnit::Moment {
                self[counter] = self[counter].wrapping_sub(earlier[counter]);
            }
        }
        self
    }
}

impl<'a> std::iter::Sum<&'a Snapshot> for Snapshot {
    fn sum<I: Iterator<Item = &'a Snapshot>>(snapshots: I) -> Self {
        snapshots.fold(Self::ZERO, |all, one| all + one)
    }
}

impl Serialize for Snapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer
            .collect_map(Counter::ALL.iter().map(|&c| (c.name(), self[c])).filter(|(_, n)| *n != 0))
    }
}

impl<'de> Deserialize<'de> for Snapshot {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let named = BTreeMap::<String, u64>::deserialize(deserializer)?;
        let mut out = Self::ZERO;
        for (name, value) in named {
            if let Some(counter) = Counter::named(&name) {
                out[counter] = value;
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(Counter, u64)]) -> Snapshot {
        let mut out = Snapshot::ZERO;
        for &(counter, value) in pairs {
            out[counter] = value;
        }
        out
    }

    #[test]
    fn sums_add_counts_and_keep_the_outermost_moments() {
        let a = with(&[(Counter::Polls, 3), (Counter::Joined, 100), (Counter::Finalized, 900)]);
        let b = with(&[(Counter::Polls, 4), (Counter::Joined, 50), (Counter::Finalized, 800)]);
        let unborn = with(&[(Counter::Polls, 1)]);
        let all: Snapshot = [a, b, unborn].iter().sum();
        assert_eq!(all[Counter::Polls], 8);
        assert_eq!((all[Counter::Joined], all[Counter::Finalized]), (50, 900));
        assert_eq!(all.lifetime_ns(), Some(850));
    }

    #[test]
    fn difference_is_what_happened_in_between() {
        let before = with(&[(Counter::Parks, 10), (Counter::Joined, 5)]);
        let after = with(&[(Counter::Parks, 17), (Counter::Joined, 5)]);
        let between = after - &before;
        assert_eq!((between[Counter::Parks], between[Counter::Joined]), (7, 5));
        assert_eq!(between.lifetime_ns(), None, "it has not left yet");
    }

    #[test]
    fn paths_taken_apart_are_the_whole() {
        let mut all = with(&[(Counter::Polls, 9)]);
        for (at, &counter) in Counter::ALL.iter().take(48).enumerate() {
            all[counter] = 1 + at as u64;
        }
        let (within, between) = (all.within_nodes(), all.between_nodes());
        assert_eq!(within[Counter::RequestShortSent], all[Counter::RequestShortSent]);
        assert_eq!(between[Counter::RequestShortSent], all[Counter::NetRequestShortSent]);
        let sum = within.messages_sent() + between.messages_sent();
        assert_eq!(sum, all.over_all_paths().messages_sent());
        assert_eq!(within.over_all_paths(), within, "nothing is left of the other path");
        assert_eq!((within[Counter::Polls], between[Counter::Polls]), (9, 9));
        let moved = all.all_between_nodes();
        assert_eq!(moved.within_nodes().messages_sent(), 0);
        assert_eq!(moved.between_nodes().messages_sent(), sum);
    }

    #[test]
    fn totals_take_every_kind_once() {
        let mut all = Snapshot::ZERO;
        for (at, &counter) in Counter::ALL.iter().take(12).enumerate() {
            all[counter] = 1 << at;
        }
        // Cells alternate messages, bytes: requests short 1, medium 4, long 16; replies 64, 256,
        // 1024.
        assert_eq!(all.requests_sent(), 1 + 4 + 16);
        assert_eq!(all.replies_sent(), 64 + 256 + 1024);
        assert_eq!(all.messages_sent(), 1 + 4 + 16 + 64 + 256 + 1024);
        assert_eq!(all.bulk_sent(), 4 + 16 + 256 + 1024);
        assert_eq!(all.bulk_bytes_sent(), 8 + 32 + 512 + 2048);
        assert_eq!(all.short_bytes_sent(), 2 + 128);
        all[Counter::ReturnedBadArguments] = 1;
        all[Counter::ReturnedReplyRejected] = 2;
        all[Counter::HandlerRuns] = 100;
        assert_eq!(all.returned(), 3);
    }
}
