//! The receiving end of the streams from one peer: a listener while one is awaited, then a stream.

use super::record_reader::{ReadEnd, RecordReader};
use super::rx::Rx;
use crate::deliveries::Delivery;
use crate::seal::RecordCipher;
use crate::stream_notice::StreamNotice;
use clump_driver::{ByteStream, StreamListener, StreamTransfer};
use clump_proto::Nanos;
use clump_wire::record::HELLO_BYTES;
use std::collections::VecDeque;
use std::io::IoSliceMut;

/// Time for which a stream is listened for.
const LISTEN_NS: Nanos = 3_000_000_000;
/// Interval at which a listener is looked at.
const LISTEN_AGAIN_NS: Nanos = 2_000_000;
/// Callers that have not shown their hello yet, at one time; the oldest gives way.
const MAX_CALLERS: usize = 4;
/// Bytes that one poll reads of a stream: small messages wait for no more.
const READ_BYTES: usize = 256 << 10;
/// Bytes after which a report of what was taken is sent, however much more is there.
const REPORT_BYTES: usize = 256 << 10;
/// Polls without anything after which only some polls look at the stream.
const IDLE_POLLS: u32 = 64;
/// One in so many polls looks at an idle stream.
const IDLE_STEP: u32 = 16;

#[derive(Debug)]
enum State {
    Closed,
    Listening {
        listener: Box<dyn StreamListener>,
        callers: VecDeque<Caller>,
        hello: [u8; HELLO_BYTES],
        cipher: RecordCipher,
        until: Nanos,
    },
    Open {
        stream: Box<dyn ByteStream>,
        cipher: RecordCipher,
        reader: Box<RecordReader>,
        unreported: usize,
    },
}

/// A connection whose hello has not come as a whole.
#[derive(Debug)]
struct Caller {
    stream: Box<dyn ByteStream>,
    hello: [u8; HELLO_BYTES],
    got: usize,
}

/// The receiving end of the streams from one peer.
#[derive(Debug)]
pub(super) struct BulkReceiver {
    state: State,
    /// Number of the latest stream.
    stream: u32,
    /// Records of it that were taken, as was reported, or when it ended.
    reported: u64,
    idle: u32,
}

impl BulkReceiver {
    pub(super) fn new() -> Self {
        Self { state: State::Closed, stream: 0, reported: 0, idle: 0 }
    }

    /// Returns true if a stream is open or awaited.
    pub(super) fn is_active(&self) -> bool {
        !matches!(self.state, State::Closed)
    }

    /// Returns true if a stream of this number is a new one.
    pub(super) fn is_new(&self, stream: u32) -> bool {
        stream > self.stream
    }

    /// Notes that a stream is wanted, and listened for where `listener` is one.
    pub(super) fn on_wanted(
        &mut self,
        now: Nanos,
        stream: u32,
        listener: Option<(Box<dyn StreamListener>, RecordCipher, [u8; HELLO_BYTES])>,
    ) {
        debug_assert!(self.is_new(stream), "streams are numbered");
        (self.stream, self.reported, self.idle) = (stream, 0, 0);
        debug_assert!(stream > 0, "numbers begin with 1");
        self.state = match listener {
            None => State::Closed,
            Some((listener, cipher, hello)) => {
                let (callers, until) = (VecDeque::new(), now + LISTEN_NS);
                State::Listening { listener, callers, hello, cipher, until }
            }
        };
    }

    /// Ends a stream that its sender has given up; returns the answer.
    pub(super) fn on_given_up(&mut self, stream: u32) -> Option<StreamNotice> {
        if self.is_new(stream) {
            // It has overtaken the request.
            self.on_wanted(0, stream, None);
        }
        (stream == self.stream).then(|| self.end())
    }

    /// Returns the number of the latest stream, and of its records that were taken.
    pub(super) fn taken(&self) -> (u32, u64) {
        let taken = match &self.state {
            State::Open { reader, .. } => reader.taken(),
            _ => self.reported,
        };
        debug_assert!(taken >= self.reported, "no more is reported than was taken");
        (self.stream, taken)
    }

    /// Returns true if the peer does not know yet what was taken.
    pub(super) fn owes_report(&self) -> bool {
        self.taken().1 > self.reported
    }

    /// Returns the bytes kept.
    pub(super) fn bytes(&self) -> usize {
        match &self.state {
            State::Open { reader, .. } => reader.bytes(),
            _ => 0,
        }
    }

