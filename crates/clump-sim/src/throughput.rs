//! Throughput and delay of the network path, in virtual time: goodput, start, loss, round trips,
//! eight senders to one.
//!
//! Stacks, flow control and credit are those of real ranks. Processors cost what [`station`] says,
//! so the numbers describe protocol and links, and are the same on every machine. Goodput is of at
//! least [`COUNTED_TRIPS`] round trips after the first [`WARM_TRIPS`].

mod bench;
mod cubic;
mod path;
mod pauses;
mod station;
mod tcp;

use crate::kernel::{MILLISECOND, SECOND, Time};
use crate::network::payload_share;
pub use crate::network::{Network, PathPlan};
use crate::plan_file::{NamedPlan, PlanError, WorldPlan};
use bench::Bench;
use clump_wire::frame::FrameKind;
pub use path::{PathReport, path_table, try_path};
use serde::Serialize;
use station::Role;

/// Round trips before goodput is counted.
const WARM_TRIPS: Time = 20;
/// Round trips over which goodput is counted, at least.
const COUNTED_TRIPS: Time = 100;
/// Least time before goodput is counted, and while it is.
const MIN_WARM: Time = 2 * MILLISECOND;
const MIN_COUNTED: Time = 50 * MILLISECOND;
/// Least time over which the shares of several senders are counted.
const MIN_SHARED: Time = SECOND;

/// Returns the networks of `plans/throughput.toml`.
///
/// # Errors
/// The plan is malformed.
pub fn networks() -> Result<Vec<Network>, PlanError> {
    networks_of("throughput", include_str!("../plans/throughput.toml"))
}

fn networks_of(name: &str, text: &str) -> Result<Vec<Network>, PlanError> {
    let plan = NamedPlan::parse(name, text)?;
    let runs = plan.runs(0)?.into_iter().filter_map(|run| match run {
        WorldPlan::Throughput(network) => Some(network),
        _ => None,
    });
    Ok(runs.collect())
}

/// Results on one network.
#[derive(Debug, Clone, Serialize)]
pub struct ThroughputReport {
    /// Name of the network.
    pub network: String,
    /// Payload that its links carry: bytes per second.
    pub capacity_bytes_per_s: f64,
    /// One sender of medium messages, no loss: bytes of payload per second.
    pub goodput_bytes_per_s: f64,
    /// One sender of long messages, no loss: bytes of payload per second.
    pub long_bytes_per_s: f64,
    /// One rank that reads memory of another node without end, no loss: bytes per second.
    pub gets_bytes_per_s: f64,
    /// Round trips of the path until the first MiB of long messages had arrived.
    pub start_round_trips: f64,
    /// Goodput of medium messages at 1 % loss, as a ratio of that without loss.
    pub ratio_at_loss_1: f64,
    /// Goodput of medium messages at 5 % loss, as a ratio of that without loss.
    pub ratio_at_loss_5: f64,
    /// Median, 99th and 99.9th percentile of the round trip of 8 bytes, without loss, in ns.
    pub round_trip_ns: [u64; 3],
    /// Same percentiles at 0.1 % loss.
    pub round_trip_lossy_ns: [u64; 3],
    /// Eight senders to one: goodput of all, as a ratio of one sender's.
    pub incast_ratio: f64,
    /// Minimum and maximum share of one of them, as ratios of an eighth.
    pub incast_shares: [f64; 2],
    /// Fraction of datagrams that the switch lost meanwhile.
    pub incast_lost: f64,
}

