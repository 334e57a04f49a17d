//! Messages on their way into units: at once, or a part at a time.

use super::{OpenUnit, TxQueue, is_control};
use crate::message_part::{MessagePart, Progress};
use clump_wire::Message;
use clump_wire::frame::{self, FrameHead, FrameKind, MessageFragment};

/// Least room for payload for which a message is begun in a packet that is not empty.
const MIN_FRAGMENT: usize = 256;

impl TxQueue {
    /// Packs a message: into the open unit, or a new one, or several, or the one that goes ahead.
    /// Returns true if a flush may be due: it is the first that waits, or a unit is whole, or one
    /// of control messages waits.
    #[inline]
    pub(crate) fn append(&mut self, message: &Message<'_>, order: Option<u64>) -> bool {
        let (first, units) = (self.waiting == 0, self.whole.len());
        let head = FrameHead { order, ..message.head() };
        debug_assert!(head.fragment.is_none(), "the queue cuts messages");
        // A few whole units are about to be sent anyway.
        let ahead = self.has_batch() && self.control_first && is_control(message, order);
        if !(ahead && self.append_control(&head, message.words)) {
            let need = self.need(&head, message.words.len(), message.payload.len());
            if need <= self.room() {
                self.put(&head, need, message.words, message.payload);
            } else {
                self.append_elsewhere(&head, message);
            }
        }
        debug_assert!(self.waiting > 0, "the message waits to be sent");
        first || self.whole.len() > units || self.control.is_some()
    }

    /// Returns the bytes that a frame takes in the open unit.
    #[inline]
    fn need(&self, head: &FrameHead, words: usize, payload: usize) -> usize {
        let same = self.open.is_some_and(|unit| unit.route == Some(head.route));
        frame::frame_bytes(head, same, words, payload)
    }

    /// Returns the bytes for which the open unit, or a new one, has room.
    #[inline]
    fn room(&self) -> usize {
        let taken = self.open.map_or(0, |unit| unit.bytes);
        self.memory.bulk.capacity() - taken
    }

    /// Appends a frame to the open unit, or to a new one.
    #[inline]
    fn put(&mut self, head: &FrameHead, need: usize, words: &[u64], payload: &[u8]) {
        debug_assert!(need == self.need(head, words.len(), payload.len()), "its bytes");
        debug_assert!(need <= self.room(), "the frame fits");
        let bulk = &mut self.memory.bulk;
        let new = || OpenUnit { at: bulk.begin(), bytes: 0, route: None };
        let unit = self.open.get_or_insert_with(new);
        let same = unit.route == Some(head.route);
        if let Some(buffer) = self.memory.bulk.filling() {
            buffer.memory.append(need, |free| frame::append(free, head, same, words, payload));
        }
        unit.bytes += need;
        self.waiting += need;
        debug_assert!(unit.bytes <= self.memory.bulk.capacity(), "a unit fits its datagram");
        if head.kind != FrameKind::Part {
            unit.route = Some(head.route);
        }
    }

    /// Packs a control message into the unit that goes ahead; returns false if that has no room.
    #[cold]
    fn append_control(&mut self, head: &FrameHead, words: &[u64]) -> bool {
        let (waits, most) = (self.control.unwrap_or(OpenUnit::NONE), self.memory.control_share());
        let same = waits.route == Some(head.route);
        let need = frame::frame_bytes(head, same, words.len(), 0);
        debug_assert!(head.order.is_none() && head.fragment.is_none(), "it may overtake others");
        if waits.bytes + need > most {
            return false;
        }
        let pool = &mut self.memory.control;
        let new = || OpenUnit { at: pool.begin(), ..OpenUnit::NONE };
        let unit = self.control.get_or_insert_with(new);
        if let Some(buffer) = self.memory.control.filling() {
            buffer.memory.append(need, |free| frame::append(free, head, same, words, &[]));
        }
        (unit.route, unit.bytes) = (Some(head.route), unit.bytes + need);
        self.waiting += need;
        debug_assert!(unit.bytes <= most, "bulk keeps its share");
        true
    }

    /// Packs a message for which the open unit has no room: into a new one, or several.
    fn append_elsewhere(&mut self, head: &FrameHead, message: &Message<'_>) {
        let (words, payload) = (message.words, message.payload);
        let need = frame::frame_bytes(head, false, words.len(), payload.len());
        let capacity = self.memory.bulk.capacity();
        let small = need <= capacity / 4 || payload.len() <= MIN_FRAGMENT;
        if need <= capacity && (small || self.room() < capacity / 4) {
            self.close();
            return self.put(head, need, words, payload);
        }
        let first = self.next_unit();
        let part = MessagePart::whole(message, head.order);
        let all = self.append_fragments(&part, &mut Progress::default(), usize::MAX);
        debug_assert!(all, "a message at hand is packed as a whole");
        if head.kind != FrameKind::Long {
            self.sent.on_span(first, self.next_unit());
        }
    }

