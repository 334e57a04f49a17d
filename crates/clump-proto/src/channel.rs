//! The channel: what one stack knows of the path to one peer, and what it does about it.

use crate::ack::Ack;
use crate::congestion::{Cut, Sample};
use crate::echo::Echo;
use crate::keepalive::Keepalive;
use crate::mtu::Mtu;
use crate::receive::{Receive, Taken};
use crate::replay::Replay;
use crate::retransmit::{Lost, Retransmit};
use crate::rtt::Rtt;
use crate::send::{Acked, Send};
use crate::time::{Ticks, nanos, ticks, widen};
use crate::window::Window;
use crate::{Config, Nanos, SackBuf, Stats};
use clump_wire::{Flags, Header, Kind};

/// Clocks of two machines drift by 100 parts in a million: a packet held longer than 16 ms would falsify
/// its round trip by more than 1.6 us.
const LONGEST_HELD: u32 = 250_000;

/// What a packet's unit is to the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Seen for the first time: to be delivered.
    New,
    /// Delivered before, or refused: to be dropped.
    Duplicate,
    /// The packet carries none.
    None,
}

/// What came of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// What its unit is.
    pub unit: Unit,
}

/// The reliable path to one peer, in one of its incarnations: units go out, each is delivered there
/// exactly once, in any order, whatever the network does; and the same the other way.
///
/// # Contract
/// - **Time** is an argument, never goes back, and is the same clock in all calls.
/// - **Sending**: while [`room`](Self::room) allows, [`send_unit`](Self::send_unit), keep the unit's body
///   until [`poll_acked`](Self::poll_acked) gives it back, [`stamp`](Self::stamp) a header of kind `Data`
///   with that unit **with the same `now`**, and send the packet. Packets go to the wire in the order in
///   which they were stamped.
/// - **Receiving**: refuse what [`is_replay`](Self::is_replay), authenticate, then
///   [`handle_packet`](Self::handle_packet), which is never called with anything else; deliver the unit if
///   it is [`Unit::New`]. What cannot be taken in must be dropped *before* this call.
/// - **After receiving, and when [`next_timeout`](Self::next_timeout) is reached**
///   ([`handle_timeout`](Self::handle_timeout)): [`poll_acked`](Self::poll_acked) until `None`;
///   [`poll_lost`](Self::poll_lost) and [`resend_unit`](Self::resend_unit) and `stamp` until `None`; new
///   units; [`poll_probe`](Self::poll_probe), [`poll_probe_ack`](Self::poll_probe_ack); and if then
///   [`wants_ack`](Self::wants_ack), a packet of kind `Ack`. A stack that is about to sleep may send that
///   as soon as it [`owes_ack`](Self::owes_ack).
/// - **Death** is not decided here: a silent peer is asked less and less often, down to once a second,
///   for ever.
///
/// No call panics, allocates (but `new`), or takes more work than a packet can name units: 1024.
#[derive(Debug)]
pub struct Channel {
    send: Send,
    receive: Receive,
    replay: Replay,
    ack: Ack,
    echo: Echo,
    rtt: Rtt,
    retransmit: Retransmit,
    window: Window,
    mtu: Mtu,
    keepalive: Keepalive,
    /// Number of the next packet.
    number: u64,
    /// When the last packet was stamped; no echo can be of a later one.
    stamped: Ticks,
    /// Bytes that the peer may have under way, and as many as it was last told.
    receive_window: u32,
    told_window: u32,
    /// Packets that arrived with a mark, and as many as the peer has counted of those sent to it.
    marks: u8,
    peer_marks: u8,
    /// What the last packet acknowledged and echoed.
    heard: (u64, u32, bool),
    /// The next packet asks for an acknowledgement at once.
    ask: bool,
    /// A packet has to go out for that.
    ask_alone: bool,
    /// Length of a probe that is to be answered.
    probed: Option<u64>,
    counts: Stats,
}

impl Channel {
    /// A channel over which nothing has gone.
    pub fn new(config: &Config, now: Nanos) -> Self {
        Self {
            send: Send::new(),
            receive: Receive::new(),
            replay: Replay::new(),
            ack: Ack::new(config),
            echo: Echo::default(),
            rtt: Rtt::new(now),
            retransmit: Retransmit::new(config, now),
            window: Window::new(config, now),
            mtu: Mtu::new(config),
            keepalive: Keepalive::new(config.keepalive, now),
            number: 1,
            stamped: 0,
            receive_window: config.receive_window_bytes,
            told_window: config.receive_window_bytes,
            marks: 0,
            peer_marks: 0,
            heard: (0, 0, false),
            ask: false,
            ask_alone: false,
            probed: None,
            counts: Stats::default(),
        }
    }

