//! The receiving side of a connection: from units to messages in their order.

use crate::deliveries::{Delivery, FrameFate};
use crate::order::OrderedMessages;
use crate::reassembly::{CompleteMessage, ProtocolViolation, Reassembly};
use crate::stream_notice::StreamNotice;
use crate::unit_fragments::UnitFragments;
use clump_wire::OwnedMessage;
use clump_wire::Reason;
use clump_wire::frame::{Frame, FrameHead, FrameKind, Frames, MAX_WORDS};
use clump_wire::{PacketKind, UnitFragment};
use std::collections::VecDeque;

/// Arrivals from a peer that are not complete, or not in turn, yet.
#[derive(Debug, Default)]
pub(super) struct Rx {
    unit_fragments: UnitFragments,
    reassembly: Reassembly,
    ordered: OrderedMessages,
    /// News of streams, in the order in which they came.
    pub(super) notices: VecDeque<StreamNotice>,
}

/// The place of a record's payload.
#[derive(Debug)]
pub(super) enum RecordTarget {
    /// In the segment of the endpoint that it is for, at this offset.
    Segment { offset: u64 },
    /// In a buffer: that of a medium message, or one to deposit it from.
    Buffer(Vec<u8>),
}

impl Rx {
    /// Handles a unit fragment: returns the meaning of its packet to the channel, and the unit once
    /// that is whole.
    #[cold]
    pub(super) fn join(
        &mut self,
        unit: u64,
        body: &[u8],
        wants_unit: impl Fn(u64) -> bool,
    ) -> (PacketKind, Option<Vec<u8>>) {
        self.unit_fragments.retain(&wants_unit);
        let Some((unit_fragment, part)) = UnitFragment::parse(body) else {
            return (PacketKind::Fragment, None);
        };
        if !wants_unit(unit) {
            return (PacketKind::Data, None);
        }
        match self.unit_fragments.take(unit, unit_fragment, part) {
            Some(whole) => (PacketKind::Data, Some(whole)),
            None => (PacketKind::Fragment, None),
        }
    }

    /// Routes every frame of a new unit, whose body lies at `at` of its datagram.
    pub(super) fn unpack(&mut self, body: &[u8], at: usize, delivery: &mut Delivery<'_>) {
        let mut frames = Frames::new(body);
        // A frame with the same route as the one before it, for the polling endpoint, needs no
        // second lookup.
        let mut before: Option<FrameHead> = None;
        while let Some(frame) = frames.next() {
            let Ok(frame) = frame else {
                delivery.stats.frames_malformed += 1;
                return;
            };
            // Words and payload end where the rest begins.
            let tail = frame.word_count() * 8 + frame.payload.len().next_multiple_of(8);
            debug_assert!(tail + frames.left() <= body.len(), "a frame lies in its unit");
            debug_assert!(before.is_none_or(|before| before.order.is_none()), "none waited");
            let words_at = at + body.len() - frames.left() - tail;
            if before.is_some_and(|before| follows(&before, &frame.head)) {
                delivery.found.push_frame(&frame, words_at);
                continue;
            }
            before = None;
            // Almost all messages are small, and handed over as they lie in the packet.
            if is_small(&frame.head) && delivery.hand_over(&frame, words_at) == FrameFate::Done {
                before = Some(frame.head);
            } else if self.route(&frame, words_at, delivery).is_err() {
                delivery.stats.frames_malformed += 1;
            }
        }
    }

    /// Routes a frame that could not be handed over as it lies in the packet, or not without a look
    /// at its kind.
    fn route(
        &mut self,
        frame: &Frame<'_>,
        words_at: usize,
        delivery: &mut Delivery<'_>,
    ) -> Result<(), ProtocolViolation> {
        let head = &frame.head;
        let endpoints = &*delivery.deliveries.endpoints;
        let whole = match (head.kind, head.fragment) {
            (FrameKind::Part, Some(fragment)) => {
                self.reassembly.handle_fragment(fragment, frame.payload, endpoints)?
            }
            (FrameKind::Credit, _) => {
                // A stack that relays has flows of its own, too: those of its interface.
                let own = delivery.flows.on_arrival(head, frame.first_words(), 0);
                if !own && endpoints.relays() {
                    return self.on_frame(frame, words_at, delivery);
                }
                return Ok(());
            }
            (_, Some(fragment)) => {
                let payloads = &mut delivery.found.payloads;
                self.reassembly.on_begin(frame, fragment, endpoints, payloads)?
            }
            (FrameKind::Long, None) => return self.on_long(frame, delivery),
            (FrameKind::Stream, _) => {
                let mut words = [0; MAX_WORDS];
                let notice = StreamNotice::parse(frame.words(&mut words));
                self.notices.push_back(notice.ok_or(ProtocolViolation)?);
                return Ok(());
            }
            _ => return self.on_frame(frame, words_at, delivery),
        };
        if let Some(whole) = whole {
            self.on_whole(whole, delivery)?;
        }
        Ok(())
    }

