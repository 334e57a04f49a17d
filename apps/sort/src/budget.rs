//! The memory budget: every large buffer of a sort is taken from it, and it never exceeds its cap.

use anyhow::{Context, Result, bail};
use clump_os::memory::{Aligned, Arena};
use clump_os::sync::{AtomicU64, Ordering};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

#[derive(Debug)]
struct MemoryBudget {
    cap: u64,
    used: AtomicU64,
    peak: AtomicU64,
    /// Memory of the buffers, so that a pass reuses the pages of the one before.
    arena: Arena,
}

/// The memory that one rank may hold at a time; clones share it.
#[derive(Debug, Clone)]
pub struct Budget(Arc<MemoryBudget>);

impl Budget {
    /// Creates a budget of `cap` bytes.
    ///
    /// # Errors
    /// Fails if there is no address space for `cap` bytes.
    pub fn new(cap: u64) -> Result<Self> {
        let bytes = usize::try_from(cap).context("the budget is larger than the address space")?;
        let arena = Arena::new(bytes).context("the machine has no address space left")?;
        let memory_budget =
            MemoryBudget { cap, used: AtomicU64::new(0), peak: AtomicU64::new(0), arena };
        Ok(Self(Arc::new(memory_budget)))
    }

    /// Sets `bytes` aside for memory that `what` allocates by itself.
    ///
    /// # Errors
    /// Fails if fewer than `bytes` are free.
    pub fn charge(&self, what: &str, bytes: usize) -> Result<Charge> {
        let wanted = bytes as u64;
        let used = self.0.used.fetch_add(wanted, Ordering::Relaxed) + wanted;
        if used > self.0.cap {
            self.0.used.fetch_sub(wanted, Ordering::Relaxed);
            bail!(
                "{what} wants {bytes} bytes, but {} of this rank's {} are in use: \
                 raise --memory, or run fewer ranks",
                used - wanted,
                self.0.cap
            );
        }
        self.0.peak.fetch_max(used, Ordering::Relaxed);
        Ok(Charge { budget: self.clone(), bytes: wanted })
    }

    /// Takes a page-aligned buffer of `bytes`, rounded up to whole pages; its content is left over
    /// from its last use.
    ///
    /// # Errors
    /// Fails if the budget or the machine's memory is exhausted.
    pub fn buffer(&self, what: &str, bytes: usize) -> Result<Buffer> {
        let whole = bytes.max(1).next_multiple_of(clump_os::file::BLOCK);
        let charge = self.charge(what, whole)?;
        let memory = match self.0.arena.take(whole) {
            Some(memory) => memory,
            // Enough is free, but not contiguously.
            None => Aligned::new(whole).context("the machine has no memory left")?,
        };
        Ok(Buffer { memory, _charge: charge })
    }

    /// Returns the most bytes that may be held.
    pub fn cap(&self) -> u64 {
        self.0.cap
    }

    /// Returns the bytes that are not in use.
    pub fn free(&self) -> u64 {
        self.0.cap.saturating_sub(self.0.used.load(Ordering::Relaxed))
    }

    /// Returns the most bytes that were ever in use.
    pub fn peak(&self) -> u64 {
        self.0.peak.load(Ordering::Relaxed)
    }
}

/// A claim on a budget; dropping it gives the bytes back.
#[derive(Debug)]
pub struct Charge {
    budget: Budget,
    bytes: u64,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.0.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Page-aligned memory that counts against a budget.
#[derive(Debug)]
pub struct Buffer {
    memory: Aligned,
    _charge: Charge,
}

impl Deref for Buffer {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.memory
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_refuses_to_exceed_and_takes_back() {
        let budget = Budget::new(3 * 4096).unwrap();
        let one = budget.buffer("one", 4096).unwrap();
        let two = budget.buffer("two", 5000).unwrap();
        assert_eq!(two.len(), 8192, "whole pages");
        let refused = budget.buffer("three", 1).unwrap_err().to_string();
        assert!(refused.contains("three") && refused.contains("--memory"), "{refused}");
        drop(one);
        assert_eq!(budget.free(), 4096);
        drop(budget.charge("four", 4096).unwrap());
        assert_eq!((budget.peak(), budget.cap()), (3 * 4096, 3 * 4096));
    }
}
