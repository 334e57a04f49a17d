//! The heap as this process sees it: its application view, its rights, and the faults that change
//! them.
//!
//! A page on which the rank has no right is protected; an access to it is a signal, which is served
//! by a call of the interface. The interrupted code may be anything, clump's own copies included,
//! so the server takes no lock that other code holds while it touches the heap, and runs no handler
//! of messages.

use crate::access_engine::AccessEngine;
use crate::breakdown::{Part, SentMessages, Sums, WokenRequests};
use crate::caller::{CallFailure, Caller, HandlerLock, Publication, UNSERVED, checked};
use crate::deposit_keeper::{DepositKeeper, PageRights};
use crate::error::{Error, ErrorKind, Result};
use crate::fetch_log::FetchNote;
use crate::handler_watch::HandlerWatch;
use crate::kept_locks::KeptState;
use crate::mailbox::{Call, MAX_STEPS, MAYBE_WRITTEN, RightsStep, op, result};
use crate::own_fetch::{self, OwnFetch};
use crate::rights_table::RightsTable;
use clump_am::RankContext;
use clump_boot::SvmProtocol;
use clump_coll::{Max, Team};
use clump_hlrc::PageAccess;
use clump_hlrc::deposit::PageUse;
use clump_os::access_fault::{self, AccessFault};
use clump_os::error::Errno;
use clump_os::map::{Mapping, PAGE, Rights};
use clump_os::sync::{AtomicPtr, Ordering};
use clump_os::{OsError, clock, console, process};
use clump_shm::export::SegmentName;
use clump_shm::supply::MachineSupply;
use std::io::Write;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::Arc;

/// The heap that faults concern; lives as long as the process once it is set.
static ACTIVE: AtomicPtr<Domain> = AtomicPtr::new(null_mut());

/// Executor of the protocol towards other ranks.
#[derive(Debug)]
pub(crate) enum Keeper {
    /// The interface of the node, which is called through mailboxes.
    Interface(Caller),
    /// The rank itself.
    Rank(DepositKeeper),
}

/// The heap of a rank on a job of several nodes.
#[derive(Debug)]
pub(crate) struct Domain {
    context: Arc<RankContext>,
    view: Mapping,
    engine: AccessEngine,
    pub(crate) step: SvmProtocol,
    heap: SegmentName,
    supply: MachineSupply,
    keeper: Keeper,
    rights: RightsTable,
    /// Held while rights change.
    changing: HandlerLock,
    /// Held from when written pages are taken until the interface handles the call that tells of
    /// them; where stores are faults, also while a fault is served. So no page becomes writable
    /// that the interface takes for published, and a thread that releases tells of all that it has
    /// written, whichever thread found it.
    publishing: HandlerLock,
    handler_watch: &'static HandlerWatch,
    pub(crate) sums: Sums,
    pub(crate) opened_ns: u64,
}

