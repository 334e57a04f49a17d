//! Sending messages: requests, replies, reports, and those whose flow control others do, which a
//! proxy sends for the ranks of its node.

use super::Stack;
use crate::connection::{Connection, PacketSink, SendTerms};
use crate::flow::{Flow, FlowId, REQUEST_COST};
use crate::message_part::{MessagePart, Progress};
use crate::peer::Peer;
use crate::tx_queue::{MAX_WAITING, PackedEnd, TxQueue};
use clump_proto::Nanos;
use clump_wire::frame::FrameKind;
use clump_wire::{Message, Reason, SendResult};

/// The end of the data handed to a stack at one time, for each peer.
#[derive(Debug)]
pub struct Mark(Vec<(u32, PackedEnd, u64)>);

impl Mark {
    /// Iterates over the peers that data had been handed over for.
    pub fn peers(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().map(|(id, ..)| *id)
    }
}

impl Stack {
    /// Sends a short or medium request over the flow between its endpoints.
    #[inline]
    pub fn request(
        &mut self,
        now: impl Fn() -> Nanos,
        flow: FlowId,
        message: &Message<'_>,
    ) -> SendResult {
        let Self { flows, peers, transmitter, schedule, .. } = self;
        let Some(flow) = flows.get_mut(flow) else { return closed_flow() };
        let cost = REQUEST_COST + message.payload.len() as u64;
        let connected = peers.connect(&now, flow.peer, transmitter, schedule);
        let (connection, mut sink) = match connected {
            Ok(connected) => connected,
            Err(refusal) => return SendResult::Refused(refusal),
        };
        if flow.lacks_credit(cost) {
            request_credit(now, flow, connection, &mut sink);
            return SendResult::Full;
        }
        debug_assert!(flow.carries(message), "another flow's message");
        let terms = SendTerms { ordered: flow.ordered, max_waiting: MAX_WAITING };
        let pushed = connection.push(now, message, terms, &mut sink);
        if pushed == SendResult::Sent {
            flow.spend(cost);
            debug_assert!(flow.outstanding() > 0, "the request is outstanding");
        }
        pushed
    }

    /// Sends a long request, or as much of it as there is room for; `progress` tells how much.
    /// Accepted once everything is packed.
    pub fn request_long(
        &mut self,
        now: impl Fn() -> Nanos,
        flow: FlowId,
        message: &Message<'_>,
        progress: &mut Progress,
    ) -> SendResult {
        let Self { flows, peers, transmitter, schedule, .. } = self;
        let Some(flow) = flows.get_mut(flow) else { return closed_flow() };
        debug_assert!(progress.done <= message.payload.len(), "no more is packed than there is");
        let begun = *progress != Progress::default();
        let no_credit = flow.lacks_credit(REQUEST_COST);
        let connected = peers.connect(&now, flow.peer, transmitter, schedule);
        let (connection, mut sink) = match connected {
            Ok(connected) => connected,
            // A message that was begun has been returned already.
            Err(refusal) => {
                return if begun { SendResult::Sent } else { SendResult::Refused(refusal) };
            }
        };
        debug_assert!(flow.carries(message), "another flow's message");
        let part = MessagePart::whole(message, None);
        if (no_credit && !begun) || !connection.has_long_room(&now, &part, progress, &mut sink) {
            return SendResult::Full;
        }
        if !begun {
            flow.spend(REQUEST_COST);
        }
        connection.send_long(now, (&part, flow.ordered), progress, &mut sink)
    }

    /// Sends a reply, or a request that is returned (`FrameKind::Returned`).
    #[inline]
    pub fn reply(&mut self, now: impl Fn() -> Nanos, peer: u32, reply: &Message<'_>) -> SendResult {
        self.push(now, peer, reply, SendTerms { ordered: false, max_waiting: 2 * MAX_WAITING })
    }

    /// Sends a reply even if there is no room: for messages whose number is bounded by the peer's
    /// own requests, and those of a closing endpoint. Nothing is sent to a lost peer.
    pub fn reply_anyway(&mut self, now: impl Fn() -> Nanos, peer: u32, reply: &Message<'_>) {
        let pushed = self.push(now, peer, reply, SendTerms::UNLIMITED);
        debug_assert!(pushed != SendResult::Full, "there is room without a limit");
    }

