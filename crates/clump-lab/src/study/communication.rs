//! The communication of programs (paper 001, table 4; locality as in paper 000, table 4): of all
//! messages, and of those within a node and between nodes.

use crate::schema::{Figure, ReportColumn, ReportTable};
use crate::study::input::StudiedProgram;
use clump_trace::{Histogram, Intervals, Profile, Snapshot, Summary};

/// Name, unit and digits of a figure of the communication, and where it is.
type SummaryRow = (&'static str, &'static str, usize, fn(&Summary) -> Option<f64>);

/// Figures of all messages, and of those of one path.
const MESSAGES: [SummaryRow; 10] = [
    ("messages per rank, average", "", 0, |s| Some(s.messages_per_rank)),
    ("messages per rank, most", "", 0, |s| Some(s.messages_max as f64)),
    ("messages per rank and ms", "", 2, |s| Some(s.messages_per_rank_ms)),
    ("message interval", "us", 1, |s| s.message_interval_us),
    ("bulk messages", "%", 2, |s| Some(s.bulk_percent)),
    ("reads", "%", 2, |s| Some(s.read_percent)),
    ("bulk payload per rank", "kB/s", 1, |s| Some(s.bulk_kb_s)),
    ("small payload per rank", "kB/s", 1, |s| Some(s.small_kb_s)),
    ("balance (most / average)", "", 2, |s| s.balance),
    ("returned messages", "", 0, |s| Some(s.returned as f64)),
];

/// Figures of the whole run, before the messages.
const RUN: [SummaryRow; 5] = [
    ("ranks", "", 0, |s| Some(s.ranks as f64)),
    ("time", "s", 3, |s| Some(s.elapsed_ms / 1e3)),
    ("barrier interval", "ms", 1, |s| s.barrier_interval_ms),
    ("time in barriers", "%", 2, |s| Some(s.barrier_percent)),
    ("stayed on the node", "%", 2, |s| Some(s.local_percent)),
];

/// Figures of packets between nodes.
const PACKETS: [SummaryRow; 5] = [
    ("packets per rank", "", 0, |s| Some(s.network.as_ref()?.packets_per_rank)),
    ("messages per packet", "", 2, |s| Some(s.network.as_ref()?.messages_per_packet)),
    ("bytes of packets per rank", "kB/s", 1, |s| Some(s.network.as_ref()?.kb_s)),
    ("sent again", "%", 2, |s| Some(s.network.as_ref()?.resent_percent)),
    ("packets thrown away", "", 0, |s| Some(s.network.as_ref()?.refused as f64)),
];

/// Programs with their profiles.
type Known<'a> = [(&'a str, &'a Profile)];

/// Returns paper 001, table 4, with a column for each program, and the same of each path where both
/// are used.
pub fn tables(programs: &[StudiedProgram]) -> Vec<ReportTable> {
    let known: Vec<_> =
        programs.iter().filter_map(|p| Some((p.name.as_str(), p.profile.as_ref()?))).collect();
    if known.is_empty() {
        return Vec::new();
    }
    let mut tables = vec![whole(&known)];
    let of_path = |path: fn(&Snapshot) -> Snapshot| -> Vec<Summary> {
        known.iter().map(|(_, profile)| summary(profile, path)).collect()
    };
    let (within, between) = (of_path(Snapshot::within_nodes), of_path(Snapshot::between_nodes));
    let used = |all: &[Summary]| all.iter().any(|one| one.messages_max > 0);
    if used(&within) && used(&between) {
        for (title, summaries) in
            [("communication within a node", within), ("communication between nodes", between)]
        {
            let mut table = ReportTable::new(title, columns(&known));
            // Returned messages are not counted by path.
            add(&mut table, &MESSAGES[..MESSAGES.len() - 1], &summaries);
            tables.push(table);
        }
    }
    tables
}

fn columns(known: &Known<'_>) -> Vec<ReportColumn> {
    known.iter().map(|(name, _)| ReportColumn::ours(*name)).collect()
}

