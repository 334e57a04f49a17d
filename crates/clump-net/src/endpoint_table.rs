//! What a stack asks about the endpoints behind it.

/// Why a message is not taken. The numbers are those that programs see in returned messages.
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

    /// The refusal of that number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|refusal| *refusal as u8 == number)
    }
}

/// The endpoints of a stack's owner. Called with the stack locked: answers at once, and calls nothing
/// of the stack.
pub trait EndpointTable: Send {
    /// Which endpoint (0..32) takes a message for `to`. Requests show a tag, replies do not.
    ///
    /// # Errors
    /// Why none does.
    fn admit(&self, to: u64, tag: Option<u64>) -> Result<u8, Refusal>;

    /// Whether `bytes` bytes at `offset` lie inside the segment of `to`.
    ///
    /// # Errors
    /// Why they do not.
    fn fits(&self, to: u64, offset: u64, bytes: u64) -> Result<(), Refusal>;

    /// Writes `data` at `offset` of the segment of `to`.
    ///
    /// # Errors
    /// Why it was not written.
    fn deposit(&self, to: u64, offset: u64, data: &[u8]) -> Result<(), Refusal>;

    /// The stack that messages for endpoint `name` go to.
    fn stack_of(&self, name: u64) -> u32 {
        clump_wire::frame::stack_of(name)
    }

    /// Whether the endpoints keep account of the room between them themselves: then what is about that is
    /// handed over like messages.
    fn relays(&self) -> bool {
        false
    }
}
