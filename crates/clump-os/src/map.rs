//! Memory without a name: sealed memfds, and mappings of parts of them.
//!
//! A memfd leaves nothing in `/dev/shm`, cannot be truncated by anyone once sealed, and disappears
//! with the last descriptor (memfd_create(2)).

use crate::error::{OsError, Result};
pub use crate::page::PAGE;
use crate::sync::AtomicU64;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

/// Creates a sparse, sealed memory file of exactly `bytes`; `label` shows up in `/proc/PID/fd`
/// only.
///
/// # Errors
/// The kernel refuses, for example because of a limit of file sizes or descriptors, or has pages
/// that are larger than [`PAGE`].
pub fn sealed_memory(label: &str, bytes: u64) -> Result<OwnedFd> {
    check_pages(crate::process::page_bytes())?;
    let fd = rustix::fs::memfd_create(label, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .map_err(|e| OsError::new("memfd_create", e))?;
    rustix::fs::ftruncate(&fd, bytes)
        .map_err(|e| OsError::new(format!("sizing shared memory to {bytes} bytes"), e))?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&fd, seals).map_err(|e| OsError::new("sealing a memfd", e))?;
    Ok(fd)
}

/// Checks that memory can be mapped in units of [`PAGE`] where pages have so many bytes.
fn check_pages(bytes: u64) -> Result<()> {
    if bytes <= PAGE as u64 {
        return Ok(());
    }
    let text = format!(
        "this kernel has pages of {bytes} bytes, and clump's memory layout takes {PAGE} (getconf \
         PAGESIZE): boot a kernel with pages of {PAGE} bytes"
    );
    Err(OsError::new(text, Errno::NOTSUP))
}

/// Returns the size in bytes of `fd` if it is a memory file that no process can shrink under a
/// reader, else `None`.
///
/// # Errors
/// The kernel does not report the size.
pub fn sealed_size(fd: BorrowedFd<'_>) -> Result<Option<u64>> {
    let Ok(seals) = rustix::fs::fcntl_get_seals(fd) else { return Ok(None) };
    let stat = rustix::fs::fstat(fd).map_err(|e| OsError::new("fstat", e))?;
    let sealed = seals.contains(SealFlags::SHRINK | SealFlags::GROW);
    Ok(if sealed { u64::try_from(stat.st_size).ok() } else { None })
}

/// Allocates memory for `[offset, offset + bytes)` of a memory file, so that a full machine is an
/// error here and not a SIGBUS later.
///
/// # Errors
/// The machine has not so much memory left.
pub fn commit(fd: BorrowedFd<'_>, offset: u64, bytes: u64) -> Result<()> {
    rustix::fs::fallocate(fd, rustix::fs::FallocateFlags::empty(), offset, bytes)
        .map_err(|e| OsError::new(format!("committing {bytes} bytes of shared memory"), e))
}

/// Gives the memory of `[offset, offset + bytes)` back to the machine; it reads as zero afterwards.
///
/// # Errors
/// The kernel refuses.
pub fn release(fd: BorrowedFd<'_>, offset: u64, bytes: u64) -> Result<()> {
    use rustix::fs::FallocateFlags as F;
    rustix::fs::fallocate(fd, F::PUNCH_HOLE | F::KEEP_SIZE, offset, bytes)
        .map_err(|e| OsError::new(format!("releasing {bytes} bytes of shared memory"), e))
}

#[derive(Debug)]
struct Region {
    base: NonNull<u8>,
    bytes: usize,
    /// Number in [`crate::forked`].
    kept: usize,
}

// SAFETY: a Region is an address range; what it holds is accessed through atomics or raw copies
// only.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Drop for Region {
    fn drop(&mut self) {
        if crate::forked::is_child() {
            // In a child another mapping may be there.
            return;
        }
        crate::forked::forget(self.kept);
        // SAFETY: invariant 1: this is the last user of exactly the range that mmap returned.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// Rights of this process on memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rights {
    /// None: every access is a signal.
    None,
    /// Reads.
    Read,
    /// Reads and writes.
    Write,
}

/// A shared mapping of a part of a memory file; clones share it.
#[derive(Debug, Clone)]
pub struct Mapping {
    region: Arc<Region>,
}