fn whole(known: &Known<'_>) -> ReportTable {
    let summaries: Vec<_> = known.iter().map(|(_, profile)| profile.summary.clone()).collect();
    let mut table = ReportTable::new("communication", columns(known));
    add(&mut table, &RUN, &summaries);
    add(&mut table, &MESSAGES, &summaries);
    let medians = |pick: fn(&Intervals) -> &Histogram, unit_ns: f64| {
        let of = |(_, profile): &(&str, &Profile)| {
            let all = Intervals::sum(&profile.intervals);
            pick(&all).quantile_ns(0.5).map(|ns| Figure::from(ns as f64 / unit_ns))
        };
        known.iter().map(of).collect::<Vec<_>>()
    };
    for (name, unit, figures) in [
        ("interval between sends, half below", "us", medians(|all| &all.sends, 1e3)),
        ("interval between barriers, half below", "ms", medians(|all| &all.barriers, 1e6)),
    ] {
        if figures.iter().any(Option::is_some) {
            table.row(name, (unit, 2), figures);
        }
    }
    if summaries.iter().any(|summary| summary.network.is_some()) {
        add(&mut table, &PACKETS, &summaries);
    }
    let lines = known.iter().filter_map(|(name, profile)| Some((name, profile.lines?)));
    table.notes.extend(lines.map(|(name, lines)| format!("{name}: {}", lines.note())));
    table
}

fn add(table: &mut ReportTable, rows: &[SummaryRow], summaries: &[Summary]) {
    for &(name, unit, digits, pick) in rows {
        let figures = summaries.iter().map(|summary| pick(summary).map(Figure::from)).collect();
        table.row(name, (unit, digits), figures);
    }
}

/// Returns the summary of the messages of one path.
fn summary(profile: &Profile, path: fn(&Snapshot) -> Snapshot) -> Summary {
    let ranks: Vec<_> = profile.counters.iter().map(path).collect();
    let interfaces: Vec<_> = profile.interfaces.iter().map(|one| path(&one.network)).collect();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times of runs")]
    let elapsed_ns = (profile.summary.elapsed_ms * 1e6).max(0.0) as u64;
    Summary::of(&ranks, &interfaces, elapsed_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::fake::profile;
    use clump_trace::{Counter as C, LineTimes};

    fn program(name: &str, counters: Vec<Snapshot>) -> StudiedProgram {
        let profile = Some(profile(counters));
        StudiedProgram { name: name.into(), profile, ..StudiedProgram::default() }
    }

    fn value(tables: &[ReportTable], title: &str, row: &str) -> Option<f64> {
        let table = tables.iter().find(|table| table.title == title)?;
        let row = table.rows.iter().find(|one| one.name == row)?;
        row.figures[0].map(|figure| figure.value)
    }

    #[test]
    fn messages_are_told_apart_by_their_path() {
        let mut rank = Snapshot::ZERO;
        rank[C::RequestShortSent] = 300;
        rank[C::NetRequestMediumSent] = 100;
        rank[C::NetRequestMediumSentBytes] = 50_000;
        rank[C::NetPacketsSent] = 90;
        rank[C::NetUnitsSent] = 80;
        rank[C::NetUnitsResent] = 4;
        rank[C::ReturnedNoEndpoint] = 3;
        let mut program = program("p", vec![rank]);
        let sends = serde_json::from_str("[0,0,0,0,0,0,0,0,0,5,1]").unwrap();
        let intervals = &mut program.profile.as_mut().unwrap().intervals[0];
        *intervals = Intervals { sends, ..Intervals::default() };
        let tables = tables(&[program]);
        let (all, within) = ("communication", "communication within a node");
        let between = "communication between nodes";
        assert_eq!(value(&tables, all, "messages per rank, most"), Some(400.0));
        assert_eq!(value(&tables, within, "messages per rank, most"), Some(300.0));
        assert_eq!(value(&tables, between, "messages per rank, most"), Some(100.0));
        assert_eq!(value(&tables, within, "bulk messages"), Some(0.0));
        assert_eq!(value(&tables, between, "bulk messages"), Some(100.0));
        assert_eq!(value(&tables, between, "bulk payload per rank"), Some(50.0));
        assert_eq!(value(&tables, all, "stayed on the node"), Some(75.0));
        assert_eq!(value(&tables, all, "returned messages"), Some(3.0));
        assert_eq!(value(&tables, all, "sent again"), Some(5.0));
        assert_eq!(value(&tables, all, "interval between sends, half below"), Some(1.024));
        assert_eq!(value(&tables, all, "interval between barriers, half below"), None);
    }

    #[test]
    fn a_program_of_one_path_has_one_table() {
        let mut rank = Snapshot::ZERO;
        rank[C::RequestShortSent] = 300;
        let mut far = program("far", vec![rank.clone()]);
        let lines = LineTimes { before_ns: 450.0, after_ns: 470.0 };
        far.profile.as_mut().unwrap().lines = Some(lines);
        let tables = tables(&[program("p", vec![rank]), StudiedProgram::default(), far]);
        assert_eq!(tables.len(), 1);
        assert_eq!(tables[0].notes, [format!("far: {}", lines.note())]);
        assert_eq!(value(&tables, "communication", "sent again"), None, "there is no network");
        assert!(super::tables(&[StudiedProgram::default()]).is_empty());
    }
}
