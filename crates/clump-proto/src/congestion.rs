//! Congestion control: the number of bytes that the path bears, by delay, marks and loss (ADR 12).
//!
//! Judged once a round trip, from the least delay of that round. While it is low and the window is
//! at its maximum, a packet costs a comparison.

mod drain;
mod growth;
mod rivals;
mod round;
mod standing;
mod tolerance;

use crate::time::{Ticks, nanos};
use crate::{Config, Nanos};
use drain::Drain;
use growth::{CalmRound, Growth};
use rivals::{Contested, Rivals};
pub(crate) use round::{Cut, RoundEnd, Sample};
use round::{RoundSamples, SHORT_PATH};
use standing::{Standing, StandingDelay};
use tolerance::{MIN_WINDOW, Tolerance};

/// Multiplicative decrease by delay: Swift (SIGCOMM 2020), algorithm 1, beta.
const DELAY_SHARE: f64 = 0.8;
/// Largest decrease of a round, one half: Swift, algorithm 1, max_mdf.
const MAX_CUT: f64 = 0.5;
/// Weight of a round's share of marks, 1/16: RFC 8257, 4.2 (g).
const MARK_SHIFT: u32 = 4;
/// Unit in which shares of marks are counted, so that rounds without any need no floating point.
const WHOLE: u32 = 1 << 16;
/// Least decrease by delay where a round trip is much longer than queues: otherwise senders that
/// share such a path would come to equal windows in thousands of round trips.
const MIN_FAR_CUT: f64 = 1.0 / 16.0;
/// Rounds in a row with high delay that count as congestion: one alone is a peer that computed (ADR
/// 12).
const HIGH_ROUNDS: u32 = 2;
/// Multiples of the tolerated delay, and of the time that the least window takes on the path, from
/// which on a queue behind that window is mostly others'.
const OTHERS_QUEUE: Nanos = 4;
/// Rounds with half a window after which its effect is seen: the first was sent before. On a short
/// path others that share the queue need more of them to answer.
const FAR_ROUNDS: u32 = 2;
const NEAR_ROUNDS: u32 = 32;
/// Least number of units over which loss is judged.
const JUDGED_UNITS: u32 = 32;
/// Divisor of the units that may be lost without congestion: a tenth, as long as delay is low and
/// marks are absent (ADR 12).
const TOLERATED_LOSS: u32 = 10;
/// Rounds without any sign of congestion after which pacing ends.
const CALM_AFTER: u32 = 16;

/// The window that the path bears.
#[derive(Debug)]
pub(crate) struct CongestionControl {
    window: usize,
    /// Below, the window doubles; above, it grows by a unit a round (RFC 5681, 3.1).
    threshold: usize,
    most: usize,
    /// Bytes that may be in flight beside those that the path itself holds, and the latter.
    near: usize,
    on_path: usize,
    /// Bytes that arrived in the last round, in a least round trip.
    carried: usize,
    /// Time at which the window was last made smaller.
    cut_at: Ticks,
    tolerance: Tolerance,
    /// Length of the longest unit so far.
    unit: usize,
    /// The round ends when a packet sent after this has arrived.
    began: Ticks,
    round: RoundSamples,
    /// Least round trip at the last sample.
    least: Nanos,
    standing: StandingDelay,
    rivals: Rivals,
    high_rounds: u32,
    growth: Growth,
    /// The most that the path has carried, slowly forgotten.
    highest: usize,
    /// Smoothed share of marked packets, of `WHOLE`: RFC 8257, 4.2 (alpha).
    marked: u32,
    judged: u32,
    lost: u32,
    /// Rounds until pacing ends.
    limited: u32,
    drain: Drain,
    /// State to restore should the losses turn out false: window, threshold, number of losses.
    before: Option<(usize, usize, u32)>,
}

