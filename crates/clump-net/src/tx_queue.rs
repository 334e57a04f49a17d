//! Outgoing data of one peer: frames packed into units, and the units that wait. Those in flight
//! are kept by the channel.
//!
//! Units lie in send buffers, with room for a header before each and a checksum behind it, so that
//! a packet that is not encrypted is never copied again.
//!
//! Control goes before data (paper 003, section 4: locks and control messages queue behind page
//! transfers in the interface unless they have a path of their own). A message that is small,
//! carries no payload and asks for no order is packed into a unit of its own while whole units
//! wait. That unit is sent first, also a little beyond the window, which bulk keeps full. It may
//! not fill more than a quarter of a unit between two units of bulk; a message that finds no room
//! there queues with the others. So bulk always proceeds, and with nothing waiting all messages
//! share packets as before.

mod buffer_memory;
mod buffer_pool;
mod long_messages;
mod packing;
mod send_buffer;
mod sent_units;
mod undelivered;
mod unit;
mod unit_memory;

use crate::seal::Sealer;
use clump_driver::MIN_KEPT;
use clump_proto::{Backlog, Content, Nanos};
use clump_wire::frame::{FrameKind, Frames, Route};
use clump_wire::{HEADER_BYTES, Message, OwnedMessage};
pub(crate) use long_messages::LongMessage;
use long_messages::LongMessages;
use send_buffer::BufferRange;
pub use sent_units::PackedEnd;
use sent_units::SentUnits;
use std::collections::VecDeque;
use undelivered::UndeliveredMessages;
pub(crate) use unit::Unit;
use unit_memory::MIN_SHARE;
pub(crate) use unit_memory::UnitMemory;

/// Bytes that may wait to be sent to a peer before requests find no room; replies may use twice
/// that.
pub(crate) const MAX_WAITING: usize = 256 << 10;
/// Bytes of units from which on one call of the driver costs much less per unit than a call for
/// each.
const MAX_BATCH: usize = 16 << 10;
/// Longest time that a message waits for others to share its packet, while others keep coming: a
/// packet costs either side some microseconds.
const COALESCE_NS: Nanos = 100_000;
/// A message that comes so soon after a packet waits for others to follow: less than a round trip,
/// more than it takes to send a packet.
const FLOOD_NS: Nanos = 2_500;

/// Part of what waits that is sent now; the rest waits for more messages to share packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlushPolicy {
    /// All of it.
    Any,
    /// Only whole units.
    Whole,
    /// Nothing, unless there are many whole units.
    Batch,
}

/// A unit that may still grow.
#[derive(Debug, Clone, Copy)]
struct OpenUnit {
    /// Offset in its send buffer.
    at: usize,
    bytes: usize,
    /// Route of the frame before the next one.
    route: Option<Route>,
}

/// Data that waits to be sent to one peer, and the memory of its units.
#[derive(Debug)]
pub(crate) struct TxQueue {
    pub(crate) memory: UnitMemory,
    /// The unit of bulk that may still grow, and whole ones before it.
    open: Option<OpenUnit>,
    whole: VecDeque<BufferRange>,
    /// The unit of control messages that goes ahead of them, and the bytes that went ahead since
    /// the last unit of bulk.
    control: Option<OpenUnit>,
    ahead: usize,
    /// True if control messages go ahead.
    control_first: bool,
    /// Bytes of all of them.
    waiting: usize,
    pub(crate) sent: SentUnits,
    pub(crate) long_messages: LongMessages,
    /// Number of the next message that asks for order.
    next_order: u64,
    /// Length of datagrams for which units are packed, and those of its bytes that are not the body
    /// of a unit.
    pub(crate) datagram_bytes: usize,
    overhead: usize,
    /// Time at which a unit last went out, and at which the open one got its first frame.
    sent_at: Nanos,
    pub(crate) opened_at: Nanos,
    /// Bytes that waited when [`TxQueue::is_settled`] was called last.
    settled_bytes: usize,
}

impl TxQueue {
    /// Creates an empty queue for datagrams of so many bytes. `control_first`: small messages go
    /// ahead of waiting units.
    pub(crate) fn new(
        now: Nanos,
        datagram_bytes: usize,
        control_first: bool,
        sealer: &Sealer,
    ) -> Self {
        let overhead = HEADER_BYTES + sealer.tag_bytes();
        debug_assert!(datagram_bytes > overhead, "a datagram has room for a unit");
        let capacity = capacity(datagram_bytes, overhead);
        Self {
            memory: UnitMemory::new(capacity, sealer.tag_bytes(), sealer.in_place()),
            open: None,
            whole: VecDeque::new(),
            control: None,
            ahead: 0,
            control_first,
            waiting: 0,
            sent: SentUnits::default(),
            long_messages: LongMessages::default(),
            next_order: 0,
            datagram_bytes,
            overhead,
            sent_at: 0,
            opened_at: now,
            settled_bytes: 0,
        }
    }

