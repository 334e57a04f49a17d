//! Places of the protocol's words in the memory that each node keeps for all others.

/// Bytes of a pair of words: an interval's number, and the position behind its notices.
const PAIR: u64 = 16;
/// Bytes of a slot: an interval's number, the place of its notices, and a check of both.
const SLOT_BYTES: u64 = 32;
/// Bytes before the arrays: words of the node itself.
const HEAD_BYTES: u64 = 256;

/// Intervals of all writers together whose notices a node keeps: 2 MiB, and 16 MiB of notices.
const ALL_SLOTS: u64 = 1 << 16;
/// Bounds of those of one writer.
const MIN_SLOTS: u64 = 1 << 10;
const MAX_SLOTS: u64 = 1 << 14;
/// Pages whose sharers are counted together.
pub const SHARED_TOGETHER: u32 = 512;
/// Words of notices for each slot.
const SLOT_WORDS: u64 = 32;
/// Locks, and flags, for which a node has room: all numbers.
const ROOM: u64 = 1 << 28;

/// Places in the memory of a node; the same at all nodes of a job. Offsets in bytes.
///
/// ```text
/// lock closed completed awaited generation sum wanted
/// by node:            consumed(number, position)  sent(position)  room(number, position)
///                     announced(number)
/// by rank and node:   passed(number, position)
/// by rank of the job: arrived  by home: needed known
/// by rank:            open
/// by writer:          slots(number, place, check)  notices
/// by page:            copy  deposit  home  claim  shared  (by some pages) shares
/// by lock:            token, and at its keeper the last node that asked
/// by flag:            value, intervals by writer
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DepositLayout {
    nodes: u64,
    ranks: u64,
    pages: u64,
    /// Intervals of one writer whose notices a node keeps.
    slots: u64,
}

impl DepositLayout {
    /// Word of the home of a page that the first use decides on, for a rank that placed it alone.
    pub const FIRST_USE: u64 = u64::MAX;
    /// Word of the lock of the node's ranks.
    pub const LOCK: u64 = 0;
    /// Number of the last interval that a rank of the node has begun to publish.
    pub const CLOSED: u64 = 8;
    /// Number of the last interval whose bytes, and those of all before it, are at their homes.
    pub const COMPLETED: u64 = 16;
    /// Not 0 while ranks of the node wait until the word before changes.
    pub const AWAITED: u64 = 24;
    /// Number of the copies' generation: others than those of the last one are stale.
    pub const GENERATION: u64 = 32;
    /// Sum of all consumed intervals when the last interval was closed.
    pub const CLOSED_SUM: u64 = 40;
    /// Last interval of the node that another node, or another rank, waits for.
    pub const WANTED: u64 = 48;

    /// Returns the places for a job of `nodes` nodes and `ranks` ranks with a heap of `pages`
    /// pages.
    pub fn new(nodes: u16, ranks: u32, pages: u32) -> Self {
        assert!(nodes > 0 && ranks >= u32::from(nodes), "each node has a rank");
        let (nodes, ranks, pages) = (u64::from(nodes), u64::from(ranks), u64::from(pages));
        let slots = (ALL_SLOTS / nodes).clamp(MIN_SLOTS, MAX_SLOTS);
        Self { nodes, ranks, pages, slots }
    }

    /// Returns places with room for so many intervals of each writer.
    #[must_use]
    pub fn with_slots(self, slots: u64) -> Self {
        assert!(slots > 0, "an interval finds room");
        Self { slots, ..self }
    }

    /// Returns the number of intervals of one writer whose notices a node keeps.
    pub fn slots(&self) -> u64 {
        self.slots
    }

