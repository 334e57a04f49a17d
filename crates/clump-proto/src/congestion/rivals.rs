//! Rivals: senders that fill a queue until it overflows, whatever its delay (TCP that goes by
//! loss).
//!
//! A window that goes by delay gives way to them until nothing is left of it. Beside them it goes
//! by loss, as theirs does: it grows as CUBIC's (RFC 9438), and a loss makes it smaller by as much.
//! After each loss it shows for two round trips if the queue is there without this sender: among
//! senders of this kind, which lose together, it is not, and the window goes by delay again.

use crate::Nanos;
use crate::time::{Ticks, nanos};

/// Times that the path seemed to become longer, one soon after the other, after which it is rivals
/// that fill a queue.
const SUSPICIONS: u32 = 3;
/// Rounds with the least window and a queue as long as this after which it is one of rivals: at 1
/// Gb/s those of 85 senders of this kind are as long.
const YIELDED_ROUNDS: u32 = 8;
const LONG_QUEUE: Nanos = 10_000_000;
/// Times that a shorter one falls by a quarter, and rises again, after which it is one of rivals:
/// senders of this kind leave it as it is while their windows are the least.
const SWINGS: u32 = 4;
/// Time after which a suspicion counts no more.
const SUSPECTED_FOR: Nanos = 4_000_000_000;
/// Segment by which windows grow: that of the senders that they compete with.
const SEGMENT: f64 = 1460.0;
/// RFC 9438, 4.1: C, in segments per cubic second.
const C: f64 = 0.4;
/// RFC 9438, 4.6: multiplicative decrease.
const BETA: f64 = 0.7;
/// Growth in segments a round that is as fast as Reno's with this decrease: RFC 9438, 4.3.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// Part of the window that is kept while the queue is looked at, and rounds of that: in the first,
/// what was sent before arrives.
const LOOK: usize = 16;
const LOOK_ROUNDS: u32 = 3;
/// Part of the queue that may be left then if it was that of senders that lose together.
const OURS: Nanos = 8;
/// Looks of that kind in a row that end a contest, at most: one more each time that it begins again
/// soon. Behind a short queue rivals that lost leave none for a while, either.
const MAX_RELAPSES: u32 = 7;
/// Rounds in a row without a queue after which rivals are gone.
const LOW_ROUNDS: u32 = 4;

/// Signs of rivals, and the contest with them.
#[derive(Debug, Default)]
pub(super) struct Rivals {
    /// Times that the path seemed to become longer, and the last of them.
    suspicions: u32,
    suspected_at: Ticks,
    /// Least round trip before the first.
    floor: Nanos,
    /// Rounds with the least window and a long queue.
    yielded: u32,
    swings: Swings,
    contest: Option<Contest>,
    /// End of the last contest, and those before it that began again soon.
    over_at: Ticks,
    relapses: u32,
}

/// Falls and rises of a queue.
#[derive(Debug, Default)]
struct Swings {
    /// Falls since the window was the least.
    falls: u32,
    /// True after a rise; and the longest queue since, or the shortest since the fall.
    rises: bool,
    extreme: Nanos,
    /// Queue that is mostly others', as it was known when the window became the least: what the
    /// path carries is forgotten from then on. 0: not yet.
    long: Nanos,
}

impl Swings {
    /// Notes the queue of a round, and returns the number of falls from more than `long`.
    fn note(&mut self, queue: Nanos, long: Nanos) -> u32 {
        self.long = if self.long == 0 { long } else { self.long.min(long) };
        if self.rises && queue < self.extreme - self.extreme / 4 {
            self.falls += u32::from(self.extreme > self.long);
            (self.rises, self.extreme) = (false, queue);
        } else if !self.rises && queue > self.extreme + self.extreme / 3 {
            (self.rises, self.extreme) = (true, queue);
        } else if self.rises == (queue > self.extreme) {
            self.extreme = queue;
        }
        self.falls
    }
}

/// A window that goes by loss.
#[derive(Debug)]
struct Contest {
    /// Least round trip before it began.
    floor: Nanos,
    /// Window to come back to: that before the last loss, or at first half of what the path and its
    /// queue have carried.
    most: f64,
    /// True until the first loss: the window doubles each round.
    doubles: bool,
    /// Time of the last decrease, the seconds from then until the window is back, and the window
    /// of a Reno sender.
    since: Ticks,
    back_after: f64,
    reno: f64,
    /// While the queue is looked at: rounds left, window and queue before.
    look: Option<(u32, usize, Nanos)>,
    /// Looks in a row after which the queue was there no more, of so many that end it.
    ours: u32,
    until: u32,
    low: u32,
}

/// Result of a round of a contest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contested {
    /// This is the window from now on.
    Window(usize),
    /// Rivals are gone: this is the window that goes by delay from now on.
    Over(usize),
}

impl Rivals {
    /// Returns true while the window goes by loss.
    #[inline]
    pub(super) fn are_here(&self) -> bool {
        self.contest.is_some()
    }

