//! Congestion control: the number of bytes that the path bears, by delay, marks and loss (ADR 12).
//!
//! Judged once a round trip, from the least delay of that round. While it is low and the window is
//! at its maximum, a packet costs a comparison.

use crate::time::{Ticks, nanos};
use crate::{Config, Nanos};

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
const MIN_FAR_CUT: f64 = 1.0 / 32.0;
/// Rounds in a row with high delay that count as congestion: one alone is a peer that computed (ADR
/// 12).
const HIGH_ROUNDS: u32 = 2;
/// Rounds of growth in a row after which the step doubles.
const ACTIVE_AFTER: u32 = 4;
const MAX_DOUBLINGS: u32 = 16;
/// Round trip up to which a path holds nothing: what is in flight lies in sockets.
const SHORT_PATH: Nanos = 50_000;
/// Least number of units over which loss is judged.
const JUDGED_UNITS: u32 = 32;
/// Divisor of the units that may be lost without congestion: a tenth, as long as delay is low and
/// marks are absent (ADR 12).
const TOLERATED_LOSS: u32 = 10;
/// Rounds without any sign of congestion after which pacing ends.
const CALM_AFTER: u32 = 16;

/// Time between drains: a sender whose window is in use reduces it to one unit for some rounds, so
/// that a queue drains and the least round trip is seen (BBR's ProbeRTT: Cardwell et al., ACM Queue
/// 14, 2016). A sender that began behind others' packets takes their queue for the path, and would
/// keep it for as long as it lasts. Senders that begin together drain together.
const DRAIN_EVERY: Nanos = 100_000_000;
/// Least number of rounds between drains, so that on long paths they cost as little.
const DRAIN_AFTER: u32 = 256;
/// Time and rounds until the first drain after the window was made smaller for the first time;
/// doubled for each later one: a queue that was taken for the path while others began need not last
/// (ADR 12).
const FIRST_DRAIN: (Nanos, u32) = (5_000_000, 32);
/// Rounds of a drain: in the first, units sent before are acknowledged; in the others, the other
/// senders' reduction shows.
const DRAIN_ROUNDS: u32 = 4;
/// Those on a path that holds much more than its queues: half a window is enough there.
const FAR_DRAIN_ROUNDS: u32 = 2;

/// Reason for which the window was made smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Packets queue.
    Delay,
    /// Switches marked packets.
    Marks,
    /// Too many are lost.
    Loss,
}