    /// Reports to the endpoint `to` the bytes of its requests that `from` has consumed in all, and
    /// the credit that it grants if more than usual, else 0.
    pub fn report(
        &mut self,
        now: impl Fn() -> Nanos,
        peer: u32,
        (from, to): (u64, u64),
        consumed: [u64; 2],
    ) {
        let Self { peers, transmitter, schedule, .. } = self;
        transmitter.stats.credits_sent += 1;
        // The name, which requests told, may be of no peer. A lost peer waits for nothing.
        let connected = peers.connect(&now, peer, transmitter, schedule);
        let Ok((connection, mut sink)) = connected else { return };
        let words = if consumed[1] == 0 { &consumed[..1] } else { &consumed };
        let report = Message::answer((FrameKind::Credit, 0), (from, to), (words, &[]));
        let _ = connection.push(&now, &report, SendTerms::UNLIMITED, &mut sink);
        // The sender of the requests may wait for nothing else.
        connection.kick(now(), true, &mut sink);
    }

    /// Returns true if something sent on a flow is not known to be consumed; its peer has then been
    /// asked to report.
    pub fn request_consumption_report(&mut self, now: impl Fn() -> Nanos, flow: FlowId) -> bool {
        let Some(flow) = self.flows.get_mut(flow).filter(|flow| flow.outstanding() != 0) else {
            return false;
        };
        let (peer, from, to) = (flow.peer, flow.from, flow.to);
        if let Some(total) = flow.poll_credit_request() {
            debug_assert!(total > 0, "it is asked about something");
            let words = &[total];
            let ask = Message::answer((FrameKind::Ask, 0), (from, to), (words, &[]));
            self.reply_anyway(now, peer, &ask);
        }
        true
    }

    /// Sends a message to an endpoint in the name of another, without regard to limits. For
    /// messages whose number is bounded by the endpoint's own.
    pub fn notify_endpoint(&mut self, now: impl Fn() -> Nanos, message: &Message<'_>) {
        let peer = self.deliveries.endpoints.stack_of(message.route.to);
        self.reply_anyway(now, peer, message);
    }

    /// Sends a message to a peer, in order with others that ask for order. Replies find room for
    /// longer.
    #[inline]
    pub fn relay(
        &mut self,
        now: impl Fn() -> Nanos,
        peer: u32,
        message: &Message<'_>,
        ordered: bool,
    ) -> SendResult {
        let max_waiting = if message.reply { 2 * MAX_WAITING } else { MAX_WAITING };
        let terms = SendTerms { ordered, max_waiting };
        if message.kind == FrameKind::Ask {
            let connection = self.peers.get(peer).and_then(Peer::open_connection);
            let mut words = [0; 2];
            let ask = with_wanted_credit(connection, message, &mut words);
            return self.push(now, peer, &ask, terms);
        }
        self.push(now, peer, message, terms)
    }