    /// Notes that delay did not fall with the window, which may be a longer path; `least` was its
    /// round trip, and `fair` a fair window beside one rival. Returns true if a contest begins.
    pub(super) fn on_standing(&mut self, now: Ticks, least: Nanos, fair: usize) -> bool {
        let soon = nanos(now.saturating_sub(self.suspected_at)) < SUSPECTED_FOR;
        if self.suspicions == 0 || !soon {
            (self.suspicions, self.floor) = (0, least);
        }
        self.suspected_at = now;
        self.suspicions += 1;
        if self.suspicions >= SUSPICIONS {
            self.begin(now, self.floor.min(least), fair);
        }
        self.are_here()
    }

    /// Notes a round with this queue behind the least window, and the queue of which its own is a
    /// small part; `None`: with a larger window, or without. Returns true if a contest begins.
    pub(super) fn on_round(
        &mut self,
        now: Ticks,
        queue: Option<(Nanos, Nanos)>,
        least: Nanos,
        fair: usize,
    ) -> bool {
        let Some((queue, long)) = queue else {
            (self.yielded, self.swings) = (0, Swings::default());
            return false;
        };
        // Rivals that were here just now need not be found out again.
        let least_queue = if self.were_here(now) { long } else { LONG_QUEUE.max(long) };
        self.yielded = if queue > least_queue { self.yielded + 1 } else { 0 };
        if self.yielded >= YIELDED_ROUNDS || self.swings.note(queue, long) >= SWINGS {
            self.begin(now, least, fair);
        }
        self.are_here()
    }

    #[cold]
    fn begin(&mut self, now: Ticks, floor: Nanos, fair: usize) {
        self.relapses = if self.were_here(now) { (self.relapses + 1).min(MAX_RELAPSES) } else { 0 };
        debug_assert!(!self.are_here(), "a contest begins once");
        (self.suspicions, self.yielded, self.swings) = (0, 0, Swings::default());
        let (most, doubles) = (fair as f64, true);
        let (since, back_after, reno, look) = (0, 0.0, 0.0, None);
        let (ours, until, low) = (0, self.relapses + 1, 0);
        let contest =
            Contest { floor, most, doubles, since, back_after, reno, look, ours, until, low };
        self.contest = Some(contest);
    }

    /// Returns true if a contest ended not long ago.
    fn were_here(&self, now: Ticks) -> bool {
        self.over_at != 0 && nanos(now.saturating_sub(self.over_at)) < SUSPECTED_FOR
    }

    /// Ends a round of a contest with a `window`, which was in use or not, whose least round trip
    /// was `round_trip`, and in which units were lost or not. `low` is a delay that is no queue.
    pub(super) fn end_round(
        &mut self,
        now: Ticks,
        (window, used): (usize, bool),
        (round_trip, low): (Nanos, Nanos),
        lost: bool,
    ) -> Contested {
        let Some(contest) = &mut self.contest else {
            clump_bug::bug!("a contest goes on");
            return Contested::Window(window);
        };
        let queue = round_trip.saturating_sub(contest.floor);
        contest.low = if queue <= low { contest.low + 1 } else { 0 };
        let over = contest.low >= LOW_ROUNDS;
        let next = contest.end_round(now, (window, used), queue, lost);
        if over || matches!(next, Contested::Over(_)) {
            self.contest = None;
            self.over_at = now;
        }
        match next {
            Contested::Window(window) if over => Contested::Over(window),
            next => next,
        }
    }
}

