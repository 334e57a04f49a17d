//! A lane: one sender, one receiver, slots and a bulk ring.
//!
//! # Ownership
//! The sender alone writes slots and bulk bytes between `head` and `head + slots`; the receiver
//! alone advances `head` and the bulk head, in steps of a quarter ring, so that their line moves
//! rarely. A slot is published by its header word, which carries the lap, so the receiver needs no
//! shared tail and a slot is never written by its receiver: one line transfer per message.
//!
//! A locked instruction per message would drain the store buffer and cost a factor of ten in rate
//! (docs/adr/0002); hence one lane per sender, and the many-writer [`crate::queue`] for the rest.
//!
//! # Notification
//! A receiver polls lanes whose notification is *disarmed*. It *arms* notification for a lane
//! before it stops polling it, then fences heavily and checks once more. A sender that finds
//! notification armed rings the doorbell ([`crate::doorbell`]). So the sender's extra cost is one
//! load of a line that is rarely written.
//!
//! # Credit requests
//! A sender that waits for credit writes a [`CreditRequest`] into the credit line and rings
//! ([`LaneSender::request_credit`]). The receiver finds it when it processes the doorbell. From
//! then on it returns credit message by message, and wakes the sender as soon as the request is
//! fulfilled ([`Creditor`]). So a receiver without a request pays nothing. A sender requests
//! *after* it has announced itself asleep. If it sees its request still there, the receiver, which
//! clears the request before it checks for the sleeper, wakes it; else it requests anew.

mod credit;
mod receiver;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::bulk::{Bulk, padded};
pub use crate::control::{CreditRequest, LaneControl};
use crate::doorbell::{DoorbellHandle, REQUEST_QUEUE};
use crate::shared::{Shared, SharedSlice};
use crate::slot::{Header, INLINE, MAX_WORDS, Slot};
use clump_os::fence::FenceKind;
use clump_os::sync::{AtomicU32, Ordering, Site, order};
pub use credit::Creditor;
pub use receiver::{LaneReceiver, Peek};

/// Error of a sender without room; poll and try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// The sender's half of a lane.
#[derive(Debug)]
pub struct LaneSender {
    control: Shared<LaneControl>,
    slots: SharedSlice<Slot>,
    bulk: Bulk,
    bell: DoorbellHandle,
    cursor: Cursor,
    bulk_tail: u64,
    seen_bulk: u64,
    /// Credit that [`LaneSender::push`] does not see while the lane is diverted.
    withheld: Option<u64>,
    /// Position when the messages were last taken, and the second slots since.
    counted: (u64, u64),
}

/// Position of a sender. Inline code of other languages pushes short messages by it
/// ([`InlineLane`]).
#[derive(Debug)]
#[repr(C)]
pub struct Cursor {
    tail: u64,
    /// Highest `tail` that the credit known so far allows.
    limit: u64,
    /// Slot of `tail`, and the lap that publishes it.
    at: usize,
    lap: u64,
    /// Words of messages without payload beside them, since they were last taken.
    words: u64,
}

/// Pointers for pushing a short message of one slot: for inline code of other languages, which runs
/// in the sender's thread while nothing else uses the [`LaneSender`]. That code does what
/// [`LaneSender::push`] does, and has the sender ring where `hot` is zero afterwards.
/// docs/adr/0023.
#[derive(Debug, Clone, Copy)]
pub struct InlineLane {
    /// Slots, [`InlineLane::len`] of them.
    pub slots: *const Slot,
    /// Number of slots, a power of two.
    pub len: usize,
    /// Position of the next message.
    pub cursor: *mut Cursor,
    /// Zero while notification is armed.
    pub hot: *const AtomicU32,
}

impl LaneSender {
    /// Takes up a lane that this process claimed, at the position where its last user left it.
    pub fn new(
        control: Shared<LaneControl>,
        slots: SharedSlice<Slot>,
        bulk: Bulk,
        bell: DoorbellHandle,
    ) -> Self {
        let (tail, bulk_tail) = control.stand();
        let (at, lap) = (slot_of(tail, slots.len()), lap_of(tail, slots.len()));
        debug_assert!(slots.len().is_power_of_two(), "positions are mapped to slots by a mask");
        debug_assert!(bell.bit < REQUEST_QUEUE, "the receiver looks into the lane that rang");
        debug_assert!(bulk.len() / 4 != 0, "a payload takes a quarter of the ring at most");
        let cursor = Cursor { tail, limit: tail + slots.len() as u64, at, lap, words: 0 };
        let (seen_bulk, withheld) = (bulk_tail, None);
        let counted = (tail, 0);
        let sender =
            Self { control, slots, bulk, bell, cursor, bulk_tail, seen_bulk, withheld, counted };
        sender.check_invariants();
        sender
    }

