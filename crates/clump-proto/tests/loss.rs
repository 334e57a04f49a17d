//! Packets that are lost, duplicated, or late.

use crate::pair;

use clump_proto::Config;
use pair::{MS, Pair, SEC, US};

/// Round trip of the default links.
const ROUND: u64 = 20 * US;

/// Creates a pair that has exchanged enough to know its round trip.
fn warm(seed: u64) -> Pair {
    let mut pair = Pair::new(&Config::default(), seed);
    for _ in 0..50 {
        pair.offer(0, 1);
        pair.finish(SEC);
        pair.offer(1, 1);
        pair.finish(SEC);
    }
    assert_eq!(pair.stats(0).retransmits, 0, "nothing was lost");
    pair
}

#[test]
fn a_clean_path_needs_no_second_transmission_and_few_acknowledgements() {
    let mut pair = Pair::new(&Config::default(), 1);
    pair.offer(0, 10_000);
    pair.finish(SEC);
    let stats = pair.stats(0);
    assert_eq!((stats.retransmits, stats.losses, stats.timeouts), (0, 0, 0));
    assert!(pair.ends[1].pure <= 10_000 / 8, "{} acknowledgements", pair.ends[1].pure);
}

#[test]
fn a_lost_packet_is_found_by_those_that_overtake_it() {
    let mut pair = warm(2);
    pair.links[0].drop_next(1);
    let from = pair.now;
    pair.offer(0, 20);
    pair.finish(SEC);
    let stats = pair.stats(0);
    assert_eq!((stats.losses, stats.retransmits, stats.timeouts), (1, 1, 0));
    assert!(pair.now - from <= 3 * ROUND, "{} ns", pair.now - from);
}

#[test]
fn a_burst_is_healed_at_once_and_not_hole_by_hole() {
    let mut pair = warm(3);
    for hole in 0..8 {
        pair.links[0].drop_next(1);
        pair.offer(0, 1 + hole % 3);
        pair.offer(0, 2);
    }
    let from = pair.now;
    pair.finish(SEC);
    assert_eq!((pair.stats(0).losses, pair.stats(0).retransmits), (8, 8));
    assert!(pair.now - from <= 4 * ROUND, "{} ns", pair.now - from);
}

#[test]
fn a_lost_tail_is_found_by_sending_one_unit_again() {
    for lost in 1..5 {
        let mut pair = warm(4);
        pair.links[0].drop_next(lost);
        pair.offer(0, lost);
        let from = pair.now;
        pair.finish(SEC);
        assert_eq!(pair.stats(0).timeouts, 1, "{lost} lost");
        assert_eq!(pair.stats(0).retransmits, lost);
        // One round trip more for those that the first uncovers.
        let limit = if lost == 1 { 3 * ROUND + 50 * US } else { 4 * ROUND + 50 * US };
        assert!(pair.now - from <= limit, "{lost} lost: {} ns", pair.now - from);
    }
}

#[test]
fn a_lost_unit_that_is_lost_again_is_found_again() {
    let mut pair = warm(5);
    pair.links[0].drop_next(1);
    pair.offer(0, 10);
    assert!(pair.run(SEC, |pair| pair.stats(0).losses == 1));
    pair.finish(SEC);
    pair.links[0].drops.clear();
    pair.links[0].drop_next(3);
    pair.offer(0, 1);
    let from = pair.now;
    pair.finish(SEC);
    assert!(pair.now - from < 3 * MS, "backing off begins small: {} ns", pair.now - from);
}

#[test]
fn duplicates_are_delivered_once_and_each_is_acknowledged() {
    let mut pair = warm(6);
    let before = pair.stats(1).units_received;
    pair.links[0].duplication = 1000;
    pair.offer(0, 100);
    pair.finish(SEC);
    assert_eq!(pair.stats(1).units_received - before, 100);
    assert_eq!(pair.stats(0).retransmits, 0);
    // Lost acknowledgements make real duplicates: units, in packets of other numbers.
    pair.links[1].drop_next(2);
    pair.offer(0, 1);
    pair.finish(SEC);
    assert!(pair.stats(1).duplicates >= 1);
}

