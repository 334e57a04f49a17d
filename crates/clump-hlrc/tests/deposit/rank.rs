//! A rank: its rights on pages, and its program.

use crate::deposit::USED;
use crate::deposit::cluster::{Cluster, State};
use crate::deposit::port::Port;
use clump_hlrc::deposit::{DepositLayout, DepositRank, PageUse};
use clump_hlrc::testing::Op;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ops::Range;

/// One rank.
pub struct Rank {
    port: Port,
    protocol: DepositRank,
    rights: RefCell<Vec<Option<PageUse>>>,
    written: RefCell<BTreeSet<u32>>,
    /// Pages whose stores are not looked for, and what was said of them.
    exclusive: RefCell<BTreeSet<u32>>,
    shares: Cell<u64>,
    kept: u8,
    /// Times that it has looked ahead.
    turns: Cell<u32>,
}

impl Rank {
    pub fn new(cluster: Cluster, thread: usize) -> Self {
        let protocol = cluster.protocol(thread);
        let node = (thread / cluster.shape.1 as usize) as u16;
        let rights = RefCell::new(vec![None; cluster.pages as usize]);
        let port = Port { cluster, thread, node, fenced: Cell::new(0) };
        let (written, turns, exclusive, shares) = Default::default();
        Self { port, protocol, rights, written, exclusive, shares, kept: 0, turns }
    }

    /// Publishes what it has put off, as it does when it leaves.
    pub fn end(&self) {
        self.publish();
    }

    /// Returns what it has peeked at last.
    pub fn kept(&self) -> u8 {
        self.kept
    }

    /// Carries an operation out, behind what is wanted of this rank.
    pub fn step(&mut self, op: Op) {
        if self.protocol.is_wanted(&self.port) {
            self.publish();
        }
        let (thread, cluster) = (self.port.thread, self.port.cluster.clone());
        match op {
            Op::Read(addr) => {
                let seen = self.read(addr);
                let mut state = cluster.lock();
                state.counts.reads += 1;
                let due = state.oracle.read(thread, addr);
                drop(state);
                assert_eq!(seen, due, "rank {thread} reads byte {addr}");
            }
            Op::Write(addr, value) => {
                cluster.lock().oracle.write(thread, addr, value);
                self.write(addr, value);
            }
            Op::Peek(addr) => self.kept = self.read(addr),
            Op::Follow(addr, value) => {
                if self.kept != 0 && self.kept != value {
                    assert_eq!(self.read(addr), value, "what the pointer points to");
                }
            }
            Op::Fence => self.fence(),
            Op::Lock(lock) => {
                self.enter(lock);
                let Ok(acquired) = self.protocol.acquire_lock(&self.port, lock, || self.serve());
                assert!(acquired.is_some(), "there is such a lock");
                let mut state = cluster.lock();
                assert!(state.held.insert(lock), "one rank has lock {lock}");
                state.oracle.enter(thread, lock);
                drop(state);
                self.pass();
                self.look_ahead();
            }
            Op::Unlock(lock) => {
                if cluster.puts_off() {
                    let Ok(()) = self.protocol.put_off(&self.port);
                    cluster.lock().counts.put_off += 1;
                } else {
                    self.publish();
                }
                let mut state = cluster.lock();
                state.oracle.leave(thread, lock);
                state.held.remove(&lock);
                drop(state);
                let Ok(_) = self.protocol.release_lock(&self.port, lock);
                cluster.lock().locks.remove(&(self.port.node, lock));
            }
            Op::Set(flag, value) => {
                self.publish();
                cluster.lock().oracle.set(thread, flag, value);
                let Ok(set) = self.protocol.set_flag(&self.port, flag, value);
                assert!(set, "there is such a flag");
            }
            Op::Await(flag, value) => {
                let waited = self.protocol.await_flag(&self.port, (flag, value), || self.serve());
                let Ok(reached) = waited;
                assert!(reached, "there is such a flag");
                self.pass();
                self.look_ahead();
                cluster.lock().oracle.reached(thread, flag, value);
            }
            Op::Barrier(barrier, members) => self.meet(barrier, members),
            Op::Place(..) => unreachable!("programs of this kind place nothing"),
        }
    }

    fn meet(&self, barrier: u64, members: u32) {
        self.publish();
        let (thread, cluster) = (self.port.thread, &self.port.cluster);
        let own = self.protocol.arrival(&self.port);
        let turn = {
            let mut state = cluster.lock();
            state.oracle.arrive(thread, barrier);
            let turn = state.ended.len();
            let latest = state.arrival.iter().zip(own).map(|(all, own)| own.max(*all)).collect();
            state.arrival = latest;
            state.arrived += 1;
            if state.arrived == members as usize {
                state.arrived = 0;
                let time = state.arrival.clone();
                state.ended.push(time);
            }
            turn
        };
        cluster.wait(thread, Box::new(move |state| state.ended.len() > turn));
        let mut time = cluster.lock().ended[turn].clone();
        let Ok(()) = self.protocol.consume(&self.port, &mut time, &mut || self.serve());
        self.pass();
        self.look_ahead();
        cluster.lock().oracle.depart(thread, barrier, members);
    }

