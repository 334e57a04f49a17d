//! Scenarios of two stacks on a wire with configured losses, one per test.

use crate::pair;
use clump_net::Progress;
use clump_wire::Security;
use clump_wire::frame::{FrameKind, Route};
use clump_wire::{Message, Original, Reason, SendResult};
use pair::{CREDIT, Pair, given, name, original};

fn first_words(queued: &[clump_wire::OwnedMessage]) -> Vec<u64> {
    queued.iter().filter_map(|queued| given(queued).first().copied()).collect()
}

#[test]
fn small_messages_that_wait_share_a_packet() {
    for security in [Security::Crc, Security::Aead] {
        let mut pair = Pair::new(security);
        let flow = pair.flow(0, false);
        for number in 0..20 {
            assert_eq!(pair.send(flow, &[number], &[]), SendResult::Sent);
        }
        let [_, got] = pair.drain();
        assert_eq!(first_words(&got), (0..20).collect::<Vec<_>>());
        let units = pair.sides[0].stack.stats().units_sent;
        assert!(units <= 3, "the first goes at once, the others together: {units}");
    }
}

#[test]
fn ordered_messages_do_not_overtake_mail_that_is_left() {
    let mut pair = Pair::new(Security::Crc);
    let flow = pair.flow(0, true);
    // More than one poll takes from a queue.
    let (first, more) = (2000, 200);
    for number in 0..first {
        assert_eq!(pair.send(flow, &[number], &[]), SendResult::Sent);
    }
    pair.drain_for([Some(0), None]);
    for number in first..first + more {
        assert_eq!(pair.send(flow, &[number], &[]), SendResult::Sent);
    }
    pair.look(0, None);
    let mut got = Vec::new();
    for _ in 0..8 {
        got.extend(pair.look(1, Some(0)));
        pair.look(0, None);
    }
    assert_eq!(first_words(&got), (0..first + more).collect::<Vec<_>>());
}

#[test]
fn a_large_message_survives_the_loss_of_any_of_its_packets() {
    let payload: Vec<u8> = (0..20_000_u32).map(|i| (i * 7) as u8).collect();
    for lost in 0..16 {
        let mut pair = Pair::new(Security::Crc);
        pair.sides[0].wire.lock().unwrap().lose = vec![lost, lost + 1];
        let flow = pair.flow(0, false);
        assert_eq!(pair.send(flow, &[1, 2], &payload), SendResult::Sent);
        let [_, got] = pair.drain();
        assert_eq!(got.len(), 1, "datagrams {lost} and the next lost");
        assert_eq!((&got[0].words[..], &got[0].payload), (&[1, 2][..], &payload));
    }
}

#[test]
fn what_a_lost_peer_did_not_acknowledge_comes_back_whole() {
    let mut pair = Pair::new(Security::Crc);
    let flow = pair.flow(0, false);
    assert_eq!(pair.send(flow, &[1], &[]), SendResult::Sent);
    let [_, got] = pair.drain();
    assert_eq!(first_words(&got), [1]);
    pair.sides[0].wire.lock().unwrap().cut = true;
    let payload = vec![9; 10_000];
    assert_eq!(pair.send(flow, &[2], &[]), SendResult::Sent);
    assert_eq!(pair.send(flow, &[3], &payload), SendResult::Sent);
    pair.sides[0].stack.lose(1, Reason::PeerLost);
    let [back, _] = pair.drain();
    let lost: Vec<_> = back.iter().map(original).collect();
    let (two, three) = (&[2][..], &[3][..]);
    assert_eq!(
        lost,
        [(FrameKind::Short, Reason::PeerLost, two), (FrameKind::Medium, Reason::PeerLost, three)]
    );
    assert_eq!(back[1].payload, payload);
    assert_eq!(pair.send(flow, &[4], &[]), SendResult::Refused(Reason::PeerLost));
}

