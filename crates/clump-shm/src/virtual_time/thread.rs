//! The clock and the waits of the thread of an actor, as `clump-os` asks for them; calls of the
//! runtime that make others.

use super::actor::{Actor, EMPTY_POLL_NS, LOOP};
use super::table::BEGIN_NS;
use super::turns::State;
use clump_os::clock;
use clump_os::futex;
use clump_os::sync::{AtomicU32, Ordering, Ordering::Relaxed};
use clump_os::virtual_thread::VirtualThread;
use clump_virtual::CallKind;
use clump_virtual::turn::NEVER;
use std::time::Duration;

/// A call of the runtime that makes others.
#[derive(Debug)]
pub struct Call<'a> {
    actor: &'a Actor,
    /// True if a part of the program begins behind it.
    began: bool,
    /// True if it was begun by one that sends what was collected.
    collected: bool,
}

impl<'a> Call<'a> {
    /// Begins a call; `collected`: it sends what the runtime has collected.
    fn begin(actor: &'a Actor, kind: CallKind, collected: bool) -> Self {
        let began = actor.enter(kind);
        actor.computation.hold(true);
        let collected = actor.computation.set_collected(collected);
        Self { actor, began, collected }
    }

    /// Enters a call of shared virtual memory: `fault`, for an access of the program, of which
    /// there may be more or fewer on another machine. What it sends is counted apart for the same
    /// reason. It comes behind all that actors of this node have done earlier.
    pub fn of_heap(actor: &'a Actor, fault: bool) -> Self {
        let kind = if fault { CallKind::Poll } else { CallKind::Other };
        if fault {
            actor.computation.leave_out_fault();
        }
        let call = Self::begin(actor, kind, true);
        actor.order_words();
        if fault {
            actor.work(actor.page_costs().fault_ns);
        }
        call
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.actor.computation.set_collected(self.collected);
        self.actor.computation.hold(false);
        if self.began {
            self.actor.begin_part();
        }
    }
}

/// Mark of a place among the blocks of the ranks.
const IN_FRONT: u32 = 1 << 31;

impl Actor {
    /// Enters a call of the runtime that makes others of its calls, until the result is dropped.
    pub fn call(&self) -> Call<'_> {
        Call::begin(self, CallKind::Other, self.computation.is_collected())
    }

    /// Enters a send of what the runtime has collected, until the result is dropped: when that
    /// happens depends on the time, so no part of the program is counted by it.
    pub fn send_collected(&self) -> Call<'_> {
        Call::begin(self, CallKind::Poll, true)
    }

    /// Returns the place of a word, the same in all processes: among the blocks of the ranks, or
    /// else in its page, where others may have the same.
    fn place_of(&self, word: &AtomicU32) -> u32 {
        let (geometry, first) = (self.node.geometry(), self.node.rank(0));
        let at = std::ptr::from_ref(word).addr();
        let behind = first.and_then(|first| at.checked_sub(std::ptr::from_ref(&*first).addr()));
        let block = geometry.slot_of(0).map(|slot| geometry.rank_block(slot));
        let place = behind.zip(block).map(|(behind, block)| block + behind);
        match place.filter(|&place| place < geometry.front_bytes()) {
            Some(place) => IN_FRONT | place as u32,
            None => (std::ptr::from_ref(word).addr() % clump_os::map::PAGE) as u32,
        }
    }
}

impl VirtualThread for Actor {
    fn now_ns(&self) -> u64 {
        let reads = self.clock_reads.load(Relaxed) + 1;
        self.clock_reads.store(reads, Relaxed);
        if reads > LOOP {
            // A program that reads the clock until it shows some time.
            self.advance(EMPTY_POLL_NS);
            self.note_act();
        }
        if self.computation.ends_at_readings() && self.end_part(CallKind::Poll) {
            self.begin_part();
        }
        BEGIN_NS.saturating_add(self.clock_ns())
    }

    fn wait(&self, word: &AtomicU32, expected: u32, limit: Option<Duration>) -> bool {
        if self.end().is_some() {
            return futex::sleep(word, expected, limit);
        }
        self.clock_reads.store(0, Relaxed);
        let line = self.line();
        if word.load(Ordering::SeqCst) != expected {
            return true;
        }
        let place = self.place_of(word);
        // A rank that sleeps on a word of its own block is woken by messages, too.
        let is_own = place & IN_FRONT != 0;
        let state = if is_own { State::Waits } else { State::Watches };
        self.suspend(state, self.nap(limit), Some(place));
        let woken = word.load(Ordering::SeqCst) != expected;
        woken || (is_own && line.due_ns.load(Relaxed) <= self.clock_ns())
    }

    fn wake(&self, word: &AtomicU32) {
        let (now_ns, place) = (self.clock_ns(), self.place_of(word));
        debug_assert!(place != u32::MAX, "the mark of no word");
        for (at, line) in self.table.actors.iter().enumerate() {
            if at != self.me && line.word.load(Relaxed) == place {
                line.wake_ns.store(line.wake_ns.load(Relaxed).min(now_ns), Relaxed);
            }
        }
    }

    fn pass(&self, span: Duration) {
        if self.end().is_some() {
            return clock::machine_pass(span);
        }
        let began = self.enter(CallKind::Poll);
        self.suspend(State::Sleeps, u64::try_from(span.as_nanos()).unwrap_or(NEVER), None);
        if began {
            self.begin_part();
        }
    }
}
