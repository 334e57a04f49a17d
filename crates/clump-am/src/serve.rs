//! The loop of an endpoint that does nothing but handle messages, in virtual time.

use crate::endpoint::{Endpoint, polled};
use crate::error::{ErrorKind, Result};
use crate::pollable::Pollable;

/// Result of a step of a server between two polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServeStep {
    /// Something: another poll follows.
    Worked,
    /// Nothing.
    Idle,
    /// It ends.
    Ended,
}

/// Polls an endpoint, calls `step` after each poll, and waits where both found nothing. Handlers
/// run inside of the polls; what they leave for others is for `step` to send, so that no handler
/// waits for room.
///
/// # Errors
/// Polling finds an error, or a step fails; virtual time has ended; it is not virtual.
pub fn serve(endpoint: &Endpoint, mut step: impl FnMut() -> Result<ServeStep>) -> Result<()> {
    let Some(actor) = endpoint.context().actor() else {
        return Err(ErrorKind::NotInVirtualTime("servers are threads elsewhere").into());
    };
    debug_assert!(actor.nodes() > 1, "ranks of one node need no server");
    debug_assert!(!actor.have_ranks_left(), "it begins before them");
    loop {
        endpoint.context().check_alive()?;
        let handled = polled(endpoint).poll_once()?;
        match step()? {
            ServeStep::Ended => return Ok(()),
            ServeStep::Idle if handled == 0 => {
                debug_assert!(actor.clock_ns() < u64::MAX, "clocks end before");
                let first_due_ns = polled(endpoint).first_due_ns();
                match polled(endpoint).keeps() {
                    // Room for replies was made meanwhile.
                    (true, false) => {}
                    (_, looks) => actor.await_request(first_due_ns, looks),
                }
            }
            ServeStep::Idle | ServeStep::Worked => {}
        }
    }
}