    /// Diverts the lane, or ends that: while it is diverted, [`LaneSender::push`] and inline code
    /// of other languages find no room, so that their callers take the way of messages that may
    /// have to wait, which pushes by [`LaneSender::push_withheld`]. Costs nothing while it is not.
    pub fn divert(&mut self, on: bool) {
        match (on, self.withheld) {
            (true, None) => {
                self.withheld = Some(self.cursor.limit);
                self.cursor.limit = self.cursor.tail;
            }
            (false, Some(limit)) => {
                self.cursor.limit = limit;
                self.withheld = None;
            }
            _ => {}
        }
        debug_assert_eq!(self.withheld.is_some(), on, "diverted or not");
        self.check_invariants();
    }

    /// Pushes a message that has found no room by the credit of a diverted lane.
    ///
    /// # Errors
    /// The lane is not diverted, or has no room.
    #[cold]
    pub fn push_withheld(
        &mut self,
        header: Header,
        words: &[u64],
        payload: Option<&[u8]>,
    ) -> Result<(), Full> {
        self.with_credit(|lane| match payload {
            None => lane.push(header, words),
            Some(payload) => lane.push_payload(header, words, payload),
        })
        .unwrap_or(Err(Full))
    }

    /// Returns true if a diverted lane has room for a message of any number of words.
    #[cold]
    pub fn has_withheld_room(&mut self) -> bool {
        self.with_credit(Self::has_room).unwrap_or(false)
    }

    /// Runs `push` with the credit of a diverted lane; returns `None` if the lane is not diverted.
    fn with_credit<R>(&mut self, push: impl FnOnce(&mut Self) -> R) -> Option<R> {
        self.cursor.limit = self.withheld.take()?;
        let result = push(self);
        debug_assert!(self.withheld.is_none(), "a push diverts nothing");
        self.withheld = Some(self.cursor.limit);
        self.cursor.limit = self.cursor.tail;
        debug_assert!(self.limit() >= self.cursor.tail, "nothing is sent beyond the credit");
        Some(result)
    }

    /// Returns the highest tail that the credit known so far allows.
    fn limit(&self) -> u64 {
        let shows = |limit: u64| limit >= self.cursor.limit;
        debug_assert!(self.withheld.is_none_or(shows), "a diverted lane shows less credit");
        self.withheld.unwrap_or(self.cursor.limit)
    }

    /// Returns the pointers for pushing inline, unless senders have to fence.
    pub fn inline_lane(&mut self) -> Option<InlineLane> {
        (self.bell.fence == FenceKind::Asymmetric).then(|| InlineLane {
            slots: self.slots.as_ptr(),
            len: self.slots.len(),
            cursor: &raw mut self.cursor,
            hot: &raw const self.control.temperature.hot,
        })
    }

    /// Sends `words` (at most [`MAX_WORDS`], as in `header`).
    ///
    /// # Errors
    /// The lane has no room.
    #[inline(always)]
    pub fn push(&mut self, header: Header, words: &[u64]) -> Result<(), Full> {
        debug_assert!(words.len() == header.words() && words.len() <= MAX_WORDS);
        debug_assert!(header.payload() == 0, "a payload lies in the bulk ring");
        let need = if words.len() > INLINE { 2 } else { 1 };
        if self.cursor.tail + need > self.cursor.limit && !self.more_room(need) {
            return Err(Full);
        }
        self.cursor.words += words.len() as u64;
        self.publish(header, words, need);
        Ok(())
    }

