//! The report as text, in 100 columns.

use crate::bare::Names;
use crate::contrast::Contrast;
use crate::goals::{self, Goals};
use crate::plot;
use crate::report::{Bandwidth, BarePath, LogpReport};
use crate::steps::{Breakdown, StepCost};
use clump_loggp::Median;
use std::fmt::{self, Display, Formatter};

/// Extent of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The LogP table and the three comparisons: for the end of a demonstration.
    Table,
    /// The signature, the breakdown and the second opinion too.
    Everything,
}

/// Printed form of a report.
#[derive(Debug)]
pub struct LogpText<'a>(pub &'a LogpReport, pub Extent);

impl Display for LogpText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let LogpText(report, extent) = self;
        heading(f, report)?;
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
            if !report.breakdown.send.is_empty() {
                writeln!(f)?;
                breakdown(f, &report.breakdown)?;
            }
        }
        Ok(())
    }
}

fn heading(f: &mut Formatter<'_>, report: &LogpReport) -> fmt::Result {
    if let Some(link) = &report.link {
        writeln!(
            f,
            "LogP of the network between two nodes, {} ({:.1} s)",
            link.security, report.elapsed_s
        )?;
        writeln!(
            f,
            "UDP from {}; a short request is a packet of {} bytes; the path carries datagrams of {}",
            link.address, link.packet_bytes, link.datagram_bytes
        )?;
        if let Some(shape) = &report.shape {
            writeln!(
                f,
                "fastest bare stream: datagrams of {} bytes, {} under way",
                shape.datagram_bytes,
                bytes(to_real(shape.window_bytes))
            )?;
        }
        return writeln!(f);
    }
    writeln!(f, "LogP of shared memory between two ranks ({:.1} s)", report.elapsed_s)?;
    if let (Some(placement), Some(ns)) = (report.placement, report.line_one_way_ns) {
        writeln!(f, "{}: {ns:.0} ns", placement.text())?;
    }
    writeln!(f)
}

fn table(f: &mut Formatter<'_>, report: &LogpReport) -> fmt::Result {
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
    if e.o_r.value < 0.0 {
        writeln!(
            f,
            "o_r is negative: o_s is that of a lone request, whose system call is its own; those of a paced burst share \
             packets, and cost {:.1} ns each beside the delay",
            e.o_s.value + e.o_r.value
        )?;
    }
    if e.l.value < 0.0 {
        writeln!(f, "L is negative: sending and receiving overlap in time (paper 000, table 2)")?;
    }
    Ok(())
}

fn comparisons(f: &mut Formatter<'_>, report: &LogpReport) -> fmt::Result {
    writeln!(
        f,
        "{:<21}{:>12}   {:<22}{:>12}{:>8}   goal",
        "interleaved, medians", "clump", "beside", "", "ratio"
    )?;
    let (names, goals) = (Names::of(report.link.as_ref()), Goals::of(report.link.as_ref()));
    let c = &report.round_trip_ns;
    let goal = format!("<= {:.2} {}", goals.round_trip, verdict(c.ratio.value <= goals.round_trip));
    contrast(f, "short round trip", names.round_trip, c, "ns", &goal)?;
    let c = &report.rate_per_s;
    let met = verdict(c.ours.value >= goals.rate_per_s);
    let goal = format!(">= {:.0} M/s {met}", goals.rate_per_s / 1e6);
    contrast(f, "one-way short rate", names.rate, &c.scaled(1e-6), "M/s", &goal)?;
    for Bandwidth { bytes: size, way, against, bytes_per_s } in &report.bandwidth {
        let name = format!("{} {}", way.name(), bytes(to_real(*size)));
        let goal = match goals.bandwidth {
            goals::BandwidthGoal::Share(least) => {
                format!(">= {least:.2} {}", verdict(bytes_per_s.ratio.value >= least))
            }
            goals::BandwidthGoal::Absolute(least) if *size >= 1 << 20 => {
                let met = verdict(bytes_per_s.ours.value >= least);
                format!(">= {:.0} GB/s {met}", least / 1e9)
            }
            goals::BandwidthGoal::Absolute(_) => String::new(),
        };
        contrast(f, &name, against, &bytes_per_s.scaled(1e-9), "GB/s", &goal)?;
    }
    if !report.paths.is_empty() {
        writeln!(f)?;
        paths(f, &report.paths)?;
    }
    Ok(())
}

/// Writes the bare network, one row per kind of system call.
fn paths(f: &mut Formatter<'_>, paths: &[BarePath]) -> fmt::Result {
    writeln!(
        f,
        "{:<34}{:>14}{:>16}{:>22}",
        "bare UDP of the same size", "round trip", "clump / it", "one way"
    )?;
    for BarePath { call, round_trip_ns, datagrams_per_s } in paths {
        let trip = round_trip_ns.as_ref();
        let ns = trip.map_or_else(|| "-".into(), |c| format!("{:.0} ns", c.baseline.value));
        let ratio = trip.map_or_else(|| "-".into(), |c| format!("{:.2}", c.ratio.value));
        let rate = format!("{:.2} M datagrams/s", datagrams_per_s.value / 1e6);
        writeln!(f, "{:<34}{ns:>14}{ratio:>16}{rate:>22}", call.name())?;
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
    let line = format!(
        "{name:<21}{ours:>12}   {against:<22}{baseline:>12}{:>8.2}   {goal}",
        c.ratio.value
    );
    writeln!(f, "{}", line.trim_end())
}

fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "missed" }
}

fn second_opinion(f: &mut Formatter<'_>, report: &LogpReport) -> fmt::Result {
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

/// Printed form of a breakdown alone.
#[derive(Debug)]
pub struct Steps<'a>(pub &'a Breakdown);

impl Display for Steps<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        breakdown(f, self.0)
    }
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
        for StepCost { name, ns, instructions } in steps {
            let ns = ns.map_or_else(|| "-".into(), |t| format!("{t:.1}"));
            let instructions = instructions.map_or_else(|| "-".into(), |n| format!("{n:.0}"));
            writeln!(f, "  {name:<46}{ns:>10}{instructions:>14}")?;
        }
    }
    writeln!(f, "{}", breakdown.note)
}

/// Formats a size in a suitable unit.
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
