//! The whole of `clump lab logp` on any [`Pair`].

use crate::bare::{self, Names, StreamShape};
use crate::baseline;
use crate::contrast::Contrast;
use crate::measure::{self, measure};
use crate::pair::{BulkPath, Pair, Placement};
use crate::plan::MeasurementPlan;
use crate::report::{Bandwidth, BarePath, LogpReport};
use crate::steps::Breakdown;
use crate::time_limit::TimeLimit;
use crate::wire::Call;
use anyhow::{Context, Result};
use clump_loggp::Median;
use std::time::Duration;

/// Returns the rounds of one slice of a workload in which a round takes `ns`.
pub fn rounds(slice: Duration, ns: f64) -> u32 {
    #[expect(clippy::cast_precision_loss, reason = "a slice is far below 2^53 ns")]
    let rounds = slice.as_nanos() as f64 / ns.max(1.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let rounds = rounds as u32;
    rounds.clamp(16, 1 << 22)
}

/// Returns the load average, if it is more than the processors can serve.
fn crowd() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    let load: f64 = text.split_whitespace().next()?.parse().ok()?;
    let cores = u32::try_from(clump_os::topology::usable_cores()).ok()?;
    // The two ranks of the measurement are in it.
    (load > f64::from(cores) + 0.5).then_some(load)
}

/// Measures everything. `breakdown` is not timed here and only carried into the report.
///
/// # Errors
/// Fails if the other side stops answering, or if the plan has no slices.
pub fn run<P: Pair>(
    pair: &mut P,
    plan: &MeasurementPlan,
    breakdown: Breakdown,
) -> Result<LogpReport> {
    let begun = pair.now();
    let clock_ns = pair.clock_cost_ns();
    let shape = bare::tune(pair)?;
    let round_trip_ns = round_trips(pair, plan, clock_ns)?;
    let together = pair.link().is_none();
    let speed = together.then(baseline::speed_beside_another).transpose()?;
    let one_way = together.then_some(round_trip_ns.baseline.value / 2.0);
    let rate_per_s = rates(pair, plan)?;
    let paths = if together { Vec::new() } else { paths(pair, plan, clock_ns)? };
    let (measurement, prtt) = measure(pair, plan)?;
    let bandwidth = bandwidths(pair, plan, shape, round_trip_ns.ours.value)?;
    let estimate = measurement.estimate()?;
    let trains = prtt.estimate().context("the trains have no samples")?;
    let ended = pair.now();
    Ok(LogpReport {
        link: pair.link().cloned(),
        shape,
        placement: one_way.zip(speed).map(|(ns, speed)| Placement::of(ns, speed)),
        line_one_way_ns: one_way,
        round_trip_ns,
        rate_per_s,
        bandwidth,
        paths,
        estimate,
        trains,
        methods: estimate.methods(&trains),
        breakdown,
        measurement,
        crowd: crowd(),
        queued_percent: None,
        elapsed_s: pair.ns(ended.wrapping_sub(begun)) / 1e9,
    })
}

/// Returns the median of the short round trip alone, in a fraction of a second: for jobs that take
/// turns.
///
/// # Errors
/// Fails if the other side stops answering.
pub fn trip<P: Pair>(pair: &mut P) -> Result<f64> {
    let plan = MeasurementPlan { slice: Duration::from_millis(2), ..MeasurementPlan::quick() };
    let clock_ns = pair.clock_cost_ns();
    let guess = measure::round_trips(pair, 100, clock_ns)?;
    let count = rounds(plan.slice, guess);
    let slices = (0..plan.slices).map(|_| measure::round_trips(pair, count, clock_ns));
    Ok(Median::of(slices.collect::<Result<Vec<f64>>>()?).context("the plan has no slices")?.value)
}

