//! The channel: the state of the path to one peer, and the protocol over it.

mod incoming;
mod outgoing;
mod transmit;

use crate::ack::Ack;
use crate::backpressure::Backpressure;
use crate::echo::Echo;
use crate::judged::Turn;
use crate::keepalive::Keepalive;
use crate::mtu::Mtu;
use crate::receive::Receive;
use crate::replay::Replay;
use crate::retransmit::Retransmit;
use crate::rtt::Rtt;
use crate::send::Send;
use crate::time::Ticks;
use crate::window::Window;
use crate::{Config, Nanos, Stats};
pub use transmit::{Backlog, Content, Next};

/// Status of a packet's unit at the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnitStatus {
    /// Seen for the first time: to be delivered.
    New,
    /// Delivered before, or refused: to be dropped.
    Duplicate,
    /// The packet carries no unit to take in.
    None,
}

/// Result of handling a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketArrival {
    /// Status of its unit.
    pub unit: UnitStatus,
    /// True if it is the last of the peer's closing packets: all units have been described, and
    /// those that have not arrived by now never will.
    pub ends: bool,
}

/// The reliable path to one peer, in one of its incarnations: each unit sent is delivered there
/// exactly once, in any order, whatever the network does; units of the peer are delivered here
/// likewise.
///
/// # Contract
/// - **Time** is an argument, never goes back, and is the same clock in all calls.
/// - **Sending**: [`next`](Self::next) decides what the next packet carries. A unit that waits is
///   launched ([`launch`](Self::launch)); then [`stamp`](Self::stamp) fills in the header, and the
///   packet is sent with the same `now`, in the order of the calls. Packets that the driver does
///   not take are reported ([`handle_refused`](Self::handle_refused)): `next` offers their units
///   again. The channel keeps a unit's body until [`poll_acked`](Self::poll_acked) returns it.
///   Packets that the caller decides on (fragments of a unit that has become too long, closing) are
///   stamped too. Callers that choose by themselves ask for [`room`](Self::room), `launch`, and
///   `stamp` the header.
/// - **Receiving**: refuse replays ([`is_replay`](Self::is_replay)), authenticate, then
///   [`handle_packet`](Self::handle_packet), which is never called with anything else; deliver the
///   unit if it is [`UnitStatus::New`]. The fragment that completes a unit is passed as kind
///   `Data`, and so is one of a unit that is not wanted ([`wants_unit`](Self::wants_unit)). A
///   packet that cannot be taken in must be dropped *before* this call.
/// - **After receiving, and when [`next_timeout`](Self::next_timeout) is reached**
///   ([`handle_timeout`](Self::handle_timeout)): [`poll_acked`](Self::poll_acked) until `None`,
///   then [`next`](Self::next) until `None`. A stack that is about to sleep may
///   send an acknowledgement as soon as it [`owes_ack`](Self::owes_ack).
/// - **Death** is not decided here: a silent peer is probed less and less often, down to once a
///   second, for ever.
///
/// No call panics, allocates (except `new`, sending more units at once than ever, and more units
/// behind a gap than a packet describes), or takes more work than a packet can name units: 8192.
#[derive(Debug)]
pub struct Channel<U> {
    send: Send<U>,
    receive: Receive,
    replay: Replay,
    ack: Ack,
    echo: Echo,
    rtt: Rtt,
    retransmit: Retransmit,
    window: Window,
    backpressure: Backpressure,
    mtu: Mtu,
    keepalive: Keepalive,
    /// Number of the next packet.
    number: u64,
    /// Time at which the last packet was stamped; no echo can be of a later one.
    stamped: Ticks,
    /// Bytes that the peer may have in flight, and the number that was sent last.
    receive_window: u32,
    told_window: u32,
    /// Packets that arrived with a mark, and the number that the peer has counted of those sent to
    /// it.
    marks: u8,
    peer_marks: u8,
    /// Acknowledgement and echo of the last packet.
    heard: (u64, u32, bool),
    /// Units that the peer's closing packets have described.
    closing: Turn,
    /// The next packet requests an acknowledgement at once.
    ask: bool,
    /// A packet has to be sent for that request.
    ask_alone: bool,
    /// Until this time, data leaves room for control messages at the receiver.
    control_until: Nanos,
    /// Length of a probe that is to be answered.
    probed: Option<u64>,
    counts: Stats,
}

impl<U> Channel<U> {
    /// Creates a channel over which nothing was sent.
    pub fn new(config: &Config, now: Nanos) -> Self {
        debug_assert!(config.initial_window_bytes > 0, "something may be sent");
        let mut retransmit = Retransmit::new(config, now);
        let rtt = Rtt::new(now);
        retransmit.set_patience(&rtt);
        Self {
            send: Send::new(),
            receive: Receive::new(),
            replay: Replay::new(),
            ack: Ack::new(config),
            echo: Echo::default(),
            rtt,
            retransmit,
            window: Window::new(config, now),
            backpressure: Backpressure::default(),
            mtu: Mtu::new(config),
            keepalive: Keepalive::new(config.keepalive, now),
            number: 1,
            stamped: 0,
            receive_window: config.receive_window_bytes,
            told_window: config.receive_window_bytes,
            marks: 0,
            peer_marks: 0,
            heard: (0, 0, false),
            closing: Turn::default(),
            ask: false,
            ask_alone: false,
            control_until: 0,
            probed: None,
            counts: Stats::default(),
        }
    }