    /// Bytes of new units that may go out now, less the fewer are under way; 0: none. Lost units go first.
    /// With nothing under way and the peer's window open it is enough for any one unit.
    #[inline]
    pub fn room(&self, now: Nanos) -> usize {
        self.window.room(now, &self.send, &self.rtt)
    }

    /// Notes the first transmission of the next unit, `bytes` long with its header; gives its number.
    ///
    /// Call it only while there is [`room`](Self::room): with 1024 units under way none is taken, and the
    /// number is `u64::MAX`, which every receiver refuses.
    #[inline]
    pub fn send_unit(&mut self, now: Nanos, bytes: usize) -> u64 {
        let unit = self.send.push(ticks(now), bytes);
        self.retransmit.on_sent(now);
        self.ask |= self.window.on_sent(now, bytes, &self.send, &self.rtt);
        self.counts.units_sent += 1;
        unit
    }

    /// A unit to send again: call [`resend_unit`](Self::resend_unit) before asking for the next.
    #[inline]
    pub fn poll_lost(&mut self, now: Nanos) -> Option<u64> {
        let lost = self.send.first_lost();
        if self.retransmit.must_probe() {
            return lost.or_else(|| self.send.oldest()).map(|transmission| transmission.unit);
        }
        let lost = lost?;
        self.window.admits(now, lost.bytes, &self.send, &self.rtt).then_some(lost.unit)
    }

    /// Notes that a unit goes out again, in a packet that is stamped with the same `now`.
    pub fn resend_unit(&mut self, now: Nanos, unit: u64) {
        if let Some(bytes) = self.send.push_again(ticks(now), unit) {
            // It is late already; and after a silence nothing is learnt before the peer answers.
            self.ask = true;
            self.retransmit.on_sent_again(now);
            self.window.on_sent_again(now, bytes, &self.rtt);
            self.counts.retransmits += 1;
        }
    }

    /// Whether a packet without a unit is due, for what it acknowledges or asks.
    #[inline]
    pub fn wants_ack(&self, now: Nanos) -> bool {
        self.ask_alone || self.ack.is_due(now)
    }

    /// Fills in number, acks, window, marks, times and flags of a packet that goes out now; kind and unit
    /// are the caller's. What it acknowledges counts as told.
    ///
    /// Packets of kind `Data` have room for their unit only: they get no words of selective
    /// acknowledgements, so while units are missing a packet of kind `Ack` stays due beside them.
    #[inline]
    pub fn stamp(&mut self, now: Nanos, header: &mut Header, sack: &mut SackBuf) {
        header.number = self.number;
        self.number += 1;
        header.ack = self.receive.expected();
        sack.clear();
        header.window = self.receive_window;
        self.told_window = self.receive_window;
        header.ce = self.marks;
        self.stamped = ticks(now);
        header.sent = self.stamped as u32;
        header.flags = if self.ask || self.ask_alone { Flags::ACK_NOW } else { Flags::NONE };
        (self.ask, self.ask_alone) = (false, false);
        if self.receive.has_gap() && header.kind == Kind::Data {
            // Without the words beside it, an echo would make all that arrived beyond the gap look lost.
            return;
        }
        self.receive.report(sack);
        self.echo.stamp(now, header);
        self.ack.on_sent();
    }

    /// Whether a packet of this number has been taken in, or is too old to tell.
    #[inline]
    pub fn is_replay(&self, number: u64) -> bool {
        self.replay.is_replay(number)
    }

    /// Takes in an authenticated packet, `bytes` long; `ce`: it bears a mark of congestion.
    #[inline]
    pub fn handle_packet(
        &mut self,
        now: Nanos,
        header: &Header,
        sack: &[u64],
        bytes: usize,
        ce: bool,
    ) -> Arrival {
        self.handle_late(now, 0, header, sack, bytes, ce)
    }

