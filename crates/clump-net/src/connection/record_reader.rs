//! Records as they come out of a stream: heads first, then payloads straight to where they belong.

use super::rx::{RecordTarget, Rx};
use crate::deliveries::Delivery;
use crate::seal::RecordCipher;
use clump_driver::{ByteStream, StreamTransfer};
use clump_wire::frame::{FrameHead, Frames, MAX_WORDS};
use clump_wire::record::{RECORD_FRAME_AT, RECORD_HEAD_BYTES, RECORD_TAG_BYTES, RecordHead};
use std::io::IoSliceMut;

/// Result of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadEnd {
    /// Nothing more is there now.
    Drained,
    /// There may be more; others have their turn.
    More,
    /// The stream has ended, or what came is not its sender's.
    Broken,
}

/// A record whose payload is on its way.
#[derive(Debug)]
struct Incoming {
    bound: [u8; RECORD_FRAME_AT],
    number: u64,
    head: FrameHead,
    words: Vec<u64>,
    bytes: usize,
    got: usize,
    target: RecordTarget,
}

/// Reads the records of one stream.
#[derive(Debug)]
pub(super) struct RecordReader {
    /// The head that comes next, and how much of it is there.
    head: [u8; RECORD_HEAD_BYTES],
    head_bytes: usize,
    tag: [u8; RECORD_TAG_BYTES],
    tag_bytes: usize,
    incoming: Option<Incoming>,
    /// Records taken so far: the number of the next.
    taken: u64,
}

impl RecordReader {
    pub(super) fn new() -> Self {
        Self {
            head: [0; RECORD_HEAD_BYTES],
            head_bytes: 0,
            tag: [0; RECORD_TAG_BYTES],
            tag_bytes: 0,
            incoming: None,
            taken: 0,
        }
    }

    /// Returns the number of records that were taken.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// Returns the bytes of a payload that is on its way.
    pub(super) fn bytes(&self) -> usize {
        let incoming = self.incoming.as_ref();
        incoming.map_or(0, |incoming| match &incoming.target {
            RecordTarget::Buffer(buffer) => buffer.len(),
            RecordTarget::Segment { .. } => 0,
        })
    }

    /// Reads what is there, up to about `most` bytes, and hands over the messages of it.
    pub(super) fn read(
        &mut self,
        stream: &mut dyn ByteStream,
        cipher: &RecordCipher,
        (rx, most): (&mut Rx, usize),
        delivery: &mut Delivery<'_>,
    ) -> ReadEnd {
        let mut read = 0;
        debug_assert!(most > 0, "something is to be read");
        while read < most {
            if self.head_bytes == RECORD_HEAD_BYTES && self.incoming.is_none() {
                match self.open_head(cipher, rx, delivery) {
                    Some(incoming) => self.incoming = Some(incoming),
                    None => return ReadEnd::Broken,
                }
            }
            match self.transfer(stream, delivery) {
                StreamTransfer::Bytes(bytes) => {
                    delivery.stats.bytes_received += bytes as u64;
                    read += bytes;
                    self.advance(bytes);
                }
                StreamTransfer::Blocked => return ReadEnd::Drained,
                StreamTransfer::Ended => return ReadEnd::Broken,
            }
            if self.is_whole() && !self.finish(cipher, rx, delivery) {
                return ReadEnd::Broken;
            }
        }
        ReadEnd::More
    }

    /// Reads once: the rest of a payload, its tag and the next head; or the rest of a head.
    fn transfer(&mut self, stream: &mut dyn ByteStream, delivery: &Delivery<'_>) -> StreamTransfer {
        let Self { head, head_bytes, tag, tag_bytes, incoming, .. } = self;
        let next = head.get_mut(*head_bytes..).unwrap_or_default();
        let Some(Incoming { target, head: frame, bytes, got, .. }) = incoming else {
            debug_assert!(!next.is_empty(), "a whole head is opened first");
            return stream.read(&mut [IoSliceMut::new(next)]);
        };
        let rest = tag.get_mut(*tag_bytes..).unwrap_or_default();
        debug_assert!(*got < *bytes || !rest.is_empty(), "a whole record is finished first");
        let mut read = |memory: &mut [u8]| {
            let parts = [memory, &mut *rest, &mut *next].map(IoSliceMut::new);
            stream.read(&mut { parts })
        };
        match target {
            RecordTarget::Buffer(buffer) => read(buffer.get_mut(*got..).unwrap_or_default()),
            RecordTarget::Segment { .. } if *got == *bytes => read(&mut []),
            RecordTarget::Segment { offset } => {
                let mut transfer = StreamTransfer::Ended;
                let place = (frame.route.to, *offset + *got as u64, (*bytes - *got) as u64);
                // Without its memory, the message comes again by datagrams, and is refused there.
                delivery.deliveries.endpoints.with_segment_bytes(place, &mut |memory| {
                    transfer = read(memory);
                });
                transfer
            }
        }
    }

