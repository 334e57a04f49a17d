//! Interfaces of a rank on a path that is to seem slower than it is: one injects what the rank
//! sends, at a least interval; the other takes in the answers of interfaces, byte by byte. Pure;
//! times are arguments.

use crate::knobs::Knobs;
use std::collections::VecDeque;

/// Messages that an interface holds at most before their sender has to wait.
const MAX_BACKLOG: usize = 256;

/// Returns the time of so many bytes at `ps` each.
fn bytes_ns(ps: u64, bytes: usize) -> u64 {
    (u128::from(ps) * bytes as u128 / 1000) as u64
}

/// Times of a message at the interface that injects it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Injection {
    /// Time at which the message is injected.
    pub at_ns: u64,
    /// Time at which its last byte has been, and the receiver may have it.
    pub end_ns: u64,
}

/// Times from which on an interface is free: t_inj = max(now, nic_free);
/// nic_free = t_inj + g' + bytes * dG.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Busy {
    /// Time from which on it takes a further fragment of the last message.
    bytes_ns: u64,
    /// Time from which on it takes another message: a gap later.
    message_ns: u64,
}

impl Busy {
    /// Takes a message of `bytes` bytes that comes at `now_ns`, or a further fragment of the last
    /// one: that needs no gap.
    fn take(&mut self, knobs: &Knobs, now_ns: u64, (bytes, continues): (usize, bool)) -> Injection {
        let free_ns = if continues { self.bytes_ns } else { self.message_ns };
        let at_ns = now_ns.max(free_ns);
        let end_ns = at_ns.saturating_add(bytes_ns(knobs.byte_ps, bytes));
        self.bytes_ns = at_ns.saturating_add(bytes_ns(knobs.stream_ps, bytes));
        self.message_ns = self.bytes_ns.saturating_add(knobs.gap_ns);
        Injection { at_ns, end_ns }
    }
}

/// The interface that injects the messages of a rank on one path (`nic_free` of paper 001's rig),
/// and the messages that wait in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Injector {
    busy: Busy,
    /// Times at which the last messages are injected, as many as wait at most.
    injected_ns: VecDeque<u64>,
}

impl Injector {
    /// Returns the time at which it injects the next message at the soonest.
    pub fn free_ns(&self) -> u64 {
        self.busy.message_ns
    }

    /// Returns the time from which on it takes another message: then fewer wait than it holds.
    pub fn room_ns(&self) -> u64 {
        match self.injected_ns.front() {
            Some(&first_ns) if self.injected_ns.len() == MAX_BACKLOG => first_ns,
            _ => 0,
        }
    }

    /// Injects a message of so many bytes that is handed to it at `now_ns`, whether there is room
    /// or not. True for a further fragment of the last one.
    pub fn inject(&mut self, knobs: &Knobs, now_ns: u64, part: (usize, bool)) -> Injection {
        let injection = self.busy.take(knobs, now_ns, part);
        debug_assert!(injection.at_ns >= now_ns, "nothing is injected in the past");
        if self.injected_ns.len() == MAX_BACKLOG {
            self.injected_ns.pop_front();
        }
        self.injected_ns.push_back(injection.at_ns);
        injection
    }
}

/// The interface of a rank that takes in answers of other nodes' interfaces, which handle no stamps
/// and answer at once: their bytes come one after another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnswerQueue {
    busy: Busy,
    last_due_ns: u64,
}

impl AnswerQueue {
    /// Returns the time at which an answer of so many bytes is due that came at `now_ns` to a
    /// request that was held back for `held_ns`: the latency of both directions later, and behind
    /// the bytes of the answers before it. True in `part`: it is a further fragment of the last.
    pub fn due_ns(
        &mut self,
        knobs: &Knobs,
        (now_ns, held_ns): (u64, u64),
        part: (usize, bool),
    ) -> u64 {
        let came_ns = now_ns.saturating_add(held_ns).saturating_add(2 * knobs.latency_ns);
        let end_ns = self.busy.take(knobs, came_ns, part).end_ns;
        self.last_due_ns = self.last_due_ns.max(end_ns);
        debug_assert!(self.last_due_ns >= now_ns, "no answer is due before it has come");
        self.last_due_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 70_000_000_000;

    #[test]
    fn an_interface_injects_at_the_gap() {
        let knobs = Knobs { gap_ns: 1_000, stream_ps: 500, byte_ps: 400, ..Knobs::default() };
        let mut injector = Injector::default();
        let first = injector.inject(&knobs, START, (2_000, false));
        assert_eq!((first.at_ns, first.end_ns), (START, START + 800));
        assert_eq!(injector.free_ns(), START + 2_000);
        let rest = injector.inject(&knobs, START + 10, (2_000, true));
        assert_eq!((rest.at_ns, rest.end_ns), (START + 1_000, START + 1_800), "without a gap");
        let second = injector.inject(&knobs, START + 10, (0, false));
        assert_eq!((second.at_ns, injector.free_ns()), (START + 3_000, START + 4_000));
    }

    #[test]
    fn an_interface_holds_256_messages_however_long_they_take() {
        // Of 2 ms each by g, and of 1 MiB at 1000 ns/B with short ones between.
        let slow = |gap_ns, stream_ps| Knobs { gap_ns, stream_ps, ..Knobs::default() };
        for (knobs, bytes) in [(slow(2_000_000, 0), 0), (slow(0, 1_000_000), 1 << 20)] {
            let mut injector = Injector::default();
            let mut taken = 0;
            while injector.room_ns() <= START && taken < 1_000 {
                injector.inject(&knobs, START, (if taken % 2 == 0 { bytes } else { 0 }, false));
                taken += 1;
            }
            assert_eq!(taken, 1 + MAX_BACKLOG, "one is injected at once");
            let first_ns = START + knobs.gap_ns + bytes_ns(knobs.stream_ps, bytes);
            assert_eq!(injector.room_ns(), first_ns, "the first that waits makes room");
        }
    }

    #[test]
    fn bytes_of_answers_come_one_after_another_and_a_get_is_one_message() {
        // 1 MiB in fragments of 16 KiB at 100 ns/B: 104.9 ms, whenever the fragments came.
        let knobs = Knobs {
            byte_ps: 100_000,
            stream_ps: 100_000,
            latency_ns: 5_000,
            gap_ns: 40_000,
            ..Knobs::default()
        };
        let mut answers = AnswerQueue::default();
        let last = (0..64_u64)
            .map(|at| answers.due_ns(&knobs, (START + at * 7_000, 0), (16 << 10, at > 0)));
        let last = last.last().unwrap();
        assert_eq!(last, START + 10_000 + (1 << 20) * 100);
        assert_eq!(answers.due_ns(&knobs, (START, 0), (0, false)), last + 40_000, "the gap");
        // The request of the next was held back for 1 s.
        let held_ns = 1_000_000_000;
        assert_eq!(answers.due_ns(&knobs, (START, held_ns), (0, false)), START + held_ns + 10_000);
    }
}
