//! Rates of a running job between two readings of its counters. Pure.

use super::view::{LineStyle, RankOrder, ViewLine, spark};
use clump_trace::{Counter, Monitor, Snapshot};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;

/// One reading of a job.
#[derive(Debug, Clone)]
pub(crate) struct JobLook {
    /// Time of it, in ns of the machine's clock.
    pub(crate) at_ns: u64,
    /// Rank, its node, and its activity in words with its duration in ms.
    pub(crate) ranks: Vec<(u32, u32, String, u64)>,
    /// Counters, in the order of the ranks.
    pub(crate) counters: Vec<Snapshot>,
    /// Interfaces of the nodes.
    pub(crate) interfaces: Vec<Monitor>,
    /// Stacks that ranks drive themselves.
    pub(crate) stacks: Vec<Monitor>,
    /// The latest clock of a rank, in ns, where time is virtual.
    pub(crate) virtual_ns: Option<u64>,
}

/// Virtual time of a job, which passes beside the machine's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub(crate) struct VirtualRates {
    /// The latest clock of a rank, in ns since the job began.
    pub(crate) ns: u64,
    /// Virtual seconds that pass in a second of this machine.
    pub(crate) by_second: f64,
}

/// One rank between two readings; rates are by the second.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct RankRates {
    /// The rank.
    pub(crate) rank: u32,
    /// Its node.
    pub(crate) node: u32,
    /// Activity at the second reading.
    pub(crate) doing: String,
    /// Duration of it, in ms; 0 where unknown.
    pub(crate) for_ms: u64,
    /// Messages sent.
    pub(crate) sent: f64,
    /// Payload bytes sent.
    pub(crate) sent_bytes: f64,
    /// Messages handled.
    pub(crate) handled: f64,
    /// Times a sender found no room, within the node or to other nodes.
    pub(crate) stalls: f64,
    /// Number of these to other nodes: the window or the credits were used up.
    pub(crate) window: f64,
    /// Reports of consumed requests, which give other nodes their credits back.
    pub(crate) credits: f64,
    /// Messages that had to wait in a queue: the shared one because no lane was free, that of
    /// replies, or at a proxy because the endpoint was full.
    pub(crate) queued: f64,
    /// Sleeps in the kernel.
    pub(crate) sleeps: f64,
    /// Packets' worth of messages sent again.
    pub(crate) resent: f64,
    /// Acquires of locks and waits for flags of the shared heap.
    pub(crate) locks: f64,
    /// Share of the time spent in barriers that ended, in percent.
    pub(crate) barrier_percent: f64,
}

/// A job between two readings.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct JobRates {
    /// Time between the readings, in ms.
    pub(crate) over_ms: f64,
    /// Every rank.
    pub(crate) ranks: Vec<RankRates>,
    /// Interfaces of the nodes, since they started.
    #[schemars(with = "Vec<serde_json::Value>")]
    pub(crate) interfaces: Vec<Monitor>,
    /// Stacks that ranks drive themselves, since they started.
    #[schemars(with = "Vec<serde_json::Value>")]
    pub(crate) stacks: Vec<Monitor>,
    /// Virtual time of the job; null where time is the machine's.
    pub(crate) virtual_time: Option<VirtualRates>,
}

/// Counters of senders that found no room.
const STALLS: [Counter; 4] =
    [Counter::LaneFull, Counter::BulkFull, Counter::QueueFull, Counter::NetFull];
/// Counters of messages that had to wait in a queue.
const QUEUED: [Counter; 3] = [Counter::QueueFallbacks, Counter::RepliesDeferred, Counter::NetHeld];
/// Headings and widths of a rank's numbers, all but the first two and the last by the second, and
/// true where a view of less than [`WIDE`] columns has them.
const COLUMNS: [(&str, usize, bool); 12] = [
    ("rank", 5, true),
    ("node", 4, true),
    ("sent/s", 6, true),
    ("bytes/s", 7, true),
    ("handled", 7, true),
    ("stalls", 6, true),
    ("window", 6, false),
    ("queued", 6, false),
    ("resent", 6, true),
    ("locks", 5, false),
    ("sleeps", 6, true),
    ("barr%", 5, true),
];
/// Columns of a terminal that shows all numbers.
const WIDE: usize = 100;

impl RankRates {
    /// Returns the style of its line: what stands out is lost packets first, then room that was
    /// missing, and waiting for others.
    fn style(&self) -> LineStyle {
        const WAITS_PERCENT: f64 = 50.0;
        match self {
            rank if rank.resent > 0.0 => LineStyle::Bad,
            rank if rank.stalls > 0.0 || rank.queued > 0.0 => LineStyle::Warning,
            rank if rank.barrier_percent > WAITS_PERCENT => LineStyle::Warning,
            _ => LineStyle::Plain,
        }
    }

