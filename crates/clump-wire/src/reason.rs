//! Reasons for which messages are returned to their senders (paper 000, 2.2).

/// Reason for which a message was returned. Its number travels in returned messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reason {
    /// The handler takes another number of words, or no payload; or it is handler 0, which takes no
    /// requests.
    BadArguments = 1,
    /// Nothing was ever opened under that name.
    NoSuchEndpoint = 2,
    /// The tag did not match the endpoint's.
    BadTag = 3,
    /// The endpoint has no handler of that number.
    BadHandler = 4,
    /// The deposit starts outside of the target's segment, or it has none.
    BadOffset = 5,
    /// The deposit ends outside of the target's segment.
    BadLength = 6,
    /// The endpoint was closed before it read the message, or its rank has finalized.
    EndpointGone = 7,
    /// The rank died, or its node is lost. Messages of the last quarter of a ring that it had read,
    /// but not yet freed, are returned too: whether their handlers ran there can no longer matter.
    PeerLost = 8,
    /// The target made no room before the endpoint's send timeout.
    Congestion = 9,
    /// The requester of a reply closed its endpoint before it read the reply.
    ReplyRejected = 10,
}

impl Reason {
    /// Every reason, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::BadArguments,
        Self::NoSuchEndpoint,
        Self::BadTag,
        Self::BadHandler,
        Self::BadOffset,
        Self::BadLength,
        Self::EndpointGone,
        Self::PeerLost,
        Self::Congestion,
        Self::ReplyRejected,
    ];

    /// Returns the reason of that number; `None` if there is none.
    pub fn from_bits(bits: u8) -> Option<Self> {
        let reason = Self::ALL.get(usize::from(bits).checked_sub(1)?).copied();
        debug_assert!(reason.is_none_or(|reason| reason as u8 == bits), "listed out of order");
        reason
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Reason::BadArguments => "bad arguments: its handler takes others",
            Reason::NoSuchEndpoint => "no such endpoint",
            Reason::BadTag => "bad tag",
            Reason::BadHandler => "no handler of that number",
            Reason::BadOffset => "offset outside of the target's segment",
            Reason::BadLength => "deposit longer than the target's segment",
            Reason::EndpointGone => "endpoint closed",
            Reason::PeerLost => "its rank died",
            Reason::Congestion => "congestion: the target made no room in time",
            Reason::ReplyRejected => "reply rejected: the requester is gone",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_survive_the_way_back() {
        for bits in 1..=10 {
            let reason = Reason::from_bits(bits).unwrap();
            assert_eq!(reason as u8, bits);
        }
        assert_eq!(Reason::from_bits(0), None);
        assert_eq!(Reason::from_bits(11), None);
    }
}
