//! Messages as an algorithm makes them: each remote access of an element, each bulk transfer.
//! The runtime sends fewer, since it collects small ones, and none to ranks of the same node.

/// Accesses of this rank by their way, and their bytes.
#[derive(Debug, Clone)]
pub struct Traffic {
    me: usize,
    /// Nodes, by rank.
    node_of: Vec<usize>,
    counts: TrafficCounts,
}

/// Counts of a rank.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TrafficCounts {
    /// Accesses of this rank's own memory.
    pub(crate) own: u64,
    /// Messages to other ranks of the node.
    pub(crate) near: u64,
    /// Messages to other nodes.
    pub(crate) far: u64,
    /// Messages that are bulk.
    pub(crate) bulk: u64,
    /// Messages that are reads.
    pub(crate) reads: u64,
    pub(crate) small_bytes: u64,
    pub(crate) bulk_bytes: u64,
}

impl Traffic {
    pub(crate) fn new(me: usize, node_of: Vec<usize>) -> Self {
        debug_assert!(me < node_of.len(), "a rank of the job");
        Self { me, node_of, counts: TrafficCounts::default() }
    }

    /// Counts `count` small writes of `bytes` bytes each to memory of a rank.
    #[inline]
    pub fn writes(&mut self, to: usize, count: u64, bytes: u64) {
        if self.sent(to, count) {
            self.counts.small_bytes += count * bytes;
        }
    }

    /// Counts `count` small reads of `bytes` bytes each of memory of a rank.
    #[inline]
    pub fn reads(&mut self, from: usize, count: u64, bytes: u64) {
        if self.sent(from, count) {
            self.counts.reads += count;
            self.counts.small_bytes += count * bytes;
        }
    }

    /// Counts a bulk transfer of `bytes` bytes to a rank.
    pub fn bulk(&mut self, to: usize, bytes: u64) {
        if self.sent(to, 1) {
            self.counts.bulk += 1;
            self.counts.bulk_bytes += bytes;
        }
    }

    /// Counts a read of `bytes` bytes of memory of a rank, as a bulk transfer.
    pub fn bulk_read(&mut self, from: usize, bytes: u64) {
        if self.sent(from, 1) {
            self.counts.reads += 1;
            self.counts.bulk += 1;
            self.counts.bulk_bytes += bytes;
        }
    }

    /// Returns the number of messages to other ranks.
    pub fn messages(&self) -> u64 {
        self.counts.messages()
    }

    pub(crate) fn counts(&self) -> TrafficCounts {
        self.counts
    }

    /// Counts accesses. Returns true if they are messages.
    fn sent(&mut self, to: usize, count: u64) -> bool {
        let same_node = self.node_of.get(to) == self.node_of.get(self.me);
        let ways = &mut self.counts;
        let way = match same_node {
            _ if to == self.me => &mut ways.own,
            true => &mut ways.near,
            false => &mut ways.far,
        };
        *way += count;
        to != self.me
    }
}

impl TrafficCounts {
    pub(crate) fn messages(&self) -> u64 {
        self.near + self.far
    }

    pub(crate) fn to_words(self) -> [u64; 7] {
        let Self { own, near, far, bulk, reads, small_bytes, bulk_bytes } = self;
        [own, near, far, bulk, reads, small_bytes, bulk_bytes]
    }

    pub(crate) fn from_words(words: [u64; 7]) -> Self {
        let [own, near, far, bulk, reads, small_bytes, bulk_bytes] = words;
        Self { own, near, far, bulk, reads, small_bytes, bulk_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::{Traffic, TrafficCounts};

    #[test]
    fn accesses_of_own_memory_are_no_messages() {
        let mut traffic = Traffic::new(1, vec![0, 0, 1]);
        traffic.writes(1, 5, 8);
        traffic.writes(0, 2, 8);
        traffic.reads(2, 3, 4);
        traffic.bulk(2, 4096);
        let expected = TrafficCounts {
            own: 5,
            near: 2,
            far: 4,
            bulk: 1,
            reads: 3,
            small_bytes: 28,
            bulk_bytes: 4096,
        };
        assert_eq!((traffic.counts(), traffic.messages()), (expected, 6));
        assert_eq!(TrafficCounts::from_words(expected.to_words()), expected);
    }
}
