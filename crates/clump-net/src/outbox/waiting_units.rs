//! Units that wait to be sent for the first time: the one under construction, and whole ones.

use super::buffer_pool::BufferPool;
use super::layout::{HEADROOM, MIN_FRAGMENT};
use super::long_messages::LongMessages;
use super::message::{MessageBody, Progress};
use super::send_buffer::BufferRange;
use clump_wire::frame::{self, FrameHead, FrameKind, MessageFragment, Route};
use std::collections::VecDeque;

/// Units of bulk that wait, and the memory of all units.
#[derive(Debug)]
pub(super) struct WaitingUnits {
    /// The send buffers of units, waiting or in flight.
    pub(super) pool: BufferPool,
    /// Offset in its send buffer of the unit that may still grow.
    open: Option<usize>,
    open_route: Option<Route>,
    closed: VecDeque<BufferRange>,
    /// Bytes of all of them.
    bytes: usize,
}

impl WaitingUnits {
    pub(super) fn new(pool: BufferPool) -> Self {
        Self { pool, open: None, open_route: None, closed: VecDeque::new(), bytes: 0 }
    }

    /// Gives back all send buffers; no unit waits or is in flight.
    pub(super) fn release_spare(&mut self) {
        debug_assert!(self.bytes == 0, "what waits is kept");
        self.pool.release_spare();
        self.closed = VecDeque::new();
    }

    /// Returns the bytes that [`WaitingUnits::release_spare`] gives back.
    pub(super) fn spare_bytes(&self) -> usize {
        self.pool.spare_bytes() + self.closed.capacity() * size_of::<BufferRange>()
    }

    /// Returns the bytes that wait.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of whole units.
    #[inline]
    pub(super) fn whole(&self) -> usize {
        self.closed.len()
    }

    /// Returns true if a unit is open.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Returns the largest size of a unit.
    #[inline]
    pub(super) fn capacity(&self) -> usize {
        self.pool.capacity()
    }

    /// Returns true if the next frame has the route of the one before it in its unit.
    #[inline]
    pub(super) fn continues(&self, route: Route) -> bool {
        self.open_route == Some(route)
    }

    /// Returns the bytes for which the open unit, or a new one, has room.
    #[inline]
    pub(super) fn room(&self) -> usize {
        match self.open {
            Some(at) => (at + HEADROOM + self.capacity()).saturating_sub(self.pool.filling().len()),
            None => self.capacity(),
        }
    }

    /// Returns the number of units, open or whole, in the pool's buffers.
    pub(super) fn pool_units(&self) -> usize {
        self.closed.len() + usize::from(self.is_open())
    }

    /// Appends a frame to the open unit, or to a new one.
    #[inline]
    pub(super) fn put(&mut self, head: &FrameHead, same: bool, words: &[u64], payload: &[u8]) {
        debug_assert!(
            frame::frame_bytes(head, same, words.len(), payload.len()) <= self.room(),
            "the frame fits"
        );
        debug_assert!(!same || self.continues(head.route) || head.kind == FrameKind::Part);
        if self.open.is_none() {
            debug_assert!(self.open_route.is_none(), "a route is of an open unit");
            self.open = Some(self.pool.begin());
        }
        let send_buffer = self.pool.filling_mut();
        let before = send_buffer.len();
        frame::append(send_buffer, head, same, words, payload);
        debug_assert!(send_buffer.len() > before, "a frame has a head");
        self.bytes += send_buffer.len() - before;
        if head.kind != FrameKind::Part {
            self.open_route = Some(head.route);
        }
    }

    /// Closes the open unit, if it holds anything.
    pub(super) fn close(&mut self) {
        if let Some(at) = self.open.take() {
            let unit = self.pool.finish(at);
            debug_assert!(unit.bytes() > 0, "an open unit has a frame");
            debug_assert!(unit.bytes() <= self.bytes, "its bytes were counted");
            self.closed.push_back(unit);
            self.open_route = None;
        }
    }

