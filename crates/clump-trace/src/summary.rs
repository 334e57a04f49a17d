//! The communication summary: the communication of a program, in the figures of paper 001, table 4.
//!
//! Pure arithmetic on one snapshot per rank and the time they span. All messages *sent* count,
//! requests and replies alike, as in the paper; a kilobyte is 1000 bytes of payload. Answers to
//! one-sided operations are sent by interfaces: they are in shares and in rates, for a rank of the
//! paper answers by itself, and in no rank's number of messages.

use crate::counter::Counter;
use crate::shared_memory::SharedMemorySummary;
use crate::snapshot::Snapshot;
use crate::text::grouped;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Paper 001, table 4, for one run; with balance and locality (paper 000, table 4).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Ranks that the figures are averages over.
    pub ranks: usize,
    /// The span in milliseconds.
    pub elapsed_ms: f64,
    /// Messages sent per rank, on average.
    pub messages_per_rank: f64,
    /// Messages sent by the rank that sent most.
    pub messages_max: u64,
    /// Messages per rank and millisecond.
    pub messages_per_rank_ms: f64,
    /// Time between two messages of one rank in microseconds; `None` without messages.
    pub message_interval_us: Option<f64>,
    /// Time between two barriers in milliseconds; `None` without barriers.
    pub barrier_interval_ms: Option<f64>,
    /// Share of a rank's time spent in barriers, in percent.
    pub barrier_percent: f64,
    /// Medium and long messages among all, in percent.
    pub bulk_percent: f64,
    /// Requests that were answered, and their answers, among all messages, in percent.
    pub read_percent: f64,
    /// Payload of medium and long messages in kB/s per rank.
    pub bulk_kb_s: f64,
    /// Payload of short messages in kB/s per rank.
    pub small_kb_s: f64,
    /// Most messages of a rank over the average; 1 is perfect balance, `None` without messages.
    pub balance: Option<f64>,
    /// Messages that stayed on their node, in percent.
    pub local_percent: f64,
    /// Messages returned to sender.
    pub returned: u64,
    /// Small operations of the global address space that were collected; `None` without any.
    #[serde(default)]
    pub aggregation: Option<AggregationSummary>,
    /// Traffic between nodes; `None` without any.
    #[serde(default)]
    pub network: Option<NetworkSummary>,
    /// Time in shared virtual memory; `None` where the job has none.
    #[serde(default)]
    pub shared_memory: Option<SharedMemorySummary>,
}

/// Small operations on other nodes that were collected and sent in batches, of one run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AggregationSummary {
    /// Operations per rank, on average.
    pub operations_per_rank: f64,
    /// Operations of a batch, on average.
    pub operations_per_batch: f64,
    /// Batches sent because they were full, old, displaced by others, and before a wait.
    pub batches: [u64; 4],
    /// Operations that were forwarded by another node, as a fraction of all.
    #[serde(default)]
    pub forwarded: f64,
}

impl AggregationSummary {
    fn of(all: &Snapshot, ranks: f64) -> Option<Self> {
        let causes = [
            Counter::PgasBatchesFull,
            Counter::PgasBatchesOld,
            Counter::PgasBatchesDisplaced,
            Counter::PgasBatchesFlushed,
        ];
        let batches = causes.map(|cause| all[cause]);
        let sent: u64 = batches.iter().sum();
        (sent != 0).then(|| Self {
            operations_per_rank: real(all[Counter::PgasCollected]) / ranks,
            operations_per_batch: real(all[Counter::PgasCollected]) / real(sent),
            batches,
            forwarded: real(all[Counter::PgasForwarded]) / real(all[Counter::PgasCollected]),
        })
    }

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operations_per_rank, operations_per_batch, batches, forwarded } = self;
        pair(
            f,
            "collected operations, per rank",
            figure(Some(*operations_per_rank)),
            "operations per batch",
            figure(Some(*operations_per_batch)),
        )?;
        let [full, old, displaced, flushed] = batches.map(grouped);
        pair(f, "batches sent full", full, "batches sent old", old)?;
        pair(f, "batches in the way of others", displaced, "batches sent before waits", flushed)?;
        if *forwarded > 0.0 {
            writeln!(f, "  {:<32}{:>14}", "collected, by another node", share(forwarded * 100.0))?;
        }
        Ok(())
    }
}

