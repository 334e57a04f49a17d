//! Outgoing data of one peer: frames packed into units, units waiting, units in flight.
//!
//! Units lie in send buffers, with room for a header before each and a checksum behind it, so that
//! a packet that is not encrypted is never copied again.

mod buffer_pool;
mod in_flight;
mod pieces;
mod sealed_buffers;
mod send_buffer;
mod undelivered;
mod urgent;

use crate::seal::Sealer;
use buffer_pool::BufferPool;
use clump_wire::frame::{self, FrameHead, FrameKind, Frames, Route};
use in_flight::InFlightUnit;
use sealed_buffers::SealedBuffers;
pub(crate) use send_buffer::BufferRange;
use std::collections::VecDeque;
use undelivered::UndeliveredMessages;
use urgent::UrgentUnit;
pub(crate) use urgent::is_control;

/// Least room for payload for which a message is begun in a packet that is not empty.
const MIN_PIECE: usize = 256;
/// Bytes of units from which on one call of the driver costs much less per unit than a call for
/// each.
const MAX_BATCH: usize = 16 << 10;
/// Room before a unit, and the largest room behind it.
const HEADROOM: usize = clump_wire::HEADER_BYTES;
const TAILROOM: usize = 16;

/// A long message in flight: the data to return if it does not arrive.
#[derive(Debug, Clone)]
struct LongMessage {
    head: FrameHead,
    words: Vec<u64>,
    message: u64,
    /// The last unit that holds a fragment of it; `None` while more fragments follow.
    last: Option<u64>,
}

/// Progress of a long message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes packed so far.
    pub done: usize,
    /// The number it was given when it began.
    pub message: Option<u64>,
}

/// The available fragment of a payload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PayloadFragment<'a> {
    /// Bytes of the whole payload.
    pub(crate) total: usize,
    /// Offset of `bytes` in the payload.
    pub(crate) at: usize,
    /// The available bytes.
    pub(crate) bytes: &'a [u8],
}

impl<'a> PayloadFragment<'a> {
    /// Wraps a payload that is available as a whole.
    pub(crate) fn whole(bytes: &'a [u8]) -> Self {
        Self { total: bytes.len(), at: 0, bytes }
    }

    /// Returns the available bytes from offset `from` of the payload on.
    fn rest(&self, from: usize) -> &'a [u8] {
        let behind = from.checked_sub(self.at).and_then(|from| self.bytes.get(from..));
        behind.unwrap_or_default()
    }
}

/// A message that was not acknowledged when its peer was lost.
#[derive(Debug)]
pub(crate) struct Unsent {
    pub(crate) head: FrameHead,
    pub(crate) words: Vec<u64>,
    pub(crate) payload: Vec<u8>,
}

/// Outgoing units of one peer: the open one, those waiting, and those in flight.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// The send buffers of units.
    pool: BufferPool,
    /// Sealed packets of units, where sealing changes the bytes.
    covers: SealedBuffers,
    /// Offset in its send buffer of the unit that may still grow.
    open: Option<usize>,
    open_route: Option<Route>,
    closed: VecDeque<BufferRange>,
    /// Control messages that go ahead of `closed`.
    urgent: UrgentUnit,
    /// True if control messages go ahead.
    control_first: bool,
    units_in_flight: VecDeque<InFlightUnit>,
    /// Number of the first unit of `units_in_flight`.
    base: u64,
    /// All units below this are acknowledged.
    acked_through: u64,
    /// Messages of several units: first and last unit.
    spans: VecDeque<(u64, u64)>,
    begun: VecDeque<LongMessage>,
    waiting: usize,
    next_message: u64,
}

impl Outbox {
    /// Creates an outbox for units of at most `capacity` bytes, a multiple of 8, with `tail` bytes
    /// behind each. `covered`: sealing changes units, so that zero-copy packets are kept elsewhere.
    /// `control_first`: small messages go ahead of waiting units.
    pub(crate) fn new(capacity: usize, tail: usize, covered: bool, control_first: bool) -> Self {
        Self {
            urgent: UrgentUnit::default(),
            control_first,
            pool: BufferPool::new(capacity, tail, !covered),
            covers: SealedBuffers::new(capacity, tail),
            open: None,
            open_route: None,
            closed: VecDeque::new(),
            units_in_flight: VecDeque::new(),
            base: 0,
            acked_through: 0,
            spans: VecDeque::new(),
            begun: VecDeque::new(),
            waiting: 0,
            next_message: 0,
        }
    }

