//! Write-behind: bytes are collected in blocks, and one thread writes them while the next are
//! collected.

use crate::budget::{Budget, Buffer};
use crate::lanes::IO_STACK;
use anyhow::{Context, Result, anyhow};
use clump_os::file::{BLOCK, DiskFile};
use clump_os::thread;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Buffers of a writer: one being filled, one being written.
pub const DEPTH: usize = 2;

struct Job {
    buffer: Buffer,
    bytes: usize,
    offset: u64,
}

/// A file that is written from its beginning to its end.
#[derive(Debug)]
pub struct WriteBehind {
    current: Option<Buffer>,
    filled: usize,
    offset: u64,
    jobs: Option<Sender<Job>>,
    done: Receiver<Result<Buffer>>,
    in_flight: usize,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl WriteBehind {
    /// Starts at offset 0 of `file` with buffers of `chunk` bytes (whole blocks).
    ///
    /// # Errors
    /// Fails if the thread cannot be started or the budget is exhausted.
    pub fn start(budget: &Budget, file: Arc<DiskFile>, chunk: usize) -> Result<Self> {
        assert!(chunk >= BLOCK && chunk.is_multiple_of(BLOCK), "chunks are whole blocks");
        let (jobs, inbox) = channel::<Job>();
        let (outbox, done) = channel::<Result<Buffer>>();
        let spare = outbox.clone();
        let thread = thread::spawn_with_stack("write behind", IO_STACK, move || {
            while let Ok(Job { buffer, bytes, offset }) = inbox.recv() {
                let written = file.write_at(&buffer[..bytes], offset);
                if outbox.send(written.map(|()| buffer).map_err(Into::into)).is_err() {
                    break;
                }
            }
        })
        .context("starting a thread that writes behind")?;
        let current = Some(budget.buffer("writing behind", chunk)?);
        for _ in 1..DEPTH {
            let _ = spare.send(Ok(budget.buffer("writing behind", chunk)?));
        }
        drop(spare);
        let thread = Some(thread);
        Ok(Self {
            current,
            filled: 0,
            offset: 0,
            jobs: Some(jobs),
            done,
            in_flight: DEPTH - 1,
            thread,
        })
    }

    /// Appends `bytes`.
    ///
    /// # Errors
    /// Fails if an earlier write failed.
    #[inline]
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<()> {
        loop {
            let Some(current) = &mut self.current else {
                return Err(anyhow!("writing goes on after it has failed"));
            };
            let take = bytes.len().min(current.len() - self.filled);
            current[self.filled..self.filled + take].copy_from_slice(&bytes[..take]);
            self.filled += take;
            if take == bytes.len() {
                return Ok(());
            }
            bytes = &bytes[take..];
            self.flush()?;
        }
    }

    /// Returns the bytes appended so far, padding included.
    pub fn position(&self) -> u64 {
        self.offset + self.filled as u64
    }

    /// Pads with zeros to a whole block, so that the next bytes can be read on their own.
    pub fn pad(&mut self) {
        let whole = self.filled.next_multiple_of(BLOCK);
        if let Some(current) = &mut self.current {
            current[self.filled..whole].fill(0);
        }
        self.filled = whole;
    }

    /// Writes the rest (padded) and waits until all has been written to the device.
    ///
    /// # Errors
    /// Fails if any write failed.
    pub fn finish(mut self) -> Result<()> {
        self.pad();
        if self.filled > 0 {
            self.flush()?;
        }
        while self.in_flight > 0 {
            self.take_back()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let next = self.take_back()?;
        let (bytes, offset) = (std::mem::take(&mut self.filled), self.offset);
        self.offset += bytes as u64;
        if let (Some(buffer), Some(jobs)) = (self.current.replace(next), &self.jobs) {
            let _ = jobs.send(Job { buffer, bytes, offset });
            self.in_flight += 1;
        }
        Ok(())
    }

    fn take_back(&mut self) -> Result<Buffer> {
        let back = self.done.recv().context("the thread that writes behind is gone")?;
        self.in_flight -= 1;
        if back.is_err() {
            self.current = None;
        }
        back
    }
}

impl Drop for WriteBehind {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_any_length_arrive_in_order() {
        let dir = crate::test_dir("behind");
        let file = Arc::new(DiskFile::create(&dir.join("f"), true).unwrap());
        let budget = Budget::new(4 * BLOCK as u64).unwrap();
        let mut writer = WriteBehind::start(&budget, file.clone(), 2 * BLOCK).unwrap();
        let mut expected = Vec::new();
        for n in 0..700usize {
            let bytes = vec![(n % 256) as u8; n];
            expected.extend_from_slice(&bytes);
            writer.push(&bytes).unwrap();
        }
        assert_eq!(writer.position(), expected.len() as u64);
        writer.finish().unwrap();
        file.truncate(expected.len() as u64).unwrap();
        assert_eq!(std::fs::read(dir.join("f")).unwrap(), expected);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_write_that_fails_is_told_and_stays_failed() {
        let dir = crate::test_dir("behind-fails");
        std::fs::write(dir.join("f"), b"x").unwrap();
        let read_only = Arc::new(DiskFile::open(&dir.join("f"), true).unwrap());
        let mut writer =
            WriteBehind::start(&Budget::new(1 << 20).unwrap(), read_only, 2 * BLOCK).unwrap();
        let told = (0..100).find_map(|_| writer.push(&[1; BLOCK]).err()).unwrap().to_string();
        assert!(told.contains("writing"), "{told}");
        assert!(writer.push(b"more").is_err());
        std::fs::remove_dir_all(dir).unwrap();
    }
}