impl Contest {
    fn end_round(
        &mut self,
        now: Ticks,
        (window, used): (usize, bool),
        queue: Nanos,
        lost: bool,
    ) -> Contested {
        if let Some((rounds, before, queued)) = self.look {
            if rounds > 1 {
                self.look = Some((rounds - 1, before, queued));
                return Contested::Window(window);
            }
            self.look = None;
            self.since = now;
            let smaller = (before as f64 * BETA) as usize;
            self.reno = smaller as f64;
            self.back_after = ((self.most - smaller as f64).max(0.0) / SEGMENT / C).cbrt();
            self.ours = if queue < queued / OURS { self.ours + 1 } else { 0 };
            let over = self.ours >= self.until;
            return if over { Contested::Over(smaller) } else { Contested::Window(smaller) };
        }
        if lost {
            // RFC 9438, 4.7: one that had less than before leaves more to others.
            let before = window as f64;
            self.most = match std::mem::take(&mut self.doubles) {
                true => self.most.max(before),
                false if before < self.most => before * (1.0 + BETA) / 2.0,
                false => before,
            };
            self.look = Some((LOOK_ROUNDS, window, queue));
            return Contested::Window(window / LOOK);
        }
        if !used {
            return Contested::Window(window);
        }
        if self.doubles {
            return Contested::Window(2 * window);
        }
        self.reno += if self.reno < self.most { ALPHA * SEGMENT } else { SEGMENT };
        let seconds = nanos(now.saturating_sub(self.since)) as f64 / 1e9 - self.back_after;
        let cubic = C * seconds.powi(3) * SEGMENT + self.most;
        let next = cubic.max(self.reno).clamp(window as f64, 1.5 * window as f64);
        Contested::Window(next as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::ticks;

    const MS: Nanos = 1_000_000;
    const SEC: Nanos = 1_000_000_000;

    fn contest(fair: usize) -> Rivals {
        let mut rivals = Rivals::default();
        let long = Some((LONG_QUEUE + 1, MS));
        assert!((1..YIELDED_ROUNDS).all(|_| !rivals.on_round(1, long, MS, fair)));
        assert!(rivals.on_round(1, long, MS, fair) && rivals.are_here());
        rivals
    }

    /// Ends a round of 20 ms, of which 19 are a queue.
    fn round(rivals: &mut Rivals, at: Nanos, window: usize, lost: bool) -> Contested {
        rivals.end_round(ticks(at), (window, true), (20 * MS, MS / 10), lost)
    }

    #[test]
    fn a_path_that_becomes_longer_again_and_again_is_a_queue_of_rivals() {
        let mut rivals = Rivals::default();
        for at in [SEC, 20 * SEC, 22 * SEC, 30 * SEC, 31 * SEC] {
            assert!(!rivals.on_standing(ticks(at), MS, 1000), "no three in a few seconds");
        }
        assert!(rivals.on_standing(ticks(32 * SEC), 4 * MS, 1000));
        let mut rivals = Rivals::default();
        for turn in 0..100 {
            let queue = if turn % YIELDED_ROUNDS == 0 { None } else { Some((20 * MS, MS)) };
            assert!(!rivals.on_round(1, queue, MS, 1000), "one round without a long queue");
        }
    }

    #[test]
    fn a_queue_that_falls_and_rises_behind_the_least_window_is_one_of_rivals() {
        let rounds = |queues: &[Nanos], long| {
            let mut rivals = Rivals::default();
            let mut all = queues.iter().cycle().take(60);
            all.position(|&queue| rivals.on_round(1, Some((queue, long)), MS, 1000))
        };
        // Four peaks and what follows them, as of a sender that loses and grows again.
        let of_cubic = [MS, 6 * MS / 5, 7 * MS / 5, 2 * MS];
        assert_eq!(rounds(&of_cubic, MS), Some(16));
        assert_eq!(rounds(&of_cubic, 2 * MS), None, "a good part may be the sender's");
        assert_eq!(rounds(&[MS, 9 * MS / 8, MS, 5 * MS / 4], MS), None, "it stays much the same");
    }

    #[test]
    fn a_window_comes_back_to_what_it_was_as_that_of_cubic() {
        let mut rivals = contest(100_000);
        let mut window = 15_000;
        for _ in 0..6 {
            let next = round(&mut rivals, SEC, window, false);
            assert_eq!(next, Contested::Window(2 * window), "until the first loss");
            window *= 2;
        }
        // The queue stays while the window is small for two round trips.
        assert_eq!(round(&mut rivals, SEC, window, true), Contested::Window(window / LOOK));
        for _ in 1..LOOK_ROUNDS {
            let look = round(&mut rivals, SEC, window / LOOK, true);
            assert_eq!(look, Contested::Window(window / LOOK));
        }
        let smaller = (window as f64 * BETA) as usize;
        assert_eq!(round(&mut rivals, SEC, window / LOOK, false), Contested::Window(smaller));
        // RFC 9438, 4.2: back after K.
        let k = ((window - smaller) as f64 / SEGMENT / C).cbrt();
        let mut now = smaller;
        for turn in 1..=(k / 0.1) as u64 {
            let next = round(&mut rivals, SEC + turn * 100 * MS, now, false);
            let Contested::Window(next) = next else { panic!("{next:?}") };
            assert!(next >= now && next <= now * 3 / 2, "{next} after {now}");
            now = next;
        }
        assert!(now.abs_diff(window) < window / 50, "{now} and not {window} after {k} s");
        // One that is not in use says nothing about a larger one.
        let idle = rivals.end_round(ticks(SEC), (now, false), (20 * MS, MS / 10), false);
        assert_eq!(idle, Contested::Window(now));
    }

    #[test]
    fn a_contest_is_over_where_the_queue_goes_with_the_window_or_by_itself() {
        let mut rivals = contest(100_000);
        round(&mut rivals, SEC, 160_000, true);
        for _ in 1..LOOK_ROUNDS {
            round(&mut rivals, SEC, 10_000, false);
        }
        let mut look =
            |round_trip| rivals.end_round(ticks(SEC), (10_000, true), (round_trip, MS / 10), false);
        assert_eq!(look(MS + 19 * MS / OURS - 1), Contested::Over(112_000), "all made room");
        let mut rivals = contest(100_000);
        for _ in 1..LOW_ROUNDS {
            let next = rivals.end_round(ticks(SEC), (9000, false), (MS, MS / 10), false);
            assert_eq!((next, rivals.are_here()), (Contested::Window(9000), true));
        }
        let next = rivals.end_round(ticks(SEC), (9000, false), (MS, MS / 10), false);
        assert_eq!((next, rivals.are_here()), (Contested::Over(9000), false));
    }
}
