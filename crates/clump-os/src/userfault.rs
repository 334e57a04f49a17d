//! Page faults of a mapping as signals of the thread that makes them, and its pages mapped one by
//! one: userfaultfd on shared memory (userfaultfd(2), ioctl_userfaultfd(2), PAGEMAP_SCAN).
//!
//! A mapping that is registered maps no page by itself, whether the page has memory or not. Rights
//! change page by page without splitting the mapping.

use crate::error::{OsError, Result};
use crate::map::{Mapping, PAGE};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Faults of the kernel on behalf of this process are errors of its calls: needs no privilege.
const USER_MODE_ONLY: libc::c_int = 1;
const API: u64 = 0xaa;
const SIGBUS: u64 = 1 << 7;
const MINOR_SHMEM: u64 = 1 << 10;
const WP_SHMEM: u64 = 1 << 12;
const WP_UNPOPULATED: u64 = 1 << 13;
const WP_ASYNC: u64 = 1 << 15;
const MODE_MISSING: u64 = 1;
const MODE_WP: u64 = 2;
const MODE_MINOR: u64 = 4;
const CONTINUE_WP: u64 = 2;

/// Number of a request that reads and writes `bytes` bytes.
const fn request(kind: u8, number: u8, bytes: usize) -> libc::c_ulong {
    3 << 30
        | (bytes as libc::c_ulong) << 16
        | (kind as libc::c_ulong) << 8
        | number as libc::c_ulong
}

const UFFDIO_API: libc::c_ulong = request(0xaa, 0x3f, size_of::<[u64; 3]>());
const UFFDIO_REGISTER: libc::c_ulong = request(0xaa, 0, size_of::<[u64; 4]>());
const UFFDIO_WRITEPROTECT: libc::c_ulong = request(0xaa, 6, size_of::<[u64; 3]>());
const UFFDIO_CONTINUE: libc::c_ulong = request(0xaa, 7, size_of::<[u64; 4]>());
const PAGEMAP_SCAN: libc::c_ulong = request(b'f', 16, size_of::<[u64; 12]>());
const SCAN_WP_MATCHING: u64 = 1;
const SCAN_CHECK_WPASYNC: u64 = 2;
const IS_WP_ALLOWED: u64 = 1;
const IS_WRITTEN: u64 = 2;

/// Ranges that one call of a scan returns at most.
const SCAN_RANGES: usize = 64;

/// Detection of stores to pages that may only be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreDetection {
    /// By a signal.
    Signal,
    /// By a scan, later: stores need no signal.
    Scan,
}

/// Faults of one mapping.
#[derive(Debug)]
pub struct UserFaults {
    fd: OwnedFd,
    view: Mapping,
    /// Finds stores, if not by signals.
    scanner: Option<StoreScanner>,
}

/// Scans of one mapping of a process for stores, by the page table of that process.
#[derive(Debug)]
pub struct StoreScanner {
    pagemap: OwnedFd,
    base: u64,
    bytes: usize,
}

/// Result of mapping a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageMapping {
    /// Mapped by this call.
    Mapped,
    /// Mapped before.
    Present,
    /// Without memory yet.
    NoMemory,
}

fn call<T>(fd: &OwnedFd, request: libc::c_ulong, words: &mut T) -> std::result::Result<i32, Errno> {
    // SAFETY: `words` is a structure of the size that the request names, which the kernel reads and
    // writes; addresses in it are checked by the kernel, and are in mappings that the caller owns.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), request as _, std::ptr::from_mut(words)) };
    if done >= 0 {
        return Ok(done);
    }
    let raw = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    Err(Errno::from_raw_os_error(raw))
}

