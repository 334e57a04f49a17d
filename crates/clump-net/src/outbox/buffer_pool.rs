//! Rows of one kind: the one that is being filled, those before it that something still needs, and those kept for reuse.

use super::HEADROOM;
use super::send_buffer::{BufferRange, SendBuffer};
use std::collections::VecDeque;

/// Bytes of rows kept for reuse of those that were under way at one time.
const SPARE: usize = 1 << 20;
/// Most bytes that rows which are shown may grow to.
const MAX_SPARE: usize = 4 << 20;
/// Every so many rows that are begun one is new until there are so many, so that only long streams have them all.
const GROWING: u64 = 4;

/// See the module. Rows are numbered one by one.
#[derive(Debug)]
pub(super) struct BufferPool {
    /// The row that is being filled, those before it that something still needs, and the number of the first.
    send_buffer: SendBuffer,
    send_buffers: VecDeque<SendBuffer>,
    first: u64,
    spare: VecDeque<SendBuffer>,
    spare_bytes: usize,
    /// Rows that are shown become more than are needed until there are so many bytes: then one that comes back has left the
    /// caches of the core that received it when it is filled again. Taking every line of it away from there costs five
    /// times as much (ADR 22).
    grows_to: usize,
    capacity: usize,
    tail: usize,
    /// Others read what lies here.
    shown: bool,
}

impl BufferPool {
    /// For units of at most `capacity` bytes with `tail` bytes behind each. `shown`: the kernel may read them there.
    pub(super) fn new(capacity: usize, tail: usize, shown: bool) -> Self {
        Self {
            shown,
            send_buffer: SendBuffer::default(),
            send_buffers: VecDeque::new(),
            first: 0,
            spare: VecDeque::new(),
            spare_bytes: 0,
            grows_to: 0,
            capacity,
            tail,
        }
    }

    /// Rows that are shown become more until they are so many bytes.
    pub(super) fn set_growth(&mut self, bytes: usize) {
        self.grows_to = bytes.min(MAX_SPARE);
        while self.spare_bytes > self.grows_to.max(SPARE)
            && let Some(send_buffer) = self.spare.pop_back()
        {
            self.spare_bytes -= send_buffer.capacity();
        }
    }

    /// Most bytes of a unit.
    #[inline]
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes behind a unit.
    #[inline]
    pub(super) fn tail(&self) -> usize {
        self.tail
    }

    /// Units may be longer, or shorter, from now on.
    pub(super) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
        self.spare.clear();
        self.spare_bytes = 0;
    }

    /// The row that is being filled.
    #[inline]
    pub(super) fn filling(&self) -> &SendBuffer {
        &self.send_buffer
    }

    /// The same, to be filled.
    #[inline]
    pub(super) fn filling_mut(&mut self) -> &mut SendBuffer {
        &mut self.send_buffer
    }

    /// The row that is called `row`.
    #[inline]
    pub(super) fn get(&self, send_buffer: u64) -> Option<&SendBuffer> {
        let at = usize::try_from(send_buffer.checked_sub(self.first)?).ok()?;
        if at == self.send_buffers.len() {
            Some(&self.send_buffer)
        } else {
            self.send_buffers.get(at)
        }
    }

    /// The same, to be changed.
    #[inline]
    pub(super) fn get_mut(&mut self, send_buffer: u64) -> Option<&mut SendBuffer> {
        let at = usize::try_from(send_buffer.checked_sub(self.first)?).ok()?;
        if at == self.send_buffers.len() {
            Some(&mut self.send_buffer)
        } else {
            self.send_buffers.get_mut(at)
        }
    }

    /// Whether the row that is being filled takes another unit.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.send_buffer.has_room(self.capacity, self.tail)
    }

    /// Begins a packet: behind the last one, or in a row of its own; gives where.
    #[inline]
    pub(super) fn begin(&mut self) -> usize {
        if !self.has_room() {
            self.next_row();
        }
        self.send_buffer.begin()
    }

    /// Number of the row that is being filled.
    #[inline]
    pub(super) fn number(&self) -> u64 {
        self.first + self.send_buffers.len() as u64
    }

    /// Ends the packet that begins at `at`.
    #[inline]
    pub(super) fn finish(&mut self, at: usize) -> BufferRange {
        let number = self.number();
        self.send_buffer.finish(number, at, self.tail)
    }

    fn next_row(&mut self) {
        let there = self.spare_bytes + (self.send_buffers.len() + 1) * self.send_buffer.capacity();
        let spare = if !self.shown {
            // The one that came back last, which the cache is likely to hold.
            self.spare.pop_back()
        } else if there < self.grows_to && self.number().is_multiple_of(GROWING) {
            None
        } else {
            self.spare.pop_front()
        };
        let fresh = match spare {
            Some(send_buffer) => {
                self.spare_bytes -= send_buffer.capacity();
                send_buffer
            }
            None => SendBuffer::new(self.capacity, self.tail),
        };
        let full = std::mem::replace(&mut self.send_buffer, fresh);
        if full.units > 0 {
            self.send_buffers.push_back(full);
        } else {
            self.recycle(full);
        }
    }

    /// Keeps a row that nothing needs any more.
    #[inline]
    fn recycle(&mut self, mut send_buffer: SendBuffer) {
        let room = send_buffer.capacity();
        let least = HEADROOM + self.capacity + self.tail;
        if room >= least && self.spare_bytes + room <= self.grows_to.max(SPARE) {
            send_buffer.clear();
            self.spare_bytes += room;
            self.spare.push_back(send_buffer);
        }
    }

    /// A unit of this row is not needed any more.
    #[inline]
    pub(super) fn release(&mut self, send_buffer: u64) {
        let Some(send_buffer) = self.get_mut(send_buffer) else { return };
        send_buffer.units = send_buffer.units.saturating_sub(1);
        if send_buffer.units > 0 {
            return;
        }
        while self.send_buffers.front().is_some_and(|send_buffer| send_buffer.units == 0) {
            let Some(send_buffer) = self.send_buffers.pop_front() else { break };
            self.first += 1;
            self.recycle(send_buffer);
        }
        if self.send_buffer.units == 0 {
            self.send_buffer.clear();
        }
    }

    /// Gives up all rows but those kept for reuse.
    pub(super) fn clear(&mut self) {
        (self.send_buffer, self.send_buffers) = (SendBuffer::default(), VecDeque::new());
    }
}
