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
/// Rounds in a row with high delay that count as congestion: one alone is a peer that computed (ADR
/// 12).
const HIGH_ROUNDS: u32 = 2;
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
    /// Units that arrived.
    pub units: u32,
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
    target: Nanos,
    /// Length of the longest unit so far.
    unit: usize,
    /// The round ends when a packet sent after this has arrived.
    round: Ticks,
    /// Least delay of the round above the least round trip.
    queueing: Nanos,
    round_trip: Nanos,
    units: u32,
    marks: u32,
    /// True if the window was in use in this round; it does not grow otherwise (RFC 9002, 7.8).
    used: bool,
    high_rounds: u32,
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
            target: config.delay_target,
            unit: 0,
            round: 0,
            queueing: Nanos::MAX,
            round_trip: 0,
            units: 0,
            marks: 0,
            used: false,
            high_rounds: 0,
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
        if self.draining > 0 { self.window.min(self.unit) } else { self.window }
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
        self.marks += sample.marks;
        if let Some((round_trip, least)) = sample.delay {
            debug_assert!(least <= round_trip, "the least includes this one");
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
        (self.units, self.marks, self.used, self.queueing) = (0, 0, false, Nanos::MAX);
        None
    }

    fn end_round(&mut self, now: Ticks) -> Option<Cut> {
        debug_assert!(self.draining == 0, "a round of a drain tells nothing");
        let (units, marks) = (self.units, self.marks.min(self.units));
        let target = self.target_now();
        debug_assert!(target >= self.target, "a small window tolerates more");
        let high = self.queueing != Nanos::MAX && self.queueing > target;
        self.high_rounds = if high { self.high_rounds + 1 } else { 0 };
        self.judged += units;
        let cut = self.judge(units, marks, target);
        match cut {
            Some((_, share)) => self.shrink(share),
            None if self.used && !high => self.grow(),
            None => {}
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
            self.draining = DRAIN_ROUNDS;
        }
        (self.units, self.marks, self.used, self.queueing) = (0, 0, false, Nanos::MAX);
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
            debug_assert!(self.threshold <= self.most.max(self.least()), "it was made smaller");
        }
        due
    }

    /// Returns the delay that is tolerated with this window.
    fn target_now(&self) -> Nanos {
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
            return Some((Cut::Delay, (DELAY_SHARE * over / self.round_trip as f64).min(MAX_CUT)));
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

    fn shrink(&mut self, share: f64) {
        debug_assert!((0.0..=MAX_CUT).contains(&share), "half of it at most");
        self.window = ((self.window as f64 * (1.0 - share)) as usize).max(self.least());
        self.threshold = self.window;
        self.restless = CALM_AFTER;
    }

    fn grow(&mut self) {
        let step = if self.window < self.threshold { self.window } else { self.unit };
        debug_assert!(step > 0, "a window that was in use grows");
        self.window = (self.window + step).min(self.most.max(self.least()));
    }

    /// Returns the least window. RFC 9002, 7.2: two units, so that one is in flight while another
    /// is acknowledged; and never less than RFC 6928's initial window, which no path here is too
    /// small for. A process that was not scheduled looks like a long queue, and one that sends
    /// little would never grow back.
    fn least(&self) -> usize {
        (2 * self.unit).max(MIN_WINDOW).min(self.most.max(2 * self.unit))
    }

    /// Notes units that were found lost; `in_vain` silences came before.
    pub(crate) fn on_lost(&mut self, units: u32, in_vain: u32) -> Option<Cut> {
        self.lost += units;
        // RFC 9002, 7.6: after two silences and loss confirmed, nothing known about the path holds.
        if in_vain < 2 || self.window <= self.least() {
            return None;
        }
        self.before = Some((self.window, self.threshold, self.lost));
        self.threshold = self.window / 2;
        self.window = self.least();
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
