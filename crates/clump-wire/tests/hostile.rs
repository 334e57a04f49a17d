//! Hostile bytes: noise, and valid packets that were changed. They parse or are refused, in
//! agreement with a second, naive reader; nothing panics, and the work is bounded by the length.
//!
//! The corpus is replayed by every run and is the source of mutations. A failure that a random test
//! finds is added there as a line. `PROPTEST_CASES=100000 cargo test -p clump-wire --test hostile
//! --release` searches longer.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails that way")]

use clump_wire::frame::{self, Frames};
use clump_wire::{Packet, Refused};
use proptest::prelude::*;
use std::sync::LazyLock;

use crate::model;

use model::{check_body, check_packet};

/// A line of the corpus: its purpose, the expected result, its bytes.
struct Case {
    name: &'static str,
    outcome: &'static str,
    bytes: Vec<u8>,
}

/// Parses lines `name | outcome | hexadecimal`; lines that begin with `#` are remarks.
fn corpus(text: &'static str) -> Vec<Case> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let case = |line: &'static str| {
        let [name, outcome, bytes] = line.split('|').map(str::trim).collect::<Vec<_>>()[..] else {
            panic!("not `name | outcome | bytes`: {line}");
        };
        Case { name, outcome, bytes: model::hex::unhex(bytes) }
    };
    lines.map(case).collect()
}

static PACKETS: LazyLock<Vec<Case>> = LazyLock::new(|| corpus(include_str!("corpus/packets.txt")));
static BODIES: LazyLock<Vec<Case>> = LazyLock::new(|| corpus(include_str!("corpus/bodies.txt")));

#[test]
fn packets_of_the_corpus() {
    for case in PACKETS.iter() {
        check_packet(&case.bytes);
        let outcome = match Packet::parse(&case.bytes) {
            Ok(packet) => format!("{:?} sealed at {}", packet.header.kind, packet.sealed_at),
            Err(Refused::Short) => "short".into(),
            Err(Refused::Version) => "version".into(),
            Err(Refused::Malformed) => "malformed".into(),
        };
        assert_eq!(outcome, case.outcome, "{}", case.name);
    }
    assert!(PACKETS.len() >= 20, "the corpus is read");
}

#[test]
fn bodies_of_the_corpus() {
    for case in BODIES.iter() {
        check_body(&case.bytes);
        let (mut kinds, mut end) = (Vec::new(), "end");
        for frame in Frames::new(&case.bytes) {
            match frame {
                Ok(frame) => kinds.push(format!("{:?} ", frame.head.kind)),
                Err(frame::Malformed) => end = "malformed",
            }
        }
        assert_eq!(kinds.concat() + end, case.outcome, "{}", case.name);
    }
    assert!(BODIES.len() >= 30, "the corpus is read");
}

/// A mutation of bytes; offsets are taken modulo the length.
#[derive(Debug, Clone)]
enum Change {
    Flip {
        bit: usize,
    },
    Set {
        at: usize,
        byte: u8,
    },
    /// A number as the parsers read them, at a multiple of four.
    Number {
        word: usize,
        value: u32,
    },
    Cut {
        length: usize,
    },
    Remove {
        at: usize,
        length: usize,
    },
    Repeat {
        at: usize,
        length: usize,
    },
    Append {
        bytes: Vec<u8>,
    },
    /// The end of another case of the corpus instead of its own.
    Splice {
        at: usize,
        case: usize,
        from: usize,
    },
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>, corpus: &[Case]) {
        let modulo = |at: usize, length: usize| if length == 0 { 0 } else { at % length };
        let length = bytes.len();
        match *self {
            Change::Append { bytes: ref more } => bytes.extend_from_slice(more),
            Change::Splice { at, case, from } => {
                let other = &corpus[case % corpus.len()].bytes;
                bytes.truncate(modulo(at, length));
                bytes.extend_from_slice(&other[modulo(from, other.len())..]);
            }
            _ if length == 0 => {}
            Change::Flip { bit } => bytes[bit / 8 % length] ^= 1 << (bit % 8),
            Change::Set { at, byte } => bytes[at % length] = byte,
            Change::Number { word, value } => {
                let at = word * 4 % length;
                let value = value.to_le_bytes();
                let room = value.len().min(length - at);
                bytes[at..at + room].copy_from_slice(&value[..room]);
            }
            Change::Cut { length: to } => bytes.truncate(to % length),
            Change::Remove { at, length: count } => {
                let at = at % length;
                bytes.drain(at..length.min(at + count));
            }
            Change::Repeat { at, length: count } => {
                let at = at % length;
                let again = bytes[at..length.min(at + count)].to_vec();
                bytes.splice(at..at, again);
            }
        }
    }
}