/// Measures from a short request to its handled reply, beside the bare round trip, in nanoseconds a
/// round.
///
/// # Errors
/// Fails if the other side stops answering, or if the plan has no slices.
pub fn round_trips<P: Pair>(
    pair: &mut P,
    plan: &MeasurementPlan,
    clock_ns: f64,
) -> Result<Contrast> {
    let guess = measure::round_trips(pair, 100, clock_ns)?;
    let count = rounds(plan.slice, guess);
    let mut slices = Vec::new();
    let limit = TimeLimit::start(pair, plan.limit);
    while limit.allows(pair, slices.len(), plan.slices) {
        let ours = measure::round_trips(pair, count, clock_ns)?;
        slices.push((ours, bare::round_trip(pair, count)?));
    }
    Contrast::of(&slices).context("the plan has no slices")
}

/// Measures one-way messages per second, beside the bare rate.
fn rates<P: Pair>(pair: &mut P, plan: &MeasurementPlan) -> Result<Contrast> {
    let guess = measure::post_rate(pair, 10_000)?;
    let count = rounds(plan.slice, 1e9 / guess).max(10_000);
    let mut slices = Vec::new();
    let limit = TimeLimit::start(pair, plan.limit);
    while limit.allows(pair, slices.len(), plan.slices) {
        slices.push((measure::post_rate(pair, count)?, bare::rate(pair, count)?));
    }
    Contrast::of(&slices).context("the plan has no slices")
}

/// Measures the bare network through the other system calls, and clump's round trip in turn with
/// each.
fn paths<P: Pair>(pair: &mut P, plan: &MeasurementPlan, clock_ns: f64) -> Result<Vec<BarePath>> {
    /// Maximum number of datagrams of a slice: one a call takes microseconds.
    const MAX_COUNT: u32 = 4000;
    let guess = measure::round_trips(pair, 100, clock_ns)?;
    let count = rounds(plan.slice, guess).min(MAX_COUNT);
    let mut trips = vec![Vec::new(); Call::ALL.len()];
    let mut streams = vec![Vec::new(); Call::ALL.len()];
    let limit = TimeLimit::start(pair, plan.limit);
    while limit.allows(pair, streams[0].len(), plan.slices) {
        for (at, call) in Call::ALL.into_iter().enumerate() {
            if call != Call::Segments {
                let ours = measure::round_trips(pair, count, clock_ns)?;
                trips[at].push((ours, bare::datagram_round_trip(pair, call, count)?));
            }
            streams[at].push(bare::datagram_rate(pair, call, MAX_COUNT)?);
        }
    }
    let all = Call::ALL.into_iter().zip(trips).zip(streams);
    let path = |((call, trips), streams): ((Call, Vec<_>), Vec<f64>)| {
        let datagrams_per_s = Median::of(streams).context("the plan has no slices")?;
        Ok(BarePath { call, round_trip_ns: Contrast::of(&trips), datagrams_per_s })
    };
    all.map(path).collect()
}

