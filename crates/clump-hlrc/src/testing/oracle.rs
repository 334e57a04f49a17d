//! Sequential consistency, written without a look at the protocol: one memory, locks that one rank
//! has, barriers that wait for all, flags that only grow. A program without races sees nothing
//! else, and a race is found by clocks of its own.

use std::collections::BTreeMap;

/// Steps of each rank that are known to have happened.
type Clock = BTreeMap<usize, u32>;

/// Last uses of one byte: the write, and the reads behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Uses {
    value: u8,
    write: Option<(usize, u32)>,
    reads: BTreeMap<usize, u32>,
}

/// Reference of a run: every step of a rank is recorded in the order in which it completes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Oracle {
    memory: BTreeMap<usize, Uses>,
    clocks: BTreeMap<usize, Clock>,
    released: BTreeMap<(char, u64), Clock>,
    holders: BTreeMap<u64, usize>,
    arrivals: BTreeMap<u64, u32>,
    departures: BTreeMap<u64, u32>,
    flags: BTreeMap<u64, u64>,
    /// First violation.
    wrong: Option<String>,
}

fn join(into: &mut Clock, from: &Clock) {
    for (&rank, &steps) in from {
        let known = into.entry(rank).or_default();
        *known = (*known).max(steps);
    }
}

impl Oracle {
    /// Returns the first violation: a race of the program, or a wait that ended too early.
    pub fn wrong(&self) -> Option<&str> {
        self.wrong.as_deref()
    }

    fn check(&mut self, right: bool, what: impl FnOnce() -> String) {
        if !right && self.wrong.is_none() {
            self.wrong = Some(what());
        }
    }

    /// Begins the next step of a rank, and returns its number.
    fn tick(&mut self, rank: usize) -> u32 {
        let steps = self.clocks.entry(rank).or_default().entry(rank).or_default();
        *steps += 1;
        *steps
    }

    fn release(&mut self, rank: usize, what: (char, u64)) {
        self.tick(rank);
        let clock = self.clocks.entry(rank).or_default();
        join(self.released.entry(what).or_default(), clock);
    }

    fn acquire(&mut self, rank: usize, what: (char, u64)) {
        let clock = self.clocks.entry(rank).or_default();
        join(clock, self.released.entry(what).or_default());
    }

    fn knows(&self, rank: usize, other: usize, step: u32) -> bool {
        let clock = self.clocks.get(&rank);
        clock.is_some_and(|clock| clock.get(&other).is_some_and(|&known| known >= step))
    }

    /// Notes a read. Returns the byte that the rank must see.
    pub fn read(&mut self, rank: usize, addr: usize) -> u8 {
        let step = self.tick(rank);
        let write = self.memory.get(&addr).and_then(|uses| uses.write);
        if let Some((writer, at)) = write {
            let known = self.knows(rank, writer, at);
            self.check(known, || format!("the program has a race on byte {addr}"));
        }
        let uses = self.memory.entry(addr).or_default();
        uses.reads.insert(rank, step);
        uses.value
    }

    /// Notes a write.
    pub fn write(&mut self, rank: usize, addr: usize, value: u8) {
        let step = self.tick(rank);
        let before = self.memory.remove(&addr).unwrap_or_default();
        for (other, at) in before.reads.into_iter().chain(before.write) {
            let known = self.knows(rank, other, at);
            self.check(known, || format!("the program has a race on byte {addr}"));
        }
        let write = Some((rank, step));
        self.memory.insert(addr, Uses { value, write, reads: BTreeMap::new() });
    }

    /// Notes that a rank has entered a lock.
    pub fn enter(&mut self, rank: usize, lock: u64) {
        let before = self.holders.insert(lock, rank);
        self.check(before.is_none(), || {
            format!("rank {rank} entered lock {lock}, which rank {before:?} has")
        });
        self.acquire(rank, ('l', lock));
    }

    /// Notes that a rank has left a lock.
    pub fn leave(&mut self, rank: usize, lock: u64) {
        let holder = self.holders.remove(&lock);
        self.check(holder == Some(rank), || format!("rank {rank} left lock {lock} of {holder:?}"));
        self.release(rank, ('l', lock));
    }

    /// Notes an arrival at a barrier.
    pub fn arrive(&mut self, rank: usize, barrier: u64) {
        *self.arrivals.entry(barrier).or_default() += 1;
        self.release(rank, ('b', barrier));
    }

    /// Notes that a rank has passed a barrier of `members` ranks.
    pub fn depart(&mut self, rank: usize, barrier: u64, members: u32) {
        let departures = self.departures.entry(barrier).or_default();
        *departures += 1;
        let turns = departures.div_ceil(members);
        let arrived = self.arrivals.get(&barrier).copied().unwrap_or(0);
        self.check(arrived >= turns * members, || {
            format!("barrier {barrier} let rank {rank} pass too early")
        });
        self.acquire(rank, ('b', barrier));
    }

    /// Notes that a flag is set.
    pub fn set(&mut self, rank: usize, flag: u64, value: u64) {
        let now = self.flags.entry(flag).or_default();
        *now = (*now).max(value);
        self.release(rank, ('f', flag));
    }

    /// Notes that a wait for a flag has ended.
    pub fn reached(&mut self, rank: usize, flag: u64, at_least: u64) {
        let now = self.flags.get(&flag).copied().unwrap_or(0);
        self.check(now >= at_least, || format!("flag {flag} is {now}, awaited {at_least}"));
        self.acquire(rank, ('f', flag));
    }

    /// Returns all bytes that were ever used.
    pub fn bytes(&self) -> impl Iterator<Item = (usize, u8)> {
        self.memory.iter().map(|(&addr, uses)| (addr, uses.value))
    }
}
