//! Memory that may still be committed, requested before it is.
//!
//! The kernel does not refuse shared memory that the machine lacks: it kills a process of the
//! machine, or of the memory group (cgroup) whose limit was reached, and not always the one that
//! touched it. So each process requests memory from a supply before committing it.

use crate::Error;
use crate::geometry::PAGE;
use clump_os::map;
use clump_os::sync::{AtomicU64, Ordering};
use std::fmt::Debug;
use std::os::fd::BorrowedFd;

/// Memory that is left to others: when less is available, nothing more is committed. A machine, or
/// a group of processes with a limit, that has used all ends one of them.
const LEFT_TO_OTHERS: u64 = 32 << 20;
/// Part of what is available that is left to others where that is more: the kernel needs tables
/// for what processes map, and they grow besides.
const PART_LEFT: u64 = 64;
/// Bytes committed between two readings of the available memory, where it is plenty.
const LOOK_EACH: u64 = 4 << 20;
/// Bytes that are granted whole or not at all.
pub const STEP_MIN: u64 = 256 << 10;

/// Refusal of memory that the machine does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortage {
    /// Bytes that could have been had.
    pub available: u64,
}

/// Memory that a machine has for segments of ranks and regions of nodes.
pub trait MemorySupply: Debug + Send {
    /// Returns how many of `bytes` more bytes, which is not 0, may be committed now, before the
    /// next question: at least one, and all of them up to [`STEP_MIN`].
    ///
    /// # Errors
    /// Not all of them can be had.
    fn grant(&mut self, bytes: u64) -> std::result::Result<u64, Shortage>;
}

/// Commits `[offset, offset + bytes)` of a memory file, in pages, as many at a time as the supply
/// grants.
///
/// # Errors
/// Not all of it is available; the number is that of the bytes committed before.
pub(crate) fn commit(
    fd: BorrowedFd<'_>,
    supply: &mut dyn MemorySupply,
    (offset, bytes): (u64, u64),
) -> std::result::Result<(), (Error, u64)> {
    let page = PAGE as u64;
    debug_assert!((offset | bytes).is_multiple_of(page), "memory is committed in pages");
    let mut done = 0;
    while done < bytes {
        let rest = bytes - done;
        let granted = supply.grant(rest).map_err(|why| {
            (Error::NoMemory { asked: bytes, available: why.available + done }, done)
        })?;
        // No more pages than were granted, but for one.
        let step = (granted / page * page).max(page).min(rest);
        debug_assert!(step.is_multiple_of(page) && step > 0, "whole pages, at least one");
        map::commit(fd, offset + done, step).map_err(|error| (error.into(), done))?;
        done += step;
    }
    debug_assert!(done == bytes, "all of it, and no more");
    Ok(())
}

/// The machine's own memory, as far as this process may use it.
#[derive(Debug)]
pub struct MachineSupply {
    /// Ranks that may request at the same time.
    sharers: u64,
    /// Bytes that may be committed before the next reading.
    granted: AtomicU64,
}

impl MachineSupply {
    /// Creates the supply of one of so many ranks. They see the same memory at the same time, so
    /// that together they are granted no more than half of it between two looks.
    pub fn new(sharers: usize) -> Self {
        Self { sharers: sharers.max(1) as u64, granted: AtomicU64::new(0) }
    }

    /// Examines if the machine has `bytes` more now. Grants none of them.
    ///
    /// # Errors
    /// It does not.
    pub fn examine(bytes: u64) -> std::result::Result<(), Shortage> {
        let alone = Self::new(1);
        // Where nothing is known, the kernel decides.
        let Some(available) = clump_os::available::memory_bytes() else { return Ok(()) };
        alone.look(bytes, available).map(|granted| debug_assert!(granted > 0 || bytes == 0))
    }

    /// Decides on `bytes` where so many are available.
    fn look(&self, bytes: u64, available: u64) -> std::result::Result<u64, Shortage> {
        let left = LEFT_TO_OTHERS.max(available / PART_LEFT);
        let free = available.saturating_sub(left);
        if bytes > free {
            return Err(Shortage { available: free });
        }
        let fair = free / (2 * self.sharers);
        debug_assert!(left + free <= available.max(left), "others keep what is left to them");
        debug_assert!(fair <= free, "a part of it");
        Ok(bytes.max(LOOK_EACH).min(fair).max(bytes.min(STEP_MIN)))
    }
}

impl MachineSupply {
    /// Grants memory as [`MemorySupply::grant`] does, to any thread. Allocates nothing, and does
    /// not block.
    ///
    /// # Errors
    /// As [`MemorySupply::grant`].
    pub fn take(&self, bytes: u64) -> std::result::Result<u64, Shortage> {
        let mut granted = self.granted.load(Ordering::Relaxed);
        if granted < bytes.min(STEP_MIN) {
            let available = clump_os::available::memory_bytes();
            // Where nothing is known, the kernel decides.
            granted = available.map_or(Ok(bytes), |available| self.look(bytes, available))?;
        }
        let now = bytes.min(granted);
        // Of concurrent requests the last reading is stored: each is as good.
        self.granted.store(granted - now, Ordering::Relaxed);
        debug_assert!(now > 0 || bytes == 0, "something was granted");
        Ok(now)
    }
}

impl MemorySupply for MachineSupply {
    fn grant(&mut self, bytes: u64) -> std::result::Result<u64, Shortage> {
        self.take(bytes)
    }
}

impl MemorySupply for &MachineSupply {
    fn grant(&mut self, bytes: u64) -> std::result::Result<u64, Shortage> {
        self.take(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_refused_and_something_is_left_to_others() {
        let alone = MachineSupply::new(1);
        let refused = |bytes, available| alone.look(bytes, available).unwrap_err().available;
        assert_eq!(refused(1, 0), 0);
        assert_eq!(refused(1, LEFT_TO_OTHERS), 0);
        assert_eq!(refused(11, LEFT_TO_OTHERS + 10), 10);
        assert_eq!(refused(64 << 30, 24 << 30), (24 << 30) / 64 * 63);
        assert_eq!(alone.look(10, LEFT_TO_OTHERS + 10), Ok(10));
        assert_eq!(alone.look(1 << 30, 24 << 30), Ok(1 << 30));
    }

    #[test]
    fn ranks_that_ask_at_once_are_granted_half_of_it_together() {
        let available = 1 << 30;
        for ranks in [1, 2, 4, 64] {
            let one = MachineSupply::new(ranks).look(available / ranks as u64 / 2, available);
            assert!(one.unwrap() * ranks as u64 <= available / 2, "{ranks} ranks: {one:?}");
        }
        // However many they are, a step is worth the look.
        assert_eq!(MachineSupply::new(1 << 20).look(1 << 20, available), Ok(STEP_MIN));
    }

    #[test]
    fn the_machine_grants_little_whole_and_much_in_steps() {
        let mut supply = MachineSupply::new(1);
        for bytes in [1, 4096, STEP_MIN, STEP_MIN, LOOK_EACH] {
            let granted = supply.grant(bytes).unwrap();
            assert!(granted == bytes || bytes > STEP_MIN && granted > 0, "{granted} of {bytes}");
        }
        assert!(supply.grant(u64::MAX).is_err() || supply.grant(u64::MAX).is_err());
    }
}