    /// Returns the bytes of the first whole unit.
    #[inline]
    pub(super) fn next_bytes(&self) -> Option<usize> {
        self.closed.front().map(BufferRange::bytes)
    }

    /// Returns the bytes of the open unit.
    #[inline]
    pub(super) fn open_bytes(&self) -> Option<usize> {
        self.open.map(|at| self.pool.filling().len() - at - HEADROOM)
    }

    /// Takes the first whole unit; if there is none, the open one.
    #[inline]
    pub(super) fn take_next(&mut self) -> Option<BufferRange> {
        if self.closed.is_empty() {
            self.close();
        }
        let unit = self.closed.pop_front()?;
        debug_assert!(unit.bytes() <= self.bytes, "its bytes were counted");
        self.bytes -= unit.bytes();
        Some(unit)
    }

    /// Returns the bytes of whole units that are contiguous in one send buffer, if there are
    /// several.
    #[inline]
    pub(super) fn contiguous_bytes(&self) -> usize {
        if self.closed.len() < 2 {
            return 0;
        }
        let Some(first) = self.closed.front() else { return 0 };
        let count = self.closed.partition_point(|unit| unit.send_buffer <= first.send_buffer);
        debug_assert!(count > 0, "the first lies in its own buffer");
        let last = count.checked_sub(1).and_then(|last| self.closed.get(last));
        if count > 1 { last.map_or(0, |last| last.end - first.at) } else { 0 }
    }

    /// Returns true if the unit behind the next one lies, or will lie, in another send buffer.
    #[inline]
    pub(super) fn next_ends_buffer(&self) -> bool {
        match (self.closed.front(), self.closed.get(1)) {
            (Some(next), Some(behind)) => next.send_buffer != behind.send_buffer,
            (Some(_), None) => self.open.is_none() && !self.pool.has_room(),
            (None, _) => !self.pool.has_room(),
        }
    }

    /// Returns true if the next unit lies, or will lie, in another send buffer than `last`.
    #[inline]
    pub(super) fn turns_from(&self, last: Option<&BufferRange>) -> bool {
        match (self.closed.front(), last) {
            (Some(next), Some(last)) => next.send_buffer != last.send_buffer,
            _ => self.open.is_none() && !self.pool.has_room(),
        }
    }

    /// Packs as many fragments of a message as are available and `most` bytes of units allow;
    /// returns true if that was all. `sent` is the number of the first unit that waits.
    pub(super) fn append_fragments(
        &mut self,
        body: &MessageBody<'_>,
        progress: &mut Progress,
        (most, sent): (usize, u64),
        long_messages: &mut LongMessages,
    ) -> bool {
        let MessageBody { head, payload, .. } = body;
        debug_assert!(progress.done <= payload.total, "no more is packed than there is");
        let budget = self.bytes.saturating_add(most);
        let message = match progress.message {
            Some(message) => message,
            None => {
                let message = long_messages.take_number();
                self.begin(body, progress, message, long_messages)
            }
        };
        loop {
            let rest = payload.rest(progress.done);
            if rest.is_empty() {
                break;
            }
            if self.bytes >= budget {
                return false;
            }
            let fragment = Some(MessageFragment { message, at: progress.done as u64 });
            debug_assert!(progress.done > 0 || payload.at == 0, "its beginning was packed");
            let part = FrameHead { kind: FrameKind::Part, order: None, fragment, ..*head };
            let overhead = frame::frame_bytes(&part, true, 0, 0);
            if self.room() < overhead + rest.len().min(MIN_FRAGMENT) {
                self.close();
            }
            let bytes = rest.len().min(self.room().saturating_sub(overhead) & !7);
            debug_assert!(bytes > 0, "a unit holds some payload");
            let Some(data) = rest.get(..bytes) else { break };
            self.put(&part, true, &[], data);
            progress.done += bytes;
            if self.room() < MIN_FRAGMENT && progress.done < payload.total {
                // It need not wait for the next fragment to be sent.
                self.close();
            }
        }
        if progress.done < payload.total {
            debug_assert!(progress.done >= payload.at + payload.bytes.len(), "all at hand");
            return false;
        }
        long_messages.end(message, self.open_number(sent));
        true
    }

