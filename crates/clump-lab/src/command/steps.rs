//! `clump lab steps`: steps of a send and a receive.

use crate::pair::Scope;
use crate::schema::{InstrumentReport, ReportColumn, ReportTable, plain};
use crate::steps::net::{self, Cost};
use crate::steps::{self, Breakdown};
use anyhow::Result;
use clump_trace::line_state::LineWatch;

/// Options of `clump lab steps`.
#[derive(Debug, Clone, clap::Args)]
pub struct StepsArgs {
    /// A message through shared memory, or between nodes
    #[arg(long, value_enum, default_value = "net")]
    pub scope: Scope,
    /// One JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Runs the command. Returns the exit code. It needs no job: one thread is both sides.
///
/// # Errors
/// Fails as the measurement does.
pub fn run(args: &StepsArgs) -> Result<u8> {
    let watch = LineWatch::begin();
    let report = match args.scope {
        Scope::Shm => {
            let breakdown: Breakdown = steps::measure()?;
            let title = "a short message on one node, step by step".into();
            let mut report = InstrumentReport::new("steps", title, &breakdown)?;
            report.tables = breakdown.tables();
            report
        }
        Scope::Net => report_of(&net::measure()?)?,
    };
    crate::render::show(&report.with("scope", args.scope.text()).watched(watch), args.json)?;
    Ok(0)
}

fn report_of(cost: &Cost) -> Result<InstrumentReport> {
    let Cost { packet_bytes, send, receive, calls } = cost;
    let size = |payload: usize| match payload {
        0 => "short".to_owned(),
        bytes => format!("{bytes} B"),
    };
    let sizes = net::PAYLOADS.map(size);
    let both =
        |size: &String| ["aead", "crc"].map(|how| ReportColumn::ours(format!("{size} {how}")));
    let mut table = ReportTable::new("", sizes.iter().flat_map(both).collect());
    #[expect(clippy::cast_precision_loss, reason = "packets are far below 2^53 bytes")]
    let bytes = packet_bytes.as_flattened().iter().map(|bytes| *bytes as f64);
    table.row("size of the packet", ("B", 0), plain(bytes));
    for step in send.iter().chain(receive) {
        let indent = if step.name.starts_with("sum") { "" } else { "  " };
        let figures = plain(step.ns.as_flattened().iter().copied());
        table.row(format!("{indent}{}", step.name), ("ns", 0), figures);
    }
    let both =
        |size: &String| ["send", "receive"].map(|way| ReportColumn::ours(format!("{size} {way}")));
    let columns = sizes.iter().flat_map(both).collect();
    let mut kernel = ReportTable::new("a datagram through the kernel, aead", columns);
    for call in calls {
        let figures = call.send_ns.iter().zip(call.receive_ns).flat_map(|(a, b)| [*a, b]);
        kernel.row(format!("  {}", call.name), ("ns", 0), plain(figures));
    }
    let title = "a packet with one message over loopback, one thread, step by step".into();
    let mut report = InstrumentReport::new("steps", title, cost)?;
    report.tables = vec![table, kernel];
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::net::{Calls, NetStep};

    #[test]
    fn the_table_fits_and_names_every_step() {
        let step = |name| NetStep { name, ns: [[12_345.6; 2]; 2] };
        let calls =
            Calls { name: "write, read".into(), send_ns: [9999.9; 2], receive_ns: [1.0; 2] };
        let cost = Cost {
            packet_bytes: [[120, 108], [1144, 1132]],
            send: vec![step("protocol"), step("sum of a send")],
            receive: vec![step("frame read"), step("sum of a receive")],
            calls: vec![calls],
        };
        let text = crate::render::text(&report_of(&cost).unwrap());
        assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
        for word in ["protocol", "sum of a receive", "1144", "write, read"] {
            assert!(text.contains(word), "{word}\n{text}");
        }
    }
}