    /// Returns the time at which there is something to do even if no packet arrives; a past time:
    /// now.
    #[inline]
    pub fn next_timeout(&self) -> Option<Nanos> {
        // While the driver takes nothing, nothing else is of use.
        if let Some(at) = self.backpressure.deadline() {
            return Some(at);
        }
        let asked = if self.ask_alone { 0 } else { Nanos::MAX };
        let at = self
            .ack
            .deadline()
            .min(asked)
            .min(self.retransmit.deadline(&self.send))
            .min(self.window.probe_deadline(&self.send))
            .min(self.window.pace_deadline(&self.rtt))
            .min(self.keepalive.deadline().unwrap_or(Nanos::MAX));
        (at != Nanos::MAX).then_some(at)
    }

    /// Does what is due; poll afterwards. All that had arrived by now has been handed in.
    pub fn handle_timeout(&mut self, now: Nanos) {
        self.handle_timeout_unheard(now, now);
    }

    /// Does what is due at `now`, when only what had arrived by `heard` has been handed in. A
    /// caller that was away in between knows of no silence: the answer may lie in its socket.
    pub fn handle_timeout_unheard(&mut self, now: Nanos, heard: Nanos) {
        debug_assert!(heard <= now, "nobody has heard what is to come");
        self.backpressure.release(now);
        self.detect_lost(now, self.retransmit.backoff());
        if self.retransmit.is_silent((now, heard), &self.send, &self.rtt) {
            self.counts.timeouts += 1;
            let oldest = self.send.oldest().map_or(0, |oldest| oldest.bytes);
            if oldest > self.mtu.base() {
                self.mtu.on_silence(now, oldest);
            }
        }
        let closed = self.window.is_probe_due(now, &self.send);
        if closed | self.keepalive.is_due(now) {
            self.ask_alone = true;
            self.counts.asks += 1;
        }
        self.window.on_timeout(now, &self.rtt);
    }

    /// Sets how many bytes the other side may have in flight to this one. A window that opens, or
    /// doubles, is sent at once (RFC 9293, 3.8.6.2.2).
    pub fn set_receive_window(&mut self, bytes: u32) {
        self.receive_window = bytes;
        if bytes > 0 && bytes >= self.told_window.saturating_mul(2) {
            self.ack.on_ack_requested();
        }
        let opens = bytes > 0 && bytes / 2 >= self.told_window;
        debug_assert!(!opens || self.ack.is_owed(), "an opening is told");
    }