/// Information of one packet about the path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// Units that arrived, and their bytes.
    pub units: u32,
    pub bytes: usize,
    /// Packets that arrived with a mark.
    pub marks: u32,
    /// A round trip and the least one, if the packet gave one.
    pub delay: Option<(Nanos, Nanos)>,
}

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
    round: Ticks,
    /// Least delay of the round above the least round trip.
    queueing: Nanos,
    round_trip: Nanos,
    /// Least round trip at the last sample.
    least: Nanos,
    units: u32,
    bytes: usize,
    marks: u32,
    /// True if the window was in use in this round; it does not grow otherwise (RFC 9002, 7.8).
    used: bool,
    high_rounds: u32,
    /// Rounds in a row in which the window grew beyond the threshold.
    calm_rounds: u32,
    /// Smoothed share of marked packets, of `WHOLE`: RFC 8257, 4.2 (alpha).
    marked: u32,
    judged: u32,
    lost: u32,
    /// Rounds until pacing ends.
    restless: u32,
    /// Rounds left of a drain, and the time at which the last one ended.
    draining: u32,
    drained_at: Ticks,
    /// Rounds since.
    undrained: u32,
    /// Drains since the window was first made smaller, as far as they count.
    drains: u32,
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
            round: 0,
            queueing: Nanos::MAX,
            round_trip: 0,
            least: 0,
            units: 0,
            bytes: 0,
            marks: 0,
            used: false,
            high_rounds: 0,
            calm_rounds: 0,
            marked: WHOLE,
            judged: 0,
            lost: 0,
            restless: 0,
            draining: 0,
            drained_at: 0,
            undrained: 0,
            drains: 0,
            before: None,
        }
    }

    /// Returns the bytes that may be in flight.
    #[inline]
    pub(crate) fn window(&self) -> usize {
        if self.draining == 0 {
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
    pub(crate) fn is_restless(&self) -> bool {
        self.restless > 0
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
        self.used |= 2 * open >= self.window;
    }

    /// Handles an acknowledgement. `newest` is the time at which the newest packet that arrived was
    /// sent.
    #[inline]
    pub(crate) fn on_acked(&mut self, now: Ticks, newest: Ticks, sample: Sample) -> Option<Cut> {
        self.units += sample.units;
        self.bytes += sample.bytes;
        self.marks += sample.marks;
        if let Some((round_trip, least)) = sample.delay {
            self.least = least;
            let queueing = round_trip.saturating_sub(least);
            if queueing < self.queueing {
                self.queueing = queueing;
                self.round_trip = round_trip;
            }
        }
        if newest < self.round || self.units == 0 {
            return None;
        }
        let cut = if self.draining > 0 { self.drain(now) } else { self.end_round(now) };
        self.round = now;
        cut
    }

    /// Ends a round of a drain: it gives no information about the window.
    #[cold]
    fn drain(&mut self, now: Ticks) -> Option<Cut> {
        debug_assert!(self.draining > 0 && self.unit > 0, "a drain leaves room for a unit");
        self.draining -= 1;
        (self.drained_at, self.undrained) = (now, 0);
        self.begin_round();
        None
    }

    fn begin_round(&mut self) {
        (self.units, self.bytes, self.marks) = (0, 0, 0);
        (self.used, self.queueing) = (false, Nanos::MAX);
    }

    /// Learns from the bytes that arrived in a round of so many nanoseconds how many the path
    /// itself holds: those are in no socket and no cache.
    fn measure_path(&mut self, round: Nanos) {
        if self.least <= SHORT_PATH {
            self.on_path -= self.on_path.div_ceil(8); // round trips are many
            return;
        }
        let length = self.least - SHORT_PATH;
        let of = |time| (self.bytes as u128 * u128::from(time) / u128::from(round.max(1))) as usize;
        let held = of(length);
        self.carried = of(self.least);
        // A round in which little was sent says nothing about what the path holds.
        let kept = if self.used { self.on_path - self.on_path / 8 } else { self.on_path };
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

    fn end_round(&mut self, now: Ticks) -> Option<Cut> {
        debug_assert!(self.draining == 0, "a round of a drain tells nothing");
        let (units, marks) = (self.units, self.marks.min(self.units));
        self.measure_path(nanos(now.saturating_sub(self.round)));
        let target = self.target_now();
        debug_assert!(target >= self.target, "a small window tolerates more");
        let high = self.queueing != Nanos::MAX && self.queueing > target;
        self.high_rounds = if high { self.high_rounds + 1 } else { 0 };
        self.judged += units;
        let cut = self.judge(units, marks, target);
        match cut {
            Some((cut, share)) => self.shrink(now, cut, share),
            None if self.used && !high => self.grow(),
            None => self.calm_rounds = 0,
        }
        if cut.is_none() && !high {
            self.restless = self.restless.saturating_sub(1);
        }
        self.undrained = self.undrained.saturating_add(1);
        if self.undrained == 1 && self.drained_at == 0 {
            self.drained_at = now; // nothing is known before the first round
        }
        if self.used && self.is_drain_due(now) {
            debug_assert!(self.unit > 0, "a window in use has units");
            self.draining = if self.is_far() { FAR_DRAIN_ROUNDS } else { DRAIN_ROUNDS };
        }
        self.begin_round();
        cut.map(|(cut, _)| cut)
    }

    fn is_drain_due(&mut self, now: Ticks) -> bool {
        let mut wait = (DRAIN_EVERY, DRAIN_AFTER);
        // Not while windows still double: senders that do not drain would take the bandwidth that
        // the others leave.
        let early = self.threshold != usize::MAX;
        if early {
            let (time, rounds) = FIRST_DRAIN;
            wait = (wait.0.min(time << self.drains), wait.1.min(rounds << self.drains));
        }
        let due = self.undrained > wait.1 && nanos(now.wrapping_sub(self.drained_at)) > wait.0;
        if due && early {
            self.drains = (self.drains + 1).min(DRAIN_AFTER.ilog2());
            debug_assert!(
                self.threshold <= self.most.max(self.least_window()),
                "it was made smaller"
            );
        }
        due
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
            debug_assert!(self.queueing > target && self.round_trip > 0, "delay is high");
            // Swift, algorithm 1: by the share of the delay that is above the target.
            let over = (self.queueing - target) as f64;
            let least = if self.is_far() { MIN_FAR_CUT } else { 0.0 };
            let share = (DELAY_SHARE * over / self.round_trip as f64).clamp(least, MAX_CUT);
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
        (self.cut_at, self.ceiling) = (now, 0);
        if self.is_far() && cut == Cut::Loss {
            // What arrived in a round is what the path carries, and known well where it holds much.
            self.ceiling = self.carried.min(self.window);
            window = window.max(self.ceiling - self.ceiling / 8);
        }
        self.window = window.max(self.least_window());
        self.threshold = self.window;
        self.restless = CALM_AFTER;
        self.calm_rounds = 0;
    }

    fn grow(&mut self) {
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
        let doublings = self.calm_rounds.saturating_sub(ACTIVE_AFTER).min(MAX_DOUBLINGS);
        let most = if self.is_far() { self.window / 32 } else { self.window / 8 };
        (self.unit << doublings).min(most).max(self.unit)
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
        self.restless = CALM_AFTER;
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
                self.restless = 0;
                self.before = None;
            }
        }
        debug_assert!(self.before.is_none_or(|(.., left)| left > 0), "else it was undone");
    }

    /// Asserts what always holds between calls.
    pub(crate) fn check_invariants(&self) {
        assert!(self.window > 0, "something may be sent");
        assert!(self.marked <= WHOLE, "a share of marks is no more than all");
        assert!(self.draining <= DRAIN_ROUNDS && self.restless <= CALM_AFTER, "signs fade");
        assert!(self.drains <= DRAIN_AFTER.ilog2(), "drains become rarer to a bound");
        assert!(self.draining == 0 || self.unit > 0, "a drain leaves room for a unit");
        let measured = self.queueing == Nanos::MAX || self.queueing <= self.round_trip;
        assert!(measured, "queueing is a part of the round trip");
    }
}
