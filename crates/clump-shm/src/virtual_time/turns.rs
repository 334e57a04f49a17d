//! Turns of the actors of a job in virtual time.

use super::table::{ActorLine, TimeTable};
use clump_os::futex;
use clump_os::sync::{Ordering, Ordering::Relaxed};
use clump_virtual::turn::{self, NEVER};

/// Time for which all actors wait without any act before that counts as a deadlock.
const DEADLOCK_NS: u64 = 1_000_000_000;

/// State of an actor. The discriminants are the format in shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum State {
    /// Has not joined, or has left.
    Absent = 0,
    /// Can run at its clock.
    Ready = 1,
    /// Waits for a message, a word, or until its timer, which stands for nothing in particular.
    Waits = 2,
    /// Sleeps until its timer.
    Sleeps = 3,
    /// Waits for a word alone, whatever messages are due, or until its timer.
    Watches = 4,
}

/// The end of a job in virtual time before all actors have left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum End {
    /// A rank died.
    Death = 1,
    /// All actors wait for each other.
    Deadlock = 2,
}

/// Returns the time of an actor ([`clump_virtual::turn`]).
pub(super) fn time_of(line: &ActorLine) -> u64 {
    let clock_ns = line.clock_ns.load(Relaxed);
    let timer_ns = line.timer_ns.load(Relaxed);
    match line.state.load(Relaxed) {
        state if state == State::Ready as u32 => clock_ns,
        state if state == State::Sleeps as u32 => timer_ns.max(clock_ns),
        state if state == State::Waits as u32 => {
            let others = line.due_ns.load(Relaxed).min(line.wake_ns.load(Relaxed));
            timer_ns.min(others).max(clock_ns)
        }
        state if state == State::Watches as u32 => {
            timer_ns.min(line.wake_ns.load(Relaxed)).max(clock_ns)
        }
        _ => NEVER,
    }
}

impl TimeTable {
    /// Returns how the job ended early, if it did.
    pub(super) fn end(&self) -> Option<End> {
        match self.header.end.load(Ordering::Acquire) {
            0 => None,
            1 => Some(End::Death),
            _ => Some(End::Deadlock),
        }
    }

    /// Returns the time of the first of the other actors.
    pub(super) fn first_of_others(&self, me: usize) -> u64 {
        debug_assert!(me < self.actors.len(), "each rank is an actor");
        let others = self.actors.iter().enumerate().filter(|&(at, _)| at != me);
        others.map(|(_, line)| time_of(line)).min().unwrap_or(NEVER)
    }

    /// Returns a time before which no message arrives whose due time is not known.
    pub(super) fn first_arrival(&self) -> u64 {
        let latency_ns = self.machine.least_latency_ns();
        let first = self.first_sent().map_or(NEVER, |sent_ns| sent_ns.saturating_add(latency_ns));
        debug_assert!(first >= latency_ns, "it was sent at 0 or later");
        first
    }

    /// Gives the token to an actor.
    pub(super) fn hand_over(&self, next: usize) {
        let Some(line) = self.actors.get(next) else {
            clump_bug::bug!("actor {next} is to run, and there is none");
            return;
        };
        let turns = &self.header.turns;
        turns.store(turns.load(Relaxed) + 1, Relaxed);
        let is_absent = line.state.load(Relaxed) == State::Absent as u32;
        debug_assert!(!is_absent || self.end().is_some(), "all leave at once after the end");
        line.turn.store(1, Ordering::Release);
        futex::rouse(&line.turn);
    }

    /// Returns the actor that runs next; `None`: none is left.
    pub(super) fn choose(&self) -> Option<usize> {
        loop {
            let (next, time_ns) = turn::next(self.actors.iter().map(time_of))?;
            debug_assert!(next < self.actors.len(), "each rank is an actor");
            let first_ns = time_ns.min(self.first_arrival());
            if !self.resolve(turn::horizon(first_ns, self.machine.least_send_ns())) {
                self.check_deadlock(time_ns);
                return Some(next);
            }
        }
    }

    /// Ends the job if all actors have waited for too long.
    fn check_deadlock(&self, time_ns: u64) {
        let header = &self.header;
        debug_assert!(time_ns != NEVER, "an actor is next");
        let patience = header.send_timeout_ns.load(Relaxed).saturating_mul(2);
        let limit = header.active_ns.load(Relaxed).saturating_add(patience);
        if time_ns <= limit.saturating_add(DEADLOCK_NS) {
            return;
        }
        let waits = |line: &ActorLine| {
            let state = line.state.load(Relaxed);
            let unwoken = line.wake_ns.load(Relaxed) == NEVER;
            let idle = unwoken && line.due_ns.load(Relaxed) == NEVER;
            state == State::Absent as u32
                || (state == State::Waits as u32 && idle)
                || (state == State::Watches as u32 && unwoken)
        };
        if self.actors.iter().all(waits) {
            self.break_off(End::Deadlock);
        }
    }

    /// Ends virtual time: every actor goes on, and finds out why.
    pub(super) fn break_off(&self, end: End) {
        let cell = &self.header.end;
        let _ = cell.compare_exchange(0, end as u32, Ordering::AcqRel, Ordering::Acquire);
        for line in self.actors.iter() {
            futex::rouse(&line.turn);
        }
    }
}
