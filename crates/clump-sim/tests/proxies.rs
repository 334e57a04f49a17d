//! The experiment with proxies against queueing theory, which is independent of it, and against
//! itself.
#![allow(clippy::unwrap_used, reason = "tests give up where something fails")]

use crate::evidence;
use clump_sim::proxies::{Costs, Dispatch, ProxyCell, Setting, measure};
use clump_test_tier::first_of;

/// One rank streams to one, and a message costs the proxy `take`, and `byte` per byte of payload,
/// nothing else: a queue with one server.
fn one_server(utilisation: f64, (small, large): (usize, usize), byte: f64) -> (ProxyCell, f64) {
    let base = evidence::setting("proxies-queue");
    let costs = Costs { byte, ..base.costs };
    let service = |bytes: usize| costs.take + byte * bytes as f64;
    let mean = f64::midpoint(service(small), service(large));
    let think = mean / utilisation;
    let setting =
        Setting { think: think as u64, payload: small, other_payload: large, costs, ..base };
    let square = f64::midpoint(service(small).powi(2), service(large).powi(2));
    // Pollaczek and Khinchine: M/G/1; with one service time M/D/1.
    let waiting = square / think / (2.0 * (1.0 - mean / think));
    (measure(&setting).unwrap(), waiting / 1e3)
}

#[test]
fn a_message_waits_in_a_proxy_as_long_as_queueing_theory_says() {
    for &utilisation in first_of(1, &[0.6, 0.3, 0.8]) {
        for (payloads, byte) in [((0, 0), 0.0), ((0, 1_000), 2.0)] {
            let (cell, expected) = one_server(utilisation, payloads, byte);
            let source = cell.stage_us("source");
            let error = source / expected - 1.0;
            let what = format!("{utilisation} {payloads:?}: {source} us instead of {expected}");
            assert!(error.abs() < 0.06, "{what}");
            // The other proxy only delivers: that costs something for each byte.
            let mean = (payloads.0 + payloads.1) as f64 / 2.0 * byte;
            let expected = utilisation * (1.0 + mean / (1_000.0 + mean));
            let busy = 2.0 * cell.utilisation;
            assert!((busy / expected - 1.0).abs() < 0.05, "{what}, busy {busy}, not {expected}");
            assert!(cell.obeys_little(), "{:?} {}", cell.little, cell.little_end_to_end);
        }
    }
}

#[test]
fn more_proxies_shorten_queues_and_min_loaded_spreads_evenly() {
    let cell = |proxies, dispatch| {
        measure(&Setting { proxies, dispatch, ..evidence::setting("proxies-spread") }).unwrap()
    };
    let one = cell(1, Dispatch::Fixed);
    let four = cell(4, Dispatch::RoundRobin);
    assert!(four.message_us < one.message_us && four.slowdown < one.slowdown);
    assert!(four.utilisation < one.utilisation);
    let policies = [Dispatch::LeastLoaded, Dispatch::RoundRobin, Dispatch::Fixed];
    for &dispatch in first_of(1, &policies) {
        let cell = cell(2, dispatch);
        assert!(cell.imbalance < 1.2, "{dispatch:?} {}", cell.imbalance);
        assert!(cell.obeys_little(), "{:?} {}", cell.little, cell.little_end_to_end);
    }
}

#[test]
fn a_seed_says_everything() {
    let setting = Setting { operations: 300, ..Setting::default() };
    let run = || format!("{:?}", measure(&setting).unwrap());
    assert_eq!(run(), run());
}

/// Two ranks stream as fast as they can over a slow link to two that at first do not poll:
/// everything that has a limit reaches it, keeps to it, and all messages arrive in the end.
#[test]
fn bounds_of_lanes_channels_and_endpoints_are_reached_and_hold() {
    for &(payload, other_payload) in first_of(1, &[(100, 4_000), (0, 0), (8_000, 8_000)]) {
        let setting = Setting {
            payload,
            other_payload,
            operations: 6_000_000 / (300 + (payload + other_payload) as u64 / 2),
            ..evidence::setting("proxies-full")
        };
        let cell = measure(&setting).unwrap();
        let what = format!("{payload}, {other_payload}: {:?}", cell.bounds);
        assert_eq!(cell.messages, 2 * setting.operations, "{what}");
        assert!(cell.bounds.ranks_refused > 0 && cell.bounds.endpoint_full > 0, "{what}");
        assert!(payload + other_payload == 0 || cell.bounds.channel_full > 0, "{what}");
        // A proxy that has to wait for its channel sleeps meanwhile, and does not poll again and
        // again.
        assert!(cell.bounds.channel_full < 100 * cell.messages, "{what}");
        // 256 KiB and a message wait in a channel, and no more than a window of 1 MiB is in flight.
        assert!(cell.bounds.stack_bytes <= (256 + 1024 + 64) << 10, "{what}");
        assert!(cell.bounds.stack_bytes > 128 << 10, "{what}");
        // Bytes that two ranks may leave unconsumed, 1 MiB each, less what fills the lanes.
        let cost = 64 + (payload + other_payload) / 2;
        assert!(cell.bounds.held <= (2 << 20) / cost * 11 / 10, "{what}");
    }
}

/// Proxies take 313 MB/s on a short path; the credit of a flow there, 1 MiB, is 105 MB/s on one of
/// 10 ms.
#[test]
fn credit_by_proxies_grows_with_the_path() {
    let setting = evidence::setting("proxies-far");
    let cell = measure(&setting).unwrap();
    assert_eq!(cell.messages, setting.operations);
    let goodput = (cell.messages * setting.payload as u64) as f64 / (cell.elapsed_ms / 1e3);
    assert!(goodput > 250e6, "{} MB/s: {:?}", goodput / 1e6, cell.bounds);
}
