//! Stories of datagrams that are too long for the path.

mod pair;

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
            assert!(end.probes <= 6, "{} probes", end.probes);
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
    pair.ends[0].channel.handle_too_big(now, 8972);
    assert_eq!(pair.ends[0].channel.datagram_bytes(), 1232);
    let mut pair = Pair::new(&Config::default(), 3);
    pair.offer(0, 1);
    pair.finish(SEC);
    pair.pass(100 * US);
    let now = pair.now;
    pair.ends[0].channel.handle_too_big(now, 1472);
    assert_eq!(pair.ends[0].channel.poll_probe(now), None, "not again for a while");
}
