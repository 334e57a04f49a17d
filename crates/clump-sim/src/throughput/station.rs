//! A station of a bench: a stack that sends, receives, or answers.

use crate::kernel::{SharedSwitch, SimDriver, Time};
use crate::messages::{SimOutlet, config_of, name_of, offset_of};
use clump_net::seal::JobKey;
use clump_net::{Batch, EndpointTable, FlowId, Progress, Stack};
use clump_os::sync::{AtomicU64, Ordering};
use clump_transport::{Arrival, Requesters};
use clump_wire::frame::{FrameKind, Route, stack_of};
use clump_wire::{Message, Reason, SendResult};
use std::sync::Arc;

/// Cost of a rank's turn.
pub(super) const TURN: Time = 500;
/// Cost of each packet received and each message sent, beyond that.
const PER_PACKET: Time = 100;
/// Payload of medium messages of a stream, in bytes.
const MEDIUM: usize = 8 << 10;
/// Payload of long messages of a stream, in bytes.
const LONG: usize = 1 << 20;
/// Maximum number of messages that a sender hands over in one turn.
const MAX_AT_ONCE: usize = 16;

/// Task of a station.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Consumes what arrives.
    Sink,
    /// Sends messages of this kind, as many as it may.
    Stream(FrameKind),
    /// Sends, waits for the reply, sends again.
    Ping,
    /// Streams long messages, and sends short ones as [`Role::Ping`] does beside them.
    PingBesideLong,
    /// Consumes what arrives, and replies to short messages.
    Echo,
}

/// Bytes of payload that arrived at a station, by their source.
#[derive(Debug)]
pub(super) struct Arrived(Vec<AtomicU64>);