impl Domain {
    /// Serves faults of a view, on which `engine` has taken all rights away, until the process
    /// ends.
    ///
    /// # Errors
    /// Fails if another heap is active, or if memory has run out.
    pub(crate) fn activate(
        context: &Arc<RankContext>,
        (heap, view): (SegmentName, Mapping),
        (engine, step): (AccessEngine, SvmProtocol),
        keeper: Keeper,
    ) -> Result<&'static Self> {
        let rights = RightsTable::new(view.bytes() / PAGE)?;
        let context = context.clone();
        let (changing, publishing) = (HandlerLock::default(), HandlerLock::default());
        let (sums, supply) = (Sums::of(&context), MachineSupply::new(context.node().ranks()));
        let opened_ns = clock::now_ns();
        let handler_watch = HandlerWatch::begin(context.rank(), engine.serves_bus())?;
        let domain = Self {
            context,
            view,
            engine,
            step,
            heap,
            supply,
            keeper,
            rights,
            changing,
            publishing,
            handler_watch,
            sums,
            opened_ns,
        };
        let domain = Box::leak(Box::new(domain));
        access_fault::give_stack()?;
        // SYNC 28: pairs with serve
        ACTIVE.store(domain, Ordering::Release);
        access_fault::install(serve).map_err(|_| ErrorKind::AlreadyOpen)?;
        Ok(domain)
    }

    /// Returns the executor of the protocol.
    pub(crate) fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    /// Returns the address of the heap.
    pub(crate) fn base(&self) -> std::ptr::NonNull<u8> {
        self.view.base()
    }

    /// Returns the name of the way in which accesses are found.
    pub(crate) fn engine(&self) -> &'static str {
        self.engine.name()
    }

    /// Returns the requests that the protocol thread of this node was woken for; none at all its
    /// ranks but the first, so that sums over ranks count each once.
    pub(crate) fn woken(&self) -> WokenRequests {
        let Keeper::Interface(caller) = &self.keeper else { return WokenRequests::default() };
        let [notices, fetches, diffs, locks] = caller.woken();
        WokenRequests { notices, fetches, diffs, locks }
    }

    /// Returns the messages that this node has sent; none at all its ranks but the first.
    pub(crate) fn sent(&self) -> SentMessages {
        match &self.keeper {
            Keeper::Interface(caller) => caller.sent(),
            Keeper::Rank(_) => SentMessages::default(),
        }
    }

    /// Carries out a call that publishes nothing, outside of faults.
    pub(crate) fn call(&self, op: u64, words: [u64; 4]) -> Result<()> {
        match &self.keeper {
            Keeper::Interface(caller) => self.call_with(caller, (Call { op, words }, &[]), None),
            Keeper::Rank(keeper) => {
                self.handler_watch.check();
                let [first, second, ..] = words;
                checked(match op {
                    op::OPEN => Ok(()),
                    op::PLACE => keeper.place(words),
                    op::PLACE_ALONE => keeper.place_alone(words),
                    op::AWAIT_FLAG => keeper.await_flag((first, second), self),
                    _ => Err(CallFailure::Result(result::MISUSE)),
                })
            }
        }
    }

    /// Carries out a call behind the publication of what this rank has written.
    pub(crate) fn release(&self, op: u64, words: [u64; 4]) -> Result<()> {
        match &self.keeper {
            Keeper::Interface(caller) => {
                let publication = self.publication(caller);
                let written = self.take_written();
                self.release_written(caller, Call { op, words }, &written, publication)
            }
            Keeper::Rank(keeper) => {
                self.handler_watch.check();
                let _one = self.publishing.lock();
                let written = self.take_written_pages();
                let [first, second, ..] = words;
                checked(match op {
                    op::SET_FLAG => keeper.set_flag((first, second), &written),
                    op::FENCE => keeper.publish(&written),
                    _ => Err(CallFailure::Result(result::MISUSE)),
                })
            }
        }
    }

    /// Begins to publish what this rank has written.
    fn publication<'a>(&'a self, caller: &'a Caller) -> Publication<'a> {
        Publication { one: self.publishing.lock(), turn: caller.scan_turn() }
    }

    fn release_written(
        &self,
        caller: &Caller,
        call: Call,
        written: &[RightsStep],
        publication: Publication<'_>,
    ) -> Result<()> {
        let (mut rest, mut told) = (written, Ok(()));
        while let Some((part, behind)) = rest.split_at_checked(MAX_STEPS) {
            let call = Call { op: op::WRITTEN, words: [0; 4] };
            let part = self.call_with(caller, (call, part), None);
            (rest, told) = (behind, told.and(part));
        }
        // Also behind a failure: others may wait for this rank in a barrier, or for a lock.
        let called = self.call_with(caller, (call, rest), Some(publication));
        told.and(called)
    }

    /// Passes a barrier of all ranks: one of messages if no rank of any node has anything to tell.
    /// That is tried where it was so at the barrier before, which all ranks know.
    pub(crate) fn barrier(&self, team: &Team, pages_move: bool) -> Result<()> {
        let caller = match &self.keeper {
            Keeper::Interface(caller) => caller,
            Keeper::Rank(keeper) => return self.meet(keeper, team),
        };
        if !pages_move && caller.period().was_last_unchanged() {
            // A rank that could not publish comes, too: the others wait for it. It says that it has
            // something to tell, so that all take the barrier of the interfaces.
            let told = self.tell_changes(caller);
            let changed = *told.as_ref().unwrap_or(&true);
            let reduce = || team.all_reduce(u64::from(changed), Max);
            if self.sums.time(Part::Others, reduce)? == 0 {
                return Ok(());
            }
            let passed = self.release(op::BARRIER, [0, team.nranks() as u64, 0, 0]);
            return passed.and(told.map(drop).map_err(Error::having_taken_part));
        }
        self.release(op::BARRIER, [0, team.nranks() as u64, 0, 0])
    }

    /// Passes a barrier of all ranks as their protocol has it. A rank that could not publish comes,
    /// too: the others wait for it.
    fn meet(&self, keeper: &DepositKeeper, team: &Team) -> Result<()> {
        self.handler_watch.check();
        let published = {
            let _one = self.publishing.lock();
            keeper.publish(&self.take_written_pages())
        };
        let met = self.sums.time(Part::Others, || keeper.meet(team, self));
        checked(published).and(met)
    }

    /// Publishes what this rank has written. Returns true if it has, or if its node has anything
    /// that others have not seen.
    fn tell_changes(&self, caller: &Caller) -> Result<bool> {
        let publication = self.publication(caller);
        let noted = !self.rights.is_nothing_noted();
        let written = self.take_written();
        if noted || !written.is_empty() || !caller.is_log_empty() {
            let fence = Call { op: op::FENCE, words: [0; 4] };
            self.release_written(caller, fence, &written, publication)?;
            return Ok(true);
        }
        // Nobody waits in the barrier while it has a turn that a lock of others waits for.
        Ok(!caller.period().is_unchanged())
    }

    /// Acquires a lock: without a call if this rank was the last to have it, and nobody has wanted
    /// it since. Then there is nothing to be seen that the rank has not seen.
    pub(crate) fn acquire(&self, lock: u64) -> Result<()> {
        let caller = match &self.keeper {
            Keeper::Interface(caller) => caller,
            Keeper::Rank(keeper) => {
                self.handler_watch.check();
                return self.sums.time(Part::Lock, || checked(keeper.acquire_lock(lock, self)));
            }
        };
        if let Some(kept) = caller.kept_lock(lock) {
            if kept.enter() {
                return Ok(());
            }
            if kept.state() == KeptState::Had {
                return Err(ErrorKind::Misuse.into());
            }
        }
        self.sums.time(Part::Lock, || self.call(op::ACQUIRE, [lock, 0, 0, 0]))
    }

    /// Releases a lock: without a call if nobody wants it. What was written under it is published
    /// before another rank or node gets it.
    pub(crate) fn release_lock(&self, lock: u64) -> Result<()> {
        let caller = match &self.keeper {
            Keeper::Interface(caller) => caller,
            Keeper::Rank(keeper) => {
                self.handler_watch.check();
                return self.sums.time(Part::Release, || {
                    let _one = self.publishing.lock();
                    checked(keeper.release_lock(lock, &self.take_written_pages()))
                });
            }
        };
        let kept = caller.kept_lock(lock);
        let state = kept.map_or(KeptState::Unknown, |kept| kept.state());
        if state == KeptState::Kept {
            return Err(ErrorKind::Misuse.into());
        }
        let scans_here = self.engine.scans() && !caller.is_scanned();
        if !scans_here && kept.is_some_and(|kept| kept.keep()) {
            // The interface knows which pages this rank may write, or finds those that it has
            // written.
            return Ok(());
        }
        self.sums.time(Part::Release, || {
            let publication = self.publication(caller);
            let written = self.take_written();
            let told = state == KeptState::Had && scans_here && caller.log_written(&written);
            if told && kept.is_some_and(|kept| kept.keep()) {
                return Ok(());
            }
            let call = Call { op: op::RELEASE, words: [lock, 0, 0, 0] };
            self.release_written(caller, call, &written, publication)
        })
    }

    fn call_with(
        &self,
        caller: &Caller,
        told: (Call, &[RightsStep]),
        publication: Option<Publication<'_>>,
    ) -> Result<()> {
        self.handler_watch.check();
        let is_barrier = told.0.op == op::BARRIER;
        let done = caller.call(told, publication, |step| self.change(step));
        if let (Ok(waited_ns), true) = (&done, is_barrier) {
            self.sums.add(Part::Others, *waited_ns);
        }
        checked(done.map(drop))
    }

    /// Takes the right to write from this rank: what it writes from now on is found anew. Returns
    /// the pages that it has written, where the interface does not know them.
    fn take_written(&self) -> Vec<RightsStep> {
        let _one = self.changing.lock();
        if !self.engine.scans() {
            self.rights.take_written(|first, pages| {
                self.protected(first, || self.engine.protect(&self.view, (first, pages)));
            });
            return Vec::new();
        }
        // With false: written. With true: to be compared with its twin.
        let mut written = Vec::new();
        self.rights.take_noted(|page, maybe| written.push((page, maybe)));
        self.rights.used_runs(|first, pages| {
            let found = |first: u32, pages: u32| {
                let granted = |page: &u32| self.rights.get(*page) != Rights::None;
                written.extend((first..first + pages).filter(granted).map(|page| (page, false)));
            };
            self.protected(first, || self.engine.scan((first, pages), found));
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
    fn change(&self, step: RightsStep) {
        let RightsStep { first, pages, access } = step;
        let rights = match access {
            None => Rights::None,
            // Stores that are found by scans need no right.
            Some(_) if self.engine.scans() => Rights::Read,
            Some(PageAccess::Read) => Rights::Read,
            Some(PageAccess::Write) => Rights::Write,
        };
        // The interface does not scan while a page is scanned and taken away here.
        let taken = rights == Rights::None && self.engine.scans();
        let turn = match &self.keeper {
            Keeper::Interface(caller) if taken => caller.scan_turn(),
            _ => None,
        };
        let _one = self.changing.lock();
        if taken && turn.is_some() {
            self.log_stores((first, pages));
        } else if taken {
            // What was written is told with the next release.
            let note = |first: u32, pages: u32| {
                let granted = |page: &u32| self.rights.get(*page) != Rights::None;
                (first..first + pages).filter(granted).for_each(|page| self.rights.note(page));
            };
            self.protected(first, || self.engine.scan((first, pages), note));
            if self.has_threads() {
                // Another thread may write between the scan and the end of its right.
                let granted = |page: &u32| self.rights.get(*page) != Rights::None;
                let taken = (first..first.saturating_add(pages)).filter(granted);
                taken.for_each(|page| self.rights.note_maybe(page));
            }
        }
        self.rights.set(first, pages, rights);
        self.grant((first, pages), rights);
    }

    /// Scans pages that are about to be taken away, and logs those that were written: the interface
    /// reads the log as it takes a lock back, and before each call.
    fn log_stores(&self, (first, pages): (u32, u32)) {
        let mut found = 0;
        let all = RightsStep { first, pages, access: MAYBE_WRITTEN };
        let mut step = all;
        let note = |first: u32, pages: u32| {
            found += 1;
            // One entry for each step: else the log might be full.
            step = if found == 1 { RightsStep { first, pages, access: None } } else { all };
        };
        self.protected(first, || self.engine.scan((first, pages), note));
        if self.has_threads() {
            // Another thread may write between the scan and the end of its right.
            (found, step) = (1, all);
        }
        let logged = match &self.keeper {
            Keeper::Interface(caller) => found == 0 || caller.log_written(&[step]),
            Keeper::Rank(_) => false,
        };
        debug_assert!(logged, "the log has room for the steps of all answers");
    }

    fn has_threads(&self) -> bool {
        match &self.keeper {
            Keeper::Interface(caller) => caller.threads().are_several(),
            Keeper::Rank(keeper) => keeper.threads().are_several(),
        }
    }

    fn grant(&self, pages: (u32, u32), rights: Rights) {
        let commit = |page: u32| {
            let offset = u64::from(page) * PAGE as u64;
            let node = self.context.node();
            node.commit(self.heap, (offset, PAGE as u64), &mut &self.supply).is_ok()
        };
        self.protected(pages.0, || self.engine.set(&self.view, pages, rights, commit));
    }

    /// Runs a change of rights, without which this rank cannot go on.
    fn protected(&self, first: u32, change: impl FnOnce() -> std::result::Result<(), OsError>) {
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

    /// Serves a fault. Returns false if it does not concern the heap, or is the program's own
    /// crash.
    fn serve(&self, fault: &AccessFault) -> bool {
        let base = self.view.base().addr().get();
        let offset = fault.address.wrapping_sub(base);
        if offset >= self.view.bytes() {
            return false;
        }
        if fault.bus != self.engine.serves_bus() {
            if fault.bus {
                self.tell(fault.address, "the machine has no memory left for it");
            }
            return false;
        }
        let page = (offset / PAGE) as u32;
        let _published = (!self.engine.scans()).then(|| self.publishing.lock());
        let had = self.rights.get(page);
        // Where the processor does not tell, a second fault on a page that can be read is a store.
        let stores = fault.stores.unwrap_or(had == Rights::Read) && !self.engine.scans();
        let wanted = if stores { Rights::Write } else { Rights::Read };
        if had >= wanted {
            self.restore(page);
            return true;
        }
        if stores {
            self.sums.count_store();
        }
        match self.sums.time(Part::Data, || self.obtain(page, wanted)) {
            Ok(()) => {}
            Err(CallFailure::Died(death)) => {
                let mut text = [0; 128];
                let mut rest = &mut text[..];
                let _ = write!(rest, "{death}");
                let left = rest.len();
                let len = text.len() - left;
                self.end(fault.address, std::str::from_utf8(&text[..len]).unwrap_or("a rank died"));
            }
            Err(CallFailure::Result(result::NO_MEMORY)) => {
                self.end(fault.address, "a machine has no memory left for it");
            }
            Err(CallFailure::Result(result::INSIDE)) => {
                self.end(fault.address, "it was touched inside a call of clump that it waits for");
            }
            Err(CallFailure::Result(result::UNREACHABLE)) => {
                self.end(fault.address, "its home refuses to hand it out");
            }
            Err(CallFailure::Result(_)) => {
                self.end(fault.address, "the interface of this node refuses to");
            }
        }
        true
    }

    /// Obtains a right: fetches the page, or has the interface do so.
    fn obtain(&self, page: u32, wanted: Rights) -> std::result::Result<(), CallFailure> {
        let stores = wanted == Rights::Write;
        let caller = match &self.keeper {
            Keeper::Interface(caller) => caller,
            Keeper::Rank(keeper) => {
                let page_use = if stores { PageUse::Stores } else { PageUse::Loads };
                let fetched = keeper.obtain(self, (page, page_use))?;
                if fetched {
                    self.sums.count_own_fetch();
                }
                return Ok(());
            }
        };
        if own_fetch::with(|own| self.fetch(caller, own, page, stores)) == Some(true) {
            return Ok(());
        }
        let call = Call { op: op::FAULT, words: [u64::from(page), u64::from(stores), 0, 0] };
        caller.call((call, &[]), None, |step| self.change(step)).map(drop)
    }

    /// Fetches a page by this rank's own stack, and takes a right on it. Returns false if the
    /// interface is to be asked.
    fn fetch(&self, caller: &Caller, own: &mut OwnFetch, page: u32, stores: bool) -> bool {
        if !own.may_begin(page, stores) {
            return false;
        }
        let Some(lease) = caller.lease(page) else { return false };
        let terms = lease.terms();
        let Some((version, time)) = own.fetch(page, &terms) else { return false };
        let access = if stores { PageAccess::Write } else { PageAccess::Read };
        let new_twin = terms.twin.is_none() && (stores || self.engine.scans());
        let (note, twin) = (FetchNote { page, access, version }, new_twin.then(|| own.bytes()));
        // Steps of another thread that take the page away come behind its right.
        let _one = self.changing.lock();
        let store = || caller.covers(&time) && own.store(page, &terms);
        let Some(soon) = lease.end(&note, twin, store) else { return false };
        if soon {
            caller.ring();
        }
        self.sums.count_own_fetch();
        let rights = if stores { Rights::Write } else { Rights::Read };
        self.rights.set(page, 1, rights);
        self.grant((page, 1), rights);
        true
    }

    /// Maps a page again on which there are rights: another thread had the same fault before, or
    /// the kernel has reclaimed the page.
    fn restore(&self, page: u32) {
        let _one = self.changing.lock();
        let rights = self.rights.get(page);
        match &self.engine {
            AccessEngine::Protection => {}
            AccessEngine::PageFaults(_) if rights == Rights::None => {}
            AccessEngine::PageFaults(_) => self.grant((page, 1), rights),
            AccessEngine::Scans(_) if rights == Rights::None => {}
            AccessEngine::Scans(_) => {
                // It may have been written before it was reclaimed.
                self.rights.note(page);
                self.grant((page, 1), Rights::Write);
            }
        }
    }

    /// Reports an access that cannot be served.
    fn tell(&self, address: usize, why: &str) {
        let mut text = [0; 96];
        let mut rest = &mut text[..];
        let rank = self.context.rank();
        let _ = write!(rest, "clump: rank {rank}: page of the shared heap at {address:#x}: ");
        let left = rest.len();
        let len = text.len() - left;
        console::err_at_once(&[std::str::from_utf8(&text[..len]).unwrap_or_default(), why, "\n"]);
    }

    /// Ends this rank, which cannot go on behind an access that cannot be served.
    fn end(&self, address: usize, why: &str) -> ! {
        self.tell(address, why);
        process::exit_at_once(UNSERVED)
    }
}

impl PageRights for Domain {
    fn drop_pages(&self, pages: Range<u32>, is_home: &dyn Fn(u32) -> bool) {
        let mut run: Option<Range<u32>> = None;
        let drop = |run: Range<u32>| {
            self.change(RightsStep { first: run.start, pages: run.end - run.start, access: None });
        };
        for page in pages {
            if self.rights.get(page) == Rights::None || is_home(page) {
                continue;
            }
            match &mut run {
                Some(last) if last.end == page => last.end += 1,
                _ => run.replace(page..page + 1).into_iter().for_each(drop),
            }
        }
        run.into_iter().for_each(drop);
    }

    fn take_right(&self, page: u32, page_use: PageUse, is_current: &dyn Fn() -> bool) -> bool {
        // A thread that takes rights away behind an acquire comes before this check, or behind the
        // right.
        let _one = self.changing.lock();
        if !is_current() {
            return false;
        }
        let stores = page_use == PageUse::Stores && !self.engine.scans();
        let rights = if stores { Rights::Write } else { Rights::Read };
        if self.rights.get(page) < rights {
            self.rights.set(page, 1, rights);
            self.grant((page, 1), rights);
        }
        true
    }

    fn take_written_pages(&self) -> Vec<u32> {
        if self.engine.scans() {
            let steps = self.take_written();
            return steps.iter().flat_map(|step| step.first..step.first + step.pages).collect();
        }
        let _one = self.changing.lock();
        let mut pages = Vec::new();
        self.rights.take_noted(|page, _| pages.push(page));
        pages.sort_unstable();
        pages.dedup();
        for &page in &pages {
            if self.rights.get(page) == Rights::Write {
                self.rights.set(page, 1, Rights::Read);
                self.protected(page, || self.engine.protect(&self.view, (page, 1)));
            }
        }
        pages
    }
}

/// Serves a fault of any thread.
fn serve(fault: &AccessFault) -> bool {
    // SYNC 28: pairs with activate
    let domain = ACTIVE.load(Ordering::Acquire);
    // SAFETY: null, or a domain that lives as long as the process.
    let domain = unsafe { domain.as_ref() };
    domain.is_some_and(|domain| domain.serve(fault))
}
