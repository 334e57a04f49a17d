//! Bulk by streams between two stacks: intact, broken at any byte, stuck, forged, refused.

use crate::pair;
use clump_net::Progress;
use clump_wire::Security;
use clump_wire::frame::FrameKind;
use clump_wire::record::{HELLO_BYTES, RECORD_HEAD_BYTES, RECORD_TAG_BYTES};
use clump_wire::{OwnedMessage, Reason, SendResult};
use pair::streams::{StreamFaults, StreamHub};
use pair::{MILLISECOND, Pair, given, original};

const BULK: usize = 40_000;
const BOTH: [Security; 2] = [Security::Crc, Security::Aead];

fn payload(number: u64, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at as u64 * 31 + number * 7 + (at as u64 >> 8)) as u8).collect()
}

/// Sends message `number` by the stream if there is one; longer than a record carries if asked.
fn send(pair: &mut Pair, flow: clump_net::FlowId, number: u64, bytes: usize) -> SendResult {
    pair.send(flow, &[number], &payload(number, bytes))
}

fn send_long(pair: &mut Pair, flow: clump_net::FlowId, offset: u64, payload: &[u8]) -> SendResult {
    let words = [offset, payload.len() as u64, 77];
    let mut progress = Progress::default();
    loop {
        let pushed = pair.send_long(flow, &words, payload, &mut progress);
        if pushed != SendResult::Full {
            return pushed;
        }
        // Messages wait in their endpoint's queue.
        pair.look(1, None);
        pair.look(0, None);
        pair.now += MILLISECOND;
    }
}

/// Opens the stream by a first message, which goes by datagrams.
fn open(pair: &mut Pair, flow: clump_net::FlowId) -> Vec<OwnedMessage> {
    assert_eq!(send(pair, flow, 1000, BULK), SendResult::Sent);
    let [_, got] = pair.drain();
    assert_eq!(got.len(), 1);
    got
}

fn records(pair: &Pair) -> (u64, u64) {
    (pair.sides[0].stack.stats().records_sent, pair.sides[1].stack.stats().records_received)
}

fn numbers(got: &[OwnedMessage]) -> Vec<u64> {
    let mut numbers: Vec<u64> = got.iter().map(|message| given(message)[0]).collect();
    numbers.sort_unstable();
    numbers
}

fn intact(got: &[OwnedMessage]) {
    for message in got.iter().filter(|message| !message.payload.is_empty()) {
        let expected = payload(given(message)[0], message.payload.len());
        assert!(message.payload == expected, "message {} is whole", given(message)[0]);
    }
}

#[test]
fn bulk_goes_by_a_stream_once_there_is_one() {
    for security in BOTH {
        for chunk in [1, 199, 40_000, usize::MAX] {
            let (mut pair, hub) = Pair::with_streams(security);
            let flow = pair.flow(0, false);
            open(&mut pair, flow);
            assert_eq!((records(&pair), hub.made()), ((0, 0), 1), "the first by datagrams");
            hub.set(StreamFaults { chunk, ..StreamFaults::default() });
            let packets = pair.sides[0].stack.stats().units_sent;
            for number in 0..5 {
                assert_eq!(send(&mut pair, flow, number, BULK), SendResult::Sent);
            }
            assert_eq!(send(&mut pair, flow, 5, 100), SendResult::Sent, "a small one does not");
            let [_, got] = pair.drain();
            assert_eq!(numbers(&got), [0, 1, 2, 3, 4, 5], "{security:?}, {chunk} bytes a call");
            intact(&got);
            assert_eq!(records(&pair), (5, 5));
            let packets = pair.sides[0].stack.stats().units_sent - packets;
            assert!(packets < 10, "{packets} packets carry none of it");
            assert!(pair.sides.iter().all(|side| side.stack.is_quiet()), "all is reported");
        }
    }
}

