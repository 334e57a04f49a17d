//! Endpoints as waiting loops see them.

use crate::core::Core;
use crate::error::{Error, Result};
use crate::virtual_poll;
use std::cell::RefCell;
use std::time::Duration;

/// An endpoint as a waiting loop sees it.
pub trait Pollable {
    /// Handles what has arrived; returns how many messages. An endpoint in use by its own handler,
    /// or by another thread, is skipped.
    fn poll_once(&self) -> Result<usize>;
    /// Handles all that has arrived by now, from the network too, after a thread that is polling
    /// has done so; returns how many messages. Only an endpoint in use by its own handler is
    /// skipped.
    fn poll_thoroughly(&self) -> Result<usize>;
    /// Handles deferred requests, returned messages and lost peers.
    fn housekeeping(&self) -> Result<()>;
    /// Returns true if it belongs to this thread's bundle.
    fn in_bundle(&self) -> bool;
    /// Returns true if a call that blocks on it polls the bundle of its thread, too.
    fn polls_bundle(&self) -> bool {
        true
    }
    /// Makes the next poll poll the network, even if that is not due.
    fn force_network_poll(&self);
    /// Returns a number that grows with messages sent and handled here.
    fn activity(&self) -> u64;
    /// Arms notification: senders ring the doorbell from now on.
    fn arm_notifications(&self);
    /// Called when a thread that armed notification is awake again.
    fn awake(&self) {}
    /// Requests wake-ups from receivers that have no room for deferred messages, for when they
    /// have. Called after the announcement of a sleep.
    fn request_room(&self);
    /// Returns the time until the first message that is delayed on purpose is due.
    fn due_in(&self) -> Option<Duration>;
    /// Returns the time at which the first message is due, in virtual time.
    fn first_due_ns(&self) -> Option<u64> {
        None
    }
    /// Returns true if messages that were due are to be handled by the next poll, and true if
    /// replies wait for room.
    fn keeps(&self) -> (bool, bool) {
        (false, false)
    }
    /// Returns true if messages have arrived that are not due yet.
    fn hides_messages(&self) -> bool {
        self.due_in().is_some()
    }
    /// Returns true if anything has arrived. Called after the fence that follows
    /// [`Pollable::arm_notifications`].
    fn anything_waiting(&self) -> bool;
    /// Keeps an error of a poll for a later call; returns one that cannot be kept.
    fn keep_failure(&self, error: Error) -> Option<Error> {
        Some(error)
    }
    /// Takes the oldest error that was kept.
    fn take_kept_failure(&self) -> Option<Error> {
        None
    }
}

impl Pollable for RefCell<Core> {
    #[inline(always)]
    fn poll_once(&self) -> Result<usize> {
        self.try_borrow_mut().map_or(Ok(0), |mut core| core.poll_in_wait())
    }

    fn poll_thoroughly(&self) -> Result<usize> {
        self.try_borrow_mut().map_or(Ok(0), |mut core| core.poll_thoroughly())
    }

    fn in_bundle(&self) -> bool {
        self.polls_bundle()
    }

    fn polls_bundle(&self) -> bool {
        self.try_borrow().is_ok_and(|core| !core.restricted)
    }

    fn housekeeping(&self) -> Result<()> {
        self.try_borrow_mut().map_or(Ok(()), |mut core| core.housekeeping())
    }

    fn force_network_poll(&self) {
        if let Ok(mut core) = self.try_borrow_mut() {
            core.schedule.network_next();
        }
    }

    fn activity(&self) -> u64 {
        self.try_borrow().map_or(0, |core| core.activity())
    }

    fn arm_notifications(&self) {
        if let Ok(mut core) = self.try_borrow_mut() {
            core.arm_notifications();
        }
    }

    fn request_room(&self) {
        if let Ok(mut core) = self.try_borrow_mut() {
            core.request_room_for_backlog();
        }
    }

    fn due_in(&self) -> Option<Duration> {
        self.try_borrow().ok()?.due_in()
    }

    fn first_due_ns(&self) -> Option<u64> {
        self.try_borrow_mut().ok()?.first_due_ns()
    }

    fn keeps(&self) -> (bool, bool) {
        self.try_borrow().map_or((false, false), |core| virtual_poll::keeps(&core.handler_context))
    }

    fn hides_messages(&self) -> bool {
        self.try_borrow().is_ok_and(|core| core.hides_messages())
    }

    fn anything_waiting(&self) -> bool {
        self.try_borrow_mut().is_ok_and(|mut core| core.anything_waiting())
    }

    fn keep_failure(&self, error: Error) -> Option<Error> {
        let Ok(mut core) = self.try_borrow_mut() else { return Some(error) };
        core.handler_context.keep_failure(error);
        None
    }

    fn take_kept_failure(&self) -> Option<Error> {
        self.try_borrow_mut().ok()?.handler_context.backlog.failures.next()
    }
}
