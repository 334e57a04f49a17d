//! Routes within a job: messages between the endpoints of two hubs.

use crate::line::ConnectionLine;
use crate::transport::{ConnectionTransport, MAX_FRAGMENT, with_numbers};
use clump_am::{Dest, Handler, Name, Result, SendAttempt, SharedEndpoint};

/// Route to a rank of this job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LocalRoute {
    /// The number of the connection here.
    pub(crate) number: u64,
    pub(crate) peer: Name,
    pub(crate) dest: Dest,
}

impl ConnectionTransport for (&SharedEndpoint, &LocalRoute) {
    fn send(
        &self,
        line: &ConnectionLine,
        handler: u8,
        rest: &[u64],
        payload: &[u8],
    ) -> Result<SendAttempt> {
        let (endpoint, near) = *self;
        let theirs = line.state().theirs;
        with_numbers(theirs, near.number, rest, |words| {
            if payload.is_empty() {
                return endpoint.try_request(near.dest, Handler(handler), words);
            }
            endpoint.try_request_bulk(near.dest, Handler(handler), payload, words)
        })
    }

    fn max_fragment(&self) -> usize {
        self.0.max_medium().min(MAX_FRAGMENT)
    }
}
