//! The shared queue of an endpoint: many senders, one receiver, claimed and published per slot
//! (paper 000, 3.3), used where a sender has no lane of its own.
//!
//! # Slot states
//! `free(lap) -> claimed(lap, rank) -> ready(lap) -> free(lap + 1)`, one word each. The claim is a
//! compare-and-swap on the slot itself and carries the claimer's rank; the tail is only a hint that
//! any sender advances past a claimed slot. So a sender killed between claim and publication leaves
//! its name behind, and the receiver passes over the slot once that rank is known to be dead. No
//! rank is blocked for ever (the paper's ticket-then-claim would leave a nameless hole).

mod blocks;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::bulk::SharedBytes;
use crate::doorbell::{DoorbellHandle, REQUEST_QUEUE};
use crate::lane::Full;
use crate::shared::{Shared, SharedLayout, SharedSlice};
use crate::slot::{Header, INLINE, MAX_WORDS};
pub use blocks::{BlockState, Blocks};
use clump_os::sync::{AtomicU64, Ordering, Site, order};

/// Words that fit into a queue slot beside state, source and header.
pub const QUEUE_INLINE: usize = 5;

/// One cache line of a shared queue.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct QueueSlot {
    state: AtomicU64,
    source: AtomicU64,
    header: AtomicU64,
    words: [AtomicU64; QUEUE_INLINE],
}

/// Tail of the queue, a hint; and the ranks that wait for slots to be freed.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct QueueTail {
    tail: AtomicU64,
    /// A bit for each rank, modulo 64.
    waiting: AtomicU64,
}

// SAFETY: atomics only.
unsafe impl SharedLayout for QueueSlot {}
// SAFETY: atomics only.
unsafe impl SharedLayout for QueueTail {}

// Layout on which the geometry relies.
#[cfg(not(loom))]
const _: () = assert!(size_of::<QueueSlot>() == 64 && size_of::<BlockState>() == 8);

const FREE: u64 = 0;
const CLAIMED: u64 = 1;
const READY: u64 = 2;

/// Packs 32 bits lap, 8 bits status, 24 bits rank.
fn state(lap: u64, status: u64, rank: u64) -> u64 {
    debug_assert!(status <= READY, "one of the three states");
    (lap & 0xffff_ffff) << 32 | status << 24 | rank & 0xff_ffff
}

fn parts(state: u64) -> (u64, u64, u32) {
    (state >> 32, state >> 24 & 0xff, (state & 0xff_ffff) as u32)
}

/// Returns the lap of position `at`; laps are counted modulo 2^32.
fn lap_of(at: u64, slots: u64) -> u64 {
    (at / slots) & 0xffff_ffff
}

/// A shared queue as both sides see it.
#[derive(Debug, Clone)]
pub struct Queue {
    slots: SharedSlice<QueueSlot>,
    tail: Shared<QueueTail>,
    blocks: Blocks,
}

/// Block number of a message that needs no block.
const NO_BLOCK: u64 = 0xff;

impl Queue {
    /// Creates a queue over these parts.
    pub fn new(slots: SharedSlice<QueueSlot>, tail: Shared<QueueTail>, blocks: Blocks) -> Self {
        debug_assert!(
            slots.len().is_power_of_two(),
            "positions stay with their slots as they wrap"
        );
        debug_assert!((blocks.states.len() as u64) < NO_BLOCK, "a header holds the block's number");
        Self { slots, tail, blocks }
    }

    /// Sends `words` and `payload` for the endpoint named `source` of `rank`, and rings.
    ///
    /// # Errors
    /// All slots are taken, or all blocks, if the message needs one.
    pub fn push(
        &self,
        (rank, source): (u32, u64),
        header: Header,
        words: &[u64],
        payload: &[u8],
        bell: &DoorbellHandle,
    ) -> Result<(), Full> {
        debug_assert!(words.len() * 8 + payload.len() <= self.blocks.each, "it fits into a block");
        debug_assert_eq!(header.words(), words.len(), "as the header says");
        debug_assert_eq!(header.payload() as usize, payload.len(), "as the header says");
        debug_assert!(bell.bit >= REQUEST_QUEUE, "the receiver looks into the queue that rang");
        debug_assert!(rank <= 0xff_ffff, "a slot holds the claimer in 24 bits");
        let spill = words.len() > QUEUE_INLINE || !payload.is_empty();
        let block = if spill { Some(self.blocks.claim(rank).ok_or(Full)?) } else { None };
        let Some((slot, lap)) = self.claim(rank) else {
            if let Some(block) = block {
                self.blocks.free(block);
            }
            return Err(Full);
        };
        if let Some(block) = block {
            self.fill(block, words, payload);
        } else {
            for (cell, word) in slot.words.iter().zip(words) {
                cell.store(*word, Ordering::Relaxed);
            }
        }
        debug_assert_eq!(header.bits() & 0xff, 0, "the block is added when it is published");
        debug_assert!(block.is_some() || words.len() <= slot.words.len(), "all words find room");
        slot.source.store(source, Ordering::Relaxed);
        slot.header.store(header.bits() | block.map_or(NO_BLOCK, |b| b as u64), Ordering::Relaxed);
        // SYNC 5: pairs with take
        slot.state.store(
            state(lap, READY, u64::from(rank)),
            order(Site::QueuePublish, Ordering::Release),
        );
        bell.ring();
        Ok(())
    }

