//! An endpoint in a cell as a waiting loop sees it.

use super::{BorrowedEndpoint, EndpointCell};
use crate::core::Core;
use crate::error::Result;
use crate::pollable::Pollable;
use crate::virtual_poll;
use std::time::Duration;

impl Pollable for EndpointCell {
    fn poll_once(&self) -> Result<usize> {
        match self.enter_any(false).and_then(BorrowedEndpoint::of) {
            Ok(inside) => inside.core.poll_in_wait(),
            Err(_) => Ok(0),
        }
    }

    fn poll_thoroughly(&self) -> Result<usize> {
        let inside = self.enter_any(true).and_then(BorrowedEndpoint::of);
        inside.map_or(Ok(0), |inside| inside.core.poll_thoroughly())
    }

    fn housekeeping(&self) -> Result<()> {
        match self.enter_any(false).and_then(BorrowedEndpoint::of) {
            Ok(inside) => inside.core.housekeeping(),
            Err(_) => Ok(()),
        }
    }

    fn in_bundle(&self) -> bool {
        false
    }

    fn force_network_poll(&self) {
        self.if_free(false, |core| core.schedule.network_next());
    }

    fn activity(&self) -> u64 {
        self.if_free(false, |core| core.activity())
    }

    fn arm_notifications(&self) {
        self.if_free(true, Core::arm_notifications);
    }

    fn request_room(&self) {
        self.if_free(true, Core::request_room_for_backlog);
    }

    fn due_in(&self) -> Option<Duration> {
        self.if_free(false, |core| core.due_in())
    }

    fn first_due_ns(&self) -> Option<u64> {
        self.if_free(false, Core::first_due_ns)
    }

    fn keeps(&self) -> (bool, bool) {
        self.if_free(false, |core| virtual_poll::keeps(&core.handler_context))
    }

    fn hides_messages(&self) -> bool {
        self.if_free(false, |core| core.hides_messages())
    }

    fn anything_waiting(&self) -> bool {
        self.if_free(true, Core::anything_waiting)
    }
}
