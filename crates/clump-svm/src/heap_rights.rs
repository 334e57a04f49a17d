//! Rights of a rank on the pages of its view of the heap, and the means of the kernel that change
//! them.

use crate::access_engine::AccessEngine;
use crate::breakdown::{Part, Sums};
use crate::caller::{Caller, HandlerLock, UNSERVED};
use crate::error::Result;
use crate::exclusive_pages::ExclusivePages;
use crate::keeper::Keeper;
use crate::mailbox::{MAYBE_WRITTEN, RightsStep};
use crate::rights_table::RightsTable;
use clump_am::{RankContext, own_actor};
use clump_hlrc::PageAccess;
use clump_os::error::Errno;
use clump_os::map::{Mapping, PAGE, Rights};
use clump_os::{OsError, console, process};
use clump_shm::export::SegmentName;
use clump_shm::supply::MachineSupply;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

/// The rights of a rank, and its view.
#[derive(Debug)]
pub(crate) struct HeapRights {
    context: Arc<RankContext>,
    pub(crate) view: Mapping,
    pub(crate) engine: AccessEngine,
    heap: SegmentName,
    supply: MachineSupply,
    pub(crate) table: RightsTable,
    exclusive: ExclusivePages,
    /// Held while rights change.
    pub(crate) changing: HandlerLock,
    pub(crate) sums: Sums,
}

impl HeapRights {
    /// Returns the rights of a rank on a view, on which `engine` has taken all away.
    ///
    /// # Errors
    /// Fails if memory has run out.
    pub(crate) fn new(
        context: &Arc<RankContext>,
        (heap, view): (SegmentName, Mapping),
        engine: AccessEngine,
    ) -> Result<Self> {
        let pages = view.bytes() / PAGE;
        let (table, exclusive) = (RightsTable::new(pages)?, ExclusivePages::new(pages)?);
        let (sums, supply) = (Sums::of(context), MachineSupply::new(context.node().ranks()));
        debug_assert!(view.bytes().is_multiple_of(PAGE), "a view of whole pages");
        let (context, changing) = (context.clone(), HandlerLock::default());
        Ok(Self { context, view, engine, heap, supply, table, exclusive, changing, sums })
    }

    /// Takes the right to write from this rank: what it writes from now on is found anew. Returns
    /// the pages that it has written, where the interface does not know them.
    pub(crate) fn take_written(&self) -> Vec<RightsStep> {
        let _one = self.changing.lock();
        if !self.engine.scans() {
            self.table.take_written(|first, pages| {
                self.protected(first, || self.engine.protect(&self.view, (first, pages)));
            });
            return Vec::new();
        }
        // With false: written. With true: to be compared with its twin.
        let mut written = Vec::new();
        self.table.take_noted(|page, maybe| written.push((page, maybe)));
        let granted = |page: u32| self.table.get(page) != Rights::None;
        self.table.used_runs(|first, pages| {
            let mut found = |first: u32, pages: u32| {
                let granted = (first..first + pages).filter(|&page| granted(page));
                written.extend(granted.map(|page| (page, false)));
            };
            let all = first..first + pages;
            if self.exclusive.lie_outside(&all) {
                self.protected(first, || self.engine.scan((first, pages), found));
                return;
            }
            // A scan would find stores to exclusive pages from then on.
            let mut runs = Vec::new();
            self.protected(first, || self.engine.look((first, pages)).map(|found| runs = found));
            for run in runs {
                self.exclusive.others(run, granted, |first, pages| {
                    self.protected(first, || self.engine.scan((first, pages), &mut found));
                });
            }
        });
        written.sort_unstable();
        written.dedup_by_key(|(page, _)| *page);
        let mut steps: Vec<RightsStep> = Vec::new();
        for (page, maybe) in written {
            let access = if maybe { MAYBE_WRITTEN } else { None };
            if !steps.last_mut().is_some_and(|last| last.extend(page, access)) {
                steps.push(RightsStep { first: page, pages: 1, access });
            }
        }
        steps
    }