    /// Spills all words, then the payload, into a block.
    fn fill(&self, block: usize, words: &[u64], payload: &[u8]) {
        debug_assert!(words.len() <= MAX_WORDS, "the receiver copies no more words");
        let to = self.blocks.address(block);
        // SAFETY: this rank claimed the block, and `push` was given no more than fits.
        unsafe {
            std::ptr::copy_nonoverlapping(words.as_ptr().cast(), to.as_ptr(), words.len() * 8);
            let behind = to.add(words.len() * 8);
            std::ptr::copy_nonoverlapping(payload.as_ptr(), behind.as_ptr(), payload.len());
        }
    }

    /// Notes that `rank` waits until slots are freed, and rings, so that the receiver answers even
    /// if it has read everything. To be called after the announcement of a sleep, and before the
    /// last check.
    #[cold]
    pub fn request_room(&self, rank: u32, bell: &DoorbellHandle) {
        let bit = 1_u64 << (rank % 64);
        // SYNC 19: pairs with take_waiting
        if self.tail.waiting.fetch_or(bit, Ordering::AcqRel) & bit == 0 {
            bell.ring();
        }
    }

    fn claim(&self, rank: u32) -> Option<(&QueueSlot, u64)> {
        let slots = self.slots.len() as u64;
        // With each attempt some sender makes progress; more attempts than this are needed only in
        // damaged memory.
        for _ in 0..4 * slots.max(64) {
            let at = self.tail.tail.load(Ordering::Acquire);
            let (slot, lap) = (&self.slots[(at % slots) as usize], lap_of(at, slots));
            debug_assert_eq!(lap_of(at.wrapping_add(slots), slots), (lap + 1) & 0xffff_ffff);
            let now = slot.state.load(Ordering::Acquire);
            let (slot_lap, status, _) = parts(now);
            let (new, old) = (Ordering::AcqRel, Ordering::Relaxed);
            if slot_lap == lap && status == FREE {
                let mine = state(lap, CLAIMED, u64::from(rank));
                // SYNC 6: pairs with free_slot
                if slot.state.compare_exchange(now, mine, new, old).is_err() {
                    continue;
                }
                self.advance(at);
                return Some((slot, lap));
            }
            if slot_lap.wrapping_add(1) & 0xffff_ffff != lap {
                // Claimed, perhaps freed since: its claimer may have died before it moved the tail.
                self.advance(at);
            } else if self.tail.tail.load(Ordering::Acquire) == at {
                return None;
            }
            clump_os::sync::pause();
        }
        None
    }

    /// Moves the tail past the slot at `at`, unless another sender did.
    fn advance(&self, at: u64) {
        let (new, old) = (Ordering::AcqRel, Ordering::Relaxed);
        let _ = self.tail.tail.compare_exchange(at, at.wrapping_add(1), new, old);
    }
}

/// The receiver's half of a shared queue.
#[derive(Debug)]
pub struct QueueReceiver {
    queue: Queue,
    head: u64,
}

/// A message taken from a shared queue. Its slot stays taken until [`QueueReceiver::done`].
#[derive(Debug)]
pub struct TakenMessage {
    /// The endpoint that sent it.
    pub source: u64,
    /// Header of the message.
    pub header: Header,
    /// Payload of the message.
    pub payload: SharedBytes,
    block: Option<usize>,
}

/// Result of taking from the head of a shared queue.
#[derive(Debug)]
pub enum Take {
    /// No message yet.
    Empty,
    /// A message; its words were copied out.
    Message(TakenMessage),
    /// A slot that held no message (its claimer died, or wrote invalid bits) was passed over.
    Skipped,
}

