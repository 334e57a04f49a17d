//! Tables of a trace's summary.

use crate::schema::{Figure, InstrumentReport, ReportColumn, ReportTable, plain};
use crate::traces::summary::TraceSummary;
use anyhow::Result;

/// Ranks with a row of their own at most.
const MAX_ROWS: usize = 64;

/// Returns the report of a summary.
///
/// # Errors
/// Fails if it has no JSON form.
pub fn report(summary: &TraceSummary) -> Result<InstrumentReport> {
    let title = format!(
        "Trace of {} ranks: {} events in {:.3} ms",
        summary.ranks.len(),
        summary.events(),
        ms(summary.span_ns)
    );
    let mut report = InstrumentReport::new("trace", title, summary)?;
    report.tables = vec![ranks(summary), messages(summary), waits(summary)];
    report.tables.push(longest(summary));
    Ok(report)
}

#[expect(clippy::cast_precision_loss, reason = "times are far below 2^53 ns")]
fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn count(number: u64) -> f64 {
    number as f64
}

fn ranks(summary: &TraceSummary) -> ReportTable {
    let headings = ["compute", "handlers", "waits", "barriers", "faults", "locks"];
    let mut columns: Vec<_> = headings.map(ReportColumn::ours).into();
    columns.push(ReportColumn::ours("events").in_unit("", 0));
    columns.push(ReportColumn::ours("dropped").in_unit("", 0));
    let mut table = ReportTable::new("rank", columns);
    for (rank, of) in summary.ranks.iter().enumerate().take(MAX_ROWS) {
        let t = &of.times;
        let times = [t.compute_ns, t.handler_ns, t.wait_ns, t.barrier_ns, t.fault_ns, t.lock_ns];
        let figures = times.map(ms).into_iter().chain([of.events, of.dropped].map(count));
        table.row(rank.to_string(), ("ms", 3), plain(figures));
    }
    if summary.ranks.len() > MAX_ROWS {
        table.notes.push(format!("further ranks: {}", summary.ranks.len() - MAX_ROWS));
    }
    for (rank, of) in summary.ranks.iter().enumerate() {
        if !of.left {
            table.notes.push(format!("rank {rank} did not leave the job: its trace ends early"));
        }
        match of.clock_error_ns {
            Some(0) => {}
            Some(error) => table.notes.push(format!(
                "rank {rank}: another machine's clock, set by its messages, +- {:.1} us",
                ms(error) * 1e3
            )),
            None => table.notes.push(format!(
                "rank {rank}: another machine's clock, set by the time of day: no messages lead \
                 both ways"
            )),
        }
    }
    let late: u64 = summary.ranks.iter().map(|rank| rank.late).sum();
    if late > 0 {
        table.notes.push(format!(
            "{late} events were noted long after they happened, and have the time of the event \
             before them"
        ));
    }
    let dropped: u64 = summary.ranks.iter().map(|rank| rank.dropped).sum();
    if dropped > 0 {
        table.notes.push(format!(
            "{dropped} events had no room: more is traced with CLUMP_TRACE_EVENTS set higher"
        ));
    }
    table
}

fn messages(summary: &TraceSummary) -> ReportTable {
    let columns = ["sent", "handled", "bytes"].map(|name| ReportColumn::ours(name).in_unit("", 0));
    let times = ["shortest", "mean", "longest"].map(ReportColumn::ours);
    let mut table = ReportTable::new("messages", columns.into_iter().chain(times).collect());
    for (name, of) in &summary.messages {
        let counts = [of.sent, of.handled, of.bytes].map(|n| Some(Figure::from(count(n))));
        let us = |ns: f64| (of.handled > 0).then(|| Figure::from(ns / 1e3));
        let times = [
            us(count(of.least_ns)),
            us(count(of.sum_ns) / count(of.handled.max(1))),
            us(count(of.most_ns)),
        ];
        table.row((*name).to_owned(), ("us", 2), counts.into_iter().chain(times).collect());
    }
    table.notes.push("times are from sending to the beginning of the handler".into());
    if summary.unhandled + summary.unsent > 0 {
        table.notes.push(format!(
            "messages without a handler in a trace: {}, handlers without a sending: {}",
            summary.unhandled, summary.unsent
        ));
    }
    if summary.forgotten > 0 {
        table.notes.push(format!(
            "messages are missing from the times: too many were under way at once to remember {} \
             ends",
            summary.forgotten
        ));
    }
    table
}

fn waits(summary: &TraceSummary) -> ReportTable {
    let columns = vec![ReportColumn::ours("number").in_unit("", 0), ReportColumn::ours("time")];
    let mut table = ReportTable::new("waits for", columns);
    for (what, (number, ns)) in &summary.waits {
        table.row((*what).to_owned(), ("ms", 3), plain([count(*number), ms(*ns)]));
    }
    table
}

fn longest(summary: &TraceSummary) -> ReportTable {
    let columns = vec![ReportColumn::ours("time"), ReportColumn::ours("begins")];
    let mut table = ReportTable::new("longest waits", columns);
    for wait in &summary.longest {
        let heard = wait.heard_from.map(|from| format!(", last heard of rank {from}"));
        let name = format!("rank {}: {}{}", wait.rank, wait.what, heard.unwrap_or_default());
        table.row(name, ("ms", 3), plain([wait.ns, wait.since_ns].map(ms)));
    }
    table
}
