//! Bulk by streams: what takes them, and what happens to them.

use super::peer_streams::{MIN_BULK, PeerStreams};
use super::{Connection, PacketSink, SendTerms};
use crate::deliveries::Delivery;
use crate::message_part::{MessagePart, OwnedPart, Progress};
use crate::stream_notice::StreamNotice;
use crate::tx_queue::{LongMessage, MAX_WAITING};
use clump_proto::Nanos;
use clump_wire::frame::{FrameKind, Route};
use clump_wire::record::MAX_RECORD_PAYLOAD;
use clump_wire::{Message, OwnedMessage, SendResult};

/// Bytes of a long payload in one record: the nearest caches hold them.
const PART_BYTES: usize = 256 << 10;

impl Connection {
    /// Returns the streams, where there may be any.
    fn bulk_mut(&mut self, sink: &mut PacketSink<'_>) -> Option<&mut PeerStreams> {
        if self.bulk.is_none() {
            sink.transmitter.streams.as_ref()?;
            sink.schedule.list_streams(sink.path.peer());
            self.bulk = Some(Box::new(PeerStreams::new()));
        }
        debug_assert!(self.bulk.is_some(), "made when first needed");
        self.bulk.as_deref_mut()
    }

    /// Returns true if a message goes by a stream; one is asked for if there is none.
    #[cold]
    pub(super) fn takes_stream(
        &mut self,
        now: Nanos,
        kind: FrameKind,
        bytes: usize,
        sink: &mut PacketSink<'_>,
    ) -> bool {
        let bulk_kind = match kind {
            FrameKind::Medium => bytes <= MAX_RECORD_PAYLOAD,
            FrameKind::Long => true,
            _ => false,
        };
        let datagram_bytes = self.channel.datagram_bytes();
        let streams = sink.transmitter.streams.as_ref();
        let carries = streams.is_some_and(|streams| streams.carries(bytes, datagram_bytes));
        if !bulk_kind || !carries || bytes < MIN_BULK {
            return false;
        }
        let Some(bulk) = self.bulk_mut(sink) else { return false };
        if let Some(notice) = bulk.sender.want(now) {
            self.send_notice(now, notice, sink);
        }
        self.bulk.as_ref().is_some_and(|bulk| bulk.sender.is_open())
    }

    /// Sends a message as one record, if there is room.
    #[cold]
    pub(super) fn push_record(
        &mut self,
        now: Nanos,
        message: &Message<'_>,
        terms: SendTerms,
        sink: &mut PacketSink<'_>,
    ) -> SendResult {
        if terms.max_waiting != usize::MAX && !self.make_record_room(now, sink) {
            return SendResult::Full;
        }
        let part = MessagePart::whole(message, self.queue.take_order(terms.ordered));
        debug_assert!(part.total <= MAX_RECORD_PAYLOAD, "one record carries it");
        self.append_record(now, &part, sink);
        SendResult::Sent
    }

    /// Returns true if a record finds room, after an attempt to write what waits.
    pub(super) fn make_record_room(&mut self, now: Nanos, sink: &mut PacketSink<'_>) -> bool {
        let Some(bulk) = &mut self.bulk else { return false };
        if !bulk.sender.records().has_room()
            && let Some(notice) = bulk.sender.write(now)
        {
            self.send_notice(now, notice, sink);
        }
        self.has_record_room()
    }

    fn has_record_room(&self) -> bool {
        let sender = self.bulk.as_ref().map(|bulk| &bulk.sender);
        sender.is_some_and(|sender| sender.is_open() && sender.records().has_room())
    }

    fn append_record(&mut self, now: Nanos, part: &MessagePart<'_>, sink: &mut PacketSink<'_>) {
        let bytes = part.message.payload.len();
        debug_assert!(bytes <= MAX_RECORD_PAYLOAD, "a record carries it");
        let Some(bulk) = &mut self.bulk else {
            clump_bug::bug!("records are for open streams");
            return;
        };
        bulk.sent += 1;
        sink.transmitter.stats.records_sent += 1;
        sink.transmitter.stats.bytes_sent += bytes as u64;
        if let Some(notice) = bulk.sender.append(now, part) {
            self.send_notice(now, notice, sink);
        }
    }

