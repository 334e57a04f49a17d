//! Sending: from the queue to the driver, and everything that a timer or an acknowledgement
//! causes.

use super::{Connection, PacketSink};
use crate::transmitter::Transmitter;
use crate::tx_queue::{FlushPolicy, TxQueue};
use clump_proto::{Content, Nanos, Next};
use clump_wire::{Flags, HEADER_BYTES, Header, PacketKind, UNIT_FRAGMENT_BYTES, UnitFragment};

impl Connection {
    /// Sends the units that may be sent now; a unit that is not full only if nothing else is in
    /// flight, or the last packet left a while ago, or `force`.
    pub(crate) fn kick(&mut self, now: Nanos, force: bool, sink: &mut PacketSink<'_>) {
        let due = if force { Some(true) } else { self.queue.is_due(now, self.channel.is_quiet()) };
        if due != Some(true) {
            // A unit that is open, also one begun behind whole ones, may still fill up.
            self.touch(sink);
        }
        if due != Some(false) {
            self.pump(now, due.is_some(), sink);
        }
    }

    /// Has the connection serviced at the next occasion.
    #[inline]
    pub(crate) fn touch(&mut self, sink: &mut PacketSink<'_>) {
        self.touched = true;
        if !std::mem::replace(&mut self.listed, true) {
            sink.schedule.list(sink.path.peer());
        }
        debug_assert!(sink.schedule.len() > 0, "a listed connection is in the list");
    }

    /// Services a listed connection, whose peer may be `lost`: then nothing is sent. Returns true
    /// if it needs no further service for now.
    #[inline]
    pub(crate) fn service(
        &mut self,
        now: Nanos,
        force: bool,
        lost: bool,
        sink: &mut PacketSink<'_>,
    ) -> bool {
        debug_assert!(self.listed, "only listed connections are serviced");
        debug_assert!(!lost || self.queue.waiting() == 0, "nothing is sent to a lost peer");
        self.touched &= !lost;
        if self.touched {
            let idle = self.queue.is_settled(now) || force;
            // Units beyond the window wait for an acknowledgement, which touches again.
            if !self.pump(now, idle, sink) {
                debug_assert!(self.touched, "it is serviced again");
                return false;
            }
        }
        debug_assert!(!self.touched, "all that happened was handled");
        self.listed = false;
        true
    }

    /// Returns true if the connection is to be serviced.
    pub(crate) fn is_listed(&self) -> bool {
        self.listed
    }

    /// Does what is due; `heard` is the time up to which arrivals are known.
    pub(crate) fn handle_timeout(&mut self, now: Nanos, heard: Nanos, sink: &mut PacketSink<'_>) {
        if self.channel.next_timeout().is_some_and(|at| at <= now) {
            self.channel.handle_timeout_unheard(now, heard.min(now));
            // What is open may be growing: then it is listed, and not for the timer to close.
            let close_open = self.queue.is_old(now) || !self.touched;
            self.pump(now, close_open, sink);
            let next = self.channel.next_timeout();
            debug_assert!(next != Some(0) || self.listed, "what is due at once was done");
        }
        sink.schedule.note_timeout(self.channel.next_timeout());
        sink.schedule.note_timeout(self.release_idle(now));
    }

    /// Sends all that may be sent now: what the driver did not take before, lost units, new ones as
    /// far as the window allows, and acknowledgements that are due and went with none. Returns
    /// false if something is left that only waits for more messages.
    pub(crate) fn pump(&mut self, now: Nanos, close_open: bool, sink: &mut PacketSink<'_>) -> bool {
        let policy = if close_open { FlushPolicy::Any } else { FlushPolicy::Batch };
        while self.flush(now, policy, sink, |_| ()) {}
        sink.schedule.note_timeout(self.channel.next_timeout());
        let done = close_open || self.queue.waiting() == 0;
        self.touched &= !done;
        done
    }

    /// Sends one burst of whole units, which `feed` packs one by one: a unit just packed is
    /// checksummed and sent while the nearest cache has it. Returns false if the window, or the
    /// driver, takes no more.
    pub(super) fn feed(
        &mut self,
        now: Nanos,
        sink: &mut PacketSink<'_>,
        feed: impl FnMut(&mut TxQueue),
    ) -> bool {
        self.flush(now, FlushPolicy::Whole, sink, feed);
        sink.schedule.note_timeout(self.channel.next_timeout());
        self.touch(sink);
        debug_assert!(self.touched && self.listed, "it is serviced");
        !self.queue.has_whole()
    }