    fn advance(&mut self, mut bytes: usize) {
        if let Some(incoming) = &mut self.incoming {
            let payload = bytes.min(incoming.bytes - incoming.got);
            incoming.got += payload;
            bytes -= payload;
            let tag = bytes.min(RECORD_TAG_BYTES - self.tag_bytes);
            self.tag_bytes += tag;
            bytes -= tag;
        }
        self.head_bytes += bytes;
        debug_assert!(self.head_bytes <= RECORD_HEAD_BYTES, "no more is read than has room");
    }

    fn is_whole(&self) -> bool {
        let whole = |incoming: &Incoming| incoming.got == incoming.bytes;
        debug_assert!(self.incoming.is_some() || self.tag_bytes == 0, "a tag is of a record");
        self.tag_bytes == RECORD_TAG_BYTES && self.incoming.as_ref().is_some_and(whole)
    }

    /// Opens a head; `None` if it is not the next of this stream's sender.
    fn open_head(
        &mut self,
        cipher: &RecordCipher,
        rx: &mut Rx,
        delivery: &mut Delivery<'_>,
    ) -> Option<Incoming> {
        debug_assert!(self.head_bytes == RECORD_HEAD_BYTES, "all of it is there");
        debug_assert!(self.tag_bytes == 0, "the record before it is finished");
        self.head_bytes = 0;
        let (bound, sealed) = self.head.split_first_chunk_mut::<RECORD_FRAME_AT>()?;
        let (frame, tag) = sealed.split_last_chunk_mut::<RECORD_TAG_BYTES>()?;
        let plain = RecordHead::parse(bound)?;
        let (number, bytes) = (plain.number, plain.payload as usize);
        if number != self.taken || !cipher.open(number * 2, bound, frame, tag) {
            delivery.stats.packets_forged += 1;
            return None;
        }
        let framed = frame.get(..plain.frame as usize)?;
        let frame = Frames::new(framed).next()?.ok()?;
        let mut words = [0; MAX_WORDS];
        let words = frame.words(&mut words).to_vec();
        let mut head = frame.head;
        debug_assert!(self.incoming.is_none(), "one record at a time");
        let target = rx.record_target(&mut head, &words, bytes, delivery)?;
        Some(Incoming { bound: *bound, number, head, words, bytes, got: 0, target })
    }

    /// Checks a whole record and hands it over; returns false if it is not its sender's.
    fn finish(&mut self, cipher: &RecordCipher, rx: &mut Rx, delivery: &mut Delivery<'_>) -> bool {
        debug_assert!(self.tag_bytes == RECORD_TAG_BYTES, "all of it is there");
        self.tag_bytes = 0;
        let Some(mut incoming) = self.incoming.take() else { return false };
        let Incoming { bound, number, ref head, bytes, ref mut target, .. } = incoming;
        debug_assert!(number == self.taken, "records are taken in order");
        let tag = &self.tag;
        let number = number * 2 + 1;
        let genuine = match target {
            RecordTarget::Buffer(buffer) => cipher.open(number, &bound, buffer, tag),
            RecordTarget::Segment { offset } => {
                let mut genuine = false;
                let place = (head.route.to, *offset, bytes as u64);
                delivery.deliveries.endpoints.with_segment_bytes(place, &mut |memory| {
                    genuine = cipher.open(number, &bound, memory, tag);
                });
                genuine
            }
        };
        if !genuine {
            delivery.stats.packets_forged += 1;
            return false;
        }
        let Incoming { head, words, target, .. } = incoming;
        if rx.on_record(&head, &words, (bytes, target), delivery).is_err() {
            delivery.stats.frames_malformed += 1;
            return false;
        }
        self.taken += 1;
        delivery.stats.records_received += 1;
        true
    }
}
