//! Routing of frames to endpoints: at once, by a queue, in order, or back to their senders.

use super::{Nanos, Stack};
use crate::endpoint_table::Refusal;
use crate::original::Original;
use crate::queued_message::{Disposition, Found, QueuedMessage};
use crate::reassembly::{CompleteMessage, ProtocolViolation};
use clump_wire::frame::{Frame, FrameHead, FrameKind, MAX_WORDS};

impl Stack {
    /// Routes a frame; returns true if it was handed over as it lies in the packet.
    pub(super) fn route(
        &mut self,
        now: Nanos,
        wanted: Option<u8>,
        peer: u32,
        frame: &Frame<'_>,
        words_at: usize,
        found: &mut Found,
    ) -> Result<bool, ProtocolViolation> {
        let head = &frame.head;
        match (head.kind, head.fragment) {
            (FrameKind::Part, Some(fragment)) => {
                let Self { peers, endpoints, .. } = self;
                let known = peers.get_mut(peer as usize).and_then(Option::as_mut);
                let connection = known.and_then(|known| known.connection.as_deref_mut());
                let Some(connection) = connection else { return Ok(false) };
                if let Some(whole) =
                    connection.assembly.handle_fragment(fragment, frame.payload, &**endpoints)?
                {
                    self.on_whole(now, wanted, peer, whole, found)?;
                }
                Ok(false)
            }
            (FrameKind::Credit, _) => {
                if self.endpoints.relays() {
                    return self.on_frame(now, wanted, peer, (frame, words_at), found);
                }
                if let Some(flow) = self.flows.between(head.route.to, head.route.from) {
                    flow.on_consumed(frame.first_word());
                }
                Ok(false)
            }
            (_, Some(fragment)) => {
                let Self { peers, endpoints, .. } = self;
                let known = peers.get_mut(peer as usize).and_then(Option::as_mut);
                let connection = known.and_then(|known| known.connection.as_deref_mut());
                let Some(connection) = connection else { return Ok(false) };
                if let Some(whole) = connection.assembly.on_begin(frame, fragment, &**endpoints)? {
                    self.on_whole(now, wanted, peer, whole, found)?;
                }
                Ok(false)
            }
            (FrameKind::Long, None) => {
                self.on_long(now, wanted, peer, (frame, words_at), found).map(|()| false)
            }
            _ => self.on_frame(now, wanted, peer, (frame, words_at), found),
        }
    }

