//! A TCP stream that shares a queue with stations: acknowledgements of every segment, losses found
//! by three later arrivals, a window by [`Cubic`].

use super::cubic::Cubic;
use crate::kernel::{MILLISECOND, SharedSwitch, Time};
use std::collections::VecDeque;

/// RFC 9002, 6.1.1 and RFC 6675, 2: later arrivals after which a segment counts as lost.
const OVERTAKEN_BY: u64 = 3;
/// Least retransmission timeout, as Linux has it.
const MIN_TIMEOUT: Time = 200 * MILLISECOND;
/// Bytes of an acknowledgement with timestamps and selective acknowledgements.
const ACK_BYTES: usize = 60;
/// Bytes of TCP's header with timestamps.
const HEADER: usize = 32;
/// Segments that a receive window holds: 64 MiB.
const MAX_SEGMENTS: u64 = 46_000;

/// A segment in flight or lost.
#[derive(Debug, Clone, Copy)]
struct Segment {
    sent: Time,
    /// Position in the order of all transmissions.
    order: u64,
    lost: bool,
    arrived: bool,
}

/// Both ends of the stream, each at a socket of its own.
#[derive(Debug)]
pub(super) struct TcpStream {
    switch: SharedSwitch,
    sockets: [u32; 2],
    segment_bytes: usize,
    cubic: Cubic,
    /// Segments from `first` on that were sent.
    segments: VecDeque<Segment>,
    first: u64,
    order: u64,
    newest: u64,
    in_flight: u64,
    lost: u64,
    /// Losses of segments before this one belong to one congestion event.
    recovery: u64,
    round_trip: Time,
    quiet_since: Time,
    /// Segments that have arrived, from `expected` on.
    arrived: VecDeque<bool>,
    expected: u64,
}

impl TcpStream {
    /// Creates a stream from one socket to another in segments that fill datagrams of so many
    /// bytes.
    pub(super) fn new(switch: &SharedSwitch, sockets: [u32; 2], datagram: usize) -> Self {
        for socket in sockets {
            switch.lock().attach(socket, true);
        }
        Self {
            switch: switch.clone(),
            sockets,
            segment_bytes: datagram,
            cubic: Cubic::new(),
            segments: VecDeque::new(),
            first: 0,
            order: 0,
            newest: 0,
            in_flight: 0,
            lost: 0,
            recovery: 0,
            round_trip: 0,
            quiet_since: 0,
            arrived: VecDeque::new(),
            expected: 0,
        }
    }

    /// Returns the bytes of payload that have arrived in order.
    pub(super) fn bytes(&self) -> u64 {
        self.expected * (self.segment_bytes - HEADER) as u64
    }

    /// Does what there is to do at a socket. Returns the time of the next turn.
    pub(super) fn act(&mut self, now: Time, socket: u32) -> Time {
        if socket == self.sockets[1] {
            self.acknowledge();
            return Time::MAX;
        }
        let words = |datagram: &[u8]| {
            let word = |at: usize| datagram.get(at..at + 8)?.try_into().ok();
            Some((u64::from_le_bytes(word(0)?), u64::from_le_bytes(word(8)?)))
        };
        let mut acked = 0;
        let switch = self.switch.clone();
        while let Some(datagram) = { switch.lock().receive_plain(socket) } {
            let Some((expected, segment)) = words(&datagram) else { continue };
            acked += self.on_ack(now, expected, segment);
        }
        if acked > 0 {
            self.quiet_since = now;
            if self.lost == 0 && self.first >= self.recovery {
                self.cubic.on_acked(now, acked, self.round_trip);
            }
        }
        self.find_lost();
        if now >= self.timeout() {
            self.segments.iter_mut().for_each(|segment| segment.lost |= !segment.arrived);
            self.lost = self.segments.iter().filter(|segment| segment.lost).count() as u64;
            (self.in_flight, self.recovery) = (0, self.first + self.segments.len() as u64);
            self.quiet_since = now;
            self.cubic.on_timeout();
        }
        let blocked = self.send(now);
        let retry = if blocked { now + MILLISECOND / 20 } else { Time::MAX };
        self.timeout().min(retry)
    }

