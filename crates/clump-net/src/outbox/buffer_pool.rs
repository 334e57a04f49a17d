//! Send buffers of one kind: the one being filled, those before it that are still needed, and those
//! kept for reuse.

use super::layout::HEADROOM;
use super::send_buffer::{BufferRange, SendBuffer};
use std::collections::VecDeque;

/// Bytes of send buffers kept for reuse, of those in flight at one time.
const SPARE: usize = 1 << 20;
/// Most bytes that zero-copy send buffers may grow to.
const MAX_SPARE: usize = 4 << 20;
/// Until the pool has grown, one in so many send buffers is new, so that only long streams have all
/// of them.
const GROWING: u64 = 4;

/// A pool of send buffers, numbered consecutively.
#[derive(Debug)]
pub(super) struct BufferPool {
    /// The send buffer being filled, those before it that are still needed, and the number of the
    /// first.
    send_buffer: SendBuffer,
    send_buffers: VecDeque<SendBuffer>,
    first: u64,
    spare: VecDeque<SendBuffer>,
    spare_bytes: usize,
    /// Zero-copy buffers become more than are needed until they have so many bytes: a reused one
    /// has then left the caches of the core that received it when it is filled again. Taking every
    /// line of it away from there costs five times as much (ADR 22).
    grows_to: usize,
    capacity: usize,
    tail: usize,
    /// True if the kernel may read the buffers (zero-copy).
    zero_copy: bool,
}

