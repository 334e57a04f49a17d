//! The sending end of the streams to one peer: one at a time, asked for when there is bulk.
//!
//! ```text
//!          bulk                  offered              hello written
//! Off ------------> Wanted ------------------> Dialing ------------> Open
//!  ^  refused, late   |      refused, late       |                    |  cut, stuck
//!  +------------------+--------------------------+                    v
//!  +---------------- ended: what was not taken goes on by datagrams - GivenUp
//! ```

use crate::message_part::{MessagePart, OwnedPart};
use crate::seal::RecordCipher;
use crate::stream_notice::StreamNotice;
use crate::tx_queue::LongMessage;
use crate::unacked_records::UnackedRecords;
use clump_driver::{ByteStream, StreamTransfer};
use clump_proto::Nanos;
use clump_wire::OwnedMessage;
use clump_wire::record::HELLO_BYTES;
use std::io::IoSlice;

/// Time after which a stream that was asked for, or begun, will not come.
const OPEN_NS: Nanos = 2_000_000_000;
/// Time without any progress after which an open stream is given up.
const STUCK_NS: Nanos = 2_000_000_000;
/// Time until the next attempt after a failure, at first; each time twice as long.
const AGAIN_NS: Nanos = 1_000_000_000;
const MAX_DOUBLINGS: u32 = 6;
/// Time until the next attempt to write what found no room in the socket.
const WRITE_AGAIN_NS: Nanos = 100_000;

#[derive(Debug)]
enum State {
    Off,
    Wanted { since: Nanos },
    Dialing { since: Nanos, open: OpenStream, hello: [u8; HELLO_BYTES], written: usize },
    Open { open: OpenStream, progress_at: Nanos },
    GivenUp { cipher: RecordCipher },
}

#[derive(Debug)]
struct OpenStream {
    stream: Box<dyn ByteStream>,
    cipher: RecordCipher,
}

/// The sending end of the streams to one peer.
#[derive(Debug)]
pub(crate) struct BulkSender {
    state: State,
    /// Number of the latest stream that was asked for.
    stream: u32,
    records: UnackedRecords,
    failures: u32,
    retry_at: Nanos,
}

impl BulkSender {
    pub(crate) fn new() -> Self {
        let records = UnackedRecords::default();
        debug_assert!(records.is_empty() && !records.has_unwritten(), "nothing was sent");
        Self { state: State::Off, stream: 0, records, failures: 0, retry_at: 0 }
    }

    /// Returns true if records can be sent.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    /// Returns the records that are kept.
    #[inline]
    pub(crate) fn records(&self) -> &UnackedRecords {
        &self.records
    }

    /// Gives back buffers that no record needs.
    pub(crate) fn release_spare(&mut self) {
        self.records.release_spare();
    }

    /// Notes that there is bulk to send; returns the request for a stream, if one is due.
    pub(crate) fn want(&mut self, now: Nanos) -> Option<StreamNotice> {
        if !matches!(self.state, State::Off) || now < self.retry_at {
            return None;
        }
        debug_assert!(self.records.is_empty(), "without a stream there are no records");
        debug_assert!(self.records.count() == 0, "and none is counted");
        self.stream = self.stream.checked_add(1)?;
        self.state = State::Wanted { since: now };
        Some(StreamNotice::Wanted { stream: self.stream })
    }

    /// Returns true if the peer's offer of this stream is waited for.
    pub(crate) fn awaits(&self, stream: u32) -> bool {
        stream == self.stream && matches!(self.state, State::Wanted { .. })
    }

    /// Begins a stream that the peer has offered; `None`: it cannot be made.
    pub(crate) fn on_offered(
        &mut self,
        now: Nanos,
        made: Option<(Box<dyn ByteStream>, RecordCipher, [u8; HELLO_BYTES])>,
    ) -> Option<StreamNotice> {
        debug_assert!(matches!(self.state, State::Wanted { .. }), "it was asked for");
        let Some((stream, cipher, hello)) = made else { return self.fail(now) };
        let open = OpenStream { stream, cipher };
        self.state = State::Dialing { since: now, open, hello, written: 0 };
        self.write(now)
    }

    /// Adds a part of a message, and writes what there is room for. On a stream that was given up
    /// it waits with the others.
    pub(crate) fn append(&mut self, now: Nanos, part: &MessagePart<'_>) -> Option<StreamNotice> {
        match &mut self.state {
            State::Open { open, progress_at } => {
                if self.records.is_empty() {
                    *progress_at = now;
                }
                self.records.append(&open.cipher, part);
                self.write(now)
            }
            State::GivenUp { cipher } => {
                self.records.append(cipher, part);
                None
            }
            _ => {
                clump_bug::bug!("records are for a stream that was open");
                None
            }
        }
    }

