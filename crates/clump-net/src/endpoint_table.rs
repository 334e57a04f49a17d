//! The interface by which a stack looks up endpoints.

/// Reason for which a message is not accepted. The numbers are those that programs see in returned
/// messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    /// Nothing was ever opened under that name.
    NoSuchEndpoint = 2,
    /// The tag did not match the endpoint's.
    BadTag = 3,
    /// The deposit starts outside of the segment, or there is none.
    BadOffset = 5,
    /// The deposit ends outside of the segment.
    BadLength = 6,
    /// The endpoint was closed, or its rank has finalized.
    EndpointGone = 7,
    /// The rank, or its node, is lost.
    PeerLost = 8,
    /// The requester is gone.
    ReplyRejected = 10,
}

impl Refusal {
    const ALL: [Self; 7] = [
        Self::NoSuchEndpoint,
        Self::BadTag,
        Self::BadOffset,
        Self::BadLength,
        Self::EndpointGone,
        Self::PeerLost,
        Self::ReplyRejected,
    ];

    /// Returns the refusal of that number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|refusal| *refusal as u8 == number)
    }
}

/// The endpoints of a stack's owner. Called with the stack locked: returns at once, and calls
/// nothing of the stack.
pub trait EndpointTable: Send {
    /// Returns the endpoint (0..32) that accepts a message for `to`. Requests show a tag, replies
    /// do not.
    ///
    /// # Errors
    /// The reason for which none does.
    fn admit(&self, to: u64, tag: Option<u64>) -> Result<u8, Refusal>;

    /// Checks that `bytes` bytes at `offset` lie inside the segment of `to`.
    ///
    /// # Errors
    /// The reason for which they do not.
    fn fits(&self, to: u64, offset: u64, bytes: u64) -> Result<(), Refusal>;

    /// Writes `data` at `offset` of the segment of `to`.
    ///
    /// # Errors
    /// The reason for which it was not written.
    fn deposit(&self, to: u64, offset: u64, data: &[u8]) -> Result<(), Refusal>;

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