/// Measures streams beside bare ones, in bytes per second.
fn bandwidths<P: Pair>(
    pair: &mut P,
    plan: &MeasurementPlan,
    shape: Option<StreamShape>,
    rtt_ns: f64,
) -> Result<Vec<Bandwidth>> {
    let names = Names::of(pair.link());
    let mut out = Vec::new();
    for &bytes in &plan.bulk_bytes {
        #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
        let size = bytes as f64;
        let count = measure::stream_length(bytes);
        for way in [BulkPath::Medium, BulkPath::Long] {
            let mut slices = Vec::new();
            let limit = TimeLimit::start(pair, plan.limit / 8);
            while limit.allows(pair, slices.len(), plan.slices) {
                let ours = size * 1e9 / measure::stream(pair, way, bytes, rtt_ns)?;
                slices.push((ours, bare::stream(pair, shape, way, bytes, count)?));
            }
            let bytes_per_s = Contrast::of(&slices).context("the plan has no slices")?;
            out.push(Bandwidth { bytes, way, against: names.stream(way), bytes_per_s });
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logp_tables::Extent;
    use crate::pair::fake::FakePair;
    use crate::pair::{PairNetwork, Scope};
    use clump_wire::Security;

    #[test]
    fn a_whole_run_on_a_known_machine_prints_and_serializes() {
        let plan = MeasurementPlan {
            slices: 3,
            bulk_bytes: vec![4096, 1 << 17],
            ..MeasurementPlan::quick()
        };
        let mut pair = FakePair::default();
        let report = run(&mut pair, &plan, Breakdown::unknown()).unwrap();
        assert_eq!(report.placement, Some(Placement::SeparateCores));
        assert!((report.line_one_way_ns.unwrap() - pair.l).abs() < 0.1);
        let expected = pair.rtt() / (2.0 * pair.l);
        assert!((report.round_trip_ns.ratio.value - expected).abs() < 0.02);
        assert_eq!(report.bandwidth.len(), 4);
        for extent in [Extent::Table, Extent::Everything] {
            let text = crate::render::text(&report.report(extent).unwrap());
            let widest = text.lines().map(|l| l.chars().count()).max().unwrap();
            assert!(widest <= 100, "{widest} columns\n{text}");
            assert!(text.contains("o_s") && text.contains("two-line ping-pong"));
            let has_goal = |row: &str, goal: &str| {
                let line = text.lines().find(|line| line.trim_start().starts_with(row));
                assert!(line.is_some_and(|line| line.contains(goal)), "{row}: {goal}\n{text}");
            };
            has_goal("short round trip", "<= 1.20");
            has_goal("long 4 KiB", ">= 0.60");
            has_goal("medium 4 KiB", ">= 0.90");
        }
        let json: serde_json::Value = serde_json::to_value(&report).unwrap();
        assert_eq!(json["placement"], "separate_cores");
        assert!((json["estimate"]["o_s"]["value"].as_f64().unwrap() - 20.0).abs() < 0.5);
        assert!(json["measurement"]["signature"]["bursts"].as_array().unwrap().len() > 20);
    }

    #[test]
    fn times_below_zero_say_what_they_mean() {
        let plan = MeasurementPlan { slices: 3, ..MeasurementPlan::quick() };
        let mut report = run(&mut FakePair::default(), &plan, Breakdown::unknown()).unwrap();
        for below in [&mut report.estimate.l, &mut report.estimate.o_r, &mut report.estimate.paced]
        {
            *below = Median::exact(-7.0);
        }
        for row in &mut report.methods {
            row.exchanges = Some(Median::exact(-3.0));
        }
        let tables = report.report(Extent::Everything).unwrap();
        assert!(crate::negative::unexplained(&tables).is_empty(), "{:?}", tables.tables);
        let text = crate::render::text(&tables);
        assert!(text.contains("L     < 0: sending and receiving overlap"), "{text}");
        assert!(text.contains("o_r   of a lone receive [1]"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }

    #[test]
    fn a_run_between_nodes_names_its_network_and_what_it_is_held_against() {
        let plan = MeasurementPlan { slices: 3, ..MeasurementPlan::quick().over(Scope::Net) };
        for security in [Security::Crc, Security::Aead] {
            let link = PairNetwork::new(security, 1472, [10, 0, 0, 1].into());
            let mut pair = FakePair::default();
            pair.link = Some(link);
            let report = run(&mut pair, &plan, Breakdown::unknown()).unwrap();
            assert_eq!((report.placement, report.paths.len()), (None, Call::ALL.len()));
            let text = crate::render::text(&report.report(Extent::Everything).unwrap());
            let widest = text.lines().map(|l| l.chars().count()).max().unwrap();
            assert!(widest <= 100, "{widest} columns\n{text}");
            for word in [security.name(), "10.0.0.1", "GSO/GRO", "write/read, blocking"] {
                assert!(text.contains(word), "{word}\n{text}");
            }
            let json: serde_json::Value = serde_json::to_value(&report).unwrap();
            assert_eq!(json["link"]["security"], security.name());
            let longest = |delay: f64| {
                let bursts = report.measurement.signature.bursts.iter();
                bursts.filter(|b| b.delay_ns == delay).map(|b| b.messages).max()
            };
            let delays = report.measurement.signature.delays_ns();
            assert_eq!((longest(delays[0]), longest(delays[1])), (Some(2048), Some(128)));
        }
    }
}
