//! `clump lab path`: nodes on this machine with a path between them that has a length, a rate and
//! a queue.
//!
//! Each node has a network namespace with a TUN device; one process moves packets between the
//! devices ([`pump`]) as a state machine over time decides ([`relay`]). Jobs of the command that
//! runs meanwhile put their nodes into these namespaces. The comparison ([`workload`]) runs clump
//! and the kernel's TCP through the same relay, in turn.

pub mod amount;
pub mod pump;
pub mod relay;
pub mod workload;

use crate::contrast::Contrast;
use crate::schema::{InstrumentReport, ReportColumn, ReportTable, figures_of};
use anyhow::{Context, Result};
use relay::{PathCounts, PathShape};
use schemars::JsonSchema;
use serde::Serialize;
use workload::{GET, LARGE, PathGoodput, SMALL};

/// Required share of TCP's goodput.
const GOAL: f64 = 0.9;

/// A round of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PathRound {
    /// Messages of 8 KiB.
    pub small: PathGoodput,
    /// Messages of 1 MiB.
    pub large: PathGoodput,
    /// Gets of 16 MiB, one after the other.
    pub gets: PathGoodput,
    /// TCP.
    pub tcp: PathGoodput,
    /// Mean round trip of clump, ns.
    pub trip_ns: f64,
    /// Mean round trip of TCP, ns.
    pub tcp_trip_ns: f64,
}

/// The path of a command, as `--json` prints it behind the output of the command.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct CommandPath {
    /// Number of the format.
    pub format: u32,
    /// Exit code of the command.
    pub code: u8,
    /// The path.
    pub shape: PathShape,
    /// True if the relay ran before all other threads.
    pub real_time: bool,
    /// Counts of the relay.
    #[serde(flatten)]
    pub counts: PathCounts,
}

/// The whole comparison.
#[derive(Debug, Serialize)]
pub struct RelayReport {
    /// The path.
    pub shape: PathShape,
    /// Time of a stream, ns.
    pub span_ns: u64,
    /// The kernel's congestion control for TCP.
    pub tcp_control: String,
    /// Rounds, in order.
    pub rounds: Vec<PathRound>,
    /// True if the relay ran before all other threads.
    pub real_time: bool,
    /// Counts of the relay after all.
    pub counts: PathCounts,
}

impl PathShape {
    /// Describes the path in a line.
    pub fn describe(&self) -> String {
        let ms = |ns: u64| format!("{} ms", round(ns, 1e6));
        let mut parts = vec![format!("round trip {}", ms(self.rtt_ns))];
        if let Some(rate) = self.rate {
            let rate = round(rate, 1e6);
            parts.push(format!("{rate} Mbit/s, queue {} KiB", self.queue_bytes / 1024));
        }
        let percent = |ppm: u32| format!("{} %", round(ppm.into(), 1e4));
        for (name, ppm) in [("lost", self.loss_ppm), ("reordered", self.reorder_ppm)] {
            if ppm > 0 {
                parts.push(format!("{} {name}", percent(ppm)));
            }
        }
        if self.jitter_ns > 0 {
            parts.push(format!("up to {} later", ms(self.jitter_ns)));
        }
        if let Some((length, every)) = self.pause {
            parts.push(format!("pauses of {} each {}", ms(length), ms(every)));
        }
        parts.join(", ")
    }
}

/// Returns a quotient with three digits after the point at most.
fn round(number: u64, unit: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "amounts are far below 2^53")]
    let value = number as f64 / unit;
    (value * 1e3).round() / 1e3
}

impl PathCounts {
    /// Describes the counts in a line, and the way in which the relay was scheduled.
    pub fn describe(&self, real_time: bool) -> String {
        let scheduled = if real_time { "in real time" } else { "like others, not in real time" };
        format!(
            "{} packets ({} MB) arrived, {} lost, {} dropped by a full queue, {} reordered; \
             longest time in a queue {} ms; relay (scheduled {scheduled}) late by {} us, {} ms at most",
            self.packets,
            round(self.bytes, 1e6),
            self.lost,
            self.dropped,
            self.reordered,
            round(self.longest_queue_ns, 1e6),
            round(self.late_ns / self.packets.max(1), 1e3),
            round(self.latest_ns, 1e6),
        )
    }
}

/// Figure of a stream.
type PartOf = fn(&PathGoodput) -> f64;
/// Stream of a round.
type FlowOf = fn(&PathRound) -> &PathGoodput;