    /// Returns true if this message has begun on a stream and not ended.
    pub(super) fn is_on_stream(&self, progress: &Progress) -> bool {
        let records = self.bulk.as_ref().map(|bulk| bulk.sender.records());
        progress.message.is_some() && records.is_some_and(|all| all.is_open(progress.message))
    }

    /// Returns true if a long message goes by a stream, or goes on by one.
    #[inline]
    pub(super) fn takes_long_stream(
        &mut self,
        now: &impl Fn() -> Nanos,
        part: &MessagePart<'_>,
        progress: &Progress,
        sink: &mut PacketSink<'_>,
    ) -> bool {
        let (begins, bytes) = (*progress == Progress::default(), part.total);
        self.is_on_stream(progress)
            || (begins
                && bytes >= MIN_BULK
                && self.takes_stream(now(), part.message.kind, bytes, sink))
    }

    /// Returns true if a long message, or more of it, finds room.
    pub(crate) fn has_long_room(
        &mut self,
        now: impl Fn() -> Nanos,
        part: &MessagePart<'_>,
        progress: &Progress,
        sink: &mut PacketSink<'_>,
    ) -> bool {
        if self.takes_long_stream(&now, part, progress, sink) {
            return self.make_record_room(now(), sink);
        }
        self.queue.waiting() < MAX_WAITING
    }

