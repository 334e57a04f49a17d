//! A second, naive reader of the formats: byte by byte, into owned values, sharing nothing with the
//! crate. The crate must read the same from any bytes.

use clump_wire::frame;
use clump_wire::{Header, Packet, Refused};

#[path = "hex.rs"]
pub mod hex;

/// Reader of numbers from the front of bytes.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn bytes(&mut self, count: usize) -> Option<Vec<u8>> {
        if count > self.0.len() {
            return None;
        }
        let taken = self.0[..count].to_vec();
        self.0 = &self.0[count..];
        Some(taken)
    }

    /// Reads a little-endian number of this many bytes.
    fn number(&mut self, bytes: usize) -> Option<u64> {
        let bytes = self.bytes(bytes)?;
        Some(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }
}

/// A packet's header as plain numbers, in wire order.
pub type Fields = [u64; 15];

/// Parses a packet into header, selective acks and offset of the protected bytes, or returns the
/// reason of refusal.
pub fn packet(datagram: &[u8]) -> Result<(Fields, Vec<u64>, usize), Refused> {
    let mut reader = Reader(datagram);
    let mut fields = [0; 15];
    for (field, bytes) in fields.iter_mut().zip([1, 1, 1, 1, 4, 4, 4, 4, 4, 8, 8, 8, 4, 4, 4]) {
        *field = reader.number(bytes).ok_or(Refused::Short)?;
    }
    // The last of the sixteen fields.
    let held = reader.number(4).ok_or(Refused::Short)?;
    if fields[0] >> 4 != 2 {
        return Err(Refused::Version);
    }
    let words = fields[2];
    if !(1..=8).contains(&(fields[0] & 0xf)) || fields[1] > 15 || words > 128 {
        return Err(Refused::Malformed);
    }
    let sack = (0..words).map(|_| reader.number(8)).collect::<Option<_>>().ok_or(Refused::Short)?;
    fields[2] = held;
    Ok((fields, sack, datagram.len() - reader.0.len()))
}

/// Converts the crate's result to the form of [`packet`].
pub fn fields(header: &Header) -> Fields {
    let flag = |flag, bit| if header.flags.has(flag) { bit } else { 0 };
    let flags = flag(clump_wire::Flags::ACK_NOW, 1)
        | flag(clump_wire::Flags::HAS_ECHO, 2)
        | flag(clump_wire::Flags::WHOLE, 4)
        | flag(clump_wire::Flags::MAY_HAVE_WAITED, 8);
    let Header { job, source, target, epoch, target_epoch, window, sent, echo, held, .. } = *header;
    let [job, source, target, epoch, target_epoch, window, sent, echo, held] =
        [job, source, target, epoch, target_epoch, window, sent, echo, held].map(u64::from);
    let first = 0x20 | header.kind as u64;
    let Header { number, unit, ack, .. } = *header;
    let ce = u64::from(header.ce);
    [
        first,
        flags,
        held,
        ce,
        job,
        source,
        target,
        epoch,
        target_epoch,
        number,
        unit,
        ack,
        window,
        sent,
        echo,
    ]
}

/// A frame with all its contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub kind: u8,
    pub reply: bool,
    pub handler: u8,
    pub route: [u64; 3],
    pub order: Option<u64>,
    pub fragment: Option<(u64, u64)>,
    pub words: Vec<u64>,
    pub payload: Vec<u8>,
}

/// Reads the frames of a body up to its end (true) or to bytes that are no frame (false).
pub fn frames(body: &[u8]) -> (Vec<Message>, bool) {
    let mut reader = Reader(body);
    let mut frames = Vec::new();
    let mut route = None;
    while !reader.0.is_empty() {
        let Some(message) = message(&mut reader, &mut route) else { return (frames, false) };
        frames.push(message);
    }
    (frames, true)
}

fn message(reader: &mut Reader<'_>, route: &mut Option<[u64; 3]>) -> Option<Message> {
    const PART: u8 = 5;
    let [kind, flags, handler, words] = reader.bytes(4)?[..] else { return None };
    let bytes = reader.number(4)? as usize;
    if !(1..=8).contains(&kind) || flags > 15 || words > 14 {
        return None;
    }
    if kind != PART && flags & 2 == 0 {
        *route = Some([reader.number(8)?, reader.number(8)?, reader.number(8)?]);
    }
    let route = if kind == PART { [0; 3] } else { (*route)? };
    let order = if flags & 4 == 0 { None } else { Some(reader.number(8)?) };
    let fragment = if flags & 8 == 0 { None } else { Some((reader.number(8)?, reader.number(8)?)) };
    if kind == PART && fragment.is_none() {
        return None;
    }
    let words = (0..words).map(|_| reader.number(8)).collect::<Option<_>>()?;
    let payload = reader.bytes(bytes)?;
    reader.bytes((8 - bytes % 8) % 8)?;
    Some(Message { kind, reply: flags & 1 != 0, handler, route, order, fragment, words, payload })
}

/// Converts the crate's result to the form of [`frames`].
pub fn as_message(frame: &frame::Frame<'_>) -> Message {
    let frame::FrameHead { kind, reply, handler, route, order, fragment } = frame.head;
    Message {
        kind: kind as u8,
        reply,
        handler,
        route: [route.from, route.to, route.tag],
        order,
        fragment: fragment.map(|fragment| (fragment.message, fragment.at)),
        words: frame.words(&mut [0; frame::MAX_WORDS]).to_vec(),
        payload: frame.payload.to_vec(),
    }
}

/// Reads a datagram with the crate, checks the properties that hold for any bytes, and compares
/// with the model.
pub fn check_packet(datagram: &[u8]) {
    let parsed = Packet::parse(datagram);
    let expected = packet(datagram);
    let words = &mut [0xdead; clump_wire::MAX_SACK_WORDS];
    let read = parsed.map(|packet| {
        assert!(packet.sealed_at <= datagram.len() && packet.sack_words() <= words.len());
        let sack = packet.sack(datagram, words);
        assert_eq!(sack.len(), packet.sack_words());
        (fields(&packet.header), sack.to_vec(), packet.sealed_at)
    });
    assert_eq!(read, expected);
}

/// Reads a body with the crate, checks the properties that hold for any bytes, and compares with
/// the model.
pub fn check_body(body: &[u8]) {
    let mut frames = frame::Frames::new(body);
    let (mut read, mut whole) = (Vec::new(), true);
    let mut left = body.len();
    while let Some(next) = frames.next() {
        assert!(whole, "nothing follows what is no frame");
        match next {
            Ok(frame) => {
                assert!(frames.left() + 8 <= left, "every frame takes its part of the body");
                let inside = body.as_ptr_range();
                let payload = frame.payload.as_ptr_range();
                assert!(inside.start <= payload.start && payload.end <= inside.end);
                read.push(as_message(&frame));
            }
            Err(frame::Malformed) => whole = false,
        }
        left = frames.left();
    }
    assert_eq!(left, 0);
    assert_eq!((read, whole), self::frames(body));
}
