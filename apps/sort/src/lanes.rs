//! Read-ahead: one thread fills buffers for any number of lanes, each a sequence of records.
//!
//! A lane reads its file ranges in order, in chunks. Chunks end where blocks end, records do not:
//! the bytes of a cut record are moved into the headroom before the next chunk, so that a reader
//! of a lane sees whole records in one slice, and no record is copied otherwise.

use crate::budget::{Budget, Buffer};
use crate::record::RECORD;
use anyhow::{Context, Result, bail};
use clump_os::file::{BLOCK, DiskFile};
use clump_os::thread;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// A range of a file.
#[derive(Debug, Clone)]
pub struct FileRange {
    /// The file.
    pub file: Arc<DiskFile>,
    /// First byte; a record begins here.
    pub offset: u64,
    /// Bytes, a multiple of the record's.
    pub bytes: u64,
}

/// The result of waiting for a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refill {
    /// The lane has records.
    Ready,
    /// No arrival in the time allowed.
    Pending,
    /// The lane has been read to its end.
    End,
}

#[derive(Debug)]
struct Chunk {
    buffer: Buffer,
    start: usize,
    end: usize,
}

struct Job {
    lane: usize,
    piece: FileRange,
    buffer: Buffer,
}

type Done = (usize, Result<Chunk>);

#[derive(Debug, Default)]
struct Lane {
    pieces: VecDeque<FileRange>,
    ready: VecDeque<Chunk>,
    in_flight: usize,
    current: Option<Chunk>,
}

/// Lanes with read-ahead.
#[derive(Debug)]
pub struct Lanes {
    lanes: Vec<Lane>,
    chunk: usize,
    jobs: Option<Sender<Job>>,
    done: Receiver<Done>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Stack of a thread that only moves blocks, in bytes.
pub const IO_STACK: usize = 64 << 10;

impl Lanes {
    /// Returns the memory that [`Lanes::start`] takes, in bytes.
    pub fn cost(lanes: usize, chunk: usize, depth: usize) -> usize {
        lanes * depth * (chunk + BLOCK)
    }

    /// Starts reading `lanes` ahead: `depth` chunks of `chunk` bytes (whole blocks) each.
    ///
    /// # Errors
    /// Fails if the thread cannot be started or the budget is exhausted.
    pub fn start(
        budget: &Budget,
        lanes: Vec<Vec<FileRange>>,
        chunk: usize,
        depth: usize,
    ) -> Result<Self> {
        assert!(chunk >= BLOCK && chunk.is_multiple_of(BLOCK), "chunks are whole blocks");
        let (jobs, inbox) = channel::<Job>();
        let (outbox, done) = channel::<Done>();
        let thread = thread::spawn_with_stack("read ahead", IO_STACK, move || {
            while let Ok(Job { lane, piece, buffer }) = inbox.recv() {
                if outbox.send((lane, fill(&piece, buffer))).is_err() {
                    break;
                }
            }
        })
        .context("starting a thread that reads ahead")?;
        let lanes: Vec<Lane> = lanes
            .into_iter()
            .map(|pieces| Lane { pieces: pieces.into(), ..Lane::default() })
            .collect();
        let mut all = Self { lanes, chunk, jobs: Some(jobs), done, thread: Some(thread) };
        // First chunks of every lane before second ones: a merge starts when each lane has one.
        for _ in 0..depth {
            for lane in 0..all.lanes.len() {
                if !all.lanes[lane].pieces.is_empty() {
                    let buffer = budget.buffer("reading ahead", chunk + BLOCK)?;
                    all.request(lane, buffer);
                }
            }
        }
        Ok(all)
    }

    /// Returns whole records of `lane` that have arrived and are not consumed.
    #[inline(always)]
    pub fn records(&self, lane: usize) -> &[u8] {
        match &self.lanes[lane].current {
            Some(chunk) => {
                let bytes = chunk.end - chunk.start;
                &chunk.buffer[chunk.start..chunk.start + bytes - bytes % RECORD]
            }
            None => &[],
        }
    }

    /// Returns the first record of `lane` that is not consumed, if it has arrived.
    #[inline(always)]
    pub fn first(&self, lane: usize) -> Option<&[u8]> {
        let chunk = self.lanes[lane].current.as_ref()?;
        chunk.buffer[..chunk.end].get(chunk.start..chunk.start + RECORD)
    }

    /// Consumes the first `bytes` of [`Lanes::records`].
    #[inline(always)]
    pub fn consume(&mut self, lane: usize, bytes: usize) {
        if let Some(chunk) = &mut self.lanes[lane].current {
            chunk.start += bytes;
            debug_assert!(chunk.start <= chunk.end, "consumed what has not arrived");
        }
    }

