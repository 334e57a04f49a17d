//! Frames to endpoints: at once, by mail, in order, or back to where they came from.

use super::{Nanos, Stack};
use crate::assembly::{Nonsense, Whole};
use crate::doors::Refusal;
use crate::mail::{Found, Mail, Sort};
use crate::original::Original;
use clump_wire::frame::{Frame, Head, Kind, MOST_WORDS};

impl Stack {
    /// Hands a frame on; true if it was handed over as it lies in the packet.
    pub(super) fn route(
        &mut self,
        now: Nanos,
        wanted: Option<u8>,
        peer: u32,
        frame: &Frame<'_>,
        words_at: usize,
        found: &mut Found,
    ) -> Result<bool, Nonsense> {
        let head = &frame.head;
        match (head.kind, head.piece) {
            (Kind::Part, Some(piece)) => {
                let Self { peers, doors, .. } = self;
                let known = peers.get_mut(peer as usize).and_then(Option::as_mut);
                let conduit = known.and_then(|known| known.conduit.as_deref_mut());
                let Some(conduit) = conduit else { return Ok(false) };
                if let Some(whole) = conduit.assembly.on_part(piece, frame.payload, &**doors)? {
                    self.on_whole(now, wanted, peer, whole, found)?;
                }
                Ok(false)
            }
            (Kind::Credit, _) => {
                if self.doors.relays() {
                    return self.on_frame(now, wanted, peer, (frame, words_at), found);
                }
                if let Some(flow) = self.flows.between(head.route.to, head.route.from) {
                    flow.on_consumed(frame.first_word());
                }
                Ok(false)
            }
            (_, Some(piece)) => {
                let Self { peers, doors, .. } = self;
                let known = peers.get_mut(peer as usize).and_then(Option::as_mut);
                let conduit = known.and_then(|known| known.conduit.as_deref_mut());
                let Some(conduit) = conduit else { return Ok(false) };
                if let Some(whole) = conduit.assembly.on_begin(frame, piece, &**doors)? {
                    self.on_whole(now, wanted, peer, whole, found)?;
                }
                Ok(false)
            }
            (Kind::Long, None) => {
                self.on_long(now, wanted, peer, (frame, words_at), found).map(|()| false)
            }
            _ => self.on_frame(now, wanted, peer, (frame, words_at), found),
        }
    }

