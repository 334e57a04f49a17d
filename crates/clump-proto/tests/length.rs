//! Datagrams that are too long for the path.

use crate::pair;

use clump_proto::Config;
use pair::{MS, Pair, SEC, US};

fn searched(mtu: usize) -> Pair {
    let mut pair = Pair::new(&Config::default(), 1);
    for link in &mut pair.links {
        link.mtu = mtu;
    }
    for _ in 0..100 {
        pair.ends[0].unit_bytes = 1000;
        pair.ends[1].unit_bytes = 1000;
        pair.offer(0, 2);
        pair.offer(1, 2);
        pair.finish(SEC);
        pair.pass(MS);
    }
    pair
}

#[test]
fn the_longest_candidate_that_passes_is_found() {
    for (mtu, found) in [(1300, 1232), (1472, 1472), (8000, 1472), (9000, 8972), (65_507, 65_507)] {
        let pair = searched(mtu);
        for end in &pair.ends {
            assert_eq!(end.channel.datagram_bytes(), found, "path of {mtu}");
            assert!(end.probes <= 10, "{} probes", end.probes);
        }
        let stats = pair.stats(0);
        assert_eq!((stats.losses, stats.loss_cuts), (0, 0), "lost probes are no congestion");
    }
}

#[test]
fn nothing_is_probed_before_the_peer_was_heard_or_without_candidates() {
    let mut pair = Pair::new(&Config::default(), 2);
    assert_eq!(pair.ends[0].channel.poll_probe(pair.now), None);
    let config = Config { datagram_candidates: vec![], ..Config::default() };
    pair = Pair::new(&config, 2);
    pair.offer(0, 10);
    pair.offer(1, 10);
    pair.finish(SEC);
    assert_eq!(pair.ends[0].probes + pair.ends[1].probes, 0);
}

#[test]
fn long_datagrams_that_begin_to_vanish_are_given_up_and_tried_again_later() {
    let mut pair = searched(9000);
    pair.ends[0].unit_bytes = 8900;
    pair.offer(0, 10);
    pair.finish(SEC);
    for link in &mut pair.links {
        link.mtu = 1500;
    }
    pair.offer(0, 5);
    assert!(
        pair.run(10 * SEC, |pair| pair.stats(0).black_holes > 0),
        "long ones vanish, short ones pass: {pair:?}"
    );
    assert_eq!(pair.ends[0].channel.datagram_bytes(), 1232);
    pair.links[0].mtu = 9000;
    pair.links[1].mtu = 9000;
    pair.finish(5 * SEC);
    pair.pass(61 * SEC);
    for _ in 0..10 {
        pair.offer(0, 2);
        pair.finish(SEC);
        pair.pass(MS);
    }
    assert_eq!(pair.ends[0].channel.datagram_bytes(), 8972, "after a minute");
}

#[test]
fn loss_and_absence_are_no_black_holes() {
    let mut pair = searched(9000);
    pair.ends[0].unit_bytes = 8900;
    pair.links[0].loss = 100;
    pair.links[1].loss = 100;
    pair.offer(0, 3000);
    pair.finish(60 * SEC);
    assert_eq!(pair.stats(0).black_holes, 0, "{:?}", pair.stats(0));
    pair.links[0].loss = 0;
    pair.links[1].loss = 0;
    pair.leave(1, 5 * SEC);
    pair.offer(0, 10);
    pair.finish(60 * SEC);
    assert_eq!(pair.stats(0).black_holes, 0, "a peer that computes takes them in the end");
}

#[test]
fn what_the_system_refuses_is_believed_at_once() {
    let mut pair = searched(9000);
    let now = pair.now;
    pair.ends[0].channel.handle_too_big(now, 8972, None);
    assert_eq!(pair.ends[0].channel.datagram_bytes(), 1232);
    let mut pair = Pair::new(&Config::default(), 3);
    pair.offer(0, 1);
    pair.finish(SEC);
    pair.pass(100 * US);
    let now = pair.now;
    pair.ends[0].channel.handle_too_big(now, 1472, None);
    assert_eq!(pair.ends[0].channel.poll_probe(now), None, "not again for a while");
}

/// Lengths of IP packets beyond which paths lose them, and the candidate that passes then.
const NARROW: [(usize, usize); 5] =
    [(1499, 1452), (1480, 1452), (1460, 1432), (1400, 1372), (1280, 1232)];