    /// Handles a whole message in one frame. Almost all small messages take this path.
    #[inline]
    fn on_frame(
        &mut self,
        now: Nanos,
        wanted: Option<u8>,
        peer: u32,
        (frame, words_at): (&Frame<'_>, usize),
        found: &mut Found,
    ) -> Result<bool, ProtocolViolation> {
        let head = &frame.head;
        let tag = (!head.reply).then_some(head.route.tag);
        match self.endpoints.admit(head.route.to, tag) {
            Ok(index) if head.order.is_none() && Some(index) == wanted => {
                self.note_returned(head, frame.first_word(), frame.payload.len() as u64);
                found.push_frame(frame, words_at);
                Ok(true)
            }
            admitted => {
                let queued = copy(frame, frame.payload.to_vec());
                let refused = admitted.err();
                self.route_message(now, wanted, peer, head.order, queued, refused, found)?;
                Ok(false)
            }
        }
    }

    /// Handles a long message in one frame: its payload goes to the segment now.
    fn on_long(
        &mut self,
        now: Nanos,
        wanted: Option<u8>,
        peer: u32,
        (frame, _): (&Frame<'_>, usize),
        found: &mut Found,
    ) -> Result<(), ProtocolViolation> {
        let head = &frame.head;
        let mut words = [0; MAX_WORDS];
        let &[offset, bytes, ..] = frame.words(&mut words) else { return Err(ProtocolViolation) };
        if bytes != frame.payload.len() as u64 {
            return Err(ProtocolViolation);
        }
        let tag = (!head.reply).then_some(head.route.tag);
        let to = head.route.to;
        let admitted = self.endpoints.admit(to, tag).map(drop);
        let fits = admitted.and_then(|()| self.endpoints.fits(to, offset, bytes));
        let done = fits.and_then(|()| self.endpoints.deposit(to, offset, frame.payload));
        let queued = copy(frame, Vec::new());
        self.route_message(now, wanted, peer, head.order, queued, done.err(), found)
    }

    fn on_whole(
        &mut self,
        now: Nanos,
        wanted: Option<u8>,
        peer: u32,
        whole: CompleteMessage,
        found: &mut Found,
    ) -> Result<(), ProtocolViolation> {
        let CompleteMessage { head, words, payload, refused } = whole;
        let tag = (!head.reply).then_some(head.route.tag);
        // Admission is checked first.
        let refused = self.endpoints.admit(head.route.to, tag).err().or(refused);
        let queued = QueuedMessage::of(&head, &words, payload);
        self.route_message(now, wanted, peer, head.order, queued, refused, found)
    }

    /// Handles a complete message: kept until its turn, if it asks for order; then delivered, or
    /// returned to its sender.
    #[allow(clippy::too_many_arguments, reason = "the message, where from, where to")]
    fn route_message(
        &mut self,
        now: Nanos,
        wanted: Option<u8>,
        peer: u32,
        order: Option<u64>,
        queued: QueuedMessage,
        refused: Option<Refusal>,
        found: &mut Found,
    ) -> Result<(), ProtocolViolation> {
        let Some(order) = order else {
            self.accept(now, wanted, queued, refused, found);
            return Ok(());
        };
        let Some(turn) = self.order_of(peer) else { return Ok(()) };
        if !turn.is_next(order) {
            // A refused message counts as handled in its place, and is returned at once.
            let (kept, back) =
                if refused.is_some() { (None, Some(queued)) } else { (Some(queued), None) };
            if !turn.hold(order, kept) {
                return Err(ProtocolViolation);
            }
            if let (Some(queued), Some(refusal)) = (back, refused) {
                self.return_to_sender(&|| now, &queued, refusal);
            }
            return Ok(());
        }
        self.accept(now, wanted, queued, refused, found);
        while let Some(next) = self.order_of(peer).and_then(crate::order::OrderedMessages::poll) {
            self.accept(now, wanted, next, None, found);
        }
        Ok(())
    }

    fn order_of(&mut self, peer: u32) -> Option<&mut crate::order::OrderedMessages> {
        let known = self.peers.get_mut(peer as usize)?.as_mut()?;
        known.connection.as_deref_mut().map(|connection| &mut connection.order_in)
    }

    fn accept(
        &mut self,
        now: Nanos,
        wanted: Option<u8>,
        queued: QueuedMessage,
        refused: Option<Refusal>,
        found: &mut Found,
    ) {
        let tag = (!queued.reply).then_some(queued.route.tag);
        // While it waited for its turn the endpoint may have closed.
        let index = match refused.map_or_else(|| self.endpoints.admit(queued.route.to, tag), Err) {
            Ok(index) => index,
            Err(refusal) => return self.return_to_sender(&|| now, &queued, refusal),
        };
        if let Disposition::Message(kind) = queued.sort {
            let head = FrameHead {
                kind,
                reply: queued.reply,
                handler: queued.handler,
                route: queued.route,
                order: None,
                fragment: None,
            };
            let first = queued.words.first().copied().unwrap_or_default();
            self.note_returned(&head, first, queued.payload.len() as u64);
        }
        if Some(index) == wanted {
            found.push_queued(queued);
        } else {
            self.deliver(index, queued);
        }
    }

    /// Frees the credit of a request that is returned without having been consumed.
    #[inline]
    fn note_returned(&mut self, head: &FrameHead, original: u64, payload: u64) {
        if head.kind != FrameKind::Returned {
            return;
        }
        let original = Original::unpack(original);
        let unconsumed = original.reason != crate::original::CONSUMED;
        if unconsumed
            && !original.reply
            && let Some(flow) = self.flows.between(head.route.to, head.route.from)
        {
            flow.refund(crate::flow::REQUEST_COST + payload);
        }
    }

    /// Returns a message to its sender, with the reason in front.
    pub(super) fn return_to_sender(
        &mut self,
        now: &impl Fn() -> Nanos,
        queued: &QueuedMessage,
        refusal: Refusal,
    ) {
        if queued.sort == Disposition::Message(FrameKind::Ask) && refusal == Refusal::PeerLost {
            // No endpoint will ever report how much was consumed: it is taken to be all.
            let (from, to) = (queued.route.to, queued.route.from);
            let peer = self.endpoints.stack_of(to);
            return self.reply_anyway(
                now,
                peer,
                (FrameKind::Credit, 0),
                (from, to),
                (&queued.words, &[]),
            );
        }
        let Some(words) = queued.on_its_way_back(refusal) else { return };
        self.stats.returned_here += 1;
        let (from, to) = (queued.route.to, queued.route.from);
        // Bounded by the sender's outstanding requests.
        let body = (words.as_slice(), queued.payload.as_slice());
        let peer = self.endpoints.stack_of(to);
        self.reply_anyway(now, peer, (FrameKind::Returned, 0), (from, to), body);
    }
}

fn copy(frame: &Frame<'_>, payload: Vec<u8>) -> QueuedMessage {
    let mut words = [0; MAX_WORDS];
    QueuedMessage::of(&frame.head, frame.words(&mut words), payload)
}
