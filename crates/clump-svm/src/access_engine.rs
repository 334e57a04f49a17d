//! Ways of the kernel to grant and take rights page by page, behind one interface.

use crate::error::Result;
use clump_boot::SvmFaults;
use clump_os::OsError;
use clump_os::map::{Mapping, PAGE, Rights};
use clump_os::userfault::{PageMapping, StoreDetection, UserFaults};

/// Means by which accesses without a right are found. The order is that of preference.
#[derive(Debug)]
pub(crate) enum AccessEngine {
    /// Protection of ranges, and SIGSEGV. Rights that change from page to page split the mapping.
    Protection,
    /// Single pages of userfaultfd, and SIGBUS; stores are faults, too.
    PageFaults(UserFaults),
    /// Single pages of userfaultfd, with stores found by scans.
    Scans(UserFaults),
}

/// Rank of an engine among all: a higher one is preferred.
pub(crate) type EngineLevel = u64;

impl AccessEngine {
    /// Opens the best engine of at most `level` for a view, or the one that was chosen.
    ///
    /// # Errors
    /// Fails if the one chosen is not permitted.
    pub(crate) fn open(view: &Mapping, choice: SvmFaults, level: EngineLevel) -> Result<Self> {
        let scans = || UserFaults::register(view, StoreDetection::Scan).map(Self::Scans);
        let faults = || UserFaults::register(view, StoreDetection::Signal).map(Self::PageFaults);
        let protection = || view.protect(0, view.bytes(), Rights::None).map(|()| Self::Protection);
        match choice {
            SvmFaults::Protect => Ok(protection()?),
            SvmFaults::Userfault => Ok(faults()?),
            SvmFaults::Scan | SvmFaults::ScanOwn => Ok(scans()?),
            SvmFaults::Auto => {
                let best = if level >= 2 { scans().ok() } else { None };
                let best = best.or_else(|| if level >= 1 { faults().ok() } else { None });
                best.map_or_else(|| Ok(protection()?), Ok)
            }
        }
    }

    /// Returns its rank.
    pub(crate) fn level(&self) -> EngineLevel {
        match self {
            Self::Protection => 0,
            Self::PageFaults(_) => 1,
            Self::Scans(_) => 2,
        }
    }

    /// Returns its name, as a setting has it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Protection => SvmFaults::Protect.name(),
            Self::PageFaults(_) => SvmFaults::Userfault.name(),
            Self::Scans(_) => SvmFaults::Scan.name(),
        }
    }

    /// Returns true if stores are found by scans.
    pub(crate) fn scans(&self) -> bool {
        matches!(self, Self::Scans(_))
    }

    /// Returns true if a SIGBUS in the view is a fault to be served; else a SIGSEGV is.
    pub(crate) fn serves_bus(&self) -> bool {
        !matches!(self, Self::Protection)
    }

    /// Gives pages a right; `commit` allocates the memory of a page.
    pub(crate) fn set(
        &self,
        view: &Mapping,
        (first, pages): (u32, u32),
        rights: Rights,
        mut commit: impl FnMut(u32) -> bool,
    ) -> std::result::Result<(), OsError> {
        let (offset, bytes) = (first as usize * PAGE, pages as usize * PAGE);
        let (Self::PageFaults(faults) | Self::Scans(faults)) = self else {
            return view.protect(offset, bytes, rights);
        };
        if rights == Rights::None {
            return faults.unmap(offset, bytes);
        }
        let writable = rights == Rights::Write;
        let end = offset + bytes;
        let mut at = offset;
        let mut allocated = None;
        while at < end {
            let (mapped, next) = faults.map_pages(at, end - at, writable)?;
            at += mapped;
            match next {
                PageMapping::Mapped => debug_assert_eq!(at, end, "all are mapped"),
                PageMapping::Present => {
                    if !self.scans() {
                        faults.protect(at, PAGE, writable)?;
                    }
                    at += PAGE;
                }
                PageMapping::NoMemory => {
                    let page = (at / PAGE) as u32;
                    // Allocated once: a page that still has no memory then gets none.
                    if allocated == Some(page) || !commit(page) {
                        let why = clump_os::error::Errno::NOSPC;
                        return Err(OsError::new("allocating a page", why));
                    }
                    allocated = Some(page);
                }
            }
        }
        Ok(())
    }

    /// Takes the right to write from pages that have it, without finding out which rank used it.
    pub(crate) fn protect(
        &self,
        view: &Mapping,
        (first, pages): (u32, u32),
    ) -> std::result::Result<(), OsError> {
        let (offset, bytes) = (first as usize * PAGE, pages as usize * PAGE);
        match self {
            Self::Protection => view.protect(offset, bytes, Rights::Read),
            Self::PageFaults(faults) => faults.protect(offset, bytes, false),
            Self::Scans(_) => Ok(()),
        }
    }

    /// Returns the runs of pages among these that were written since the last scan, and does not
    /// look for stores anew.
    pub(crate) fn look(
        &self,
        (first, pages): (u32, u32),
    ) -> std::result::Result<Vec<std::ops::Range<u32>>, OsError> {
        let Self::Scans(faults) = self else { return Ok(Vec::new()) };
        debug_assert!(pages > 0, "a range of pages");
        let mut found = Vec::new();
        faults.look(first as usize * PAGE, pages as usize * PAGE, |offset, bytes| {
            let first = (offset / PAGE) as u32;
            found.push(first..first + (bytes / PAGE) as u32);
        })?;
        debug_assert!(found.is_sorted_by_key(|run| run.start), "runs ascend");
        Ok(found)
    }

    /// Calls `each` with the pages among these that were written since the last time.
    pub(crate) fn scan(
        &self,
        (first, pages): (u32, u32),
        mut each: impl FnMut(u32, u32),
    ) -> std::result::Result<(), OsError> {
        let Self::Scans(faults) = self else { return Ok(()) };
        let (offset, bytes) = (first as usize * PAGE, pages as usize * PAGE);
        faults.scan(offset, bytes, |offset, bytes| {
            each((offset / PAGE) as u32, (bytes / PAGE) as u32);
        })
    }
}