    /// Returns the rank as a line under [`head`].
    fn line(&self, columns: usize) -> String {
        let rates = [
            self.sent,
            self.sent_bytes,
            self.handled,
            self.stalls,
            self.window,
            self.queued,
            self.resent,
            self.locks,
            self.sleeps,
        ];
        let percent = format!("{:.1}", self.barrier_percent.min(100.0));
        let numbers = [self.rank.to_string(), self.node.to_string()].into_iter();
        row(columns, numbers.chain(rates.map(short)).chain([percent]), &self.doing)
    }
}

/// Returns the line of headings; the one that ranks are sorted by is in capitals.
fn head(columns: usize, order: RankOrder) -> String {
    let heading = |name: &str| match name == order.heading() {
        true => name.to_uppercase(),
        false => name.to_owned(),
    };
    row(columns, COLUMNS.iter().map(|(name, ..)| heading(name)), "doing")
}

/// Returns a line with as many of these numbers as fit, and the last text.
fn row(columns: usize, numbers: impl Iterator<Item = String>, last: &str) -> String {
    let shown = COLUMNS.iter().zip(numbers).filter(|((.., always), _)| *always || columns >= WIDE);
    let numbers: Vec<_> =
        shown.map(|((_, width, _), number)| format!("{number:>width$}")).collect();
    format!("{}  {last}", numbers.join(" "))
}

impl JobRates {
    /// Returns the rates between two readings of the same job.
    pub(crate) fn between(before: &JobLook, after: &JobLook) -> Self {
        let ns = after.at_ns.saturating_sub(before.at_ns).max(1);
        let ranks = after.ranks.iter().zip(&after.counters).enumerate();
        let ranks = ranks.map(|(at, ((rank, node, doing, for_ms), counters))| {
            let earlier = before.counters.get(at).unwrap_or(&Snapshot::ZERO);
            let since = counters.clone() - earlier;
            let rate = |number: u64| number as f64 * 1e9 / ns as f64;
            let sum = |counters: &[Counter]| rate(counters.iter().map(|&c| since[c]).sum());
            let all = since.over_all_paths();
            RankRates {
                rank: *rank,
                node: *node,
                doing: doing.clone(),
                for_ms: *for_ms,
                sent: rate(all.messages_sent()),
                sent_bytes: rate(all.bulk_bytes_sent() + all.short_bytes_sent()),
                handled: rate(since[Counter::HandlerRuns]),
                stalls: sum(&STALLS),
                window: rate(since[Counter::NetFull]),
                credits: rate(since[Counter::NetCreditsSent]),
                queued: sum(&QUEUED),
                sleeps: rate(since[Counter::Parks]),
                resent: rate(since[Counter::NetUnitsResent]),
                locks: rate(since[Counter::SvmLocks]),
                barrier_percent: rate(since[Counter::BarrierWait]) / 1e7,
            }
        });
        Self {
            over_ms: ns as f64 / 1e6,
            ranks: ranks.collect(),
            interfaces: after.interfaces.clone(),
            stacks: after.stacks.clone(),
            virtual_time: after.virtual_ns.map(|virtual_ns| {
                let passed = virtual_ns.saturating_sub(before.virtual_ns.unwrap_or(0));
                VirtualRates { ns: virtual_ns, by_second: passed as f64 / ns as f64 }
            }),
        }
    }

    /// Returns the messages of all ranks by the second.
    pub(crate) fn sent(&self) -> f64 {
        self.ranks.iter().map(|rank| rank.sent).sum()
    }

