//! Messages returned to their sender: handler 0 (paper 000, 2.2).

use crate::handler::Handler;
use crate::token::LayerPayload;
use clump_net::Refusal;
use clump_shm::name::Name;
use clump_shm::slot::{Header, SlotKind};
use clump_trace::Counter;

/// Reason for which a message was returned.
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
    /// The endpoint was closed before it read the message.
    EndpointGone = 7,
    /// The rank died. Messages of the last quarter of a ring that it had read, but not yet freed,
    /// are returned too: whether their handlers ran there can no longer matter.
    PeerLost = 8,
    /// The target made no room before the endpoint's send timeout.
    Congestion = 9,
    /// The requester of a reply closed its endpoint before it read the reply.
    ReplyRejected = 10,
}

impl From<Refusal> for Reason {
    fn from(refusal: Refusal) -> Self {
        Self::from_bits(refusal as u8).unwrap_or(Self::PeerLost)
    }
}

impl Reason {
    pub(crate) fn from_bits(bits: u8) -> Option<Self> {
        use Reason as R;
        let all = [
            R::BadArguments,
            R::NoSuchEndpoint,
            R::BadTag,
            R::BadHandler,
            R::BadOffset,
            R::BadLength,
            R::EndpointGone,
            R::PeerLost,
            R::Congestion,
            R::ReplyRejected,
        ];
        all.get(usize::from(bits).checked_sub(1)?).copied()
    }

    pub(crate) fn counter(self) -> Counter {
        match self {
            Reason::BadArguments => Counter::ReturnedBadArguments,
            Reason::NoSuchEndpoint => Counter::ReturnedNoEndpoint,
            Reason::BadTag => Counter::ReturnedBadTag,
            Reason::BadHandler => Counter::ReturnedBadHandler,
            Reason::BadOffset => Counter::ReturnedBadOffset,
            Reason::BadLength => Counter::ReturnedBadLength,
            Reason::EndpointGone => Counter::ReturnedEndpointGone,
            Reason::PeerLost => Counter::ReturnedPeerLost,
            Reason::Congestion => Counter::ReturnedCongestion,
            Reason::ReplyRejected => Counter::ReturnedReplyRejected,
        }
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

/// A message returned to the endpoint that sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Returned {
    /// The rank that sent it: this one.
    pub rank: u32,
    /// The endpoint it was sent to.
    pub dest: Name,
    /// Reason for the return.
    pub reason: Reason,
    /// True if it was a reply.
    pub reply: bool,
    /// The handler it was meant for.
    pub handler: Handler,
    /// Its words, 0 to 8.
    pub words: Vec<u64>,
    /// Its payload (medium messages); empty for short and long ones.
    pub payload: Vec<u8>,
    /// Offset and bytes of the deposit (long messages). The bytes may or may not have been written.
    pub deposit: Option<(u64, u64)>,
}

impl Returned {
    /// Rebuilds the message as it was sent, with the reason.
    pub(crate) fn of(
        (rank, dest): (u32, Name),
        (reason, reply): (Reason, bool),
        header: Header,
        words: &[u64],
        payload: &[u8],
    ) -> Self {
        let handler = Handler(header.handler());
        let (deposit, words) = match (header.kind(), words) {
            (SlotKind::Long, [offset, len, rest @ ..]) => (Some((*offset, *len)), rest),
            _ => (None, words),
        };
        let (words, payload) = (words.to_vec(), payload.to_vec());
        Self { rank, dest, reason, reply, handler, words, payload, deposit }
    }

    /// Builds the return of a reply to handler 0, which accepts none.
    #[cold]
    pub(crate) fn refused(
        (rank, dest): (u32, Name),
        words: &[u64],
        parcel: LayerPayload<'_>,
    ) -> Self {
        let (payload, deposit) = match parcel {
            LayerPayload::Short => (Vec::new(), None),
            LayerPayload::Medium(payload) => (payload.to_vec(), None),
            LayerPayload::Long(offset, payload) => {
                (Vec::new(), Some((offset, payload.len() as u64)))
            }
        };
        let (reason, reply, handler) = (Reason::BadArguments, true, Handler(0));
        Self { rank, dest, reason, reply, handler, words: words.to_vec(), payload, deposit }
    }
}

/// Packs the first word of a returned message: reason, kind and handler of the original.
pub(crate) fn pack_original(reason: Reason, header: Header) -> u64 {
    let word = reason as u64 | (header.kind() as u64) << 8 | u64::from(header.handler()) << 16;
    debug_assert!(unpack_original(word).is_some(), "the sender could not read its message");
    word
}

/// Unpacks [`pack_original`].
pub(crate) fn unpack_original(word: u64) -> Option<(Reason, SlotKind, u8)> {
    let reason = Reason::from_bits((word & 0xff) as u8)?;
    let kind = match word >> 8 & 0xff {
        1 => SlotKind::Short,
        2 => SlotKind::Medium,
        3 => SlotKind::Long,
        _ => return None,
    };
    Some((reason, kind, (word >> 16 & 0xff) as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_survive_the_way_back() {
        for bits in 1..=10 {
            let reason = Reason::from_bits(bits).unwrap();
            assert_eq!(reason as u8, bits);
            let header = Header::new(SlotKind::Long, 77, 3, 0);
            let word = pack_original(reason, header);
            assert_eq!(unpack_original(word), Some((reason, SlotKind::Long, 77)));
        }
        assert_eq!(Reason::from_bits(0), None);
        assert_eq!(Reason::from_bits(11), None);
        assert_eq!(unpack_original(0xffff), None);
    }
}
