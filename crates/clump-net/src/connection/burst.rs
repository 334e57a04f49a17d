//! Sending: from the outbox to the driver, and everything that a timer or an acknowledgement
//! causes.

use super::{Connection, PacketSink};
use crate::outbox::{FlushPolicy, Outbox};
use clump_driver::MIN_KEPT;
use clump_proto::{Content, Nanos, Waiting};
use clump_wire::{Flags, HEADER_BYTES, PacketKind, UNIT_FRAGMENT_BYTES, UnitFragment};

/// Longest time that a message waits for others to share its packet, while others keep coming: a
/// packet costs either side some microseconds.
const COALESCE_NS: Nanos = 100_000;
/// A message that comes so soon after a packet waits for others to follow: less than a round trip,
/// more than it takes to send a packet.
const FLOOD_NS: Nanos = 2_500;
/// Packets of one call of the driver.
const BURST: usize = 64;
/// Bytes of one call of the driver, as much as one segmented send takes.
const BURST_BYTES: usize = 128 << 10;

/// Result of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BurstEnd {
    /// Another may follow.
    More,
    /// No unit can be sent now; acknowledgements and probes may be due.
    NoUnits,
    /// Nothing is left to send now.
    Idle,
}

impl Connection {
    /// Sends the units that may be sent now; a unit that is not full only if nothing else is in
    /// flight, or the last packet left a while ago, or `force`.
    pub(crate) fn kick(&mut self, now: Nanos, force: bool, sink: &mut PacketSink<'_>) {
        if !force && (self.tx.outbox.has_batch() || self.tx.outbox.has_control()) {
            // A unit begun behind whole units may still fill up.
            self.touch(sink);
            self.pump(now, false, sink);
            return;
        }
        if !force {
            let pause = if self.channel.is_quiet() { FLOOD_NS } else { COALESCE_NS };
            if now.saturating_sub(self.tx.sent_at) < pause {
                return self.touch(sink);
            }
        }
        self.pump(now, true, sink);
    }

    /// Has the connection serviced at the next occasion.
    #[inline]
    pub(crate) fn touch(&mut self, sink: &mut PacketSink<'_>) {
        self.tx.touched = true;
        if !std::mem::replace(&mut self.tx.listed, true) {
            sink.schedule.list(sink.path.peer());
        }
        debug_assert!(sink.schedule.len() > 0, "a listed connection is in the list");
    }

    /// Services a listed connection. Returns true if it needs no further service for now.
    #[inline]
    pub(crate) fn service(&mut self, now: Nanos, force: bool, sink: &mut PacketSink<'_>) -> bool {
        debug_assert!(self.tx.listed, "only listed connections are serviced");
        if self.tx.touched {
            // An outbox that has not grown since the last service gets no further messages at
            // present.
            let waiting = self.tx.outbox.waiting();
            let idle = force
                || std::mem::replace(&mut self.tx.serviced_bytes, waiting) == waiting
                || now.saturating_sub(self.tx.opened_at) >= COALESCE_NS;
            // Units beyond the window wait for an acknowledgement, which touches again.
            if !self.pump(now, idle, sink) {
                debug_assert!(self.tx.touched, "it is serviced again");
                return false;
            }
        }
        debug_assert!(!self.tx.touched, "all that happened was handled");
        self.tx.listed = false;
        true
    }

    /// Notes that the connection is not serviced any more: its peer is lost.
    pub(crate) fn unlist(&mut self) {
        debug_assert!(self.tx.listed, "only listed connections are serviced");
        debug_assert!(!self.tx.outbox.has_waiting(), "nothing is sent to a lost peer");
        (self.tx.listed, self.tx.touched) = (false, false);
    }

    /// Returns true if the connection is to be serviced.
    pub(crate) fn is_listed(&self) -> bool {
        self.tx.listed
    }

    /// Does what is due; `heard` is the time up to which arrivals are known.
    pub(crate) fn handle_timeout(&mut self, now: Nanos, heard: Nanos, sink: &mut PacketSink<'_>) {
        if self.channel.next_timeout().is_some_and(|at| at <= now) {
            self.channel.handle_timeout_unheard(now, heard.min(now));
            // What is open may be growing: then it is listed, and not for the timer to close.
            let old = now.saturating_sub(self.tx.opened_at) >= COALESCE_NS;
            let close_open = old || !self.tx.touched;
            let refused = sink.transmitter.stats.sends_refused;
            self.pump(now, close_open, sink);
            // What an interface refuses since it got narrower is due again, in shorter packets.
            let done = sink.transmitter.stats.sends_refused == refused;
            let next = self.channel.next_timeout();
            debug_assert!(
                next != Some(0) || self.tx.listed || !done,
                "what is due at once was done"
            );
        }
        sink.schedule.note_timeout(self.channel.next_timeout());
        sink.schedule.note_timeout(self.release_idle(now));
    }