#[test]
fn what_a_closing_peer_got_stays_and_the_rest_comes_back() {
    // Each time another datagram is lost: messages behind the gap have arrived, and must not be
    // returned.
    for lost in 0..6 {
        let mut pair = Pair::new(Security::Crc);
        let flow = pair.flow(0, false);
        pair.sides[0].wire.lock().unwrap().lose = vec![lost];
        for number in 0..6 {
            assert_eq!(pair.send(flow, &[number], &[5; 1100]), SendResult::Sent);
        }
        let now = pair.now;
        pair.sides[0].stack.service(now, true);
        let mut got = pair.look(1, Some(0));
        pair.sides[0].wire.lock().unwrap().cut = true;
        pair.look(0, None);
        let now = pair.now;
        pair.sides[1].stack.close(now);
        pair.sides[0].wire.lock().unwrap().cut = false;
        let [mut back, more] = pair.drain();
        got.extend(more);
        let (mut all, count) = (first_words(&got), got.len());
        all.extend(back.iter().map(|queued| original(queued).2[0]));
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4, 5], "{count} arrived, datagram {lost} was lost");
        assert!(pair.sides[1].stack.is_closed());
        back.retain(|queued| {
            let (kind, reason, _) = original(queued);
            (kind, reason) != (FrameKind::Medium, Reason::EndpointGone)
        });
        assert!(back.is_empty());
    }
}

#[test]
fn messages_that_wait_for_an_earlier_one_go_back_when_their_endpoint_closes() {
    let mut pair = Pair::new(Security::Crc);
    let flow = pair.flow(0, true);
    pair.sides[0].wire.lock().unwrap().lose = vec![0];
    for number in 0..3 {
        assert_eq!(pair.send(flow, &[number], &[5; 1100]), SendResult::Sent);
    }
    let now = pair.now;
    pair.sides[0].stack.service(now, true);
    assert!(pair.look(1, Some(0)).is_empty(), "the first is missing");
    assert!(pair.sides[1].stack.memory_bytes() > 2000, "those that wait are counted");
    pair.sides[1].endpoints.closed.lock().unwrap().push(name(1, 0));
    pair.sides[1].stack.close_endpoint(|| now, 0, name(1, 0));
    let [back, got] = pair.drain();
    assert!(got.is_empty());
    let mut numbers: Vec<u64> = back.iter().map(|queued| queued.words[1]).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2]);
    let reason = Original::unpack(back[0].words[0]).reason;
    assert_eq!(reason, Reason::EndpointGone as u8);
    assert_eq!(pair.sides[0].stack.outstanding(flow), 0, "their room is free");
}

#[test]
fn refused_messages_come_back_with_reason_words_and_payload() {
    let mut pair = Pair::new(Security::Crc);
    let nowhere = pair.flow(5, false);
    assert_eq!(pair.send(nowhere, &[1, 2], b"nobody"), SendResult::Sent);
    let flow = pair.flow(0, false);
    let now = pair.now;
    let stack = &mut pair.sides[0].stack;
    let [wrong, right] = [8, 7].map(|tag| stack.route_of(flow, tag).unwrap());
    let request = Message::request((FrameKind::Short, 4), wrong, (&[3], &[]));
    assert_eq!(stack.request(|| now, flow, &request), SendResult::Sent);
    let words = [2 << 20, 3, 4];
    let request = Message::request((FrameKind::Long, 5), right, (&words, b"abc"));
    let mut progress = Progress::default();
    let long = stack.request_long(|| now, flow, &request, &mut progress);
    assert_eq!(long, SendResult::Sent);
    let [back, got] = pair.drain();
    assert!(got.is_empty());
    let of = |reason: Reason| {
        let found = back.iter().find(|m| Original::unpack(m.words[0]).reason == reason as u8);
        let found = found.unwrap();
        (Original::unpack(found.words[0]), found.words[1..].to_vec(), found.payload.clone())
    };
    let (_, words, payload) = of(Reason::NoSuchEndpoint);
    assert_eq!((&words[..], &payload[..]), (&[1, 2][..], &b"nobody"[..]));
    let (original, words, _) = of(Reason::BadTag);
    assert_eq!((original.handler, &words[..]), (4, &[3][..]));
    let (original, words, payload) = of(Reason::BadOffset);
    assert_eq!((original.kind, words.len(), payload.len()), (3, 3, 0));
    assert_eq!(pair.sides[0].stack.outstanding(flow), 0);
    assert_eq!(pair.sides[0].stack.outstanding(nowhere), 0);
}

#[test]
fn who_does_not_consume_is_sent_no_more_than_the_credit() {
    let mut pair = Pair::new(Security::Crc);
    let flow = pair.flow(1, false);
    let mut sent = 0;
    while sent < 10_000 {
        match pair.send(flow, &[sent], &[1; 1000]) {
            SendResult::Sent => sent += 1,
            SendResult::Full => break,
            SendResult::Refused(_) => panic!("nobody is lost"),
        }
        pair.look(1, Some(0));
        pair.look(0, None);
        pair.now += 100_000;
    }
    assert_eq!(sent, CREDIT / 1064);
    pair.drain();
    let kept = pair.sides[1].stack.memory_bytes() as u64;
    assert!((CREDIT / 2..=CREDIT).contains(&kept), "{kept}");
    // Once consumption is reported there is room again.
    let now = pair.now;
    pair.sides[1].stack.report(|| now, 0, (name(1, 1), name(0, 0)), [3 * 1064, 0]);
    pair.drain();
    assert_eq!(pair.sides[0].stack.outstanding(flow), (sent - 3) * 1064);
    for _ in 0..3 {
        assert_eq!(pair.send(flow, &[0], &[1; 1000]), SendResult::Sent);
    }
    assert_eq!(pair.send(flow, &[0], &[1; 1000]), SendResult::Full);
}