    /// Returns the bytes that wait to be sent for the first time.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns true if a whole unit waits.
    #[inline]
    pub(crate) fn has_whole(&self) -> bool {
        !self.whole.is_empty()
    }

    /// Returns true if whole units wait, and enough of them for a call of the driver.
    #[inline]
    pub(crate) fn has_batch(&self) -> bool {
        self.waiting >= MAX_BATCH && self.has_whole()
    }

    /// Returns true if a message finds room behind those that wait, of which there may be so many
    /// bytes, or goes ahead of them.
    #[inline]
    pub(crate) fn has_room(&self, message: &Message<'_>, ordered: bool, most: usize) -> bool {
        let ahead = self.control.map_or(0, |unit| unit.bytes) + MIN_SHARE;
        let goes_ahead = || !ordered && is_control(message, None) && self.has_batch();
        self.waiting < most || (goes_ahead() && ahead <= self.memory.control_share())
    }

    /// Takes the next number, for a message that asks for order.
    #[inline]
    pub(crate) fn take_order(&mut self, ordered: bool) -> Option<u64> {
        debug_assert!(self.next_order < u64::MAX, "each number once");
        self.next_order += u64::from(ordered);
        ordered.then(|| self.next_order - 1)
    }

    /// Notes that a message is about to be packed: the open unit gets its first frame if nothing
    /// waits.
    #[inline]
    pub(crate) fn note_opening(&mut self, now: Nanos) {
        if self.waiting == 0 {
            self.opened_at = now;
        }
    }

    /// Ends the open unit, if there is one.
    #[inline]
    fn take_open(&mut self) -> Option<BufferRange> {
        let unit = self.open.take()?;
        Some(self.memory.bulk.finish(unit.at))
    }

    /// Closes the open unit, if there is one: it is whole.
    fn close(&mut self) {
        let place = self.take_open();
        debug_assert!(place.is_none_or(|place| place.bytes() > 0), "it holds a message");
        self.whole.extend(place);
    }

    /// Returns true if a message that has just been packed should be sent now, with all that waits:
    /// nothing is in flight (`quiet`) that would bring it company, or the last packet left a while
    /// ago. `None`: only whole units, since others wait behind them.
    #[inline]
    pub(crate) fn is_due(&self, now: Nanos, quiet: bool) -> Option<bool> {
        if self.has_batch() || self.control.is_some() {
            return None;
        }
        debug_assert!(self.waiting > 0 || !self.has_whole(), "what waits is counted");
        let pause = if quiet { FLOOD_NS } else { COALESCE_NS };
        Some(now.saturating_sub(self.sent_at) >= pause)
    }

    /// Returns true if the open unit gets no further messages at present: nothing was added since
    /// the last call, or it has waited for long.
    #[inline]
    pub(crate) fn is_settled(&mut self, now: Nanos) -> bool {
        let before = std::mem::replace(&mut self.settled_bytes, self.waiting);
        debug_assert!(self.waiting > 0 || self.open.is_none(), "an open unit holds a message");
        before == self.waiting || self.is_old(now)
    }

    /// Returns true if the open unit has waited for as long as it may.
    #[inline]
    pub(crate) fn is_old(&self, now: Nanos) -> bool {
        now.saturating_sub(self.opened_at) >= COALESCE_NS
    }

    /// Returns the units that may be sent next, as lengths of their packets. `keeps`: sealed
    /// packets are kept.
    #[inline]
    pub(crate) fn backlog(&self, policy: FlushPolicy, keeps: bool) -> Backlog {
        if self.waiting == 0 {
            debug_assert!(!self.has_whole() && self.open.is_none(), "what waits is counted");
            return Backlog::default();
        }
        debug_assert!(self.has_whole() || self.open.is_some() || self.control.is_some());
        let whole = self.whole.front().map(BufferRange::bytes);
        let data = match policy {
            FlushPolicy::Batch => None,
            FlushPolicy::Whole => whole,
            FlushPolicy::Any => whole.or(self.open.map(|unit| unit.bytes)),
        };
        let packet = |bytes: usize| bytes + self.overhead;
        let control = self.control.map(|unit| unit.bytes).filter(|&bytes| self.may_go_ahead(bytes));
        Backlog {
            control: control.map(packet),
            data: data.map(packet),
            ends_buffer: self.has_whole() && self.next_ends_buffer(keeps),
        }
    }

