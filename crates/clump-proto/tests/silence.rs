//! Peers that do not answer: they compute, have closed their window, or are gone.

use crate::pair;

use clump_proto::{Channel, Config, Congestion, SackBuf, SocketWait};
use clump_wire::{Header, PacketKind};
use pair::{MS, Pair, SEC, US};

fn warm(config: &Config) -> Pair {
    let mut pair = Pair::new(config, 1);
    for _ in 0..20 {
        pair.offer(0, 50);
        pair.finish(SEC);
        pair.pass(50 * US);
    }
    pair
}

#[test]
fn a_peer_that_computes_costs_a_few_packets_and_no_window() {
    for (pause, most) in [(100 * MS, 15), (10 * SEC, 30)] {
        let mut pair = warm(&Config::default());
        let before = pair.stats(0);
        pair.leave(1, pause);
        pair.offer(0, 2000);
        pair.finish(20 * SEC);
        let after = pair.stats(0);
        let again = after.retransmits - before.retransmits;
        assert!(again <= most, "{again} for {pause} ns");
        assert!(after.timeouts > before.timeouts && after.spurious > 0, "{after:?}");
        assert_eq!((after.losses, after.loss_cuts, after.delay_cuts), (0, 0, 0), "{after:?}");
        assert!(after.window >= before.window, "{after:?}");
        pair.pass(20 * US);
        let from = pair.now;
        pair.offer(0, 2000);
        pair.finish(SEC);
        assert!(pair.now - from < 2 * MS, "as fast as before: {} ns", pair.now - from);
    }
}

#[test]
fn a_tail_lost_soon_after_a_pause_is_found_soon() {
    let mut pair = warm(&Config::default());
    pair.leave(1, 100 * MS);
    pair.offer(0, 10);
    pair.finish(SEC);
    for _ in 0..40 {
        pair.offer(0, 2);
        pair.finish(SEC);
    }
    pair.links[0].drop_next(1);
    let from = pair.now;
    pair.offer(0, 1);
    pair.finish(SEC);
    assert!(pair.now - from < 150 * US, "{} ns {:?}", pair.now - from, pair);
}

#[test]
fn a_peer_that_drops_what_it_has_no_room_for_gets_it_again() {
    let mut pair = warm(&Config::default());
    pair.ends[1].socket_bytes = 100_000;
    pair.leave(1, 50 * MS);
    pair.offer(0, 1000);
    pair.finish(SEC);
    assert!(pair.stats(0).losses > 0);
}

#[test]
fn a_closed_window_is_asked_about_and_its_opening_is_told() {
    let mut pair = warm(&Config::default());
    pair.ends[1].channel.set_receive_window(0);
    pair.offer(0, 1);
    pair.pass(100 * US);
    let delivered = pair.ends[1].delivered.len();
    pair.offer(0, 100);
    pair.pass(10 * SEC);
    assert_eq!(pair.ends[1].delivered.len(), delivered, "closed is closed");
    let asks = pair.stats(0).asks;
    assert!((8..30).contains(&asks), "{asks} questions in 10 s");
    pair.ends[1].channel.set_receive_window(200_000);
    pair.service(1);
    let from = pair.now;
    pair.finish(SEC);
    assert!(pair.now - from < 500 * US, "told, not asked for: {} ns", pair.now - from);
}

#[test]
fn an_opening_that_is_not_heard_is_found_by_asking() {
    let mut pair = warm(&Config::default());
    pair.ends[1].channel.set_receive_window(0);
    pair.offer(0, 1);
    pair.pass(100 * US);
    pair.offer(0, 100);
    pair.links[1].drop_next(3);
    pair.ends[1].channel.set_receive_window(200_000);
    pair.service(1);
    pair.finish(SEC);
    assert!(pair.stats(0).asks > 0);
}

#[test]
fn the_peers_window_is_kept_to() {
    let config = Config { receive_window_bytes: 20_000, ..Config::default() };
    let mut pair = Pair::new(&config, 3);
    pair.offer(0, 500);
    let mut most = 0;
    pair.run(SEC, |pair| {
        most = most.max(pair.stats(0).in_flight);
        pair.is_done()
    });
    assert!(pair.is_done() && most <= 20_000 && most > 15_000, "{most}");
}

#[test]
fn a_window_smaller_than_any_unit_lets_one_at_a_time_through() {
    let config = Config { receive_window_bytes: 10, ..Config::default() };
    let mut pair = Pair::new(&config, 4);
    pair.offer(0, 20);
    pair.finish(SEC);
    let config = Config { congestion: Congestion::Static(100), ..Config::default() };
    let mut pair = Pair::new(&config, 5);
    pair.offer(0, 20);
    pair.finish(SEC);
}

#[test]
fn silence_is_measured_and_ended_by_asking() {
    let config = Config { keepalive: Some(100 * MS), ..Config::default() };
    let mut pair = warm(&config);
    pair.pass(10 * SEC);
    assert!(pair.stats(0).asks >= 40 && pair.stats(0).asks < 200, "{:?}", pair.stats(0));
    assert!(pair.ends[0].channel.silent_for(pair.now) <= 101 * MS);
    pair.links[1].cut = true;
    pair.pass(10 * SEC);
    assert!(pair.ends[0].channel.silent_for(pair.now) >= 9 * SEC, "it is for others to decide");
}