#[test]
fn long_messages_go_straight_to_their_segment() {
    for (security, direct) in BOTH.into_iter().zip([true, false]).chain([(Security::Aead, true)]) {
        let (mut pair, _) = Pair::with_streams(security);
        *pair.sides[1].endpoints.memory.lock().unwrap() = direct.then(|| vec![0; 1 << 20]);
        let flow = pair.flow(0, false);
        open(&mut pair, flow);
        let before = pair.sides[1].endpoints.deposits.lock().unwrap().len();
        // Three records, the last of them short.
        let bytes = payload(1, 600_000);
        assert_eq!(send_long(&mut pair, flow, 4096, &bytes), SendResult::Sent);
        let [_, got] = pair.drain();
        assert_eq!(got.len(), 1, "one message of several records");
        assert_eq!((&got[0].words[..], records(&pair)), (&[4096, 600_000, 77][..], (3, 3)));
        let deposits = pair.sides[1].endpoints.deposits.lock().unwrap()[before..].to_vec();
        if direct {
            assert!(deposits.is_empty(), "nothing is copied there");
            let memory = pair.sides[1].endpoints.memory.lock().unwrap().clone().unwrap();
            assert!(memory[4096..][..600_000] == bytes && memory[..4096] == [0; 4096]);
        } else {
            let all: Vec<u8> = deposits.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
            assert!(all == bytes && deposits[0].0 == 4096, "in order");
        }
    }
}

/// Runs five messages over a stream with this fault, long ones among them; returns the pair.
fn run(security: Security, faults: StreamFaults) -> (Pair, StreamHub) {
    let (mut pair, hub) = Pair::with_streams(security);
    *pair.sides[1].endpoints.memory.lock().unwrap() = Some(vec![0; 1 << 20]);
    let flow = pair.flow(0, true);
    hub.set(faults);
    let mut got = open(&mut pair, flow);
    hub.set(StreamFaults::default());
    let long = payload(9, 300_000);
    assert_eq!(send(&mut pair, flow, 0, BULK), SendResult::Sent);
    assert_eq!(send_long(&mut pair, flow, 1, &long), SendResult::Sent);
    while send(&mut pair, flow, 2, BULK) == SendResult::Full {
        got.extend(pair.look(1, Some(0)));
        got.extend(pair.look(0, Some(0)));
        pair.now += MILLISECOND;
    }
    while send(&mut pair, flow, 3, 9) == SendResult::Full {
        got.extend(pair.look(1, Some(0)));
        got.extend(pair.look(0, Some(0)));
        pair.now += MILLISECOND;
    }
    let mut mark = pair.sides[0].stack.mark();
    for _ in 0..8 {
        got.extend(pair.drain().into_iter().flatten());
    }
    assert!(pair.sides[0].stack.is_past(&mut mark), "all of it has arrived");
    let order: Vec<u64> = got.iter().map(|message| given(message)[0]).collect();
    assert_eq!(order, [1000, 0, 1, 2, 3], "each once, in order");
    let long_here = got.iter().filter(|message| message.payload.is_empty()).count();
    intact(&got);
    assert_eq!(long_here, 1);
    let memory = pair.sides[1].endpoints.memory.lock().unwrap().clone().unwrap();
    assert!(memory[1..][..300_000] == long, "the long one lies in its segment");
    assert!(pair.sides.iter().all(|side| side.stack.is_quiet()));
    (pair, hub)
}

/// Interesting places in the stream of [`run`]: in the hello, and around the borders of records.
fn places() -> Vec<u64> {
    let mut places = vec![0, 1, HELLO_BYTES as u64 - 1];
    let mut at = HELLO_BYTES as u64;
    for payload in [BULK, 256 << 10, 300_000 - (256 << 10), BULK] {
        let head = RECORD_HEAD_BYTES as u64;
        let tag = at + head + payload as u64;
        places.extend([at, at + 9, at + 30, at + head - 1, at + head, at + head + 5000, tag - 1]);
        places.extend([tag, tag + 3]);
        at = tag + RECORD_TAG_BYTES as u64;
    }
    places
}

#[test]
fn a_stream_that_is_cut_anywhere_loses_and_doubles_nothing() {
    for (number, place) in places().into_iter().enumerate() {
        let faults = StreamFaults { cut_after: Some(place), ..StreamFaults::default() };
        let (pair, _) = run(BOTH[number % 2], faults);
        let (sent, taken) = records(&pair);
        // Cut right behind its hello it is over before there is a record.
        assert!(taken < sent || place <= HELLO_BYTES as u64, "cut after {place} bytes");
    }
}

#[test]
fn a_byte_that_is_changed_anywhere_is_found() {
    for (number, place) in places().into_iter().enumerate() {
        let faults = StreamFaults { flip: Some(place), ..StreamFaults::default() };
        let (pair, _) = run(BOTH[number % 2], faults);
        let (sent, taken) = records(&pair);
        // The last twelve bytes of the tag of a checksum are zeros that are checked too.
        assert!(taken < sent || place < HELLO_BYTES as u64, "byte {place}");
    }
}

