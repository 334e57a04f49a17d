//! Deposits of long messages in segments of this node's endpoints.

use crate::error::Result;
use crate::message::OutgoingMessage;
use clump_shm::path::Path;
use clump_wire::Reason;

/// Writes the payload of a long message into the segment of an endpoint of this node; returns the
/// reason for which that endpoint does not take it.
///
/// # Errors
/// The segment cannot be mapped.
pub(crate) fn deposit(path: &mut Path, message: &OutgoingMessage<'_>) -> Result<Option<Reason>> {
    debug_assert!(message.deposit().is_some(), "nothing is deposited");
    debug_assert!(
        message.deposit().is_none_or(|(_, len)| len == message.payload.len() as u64),
        "a deposit of another length"
    );
    let Some((offset, _)) = message.deposit() else { return Ok(Some(Reason::BadOffset)) };
    Ok(match path.segment()? {
        Some(segment) if segment.write(offset, message.payload) => None,
        Some(segment) if offset <= segment.len() as u64 => Some(Reason::BadLength),
        _ => Some(Reason::BadOffset),
    })
}
