//! The receiver's half of a lane.

use super::credit::Creditor;
use super::{lap_of, slot_of};
use crate::bulk::{Bulk, SharedBytes, padded};
use crate::control::LaneControl;
use crate::shared::{Shared, SharedSlice};
use crate::slot::{Header, INLINE, Slot};
use clump_os::sync::{Ordering, Site, order};

/// Result of peeking at the head of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peek {
    /// No message yet.
    Empty,
    /// A message; its words were copied out.
    Message(Header),
    /// Bits that no sender of ours writes. The lane cannot be trusted any more.
    Corrupt,
}

/// The receiver's half of a lane.
#[derive(Debug)]
#[repr(C)]
pub struct LaneReceiver {
    // Inline code of other languages reads these three (docs/adr/0023).
    pub(super) slots: SharedSlice<Slot>,
    /// Slot of `head`.
    pub(super) at: usize,
    /// The value that the low 16 bits of the header of the slot at `head` will have once published.
    pub(super) awaited: u64,
    pub(super) control: Shared<LaneControl>,
    pub(super) bulk: Bulk,
    pub(super) head: u64,
    pub(super) bulk_head: u64,
    /// The head at which credit is given back next.
    pub(super) give_at: u64,
    pub(super) given_bulk: u64,
    /// The sender to wake, while it waits for credit.
    pub(super) creditor: Option<Box<Creditor>>,
    /// Senders woken since they were last counted.
    pub(super) wakes: u32,
}

impl LaneReceiver {
    /// Takes up a lane at the position where its last receiver left it.
    pub fn new(control: Shared<LaneControl>, slots: SharedSlice<Slot>, bulk: Bulk) -> Self {
        let stand = control.stand();
        Self::at(control, slots, bulk, stand)
    }

    pub(super) fn at(
        control: Shared<LaneControl>,
        slots: SharedSlice<Slot>,
        bulk: Bulk,
        (head, bulk_head): (u64, u64),
    ) -> Self {
        let awaited = lap_of(head, slots.len());
        let at = slot_of(head, slots.len());
        let (give_at, given_bulk) = (head + slots.len() as u64 / 4, bulk_head);
        let (creditor, wakes) = (None, 0);
        let receiver = Self {
            slots,
            at,
            awaited,
            control,
            bulk,
            head,
            bulk_head,
            give_at,
            given_bulk,
            creditor,
            wakes,
        };
        receiver.check_invariants();
        receiver
    }

    /// Asserts the relations between the fields, which hold whatever the sender writes.
    pub(crate) fn check_invariants(&self) {
        let quarter = self.slots.len() as u64 / 4;
        debug_assert_eq!(self.at, slot_of(self.head, self.slots.len()), "the slot of the head");
        debug_assert_eq!(self.awaited, lap_of(self.head, self.slots.len()), "the lap of the head");
        debug_assert!(self.head <= self.give_at, "credit is given back when it is due");
        debug_assert!(
            self.give_at - self.head <= quarter.max(1),
            "a sender waits for a quarter of the ring at most"
        );
        debug_assert!(self.given_bulk <= self.bulk_head, "what is given back was read");
        debug_assert!(
            self.bulk_head - self.given_bulk < (self.bulk.len() as u64 / 4).max(1),
            "a sender waits for a quarter of the bulk ring at most"
        );
    }

    /// Returns the lane's control lines.
    pub fn control(&self) -> &LaneControl {
        &self.control
    }

    /// Returns true if a message waits; reads one word.
    #[inline(always)]
    pub fn has_message(&self) -> bool {
        self.slots[self.at].header.load(Ordering::Relaxed) & 0xffff == self.awaited
    }

    /// Returns the header of the next message, if it is short and in one slot (most are), else
    /// `None`. Call only after [`LaneReceiver::has_message`].
    #[inline(always)]
    pub fn peek_short(&self) -> Option<Header> {
        // SYNC 2: pairs with publish
        Header::parse_short(self.slots[self.at].header.load(Ordering::Acquire))
    }

