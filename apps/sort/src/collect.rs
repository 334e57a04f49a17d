//! The owner's side of the first pass: arriving records are collected, sorted, and spilled as
//! runs.
//!
//! While one half of the memory collects, another thread sorts the other half and writes it to the
//! scratch file as one sorted run. With a single half (everything is expected to fit), nothing is
//! spilled unless more arrives than expected.

use crate::behind::WriteBehind;
use crate::budget::{Budget, Buffer, Charge};
use crate::exchange::Sink;
use crate::lanes::FileRange;
use crate::record::{RECORD, order, position};
use anyhow::{Context, Result, anyhow};
use clump_os::file::{BLOCK, DiskFile};
use clump_os::memory::prefetch;
use clump_os::thread;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Records between prefetching a record's cache lines and copying it.
const AHEAD: usize = 12;

/// Records in order of arrival, and an index of their keys and positions.
#[derive(Debug)]
pub struct Half {
    records: Buffer,
    index: Vec<u128>,
    _charge: Charge,
}

impl Half {
    /// Returns the memory of a half that holds `records`, in bytes.
    pub fn cost(records: usize) -> usize {
        (records * RECORD).next_multiple_of(BLOCK) + records * size_of::<u128>()
    }

    fn new(budget: &Budget, records: usize) -> Result<Self> {
        let charge = budget.charge("the index of a run", records * size_of::<u128>())?;
        let memory = budget.buffer("collecting records", records * RECORD)?;
        Ok(Self { records: memory, index: Vec::with_capacity(records), _charge: charge })
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Sorts the index; records stay in place.
    pub fn sort(&mut self) {
        self.index.sort_unstable();
    }

    /// Returns the records, in order of the index.
    pub fn in_order(&self) -> impl Iterator<Item = (u128, &[u8])> {
        let place = |entry: u128| position(entry) as usize * RECORD;
        self.index.iter().enumerate().map(move |(i, &entry)| {
            // Positions are random: the cache lines of a later record are prefetched.
            if let Some(&later) = self.index.get(i + AHEAD) {
                prefetch(&self.records, place(later));
                prefetch(&self.records, place(later) + 64);
                prefetch(&self.records, place(later) + RECORD - 1);
            }
            let at = place(entry);
            (entry, &self.records[at..at + RECORD])
        })
    }
}

/// The records of a rank after the first pass.
#[derive(Debug)]
pub enum Collected {
    /// Everything fits: one half, sorted.
    Memory(Half),
    /// Sorted runs in the scratch file.
    Runs(Vec<FileRange>),
}

type Returned = (Half, Result<()>);

/// Collects the records of one rank.
#[derive(Debug)]
pub struct Collector {
    current: Option<Half>,
    capacity: usize,
    full: Option<Sender<Half>>,
    sorted: Receiver<Returned>,
    away: usize,
    spilled: bool,
    /// First failure; from then on records are dropped, so that peers are not held up.
    failed: Option<anyhow::Error>,
    abandoned: bool,
    thread: Option<std::thread::JoinHandle<Result<Vec<FileRange>>>>,
}

/// Stack of the sorting thread, in bytes.
const SORT_STACK: usize = 128 << 10;

impl Collector {
    /// Collects in `halves` halves of `capacity` records each; runs go to `scratch` in chunks of
    /// `chunk` bytes.
    ///
    /// # Errors
    /// Fails if the budget is exhausted or a thread cannot be started.
    pub fn start(
        budget: &Budget,
        halves: usize,
        capacity: usize,
        scratch: &Arc<DiskFile>,
        chunk: usize,
    ) -> Result<Self> {
        let (full, inbox) = channel::<Half>();
        let (outbox, sorted) = channel::<Returned>();
        let current = Some(Half::new(budget, capacity)?);
        for _ in 1..halves {
            let _ = outbox.send((Half::new(budget, capacity)?, Ok(())));
        }
        let writer = WriteBehind::start(budget, scratch.clone(), chunk)?;
        let scratch = scratch.clone();
        let thread = thread::spawn_with_stack("sort runs", SORT_STACK, move || {
            spill_all(&inbox, &outbox, writer, &scratch)
        })
        .context("starting a thread that sorts")?;
        Ok(Self {
            current,
            capacity,
            full: Some(full),
            sorted,
            away: halves - 1,
            spilled: false,
            failed: None,
            abandoned: false,
            thread: Some(thread),
        })
    }

    /// Returns true if this rank has failed or a peer has given up: reading on is useless.
    pub fn is_over(&self) -> bool {
        self.abandoned || self.failed.is_some()
    }

    /// Returns true if a peer has given up.
    pub fn was_abandoned(&self) -> bool {
        self.abandoned
    }

    fn take_back(&mut self) -> Result<Half> {
        let (half, told) = self.sorted.recv().context("the thread that sorts is gone")?;
        self.away -= 1;
        if let Err(error) = told {
            self.failed.get_or_insert(error);
        }
        Ok(half)
    }

    /// Passes the current half to the sorter and takes an empty one.
    fn rotate(&mut self) -> Result<()> {
        if let (Some(half), Some(full)) = (self.current.take(), &self.full) {
            let _ = full.send(half);
            (self.away, self.spilled) = (self.away + 1, true);
        }
        self.current = Some(self.take_back()?);
        Ok(())
    }

    /// Ends the pass: sorts the rest, in memory if nothing has been spilled.
    ///
    /// # Errors
    /// Fails if records were lost: sorting, spilling or receiving failed.
    pub fn finish(&mut self) -> Result<Collected> {
        let last = self.current.take();
        if self.spilled
            && let (Some(half), Some(full)) = (&last, &self.full)
            && !half.is_empty()
        {
            let _ = last.map(|half| full.send(half));
            return self.end().map(Collected::Runs);
        }
        let spilled = self.spilled;
        let runs = self.end()?;
        match last {
            Some(mut half) if !spilled => {
                half.sort();
                Ok(Collected::Memory(half))
            }
            _ => Ok(Collected::Runs(runs)),
        }
    }