    /// Handles a whole message in one frame.
    fn on_frame(
        &mut self,
        frame: &Frame<'_>,
        words_at: usize,
        delivery: &mut Delivery<'_>,
    ) -> Result<(), ProtocolViolation> {
        let FrameFate::Copy(refused) = delivery.hand_over(frame, words_at) else {
            delivery.flows.on_arrival(&frame.head, frame.first_words(), frame.payload.len());
            return Ok(());
        };
        let message = copy(frame, frame.payload.to_vec());
        self.in_turn(frame.head.order, message, refused, delivery)
    }

    /// Handles a long message in one frame: its payload goes to the segment now.
    fn on_long(
        &mut self,
        frame: &Frame<'_>,
        delivery: &mut Delivery<'_>,
    ) -> Result<(), ProtocolViolation> {
        let head = &frame.head;
        let mut words = [0; MAX_WORDS];
        let &[offset, bytes, ..] = frame.words(&mut words) else { return Err(ProtocolViolation) };
        if bytes != frame.payload.len() as u64 {
            return Err(ProtocolViolation);
        }
        let tag = (!head.reply).then_some(head.route.tag);
        let (to, endpoints) = (head.route.to, &*delivery.deliveries.endpoints);
        let admitted = endpoints.admit(to, tag).map(drop);
        let fits = admitted.and_then(|()| endpoints.fits(to, offset, bytes));
        let done = fits.and_then(|()| endpoints.deposit(to, offset, frame.payload));
        self.in_turn(head.order, copy(frame, Vec::new()), done.err(), delivery)
    }

    /// Returns where the payload of a record belongs; `None` if no correct peer sends it.
    pub(super) fn record_target(
        &mut self,
        head: &mut FrameHead,
        words: &[u64],
        bytes: usize,
        delivery: &mut Delivery<'_>,
    ) -> Option<RecordTarget> {
        debug_assert!(words.len() <= MAX_WORDS, "frames carry no more words");
        let endpoints = &*delivery.deliveries.endpoints;
        let offset = match (head.kind, head.fragment) {
            (FrameKind::Medium, None) => {
                return Some(RecordTarget::Buffer(delivery.found.payloads.take(bytes)));
            }
            (FrameKind::Long, _) => *words.first()?,
            (FrameKind::Part, Some(fragment)) => match self.reassembly.place_of(fragment) {
                Some((to, offset)) => {
                    head.route.to = to;
                    offset
                }
                None => return Some(RecordTarget::Buffer(vec![0; bytes])),
            },
            _ => return None,
        };
        let tag = (!head.reply).then_some(head.route.tag);
        let admitted = head.kind == FrameKind::Part || endpoints.admit(head.route.to, tag).is_ok();
        debug_assert!(head.kind != FrameKind::Medium, "those have buffers");
        let place = (head.route.to, offset, bytes as u64);
        let direct = admitted && bytes > 0 && endpoints.with_segment_bytes(place, &mut |_| {});
        Some(match direct {
            true => RecordTarget::Segment { offset },
            false => RecordTarget::Buffer(vec![0; bytes]),
        })
    }

