//! The results of `clump lab logp` in the form that all instruments have.

use crate::bare::Names;
use crate::goals::{BandwidthGoal, Goals};
use crate::negative;
use crate::pair::BulkPath;
use crate::plot;
use crate::render::bytes;
use crate::report::{Bandwidth, BarePath, LogpReport};
use crate::schema::{InstrumentReport, ReportColumn, ReportTable, figures_of};
use anyhow::Result;
use clump_loggp::Median;

/// Extent of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The LogP table and the three comparisons: for the end of a demonstration.
    Table,
    /// The signature, the breakdown and the other methods too.
    Everything,
}

impl LogpReport {
    /// Returns the report.
    ///
    /// # Errors
    /// Fails if it has no JSON form.
    pub fn report(&self, extent: Extent) -> Result<InstrumentReport> {
        let title = match &self.link {
            Some(_) => "LogP of the network between two nodes".into(),
            None => "LogP of shared memory between two ranks".to_owned(),
        };
        let mut report = InstrumentReport::new("logp", title, self)?;
        if let Some(link) = &self.link {
            report = report.with("security", link.security);
        }
        report = report.with("seconds", format!("{:.1}", self.elapsed_s));
        let heading = ReportTable { notes: self.heading(), ..ReportTable::default() };
        report.tables = vec![heading, self.parameters(), self.comparisons()];
        if !self.paths.is_empty() {
            report.tables.push(paths(&self.paths));
        }
        if extent == Extent::Everything {
            let plot = plot::signature(&self.measurement.signature);
            let notes = plot.lines().map(String::from).collect();
            report.tables.push(ReportTable { notes, ..ReportTable::default() });
            report.tables.push(self.methods());
            report.tables.extend(self.breakdown.tables());
        }
        Ok(report)
    }

    /// Returns lines about the place of the measurement.
    fn heading(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(link) = &self.link {
            lines.push(format!(
                "UDP from {}; a short request is a packet of {} bytes; the path carries datagrams of {}",
                link.address, link.packet_bytes, link.datagram_bytes
            ));
        }
        if let (Some(shape), Some(_)) = (&self.shape, &self.link) {
            lines.push(format!(
                "fastest bare stream: datagrams of {} bytes, {} under way",
                shape.datagram_bytes,
                bytes(to_real(shape.window_bytes))
            ));
        }
        if let (Some(placement), Some(ns)) = (self.placement, self.line_one_way_ns) {
            lines.push(format!("{}: {ns:.0} ns", placement.text()));
        }
        if let Some(load) = self.crowd {
            lines.push(format!(
                "other programs ran beside this (load average {load:.1}): do not trust these figures,"
            ));
            lines.push("repeat them on a quiet machine".into());
        }
        lines
    }

    fn parameters(&self) -> ReportTable {
        let e = &self.estimate;
        let columns = ["median", "from", "to"].map(ReportColumn::ours).into();
        let mut table = ReportTable::new("parameter (with its 95 % interval)", columns);
        let mut row = |name: &str, m: &Median, unit| {
            let ends = [m.low, m.high].map(|end| Some(end.into()));
            table.row(name, unit, [Some((*m).into())].into_iter().chain(ends).collect());
        };
        row("o_s   processor time of a lone send", &e.o_s, ("ns", 1));
        row("o_r   of a lone receive", &e.o_r, ("ns", 1));
        let latency = if e.l.value < 0.0 {
            "L     < 0: sending and receiving overlap"
        } else {
            "L     RTT / 2 - o_s - o_r"
        };
        row(latency, &e.l, ("ns", 1));
        row("RTT   lone request out to reply handled", &e.rtt, ("ns", 1));
        let paced = if e.paced.value < 0.0 {
            "o     < 0: delays varied by more than it"
        } else {
            "o     o_s + o_r of a paced burst's message"
        };
        row(paced, &e.paced, ("ns", 1));
        row("g     interval of answered requests, burst", &e.g, ("ns", 1));
        row("G     time per byte of a stream", &e.big_g, ("ns/B", 4));
        let bandwidth = Median {
            value: 1.0 / e.big_g.value,
            low: 1.0 / e.big_g.high,
            high: 1.0 / e.big_g.low,
            samples: e.big_g.samples,
        };
        row("1/G   bandwidth of long streams", &bandwidth, ("GB/s", 2));
        let half = vec![Some((e.half_power_bytes / 1024.0).into()), None, None];
        table.row("n1/2  size that reaches half of it", ("KiB", 1), half);
        negative::explain(&mut table);
        table
    }

