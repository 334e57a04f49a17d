use super::*;

const MS: u64 = 1_000_000;
/// A packet whose time on a line of 1 Gbit/s is 10 us.
const PACKET: [u8; 1250] = [0; 1250];
const PACKET_NS: u64 = 10_000;

fn line() -> PathShape {
    PathShape {
        rtt_ns: 2 * MS,
        rate: Some(1_000_000_000),
        queue_bytes: 100 * 1250,
        jitter_ns: 0,
        loss_ppm: 0,
        reorder_ppm: 0,
        pause: None,
        mtu: 1500,
    }
}

/// Returns the arrivals at node 1 of packets sent at these times, with the time of each.
fn arrivals(shape: PathShape, sent: impl IntoIterator<Item = u64>) -> (Vec<u64>, PathCounts) {
    let mut relay = PathRelay::new(shape, 2, 1);
    let mut all = Vec::new();
    for now in sent {
        relay.accept(now, 1, &PACKET);
    }
    while let Some(at) = relay.next_due_ns() {
        let (to, packet) = relay.take_due(at).unwrap();
        assert_eq!((to, packet.len()), (1, PACKET.len()));
        all.push(at);
    }
    assert_eq!(relay.held, 0);
    (all, relay.counts())
}

#[test]
fn a_packet_takes_its_time_on_the_line_and_half_a_round_trip() {
    let (all, counts) = arrivals(line(), [7]);
    assert_eq!(all, [7 + PACKET_NS + MS]);
    assert_eq!((counts.packets, counts.bytes, counts.dropped), (1, 1250, 0));
}

#[test]
fn packets_close_behind_one_that_is_due_come_with_it() {
    let mut relay = PathRelay::new(line(), 2, 1);
    (0..20).for_each(|_| relay.accept(0, 1, &PACKET));
    let first = PACKET_NS + MS;
    assert_eq!(relay.next_due_ns(), Some(first));
    assert!(relay.take_due(first - 1).is_none(), "nothing comes early by itself");
    let together = 1 + MAX_TOGETHER_NS / PACKET_NS;
    for n in 0..together {
        assert!(relay.take_due(first).is_some(), "packet {n}");
    }
    assert!(relay.take_due(first).is_none(), "one that is due much later");
    assert_eq!(relay.counts().late_ns, 0);
    // A path without a length has no packets to hold together.
    let mut relay = PathRelay::new(PathShape { rtt_ns: 0, ..line() }, 2, 1);
    (0..2).for_each(|_| relay.accept(0, 1, &PACKET));
    assert!(relay.take_due(PACKET_NS).is_some() && relay.take_due(PACKET_NS).is_none());
}

#[test]
fn a_row_of_packets_comes_at_the_rate_and_a_full_queue_drops() {
    let (all, counts) = arrivals(line(), (0..150).map(|_| 0));
    let expected: Vec<u64> = (1..=100).map(|n| n * PACKET_NS + MS).collect();
    assert_eq!((all, counts.dropped), (expected, 50));
    assert_eq!(counts.longest_queue_ns, 99 * PACKET_NS);
    // As fast as the line: no queue, nothing dropped.
    let (all, counts) = arrivals(line(), (0..1000).map(|n| n * PACKET_NS));
    assert_eq!((all.len(), counts.longest_queue_ns), (1000, 0));
}

#[test]
fn a_queue_shorter_than_a_packet_takes_one_at_a_time() {
    let shape = PathShape { queue_bytes: 1, ..line() };
    let (all, counts) = arrivals(shape, [0, 0, PACKET_NS]);
    assert_eq!((all, counts.dropped), (vec![PACKET_NS + MS, 2 * PACKET_NS + MS], 1));
}

#[test]
fn without_a_rate_only_the_way_takes_time() {
    let (all, counts) = arrivals(PathShape { rate: None, ..line() }, (0..1000).map(|_| 5));
    assert!(all.iter().all(|&at| at == 5 + MS));
    assert_eq!((all.len(), counts.dropped), (1000, 0));
}

#[test]
fn nodes_have_queues_of_their_own() {
    let mut relay = PathRelay::new(line(), 3, 1);
    relay.accept(0, 0, &PACKET);
    relay.accept(0, 2, &PACKET);
    relay.accept(0, 3, &PACKET); // no such node
    let at = PACKET_NS + MS;
    assert_eq!(relay.take_due(at).map(|(to, _)| to), Some(0));
    assert_eq!(relay.take_due(at + 7).map(|(to, _)| to), Some(2));
    assert_eq!(relay.next_due_ns(), None);
    assert_eq!((relay.counts().late_ns, relay.counts().latest_ns), (7, 7));
}

#[test]
fn random_delays_keep_the_order_and_stay_below_their_limit() {
    let shape = PathShape { rate: None, jitter_ns: 1000, ..line() };
    let sent: Vec<u64> = (0..2000).map(|n| n * 100).collect();
    let (all, _) = arrivals(shape, sent.clone());
    let late: Vec<u64> = all.iter().zip(sent).map(|(at, sent)| at - sent - MS).collect();
    assert!(late.iter().all(|&ns| ns <= 1000), "the first that is late holds up those behind it");
    assert!(late.iter().any(|&ns| ns > 500) && late[0] <= 1000);
}

#[test]
fn losses_and_reordering_follow_their_shares_and_the_seed() {
    let shape = PathShape { rate: None, loss_ppm: 100_000, reorder_ppm: 50_000, ..line() };
    let run = |seed| {
        let mut relay = PathRelay::new(shape, 1, seed);
        (0..20_000).for_each(|n| relay.accept(n, 0, &n.to_le_bytes()));
        let order: Vec<_> = std::iter::from_fn(|| relay.take_due(u64::MAX)).collect();
        (order, relay.counts())
    };
    let (order, counts) = run(3);
    assert!((1800..2200).contains(&counts.lost) && (800..1000).contains(&counts.reordered));
    assert_eq!(order.len() as u64, 20_000 - counts.lost);
    assert_ne!(order, {
        let mut sorted = order.clone();
        sorted.sort();
        sorted
    });
    assert_eq!(run(3), (order, counts));
    assert_ne!(run(4).1, counts);
}

#[test]
fn nothing_arrives_during_a_pause() {
    let shape = PathShape { rate: None, pause: Some((2 * MS, 10 * MS)), ..line() };
    let (all, _) = arrivals(shape, (0..30).map(|n| n * MS));
    assert!(all.iter().all(|at| *at < 10 * MS || at % (10 * MS) >= 2 * MS));
    assert_eq!(all.iter().filter(|&&at| at == 12 * MS).count(), 3, "those of the pause, and one");
}

#[test]
fn what_is_held_has_a_limit() {
    let mut relay = PathRelay::new(PathShape { rate: None, ..line() }, 1, 1);
    relay.held = MAX_HELD - 2000;
    relay.accept(0, 0, &PACKET);
    relay.accept(0, 0, &PACKET);
    assert_eq!((relay.counts().dropped, relay.on_their_way.len()), (1, 1));
}

#[test]
fn times_and_bytes_of_a_line_are_inverse() {
    assert_eq!((time_of(1250, 1_000_000_000), bytes_in(10_000, 1_000_000_000)), (10_000, 1250));
    assert_eq!(bytes_in(u64::MAX, u64::MAX), u64::MAX);
}
