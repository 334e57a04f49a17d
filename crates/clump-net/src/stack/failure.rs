//! A driver that cannot receive.

use super::{Nanos, Stack};
use clump_driver::{DriverError, ReceiveFailure};

impl Stack {
    /// The driver did not receive: it will be asked again, and what is missing will be sent again.
    /// A call that never works is kept for the explanation why a job does not go on.
    #[cold]
    pub(super) fn on_receive_failed(&mut self, now: Nanos, error: &DriverError) {
        self.stats.receives_failed += 1;
        if let DriverError::Receive(failure) = error {
            self.failures.on_failure(now, self.stats.packets_received, *failure);
        }
    }

    /// Why this stack receives nothing any more, if that has lasted for a second.
    pub fn receive_failure(&self) -> Option<ReceiveFailure> {
        self.failures.lasting()
    }
}
