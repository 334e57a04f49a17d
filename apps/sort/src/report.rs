//! Reports of a sort: per rank as ranks send them to each other, and overall as the user sees it.

use crate::intake::Streamed;
use crate::manifest::ManifestPart;
use crate::measure::Disk;
use crate::output::part_name;
use crate::plan::SortPlan;
use crate::record::{RECORD, RecordSum};
use anyhow::{Context, Result, bail};
use clump_app_frame::size::show_bytes;
use clump_os::console;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The output file of one rank.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PartReport {
    /// Records in it.
    pub records: u64,
    /// Sum of their CRC-32s.
    pub checksum: String,
    /// First key in hexadecimal, empty where there are no records.
    pub first_key: String,
    /// Last key.
    pub last_key: String,
    /// Runs it was merged from; 1 if it never left memory.
    pub runs: usize,
}

/// The report of one rank.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RankReport {
    /// Records read.
    pub records_in: u64,
    /// Sum of the CRC-32s of the records read.
    pub checksum_in: String,
    /// Output file of the rank.
    pub part: PartReport,
    /// Seconds of opening, checking and sampling.
    pub sample_s: f64,
    /// Seconds of reading, sending and sorting runs.
    pub pass_one_s: f64,
    /// Seconds of merging and writing.
    pub pass_two_s: f64,
    /// Most bytes by which the process' anonymous memory grew.
    pub anonymous_peak: u64,
    /// Most bytes that were taken from the budget.
    pub budget_peak: u64,
}

impl RankReport {
    /// Serializes it for the other ranks.
    ///
    /// # Errors
    /// Fails if it cannot be serialized.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).context("putting a rank's report into JSON")
    }
}

/// The report of all ranks.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SortReport {
    /// Number of the format.
    pub format: u32,
    /// Records sorted.
    pub records: u64,
    /// Bytes sorted.
    pub bytes: u64,
    /// Number of ranks.
    pub nranks: usize,
    /// True if runs were written.
    pub two_pass: bool,
    /// True if as many records with the same sum of CRC-32s came out, in order over all files.
    pub verified: bool,
    /// Sum of the CRC-32s of the input's records, in hexadecimal.
    pub checksum: String,
    /// Most runs of a rank.
    pub max_runs: usize,
    /// Largest share of a rank over the mean share.
    pub imbalance: f64,
    /// Records that came from streams, or were made.
    pub records_streamed: u64,
    /// Seconds of copying streams to the disk, or of making records there.
    pub stream_s: f64,
    /// Seconds of the slowest rank: opening, checking, sampling.
    pub sample_s: f64,
    /// Seconds of the slowest rank: reading, sending, sorting runs.
    pub pass_one_s: f64,
    /// Seconds of the slowest rank: merging and writing.
    pub pass_two_s: f64,
    /// Seconds of giving the files their names.
    pub publish_s: f64,
    /// Seconds from start to manifest.
    pub total_s: f64,
    /// `--memory`: bytes that all ranks may hold.
    pub memory_cap: u64,
    /// Most bytes by which all ranks' anonymous memory grew.
    pub memory_peak: u64,
    /// Most bytes taken from the ranks' budgets.
    pub budget_peak: u64,
    /// Bytes of a transfer.
    pub chunk_bytes: usize,
    /// The bare disk, if it was measured.
    pub disk: Option<Disk>,
    /// The output files.
    #[serde(skip)]
    pub parts: Vec<ManifestPart>,
}

