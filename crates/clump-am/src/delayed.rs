//! Messages delayed on purpose, at the borders of the stages that send and receive
//! (docs/adr/0038): stamped before they are appended, hidden until they are due before they are
//! handled.

use crate::arrived_message::ArrivedMessage;
use crate::emulation::{Delayed, Emulation, LocalMessage, StampedWords};
use crate::error::Result;
use crate::handler_context::HandlerContext;
use crate::handling::Handlers;
use crate::message::{MessageKind, OutgoingMessage, split_stamp};
use crate::payload::Payload;
use crate::reply_to::ReplyTo;
use clump_loggp::KnobScope;
use clump_shm::name::Name;
use clump_shm::virtual_time::{Actor, CallKind};
use clump_wire::{Message, OwnedMessage};

/// Fate of a message in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotFate {
    /// Handled, or returned to its sender: the slot is free.
    Done,
    /// Hidden until it is due: the slot is free.
    Hidden,
    /// A proxy brought it from another node; it is handled with those that a stack receives.
    Forwarded,
    /// Left in its slot: there is no room on the way back to its sender.
    Stays,
}

/// Takes a message of this node that has a stamp: handles it now if the stamp serves the trace
/// alone, else hides it until it is due. `None`: it has none.
#[cold]
pub(crate) fn take_stamped(
    handlers: &mut Handlers,
    handler_context: &mut HandlerContext,
    message: &ArrivedMessage<'_>,
    lane: Option<usize>,
    back: ReplyTo<'_>,
) -> Option<Result<SlotFate>> {
    if let Some(inbox) = &mut handler_context.virtual_inbox {
        return inbox
            .hide(message, lane)
            .map(|hidden| Ok(if hidden { SlotFate::Hidden } else { SlotFate::Stays }));
    }
    if let Some(done) = handlers.handle_traced(handler_context, message, back) {
        return Some(done.map(|done| if done { SlotFate::Done } else { SlotFate::Stays }));
    }
    let (stamp, words) = split_stamp(message.kind, message.words)?;
    debug_assert!(!message.remote, "it is in a slot of this node");
    debug_assert!(stamp.handler != 0, "the handler is in the stamp");
    let local = LocalMessage::of(message, words, stamp.handler, lane);
    let from = (message.from, true);
    let hidden = handler_context.emulation().hide(from, stamp, Delayed::Local(local));
    handler_context.note_delayed();
    Some(Ok(if hidden { SlotFate::Hidden } else { SlotFate::Stays }))
}

/// Hides a message of another node, if it is to be delayed. Returns `None` if it is to be handled
/// now, and false if it has to wait where it is.
#[inline]
pub(crate) fn hide_arrival(
    handler_context: &mut HandlerContext,
    arrival: &Message<'_>,
) -> Option<bool> {
    let kind = MessageKind::from_bits(arrival.kind as u8)?;
    if kind == MessageKind::Returned {
        return None;
    }
    let from = Name::from_bits(arrival.route.from);
    debug_assert!(arrival.words.len() <= clump_wire::frame::MAX_WORDS, "a frame's words");
    if arrival.handler == 0 {
        return hide_stamped(handler_context, arrival, kind, from);
    }
    let emulation = handler_context.emulation.as_mut().filter(|knobs| knobs.on)?;
    let ranks = handler_context.context.node().ranks();
    if !arrival.reply || (from.rank() as usize) < ranks {
        return None;
    }
    debug_assert!(arrival.handler != 0, "interfaces do not handle stamps");
    emulation.hide_answer(arrival.to_owned());
    handler_context.note_delayed();
    Some(true)
}

#[cold]
fn hide_stamped(
    handler_context: &mut HandlerContext,
    arrival: &Message<'_>,
    kind: MessageKind,
    from: Name,
) -> Option<bool> {
    let (stamp, words) = split_stamp(kind, arrival.words)?;
    debug_assert!(stamp.handler != 0 && arrival.handler == 0, "the handler is in the stamp");
    debug_assert_eq!(words.len() + 1, arrival.words.len(), "the stamp is one word");
    let queued = arrival.to_owned();
    let queued = OwnedMessage { handler: stamp.handler, words: words.to_vec(), ..queued };
    let node = handler_context.context.node();
    let one_clock = node.has_clock_of(node.node_of(from.rank()));
    let from = (from, one_clock);
    let hidden = handler_context.emulation().hide(from, stamp, Delayed::Remote(queued));
    handler_context.note_delayed();
    Some(hidden)
}