impl Mapping {
    /// Maps `[offset, offset + bytes)` of `fd`, readable and writable. Both must be multiples of
    /// [`PAGE`].
    ///
    /// # Errors
    /// Address space has run out, or `fd` may not be mapped so.
    pub fn shared(fd: impl AsFd, offset: u64, bytes: usize) -> Result<Self> {
        Self::map(fd.as_fd(), offset, bytes, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// Maps `[offset, offset + bytes)` of `fd` read-only, for observers.
    ///
    /// # Errors
    /// Address space has run out, or `fd` may not be mapped so.
    pub fn read_only(fd: impl AsFd, offset: u64, bytes: usize) -> Result<Self> {
        Self::map(fd.as_fd(), offset, bytes, ProtFlags::READ)
    }

    fn map(fd: BorrowedFd<'_>, offset: u64, bytes: usize, prot: ProtFlags) -> Result<Self> {
        let what = || format!("mapping {bytes} bytes of shared memory");
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), bytes, prot, MapFlags::SHARED, fd, offset)
        }
        .map_err(|e| OsError::new(what(), e))?;
        Self::own(base.cast::<u8>(), bytes).ok_or_else(|| OsError::new(what(), Errno::FAULT))
    }

    /// Maps `[offset, offset + bytes)` of `fd` at `address`, readable and writable. All must be
    /// multiples of [`PAGE`].
    ///
    /// # Errors
    /// Something is mapped there (`EEXIST`); the address is none that a process may use; address
    /// space has run out.
    pub fn shared_at(fd: impl AsFd, offset: u64, bytes: usize, address: usize) -> Result<Self> {
        let what = || format!("mapping {bytes} bytes of shared memory at address {address:#x}");
        let taken = || OsError::new(what() + ", where something else lies", Errno::EXIST);
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let how = MapFlags::SHARED | MapFlags::FIXED_NOREPLACE;
        let at = std::ptr::without_provenance_mut(address);
        // SAFETY: the kernel refuses to replace existing mappings; one without the flag takes the
        // address as a hint, and replaces nothing either.
        let base = unsafe { rustix::mm::mmap(at, bytes, prot, how, fd.as_fd(), offset) }
            .map_err(|e| if e == Errno::EXIST { taken() } else { OsError::new(what(), e) })?;
        let mapping = Self::own(base.cast::<u8>(), bytes);
        mapping.filter(|mapping| mapping.base().addr().get() == address).ok_or_else(taken)
    }

    /// Maps `[offset, offset + bytes)` of `fd` at `address`, readable and writable, in place of
    /// private memory of the process: its first `replaced` bytes, whose contents are lost. All must
    /// be multiples of [`PAGE`].
    ///
    /// # Errors
    /// Something is mapped behind those (`EEXIST`); as [`Mapping::shared_at`]. Nothing has been
    /// replaced then.
    ///
    /// # Safety
    /// Objects in the bytes to be replaced are accessed through raw pointers alone, and their
    /// contents are not needed any more.
    pub unsafe fn shared_over(
        fd: impl AsFd,
        offset: u64,
        bytes: usize,
        (address, replaced): (usize, usize),
    ) -> Result<Self> {
        let what = || format!("mapping {bytes} bytes of shared memory over address {address:#x}");
        let rest = bytes.checked_sub(replaced).filter(|&rest| rest > 0 && replaced > 0);
        let rest = rest.ok_or_else(|| OsError::new(what(), Errno::INVAL))?;
        // The rest is mapped first: this fails if there is no room.
        let behind = Self::shared_at(&fd, offset + replaced as u64, rest, address + replaced)?;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let at = std::ptr::with_exposed_provenance_mut(address);
        let how = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: the caller gives up the bytes there.
        let base = unsafe { rustix::mm::mmap(at, replaced, prot, how, fd.as_fd(), offset) }
            .map_err(|e| OsError::new(what(), e))?;
        // Both are one mapping from here on.
        crate::forked::forget(behind.region.kept);
        std::mem::forget(behind);
        Self::own(base.cast::<u8>(), bytes).ok_or_else(|| OsError::new(what(), Errno::FAULT))
    }

    /// Takes ownership of a fresh mapping.
    fn own(base: *mut u8, bytes: usize) -> Option<Self> {
        let base = NonNull::new(base)?;
        let kept = crate::forked::keep(base, bytes);
        Some(Self { region: Arc::new(Region { base, bytes, kept }) })
    }

    /// Returns the address of the first byte.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        self.region.base
    }

    /// Returns the length in bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.region.bytes
    }

    /// Returns the mapping as words that any process may change at any time.
    pub fn words(&self) -> &[AtomicU64] {
        let base = self.region.base.cast::<AtomicU64>();
        // SAFETY: the mapping begins on a page and lasts as long as `self`; all access to it is
        // atomic, or a raw copy (invariant 1).
        unsafe { std::slice::from_raw_parts(base.as_ptr(), self.region.bytes / 8) }
    }

    /// Sets what this process may do with `[offset, offset + bytes)` of the mapping; both are
    /// multiples of [`PAGE`]. Allocates nothing unless it fails.
    ///
    /// # Errors
    /// The range is not inside, or the process has as many mappings as it may have.
    pub fn protect(&self, offset: usize, bytes: usize, rights: Rights) -> Result<()> {
        let what = || format!("protecting {bytes} bytes of shared memory");
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes()) {
            return Err(OsError::new(what(), Errno::INVAL));
        }
        let flags = match rights {
            Rights::None => MprotectFlags::empty(),
            Rights::Read => MprotectFlags::READ,
            Rights::Write => MprotectFlags::READ | MprotectFlags::WRITE,
        };
        // SAFETY: a range of this mapping (just checked), which nothing refers to but atomics and
        // raw pointers (invariant 2); accesses that it forbids become signals.
        unsafe { rustix::mm::mprotect(self.base().as_ptr().add(offset).cast(), bytes, flags) }
            .map_err(|e| OsError::new(what(), e))
    }

    /// Maps the pages of a range that has these rights, so that no access to them is a fault of
    /// the kernel. Does nothing where the kernel cannot (before Linux 5.14).
    pub fn populate(&self, offset: usize, bytes: usize, rights: Rights) {
        let advice = match rights {
            Rights::None => return,
            Rights::Read => Advice::LinuxPopulateRead,
            Rights::Write => Advice::LinuxPopulateWrite,
        };
        let is_inside = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes());
        debug_assert!(is_inside && offset.is_multiple_of(PAGE), "pages of the mapping");
        if is_inside {
            // SAFETY: a range of this mapping, of which the advice changes nothing but when pages
            // are mapped.
            let _ = unsafe {
                rustix::mm::madvise(self.base().as_ptr().add(offset).cast(), bytes, advice)
            };
        }
    }

    /// Requests huge pages; without effect where the machine has none to give.
    pub fn advise_huge(&self) {
        self.advise(Advice::LinuxHugepage);
    }

    /// Requests pages of the smallest size only, whatever the machine's default.
    pub fn advise_base(&self) {
        self.advise(Advice::LinuxNoHugepage);
    }

    /// Leaves the memory out of core dumps.
    pub fn advise_no_dump(&self) {
        self.advise(Advice::LinuxDontDump);
    }

    fn advise(&self, advice: Advice) {
        let Region { base, bytes, .. } = *self.region;
        // SAFETY: advice on a range that this mapping owns; contents do not change.
        let _ = unsafe { rustix::mm::madvise(base.as_ptr().cast(), bytes, advice) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_with_larger_pages_is_refused_in_one_line() {
        assert!(check_pages(crate::process::page_bytes()).is_ok());
        for pages in [16 << 10, 64 << 10] {
            let said = check_pages(pages).unwrap_err().to_string();
            assert!(said.contains(&format!("pages of {pages} bytes")), "{said}");
            assert!(said.contains("boot a kernel") && !said.contains('\n'), "{said}");
        }
    }

    #[test]
    fn memory_of_a_file_takes_the_place_of_private_memory_if_there_is_room_behind() {
        let address = 1 << 43;
        let private = |first: usize, pages: usize| {
            let how = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
            let at = std::ptr::without_provenance_mut(first);
            let prot = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a fresh mapping, which replaces nothing.
            unsafe { rustix::mm::mmap_anonymous(at, pages * PAGE, prot, how) }.unwrap()
        };
        let byte = private(address, 2).cast::<u8>();
        // SAFETY: the page just mapped.
        unsafe { byte.write(7) };
        let file = sealed_memory("test", 8 * PAGE as u64).unwrap();
        // SAFETY: nothing refers to these pages but the pointer above.
        let over = |bytes| unsafe { Mapping::shared_over(&file, 0, bytes, (address, 2 * PAGE)) };
        let behind = private(address + 4 * PAGE, 1);
        assert!(over(8 * PAGE).is_err() && over(2 * PAGE).is_err());
        // SAFETY: as above.
        assert_eq!(unsafe { byte.read() }, 7, "nothing was replaced");
        // SAFETY: the page just mapped.
        unsafe { rustix::mm::munmap(behind, PAGE) }.unwrap();
        let mapping = over(8 * PAGE).unwrap();
        assert_eq!((mapping.base().addr().get(), mapping.bytes()), (address, 8 * PAGE));
        // SAFETY: the mapping's first page.
        unsafe {
            assert_eq!(mapping.base().as_ptr().read_volatile(), 0);
            mapping.base().as_ptr().write_volatile(9);
        }
        let again = Mapping::shared(&file, 0, 8 * PAGE).unwrap();
        assert_eq!(again.words()[0].load(crate::sync::Ordering::Relaxed), 9);
        mapping.protect(PAGE, 2 * PAGE, Rights::Read).unwrap();
    }
}