    /// Returns true if the unit of control messages may go ahead now: within its share, or with no
    /// whole unit of bulk to wait for.
    fn may_go_ahead(&self, bytes: usize) -> bool {
        debug_assert!(bytes > 0 && bytes <= self.waiting, "it holds a message");
        let in_share = self.ahead + bytes <= self.memory.control_share();
        in_share || !self.has_whole()
    }

    /// Returns true if several whole units wait.
    #[inline]
    pub(crate) fn has_several(&self) -> bool {
        self.whole.len() > 1
    }

    /// Returns the bytes of whole units that are contiguous in one send buffer, if there are
    /// several.
    pub(crate) fn contiguous_bytes(&self) -> usize {
        let Some(first) = self.whole.front().filter(|_| self.has_several()) else { return 0 };
        let count = self.whole.partition_point(|unit| unit.send_buffer <= first.send_buffer);
        let last = self.whole.get(count.saturating_sub(1)).filter(|_| count > 1);
        last.map_or(0, |last| last.end - first.at)
    }

    /// Returns true if the unit behind the next one lies, or will lie, in another send buffer.
    fn next_ends_buffer(&self, keeps: bool) -> bool {
        match (self.whole.front(), self.whole.get(1)) {
            _ if keeps => !self.memory.sealed.has_room(),
            (Some(next), Some(behind)) => next.send_buffer != behind.send_buffer,
            _ => self.open.is_none() && !self.memory.bulk.has_room(),
        }
    }

    /// Returns true if the next packet lies, or will lie, in another send buffer than `last`, which
    /// was launched last.
    pub(crate) fn ends_buffer(&self, keeps: bool, last: Option<&Unit>) -> bool {
        match (self.whole.front(), last.map(Unit::place)) {
            _ if keeps => !self.memory.sealed.has_room(),
            (Some(next), Some(last)) => next.send_buffer != last.send_buffer,
            _ => self.open.is_none() && !self.memory.bulk.has_room(),
        }
    }

    /// Takes the unit that was offered, of control messages or of bulk, to be sent for the first
    /// time; one that is still open is closed.
    #[inline]
    pub(crate) fn launch(&mut self, now: Nanos, content: Content) -> Option<Unit> {
        self.sent_at = now;
        if content == Content::Control {
            let unit = self.control.take()?;
            let place = self.memory.control.finish(unit.at);
            debug_assert!(place.bytes() == unit.bytes, "its bytes were counted");
            self.ahead += unit.bytes;
            self.waiting -= unit.bytes;
            return Some(self.sent.send_control(place));
        }
        let place = self.whole.pop_front().or_else(|| self.take_open())?;
        self.ahead = 0;
        debug_assert!(place.bytes() <= self.waiting, "it was counted");
        self.waiting -= place.bytes();
        debug_assert!(self.waiting > 0 || self.whole.is_empty(), "the rest still waits");
        Some(self.sent.send_bulk(place))
    }

    /// Returns true if so much is sent, with the unit `first`, that packets should be sent
    /// zero-copy.
    pub(crate) fn is_worth_zero_copy(&self, first: &Unit) -> bool {
        first.bytes() + self.waiting >= MIN_KEPT || self.long_messages.is_packing()
    }

    /// Notes that a unit has arrived, with all before it.
    #[inline]
    pub(crate) fn on_arrived(&mut self, unit: Unit) {
        let before = self.sent.arrived();
        self.sent.on_arrived(unit, |done| self.memory.release(done.place()));
        debug_assert!(before.is_before(self.sent.arrived()), "what has arrived stays so");
        self.long_messages.on_arrived(self.sent.arrived().bulk);
    }

    /// Returns the number of the open unit, or of the next one, among those of bulk.
    fn next_unit(&self) -> u64 {
        self.sent.sent().bulk + self.whole.len() as u64
    }

    /// Returns the end of the data packed up to now: for [`SentUnits::has_arrived_before`].
    pub(crate) fn end(&self) -> PackedEnd {
        let bulk = self.next_unit() + u64::from(self.open.is_some());
        let control = self.sent.sent().control + u64::from(self.control.is_some());
        debug_assert!(self.sent.sent().bulk <= bulk, "what was sent was packed before");
        PackedEnd { bulk, control }
    }

