//! The first pass of one rank: read its part of the input, send every record to its owner, collect
//! and spill the records it owns. All three overlap; the rank never waits for the disk while
//! messages could be received.

use crate::agreement::together;
use crate::budget::{Budget, Buffer};
use crate::collect::{Collected, Collector};
use crate::exchange::{Exchange, GivenUp};
use crate::lanes::{FileRange, Lanes, Refill};
use crate::memory::MemoryWatch;
use crate::plan::{AHEAD, SortPlan};
use crate::progress::Progress;
use crate::record::{RECORD, RecordSum, order};
use crate::sample::owner;
use anyhow::Result;
use clump_os::file::DiskFile;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time that a rank that waits for its disk sleeps before it polls for messages again.
const NAP: Duration = Duration::from_micros(100);

/// The context of the first pass.
pub struct PassOne<'a> {
    /// The other ranks.
    pub exchange: &'a mut dyn Exchange,
    /// Sizes.
    pub plan: &'a SortPlan,
    /// Source of buffers.
    pub budget: &'a Budget,
    /// Measures memory.
    pub watch: &'a MemoryWatch,
    /// Receives the number of bytes read.
    pub progress: &'a mut dyn Progress,
}

impl PassOne<'_> {
    /// Runs the pass over `part`, whose first record has the global number `first`; also returns
    /// the sum of the records read. Collective, errors included.
    ///
    /// # Errors
    /// Fails if this rank's reading, sending or spilling fails, or if another rank gives up.
    pub fn run(
        &mut self,
        part: Vec<FileRange>,
        first: u64,
        splitters: &[u128],
        scratch: Result<Arc<DiskFile>>,
    ) -> Result<(Collected, RecordSum)> {
        let plan = self.plan;
        let collector = scratch.and_then(|scratch| {
            Collector::start(self.budget, plan.halves, plan.capacity, &scratch, plan.chunk)
        });
        // A rank that cannot take part must report it before the others send to it.
        let collector = Arc::new(Mutex::new(together(self.exchange, collector)?));
        self.exchange.open(Box::new(collector.clone()))?;
        let sent = self.send_part(part, first, splitters, &collector);
        if sent.is_err() || lock(&collector).is_over() {
            self.exchange.abandon()?;
        }
        self.exchange.close()?;
        self.watch.take_reading();
        let mut collector = lock(&collector);
        if plan.two_pass {
            collector.force_runs();
        }
        let abandoned = collector.was_abandoned();
        let collected = collector.finish();
        let sum = sent?;
        let collected = collected?;
        if abandoned {
            return Err(GivenUp("stopped because another rank gave up".into()).into());
        }
        Ok((collected, sum))
    }

    fn send_part(
        &mut self,
        part: Vec<FileRange>,
        first: u64,
        splitters: &[u128],
        collector: &Mutex<Collector>,
    ) -> Result<RecordSum> {
        let mut lanes = Lanes::start(self.budget, vec![part], self.plan.chunk, AHEAD)?;
        let mut staging = Staging::new(self.budget, self.exchange.nranks(), self.plan.batch)?;
        let (mut number, mut sum) = (first, RecordSum::default());
        loop {
            match lanes.refill(0, Some(Duration::ZERO))? {
                Refill::End => break,
                Refill::Pending => {
                    if !self.exchange.progress()? {
                        lanes.refill(0, Some(NAP))?;
                    }
                    continue;
                }
                Refill::Ready => {}
            }
            let records = lanes.records(0);
            for record in records.chunks_exact(RECORD) {
                sum.add(record);
                let to = owner(splitters, order(record, number));
                number += 1;
                if staging.put(to, record) {
                    self.exchange.send(to, staging.batch(to))?;
                    staging.clear(to);
                    // Peers must not wait while a whole chunk is processed.
                    self.exchange.progress()?;
                }
            }
            let bytes = records.len();
            lanes.consume(0, bytes);
            self.progress.advance(bytes as u64);
            self.watch.glance();
            self.exchange.progress()?;
            if lock(collector).is_over() {
                return Ok(sum);
            }
        }
        for to in 0..self.exchange.nranks() {
            if !staging.batch(to).is_empty() {
                self.exchange.send(to, staging.batch(to))?;
            }
        }
        Ok(sum)
    }
}