    /// Waits until no other rank of the node has a lock, and takes it.
    fn enter(&self, lock: u64) {
        let (own, cluster) = ((self.port.node, lock), &self.port.cluster);
        let (node, wanted) = (self.port.node, DepositLayout::WANTED);
        loop {
            let at = self.protocol.layout().open((self.port.thread as u32) % cluster.shape.1);
            let free = move |state: &State| !state.locks.contains(&own);
            let is_wanted = move |state: &State| {
                let memory = &state.nodes[usize::from(node)];
                memory.word(at) != 0 && memory.word(wanted) >= memory.word(at)
            };
            let either = move |state: &State| free(state) || is_wanted(state);
            cluster.wait(self.port.thread, Box::new(either));
            if cluster.lock().locks.insert(own) {
                return;
            }
            let Ok(()) = self.serve();
        }
    }

    /// Publishes what is wanted.
    fn serve(&self) -> Result<(), Infallible> {
        self.publish();
        Ok(())
    }

    fn publish(&self) {
        let written = self.take_written();
        let ranks = self.port.cluster.shape.1;
        let Ok(()) = self.protocol.publish(&self.port, &written, |_| ranks);
    }

    fn fence(&self) {
        let written = self.take_written();
        let ranks = self.port.cluster.shape.1;
        let Ok(()) = self.protocol.publish_node(&self.port, &written, |_| ranks);
    }

    /// Returns the pages that this rank has written, and that others may have copies of.
    fn take_written(&self) -> Vec<u32> {
        let shares = self.protocol.shares(&self.port, 0);
        let mut exclusive = self.exclusive.borrow_mut();
        if self.shares.replace(shares) != shares {
            let ends = |page: &u32| !self.protocol.is_exclusive(&self.port, *page);
            let ended: Vec<u32> = exclusive.iter().copied().filter(ends).collect();
            for page in ended {
                exclusive.remove(&page);
                self.written.borrow_mut().insert(page);
            }
        }
        // Stores to those are not found from here on.
        let mut written: Vec<u32> =
            std::mem::take(&mut *self.written.borrow_mut()).into_iter().collect();
        written.retain(|page| !exclusive.contains(page));
        let (private, written): (Vec<u32>, Vec<u32>) =
            written.into_iter().partition(|page| self.protocol.is_exclusive(&self.port, *page));
        self.port.cluster.lock().counts.exclusive += private.len() as u64;
        exclusive.extend(private);
        drop(exclusive);
        for &page in &written {
            if let Some(right) = &mut self.rights.borrow_mut()[page as usize] {
                *right = PageUse::Loads;
            }
        }
        written
    }

    fn pass(&self) {
        let Ok(()) = self.protocol.pass(&self.port, |pages| self.drop_pages(pages));
    }

    fn drop_pages(&self, pages: Range<u32>) {
        for page in pages {
            if self.protocol.known_home(&self.port, page) != Some(self.port.node) {
                self.rights.borrow_mut()[page as usize] = None;
            }
        }
    }

    fn grant(&self, page: u32, wanted: PageUse, current: bool) -> bool {
        let right = &mut self.rights.borrow_mut()[page as usize];
        if current && *right != Some(PageUse::Stores) {
            *right = Some(wanted);
        }
        current
    }

    /// Fetches pages that this rank will use, or will not; takes rights on some.
    fn look_ahead(&self) {
        let turn = self.turns.get();
        self.turns.set(turn + 1);
        let wanted = |page: &u32| !(page + turn).is_multiple_of(3);
        let pages: Vec<u32> = (0..self.port.cluster.pages).filter(wanted).collect();
        let acquired = || {
            self.pass();
            Ok(())
        };
        let grant = |page: u32, wanted: PageUse, current: &dyn Fn() -> bool| {
            (page / 2 + turn).is_multiple_of(2) && self.grant(page, wanted, current())
        };
        let Ok(fetched) = self.protocol.fetch_ahead(&self.port, &pages, acquired, grant);
        self.port.cluster.lock().counts.ahead += u64::from(fetched);
    }

    fn obtain(&self, page: u32, wanted: PageUse) {
        let scans = self.port.cluster.scans();
        let has = |right: Option<PageUse>| match right {
            None => false,
            Some(PageUse::Stores) => true,
            Some(PageUse::Loads) => wanted == PageUse::Loads || scans,
        };
        if has(self.rights.borrow()[page as usize]) {
            return;
        }
        let acquired = || {
            self.pass();
            Ok(())
        };
        let grant = |page: u32, wanted: PageUse, current: &dyn Fn() -> bool| {
            self.grant(page, wanted, current())
        };
        // Some pages come ahead, others do not.
        let ahead: Vec<u32> = (page + 1..page + 1 + page % 3).collect();
        let Ok(fetched) = self.protocol.obtain(&self.port, (page, wanted, &ahead), acquired, grant);
        self.port.cluster.lock().counts.fetches += u64::from(fetched);
    }

    fn read(&self, addr: usize) -> u8 {
        let page = (addr / USED) as u32;
        self.obtain(page, PageUse::Loads);
        self.port.cluster.step(self.port.thread);
        let mut state = self.port.cluster.lock();
        state.nodes[usize::from(self.port.node)].frame(page)[addr % USED]
    }

    fn write(&self, addr: usize, value: u8) {
        let page = (addr / USED) as u32;
        self.obtain(page, PageUse::Stores);
        self.port.cluster.step(self.port.thread);
        let mut state = self.port.cluster.lock();
        state.nodes[usize::from(self.port.node)].frame(page)[addr % USED] = value;
        drop(state);
        self.written.borrow_mut().insert(page);
    }
}