#[test]
fn an_answer_to_an_earlier_question_is_followed_by_another_question() {
    let mut pair = Pair::new(Security::Crc);
    let flow = pair.flow(0, false);
    let now = pair.now;
    assert_eq!(pair.send(flow, &[1], &[]), SendResult::Sent);
    assert!(pair.sides[0].stack.request_consumption_report(|| now, flow));
    assert_eq!(pair.send(flow, &[2], &[]), SendResult::Sent);
    assert!(pair.sides[0].stack.request_consumption_report(|| now, flow));
    let [_, got] = pair.drain();
    let asks = |queued: &[clump_wire::OwnedMessage]| {
        queued.iter().filter(|m| m.kind == FrameKind::Ask).count()
    };
    assert_eq!(asks(&got), 2);
    // Only the first message is consumed by now.
    let now = pair.now;
    pair.sides[1].stack.report(|| now, 0, (name(1, 0), name(0, 0)), [64, 0]);
    pair.drain();
    assert!(pair.sides[0].stack.request_consumption_report(|| now, flow), "64 bytes are open");
    let [_, got] = pair.drain();
    assert_eq!(asks(&got), 1);
    let now = pair.now;
    pair.sides[1].stack.report(|| now, 0, (name(1, 0), name(0, 0)), [128, 0]);
    pair.drain();
    assert!(!pair.sides[0].stack.request_consumption_report(|| now, flow));
}

#[test]
fn packets_sent_again_by_an_enemy_are_refused() {
    for security in [Security::Crc, Security::Aead] {
        let mut pair = Pair::new(security);
        let flow = pair.flow(0, false);
        for number in 0..5 {
            assert_eq!(pair.send(flow, &[number], &[]), SendResult::Sent);
            pair.drain();
        }
        let copies = pair.sent(0);
        let before = *pair.sides[1].stack.stats();
        for copy in &copies {
            pair.inject(1, copy);
        }
        let [_, got] = pair.drain();
        assert!(got.is_empty());
        let after = pair.sides[1].stack.stats();
        assert_eq!(after.packets_replayed, before.packets_replayed + copies.len() as u64);
        assert_eq!(after.packets_received, before.packets_received);
    }
}

#[test]
fn damaged_and_foreign_packets_leave_nothing_behind() {
    let mut pair = Pair::new(Security::Aead);
    let flow = pair.flow(0, false);
    pair.sides[0].wire.lock().unwrap().cut = true;
    assert_eq!(pair.send(flow, &[1], b"payload"), SendResult::Sent);
    let datagram = pair.sent(0).pop().unwrap();
    for at in 0..datagram.len() {
        let mut damaged = datagram.clone();
        damaged[at] ^= 0x40;
        pair.inject(1, &damaged);
        pair.inject(1, &datagram[..at]);
        assert!(pair.look(1, Some(0)).is_empty(), "byte {at}");
    }
    let stats = *pair.sides[1].stack.stats();
    assert_eq!(stats.packets_received, 0);
    assert_eq!(
        stats.packets_malformed + stats.packets_foreign + stats.packets_forged,
        2 * datagram.len() as u64
    );
    assert_eq!(pair.sides[1].stack.memory_bytes(), 0);
    assert_eq!(pair.sides[1].stack.talking_to().count(), 0, "not even a channel");
    assert!(pair.sent(1).is_empty(), "and no answer");
}

