//! Conditions that blocking calls of an endpoint wait for.

use super::events::Events;
use super::ownership::Ownership;
use crate::error::Result;
use crate::wait_for::WaitFor;
use clump_shm::name::Name;
use clump_shm::rank::WaitReason;
use std::cell::Cell;

/// The wait for a message. It counts the messages that the endpoint handles, by whichever poll: the
/// loop that waits polls too.
pub(super) struct Event<'a, H> {
    pub(super) hold: &'a H,
    pub(super) name: Name,
    pub(super) events: &'a Cell<Events>,
    /// Messages that the endpoint had handled when the wait began; further ones are the event.
    pub(super) before: u64,
    pub(super) handled: u64,
}

impl<H: Ownership> WaitFor for Event<'_, H> {
    fn done(&mut self) -> Result<bool> {
        let mut core = self.hold.core()?;
        if self.handled == 0 {
            core.poll_in_wait()?;
        }
        // The counter is in memory that others can write: nothing is asserted of it.
        self.handled = core.handled().wrapping_sub(self.before);
        let name = core.handler_context.name;
        debug_assert_eq!(name, self.name, "the messages of another endpoint");
        Ok(self.handled > 0 && self.events.get() == Events::NotEmpty)
    }

    fn waiting(&self) -> WaitReason {
        WaitReason::Message
    }
}

/// The wait for the end of all requests of the endpoint.
pub(super) struct Drained<'a, H> {
    pub(super) hold: &'a H,
    /// True once early reports of consumption were requested from targets of this node.
    pub(super) asked: bool,
}

impl<H: Ownership> WaitFor for Drained<'_, H> {
    fn done(&mut self) -> Result<bool> {
        let mut core = self.hold.core()?;
        core.housekeeping()?;
        let drained = core.is_drained();
        let backlog = &core.handler_context.backlog;
        debug_assert!(!drained || !backlog.has_work(), "requests are still to be sent");
        if !drained && !std::mem::replace(&mut self.asked, true) {
            core.sender.translation.request_drained();
        }
        Ok(drained)
    }

    fn announced(&mut self) {
        if let Ok(core) = self.hold.core() {
            core.sender.translation.request_drained();
        }
    }

    fn waiting(&self) -> WaitReason {
        WaitReason::Requests
    }
}