    fn end(&mut self) -> StreamNotice {
        let (stream, count) = self.taken();
        self.reported = count;
        self.state = State::Closed;
        debug_assert!(!self.owes_report(), "the end reports all of it");
        StreamNotice::Ended { stream, count }
    }

    /// Returns the time at which the stream is to be polled at the latest.
    pub(super) fn next_timeout(&self, now: Nanos) -> Option<Nanos> {
        debug_assert!(self.stream > 0 || !self.is_active(), "what is active has a number");
        matches!(self.state, State::Listening { .. }).then_some(now + LISTEN_AGAIN_NS)
    }

    /// Takes what has come; returns what is to be sent to the peer. `all`: an idle stream is looked
    /// at too.
    pub(super) fn poll(
        &mut self,
        (now, all): (Nanos, bool),
        rx: &mut Rx,
        delivery: &mut Delivery<'_>,
    ) -> Option<StreamNotice> {
        if matches!(self.state, State::Listening { .. }) && !self.accept(now) {
            return Some(self.end());
        }
        let State::Open { stream, cipher, reader, unreported } = &mut self.state else {
            return None;
        };
        if !all && self.idle > IDLE_POLLS && !self.idle.is_multiple_of(IDLE_STEP) {
            self.idle = self.idle.wrapping_add(1).max(IDLE_POLLS);
            return None;
        }
        let before = delivery.stats.bytes_received;
        let end = reader.read(&mut **stream, cipher, (rx, READ_BYTES), delivery);
        let bytes = delivery.stats.bytes_received - before;
        debug_assert!(end != ReadEnd::More || bytes > 0, "more comes after something");
        self.idle = if bytes == 0 { self.idle.saturating_add(1) } else { 0 };
        *unreported += bytes as usize;
        match end {
            ReadEnd::Broken => {
                delivery.stats.streams_broken += 1;
                Some(self.end())
            }
            ReadEnd::More if *unreported < REPORT_BYTES => None,
            // What is there is taken: the peer may wait for nothing else.
            ReadEnd::More | ReadEnd::Drained => {
                *unreported = 0;
                self.report()
            }
        }
    }

    /// Returns a report of what was taken, if the peer does not know.
    pub(super) fn report(&mut self) -> Option<StreamNotice> {
        let (stream, count) = self.taken();
        debug_assert!(count >= self.reported, "what was taken stays so");
        let owes = std::mem::replace(&mut self.reported, count) < count;
        owes.then_some(StreamNotice::Taken { stream, count })
    }

    /// Looks at callers; returns false if the time is over.
    fn accept(&mut self, now: Nanos) -> bool {
        let State::Listening { listener, callers, hello, until, .. } = &mut self.state else {
            clump_bug::bug!("callers come to a listener");
            return false;
        };
        while callers.len() < 2 * MAX_CALLERS
            && let Some(stream) = listener.accept()
        {
            callers.push_back(Caller { stream, hello: [0; HELLO_BYTES], got: 0 });
        }
        let mut found = None;
        callers.retain_mut(|caller| {
            let rest = caller.hello.get_mut(caller.got..).unwrap_or_default();
            match caller.stream.read(&mut [IoSliceMut::new(rest)]) {
                StreamTransfer::Bytes(bytes) => caller.got += bytes,
                StreamTransfer::Blocked => return true,
                StreamTransfer::Ended => return false,
            }
            let whole = caller.got == HELLO_BYTES;
            // Both are used once: their comparison tells a stranger nothing of use.
            if whole && found.is_none() && caller.hello == *hello {
                found = Some(());
                return true;
            }
            !whole
        });
        if found.is_none() {
            // The oldest have had their time: a hello comes with its connection.
            callers.drain(..callers.len().saturating_sub(MAX_CALLERS));
            debug_assert!(callers.len() <= MAX_CALLERS, "memory is bounded");
            return now < *until;
        }
        let state = std::mem::replace(&mut self.state, State::Closed);
        if let State::Listening { callers, cipher, hello, .. } = state {
            let caller = callers.into_iter().find(|caller| caller.hello == hello);
            if let Some(Caller { stream, .. }) = caller {
                let reader = Box::new(RecordReader::new());
                self.state = State::Open { stream, cipher, reader, unreported: 0 };
            }
        }
        self.is_active()
    }
}