    /// Returns the view as lines of at most `columns`: as many ranks as fit into `rows` lines, in
    /// this order; `history` has the messages by the second of earlier views.
    pub(crate) fn lines(
        &self,
        title: &str,
        (columns, rows): (usize, usize),
        (order, history): (RankOrder, &[f64]),
    ) -> Vec<ViewLine> {
        let bytes: f64 = self.ranks.iter().map(|rank| rank.sent_bytes).sum();
        let (sent, bytes) = (short(self.sent()), short(bytes));
        let mut rates = format!("{sent} messages/s, {bytes}B/s, over {:.1} s", self.over_ms / 1e3);
        if let Some(VirtualRates { ns, by_second }) = self.virtual_time {
            let virtual_s = ns as f64 / 1e9;
            let _ = write!(rates, "; virtual time {virtual_s:.6} s, {by_second:.3} s a second");
        }
        let left = columns.saturating_sub(rates.chars().count() + 2);
        let mut lines = vec![
            ViewLine::of(LineStyle::Plain, title.to_owned()),
            ViewLine::of(LineStyle::Plain, format!("{rates}  {}", spark(history, left))),
            ViewLine::of(LineStyle::Head, head(columns, order)),
        ];
        let mut interfaces = Vec::new();
        for monitors in [&self.interfaces, &self.stacks].into_iter().filter(|all| !all.is_empty()) {
            interfaces.push(String::new());
            interfaces.extend(Monitor::lines(monitors));
        }
        let room = rows.saturating_sub(lines.len() + 1).max(1);
        interfaces.truncate(room.saturating_sub(self.ranks.len().min(room)));
        let mut ranks: Vec<&RankRates> = self.ranks.iter().collect();
        // Where not all fit, the busiest do, unless another order is chosen.
        let order = match order {
            RankOrder::Rank if ranks.len() > room => RankOrder::Sent,
            order => order,
        };
        let by = |rank: &RankRates| match order {
            RankOrder::Rank => 0.0,
            RankOrder::Sent => rank.sent,
            RankOrder::Bytes => rank.sent_bytes,
            RankOrder::Stalls => rank.stalls,
            RankOrder::Resent => rank.resent,
            RankOrder::Barrier => rank.barrier_percent,
        };
        ranks.sort_by(|a, b| by(b).total_cmp(&by(a)).then(a.rank.cmp(&b.rank)));
        for rank in ranks.iter().take(room) {
            let text = rank.line(columns).chars().take(columns).collect();
            lines.push(ViewLine::of(rank.style(), text));
        }
        if self.ranks.len() > room {
            let more = format!("... and {} more ranks", self.ranks.len() - room);
            lines.push(ViewLine::of(LineStyle::Plain, more));
        }
        lines.extend(interfaces.into_iter().map(|text| ViewLine::of(LineStyle::Plain, text)));
        lines
    }
}