/// Measures everything on one network.
///
/// # Errors
/// Fails if the keys cannot be made, or if a run comes to no end.
pub fn measure(network: &Network) -> anyhow::Result<ThroughputReport> {
    let trip = 2 * network.link.delay;
    let (warm, span) = ((WARM_TRIPS * trip).max(MIN_WARM), (COUNTED_TRIPS * trip).max(MIN_COUNTED));
    let stream = |loss: u32, kind: FrameKind| {
        let mut bench = Bench::new(network, loss, 2)?;
        bench.stations[0].role = Role::Stream(kind);
        bench.run(warm, span)?;
        let goodput: f64 = bench.rates(1, span).iter().sum();
        let started = bench.started_at().map_or(f64::INFINITY, |at| at as f64 / trip.max(1) as f64);
        anyhow::Ok((goodput, started))
    };
    let gets_span = span;
    let (lossless, _) = stream(0, FrameKind::Medium)?;
    let (long, started) = stream(0, FrameKind::Long)?;
    let ratio = |loss| anyhow::Ok(stream(loss, FrameKind::Medium)?.0 / lossless);
    let round_trips = |loss: u32| {
        let mut bench = Bench::new(network, loss, 2)?;
        bench.stations[0].role = Role::Ping;
        bench.stations[1].role = Role::Echo;
        bench.run(0, SECOND)?;
        anyhow::Ok(bench.stations[0].percentiles())
    };
    let span = span.max(MIN_SHARED);
    let mut incast = Bench::new(network, 0, 9)?;
    for station in incast.stations.iter_mut().skip(1) {
        (station.role, station.to) = (Role::Stream(FrameKind::Medium), 0);
    }
    incast.run(warm, span)?;
    let rates = incast.rates(0, span);
    let all: f64 = rates.iter().sum();
    let counts = incast.kernel.network().1;
    Ok(ThroughputReport {
        network: network.name.clone(),
        capacity_bytes_per_s: network.port.rate as f64 * payload_share(network.port.mtu),
        goodput_bytes_per_s: lossless,
        long_bytes_per_s: long,
        gets_bytes_per_s: crate::onesided::goodput_of_gets(network, warm, gets_span)?,
        start_round_trips: started,
        ratio_at_loss_1: ratio(10_000)?,
        ratio_at_loss_5: ratio(50_000)?,
        round_trip_ns: round_trips(0)?,
        round_trip_lossy_ns: round_trips(1_000)?,
        incast_ratio: all / lossless,
        incast_shares: least_and_most(&rates),
        incast_lost: counts.overflowed as f64 / counts.sent.max(1) as f64,
    })
}

/// Returns the minimum and maximum of the rates, as ratios of their mean.
fn least_and_most(rates: &[f64]) -> [f64; 2] {
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let least = rates.iter().copied().fold(f64::MAX, f64::min);
    let most = rates.iter().copied().fold(0.0, f64::max);
    [least / mean, most / mean]
}