/// Traffic between nodes, of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NetworkSummary {
    /// Packets sent per rank, on average.
    pub packets_per_rank: f64,
    /// Messages that shared a packet, on average.
    pub messages_per_packet: f64,
    /// Bytes of packets, headers included, in kB/s per rank.
    pub kb_s: f64,
    /// Packets' worth of messages retransmitted, in percent of those sent.
    pub resent_percent: f64,
    /// Packets discarded: forged, foreign, malformed or replayed.
    pub refused: u64,
    /// Packets sent by each address, where nodes have several.
    #[serde(default)]
    pub by_path: Vec<u64>,
    /// Times that a path was taken out of use because nothing arrived by it, and put back into use.
    #[serde(default)]
    pub paths_out_and_back: (u64, u64),
}

impl NetworkSummary {
    fn of(all: &Snapshot, ranks: f64, between: u64, elapsed_ms: f64) -> Option<Self> {
        let (packets, units) = (all[Counter::NetPacketsSent], all[Counter::NetUnitsSent]);
        let refused =
            [Counter::NetForged, Counter::NetForeign, Counter::NetMalformed, Counter::NetReplayed];
        let paths = [Counter::NetPath0, Counter::NetPath1, Counter::NetPath2, Counter::NetPath3];
        let used = paths.iter().rposition(|&path| all[path] != 0).map_or(0, |last| last + 1);
        (packets != 0).then(|| Self {
            packets_per_rank: real(packets) / ranks,
            messages_per_packet: real(between) / real(units.max(1)),
            kb_s: if elapsed_ms > 0.0 {
                real(all[Counter::NetBytesSent]) / ranks / elapsed_ms
            } else {
                0.0
            },
            resent_percent: percent(all[Counter::NetUnitsResent], units),
            refused: refused.into_iter().map(|counter| all[counter]).sum(),
            by_path: paths.into_iter().map(|path| all[path]).take(used).collect(),
            paths_out_and_back: (all[Counter::NetPathsOut], all[Counter::NetPathsBack]),
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53, and these are averages")]
fn real(count: u64) -> f64 {
    count as f64
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * real(part) / real(whole) }
}

impl Summary {
    /// Computes the figures from the counters of each rank (`ranks`, differences of two snapshots
    /// or whole lives) over `elapsed_ns`, and from the messages that the stacks of their nodes'
    /// network interfaces sent for them meanwhile. Anything per time is zero for an empty span.
    pub fn of(ranks: &[Snapshot], interfaces: &[Snapshot], elapsed_ns: u64) -> Self {
        let own: Snapshot = ranks.iter().sum();
        let own_sent = own.over_all_paths().messages_sent();
        let all: Snapshot = ranks.iter().chain(interfaces).sum();
        let local = all.messages_sent();
        let all = all.over_all_paths();
        let sent = all.messages_sent();
        let count = real(ranks.len().max(1) as u64);
        let average = real(own_sent) / count;
        let of_rank = |rank: &Snapshot| rank.over_all_paths().messages_sent();
        let most = ranks.iter().map(of_rank).max().unwrap_or(0);
        let elapsed_ms = real(elapsed_ns) / 1e6;
        let barriers = real(all[Counter::Barriers]) / count;
        let per_rank_ms = |n: u64| if elapsed_ns == 0 { 0.0 } else { real(n) / count / elapsed_ms };
        Self {
            ranks: ranks.len(),
            elapsed_ms,
            messages_per_rank: average,
            messages_max: most,
            messages_per_rank_ms: per_rank_ms(own_sent),
            message_interval_us: (own_sent != 0).then(|| elapsed_ms * 1e3 / average),
            barrier_interval_ms: (barriers > 0.0).then(|| elapsed_ms / barriers),
            barrier_percent: per_rank_ms(all[Counter::BarrierWait]) / 1e4,
            bulk_percent: percent(all.bulk_sent(), sent),
            // An answer makes its request a read; rounding of a running job may not exceed the
            // whole.
            read_percent: percent(2 * all.replies_sent(), sent).min(100.0),
            bulk_kb_s: per_rank_ms(all.bulk_bytes_sent()),
            small_kb_s: per_rank_ms(all.short_bytes_sent()),
            balance: (own_sent != 0).then(|| real(most) / average),
            local_percent: percent(local, sent),
            returned: all.returned(),
            aggregation: AggregationSummary::of(&all, count),
            network: NetworkSummary::of(&all, count, sent - local, elapsed_ms),
            shared_memory: SharedMemorySummary::of(&all, count),
        }
    }

    /// Computes the figures over the time from the first joining to the last leaving that the ranks
    /// recorded.
    pub fn of_lives(ranks: &[Snapshot], interfaces: &[Snapshot]) -> Self {
        let all: Snapshot = ranks.iter().sum();
        Self::of(ranks, interfaces, all.lifetime_ns().unwrap_or(0))
    }
}

/// Formats a figure with its significant digits, or as a dash.
fn figure(value: Option<f64>) -> String {
    match value {
        None => "-".into(),
        Some(v) if v >= 1000.0 => grouped(to_count(v)),
        Some(v) if v >= 100.0 => format!("{v:.1}"),
        Some(v) if v >= 1.0 || v == 0.0 => format!("{v:.2}"),
        Some(v) => format!("{v:.4}"),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates; for display"
)]
fn to_count(value: f64) -> u64 {
    value.round() as u64
}

/// Writes two figures on a line.
#[expect(clippy::needless_pass_by_value, reason = "figures are made for it")]
fn pair(f: &mut fmt::Formatter<'_>, a: &str, x: String, b: &str, y: String) -> fmt::Result {
    writeln!(f, "  {a:<32}{x:>14}    {b:<32}{y:>14}")
}

/// Formats a share in percent.
fn share(percent: f64) -> String {
    format!("{percent:.2} %")
}

impl fmt::Display for Summary {
    /// Writes two figures a line, within 100 columns.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.elapsed_ms / 1e3;
        writeln!(f, "communication summary: {} ranks, {seconds:.3} s", self.ranks)?;
        pair(
            f,
            "messages per rank, average",
            figure(Some(self.messages_per_rank)),
            "messages per rank, most",
            grouped(self.messages_max),
        )?;
        pair(
            f,
            "messages per rank and ms",
            figure(Some(self.messages_per_rank_ms)),
            "balance (most / average)",
            figure(self.balance),
        )?;
        pair(
            f,
            "message interval, us",
            figure(self.message_interval_us),
            "barrier interval, ms",
            figure(self.barrier_interval_ms),
        )?;
        pair(
            f,
            "bulk messages",
            share(self.bulk_percent),
            "bulk payload per rank, kB/s",
            figure(Some(self.bulk_kb_s)),
        )?;
        pair(
            f,
            "reads (answered and answers)",
            share(self.read_percent),
            "small payload per rank, kB/s",
            figure(Some(self.small_kb_s)),
        )?;
        pair(
            f,
            "stayed on the node",
            share(self.local_percent),
            "time in barriers",
            share(self.barrier_percent),
        )?;
        writeln!(f, "  {:<32}{:>14}", "returned messages", grouped(self.returned))?;
        self.aggregation.as_ref().map_or(Ok(()), |it| it.show(f))?;

        self.network.as_ref().map_or(Ok(()), |network| network.show(f))?;
        self.shared_memory.as_ref().map_or(Ok(()), |shared| show_shared(shared, f))
    }
}

fn show_shared(shared: &SharedMemorySummary, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let faults = figure(Some(shared.faults_per_rank));
    let compute = share(shared.compute_percent);
    pair(f, "shared heap: computation", compute, "page faults, per rank", faults)?;
    if !shared.protocol.is_empty() {
        let woken = figure(Some(shared.woken_per_rank));
        pair(
            f,
            "shared heap: protocol",
            shared.protocol.clone(),
            "threads woken, per rank",
            woken,
        )?;
        let [sent, diffs] = [shared.sent_per_rank, shared.diffs_sent_per_rank];
        let [sent, diffs] = [sent, diffs].map(|each| figure(Some(each)));
        pair(f, "shared heap: messages, per rank", sent, "those with diffs", diffs)?;
    }
    let of = |percent: f64, us: f64| (share(percent), figure(Some(us)));
    for (what, (percent, mean)) in [
        ("shared heap: page faults", of(shared.data_percent, shared.fault_us)),
        ("shared heap: locks and flags", of(shared.lock_percent, shared.lock_us)),
        ("shared heap: barriers", of(shared.barrier_percent, shared.barrier_us)),
    ] {
        pair(f, what, percent, "each, us", mean)?;
    }
    let (flags, others) = (share(shared.flag_percent), share(shared.others_percent));
    pair(f, "shared heap: flags alone", flags, "waits for others in barriers", others)?;
    let (release, rights) = (share(shared.release_percent), share(shared.protection_percent));
    pair(f, "shared heap: releases", release, "rights on pages, within these", rights)
}

impl NetworkSummary {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        pair(
            f,
            "packets between nodes, per rank",
            figure(Some(self.packets_per_rank)),
            "messages per packet",
            figure(Some(self.messages_per_packet)),
        )?;
        pair(
            f,
            "bytes of those per rank, kB/s",
            figure(Some(self.kb_s)),
            "sent again",
            share(self.resent_percent),
        )?;
        writeln!(f, "  {:<32}{:>14}", "packets thrown away", grouped(self.refused))?;
        let (out, back) = self.paths_out_and_back;
        if self.by_path.len() > 1 {
            let by_path: Vec<_> = self.by_path.iter().map(|&sent| grouped(sent)).collect();
            writeln!(f, "  {:<32}{}", "packets by address", by_path.join(", "))?;
            pair(f, "paths left", grouped(out), "paths taken again", grouped(back))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Counter as C;

    fn rank(pairs: &[(Counter, u64)]) -> Snapshot {
        let mut out = Snapshot::ZERO;
        for &(counter, value) in pairs {
            out[counter] = value;
        }
        out
    }

    /// Two ranks in 2 ms. Rank 0: 300 short requests of 8 B, 100 medium of 4000 B, 5 barriers. Rank
    /// 1: 100 short replies of 16 B, 5 barriers, one message returned to sender.
    fn two_ranks() -> Vec<Snapshot> {
        let first = rank(&[
            (C::RequestShortSent, 300),
            (C::RequestShortSentBytes, 2400),
            (C::RequestMediumSent, 100),
            (C::RequestMediumSentBytes, 400_000),
            (C::Barriers, 5),
            (C::BarrierWait, 200_000),
            (C::Joined, 1_000_000),
            (C::Finalized, 2_500_000),
        ]);
        let second = rank(&[
            (C::ReplyShortSent, 100),
            (C::ReplyShortSentBytes, 1600),
            (C::Barriers, 5),
            (C::BarrierWait, 600_000),
            (C::ReturnedPeerLost, 1),
            (C::Joined, 1_200_000),
            (C::Finalized, 3_000_000),
        ]);
        vec![first, second]
    }

    #[test]
    fn figures_match_those_worked_out_by_hand() {
        let s = Summary::of_lives(&two_ranks(), &[]);
        assert_eq!(s.ranks, 2);
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9 * b.abs().max(1.0), "{a} != {b}");
        close(s.elapsed_ms, 2.0);
        close(s.messages_per_rank, 250.0);
        assert_eq!(s.messages_max, 400);
        close(s.messages_per_rank_ms, 125.0);
        close(s.message_interval_us.unwrap(), 8.0);
        close(s.barrier_interval_ms.unwrap(), 0.4);
        close(s.barrier_percent, 20.0); // 0.8 ms of 2 x 2 ms
        close(s.bulk_percent, 20.0); // 100 of 500
        close(s.read_percent, 40.0); // 100 answers and their requests
        close(s.bulk_kb_s, 100_000.0); // 400 kB / 2 ranks / 2 ms
        close(s.small_kb_s, 1000.0); // 4 kB / 2 ranks / 2 ms
        close(s.balance.unwrap(), 1.6);
        close(s.local_percent, 100.0);
        assert_eq!(s.returned, 1);
    }

    #[test]
    fn answers_of_interfaces_are_reads_and_their_payload_is_in_the_rates() {
        // Each of two ranks gets a word 990 times from the other's node, and 4 KiB 10 times.
        let reader = rank(&[
            (C::NetRequestShortSent, 1000),
            (C::NetRequestShortSentBytes, 24_000),
            (C::NetReplyShortReceived, 990),
            (C::NetReplyMediumReceived, 10),
        ]);
        let interface = rank(&[
            (C::NetReplyShortSent, 990),
            (C::NetReplyShortSentBytes, 15_840),
            (C::NetReplyMediumSent, 10),
            (C::NetReplyMediumSentBytes, 40_960),
        ]);
        let s = Summary::of(&[reader.clone(), reader], &[interface.clone(), interface], 1_000_000);
        assert_eq!((s.read_percent, s.bulk_percent, s.bulk_kb_s), (100.0, 0.5, 40_960.0));
        assert_eq!((s.messages_per_rank, s.messages_max), (1000.0, 1000), "those that it sent");
        assert_eq!((s.balance, s.small_kb_s), (Some(1.0), 39_840.0));
    }

    #[test]
    fn messages_between_nodes_count_and_are_told_apart() {
        let mut ranks = two_ranks();
        ranks[1][C::NetRequestShortSent] = 500;
        ranks[1][C::NetRequestShortSentBytes] = 4000;
        ranks[1][C::NetUnitsSent] = 50;
        ranks[1][C::NetPacketsSent] = 60;
        ranks[1][C::NetUnitsResent] = 5;
        ranks[1][C::NetForged] = 7;
        let s = Summary::of_lives(&ranks, &[]);
        assert_eq!((s.messages_per_rank, s.messages_max, s.local_percent), (500.0, 600, 50.0));
        let network = s.network.clone().unwrap();
        assert_eq!((network.packets_per_rank, network.messages_per_packet), (30.0, 10.0));
        assert_eq!((network.resent_percent, network.refused), (10.0, 7));
        let text = s.to_string();
        assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
        assert!(text.contains("10.00 %") && text.contains("50.00 %"), "{text}");
    }

    #[test]
    fn text_fits_and_shows_the_figures() {
        let text = Summary::of_lives(&two_ranks(), &[]).to_string();
        assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
        for shown in ["250.0", "1.60", "100,000", "40.00 %", "0.4000", "0.002 s"] {
            assert!(text.contains(shown), "{shown} is missing in\n{text}");
        }
    }

    #[test]
    fn a_silent_run_has_no_intervals_and_divides_by_nothing() {
        for (ranks, elapsed_ns) in
            [(vec![], 0), (vec![Snapshot::ZERO; 3], 0), (vec![Snapshot::ZERO], 10)]
        {
            let s = Summary::of(&ranks, &[], elapsed_ns);
            assert_eq!(
                (s.message_interval_us, s.barrier_interval_ms, s.balance),
                (None, None, None)
            );
            assert_eq!((s.messages_per_rank_ms, s.bulk_percent, s.local_percent), (0.0, 0.0, 0.0));
            assert!(s.to_string().contains('-'));
        }
    }

    #[test]
    fn json_keeps_every_figure() {
        let ranks = two_ranks();
        let s = Summary::of_lives(&ranks, &[]);
        let again: Summary = serde_json::from_str(&serde_json::to_string(&s).unwrap()).unwrap();
        assert_eq!(again, s);
        let text = serde_json::to_string(&ranks[1]).unwrap();
        assert!(text.contains("\"shm.reply.short.sent\":100") && !text.contains("wait.parks"));
        assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), ranks[1]);
        let newer = r#"{"wait.parks": 3, "counter.of.another.build": 9}"#;
        assert_eq!(serde_json::from_str::<Snapshot>(newer).unwrap()[C::Parks], 3);
    }
}