#[test]
fn who_had_nothing_to_answer_is_not_silent() {
    let mut pair = warm(&Config::default());
    pair.pass(3600 * SEC);
    assert_eq!(pair.ends[0].channel.unanswered_for(pair.now), None);
    pair.links[1].cut = true;
    pair.offer(0, 1);
    pair.pass(SEC);
    let silent_ns = pair.ends[0].channel.unanswered_for(pair.now).unwrap();
    assert!((SEC / 2..=SEC).contains(&silent_ns), "{silent_ns}: it was asked a second ago");
    pair.links[1].cut = false;
    pair.finish(60 * SEC);
    assert_eq!(pair.ends[0].channel.unanswered_for(pair.now), None);
}

#[test]
fn nobody_asks_for_nothing() {
    let mut pair = warm(&Config::default());
    pair.pass(SEC);
    let packets = pair.ends[0].packets + pair.ends[1].packets;
    pair.pass(3600 * SEC);
    assert_eq!(pair.ends[0].packets + pair.ends[1].packets, packets);
    assert!(pair.ends.iter().all(|end| end.channel.next_timeout().is_none()));
}

#[test]
fn an_acknowledgement_waits_for_company_but_not_long() {
    let mut pair = warm(&Config::default());
    pair.pass(MS);
    let from = pair.now;
    let pure = pair.ends[1].pure;
    pair.offer(0, 1);
    pair.finish(SEC);
    assert_eq!(pair.now - from, (20 + 25) * US, "there, 25 us, and back");
    assert_eq!(pair.ends[1].pure, pure + 1);
    // It rides along with an answer.
    pair.offer(0, 1);
    let delivered = pair.ends[1].delivered.len();
    assert!(pair.run(SEC, |pair| pair.ends[1].delivered.len() > delivered));
    pair.offer(1, 1);
    assert!(!pair.ends[1].channel.owes_ack(pair.now));
    pair.finish(SEC);
    assert_eq!(pair.ends[1].pure, pure + 1, "none of its own");
}

#[test]
fn what_packets_wait_in_sockets_is_no_delay_of_the_path() {
    let config = Config::default();
    let (mut here, mut there) =
        (Channel::<()>::new(&config, SEC), Channel::<()>::new(&config, SEC));
    let (mut now, mut sack) = (SEC, SackBuf::new());
    for _ in 0..100 {
        // 10 us each way; the packet waits 5 ms there and its answer 1 ms here.
        let mut packet = Header { unit: here.launch(now, 1400, ()), ..Header::default() };
        here.stamp(now, &mut packet, &mut sack);
        now += 10 * US + 5 * MS;
        there.handle_late(now, SocketWait::known(5 * MS), &packet, sack.words(), 1400, false);
        let mut answer = Header { kind: PacketKind::Ack, ..Header::default() };
        there.stamp(now, &mut answer, &mut sack);
        now += 10 * US + MS;
        here.handle_late(now, SocketWait::known(MS), &answer, sack.words(), 64, false);
        assert!(here.is_quiet() && here.poll_acked().is_some());
    }
    let stats = here.stats();
    assert!(stats.min_rtt.abs_diff(20 * US) < 200, "the path alone: {stats:?}");
    assert!(stats.srtt.abs_diff(20 * US + MS) < 20 * US, "timers wait for answers: {stats:?}");
    assert_eq!(stats.delay_cuts, 0);
}

#[test]
fn a_peer_that_often_waits_for_a_processor_costs_few_packets() {
    let mut pair = warm(&Config::default());
    let before = pair.stats(0);
    for unit in 0..40_000 {
        if unit % 50 == 0 {
            pair.leave(1, 3 * MS);
        }
        pair.offer(0, 1);
        pair.finish(SEC);
    }
    let after = pair.stats(0);
    let again = after.retransmits - before.retransmits;
    assert!(again < 40, "{again} of 40 000, and nothing was lost: {after:?}");
    assert_eq!(after.losses, 0);
    // Now it does not wait any more, and units are lost.
    for _ in 0..20_000 {
        pair.offer(0, 1);
        pair.finish(SEC);
    }
    let times = [(); 3].map(|()| {
        pair.links[0].drop_next(1);
        let from = pair.now;
        pair.offer(0, 1);
        pair.finish(SEC);
        pair.now - from
    });
    assert!(times[0] < 17 * MS && times[2] < 150 * US, "{times:?}");
}

#[test]
fn who_was_away_looks_for_an_answer_before_it_sends_again() {
    let mut pair = warm(&Config::default());
    pair.offer(0, 1);
    let (looked, now) = (pair.now, pair.now + 10 * MS);
    let channel = &mut pair.ends[0].channel;
    channel.handle_timeout_unheard(now, looked);
    assert_eq!(channel.poll_lost(now), None);
    assert!(channel.next_timeout().is_some_and(|at| at <= now), "it is still due");
    channel.handle_timeout(now);
    assert!(channel.poll_lost(now).is_some());
    assert_eq!(channel.stats().timeouts, 1);
}
