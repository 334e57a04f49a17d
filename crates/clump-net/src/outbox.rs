//! Outgoing data of one peer: frames packed into units, and units waiting. Those in flight are
//! kept by the channel.
//!
//! Units lie in send buffers, with room for a header before each and a checksum behind it, so that
//! a packet that is not encrypted is never copied again.

mod buffer_memory;
mod buffer_pool;
mod control_unit;
mod flush_policy;
mod layout;
mod long_messages;
mod message;
mod packed_end;
mod sealed_buffers;
mod send_buffer;
mod sent_units;
mod undelivered;
mod unit;
mod untaken;
mod waiting_units;

use crate::seal::Sealer;
use buffer_pool::BufferPool;
use clump_driver::MIN_KEPT;
use clump_proto::Backlog;
use clump_wire::OwnedMessage;
use clump_wire::frame::{self, FrameHead, FrameKind, Frames};
use control_unit::ControlUnit;
pub(crate) use flush_policy::FlushPolicy;
use layout::MIN_FRAGMENT;
use long_messages::LongMessages;
pub use message::Progress;
use message::is_control;
pub(crate) use message::{MessageBody, PayloadFragment};
pub use packed_end::PackedEnd;
use sealed_buffers::SealedBuffers;
use sent_units::SentUnits;
use std::borrow::Cow;
use undelivered::UndeliveredMessages;
pub(crate) use unit::Unit;
use waiting_units::WaitingUnits;

/// Bytes of units from which on one call of the driver costs much less per unit than a call for
/// each.
const MAX_BATCH: usize = 16 << 10;

/// Outgoing units of one peer: those that wait, and the memory of all.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// Units of bulk that wait.
    units: WaitingUnits,
    /// Control messages that go ahead of them.
    control: ControlUnit,
    /// True if control messages go ahead.
    control_first: bool,
    sent: SentUnits,
    long_messages: LongMessages,
    /// Sealed packets of units, where sealing changes the bytes.
    sealed: SealedBuffers,
    waiting: usize,
}

impl Outbox {
    /// Creates an outbox for units of at most `capacity` bytes, a multiple of 8, with `tail` bytes
    /// behind each. `encrypts`: sealing changes units, so that zero-copy packets are kept
    /// elsewhere. `control_first`: small messages go ahead of waiting units.
    pub(crate) fn new(capacity: usize, tail: usize, encrypts: bool, control_first: bool) -> Self {
        debug_assert!(capacity.is_multiple_of(8), "frames begin at multiples of 8");
        Self {
            units: WaitingUnits::new(BufferPool::new(capacity, tail, !encrypts)),
            control: ControlUnit::default(),
            control_first,
            sent: SentUnits::default(),
            long_messages: LongMessages::default(),
            sealed: SealedBuffers::new(capacity, tail),
            waiting: 0,
        }
    }

    /// Sets the bytes up to which zero-copy buffers may grow, however little of them is in flight.
    pub(crate) fn set_growth(&mut self, bytes: usize) {
        self.units.pool.set_growth(bytes);
        self.sealed.set_growth(bytes);
    }

    /// Gives back the memory that units in flight or waiting took; there are none.
    pub(crate) fn release_spare(&mut self) {
        debug_assert!(!self.has_waiting(), "what waits is kept");
        self.units.release_spare();
        self.sent.release_spare();
        self.sealed.release_spare();
    }

    /// Returns the bytes that [`Outbox::release_spare`] gives back.
    pub(crate) fn spare_bytes(&self) -> usize {
        self.units.spare_bytes() + self.sent.spare_bytes() + self.sealed.spare_bytes()
    }

    /// Sets the longest unit, after the path's datagram size changed. Existing units stay as they
    /// are.
    pub(crate) fn set_capacity(&mut self, capacity: usize) {
        debug_assert!(capacity.is_multiple_of(8), "frames begin at multiples of 8");
        if capacity != self.units.capacity() {
            self.units.close();
            self.units.pool.set_capacity(capacity);
            self.sealed.set_capacity(capacity);
            debug_assert!(!self.units.is_open(), "an open unit would be of the old length");
        }
    }

    /// Returns the longest unit.
    pub(crate) fn capacity(&self) -> usize {
        self.units.capacity()
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
        self.units.whole()
    }

    /// Returns true if a whole unit waits.
    #[inline]
    pub(crate) fn has_whole(&self) -> bool {
        self.units.whole() != 0
    }