    /// Makes the last half a run even if nothing has been spilled yet.
    pub fn force_runs(&mut self) {
        self.spilled = true;
    }

    fn end(&mut self) -> Result<Vec<FileRange>> {
        drop(self.full.take());
        let ended = self.thread.take().map(std::thread::JoinHandle::join);
        while let Ok((_, told)) = self.sorted.recv() {
            if let Err(error) = told {
                self.failed.get_or_insert(error);
            }
        }
        match (self.failed.take(), ended) {
            (Some(error), _) => Err(error),
            (None, Some(Ok(runs))) => runs,
            (None, _) => Err(anyhow!("the thread that sorts has failed")),
        }
    }
}

impl Sink for Collector {
    fn take(&mut self, bytes: usize, fill: &mut dyn FnMut(&mut [u8])) {
        debug_assert!(bytes.is_multiple_of(RECORD), "batches are whole records");
        let room = |half: &Half| (self.capacity - half.len()) * RECORD;
        if self.current.as_ref().is_none_or(|half| room(half) < bytes)
            && let Err(error) = self.rotate()
        {
            self.failed.get_or_insert(error);
        }
        let over = self.is_over();
        let Some(half) = &mut self.current else {
            // The sorting thread has ended, and its memory is freed: the batch is dropped.
            fill(&mut vec![0; bytes]);
            return;
        };
        if over {
            half.index.clear();
        }
        let first = half.index.len();
        let at = first * RECORD;
        let batch = &mut half.records[at..at + bytes];
        fill(batch);
        let numbered = batch.chunks_exact(RECORD).zip(first as u64..);
        half.index.extend(numbered.map(|(record, number)| order(record, number)));
    }

    fn abandoned(&mut self) {
        self.abandoned = true;
    }
}

impl Sink for Arc<Mutex<Collector>> {
    fn take(&mut self, bytes: usize, fill: &mut dyn FnMut(&mut [u8])) {
        self.lock().unwrap_or_else(PoisonError::into_inner).take(bytes, fill);
    }

    fn abandoned(&mut self) {
        self.lock().unwrap_or_else(PoisonError::into_inner).abandoned = true;
    }
}

fn spill_all(
    inbox: &Receiver<Half>,
    outbox: &Sender<Returned>,
    mut writer: WriteBehind,
    scratch: &Arc<DiskFile>,
) -> Result<Vec<FileRange>> {
    let mut runs = Vec::new();
    while let Ok(mut half) = inbox.recv() {
        let told = spill(&mut half, &mut writer, scratch).map(|run| runs.push(run));
        half.index.clear();
        if outbox.send((half, told)).is_err() {
            break;
        }
    }
    writer.finish()?;
    Ok(runs)
}

fn spill(half: &mut Half, writer: &mut WriteBehind, scratch: &Arc<DiskFile>) -> Result<FileRange> {
    half.sort();
    let (offset, bytes) = (writer.position(), (half.len() * RECORD) as u64);
    scratch.reserve(offset, bytes)?;
    for (_, record) in half.in_order() {
        writer.push(record)?;
    }
    writer.pad();
    Ok(FileRange { file: scratch.clone(), offset, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Generator, Keys};
    use crate::lanes::{Lanes, Refill};

    fn collect(capacity: usize, records: u64, force: bool) -> (Vec<u128>, bool) {
        let dir = crate::test_dir("collect");
        let scratch = Arc::new(DiskFile::create(&dir.join("s"), true).unwrap());
        let budget = Budget::new(8 << 20).unwrap();
        let mut collector = Collector::start(&budget, 2, capacity, &scratch, 8192).unwrap();
        let mut generator = Generator::new(Keys::Uniform, 0);
        for _ in 0..records / 10 {
            collector.take(10 * RECORD, &mut |room| {
                room.chunks_exact_mut(RECORD).for_each(|r| generator.next_record(r));
            });
        }
        if force {
            collector.force_runs();
        }
        let mut keys = Vec::new();
        let in_memory = match collector.finish().unwrap() {
            Collected::Memory(half) => {
                keys.extend(half.in_order().map(|(_, r)| order(r, 0)));
                true
            }
            Collected::Runs(runs) => {
                let lanes = runs.into_iter().map(|run| vec![run]).collect::<Vec<_>>();
                let count = lanes.len();
                drop(collector);
                let mut lanes = Lanes::start(&budget, lanes, 8192, 2).unwrap();
                for lane in 0..count {
                    let before = keys.len();
                    while lanes.refill(lane, None).unwrap() == Refill::Ready {
                        keys.push(order(lanes.first(lane).unwrap(), 0));
                        lanes.consume(lane, RECORD);
                    }
                    assert!(keys[before..].is_sorted(), "run {lane} is in order");
                }
                false
            }
        };
        std::fs::remove_dir_all(dir).unwrap();
        (keys, in_memory)
    }

    #[test]
    fn every_record_is_in_memory_or_in_a_sorted_run() {
        let mut expected = collect(1000, 1000, false);
        assert!(expected.1 && expected.0.is_sorted(), "fits: stays in memory");
        for (capacity, force) in [(1000, true), (37, false), (500, false), (999, false)] {
            let mut spilled = collect(capacity, 1000, force);
            spilled.0.sort_unstable();
            expected.1 = false;
            assert_eq!(spilled, expected);
        }
    }
}
