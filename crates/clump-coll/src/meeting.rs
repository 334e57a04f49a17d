//! Waiting in a barrier: the work of a blocked rank for its node.

use crate::post::Post;
use clump_am::{Result, WaitFor};
use clump_shm::barrier::Barrier;
use clump_shm::node::NodeMemory;
use clump_shm::rank::WaitReason;

/// A rank that has arrived.
pub(crate) struct AtBarrier<'a> {
    pub(crate) barrier: &'a mut Barrier,
    pub(crate) post: &'a Post,
    pub(crate) node: &'a NodeMemory,
}

impl WaitFor for AtBarrier<'_> {
    /// Sends the barrier messages of this rank to other nodes; without room for one, it continues
    /// at the next poll.
    #[inline]
    fn done(&mut self) -> Result<bool> {
        self.post.send_unsent()?;
        while !self.barrier.complete() {
            let Some(tell) = self.barrier.poll_message() else { return Ok(false) };
            if !self.post.try_notify(tell.rank, tell.epoch)? {
                return Ok(false);
            }
            self.barrier.on_message_sent();
        }
        Ok(true)
    }

    fn waiting(&self) -> WaitReason {
        self.barrier.waiting()
    }

    fn depends_on(&self) -> Option<u32> {
        // Any death keeps a barrier from completing, not only that of the first missing rank.
        let dead = self.node.job().first_death();
        dead.map(|death| death.rank).or_else(|| self.barrier.depends_on())
    }

    fn before_sleep(&mut self) {
        self.barrier.announce_sleep();
    }

    fn after_sleep(&mut self) {
        self.barrier.awake();
    }

    /// Other ranks wait for this one.
    fn keeps_failures(&self) -> bool {
        true
    }
}
