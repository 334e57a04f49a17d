//! The report for people, in 100 columns.

use crate::contrast::Contrast;
use crate::plot;
use crate::report::{Bandwidth, Report};
use crate::steps::{Breakdown, Step};
use clump_loggp::Median;
use std::fmt::{self, Display, Formatter};

/// What is asked of a short round trip, as a multiple of the two-line ping-pong.
const ROUND_TRIP_GOAL: f64 = 1.25;
/// And of a one-way rate, in messages per second.
const RATE_GOAL: f64 = 40e6;
/// And of bandwidth, as a share of memcpy's.
const BANDWIDTH_GOAL: f64 = 0.9;

/// How much to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The LogP table and the three comparisons: for the end of a demonstration.
    Table,
    /// The signature, the breakdown and the second opinion too.
    Everything,
}

/// A report to be printed.
#[derive(Debug)]
pub struct Text<'a>(pub &'a Report, pub Extent);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Text(report, extent) = self;
        writeln!(f, "LogP of shared memory between two ranks ({:.1} s)", report.elapsed_s)?;
        writeln!(f, "{}: {:.0} ns\n", report.placement.text(), report.line_one_way_ns)?;
        if let Some(load) = report.crowd {
            writeln!(
                f,
                "other programs ran beside this (load average {load:.1}): do not trust these figures,"
            )?;
            writeln!(f, "repeat them on a quiet machine\n")?;
        }
        table(f, report)?;
        writeln!(f)?;
        comparisons(f, report)?;
        if *extent == Extent::Everything {
            writeln!(f, "\n{}", plot::signature(&report.measurement.signature))?;
            second_opinion(f, report)?;
            writeln!(f)?;
            breakdown(f, &report.breakdown)?;
        }
        Ok(())
    }
}

fn table(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    let e = &report.estimate;
    writeln!(f, "{:<44}{:>14}   95 % interval", "parameter", "median")?;
    let row = |f: &mut Formatter<'_>, name: &str, m: &Median, digits: usize, unit: &str| {
        let value = format!("{:.digits$} {unit}", m.value);
        writeln!(f, "{name:<44}{value:>14}   {:.digits$} to {:.digits$}", m.low, m.high)
    };
    row(f, "o_s   processor time of a send", &e.o_s, 1, "ns")?;
    row(f, "o_r   processor time of a receive", &e.o_r, 1, "ns")?;
    row(f, "L     the rest of half a round trip", &e.l, 1, "ns")?;
    row(f, "g     interval of answered requests", &e.g, 1, "ns")?;
    row(f, "G     time per byte of a stream", &e.big_g, 4, "ns/B")?;
    let bandwidth = Median {
        value: 1.0 / e.big_g.value,
        low: 1.0 / e.big_g.high,
        high: 1.0 / e.big_g.low,
        samples: e.big_g.samples,
    };
    row(f, "1/G   bandwidth of long streams", &bandwidth, 2, "GB/s")?;
    writeln!(f, "{:<44}{:>14}", "n1/2  size that reaches half of it", bytes(e.half_power_bytes))?;
    row(f, "RTT   request out to reply handled", &e.rtt, 1, "ns")?;
    if e.l.value < 0.0 {
        writeln!(f, "L is negative: sending and receiving overlap in time (paper 000, table 2)")?;
    }
    Ok(())
}

fn comparisons(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    writeln!(
        f,
        "{:<21}{:>12}   {:<22}{:>12}{:>8}   goal",
        "interleaved, medians", "clump", "beside", "", "ratio"
    )?;
    let c = &report.round_trip_ns;
    let met = c.ratio.value <= ROUND_TRIP_GOAL;
    let goal = format!("<= {ROUND_TRIP_GOAL:.2} {}", verdict(met));
    contrast(f, "short round trip", "two-line ping-pong", c, "ns", &goal)?;
    let c = &report.rate_per_s;
    let goal = format!(">= {:.0} M/s {}", RATE_GOAL / 1e6, verdict(c.ours.value >= RATE_GOAL));
    contrast(f, "one-way short rate", "bare ring, 64 B slots", &c.scaled(1e-6), "M/s", &goal)?;
    for Bandwidth { bytes: size, way, against, bytes_per_s } in &report.bandwidth {
        let name = format!("{} {}", way.name(), bytes(to_real(*size)));
        let met = bytes_per_s.ratio.value >= BANDWIDTH_GOAL;
        let goal = format!(">= {BANDWIDTH_GOAL:.2} {}", verdict(met));
        contrast(
            f,
            &name,
            &format!("memcpy, {against}"),
            &bytes_per_s.scaled(1e-9),
            "GB/s",
            &goal,
        )?;
    }
    Ok(())
}

fn contrast(
    f: &mut Formatter<'_>,
    name: &str,
    against: &str,
    c: &Contrast,
    unit: &str,
    goal: &str,
) -> fmt::Result {
    let ours = format!("{:.1} {unit}", c.ours.value);
    let baseline = format!("{:.1} {unit}", c.baseline.value);
    writeln!(f, "{name:<21}{ours:>12}   {against:<22}{baseline:>12}{:>8.2}   {goal}", c.ratio.value)
}

fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "missed" }
}

fn second_opinion(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    writeln!(f, "second opinion: trains of messages (Hoefler et al., PRTT)")?;
    for row in &report.disagreement {
        writeln!(
            f,
            "  {:<8} bursts {:>9.1} ns   trains {:>9.1} ns   {:>+7.1} %",
            row.name, row.bursts_ns, row.trains_ns, row.percent
        )?;
    }
    writeln!(
        f,
        "  {:<8} of a stream that is not answered {:>6.1} ns, against g = {:.1} ns answered",
        "gap", report.trains.g_one_way.value, report.estimate.g.value
    )
}

fn breakdown(f: &mut Formatter<'_>, breakdown: &Breakdown) -> fmt::Result {
    for (side, steps) in [("send", &breakdown.send), ("receive", &breakdown.receive)] {
        writeln!(
            f,
            "{:<48}{:>10}{:>14}",
            format!("a short {side}, step by step"),
            "ns",
            "instructions"
        )?;
        for Step { name, ns, instructions } in steps {
            let ns = ns.map_or_else(|| "-".into(), |t| format!("{t:.1}"));
            let instructions = instructions.map_or_else(|| "-".into(), |n| format!("{n:.0}"));
            writeln!(f, "  {name:<46}{ns:>10}{instructions:>14}")?;
        }
    }
    writeln!(f, "{}", breakdown.note)
}

/// A size in the unit that suits it.
pub fn bytes(size: f64) -> String {
    match size {
        n if n < 1024.0 => format!("{n:.0} B"),
        n if n < 1024.0 * 1024.0 => format!("{:.1} KiB", n / 1024.0).replace(".0 ", " "),
        n => format!("{:.1} MiB", n / (1024.0 * 1024.0)).replace(".0 ", " "),
    }
}

#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
fn to_real(size: usize) -> f64 {
    size as f64
}