impl QueueReceiver {
    /// Creates a receiver at the first slot that is not free of an older lap.
    pub fn new(queue: Queue) -> Self {
        let slots = queue.slots.len() as u64;
        let lap_at =
            |at: u64| parts(queue.slots[(at % slots) as usize].state.load(Ordering::Acquire)).0;
        // The tail is at most one lap ahead; the receiver is at the oldest slot not free for the
        // lap the tail is in. A closed endpoint drained its queue, so that is the tail itself, or
        // what is behind slots whose claimers died before they moved the tail.
        let tail = queue.tail.tail.load(Ordering::Acquire);
        let passed = |at: u64| lap_at(at) == lap_of(at.wrapping_add(slots), slots);
        let head =
            (0..slots).map(|on| tail.wrapping_add(on)).find(|&at| !passed(at)).unwrap_or(tail);
        let behind = (1..=slots.min(head)).take_while(|back| {
            let at = head - back;
            let (lap, status, _) =
                parts(queue.slots[(at % slots) as usize].state.load(Ordering::Acquire));
            lap == lap_of(at, slots) && status != FREE
        });
        let back = behind.count() as u64;
        debug_assert!(back <= slots, "no more messages wait than there are slots");
        Self { queue, head: head - back }
    }

    /// Returns the ranks, as bits modulo 64, that wait for slots to be freed, and clears them. To
    /// be called after slots were freed: the ranks have to be woken.
    #[cold]
    pub fn take_waiting(&self) -> u64 {
        let waiting = &self.queue.tail.waiting;
        // SYNC 19: pairs with request_room
        if waiting.load(Ordering::Relaxed) == 0 { 0 } else { waiting.swap(0, Ordering::AcqRel) }
    }

    /// Returns true if a slot at the head is claimed or ready.
    pub fn has_message(&self) -> bool {
        let slots = self.queue.slots.len() as u64;
        let now = self.queue.slots[(self.head % slots) as usize].state.load(Ordering::Acquire);
        let (lap, status, _) = parts(now);
        lap == lap_of(self.head, slots) && status != FREE
    }

    /// Takes the next message, copying its words. `dead` returns true if a rank is known to be
    /// dead.
    pub fn take(&mut self, words: &mut [u64; 2 * INLINE], dead: impl Fn(u32) -> bool) -> Take {
        let slots = self.queue.slots.len() as u64;
        let slot = &self.queue.slots[(self.head % slots) as usize];
        let lap = lap_of(self.head, slots);
        // SYNC 5: pairs with push
        let (slot_lap, mut status, rank) = parts(slot.state.load(Ordering::Acquire));
        if slot_lap != lap || status == FREE {
            self.reclaim_blocks(&dead);
            return Take::Empty;
        }
        if status == CLAIMED {
            if !dead(rank) {
                return Take::Empty;
            }
            // It may have published between the read of the slot and the news of its death.
            status = parts(slot.state.load(Ordering::Acquire)).1;
        }
        if status != READY {
            self.free_slot();
            return Take::Skipped;
        }
        let bits = slot.header.load(Ordering::Relaxed);
        let block = Some((bits & 0xff) as usize).filter(|&b| b as u64 != NO_BLOCK);
        let Some(taken) = self.read(slot, bits, block, words) else {
            self.free_slot();
            return Take::Skipped;
        };
        Take::Message(taken)
    }

    fn read(
        &self,
        slot: &QueueSlot,
        bits: u64,
        block: Option<usize>,
        words: &mut [u64; 2 * INLINE],
    ) -> Option<TakenMessage> {
        let header = Header::parse(bits)?;
        let source = slot.source.load(Ordering::Relaxed);
        let count = header.words();
        let Some(block) = block else {
            if count > QUEUE_INLINE || header.payload() != 0 {
                return None;
            }
            for (word, cell) in words.iter_mut().zip(&slot.words) {
                *word = cell.load(Ordering::Relaxed);
            }
            return Some(TakenMessage { source, header, payload: SharedBytes::EMPTY, block: None });
        };
        let bytes = count * 8 + header.payload() as usize;
        if block >= self.queue.blocks.states.len() || bytes > self.queue.blocks.each {
            return None;
        }
        // SAFETY: the block is in the mapping and holds `bytes` (just checked).
        let all = unsafe { SharedBytes::new(self.queue.blocks.address(block), bytes) };
        let mut raw = [0; 16 * INLINE];
        let copied = all.part(0, count * 8).copy_to(&mut raw);
        debug_assert_eq!(copied, count * 8, "a header counts no more words than fit");
        for (word, chunk) in words.iter_mut().zip(raw.chunks_exact(8)) {
            *word = u64::from_ne_bytes(chunk.try_into().unwrap_or([0; 8]));
        }
        let payload = all.part(count * 8, header.payload() as usize);
        debug_assert_eq!(payload.len() + copied, bytes, "words and payload are all of the block");
        Some(TakenMessage { source, header, payload, block: Some(block) })
    }

    /// Frees slot and block of the message of the last [`QueueReceiver::take`], after it was
    /// handled.
    pub fn done(&mut self, taken: &TakenMessage) {
        debug_assert!(
            taken.block.is_some() || taken.payload.is_empty(),
            "a payload lies in a block"
        );
        if let Some(block) = taken.block {
            self.queue.blocks.free(block);
        }
        self.free_slot();
    }