#[test]
fn without_a_stream_bulk_goes_by_datagrams_at_once() {
    for faults in [
        StreamFaults { firewall: true, ..StreamFaults::default() },
        StreamFaults { deaf: true, ..StreamFaults::default() },
    ] {
        let (mut pair, hub) = Pair::with_streams(Security::Aead);
        let flow = pair.flow(0, false);
        hub.set(faults.clone());
        open(&mut pair, flow);
        for number in 0..3 {
            assert_eq!(send(&mut pair, flow, number, BULK), SendResult::Sent);
        }
        let start = pair.now;
        let mut got = Vec::new();
        while got.len() < 3 {
            got.extend(pair.look(1, Some(0)));
            pair.look(0, None);
            pair.now += MILLISECOND / 4;
            assert!(pair.now < start + 100 * MILLISECOND, "{faults:?}: nothing is waited for");
        }
        intact(&got);
        assert_eq!(records(&pair), (0, 0));
        let given_up = |pair: &Pair| pair.sides[0].stack.stats().streams_given_up;
        assert_eq!(given_up(&pair), 0, "it may still open");
        // Attempts become rare.
        for _ in 0..600 {
            let _ = send(&mut pair, flow, 9, BULK);
            pair.drain();
        }
        let (made, seconds) = (hub.made(), (pair.now - start) / 1000 / MILLISECOND);
        assert!(seconds >= 60 && made <= 10, "{made} attempts in {seconds} s");
        assert!(hub.ports().len() <= 1, "listeners are closed again");
        assert_eq!(
            given_up(&pair) >= 2,
            faults.firewall,
            "{faults:?}: no peer says so, a counter does"
        );
    }
}

#[test]
fn a_stream_that_does_not_move_is_given_up_and_memory_stays_bounded() {
    let (mut pair, hub) = Pair::with_streams(Security::Crc);
    let flow = pair.flow(0, false);
    // Its second record never comes through.
    let stall_after = Some(60_000);
    hub.set(StreamFaults { room: 50_000, stall_after, ..StreamFaults::default() });
    open(&mut pair, flow);
    let mut accepted = 0;
    // The other side does not poll.
    while send(&mut pair, flow, accepted, BULK) == SendResult::Sent {
        accepted += 1;
        assert!(accepted < 200, "a stuck stream takes no more than it may keep");
    }
    let bytes = pair.sides[0].stack.memory_bytes();
    assert!((1 << 20..4 << 20).contains(&bytes), "{bytes} bytes are kept");
    let [_, mut got] = pair.drain();
    assert_eq!(got.len(), 1, "one message comes, and no other");
    pair.now += 3000 * MILLISECOND;
    let [_, rest] = pair.drain();
    got.extend(rest);
    assert_eq!(got.len() as u64, accepted);
    assert_eq!(numbers(&got), (0..accepted).collect::<Vec<_>>(), "each once");
    intact(&got);
    assert!(pair.sides.iter().all(|side| side.stack.is_quiet()));
    assert!(pair.sides[0].stack.memory_bytes() < 1 << 20, "nothing stays");
}

#[test]
fn what_a_lost_peer_has_not_taken_comes_back_whole() {
    for security in BOTH {
        let (mut pair, _) = Pair::with_streams(security);
        let flow = pair.flow(0, false);
        open(&mut pair, flow);
        assert_eq!(send(&mut pair, flow, 1, BULK), SendResult::Sent);
        assert_eq!(send_long(&mut pair, flow, 64, &payload(2, 400_000)), SendResult::Sent);
        assert_eq!(send(&mut pair, flow, 3, BULK), SendResult::Sent);
        pair.sides[0].stack.lose(1, Reason::PeerLost);
        let back = pair.look(0, Some(0));
        let lost: Vec<_> = back.iter().map(original).collect();
        assert!(lost.iter().all(|(_, reason, _)| *reason == Reason::PeerLost));
        let kinds = lost.iter().map(|(kind, ..)| *kind);
        assert!(kinds.eq([FrameKind::Medium, FrameKind::Long, FrameKind::Medium]), "each once");
        assert_eq!(lost[1].2, [64, 400_000, 77]);
        assert!(back[0].payload == payload(1, BULK) && back[2].payload == payload(3, BULK));
        assert_eq!(pair.sides[0].stack.memory_bytes(), 0);
    }
}

