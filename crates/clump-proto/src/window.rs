//! The number of bytes that may be in flight: the least of what the path bears, the peer's window,
//! and the configured maximum; and probes of a peer that has closed its window.

use crate::config::Congestion;
use crate::congestion::CongestionControl;
use crate::pacing::{Pace, Pacing};
use crate::rtt::Rtt;
use crate::send::Send;
use crate::{Config, Nanos};

/// Largest unit: one may always be sent when nothing is in flight, however long; a UDP datagram at
/// most.
const MAX_UNIT: usize = 65_507;

/// Bytes by which control messages may exceed the window: a small part of the least that a peer's
/// socket holds.
const MAX_BEYOND: usize = 16 << 10;

/// Doublings of the time between probes of a closed window.
const MAX_DOUBLINGS: u32 = 20;

/// The limits of the bytes in flight.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) control: CongestionControl,
    pub(crate) pacing: Pacing,
    fixed: Option<usize>,
    most: usize,
    /// Bytes in flight that the peer allows.
    peer: u32,
    /// Time at which to probe a peer that has closed its window, and the number of probes so far.
    ask_at: Nanos,
    asked: u32,
    ask_floor: Nanos,
    ask_max: Nanos,
    /// Bytes sent since the peer was last asked to acknowledge.
    unasked: usize,
}

impl Window {
    pub(crate) fn new(config: &Config, now: Nanos) -> Self {
        let fixed = match config.congestion {
            Congestion::Static(bytes) => Some(bytes),
            Congestion::Adaptive => None,
        };
        debug_assert!(config.receive_window_bytes > 0, "nobody would ask a closed one to open");
        debug_assert!(config.max_window_bytes > 0, "something may be sent");
        Self {
            control: CongestionControl::new(config),
            pacing: Pacing::new(now),
            fixed,
            most: config.max_window_bytes,
            // Both ends have one configuration, so the other end allows at first what this end
            // does.
            peer: config.receive_window_bytes,
            ask_at: Nanos::MAX,
            asked: 0,
            ask_floor: config.timeout_floor,
            ask_max: config.timeout_max.max(config.timeout_floor),
            unasked: 0,
        }
    }

    /// Returns true if congestion control decides.
    #[inline]
    pub(crate) fn adapts(&self) -> bool {
        self.fixed.is_none()
    }

    /// Returns the bytes that the path bears, measured or fixed.
    #[inline]
    pub(crate) fn path(&self) -> usize {
        self.fixed.unwrap_or(self.control.window()).min(self.most)
    }

