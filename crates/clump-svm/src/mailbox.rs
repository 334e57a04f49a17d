//! Calls of a rank to the interface of its own node, through memory that both have mapped: one page
//! for each call that may be under way.
//!
//! A rank writes its call and rings the interface; the interface writes the answer and wakes the
//! rank. Neither allocates or takes a lock, so a call may be made inside a page fault.

use crate::published_time::PUBLISHED_BYTES;
use clump_hlrc::PageAccess;
use clump_os::futex;
use clump_os::sync::{AtomicU32, Ordering};
use clump_shm::cells::Cells;

/// Region of the node with mailboxes.
pub(crate) const CONTROL_REGION: u8 = 15;
/// Region of the node with the heap.
pub(crate) const HEAP_REGION: u8 = 14;
/// Region of the node with twins of pages.
pub(crate) const TWIN_REGION: u8 = 13;
/// Region of the node with the words of the protocol that ranks carry out.
pub(crate) const RECORD_REGION: u8 = 12;
/// Region of the node with the locks of that protocol.
pub(crate) const LOCK_REGION: u8 = 11;

/// Bytes of a mailbox.
pub(crate) const MAILBOX_BYTES: u64 = 4096;
/// First word of the steps of an answer.
const STEPS_AT: u64 = 128;
/// Most steps of one answer.
pub(crate) const MAX_STEPS: usize = ((MAILBOX_BYTES - STEPS_AT) / 8) as usize;

/// Number of a mailbox of a rank: several threads of it may have calls under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(u32);

impl Slot {
    /// Page faults.
    pub(crate) const FAULT: Self = Self(0);
    /// Calls that end once they are handled.
    pub(crate) const BRIEF: Self = Self(1);
    /// Mailboxes of a rank; those behind the first two are for calls that wait.
    pub(crate) const COUNT: u32 = 34;

    /// Returns those for calls that wait.
    pub(crate) fn waiting() -> impl Iterator<Item = Self> {
        (Self::BRIEF.0 + 1..Self::COUNT).map(Self)
    }

    /// Returns its number.
    pub(crate) fn number(self) -> usize {
        self.0 as usize
    }

    /// Notes, as a rank, that it uses a mailbox: the interface looks at those up to it.
    pub(crate) fn announce(self, cells: &Cells, local_rank: u32) {
        if let Some(used) = cells.half(Mailbox::place(local_rank, Self::FAULT) + USED_AT) {
            used.fetch_max(self.0, Ordering::Relaxed);
        }
    }

    /// Returns, at the interface, the mailboxes that a rank has used.
    pub(crate) fn used(cells: &Cells, local_rank: u32) -> impl Iterator<Item = Self> {
        let used = cells.half(Mailbox::place(local_rank, Self::FAULT) + USED_AT);
        let last = used.map_or(0, |used| used.load(Ordering::Relaxed));
        (0..=last.min(Self::COUNT - 1)).map(Self)
    }
}

/// Notes, at the interface, if it scans the stores of a rank.
pub(crate) fn set_scanned(cells: &Cells, local_rank: u32, scanned: bool) {
    if let Some(word) = cells.half(Mailbox::place(local_rank, Slot::FAULT) + SCANNED_AT) {
        // The answer to the rank publishes it.
        word.store(u32::from(scanned), Ordering::Relaxed);
    }
}

/// Returns true if the interface scans the stores of a rank.
pub(crate) fn is_scanned(cells: &Cells, local_rank: u32) -> bool {
    let word = cells.half(Mailbox::place(local_rank, Slot::FAULT) + SCANNED_AT);
    word.is_some_and(|word| word.load(Ordering::Relaxed) != 0)
}

/// Place, in the first mailbox of a rank, of the last one that it uses.
const USED_AT: u64 = 80;
/// Places there of the word of turns, and of the one that says if the interface scans.
const TURN_AT: u64 = 88;
const SCANNED_AT: u64 = 96;