impl RelayReport {
    /// Returns the report in the form that all instruments have.
    ///
    /// # Errors
    /// Fails if it has no JSON form, or without rounds.
    pub fn report(&self) -> Result<InstrumentReport> {
        let title = "clump and TCP on a path that has a length".into();
        let report = InstrumentReport::new("path", title, self)?;
        let mut report = report.with("path", self.shape.describe()).with("security", "crc");
        report = report.with("TCP", &self.tcp_control);
        report.tables = vec![self.table()?];
        Ok(report)
    }

    fn table(&self) -> Result<ReportTable> {
        let columns = vec![
            ReportColumn::ours("clump"),
            ReportColumn::baseline("TCP"),
            ReportColumn::ratio("ratio"),
        ];
        let seconds = round(self.span_ns, 1e9);
        let mut table = ReportTable::new(format!("goodput in {seconds} s"), columns);
        let contrast = |of: &dyn Fn(&PathRound) -> (f64, f64)| {
            let pairs: Vec<_> = self.rounds.iter().map(of).collect();
            Contrast::of(&pairs).context("no rounds were made")
        };
        let parts: [(&str, PartOf); 2] =
            [("", |flow| flow.whole), (", second half", |flow| flow.second_half)];
        let messages: [(usize, FlowOf); 2] =
            [(SMALL, |round| &round.small), (LARGE, |round| &round.large)];
        for (bytes, flow) in messages {
            for (name, part) in parts {
                let rates = contrast(&|round| (part(flow(round)), part(&round.tcp)))?;
                let met = rates.ratio.value >= GOAL;
                let name = format!("{} KiB{name}", bytes / 1024);
                table
                    .row(name, ("MB/s", 2), figures_of(&rates, 1e-6))
                    .goal(format!(">= {GOAL}"), met);
            }
        }
        // A round trip of each is part of it, so no goal is set.
        let gets = contrast(&|round| (round.gets.whole, round.tcp.whole))?;
        table.row(format!("gets of {} MiB", GET >> 20), ("MB/s", 2), figures_of(&gets, 1e-6));
        let trips = contrast(&|round| (round.trip_ns, round.tcp_trip_ns))?;
        table.row("round trip, mean", ("us", 1), figures_of(&trips, 1e-3));
        for (bytes, flow) in messages {
            let [sent, again] = self
                .rounds
                .iter()
                .map(flow)
                .fold([0, 0], |sums, flow| [sums[0] + flow.sent[0], sums[1] + flow.sent[1]]);
            table
                .notes
                .push(format!("{} KiB: {sent} packets, {again} of them again", bytes / 1024));
        }
        table.notes.push(format!("relay: {}", self.counts.describe(self.real_time)));
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> PathShape {
        PathShape {
            rtt_ns: 2_000_000,
            rate: Some(1_000_000_000),
            queue_bytes: 250_000,
            jitter_ns: 50_000,
            loss_ppm: 1000,
            reorder_ppm: 10_000,
            pause: Some((10_000_000, 1_000_000_000)),
            mtu: 1500,
        }
    }

    #[test]
    fn a_path_is_described_with_its_units() {
        assert_eq!(
            shape().describe(),
            "round trip 2 ms, 1000 Mbit/s, queue 244 KiB, 0.1 % lost, 1 % reordered, \
             up to 0.05 ms later, pauses of 10 ms each 1000 ms"
        );
    }

    #[test]
    fn the_report_says_which_goals_are_met() {
        let flow = |rate: f64| PathGoodput { whole: rate, second_half: rate, sent: [100, 3] };
        let round = PathRound {
            small: flow(95e6),
            large: flow(80e6),
            gets: flow(85e6),
            tcp: flow(100e6),
            trip_ns: 2.1e6,
            tcp_trip_ns: 2.2e6,
        };
        let report = RelayReport {
            shape: shape(),
            span_ns: 3_000_000_000,
            tcp_control: "cubic".into(),
            rounds: vec![round; 3],
            real_time: true,
            counts: PathCounts::default(),
        };
        let text = crate::render::text(&report.report().unwrap());
        assert_eq!(
            (text.matches("missed").count(), text.matches(" met").count()),
            (2, 2),
            "{text}"
        );
        assert!(text.contains("8 KiB: 300 packets, 9 of them again"), "{text}");
        assert!(RelayReport { rounds: Vec::new(), ..report }.report().is_err());
    }
}