    /// Sends a long message by its stream, or as much of it as is available and finds room.
    pub(super) fn send_records(
        &mut self,
        now: impl Fn() -> Nanos,
        part: (&MessagePart<'_>, bool),
        progress: &mut Progress,
        sink: &mut PacketSink<'_>,
    ) -> SendResult {
        while progress.done < part.0.end() {
            if !self.make_record_room(now(), sink) {
                return SendResult::Full;
            }
            self.send_record(&now, part, progress, sink);
        }
        SendResult::Sent
    }

    fn send_record(
        &mut self,
        now: &impl Fn() -> Nanos,
        (part, ordered): (&MessagePart<'_>, bool),
        progress: &mut Progress,
        sink: &mut PacketSink<'_>,
    ) {
        let (at, total) = (progress.done, part.total);
        debug_assert!(at >= part.at && at < total, "parts come in order");
        let begins = at == 0;
        let rest = part.rest(at);
        let payload = rest.get(..PART_BYTES).unwrap_or(rest);
        if begins && payload.len() < total {
            progress.message = Some(self.queue.long_messages.take_number());
        }
        let order = self.queue.take_order(ordered && begins);
        let words = if begins { part.message.words } else { &[] };
        progress.done += payload.len();
        let message = Message { words, payload, ..part.message };
        let part = MessagePart { message, order, total, at, number: progress.message };
        self.append_record(now(), &part, sink);
    }

    /// Sends all of the available part of a long message by its stream, which has room.
    pub(super) fn send_all_records(
        &mut self,
        now: impl Fn() -> Nanos,
        part: (&MessagePart<'_>, bool),
        progress: &mut Progress,
        sink: &mut PacketSink<'_>,
    ) -> SendResult {
        let end = part.0.end();
        while progress.done < end {
            self.send_record(&now, part, progress, sink);
        }
        debug_assert!(progress.done == end, "all of it, and no more");
        SendResult::Sent
    }

    /// Abandons a long message that has begun on a stream.
    pub(super) fn abandon_record(
        &mut self,
        now: Nanos,
        progress: Progress,
        sink: &mut PacketSink<'_>,
    ) {
        let message = Message::request((FrameKind::Long, 0), Route::default(), (&[], &[]));
        let Progress { done: at, message: number } = progress;
        debug_assert!(at > 0, "it has begun");
        let part = MessagePart { message, order: None, total: at + 1, at, number };
        self.append_record(now, &part, sink);
    }

    /// Tells the peer news of a stream.
    fn send_notice(&mut self, now: Nanos, notice: StreamNotice, sink: &mut PacketSink<'_>) {
        let given_up = matches!(notice, StreamNotice::GivenUp { .. });
        sink.transmitter.stats.streams_given_up += u64::from(given_up);
        let words = &notice.encode();
        let message = Message::answer((FrameKind::Stream, 0), (0, 0), (words, &[]));
        let pushed = self.push(|| now, &message, SendTerms::UNLIMITED, sink);
        debug_assert!(pushed == SendResult::Sent, "there is room without a limit");
        self.kick(now, true, sink);
    }

    /// Handles the news of streams that have come.
    #[inline]
    pub(crate) fn handle_notices(&mut self, now: Nanos, sink: &mut PacketSink<'_>) {
        if !self.rx.notices.is_empty() {
            self.handle_all_notices(now, sink);
        }
    }

    #[cold]
    fn handle_all_notices(&mut self, now: Nanos, sink: &mut PacketSink<'_>) {
        while let Some(notice) = self.rx.notices.pop_front() {
            self.handle_notice(now, notice, sink);
        }
        debug_assert!(self.rx.notices.is_empty(), "all were handled");
    }

    #[cold]
    fn handle_notice(&mut self, now: Nanos, notice: StreamNotice, sink: &mut PacketSink<'_>) {
        let answer = match (notice, self.bulk_mut(sink).is_some()) {
            (StreamNotice::Wanted { stream }, false) => {
                Some(StreamNotice::Ended { stream, count: 0 })
            }
            (_, false) => None,
            (StreamNotice::Wanted { stream }, true) => self.on_wanted(now, stream, sink),
            (StreamNotice::Offered { stream, port, random }, true) => {
                self.on_offered(now, (stream, port, random), sink)
            }
            (StreamNotice::Taken { stream, count }, true) => {
                if let Some(bulk) = &mut self.bulk {
                    bulk.sender.on_taken(now, stream, count);
                }
                None
            }
            (StreamNotice::GivenUp { stream }, true) => {
                self.bulk.as_mut().and_then(|bulk| bulk.receiver.on_given_up(stream))
            }
            (StreamNotice::Ended { stream, count }, true) => {
                let bulk = self.bulk.as_mut();
                let rest = bulk.and_then(|bulk| bulk.sender.on_ended(now, stream, count));
                if let Some((parts, begun)) = rest {
                    self.move_to_packets(now, &parts, begun, sink);
                }
                None
            }
        };
        if let Some(answer) = answer {
            self.send_notice(now, answer, sink);
        }
    }

    fn on_wanted(
        &mut self,
        now: Nanos,
        stream: u32,
        sink: &mut PacketSink<'_>,
    ) -> Option<StreamNotice> {
        let receiver = &mut self.bulk.as_mut()?.receiver;
        if !receiver.is_new(stream) {
            return None;
        }
        let port = sink.transmitter.streams.as_mut()?;
        let (listener, answer) = match port.listen(&sink.path.header, stream) {
            Some((made, random)) => {
                let port = made.0.port();
                (Some(made), StreamNotice::Offered { stream, port, random })
            }
            None => (None, StreamNotice::Ended { stream, count: 0 }),
        };
        receiver.on_wanted(now, stream, listener);
        debug_assert!(!receiver.is_new(stream), "it is wanted once");
        Some(answer)
    }

    fn on_offered(
        &mut self,
        now: Nanos,
        (stream, port, random): (u32, u16, [u64; 2]),
        sink: &mut PacketSink<'_>,
    ) -> Option<StreamNotice> {
        let sender = &mut self.bulk.as_mut()?.sender;
        if !sender.awaits(stream) {
            return None;
        }
        let mut to = sink.path.address;
        to.set_port(port);
        let dial = sink.transmitter.streams.as_mut()?;
        let made = dial.dial(&sink.path.header, to, stream, random);
        sink.transmitter.stats.streams_opened += u64::from(made.is_some());
        sender.on_offered(now, made)
    }

    /// Sends by datagrams what a stream has not brought there.
    fn move_to_packets(
        &mut self,
        now: Nanos,
        parts: &[OwnedPart],
        begun: Vec<LongMessage>,
        sink: &mut PacketSink<'_>,
    ) {
        self.queue.note_opening(now);
        for LongMessage { message, number, .. } in begun {
            self.queue.long_messages.begin(message, number);
        }
        for part in parts {
            self.queue.append_untaken(&part.part());
        }
        if let Some(bulk) = &mut self.bulk {
            debug_assert!(bulk.sender.records().is_empty(), "all of it is here");
            bulk.moved = Some(self.queue.end());
        }
        self.kick(now, true, sink);
    }

    /// Takes what has come by the peer's stream; returns what is to be sent to the peer.
    pub(crate) fn poll_stream(
        &mut self,
        now: Nanos,
        all: bool,
        delivery: &mut Delivery<'_>,
    ) -> Option<StreamNotice> {
        let Self { bulk, rx, .. } = self;
        debug_assert!(rx.notices.is_empty(), "news was handled with its packet");
        let receiver = &mut bulk.as_mut()?.receiver;
        receiver.is_active().then(|| receiver.poll((now, all), rx, delivery)).flatten()
    }

    /// Tells the peer what [`Connection::poll_stream`] has returned.
    pub(crate) fn tell(
        &mut self,
        now: Nanos,
        notice: Option<StreamNotice>,
        sink: &mut PacketSink<'_>,
    ) {
        if let Some(notice) = notice {
            self.send_notice(now, notice, sink);
        }
    }

    /// Does what is due for streams.
    pub(crate) fn service_streams(&mut self, now: Nanos, sink: &mut PacketSink<'_>) {
        let Some(bulk) = &mut self.bulk else { return };
        let notice = bulk.sender.handle_timeout(now);
        debug_assert!(notice.is_none() || !bulk.sender.is_open(), "news is of an end");
        let next = [bulk.sender.next_timeout(now), bulk.receiver.next_timeout(now)];
        for due in next.into_iter().flatten() {
            sink.schedule.note_timeout(Some(due));
        }
        if let Some(notice) = notice {
            self.send_notice(now, notice, sink);
        }
    }

    /// Returns the body of a packet that closes: what was taken of the peer's stream.
    pub(super) fn close_report(&self) -> Vec<u8> {
        let taken = self.bulk.as_ref().map(|bulk| bulk.receiver.taken());
        let words = taken.map(|(stream, count)| [u64::from(stream), count].map(u64::to_le_bytes));
        debug_assert!(taken.is_none_or(|(stream, count)| stream > 0 || count == 0));
        words.map_or(Vec::new(), |words| words.as_flattened().to_vec())
    }

    /// Notes what a peer that closes has taken.
    pub(crate) fn on_close_report(&mut self, now: Nanos, body: &[u8]) {
        let (words, _) = body.as_chunks::<8>();
        if let (Some(bulk), &[stream, count]) = (&mut self.bulk, words) {
            let [stream, count] = [stream, count].map(u64::from_le_bytes);
            bulk.sender.on_taken(now, u32::try_from(stream).unwrap_or(0), count);
        }
    }

    /// Takes the messages of streams that have not arrived, after the peer is lost.
    pub(super) fn take_undelivered_records(&mut self) -> Vec<OwnedMessage> {
        self.bulk.take().map_or(Vec::new(), |mut bulk| bulk.sender.take_undelivered())
    }

    /// Returns the number of records sent so far.
    pub(crate) fn records_end(&self) -> u64 {
        self.bulk.as_ref().map_or(0, |bulk| bulk.sent)
    }

    /// Returns true if everything sent as records when [`Connection::records_end`] returned `end`
    /// has arrived.
    pub(crate) fn has_taken_before(&self, end: u64) -> bool {
        let Some(bulk) = &self.bulk else { return true };
        debug_assert!(end <= bulk.sent, "an end that was returned");
        let untaken = bulk.sender.records().len() as u64;
        debug_assert!(untaken <= bulk.sent, "records are counted");
        bulk.sent - untaken >= end
            && bulk.moved.is_none_or(|end| self.queue.sent.has_arrived_before(end))
    }

    /// Returns true if nothing of streams is to be sent or reported.
    pub(super) fn is_bulk_quiet(&self) -> bool {
        self.bulk.as_ref().is_none_or(|bulk| bulk.is_quiet())
    }

    /// Returns true if records wait to be written.
    pub(crate) fn has_unwritten_records(&self) -> bool {
        self.bulk.as_ref().is_some_and(|bulk| bulk.sender.records().has_unwritten())
    }

    /// Returns the bytes kept for streams.
    pub(super) fn bulk_bytes(&self) -> usize {
        self.bulk.as_ref().map_or(0, |bulk| bulk.bytes())
    }

    /// Returns true if a message that found no room on a stream would find it now; `None` if it
    /// takes none.
    #[inline]
    pub(super) fn would_take_record(&self, message: &Message<'_>) -> Option<bool> {
        let bulk = self.bulk.as_ref().filter(|_| message.payload.len() >= MIN_BULK)?;
        let kind = matches!(message.kind, FrameKind::Medium | FrameKind::Long);
        (kind && bulk.sender.is_open()).then(|| self.has_record_room())
    }
}
