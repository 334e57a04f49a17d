//! Serial phases of a traced run: one rank sends while all others wait (M1b). Pure.
//!
//! A rank *rests* from the beginning of a wait or a barrier to its end, whatever handlers it runs
//! meanwhile. A wait for room does not count: the network makes the rank wait, and no other rank. A
//! rank that has noted nothing yet does not rest, since it may compute; one with several threads
//! rests while all of them do. A *phase* is a time in which exactly one rank does not rest, up to
//! the moment at which any rank begins or ends to rest. The messages that this rank sends in it are
//! serial, if they are several: a single one is an answer, or a turn of an exchange, which M1 and
//! M3 count.

use clump_loggp::KnobScope;
use clump_trace::{EventKind, TraceEvent};
use std::collections::BTreeMap;

/// Fewest messages of a phase.
const FEWEST: u64 = 2;
/// Detail of a wait for room.
pub(super) const ROOM: u8 = 4;

/// Messages of a rank.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct RankMessages {
    /// All of them, by path.
    sent: [u64; 2],
    /// Those of serial phases, by path.
    serial: [u64; 2],
}

/// Waits that a thread is in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ThreadWaits {
    wait: bool,
    room: bool,
    barrier: bool,
}

impl ThreadWaits {
    fn rests(self) -> bool {
        self.barrier || (self.wait && !self.room)
    }
}

/// The serial phases of a job, from its events by time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SerialPhases {
    ranks: u32,
    threads: BTreeMap<(u32, u8), ThreadWaits>,
    /// Threads of a rank that do not rest; ranks without an entry have noted nothing.
    busy_threads: BTreeMap<u32, u32>,
    /// Ranks that do not rest.
    busy: u32,
    messages: BTreeMap<u32, RankMessages>,
    /// Rank and messages of the phase that goes on.
    phase: Option<(u32, [u64; 2])>,
}

impl SerialPhases {
    /// Begins with the events of a job of so many ranks.
    pub fn of_ranks(ranks: u32) -> Self {
        Self { ranks, busy: ranks, ..Self::default() }
    }

    /// Takes the next event of a rank; `scope`: the path of what it sends.
    pub fn take(&mut self, rank: u32, event: &TraceEvent, scope: KnobScope) {
        let mut waits = self.thread(rank, event.track);
        match event.kind {
            EventKind::Wait => (waits.wait, waits.room) = (true, event.detail == ROOM),
            EventKind::WaitEnd => (waits.wait, waits.room) = (false, false),
            EventKind::Barrier => waits.barrier = true,
            EventKind::BarrierEnd => waits.barrier = false,
            EventKind::Send | EventKind::Ask | EventKind::Post => self.send(rank, scope),
            _ => {}
        }
        self.set(rank, event.track, waits);
    }

    /// Returns n of M1b by path, after the last event: the messages of serial phases, of all ranks
    /// but the busiest of the path, whose messages M1 counts.
    pub fn finish(mut self) -> [u64; 2] {
        self.end_phase();
        [KnobScope::Shm, KnobScope::Net].map(|scope| {
            let at = scope as usize;
            let all: u64 = self.messages.values().map(|rank| rank.serial[at]).sum();
            // Of ranks that send equally many, the one with most serial messages is the busiest.
            let busiest =
                self.messages.values().max_by_key(|rank| (rank.sent[at], rank.serial[at]));
            let n = all - busiest.map_or(0, |rank| rank.serial[at]);
            debug_assert!(n <= self.messages.values().map(|rank| rank.sent[at]).sum::<u64>());
            n
        })
    }

    /// Returns the waits of a thread; one that is new does not rest.
    fn thread(&mut self, rank: u32, track: u8) -> ThreadWaits {
        if let Some(waits) = self.threads.get(&(rank, track)) {
            return *waits;
        }
        let waits = ThreadWaits::default();
        self.threads.insert((rank, track), waits);
        self.count(rank, 1);
        waits
    }

    fn set(&mut self, rank: u32, track: u8, waits: ThreadWaits) {
        let before = self.threads.insert((rank, track), waits).unwrap_or_default();
        match (before.rests(), waits.rests()) {
            (false, true) => self.count(rank, -1),
            (true, false) => self.count(rank, 1),
            _ => {}
        }
    }

    /// Changes the number of threads of a rank that do not rest.
    fn count(&mut self, rank: u32, by: i32) {
        // Before its first event a rank counts as busy.
        let before = self.busy_threads.get(&rank).copied();
        let threads = before.unwrap_or(0).saturating_add_signed(by);
        self.busy_threads.insert(rank, threads);
        let (was, is) = (before != Some(0), threads > 0);
        if was != is {
            self.end_phase();
            self.busy = if is { self.busy + 1 } else { self.busy - 1 };
        }
        debug_assert!(
            self.busy <= self.ranks.max(self.busy_threads.len() as u32),
            "ranks count once"
        );
    }