fn lock(collector: &Mutex<Collector>) -> MutexGuard<'_, Collector> {
    collector.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records to be sent, collected by destination.
struct Staging {
    memory: Buffer,
    filled: Vec<usize>,
    batch: usize,
}

impl Staging {
    fn new(budget: &Budget, nranks: usize, batch: usize) -> Result<Self> {
        let memory = budget.buffer("gathering batches", nranks * batch)?;
        Ok(Self { memory, filled: vec![0; nranks], batch })
    }

    /// Adds a record for `to`; returns true if its batch is full now.
    #[inline(always)]
    fn put(&mut self, to: usize, record: &[u8]) -> bool {
        let filled = self.filled[to];
        let at = to * self.batch + filled;
        self.memory[at..at + RECORD].copy_from_slice(&record[..RECORD]);
        self.filled[to] = filled + RECORD;
        filled + 2 * RECORD > self.batch
    }

    fn batch(&self, to: usize) -> &[u8] {
        &self.memory[to * self.batch..][..self.filled[to]]
    }

    fn clear(&mut self, to: usize) {
        self.filled[to] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gensort;
    use crate::input::Input;
    use crate::output::scratch_file;
    use crate::progress::Silent;
    use crate::threads;
    use std::path::Path;

    /// Runs one pass over `folder/in` on three ranks; rank 1 spills into `broken`, if that is
    /// given.
    fn pass(folder: &Path, memory: u64, broken: Option<&Path>) -> Vec<Result<u64, String>> {
        let input = Input::open(&[folder.join("in")], true).unwrap();
        threads::run(3, |mut rank| {
            let (me, batch) = (rank.rank(), rank.max_batch());
            let plan = SortPlan::new(memory, input.records(), 3, (batch, 0), true).unwrap();
            let budget = Budget::new(plan.budget).unwrap();
            let scratch = match broken {
                Some(path) if me == 1 => Ok(Arc::new(DiskFile::open_existing(path).unwrap())),
                _ => scratch_file(folder, me, true),
            };
            let (first, count) = input.part(me, 3);
            let watch = MemoryWatch::start();
            let mut pass = PassOne {
                exchange: &mut rank,
                plan: &plan,
                budget: &budget,
                watch: &watch,
                progress: &mut Silent,
            };
            let splitters = [1u128 << 126, 3u128 << 126];
            let run = pass.run(input.pieces(first, count), first, &splitters, scratch);
            let counted = match run {
                Ok((Collected::Runs(runs), _)) => Ok(runs.iter().map(|r| r.bytes / 100).sum()),
                Ok((Collected::Memory(half), _)) => Ok(half.len() as u64),
                Err(error) => Err(error),
            };
            together(&mut rank, counted).map_err(|e| e.to_string())
        })
    }

    #[test]
    fn a_disk_that_fills_up_under_one_rank_stops_all() {
        let dir = crate::test_dir("pass-one");
        let args = ["gensort", "60000"].map(String::from).into_iter();
        let args = args.chain([dir.join("in").display().to_string()]);
        gensort::make(&parsed(args)).unwrap();
        let sorted: u64 = pass(&dir, 8 << 20, None).into_iter().map(Result::unwrap).sum();
        assert_eq!(sorted, 60_000);
        for told in pass(&dir, 8 << 20, Some(Path::new("/dev/full"))) {
            let told = told.unwrap_err();
            assert!(told.contains("rank 1") && told.contains("/dev/full"), "{told}");
        }
        std::fs::remove_dir_all(dir).unwrap();
    }

    fn parsed(args: impl Iterator<Item = String>) -> gensort::GensortArgs {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: gensort::GensortArgs,
        }
        <Line as clap::Parser>::parse_from(args).args
    }
}