    /// Ensures that `lane` has at least one record, waiting for at most `limit` (`None`: as long
    /// as it takes).
    ///
    /// # Errors
    /// Fails if reading fails or a record is cut off at the end of a file.
    pub fn refill(&mut self, lane: usize, limit: Option<Duration>) -> Result<Refill> {
        loop {
            if self.first(lane).is_some() {
                return Ok(Refill::Ready);
            }
            if let Some(chunk) = self.lanes[lane].ready.pop_front() {
                self.advance(lane, chunk)?;
                continue;
            }
            if self.lanes[lane].in_flight == 0 {
                let left = self.lanes[lane].current.as_ref().map_or(0, |c| c.end - c.start);
                if left > 0 {
                    bail!("{left} bytes of a record are missing at the end of a file");
                }
                return Ok(Refill::End);
            }
            let (from, chunk) = match limit {
                None => self.done.recv().context("the thread that reads ahead is gone")?,
                Some(limit) => match self.done.recv_timeout(limit) {
                    Ok(done) => done,
                    Err(RecvTimeoutError::Timeout) => return Ok(Refill::Pending),
                    Err(e) => return Err(e).context("the thread that reads ahead is gone"),
                },
            };
            self.lanes[from].in_flight -= 1;
            self.lanes[from].ready.push_back(chunk?);
        }
    }

    /// Moves the cut record before `next`, makes that the current chunk and reuses the old buffer.
    fn advance(&mut self, lane: usize, mut next: Chunk) -> Result<()> {
        if let Some(old) = self.lanes[lane].current.take() {
            let cut = &old.buffer[old.start..old.end];
            if cut.len() > next.start {
                bail!("a record is longer than the headroom of a buffer");
            }
            let begin = next.start - cut.len();
            next.buffer[begin..next.start].copy_from_slice(cut);
            next.start = begin;
            self.request(lane, old.buffer);
        }
        self.lanes[lane].current = Some(next);
        Ok(())
    }

    /// Requests the next chunk of `lane`; without effect at its end.
    fn request(&mut self, lane: usize, buffer: Buffer) {
        let this = &mut self.lanes[lane];
        let Some(front) = this.pieces.front_mut() else { return };
        let into_block = front.offset % BLOCK as u64;
        let bytes = front.bytes.min(self.chunk as u64 - into_block);
        let piece = FileRange { file: front.file.clone(), offset: front.offset, bytes };
        front.offset += bytes;
        front.bytes -= bytes;
        if front.bytes == 0 {
            this.pieces.pop_front();
        }
        this.in_flight += 1;
        if let Some(jobs) = &self.jobs {
            // A thread that has ended is noticed when its answer is waited for.
            let _ = jobs.send(Job { lane, piece, buffer });
        }
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Reads `piece` into `buffer` behind the headroom, in whole blocks.
fn fill(piece: &FileRange, mut buffer: Buffer) -> Result<Chunk> {
    let skip = (piece.offset % BLOCK as u64) as usize;
    let wanted = skip + piece.bytes as usize;
    let blocks = wanted.next_multiple_of(BLOCK);
    let got = piece.file.read_at(&mut buffer[BLOCK..BLOCK + blocks], piece.offset - skip as u64)?;
    if got < wanted {
        bail!("a file became shorter while it was read: do not change the input during a sort");
    }
    Ok(Chunk { buffer, start: BLOCK + skip, end: BLOCK + wanted })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_whole_and_in_order_across_chunks_and_files() {
        let dir = crate::test_dir("lanes");
        let mut pieces = Vec::new();
        for file in 0..3u8 {
            let path = dir.join(format!("f{file}"));
            let bytes: Vec<u8> = (0..500u16)
                .flat_map(|r| [vec![file], r.to_le_bytes().to_vec(), vec![7; 97]].concat())
                .collect();
            std::fs::write(&path, &bytes).unwrap();
            let file = Arc::new(DiskFile::open(&path, true).unwrap());
            pieces.push(FileRange { file, offset: 1300, bytes: 48_000 });
        }
        let budget = Budget::new(Lanes::cost(2, 8192, 2) as u64).unwrap();
        let lanes = vec![pieces.clone(), pieces[1..].to_vec()];
        let mut lanes = Lanes::start(&budget, lanes, 8192, 2).unwrap();
        for (lane, files) in [(0, 0..3u8), (1, 1..3u8)] {
            for file in files {
                for r in 13..493u16 {
                    assert_eq!(lanes.refill(lane, None).unwrap(), Refill::Ready);
                    let record = lanes.first(lane).unwrap();
                    assert_eq!((record[0], &record[1..3]), (file, &r.to_le_bytes()[..]));
                    lanes.consume(lane, RECORD);
                }
            }
            assert_eq!(lanes.refill(lane, None).unwrap(), Refill::End);
        }
        std::fs::remove_dir_all(dir).unwrap();
    }
}
