//! Records of a stream, kept until their receiver has said that it has taken them.

use crate::message_part::{MessagePart, OwnedPart};
use crate::seal::RecordCipher;
use crate::tx_queue::LongMessage;
use clump_wire::frame::{self, FrameHead, FrameKind, MessageFragment};
use clump_wire::record::{
    RECORD_FRAME_AT, RECORD_FRAME_BYTES, RECORD_HEAD_BYTES, RECORD_TAG_BYTES, RecordHead,
};
use clump_wire::{Message, OwnedMessage};
use std::collections::VecDeque;
use std::io::IoSlice;

/// Bytes of records that may be kept before no more find room.
const MAX_KEPT: usize = 2 << 20;
/// Parts of one write.
const MAX_PARTS: usize = 8;

#[derive(Debug)]
struct Record {
    /// The part that it carries, but for its payload.
    part: OwnedPart,
    /// Head, payload, tag, sealed.
    packet: Vec<u8>,
}

/// The records of a stream that were not reported as taken.
#[derive(Debug, Default)]
pub(crate) struct UnackedRecords {
    records: VecDeque<Record>,
    /// Number of the first of them.
    base: u64,
    /// Records that were written as a whole, and bytes of the next.
    written: (usize, usize),
    bytes: usize,
    begun: VecDeque<LongMessage>,
    /// Buffers for the next records: with those of records, no more than may be kept.
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
}

impl UnackedRecords {
    /// Returns true if a further record finds room.
    pub(crate) fn has_room(&self) -> bool {
        self.bytes < MAX_KEPT
    }

    /// Returns the bytes kept.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives back the buffers for the next records.
    pub(crate) fn release_spare(&mut self) {
        (self.spare, self.spare_bytes) = (Vec::new(), 0);
    }

    /// Returns the bytes of the buffers for the next records.
    pub(crate) fn spare_bytes(&self) -> usize {
        self.spare_bytes
    }

    /// Returns the number of records kept.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns true if nothing is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns true if something is still to be written.
    pub(crate) fn has_unwritten(&self) -> bool {
        self.written.0 < self.records.len()
    }

    /// Returns the number of records so far, taken or not.
    pub(crate) fn count(&self) -> u64 {
        debug_assert!(self.written.0 <= self.records.len(), "no more is written than there is");
        self.base + self.records.len() as u64
    }

    /// Returns true if this message has begun here and not ended.
    pub(crate) fn is_open(&self, message: Option<u64>) -> bool {
        self.begun.iter().any(|begun| begun.last.is_none() && Some(begun.number) == message)
    }

    /// Adds a part of a message, sealed.
    pub(crate) fn append(&mut self, cipher: &RecordCipher, part: &MessagePart<'_>) {
        let MessagePart { message: Message { payload, .. }, total, at, .. } = *part;
        debug_assert!(part.number.is_some() || payload.len() == total, "one part is all of it");
        let number = self.count();
        let packet = self.pack(cipher, number, part);
        debug_assert!(packet.len() > RECORD_HEAD_BYTES, "a head, a payload, a tag");
        let ends = part.end() == total || (at > 0 && payload.is_empty());
        let kept = part.without_payload();
        match part.number {
            Some(number) if at == 0 => {
                let message = kept.message.clone();
                self.begun.push_back(LongMessage { message, number, last: None });
            }
            Some(message) if ends => {
                let ended = self.begun.iter_mut().find(|begun| begun.number == message);
                debug_assert!(ended.is_some(), "what ends has begun");
                if let Some(begun) = ended {
                    begun.last = Some(number);
                }
            }
            _ => {}
        }
        self.bytes += packet.len();
        self.records.push_back(Record { part: kept, packet });
        debug_assert!(self.has_unwritten(), "it is to be written");
    }

    fn pack(&mut self, cipher: &RecordCipher, number: u64, part: &MessagePart<'_>) -> Vec<u8> {
        let MessagePart { message: Message { words, payload, .. }, total, at, .. } = *part;
        let mut packet = self.spare.pop().unwrap_or_default();
        self.spare_bytes -= packet.capacity();
        packet.clear();
        packet.reserve(RECORD_HEAD_BYTES + payload.len() + RECORD_TAG_BYTES);
        packet.resize(RECORD_FRAME_AT, 0);
        let place = if at == 0 { total } else { at } as u64;
        let fragment = part.number.map(|message| MessageFragment { message, at: place });
        let head = part.head();
        let framed = match (fragment, at) {
            (Some(_), 1..) => FrameHead { kind: FrameKind::Part, order: None, fragment, ..head },
            _ => FrameHead { fragment, ..head },
        };
        frame::append(&mut packet, &framed, false, words, &[]);
        let frame = packet.len() - RECORD_FRAME_AT;
        debug_assert!(frame <= RECORD_FRAME_BYTES, "the longest frame has room");
        packet.resize(RECORD_HEAD_BYTES, 0);
        packet.extend_from_slice(payload);
        packet.resize(RECORD_HEAD_BYTES + payload.len() + RECORD_TAG_BYTES, 0);
        let plain = RecordHead { number, payload: payload.len() as u32, frame: frame as u32 };
        let bound = plain.encode();
        let (head, rest) = packet.split_at_mut(RECORD_HEAD_BYTES);
        if let Some((clear, sealed)) = head.split_first_chunk_mut::<RECORD_FRAME_AT>()
            && let Some((frame, tag)) = sealed.split_last_chunk_mut::<RECORD_TAG_BYTES>()
        {
            *clear = bound;
            *tag = cipher.seal(number * 2, &bound, frame);
        }
        if let Some((payload, tag)) = rest.split_last_chunk_mut::<RECORD_TAG_BYTES>() {
            *tag = cipher.seal(number * 2 + 1, &bound, payload);
        }
        packet
    }