    /// Writes what there is room for; returns what is to be sent to the peer.
    pub(crate) fn write(&mut self, now: Nanos) -> Option<StreamNotice> {
        if let State::Dialing { open, hello, written, .. } = &mut self.state {
            let rest = hello.get(*written..).unwrap_or_default();
            match open.stream.write(&[IoSlice::new(rest)]) {
                StreamTransfer::Bytes(bytes) => *written += bytes,
                StreamTransfer::Blocked => return None,
                StreamTransfer::Ended => return self.fail(now),
            }
            if *written < HELLO_BYTES {
                return None;
            }
            let dialing = std::mem::replace(&mut self.state, State::Off);
            if let State::Dialing { open, .. } = dialing {
                self.state = State::Open { open, progress_at: now };
            }
            debug_assert!(self.is_open(), "records can be sent");
        }
        let State::Open { open, progress_at } = &mut self.state else { return None };
        while self.records.has_unwritten() {
            let parts: Vec<IoSlice<'_>> = self.records.unwritten().collect();
            match open.stream.write(&parts) {
                StreamTransfer::Bytes(bytes) => {
                    self.records.on_written(bytes);
                    *progress_at = now;
                }
                StreamTransfer::Blocked => break,
                StreamTransfer::Ended => return self.give_up(),
            }
        }
        None
    }

    /// Notes what the peer has taken.
    pub(crate) fn on_taken(&mut self, now: Nanos, stream: u32, count: u64) {
        if stream != self.stream {
            return;
        }
        let before = self.records.bytes();
        self.records.on_taken(count);
        if let State::Open { progress_at, .. } = &mut self.state
            && self.records.bytes() < before
        {
            (*progress_at, self.failures) = (now, 0);
        }
        debug_assert!(self.records.bytes() <= before, "the rest is kept");
    }

    /// Notes that a stream is over. Returns what was not taken of it, and the messages that have
    /// begun: they go on by datagrams. `None`: an earlier stream.
    pub(crate) fn on_ended(
        &mut self,
        now: Nanos,
        stream: u32,
        count: u64,
    ) -> Option<(Vec<OwnedPart>, Vec<LongMessage>)> {
        if stream != self.stream || matches!(self.state, State::Off) {
            return None;
        }
        self.on_taken(now, stream, count);
        let state = std::mem::replace(&mut self.state, State::Off);
        let rest = self.records.take_all(cipher_of(&state));
        self.delay(now);
        debug_assert!(self.records.is_empty(), "nothing is left here");
        Some(rest)
    }

    /// Does what is due; returns what is to be sent to the peer.
    pub(crate) fn handle_timeout(&mut self, now: Nanos) -> Option<StreamNotice> {
        let late = |since: Nanos| now.saturating_sub(since) >= OPEN_NS;
        match self.state {
            State::Wanted { since } if late(since) => self.fail(now),
            State::Dialing { since, .. } if late(since) => self.fail(now),
            State::Dialing { .. } => self.write(now),
            State::Open { progress_at, .. } => {
                let stuck = now.saturating_sub(progress_at) >= STUCK_NS;
                if stuck && !self.records.is_empty() { self.give_up() } else { self.write(now) }
            }
            _ => None,
        }
    }

    /// Returns the time at which [`BulkSender::handle_timeout`] is to be called.
    pub(crate) fn next_timeout(&self, now: Nanos) -> Option<Nanos> {
        match self.state {
            State::Off | State::GivenUp { .. } => None,
            State::Wanted { since } => Some(since + OPEN_NS),
            State::Dialing { .. } => Some(now + WRITE_AGAIN_NS * 10),
            State::Open { .. } if self.records.has_unwritten() => Some(now + WRITE_AGAIN_NS),
            State::Open { progress_at, .. } => {
                (!self.records.is_empty()).then_some(progress_at + STUCK_NS)
            }
        }
    }

    /// Takes the messages that were not taken, after the peer is lost.
    pub(crate) fn take_undelivered(&mut self) -> Vec<OwnedMessage> {
        let state = std::mem::replace(&mut self.state, State::Off);
        let unsent = self.records.take_undelivered(cipher_of(&state));
        self.retry_at = Nanos::MAX;
        debug_assert!(self.records.is_empty(), "nothing is sent to a lost peer");
        unsent
    }

    /// Ends a stream on which nothing was sent.
    fn fail(&mut self, now: Nanos) -> Option<StreamNotice> {
        debug_assert!(self.records.is_empty(), "records are for an open stream");
        self.state = State::Off;
        self.delay(now);
        debug_assert!(self.retry_at > now, "not at once");
        Some(StreamNotice::GivenUp { stream: self.stream })
    }

    /// Ends an open stream: the peer has to tell what it has taken of it.
    fn give_up(&mut self) -> Option<StreamNotice> {
        let state = std::mem::replace(&mut self.state, State::Off);
        let State::Open { open, .. } = state else {
            clump_bug::bug!("only an open stream is given up");
            return None;
        };
        debug_assert!(self.stream > 0, "it was asked for");
        self.state = State::GivenUp { cipher: open.cipher };
        Some(StreamNotice::GivenUp { stream: self.stream })
    }

    fn delay(&mut self, now: Nanos) {
        let pause = AGAIN_NS << self.failures.min(MAX_DOUBLINGS);
        self.retry_at = now.saturating_add(pause);
        self.failures = self.failures.saturating_add(1);
        debug_assert!(self.retry_at > now, "not at once");
    }
}

fn cipher_of(state: &State) -> Option<&RecordCipher> {
    match state {
        State::Dialing { open, .. } | State::Open { open, .. } => Some(&open.cipher),
        State::GivenUp { cipher } => Some(cipher),
        State::Off | State::Wanted { .. } => None,
    }
}
