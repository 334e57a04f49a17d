//! Messages of several frames: the frame that begins them, and their fragments.

use super::{LongMessage, MIN_PIECE, Outbox, PayloadFragment, Progress};
use clump_wire::frame::{self, FrameHead, FrameKind, MessageFragment};

impl Outbox {
    /// Packs a long message, or as much of it as is available and `most` bytes allow; returns true
    /// if that was all.
    pub(crate) fn append_some(
        &mut self,
        head: &FrameHead,
        words: &[u64],
        payload: PayloadFragment<'_>,
        progress: &mut Progress,
        most: usize,
    ) -> bool {
        let bytes = payload.bytes;
        let whole = frame::frame_bytes(head, false, words.len(), payload.total);
        let at_hand = bytes.len() == payload.total;
        if at_hand && *progress == Progress::default() && whole <= self.pool.capacity() {
            progress.done = bytes.len();
            self.append(head, words, bytes);
            return true;
        }
        self.append_fragments(head, words, payload, progress, most)
    }

    /// Packs as many fragments of a message as are available and `most` bytes of units allow;
    /// returns true if that was all.
    pub(super) fn append_fragments(
        &mut self,
        head: &FrameHead,
        words: &[u64],
        payload: PayloadFragment<'_>,
        progress: &mut Progress,
        most: usize,
    ) -> bool {
        let budget = self.waiting.saturating_add(most);
        let message = match progress.message {
            Some(message) => message,
            None => self.begin(head, words, payload, progress),
        };
        loop {
            let rest = payload.rest(progress.done);
            if rest.is_empty() {
                break;
            }
            if self.waiting >= budget {
                return false;
            }
            let fragment = Some(MessageFragment { message, at: progress.done as u64 });
            let part = FrameHead { kind: FrameKind::Part, order: None, fragment, ..*head };
            let overhead = frame::frame_bytes(&part, true, 0, 0);
            if self.room() < overhead + rest.len().min(MIN_PIECE) {
                self.close();
            }
            let bytes = rest.len().min(self.room().saturating_sub(overhead) & !7);
            let Some(data) = rest.get(..bytes) else { break };
            self.put(&part, true, &[], data);
            progress.done += bytes;
            if self.room() < MIN_PIECE && progress.done < payload.total {
                // It need not wait for the next fragment to be sent.
                self.close();
            }
        }
        if progress.done < payload.total {
            return false;
        }
        let last = self.next_unit();
        let ended = self.begun.iter_mut().rev().find(|begun| begun.message == message);
        if let Some(begun) = ended {
            begun.last = Some(last);
        }
        true
    }

    /// Returns true if a long message is partly packed.
    #[inline]
    pub(super) fn is_packing(&self) -> bool {
        self.begun.back().is_some_and(|begun| begun.last.is_none())
    }

    /// Abandons a long message whose sender is gone. The peer is told where it ends.
    pub(crate) fn abandon(&mut self, progress: Progress) {
        let number = progress.message;
        let unended =
            |begun: &&mut LongMessage| begun.last.is_none() && Some(begun.message) == number;
        let Some(begun) = self.begun.iter_mut().find(unended) else { return };
        let fragment = Some(MessageFragment { message: begun.message, at: progress.done as u64 });
        let end = FrameHead { kind: FrameKind::Part, order: None, fragment, ..begun.head };
        if self.room() < frame::frame_bytes(&end, true, 0, 0) {
            self.close();
        }
        self.put(&end, true, &[], &[]);
        let last = self.next_unit();
        if let Some(begun) = self.begun.iter_mut().find(unended) {
            begun.last = Some(last);
        }
    }

    /// Packs the frame that begins a message of several, with as much payload as fits.
    fn begin(
        &mut self,
        head: &FrameHead,
        words: &[u64],
        payload: PayloadFragment<'_>,
        progress: &mut Progress,
    ) -> u64 {
        let message = self.next_message;
        self.next_message += 1;
        let fragment = Some(MessageFragment { message, at: payload.total as u64 });
        let first = FrameHead { fragment, ..*head };
        if self.room() < frame::frame_bytes(&first, false, words.len(), MIN_PIECE) {
            self.close();
        }
        let same = self.open_route == Some(head.route);
        let overhead = frame::frame_bytes(&first, same, words.len(), 0);
        let payload = payload.rest(0);
        let bytes = payload.len().min(self.room().saturating_sub(overhead) & !7);
        self.put(&first, same, words, payload.get(..bytes).unwrap_or_default());
        (progress.done, progress.message) = (bytes, Some(message));
        if head.kind == FrameKind::Long {
            let words = words.to_vec();
            self.begun.push_back(LongMessage { head: *head, words, message, last: None });
        }
        message
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot begin has failed")]

    use super::*;
    use clump_wire::frame::{Frames, Route};

    const HEAD: FrameHead = FrameHead {
        kind: FrameKind::Long,
        reply: false,
        handler: 1,
        route: Route { from: 1, to: 2, tag: 3 },
        order: None,
        fragment: None,
    };

    fn long(outbox: &mut Outbox, total: usize, at_hand: usize) -> Progress {
        let (words, bytes) = ([0, total as u64], vec![7; at_hand]);
        let mut progress = Progress::default();
        let payload_fragment = PayloadFragment { total, at: 0, bytes: &bytes };
        let all = outbox.append_some(&HEAD, &words, payload_fragment, &mut progress, usize::MAX);
        assert_eq!(all, total == at_hand);
        progress
    }

    fn send_all(outbox: &mut Outbox) {
        outbox.close();
        while outbox.has_whole() {
            let number = outbox.base + outbox.units_in_flight.len() as u64;
            outbox.launch();
            outbox.on_acked(number);
        }
    }

    #[test]
    fn what_is_abandoned_is_forgotten_and_holds_up_no_other() {
        let mut outbox = Outbox::new(1400, 4, false, true);
        let progress = long(&mut outbox, 100_000, 9_000);
        send_all(&mut outbox);
        assert_eq!(outbox.begun.len(), 1, "its parts may still come");
        outbox.abandon(progress);
        let begin = outbox.open.unwrap() + super::super::HEADROOM;
        let end =
            Frames::new(outbox.pool.filling().get(begin, outbox.pool.filling().len()).unwrap())
                .next();
        let end = end.unwrap().unwrap();
        let fragment = Some(MessageFragment { message: progress.message.unwrap(), at: 9_000 });
        assert_eq!(
            (end.head.kind, end.head.fragment, end.payload),
            (FrameKind::Part, fragment, &[][..])
        );
        long(&mut outbox, 50_000, 50_000);
        send_all(&mut outbox);
        assert_eq!((outbox.begun.len(), outbox.waiting()), (0, 0));
        // A second call has nothing to send.
        outbox.abandon(progress);
        assert!(!outbox.has_waiting());
    }
}