    /// Returns the number of the open unit, if `sent` is that of the first unit that waits.
    #[inline]
    pub(super) fn open_number(&self, sent: u64) -> u64 {
        sent + self.closed.len() as u64
    }

    /// Packs the frame that begins a message of several, with as much payload as fits.
    pub(super) fn begin(
        &mut self,
        body: &MessageBody<'_>,
        progress: &mut Progress,
        message: u64,
        long_messages: &mut LongMessages,
    ) -> u64 {
        let MessageBody { ref head, words, payload } = *body;
        debug_assert!(payload.at == 0 && progress.done == 0, "a message begins with its beginning");
        let fragment = Some(MessageFragment { message, at: payload.total as u64 });
        let first = FrameHead { fragment, ..*head };
        if self.room() < frame::frame_bytes(&first, false, words.len(), MIN_FRAGMENT) {
            self.close();
        }
        let same = self.continues(head.route);
        let overhead = frame::frame_bytes(&first, same, words.len(), 0);
        let payload = payload.rest(0);
        let bytes = payload.len().min(self.room().saturating_sub(overhead) & !7);
        debug_assert!(overhead <= self.room(), "head and words fit");
        debug_assert!(bytes.is_multiple_of(8) || bytes == payload.len(), "parts are of words");
        self.put(&first, same, words, payload.get(..bytes).unwrap_or_default());
        (progress.done, progress.message) = (bytes, Some(message));
        if head.kind == FrameKind::Long {
            long_messages.begin(*head, words, message);
        }
        message
    }

    /// Packs the end of a long message whose sender is gone. The peer is told where it ends.
    pub(super) fn append_end(&mut self, head: &FrameHead, message: u64, done: usize) {
        let fragment = Some(MessageFragment { message, at: done as u64 });
        let end = FrameHead { kind: FrameKind::Part, order: None, fragment, ..*head };
        if self.room() < frame::frame_bytes(&end, true, 0, 0) {
            self.close();
        }
        debug_assert!(head.kind == FrameKind::Long, "only long messages are abandoned");
        self.put(&end, true, &[], &[]);
        debug_assert!(self.is_open(), "the end waits to be sent");
    }

    /// Calls `visit` with the body of each unit, and gives all of them up.
    pub(super) fn take_all(&mut self, mut visit: impl FnMut(&[u8])) {
        self.close();
        debug_assert!(self.bytes == self.whole_bytes(), "all bytes are counted");
        for unit in std::mem::take(&mut self.closed) {
            let buffer = self.pool.get(unit.send_buffer);
            debug_assert!(buffer.is_some(), "waiting units keep their send buffers");
            if let Some(body) = buffer.and_then(|buffer| buffer.get(unit.at + HEADROOM, unit.end)) {
                visit(body);
            }
        }
        self.pool.clear();
        self.bytes = 0;
        debug_assert!(self.whole() == 0 && !self.is_open(), "nothing waits");
    }

    /// Asserts what always holds between calls.
    pub(super) fn check_invariants(&self) {
        let whole = self.whole_bytes();
        assert_eq!(self.bytes, whole + self.open_bytes().unwrap_or(0), "all bytes are counted");
        assert!(self.open.is_some() || self.open_route.is_none(), "a route is of an open unit");
        assert!(self.closed.iter().all(|unit| unit.bytes() > 0), "no unit is empty");
        let buffers = self.closed.iter().map(|unit| unit.send_buffer);
        assert!(buffers.is_sorted(), "units lie in the order of their buffers");
        let apart = self.closed.iter().zip(self.closed.iter().skip(1)).all(|(unit, next)| {
            unit.send_buffer < next.send_buffer || unit.end + self.pool.tail() <= next.at
        });
        assert!(apart, "units do not overlap");
        self.pool.check_invariants();
    }

    /// Returns the bytes of all whole units.
    fn whole_bytes(&self) -> usize {
        self.closed.iter().map(BufferRange::bytes).sum()
    }
}