impl UserFaults {
    /// Registers a mapping of shared memory: every access to it is a SIGBUS of its thread until the
    /// page is mapped.
    ///
    /// # Errors
    /// The kernel has no such faults, or does not permit them to this process.
    pub fn register(view: &Mapping, detection: StoreDetection) -> Result<Self> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | USER_MODE_ONLY;
        // SAFETY: takes flags and returns a new descriptor, which has no other owner.
        let fd = unsafe {
            let fd = libc::syscall(libc::SYS_userfaultfd, flags);
            if fd < 0 {
                return Err(OsError::last("userfaultfd"));
            }
            OwnedFd::from_raw_fd(fd as i32)
        };
        let scans = detection == StoreDetection::Scan;
        let features = SIGBUS | MINOR_SHMEM | WP_SHMEM;
        let features = features | if scans { WP_ASYNC | WP_UNPOPULATED } else { 0 };
        call(&fd, UFFDIO_API, &mut [API, features, 0])
            .map_err(|e| OsError::new("userfaultfd, faults of shared memory", e))?;
        let mode = MODE_MISSING | MODE_WP | MODE_MINOR;
        let (start, bytes) = (view.base().addr().get() as u64, view.bytes() as u64);
        call(&fd, UFFDIO_REGISTER, &mut [start, bytes, mode, 0])
            .map_err(|e| OsError::new("registering a mapping with userfaultfd", e))?;
        let (address, bytes) = (view.base().addr().get(), view.bytes());
        let scanner = scans.then(|| StoreScanner::open("self", address, bytes)).transpose()?;
        Ok(Self { fd, view: view.clone(), scanner })
    }

    fn at(&self, offset: usize) -> u64 {
        debug_assert!(offset < self.view.bytes(), "a page of the mapping");
        (self.view.base().addr().get() + offset) as u64
    }

    /// Maps pages from `offset` on: to be written too, or with stores detected. Ends at the first
    /// page that is mapped already or has no memory. Returns the bytes mapped before it, and what
    /// it is: [`PageMapping::Mapped`] if there is no such page.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn map_pages(
        &self,
        offset: usize,
        bytes: usize,
        writable: bool,
    ) -> Result<(usize, PageMapping)> {
        debug_assert!(offset + bytes <= self.view.bytes(), "pages of the mapping");
        let mode = if writable { 0 } else { CONTINUE_WP };
        let mut done = 0;
        while done < bytes {
            let mut words = [self.at(offset + done), (bytes - done) as u64, mode, 0];
            let outcome = call(&self.fd, UFFDIO_CONTINUE, &mut words);
            // Below 0: an error, which `outcome` has, too.
            let mapped = usize::try_from(words[3].cast_signed()).unwrap_or(0);
            debug_assert!(mapped <= bytes - done, "no more than was requested");
            match outcome {
                Ok(_) => return Ok((bytes, PageMapping::Mapped)),
                // The page table changes, or a part was done.
                Err(Errno::AGAIN) => done += mapped,
                Err(Errno::EXIST) => return Ok((done, PageMapping::Present)),
                Err(Errno::FAULT) => return Ok((done, PageMapping::NoMemory)),
                Err(e) => return Err(OsError::new("mapping pages by userfaultfd", e)),
            }
        }
        Ok((done, PageMapping::Mapped))
    }

    /// Lets stores to pages that are mapped through, or detects them.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn protect(&self, offset: usize, bytes: usize, writable: bool) -> Result<()> {
        loop {
            let mut words = [self.at(offset), bytes as u64, u64::from(!writable)];
            match call(&self.fd, UFFDIO_WRITEPROTECT, &mut words) {
                Ok(_) => return Ok(()),
                Err(Errno::AGAIN) => {}
                Err(e) => return Err(OsError::new("protecting a page by userfaultfd", e)),
            }
        }
    }

    /// Takes pages away: the next access is a fault again.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn unmap(&self, offset: usize, bytes: usize) -> Result<()> {
        debug_assert!(offset + bytes <= self.view.bytes(), "pages of the mapping");
        let at = self.view.base().as_ptr().wrapping_add(offset);
        // SAFETY: drops pages of this mapping from the page table; the memory, which is shared,
        // keeps its contents.
        unsafe { rustix::mm::madvise(at.cast(), bytes, rustix::mm::Advice::LinuxDontNeed) }
            .map_err(|e| OsError::new("dropping pages", e))
    }

    /// Looks for stores ([`StoreScanner::look`]), where they are found so.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn look(&self, offset: usize, bytes: usize, each: impl FnMut(usize, usize)) -> Result<()> {
        self.scanner.as_ref().map_or(Ok(()), |scanner| scanner.look(offset, bytes, each))
    }

    /// Scans for stores ([`StoreScanner::scan`]), where they are found so.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn scan(&self, offset: usize, bytes: usize, each: impl FnMut(usize, usize)) -> Result<()> {
        self.scanner.as_ref().map_or(Ok(()), |scanner| scanner.scan(offset, bytes, each))
    }
}

