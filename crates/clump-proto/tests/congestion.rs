//! Paths that are narrower than the sender: delay, marks, policers, many senders.

use crate::pair;

use clump_proto::{Backlog, Channel, Config, Congestion, Content};
use clump_wire::{Header, PacketKind};
use pair::{MS, Pair, SEC, US};

/// Bytes per millisecond of a 10 Gbit/s link.
const TEN_GBIT: u64 = 1_250_000;

fn on_link(config: &Config, change: impl Fn(&mut pair::Link)) -> Pair {
    let mut pair = Pair::new(config, 7);
    pair.links[0].rate = TEN_GBIT;
    change(&mut pair.links[0]);
    pair
}

/// Sends for `time`; returns the bytes per millisecond that arrived, and the mean window of the
/// second half.
fn measure(pair: &mut Pair, time: u64) -> (u64, usize) {
    pair.offer(0, 100_000_000);
    pair.pass(time / 2);
    let (before, from) = (pair.ends[1].delivered.len() as u64, pair.now);
    let mut windows = Vec::new();
    for _ in 0..200 {
        pair.pass(time / 400);
        windows.push(pair.stats(0).window);
    }
    let bytes = (pair.ends[1].delivered.len() as u64 - before) * 1400;
    let mean = windows.iter().sum::<usize>() / windows.len();
    println!("{} bytes/ms, window {mean}, {:?}", bytes * MS / (pair.now - from), pair.stats(0));
    (bytes * MS / (pair.now - from), mean)
}

#[test]
fn on_a_clean_path_the_window_grows_to_its_max_and_stays() {
    let mut pair = Pair::new(&Config::default(), 1);
    pair.offer(0, 20_000);
    pair.finish(SEC);
    assert_eq!(pair.stats(0).window, 1 << 20);
    pair.pass(SEC);
    pair.offer(0, 20_000);
    pair.finish(SEC);
    let stats = pair.stats(0);
    assert_eq!(stats.window, 1 << 20);
    assert_eq!((stats.delay_cuts, stats.mark_cuts, stats.loss_cuts), (0, 0, 0));
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut pair = Pair::new(&Config::default(), 2);
    for _ in 0..1000 {
        pair.offer(0, 2);
        pair.finish(SEC);
    }
    assert_eq!(pair.stats(0).window, 64 << 10);
}

#[test]
fn a_queue_stays_near_the_target() {
    let config = Config { delay_target: 100 * US, ..Config::default() };
    let mut pair = on_link(&config, |_| ());
    let (rate, window) = measure(&mut pair, 200 * MS);
    assert!(rate >= TEN_GBIT * 9 / 10, "{rate} bytes/ms");
    // Capacity of the path at 100 us of queue, 20 us of path: 150 kB.
    assert!((60_000..250_000).contains(&window), "{window} bytes");
    assert!(pair.stats(0).delay_cuts > 0 && pair.stats(0).losses == 0, "{:?}", pair.stats(0));
}

#[test]
fn marks_keep_the_queue_shorter_than_delay_would() {
    let mut pair = on_link(&Config::default(), |link| link.mark_from = 30_000);
    let (rate, window) = measure(&mut pair, 200 * MS);
    assert!(rate >= TEN_GBIT * 9 / 10, "{rate} bytes/ms");
    assert!((25_000..110_000).contains(&window), "{window} bytes");
    assert!(pair.stats(0).mark_cuts > 0 && pair.stats(1).marked > 0);
}

#[test]
fn a_short_queue_that_drops_is_not_flooded() {
    // 40 kB is 32 us: loss comes before delay is noticed.
    let mut pair = on_link(&Config::default(), |link| link.queue = 40_000);
    let (rate, _) = measure(&mut pair, 200 * MS);
    let stats = pair.stats(0);
    assert!(rate >= TEN_GBIT * 8 / 10, "{rate} bytes/ms");
    assert!(stats.loss_cuts > 0, "{stats:?}");
    assert!(stats.retransmits * 8 < stats.units_sent, "{stats:?}");
}