    /// Returns true if everything that was sent is acknowledged.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.send.is_quiet()
    }

    /// Returns true if something has arrived that was not acknowledged yet, and the driver may take
    /// an acknowledgement.
    #[inline]
    pub fn owes_ack(&self, now: Nanos) -> bool {
        self.ack.is_owed() && !self.backpressure.holds(now)
    }

    /// Returns the length of the longest datagram that the path is known to carry.
    #[inline]
    pub fn datagram_bytes(&self) -> usize {
        self.mtu.current()
    }

    /// Returns the length of a datagram of kind `Probe` to send, padded; it is stamped as any
    /// other.
    #[inline]
    pub fn poll_probe(&mut self, now: Nanos) -> Option<usize> {
        self.mtu.poll_probe(now)
    }

    /// Returns the `unit` of a packet of kind `ProbeAck` to send.
    #[inline]
    pub fn poll_probe_ack(&mut self) -> Option<u64> {
        self.probed.take()
    }

    /// Notes that the driver has taken all packets of a call.
    #[inline]
    pub fn handle_taken(&mut self) {
        self.backpressure.on_taken();
    }

    /// Handles the end of a call of the driver that has not taken all packets: `units` are those of
    /// the packets that it has not taken, in their order, and `some` is true if it has taken any
    /// packet before them. What these said, and requested, goes with the next packet.
    #[cold]
    pub fn handle_refused(
        &mut self,
        now: Nanos,
        some: bool,
        mut units: impl DoubleEndedIterator<Item = u64>,
    ) {
        let first = units.next();
        if !first.is_some_and(|first| self.backpressure.is_hopeless(now, first)) {
            for unit in first.into_iter().chain(units).rev() {
                debug_assert!(unit < self.send.next_unit(), "only what was launched is refused");
                self.send.take_back(unit);
            }
        }
        self.ask = true;
        if self.echo.any() {
            self.ack.on_ack_requested();
        }
        self.backpressure.on_refused(now, some);
        debug_assert!(self.next_timeout() > Some(now), "it is offered again, not at once");
    }

    /// Handles a datagram of so many bytes that the system refused (EMSGSIZE); the system takes
    /// those of `carried`.
    pub fn handle_too_big(&mut self, now: Nanos, bytes: usize, carried: Option<usize>) {
        if self.mtu.on_too_big(now, bytes, carried) {
            self.retransmit.expire(&self.send);
        }
    }

    /// Returns the length of the longest datagram that the path carries since long ones began to
    /// vanish, if that is less than before, and the search for it is over.
    pub fn narrowed(&self, now: Nanos) -> Option<usize> {
        self.mtu.narrowed(now)
    }

    /// Returns the time since the last arrival.
    pub fn silent_for(&self, now: Nanos) -> Nanos {
        self.keepalive.silent_for(now)
    }

    /// Returns how long the peer has not answered to units in flight; `None` while no answer is
    /// due, and when nothing is in flight.
    pub fn unanswered_for(&self, now: Nanos) -> Option<Nanos> {
        let waits = [self.retransmit.silent_since(), self.backpressure.since()];
        let since = waits.into_iter().flatten().min().filter(|_| !self.is_quiet())?;
        Some(now.saturating_sub(since).min(self.silent_for(now)))
    }

    /// Returns the smoothed round trip; 0 before the first sample.
    pub fn srtt(&self) -> Nanos {
        self.rtt.estimates().0
    }

    /// Units sent again that had arrived the first time.
    #[inline]
    pub fn spurious(&self) -> u64 {
        self.counts.spurious
    }

    /// Counts and estimates.
    pub fn stats(&self) -> Stats {
        let (srtt, rttvar, min_rtt) = self.rtt.estimates();
        Stats {
            srtt,
            rttvar,
            min_rtt,
            window: self.window.bytes(),
            on_path: self.window.control.on_path(),
            in_flight: self.send.bytes_in_flight(),
            black_holes: self.mtu.black_holes(),
            ..self.counts
        }
    }

    /// Gives back the memory that units in flight took, if everything is acknowledged.
    pub fn release_spare(&mut self) {
        self.send.shrink();
        self.receive.shrink();
        if self.is_quiet() {
            self.retransmit.shrink();
        }
        debug_assert!(self.spare_bytes() == 0 || !self.is_quiet(), "an idle channel keeps little");
    }

    /// Returns the bytes that [`Channel::release_spare`] gives back once everything is
    /// acknowledged.
    pub fn spare_bytes(&self) -> usize {
        self.send.spare_bytes() + self.receive.spare_bytes()
    }

    /// Returns the body of a unit that [`Channel::poll_acked`] has not returned.
    #[inline]
    pub fn body(&self, unit: u64) -> Option<&U> {
        self.send.body(unit)
    }

    /// Returns the body of a unit that [`Channel::poll_acked`] has not returned, mutably.
    #[inline]
    pub fn body_mut(&mut self, unit: u64) -> Option<&mut U> {
        self.send.body_mut(unit)
    }

    /// Returns the body of the unit that was sent for the first time last.
    #[inline]
    pub fn newest_body(&self) -> Option<&U> {
        self.send.body(self.send.next_unit().checked_sub(1)?)
    }

    /// Returns the bodies that [`Channel::poll_acked`] has not returned, in the order of their
    /// units.
    pub fn bodies(&self) -> impl Iterator<Item = &U> + '_ {
        self.send.bodies()
    }

    /// Takes the bodies that [`Channel::poll_acked`] has not returned, in the order of their units,
    /// each with true if its unit is known to have arrived. For a peer that is lost: the units
    /// cannot be sent again.
    pub fn take_bodies(&mut self) -> Vec<(bool, U)> {
        self.send.take_bodies()
    }

    /// Asserts what always holds between calls: for tests and simulations.
    pub fn check_invariants(&self) {
        self.send.check_invariants();
        self.receive.check_invariants();
        self.replay.check_invariants();
        self.ack.check_invariants();
        self.echo.check_invariants();
        self.rtt.check_invariants();
        self.retransmit.check_invariants(&self.send);
        self.window.check_invariants();
        self.backpressure.check_invariants();
        self.mtu.check_invariants();
        assert!(self.number > 0, "packet numbers begin at 1");
        assert!(!self.is_quiet() || self.send.open_bytes() == 0, "quiet: none on its way");
        let Stats { units_sent, units_received, retransmits, losses, .. } = self.counts;
        assert_eq!(units_sent, self.send.next_unit(), "units sent are counted");
        assert_eq!(units_received, self.receive.count(), "units received are counted");
        assert!(self.spurious() <= retransmits + losses, "found false are some of these");
        assert!(losses <= retransmits + units_sent, "each transmission is lost once");
        // What was found lost is due at once, and stays so while the driver takes nothing.
        let due = self.retransmit.must_probe() || self.send.first_again().is_some();
        let waits = self.is_quiet() || due || self.next_timeout().is_some();
        assert!(waits, "a timer ends every wait for an acknowledgement");
        let owes = self.ack.is_owed();
        assert!(!owes || self.next_timeout().is_some(), "acknowledgements are timed");
    }
}