    fn end_phase(&mut self) {
        let Some((rank, sent)) = self.phase.take() else { return };
        if sent.iter().sum::<u64>() >= FEWEST {
            let serial = &mut self.messages.entry(rank).or_default().serial;
            serial.iter_mut().zip(sent).for_each(|(sum, more)| *sum += more);
        }
    }

    fn send(&mut self, rank: u32, scope: KnobScope) {
        self.messages.entry(rank).or_default().sent[scope as usize] += 1;
        let rests = self.busy_threads.get(&rank).is_none_or(|&threads| threads == 0);
        if self.busy == 1 && !rests && self.ranks > 1 {
            let (of, sent) = self.phase.get_or_insert((rank, [0; 2]));
            debug_assert_eq!(*of, rank, "a phase is of one rank");
            sent[scope as usize] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NET: KnobScope = KnobScope::Net;

    /// Events of ranks, written as a text: `0w` rank 0 waits, `0e` has it; `1b` and `1f` enter and
    /// leave a barrier; `2r` waits for room; `1s5` sends five messages; `1t`: a second thread of
    /// rank 1 notes something.
    fn phases(ranks: u32, text: &str) -> SerialPhases {
        let mut phases = SerialPhases::of_ranks(ranks);
        for word in text.split_whitespace() {
            let (rank, rest) = word.split_at(1);
            let (what, count) = rest.split_at(1);
            let (kind, track, detail) = match what {
                "w" => (EventKind::Wait, 0, 2),
                "r" => (EventKind::Wait, 0, ROOM),
                "e" => (EventKind::WaitEnd, 0, 0),
                "b" => (EventKind::Barrier, 0, 0),
                "f" => (EventKind::BarrierEnd, 0, 0),
                "h" => (EventKind::Handle, 0, 2),
                "t" => (EventKind::Fault, 1, 0),
                _ => (EventKind::Send, 0, 2),
            };
            let event = TraceEvent { at_ns: 0, kind, track, detail, peer: 0, value: 0 };
            for _ in 0..count.parse().unwrap_or(1) {
                phases.take(rank.parse().unwrap(), &event, NET);
            }
        }
        phases
    }

    fn n(ranks: u32, text: &str) -> u64 {
        let [shm, net] = phases(ranks, text).finish();
        assert_eq!(shm, 0);
        net
    }

    #[test]
    fn what_one_rank_sends_while_all_others_wait_is_serial() {
        // Rank 1 sends most; rank 0 is alone with 50.
        assert_eq!(n(3, "0s100 1s200 2s1 1w 2b 0s50 0w 1e 2f"), 50);
        assert_eq!(n(3, "0s100 1s200 2s1 1w 2b 1h 0s50 1h 0s9 0w"), 59, "handlers are no work");
        assert_eq!(n(3, "0s100 1s200 2s1 1w 0s50 2b"), 0, "rank 2 works");
        assert_eq!(n(3, "0s100 1s200 1w 0s50 0b"), 0, "rank 2 has noted nothing");
        assert_eq!(n(2, "1s200 1w 0s50"), 50, "to the end of the trace");
        assert_eq!(n(1, "0s100"), 0, "nobody waits");
    }

    #[test]
    fn several_phases_add_up_and_those_of_the_busiest_rank_are_in_m() {
        assert_eq!(n(2, "0s9 1s500 1b 0s50 1f 0b 1s30 0f 1w 0s7 1e"), 57);
        assert_eq!(n(2, "0s500 1b 0s50 1f"), 0, "rank 0 sends most");
        let three = "0s99 1s5 2s5 0w 2w 1s20 1w 2e 2s30 2w 0e";
        assert_eq!(n(3, three), 50, "a chain: rank after rank");
    }

    #[test]
    fn answers_room_and_further_threads_make_no_phase() {
        // Reads of two ranks: each sends one message while the other happens to wait.
        assert_eq!(n(2, "0s1 0w 1s1 1w 0e 0s1 0w 1e 1s1 1w"), 0);
        assert_eq!(n(2, "1s200 1r 0s50 1e"), 0, "it waits for the network");
        assert_eq!(n(2, "0s50 0r 0e 1s200 1w 0s5 0r 0e 0s5"), 10, "the sender may wait for room");
        assert_eq!(n(2, "1t 1s200 1w 0s50 1e"), 0, "a thread of rank 1 works");
        assert_eq!(n(2, "0s50 1w 1s20 0s3"), 0, "answers of a rank that waits");
    }
}
