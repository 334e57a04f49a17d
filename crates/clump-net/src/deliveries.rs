//! Messages for the endpoints of a stack's owner: queued for them, handed over at once, or to be
//! returned to their senders.

use crate::batch::Found;
use crate::endpoint_table::EndpointTable;
use crate::flow::Flows;
use crate::stats::Stats;
use clump_wire::frame::{Frame, FrameKind};
use clump_wire::{OwnedMessage, Reason};
use std::collections::VecDeque;

/// Endpoints of one owner.
pub const ENDPOINTS: usize = 32;
/// Messages that one receive takes from an endpoint's queue.
const MAX_TAKEN: usize = 1024;

/// The queues of all endpoints, and messages that go back.
pub(crate) struct Deliveries {
    pub(crate) endpoints: Box<dyn EndpointTable>,
    queued: Vec<VecDeque<OwnedMessage>>,
    /// Endpoints for which messages were queued since the owner last asked, as bits.
    newly_queued: u32,
    /// Messages to be returned to their senders, once the packet at hand is handled.
    returns: Vec<(OwnedMessage, Reason)>,
}

/// The handing over of what one receive finds.
pub(crate) struct Delivery<'a> {
    /// The endpoint that polls, unless messages are queued for it.
    pub(crate) wanted: Option<u8>,
    pub(crate) found: &'a mut Found,
    pub(crate) deliveries: &'a mut Deliveries,
    pub(crate) flows: &'a mut Flows,
    pub(crate) stats: &'a mut Stats,
}

impl Deliveries {
    pub(crate) fn new(endpoints: Box<dyn EndpointTable>) -> Self {
        let queued = (0..ENDPOINTS).map(|_| VecDeque::new()).collect();
        Self { endpoints, queued, newly_queued: 0, returns: Vec::new() }
    }

    /// Queues a message for an endpoint.
    pub(crate) fn queue(&mut self, index: u8, message: OwnedMessage) {
        let queue = self.queued.get_mut(usize::from(index));
        debug_assert!(queue.is_some(), "endpoint tables admit endpoints below {ENDPOINTS}");
        let Some(queue) = queue else { return };
        self.newly_queued |= 1_u32.wrapping_shl(u32::from(index));
        queue.push_back(message);
        debug_assert!(self.has_queued(index));
    }

    /// Returns true if messages wait for an endpoint.
    #[inline]
    pub(crate) fn has_queued(&self, index: u8) -> bool {
        self.queued.get(usize::from(index)).is_some_and(|queued| !queued.is_empty())
    }

    /// Moves queued messages of an endpoint to a batch.
    #[inline]
    pub(crate) fn take_into(&mut self, index: u8, found: &mut Found) {
        let Some(queue) = self.queued.get_mut(usize::from(index)) else {
            clump_bug::bug!("endpoints below {ENDPOINTS} poll");
            return;
        };
        if queue.is_empty() {
            return;
        }
        for message in queue.drain(..queue.len().min(MAX_TAKEN)) {
            found.push_queued(message);
        }
    }

    /// Takes all messages of an endpoint that closes.
    pub(crate) fn take_all(&mut self, index: u8) -> VecDeque<OwnedMessage> {
        let queue = self.queued.get_mut(usize::from(index));
        debug_assert!(queue.is_some(), "endpoints below {ENDPOINTS} close");
        queue.map(std::mem::take).unwrap_or_default()
    }

    /// Takes the endpoints for which messages were queued since the last call, as bits.
    #[inline]
    pub(crate) fn take_newly_queued(&mut self) -> u32 {
        std::mem::take(&mut self.newly_queued)
    }

    /// Takes the messages to be returned.
    pub(crate) fn take_returns(&mut self) -> Vec<(OwnedMessage, Reason)> {
        std::mem::take(&mut self.returns)
    }

    /// Returns true if messages are to be returned.
    #[inline]
    pub(crate) fn has_returns(&self) -> bool {
        !self.returns.is_empty()
    }

    /// Notes a message that goes back to its sender.
    #[cold]
    pub(crate) fn refuse(&mut self, message: OwnedMessage, refusal: Reason) {
        debug_assert!(message.kind != FrameKind::Part, "messages are refused whole");
        self.returns.push((message, refusal));
    }

    /// Returns the bytes that wait for endpoints.
    pub(crate) fn bytes(&self) -> usize {
        self.queued.iter().flatten().map(OwnedMessage::bytes).sum()
    }

    /// Asserts what always holds between calls.
    pub(crate) fn check_invariants(&self) {
        assert_eq!(self.queued.len(), ENDPOINTS, "one queue for each endpoint");
        assert!(self.returns.is_empty(), "what is refused has been returned");
        for (index, queue) in (0..).zip(&self.queued) {
            let new = self.newly_queued & 1_u32.wrapping_shl(index) != 0;
            assert!(!new || index < ENDPOINTS as u32, "only endpoints are notified");
            for message in queue {
                let credit = message.kind == FrameKind::Part;
                assert!(!credit, "fragments are reassembled before they are queued");
            }
        }
    }
}

impl Delivery<'_> {
    /// Handles a whole message in one frame that asks for no order and may be handed over as it
    /// lies in the packet; returns the reason for which it cannot. What it says of credit is the
    /// caller's.
    #[inline]
    pub(crate) fn hand_over(&mut self, frame: &Frame<'_>, words_at: usize) -> FrameFate {
        let head = &frame.head;
        let tag = (!head.reply).then_some(head.route.tag);
        match self.deliveries.endpoints.admit(head.route.to, tag) {
            Ok(index) if head.order.is_none() && Some(index) == self.wanted => {
                debug_assert!(!self.deliveries.has_queued(index), "none is overtaken");
                self.found.push_frame(frame, words_at);
                FrameFate::Done
            }
            Ok(_) => FrameFate::Copy(None),
            Err(refusal) => FrameFate::Copy(Some(refusal)),
        }
    }

    /// Delivers a message whose turn it is, or returns it to its sender.
    pub(crate) fn accept(&mut self, message: OwnedMessage, refused: Option<Reason>) {
        let tag = (!message.reply).then_some(message.route.tag);
        // While it waited for its turn the endpoint may have closed.
        let admit = || self.deliveries.endpoints.admit(message.route.to, tag);
        let index = match refused.map_or_else(admit, Err) {
            Ok(index) => index,
            Err(refusal) => return self.deliveries.refuse(message, refusal),
        };
        debug_assert!(usize::from(index) < ENDPOINTS, "tables admit endpoints below that");
        debug_assert!(message.kind != FrameKind::Part, "fragments are reassembled first");
        let first = message.message().first_words();
        self.flows.on_arrival(&message.message().head(), first, message.payload.len());
        if Some(index) == self.wanted {
            self.found.push_queued(message);
        } else {
            self.deliveries.queue(index, message);
        }
    }
}

/// Result of [`Delivery::hand_over`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameFate {
    /// The endpoint has it.
    Done,
    /// It has to be copied out of its packet: to wait, or to be returned for this reason.
    Copy(Option<Reason>),
}