    /// Sends `words` and a payload, copied into the bulk ring. `payload` must be at most a quarter
    /// of the ring, and `header.payload()` its length.
    ///
    /// # Errors
    /// The lane or its bulk ring has no room.
    // As a call it takes a tenth of the instructions of a small medium message.
    #[inline(always)]
    pub fn push_payload(
        &mut self,
        header: Header,
        words: &[u64],
        payload: &[u8],
    ) -> Result<(), Full> {
        debug_assert!(words.len() == header.words() && words.len() <= MAX_WORDS);
        debug_assert!(payload.len() == header.payload() as usize);
        debug_assert!(payload.len() <= self.bulk.len() / 4, "four payloads are in flight");
        let need = if words.len() > INLINE { 2 } else { 1 };
        let start = self.bulk.place(self.bulk_tail, payload.len());
        let end = start + padded(payload.len());
        let slots_full = self.cursor.tail + need > self.cursor.limit;
        if slots_full || end - self.seen_bulk > self.bulk.len() as u64 {
            let room = self.more_room(need);
            if !room || end - self.seen_bulk > self.bulk.len() as u64 {
                return Err(Full);
            }
        }
        debug_assert!(self.bulk_tail <= start && end - self.seen_bulk <= self.bulk.len() as u64);
        // SAFETY: invariant 2 of the crate: the ring bytes from `start` are between the receiver's
        // head and the tail, so no receiver of ours reads them; `place` keeps them in the ring.
        unsafe {
            let to = self.bulk.address(start);
            std::ptr::copy_nonoverlapping(payload.as_ptr(), to.as_ptr(), payload.len());
        }
        self.bulk_tail = end;
        self.publish(header, words, need);
        Ok(())
    }

    #[inline(always)]
    fn publish(&mut self, header: Header, words: &[u64], need: u64) {
        debug_assert!(self.cursor.tail + need <= self.cursor.limit, "only free slots are written");
        debug_assert_eq!(header.bits() & 0xffff, 0, "the lap is added when it is published");
        debug_assert!(need == 2 || words.len() <= INLINE, "all words find room");
        let (first, lap) = (self.cursor.at, self.cursor.lap);
        self.step();
        if need == 2 {
            self.fill_second(words);
        }
        let slot = &self.slots[first];
        // The first apart: most messages have few words, and a loop is made for many.
        if let ([cell, cells @ ..], [word, words @ ..]) = (&slot.words, words) {
            cell.store(*word, Ordering::Relaxed);
            for (cell, word) in cells.iter().zip(words) {
                cell.store(*word, Ordering::Relaxed);
            }
        }
        // SYNC 2: pairs with peek
        slot.header.store(header.bits() | lap, order(Site::LanePublish, Ordering::Release));
        self.bell.after_publish(&self.control.temperature.hot);
    }

    /// Fills the second slot of a message, before its first is published.
    #[inline(never)]
    fn fill_second(&mut self, words: &[u64]) {
        debug_assert!(words.len() > INLINE, "a second slot holds what the first does not");
        self.counted.1 += 1;
        let slot = &self.slots[self.cursor.at];
        // Otherwise a slot that is a second one for 65,536 laps would look published in the next.
        slot.header.store(self.cursor.lap, Ordering::Relaxed);
        for (cell, word) in slot.words.iter().zip(words.iter().skip(INLINE)) {
            cell.store(*word, Ordering::Relaxed);
        }
        self.step();
    }

    #[inline(always)]
    fn step(&mut self) {
        self.cursor.tail += 1;
        self.cursor.at += 1;
        if self.cursor.at == self.slots.len() {
            self.cursor.at = 0;
            self.cursor.lap = (self.cursor.lap + 1) & 0xffff;
        }
    }

    /// Returns the messages sent since the last call, and the words of those without payload beside
    /// them.
    pub fn take_counts(&mut self) -> (u64, u64) {
        let (tail, second) = std::mem::replace(&mut self.counted, (self.cursor.tail, 0));
        let slots = self.cursor.tail - tail;
        debug_assert!(second * 2 <= slots, "a second slot follows a first");
        (slots - second, std::mem::take(&mut self.cursor.words))
    }

    /// Returns true if a message of any number of words would find room now.
    pub fn has_room(&mut self) -> bool {
        self.cursor.tail + 2 <= self.cursor.limit || self.more_room(2)
    }

