//! Loss detection, and retransmission when no acknowledgement comes at all.

use crate::judged::{DescribedUnits, Judged, Newest};
use crate::probe::Probe;
use crate::receive::SPAN;
use crate::rtt::Rtt;
use crate::send::{Send, Transmission};
use crate::time::{Ticks, nanos, ticks};
use crate::{Config, Nanos};

/// Later transmissions that must have arrived before one counts as lost (RFC 9002, 6.1.1; RFC 8985,
/// 6.2).
const OVERTAKEN_BY: u64 = 3;
/// Rounds of loss without a false one after which reordering is forgotten (RFC 8985, 6.2, step 4).
const TOLERATED_AFTER: u32 = 16;
/// Most quarters of the least round trip by which packets may overtake each other: where delay
/// varies, by several round trips.
const MAX_STEPS: u32 = 64;

/// Units that were found lost.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lost {
    /// Their number.
    pub units: u32,
    /// Length of the longest of them.
    pub longest: usize,
    /// Time at which the last of them was sent.
    pub sent: Ticks,
}

/// Loss detection by overtaking packets (RFC 8985), and by silence (RFC 8985, 7 and RFC 6298).
#[derive(Debug)]
pub(crate) struct Retransmit {
    probe: Probe,
    timeout_floor: Nanos,
    timeout_max: Nanos,
    ack_delay: Nanos,
    newest: Newest,
    judged: Judged,
    /// Quarters of the least round trip by which packets may overtake each other; more after a
    /// false loss.
    reordering_steps: u32,
    reordering_tolerance: u32,
    /// Time at which the oldest overtaken transmission counts as lost.
    loss_at: Nanos,
    /// Time of the last transmission or the last acknowledgement, whichever is later, and how long
    /// a silence may last from then on.
    quiet_since: Nanos,
    patience: Nanos,
    /// Silences since the last acknowledgement, and the time at which the first began.
    backoff: u32,
    silent_since: Nanos,
    /// True if a unit is to be sent again whatever the window says.
    must_probe: bool,
    /// True if the silence was ended by [`Retransmit::expire`].
    expired: bool,
}

impl Retransmit {
    pub(crate) fn new(config: &Config, now: Nanos) -> Self {
        Self {
            probe: Probe::new(config.probe_floor),
            timeout_floor: config.timeout_floor,
            timeout_max: config.timeout_max.max(config.timeout_floor),
            ack_delay: config.ack_delay,
            newest: Newest::default(),
            judged: Judged::default(),
            reordering_steps: 1,
            reordering_tolerance: 0,
            loss_at: Nanos::MAX,
            quiet_since: now,
            patience: 0,
            backoff: 0,
            silent_since: now,
            must_probe: false,
            expired: false,
        }
    }

    /// Notes that a unit was sent.
    #[inline]
    pub(crate) fn on_sent(&mut self, now: Nanos) {
        self.quiet_since = now;
    }

    /// Notes that the peer has received a packet that was sent at `echo`.
    #[inline]
    pub(crate) fn on_echo(&mut self, now: Ticks, echo: Ticks) {
        debug_assert!(echo <= now, "an echo is of a packet sent before");
        if echo > self.newest.sent {
            self.newest.sent = echo;
            self.newest.age = now - echo;
        }
    }

    /// Notes that the packet at hand describes all units, after those that it acknowledges.
    #[inline]
    pub(crate) fn on_all_described(&mut self) {
        self.judged.on_all_described(self.newest);
    }

    /// Notes the units that the packet at hand describes, after those that it acknowledges.
    #[cold]
    pub(crate) fn on_described(&mut self, units: DescribedUnits) {
        self.judged.on_described(units, self.newest);
    }

    /// Units were acknowledged: there is news. Some of them, `in_vain`, had been sent again after a
    /// silence though they had arrived.
    #[inline]
    pub(crate) fn on_acked(&mut self, now: Nanos, (order, in_vain): (u64, u32), rtt: &Rtt) {
        self.newest.order = self.newest.order.max(order);
        if self.backoff > 0 {
            let round_trip = (rtt.least(), 4 * rtt.least() + self.ack_delay);
            self.probe.on_news(now, self.newest.order, in_vain > 0, round_trip);
        }
        self.quiet_since = now;
        self.backoff = 0;
        (self.must_probe, self.expired) = (false, false);
        debug_assert!(self.newest.order >= order, "the newest is remembered");
    }