impl StoreScanner {
    /// Calls `each` as [`scan`](Self::scan) does, and detects no store anew.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn look(&self, offset: usize, bytes: usize, each: impl FnMut(usize, usize)) -> Result<()> {
        self.written((offset, bytes), 0, each)
    }

    /// Opens the scans of another process, which has registered `bytes` bytes at `address` with
    /// [`StoreDetection::Scan`].
    ///
    /// # Errors
    /// The kernel does not permit it, or there is no such mapping.
    pub fn of_process(pid: u32, address: usize, bytes: usize) -> Result<Self> {
        Self::open(&pid.to_string(), address, bytes)
    }

    /// Opens the scans of a process, by its name under `/proc`; the first page counts as scanned.
    fn open(process: &str, address: usize, bytes: usize) -> Result<Self> {
        debug_assert!(address.is_multiple_of(PAGE) && bytes >= PAGE, "pages");
        let pagemap = std::fs::File::open(format!("/proc/{process}/pagemap"));
        let pagemap = pagemap.map_err(|e| OsError::of("opening a page table", &e))?.into();
        let scanner = Self { pagemap, base: address as u64, bytes };
        if !scanner.is_there()? {
            return Err(OsError::new("scanning for written pages", Errno::SRCH));
        }
        scanner.scan(0, PAGE, |_, _| {})?;
        Ok(scanner)
    }

    /// Returns true if the mapping exists; false once its process has ended. A scan before it has
    /// found all stores if it does.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn is_there(&self) -> Result<bool> {
        let mut ranges = [[0_u64; 3]; 1];
        let kind = (IS_WP_ALLOWED, 0);
        self.request((self.base, self.base + PAGE as u64), kind, &mut ranges)
            .map(|(found, _)| found > 0)
    }

    /// Calls `each` with the offset and length of ranges that were written since they were mapped
    /// or scanned, within `[offset, offset + bytes)`, and detects stores to them anew. Pages that
    /// were never mapped may be among them. Of a process that has ended there is none.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn scan(&self, offset: usize, bytes: usize, each: impl FnMut(usize, usize)) -> Result<()> {
        self.written((offset, bytes), SCAN_WP_MATCHING | SCAN_CHECK_WPASYNC, each)
    }

    fn written(
        &self,
        (offset, bytes): (usize, usize),
        flags: u64,
        mut each: impl FnMut(usize, usize),
    ) -> Result<()> {
        debug_assert!(offset + bytes <= self.bytes, "pages of the mapping");
        let base = self.base;
        let (mut start, end) = (base + offset as u64, base + (offset + bytes) as u64);
        while start < end {
            let mut ranges = [[0_u64; 3]; SCAN_RANGES];
            let (found, walked) = self.request((start, end), (IS_WRITTEN, flags), &mut ranges)?;
            for [first, behind, _] in ranges.iter().take(found) {
                each((first - base) as usize, (behind - first) as usize);
            }
            if walked <= start {
                break;
            }
            start = walked;
        }
        Ok(())
    }

    /// Requests the ranges of pages of a category. Returns how many there are, and the address up
    /// to which the kernel has scanned.
    fn request<const RANGES: usize>(
        &self,
        (start, end): (u64, u64),
        (category, flags): (u64, u64),
        ranges: &mut [[u64; 3]; RANGES],
    ) -> Result<(usize, u64)> {
        let (vec, len) = (ranges.as_mut_ptr() as u64, RANGES as u64);
        let size = size_of::<[u64; 12]>() as u64;
        let mut words = [size, flags, start, end, 0, vec, len, 0, 0, category, 0, category];
        let found = call(&self.pagemap, PAGEMAP_SCAN, &mut words)
            .map_err(|e| OsError::new("scanning for written pages", e))?;
        Ok((found.unsigned_abs() as usize, words[4]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{commit, sealed_memory};
    use crate::sync::{AtomicU8, Ordering};
    use std::os::fd::AsFd;

    /// A view of four pages, its faults, and the same memory mapped plainly.
    fn four_pages(detection: StoreDetection) -> Option<(Mapping, UserFaults, Mapping)> {
        let fd = sealed_memory("of a test", 4 * PAGE as u64).unwrap();
        let view = Mapping::shared(&fd, 0, 4 * PAGE).unwrap();
        let plain = Mapping::shared(&fd, 0, 4 * PAGE).unwrap();
        commit(fd.as_fd(), 0, PAGE as u64).unwrap();
        match UserFaults::register(&view, detection) {
            Ok(faults) => Some((view, faults, plain)),
            Err(why) => {
                println!("SKIPPED: {why}; a kernel that permits userfaultfd would run it");
                None
            }
        }
    }

    fn byte(map: &Mapping, at: usize) -> &AtomicU8 {
        // SAFETY: a byte of the mapping, as an atomic.
        unsafe { &*map.base().as_ptr().add(at).cast::<AtomicU8>() }
    }

    #[test]
    fn pages_are_mapped_one_by_one_and_written_ones_are_found() {
        let Some((view, faults, plain)) = four_pages(StoreDetection::Scan) else { return };
        let map = |page: usize| faults.map_pages(page * PAGE, PAGE, false).unwrap().1;
        assert_eq!(map(2), PageMapping::NoMemory);
        byte(&plain, 2 * PAGE + 1).store(3, Ordering::Relaxed);
        for page in [0, 2] {
            assert_eq!(map(page), PageMapping::Mapped);
            assert_eq!(map(page), PageMapping::Present);
        }
        assert_eq!(byte(&view, 2 * PAGE + 1).load(Ordering::Relaxed), 3);
        let written = |page: usize| {
            let mut found = false;
            let scanned = faults.scan(page * PAGE, PAGE, |offset, bytes| {
                found |= (offset..offset + bytes).contains(&(page * PAGE));
            });
            scanned.unwrap();
            found
        };
        assert!(!written(0) && !written(2), "they were read only");
        byte(&view, 5).store(1, Ordering::Relaxed);
        assert!(written(0) && !written(2));
        assert!(!written(0), "each store is found once");
        byte(&view, 6).store(1, Ordering::Relaxed);
        assert!(written(0));
        faults.unmap(0, PAGE).unwrap();
        assert_eq!(map(0), PageMapping::Mapped);
        assert_eq!(byte(&plain, 6).load(Ordering::Relaxed), 1);
    }

    #[test]
    fn pages_that_lie_together_are_mapped_at_once() {
        let Some((view, faults, plain)) = four_pages(StoreDetection::Scan) else { return };
        for page in [1, 2] {
            byte(&plain, page * PAGE).store(page as u8, Ordering::Relaxed);
        }
        // The last page has no memory.
        let all = |first: usize| faults.map_pages(first * PAGE, (4 - first) * PAGE, false).unwrap();
        assert_eq!(all(1), (2 * PAGE, PageMapping::NoMemory));
        assert_eq!(byte(&view, 2 * PAGE).load(Ordering::Relaxed), 2);
        assert_eq!(all(0), (PAGE, PageMapping::Present));
        byte(&plain, 3 * PAGE).store(3, Ordering::Relaxed);
        assert_eq!(all(3), (PAGE, PageMapping::Mapped));
        assert_eq!(byte(&view, 3 * PAGE).load(Ordering::Relaxed), 3);
    }

    #[test]
    fn a_scanner_finds_stores_by_the_number_of_a_process() {
        let Some((view, faults, plain)) = four_pages(StoreDetection::Scan) else { return };
        assert_eq!(faults.map_pages(0, PAGE, false).unwrap(), (PAGE, PageMapping::Mapped));
        let address = |map: &Mapping| map.base().addr().get();
        let own = crate::process::own_pid();
        let scanner = StoreScanner::of_process(own, address(&view), 4 * PAGE).unwrap();
        let stores = || {
            let mut found = 0;
            scanner.scan(0, PAGE, |_, _| found += 1).unwrap();
            found
        };
        assert_eq!(stores(), 0);
        byte(&view, 9).store(1, Ordering::Relaxed);
        assert_eq!((stores(), stores()), (1, 0));
        assert!(StoreScanner::of_process(own, address(&plain), 4 * PAGE).is_err());
        assert!(StoreScanner::of_process(u32::MAX, address(&view), 4 * PAGE).is_err());
        assert!(scanner.is_there().unwrap());
        drop((faults, view));
        assert!(!scanner.is_there().unwrap(), "the mapping is gone");
    }

    #[test]
    fn protection_changes_without_splitting_the_mapping() {
        let Some((view, faults, _plain)) = four_pages(StoreDetection::Signal) else { return };
        assert_eq!(faults.map_pages(0, PAGE, true).unwrap(), (PAGE, PageMapping::Mapped));
        byte(&view, 7).store(1, Ordering::Relaxed);
        faults.protect(0, PAGE, false).unwrap();
        faults.protect(0, PAGE, true).unwrap();
        byte(&view, 7).store(2, Ordering::Relaxed);
        assert_eq!(byte(&view, 7).load(Ordering::Relaxed), 2);
    }
}