/// Creates a pair that begins with 1472 bytes, with the limit of its links and their delay.
fn narrow(mtu: usize, delay: u64) -> Pair {
    let config = Config { first_datagram_bytes: 1472, ..Config::default() };
    let mut pair = Pair::new(&config, 5);
    for link in &mut pair.links {
        (link.mtu, link.delay) = (mtu, delay);
    }
    pair.ends[0].unit_bytes = 1472;
    pair
}

/// Sends units of 1472 bytes until they are found too long, and from then on as many bytes as pass;
/// returns the time until units arrived again.
fn survives(pair: &mut Pair, units: u64) -> u64 {
    let from = pair.now;
    pair.offer(0, units);
    assert!(pair.run(SEC, |pair| pair.stats(0).black_holes == 1), "{pair:?}");
    pair.ends[0].unit_bytes = pair.ends[0].channel.datagram_bytes();
    assert_eq!(pair.ends[0].unit_bytes, 1232, "what everything falls back to");
    // What was lost twice comes last, and buffers are given back in order: over a long path much
    // later.
    let before = pair.ends[1].delivered.len();
    assert!(pair.run(SEC, |pair| pair.ends[1].delivered.len() > before), "{pair:?}");
    let took = pair.now - from;
    pair.finish(10 * SEC);
    took
}

#[test]
fn a_path_that_loses_long_packets_is_found_out_within_a_second() {
    for (ip, found) in NARROW {
        for delay in [10 * US, MS, 40 * MS] {
            let mut pair = narrow(usize::MAX, delay);
            pair.offer(0, 300);
            pair.finish(10 * SEC);
            assert_eq!(pair.stats(0).black_holes, 0);
            pair.links[0].mtu = ip - 28;
            let took = survives(&mut pair, 300);
            assert!(took < SEC, "{ip} bytes, {delay} ns: {took} ns");
            for _ in 0..20 {
                pair.offer(0, 2);
                pair.finish(SEC);
                pair.pass(100 * MS);
            }
            assert_eq!(pair.ends[0].channel.datagram_bytes(), found, "what passes is searched");
            assert_eq!(pair.ends[0].channel.narrowed(pair.now), Some(found));
            assert_eq!(pair.ends[1].channel.narrowed(pair.now), None, "the way back is as it was");
            pair.links[0].mtu = usize::MAX;
            pair.pass(61 * SEC);
            for _ in 0..20 {
                pair.offer(0, 2);
                pair.finish(SEC);
                pair.pass(100 * MS);
            }
            assert!(pair.ends[0].channel.datagram_bytes() >= 1472, "it may get wider again");
            assert_eq!(pair.ends[0].channel.narrowed(pair.now), None);
        }
    }
}

#[test]
fn a_path_that_is_narrow_from_the_start_is_found_out_by_the_first_units() {
    for (ip, found) in NARROW {
        let mut pair = narrow(ip - 28, 10 * US);
        let took = survives(&mut pair, 50);
        assert!(took < SEC, "{ip} bytes: {took} ns");
        pair.ends[0].unit_bytes = 1000;
        pair.offer(0, 10);
        pair.pass(100 * MS);
        assert_eq!(pair.ends[0].channel.datagram_bytes(), found, "{ip}");
    }
}

#[test]
fn one_unit_sent_again_ends_a_silence_and_an_expired_one() {
    let mut pair = narrow(usize::MAX, 10 * US);
    pair.links[0].drop_next(9);
    pair.offer(0, 2);
    let channel = &mut pair.ends[0].channel;
    let now = channel.next_timeout().unwrap();
    // The silence is over, and before anything is sent the system refuses a packet.
    channel.handle_timeout(now);
    channel.handle_too_big(now, 1472, None);
    let before = pair.stats(0).retransmits;
    pair.now = now;
    pair.service(0);
    assert_eq!(pair.stats(0).retransmits, before + 1, "and it is not due again at once");
}

#[test]
fn an_interface_that_carries_less_than_every_path_should_is_believed() {
    let mut pair = narrow(usize::MAX, 10 * US);
    let now = pair.now;
    let channel = &mut pair.ends[0].channel;
    channel.handle_too_big(now, 1472, Some(1252));
    assert_eq!(channel.datagram_bytes(), 1232, "the longest known one below");
    channel.handle_too_big(now, 1232, None);
    assert_eq!(channel.datagram_bytes(), 1232, "nobody says what is carried");
    channel.handle_too_big(now, 1232, Some(548));
    assert_eq!(channel.datagram_bytes(), 548);
}