    /// Notes units that arrived although they were found lost: packets overtake each other on this
    /// path.
    pub(crate) fn on_false_loss(&mut self) {
        self.reordering_steps = (2 * self.reordering_steps).min(MAX_STEPS);
        self.reordering_tolerance = TOLERATED_AFTER;
        debug_assert!(self.reordering_steps > 1, "more is tolerated than without reordering");
    }

    /// Notes the end of a round of loss without a false one.
    fn on_true_loss(&mut self) {
        self.reordering_tolerance = self.reordering_tolerance.saturating_sub(1);
        if self.reordering_tolerance == 0 {
            self.reordering_steps = 1;
        }
    }

    /// Returns the time at which the newest packet was sent that is known to have arrived.
    #[inline]
    pub(crate) fn newest_sent(&self) -> Ticks {
        self.newest.sent
    }

    /// Returns the silences since the last acknowledgement.
    pub(crate) fn backoff(&self) -> u32 {
        self.backoff
    }

    /// Returns the time since which units in flight have not been acknowledged, if for longer than
    /// expected.
    pub(crate) fn silent_since(&self) -> Option<Nanos> {
        (self.backoff > 0).then_some(self.silent_since)
    }

    /// Marks overtaken units as lost. The work is in proportion to what is found.
    #[inline]
    pub(crate) fn detect<U>(&mut self, now: Nanos, send: &mut Send<U>, rtt: &Rtt) -> Lost {
        debug_assert!(self.newest.order <= send.last_order(), "only what was sent arrives");
        self.loss_at = Nanos::MAX;
        match send.oldest() {
            Some(oldest) if self.judged.may_overtake(&oldest) => {
                self.detect_overtaken(now, send, rtt)
            }
            _ => Lost::default(),
        }
    }

    fn detect_overtaken<U>(&mut self, now: Nanos, send: &mut Send<U>, rtt: &Rtt) -> Lost {
        let mut lost = Lost::default();
        // RFC 8985, 6.2, step 4: a quarter of the least round trip, more where packets were seen to
        // overtake each other, never more than a timeout.
        let reordering = (rtt.least() / 4 * Nanos::from(self.reordering_steps)).min(rtt.timeout());
        while let Some(oldest) = send.oldest() {
            let newest = self.judged.newest(oldest.unit);
            if oldest.order >= newest.order && oldest.sent >= newest.sent {
                break;
            }
            // Counting is given up where packets overtake each other (RFC 8985, 6.2, step 3).
            let by_count =
                self.reordering_tolerance == 0 && oldest.order + OVERTAKEN_BY <= newest.order;
            // RFC 8985, 6.2, step 5.
            let at = oldest.sent + newest.age + ticks(reordering).max(1);
            if !by_count && ticks(now) < at {
                self.loss_at = nanos(at);
                break;
            }
            debug_assert!(by_count || at != Nanos::MAX, "lost by number or by time");
            lost.units += 1;
            lost.longest = lost.longest.max(oldest.bytes);
            lost.sent = lost.sent.max(oldest.sent);
            send.lose_oldest();
        }
        debug_assert!(u64::from(lost.units) <= SPAN, "no more than was in flight");
        let left = |left: Transmission| {
            let newest = self.judged.newest(left.unit);
            left.order >= newest.order && left.sent >= newest.sent
        };
        let waits = self.loss_at != Nanos::MAX;
        debug_assert!(waits || send.oldest().is_none_or(left), "all overtaken ones are judged");
        if lost.units > 0 {
            self.on_true_loss();
        }
        lost
    }