    /// Returns the bytes that may be in flight, all limits considered. What the path itself holds
    /// is in no socket of the peer.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.path().min(self.peer())
    }

    /// Returns the bytes that may be in flight for the peer's sake.
    #[inline]
    fn peer(&self) -> usize {
        let beyond = if self.peer == 0 { 0 } else { self.control.beyond_ends() };
        (self.peer as usize).saturating_add(beyond)
    }

    /// Returns the bytes of new units that may be sent.
    #[inline]
    pub(crate) fn room<U>(&self, now: Nanos, send: &Send<U>, rtt: &Rtt) -> usize {
        if self.peer == 0 || send.is_full() {
            return 0;
        }
        let (window, open) = (self.bytes(), send.open_bytes());
        let room = if open == 0 { window.max(MAX_UNIT) } else { window.saturating_sub(open) };
        // RFC 9293, 3.8.6.2.1: do not fragment units to fill a window up.
        if room < (window / 8).min(1024) {
            return 0;
        }
        if let Some(pace) = self.pace(rtt) {
            let tokens = self.pacing.tokens(now, &pace);
            return if tokens <= 0 {
                0
            } else {
                room.min(self.control.unit().max(tokens as usize))
            };
        }
        debug_assert!(room > 0 || window <= open, "a window that is not full has room");
        room
    }

    /// Returns true if a control message of so many bytes may be sent beyond the window, unless
    /// that is fixed or closed.
    pub(crate) fn admits_control<U>(&self, bytes: usize, send: &Send<U>) -> bool {
        let closed = self.peer == 0 || send.is_full() || self.fixed.is_some();
        !closed && send.open_bytes() + bytes <= self.bytes() + MAX_BEYOND
    }

    /// Returns true if the last unit sent, `bytes` long, was allowed: the windows were open, and
    /// not full before it, or it is one of control messages, a little beyond them.
    fn allowed<U>(&self, bytes: usize, send: &Send<U>) -> bool {
        let (window, open) = (self.bytes(), send.open_bytes());
        let had_room = open == bytes || open < window + bytes;
        let beyond = self.fixed.is_none() && open <= window + MAX_BEYOND;
        self.peer > 0 && (had_room || beyond)
    }

    /// Returns the pace at which units are sent; `None`: as the window allows. On a path that has a
    /// length the acknowledgements of a burst come back as a burst.
    #[inline]
    fn pace(&self, rtt: &Rtt) -> Option<Pace> {
        let limited = self.control.is_limited();
        let paces = self.fixed.is_none() && (limited || rtt.is_long());
        let window = self.control.paced_window().min(self.most);
        paces.then(|| Pace { window, round_trip: rtt.path(), limited })
    }

    /// Notes that a unit was sent. Returns true if the peer should be asked to acknowledge at once:
    /// it cannot know how small the window is, and would wait for more to acknowledge.
    #[inline]
    pub(crate) fn on_sent<U>(
        &mut self,
        now: Nanos,
        bytes: usize,
        send: &Send<U>,
        rtt: &Rtt,
    ) -> bool {
        debug_assert!(self.allowed(bytes, send), "no more is in flight than the windows allow");
        if self.fixed.is_none() {
            self.control.on_sent(bytes, send.open_bytes());
        }
        if let Some(pace) = self.pace(rtt) {
            self.pacing.on_sent(now, bytes, &pace);
        }
        self.unasked += bytes;
        let path = self.path();
        let ask = path < self.peer() && self.unasked >= path / 4 && send.open_bytes() >= path / 2;
        if ask {
            self.unasked = 0;
        }
        debug_assert!(ask || self.unasked >= bytes, "what is not asked about is counted");
        ask
    }

    /// Notes that a unit was sent again.
    pub(crate) fn on_sent_again(&mut self, now: Nanos, bytes: usize, rtt: &Rtt) {
        if let Some(pace) = self.pace(rtt) {
            self.pacing.on_sent(now, bytes, &pace);
        }
    }

    /// Returns true if a unit that was lost may be sent again.
    #[inline]
    pub(crate) fn admits<U>(&self, now: Nanos, bytes: usize, send: &Send<U>, rtt: &Rtt) -> bool {
        debug_assert!(send.open_bytes() - send.bytes_in_flight() >= bytes, "it is lost");
        let units_in_flight = send.bytes_in_flight();
        if units_in_flight > 0 && units_in_flight + bytes > self.path() {
            return false;
        }
        self.pace(rtt).is_none_or(|pace| self.pacing.tokens(now, &pace) > 0)
    }

    /// Sets the peer's window.
    #[inline]
    pub(crate) fn on_peer(&mut self, now: Nanos, bytes: u32) {
        if bytes == self.peer {
            return;
        }
        self.peer = bytes;
        self.asked = 0;
        self.ask_at = if bytes == 0 { now.saturating_add(self.ask_floor) } else { Nanos::MAX };
        debug_assert!(bytes > 0 || self.ask_at != Nanos::MAX, "a closed window is asked about");
    }

    /// Returns the time at which to probe a peer that closed its window: RFC 9293, 3.8.6.1 (a
    /// probe, backed off as timeouts are). With units in flight their acknowledgements tell.
    #[inline]
    pub(crate) fn probe_deadline<U>(&self, send: &Send<U>) -> Nanos {
        if send.open_bytes() == 0 { self.ask_at } else { Nanos::MAX }
    }

    /// Returns true if the peer is to be probed now; then it counts as probed.
    pub(crate) fn is_probe_due<U>(&mut self, now: Nanos, send: &Send<U>) -> bool {
        let due = self.probe_deadline(send) <= now;
        if due {
            debug_assert!(self.peer == 0, "only a closed window is asked about");
            self.asked = (self.asked + 1).min(MAX_DOUBLINGS);
            let wait = self.ask_floor.saturating_mul(1 << self.asked).min(self.ask_max);
            self.ask_at = now.saturating_add(wait);
            debug_assert!(self.probe_deadline(send) > now || wait == 0, "the next one is later");
        }
        due
    }

    /// Updates the tokens, so that the deadline of pacing is not met twice.
    pub(crate) fn on_timeout(&mut self, now: Nanos, rtt: &Rtt) {
        if let Some(pace) = self.pace(rtt) {
            self.pacing.on_sent(now, 0, &pace);
        }
    }

    /// Returns the time at which pacing allows the next unit, if pacing is what delays it.
    #[inline]
    pub(crate) fn pace_deadline(&self, rtt: &Rtt) -> Nanos {
        self.pace(rtt).map_or(Nanos::MAX, |pace| self.pacing.deadline(&pace))
    }

    /// Asserts what always holds between calls.
    pub(crate) fn check_invariants(&self) {
        self.control.check_invariants();
        assert!(self.bytes() <= self.most, "the configured maximum holds");
        let closed = self.peer == 0;
        assert_eq!(closed, self.ask_at != Nanos::MAX, "only a closed window is asked about");
        assert!(self.asked <= MAX_DOUBLINGS && (closed || self.asked == 0), "and each anew");
        assert!(self.ask_floor <= self.ask_max, "probes become rarer");
    }
}