impl CongestionControl {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            window: config.initial_window_bytes.min(config.max_window_bytes),
            threshold: usize::MAX,
            most: config.max_window_bytes,
            near: config.near_window_bytes,
            on_path: 0,
            carried: 0,
            cut_at: 0,
            tolerance: Tolerance::new(config.delay_target),
            unit: 0,
            began: 0,
            round: RoundSamples::NEW,
            least: 0,
            standing: StandingDelay::default(),
            rivals: Rivals::default(),
            high_rounds: 0,
            growth: Growth::default(),
            highest: 0,
            marked: WHOLE,
            judged: 0,
            lost: 0,
            limited: 0,
            drain: Drain::default(),
            before: None,
        }
    }

    /// Returns the bytes that may be in flight.
    #[inline]
    pub(crate) fn window(&self) -> usize {
        if !self.drain.is_on() {
            return self.window;
        }
        let drained = if self.is_far() { self.window / 2 } else { self.unit };
        self.window.min(drained.max(self.unit))
    }

    /// Returns the bytes that are sent in a round trip, also while a queue drains: by the window
    /// that there is then, what went out at once before would be paid for very late.
    #[inline]
    pub(crate) fn paced_window(&self) -> usize {
        self.window
    }

    /// Returns true if there were recent signs of congestion, so that packets should not be sent in
    /// bursts.
    #[inline]
    pub(crate) fn is_limited(&self) -> bool {
        self.limited > 0
    }

    /// Returns the length of the longest unit so far.
    #[inline]
    pub(crate) fn unit(&self) -> usize {
        self.unit
    }

    /// Notes a unit of `bytes` that is sent; `open` bytes are in flight with it.
    #[inline]
    pub(crate) fn on_sent(&mut self, bytes: usize, open: usize) {
        debug_assert!(open >= bytes, "the unit is in flight");
        self.unit = self.unit.max(bytes);
        self.round.used |= 2 * open >= self.window;
    }

    /// Handles an acknowledgement. `newest` is the time at which the newest packet that arrived was
    /// sent.
    #[inline]
    pub(crate) fn on_acked(
        &mut self,
        now: Ticks,
        newest: Ticks,
        sample: Sample,
    ) -> Option<RoundEnd> {
        self.round.add(&sample);
        if let Some((_, least)) = sample.delay {
            self.least = least;
        }
        if newest < self.began || self.round.units == 0 {
            return None;
        }
        let end = if self.drain.is_on() { self.drain(now) } else { self.end_round(now) };
        self.began = now;
        self.round.restart();
        end
    }

    /// Ends a round of a drain: it gives no information about the window.
    #[cold]
    fn drain(&mut self, now: Ticks) -> Option<RoundEnd> {
        debug_assert!(self.unit > 0, "a drain leaves room for a unit");
        self.drain.end_drained_round(now);
        None
    }

    /// Learns from the bytes that arrived in a round of so many nanoseconds how many the path
    /// itself holds: those are in no socket and no cache.
    fn measure_path(&mut self, round: Nanos) {
        // What lies in a queue of rivals lies on the path.
        let rivals = self.rivals.are_here();
        let least = if rivals { self.round.round_trip.max(self.least) } else { self.least };
        if least <= SHORT_PATH {
            self.on_path -= self.on_path.div_ceil(8); // round trips are many
            return;
        }
        let length = least - SHORT_PATH;
        let of = |time| {
            (self.round.bytes as u128 * u128::from(time) / u128::from(round.max(1))) as usize
        };
        let held = of(length);
        self.carried = of(least);
        self.highest = (self.highest - self.highest / 512).max(self.carried);
        // A round in which little was sent says nothing about what the path holds.
        let kept = if self.round.used { self.on_path - self.on_path / 8 } else { self.on_path };
        self.on_path = held.max(kept);
        debug_assert!(self.carried >= held, "a part of what arrived");
    }

    /// Returns the bytes that the path itself holds.
    pub(crate) fn on_path(&self) -> usize {
        self.on_path
    }

    /// Returns the bytes that the path itself holds, twice: as many may follow before the first of
    /// them is acknowledged.
    #[inline]
    pub(crate) fn beyond_ends(&self) -> usize {
        2 * self.on_path
    }

    fn end_round(&mut self, now: Ticks) -> Option<RoundEnd> {
        debug_assert!(!self.drain.is_on(), "a round of a drain tells nothing");
        let (units, marks) = (self.round.units, self.round.marks.min(self.round.units));
        self.measure_path(nanos(now.saturating_sub(self.began)));
        self.tolerance.take_noise(&self.round, self.least);
        if self.rivals.are_here() {
            return self.contend(now);
        }
        let target = self.tolerance.of(self.window, self.least);
        let high = self.round.delay().is_some_and(|delay| delay > target);
        self.high_rounds = if high { self.high_rounds + 1 } else { 0 };
        self.judged += units;
        let standing = self.judge_standing(high);
        let contests = match standing {
            Standing::NotOurs(_) => self.rivals.on_standing(now, self.least, self.fair_window()),
            _ => {
                let queue = self.queue_of_others(target);
                self.rivals.on_round(now, queue, self.least, self.fair_window())
            }
        };
        if contests {
            self.begin_contest(now, standing);
            return None;
        }
        if let Standing::NotOurs(window) = standing {
            return Some(self.restore(now, window));
        }
        let cut = self.judge(units, marks, target);
        match cut {
            Some((cut, share)) => self.shrink(now, cut, share),
            None if self.round.used && !high => self.grow(),
            None => self.growth.note_still(),
        }
        if cut.is_none() && !high {
            self.limited = self.limited.saturating_sub(1);
        }
        self.drain.end_round(now);
        if self.round.used {
            debug_assert!(self.unit > 0, "a window in use has units");
            self.drain.begin_if_due(now, self.threshold != usize::MAX, self.is_far());
        }
        cut.map(|(cut, _)| RoundEnd::Cut(cut))
    }

    /// Returns the queue of a round behind the least window, and that of which its own can be only
    /// a small part.
    fn queue_of_others(&self, target: Nanos) -> Option<(Nanos, Nanos)> {
        if self.window > 2 * self.least_window() || !self.round.used {
            return None;
        }
        let own = self.window as u128 * u128::from(self.least) / self.highest.max(1) as u128;
        let ours = target.max(Nanos::try_from(own).unwrap_or(Nanos::MAX));
        Some((self.round.delay()?, OTHERS_QUEUE.saturating_mul(ours)))
    }

    /// Returns half of what the path with its queue holds at the most that it has carried: the fair
    /// window beside one rival.
    fn fair_window(&self) -> usize {
        let (now, least) = (self.round.round_trip, self.least.max(1));
        let holds = self.highest as u128 * u128::from(now) / u128::from(least);
        usize::try_from(holds / 2).unwrap_or(usize::MAX).min(self.most)
    }

    /// Ends a round beside rivals: the window goes by loss.
    #[cold]
    fn contend(&mut self, now: Ticks) -> Option<RoundEnd> {
        // RFC 3168: a mark is as good as a loss.
        let lost = std::mem::take(&mut self.lost) > 0 || self.round.marks > 0;
        self.judged = 0;
        let low = self.tolerance.of(self.window, self.least);
        let (round, window) = (&self.round, self.window);
        let next = self.rivals.end_round(now, (window, round.used), (round.round_trip, low), lost);
        let (Contested::Window(window) | Contested::Over(window)) = next;
        if lost {
            self.cut_at = now;
            self.limited = CALM_AFTER;
        }
        let most = self.most.min(self.near + self.beyond_ends()).max(self.least_window());
        self.window = window.clamp(self.least_window(), most);
        if matches!(next, Contested::Over(_)) {
            (self.threshold, self.high_rounds) = (self.window, 0);
            self.growth.on_cut(self.window, 0);
            self.standing.forget();
            self.drain.postpone(now);
        }
        lost.then_some(RoundEnd::Cut(Cut::Loss))
    }

    /// Judges delay that does not fall with the window; `high`: it is high in this round.
    fn judge_standing(&mut self, high: bool) -> Standing {
        // A queue that overflows stays as long as it is with half a window too.
        let overflows = self.lost * TOLERATED_LOSS > self.judged;
        if !high {
            self.standing.on_low();
            return Standing::Unknown;
        }
        if overflows || self.least <= SHORT_PATH {
            self.standing.forget();
            return Standing::Unknown;
        }
        let rounds = if self.is_short() { NEAR_ROUNDS } else { FAR_ROUNDS };
        let standing = self.standing.on_high(self.window, self.round.queueing, rounds);
        if standing == Standing::Awaited && !self.is_short() {
            self.high_rounds = 0;
        }
        standing
    }

    /// Begins a contest with rivals, from the window before it was made smaller for their queue.
    #[cold]
    fn begin_contest(&mut self, now: Ticks, standing: Standing) {
        debug_assert!(self.rivals.are_here(), "there are some");
        if let Standing::NotOurs(window) = standing {
            self.window = window;
        }
        (self.cut_at, self.lost, self.judged, self.before) = (now, 0, 0, None);
    }

    /// Takes back what was done about a delay that is not the sender's.
    #[cold]
    fn restore(&mut self, now: Ticks, window: usize) -> RoundEnd {
        debug_assert!(window >= self.window, "it was made smaller");
        let longer = self.round.round_trip;
        // As many bytes in a time as before, as far as a step of slow start goes.
        let more = window as u64 * longer.saturating_sub(self.least) / self.least.max(1);
        let window = window + window.min(usize::try_from(more).unwrap_or(usize::MAX));
        self.growth.forget_saturation();
        (self.window, self.high_rounds) = (window.min(self.most), 0);
        self.drain.postpone(now);
        RoundEnd::Longer(longer)
    }

    /// Returns the reason and the share by which to make the window smaller, if there is one.
    fn judge(&mut self, units: u32, marks: u32, target: Nanos) -> Option<(Cut, f64)> {
        debug_assert!(units > 0 && marks <= units, "a round has units, some of them marked");
        // RFC 8257, 3.3 and 3.4: while nothing is marked the share decays, from 1, so that the
        // first mark halves.
        self.marked -= self.marked >> MARK_SHIFT;
        if marks > 0 {
            let share = u64::from(marks) * u64::from(WHOLE) / u64::from(units);
            self.marked += (share as u32) >> MARK_SHIFT;
            let share = f64::from(self.marked) / f64::from(WHOLE);
            return Some((Cut::Marks, (share / 2.0).min(MAX_CUT)));
        }
        if self.high_rounds >= HIGH_ROUNDS {
            let RoundSamples { queueing, round_trip, .. } = self.round;
            debug_assert!(queueing > target && round_trip > 0, "delay is high");
            // Swift, algorithm 1: by the share of the delay that is above the target.
            let over = (queueing - target) as f64;
            let least = if self.is_far() { MIN_FAR_CUT } else { 0.0 };
            let share = (DELAY_SHARE * over / round_trip as f64).clamp(least, MAX_CUT);
            return Some((Cut::Delay, share));
        }
        if self.judged + self.lost < JUDGED_UNITS {
            return None;
        }
        let (judged, lost) = (self.judged + self.lost, self.lost);
        (self.judged, self.lost) = (0, 0);
        if lost * TOLERATED_LOSS <= judged {
            return None;
        }
        self.before = Some((self.window, self.threshold, lost));
        Some((Cut::Loss, (f64::from(lost) / f64::from(judged)).min(MAX_CUT)))
    }

    fn shrink(&mut self, now: Ticks, cut: Cut, share: f64) {
        debug_assert!((0.0..=MAX_CUT).contains(&share), "half of it at most");
        let mut window = (self.window as f64 * (1.0 - share)) as usize;
        let mut ceiling = 0;
        if self.is_far() && cut != Cut::Delay {
            // What arrived in a round is what the path carries, and known well where it holds much.
            ceiling = self.carried.min(self.window);
            window = window.max(ceiling - ceiling / 8);
        }
        self.growth.on_cut(self.window, ceiling);
        self.cut_at = now;
        self.window = window.max(self.least_window());
        self.threshold = self.window;
        self.limited = CALM_AFTER;
    }

    fn grow(&mut self) {
        self.growth.note_grown();
        let round = CalmRound {
            window: self.window,
            unit: self.unit,
            least: self.least,
            is_short: self.is_short(),
            is_far: self.is_far(),
            is_empty: self.is_empty(),
            highest: self.highest,
        };
        let doubles = self.window < self.threshold;
        let step = if doubles { self.window } else { self.growth.step(round) };
        debug_assert!(step > 0, "a window that was in use grows");
        let most = self.most.min(self.near + self.beyond_ends());
        let grown = (self.window + step).min(most.max(self.least_window()));
        self.window = self.window.max(grown);
    }

    /// Returns true if next to nothing queued in this round.
    fn is_empty(&self) -> bool {
        self.round.delay().is_some_and(|delay| self.tolerance.is_empty(delay))
    }

    /// Returns true if a round trip may be one of queues.
    fn is_short(&self) -> bool {
        self.tolerance.is_short(self.least)
    }

    /// Returns true if a round trip is much longer than the queues that count as congestion.
    fn is_far(&self) -> bool {
        self.tolerance.is_far(self.least)
    }

    /// Returns the least window. RFC 9002, 7.2: two units, so that one is in flight while another
    /// is acknowledged; and never less than RFC 6928's initial window, which no path here is too
    /// small for. A process that was not scheduled looks like a long queue, and one that sends
    /// little would never grow back.
    fn least_window(&self) -> usize {
        (2 * self.unit).max(MIN_WINDOW).min(self.most.max(2 * self.unit))
    }

    /// Notes units that were found lost, the last of them sent at `sent`; `in_vain` silences came
    /// before.
    pub(crate) fn on_lost(&mut self, (units, sent): (u32, Ticks), in_vain: u32) -> Option<Cut> {
        // RFC 6582, 3.2, step 1: what was sent before the window was made smaller says nothing
        // about that which it is now.
        if sent >= self.cut_at || (self.is_short() && !self.rivals.are_here()) {
            self.lost += units;
        }
        // RFC 9002, 7.6: after two silences and loss confirmed, nothing known about the path holds.
        if in_vain < 2 || self.window <= self.least_window() {
            return None;
        }
        self.before = Some((self.window, self.threshold, self.lost));
        self.threshold = self.window / 2;
        self.window = self.least_window();
        self.limited = CALM_AFTER;
        (self.judged, self.lost) = (0, 0);
        debug_assert!(self.before.is_some_and(|(window, ..)| window > self.window), "a cut");
        Some(Cut::Loss)
    }

    /// Notes units that arrived although they had been found lost. RFC 4015, 3: if all of them did,
    /// the reduction is undone.
    pub(crate) fn on_false_loss(&mut self, units: u32) {
        self.lost = self.lost.saturating_sub(units);
        if let Some((window, threshold, left)) = &mut self.before {
            *left = left.saturating_sub(units);
            if *left == 0 {
                self.window = self.window.max(*window);
                self.threshold = self.threshold.max(*threshold);
                self.limited = 0;
                self.before = None;
            }
        }
        debug_assert!(self.before.is_none_or(|(.., left)| left > 0), "else it was undone");
    }

    /// Asserts what always holds between calls.
    pub(crate) fn check_invariants(&self) {
        assert!(self.window > 0, "something may be sent");
        assert!(self.marked <= WHOLE, "a share of marks is no more than all");
        assert!(self.limited <= CALM_AFTER, "signs fade");
        assert!(!self.drain.is_on() || self.unit > 0, "a drain leaves room for a unit");
        self.drain.check_invariants();
        self.round.check_invariants();
    }
}