#[test]
fn a_peer_that_started_again_is_a_stranger_in_both_directions() {
    use clump_net::seal::JobKey;
    use clump_net::{Stack, StackConfig};
    for security in [Security::Crc, Security::Aead] {
        let mut pair = Pair::new(security);
        let flow = pair.flow(0, false);
        pair.sides[0].wire.lock().unwrap().cut = true;
        assert_eq!(pair.send(flow, &[1], &[]), SendResult::Sent);
        let old = pair.sent(0).pop().unwrap();
        // Rank 0 again, with the job's key, but a younger incarnation than the one that rank 1 was
        // told of.
        let again = StackConfig { epoch: 11, ..pair::config(0, security) };
        let key = JobKey::new(&mut [3; 32]).unwrap();
        let driver = Box::new(pair.hub.attach(pair::address(8)).unwrap());
        let mut again =
            Stack::new(again, &key, driver, Box::new(pair::TwoDoors::default())).unwrap();
        let flow = again.open_flow(name(0, 0), name(1, 0), 1, false);
        let now = pair.now;
        let route = again.route_of(flow, 7).unwrap();
        let request = Message::request((FrameKind::Short, 1), route, (&[2], &[]));
        assert_eq!(again.request(|| now, flow, &request), SendResult::Sent);
        assert!(pair.look(1, Some(0)).is_empty());
        assert_eq!(pair.sides[1].stack.stats().packets_foreign, 1, "{security}");
        // And a packet for the stack that rank 1 was before.
        let mut stale = old;
        stale[20..24].copy_from_slice(&10_u32.to_le_bytes());
        pair.inject(1, &stale);
        assert!(pair.look(1, Some(0)).is_empty());
        assert_eq!(pair.sides[1].stack.stats().packets_foreign, 2, "{security}");
    }
}

#[test]
fn wherever_the_wire_breaks_a_closing_peer_has_each_message_whole_or_it_comes_back_whole() {
    let bodies: Vec<Vec<u8>> = [60_000, 10_000, 10_000, 3_000]
        .iter()
        .map(|&n| (0..n).map(|i| (i * 13 + n) as u8).collect())
        .collect();
    // A peer that has never heard of this one does not close towards it: then the agents tell.
    for from in 1..75 {
        let mut pair = Pair::new(Security::Crc);
        pair.sides[0].wire.lock().unwrap().lose_from = Some(from);
        let flow = pair.flow(0, false);
        // The first fills the window; of the others one ends where the next begins.
        for (number, body) in (0..).zip(&bodies) {
            assert_eq!(pair.send(flow, &[number], body), SendResult::Sent);
        }
        let [_, mut got] = pair.drain();
        let now = pair.now;
        pair.sides[1].stack.close(now);
        let [back, more] = pair.drain();
        got.extend(more);
        let whole =
            |queued: &clump_wire::OwnedMessage| queued.payload == bodies[given(queued)[0] as usize];
        assert!(got.iter().chain(&back).all(whole), "cut before datagram {from}");
        let mut all = first_words(&got);
        all.extend(first_words(&back));
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3], "cut before datagram {from}: {} arrived", got.len());
    }
}

#[test]
fn a_long_message_that_was_not_even_packed_whole_comes_back_once() {
    let mut pair = Pair::new(Security::Crc);
    let flow = pair.flow(0, false);
    let payload = vec![1; 600_000];
    let mut progress = Progress::default();
    let words = [0, payload.len() as u64, 5];
    assert_eq!(pair.send_long(flow, &words, &payload, &mut progress), SendResult::Full);
    assert!(progress.done > 0);
    pair.drain();
    assert!(pair.sides[0].stack.is_quiet(), "all that was packed has arrived");
    pair.sides[0].stack.lose(1, Reason::PeerLost);
    let [back, _] = pair.drain();
    assert_eq!(back.len(), 1);
    let (kind, reason, words) = original(&back[0]);
    assert_eq!((kind, reason, words[2]), (FrameKind::Long, Reason::PeerLost, 5));
    let words = [0, payload.len() as u64, 5];
    assert_eq!(pair.send_long(flow, &words, &payload, &mut progress), SendResult::Sent);
    assert!(pair.look(0, Some(0)).is_empty(), "it has come back already");
}

#[test]
fn a_long_message_lies_in_the_segment_when_it_is_handled() {
    let mut pair = Pair::new(Security::Aead);
    pair.sides[0].wire.lock().unwrap().lose = vec![1, 4, 5];
    let flow = pair.flow(0, false);
    let payload: Vec<u8> = (0..30_000_u32).map(|i| (i * 11) as u8).collect();
    let words = [4096, payload.len() as u64, 5];
    let mut progress = Progress::default();
    assert_eq!(pair.send_long(flow, &words, &payload, &mut progress), SendResult::Sent);
    let [_, got] = pair.drain();
    assert_eq!((got.len(), &got[0].words[..], got[0].payload.len()), (1, &words[..], 0));
    let mut segment = vec![0; payload.len()];
    let mut bytes = 0;
    for (offset, data) in pair.sides[1].endpoints.deposits.lock().unwrap().iter() {
        let at = *offset as usize - 4096;
        segment[at..at + data.len()].copy_from_slice(data);
        bytes += data.len();
    }
    assert!(segment == payload);
    assert_eq!(bytes, payload.len(), "each byte once");
}