    /// A whole message in one frame. This is the way of almost all small messages.
    #[inline]
    fn on_frame(
        &mut self,
        now: Nanos,
        wanted: Option<u8>,
        peer: u32,
        (frame, words_at): (&Frame<'_>, usize),
        found: &mut Found,
    ) -> Result<bool, Nonsense> {
        let head = &frame.head;
        let tag = (!head.reply).then_some(head.route.tag);
        match self.doors.admit(head.route.to, tag) {
            Ok(index) if head.order.is_none() && Some(index) == wanted => {
                self.note_returned(head, frame.first_word(), frame.payload.len() as u64);
                found.push_frame(frame, words_at);
                Ok(true)
            }
            admitted => {
                let mail = copy(frame, frame.payload.to_vec());
                let refused = admitted.err();
                self.settle_mail(now, wanted, peer, head.order, mail, refused, found)?;
                Ok(false)
            }
        }
    }

    /// A long message in one frame: its payload goes to the segment now.
    fn on_long(
        &mut self,
        now: Nanos,
        wanted: Option<u8>,
        peer: u32,
        (frame, _): (&Frame<'_>, usize),
        found: &mut Found,
    ) -> Result<(), Nonsense> {
        let head = &frame.head;
        let mut words = [0; MOST_WORDS];
        let &[offset, bytes, ..] = frame.words(&mut words) else { return Err(Nonsense) };
        if bytes != frame.payload.len() as u64 {
            return Err(Nonsense);
        }
        let tag = (!head.reply).then_some(head.route.tag);
        let to = head.route.to;
        let admitted = self.doors.admit(to, tag).map(drop);
        let fits = admitted.and_then(|()| self.doors.fits(to, offset, bytes));
        let done = fits.and_then(|()| self.doors.deposit(to, offset, frame.payload));
        let mail = copy(frame, Vec::new());
        self.settle_mail(now, wanted, peer, head.order, mail, done.err(), found)
    }

    fn on_whole(
        &mut self,
        now: Nanos,
        wanted: Option<u8>,
        peer: u32,
        whole: Whole,
        found: &mut Found,
    ) -> Result<(), Nonsense> {
        let Whole { head, words, payload, refused } = whole;
        let tag = (!head.reply).then_some(head.route.tag);
        // Whether it may come in at all comes first.
        let refused = self.doors.admit(head.route.to, tag).err().or(refused);
        let mail = Mail::of(&head, &words, payload);
        self.settle_mail(now, wanted, peer, head.order, mail, refused, found)
    }

    /// A message that is complete: kept until its turn, if it asks for order; then delivered, or sent
    /// back.
    #[allow(clippy::too_many_arguments, reason = "the message, where from, where to")]
    fn settle_mail(
        &mut self,
        now: Nanos,
        wanted: Option<u8>,
        peer: u32,
        order: Option<u64>,
        mail: Mail,
        refused: Option<Refusal>,
        found: &mut Found,
    ) -> Result<(), Nonsense> {
        let Some(order) = order else {
            self.accept(now, wanted, mail, refused, found);
            return Ok(());
        };
        let Some(turn) = self.order_of(peer) else { return Ok(()) };
        if !turn.is_next(order) {
            // A refused message counts as handled where it stands, and goes back at once.
            let (kept, back) =
                if refused.is_some() { (None, Some(mail)) } else { (Some(mail), None) };
            if !turn.hold(order, kept) {
                return Err(Nonsense);
            }
            if let (Some(mail), Some(refusal)) = (back, refused) {
                self.send_back(&|| now, &mail, refusal);
            }
            return Ok(());
        }
        self.accept(now, wanted, mail, refused, found);
        while let Some(next) = self.order_of(peer).and_then(crate::order::Order::poll) {
            self.accept(now, wanted, next, None, found);
        }
        Ok(())
    }

    fn order_of(&mut self, peer: u32) -> Option<&mut crate::order::Order> {
        let known = self.peers.get_mut(peer as usize)?.as_mut()?;
        known.conduit.as_deref_mut().map(|conduit| &mut conduit.order_in)
    }

    fn accept(
        &mut self,
        now: Nanos,
        wanted: Option<u8>,
        mail: Mail,
        refused: Option<Refusal>,
        found: &mut Found,
    ) {
        let tag = (!mail.reply).then_some(mail.route.tag);
        // While it waited for its turn the endpoint may have closed.
        let index = match refused.map_or_else(|| self.doors.admit(mail.route.to, tag), Err) {
            Ok(index) => index,
            Err(refusal) => return self.send_back(&|| now, &mail, refusal),
        };
        if let Sort::Message(kind) = mail.sort {
            let head = Head {
                kind,
                reply: mail.reply,
                handler: mail.handler,
                route: mail.route,
                order: None,
                piece: None,
            };
            let first = mail.words.first().copied().unwrap_or_default();
            self.note_returned(&head, first, mail.payload.len() as u64);
        }
        if Some(index) == wanted {
            found.push_mail(mail);
        } else {
            self.deliver(index, mail);
        }
    }

    /// A request that comes back without having been consumed frees the room it took.
    #[inline]
    fn note_returned(&mut self, head: &Head, original: u64, payload: u64) {
        if head.kind != Kind::Returned {
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

    /// Sends a message back to where it came from, with the reason in front.
    pub(super) fn send_back(&mut self, now: &impl Fn() -> Nanos, mail: &Mail, refusal: Refusal) {
        if mail.sort == Sort::Message(Kind::Ask) && refusal == Refusal::PeerLost {
            // Nobody will ever say how much was consumed: all of it was.
            let (from, to) = (mail.route.to, mail.route.from);
            let peer = self.doors.stack_of(to);
            return self.reply_anyway(now, peer, (Kind::Credit, 0), (from, to), (&mail.words, &[]));
        }
        let Some(words) = mail.on_its_way_back(refusal) else { return };
        self.stats.returned_here += 1;
        let (from, to) = (mail.route.to, mail.route.from);
        // Bounded by what the sender may have outstanding.
        let body = (words.as_slice(), mail.payload.as_slice());
        let peer = self.doors.stack_of(to);
        self.reply_anyway(now, peer, (Kind::Returned, 0), (from, to), body);
    }
}

fn copy(frame: &Frame<'_>, payload: Vec<u8>) -> Mail {
    let mut words = [0; MOST_WORDS];
    Mail::of(&frame.head, frame.words(&mut words), payload)
}