/// Returns the bytes that are sent in one moment after a pause.
fn burst(pair: &mut Pair) -> usize {
    pair.ends[0].waiting = 0;
    assert!(pair.run(SEC, Pair::is_done));
    pair.pass(5 * MS);
    let (now, channel) = (pair.now, &mut pair.ends[0].channel);
    let mut bytes = 0;
    while channel.room(now) >= 1400 {
        channel.launch(now, 1400, ());
        bytes += 1400;
    }
    bytes
}

#[test]
fn bursts_are_paced_after_loss_and_not_before() {
    let mut pair = on_link(&Config::default(), |_| ());
    let window = pair.stats(0).window;
    assert!(burst(&mut pair) + 1400 > window, "nothing speaks against a whole window at once");
    let mut pair = on_link(&Config::default(), |link| link.queue = 40_000);
    measure(&mut pair, 20 * MS);
    let (burst, window) = (burst(&mut pair), pair.stats(0).window);
    assert!(burst > 0 && burst <= window / 4 + 1400, "{burst} of {window}");
}

#[test]
fn a_static_window_stays_whatever_happens() {
    let config = Config { congestion: Congestion::Static(50_000), ..Config::default() };
    let mut pair = on_link(&config, |link| {
        link.mark_from = 10_000;
        link.loss = 20;
    });
    pair.links[1].loss = 20;
    measure(&mut pair, 50 * MS);
    let stats = pair.stats(0);
    assert_eq!(stats.window, 50_000);
    assert_eq!((stats.delay_cuts, stats.mark_cuts, stats.loss_cuts), (0, 0, 0));
}

#[test]
fn a_path_that_becomes_slow_and_fast_again_is_followed() {
    let mut pair = on_link(&Config::default(), |_| ());
    measure(&mut pair, 50 * MS);
    pair.links[0].rate = TEN_GBIT / 20;
    let (rate, window) = measure(&mut pair, 400 * MS);
    assert!(rate >= TEN_GBIT / 20 * 8 / 10 && window < 64_000, "{rate} bytes/ms, {window}");
    pair.links[0].rate = TEN_GBIT;
    let (rate, _) = measure(&mut pair, 400 * MS);
    assert!(rate >= TEN_GBIT * 8 / 10, "{rate} bytes/ms");
}

/// Returns the bytes of units that a channel sends at once, with as many waiting as it takes, and
/// the length of one; `control`: each is preceded by one of control messages.
fn flood(config: &Config, control: Option<usize>) -> (usize, usize) {
    flood_of(&mut Channel::new(config, SEC), control)
}

fn flood_of(channel: &mut Channel<()>, control: Option<usize>) -> (usize, usize) {
    let bytes = 1400;
    loop {
        let backlog = Backlog { control, data: Some(bytes), ends_buffer: false };
        match channel.next(SEC, &backlog) {
            Some(next) if matches!(next.content, Content::Control | Content::Data) => {
                channel.launch(SEC, next.bytes, ());
            }
            _ => return (channel.stats().in_flight, bytes),
        }
        assert!(channel.stats().in_flight <= 2 << 20, "the sender never stops");
        channel.check_invariants();
    }
}

#[test]
fn no_more_is_in_flight_than_the_least_window_allows() {
    for window in [30_000, 64 << 10, 300_000] {
        let path = Config { initial_window_bytes: window, ..Config::default() };
        let peer = Config { receive_window_bytes: window as u32, ..Config::default() };
        let peer = Config { initial_window_bytes: 1 << 20, ..peer };
        let fixed = Config { congestion: Congestion::Static(window), ..Config::default() };
        for config in [&path, &peer, &fixed] {
            let (sent, unit) = flood(config, None);
            assert!(sent + unit > window && sent < window + unit, "{sent} of {window}");
        }
        // Control messages may go a little beyond a window that is not fixed.
        let (sent, unit) = flood(&path, Some(200));
        let least = window.min(128 << 10);
        assert!(sent > least && sent < window + (16 << 10) + unit, "{sent} of {window}");
        assert!(flood(&fixed, Some(200)).0 < window + unit, "never beyond a fixed one");
    }
    let mut channel = Channel::new(&Config::default(), SEC);
    let closed = Header { kind: PacketKind::Ack, number: 1, window: 0, ..Header::default() };
    channel.handle_packet(SEC, &closed, &[], 64, false);
    assert_eq!(flood_of(&mut channel, Some(200)).0, 0, "nothing into a closed window");
}
