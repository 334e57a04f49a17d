//! The loop of an endpoint that does nothing but handle messages, in virtual time.

use crate::endpoint::{Endpoint, polled};
use crate::error::{ErrorKind, Result};
use crate::pollable::Pollable;

/// What a server has done between two polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServeStep {
    /// Something: another poll follows.
    Worked,
    /// Nothing.
    Idle,
    /// It ends.
    Ended,
}

impl Endpoint {
    /// Polls this endpoint, calls `step` after each poll, and waits where both found nothing.
    ///
    /// # Errors
    /// Polling finds an error, or a step fails; virtual time has ended; it is not virtual.
    pub fn serve(&self, mut step: impl FnMut() -> Result<ServeStep>) -> Result<()> {
        let Some(actor) = self.context().actor() else {
            return Err(ErrorKind::NotInVirtualTime("servers are threads elsewhere").into());
        };
        loop {
            self.context().check_alive()?;
            let handled = polled(self).poll_once()?;
            match step()? {
                ServeStep::Ended => return Ok(()),
                ServeStep::Idle if handled == 0 => {
                    actor.await_request(polled(self).first_due_ns());
                }
                ServeStep::Idle | ServeStep::Worked => {}
            }
        }
    }
}