#[test]
fn what_a_closing_peer_has_taken_does_not_come_back() {
    for polls in 0..4 {
        let (mut pair, hub) = Pair::with_streams(Security::Aead);
        let flow = pair.flow(0, false);
        hub.set(StreamFaults { chunk: 60_000, ..StreamFaults::default() });
        open(&mut pair, flow);
        for number in 0..4 {
            assert_eq!(send(&mut pair, flow, number, BULK), SendResult::Sent);
        }
        let mut got = Vec::new();
        // What this side reports is lost; only the closing packet tells.
        pair.sides[1].wire.lock().unwrap().cut = true;
        for _ in 0..polls {
            got.extend(pair.look(1, Some(0)));
            let now = pair.now;
            pair.sides[0].stack.service(now, true);
        }
        pair.sides[1].wire.lock().unwrap().cut = false;
        let now = pair.now;
        pair.sides[1].stack.close(now);
        let [back, more] = pair.drain();
        got.extend(more);
        let mut all = numbers(&got);
        all.extend(numbers(&back));
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3], "after {polls} polls: handled or back, never both");
        intact(&back);
    }
}

#[test]
fn strangers_at_the_listener_change_nothing() {
    let (mut pair, hub) = Pair::with_streams(Security::Aead);
    let flow = pair.flow(0, false);
    assert_eq!(send(&mut pair, flow, 1000, BULK), SendResult::Sent);
    let mut got = Vec::new();
    while hub.ports().is_empty() {
        got.extend(pair.look(1, Some(0)));
        pair.look(0, None);
        pair.now += MILLISECOND / 4;
    }
    let port = hub.ports()[0];
    for bytes in [&[][..], &[7], &[0; HELLO_BYTES], b"clumps01", &[0xff; 4096]] {
        hub.intrude(port, bytes);
    }
    got.extend(pair.drain().into_iter().flatten());
    assert_eq!(got.len(), 1);
    assert_eq!(send(&mut pair, flow, 1, BULK), SendResult::Sent);
    got.extend(pair.drain().into_iter().flatten());
    intact(&got);
    assert_eq!((numbers(&got), records(&pair)), (vec![1, 1000], (1, 1)));
    assert!(hub.ports().is_empty(), "nobody is listened to any more");
}

#[test]
fn a_recorded_stream_is_worth_nothing() {
    for security in BOTH {
        let (mut pair, hub) = Pair::with_streams(security);
        let flow = pair.flow(0, false);
        open(&mut pair, flow);
        assert_eq!(send(&mut pair, flow, 1, BULK), SendResult::Sent);
        // The second stream: the first is cut.
        hub.set(StreamFaults { cut_after: Some(100), ..StreamFaults::default() });
        pair.drain();
        let recorded = hub.written(0);
        assert!(recorded.len() > BULK);
        let (mut second, other) = Pair::with_streams(security);
        // The same stacks and incarnations with the same key, but other random numbers.
        let _ = clump_driver::StreamNetwork::random(&mut other.clone());
        let flow = second.flow(0, false);
        assert_eq!(send(&mut second, flow, 1000, BULK), SendResult::Sent);
        let mut got = Vec::new();
        while other.ports().is_empty() {
            got.extend(second.look(1, Some(0)));
            second.look(0, None);
            second.now += MILLISECOND / 4;
        }
        other.intrude(other.ports()[0], &recorded);
        got.extend(second.drain().into_iter().flatten());
        assert_eq!(numbers(&got), [1000], "only what was sent");
    }
}

#[test]
fn any_bytes_in_a_stream_are_refused_or_taken_without_harm() {
    let mut random = clump_test_tier::Sampler::new(1);
    for round in 0..200 {
        let place = random.below(1 << 16);
        let faults = match round % 2 {
            0 => StreamFaults { flip: Some(place), chunk: 4000, ..StreamFaults::default() },
            _ => StreamFaults { cut_after: Some(place), chunk: 777, ..StreamFaults::default() },
        };
        let (mut pair, hub) = Pair::with_streams(BOTH[round % 2]);
        let flow = pair.flow(0, false);
        hub.set(faults);
        open(&mut pair, flow);
        for number in 0..2 {
            assert_eq!(send(&mut pair, flow, number, BULK), SendResult::Sent);
        }
        let got: Vec<_> = (0..8).flat_map(|_| pair.drain()).flatten().collect();
        assert_eq!(numbers(&got), [0, 1], "round {round}, byte {place}");
        intact(&got);
    }
}