    /// Retransmits lost units, then sends new ones as far as the window allows, then an
    /// acknowledgement if one is due and none went along. Returns false if something is left that
    /// only waits for more messages.
    pub(crate) fn pump(&mut self, now: Nanos, close_open: bool, sink: &mut PacketSink<'_>) -> bool {
        let policy = if close_open { FlushPolicy::Any } else { FlushPolicy::Batch };
        let mut end = BurstEnd::More;
        while end == BurstEnd::More {
            end = self.send_burst(now, policy, sink, |_| false);
        }
        self.follow_up(now, close_open, end, sink)
    }

    /// Sends one burst of whole units, which `feed` packs one by one while it returns true: a unit
    /// just packed is checksummed and sent while the nearest cache has it. Returns false if the
    /// window, or the driver, takes no more.
    pub(super) fn feed(
        &mut self,
        now: Nanos,
        sink: &mut PacketSink<'_>,
        feed: impl FnMut(&mut Outbox) -> bool,
    ) -> bool {
        let end = self.send_burst(now, FlushPolicy::Whole, sink, feed);
        let goes_on = !self.tx.outbox.has_whole();
        self.touch(sink);
        debug_assert!(self.tx.touched && self.tx.listed, "it is serviced");
        self.follow_up(now, false, end, sink);
        goes_on
    }

    /// Sends packets besides units: acknowledgements and probes. Returns false if something is left
    /// that only waits for more messages.
    #[inline]
    fn follow_up(
        &mut self,
        now: Nanos,
        close_open: bool,
        end: BurstEnd,
        sink: &mut PacketSink<'_>,
    ) -> bool {
        if end != BurstEnd::Idle {
            let Self { channel, tx, .. } = self;
            loop {
                let mut header = sink.path.header;
                let sack = &mut sink.transmitter.arena.sack;
                let Some(content) = channel.poll_answer(now, &mut header, sack) else { break };
                sink.transmitter.arena.clear();
                sink.load_answer(&header, content, tx.overhead);
                sink.flush(now, channel, &tx.outbox);
            }
        }
        if self.tx.set_datagram_bytes(self.channel.datagram_bytes()) {
            sink.transmitter.stats.paths_narrowed += 1;
        }
        let done = close_open || !self.tx.outbox.has_waiting();
        self.tx.touched &= !done;
        debug_assert!(done || self.tx.outbox.has_waiting(), "something is left");
        sink.schedule.note_timeout(self.channel.next_timeout());
        done
    }

    /// Sends one burst, and the answers that are due if no unit is left. If no whole unit waits any
    /// more `feed` is called for more.
    #[inline]
    fn send_burst(
        &mut self,
        now: Nanos,
        policy: FlushPolicy,
        sink: &mut PacketSink<'_>,
        mut feed: impl FnMut(&mut Outbox) -> bool,
    ) -> BurstEnd {
        let Self { channel, tx, .. } = self;
        let defers = channel.defers_burst(now, tx.outbox.contiguous_bytes());
        let policy = tx.outbox.burst_policy(policy, defers);
        sink.transmitter.arena.clear();
        let (mut bytes, mut sealed) = (0, false);
        loop {
            if !tx.outbox.has_whole() {
                feed(&mut tx.outbox);
            }
            let waiting: Waiting = tx.outbox.next_units(policy, tx.overhead, sealed);
            let mut header = sink.path.header;
            let arena = &mut sink.transmitter.arena;
            let launch = |content| match content {
                Content::Control => tx.outbox.launch_control(),
                _ => tx.outbox.launch(),
            };
            let transmit =
                channel.poll_transmit(now, waiting, &mut header, &mut arena.sack, launch);
            let Some(transmit) = transmit else {
                let sent = arena.len() == 0 || sink.flush(now, channel, &tx.outbox);
                return if sent { BurstEnd::Idle } else { BurstEnd::NoUnits };
            };
            match transmit.content {
                Content::Resend => sink.transmitter.stats.units_resent += 1,
                Content::Control | Content::Data => {}
                Content::ProbeAck | Content::Ack | Content::Probe(_) => {
                    if sink.transmitter.arena.len() > 0 {
                        sink.flush(now, channel, &tx.outbox);
                        sink.transmitter.arena.clear();
                    }
                    sink.load_answer(&header, transmit.content, tx.overhead);
                    sink.flush(now, channel, &tx.outbox);
                    return BurstEnd::NoUnits;
                }
            }
            let stats = &mut sink.transmitter.stats;
            stats.units_sent += u64::from(transmit.content != Content::Resend);
            stats.units_ahead += u64::from(transmit.content == Content::Control);
            tx.sent_at = now;
            if transmit.oversized {
                return self.send_fragments(now, header.unit, sink);
            }
            // A full packet has no room for selective acknowledgements; pure ones carry them.
            let arena = &mut sink.transmitter.arena;
            if arena.len() == 0 {
                let sealer = &sink.path.sealer;
                sealed = sealer.in_place() && tx.outbox.has_much(channel.newest_body());
            }
            if let Some(unit) = channel.body_mut(header.unit) {
                let unit = (&mut tx.outbox, unit);
                bytes += arena.load_unit(&header, &sink.path.sealer, unit, sealed);
            } else {
                clump_bug::bug!("a unit that is sent is in flight");
            }
            let loaded = arena.len();
            debug_assert!((1..=BURST).contains(&loaded), "a call of the driver takes so many");
            // One contiguous send buffer costs less than one and a part of the next.
            let full = loaded == BURST
                || bytes >= BURST_BYTES
                || (loaded > 1
                    && bytes >= MIN_KEPT
                    && tx.outbox.ends_send_buffer(sealed, channel.newest_body()));
            if full {
                let sent = sink.flush(now, channel, &tx.outbox);
                return if sent { BurstEnd::More } else { BurstEnd::NoUnits };
            }
        }
    }