    /// Asserts the relations between the words, for tests: only while no sender is within a push,
    /// has died in one, or has taken a message back.
    pub fn check_invariants(&self) {
        let (queue, slots) = (&self.queue, self.queue.slots.len() as u64);
        let tail = queue.tail.tail.load(Ordering::Acquire);
        debug_assert!(self.head <= tail && tail - self.head <= slots, "messages lie in slots");
        let mut blocks = 0;
        for at in self.head..self.head + slots {
            let slot = &queue.slots[(at % slots) as usize];
            let (lap, status, _) = parts(slot.state.load(Ordering::Acquire));
            debug_assert_eq!(lap, lap_of(at, slots), "every slot is in the lap of its position");
            let expected = if at < tail { READY } else { FREE };
            debug_assert_eq!(status, expected, "slots are ready up to the tail, and free behind");
            let bits = slot.header.load(Ordering::Relaxed);
            blocks += usize::from(status == READY && bits & 0xff != NO_BLOCK);
        }
        let claimed = |state: &&BlockState| state.claimer.load(Ordering::Acquire) != 0;
        let claimed = queue.blocks.states.iter().filter(claimed).count();
        debug_assert_eq!(claimed, blocks, "every block belongs to a message");
    }

    fn free_slot(&mut self) {
        let slots = self.queue.slots.len() as u64;
        let slot = &self.queue.slots[(self.head % slots) as usize];
        let next = state(self.head / slots + 1, FREE, 0);
        debug_assert_eq!(
            parts(next).0,
            lap_of(self.head.wrapping_add(slots), slots),
            "the next lap"
        );
        // SYNC 6: pairs with claim
        slot.state.store(next, order(Site::QueueFree, Ordering::Release));
        self.head += 1;
    }

    /// Frees blocks whose claimer died before it published: nothing refers to them once the queue
    /// is empty.
    fn reclaim_blocks(&self, dead: impl Fn(u32) -> bool) {
        for state in self.queue.blocks.states.iter() {
            let claimer = state.claimer.load(Ordering::Relaxed);
            let Some(rank) = claimer.checked_sub(1) else { continue };
            // Checked after the news of the death: it may have published since the last check.
            if u32::try_from(rank).is_ok_and(&dead) && !self.has_message() {
                let (new, old) = (Ordering::AcqRel, Ordering::Relaxed);
                let _ = state.claimer.compare_exchange(claimer, 0, new, old);
            }
        }
    }
}

impl Queue {
    /// Returns true if no slot is in use, those of dead ranks aside (which this frees). Only while
    /// closed.
    pub fn is_unused(&self, dead: impl Fn(u32) -> bool) -> bool {
        self.slots.iter().all(|slot| {
            let (lap, status, rank) = parts(slot.state.load(Ordering::Acquire));
            if status != FREE && dead(rank) {
                slot.state.store(state(lap + 1, FREE, 0), Ordering::Release);
            }
            status == FREE || dead(rank)
        })
    }

    /// Returns true if an unread message of the endpoint named `source` is here.
    pub fn holds(&self, source: u64) -> bool {
        self.slots.iter().any(|slot| {
            parts(slot.state.load(Ordering::Acquire)).1 == READY
                && slot.source.load(Ordering::Relaxed) == source
        })
    }

    /// Takes back what the endpoint named `source` sent and the receiver did not read. Only once
    /// the receiver has closed for good or is dead: then senders alone touch the slots.
    pub fn take_back(&self, source: u64, mut each: impl FnMut(Header, &[u64], &[u8])) {
        for slot in self.slots.iter() {
            let now = slot.state.load(Ordering::Acquire);
            let (lap, status, _) = parts(now);
            if status != READY || slot.source.load(Ordering::Relaxed) != source {
                continue;
            }
            let reader = QueueReceiver { queue: self.clone(), head: 0 };
            let bits = slot.header.load(Ordering::Relaxed);
            let block = Some((bits & 0xff) as usize).filter(|&b| b as u64 != NO_BLOCK);
            let mut words = [0; 2 * INLINE];
            if let Some(taken) = reader.read(slot, bits, block, &mut words) {
                let mut bytes = vec![0; taken.payload.len()];
                let copied = taken.payload.copy_to(&mut bytes);
                debug_assert_eq!(copied, bytes.len(), "all of it goes back");
                let free = state(lap + 1, FREE, 0);
                let (new, old) = (Ordering::AcqRel, Ordering::Relaxed);
                if slot.state.compare_exchange(now, free, new, old).is_ok() {
                    if let Some(block) = taken.block {
                        self.blocks.free(block);
                    }
                    each(taken.header, &words[..taken.header.words()], &bytes);
                }
            }
        }
    }
}