    /// Sets the length of datagrams, after that of the path changed; returns true if it is less
    /// than before. Existing units stay as they are.
    #[cold]
    pub(crate) fn set_datagram_bytes(&mut self, bytes: usize) -> bool {
        let narrower = bytes < self.datagram_bytes;
        self.datagram_bytes = bytes;
        debug_assert!(bytes > self.overhead, "a datagram has room for a unit");
        let capacity = capacity(bytes, self.overhead);
        if capacity != self.memory.bulk.capacity() {
            self.close();
            self.memory.set_capacity(capacity);
        }
        debug_assert!(self.overhead + self.memory.bulk.capacity() <= bytes, "units fit");
        narrower
    }

    /// Gives back the memory that units in flight or waiting took; there are none.
    pub(crate) fn release_spare(&mut self) {
        debug_assert!(self.waiting == 0, "what waits is kept");
        self.whole = VecDeque::new();
        self.memory.release_spare();
        self.sent.release_spare();
    }

    /// Returns the bytes that [`TxQueue::release_spare`] gives back.
    pub(crate) fn spare_bytes(&self) -> usize {
        let listed = self.whole.capacity() * size_of::<BufferRange>();
        self.memory.spare_bytes() + self.sent.spare_bytes() + listed
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
        self.close();
        let waiting = std::mem::take(&mut self.whole).into_iter().map(|place| {
            let unit = Unit::new(place, Some(0));
            (false, unit)
        });
        let control = self.launch(self.sent_at, Content::Control).map(|unit| (false, unit));
        for (arrived, unit) in kept.chain(in_flight).chain(waiting).chain(control) {
            let body = unit.body(&self.memory, sealer);
            debug_assert!(body.is_some(), "units keep their bodies");
            for frame in Frames::new(&body.unwrap_or_default()).flatten() {
                undelivered.on_frame(&frame, arrived);
            }
        }
        self.sent.take_all();
        self.memory.clear();
        self.waiting = 0;
        debug_assert!(self.open.is_none() && self.control.is_none(), "nothing is left");
        undelivered.finish()
    }

    /// Asserts what always holds between calls. `in_flight` are the units that the channel keeps.
    pub(crate) fn check_invariants<'a>(&'a self, in_flight: impl Iterator<Item = &'a Unit>) {
        assert!(self.datagram_bytes > self.overhead, "a datagram has room for a unit");
        let unit = self.overhead + self.memory.bulk.capacity();
        assert!(unit <= self.datagram_bytes && self.datagram_bytes < unit + 8, "units fill them");
        let whole: usize = self.whole.iter().map(BufferRange::bytes).sum();
        let open = [self.open, self.control].map(|unit| unit.map_or(0, |unit| unit.bytes));
        assert_eq!(self.waiting, whole + open[0] + open[1], "all that waits is counted");
        let growing = [self.open.is_some(), self.control.is_some()];
        assert_eq!(open.map(|bytes| bytes > 0), growing, "an open unit holds a message");
        let buffers = self.whole.iter().map(|unit| unit.send_buffer);
        assert!(buffers.is_sorted(), "units lie in the order of their buffers");
        let apart = self.whole.iter().zip(self.whole.iter().skip(1)).all(|(unit, next)| {
            unit.send_buffer < next.send_buffer || unit.end + self.memory.tail() <= next.at
        });
        assert!(apart, "units do not overlap");
        self.sent.check_invariants();
        self.long_messages.check_invariants(self.next_unit());
        let launched = self.sent.kept().chain(in_flight).map(Unit::place);
        self.memory.check_invariants(launched.chain(self.whole.iter().copied()), growing);
    }
}

impl OpenUnit {
    const NONE: Self = Self { at: 0, bytes: 0, route: None };
}

/// Returns true if a message is control: it may overtake data.
#[inline]
fn is_control(message: &Message<'_>, order: Option<u64>) -> bool {
    let kinds = [FrameKind::Short, FrameKind::Credit, FrameKind::Ask, FrameKind::Returned];
    kinds.contains(&message.kind) && message.payload.is_empty() && order.is_none()
}

/// Returns the longest unit in datagrams of so many bytes.
fn capacity(datagram_bytes: usize, overhead: usize) -> usize {
    datagram_bytes.saturating_sub(overhead) & !7
}

#[cfg(test)]
mod tests;