/// Formats the reports as a table.
pub fn table(reports: &[ThroughputReport]) -> String {
    let mut text = format!(
        "{:22} {:>8} {:>8} {:>8} {:>7} {:>6} {:>6} {:>25} {:>25} {:>6} {:>11} {:>6}\n",
        "network",
        "mediums",
        "longs",
        "gets",
        "start",
        "1 %",
        "5 %",
        "round trip us",
        "at 0.1 % loss",
        "incast",
        "shares",
        "lost"
    );
    text.push_str(&format!(
        "{:22} {:>8} {:>8} {:>8} {:>7} {:>6} {:>6} {:>25} {:>25} {:>6} {:>11} {:>6}\n",
        "",
        "MB/s",
        "MB/s",
        "MB/s",
        "trips",
        "ratio",
        "ratio",
        "50 / 99 / 99.9 %",
        "50 / 99 / 99.9 %",
        "ratio",
        "least, most",
        "%"
    ));
    let three = |ns: [u64; 3]| {
        let [a, b, c] = ns.map(|ns| ns as f64 / 1000.0);
        format!("{a:.1} / {b:.1} / {c:.1}")
    };
    for report in reports {
        let [least, most] = report.incast_shares;
        text.push_str(&format!(
            "{:22} {:>8.0} {:>8.0} {:>8.0} {:>7.1} {:>6.3} {:>6.3} {:>25} {:>25} {:>6.3} {:>11} {:>6.2}\n",
            report.network,
            report.goodput_bytes_per_s / 1e6,
            report.long_bytes_per_s / 1e6,
            report.gets_bytes_per_s / 1e6,
            report.start_round_trips,
            report.ratio_at_loss_1,
            report.ratio_at_loss_5,
            three(report.round_trip_ns),
            three(report.round_trip_lossy_ns),
            report.incast_ratio,
            format!("{least:.2}, {most:.2}"),
            report.incast_lost * 100.0,
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::MICROSECOND;
    use clump_test_tier::first_of;

    #[test]
    fn a_clean_link_is_nearly_filled_and_loss_costs_something() {
        let network = &networks().unwrap()[1];
        let report = measure(network).unwrap();
        assert!(report.goodput_bytes_per_s > 0.8 * network.port.rate as f64, "{report:?}");
        assert!(report.ratio_at_loss_5 < 1.0 && report.ratio_at_loss_1 > 0.5, "{report:?}");
        let [median, ..] = report.round_trip_ns;
        assert!((20 * MICROSECOND..30 * MICROSECOND).contains(&median), "{report:?}");
    }

    /// Of the link's rate 0.905 is payload in datagrams of 1472 bytes.
    #[test]
    fn a_path_of_2_ms_is_as_good_as_one_of_20_us() {
        let networks = networks_of("distance", include_str!("../plans/distance.toml")).unwrap();
        let far: Vec<Network> = networks.into_iter().filter(|n| n.name == "10G, 2 ms").collect();
        assert_eq!(far.len(), 1);
        let report = measure(&far[0]).unwrap();
        let link = far[0].port.rate as f64;
        assert!(report.goodput_bytes_per_s > 0.8 * link, "{report:?}");
        assert!(report.long_bytes_per_s > 0.8 * link, "{report:?}");
        assert!(report.gets_bytes_per_s > 0.8 * link, "{report:?}");
        assert!(report.start_round_trips < 7.0 && report.ratio_at_loss_1 > 0.9, "{report:?}");
        let [least, most] = report.incast_shares;
        assert!(least > 0.8 && most < 1.2 && report.incast_ratio > 0.9, "{report:?}");
    }

    fn paths_of(text: &str) -> Vec<PathPlan> {
        let plan = NamedPlan::parse("paths", text).unwrap();
        let runs = plan.runs(1).unwrap().into_iter().map(|run| match run {
            WorldPlan::Path(path) => *path,
            other => panic!("no path: {other:?}"),
        });
        runs.collect()
    }

    #[test]
    fn a_path_with_noise_carries_what_it_can() {
        let mut paths = paths_of(include_str!("../plans/noise.toml"));
        paths.sort_by_key(|path| path.round_trip != 2 * MILLISECOND); // stable: those of 2 ms first
        for path in first_of(4, &paths) {
            let report = try_path(path, false).unwrap();
            assert!(report.ratio() > 0.85, "{}: {report:?}", report.ratio());
        }
    }

    #[test]
    fn beside_a_stream_of_cubic_neither_starves() {
        let paths = paths_of(include_str!("../plans/beside-cubic.toml"));
        for path in first_of(2, &paths) {
            let report = try_path(path, false).unwrap();
            let tcp = report.tcp_share().unwrap();
            assert!((0.3..=1.7).contains(&tcp), "TCP has {tcp} of a fair share: {report:?}");
            assert!(report.tcp_bytes_per_s.unwrap() + report.goodput_bytes_per_s > 0.9 * 113e6);
        }
    }

    #[test]
    fn a_short_message_beside_long_ones_waits_for_the_path_and_its_queue() {
        let paths = paths_of(include_str!("../plans/short-beside-long.toml"));
        for path in first_of(2, &paths) {
            let report = try_path(path, false).unwrap();
            let [median, ..] = report.ping_ns.unwrap();
            // The queue holds 400 us; a packet takes one more.
            assert!(median > path.round_trip, "{report:?}");
            assert!(median < path.round_trip + 401 * MICROSECOND, "{report:?}");
            assert!(report.ratio() > 0.85, "the stream goes on: {report:?}");
        }
    }

    #[test]
    fn eight_senders_share_a_link_from_the_first_second_on() {
        for network in first_of(1, &networks().unwrap()) {
            let report = measure(network).unwrap();
            let [least, most] = report.incast_shares;
            assert!(least > 0.8 && most < 1.2 && report.incast_ratio > 0.9, "{report:?}");
        }
    }
}