    /// Changes rights as the interface says.
    pub(crate) fn change(&self, step: RightsStep, keeper: &Keeper) {
        let RightsStep { first, pages, access } = step;
        debug_assert!(pages > 0, "a step concerns pages");
        let rights = match access {
            None => Rights::None,
            // Stores that are found by scans need no right.
            Some(_) if self.engine.scans() => Rights::Read,
            Some(PageAccess::Read) => Rights::Read,
            Some(PageAccess::Write) => Rights::Write,
        };
        // The interface does not scan while a page is scanned and taken away here.
        let taken = rights == Rights::None && self.engine.scans();
        let caller = match keeper {
            Keeper::Interface(caller) if taken => Some(caller),
            _ => None,
        };
        let scanned = caller.and_then(|caller| Some((caller, caller.scan_turn()?)));
        let _one = self.changing.lock();
        let threads = keeper.threads();
        if let Some((caller, _turn)) = &scanned {
            self.log_stores(caller, (first, pages));
        } else if taken {
            // What was written is reported with the next release.
            let note = |first: u32, pages: u32| {
                let granted = |page: &u32| self.table.get(*page) != Rights::None;
                (first..first + pages).filter(granted).for_each(|page| self.table.note(page));
            };
            self.protected(first, || self.engine.scan((first, pages), note));
            if threads.are_several() {
                // Another thread may write between the scan and the end of its right.
                let granted = |page: &u32| self.table.get(*page) != Rights::None;
                let taken = (first..first.saturating_add(pages)).filter(granted);
                taken.for_each(|page| self.table.note_maybe(page));
            }
        }
        self.table.set(first, pages, rights);
        self.grant((first, pages), rights);
    }

    /// Scans pages that are about to be taken away, and logs those that were written: the interface
    /// reads the log as it takes a lock back, and before each call.
    fn log_stores(&self, caller: &Caller, (first, pages): (u32, u32)) {
        debug_assert!(self.engine.scans(), "stores are found by scans");
        let mut found = 0;
        let all = RightsStep { first, pages, access: MAYBE_WRITTEN };
        let mut step = all;
        let note = |first: u32, pages: u32| {
            found += 1;
            // One entry for each step: else the log might be full.
            step = if found == 1 { RightsStep { first, pages, access: None } } else { all };
        };
        self.protected(first, || self.engine.scan((first, pages), note));
        if caller.threads().are_several() {
            // Another thread may write between the scan and the end of its right.
            (found, step) = (1, all);
        }
        let logged = found == 0 || caller.log_written(&[step]);
        debug_assert!(logged, "the log has room for the steps of all answers");
    }

    pub(crate) fn grant(&self, pages: (u32, u32), rights: Rights) {
        let commit = |page: u32| {
            let offset = u64::from(page) * PAGE as u64;
            let node = self.context.node();
            node.commit(self.heap, (offset, PAGE as u64), &mut &self.supply).is_ok()
        };
        self.protected(pages.0, || self.engine.set(&self.view, pages, rights, commit));
        if own_actor(&self.context).is_some() {
            // The access that follows is the program's, and takes none of the kernel's time.
            let (offset, bytes) = (pages.0 as usize * PAGE, pages.1 as usize * PAGE);
            debug_assert!(offset + bytes <= self.view.bytes(), "pages of the heap");
            self.view.populate(offset, bytes, rights);
        }
    }

    /// Runs a change of rights, without which this rank cannot go on.
    fn protected(&self, first: u32, change: impl FnOnce() -> std::result::Result<(), OsError>) {
        let change = || {
            if let Some(actor) = own_actor(&self.context) {
                actor.work(actor.page_costs().protect_ns);
            }
            change()
        };
        if let Err(why) = self.sums.time(Part::Protection, change) {
            let why = match (why.errno, &self.engine) {
                (Errno::NOSPC, _) => "the machine has no memory left for it",
                (Errno::NOMEM, AccessEngine::Protection) => {
                    "the kernel refuses to protect more scattered pages (sysctl vm.max_map_count)"
                }
                _ => "the kernel refuses to change rights on it",
            };
            self.end(self.view.base().addr().get() + first as usize * PAGE, why);
        }
    }

    /// Maps a page again on which there are rights: another thread had the same fault before, or
    /// the kernel has reclaimed the page.
    pub(crate) fn restore(&self, page: u32) {
        debug_assert!((page as usize) < self.view.bytes() / PAGE, "a page of the heap");
        let _one = self.changing.lock();
        let rights = self.table.get(page);
        match &self.engine {
            AccessEngine::Protection => {}
            AccessEngine::PageFaults(_) if rights == Rights::None => {}
            AccessEngine::PageFaults(_) => self.grant((page, 1), rights),
            AccessEngine::Scans(_) if rights == Rights::None => {}
            AccessEngine::Scans(_) => {
                // It may have been written before it was reclaimed.
                self.table.note(page);
                self.grant((page, 1), Rights::Write);
            }
        }
    }