impl Arrived {
    fn add(&self, from: u32, bytes: usize) {
        if let Some(count) = self.0.get(from as usize) {
            count.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    /// Returns the counts.
    pub(super) fn counts(&self) -> Vec<u64> {
        self.0.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

/// Endpoint table that admits everything and counts what is deposited.
#[derive(Debug)]
struct CountingEndpoints(Arc<Arrived>);

impl EndpointTable for CountingEndpoints {
    fn admit(&self, _to: u64, _tag: Option<u64>) -> Result<u8, Reason> {
        Ok(0)
    }

    fn fits(&self, _to: u64, _offset: u64, _bytes: u64) -> Result<(), Reason> {
        Ok(())
    }

    fn deposit(&self, _to: u64, offset: u64, data: &[u8]) -> Result<(), Reason> {
        self.0.add((offset / offset_of(1)) as u32, data.len());
        Ok(())
    }
}

/// A stack and its task.
#[derive(Debug)]
pub(super) struct BenchRank {
    pub(super) stack: Stack,
    pub(super) role: Role,
    pub(super) to: u32,
    pub(super) arrived: Arc<Arrived>,
    me: u32,
    credit: u64,
    flow: Option<FlowId>,
    /// Flow of short messages beside a stream.
    ping_flow: Option<FlowId>,
    requesters: Requesters,
    /// Progress of the long message that is being sent.
    progress: Progress,
    payload: Vec<u8>,
    sent_at: Option<Time>,
    round_trips: Vec<u64>,
}

impl BenchRank {
    /// Creates a station that consumes what arrives.
    pub(super) fn new(
        switch: &SharedSwitch,
        (me, ranks): (u32, u32),
        channel: &clump_proto::Config,
    ) -> anyhow::Result<Self> {
        let key = JobKey::new(&mut [7; 32])?;
        let driver = Box::new(SimDriver::new(switch, me));
        switch.lock().attach(me, true);
        let credit = clump_transport::credit_of(ranks as usize);
        let config = config_of((me, 1), ranks, clump_wire::Security::Crc, credit, channel);
        let arrived = Arc::new(Arrived((0..ranks).map(|_| AtomicU64::new(0)).collect()));
        let endpoints = Box::new(CountingEndpoints(arrived.clone()));
        Ok(Self {
            stack: Stack::new(config, &key, driver, endpoints)?,
            role: Role::Sink,
            to: u32::from(me == 0),
            arrived,
            me,
            credit,
            flow: None,
            ping_flow: None,
            requesters: Requesters::new(name_of(me, 1, 0), clump_transport::pool_of(1)),
            progress: Progress::default(),
            payload: vec![5; LONG],
            sent_at: None,
            round_trips: Vec::new(),
        })
    }

    /// Does what there is to do; returns the time of the next turn.
    pub(super) fn act(&mut self, now: Time, batch: &mut Batch) -> Time {
        self.stack.note_watched(now); // it acts when a datagram arrives
        let received = self.stack.receive(|| now, Some(0), batch);
        let mut words = clump_net::Words::default();
        for number in 0..batch.len() {
            let Some(arrival) = batch.arrival(number, &mut words) else { break };
            self.on_arrival(now, &arrival);
        }
        self.stack.service(now, !batch.is_empty());
        let sent = self.send(now);
        if received + sent > 0 {
            return now + TURN + PER_PACKET * (received + sent) as Time;
        }
        self.stack.service(now, true);
        self.stack.acknowledge_all(now);
        self.stack.next_timeout().unwrap_or(Time::MAX).max(now + TURN)
    }

    fn on_arrival(&mut self, now: Time, arrival: &Message<'_>) {
        let Self { stack, requesters, credit, arrived, .. } = self;
        let mut outlet = SimOutlet { stack, now, credit: *credit };
        match requesters.admit(&mut outlet, arrival, false) {
            Arrival::Request(requester) => {
                if self.role == Role::Echo && arrival.kind == FrameKind::Short {
                    let head = (FrameKind::Short, 1);
                    let _ = requester.send(&mut outlet, head, &[1], &[]);
                }
                let bytes = arrival.payload.len();
                if arrival.kind == FrameKind::Medium {
                    arrived.add(stack_of(arrival.route.from), bytes);
                }
                requester.note_consumed(&mut outlet, bytes);
            }
            Arrival::Answer if matches!(self.role, Role::Ping | Role::PingBesideLong) => {
                self.round_trips.extend(self.sent_at.take().map(|sent| now - sent));
            }
            _ => {}
        }
    }

    fn send(&mut self, now: Time) -> usize {
        let kind = match self.role {
            Role::Stream(kind) => kind,
            Role::Ping if self.sent_at.is_none() => FrameKind::Short,
            Role::PingBesideLong => {
                return self.send_ping(now) + self.send_stream(now, FrameKind::Long);
            }
            _ => return 0,
        };
        self.send_stream(now, kind)
    }

    /// Sends a short message on a flow of its own, unless one is under way.
    fn send_ping(&mut self, now: Time) -> usize {
        if self.sent_at.is_some() {
            return 0;
        }
        let (from, to) = (name_of(self.me, 1, 0), name_of(self.to, 1, 0));
        let Self { stack, ping_flow, .. } = self;
        let flow = *ping_flow.get_or_insert_with(|| stack.open_flow(from, to, self.to, false));
        let route = Route { from, to, tag: 0 };
        let request = Message::request((FrameKind::Short, 1), route, (&[7], &[]));
        let sent = stack.request(|| now, flow, &request) == SendResult::Sent;
        self.sent_at = sent.then_some(now);
        usize::from(sent)
    }

    /// Sends messages of a kind, as many as go at once.
    fn send_stream(&mut self, now: Time, kind: FrameKind) -> usize {
        let (from, to) = (name_of(self.me, 1, 0), name_of(self.to, 1, 0));
        let Self { stack, flow, progress, payload, .. } = self;
        let flow = *flow.get_or_insert_with(|| stack.open_flow(from, to, self.to, false));
        let place = [offset_of(u64::from(self.me)), LONG as u64, 7];
        let (words, bytes) = match kind {
            FrameKind::Long => (&place[..], LONG),
            FrameKind::Medium => (&place[2..], MEDIUM),
            _ => (&place[2..], 0),
        };
        let route = Route { from, to, tag: 0 };
        let request = Message::request((kind, 1), route, (words, &payload[..bytes]));
        let most = if self.role == Role::Ping { 1 } else { MAX_AT_ONCE };
        let mut sent = 0;
        while sent < most {
            let result = match kind {
                FrameKind::Long => stack.request_long(|| now, flow, &request, progress),
                _ => stack.request(|| now, flow, &request),
            };
            if result != SendResult::Sent {
                break;
            }
            *progress = Progress::default();
            sent += 1;
        }
        if self.role == Role::Ping && sent > 0 {
            self.sent_at = Some(now);
        }
        sent
    }

    /// Returns the 50th, 99th and 99.9th percentile of its round trips.
    pub(super) fn percentiles(&mut self) -> [u64; 3] {
        self.round_trips.sort_unstable();
        let count = self.round_trips.len();
        [count / 2, count * 99 / 100, count * 999 / 1000]
            .map(|at| self.round_trips.get(at).copied().unwrap_or_default())
    }
}