/// Pages of a rank's log of written pages: room for all steps of answers under way.
pub(crate) const LOG_PAGES: u64 = Slot::COUNT as u64;
/// Pages of a rank's log of fetched pages: 32 of them.
pub(crate) const FETCH_LOG_PAGES: u64 = 33;
/// Pages of a rank: its mailboxes, and its logs of written and of fetched pages.
const RANK_PAGES: u64 = Slot::COUNT as u64 + LOG_PAGES + FETCH_LOG_PAGES;

/// Returns the bytes of the pages of all ranks of a node. Words of locks lie behind them, and
/// behind those the leases of pages.
pub(crate) fn control_bytes(ranks: u32) -> u64 {
    (1 + u64::from(ranks) * RANK_PAGES) * MAILBOX_BYTES
}

/// Returns the place of a rank's log of written pages.
pub(crate) fn log_place(local_rank: u32) -> u64 {
    Mailbox::place(local_rank, Slot(Slot::COUNT - 1)) + MAILBOX_BYTES
}

/// Returns the place of a rank's log of fetched pages.
pub(crate) fn fetch_log_place(local_rank: u32) -> u64 {
    log_place(local_rank) + LOG_PAGES * MAILBOX_BYTES
}

/// Returns the place of a rank's time, behind its log of fetched pages.
pub(crate) fn rank_time_place(local_rank: u32) -> u64 {
    fetch_log_place(local_rank) + FETCH_LOG_PAGES * MAILBOX_BYTES - PUBLISHED_BYTES
}

/// Returns the place of the word that says whose turn it is to scan a rank's stores.
pub(crate) fn turn_place(local_rank: u32) -> u64 {
    Mailbox::place(local_rank, Slot::FAULT) + TURN_AT
}

/// State of a mailbox.
pub(crate) mod state {
    /// The rank owns it.
    pub(crate) const IDLE: u32 = 0;
    /// A call lies in it.
    pub(crate) const CALLED: u32 = 1;
    /// The interface has taken the call, and answers later.
    pub(crate) const TAKEN: u32 = 2;
    /// An answer lies in it.
    pub(crate) const ANSWERED: u32 = 3;
}

/// Numbers of calls.
pub(crate) mod op {
    /// `pages all_ranks settings`: the rank takes part.
    pub(crate) const OPEN: u64 = 1;
    /// `page stores`: the rank needs a page.
    pub(crate) const FAULT: u64 = 2;
    /// `lock`.
    pub(crate) const ACQUIRE: u64 = 3;
    /// `lock`.
    pub(crate) const RELEASE: u64 = 4;
    /// `barrier members`.
    pub(crate) const BARRIER: u64 = 5;
    /// `flag value`.
    pub(crate) const SET_FLAG: u64 = 6;
    /// `flag at_least`.
    pub(crate) const AWAIT_FLAG: u64 = 7;
    /// Publishes what the rank has written.
    pub(crate) const FENCE: u64 = 8;
    /// `first pages rule node`: gives pages their homes.
    pub(crate) const PLACE: u64 = 9;
    /// Asks for the rest of an answer.
    pub(crate) const CONTINUE: u64 = 10;
    /// Tells of pages that the rank has written, where stores are no faults; so do releases.
    pub(crate) const WRITTEN: u64 = 11;
    /// `first pages rule node`: gives pages their homes, for this rank alone.
    pub(crate) const PLACE_ALONE: u64 = 12;
    /// `node read`: reads of another node, for a rank that cannot do so itself.
    pub(crate) const ASK: u64 = 13;
}

/// Returns true for calls that end when they have been handled.
pub(crate) fn ends_at_once(call: u64) -> bool {
    matches!(call, op::OPEN | op::RELEASE | op::SET_FLAG | op::FENCE | op::PLACE | op::WRITTEN)
}