    /// Returns true if a unit of control messages waits.
    #[inline]
    pub(crate) fn has_control(&self) -> bool {
        !self.control.is_empty()
    }

    /// Returns true if a message goes ahead of waiting units, so that it needs no room behind them.
    #[cold]
    pub(crate) fn passes(&self, head: &FrameHead, payload: &[u8]) -> bool {
        is_control(head, payload)
            && self.has_batch()
            && self.control.has_room(self.units.capacity())
    }

    /// Packs a message: into the open unit, or a new one, or several.
    #[inline]
    pub(crate) fn append(&mut self, head: &FrameHead, words: &[u64], payload: &[u8]) {
        // A few whole units are about to be sent anyway.
        if self.has_batch()
            && self.control_first
            && is_control(head, payload)
            && self.control.append(head, words, self.units.capacity())
        {
            return self.count_waiting();
        }
        let same = self.units.continues(head.route);
        let need = frame::frame_bytes(head, same, words.len(), payload.len());
        if need <= self.units.room() {
            self.units.put(head, same, words, payload);
        } else {
            self.append_elsewhere(head, words, payload);
        }
        self.count_waiting();
    }

    #[inline]
    fn count_waiting(&mut self) {
        self.waiting = self.units.bytes() + self.control.body().len();
        debug_assert!(self.waiting > 0 || !self.has_whole(), "a unit has bytes");
        debug_assert!(self.waiting > 0 || !self.has_control(), "a message has bytes");
    }

    fn append_elsewhere(&mut self, head: &FrameHead, words: &[u64], payload: &[u8]) {
        let need = frame::frame_bytes(head, false, words.len(), payload.len());
        let capacity = self.units.capacity();
        let small = need <= capacity / 4 || payload.len() <= MIN_FRAGMENT;
        if need <= capacity && (small || self.units.room() < capacity / 4) {
            self.units.close();
            return self.units.put(head, false, words, payload);
        }
        let mut progress = Progress::default();
        let first = self.next_unit();
        let message = MessageBody { head: *head, words, payload: PayloadFragment::whole(payload) };
        let all = self.append_fragments(&message, &mut progress, usize::MAX);
        debug_assert!(all, "a message at hand is packed as a whole");
        if head.kind != FrameKind::Long {
            self.sent.on_span(first, self.next_unit());
        }
    }

    /// Packs a long message, or as much of it as is available and `most` bytes allow; returns true
    /// if that was all.
    pub(crate) fn append_some(
        &mut self,
        message: &MessageBody<'_>,
        progress: &mut Progress,
        most: usize,
    ) -> bool {
        let MessageBody { head, words, payload } = message;
        let whole = frame::frame_bytes(head, false, words.len(), payload.total);
        let at_hand = payload.bytes.len() == payload.total;
        if at_hand && *progress == Progress::default() && whole <= self.units.capacity() {
            progress.done = payload.total;
            self.append(head, words, payload.bytes);
            return true;
        }
        self.append_fragments(message, progress, most)
    }

    fn append_fragments(
        &mut self,
        message: &MessageBody<'_>,
        progress: &mut Progress,
        most: usize,
    ) -> bool {
        let Self { units, sent, long_messages, .. } = self;
        let (limits, before) = ((most, sent.sent().bulk), *progress);
        debug_assert!(message.payload.total > 0, "a payload is cut");
        let all = units.append_fragments(message, progress, limits, long_messages);
        debug_assert!(progress.done >= before.done, "nothing is packed twice");
        debug_assert!(all == (progress.done == message.payload.total), "all is the whole payload");
        debug_assert!(before.message.is_none_or(|_| before.message == progress.message));
        self.count_waiting();
        all
    }

    /// Abandons a long message whose sender is gone. The peer is told where it ends.
    pub(crate) fn abandon(&mut self, progress: Progress) {
        let Some(begun) = self.long_messages.unended(progress.message) else { return };
        let message = begun.message;
        debug_assert!(begun.head.kind == FrameKind::Long, "only long messages are noted");
        self.units.append_end(&begun.head, message, progress.done);
        self.long_messages.end(message, self.next_unit());
        self.count_waiting();
    }

    /// Returns the number of the open unit, among those of bulk.
    fn next_unit(&self) -> u64 {
        self.units.open_number(self.sent.sent().bulk)
    }

    /// Returns the end of the data packed up to now: for [`Outbox::has_arrived_before`].
    pub(crate) fn end(&self) -> PackedEnd {
        let bulk = self.next_unit() + u64::from(self.units.is_open());
        let end =
            PackedEnd { bulk, control: self.sent.sent().control + u64::from(self.has_control()) };
        debug_assert!(self.sent.sent().is_before(end), "what was sent was packed before");
        end
    }