    fn timeout(&self) -> Time {
        self.quiet_since + MIN_TIMEOUT.max(2 * self.round_trip)
    }

    fn acknowledge(&mut self) {
        let [sender, socket] = self.sockets;
        let mut switch = self.switch.lock();
        while let Some(datagram) = switch.receive_plain(socket) {
            let Some(word) = datagram.get(..8).and_then(|word| word.try_into().ok()) else {
                continue;
            };
            let segment = u64::from_le_bytes(word);
            if let Some(at) = segment.checked_sub(self.expected) {
                let room = self.arrived.len().max(at as usize + 1);
                self.arrived.resize(room, false);
                self.arrived[at as usize] = true;
            }
            while self.arrived.front() == Some(&true) {
                self.arrived.pop_front();
                self.expected += 1;
            }
            let mut ack = vec![0; ACK_BYTES];
            ack[..8].copy_from_slice(&self.expected.to_le_bytes());
            ack[8..16].copy_from_slice(&segment.to_le_bytes());
            switch.send_plain(socket, sender, ack);
        }
    }

    /// Handles an acknowledgement of all segments before `expected`, and of `segment`. Returns the
    /// number that it acknowledges.
    fn on_ack(&mut self, now: Time, expected: u64, segment: u64) -> u64 {
        let mut acked = self.note_arrived(now, segment);
        while self.first < expected && !self.segments.is_empty() {
            acked += self.note_arrived(now, self.first);
            self.segments.pop_front();
            self.first += 1;
        }
        acked
    }

    fn note_arrived(&mut self, now: Time, segment: u64) -> u64 {
        let at = segment.checked_sub(self.first);
        let found = at.and_then(|at| self.segments.get_mut(at as usize));
        let Some(found) = found.filter(|segment| !segment.arrived) else { return 0 };
        found.arrived = true;
        self.newest = self.newest.max(found.order);
        let sample = now - found.sent;
        // RFC 6298, 2.
        self.round_trip =
            if self.round_trip == 0 { sample } else { (7 * self.round_trip + sample) / 8 };
        let count = if found.lost { &mut self.lost } else { &mut self.in_flight };
        *count -= 1;
        found.lost = false;
        1
    }

    fn find_lost(&mut self) {
        let Self { segments, newest, first, recovery, .. } = self;
        let mut begins = false;
        let end = *first + segments.len() as u64;
        for (at, segment) in segments.iter_mut().enumerate() {
            if segment.arrived || segment.lost {
                continue;
            }
            if segment.order + OVERTAKEN_BY > *newest {
                // Those sent later were sent in this order, but for repeated ones.
                if *first + at as u64 >= *recovery {
                    break;
                }
                continue;
            }
            segment.lost = true;
            self.lost += 1;
            self.in_flight -= 1;
            begins |= *first + at as u64 >= *recovery;
        }
        if begins {
            *recovery = end;
            self.cubic.on_lost();
        }
    }

    /// Sends what the window allows. Returns true if the card took no more.
    fn send(&mut self, now: Time) -> bool {
        let [socket, to] = self.sockets;
        let mut from = 0;
        while self.in_flight < self.cubic.segments() {
            let repeated = if self.lost == 0 {
                None
            } else {
                (from..self.segments.len()).find(|at| self.segments[*at].lost)
            };
            if repeated.is_none() && self.segments.len() as u64 >= MAX_SEGMENTS {
                return false;
            }
            let at = repeated.unwrap_or(self.segments.len());
            let mut datagram = vec![0; self.segment_bytes];
            datagram[..8].copy_from_slice(&(self.first + at as u64).to_le_bytes());
            if !self.switch.lock().send_plain(socket, to, datagram) {
                return true;
            }
            self.order += 1;
            let segment = Segment { sent: now, order: self.order, lost: false, arrived: false };
            match self.segments.get_mut(at) {
                Some(place) => {
                    *place = segment;
                    self.lost -= 1;
                    from = at + 1;
                }
                None => self.segments.push_back(segment),
            }
            self.in_flight += 1;
        }
        false
    }
}
