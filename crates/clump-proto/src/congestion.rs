//! Congestion control: the number of bytes that the path bears, by delay, marks and loss (ADR 12).
//!
//! Judged once a round trip, from the least delay of that round. While it is low and the window is
//! at its maximum, a packet costs a comparison.

mod drain;
mod round;
mod standing;

use crate::time::{Ticks, nanos};
use crate::{Config, Nanos};
use drain::Drain;
pub(crate) use round::{Cut, RoundEnd, Sample};
use round::{RoundSamples, SHORT_PATH};
use standing::{Standing, StandingDelay};

/// Multiplicative decrease by delay: Swift (SIGCOMM 2020), algorithm 1, beta.
const DELAY_SHARE: f64 = 0.8;
/// Largest decrease of a round, one half: Swift, algorithm 1, max_mdf.
const MAX_CUT: f64 = 0.5;
/// Weight of a round's share of marks, 1/16: RFC 8257, 4.2 (g).
const MARK_SHIFT: u32 = 4;
/// Unit in which shares of marks are counted, so that rounds without any need no floating point.
const WHOLE: u32 = 1 << 16;
/// Least window, RFC 6928, 2: ten packets of 1460 bytes.
const MIN_WINDOW: usize = 14_600;
/// Window below which more delay is tolerated, by the root of the window as in Swift, 3.5:
/// otherwise a sender with a small window would keep it, for the least delay of fewer packets is
/// higher (ADR 12).
const SMALL_WINDOW: usize = 64 << 10;
/// Additional delay tolerated at [`MIN_WINDOW`], as a share of the target.
const SMALL_SHARE: f64 = 0.5;
/// Least decrease by delay where a round trip is much longer than queues: otherwise senders that
/// share such a path would come to equal windows in thousands of round trips.
const MIN_FAR_CUT: f64 = 1.0 / 16.0;
/// Rounds in a row with high delay that count as congestion: one alone is a peer that computed (ADR
/// 12).
const HIGH_ROUNDS: u32 = 2;
/// Rounds of growth in a row after which the step doubles.
const ACTIVE_AFTER: u32 = 4;
const MAX_DOUBLINGS: u32 = 16;
/// Time in which a window grows by a unit at least.
const GROWTH_TIME: Nanos = 400_000;
/// Rounds with half a window after which its effect is seen: the first was sent before. On a short
/// path others that share the queue need more of them to answer.
const FAR_ROUNDS: u32 = 2;
const NEAR_ROUNDS: u32 = 32;
/// Rounds in a row with next to no queue after which the path is not full.
const EMPTY_ROUNDS: u32 = 2;
/// Least number of units over which loss is judged.
const JUDGED_UNITS: u32 = 32;
/// Divisor of the units that may be lost without congestion: a tenth, as long as delay is low and
/// marks are absent (ADR 12).
const TOLERATED_LOSS: u32 = 10;
/// Delay tolerated for noise, of the mean by which round trips in turn differ, where a round has
/// this many samples or fewer. The least of four sums of two evenly distributed delays is above 2.4
/// times that mean once in 50.
const NOISE_SHARE: f64 = 2.0;
const NOISY_SAMPLES: f64 = 4.0;
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
    /// Bytes that arrived in the last round, in a least round trip; those before the window was
    /// made smaller, and the time of that.
    carried: usize,
    ceiling: usize,
    cut_at: Ticks,
    target: Nanos,
    /// Length of the longest unit so far.
    unit: usize,
    /// The round ends when a packet sent after this has arrived.
    began: Ticks,
    round: RoundSamples,
    /// Least round trip at the last sample.
    least: Nanos,
    /// Delay that comes and goes, smoothed, by the number of samples of a round.
    noise: Nanos,
    standing: StandingDelay,
    high_rounds: u32,
    /// Rounds in a row in which the window grew beyond the threshold.
    calm_rounds: u32,
    /// Window that last filled the path, rounds in a row without a queue, and those of them in
    /// which the window was larger than that.
    saturated: usize,
    /// True if it has grown since it was made smaller.
    grew: bool,
    empty_rounds: u32,
    ramp: u32,
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
            ceiling: 0,
            cut_at: 0,
            target: config.delay_target,
            unit: 0,
            began: 0,
            round: RoundSamples::NEW,
            least: 0,
            noise: 0,
            standing: StandingDelay::default(),
            high_rounds: 0,
            calm_rounds: 0,
            saturated: 0,
            grew: false,
            empty_rounds: 0,
            ramp: 0,
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
        if self.least <= SHORT_PATH {
            self.on_path -= self.on_path.div_ceil(8); // round trips are many
            return;
        }
        let length = self.least - SHORT_PATH;
        let of = |time| {
            (self.round.bytes as u128 * u128::from(time) / u128::from(round.max(1))) as usize
        };
        let held = of(length);
        self.carried = of(self.least);
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
        self.measure_noise();
        let target = self.target_now() + self.noise;
        debug_assert!(target >= self.target, "a small window tolerates more");
        let high = self.round.delay().is_some_and(|delay| delay > target);
        self.high_rounds = if high { self.high_rounds + 1 } else { 0 };
        self.judged += units;
        // A queue that overflows stays as long as it is with half a window too.
        let overflows = self.lost * TOLERATED_LOSS > self.judged;
        if !high {
            self.standing.on_low();
        } else if overflows || self.least <= SHORT_PATH {
            self.standing.forget();
        } else {
            let rounds = if self.is_short() { NEAR_ROUNDS } else { FAR_ROUNDS };
            match self.standing.on_high(self.window, self.round.queueing, rounds) {
                Standing::Unknown => {}
                Standing::Awaited if self.is_short() => {}
                Standing::Awaited => self.high_rounds = 0,
                Standing::NotOurs(window) => return Some(self.restore(now, window)),
            }
        }
        let cut = self.judge(units, marks, target);
        match cut {
            Some((cut, share)) => self.shrink(now, cut, share),
            None if self.round.used && !high => self.grow(),
            None => self.calm_rounds = 0,
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

    /// Smooths the noise of a round. The least of few samples is far above the least of all, that
    /// of many is not.
    fn measure_noise(&mut self) {
        if self.is_short() {
            // Of senders that share a short path, the one that tolerates more gets the shares of
            // others, and noise of half a round trip costs next to nothing there.
            self.noise = 0;
            return;
        }
        let Some((noise, samples)) = self.round.noise() else { return };
        let weight = (NOISY_SAMPLES / f64::from(samples)).sqrt().min(1.0);
        let noise = (NOISE_SHARE * weight * noise as f64) as Nanos;
        self.noise = self.noise - self.noise / 4 + noise / 4;
    }

    /// Takes back what was done about a delay that is not the sender's.
    #[cold]
    fn restore(&mut self, now: Ticks, window: usize) -> RoundEnd {
        debug_assert!(window >= self.window, "it was made smaller");
        let longer = self.round.round_trip;
        // As many bytes in a time as before, as far as a step of slow start goes.
        let more = window as u64 * longer.saturating_sub(self.least) / self.least.max(1);
        let window = window + window.min(usize::try_from(more).unwrap_or(usize::MAX));
        (self.window, self.saturated, self.high_rounds) = (window.min(self.most), 0, 0);
        self.drain.postpone(now);
        RoundEnd::Longer(longer)
    }

    /// Returns the delay that is tolerated with this window.
    fn target_now(&self) -> Nanos {
        if self.is_far() {
            // By the root of the window too: of senders that share a path, those with more make
            // room first. On shorter paths cuts alone do that, for they are larger there.
            let share = (SMALL_WINDOW as f64 / self.window as f64).sqrt().min(SMALL_SHARE);
            return self.target + (self.target as f64 * share) as Nanos;
        }
        if self.window >= SMALL_WINDOW {
            return self.target;
        }
        let inverse = |window: usize| 1.0 / (window as f64).sqrt();
        let (least, most) = (inverse(SMALL_WINDOW), inverse(MIN_WINDOW));
        let smallness = ((inverse(self.window) - least) / (most - least)).min(1.0);
        self.target + (self.target as f64 * SMALL_SHARE * smallness) as Nanos
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
        // Of cuts one after the other the first tells how much filled the path.
        let filled = if self.grew { 0 } else { self.saturated };
        self.grew = false;
        (self.saturated, self.empty_rounds, self.ramp) = (self.window.max(filled), 0, 0);
        (self.cut_at, self.ceiling) = (now, 0);
        if self.is_far() && cut != Cut::Delay {
            // What arrived in a round is what the path carries, and known well where it holds much.
            self.ceiling = self.carried.min(self.window);
            window = window.max(self.ceiling - self.ceiling / 8);
        }
        self.window = window.max(self.least_window());
        self.threshold = self.window;
        self.limited = CALM_AFTER;
        self.calm_rounds = 0;
    }

    fn grow(&mut self) {
        self.grew = true;
        let step = if self.window < self.threshold { self.window } else { self.step() };
        debug_assert!(step > 0, "a window that was in use grows");
        let most = self.most.min(self.near + self.beyond_ends());
        let grown = (self.window + step).min(most.max(self.least_window()));
        self.window = self.window.max(grown);
    }

    /// Returns the growth of a round beyond the threshold: a unit, and twice as much every round
    /// once that has changed nothing for some (TIMELY, SIGCOMM 2015, 4.3: hyperactive increase).
    fn step(&mut self) -> usize {
        if self.window < self.ceiling {
            // As much as the path carried before (binary increase: Xu et al., INFOCOM 2004).
            return ((self.ceiling - self.window) / 2).max(self.unit);
        }
        if self.is_short() {
            return self.unit; // rounds are many
        }
        self.calm_rounds += 1;
        self.empty_rounds = if self.is_empty() { self.empty_rounds + 1 } else { 0 };
        let beyond = self.window > self.saturated + self.saturated / 16;
        self.ramp = if beyond && self.empty_rounds > EMPTY_ROUNDS { self.ramp + 1 } else { 0 };
        if self.ramp > 0 {
            // More than last filled the path leaves it empty: it carries more than then.
            let halvings = if self.window < self.highest / 2 { 0 } else { 4 - self.ramp.min(3) };
            return (self.window >> halvings).max(self.unit);
        }
        let most = if self.is_far() { self.window / 32 } else { self.window / 8 };
        let doublings = self.calm_rounds.saturating_sub(ACTIVE_AFTER).min(MAX_DOUBLINGS);
        let doublings = if self.empty_rounds > EMPTY_ROUNDS { MAX_DOUBLINGS } else { doublings };
        // As much in a time as over a short path: senders that share a long one come to equal
        // windows by what they grow by regardless of those.
        let base = self.unit * (self.least / GROWTH_TIME).max(1) as usize;
        // A bound in proportion to the window would keep what is unequal so.
        (base << doublings).min(most.max(base)).min(self.window / 2).max(self.unit)
    }

    /// Returns true if next to nothing queued in this round.
    fn is_empty(&self) -> bool {
        self.round.delay().is_some_and(|delay| delay <= self.target / 4 + self.noise)
    }

    /// Returns true if a round trip may be one of queues.
    fn is_short(&self) -> bool {
        self.least <= 2 * self.target
    }

    /// Returns true if a round trip is much longer than the queues that count as congestion.
    fn is_far(&self) -> bool {
        self.least > 4 * self.target
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
        if sent >= self.cut_at || self.is_short() {
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
