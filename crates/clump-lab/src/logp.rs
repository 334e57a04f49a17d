//! The whole of `clump lab logp` on any [`Pair`].

use crate::baseline;
use crate::contrast::Contrast;
use crate::measure::{self, measure};
use crate::pair::{Pair, Placement, Way};
use crate::plan::Plan;
use crate::report::{Bandwidth, Report};
use crate::steps::Breakdown;
use anyhow::{Context, Result};
use std::time::Duration;

/// Rounds of one slice of a game in which a round takes `ns`.
pub fn rounds(slice: Duration, ns: f64) -> u32 {
    #[expect(clippy::cast_precision_loss, reason = "a slice is far below 2^53 ns")]
    let rounds = slice.as_nanos() as f64 / ns.max(1.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let rounds = rounds as u32;
    rounds.clamp(16, 1 << 22)
}

/// The load average, if it is more than the processors can serve.
fn crowd() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    let load: f64 = text.split_whitespace().next()?.parse().ok()?;
    let cores = u32::try_from(clump_os::topology::usable_cores()).ok()?;
    // Our own two ranks are in it.
    (load > f64::from(cores) + 0.5).then_some(load)
}

/// Measures everything. `breakdown` takes no part in the timing and is only carried into the report.
pub fn run<P: Pair>(pair: &mut P, plan: &Plan, breakdown: Breakdown) -> Result<Report> {
    let begun = pair.now();
    let clock_ns = pair.clock_cost_ns();
    let round_trip_ns = round_trips(pair, plan, clock_ns)?;
    let one_way = round_trip_ns.baseline.value / 2.0;
    let rate_per_s = rates(pair, plan)?;
    let (measurement, prtt) = measure(pair, plan)?;
    let bandwidth = bandwidths(pair, plan, round_trip_ns.ours.value)?;
    let estimate = measurement.estimate()?;
    let trains = prtt.estimate().context("the trains have no samples")?;
    let ended = pair.now();
    Ok(Report {
        placement: Placement::of(one_way),
        line_one_way_ns: one_way,
        round_trip_ns,
        rate_per_s,
        bandwidth,
        estimate,
        trains,
        disagreement: trains.against(&estimate),
        breakdown,
        measurement,
        crowd: crowd(),
        elapsed_s: pair.ns(ended.wrapping_sub(begun)) / 1e9,
    })
}

/// Short request to reply handled, beside the line ping-pong, nanoseconds a round.
fn round_trips<P: Pair>(pair: &mut P, plan: &Plan, clock_ns: f64) -> Result<Contrast> {
    let guess = measure::round_trips(pair, 100, clock_ns)?;
    let count = rounds(plan.slice, guess);
    let mut slices = Vec::new();
    for _ in 0..plan.slices {
        let ours = measure::round_trips(pair, count, clock_ns)?;
        let ticks = pair.flag_rounds(count)?;
        slices.push((ours, pair.ns(ticks) / f64::from(count)));
    }
    Contrast::of(&slices).context("the plan has no slices")
}

/// One-way messages per second, beside the bare ring.
fn rates<P: Pair>(pair: &mut P, plan: &Plan) -> Result<Contrast> {
    let guess = measure::post_rate(pair, 10_000)?;
    let count = rounds(plan.slice, 1e9 / guess).max(10_000);
    Contrast::measure(
        plan.slices,
        || measure::post_rate(pair, count),
        || Ok(baseline::ring_rate(u64::from(count))),
    )
}

/// Medium against two copies, long against one copy, bytes per second.
fn bandwidths<P: Pair>(pair: &mut P, plan: &Plan, rtt_ns: f64) -> Result<Vec<Bandwidth>> {
    let mut out = Vec::new();
    for &bytes in &plan.bulk_bytes {
        #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
        let size = bytes as f64;
        let count = measure::stream_length(bytes);
        for (way, against) in [(Way::Medium, "two copies"), (Way::Long, "one copy")] {
            let bytes_per_s = Contrast::measure(
                plan.slices,
                || Ok(size * 1e9 / measure::stream(pair, way, bytes, rtt_ns)?),
                || {
                    Ok(match way {
                        Way::Medium => baseline::two_copies(bytes, count),
                        Way::Long => baseline::one_copy(bytes, count),
                    })
                },
            )?;
            out.push(Bandwidth { bytes, way, against, bytes_per_s });
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pair::fake::FakePair;
    use crate::text::{Extent, Text};

    #[test]
    fn a_whole_run_on_a_known_machine_prints_and_serializes() {
        let plan = Plan { slices: 3, bulk_bytes: vec![4096, 1 << 17], ..Plan::quick() };
        let mut pair = FakePair::default();
        let report = run(&mut pair, &plan, Breakdown::unknown()).unwrap();
        assert_eq!(report.placement, Placement::SeparateCores);
        assert!((report.line_one_way_ns - pair.l).abs() < 0.1);
        let expected = pair.rtt() / (2.0 * pair.l);
        assert!((report.round_trip_ns.ratio.value - expected).abs() < 0.02);
        assert_eq!(report.bandwidth.len(), 4);
        for extent in [Extent::Table, Extent::Everything] {
            let text = Text(&report, extent).to_string();
            let widest = text.lines().map(|l| l.chars().count()).max().unwrap();
            assert!(widest <= 100, "{widest} columns\n{text}");
            assert!(text.contains("o_s") && text.contains("two-line ping-pong"));
        }
        let json: serde_json::Value = serde_json::to_value(&report).unwrap();
        assert_eq!(json["placement"], "separate_cores");
        assert!((json["estimate"]["o_s"]["value"].as_f64().unwrap() - 20.0).abs() < 0.5);
        assert!(json["measurement"]["signature"]["bursts"].as_array().unwrap().len() > 20);
    }
}
