//! The interface by which a stack looks up endpoints.

use clump_wire::Reason;

/// The endpoints of a stack's owner. Called with the stack locked: returns at once, and calls
/// nothing of the stack.
pub trait EndpointTable: Send {
    /// Returns the endpoint (0..32) that accepts a message for `to`. Requests show a tag, replies
    /// do not.
    ///
    /// # Errors
    /// The reason for which none does.
    fn admit(&self, to: u64, tag: Option<u64>) -> Result<u8, Reason>;

    /// Checks that `bytes` bytes at `offset` lie inside the segment of `to`.
    ///
    /// # Errors
    /// The reason for which they do not.
    fn fits(&self, to: u64, offset: u64, bytes: u64) -> Result<(), Reason>;

    /// Writes `data` at `offset` of the segment of `to`.
    ///
    /// # Errors
    /// The reason for which it was not written.
    fn deposit(&self, to: u64, offset: u64, data: &[u8]) -> Result<(), Reason>;

    /// Runs `work` on the memory of a deposit, given by endpoint, offset and bytes, so that bytes
    /// can be received there. Returns false, without a call, where that is not possible or the
    /// deposit does not fit: they are received elsewhere then, and deposited.
    fn with_segment_bytes(&self, place: (u64, u64, u64), work: &mut dyn FnMut(&mut [u8])) -> bool {
        let _ = (place, work);
        false
    }

    /// Returns the stack that messages for endpoint `name` go to.
    fn stack_of(&self, name: u64) -> u32 {
        clump_wire::frame::stack_of(name)
    }

    /// Returns true if the endpoints do flow control themselves: then messages about it are handed
    /// over like others.
    fn relays(&self) -> bool {
        false
    }
}