impl BufferPool {
    /// Creates a pool for units of at most `capacity` bytes with `tail` bytes behind each.
    /// `zero_copy`: the kernel may read them in place.
    pub(super) fn new(capacity: usize, tail: usize, zero_copy: bool) -> Self {
        Self {
            zero_copy,
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

    /// Lets zero-copy buffers grow up to so many bytes.
    pub(super) fn set_growth(&mut self, bytes: usize) {
        self.grows_to = bytes.min(MAX_SPARE);
        while self.spare_bytes > self.grows_to.max(SPARE)
            && let Some(send_buffer) = self.spare.pop_back()
        {
            debug_assert!(self.spare_bytes >= send_buffer.capacity(), "counted");
            self.spare_bytes -= send_buffer.capacity();
        }
    }

    /// Returns the number of units that need a buffer of the pool.
    pub(super) fn units(&self) -> usize {
        let all = self.send_buffers.iter().chain([&self.send_buffer]);
        all.map(|buffer| buffer.units as usize).sum()
    }

    /// Returns the largest size of a unit.
    #[inline]
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the number of bytes behind a unit.
    #[inline]
    pub(super) fn tail(&self) -> usize {
        self.tail
    }

    /// Sets the largest size of a unit from now on.
    pub(super) fn set_capacity(&mut self, capacity: usize) {
        debug_assert!(capacity > 0, "units hold something");
        debug_assert!(capacity.is_multiple_of(8), "frames begin at multiples of 8");
        self.capacity = capacity;
        self.spare.clear();
        self.spare_bytes = 0;
    }

    /// Returns the send buffer being filled.
    #[inline]
    pub(super) fn filling(&self) -> &SendBuffer {
        &self.send_buffer
    }

    /// Returns the send buffer being filled, mutably.
    #[inline]
    pub(super) fn filling_mut(&mut self) -> &mut SendBuffer {
        &mut self.send_buffer
    }

    /// Returns the send buffer of that number.
    #[inline]
    pub(super) fn get(&self, send_buffer: u64) -> Option<&SendBuffer> {
        let at = usize::try_from(send_buffer.checked_sub(self.first)?).ok()?;
        if at == self.send_buffers.len() {
            Some(&self.send_buffer)
        } else {
            self.send_buffers.get(at)
        }
    }

    /// Returns the send buffer of that number, mutably.
    #[inline]
    pub(super) fn get_mut(&mut self, send_buffer: u64) -> Option<&mut SendBuffer> {
        let at = usize::try_from(send_buffer.checked_sub(self.first)?).ok()?;
        if at == self.send_buffers.len() {
            Some(&mut self.send_buffer)
        } else {
            self.send_buffers.get_mut(at)
        }
    }

    /// Returns true if the send buffer being filled has room for another unit.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.send_buffer.has_room(self.capacity, self.tail)
    }

    /// Begins a packet: behind the last one, or in a new send buffer; returns its offset.
    #[inline]
    pub(super) fn begin(&mut self) -> usize {
        if !self.has_room() {
            self.next_buffer();
        }
        debug_assert!(self.has_room(), "a new buffer holds a unit");
        self.send_buffer.begin()
    }

    /// Returns the number of the send buffer being filled.
    #[inline]
    pub(super) fn number(&self) -> u64 {
        self.first + self.send_buffers.len() as u64
    }

    /// Ends the packet that begins at `at`.
    #[inline]
    pub(super) fn finish(&mut self, at: usize) -> BufferRange {
        let number = self.number();
        debug_assert!(self.get(number).is_some(), "the buffer is found by its number");
        let place = self.send_buffer.finish(number, at, self.tail);
        debug_assert!(self.send_buffer.holds_all(), "a unit does not outgrow its buffer");
        place
    }

    fn next_buffer(&mut self) {
        let there = self.spare_bytes + (self.send_buffers.len() + 1) * self.send_buffer.capacity();
        let spare = if !self.zero_copy {
            // The most recently released buffer, which the cache is likely to hold.
            self.spare.pop_back()
        } else if there < self.grows_to && self.number().is_multiple_of(GROWING) {
            None
        } else {
            self.spare.pop_front()
        };
        let fresh = match spare {
            Some(send_buffer) => {
                debug_assert!(send_buffer.units == 0, "spare buffers are unused");
                self.spare_bytes -= send_buffer.capacity();
                send_buffer
            }
            None => SendBuffer::new(self.capacity, self.tail),
        };
        debug_assert!(fresh.has_room(self.capacity, self.tail), "a new buffer holds a unit");
        let (full, number) = (std::mem::replace(&mut self.send_buffer, fresh), self.number());
        if full.units > 0 {
            self.send_buffers.push_back(full);
        } else {
            self.recycle(full);
        }
        debug_assert!(self.number() - number <= 1, "numbers are consecutive");
    }

    /// Keeps a send buffer that is not needed any more for reuse.
    #[inline]
    fn recycle(&mut self, mut send_buffer: SendBuffer) {
        debug_assert!(send_buffer.units == 0, "nothing needs it");
        let room = send_buffer.capacity();
        let least = HEADROOM + self.capacity + self.tail;
        if room >= least && self.spare_bytes + room <= self.grows_to.max(SPARE) {
            send_buffer.clear();
            self.spare_bytes += room;
            self.spare.push_back(send_buffer);
        }
        debug_assert!(self.spare_bytes <= self.grows_to.max(SPARE), "memory is bounded");
    }

    /// Releases a unit of this send buffer.
    #[inline]
    pub(super) fn release(&mut self, send_buffer: u64) {
        let Some(send_buffer) = self.get_mut(send_buffer) else {
            clump_bug::bug!("units in use keep their send buffers");
            return;
        };
        debug_assert!(send_buffer.units > 0, "each unit is released once");
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

    /// Gives up all send buffers.
    pub(super) fn clear(&mut self) {
        (self.send_buffer, self.send_buffers) = (SendBuffer::default(), VecDeque::new());
        (self.spare, self.spare_bytes) = (VecDeque::new(), 0);
    }

    /// Gives back all send buffers; no unit needs one. Their numbers go on.
    pub(super) fn release_spare(&mut self) {
        if self.units() > 0 {
            clump_bug::bug!("buffers of units are kept");
            return;
        }
        let number = self.number();
        self.clear();
        self.first = number;
        debug_assert!(self.spare_bytes() == 0 && !self.has_room(), "the next unit gets a new one");
    }

    /// Returns the bytes of send buffers that no unit needs.
    pub(super) fn spare_bytes(&self) -> usize {
        let filling = if self.send_buffer.units == 0 { self.send_buffer.capacity() } else { 0 };
        let listed = self.send_buffers.capacity() + self.spare.capacity();
        self.spare_bytes + filling + listed * size_of::<SendBuffer>()
    }

    /// Asserts what always holds between calls.
    pub(super) fn check_invariants(&self) {
        let spare: usize = self.spare.iter().map(SendBuffer::capacity).sum();
        assert_eq!(self.spare_bytes, spare, "spare bytes are counted");
        assert!(self.spare.iter().all(|buffer| buffer.units == 0), "spare buffers are unused");
        let first = self.send_buffers.front();
        assert!(first.is_none_or(|buffer| buffer.units > 0), "the first buffer is needed");
        assert!(self.spare_bytes <= self.grows_to.max(SPARE), "memory is bounded");
        let clean = |buffer: &SendBuffer| buffer.packets().is_empty();
        assert!(self.spare.iter().all(clean), "spare buffers hold nothing");
        assert!(self.grows_to <= MAX_SPARE, "growth is bounded");
    }
}