/// Formats a number in few columns: 1.2k, 34M.
pub(super) fn short(number: f64) -> String {
    match number {
        n if n < 1e3 => format!("{n:.0}"),
        n if n < 1e4 => format!("{:.1}k", n / 1e3),
        n if n < 1e6 => format!("{:.0}k", n / 1e3),
        n if n < 1e7 => format!("{:.1}M", n / 1e6),
        n if n < 1e9 => format!("{:.0}M", n / 1e6),
        n => format!("{:.1}G", n / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(rates: &JobRates, size: (usize, usize)) -> Vec<String> {
        let lines = rates.lines("job 1", size, (RankOrder::Rank, &[]));
        lines.into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn ranks_are_sorted_by_what_is_chosen_and_what_stands_out_is_marked() {
        let (before, mut after) = (look(0, 3, 0), look(1_000_000_000, 3, 10));
        after.counters[0][Counter::NetUnitsResent] = 2;
        after.counters[1][Counter::NetFull] = 5;
        let rates = JobRates::between(&before, &after);
        let order = |order| {
            let lines = rates.lines("job 1", (100, 24), (order, &[1.0, 2.0]));
            let ranks = lines[3..].iter().map(|line| words(&line.text)[0].to_owned());
            ranks.collect::<Vec<_>>().join(" ")
        };
        let orders = [RankOrder::Rank, RankOrder::Sent, RankOrder::Stalls, RankOrder::Resent];
        assert_eq!(orders.map(order), ["0 1 2", "2 1 0", "1 0 2", "0 1 2"]);
        let lines = rates.lines("job 1", (100, 24), (RankOrder::Stalls, &[1.0, 2.0]));
        let styles: Vec<_> = lines[2..].iter().map(|line| line.style).collect();
        use LineStyle::{Bad, Head, Plain, Warning};
        assert_eq!(styles, [Head, Warning, Bad, Plain]);
        assert!(lines[2].text.contains("STALLS") && lines[2].text.contains("sent/s"));
        assert!(lines[1].text.ends_with("\u{2585}\u{2588}"), "a history: {}", lines[1].text);
    }

    fn look(at_ns: u64, ranks: usize, sent: u64) -> JobLook {
        let mut counters = vec![Snapshot::ZERO; ranks];
        for (rank, all) in counters.iter_mut().enumerate() {
            all[Counter::RequestShortSent] = sent * rank as u64;
            all[Counter::NetReplyShortSent] = sent;
            all[Counter::BarrierWait] = at_ns / 4;
        }
        let doing = |rank| (rank, 0, "in barrier 7, for rank 1 to arrive".to_owned(), 3);
        let ranks = (0..ranks as u32).map(doing).collect();
        let (interfaces, stacks, virtual_ns) = Default::default();
        JobLook { at_ns, ranks, counters, interfaces, stacks, virtual_ns }
    }

    #[test]
    fn virtual_time_is_beside_the_machines() {
        let (mut before, mut after) = (look(0, 1, 0), look(2_000_000_000, 1, 0));
        assert_eq!(JobRates::between(&before, &after).virtual_time, None);
        (before.virtual_ns, after.virtual_ns) = (Some(1_000_000_000), Some(1_500_000_000));
        let rates = JobRates::between(&before, &after);
        let of = VirtualRates { ns: 1_500_000_000, by_second: 0.25 };
        assert_eq!(rates.virtual_time, Some(of));
        let line = &lines_of(&rates, (100, 24))[1];
        assert!(line.contains("virtual time 1.500000 s, 0.250 s a second"), "{line}");
    }

    #[test]
    fn rates_are_of_what_happened_between_the_looks() {
        let rates = JobRates::between(&look(1_000_000_000, 2, 10), &look(1_500_000_000, 2, 30));
        assert_eq!(rates.ranks[1].sent, 80.0, "20 requests and 20 replies in half a second");
        assert_eq!((rates.ranks[0].sent, rates.ranks[0].barrier_percent), (40.0, 25.0));
        let lines = lines_of(&rates, (100, 24));
        assert_eq!(lines.len(), 5, "{lines:?}");
        assert!(lines[4].contains("in barrier 7"), "{lines:?}");
    }

    #[test]
    fn windows_queues_retransmits_locks_and_stacks_are_shown() {
        let (before, mut after) = (look(0, 1, 0), look(1_000_000_000, 1, 0));
        for (counter, count) in [
            (Counter::LaneFull, 1),
            (Counter::NetFull, 20),
            (Counter::NetCreditsSent, 9),
            (Counter::QueueFallbacks, 300),
            (Counter::NetHeld, 4),
            (Counter::NetUnitsResent, 50),
            (Counter::SvmLocks, 6),
            (Counter::Parks, 7),
        ] {
            after.counters[0][counter] = count;
        }
        let stack = serde_json::json!({
            "node": 0, "which": 0, "rank": 0, "carries": true, "elapsed_ms": 1.0,
            "utilisation": 0.5, "taken": 3, "brought": 2, "executed": 0, "queue_mean": 0.25,
            "queue_max": 0, "little": null, "stages": [],
        });
        after.stacks = vec![serde_json::from_value(stack).unwrap()];
        let rates = JobRates::between(&before, &after);
        assert_eq!(rates.ranks[0].credits, 9.0);
        let lines = lines_of(&rates, (100, 24));
        let (head, rank) = (words(&lines[2]), words(&lines[3]));
        let of = |name: &str| rank[head.iter().position(|word| *word == name).unwrap()];
        let names = ["stalls", "window", "queued", "resent", "locks", "sleeps", "barr%"];
        assert_eq!(names.map(of), ["21", "20", "304", "50", "6", "7", "25.0"]);
        assert_eq!(lines[2].find("doing"), lines[3].find("in barrier"), "{lines:?}");
        assert!(lines.iter().any(|line| line.starts_with("rank 0")), "{lines:?}");
        assert!(lines.iter().all(|line| line.chars().count() <= 100), "{lines:?}");
    }

    #[test]
    fn a_narrow_view_has_room_for_what_a_rank_does() {
        let rates = JobRates::between(&look(0, 1, 0), &look(1_000_000_000, 1, 10));
        let lines = lines_of(&rates, (80, 24));
        assert!(lines[3].contains("in barrier 7") && !lines[2].contains("window"), "{lines:?}");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:?}");
    }

    fn words(line: &str) -> Vec<&str> {
        line.split_whitespace().collect()
    }

    #[test]
    fn more_ranks_than_rows_show_the_busiest() {
        let rates = JobRates::between(&look(0, 100, 0), &look(1_000_000_000, 100, 5_000));
        let lines = lines_of(&rates, (100, 10));
        assert!(lines.len() <= 10 && lines[3].trim_start().starts_with("99 "), "{lines:?}");
        assert!(lines.iter().all(|line| line.chars().count() <= 100), "{lines:?}");
        assert_eq!(lines.last().unwrap(), "... and 94 more ranks");
        assert_eq!(
            [1.0, 4_321.0, 54_321.0, 2.5e6, 3e8, 2e9].map(short).join(" "),
            "1 4.3k 54k 2.5M 300M 2.0G"
        );
    }
}
