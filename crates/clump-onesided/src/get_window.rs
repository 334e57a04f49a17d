//! The number of fragments of gets that are requested ahead of the first answer: as many as the
//! path to their node holds, learnt from the time that each takes.
//!
//! A window by delay, as TCP Vegas has one (Brakmo, Peterson, IEEE JSAC 13, 1995): it grows while
//! fragments take hardly longer than one alone. So it stays at its least on a short path, whose
//! time is the work of both ends, and comes to two to four times what a long one holds. Windows of
//! channels do not help: that to the node is hardly used, and its own of the way back is far away.

/// Least number of fragments in flight: 256 KiB, what a path of 10 Gb/s and 200 us holds.
pub const MIN_AHEAD: u32 = 16;
/// Most of them: 64 MiB, what a path of 10 Gb/s and 50 ms holds.
pub const MAX_AHEAD: u32 = 4096;
/// Multiples of the least time up to which the window grows, and from which it shrinks.
const GROWS_TO: u64 = 2;
const SHRINKS_FROM: u64 = 4;
/// Weight of a lone fragment that took longer than the least time: the path may have become longer.
/// Only those say so, for all others may have waited for each other.
const LONGER: u64 = 8;

/// Window of the gets of one thread from one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GetWindow {
    ahead: u32,
    /// Least time of a fragment from its request to its end, ns; 0: none has ended.
    least_ns: u64,
    /// Fragments in flight that were requested before the window last shrank: how long they take
    /// says nothing about what it is now.
    before: u32,
}

impl Default for GetWindow {
    fn default() -> Self {
        Self { ahead: MIN_AHEAD, least_ns: 0, before: 0 }
    }
}

impl GetWindow {
    /// Returns the number of fragments that may be in flight.
    pub fn ahead(self) -> usize {
        debug_assert!((MIN_AHEAD..=MAX_AHEAD).contains(&self.ahead), "a window has bounds");
        self.ahead as usize
    }

    /// Notes that a fragment has ended so many nanoseconds after its request: the `first` of a get
    /// or a later one. `others` were in flight with it.
    pub fn on_end(&mut self, took_ns: u64, first: bool, others: usize) {
        let took_ns = took_ns.max(1);
        let known_ns = if self.least_ns == 0 { took_ns } else { self.least_ns };
        let longer_ns = if first { took_ns.saturating_sub(known_ns) / LONGER } else { 0 };
        self.least_ns = (known_ns + longer_ns).min(took_ns);
        if self.before > 0 {
            self.before -= 1;
            return;
        }
        // A window that is not in use says nothing about a larger one.
        let used = others + 1 >= self.ahead() / 2;
        if used && took_ns <= GROWS_TO * self.least_ns {
            self.ahead = (self.ahead + 1).min(MAX_AHEAD);
        } else if took_ns > SHRINKS_FROM * self.least_ns {
            self.ahead = (self.ahead - self.ahead / 8).max(MIN_AHEAD);
            self.before = others as u32;
        }
        debug_assert!(self.least_ns <= took_ns, "the least of all");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a get of so many fragments over a path, and returns the time that it takes. A fragment
    /// takes `step_ns` on the line, behind those before it, and the round trip.
    fn get(window: &mut GetWindow, fragments: u32, (trip_ns, step_ns): (u64, u64)) -> u64 {
        let (mut now_ns, mut line_ns, mut first) = (0, 0, true);
        let mut under_way = std::collections::VecDeque::new();
        let mut end_first = |under_way: &mut std::collections::VecDeque<(u64, u64)>,
                             now: &mut u64| {
            if let Some((begun_ns, ends_ns)) = under_way.pop_front() {
                *now = ends_ns.max(*now);
                window.on_end(*now - begun_ns, std::mem::take(&mut first), under_way.len());
            }
            window.ahead()
        };
        let mut ahead = MIN_AHEAD as usize;
        for _ in 0..fragments {
            while under_way.len() >= ahead {
                ahead = end_first(&mut under_way, &mut now_ns);
            }
            line_ns = line_ns.max(now_ns) + step_ns;
            under_way.push_back((now_ns, line_ns + trip_ns));
        }
        while !under_way.is_empty() {
            end_first(&mut under_way, &mut now_ns);
        }
        now_ns
    }

    #[test]
    fn a_long_path_is_filled_and_a_short_one_keeps_the_least_window() {
        // 16 KiB take 13 us on a line of 10 Gb/s.
        for trip_ns in [100_000, 2_000_000, 50_000_000] {
            let (mut window, path) = (GetWindow::default(), (trip_ns, 13_000));
            get(&mut window, 20_000, path);
            let (fragments, at_most) =
                (50_000, SHRINKS_FROM * (trip_ns / 13_000) + 2 * u64::from(MIN_AHEAD));
            let took_ns = get(&mut window, fragments, path);
            let line_ns = u64::from(fragments) * 13_000;
            assert!(took_ns < line_ns * 11 / 10 + trip_ns, "{trip_ns}: {took_ns} of {line_ns}");
            assert!(window.ahead() as u64 <= at_most, "{window:?}");
        }
        let mut window = GetWindow::default();
        get(&mut window, 20_000, (10_000, 6_000));
        assert!(window.ahead() <= MIN_AHEAD as usize + 2, "16 of them take 96 us: {window:?}");
    }

    #[test]
    fn fragments_in_flight_make_a_window_smaller_once() {
        let mut window = GetWindow { ahead: 256, least_ns: 1000, before: 0 };
        for left in (0..256).rev() {
            window.on_end(5000, false, left);
        }
        assert_eq!(window.ahead(), 224);
        window.on_end(5000, false, 223);
        assert_eq!(window.ahead(), 196);
    }

    #[test]
    fn a_window_shrinks_where_fragments_wait_and_never_leaves_its_bounds() {
        let mut window = GetWindow::default();
        for _ in 0..10_000 {
            window.on_end(1000, false, MAX_AHEAD as usize);
        }
        assert_eq!(window.ahead(), MAX_AHEAD as usize);
        for _ in 0..10_000 {
            window.on_end(100_000, false, MAX_AHEAD as usize);
        }
        assert!(window.ahead() < MAX_AHEAD as usize);
        let mut alone = GetWindow::default();
        for _ in 0..100 {
            alone.on_end(1000, true, 0);
        }
        assert_eq!(
            alone,
            GetWindow { ahead: MIN_AHEAD, least_ns: 1000, before: 0 },
            "it was not in use"
        );
        // The path has become ten times as long for good: that is its least time in the end.
        let mut longer = GetWindow { ahead: 64, least_ns: 1000, before: 0 };
        longer.on_end(10_000, false, 64);
        assert_eq!(longer.least_ns, 1000, "it may have waited for others");
        (0..100).for_each(|_| longer.on_end(10_000, true, 64));
        assert!(longer.least_ns > 9900);
    }
}