/// Generates offsets in the first 256 bytes, where the heads are.
fn place() -> impl Strategy<Value = usize> {
    0..256_usize
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    // Lengths around which padding, 32 bits or the signs of numbers go wrong.
    let edges =
        [0, 1, 7, 8, 9, 11, 13, 14, 16, 17, 0x7f, 0x80, 0xff, 0xffff, 0x1_0000, 0x7fff_ffff];
    let far_edges = [0x8000_0000, 0xffff_fff7, 0xffff_fff8, 0xffff_fff9, 0xffff_ffff];
    let numbers = prop::sample::select([&edges[..], &far_edges].concat());
    let change = prop_oneof![
        4 => (0..2048_usize).prop_map(|bit| Change::Flip { bit }),
        2 => (place(), any::<u8>()).prop_map(|(at, byte)| Change::Set { at, byte }),
        4 => (place(), numbers).prop_map(|(word, value)| Change::Number { word, value }),
        1 => place().prop_map(|length| Change::Cut { length }),
        1 => (place(), 1..32_usize).prop_map(|(at, length)| Change::Remove { at, length }),
        1 => (place(), 1..64_usize).prop_map(|(at, length)| Change::Repeat { at, length }),
        1 => prop::collection::vec(any::<u8>(), 1..40).prop_map(|bytes| Change::Append { bytes }),
        2 => (place(), any::<usize>(), place())
            .prop_map(|(at, case, from)| Change::Splice { at, case, from }),
    ];
    prop::collection::vec(change, 1..6)
}

/// Generates changed cases of the corpus.
fn changed(corpus: &'static LazyLock<Vec<Case>>) -> impl Strategy<Value = Vec<u8>> {
    (any::<prop::sample::Index>(), changes()).prop_map(|(case, changes)| {
        let mut bytes = case.get(corpus).bytes.clone();
        changes.iter().for_each(|change| change.apply(&mut bytes, corpus));
        bytes
    })
}

/// Returns a configuration with many more cases than usual, and more on request: parsing is fast.
fn many() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: usual.cases * 16, ..usual }
}

proptest! {
    #![proptest_config(many())]

    #[test]
    fn changed_packets(datagram in changed(&PACKETS)) {
        check_packet(&datagram);
    }

    #[test]
    fn changed_bodies(body in changed(&BODIES)) {
        check_body(&body);
    }

    #[test]
    fn noise(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        check_packet(&bytes);
        check_body(&bytes);
    }

    /// Noise that passes the first checks.
    #[test]
    fn plausible_noise(
        mut bytes in prop::collection::vec(any::<u8>(), 64..1200),
        kind in 1..=8_u8,
        flags in 0..16_u8,
        count in 0..132_u8,
    ) {
        bytes[..3].copy_from_slice(&[0x20 | kind, flags, count]);
        check_packet(&bytes);
        let payload = bytes[63];
        bytes[..8].copy_from_slice(&[kind, flags & !2, 0, count, payload, 0, 0, 0]);
        check_body(&bytes);
    }
}

#[test]
fn the_work_for_the_longest_body_is_bounded_by_its_frames() {
    // The shortest frames there are: eight bytes, after a first one with a route.
    let mut body = model::hex::unhex(&format!("01000000 00000000 {}", "00".repeat(24)));
    while body.len() < 65_528 {
        body.extend([1, 2, 0, 0, 0, 0, 0, 0]);
    }
    check_body(&body);
    assert_eq!(Frames::new(&body).count(), 1 + (body.len() - 32) / 8);
    assert_eq!(Frames::new(&[0; 65_536]).count(), 1, "refused at once");
}
