//! The second pass of one rank: merge its runs into its output file, with read-ahead and
//! write-behind.

use crate::behind::WriteBehind;
use crate::budget::Budget;
use crate::collect::Collected;
use crate::lanes::{FileRange, Lanes};
use crate::memory::MemoryWatch;
use crate::merge::merge;
use crate::output::{Pending, part_name};
use crate::plan::{AHEAD, SortPlan};
use crate::progress::Progress;
use crate::record::{POSITION_BITS, RECORD, RecordSum, key_hex};
use crate::report::PartReport;
use crate::spec::Spec;
use anyhow::{Context, Result, bail};
use clump_os::file::BLOCK;

/// Records between two reports of progress.
const STEP: u64 = 4096;

/// The context of the second pass.
pub struct PassTwo<'a> {
    /// Sizes.
    pub plan: &'a SortPlan,
    /// Source of buffers.
    pub budget: &'a Budget,
    /// Measures memory.
    pub watch: &'a MemoryWatch,
    /// Receives the number of bytes written.
    pub progress: &'a mut dyn Progress,
}

impl PassTwo<'_> {
    /// Writes the sorted records of `rank` to a file that is still to be published, and syncs it.
    ///
    /// # Errors
    /// Fails if reading or writing fails or the budget is exhausted.
    pub fn run(self, spec: &Spec, rank: usize, from: Collected) -> Result<(Pending, PartReport)> {
        let bytes: u64 = match &from {
            Collected::Memory(half) => (half.len() * RECORD) as u64,
            Collected::Runs(runs) => runs.iter().map(|run| run.bytes).sum(),
        };
        let (plan, budget, watch) = (self.plan, self.budget, self.watch);
        self.progress.phase("merge and write", bytes);
        let pending = Pending::create(&spec.output, &part_name(rank), spec.direct)?;
        pending.file().reserve(0, bytes.next_multiple_of(BLOCK as u64))?;
        let mut out = PartWriter {
            writer: WriteBehind::start(budget, pending.file().clone(), plan.chunk)?,
            watch,
            progress: self.progress,
            records: 0,
            sum: RecordSum::default(),
            first: 0,
            last: 0,
        };
        let runs = match from {
            Collected::Memory(half) => {
                half.in_order().try_for_each(|(entry, record)| out.put(entry, record))?;
                1
            }
            Collected::Runs(runs) => {
                let count = runs.len();
                let mut lanes = start_lanes(plan, budget, runs)?;
                merge(&mut lanes, count, |entry, record| out.put(entry, record))?;
                count
            }
        };
        let report = out.report(runs);
        watch.take_reading();
        out.writer.finish()?;
        if report.records * RECORD as u64 != bytes {
            bail!("{} records came out of {bytes} bytes of runs", report.records);
        }
        pending.file().truncate(bytes)?;
        pending.file().sync()?;
        Ok((pending, report))
    }
}

fn start_lanes(plan: &SortPlan, budget: &Budget, runs: Vec<FileRange>) -> Result<Lanes> {
    let count = runs.len();
    let chunk = SortPlan::merge_chunk(budget.cap(), count, plan.chunk).with_context(|| {
        format!("{count} runs are too many to merge in this memory: raise --memory")
    })?;
    Lanes::start(budget, runs.into_iter().map(|run| vec![run]).collect(), chunk, AHEAD)
}

struct PartWriter<'a> {
    writer: WriteBehind,
    watch: &'a MemoryWatch,
    progress: &'a mut dyn Progress,
    records: u64,
    sum: RecordSum,
    first: u128,
    last: u128,
}

impl PartWriter<'_> {
    #[inline(always)]
    fn put(&mut self, entry: u128, record: &[u8]) -> Result<()> {
        let key = entry >> POSITION_BITS;
        if key < self.last {
            bail!("a record came out of order: a fault of this program, please report it");
        }
        if self.records == 0 {
            self.first = key;
        }
        self.last = key;
        self.records += 1;
        self.sum.add(record);
        self.writer.push(record)?;
        if self.records.is_multiple_of(STEP) {
            self.progress.advance(STEP * RECORD as u64);
            self.watch.glance();
        }
        Ok(())
    }

    fn report(&self, runs: usize) -> PartReport {
        let key = |key: u128| if self.records == 0 { String::new() } else { key_hex(key) };
        PartReport {
            records: self.records,
            checksum: self.sum.hex(),
            first_key: key(self.first),
            last_key: key(self.last),
            runs,
        }
    }
}