    /// Returns what is to be written next.
    pub(crate) fn unwritten(&self) -> impl Iterator<Item = IoSlice<'_>> {
        let (whole, offset) = self.written;
        debug_assert!(whole <= self.records.len(), "no more is written than there is");
        let rest = self.records.iter().skip(whole).take(MAX_PARTS).enumerate();
        rest.map(move |(number, record)| {
            let from = if number == 0 { offset } else { 0 };
            IoSlice::new(record.packet.get(from..).unwrap_or_default())
        })
    }

    /// Notes that so many bytes were written.
    pub(crate) fn on_written(&mut self, mut bytes: usize) {
        while let Some(record) = self.records.get(self.written.0) {
            let left = record.packet.len() - self.written.1;
            if bytes < left {
                break;
            }
            bytes -= left;
            self.written = (self.written.0 + 1, 0);
        }
        debug_assert!(bytes == 0 || self.has_unwritten(), "no more is written than there was");
        self.written.1 += bytes;
    }

    /// Notes that the receiver has taken so many records in all. A count of more than were written
    /// is no correct peer's, and changes nothing.
    pub(crate) fn on_taken(&mut self, count: u64) {
        if count > self.base + self.written.0 as u64 {
            return;
        }
        while self.base < count {
            let Some(record) = self.records.pop_front() else { break };
            self.base += 1;
            self.written.0 -= 1;
            self.bytes -= record.packet.len();
            if self.bytes + self.spare_bytes + record.packet.capacity() <= MAX_KEPT {
                self.spare_bytes += record.packet.capacity();
                self.spare.push(record.packet);
            }
        }
        let base = self.base;
        self.begun.retain(|begun| begun.last.is_none_or(|last| last >= base));
        self.check_invariants();
    }

    /// Takes everything that was not taken, in order, and the messages that it belongs to of which
    /// some was taken.
    pub(crate) fn take_all(
        &mut self,
        cipher: Option<&RecordCipher>,
    ) -> (Vec<OwnedPart>, Vec<LongMessage>) {
        let base = self.base;
        let records = std::mem::take(&mut self.records);
        let begins: Vec<u64> = records
            .iter()
            .filter(|record| record.part.at == 0)
            .filter_map(|record| record.part.number)
            .collect();
        let part = |(number, Record { mut part, packet }): (u64, Record)| {
            part.message.payload = plain(packet, number, cipher);
            part
        };
        let parts = (base..).zip(records).map(part).collect();
        let mut begun: Vec<_> = self.begun.drain(..).collect();
        begun.retain(|begun| !begins.contains(&begun.number));
        *self = Self::default();
        debug_assert!(self.is_empty() && self.count() == 0, "the next stream begins anew");
        (parts, begun)
    }

    /// Takes the messages of which something was not taken, after the peer is lost.
    pub(crate) fn take_undelivered(&mut self, cipher: Option<&RecordCipher>) -> Vec<OwnedMessage> {
        let (parts, begun) = self.take_all(cipher);
        debug_assert!(self.begun.is_empty() && self.bytes == 0, "nothing is left here");
        let rest = begun.into_iter().map(|begun| begun.message);
        let whole = parts.into_iter().filter(|part| part.at == 0).map(|part| {
            let mut message = part.message;
            if message.kind == FrameKind::Long {
                message.payload = Vec::new();
            }
            message
        });
        rest.chain(whole).collect()
    }

    /// Asserts what always holds between calls.
    pub(crate) fn check_invariants(&self) {
        let bytes: usize = self.records.iter().map(|record| record.packet.len()).sum();
        debug_assert_eq!(self.bytes, bytes, "bytes are counted");
        debug_assert!(self.written.0 <= self.records.len(), "no more is written than there is");
        let spare: usize = self.spare.iter().map(Vec::capacity).sum();
        debug_assert_eq!(self.spare_bytes, spare, "spare bytes are counted");
        debug_assert!(spare <= MAX_KEPT, "memory is bounded");
        let ended = self.begun.iter().filter_map(|begun| begun.last);
        debug_assert!(ended.min().is_none_or(|last| last >= self.base), "the taken is forgotten");
    }
}

/// Returns the payload of a record.
fn plain(mut packet: Vec<u8>, number: u64, cipher: Option<&RecordCipher>) -> Vec<u8> {
    let mut bound = [0; RECORD_FRAME_AT];
    bound.copy_from_slice(packet.get(..RECORD_FRAME_AT).unwrap_or(&[0; RECORD_FRAME_AT]));
    packet.drain(..RECORD_HEAD_BYTES.min(packet.len()));
    let tag = packet.last_chunk::<RECORD_TAG_BYTES>().copied().unwrap_or_default();
    debug_assert!(packet.len() >= RECORD_TAG_BYTES, "the tag is its end");
    packet.truncate(packet.len().saturating_sub(RECORD_TAG_BYTES));
    if let Some(cipher) = cipher.filter(|cipher| cipher.encrypts()) {
        let opened = cipher.open(number * 2 + 1, &bound, &mut packet, &tag);
        debug_assert!(opened, "a record that was sealed here opens here");
    }
    packet
}