    /// The same for a packet that had waited so long in the receive queue (by the kernel's timestamp, or the
    /// time since the poll before). That is no delay of the path, on either side: Swift takes
    /// delay of the fabric and of end points apart.
    #[inline]
    pub fn handle_late(
        &mut self,
        now: Nanos,
        waited: Nanos,
        header: &Header,
        sack: &[u64],
        bytes: usize,
        ce: bool,
    ) -> Arrival {
        if !self.replay.accept(header.number) {
            self.counts.replays += 1;
            return Arrival { unit: Unit::None };
        }
        self.keepalive.on_arrival(now);
        let first = !self.echo.any();
        let arrived = now.saturating_sub(waited);
        // What an older packet says of windows and marks is out of date.
        let marks =
            if self.echo.on_packet(arrived, header) { self.handle_news(now, header) } else { 0 };
        if first {
            self.mtu.on_first_arrival(now);
        }
        self.handle_acks(now, arrived, header, sack, marks);
        self.ack.on_mark(ce);
        if ce {
            self.marks = self.marks.wrapping_add(1);
            self.counts.marked += 1;
        }
        if header.flags.has(Flags::ACK_NOW) {
            self.ack.on_asked();
        }
        let unit = match header.kind {
            Kind::Data => self.handle_unit(now, header.unit, bytes),
            Kind::Probe => {
                self.probed = Some(bytes as u64);
                Unit::None
            }
            Kind::ProbeAck => {
                self.mtu.on_probe_ack(now, usize::try_from(header.unit).unwrap_or(0));
                Unit::None
            }
            _ => Unit::None,
        };
        Arrival { unit }
    }

    #[inline]
    fn handle_news(&mut self, now: Nanos, header: &Header) -> u32 {
        self.window.on_peer(now, header.window);
        let marks = header.ce.wrapping_sub(self.peer_marks);
        self.peer_marks = header.ce;
        marks.into()
    }

    #[inline]
    fn handle_unit(&mut self, now: Nanos, unit: u64, bytes: usize) -> Unit {
        let taken = self.receive.take(unit);
        self.ack.on_unit(now, taken, bytes, self.receive_window);
        match taken {
            Taken::InOrder | Taken::OutOfOrder => {
                self.counts.units_received += 1;
                Unit::New
            }
            Taken::Duplicate => {
                self.counts.duplicates += 1;
                Unit::Duplicate
            }
            Taken::TooFar => {
                self.counts.refused += 1;
                Unit::Duplicate
            }
        }
    }

    #[inline]
    fn handle_acks(
        &mut self,
        now: Nanos,
        arrived: Nanos,
        header: &Header,
        sack: &[u64],
        marks: u32,
    ) {
        let heard = (header.ack, header.echo, header.flags.has(Flags::HAS_ECHO));
        if heard == self.heard && sack.is_empty() && marks == 0 {
            return; // nothing that the packet before did not say
        }
        self.heard = heard;
        let echo = self.echo_of(now, header);
        // RFC 9000, 13.1: acknowledging what was never sent is a lie; nothing of it is believed.
        let Some(acked) = self.send.handle_ack(header.ack, sack, echo) else {
            self.counts.refused += 1;
            return;
        };
        let mut delay = None;
        if let Some(echo) = echo {
            self.retransmit.on_echo(ticks(now), echo);
            self.mtu.on_echo(now, echo, self.rtt.smoothed());
            let held = Ticks::from(header.held);
            let since =
                |at: Nanos| ticks(at).checked_sub(echo).and_then(|age| age.checked_sub(held));
            if header.held <= LONGEST_HELD
                && let Some(answered) = since(now)
            {
                // Timers wait for answers, however long those lay here; congestion is of the path only.
                self.rtt.on_sample(now, nanos(echo), nanos(answered.max(1)));
                if let Some(path) = since(arrived) {
                    let path = nanos(path.max(1));
                    self.rtt.on_path(now, path);
                    delay = Some((path, self.rtt.least()));
                }
            }
        }
        let in_vain = self.retransmit.backoff();
        if acked.units > 0 {
            self.handle_acked(now, acked);
        }
        self.detect_lost(now, in_vain);
        if self.window.adapts() && (acked.units > 0 || marks > 0) {
            let newest = self.retransmit.newest_sent();
            let sample = Sample { units: acked.units, marks, delay };
            let cut = self.window.control.on_acked(ticks(now), newest, sample);
            self.count_cut(cut);
        }
    }

    /// When the newest packet was sent that the peer says it has received.
    #[inline]
    fn echo_of(&self, now: Nanos, header: &Header) -> Option<Ticks> {
        let echo = widen(ticks(now), header.echo);
        (header.flags.has(Flags::HAS_ECHO) && echo <= self.stamped).then_some(echo)
    }

    #[inline]
    fn handle_acked(&mut self, now: Nanos, acked: Acked) {
        self.retransmit.on_acked(now, acked.order);
        self.mtu.on_acked(acked.longest);
        if acked.false_losses + acked.false_timeouts > 0 {
            self.counts.spurious += u64::from(acked.false_losses + acked.false_timeouts);
        }
        if acked.false_losses > 0 {
            self.retransmit.on_false_loss();
            self.window.control.on_false_loss(acked.false_losses);
        }
    }

