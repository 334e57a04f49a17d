//! Locks, flags and barriers: what they carry from the rank that releases to the one that acquires.

use crate::deposit::layout::DepositLayout;
use crate::deposit::lock::LockQueue;
use crate::deposit::port::DepositPort;
use crate::deposit::rank::DepositRank;

impl DepositRank {
    /// Acquires a lock, and consumes what was published before its last release. One rank of a node
    /// at a time, which others of the node wait for: from here to the release. Returns false if
    /// there is no such lock.
    ///
    /// # Errors
    /// Fails if a node, or a rank, is lost.
    pub fn acquire_lock<P: DepositPort>(&self, port: &P, lock: u64) -> Result<bool, P::Error> {
        let acquired = LockQueue { node: self.node }.acquire(port, lock)?;
        let Some((node, number)) = acquired else { return Ok(false) };
        let mut time = self.node.layout.no_time();
        match time.get_mut(usize::from(node)) {
            Some(own) => *own = number,
            None => clump_bug::bug!("lock {lock} was released by node {node}"),
        }
        self.consume(port, &mut time)?;
        Ok(true)
    }

    /// Releases a lock behind what this rank has published. Returns false if there is no such lock.
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
    /// Returns false if there is no such flag.
    ///
    /// # Errors
    /// Fails if a node, or a rank, is lost.
    pub fn await_flag<P: DepositPort>(
        &self,
        port: &P,
        flag: u64,
        value: u64,
    ) -> Result<bool, P::Error> {
        let Some(at) = self.node.layout.flag(flag) else { return Ok(false) };
        port.wait_deposited(at, value)?;
        let mut time = self.node.layout.no_time();
        for (place, number) in (at + 8..).step_by(8).zip(&mut time) {
            *number = port.load(place);
        }
        self.consume(port, &mut time)?;
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
