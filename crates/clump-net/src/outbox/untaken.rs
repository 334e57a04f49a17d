//! Messages of a stream that is over: what it has not brought there is packed here.

use super::{MessageBody, Outbox, PayloadFragment, Progress};
use clump_wire::frame::FrameHead;

impl Outbox {
    /// Takes the number of a message of several frames or records.
    pub(crate) fn take_message_number(&mut self) -> u64 {
        self.long_messages.take_number()
    }

    /// Notes a long message that has begun elsewhere, and whose rest is packed here.
    pub(crate) fn adopt(&mut self, head: FrameHead, words: &[u64], message: u64) {
        self.long_messages.begin(head, words, message);
        debug_assert!(self.long_messages.unended(Some(message)).is_some(), "it goes on here");
    }

    /// Packs a part of a message that was to go elsewhere: bytes of the whole payload, offset, and
    /// the part's payload. `message` is its number if it has several parts.
    pub(crate) fn append_untaken(
        &mut self,
        (head, words): (FrameHead, &[u64]),
        (total, at, bytes): (usize, usize, &[u8]),
        message: Option<u64>,
    ) {
        let Some(number) = message else { return self.append(&head, words, bytes) };
        if at > 0 && bytes.is_empty() {
            self.units.append_end(&head, number, at);
            self.long_messages.end(number, self.next_unit());
            return self.count_waiting();
        }
        let body = MessageBody { head, words, payload: PayloadFragment { total, at, bytes } };
        let mut progress = Progress { done: at, message };
        if at == 0 {
            self.units.begin(&body, &mut progress, number, &mut self.long_messages);
        }
        let all = self.append_fragments(&body, &mut progress, usize::MAX);
        debug_assert!(progress.done == at + bytes.len(), "all of the part is packed");
        debug_assert!(all == (progress.done == total), "the last part ends the message");
    }
}
