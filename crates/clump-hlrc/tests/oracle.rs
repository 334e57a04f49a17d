//! Sequential consistency, written without a look at the protocol: one memory, locks that one rank
//! has, barriers that wait for all, flags that only grow. A program without races sees nothing else.

use std::collections::BTreeMap;

/// Reference of a run: every step of a rank is told in the order in which it completes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Oracle {
    memory: BTreeMap<usize, u8>,
    holders: BTreeMap<u64, usize>,
    arrivals: BTreeMap<u64, u32>,
    departures: BTreeMap<u64, u32>,
    flags: BTreeMap<u64, u64>,
}

impl Oracle {
    /// Returns the byte that a rank must read.
    pub fn byte(&self, addr: usize) -> u8 {
        self.memory.get(&addr).copied().unwrap_or(0)
    }

    /// Notes a write.
    pub fn write(&mut self, addr: usize, value: u8) {
        self.memory.insert(addr, value);
    }

    /// Notes that a rank has entered a lock.
    pub fn enter(&mut self, rank: usize, lock: u64) {
        let before = self.holders.insert(lock, rank);
        assert_eq!(before, None, "rank {rank} entered lock {lock}, which another has");
    }

    /// Notes that a rank has left a lock.
    pub fn leave(&mut self, rank: usize, lock: u64) {
        assert_eq!(self.holders.remove(&lock), Some(rank), "lock {lock}");
    }

    /// Notes an arrival at a barrier.
    pub fn arrive(&mut self, barrier: u64) {
        *self.arrivals.entry(barrier).or_default() += 1;
    }

    /// Notes that a rank has passed a barrier of `members` ranks.
    pub fn depart(&mut self, barrier: u64, members: u32) {
        let departures = self.departures.entry(barrier).or_default();
        *departures += 1;
        let turns = departures.div_ceil(members);
        let arrived = self.arrivals.get(&barrier).copied().unwrap_or(0);
        assert!(arrived >= turns * members, "barrier {barrier} let a rank pass too early");
    }

    /// Notes that a flag is set.
    pub fn set(&mut self, flag: u64, value: u64) {
        let now = self.flags.entry(flag).or_default();
        *now = (*now).max(value);
    }

    /// Notes that a wait for a flag has ended.
    pub fn reached(&self, flag: u64, at_least: u64) {
        let now = self.flags.get(&flag).copied().unwrap_or(0);
        assert!(now >= at_least, "flag {flag} is {now}, awaited {at_least}");
    }

    /// Returns all bytes that were ever written.
    pub fn written(&self) -> impl Iterator<Item = (usize, u8)> {
        self.memory.iter().map(|(&addr, &value)| (addr, value))
    }
}