#[test]
fn packets_that_overtake_each_other_stop_being_taken_for_lost() {
    let mut pair = warm(7);
    pair.links[0].jitter = 15 * US;
    pair.offer(0, 3000);
    pair.finish(SEC);
    let learnt = pair.stats(0).losses;
    pair.offer(0, 30_000);
    pair.finish(SEC);
    let later = pair.stats(0).losses - learnt;
    assert!(later * 100 < 30_000, "{learnt} losses, then {later}");
    assert!(pair.stats(0).spurious > 0, "it was noticed");
}

#[test]
fn lost_acknowledgements_cost_little() {
    let mut pair = warm(8);
    pair.links[1].loss = 300;
    pair.offer(0, 5000);
    pair.finish(SEC);
    assert!(pair.stats(0).retransmits * 20 < 5000, "{:?}", pair.stats(0));
}

#[test]
fn all_acknowledgements_lost_for_a_while_stops_nothing_for_ever() {
    let mut pair = warm(9);
    pair.links[1].cut = true;
    pair.offer(0, 100);
    pair.pass(3 * SEC);
    assert!(pair.stats(0).timeouts >= 5 && pair.stats(0).timeouts < 30, "{:?}", pair.stats(0));
    pair.links[1].cut = false;
    pair.finish(2 * SEC);
}

#[test]
fn both_directions_at_once_heal_without_room_for_selective_acknowledgements_on_data() {
    let mut pair = warm(10);
    pair.links[0].loss = 20;
    pair.links[1].loss = 20;
    pair.offer(0, 20_000);
    pair.offer(1, 20_000);
    pair.finish(10 * SEC);
    for end in 0..2 {
        let stats = pair.stats(end);
        assert!(stats.retransmits < 20_000 * 3 / 100, "{stats:?}");
    }
}

#[test]
fn a_path_that_is_cut_for_a_minute_goes_on_within_a_second_or_two() {
    let mut pair = warm(11);
    pair.offer(0, 1000);
    pair.links[0].cut = true;
    pair.links[1].cut = true;
    let before = pair.stats(0).retransmits;
    pair.pass(60 * SEC);
    assert!(pair.stats(0).retransmits - before < 100, "it asks once a second in the end");
    pair.links[0].cut = false;
    pair.links[1].cut = false;
    pair.finish(2 * SEC);
}

#[test]
fn goodput_under_loss() {
    let time = |loss: u64| {
        let mut pair = Pair::new(&Config::default(), 12);
        for link in &mut pair.links {
            link.loss = loss;
            link.rate = 1_000_000; // 8 Gbit/s
        }
        let from = pair.now;
        pair.offer(0, 50_000);
        pair.finish(60 * SEC);
        (pair.now - from) as f64
    };
    let lossless = time(0);
    let (one, five) = (lossless / time(10), lossless / time(50));
    println!("{one:.3} of lossless at 1 %, {five:.3} at 5 %");
    assert!(one >= 0.9 && five >= 0.7, "{one:.3} of lossless at 1 %, {five:.3} at 5 %");
}

#[test]
fn times_wrap_and_nothing_happens() {
    // 2^32 ticks of 64 ns.
    let wrap = (1_u64 << 32) * 64;
    let mut pair = Pair::at(&Config::default(), 13, wrap - 2 * MS);
    pair.links[0].loss = 10;
    for _ in 0..40 {
        pair.offer(0, 200);
        pair.finish(SEC);
        pair.pass(100 * US);
    }
    assert!(pair.now > wrap, "it wrapped");
    let stats = pair.stats(0);
    assert!(stats.srtt < 60 * US && stats.min_rtt >= ROUND - 100, "{stats:?}");
    // Again after a pause longer than the lap of the clock.
    pair.pass(400 * SEC);
    pair.offer(0, 200);
    pair.finish(SEC);
    assert!(pair.stats(0).srtt < 60 * US, "{:?}", pair.stats(0));
}
