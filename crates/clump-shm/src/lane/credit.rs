//! Credit requests: a sender that waits for credit requests it, and its receiver wakes it.

use super::{LaneReceiver, LaneSender};
use crate::control::CreditRequest;
use crate::park::Park;
use crate::shared::Shared;
use clump_os::alarm::Alarm;
use clump_os::fence::FenceKind;
use clump_os::sync::Ordering;
use std::sync::Arc;

/// The receiver's record of a sender that waits for credit on a lane.
#[derive(Debug)]
pub struct Creditor {
    park: Shared<Park>,
    alarm: Option<Arc<Alarm>>,
    fence: FenceKind,
    /// Head and bulk head when the request was taken up.
    since: (u64, u64),
}

impl Creditor {
    /// Creates a creditor for the sender that sleeps at `park`, and is woken by `alarm` if it has
    /// one.
    pub fn new(park: Shared<Park>, alarm: Option<Arc<Alarm>>, fence: FenceKind) -> Self {
        Self { park, alarm, fence, since: (0, 0) }
    }

    /// Notes the lane's heads at which the request is taken up.
    fn begin(&mut self, head: u64, bulk_head: u64) {
        debug_assert!(head >= self.since.0 && bulk_head >= self.since.1, "heads only grow");
        self.since = (head, bulk_head);
    }

    /// Returns true if a quarter of either ring has been read since.
    fn has_moved(&self, (head, bulk_head): (u64, u64), quarter: (u64, u64)) -> bool {
        debug_assert!(head >= self.since.0 && bulk_head >= self.since.1, "heads only grow");
        debug_assert!(quarter.1 != 0, "a request for room is not fulfilled at once");
        head - self.since.0 >= quarter.0 || bulk_head - self.since.1 >= quarter.1
    }

    /// Wakes the sender's rank if it sleeps. Returns true when a system call was made.
    fn wake(&self) -> bool {
        self.park.wake_if_asleep(self.fence, self.alarm.as_deref())
    }
}

impl LaneSender {
    /// Requests exact credit from the receiver, and a wake-up of this rank once `what` is there. To
    /// be called after the announcement of a sleep, and before the last check.
    #[cold]
    pub fn request_credit(&self, what: CreditRequest) {
        let requested = &self.control.credit.requested;
        if requested.load(Ordering::Relaxed) != what as u32 {
            // SYNC 18: pairs with CreditLine::request
            requested.store(what as u32, Ordering::Release);
            self.bell.ring();
        }
    }
}

impl LaneReceiver {
    /// Takes up a credit request, if there is one: `creditor` makes the handle that wakes the
    /// sender.
    #[cold]
    pub fn take_request(&mut self, creditor: impl FnOnce() -> Option<Creditor>) {
        if self.control.credit.request().is_none() {
            return;
        }
        if self.creditor.is_none() {
            self.creditor = creditor().map(Box::new);
        }
        if let Some(creditor) = &mut self.creditor {
            creditor.begin(self.head, self.bulk_head);
        }
        self.give_back();
        debug_assert!(
            self.creditor.is_none() || self.give_at == self.head + 1,
            "a sender that waits gets credit message by message"
        );
    }

    /// Wakes the sender if its credit request is fulfilled. To be called after credit was returned
    /// to a sender that waits for it.
    #[cold]
    pub(super) fn answer_request(&mut self) {
        let Some(creditor) = &self.creditor else {
            clump_bug::bug!("credit is answered for a sender that waits for it");
            return;
        };
        debug_assert_eq!(self.given_bulk, self.bulk_head, "credit was returned before");
        let quarter = (self.slots.len() as u64 / 4, self.bulk.len() as u64 / 4);
        let some = creditor.has_moved((self.head, self.bulk_head), quarter);
        let enough = match self.control.credit.request() {
            Some(CreditRequest::Drained) => false,
            Some(CreditRequest::Room) => some,
            None => true,
        };
        if !enough && self.has_message() {
            // Exact credit: the next message is given back by itself.
            self.give_at = self.head + 1;
            debug_assert!(self.creditor.is_some(), "the request stays taken up");
            return;
        }
        // Cleared before the check for a sleeper: a sender that sees it still there after its
        // announcement is seen.
        self.control.credit.requested.store(0, Ordering::Relaxed);
        self.wakes += u32::from(creditor.wake());
        self.creditor = None;
    }

    /// Returns how often credit woke the sender since the last call.
    pub fn take_wakes(&mut self) -> u32 {
        std::mem::take(&mut self.wakes)
    }
}
