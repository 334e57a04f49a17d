//! Streams on a path with noise: their goodput as a part of what the path can carry, and their
//! shares.

use super::bench::Bench;
use super::station::Role;
use super::{COUNTED_TRIPS, MIN_COUNTED, MIN_WARM, WARM_TRIPS, least_and_most};
use crate::kernel::{SECOND, Time};
use crate::network::{PathPlan, payload_share};
use clump_wire::frame::FrameKind;
use serde::Serialize;

/// Results on one path.
#[derive(Debug, Clone, Serialize)]
pub struct PathReport {
    /// Name of the path.
    pub path: String,
    /// Payload that arrived, bytes per second.
    pub goodput_bytes_per_s: f64,
    /// Payload that the path could carry, bytes per second.
    pub capacity_bytes_per_s: f64,
    /// Minimum and maximum share of one of the senders, as ratios of a fair one.
    pub shares: [f64; 2],
    /// Median, 99th and 99.9th percentile of the round trip of short messages beside them, in ns.
    pub ping_ns: Option<[u64; 3]>,
    /// Payload of the TCP stream beside them, bytes per second.
    pub tcp_bytes_per_s: Option<f64>,
}

impl PathReport {
    /// Returns the goodput as a part of what the path could carry.
    pub fn ratio(&self) -> f64 {
        self.goodput_bytes_per_s / self.capacity_bytes_per_s
    }

    /// Returns the share of the TCP stream, as a ratio of a fair one beside one sender.
    pub fn tcp_share(&self) -> Option<f64> {
        self.tcp_bytes_per_s.map(|tcp| 2.0 * tcp / (tcp + self.goodput_bytes_per_s))
    }
}

/// Runs the streams of a path for at least [`COUNTED_TRIPS`] round trips after [`WARM_TRIPS`]. With
/// `trace` it prints what the first sender's stack says of itself now and then.
///
/// # Errors
/// Fails if the keys cannot be made, or if the run comes to no end.
pub fn try_path(plan: &PathPlan, trace: bool) -> anyhow::Result<PathReport> {
    let warm = (WARM_TRIPS * plan.round_trip).max(MIN_WARM);
    let span = (COUNTED_TRIPS * plan.round_trip).max(MIN_COUNTED).max(plan.counted);
    let mut bench = Bench::on_path(plan, trace)?;
    let kind = if plan.is_long { FrameKind::Long } else { FrameKind::Medium };
    for station in bench.stations.iter_mut().skip(1) {
        (station.role, station.to) = (Role::Stream(kind), 0);
    }
    if plan.pings {
        (bench.stations[0].role, bench.stations[1].role) = (Role::Echo, Role::PingBesideLong);
    }
    bench.run(warm, span)?;
    let rates = bench.rates(0, span);
    Ok(PathReport {
        path: plan.name.clone(),
        goodput_bytes_per_s: rates.iter().sum(),
        capacity_bytes_per_s: capacity(plan, warm, span, bench.paused()),
        shares: least_and_most(&rates),
        ping_ns: plan.pings.then(|| bench.stations[1].percentiles()),
        tcp_bytes_per_s: bench.tcp_rate(span),
    })
}

/// Returns the payload per second that the path could carry in `span` after `warm`, less the time
/// `paused` by stations.
fn capacity(plan: &PathPlan, warm: Time, span: Time, paused: Time) -> f64 {
    let policed = plan.link.policer.map_or(u64::MAX, |policer| policer.rate);
    let end = warm + span;
    let (mut bytes, mut since, mut rate) = (0.0, 0, plan.port.rate);
    let changes = plan.changes.iter().filter_map(|change| Some((change.at, change.rate?)));
    for (at, next) in changes.chain([(end, rate)]) {
        let counted = at.clamp(warm, end) - since.clamp(warm, end);
        bytes += counted as f64 / SECOND as f64 * rate.min(policed) as f64;
        (since, rate) = (at, next);
    }
    let payload = payload_share(plan.port.mtu);
    let arrives = 1.0 - f64::from(plan.link.loss) / 1e6;
    let awake = 1.0 - paused as f64 / span as f64;
    bytes * payload * arrives * awake * SECOND as f64 / span as f64
}

/// Formats the reports as a table.
pub fn path_table(reports: &[PathReport]) -> String {
    let mut text = format!(
        "{:44} {:>8} {:>8} {:>6} {:>11} {:>8} {:>6} {:>24}\n",
        "path", "MB/s", "of MB/s", "ratio", "shares", "TCP MB/s", "share", "short, 50/99/99.9 % us"
    );
    for report in reports {
        let [least, most] = report.shares;
        let tcp = |value: Option<f64>, digits: usize| {
            value.map_or(String::new(), |value| format!("{value:.digits$}"))
        };
        text.push_str(&format!(
            "{:44} {:>8.1} {:>8.1} {:>6.3} {:>11} {:>8} {:>6} {:>24}\n",
            report.path,
            report.goodput_bytes_per_s / 1e6,
            report.capacity_bytes_per_s / 1e6,
            report.ratio(),
            format!("{least:.2}, {most:.2}"),
            tcp(report.tcp_bytes_per_s.map(|rate| rate / 1e6), 1),
            tcp(report.tcp_share(), 2),
            report.ping_ns.map_or(String::new(), |ns| format!("{:?}", ns.map(|ns| ns / 1000))),
        ));
    }
    text
}