impl SortReport {
    /// Combines the ranks' reports.
    ///
    /// # Errors
    /// Fails if a report is malformed, or if the output does not match the input.
    pub fn gather(
        all: &[Vec<u8>],
        plan: &SortPlan,
        one_process: bool,
        streamed: Option<&Streamed>,
    ) -> Result<Self> {
        let ranks: Vec<RankReport> = all
            .iter()
            .map(|bytes| serde_json::from_slice(bytes).context("a rank's report is no JSON"))
            .collect::<Result<_>>()?;
        let (mut went_in, mut came_out) = (RecordSum::default(), RecordSum::default());
        for rank in &ranks {
            went_in.merge(RecordSum::from_hex(&rank.checksum_in)?);
            came_out.merge(RecordSum::from_hex(&rank.part.checksum)?);
        }
        let records: u64 = ranks.iter().map(|r| r.records_in).sum();
        let written: u64 = ranks.iter().map(|r| r.part.records).sum();
        let filled = || ranks.iter().map(|r| &r.part).filter(|p| p.records > 0);
        let in_order = filled().zip(filled().skip(1)).all(|(a, b)| a.last_key <= b.first_key);
        if records != written || went_in != came_out || !in_order {
            bail!(
                "{records} records (sum {}) went in, {written} (sum {}) came out, in order: {in_order}; \
                 the output is withheld: a fault of this program or of the memory, please report it",
                went_in.hex(),
                came_out.hex()
            );
        }
        if let Some(streamed) = streamed.filter(|s| s.everything)
            && (records, went_in) != (streamed.records(), RecordSum::from_hex(&streamed.checksum)?)
        {
            bail!(
                "{} records (sum {}) came as a stream, {records} (sum {}) were read from its copy; the \
                 output is withheld: did another program change the scratch folder?",
                streamed.records(),
                streamed.checksum,
                went_in.hex()
            );
        }
        let most = |of: fn(&RankReport) -> f64| ranks.iter().map(of).fold(0.0, f64::max);
        let peaks = ranks.iter().map(|r| r.anonymous_peak);
        let mean = (records as f64 / ranks.len() as f64).max(1.0);
        Ok(Self {
            format: console::JSON_FORMAT,
            records,
            bytes: records * RECORD as u64,
            nranks: ranks.len(),
            two_pass: plan.two_pass || ranks.iter().any(|r| r.part.runs > 1),
            verified: true,
            checksum: went_in.hex(),
            max_runs: ranks.iter().map(|r| r.part.runs).max().unwrap_or(0),
            imbalance: most(|r| r.part.records as f64) / mean,
            records_streamed: streamed.map_or(0, Streamed::records),
            stream_s: streamed.map_or(0.0, |s| s.seconds),
            sample_s: most(|r| r.sample_s),
            pass_one_s: most(|r| r.pass_one_s),
            pass_two_s: most(|r| r.pass_two_s),
            publish_s: 0.0,
            total_s: 0.0,
            memory_cap: plan.memory,
            memory_peak: if one_process { peaks.max().unwrap_or(0) } else { peaks.sum() },
            budget_peak: ranks.iter().map(|r| r.budget_peak).sum(),
            chunk_bytes: plan.chunk,
            disk: None,
            parts: ranks.iter().enumerate().map(|(rank, r)| part(rank, &r.part)).collect(),
        })
    }
}

fn part(rank: usize, report: &PartReport) -> ManifestPart {
    ManifestPart {
        file: part_name(rank),
        records: report.records,
        first_key: report.first_key.clone(),
        last_key: report.last_key.clone(),
    }
}

impl fmt::Display for SortReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |seconds: f64| show_bytes((self.bytes as f64 / seconds.max(1e-9)) as u64);
        let passes = if self.two_pass { "two passes" } else { "one pass, in memory" };
        writeln!(
            f,
            "sorted {} records ({}) on {} ranks, {passes}, in {:.2} s: {}/s",
            self.records,
            show_bytes(self.bytes),
            self.nranks,
            self.total_s,
            rate(self.total_s)
        )?;
        if self.records_streamed > 0 {
            let streamed = self.records_streamed;
            writeln!(f, "  copy the stream        {:8.3} s  {streamed} records", self.stream_s)?;
        }
        writeln!(f, "  open, check, sample    {:8.3} s", self.sample_s)?;
        let (one, two) = (self.pass_one_s, self.pass_two_s);
        writeln!(f, "  read, send, sort runs  {one:8.3} s  {}/s", rate(one))?;
        writeln!(
            f,
            "  merge and write        {two:8.3} s  {}/s, {} runs at most",
            rate(two),
            self.max_runs
        )?;
        writeln!(f, "  name the files         {:8.3} s", self.publish_s)?;
        writeln!(f, "  largest share          {:8.3} of the mean", self.imbalance)?;
        writeln!(
            f,
            "  memory                 cap {}, peak {} measured, {} in buffers",
            show_bytes(self.memory_cap),
            show_bytes(self.memory_peak),
            show_bytes(self.budget_peak)
        )?;
        if let Some(disk) = &self.disk {
            writeln!(
                f,
                "  bare disk              read {:.3} s, write {:.3} s, {} times: {:.3} s; sort / disk: \
                 {:.0} % of the disk's rate",
                disk.read_s,
                disk.write_s,
                disk.passes,
                disk.total_s,
                disk.ratio * 100.0
            )?;
        }
        writeln!(f, "  checksum               {}", self.checksum)?;
        write!(f, "verified: {}", if self.verified { "yes" } else { "no" })
    }
}
