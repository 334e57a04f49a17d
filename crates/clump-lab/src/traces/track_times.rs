//! Time of one thread, divided among what it did: slices of its events, nested.

use clump_trace::EventKind;
use serde::Serialize;

/// Times of a rank or thread, in ns. They add up: a slice within another has its time to itself,
/// but waits within barriers, page faults and locks are of these.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ActivityTimes {
    /// Outside of all slices.
    pub compute_ns: u64,
    /// In handlers.
    pub handler_ns: u64,
    /// In waits, but for handlers.
    pub wait_ns: u64,
    /// In barriers.
    pub barrier_ns: u64,
    /// In page faults of shared virtual memory.
    pub fault_ns: u64,
    /// In locks and flags of shared virtual memory.
    pub lock_ns: u64,
}

impl ActivityTimes {
    /// Returns the time of slices of this kind; of none: of computation.
    fn of(&mut self, kind: Option<EventKind>) -> &mut u64 {
        match kind {
            Some(EventKind::Handle) => &mut self.handler_ns,
            Some(EventKind::Wait) => &mut self.wait_ns,
            Some(EventKind::Barrier) => &mut self.barrier_ns,
            Some(EventKind::Fault) => &mut self.fault_ns,
            Some(EventKind::Lock) => &mut self.lock_ns,
            _ => &mut self.compute_ns,
        }
    }

    /// Adds the times of another thread.
    pub fn add(&mut self, other: &Self) {
        let Self { compute_ns, handler_ns, wait_ns, barrier_ns, fault_ns, lock_ns } = other;
        self.compute_ns += compute_ns;
        self.handler_ns += handler_ns;
        self.wait_ns += wait_ns;
        self.barrier_ns += barrier_ns;
        self.fault_ns += fault_ns;
        self.lock_ns += lock_ns;
    }
}

/// A slice that has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenSlice {
    /// Its kind: one that another ends.
    pub kind: EventKind,
    /// The detail and the peer of its event.
    pub of: (u8, u32),
    /// Time of its beginning.
    pub since_ns: u64,
}

/// A thread whose events are taken one after the other.
#[derive(Debug, Default)]
pub struct TrackTimes {
    /// Times so far.
    pub times: ActivityTimes,
    open: Vec<OpenSlice>,
    last_ns: u64,
}

/// Slices within each other at most; a damaged trace has more, and they are left out.
const MAX_DEPTH: usize = 64;

impl TrackTimes {
    /// Begins at this time.
    pub fn since(at_ns: u64) -> Self {
        Self { last_ns: at_ns, ..Self::default() }
    }

    /// Attributes the time until `at_ns` to what the thread does.
    pub fn until(&mut self, at_ns: u64) {
        let passed = at_ns.saturating_sub(self.last_ns);
        let kind = self.activity();
        *self.times.of(kind) += passed;
        self.last_ns = at_ns.max(self.last_ns);
    }

    /// Begins a slice.
    pub fn begin(&mut self, at_ns: u64, kind: EventKind, of: (u8, u32)) {
        debug_assert!(kind.end().is_some(), "a slice has an end");
        self.until(at_ns);
        if self.open.len() < MAX_DEPTH {
            self.open.push(OpenSlice { kind, of, since_ns: at_ns });
        }
    }

    /// Ends the innermost slice that `end` ends, and those within it; returns it. `None`: its
    /// beginning is not known.
    pub fn end(&mut self, at_ns: u64, end: EventKind) -> Option<OpenSlice> {
        debug_assert!(end.is_end(), "{end:?}");
        self.until(at_ns);
        let at = self.open.iter().rposition(|slice| slice.kind.end() == Some(end))?;
        let slice = self.open[at];
        self.open.truncate(at);
        Some(slice)
    }

    /// Returns the slices that have begun, from the outermost.
    pub fn open(&self) -> &[OpenSlice] {
        &self.open
    }

    /// Returns what the thread does, for its times.
    fn activity(&self) -> Option<EventKind> {
        let innermost = self.open.last()?.kind;
        let around = self.open.iter().rev().nth(1).map(|slice| slice.kind);
        match (innermost, around) {
            (EventKind::Wait, Some(EventKind::Barrier | EventKind::Fault | EventKind::Lock)) => {
                around
            }
            _ => Some(innermost),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use EventKind::{Barrier, BarrierEnd, Handle, HandleEnd, Wait, WaitEnd};

    #[test]
    fn times_add_up_and_waits_in_barriers_are_of_the_barrier() {
        let mut track = TrackTimes::since(10);
        track.begin(15, Wait, (3, 0));
        track.begin(20, Handle, (0, 1));
        assert_eq!(track.end(27, HandleEnd).unwrap().since_ns, 20);
        assert_eq!(track.end(30, WaitEnd).unwrap().of, (3, 0));
        track.begin(32, Barrier, (0, 2));
        track.begin(33, Wait, (1, 0));
        track.begin(40, Handle, (0, 1));
        track.end(41, HandleEnd);
        track.end(50, WaitEnd);
        track.end(51, BarrierEnd);
        assert_eq!(track.end(52, WaitEnd), None, "none has begun");
        track.until(60);
        let times = ActivityTimes {
            compute_ns: 5 + 2 + 9,
            handler_ns: 7 + 1,
            wait_ns: 5 + 3,
            barrier_ns: 1 + 7 + 9 + 1,
            ..ActivityTimes::default()
        };
        assert_eq!(track.times, times);
        let mut sum = times;
        sum.add(&times);
        assert_eq!(sum.barrier_ns, 36);
    }

    #[test]
    fn the_end_of_an_outer_slice_ends_what_is_left_open_within() {
        let mut track = TrackTimes::default();
        track.begin(0, Barrier, (0, 2));
        track.begin(1, Wait, (0, 0));
        assert_eq!(track.end(5, BarrierEnd).unwrap().kind, Barrier);
        assert!(track.open().is_empty());
    }
}