    #[inline]
    fn detect_lost(&mut self, now: Nanos, in_vain: u32) {
        let base = self.mtu.base();
        let Lost { units, long } = self.retransmit.detect(now, &mut self.send, &self.rtt, base);
        if units == 0 {
            return;
        }
        self.counts.losses += u64::from(units);
        if long {
            self.mtu.on_vanished(now);
        }
        if self.window.adapts() {
            let cut = self.window.control.on_lost(units, in_vain);
            self.count_cut(cut);
        }
    }

    #[inline]
    fn count_cut(&mut self, cut: Option<Cut>) {
        match cut {
            None => {}
            Some(Cut::Delay) => self.counts.delay_cuts += 1,
            Some(Cut::Marks) => self.counts.mark_cuts += 1,
            Some(Cut::Loss) => self.counts.loss_cuts += 1,
        }
    }

    /// A unit whose buffer is free now, in order of their numbers, each once.
    #[inline]
    pub fn poll_acked(&mut self) -> Option<u64> {
        self.send.poll_acked()
    }

    /// When there is something to do even if no packet arrives; a past time: now.
    #[inline]
    pub fn next_timeout(&self) -> Option<Nanos> {
        let asked = if self.ask_alone { 0 } else { Nanos::MAX };
        let at = self
            .ack
            .deadline()
            .min(asked)
            .min(self.retransmit.deadline(&self.send, &self.rtt))
            .min(self.window.ask_deadline(&self.send))
            .min(self.window.pace_deadline(&self.rtt))
            .min(self.keepalive.deadline().unwrap_or(Nanos::MAX));
        (at != Nanos::MAX).then_some(at)
    }

    /// Does what is due; poll afterwards.
    pub fn handle_timeout(&mut self, now: Nanos) {
        self.detect_lost(now, self.retransmit.backoff());
        if self.retransmit.is_silent(now, &self.send, &self.rtt) {
            self.counts.timeouts += 1;
            if self.send.oldest().is_some_and(|oldest| oldest.bytes > self.mtu.base()) {
                self.mtu.on_silence(now);
            }
        }
        let closed = self.window.is_ask_due(now, &self.send);
        if closed | self.keepalive.is_due(now) {
            self.ask_alone = true;
            self.counts.asks += 1;
        }
        self.window.on_timeout(now, &self.rtt);
    }

    /// Sets how many bytes the other side may have under way to this one. A window that opens, or doubles,
    /// is told at once (RFC 9293, 3.8.6.2.2).
    pub fn set_receive_window(&mut self, bytes: u32) {
        self.receive_window = bytes;
        if bytes > 0 && bytes >= self.told_window.saturating_mul(2) {
            self.ack.on_asked();
        }
    }

    /// Whether everything that was sent is acknowledged.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.send.is_quiet()
    }

    /// Whether something has arrived that was not acknowledged yet.
    #[inline]
    pub fn owes_ack(&self) -> bool {
        self.ack.is_owed()
    }

    /// Length of the longest datagram that the path is known to carry.
    #[inline]
    pub fn datagram_bytes(&self) -> usize {
        self.mtu.current()
    }

    /// Length of a datagram of kind `Probe` to send, padded; it is stamped as any other.
    #[inline]
    pub fn poll_probe(&mut self, now: Nanos) -> Option<usize> {
        self.mtu.poll_probe(now)
    }

    /// The `unit` of a packet of kind `ProbeAck` to send.
    #[inline]
    pub fn poll_probe_ack(&mut self) -> Option<u64> {
        self.probed.take()
    }

    /// The system refused a datagram of so many bytes (EMSGSIZE). If it carried a unit, that is under way
    /// and counts as lost in time.
    pub fn handle_too_big(&mut self, now: Nanos, bytes: usize) {
        self.mtu.on_too_big(now, bytes);
    }

    /// How long nothing has arrived.
    pub fn silent_for(&self, now: Nanos) -> Nanos {
        self.keepalive.silent_for(now)
    }

    /// Counts and estimates.
    pub fn stats(&self) -> Stats {
        let (srtt, rttvar, min_rtt) = self.rtt.estimates();
        Stats {
            srtt,
            rttvar,
            min_rtt,
            window: self.window.bytes(),
            in_flight: self.send.flying_bytes(),
            black_holes: self.mtu.black_holes(),
            ..self.counts
        }
    }
}