    /// Sends one burst, in named stages: backlog, next, launch, stamp, seal, send. If no whole unit
    /// waits any more `feed` is called for more. Returns true if another burst may follow.
    #[inline]
    fn flush(
        &mut self,
        now: Nanos,
        policy: FlushPolicy,
        sink: &mut PacketSink<'_>,
        mut feed: impl FnMut(&mut TxQueue),
    ) -> bool {
        // Beside control messages data is sent in whole bursts or not at all, since a part of one
        // costs as much.
        let policy = match policy {
            _ if self.queue.has_several()
                && self.channel.defers_burst(now, self.queue.contiguous_bytes()) =>
            {
                FlushPolicy::Batch
            }
            FlushPolicy::Batch if self.queue.has_batch() => FlushPolicy::Whole,
            _ => policy,
        };
        let more = loop {
            let Self { channel, queue, .. } = self;
            let Transmitter { burst, stats, .. } = &mut *sink.transmitter;
            if !queue.has_whole() {
                feed(queue);
            }
            let backlog = queue.backlog(policy, burst.keeps_sealed());
            let Some(next) = channel.next(now, &backlog) else { break false };
            let launched = matches!(next.content, Content::Data | Content::Control);
            let unit = match next.content {
                Content::Refused | Content::Resend => next.unit,
                Content::Data | Content::Control => match queue.launch(now, next.content) {
                    Some(unit) => channel.launch(now, next.bytes, unit),
                    None => break false,
                },
                Content::ProbeAck | Content::Ack | Content::Probe => {
                    self.send_answer(now, &next, sink);
                    continue;
                }
            };
            stats.units_sent += u64::from(launched);
            stats.units_resent += u64::from(next.content == Content::Resend);
            stats.units_ahead += u64::from(next.content == Content::Control);
            if next.bytes > channel.datagram_bytes() {
                self.send_fragments(now, unit, sink);
                continue;
            }
            let mut header = Header { kind: PacketKind::Data, unit, ..sink.path.header };
            channel.stamp(now, &mut header, &mut burst.sack);
            if let Some(body) = channel.body_mut(unit) {
                burst.seal_unit(&header, &sink.path.sealer, (queue, body));
            }
            if burst.is_full(queue, channel.newest_body()) {
                break true;
            }
        };
        let sent = self.send(now, sink);
        let bytes = self.channel.datagram_bytes();
        if bytes != self.queue.datagram_bytes && self.queue.set_datagram_bytes(bytes) {
            sink.transmitter.stats.paths_narrowed += 1;
        }
        sent && more
    }

    /// Sends the packets that were loaded; returns false if the driver did not take all of them.
    #[inline]
    fn send(&mut self, now: Nanos, sink: &mut PacketSink<'_>) -> bool {
        let Transmitter { driver, burst, stats, .. } = &mut *sink.transmitter;
        let to = (&mut **driver, sink.path.address);
        burst.is_empty() || burst.send(now, to, (&mut self.channel, &self.queue), stats)
    }

    /// Sends the packets loaded so far, and then one without a unit.
    #[inline]
    fn send_answer(&mut self, now: Nanos, next: &Next, sink: &mut PacketSink<'_>) {
        self.send(now, sink);
        let mut header = Header { kind: next.packet_kind(), unit: next.unit, ..sink.path.header };
        debug_assert!(header.kind != PacketKind::Data, "an answer carries no unit");
        let Transmitter { burst, stats, .. } = &mut *sink.transmitter;
        self.channel.stamp(now, &mut header, &mut burst.sack);
        // Selective acknowledgements take their share of a probe's length.
        let words = 8 * burst.sack.words().len();
        let overhead = HEADER_BYTES + sink.path.sealer.tag_bytes();
        let padding = next.bytes.saturating_sub(overhead + words);
        burst.copy(&header, &sink.path.sealer, &vec![0; padding]);
        stats.acks_sent += u64::from(next.content == Content::Ack);
        self.send(now, sink);
    }

    /// Sends the packets loaded so far, and then a unit in as many packets as it takes.
    #[cold]
    fn send_fragments(&mut self, now: Nanos, unit: u64, sink: &mut PacketSink<'_>) {
        if !self.send(now, sink) {
            return self.channel.handle_refused(now, false, std::iter::once(unit));
        }
        let sealer = &sink.path.sealer;
        let overhead = HEADER_BYTES + UNIT_FRAGMENT_BYTES + sealer.tag_bytes();
        let most = self.channel.datagram_bytes().saturating_sub(overhead).max(1);
        let body = self.channel.body(unit).and_then(|unit| unit.body(&self.queue.memory, sealer));
        let body = body.unwrap_or_default().into_owned();
        debug_assert!(body.len() > most, "only what is too long is cut");
        for (number, part) in body.chunks(most).enumerate() {
            let burst = &mut sink.transmitter.burst;
            let mut header = Header { kind: PacketKind::Fragment, unit, ..sink.path.header };
            self.channel.stamp(now, &mut header, &mut burst.sack);
            let unit_fragment =
                UnitFragment { offset: (number * most) as u32, total: body.len() as u32 };
            let packet = [&unit_fragment.encode()[..], part].concat();
            burst.copy(&header, &sink.path.sealer, &packet);
            if burst.is_long() && !self.send(now, sink) {
                break;
            }
        }
        sink.transmitter.stats.units_fragmented += 1;
        self.send(now, sink);
    }

    /// Sends a packet without a unit that the channel has not asked for; of closing packets as many
    /// as it takes to describe every unit that has arrived.
    #[cold]
    pub(crate) fn send_plain(&mut self, now: Nanos, kind: PacketKind, sink: &mut PacketSink<'_>) {
        debug_assert!(!matches!(kind, PacketKind::Data | PacketKind::Fragment), "without a unit");
        for unit in 0.. {
            let mut header = sink.path.header;
            (header.kind, header.unit) = (kind, unit);
            let Transmitter { burst, stats, .. } = &mut *sink.transmitter;
            self.channel.stamp(now, &mut header, &mut burst.sack);
            let body = if kind == PacketKind::Close { self.close_report() } else { Vec::new() };
            burst.copy(&header, &sink.path.sealer, &body);
            stats.acks_sent += u64::from(kind == PacketKind::Ack);
            self.send(now, sink);
            if kind != PacketKind::Close || header.flags.has(Flags::WHOLE) {
                return;
            }
        }
    }
}
