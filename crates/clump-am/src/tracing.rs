//! Events of messages in the trace of a rank (docs/adr/0043).
//!
//! A traced rank stamps its messages as one whose network is slower on purpose does
//! (docs/adr/0038), so that the paths of others cost nothing. A message is known by its sender and
//! the time in its stamp.

use crate::arrived_message::ArrivedMessage;
use crate::context::RankContext;
use crate::emulation::Delayed;
use crate::error::Result;
use crate::handler_context::HandlerContext;
use crate::handling::Handlers;
use crate::message::{MessageKind, OutgoingMessage, split_stamp};
use crate::reply_to::ReplyTo;
use crate::thread_number::this_track;
use clump_os::clock;
use clump_shm::name::Name;
use clump_shm::virtual_time::Actor;
use clump_trace::{EventKind, MessageClass};
use clump_wire::frame::FrameKind;

/// A handler that runs, of a message with a stamp.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HandlerRun {
    from: u32,
    class: MessageClass,
    sent: u32,
    begun_ns: u64,
}

impl HandlerRun {
    /// Begins with a message of rank `from`; `sent`: the time in its stamp.
    pub(crate) fn begin(from: u32, class: MessageClass, sent: u32) -> Self {
        Self { from, class, sent, begun_ns: clock::now_ns() }
    }

    /// Notes beginning and end.
    pub(crate) fn end(self, context: &RankContext) {
        let Some(trace) = context.trace() else { return };
        let Self { from, class, sent, begun_ns } = self;
        let now_ns = clock::now_ns();
        debug_assert!(begun_ns <= now_ns, "it ends after it began");
        let (track, of) = (this_track(), (from, class.to_detail(), sent));
        trace.note(begun_ns, EventKind::Handle, track, of);
        trace.note(now_ns, EventKind::HandleEnd, track, of);
    }
}

impl Delayed {
    /// Returns the sender.
    pub(crate) fn from(&self) -> Name {
        match self {
            Delayed::Local(message) => message.from,
            Delayed::Remote(message) => Name::from_bits(message.route.from),
        }
    }

    /// Returns the class of the message in traces, where time is virtual.
    pub(crate) fn class_in_virtual_time(&self, actor: &Actor) -> MessageClass {
        debug_assert!(matches!(self, Delayed::Local(_)), "all virtual nodes are one machine");
        MessageClass { remote: actor.is_far(self.from()), ..self.class() }
    }

    /// Returns the class of the message in traces.
    pub(crate) fn class(&self) -> MessageClass {
        match self {
            Delayed::Local(message) => {
                let bulk = message.kind != MessageKind::Short;
                MessageClass { reply: !message.request, remote: false, bulk }
            }
            Delayed::Remote(message) => {
                let short = message.kind == FrameKind::Short;
                MessageClass { reply: message.reply, remote: true, bulk: !short }
            }
        }
    }
}

impl HandlerContext {
    /// Returns true if messages carry stamps for the trace alone: none is delayed.
    pub(crate) fn only_traces(&self) -> bool {
        self.emulates()
            && self.context.trace().is_some()
            && self.emulation.as_ref().is_none_or(|knobs| !knobs.on && !knobs.is_waiting())
    }

    /// Records a message in flight to `to` since `sent_ns`, the time in its stamp.
    pub(crate) fn note_traced_send(
        &self,
        to: Name,
        message: &OutgoingMessage<'_>,
        (reply, remote): (bool, bool),
        sent_ns: u64,
    ) {
        let Some(trace) = self.context.trace() else { return };
        debug_assert!(sent_ns <= clock::now_ns(), "it was stamped before");
        let class = MessageClass { reply, remote, bulk: message.kind != MessageKind::Short };
        let bytes = message.words.len() * 8 + message.payload.len();
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let of = (to.rank(), class.to_send_detail(message.words.len()), bytes);
        trace.note(sent_ns, EventKind::Send, this_track(), of);
    }
}

impl Handlers {
    /// Handles a message of this node at once whose stamp serves the trace alone. `None`: it has
    /// no stamp, or may be delayed.
    ///
    /// # Errors
    /// As [`Handlers::handle`].
    #[cold]
    pub(crate) fn handle_traced(
        &mut self,
        handler_context: &mut HandlerContext,
        message: &ArrivedMessage<'_>,
        back: ReplyTo<'_>,
    ) -> Option<Result<bool>> {
        if !handler_context.only_traces() {
            return None;
        }
        let (stamp, words) = split_stamp(message.kind, message.words)?;
        let bulk = message.kind != MessageKind::Short;
        let class = MessageClass { reply: !message.request, remote: message.remote, bulk };
        let run = HandlerRun::begin(message.from.rank(), class, stamp.sent_units());
        let payload = message.payload.reborrow();
        let message = ArrivedMessage { handler: stamp.handler, words, payload, ..*message };
        debug_assert!(message.handler != 0, "its stamp named a handler");
        let done = self.handle(handler_context, &message, back);
        if !matches!(done, Ok(false)) {
            run.end(&handler_context.context);
        }
        Some(done)
    }
}

#[cfg(test)]
mod tests {
    use clump_shm::export::SegmentName;
    use clump_shm::rank::{HeapWait, WaitReason};
    use clump_trace::event::{AWAITED, waits_for};

    #[test]
    fn traces_name_each_reason_to_wait() {
        let segment = SegmentName::from_bits(0);
        let heap = WaitReason::Heap { what: HeapWait::Page, number: 0, holder: None };
        let reasons = [
            (WaitReason::Barrier { epoch: 1, missing: 2 }, "barrier"),
            (WaitReason::Condition, "condition"),
            (WaitReason::Message, "message"),
            (WaitReason::Room { peer: 3 }, "room"),
            (WaitReason::Collective { team: 0, seq: 4, peer: 5, call: 0 }, "collective"),
            (WaitReason::Leave, "leaving the job"),
            (WaitReason::Answer { node: Some(1) }, "answer"),
            (WaitReason::Lock { segment, offset: 0, holder: None }, "lock"),
            (WaitReason::Word { segment, offset: 0, from: None }, "word"),
            (WaitReason::Requests, "requests"),
            (WaitReason::Call { peer: 1 }, "call"),
            (heap, "shared memory"),
        ];
        assert_eq!(reasons.len() + 1, AWAITED.len(), "each but the unknown one");
        for (reason, name) in reasons {
            assert_eq!(waits_for(reason.number()), name, "{reason:?}");
        }
    }
}
