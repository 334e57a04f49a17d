//! One rank of a node: its state, and what locks, flags and barriers carry from the rank that
//! releases to the one that acquires.

use crate::deposit::layout::DepositLayout;
use crate::deposit::lock::LockQueue;
use crate::deposit::node_side::{DepositConfig, NodeSide};
use crate::deposit::port::DepositPort;
use crate::deposit::release::Publisher;

/// Protocol of one rank. All state is in the memory of its node.
#[derive(Debug, Clone, Copy)]
pub struct DepositRank {
    pub(super) node: NodeSide,
}

impl DepositRank {
    /// Returns the protocol of a rank.
    pub fn new(config: DepositConfig, layout: DepositLayout) -> Self {
        assert!(config.node < layout.nodes(), "the node is one of the job's");
        assert!(config.pages > 0, "there are pages");
        Self { node: NodeSide { config, layout } }
    }

    /// Returns the places of words.
    pub fn layout(&self) -> &DepositLayout {
        &self.node.layout
    }

    /// Returns the home of a page, if this node knows it.
    pub fn known_home<P: DepositPort>(&self, port: &P, page: u32) -> Option<u16> {
        self.node.known_home(port, page)
    }

    /// Returns how often other nodes have said that they share a page, or one counted together with
    /// it. Until that changes, exclusive pages stay so for what this rank has written before a
    /// fence.
    pub fn shares<P: DepositPort>(&self, port: &P, page: u32) -> u64 {
        self.node.shares(port, page)
    }

    /// Returns true if this node is the home of a page, and no other has a copy: no notices are
    /// needed of what this rank has written there before.
    pub fn is_exclusive<P: DepositPort>(&self, port: &P, page: u32) -> bool {
        self.node.is_exclusive(port, page)
    }

    /// Returns true if a page has the home for good that one rank has given it, or claimed.
    pub fn is_placed<P: DepositPort>(&self, port: &P, page: u32) -> bool {
        let is_page = page < self.node.config.pages;
        is_page && !matches!(port.load(self.node.layout.home(page)), 0 | DepositLayout::FIRST_USE)
    }

    /// Publishes pages that this rank has written: their bytes are on their way to their homes, and
    /// its notices to all nodes, when it returns. Pages ascend. `ranks_of` says how many ranks a
    /// node has. One thread of the rank at a time; another than before [settles](Self::settle)
    /// first.
    ///
    /// # Errors
    /// Fails if a node, or a rank, is lost, or if there is no memory for a twin. Then the rank must
    /// end: others of its node wait for the interval.
    pub fn publish<P: DepositPort>(
        &self,
        port: &P,
        written: &[u32],
        ranks_of: impl Fn(u16) -> u32,
    ) -> Result<(), P::Error> {
        Publisher { node: self.node }.publish(port, written, ranks_of)
    }

    /// Publishes pages, and sees to it that all is published that other ranks of the node have put
    /// off: this rank may have read it under a lock, and name it to others by other means.
    ///
    /// # Errors
    /// Those of [`publish`](Self::publish).
    pub fn publish_node<P: DepositPort>(
        &self,
        port: &P,
        written: &[u32],
        ranks_of: impl Fn(u16) -> u32,
    ) -> Result<(), P::Error> {
        let ranks = ranks_of(self.node.config.node);
        let publisher = Publisher { node: self.node };
        publisher.publish(port, written, ranks_of)?;
        let closed = port.load(DepositLayout::CLOSED);
        self.node.await_earlier(port, (closed + 1, ranks))?;
        publisher.wait_completed(port, closed)
    }

    /// Puts off what this rank has to publish at the release of a lock, which follows. One thread
    /// of the rank at a time, as it publishes.
    ///
    /// # Errors
    /// Fails if a rank has died.
    pub fn put_off<P: DepositPort>(&self, port: &P) -> Result<(), P::Error> {
        if self.open_number(port) == 0 {
            self.node.begin_interval(port, true)?;
        }
        debug_assert_ne!(self.open_number(port), 0, "locks name an open interval");
        Ok(())
    }

    /// Returns the number of the interval that this rank keeps open; 0 for none.
    pub fn open_number<P: DepositPort>(&self, port: &P) -> u64 {
        self.node.open_number(port)
    }