    /// Sets the bytes up to which zero-copy buffers may grow, however little of them is in flight.
    pub(crate) fn set_growth(&mut self, bytes: usize) {
        self.pool.set_growth(bytes);
        self.covers.set_growth(bytes);
    }

    /// Sets the longest unit, after the path's datagram size changed. Existing units stay as they
    /// are.
    pub(crate) fn set_capacity(&mut self, capacity: usize) {
        if capacity != self.pool.capacity() {
            self.close();
            self.pool.set_capacity(capacity);
            self.covers.set_capacity(capacity);
        }
    }

    /// Returns the bytes that wait to be sent for the first time.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns true if anything waits to be sent for the first time.
    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting != 0
    }

    /// Returns true if whole units wait, and enough of them for a call of the driver.
    #[inline]
    pub(crate) fn has_batch(&self) -> bool {
        self.waiting >= MAX_BATCH && self.has_whole()
    }

    /// Returns the number of whole units that wait.
    #[inline]
    pub(crate) fn whole_units(&self) -> usize {
        self.closed.len()
    }

    /// Returns true if a whole unit waits.
    #[inline]
    pub(crate) fn has_whole(&self) -> bool {
        !self.closed.is_empty()
    }

    /// Packs a message: into the open unit, or a new one, or several.
    #[inline]
    pub(crate) fn append(&mut self, head: &FrameHead, words: &[u64], payload: &[u8]) {
        // A few whole units are about to be sent anyway.
        if self.has_batch()
            && self.control_first
            && is_control(head, payload)
            && self.append_urgent(head, words)
        {
            return;
        }
        let same = self.open_route == Some(head.route);
        let need = frame::frame_bytes(head, same, words.len(), payload.len());
        if need <= self.room() {
            return self.put(head, same, words, payload);
        }
        self.append_elsewhere(head, words, payload);
    }

    fn append_elsewhere(&mut self, head: &FrameHead, words: &[u64], payload: &[u8]) {
        let need = frame::frame_bytes(head, false, words.len(), payload.len());
        let capacity = self.pool.capacity();
        let small = need <= capacity / 4 || payload.len() <= MIN_PIECE;
        if need <= capacity && (small || self.room() < capacity / 4) {
            self.close();
            return self.put(head, false, words, payload);
        }
        let mut progress = Progress::default();
        let first = self.next_unit();
        self.append_fragments(
            head,
            words,
            PayloadFragment::whole(payload),
            &mut progress,
            usize::MAX,
        );
        if head.kind != FrameKind::Long {
            self.spans.push_back((first, self.next_unit()));
        }
    }

    #[inline]
    fn room(&self) -> usize {
        match self.open {
            Some(at) => {
                (at + HEADROOM + self.pool.capacity()).saturating_sub(self.pool.filling().len())
            }
            None => self.pool.capacity(),
        }
    }

    #[inline]
    fn put(&mut self, head: &FrameHead, same: bool, words: &[u64], payload: &[u8]) {
        if self.open.is_none() {
            self.begin_unit();
        }
        let send_buffer = self.pool.filling_mut();
        let before = send_buffer.len();
        frame::append(send_buffer.end(), head, same, words, payload);
        self.waiting += send_buffer.len() - before;
        if head.kind != FrameKind::Part {
            self.open_route = Some(head.route);
        }
    }

    /// Returns the number of the open unit.
    fn next_unit(&self) -> u64 {
        self.base + (self.units_in_flight.len() + self.closed.len()) as u64
    }

    /// Returns the end of the data packed up to now: for [`Outbox::has_arrived_before`]. Units that
    /// go ahead are not counted, since they shift the numbers of others.
    pub(crate) fn end(&self) -> u64 {
        (self.next_unit() + u64::from(self.open.is_some())).saturating_sub(self.urgent.units())
    }

    /// Returns true if everything packed when [`Outbox::end`] returned `end` has been sent.
    pub(crate) fn has_sent_before(&self, end: u64) -> bool {
        let sent =
            (self.base + self.units_in_flight.len() as u64).saturating_sub(self.urgent.units());
        self.urgent.is_empty() && sent >= end
    }

    /// Returns true if everything packed when [`Outbox::end`] returned `end` has arrived.
    pub(crate) fn has_arrived_before(&self, end: u64) -> bool {
        self.urgent.is_empty() && self.acked_through >= end + self.urgent.units()
    }

    /// Closes the open unit, if it holds anything.
    pub(crate) fn close(&mut self) {
        if let Some(at) = self.open.take() {
            self.closed.push_back(self.pool.finish(at));
            self.open_route = None;
        }
    }

    /// Returns the bytes of the next unit to send for the first time; `None` if none is whole.
    #[inline]
    pub(crate) fn next_bytes(&self) -> Option<usize> {
        self.closed.front().map(BufferRange::bytes)
    }

    /// Moves the next whole unit to the units in flight.
    #[inline]
    pub(crate) fn launch(&mut self) {
        if let Some(place) = self.closed.pop_front() {
            self.urgent.on_bulk();
            self.waiting -= place.bytes();
            let number = self.base + self.units_in_flight.len() as u64;
            // A unit may hold the end of one message and the beginning of another: the last message
            // needs it longest.
            let covers = |&&(first, last): &&(u64, u64)| first <= number && number <= last;
            let span = self.spans.iter().rev().find(covers);
            let kept_for = span.map_or(number, |&(_, last)| last);
            self.units_in_flight.push_back(InFlightUnit::new(place, kept_for));
        }
    }

    /// Notes that unit `number` has arrived.
    #[inline]
    pub(crate) fn on_acked(&mut self, number: u64) {
        let at = number.checked_sub(self.base).and_then(|at| usize::try_from(at).ok());
        let Some(unit) = at.and_then(|at| self.units_in_flight.get_mut(at)) else { return };
        unit.acked = true;
        while self.acked_through < self.base + self.units_in_flight.len() as u64
            && self.is_acked(self.acked_through)
        {
            self.acked_through += 1;
        }
        self.recycle();
    }

    fn is_acked(&self, number: u64) -> bool {
        let at = number.checked_sub(self.base).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.units_in_flight.get(at)).is_none_or(|unit| unit.acked)
    }

    fn recycle(&mut self) {
        while let Some(front) = self.units_in_flight.front() {
            if !front.acked || front.kept_for >= self.acked_through {
                break;
            }
            let Some(done) = self.units_in_flight.pop_front() else { break };
            self.base += 1;
            if done.is_in_row() {
                self.pool.release(done.place.send_buffer);
            }
        }
        self.covers.release(self.base);
        while self.spans.front().is_some_and(|&(_, last)| last < self.base) {
            self.spans.pop_front();
        }
        while self
            .begun
            .front()
            .is_some_and(|begun| begun.last.is_some_and(|last| last < self.acked_through))
        {
            self.begun.pop_front();
        }
    }

    /// Returns the bytes in flight or waiting.
    pub(crate) fn bytes(&self) -> usize {
        self.waiting + self.units_in_flight.iter().map(|unit| unit.place.bytes()).sum::<usize>()
    }

    /// Takes every message that has not arrived whole, in the order in which they were sent, after
    /// the peer is lost. `arrived` tells which units have arrived; `sealer` made their packets.
    pub(crate) fn take_all(
        &mut self,
        sealer: &Sealer,
        arrived: impl Fn(u64) -> bool,
    ) -> Vec<Unsent> {
        self.close();
        for (number, unit) in (self.base..).zip(&mut self.units_in_flight) {
            unit.acked |= arrived(number);
        }
        let mut undelivered = UndeliveredMessages::new(std::mem::take(&mut self.begun));
        let (units_in_flight, closed) =
            (std::mem::take(&mut self.units_in_flight), std::mem::take(&mut self.closed));
        for unit in &units_in_flight {
            let body = self.body_of(unit, sealer).unwrap_or_default();
            for frame in Frames::new(&body).flatten() {
                undelivered.on_frame(&frame, unit.acked);
            }
        }
        for place in closed {
            let send_buffer = self.pool.get(place.send_buffer);
            let body =
                send_buffer.and_then(|send_buffer| send_buffer.get(place.at + HEADROOM, place.end));
            for frame in body.map(Frames::new).into_iter().flatten().flatten() {
                undelivered.on_frame(&frame, false);
            }
        }
        for frame in Frames::new(self.urgent.body()).flatten() {
            undelivered.on_frame(&frame, false);
        }
        self.urgent.clear();
        self.pool.clear();
        self.covers.clear();
        (self.waiting, self.spans) = (0, VecDeque::new());
        undelivered.finish()
    }
}
