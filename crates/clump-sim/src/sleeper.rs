//! A rank's sleep: announced in its block, so that an actor with something for it rings, as in
//! `clump-am`.

use clump_shm::node::NodeMemory;
use clump_shm::park::Announced;

/// The sleep state of a simulated rank.
#[derive(Debug)]
pub(crate) struct Sleeper {
    memory: NodeMemory,
    rank: u32,
    announced: Option<Announced>,
}

impl Sleeper {
    pub(crate) fn new(memory: &NodeMemory, rank: u32) -> Self {
        Self { memory: memory.clone(), rank, announced: None }
    }

    pub(crate) fn sleeps(&self) -> bool {
        self.announced.is_some()
    }

    /// Goes to sleep, unless `something` is there after the announcement.
    pub(crate) fn sleep(&mut self, something: impl FnOnce() -> bool) -> bool {
        let Some(block) = self.memory.rank(self.rank) else { return false };
        let announced = block.park().announce(self.memory.fence());
        if something() {
            block.park().withdraw(announced);
            return false;
        }
        self.announced = Some(announced);
        true
    }

    /// Wakes up. Returns true if its alarm was rung, and `None` if it did not sleep.
    pub(crate) fn wake(&mut self) -> Option<bool> {
        let announced = self.announced.take()?;
        if let Some(block) = self.memory.rank(self.rank) {
            block.park().withdraw(announced);
        }
        Some(self.memory.alarm(self.rank).is_some_and(|alarm| alarm.clear()))
    }
}
