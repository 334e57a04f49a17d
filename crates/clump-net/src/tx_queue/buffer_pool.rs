//! Send buffers of one kind: the one being filled, those before it that are still needed, and those
//! kept for reuse.

use super::send_buffer::{BufferRange, HEADROOM, PoolKind, SendBuffer};
use clump_wire::Append;
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
    kind: PoolKind,
    /// Send buffers that are needed, and the number of the first. The last is the one being filled.
    send_buffers: Vec<SendBuffer>,
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
    pub(super) fn new(kind: PoolKind, capacity: usize, tail: usize, zero_copy: bool) -> Self {
        Self {
            kind,
            send_buffers: Vec::new(),
            first: 0,
            spare: VecDeque::new(),
            spare_bytes: 0,
            grows_to: 0,
            capacity,
            tail,
            zero_copy,
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
        self.send_buffers.iter().map(|buffer| buffer.units as usize).sum()
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
        self.capacity = capacity;
        self.spare.clear();
        self.spare_bytes = 0;
    }

    /// Returns the packet at a place.
    #[inline]
    pub(super) fn packet(&self, place: BufferRange) -> Option<&[u8]> {
        let at = place.send_buffer.wrapping_sub(self.first) as usize;
        self.send_buffers.get(at)?.memory.get(place.at, place.end + self.tail)
    }

    /// Returns the packet at a place, to be filled in.
    #[inline]
    pub(super) fn packet_mut(&mut self, place: BufferRange) -> Option<&mut [u8]> {
        let at = place.send_buffer.wrapping_sub(self.first) as usize;
        self.send_buffers.get_mut(at)?.memory.get_mut(place.at, place.end + self.tail)
    }

    /// Returns the send buffer being filled: that of the unit that was begun last.
    #[inline]
    pub(super) fn filling(&mut self) -> Option<&mut SendBuffer> {
        self.send_buffers.last_mut()
    }

    /// Returns true if the send buffer being filled has room for another unit.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.send_buffers.last().is_some_and(|last| last.has_room(self.capacity, self.tail))
    }

    /// Begins a packet: behind the last one, or in a new send buffer. Returns its offset.
    #[inline]
    pub(super) fn begin(&mut self) -> usize {
        if !self.has_room() {
            self.next_buffer();
        }
        debug_assert!(self.has_room(), "a new buffer holds a unit");
        let Some(last) = self.filling() else { return 0 };
        // The header is written when the packet is sealed.
        last.memory.reserve(HEADROOM);
        last.units += 1;
        last.memory.len() - HEADROOM
    }

    /// Ends the packet that begins at `at`; returns its place.
    #[inline]
    pub(super) fn finish(&mut self, at: usize) -> BufferRange {
        let (pool, tail) = (self.kind, self.tail);
        let send_buffer = self.first + self.send_buffers.len().saturating_sub(1) as u64;
        let end = self.filling().map_or(0, |last| last.memory.len());
        debug_assert!(end > at + HEADROOM, "a packet holds a unit");
        if let Some(last) = self.filling() {
            last.memory.reserve(tail);
            debug_assert!(last.memory.len() <= last.capacity(), "a unit does not outgrow it");
        }
        BufferRange { pool, send_buffer, at, end }
    }

    /// Keeps a whole packet behind the one before it; returns its place.
    pub(super) fn keep(&mut self, packet: &[u8]) -> BufferRange {
        debug_assert!(packet.len() > HEADROOM + self.tail, "a packet with its tag");
        let (at, tail) = (self.begin(), self.tail);
        if let Some(last) = self.filling() {
            last.memory.truncate(at);
            last.memory.append(packet.len(), |free| free.append(packet));
            last.memory.truncate(at + packet.len() - tail);
        }
        let place = self.finish(at);
        debug_assert!(place.end + tail - at == packet.len(), "as a whole");
        place
    }

    #[cold]
    fn next_buffer(&mut self) {
        let (number, needed) = (self.first + self.send_buffers.len() as u64, self.needed_bytes());
        let spare = if !self.zero_copy {
            // The most recently released buffer, which the cache is likely to hold.
            self.spare.pop_back()
        } else if self.spare_bytes + needed < self.grows_to && number.is_multiple_of(GROWING) {
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
        if let Some(unused) = self.send_buffers.pop_if(|last| last.units == 0) {
            self.recycle(unused);
        }
        self.send_buffers.push(fresh);
        debug_assert!(self.has_room(), "the next unit lies in it");
    }

    /// Returns the bytes of buffers that are needed.
    fn needed_bytes(&self) -> usize {
        self.send_buffers.iter().map(SendBuffer::capacity).sum()
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

    /// Releases the unit at a place.
    #[inline]
    pub(super) fn release(&mut self, place: BufferRange) {
        let at = place.send_buffer.wrapping_sub(self.first) as usize;
        let Some(send_buffer) = self.send_buffers.get_mut(at) else {
            clump_bug::bug!("units in use keep their send buffers");
            return;
        };
        debug_assert!(send_buffer.units > 0, "each unit is released once");
        send_buffer.units = send_buffer.units.saturating_sub(1);
        debug_assert!(place.end + self.tail <= send_buffer.memory.len(), "it lay there");
        while self.send_buffers.len() > 1
            && self.send_buffers.first().is_some_and(|first| first.units == 0)
        {
            self.first += 1;
            let unused = self.send_buffers.remove(0);
            self.recycle(unused);
        }
        if let Some(last) = self.filling().filter(|last| last.units == 0) {
            last.clear();
        }
    }

    /// Gives up all send buffers. Their numbers go on.
    pub(super) fn clear(&mut self) {
        self.first += self.send_buffers.len() as u64;
        self.send_buffers = Vec::new();
        (self.spare, self.spare_bytes) = (VecDeque::new(), 0);
        debug_assert!(self.spare_bytes() == 0 && !self.has_room(), "the next unit gets a new one");
    }

    /// Gives back all send buffers; no unit needs one.
    pub(super) fn release_spare(&mut self) {
        if self.units() > 0 {
            clump_bug::bug!("buffers of units are kept");
            return;
        }
        self.clear();
    }

    /// Returns the bytes of send buffers that no unit needs.
    pub(super) fn spare_bytes(&self) -> usize {
        let unused = self.send_buffers.last().filter(|last| last.units == 0);
        let listed = self.send_buffers.capacity() + self.spare.capacity();
        self.spare_bytes + unused.map_or(0, SendBuffer::capacity) + listed * size_of::<SendBuffer>()
    }

    /// Returns true if these bytes lie in the buffer being filled.
    #[cfg(test)]
    pub(super) fn holds(&mut self, bytes: &[u8]) -> bool {
        let filling = self.filling().and_then(|last| last.memory.get(0, last.memory.len()));
        filling.is_some_and(|all| all.windows(bytes.len()).any(|window| window == bytes))
    }

    /// Asserts what always holds between calls.
    pub(super) fn check_invariants(&self) {
        let spare: usize = self.spare.iter().map(SendBuffer::capacity).sum();
        assert_eq!(self.spare_bytes, spare, "spare bytes are counted");
        assert!(self.spare.iter().all(|buffer| buffer.units == 0), "spare buffers are unused");
        let first = self.send_buffers.first().filter(|_| self.send_buffers.len() > 1);
        assert!(first.is_none_or(|buffer| buffer.units > 0), "the first buffer is needed");
        assert!(self.spare_bytes <= self.grows_to.max(SPARE), "memory is bounded");
        let clean = |buffer: &SendBuffer| buffer.memory.len() == 0;
        assert!(self.spare.iter().all(clean), "spare buffers hold nothing");
        assert!(self.grows_to <= MAX_SPARE, "growth is bounded");
    }
}