    /// Sends the next fragment of a long message, all of it or nothing. `fragment`: the message,
    /// with the bytes of the fragment as its payload; true if it is ordered. `place`: the bytes of
    /// the whole payload, and the offset of the fragment.
    pub fn relay_long(
        &mut self,
        now: impl Fn() -> Nanos,
        peer: u32,
        (fragment, ordered): (&Message<'_>, bool),
        (total, at): (usize, usize),
        progress: &mut Progress,
    ) -> SendResult {
        let Self { peers, transmitter, schedule, .. } = self;
        let begun = *progress != Progress::default();
        let connected = peers.connect(&now, peer, transmitter, schedule);
        let (connection, mut sink) = match connected {
            Ok(connected) => connected,
            // A message that was begun has been returned already.
            Err(refusal) => {
                return if begun { SendResult::Sent } else { SendResult::Refused(refusal) };
            }
        };
        let part = MessagePart { message: *fragment, order: None, total, at, number: None };
        connection.relay_long(now, (&part, ordered), progress, &mut sink)
    }

    /// Abandons a long message that was begun, since its sender is gone: the peer discards it, and
    /// waits for it no longer.
    pub fn abandon_long(&mut self, now: impl Fn() -> Nanos, peer: u32, progress: Progress) {
        let Self { peers, transmitter, schedule, .. } = self;
        // After a loss the begun message has been forgotten.
        match peers.connect(&now, peer, transmitter, schedule) {
            Ok((connection, mut sink)) => connection.abandon_long(now(), progress, &mut sink),
            Err(refusal) => debug_assert!(refusal != Reason::NoSuchEndpoint, "it was begun"),
        }
    }

    /// Sends a message to a peer, whose connection is opened on first use.
    #[inline]
    pub(super) fn push(
        &mut self,
        now: impl Fn() -> Nanos,
        peer: u32,
        message: &Message<'_>,
        terms: SendTerms,
    ) -> SendResult {
        let Self { peers, transmitter, schedule, .. } = self;
        match peers.connect(&now, peer, transmitter, schedule) {
            Ok((connection, mut sink)) => connection.push(now, message, terms, &mut sink),
            Err(refusal) => SendResult::Refused(refusal),
        }
    }

    /// Returns true if a message that found no room would find it now, or would be returned.
    pub fn would_take(&self, peer: u32, message: &Message<'_>, ordered: bool) -> bool {
        let Some(connection) = self.peers.get(peer).and_then(|peer| peer.open_connection()) else {
            return true;
        };
        let long = matches!(message.kind, FrameKind::Long | FrameKind::Part);
        let max_waiting = if message.reply && !long { 2 * MAX_WAITING } else { MAX_WAITING };
        connection.has_room(message, SendTerms { ordered, max_waiting })
    }

    /// Marks the data handed over up to now.
    pub fn mark(&self) -> Mark {
        let connected =
            self.peers.talking().filter_map(|(id, peer)| Some((id, peer.connection.as_ref()?)));
        let end = |connection: &Connection| (connection.queue().end(), connection.records_end());
        Mark(
            connected
                .map(|(id, connection)| {
                    let (packed, records) = end(connection);
                    (id, packed, records)
                })
                .collect(),
        )
    }

    /// Returns true if everything handed over at `mark` has arrived, or cannot.
    pub fn is_past(&self, mark: &mut Mark) -> bool {
        mark.0.retain(|&(id, end, records)| {
            let connection = self.peers.get(id).and_then(|peer| peer.open_connection());
            connection.is_some_and(|connection| {
                !connection.queue().sent.has_arrived_before(end)
                    || !connection.has_taken_before(records)
            })
        });
        mark.0.is_empty()
    }

    /// Returns the end of the data packed for a peer: for [`Stack::has_sent_before`].
    pub fn packed_before(&self, peer: u32) -> PackedEnd {
        self.queue_to(peer).map(TxQueue::end).unwrap_or_default()
    }

    /// Returns true if everything packed for a peer up to `end` has been sent, or will never be.
    pub fn has_sent_before(&self, peer: u32, end: PackedEnd) -> bool {
        self.queue_to(peer).is_none_or(|queue| queue.sent.has_sent_before(end))
    }

    fn queue_to(&self, peer: u32) -> Option<&TxQueue> {
        let connection = self.peers.get(peer)?.open_connection()?;
        Some(connection.queue())
    }
}

/// Returns the credit request of an endpoint that a stack relays for, with the credit that its path
/// to the peer needs, if any.
#[cold]
fn with_wanted_credit<'a>(
    connection: Option<&Connection>,
    ask: &Message<'a>,
    words: &'a mut [u64; 2],
) -> Message<'a> {
    debug_assert!(ask.kind == FrameKind::Ask, "other messages ask for nothing");
    let wanted = connection.map_or(0, wanted_credit);
    *words = [ask.words.first().copied().unwrap_or(0), wanted];
    Message { words: if wanted == 0 { ask.words } else { words }, ..*ask }
}

/// Returns the credit that endpoints need to fill the path of a connection: what it holds, as much
/// again while a report comes back, and both again, since reports come a quarter of it apart.
fn wanted_credit(connection: &Connection) -> u64 {
    4 * connection.channel().stats().on_path as u64
}

/// Requests a report of what the peer has consumed, and as much credit as the path holds bytes: the
/// outstanding bytes may be too few for the peer to report by itself.
#[cold]
fn request_credit(
    now: impl Fn() -> Nanos,
    flow: &mut Flow,
    connection: &mut Connection,
    sink: &mut PacketSink<'_>,
) {
    if let Some(total) = flow.poll_credit_request() {
        let wanted = wanted_credit(connection);
        let words = [total, wanted];
        let words = if wanted > flow.credit() { &words[..] } else { &words[..1] };
        let ask = Message::answer((FrameKind::Ask, 0), (flow.from, flow.to), (words, &[]));
        let _ = connection.push(now, &ask, SendTerms::UNLIMITED, sink);
    }
}

/// Returns the result for a flow that is not open: its endpoint was closed. A caller that waited
/// for room would wait for ever.
#[cold]
fn closed_flow() -> SendResult {
    clump_bug::bug!("requests go over open flows");
    SendResult::Refused(Reason::EndpointGone)
}