    /// Sends the packets loaded so far, and then a unit in as many packets as it takes.
    #[cold]
    fn send_fragments(&mut self, now: Nanos, unit: u64, sink: &mut PacketSink<'_>) -> BurstEnd {
        let Self { channel, tx, .. } = self;
        let loaded = sink.transmitter.arena.len() > 0;
        if loaded && !sink.flush(now, channel, &tx.outbox) {
            return BurstEnd::NoUnits;
        }
        let sealer = &sink.path.sealer;
        let overhead = HEADER_BYTES + UNIT_FRAGMENT_BYTES + sealer.tag_bytes();
        let most = channel.datagram_bytes().saturating_sub(overhead).max(1);
        let body = channel.body(unit).and_then(|unit| tx.outbox.body(unit, sealer));
        let body = body.unwrap_or_default().into_owned();
        debug_assert!(body.len() > most, "only what is too long is cut");
        sink.transmitter.arena.clear();
        for (number, part) in body.chunks(most).enumerate() {
            if sink.transmitter.arena.len() == BURST {
                if !sink.flush(now, channel, &tx.outbox) {
                    return BurstEnd::NoUnits;
                }
                sink.transmitter.arena.clear();
            }
            let arena = &mut sink.transmitter.arena;
            let mut header = sink.path.header;
            (header.kind, header.unit) = (PacketKind::Fragment, unit);
            channel.stamp(now, &mut header, &mut arena.sack);
            let unit_fragment =
                UnitFragment { offset: (number * most) as u32, total: body.len() as u32 };
            let packet = [&unit_fragment.encode()[..], part].concat();
            arena.load(&header, false, sealer, &packet);
        }
        debug_assert!(sink.transmitter.arena.len() > 0, "the last fragments are loaded");
        sink.transmitter.stats.units_fragmented += 1;
        let sent = sink.flush(now, channel, &tx.outbox);
        if sent { BurstEnd::More } else { BurstEnd::NoUnits }
    }

    /// Sends a packet without a unit that the channel has not asked for; of closing packets as many
    /// as it takes to describe every unit that has arrived.
    #[cold]
    pub(crate) fn send_plain(&mut self, now: Nanos, kind: PacketKind, sink: &mut PacketSink<'_>) {
        debug_assert!(!matches!(kind, PacketKind::Data | PacketKind::Fragment), "without a unit");
        for unit in 0.. {
            let mut header = sink.path.header;
            (header.kind, header.unit) = (kind, unit);
            let arena = &mut sink.transmitter.arena;
            arena.clear();
            self.channel.stamp(now, &mut header, &mut arena.sack);
            let body = if kind == PacketKind::Close { self.close_report() } else { Vec::new() };
            arena.load(&header, true, &sink.path.sealer, &body);
            sink.transmitter.stats.acks_sent += u64::from(kind == PacketKind::Ack);
            sink.flush(now, &mut self.channel, &self.tx.outbox);
            if kind != PacketKind::Close || header.flags.has(Flags::WHOLE) {
                return;
            }
        }
    }
}