impl LocalMessage {
    /// Copies a message with a stamp out of its slots; `words`: those before the stamp.
    pub(crate) fn of(
        message: &ArrivedMessage<'_>,
        words: &[u64],
        handler: u8,
        lane: Option<usize>,
    ) -> Self {
        let (from, request, kind) = (message.from, message.request, message.kind);
        debug_assert_eq!(words.len() + 1, message.words.len(), "the stamp is one word");
        debug_assert!(handler != 0 && message.handler == 0, "the handler is in the stamp");
        let (words, payload) = (words.to_vec(), message.payload.to_vec());
        Self { from, lane, request, kind, handler, words, payload }
    }

    /// Returns the message as it is handled.
    pub(crate) fn arrived(&self) -> ArrivedMessage<'_> {
        let Self { from, request, kind, handler, words, payload, .. } = self;
        let (from, request, kind, handler) = (*from, *request, *kind, *handler);
        debug_assert!(handler != 0, "its stamp named a handler");
        debug_assert!(
            kind != MessageKind::Long || payload.is_empty(),
            "a deposit is in the segment"
        );
        let payload = Payload::own(payload);
        ArrivedMessage { from, request, remote: false, kind, handler, words, payload }
    }
}

impl HandlerContext {
    /// Returns true if messages carry stamps: they are delayed on purpose, or traced.
    #[inline(always)]
    pub(crate) fn emulates(&self) -> bool {
        self.emulates
    }

    /// Reads the laboratory's settings, if they have changed. Returns true if they have.
    pub(crate) fn refresh_knobs(&mut self) -> bool {
        let job = self.context.node().job();
        if job.knob_epoch() == 0 {
            return false;
        }
        let emulation = self.emulation.get_or_insert_default();
        let changed = emulation.refresh(job);
        self.emulates = emulation.on || self.context.is_observed();
        debug_assert!(self.emulation.is_some(), "its state is kept");
        changed
    }

    /// Returns the state of messages that are delayed, which a message may show before the change
    /// of the settings is noticed.
    fn emulation(&mut self) -> &mut Emulation {
        self.refresh_knobs();
        self.emulation.get_or_insert_default()
    }

    /// Stamps a request, and keeps the rank busy for what sending it costs. `None`: the
    /// interface takes no more now. `remote`: to another node.
    pub(crate) fn delay_request(
        &mut self,
        (to, message): (Name, &OutgoingMessage<'_>),
        (remote, to_interface): (bool, bool),
    ) -> Option<StampedWords> {
        let scope = if remote { KnobScope::Net } else { KnobScope::Shm };
        debug_assert!(self.emulates(), "messages are delayed on purpose");
        debug_assert!(!remote || self.context.network().is_some(), "another node, no network");
        let Self { context, emulation, .. } = self;
        let emulation = emulation.get_or_insert_default();
        if !emulation.on {
            // The rank is traced; nothing is slower.
            return Some(StampedWords::of(message, 0));
        }
        emulation.request(context.emulated(), (to, message), scope, to_interface)
    }

    /// Stamps a reply, which never waits for its interface.
    #[cold]
    pub(crate) fn delay_reply(
        &mut self,
        message: &OutgoingMessage<'_>,
        remote: bool,
    ) -> StampedWords {
        let scope = if remote { KnobScope::Net } else { KnobScope::Shm };
        debug_assert!(self.emulates(), "messages are delayed on purpose");
        debug_assert!(!remote || self.context.network().is_some(), "another node, no network");
        let Self { context, emulation, .. } = self;
        let emulation = emulation.get_or_insert_default();
        if !emulation.on {
            return StampedWords::of(message, 0);
        }
        emulation.reply(context.emulated(), message, scope)
    }

    /// Charges a reply to its sender, and records it.
    pub(crate) fn charge_reply(
        &self,
        actor: &Actor,
        to: Name,
        message: &OutgoingMessage<'_>,
    ) -> StampedWords {
        let began = actor.enter(CallKind::Send);
        let record = actor.begin_reply();
        actor.send(record, actor.number_of(to), message.charged_bytes(), self.role(false));
        if began {
            actor.begin_part();
        }
        StampedWords::numbered(message, record.number())
    }

    /// Notes that a request is not tried again from its beginning: it was sent, or has begun, or is
    /// given up.
    pub(crate) fn note_sent(&mut self, to: Name, message: &OutgoingMessage<'_>) {
        debug_assert!(message.kind != MessageKind::Returned, "a request");
        if let Some(emulation) = &mut self.emulation {
            emulation.sent(to, message);
        }
    }

    /// Notes that messages wait, or no longer do.
    pub(crate) fn note_delayed(&mut self) {
        self.backlog.delayed = self.emulation.as_ref().is_some_and(|knobs| knobs.is_waiting());
        self.backlog.busy |= self.backlog.delayed;
        debug_assert!(!self.backlog.delayed || self.backlog.busy, "polls look for what is due");
    }
}
