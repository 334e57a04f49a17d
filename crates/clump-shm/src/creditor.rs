//! What a receiver needs to wake a sender that waits for credit.

use crate::park::Park;
use crate::shared::Shared;
use clump_os::alarm::Alarm;
use clump_os::fence::FenceKind;
use std::sync::Arc;

/// A sender of a lane that waits for credit, as its receiver knows it.
#[derive(Debug)]
pub struct Creditor {
    park: Shared<Park>,
    alarm: Option<Arc<Alarm>>,
    fence: FenceKind,
    /// Head and bulk head when the request was taken up.
    since: (u64, u64),
}

impl Creditor {
    /// The sender that sleeps at `park`, and is woken by `alarm` if it has one.
    pub fn new(park: Shared<Park>, alarm: Option<Arc<Alarm>>, fence: FenceKind) -> Self {
        Self { park, alarm, fence, since: (0, 0) }
    }

    /// The request is taken up with the lane's heads there.
    pub(crate) fn begin(&mut self, head: u64, bulk_head: u64) {
        self.since = (head, bulk_head);
    }

    /// Whether a quarter of either ring has been read since.
    pub(crate) fn has_moved(&self, (head, bulk_head): (u64, u64), quarter: (u64, u64)) -> bool {
        debug_assert!(head >= self.since.0 && bulk_head >= self.since.1, "heads only grow");
        head - self.since.0 >= quarter.0 || bulk_head - self.since.1 >= quarter.1
    }

    /// Wakes the sender's rank if it sleeps. True when a system call was made.
    pub(crate) fn wake(&self) -> bool {
        self.park.wake_if_asleep(self.fence, self.alarm.as_deref())
    }
}