    /// Returns true if everything packed when [`Outbox::end`] returned `end` has been sent.
    pub(crate) fn has_sent_before(&self, end: PackedEnd) -> bool {
        debug_assert!(end.is_before(self.end()), "an end that was returned");
        end.is_before(self.sent.sent())
    }

    /// Returns true if everything packed when [`Outbox::end`] returned `end` has arrived.
    pub(crate) fn has_arrived_before(&self, end: PackedEnd) -> bool {
        debug_assert!(end.is_before(self.end()), "an end that was returned");
        end.is_before(self.sent.arrived())
    }

    /// Returns the policy of a burst that begins now. Beside control messages data is sent in whole
    /// bursts or not at all (`defers`), since a partial burst costs as much.
    #[inline]
    pub(crate) fn burst_policy(&self, policy: FlushPolicy, defers: bool) -> FlushPolicy {
        match policy {
            _ if defers => FlushPolicy::Batch,
            FlushPolicy::Batch if self.has_batch() => FlushPolicy::Whole,
            _ => policy,
        }
    }

    /// Returns the bytes of whole units that are contiguous in one send buffer, if there are
    /// several.
    #[inline]
    pub(crate) fn contiguous_bytes(&self) -> usize {
        self.units.contiguous_bytes()
    }

    /// Returns the units that may be sent next, in packets with `overhead` more bytes. `sealed`:
    /// packets are kept among the sealed ones.
    #[inline]
    pub(crate) fn backlog(&self, policy: FlushPolicy, overhead: usize, sealed: bool) -> Backlog {
        if !self.has_waiting() {
            debug_assert!(!self.has_whole() && !self.has_control(), "what waits is counted");
            return Backlog::default();
        }
        let data = match policy {
            FlushPolicy::Batch => None,
            FlushPolicy::Whole => self.units.next_bytes(),
            FlushPolicy::Any => self.units.next_bytes().or_else(|| self.units.open_bytes()),
        };
        let control = self.control.bytes_due(self.units.capacity(), !self.has_whole());
        let ends_buffer = match sealed {
            true => self.sealed.ends_send_buffer(),
            false => self.units.next_ends_buffer(),
        };
        Backlog {
            control: control.map(|bytes| bytes + overhead),
            data: data.map(|bytes| bytes + overhead),
            ends_buffer,
        }
    }

    /// Takes the next unit of bulk, to be sent for the first time; one that is still open is
    /// closed.
    #[inline]
    pub(crate) fn launch(&mut self) -> Option<Unit> {
        let place = self.units.take_next();
        debug_assert!(place.is_some(), "a unit that was offered waits");
        let place = place?;
        self.control.on_bulk();
        debug_assert!(place.bytes() <= self.waiting, "it was counted");
        self.waiting -= place.bytes();
        debug_assert!(self.waiting >= self.units.bytes(), "the rest still waits");
        Some(self.sent.send_bulk(place))
    }

    /// Takes the unit of control messages, to be sent ahead of bulk.
    pub(crate) fn launch_control(&mut self) -> Option<Unit> {
        let control = self.control.take(self.units.pool.tail());
        debug_assert!(control.is_some(), "a unit that was offered waits");
        let (own, place) = control?;
        debug_assert!(place.bytes() <= self.waiting, "it was counted");
        self.waiting -= place.bytes();
        self.sent.send_control();
        debug_assert!(!self.has_control(), "all of it goes");
        Some(Unit::control(own, place))
    }

    /// Returns true if the next packet to send lies, or will lie, in another send buffer than
    /// `last`, which was sent last; `sealed`: among the sealed ones.
    #[inline]
    pub(crate) fn ends_send_buffer(&self, sealed: bool, last: Option<&Unit>) -> bool {
        if sealed {
            return self.sealed.ends_send_buffer();
        }
        self.units.turns_from(last.map(Unit::place))
    }

    /// Returns true if so much is sent, with the unit `first`, that packets should be sent
    /// zero-copy.
    #[inline]
    pub(crate) fn has_much(&self, first: &Unit) -> bool {
        first.bytes() + self.waiting >= MIN_KEPT || self.long_messages.is_packing()
    }

