//! Speed of the bare disk: the bytes of a sort read and written again without sorting them.
//!
//! Every rank reads its part of the input and writes as many bytes to a scratch file, in the
//! chunks and with the flags of the sort, all ranks concurrently, one direction after the other,
//! synced at the end.

use crate::behind::WriteBehind;
use crate::budget::Budget;
use crate::exchange::{Exchange, agree};
use crate::lanes::{FileRange, Lanes, Refill};
use crate::output::scratch_file;
use crate::plan::AHEAD;
use anyhow::Result;
use clump_os::clock;
use clump_os::file::BLOCK;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Times of the bare disk, for comparison with a sort.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
pub struct Disk {
    /// Seconds to read the input once.
    pub read_s: f64,
    /// Seconds to write as much once, and sync it.
    pub write_s: f64,
    /// Number of times that the sort reads and writes all bytes.
    pub passes: u32,
    /// Seconds for all passes.
    pub total_s: f64,
    /// [`Disk::total_s`] over the sort's time: 1 is as fast as the disk.
    pub ratio: f64,
}

impl Disk {
    /// Relates it to a sort that took `sort_s`.
    pub fn against(mut self, sort_s: f64) -> Self {
        self.ratio = self.total_s / sort_s.max(1e-9);
        self
    }
}

/// Measures the disk. Collective.
///
/// # Errors
/// Fails if reading or writing fails on this rank, or if another rank gives up.
pub fn disk(
    exchange: &mut dyn Exchange,
    part: &[FileRange],
    scratch: &Path,
    chunk: usize,
    direct: bool,
    two_pass: bool,
) -> Result<Disk> {
    let budget = Budget::new((Lanes::cost(1, chunk, AHEAD) + 4 * chunk) as u64)?;
    let bytes: u64 = part.iter().map(|piece| piece.bytes).sum();
    let read_s = timed(exchange, || {
        let mut lanes = Lanes::start(&budget, vec![part.to_vec()], chunk, AHEAD)?;
        while lanes.refill(0, None)? == Refill::Ready {
            lanes.consume(0, lanes.records(0).len());
        }
        Ok(())
    })?;
    let rank = exchange.rank();
    let write_s = timed(exchange, || {
        let file = scratch_file(scratch, rank, direct)?;
        file.reserve(0, bytes.next_multiple_of(BLOCK as u64))?;
        let mut writer = WriteBehind::start(&budget, file.clone(), chunk)?;
        let filler = budget.buffer("measuring the disk", chunk)?;
        let mut left = bytes;
        while left > 0 {
            let take = left.min(chunk as u64);
            writer.push(&filler[..take as usize])?;
            left -= take;
        }
        writer.finish()?;
        Ok(file.sync()?)
    })?;
    let passes = if two_pass { 2 } else { 1 };
    let total_s = f64::from(passes) * (read_s + write_s);
    Ok(Disk { read_s, write_s, passes, total_s, ratio: 0.0 })
}

/// Returns the seconds from the first rank's start of `work` to the last one's end.
fn timed(exchange: &mut dyn Exchange, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    agree(exchange, Ok(Vec::new()))?;
    let begin = clock::now_ns();
    let done = work();
    agree(exchange, done.map(|()| Vec::new()))?;
    Ok((clock::now_ns() - begin) as f64 / 1e9)
}