    /// Returns the number of words of notices of one writer that a node keeps.
    pub fn ring_words(&self) -> u64 {
        self.slots * SLOT_WORDS
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> u16 {
        self.nodes as u16
    }

    /// Returns the number of ranks of the job.
    pub fn ranks(&self) -> u32 {
        self.ranks as u32
    }

    /// Returns a time before all intervals: a number for each node.
    pub fn no_time(&self) -> Vec<u64> {
        vec![0; self.nodes as usize]
    }

    /// Returns the pair of the intervals of `writer` that the node has consumed.
    pub fn consumed(&self, writer: u16) -> u64 {
        self.of_node(0, writer)
    }

    /// Returns the word with the position behind the last notices for `reader`.
    pub fn sent(&self, reader: u16) -> u64 {
        self.of_node(1, reader)
    }

    /// Returns the pair up to which `reader` is known to have passed all notices of this node.
    pub fn room(&self, reader: u16) -> u64 {
        self.of_node(2, reader)
    }

    /// Returns the word of the last interval of `writer` with bytes for pages whose home the node
    /// is; of the node's own, the last that is completed. The words of all writers lie together.
    pub fn announced(&self, writer: u16) -> u64 {
        debug_assert!(u64::from(writer) < self.nodes, "the writer is one of the job's nodes");
        self.of_node(3, 0) + u64::from(writer) * 8
    }

    fn of_node(&self, array: u64, node: u16) -> u64 {
        debug_assert!(u64::from(node) < self.nodes, "the node is one of the job's");
        HEAD_BYTES + (array * self.nodes + u64::from(node)) * PAIR
    }

    /// Returns the pair of the intervals of `writer` that a rank of the node has passed: its rights
    /// are those behind them. The pairs of one writer lie together.
    pub fn passed(&self, rank: u32, writer: u16) -> u64 {
        debug_assert!(u64::from(rank) < self.ranks, "the rank is one of the node's");
        debug_assert!(u64::from(writer) < self.nodes, "the writer is one of the job's nodes");
        let first = HEAD_BYTES + 4 * self.nodes * PAIR;
        first + (u64::from(writer) * self.ranks + u64::from(rank)) * PAIR
    }

    fn arrivals_at(&self) -> u64 {
        HEAD_BYTES + (4 + self.ranks) * self.nodes * PAIR
    }

    /// Returns the word of the last interval of a rank of the job whose bytes for pages of this
    /// home are here. The words of all ranks lie together.
    pub fn arrived(&self, rank: u32) -> u64 {
        debug_assert!(u64::from(rank) < self.ranks, "the rank is one of the job's");
        self.arrivals_at() + u64::from(rank) * 8
    }

    /// Returns the word of the last interval of a rank of the job that this node knows to have
    /// bytes for pages of `home`: it must have [`arrived`](Self::arrived) there before a fetch.
    pub fn needed(&self, home: u16, rank: u32) -> u64 {
        self.of_home(0, home, rank)
    }

    /// Returns the word of the last interval of a rank of the job that this node knows to have
    /// arrived at `home`.
    pub fn known(&self, home: u16, rank: u32) -> u64 {
        self.of_home(1, home, rank)
    }

    fn of_home(&self, array: u64, home: u16, rank: u32) -> u64 {
        debug_assert!(u64::from(home) < self.nodes, "the home is one of the job's nodes");
        debug_assert!(u64::from(rank) < self.ranks, "the rank is one of the job's");
        let row = 1 + array * self.nodes + u64::from(home);
        self.arrivals_at() + (row * self.ranks + u64::from(rank)) * 8
    }

    /// Returns the word of the interval that a rank of the node keeps open; 0 for none.
    pub fn open(&self, rank: u32) -> u64 {
        debug_assert!(u64::from(rank) < self.ranks, "the rank is one of the node's");
        self.arrivals_at() + ((1 + 2 * self.nodes) * self.ranks + u64::from(rank)) * 8
    }

    fn slots_at(&self) -> u64 {
        let arrivals = (2 + 2 * self.nodes) * self.ranks * 8;
        (self.arrivals_at() + arrivals).next_multiple_of(SLOT_BYTES)
    }

    /// Returns the slot of an interval of `writer`: its number, the place of its notices, a check.
    pub fn slot(&self, writer: u16, number: u64) -> u64 {
        debug_assert!(u64::from(writer) < self.nodes, "the writer is one of the job's nodes");
        self.slots_at() + (u64::from(writer) * self.slots + number % self.slots) * SLOT_BYTES
    }

    /// Returns the word at a position of the notices of `writer`.
    pub fn notice(&self, writer: u16, position: u64) -> u64 {
        let first = self.slots_at() + self.nodes * self.slots * SLOT_BYTES;
        debug_assert!(u64::from(writer) < self.nodes, "the writer is one of the job's nodes");
        first + (u64::from(writer) * self.ring_words() + position % self.ring_words()) * 8
    }

    fn pages_at(&self) -> u64 {
        self.slots_at() + self.nodes * (self.slots * SLOT_BYTES + self.ring_words() * 8)
    }

    /// Returns the word of the node's copy of a page.
    pub fn copy(&self, page: u32) -> u64 {
        self.of_page(0, page)
    }

    /// Returns the word of the last deposit of a page by this node: its rank, and the interval.
    pub fn deposit(&self, page: u32) -> u64 {
        self.of_page(3, page)
    }

    /// Returns the word with the home of a page, counted from 1, or
    /// [`FIRST_USE`](Self::FIRST_USE); 0 where no rank alone has placed it, and none has found it.
    pub fn home(&self, page: u32) -> u64 {
        self.of_page(1, page)
    }

    /// Returns the word of the node that has claimed a page, counted from 1, at its directory.
    pub fn claim(&self, page: u32) -> u64 {
        self.of_page(2, page)
    }

    /// Returns the word, at the home of a page, that is not 0 once another node shares it.
    pub fn shared(&self, page: u32) -> u64 {
        self.of_page(4, page)
    }

    /// Returns the word, at the home of a page, that counts how often another node has begun to
    /// share this page, or one of those around it.
    pub fn shares(&self, page: u32) -> u64 {
        debug_assert!(u64::from(page) < self.pages, "the page exists");
        self.shares_at() + u64::from(page / SHARED_TOGETHER) * 8
    }

    fn shares_at(&self) -> u64 {
        self.pages_at() + 5 * self.pages * 8
    }

    fn of_page(&self, array: u64, page: u32) -> u64 {
        debug_assert!(u64::from(page) < self.pages, "the page exists");
        self.pages_at() + (array * self.pages + u64::from(page)) * 8
    }

    /// Returns the words of a flag, which each node has: its value, then intervals by writer; none
    /// beyond the room for flags.
    pub fn flag(&self, flag: u64) -> Option<u64> {
        (flag < ROOM).then(|| self.flags_at() + flag * self.flag_bytes())
    }

    /// Returns the word that says where a lock is, as far as this node is concerned; none beyond
    /// the room for locks.
    pub fn token(&self, lock: u64) -> Option<u64> {
        (lock < ROOM).then(|| self.locks_at() + lock * 8)
    }

    /// Returns the word of the node that asked last for a lock, counted from 1, at its keeper.
    pub fn tail(&self, lock: u64) -> u64 {
        debug_assert!(lock < ROOM, "there is room for the lock");
        self.locks_at() + (ROOM + lock) * 8
    }

    fn locks_at(&self) -> u64 {
        (self.shares_at() + self.pages.div_ceil(u64::from(SHARED_TOGETHER)) * 8)
            .next_multiple_of(64)
    }

    fn flags_at(&self) -> u64 {
        self.locks_at() + 2 * ROOM * 8
    }

    fn flag_bytes(&self) -> u64 {
        ((1 + self.nodes) * 8).next_multiple_of(64)
    }

    /// Returns the keeper of a lock, or of a page's claim.
    pub fn keeper(&self, id: u64) -> u16 {
        (id % self.nodes) as u16
    }

    /// Returns the length of a node's memory; it is sparse.
    pub fn end(&self) -> u64 {
        self.flags_at() + ROOM * self.flag_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_different_things_do_not_overlap() {
        let layout = DepositLayout::new(3, 5, 7);
        let mut all = vec![(0, 8), (8, 8), (16, 8), (24, 8), (32, 8), (40, 8), (48, 8)];
        for node in 0..3 {
            let pairs = [layout.consumed(node), layout.room(node)];
            all.extend(pairs.map(|at| (at, PAIR)));
            all.extend([layout.sent(node), layout.announced(node)].map(|at| (at, 8)));
            all.extend((0..5).map(|rank| (layout.passed(rank, node), PAIR)));
            all.extend((0..layout.slots()).map(|number| (layout.slot(node, number), SLOT_BYTES)));
            all.push((layout.notice(node, 0), layout.ring_words() * 8));
        }
        for page in 0..7 {
            let words = [layout.copy(page), layout.deposit(page)];
            let homes = [layout.home(page), layout.claim(page), layout.shared(page)];
            all.extend(words.into_iter().chain(homes).map(|at| (at, 8)));
        }
        all.push((layout.shares(6), 8));
        for rank in 0..5 {
            all.extend([layout.arrived(rank), layout.open(rank)].map(|at| (at, 8)));
            let of_home = |home| [layout.needed(home, rank), layout.known(home, rank)];
            all.extend((0..3).flat_map(of_home).map(|at| (at, 8)));
        }
        for lock in [0, 1, 7, ROOM - 1] {
            all.extend([layout.token(lock).unwrap(), layout.tail(lock)].map(|at| (at, 8)));
        }
        all.extend((0..9).step_by(3).map(|flag| (layout.flag(flag).unwrap(), 4 * 8)));
        all.sort_unstable();
        for two in all.windows(2) {
            assert!(two[0].0 + two[0].1 <= two[1].0, "{two:?}");
        }
        assert!(all.last().is_some_and(|last| last.0 + last.1 <= layout.end()));
        assert_eq!((layout.flag(u64::MAX), layout.token(u64::MAX)), (None, None));
    }

    #[test]
    fn slots_and_notices_begin_again_behind_their_end() {
        let layout = DepositLayout::new(2, 2, 1);
        assert_eq!(layout.slot(1, 5), layout.slot(1, 5 + layout.slots()));
        assert_eq!(layout.notice(1, 5), layout.notice(1, 5 + layout.ring_words()));
        assert_ne!(layout.slot(1, 5), layout.slot(0, 5));
    }
}
