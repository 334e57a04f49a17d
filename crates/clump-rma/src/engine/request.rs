//! A request, as an engine gets it.

use clump_shm::name::Name;

/// A request as it arrived.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Endpoint that sent it.
    pub from: Name,
    /// Operation, one of [`crate::protocol::ask`].
    pub handler: u8,
    /// Words of the request.
    pub words: &'a [u64],
    /// Payload, unless it was deposited.
    pub payload: &'a [u8],
    /// Bytes that were deposited.
    pub deposited: u64,
}
