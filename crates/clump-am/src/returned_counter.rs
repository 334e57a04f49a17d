//! The counters of returned messages.

use clump_trace::Counter;
use clump_wire::Reason;

/// Returns the counter of messages that were returned for `reason`.
pub(crate) fn counter_of(reason: Reason) -> Counter {
    match reason {
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