    /// Notes that a unit has arrived, with all before it.
    #[inline]
    pub(crate) fn on_arrived(&mut self, unit: Unit) {
        let Self { units, sealed, sent, long_messages, .. } = self;
        let before = sent.arrived();
        sent.on_arrived(unit, |done| done.release(&mut units.pool, sealed));
        debug_assert!(before.is_before(sent.arrived()), "what has arrived stays so");
        long_messages.on_arrived(sent.arrived().bulk);
    }

    /// Returns the body of a unit, decrypted if only its packet is kept.
    #[inline]
    pub(crate) fn body<'a>(&'a self, unit: &'a Unit, sealer: &Sealer) -> Option<Cow<'a, [u8]>> {
        unit.body(&self.units.pool, &self.sealed, sealer)
    }

    /// Returns a unit as the packet that carries it, with room for header and checksum, to be
    /// filled in.
    #[inline]
    pub(crate) fn packet_mut<'a>(&'a mut self, unit: &'a mut Unit) -> Option<&'a mut [u8]> {
        unit.packet_mut(&mut self.units.pool)
    }

    /// Returns the packet as it was filled in.
    #[inline]
    pub(crate) fn packet<'a>(&'a self, unit: &'a Unit) -> Option<&'a [u8]> {
        unit.packet(&self.units.pool, &self.sealed)
    }

    /// Builds the packet of a unit with `seal`, and keeps it, behind the one before it, instead of
    /// the unit: the unit's memory is then used for the next one while the nearest cache has it.
    /// Returns false, and changes nothing, if there is no place for it.
    #[inline]
    pub(crate) fn keep_sealed(&mut self, unit: &mut Unit, seal: impl FnOnce(&mut [u8])) -> bool {
        unit.keep_sealed(&mut self.units.pool, &mut self.sealed, seal)
    }

    /// Returns true if these bytes lie in memory that the kernel may read.
    #[cfg(test)]
    pub(crate) fn sealed_hold(&self, bytes: &[u8]) -> bool {
        self.sealed.hold(bytes)
    }

    /// Returns the bytes that wait, and those that have arrived and are kept.
    pub(crate) fn bytes(&self) -> usize {
        self.waiting + self.sent.kept().map(Unit::bytes).sum::<usize>()
    }

    /// Takes every message that has not arrived whole, in the order in which they were sent, after
    /// the peer is lost. `in_flight` are the units that the channel has kept, each with true if it
    /// has arrived; `sealer` made their packets.
    pub(crate) fn take_all(
        &mut self,
        sealer: &Sealer,
        in_flight: Vec<(bool, Unit)>,
    ) -> Vec<OwnedMessage> {
        let mut undelivered = UndeliveredMessages::new(self.long_messages.take_all());
        let kept = self.sent.take_all().into_iter().map(|unit| (true, unit));
        for (arrived, unit) in kept.chain(in_flight) {
            let body = self.body(&unit, sealer);
            debug_assert!(body.is_some(), "units in flight keep their bodies");
            for frame in Frames::new(&body.unwrap_or_default()).flatten() {
                undelivered.on_frame(&frame, arrived);
            }
        }
        let mut collect = |body: &[u8]| {
            for frame in Frames::new(body).flatten() {
                undelivered.on_frame(&frame, false);
            }
        };
        self.units.take_all(&mut collect);
        collect(self.control.body());
        self.control.clear();
        self.sealed.clear();
        debug_assert!(self.units.bytes() == 0, "all that waited was taken");
        self.waiting = 0;
        debug_assert!(!self.has_control() && !self.has_whole(), "nothing is left");
        undelivered.finish()
    }

    /// Asserts what always holds between calls. `in_flight` are the units that the channel keeps.
    pub(crate) fn check_invariants<'a>(&'a self, in_flight: impl Iterator<Item = &'a Unit>) {
        let control = self.control.body().len();
        assert_eq!(self.waiting, self.units.bytes() + control, "all that waits is counted");
        self.units.check_invariants();
        self.sent.check_invariants();
        self.long_messages.check_invariants(self.next_unit());
        self.sealed.check_invariants();
        assert_eq!(self.has_control(), control > 0, "a control unit holds a message");
        let (mut sealed, mut pooled) = (0, self.units.pool_units());
        for unit in self.sent.kept().chain(in_flight) {
            assert!(unit.bytes() > 0, "no unit is empty");
            sealed += usize::from(unit.is_sealed());
            pooled += usize::from(unit.is_in_pool());
        }
        assert_eq!(self.sealed.packets(), sealed, "packets stay with their units");
        assert_eq!(self.units.pool.units(), pooled, "buffers count the units that need them");
    }
}

#[cfg(test)]
mod tests;