    /// Reports an access that cannot be served.
    pub(crate) fn tell(&self, address: usize, why: &str) {
        let mut text = [0; 96];
        let mut rest = &mut text[..];
        let rank = self.context.rank();
        let _ = write!(rest, "clump: rank {rank}: page of the shared heap at {address:#x}: ");
        let left = rest.len();
        let len = text.len() - left;
        console::err_at_once(&[std::str::from_utf8(&text[..len]).unwrap_or_default(), why, "\n"]);
    }

    /// Ends this rank, which cannot go on behind an access that cannot be served.
    pub(crate) fn end(&self, address: usize, why: &str) -> ! {
        self.tell(address, why);
        process::exit_at_once(UNSERVED)
    }

    /// Takes the rights on pages whose home is not this node.
    pub(crate) fn drop_pages(
        &self,
        pages: Range<u32>,
        is_home: &dyn Fn(u32) -> bool,
        keeper: &Keeper,
    ) {
        debug_assert!(pages.end as usize <= self.view.bytes() / PAGE, "pages of the heap");
        let mut run: Option<Range<u32>> = None;
        let drop = |run: Range<u32>| {
            let (first, pages) = (run.start, run.end - run.start);
            self.change(RightsStep { first, pages, access: None }, keeper);
        };
        for page in pages {
            if self.table.get(page) == Rights::None || is_home(page) {
                continue;
            }
            match &mut run {
                Some(last) if last.end == page => last.end += 1,
                _ => run.replace(page..page + 1).into_iter().for_each(drop),
            }
        }
        run.into_iter().for_each(drop);
    }

    /// Takes a right on a page, if its copy is current. Returns that.
    pub(crate) fn take_right(
        &self,
        page: u32,
        stores: bool,
        is_current: &dyn Fn() -> bool,
    ) -> bool {
        // A thread that takes rights away behind an acquire comes before this check, or behind the
        // right.
        let _one = self.changing.lock();
        if !is_current() {
            return false;
        }
        debug_assert!((page as usize) < self.view.bytes() / PAGE, "a page of the heap");
        let stores = stores && !self.engine.scans();
        let rights = if stores { Rights::Write } else { Rights::Read };
        if self.table.get(page) < rights {
            self.table.set(page, 1, rights);
            self.grant((page, 1), rights);
        }
        debug_assert!(self.table.get(page) >= rights, "the rank has it");
        true
    }

    /// Takes the right to write from this rank, and returns the pages that it has written and that
    /// others may have copies of, in ascending order. Stores to exclusive pages are not looked for
    /// from then on, until others share them. `shares` counts those who do so.
    pub(crate) fn take_written_pages(
        &self,
        shares: &dyn Fn(u32) -> u64,
        is_exclusive: &dyn Fn(u32) -> bool,
    ) -> Vec<u32> {
        let scans = self.engine.scans();
        // Scans find stores to these from now on, those before among them.
        let ended = |page: u32| {
            if !scans {
                self.table.note(page);
            }
        };
        self.exclusive.look_through(shares, is_exclusive, ended);
        if scans {
            let steps = self.take_written();
            let written = steps.iter().flat_map(|step| step.first..step.first + step.pages);
            let (exclusive, written): (Vec<u32>, Vec<u32>) =
                written.partition(|&page| is_exclusive(page));
            debug_assert!(written.is_sorted(), "pages ascend");
            exclusive.into_iter().for_each(|page| self.exclusive.add(page));
            return written;
        }
        let _one = self.changing.lock();
        let mut pages = Vec::new();
        self.table.take_noted(|page, _| pages.push(page));
        pages.sort_unstable();
        pages.dedup();
        debug_assert!(pages.is_sorted(), "each once");
        pages.retain(|&page| {
            let writes = self.table.get(page) == Rights::Write;
            if is_exclusive(page) {
                // It keeps the right.
                if writes {
                    self.exclusive.add(page);
                }
                return false;
            }
            if writes {
                self.table.set(page, 1, Rights::Read);
                self.protected(page, || self.engine.protect(&self.view, (page, 1)));
            }
            true
        });
        pages
    }
}