    /// Reads the receiver's credit; returns true when `need` slots are free now.
    #[cold]
    fn more_room(&mut self, need: u64) -> bool {
        // SYNC 3: pairs with give_back
        let head = self.control.credit.head.load(Ordering::Acquire);
        let bulk = self.control.credit.bulk_head.load(Ordering::Acquire);
        // A head outside of the messages in flight was not written by a receiver of ours: keep the
        // last valid one.
        let slots = self.slots.len() as u64;
        if head.saturating_add(slots) >= self.limit() && head <= self.cursor.tail {
            *self.withheld.as_mut().unwrap_or(&mut self.cursor.limit) = head + slots;
        }
        if bulk >= self.seen_bulk && bulk <= self.bulk_tail {
            self.seen_bulk = bulk;
        }
        self.check_invariants();
        // Of a diverted lane this is the tail: there is no room.
        self.cursor.tail + need <= self.cursor.limit
    }

    /// Asserts the relations between the fields, which hold whatever the receiver writes.
    pub(crate) fn check_invariants(&self) {
        let (slots, Cursor { tail, at, lap, .. }) = (self.slots.len(), &self.cursor);
        let limit = self.limit();
        debug_assert!(*tail <= limit, "nothing is sent beyond the credit");
        debug_assert!(limit - *tail <= slots as u64, "no more slots are free than there are");
        debug_assert_eq!(*at, slot_of(*tail, slots), "the slot is that of the tail");
        debug_assert_eq!(*lap, lap_of(*tail, slots), "the lap is that of the tail");
        debug_assert!(self.seen_bulk <= self.bulk_tail, "what was read was sent");
        debug_assert!(
            self.bulk_tail - self.seen_bulk <= self.bulk.len() as u64,
            "no more payload is in flight than the ring holds"
        );
    }

    /// Returns the receiver's head as this sender last read it.
    fn seen_head(&self) -> u64 {
        self.limit() - self.slots.len() as u64
    }

    /// Returns the slots sent and not yet given back by the receiver, at most (it gives back in
    /// quarters).
    pub fn outstanding_slots(&mut self) -> u64 {
        self.more_room(0);
        let outstanding = self.cursor.tail - self.seen_head();
        debug_assert!(outstanding <= self.slots.len() as u64, "each is in a slot");
        outstanding
    }

    /// Returns the lane's control lines.
    pub fn control(&self) -> &LaneControl {
        &self.control
    }

    /// Returns this sender's doorbell handle.
    pub fn doorbell(&self) -> &DoorbellHandle {
        &self.bell
    }

    /// Retires the lane: reports to the receiver that this sender is done.
    pub fn retire(&self) {
        self.control.retire();
        self.bell.ring();
    }

    /// Takes back what the receiver never read, oldest first. Only once the receiver has closed for
    /// good (its head is exact) or is dead; `each` gets header, words and payload.
    pub fn take_back(&mut self, mut each: impl FnMut(Header, &[u64], &[u8])) {
        self.more_room(0);
        // The receiver gives bulk back with its slots, so the first unread payload starts there.
        let start = (self.seen_head(), self.seen_bulk);
        let mut receiver =
            LaneReceiver::at(self.control.clone(), self.slots.clone(), self.bulk, start);
        let mut words = [0; 2 * INLINE];
        while receiver.head < self.cursor.tail {
            let Peek::Message(header) = receiver.peek(&mut words) else { break };
            let mut bytes = vec![0; header.payload() as usize];
            receiver.payload(header).copy_to(&mut bytes);
            each(header, &words[..header.words()], &bytes);
            receiver.advance(header);
        }
        let whole = self.cursor.tail + self.slots.len() as u64;
        *self.withheld.as_mut().unwrap_or(&mut self.cursor.limit) = whole;
        self.check_invariants();
    }
}

/// Layout on which inline code of other languages relies.
#[cfg(not(loom))]
const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(Cursor, tail) == 0 && offset_of!(Cursor, limit) == 8);
    assert!(offset_of!(Cursor, at) == 16 && offset_of!(Cursor, lap) == 24);
    assert!(offset_of!(Cursor, words) == 32);
    assert!(size_of::<Slot>() == 64);
};

/// Returns the slot of position `at`.
fn slot_of(at: u64, slots: usize) -> usize {
    debug_assert!(slots.is_power_of_two(), "the mask leaves all slots and no more");
    (at & (slots as u64 - 1)) as usize
}

/// Returns the lap of position `at`, never equal to what the slot held a lap before, and not zero
/// on the first.
#[inline(always)]
fn lap_of(at: u64, slots: usize) -> u64 {
    ((at >> slots.trailing_zeros()) + 1) & 0xffff
}
