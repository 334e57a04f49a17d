//! Long messages: packed a little at a time, so that the first packets are sent before the rest is
//! packed.

use super::{Connection, MAX_WAITING, PacketSink};
use crate::outbox::{MessageBody, Progress};
use clump_proto::Nanos;
use clump_wire::SendResult;

/// Bytes that are packed ahead of the window before the window is checked again.
const STEP: usize = 64 << 10;

/// A long message, or the fragment of it that is available.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LongBody<'a> {
    pub(crate) body: MessageBody<'a>,
    pub(crate) ordered: bool,
}

impl Connection {
    /// Returns the body of a message with its number, if it begins and asks for order: only the
    /// frame that begins the message has one.
    fn numbered<'a>(&mut self, message: &LongBody<'a>, progress: &Progress) -> MessageBody<'a> {
        let LongBody { mut body, ordered } = *message;
        debug_assert!(body.head.order.is_none(), "the connection numbers ordered messages");
        let begins = *progress == Progress::default();
        debug_assert!(begins || progress.message.is_some(), "what was begun has its number");
        body.head.order = self.tx.take_order(ordered && begins);
        body
    }

    /// Sends a long request, or as much of it as there is room for; `progress` tells how much.
    /// Accepted once everything is packed.
    pub(crate) fn send_long(
        &mut self,
        now: impl Fn() -> Nanos,
        message: &LongBody<'_>,
        progress: &mut Progress,
        sink: &mut PacketSink<'_>,
    ) -> SendResult {
        let size = (&message.body.head, message.body.payload.total);
        if self.takes_long_stream(&now, size, progress, sink) {
            return self.send_records(now, message, progress, sink);
        }
        debug_assert!(self.tx.has_room(), "the caller asks for room");
        let (body, mut all) = (self.numbered(message, progress), false);
        while !all {
            let (at, before) = (now(), progress.done);
            self.tx.note_opening(at);
            let goes_on = self.feed(at, sink, |outbox| {
                all = all || outbox.append_some(&body, progress, 1);
            });
            if !all && !goes_on {
                // Fragments beyond the window are packed ahead, while its acknowledgements come.
                let waiting = self.tx.outbox.waiting();
                if waiting >= MAX_WAITING {
                    return SendResult::Full;
                }
                let most = STEP.min(MAX_WAITING - waiting);
                all = self.tx.outbox.append_some(&body, progress, most);
            }
            debug_assert!(progress.done >= before, "nothing is packed twice");
        }
        self.kick(now(), false, sink);
        SendResult::Sent
    }

    /// Packs the next fragment of a long message, all of it.
    pub(crate) fn relay_long(
        &mut self,
        now: impl Fn() -> Nanos,
        message: &LongBody<'_>,
        progress: &mut Progress,
        sink: &mut PacketSink<'_>,
    ) -> SendResult {
        let size = (&message.body.head, message.body.payload.total);
        if self.takes_long_stream(&now, size, progress, sink) {
            if !self.make_record_room(now(), sink) {
                return SendResult::Full;
            }
            return self.send_all_records(now, message, progress, sink);
        }
        if !self.tx.has_room() {
            self.kick(now(), false, sink);
            return SendResult::Full;
        }
        let body = self.numbered(message, progress);
        let end = body.payload.at + body.payload.bytes.len();
        let first = !self.tx.outbox.has_waiting();
        let all = self.tx.outbox.append_some(&body, progress, usize::MAX);
        debug_assert!(progress.done >= end, "all of it is packed");
        debug_assert!(all == (end == body.payload.total), "the last fragment ends the message");
        let at = now();
        if first {
            self.tx.opened_at = at;
        }
        self.kick(at, false, sink);
        SendResult::Sent
    }
}