    /// Handles a record whose payload is in its place, and genuine.
    pub(super) fn on_record(
        &mut self,
        head: &FrameHead,
        words: &[u64],
        (bytes, target): (usize, RecordTarget),
        delivery: &mut Delivery<'_>,
    ) -> Result<(), ProtocolViolation> {
        debug_assert!(words.len() <= MAX_WORDS, "frames carry no more words");
        let endpoints = &*delivery.deliveries.endpoints;
        let to = head.route.to;
        let tag = (!head.reply).then_some(head.route.tag);
        let whole = match (head.kind, head.fragment, target) {
            (FrameKind::Medium, None, RecordTarget::Buffer(payload)) => {
                let refused = endpoints.admit(to, tag).err();
                let message = OwnedMessage::of(head, words, payload);
                return self.in_turn(head.order, message, refused, delivery);
            }
            (FrameKind::Long, fragment, target) => {
                let &[offset, total, ..] = words else { return Err(ProtocolViolation) };
                let expected = fragment.map_or(bytes as u64, |fragment| fragment.at);
                if total != expected || bytes as u64 > total {
                    return Err(ProtocolViolation);
                }
                let admitted = endpoints.admit(to, tag).map(drop);
                let fits = admitted.and_then(|()| endpoints.fits(to, offset, total));
                let done = fits.and_then(|()| match &target {
                    RecordTarget::Segment { .. } => Ok(()),
                    RecordTarget::Buffer(payload) => endpoints.deposit(to, offset, payload),
                });
                let Some(fragment) = fragment else {
                    let message = OwnedMessage::of(head, words, Vec::new());
                    return self.in_turn(head.order, message, done.err(), delivery);
                };
                let begun = FrameHead { fragment: None, ..*head };
                let message = (fragment.message, total, bytes as u64);
                self.reassembly.on_begin_placed(begun, words, message, done.err())?
            }
            (FrameKind::Part, Some(fragment), RecordTarget::Segment { .. }) => {
                self.reassembly.on_placed(fragment, bytes as u64)?
            }
            (FrameKind::Part, Some(fragment), RecordTarget::Buffer(data)) => {
                self.reassembly.handle_fragment(fragment, &data, endpoints)?
            }
            _ => return Err(ProtocolViolation),
        };
        whole.map_or(Ok(()), |whole| self.on_whole(whole, delivery))
    }

    fn on_whole(
        &mut self,
        whole: CompleteMessage,
        delivery: &mut Delivery<'_>,
    ) -> Result<(), ProtocolViolation> {
        let CompleteMessage { head, words, payload, refused } = whole;
        debug_assert!(head.fragment.is_none(), "it is whole");
        let tag = (!head.reply).then_some(head.route.tag);
        // Admission is checked first.
        let admitted = delivery.deliveries.endpoints.admit(head.route.to, tag);
        let message = OwnedMessage::of(&head, &words, payload);
        self.in_turn(head.order, message, admitted.err().or(refused), delivery)
    }

    /// Handles a complete message: kept until its turn, if it asks for order; then delivered, or
    /// returned to its sender.
    fn in_turn(
        &mut self,
        order: Option<u64>,
        message: OwnedMessage,
        refused: Option<Reason>,
        delivery: &mut Delivery<'_>,
    ) -> Result<(), ProtocolViolation> {
        let Some(order) = order else {
            delivery.accept(message, refused);
            return Ok(());
        };
        if self.ordered.is_next(order) {
            delivery.accept(message, refused);
            while let Some(next) = self.ordered.poll() {
                delivery.accept(next, None);
            }
            return Ok(());
        }
        // A refused message counts as handled in its place, and is returned at once.
        let (kept, back) = match refused {
            Some(refusal) => (None, Some((message, refusal))),
            None => (Some(message), None),
        };
        if !self.ordered.hold(order, kept) {
            return Err(ProtocolViolation);
        }
        if let Some((message, refusal)) = back {
            delivery.deliveries.refuse(message, refusal);
        }
        Ok(())
    }

    /// Takes the messages that wait for an earlier one and are for an endpoint that closes.
    pub(super) fn take_ordered_for(&mut self, name: u64) -> Vec<OwnedMessage> {
        self.ordered.take_for(name)
    }

    /// Forgets messages whose rest will not come.
    pub(super) fn on_lost(&mut self) {
        (self.unit_fragments, self.reassembly) = (UnitFragments::default(), Reassembly::default());
        debug_assert!(self.bytes() == self.ordered.bytes(), "nothing is incomplete");
    }

    /// Returns the bytes kept.
    pub(super) fn bytes(&self) -> usize {
        self.unit_fragments.bytes() + self.reassembly.bytes() + self.ordered.bytes()
    }

    /// Asserts what always holds between calls.
    pub(super) fn check_invariants(&self) {
        self.unit_fragments.check_invariants();
        self.reassembly.check_invariants();
        self.ordered.check_invariants();
    }
}

/// Returns true if a frame is a whole small message on the route of the one before it.
#[inline]
fn follows(before: &FrameHead, head: &FrameHead) -> bool {
    is_small(head) && head.reply == before.reply && head.route == before.route
}

/// Returns true if a frame is a whole small message that asks for no order.
#[inline]
fn is_small(head: &FrameHead) -> bool {
    let small = matches!(head.kind, FrameKind::Short | FrameKind::Medium);
    small && head.order.is_none() && head.fragment.is_none()
}

fn copy(frame: &Frame<'_>, payload: Vec<u8>) -> OwnedMessage {
    let mut words = [0; MAX_WORDS];
    OwnedMessage::of(&frame.head, frame.words(&mut words), payload)
}
