//! Paths that have a length: round trips of milliseconds, without loss, and with some.

use crate::pair;

use clump_proto::{Channel, Config, SackBuf, SocketWait};
use clump_wire::{Header, PacketKind};
use pair::{MS, Pair, SEC, US};

/// Bytes per millisecond of a 10 Gbit/s link.
const TEN_GBIT: u64 = 1_250_000;

/// Returns two ends `delay` apart, the first of which sends over a link of 10 Gbit/s.
fn apart(delay: u64) -> Pair {
    let mut pair = Pair::new(&Config::default(), 3);
    pair.links.iter_mut().for_each(|link| link.delay = delay);
    pair.links[0].rate = TEN_GBIT;
    pair.links[0].queue = 1 << 20;
    pair
}

/// Sends for 12 round trips, and returns the bytes per millisecond of the next 4.
fn rate(pair: &mut Pair) -> u64 {
    let trip = 2 * pair.links[0].delay;
    pair.offer(0, 10_000_000);
    pair.pass(12 * trip);
    let before = pair.ends[1].delivered.len() as u64;
    pair.pass(4 * trip);
    (pair.ends[1].delivered.len() as u64 - before) * 1400 * MS / (4 * trip)
}

/// The cause for which windows fell to their least on every path longer than a poll: where a driver
/// has no timestamps, the time since the poll before was taken for time in the socket. The least
/// round trip became next to nothing, and every other one a queue.
#[test]
fn a_wait_that_may_have_been_none_makes_no_path_shorter_and_no_queue_longer() {
    let config = Config::default();
    let (mut here, mut there) =
        (Channel::<()>::new(&config, SEC), Channel::<()>::new(&config, SEC));
    let (mut now, mut sack) = (SEC, SackBuf::new());
    for at in 0..50 {
        // Both sides sleep until a packet arrives, up to 2 ms after their last poll.
        let unseen = SocketWait::within((at % 4) * 500 * US);
        let mut packet = Header { unit: here.launch(now, 1400, ()), ..Header::default() };
        here.stamp(now, &mut packet, &mut sack);
        now += MS;
        there.handle_late(now, unseen, &packet, sack.words(), 1400, false);
        let mut answer = Header { kind: PacketKind::Ack, ..Header::default() };
        there.stamp(now, &mut answer, &mut sack);
        now += MS;
        here.handle_late(now, unseen, &answer, sack.words(), 64, false);
        assert!(here.is_quiet() && here.poll_acked().is_some());
    }
    let stats = here.stats();
    assert!(stats.min_rtt.abs_diff(2 * MS) < 200, "the path is not shorter: {stats:?}");
    assert_eq!((stats.delay_cuts, stats.window), (0, 64 << 10), "{stats:?}");
}

#[test]
fn a_path_of_1_and_of_5_ms_is_filled() {
    for delay in [MS / 2, 5 * MS / 2] {
        let mut pair = apart(delay);
        let rate = rate(&mut pair);
        let stats = pair.stats(0);
        assert!(rate > TEN_GBIT * 8 / 10, "{rate} bytes/ms over {delay} ns: {stats:?}");
        assert!(stats.window as u64 > TEN_GBIT * 2 * delay / MS * 8 / 10, "{stats:?}");
    }
}

#[test]
fn more_units_than_a_packet_describes_are_repaired_where_some_are_lost() {
    let mut pair = apart(21 * MS / 4);
    pair.links[0].loss = 10;
    let rate = rate(&mut pair);
    let stats = pair.stats(0);
    assert!(stats.in_flight > 8192 * 1400, "more is in flight: {stats:?}");
    assert!(stats.spurious * 20 < stats.losses, "what was lost was lost: {stats:?}");
    assert!(rate > TEN_GBIT / 2, "{rate} bytes/ms: {stats:?}");
    let (acks, units) = (pair.ends[1].pure, pair.ends[1].delivered.len() as u64);
    assert!(acks * 2 < units, "{acks} acknowledgements of {units} units");
    pair.links[0].loss = 0;
    pair.ends[0].waiting = 0;
    pair.finish(SEC);
}

#[test]
fn a_first_mebibyte_takes_few_round_trips_and_a_pause_loses_nothing() {
    let mut pair = apart(MS);
    let mebibyte = (1 << 20) / 1400 + 1;
    for most in [7, 3] {
        pair.offer(0, mebibyte);
        let begun = pair.now;
        pair.finish(SEC);
        let trips = (pair.now - begun) as f64 / (2 * MS) as f64;
        assert!(trips <= f64::from(most), "{trips} round trips: {:?}", pair.stats(0));
        pair.pass(SEC);
    }
}

#[test]
fn a_window_leaves_for_a_path_only_what_the_path_holds() {
    let mut short = Pair::new(&Config::default(), 5);
    short.links[0].rate = 10 * TEN_GBIT;
    short.offer(0, 100_000);
    short.pass(50 * MS);
    assert!(short.stats(0).window <= 1 << 20, "sockets and caches hold no more");
    let mut long = apart(2 * MS);
    long.offer(0, 10_000_000);
    long.pass(60 * MS);
    let held = TEN_GBIT * 4;
    assert!(long.stats(0).window as u64 <= 2 * held + (2 << 20), "{:?}", long.stats(0));
}

/// A window that losses made smaller is what the path carries again after some round trips, not
/// after as many as units are missing: here a thousand.
#[test]
fn behind_a_loss_the_window_comes_back_in_few_round_trips() {
    let mut pair = apart(MS);
    rate(&mut pair);
    let filled = pair.stats(0).window;
    pair.links[0].loss = 100;
    pair.pass(4 * MS);
    pair.links[0].loss = 0;
    pair.pass(4 * MS);
    let cut = pair.stats(0);
    assert!(cut.window < filled * 15 / 16, "it was cut from {filled}: {cut:?}");
    pair.pass(20 * MS);
    let stats = pair.stats(0);
    assert!(stats.window >= filled * 9 / 10, "{filled} bytes fill the path: {stats:?}");
}