    /// Returns the words of the message that [`LaneReceiver::peek_short`] returned, and the unused
    /// ones behind them.
    #[inline(always)]
    pub fn short_words(&self) -> [u64; INLINE] {
        let slot = &self.slots[self.at];
        std::array::from_fn(|i| slot.words[i].load(Ordering::Relaxed))
    }

    /// Copies the next message's words to `words`.
    pub fn peek(&self, words: &mut [u64; 2 * INLINE]) -> Peek {
        let slot = &self.slots[self.at];
        // SYNC 2: pairs with publish
        let bits = slot.header.load(Ordering::Acquire);
        if bits & 0xffff != self.awaited {
            return Peek::Empty;
        }
        let Some(header) = Header::parse(bits) else { return Peek::Corrupt };
        if header.payload() as usize > self.bulk.len() {
            return Peek::Corrupt;
        }
        for (word, cell) in words.iter_mut().zip(&slot.words) {
            *word = cell.load(Ordering::Relaxed);
        }
        if header.words() > INLINE {
            debug_assert!(self.slots.len() >= 2, "a message of two slots fits into the ring");
            let second = &self.slots[(self.at + 1) & (self.slots.len() - 1)];
            for (word, cell) in words[INLINE..].iter_mut().zip(&second.words) {
                *word = cell.load(Ordering::Relaxed);
            }
        }
        Peek::Message(header)
    }

    /// Returns the payload of the message that [`LaneReceiver::peek`] returned.
    pub fn payload(&self, header: Header) -> SharedBytes {
        let len = header.payload() as usize;
        let start = self.bulk.place(self.bulk_head, len);
        let bytes = self.bulk.bytes_at(start, len);
        debug_assert_eq!(bytes.len(), len, "`place` returns where all of it lies");
        bytes
    }

    /// Consumes the message that [`LaneReceiver::peek_short`] returned.
    #[inline(always)]
    pub fn advance_short(&mut self) {
        self.step();
        if self.head >= self.give_at {
            self.give_back();
        }
    }

    /// Consumes the message that [`LaneReceiver::peek`] returned.
    pub fn advance(&mut self, header: Header) {
        if header.words() > INLINE {
            self.step();
        }
        self.step();
        if header.payload() != 0 {
            let len = header.payload() as usize;
            let next = self.bulk.place(self.bulk_head, len) + padded(len);
            debug_assert!(next > self.bulk_head, "positions only grow");
            self.bulk_head = next;
        }
        if self.head >= self.give_at
            || self.bulk_head - self.given_bulk >= self.bulk.len() as u64 / 4
        {
            self.give_back();
        }
    }

    #[inline(always)]
    fn step(&mut self) {
        self.head += 1;
        self.at += 1;
        if self.at == self.slots.len() {
            self.at = 0;
            self.awaited = (self.awaited + 1) & 0xffff;
        }
    }

    /// Returns credit for everything consumed to the sender.
    #[inline]
    pub fn give_back(&mut self) {
        let credit = &self.control.credit;
        // The sender may see either without the other.
        // SYNC 3: pairs with more_room
        credit.bulk_head.store(self.bulk_head, Ordering::Release);
        // SYNC 3: pairs with more_room
        credit.head.store(self.head, order(Site::LaneCredit, Ordering::Release));
        self.give_at = self.head + self.slots.len() as u64 / 4;
        self.given_bulk = self.bulk_head;
        if self.creditor.is_some() {
            self.answer_request();
        }
        self.check_invariants();
    }

    /// Arms notification: from now on the sender rings after each message. Follow with a heavy
    /// fence, then [`LaneReceiver::has_message`].
    pub fn arm_notification(&self) {
        self.control.temperature.hot.store(0, Ordering::Relaxed);
    }

    /// Disarms notification: from now on this receiver polls the lane.
    pub fn disarm_notification(&self) {
        self.control.temperature.hot.store(1, Ordering::Relaxed);
    }
}

/// Layout on which inline code of other languages relies.
#[cfg(not(loom))]
const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(LaneReceiver, slots) == 0 && offset_of!(LaneReceiver, at) == 32);
    assert!(offset_of!(LaneReceiver, awaited) == 40);
};