    /// Returns true if a rank waits for the interval that this one keeps open.
    pub fn is_wanted<P: DepositPort>(&self, port: &P) -> bool {
        let open = self.node.open_number(port);
        open != 0 && port.load(DepositLayout::WANTED) >= open
    }

    /// Waits until all bytes that this rank has published are at their homes.
    ///
    /// # Errors
    /// Fails if a node, or a rank, is lost.
    pub fn settle<P: DepositPort>(&self, port: &P) -> Result<(), P::Error> {
        let me = self.node.job_rank();
        self.node.await_own(port, me..me + 1)
    }

    /// Acquires a lock, and consumes what was published before its last release. One rank of a node
    /// at a time, which others of the node wait for: from here to the release. Returns true if the
    /// node had the lock last, none if there is no such lock. What is wanted of this rank
    /// meanwhile, `serve` publishes.
    ///
    /// # Errors
    /// Fails if a node, or a rank, is lost.
    pub fn acquire_lock<P: DepositPort>(
        &self,
        port: &P,
        lock: u64,
        mut serve: impl FnMut() -> Result<(), P::Error>,
    ) -> Result<Option<bool>, P::Error> {
        let acquired = LockQueue { node: self.node }.acquire(port, lock, &mut serve)?;
        let Some(acquired) = acquired else { return Ok(None) };
        let (node, number) = acquired.released;
        let mut time = self.node.layout.no_time();
        match time.get_mut(usize::from(node)) {
            Some(own) => *own = number,
            None => clump_bug::bug!("lock {lock} was released by node {node}"),
        }
        self.node.want(port, &time)?;
        self.consume(port, &mut time, &mut serve)?;
        Ok(Some(acquired.was_here))
    }

    /// Releases a lock behind what this rank has published, or [put off](Self::put_off). Returns
    /// false if there is no such lock.
    ///
    /// # Errors
    /// Fails if a node, or a rank, is lost.
    pub fn release_lock<P: DepositPort>(&self, port: &P, lock: u64) -> Result<bool, P::Error> {
        LockQueue { node: self.node }.release(port, lock)
    }

    /// Makes a flag at least `value` at all nodes, behind what this rank has published. Returns
    /// false if there is no such flag.
    ///
    /// # Errors
    /// Fails if a node, or a rank, is lost.
    pub fn set_flag<P: DepositPort>(
        &self,
        port: &P,
        flag: u64,
        value: u64,
    ) -> Result<bool, P::Error> {
        let Some(at) = self.node.layout.flag(flag) else { return Ok(false) };
        let own = at + 8 * (1 + u64::from(self.node.config.node));
        let words = [(own, port.load(DepositLayout::CLOSED)), (at, value)];
        for node in 0..self.node.layout.nodes() {
            port.raise(node, &words)?;
        }
        Ok(true)
    }

    /// Waits until a flag is at least `value`, and consumes what was published before it was set.
    /// Returns false if there is no such flag. What is wanted of this rank meanwhile, `serve`
    /// publishes.
    ///
    /// # Errors
    /// Fails if a node, or a rank, is lost.
    pub fn await_flag<P: DepositPort>(
        &self,
        port: &P,
        (flag, value): (u64, u64),
        mut serve: impl FnMut() -> Result<(), P::Error>,
    ) -> Result<bool, P::Error> {
        let Some(at) = self.node.layout.flag(flag) else { return Ok(false) };
        self.node.await_deposited(port, (at, value), &mut serve)?;
        let mut time = self.node.layout.no_time();
        for (place, number) in (at + 8..).step_by(8).zip(&mut time) {
            *number = port.load(place);
        }
        self.node.want(port, &time)?;
        self.consume(port, &mut time, &mut serve)?;
        Ok(true)
    }

    /// Returns the time at which this rank arrives in a barrier, behind what it has published. The
    /// latest of all ranks' times is [consumed](DepositRank::consume) behind it.
    pub fn arrival<P: DepositPort>(&self, port: &P) -> Vec<u64> {
        let mut time = self.node.layout.no_time();
        if let Some(own) = time.get_mut(usize::from(self.node.config.node)) {
            *own = port.load(DepositLayout::CLOSED);
        }
        time
    }
}
