//! The streams to and from one peer.

use super::bulk_receiver::BulkReceiver;
use crate::bulk_sender::BulkSender;
use crate::tx_queue::PackedEnd;

/// Shortest payload that goes by a stream.
pub(super) const MIN_BULK: usize = 32 << 10;

/// The streams to and from a peer.
#[derive(Debug)]
pub(super) struct PeerStreams {
    pub(super) sender: BulkSender,
    pub(super) receiver: BulkReceiver,
    /// Records sent so far.
    pub(super) sent: u64,
    /// The end of the queue when the rest of a stream went there.
    pub(super) moved: Option<PackedEnd>,
}

impl PeerStreams {
    pub(super) fn new() -> Self {
        let (sender, receiver) = (BulkSender::new(), BulkReceiver::new());
        debug_assert!(sender.records().is_empty() && !receiver.is_active(), "there is none yet");
        Self { sender, receiver, sent: 0, moved: None }
    }

    /// Returns true if nothing is to be sent or reported.
    pub(super) fn is_quiet(&self) -> bool {
        debug_assert!(self.sender.records().len() as u64 <= self.sent, "records are counted");
        self.sender.records().is_empty() && !self.receiver.owes_report()
    }

    /// Returns the bytes kept.
    pub(super) fn bytes(&self) -> usize {
        debug_assert!(self.moved.is_none() || self.sent > 0, "what went elsewhere was sent here");
        self.sender.records().bytes() + self.receiver.bytes()
    }
}