/// Results of calls.
pub(crate) mod result {
    /// Done.
    pub(crate) const DONE: u64 = 0;
    /// These are some of the steps; the rest is to be asked for.
    pub(crate) const MORE: u64 = 1;
    /// The call makes no sense, as what the rank has done so far stands.
    pub(crate) const MISUSE: u64 = 2;
    /// The machine has no memory for a page.
    pub(crate) const NO_MEMORY: u64 = 3;
    /// Ranks gave different settings.
    pub(crate) const DIFFERENT: u64 = 4;
    /// A message of another node made no sense.
    pub(crate) const BAD_MESSAGE: u64 = 5;
    /// The agent of this node may not start the protocol thread.
    pub(crate) const NO_THREAD: u64 = 6;
    /// An operation on another node's memory was refused.
    pub(crate) const UNREACHABLE: u64 = 7;
    /// The thread has no endpoint for operations of its own.
    pub(crate) const NO_PORT: u64 = 8;
    /// There is no interface, which would have to read for the rank.
    pub(crate) const NO_INTERFACE: u64 = 9;
    /// Time is virtual, and the thread is not the one that has it.
    pub(crate) const OTHER_THREAD: u64 = 10;
}

/// Change of a rank's rights on consecutive pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RightsStep {
    pub(crate) first: u32,
    pub(crate) pages: u32,
    /// The right; none takes the pages away. Of pages that a rank tells of, none are written, and
    /// those with [`MAYBE_WRITTEN`] are to be compared with their twins.
    pub(crate) access: Option<PageAccess>,
}

/// Mark of pages that a thread may have written while another took them away.
pub(crate) const MAYBE_WRITTEN: Option<PageAccess> = Some(PageAccess::Read);

impl RightsStep {
    /// Takes the next page into this step, if it follows.
    pub(crate) fn extend(&mut self, page: u32, access: Option<PageAccess>) -> bool {
        let follows = self.access == access && self.first.checked_add(self.pages) == Some(page);
        self.pages += u32::from(follows);
        debug_assert!(self.pages > 0, "a step concerns pages");
        follows
    }

    /// Returns the step as a word.
    pub(crate) fn pack(self) -> u64 {
        let access = match self.access {
            None => 0,
            Some(PageAccess::Read) => 1,
            Some(PageAccess::Write) => 2,
        };
        debug_assert!(self.pages < 1 << 30, "a heap has fewer pages");
        u64::from(self.first) | u64::from(self.pages) << 32 | access << 62
    }

    /// Reads what [`RightsStep::pack`] wrote.
    pub(crate) fn unpack(bits: u64) -> Self {
        let access = match bits >> 62 {
            0 => None,
            1 => Some(PageAccess::Read),
            _ => Some(PageAccess::Write),
        };
        let pages = (bits >> 32) as u32 & ((1 << 30) - 1);
        Self { first: bits as u32, pages, access }
    }
}

/// Call in a mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) op: u64,
    pub(crate) words: [u64; 4],
}

/// One mailbox, as either side sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mailbox<'a> {
    cells: &'a Cells,
    at: u64,
}

impl<'a> Mailbox<'a> {
    /// Returns the place of a mailbox in its region.
    pub(crate) fn place(local_rank: u32, slot: Slot) -> u64 {
        debug_assert!(slot.0 < Slot::COUNT, "a mailbox of the rank");
        (1 + u64::from(local_rank) * RANK_PAGES + u64::from(slot.0)) * MAILBOX_BYTES
    }

    /// Returns the mailbox at a place, if the region is mapped there.
    pub(crate) fn over(cells: &'a Cells, at: u64) -> Option<Self> {
        debug_assert!(at.is_multiple_of(MAILBOX_BYTES), "mailboxes are pages");
        cells.holds(at, MAILBOX_BYTES).then_some(Self { cells, at })
    }

