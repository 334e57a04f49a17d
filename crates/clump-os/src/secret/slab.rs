//! Memory of secrets: places of one size on pages that several secrets share.
//!
//! A key for each direction of each peer, on a page each, would be 8 KiB a peer, and the limit of
//! locked memory would be used up by a thousand peers.

use crate::error::{OsError, Result};
use crate::map::PAGE;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Alignment of a place, in bytes.
pub(super) const LINE: usize = 64;
const _: () = assert!(PAGE / LINE <= u64::BITS as usize, "a word marks the taken places");

/// The pages of all secrets of this process.
static PAGES: Mutex<Pages> = Mutex::new(Pages { taken: BTreeMap::new(), open: BTreeSet::new() });

/// Pages, each with places of one size.
#[derive(Debug)]
struct Pages {
    /// The places of each page that are taken, by the page's address.
    taken: BTreeMap<usize, u64>,
    /// Lines of a place, and address, of each page that has one to give.
    open: BTreeSet<(usize, usize)>,
}

/// A place for one secret, on memory that no core dump holds and that children of `fork` find
/// zeroed; overwritten with zeros when dropped.
pub(super) struct SecretPlace {
    start: NonNull<u8>,
    lines: usize,
}

impl SecretPlace {
    /// Takes a place of at least so many bytes, all zero.
    ///
    /// # Errors
    /// No memory can be mapped, or it cannot be kept out of core dumps.
    pub(super) fn new(bytes: usize) -> Result<Self> {
        let lines = bytes.div_ceil(LINE).max(1);
        if lines * LINE > PAGE / 2 {
            return Ok(Self { start: map((lines * LINE).next_multiple_of(PAGE))?, lines });
        }
        let mut pages = pages();
        let page = match pages.open.range((lines, 0)..(lines + 1, 0)).next() {
            Some(&(_, page)) => page,
            None => {
                let page = map(PAGE)?.expose_provenance().get();
                pages.taken.insert(page, 0);
                pages.open.insert((lines, page));
                page
            }
        };
        let taken = pages.taken.entry(page).or_default();
        let at = taken.trailing_ones() as usize;
        debug_assert!(at < places(lines), "an open page has a place to give");
        *taken |= 1 << at;
        if taken.trailing_ones() as usize == places(lines) {
            pages.open.remove(&(lines, page));
        }
        let start = std::ptr::with_exposed_provenance_mut(page + at * lines * LINE);
        let start = NonNull::new(start).ok_or_else(|| OsError::new("a secret", Errno::FAULT))?;
        Ok(Self { start, lines })
    }

    /// Returns its address, a multiple of [`LINE`].
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for SecretPlace {
    fn drop(&mut self) {
        let bytes = self.lines * LINE;
        // SAFETY: these lines are this value's own until its bit is cleared below, and their
        // contents need no drop.
        wipe(unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), bytes) });
        if bytes > PAGE / 2 {
            // SAFETY: exactly the range that `map` mapped for this value, its only owner.
            unsafe { unmap(self.start, bytes.next_multiple_of(PAGE)) };
            return;
        }
        let offset = self.start.addr().get() % PAGE;
        let page = self.start.addr().get() - offset;
        let mut pages = pages();
        let taken = pages.taken.entry(page).or_default();
        let bit = 1 << (offset / bytes);
        debug_assert!(*taken & bit != 0, "a place is given back once");
        *taken &= !bit;
        if *taken != 0 {
            pages.open.insert((self.lines, page));
            return;
        }
        pages.taken.remove(&page);
        pages.open.remove(&(self.lines, page));
        let start = std::ptr::with_exposed_provenance_mut(page);
        // SAFETY: a page that `map` mapped, of which no place is taken, and which is not listed
        // any more.
        unsafe { unmap(NonNull::new(start).unwrap_or(self.start), PAGE) };
    }
}

/// Overwrites `bytes` with zeros, even where the compiler sees that they are never read again.
pub fn wipe(bytes: &mut [u8]) {
    bytes.fill(0);
    // The memory is an input of a call that the compiler cannot inspect.
    std::hint::black_box(bytes);
}

/// Returns the number of pages that secrets share.
#[cfg(test)]
pub(super) fn shared_pages() -> usize {
    pages().taken.len()
}

fn pages() -> MutexGuard<'static, Pages> {
    PAGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the number of places of so many lines that a page has.
fn places(lines: usize) -> usize {
    PAGE / LINE / lines
}

/// Maps fresh pages, all zero, that no core dump holds.
fn map(bytes: usize) -> Result<NonNull<u8>> {
    let failed = |e| OsError::new(format!("mapping {bytes} bytes for secrets"), e);
    // SAFETY: a fresh private mapping at an address of the kernel's choice overlaps nothing.
    let start = unsafe {
        rustix::mm::mmap_anonymous(
            std::ptr::null_mut(),
            bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )
    }
    .map_err(failed)?;
    let pages = NonNull::new(start.cast::<u8>()).ok_or_else(|| failed(Errno::FAULT))?;
    // SAFETY: advice on a range that was just mapped and that nothing refers to.
    if let Err(e) = unsafe { rustix::mm::madvise(start, bytes, Advice::LinuxDontDump) } {
        // SAFETY: as above; nothing refers to it afterwards either.
        unsafe { unmap(pages, bytes) };
        return Err(OsError::new("keeping secrets out of core dumps", e));
    }
    // Best effort: old kernels and small limits of locked memory are no reason not to run.
    // SAFETY: advice on, and locking of, a range that nothing refers to.
    unsafe {
        let _ = rustix::mm::madvise(start, bytes, Advice::LinuxWipeOnFork);
        let _ = rustix::mm::mlock(start, bytes);
    }
    Ok(pages)
}

/// Unmaps pages.
///
/// # Safety
/// `map` has mapped exactly this range, and nothing refers to it.
unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
    debug_assert!(start.addr().get().is_multiple_of(PAGE), "pages begin at their multiples");
    // SAFETY: the caller's promise.
    let _ = unsafe { rustix::mm::munmap(start.as_ptr().cast(), bytes) };
}