    /// Sets how long a silence may last, after anything that it depends on has changed: after the
    /// first silence a unit is sent again to see if the last ones were lost (RFC 8985, 7.2), after
    /// more of them less and less often (RFC 6298, 5.5). It never ends: a peer that computes does
    /// not poll, and death is decided elsewhere.
    #[inline]
    pub(crate) fn set_patience(&mut self, rtt: &Rtt) {
        self.patience = match self.backoff {
            0 => self.first_silence(rtt),
            n => {
                let once = rtt.timeout().max(self.timeout_floor).max(2 * self.probe.wait());
                once.saturating_mul(1 << (n - 1).min(20)).min(self.timeout_max)
            }
        };
        debug_assert!(self.patience <= self.timeout_max, "a silence ends");
    }

    #[inline]
    fn first_silence(&self, rtt: &Rtt) -> Nanos {
        (2 * rtt.smoothed() + self.ack_delay).max(self.probe.wait()).min(self.timeout_max)
    }

    /// Returns the time at which something is to be done.
    #[inline]
    pub(crate) fn deadline<U>(&self, send: &Send<U>) -> Nanos {
        self.loss_at.min(self.silence_ends(send))
    }

    #[inline]
    fn silence_ends<U>(&self, send: &Send<U>) -> Nanos {
        let ends = if self.expired { 0 } else { self.quiet_since.saturating_add(self.patience) };
        if send.is_in_flight() && !self.must_probe { ends } else { Nanos::MAX }
    }

    /// Returns true if the silence has lasted too long now; then a unit must be sent again. RFC
    /// 9002, 6.2: this alone finds nothing lost, and shrinks no window. Arrivals after `heard` are
    /// not known yet.
    pub(crate) fn is_silent<U>(
        &mut self,
        (now, heard): (Nanos, Nanos),
        send: &Send<U>,
        rtt: &Rtt,
    ) -> bool {
        let silent = self.silence_ends(send) <= heard;
        if silent {
            debug_assert!(!self.must_probe, "one probe is sent before the next is due");
            debug_assert!(send.oldest().is_some(), "a silence is about units in flight");
            if self.backoff == 0 {
                self.probe.on_silence(self.first_silence(rtt));
                self.silent_since = self.quiet_since;
            }
            self.backoff = self.backoff.saturating_add(1);
            self.quiet_since = now;
            self.must_probe = true;
            self.expired = false;
            self.set_patience(rtt);
        }
        silent
    }

    /// Ends the silence at once: units in flight did not arrive for a reason that is known and
    /// repaired.
    pub(crate) fn expire<U>(&mut self, send: &Send<U>) {
        self.expired = send.is_in_flight();
    }

    /// Returns true if a unit is to be sent again whatever the window says.
    #[inline]
    pub(crate) fn must_probe(&self) -> bool {
        self.must_probe
    }

    /// Notes that a unit was sent again.
    pub(crate) fn on_sent_again(&mut self, now: Nanos) {
        debug_assert!(!self.must_probe || self.backoff > 0, "probes end silences");
        if std::mem::take(&mut self.must_probe) && self.backoff == 1 {
            self.probe.on_sent(now);
        }
        self.expired = false;
        self.quiet_since = now;
    }

    /// Gives back memory, if nothing is in flight.
    pub(crate) fn shrink(&mut self) {
        self.judged.shrink();
    }

    /// Asserts what always holds between calls.
    pub(crate) fn check_invariants<U>(&self, send: &Send<U>) {
        self.probe.check_invariants();
        self.judged.check_invariants(self.newest);
        assert!(self.timeout_floor <= self.timeout_max, "the floor lies below");
        assert!(self.newest.order <= send.last_order(), "only what was sent arrives");
        assert!((1..=MAX_STEPS).contains(&self.reordering_steps), "reordering is bounded");
        let strict = self.reordering_tolerance > 0 || self.reordering_steps == 1;
        assert!(strict && self.reordering_tolerance <= TOLERATED_AFTER, "reordering is forgotten");
        assert!(!self.must_probe || self.backoff > 0, "probes end silences");
        assert!(self.backoff == 0 || !send.is_quiet(), "silences are about units on their way");
        assert!(self.backoff == 0 || self.silent_since <= self.quiet_since, "silences go on");
        assert!(!send.is_quiet() || self.loss_at == Nanos::MAX, "losses are of units in flight");
    }
}