    fn half(&self, offset: u64) -> &'a AtomicU32 {
        static NOWHERE: AtomicU32 = AtomicU32::new(0);
        let found = self.cells.half(self.at + offset);
        debug_assert!(found.is_some(), "the mailbox is mapped");
        found.unwrap_or(&NOWHERE)
    }

    fn set(&self, word: u64, value: u64) {
        debug_assert!(word < MAILBOX_BYTES / 8, "of this mailbox");
        if let Some(cell) = self.cells.word(self.at + word * 8) {
            cell.store(value, Ordering::Relaxed);
        }
    }

    fn get(&self, word: u64) -> u64 {
        debug_assert!(word < MAILBOX_BYTES / 8, "of this mailbox");
        self.cells.word(self.at + word * 8).map_or(0, |cell| cell.load(Ordering::Relaxed))
    }

    /// Returns the state, and makes what the other side wrote before it visible.
    pub(crate) fn state(&self) -> u32 {
        // SYNC 26: pairs with set_state
        self.half(0).load(Ordering::SeqCst)
    }

    fn set_state(&self, state: u32) {
        // SYNC 26: pairs with state
        self.half(0).store(state, Ordering::SeqCst);
    }

    /// Leaves a call, and pages that were written. The caller rings the interface, which wakes it
    /// as it takes the call, too, if `watched`, and ends its turn at scans if it `publishes`.
    pub(crate) fn leave(
        &self,
        call: &Call,
        written: &[RightsStep],
        (watched, publishes): (bool, bool),
    ) {
        debug_assert_ne!(self.state(), state::CALLED, "one call at a time");
        debug_assert!(written.len() <= MAX_STEPS, "they fit");
        self.set(1, call.op);
        self.set(9, u64::from(watched) | u64::from(publishes) << 1);
        self.set_steps(written);
        (2..).zip(call.words).for_each(|(at, word)| self.set(at, word));
        self.set_state(state::CALLED);
    }

    /// Takes the call that lies here, if any: each is taken once.
    pub(crate) fn take_call(&self) -> Option<Call> {
        if self.state() != state::CALLED {
            return None;
        }
        let words = std::array::from_fn(|at| self.get(2 + at as u64));
        let op = self.get(1);
        self.set_state(state::TAKEN);
        if self.get(9) & 1 != 0 {
            self.wake();
        }
        Some(Call { op, words })
    }

    /// Returns true if the call that was taken ends the rank's turn at scans.
    pub(crate) fn publishes(&self) -> bool {
        debug_assert_eq!(self.state(), state::TAKEN, "a call was taken");
        self.get(9) & 2 != 0
    }

    fn set_steps(&self, steps: &[RightsStep]) {
        self.set(8, steps.len() as u64);
        (STEPS_AT / 8..).zip(steps).for_each(|(at, step)| self.set(at, step.pack()));
    }

    /// Returns the steps that the other side left.
    fn steps(&self) -> impl Iterator<Item = RightsStep> {
        let steps = self.get(8).min(MAX_STEPS as u64);
        (0..steps).map(|at| RightsStep::unpack(self.get(STEPS_AT / 8 + at)))
    }

    /// Returns the pages that a call tells of as written.
    pub(crate) fn written(&self) -> Vec<RightsStep> {
        debug_assert_eq!(self.state(), state::TAKEN, "a call was taken");
        self.steps().collect()
    }

    /// Wakes the rank if it sleeps.
    fn wake(&self) {
        if self.half(4).load(Ordering::SeqCst) != 0 {
            futex::wake_all(self.half(0));
        }
    }

    /// Answers, as the `number`th time that the rank is answered, and wakes it if it sleeps.
    pub(crate) fn answer(&self, number: u64, result: u64, steps: &[RightsStep]) {
        debug_assert!(steps.len() <= MAX_STEPS, "an answer fits");
        self.set(6, result);
        self.set(7, number);
        self.set_steps(steps);
        self.set_state(state::ANSWERED);
        self.wake();
    }

    /// Returns the number of the answer that lies here.
    pub(crate) fn answer_number(&self) -> u64 {
        debug_assert_eq!(self.state(), state::ANSWERED, "there is an answer");
        self.get(7)
    }

    /// Sleeps until there is an answer, or for a while.
    pub(crate) fn sleep(&self, limit: std::time::Duration) {
        self.half(4).store(1, Ordering::SeqCst);
        let now = self.state();
        if now != state::ANSWERED {
            futex::wait(self.half(0), now, Some(limit));
        }
        self.half(4).store(0, Ordering::SeqCst);
    }

    /// Takes the answer: carries out its steps, and returns its result.
    pub(crate) fn take(&self, mut step: impl FnMut(RightsStep)) -> u64 {
        debug_assert_eq!(self.state(), state::ANSWERED, "there is an answer");
        self.steps().for_each(&mut step);
        let result = self.get(6);
        self.set_state(state::IDLE);
        result
    }
}
