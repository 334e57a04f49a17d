//! Long messages: packed a little at a time, so that the first packets are sent before the rest is
//! packed.

use super::{Connection, PacketSink};
use crate::message_part::{MessagePart, Progress};
use crate::tx_queue::MAX_WAITING;
use clump_proto::Nanos;
use clump_wire::SendResult;

/// Bytes that are packed ahead of the window before the window is checked again.
const STEP: usize = 64 << 10;

impl Connection {
    /// Returns a part with its message's number in the order of messages, if it begins one that
    /// asks for order: only the frame that begins the message has it.
    pub(super) fn numbered<'a>(
        &mut self,
        part: &MessagePart<'a>,
        ordered: bool,
        progress: &Progress,
    ) -> MessagePart<'a> {
        debug_assert!(part.order.is_none(), "the connection numbers ordered messages");
        let begins = *progress == Progress::default();
        debug_assert!(begins || progress.message.is_some(), "what was begun has its number");
        MessagePart { order: self.queue.take_order(ordered && begins), ..*part }
    }

    /// Sends a long request, or as much of it as there is room for; `progress` tells how much.
    /// Accepted once everything is packed.
    pub(crate) fn send_long(
        &mut self,
        now: impl Fn() -> Nanos,
        (part, ordered): (&MessagePart<'_>, bool),
        progress: &mut Progress,
        sink: &mut PacketSink<'_>,
    ) -> SendResult {
        if self.takes_long_stream(&now, part, progress, sink) {
            return self.send_records(now, (part, ordered), progress, sink);
        }
        debug_assert!(self.queue.waiting() < MAX_WAITING, "the caller asks for room");
        let (part, mut all) = (self.numbered(part, ordered, progress), false);
        while !all {
            let (at, before) = (now(), progress.done);
            self.queue.note_opening(at);
            let goes_on = self.feed(at, sink, |queue| {
                all = all || queue.append_part(&part, progress, 1);
            });
            if !all && !goes_on {
                // Fragments beyond the window are packed ahead, while its acknowledgements come.
                let waiting = self.queue.waiting();
                if waiting >= MAX_WAITING {
                    return SendResult::Full;
                }
                let most = STEP.min(MAX_WAITING - waiting);
                all = self.queue.append_part(&part, progress, most);
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
        (part, ordered): (&MessagePart<'_>, bool),
        progress: &mut Progress,
        sink: &mut PacketSink<'_>,
    ) -> SendResult {
        if self.takes_long_stream(&now, part, progress, sink) {
            if !self.make_record_room(now(), sink) {
                return SendResult::Full;
            }
            return self.send_all_records(now, (part, ordered), progress, sink);
        }
        if self.queue.waiting() >= MAX_WAITING {
            self.kick(now(), false, sink);
            return SendResult::Full;
        }
        let part = self.numbered(part, ordered, progress);
        let at = now();
        self.queue.note_opening(at);
        let all = self.queue.append_part(&part, progress, usize::MAX);
        debug_assert!(progress.done >= part.end(), "all of it is packed");
        debug_assert!(all == (part.end() == part.total), "the last fragment ends the message");
        self.kick(at, false, sink);
        SendResult::Sent
    }
}