    fn comparisons(&self) -> ReportTable {
        let link = self.link.as_ref();
        let (names, goals) = (Names::of(link), Goals::of(link, self.placement));
        let columns = vec![
            ReportColumn::ours("clump"),
            ReportColumn::baseline("beside"),
            ReportColumn::ratio("ratio"),
        ];
        let mut table = ReportTable::new("interleaved, medians", columns);
        let name = |what: &str, against: &str| format!("{what} / {against}");
        let c = &self.round_trip_ns;
        table
            .row(name("short round trip", names.round_trip), ("ns", 1), figures_of(c, 1.0))
            .goal(format!("<= {:.2}", goals.round_trip), c.ratio.value <= goals.round_trip);
        let c = &self.rate_per_s;
        table.row(name("one-way short rate", names.rate), ("M/s", 1), figures_of(c, 1e-6)).goal(
            format!(">= {:.0} M/s", goals.rate_per_s / 1e6),
            c.ours.value >= goals.rate_per_s,
        );
        for Bandwidth { bytes: size, way, against, bytes_per_s } in &self.bandwidth {
            // It is deposited at one place, which stays in the sender's cache.
            let is_unread = link.is_none() && *way == BulkPath::Long;
            let unread = if is_unread { ", not read" } else { "" };
            let what = format!("{} {}{unread}", way.name(), bytes(to_real(*size)));
            let figures = figures_of(bytes_per_s, 1e-9);
            let row = table.row(name(&what, against), ("GB/s", 1), figures);
            if let Some(least) = goals.bandwidth.share(*way, *size) {
                row.goal(format!(">= {least:.2}"), bytes_per_s.ratio.value >= least);
            }
            if let BandwidthGoal::Absolute(least) = goals.bandwidth
                && *size >= 1 << 20
            {
                let goal = format!(">= {:.0} GB/s", least / 1e9);
                row.goal(goal, bytes_per_s.ours.value >= least);
            }
        }
        table
    }

    fn methods(&self) -> ReportTable {
        let columns = vec![
            ReportColumn::ours("bursts"),
            ReportColumn::ours("exchanges"),
            ReportColumn::ours("trains"),
            ReportColumn::ours("apart").in_unit("%", 1),
        ];
        let title = "medians by three methods";
        let mut table = ReportTable::new(title, columns);
        for row in &self.methods {
            let medians = [row.bursts, row.exchanges, row.trains];
            let apart = row.disagreement_percent().map(Into::into);
            let figures =
                medians.map(|median| median.map(|median| median.value.into())).into_iter();
            let figures = figures.chain([apart]);
            table.row(format!("  {}", row.name), ("ns", 1), figures.collect());
        }
        table.notes.push(
            "  bursts: Culler et al.; lone exchanges: Kielmann et al.; trains: Hoefler et al."
                .into(),
        );
        table.notes.push(format!(
            "  gap of a stream that is not answered {:.1} ns, against g = {:.1} ns answered",
            self.trains.g_one_way.value, self.estimate.g.value
        ));
        negative::explain(&mut table);
        table
    }
}

/// Returns the bare network, one row per kind of system call.
fn paths(paths: &[BarePath]) -> ReportTable {
    let columns = vec![
        ReportColumn::baseline("round trip"),
        ReportColumn::ratio("clump / it"),
        ReportColumn::baseline("one way").in_unit("M datagrams/s", 2),
    ];
    let mut table = ReportTable::new("bare UDP of the same size", columns);
    for BarePath { call, round_trip_ns, datagrams_per_s } in paths {
        let trip = round_trip_ns.as_ref();
        let figures = vec![
            trip.map(|contrast| contrast.baseline.into()),
            trip.map(|contrast| contrast.ratio.into()),
            Some(datagrams_per_s.scaled(1e-6, 0.0).into()),
        ];
        table.row(call.name(), ("ns", 0), figures);
    }
    table
}

#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
fn to_real(size: usize) -> f64 {
    size as f64
}
