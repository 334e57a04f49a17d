//! Long messages: packed a little at a time, so that the first packets are sent before the rest is
//! packed.

use super::{Connection, MAX_WAITING, PacketSink, Pushed};
use crate::outbox::{PayloadFragment, Progress};
use clump_proto::Nanos;
use clump_wire::frame::FrameHead;

/// Bytes that are packed ahead of the window before the window is checked again.
const STEP: usize = 64 << 10;

/// A long message, or the fragment of it that is available.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LongBody<'a> {
    pub(crate) head: FrameHead,
    pub(crate) ordered: bool,
    pub(crate) words: &'a [u64],
    pub(crate) payload: PayloadFragment<'a>,
}

impl Connection {
    /// Returns true if a long message, or more of it, finds room.
    #[inline]
    pub(crate) fn has_long_room(&self) -> bool {
        self.tx.outbox.waiting() < MAX_WAITING
    }

    /// Sends a long request, or as much of it as there is room for; `progress` tells how much.
    /// Accepted once everything is packed.
    pub(crate) fn send_long(
        &mut self,
        now: impl Fn() -> Nanos,
        message: &LongBody<'_>,
        progress: &mut Progress,
        sink: &mut PacketSink<'_>,
    ) -> Pushed {
        debug_assert!(self.has_long_room(), "the caller asks for room");
        let LongBody { mut head, ordered, words, payload } = *message;
        // Only the frame that begins the message has a number.
        head.order = self.tx.take_order(ordered && *progress == Progress::default());
        let mut all = false;
        loop {
            let at = now();
            if !self.tx.outbox.has_waiting() {
                self.tx.opened_at = at;
            }
            let before = progress.done;
            let goes_on = self.feed(at, sink, |outbox| {
                all = all || outbox.append_some(&head, words, payload, progress, 1);
                !all
            });
            if !all && !goes_on {
                // Fragments beyond the window are packed ahead, while its acknowledgements come.
                let waiting = self.tx.outbox.waiting();
                if waiting >= MAX_WAITING {
                    return Pushed::Full;
                }
                let most = STEP.min(MAX_WAITING - waiting);
                all = self.tx.outbox.append_some(&head, words, payload, progress, most);
            }
            debug_assert!(progress.done >= before, "nothing is packed twice");
            if all {
                self.kick(now(), false, sink);
                return Pushed::Accepted;
            }
        }
    }

    /// Packs the next fragment of a long message, all of it.
    pub(crate) fn relay_long(
        &mut self,
        now: impl Fn() -> Nanos,
        message: &LongBody<'_>,
        progress: &mut Progress,
        sink: &mut PacketSink<'_>,
    ) -> Pushed {
        if !self.has_long_room() {
            self.kick(now(), false, sink);
            return Pushed::Full;
        }
        let LongBody { mut head, ordered, words, payload } = *message;
        head.order = self.tx.take_order(ordered && *progress == Progress::default());
        let first = !self.tx.outbox.has_waiting();
        let _ = self.tx.outbox.append_some(&head, words, payload, progress, usize::MAX);
        debug_assert!(progress.done >= payload.at + payload.bytes.len(), "all of it is packed");
        let at = now();
        if first {
            self.tx.opened_at = at;
        }
        self.kick(at, false, sink);
        Pushed::Accepted
    }
}