    /// Packs a long message, or as much of it as is available and `most` bytes allow; returns true
    /// if that was all.
    pub(crate) fn append_part(
        &mut self,
        part: &MessagePart<'_>,
        progress: &mut Progress,
        most: usize,
    ) -> bool {
        let MessagePart { message, total, .. } = part;
        let need = frame::frame_bytes(&part.head(), false, message.words.len(), *total);
        debug_assert!(progress.done <= *total, "no more is packed than there is");
        let at_hand = message.payload.len() == *total;
        if at_hand && *progress == Progress::default() && need <= self.memory.bulk.capacity() {
            progress.done = *total;
            self.append(message, part.order);
            return true;
        }
        self.append_fragments(part, progress, most)
    }

    /// Packs as many fragments of a message as are available and `most` bytes of units allow;
    /// returns true if that was all.
    fn append_fragments(
        &mut self,
        part: &MessagePart<'_>,
        progress: &mut Progress,
        most: usize,
    ) -> bool {
        debug_assert!(progress.done <= part.total, "no more is packed than there is");
        debug_assert!(part.total > 0, "a payload is cut");
        let budget = self.waiting.saturating_add(most);
        let number = match progress.message {
            Some(number) => number,
            None => {
                let number = self.long_messages.take_number();
                self.begin(part, progress, number);
                number
            }
        };
        loop {
            let rest = part.rest(progress.done);
            if rest.is_empty() {
                break;
            }
            if self.waiting >= budget {
                return false;
            }
            debug_assert!(progress.done > 0 || part.at == 0, "its beginning was packed");
            let head = fragment_head(part.message.head(), number, progress.done);
            let overhead = frame::frame_bytes(&head, true, 0, 0);
            if self.room() < overhead + rest.len().min(MIN_FRAGMENT) {
                self.close();
            }
            let bytes = rest.len().min(self.room().saturating_sub(overhead) & !7);
            debug_assert!(bytes > 0, "a unit holds some payload");
            let Some(data) = rest.get(..bytes) else { break };
            self.put(&head, frame::frame_bytes(&head, true, 0, bytes), &[], data);
            progress.done += bytes;
            if self.room() < MIN_FRAGMENT && progress.done < part.total {
                // It need not wait for the next fragment to be sent.
                self.close();
            }
        }
        if progress.done < part.total {
            debug_assert!(progress.done >= part.end(), "all at hand");
            return false;
        }
        let last = self.next_unit();
        self.long_messages.end(number, last);
        true
    }

    /// Packs the frame that begins a message of several, with as much payload as fits.
    fn begin(&mut self, part: &MessagePart<'_>, progress: &mut Progress, number: u64) {
        debug_assert!(part.at == 0 && progress.done == 0, "a message begins with its beginning");
        let words = part.message.words;
        let fragment = Some(MessageFragment { message: number, at: part.total as u64 });
        let head = FrameHead { fragment, ..part.head() };
        if self.room() < frame::frame_bytes(&head, false, words.len(), MIN_FRAGMENT) {
            self.close();
        }
        let overhead = self.need(&head, words.len(), 0);
        let payload = part.rest(0);
        let bytes = payload.len().min(self.room().saturating_sub(overhead) & !7);
        debug_assert!(overhead <= self.room(), "head and words fit");
        debug_assert!(bytes.is_multiple_of(8) || bytes == payload.len(), "parts are of words");
        let need = self.need(&head, words.len(), bytes);
        self.put(&head, need, words, payload.get(..bytes).unwrap_or_default());
        *progress = Progress { done: bytes, message: Some(number) };
        if head.kind == FrameKind::Long {
            let begun = part.without_payload().message;
            self.long_messages.begin(begun, number);
        }
    }

    /// Packs the end of a long message whose sender is gone: the peer learns where it ends.
    fn append_end(&mut self, head: FrameHead, number: u64, done: usize) {
        let end = fragment_head(head, number, done);
        if self.room() < frame::frame_bytes(&end, true, 0, 0) {
            self.close();
        }
        debug_assert!(head.kind == FrameKind::Long, "only long messages are abandoned");
        self.put(&end, frame::frame_bytes(&end, true, 0, 0), &[], &[]);
        let last = self.next_unit();
        self.long_messages.end(number, last);
    }

    /// Abandons a long message whose sender is gone.
    pub(crate) fn abandon(&mut self, progress: Progress) {
        let Some(begun) = self.long_messages.unended(progress.message) else { return };
        let (head, number) = (begun.message.message().head(), begun.number);
        debug_assert!(progress.done > 0, "it was begun");
        self.append_end(head, number, progress.done);
    }

    /// Packs a part of a message that was to go elsewhere.
    pub(crate) fn append_untaken(&mut self, part: &MessagePart<'_>) {
        let MessagePart { message, at, number, .. } = *part;
        let Some(number) = number else {
            self.append(&message, part.order);
            return;
        };
        if at > 0 && message.payload.is_empty() {
            return self.append_end(message.head(), number, at);
        }
        let mut progress = Progress { done: at, message: Some(number) };
        if at == 0 {
            self.begin(part, &mut progress, number);
        }
        let all = self.append_fragments(part, &mut progress, usize::MAX);
        debug_assert!(progress.done == part.end(), "all of the part is packed");
        debug_assert!(all == (progress.done == part.total), "the last part ends the message");
    }
}

/// Returns the head of the fragment at an offset of a message.
fn fragment_head(head: FrameHead, number: u64, at: usize) -> FrameHead {
    let fragment = Some(MessageFragment { message: number, at: at as u64 });
    FrameHead { kind: FrameKind::Part, order: None, fragment, ..head }
}