#[test]
fn a_stack_that_has_closed_takes_nothing_more() {
    let mut pair = Pair::new(Security::Crc);
    let flow = pair.flow(0, false);
    assert_eq!(pair.send(flow, &[1], &[]), SendResult::Sent);
    pair.drain();
    pair.sides[1].wire.lock().unwrap().cut = true;
    let now = pair.now;
    pair.sides[1].stack.close(now);
    assert_eq!(pair.send(flow, &[2], &[]), SendResult::Sent);
    let [back, got] = pair.drain();
    assert!(got.is_empty() && back.is_empty() && !pair.sides[1].stack.is_closed());
    pair.sides[1].wire.lock().unwrap().cut = false;
    let now = pair.now;
    pair.sides[1].stack.close(now);
    let [back, got] = pair.drain();
    assert!(got.is_empty() && pair.sides[1].stack.is_closed());
    assert_eq!(first_words(&back), [2]);
}

#[test]
fn a_long_message_whose_sender_is_gone_midway_holds_up_nothing_behind_it() {
    // Depending on which packets are lost, the end may come before the fragments, or before the
    // beginning.
    for lost in 0..6 {
        let mut pair = Pair::new(Security::Crc);
        let flow = pair.flow(0, true);
        pair.sides[0].wire.lock().unwrap().lose = vec![lost];
        let route = Route { from: name(0, 0), to: name(1, 0), tag: 7 };
        let (kind, reply, handler) = (FrameKind::Long, false, 1);
        let (payload, words, now) = (&[5; 4_000][..], &[0, 20_000][..], pair.now);
        let fragment = Message { kind, reply, handler, route, words, payload };
        let (stack, mut progress) = (&mut pair.sides[0].stack, Progress::default());
        let pushed = stack.relay_long(|| now, 1, (&fragment, true), (20_000, 0), &mut progress);
        assert_eq!(pushed, SendResult::Sent);
        stack.abandon_long(|| now, 1, progress);
        assert_eq!(pair.send(flow, &[6], &[]), SendResult::Sent);
        let [back, got] = pair.drain();
        assert_eq!(first_words(&got), [6], "datagram {lost} lost: the next in order is handled");
        assert_eq!(back.len(), 1, "what was begun comes back: {back:?}");
        assert_eq!(back[0].kind, FrameKind::Returned);
        assert!(pair.sides.iter().all(|side| side.stack.memory_bytes() == 0));
    }
}

#[test]
fn however_many_ordered_messages_come_behind_a_gap_none_is_lost() {
    // Six flows, each with all the credit there is, on a path that carries long datagrams of many
    // messages each.
    let mut pair = Pair::with_credit(Security::Crc, 65_507, 1 << 20);
    let flows: Vec<_> = (0..6).map(|from| pair.ordered_from(from)).collect();
    assert_eq!(pair.send(flows[0], &[0], &[]), SendResult::Sent);
    let [_, mut got] = pair.drain();
    let headers = pair.sent(0);
    let headers = headers.iter().map(|copy| clump_wire::Packet::parse(copy).unwrap().header);
    let last = headers.rev().find(|header| header.kind == clump_wire::PacketKind::Data).unwrap();
    pair.sides[0].wire.lock().unwrap().lose_unit = Some(last.unit + 1);
    let mut sent = 1;
    for _ in 0..400 {
        for &flow in &flows {
            while pair.send(flow, &[sent], &[]) == SendResult::Sent {
                sent += 1;
            }
        }
        pair.look(0, None);
        let came = pair.look(1, Some(0));
        // Credit requests need no order.
        let questions = came.iter().filter(|queued| queued.kind == FrameKind::Ask).count();
        assert_eq!(questions, came.len(), "all others stand behind the gap");
        pair.now += 10_000;
    }
    assert!(sent > 1 << 16, "so many come: {sent}");
    pair.sides[0].wire.lock().unwrap().lose_unit = None;
    while got.len() < sent as usize {
        let before = got.len();
        let [_, more] = pair.drain();
        got.extend(more.into_iter().filter(|queued| queued.kind == FrameKind::Short));
        assert!(got.len() > before, "{before} of {sent} have arrived");
    }
    assert_eq!(first_words(&got), (0..sent).collect::<Vec<_>>());
}
