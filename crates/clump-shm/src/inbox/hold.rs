//! Requests that are held back for a while: no poll finds one.

use super::Inbox;

impl<L> Inbox<L> {
    /// Holds requests back: until [`Inbox::release`] no poll finds one, and senders run out of room
    /// in the end. Messages delivered by proxies are found, replies or not: the reader
    /// distinguishes them.
    pub fn hold(&mut self) {
        self.holding = true;
        self.pending[0] = false;
        for at in (0..self.hot.len()).rev() {
            if self.carries_local_requests(&self.hot[at]) {
                let mut lane = self.hot.swap_remove(at);
                lane.receiver.give_back();
                self.held.push(lane);
            }
        }
        self.check_invariants();
    }

    /// Lets polls find requests again.
    pub fn release(&mut self) {
        self.holding = false;
        self.pending = [true; 2];
        for lane in std::mem::take(&mut self.held) {
            self.hot.push(lane);
        }
        self.check_invariants();
    }

    /// Returns true if requests are held back.
    #[inline]
    pub fn is_holding(&self) -> bool {
        self.holding
    }
}
