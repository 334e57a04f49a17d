//! Runs in an order that a test chooses.

use crate::world::World;

impl World {
    /// Runs a rank to the end of its next step, or until it waits for what others do; and delivers
    /// everything.
    pub fn complete(&mut self, rank: usize) {
        let next = self.ranks[rank].next;
        loop {
            if self.packets() > 0 {
                self.deliver(0);
            } else if self.ranks[rank].next == next && self.runnable().contains(&rank) {
                self.step(rank);
            } else {
                return;
            }
        }
    }
}
