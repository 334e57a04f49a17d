//! Flags at their homes: values that only grow, and ranks that wait for them.

use crate::vector_time::VectorTime;

/// Rank of a node that waits for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlagWaiter {
    /// Node of the waiter.
    pub node: u16,
    /// Number of the rank within the node.
    pub rank: u16,
    /// Smallest value that ends the wait.
    pub at_least: u64,
}

/// Value of one flag, and the merged time of its setters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FlagHome {
    value: u64,
    time: VectorTime,
    waiting: Vec<FlagWaiter>,
}

impl FlagHome {
    /// Returns a flag of value 0.
    pub fn new(nodes: usize) -> Self {
        Self { value: 0, time: VectorTime::zero(nodes), waiting: Vec::new() }
    }

    /// Returns the time at which a wait that has ended continues.
    pub fn time(&self) -> &VectorTime {
        &self.time
    }

    /// Handles a set. Returns the waits that it ends.
    pub fn handle_set(&mut self, value: u64, time: &VectorTime) -> Vec<FlagWaiter> {
        debug_assert!(self.waiting.iter().all(|waiter| waiter.at_least > self.value));
        self.value = self.value.max(value);
        self.time.join(time);
        let reached = self.value;
        let (ended, waiting) =
            std::mem::take(&mut self.waiting).into_iter().partition(|w| w.at_least <= reached);
        self.waiting = waiting;
        debug_assert!(self.waiting.iter().all(|waiter| waiter.at_least > reached));
        ended
    }

    /// Handles a wait. Returns true if it ends at once.
    pub fn handle_wait(&mut self, waiter: FlagWaiter) -> bool {
        let reached = waiter.at_least <= self.value;
        if !reached {
            self.waiting.push(waiter);
        }
        debug_assert!(self.waiting.iter().all(|waiter| waiter.at_least > self.value));
        debug_assert!((waiter.node as usize) < self.time.nodes(), "the node exists");
        reached
    }
}
