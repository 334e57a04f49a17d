//! The heap as this process sees it: its application view, its rights, and the faults that change
//! them.
//!
//! A page on which the rank has no right is protected; an access to it is a signal, which is served
//! by a call of the interface. The interrupted code may be anything, clump's own copies included,
//! so the server takes no lock that other code holds while it touches the heap, and runs no handler
//! of messages.

use crate::access_engine::AccessEngine;
use crate::breakdown::{AheadPages, Part, SentMessages, Sums, WokenRequests};
use crate::caller::{CallFailure, Caller, HandlerLock, Publication, checked};
use crate::deposit_keeper::{DepositKeeper, PageRights};
use crate::error::{Error, ErrorKind, Result};
use crate::fault_probe::FaultProbe;
use crate::fetch_log::FetchNote;
use crate::handler_watch::HandlerWatch;
use crate::heap_rights::HeapRights;
use crate::keeper::Keeper;
use crate::kept_locks::KeptState;
use crate::late_publisher::LatePublisher;
use crate::mailbox::{Call, MAX_STEPS, RightsStep, op, result};
use crate::own_fetch::{self, OwnFetch};
use clump_am::{RankContext, own_actor};
use clump_boot::SvmProtocol;
use clump_coll::{Max, Team};
use clump_hlrc::PageAccess;
use clump_hlrc::deposit::PageUse;
use clump_os::access_fault::{self, AccessFault};
use clump_os::clock;
use clump_os::map::{Mapping, PAGE, Rights};
use clump_os::sync::{AtomicPtr, Ordering};
use clump_shm::export::SegmentName;
use std::io::Write;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::Arc;

/// The heap that faults concern; lives as long as the process once it is set.
static ACTIVE: AtomicPtr<Domain> = AtomicPtr::new(null_mut());

/// The heap of a rank on a job of several nodes.
#[derive(Debug)]
pub(crate) struct Domain {
    pub(crate) step: SvmProtocol,
    keeper: Keeper,
    rights: HeapRights,
    /// Held from when written pages are taken until the interface handles the call that tells of
    /// them; where stores are faults, also while a fault is served. So no page becomes writable
    /// that the interface takes for published, and a thread that releases tells of all that it has
    /// written, whichever thread found it.
    publishing: HandlerLock,
    pub(crate) late: LatePublisher,
    fault_probe: FaultProbe,
    handler_watch: &'static HandlerWatch,
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
        let (publishing, opened_ns) = (HandlerLock::default(), clock::now_ns());
        let handler_watch = HandlerWatch::begin(context.rank(), engine.serves_bus())?;
        let rights = HeapRights::new(context, (heap, view), engine)?;
        let (late, fault_probe) = (LatePublisher::default(), FaultProbe::default());
        let domain =
            Self { step, keeper, rights, publishing, late, fault_probe, handler_watch, opened_ns };
        let domain = Box::leak(Box::new(domain));
        access_fault::give_stack()?;
        // SYNC 28: pairs with serve
        ACTIVE.store(domain, Ordering::Release);
        access_fault::install(serve).map_err(|_| ErrorKind::AlreadyOpen)?;
        if let Some(actor) = own_actor(context)
            && matches!(domain.rights.engine, AccessEngine::Protection)
        {
            actor.computation().set_fault_here(domain.fault_probe.measure(&domain.rights.view)?);
        }
        Ok(domain)
    }

    /// Returns the executor of the protocol.
    pub(crate) fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    /// Returns the times of this rank.
    pub(crate) fn sums(&self) -> &Sums {
        &self.rights.sums
    }

    /// Returns the address of the heap.
    pub(crate) fn base(&self) -> std::ptr::NonNull<u8> {
        self.rights.view.base()
    }

    /// Returns the name of the way in which accesses are found.
    pub(crate) fn engine(&self) -> &'static str {
        self.rights.engine.name()
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

    /// Returns the pages that this rank has fetched before their use.
    pub(crate) fn fetched_ahead(&self) -> AheadPages {
        match &self.keeper {
            Keeper::Interface(_) => AheadPages::default(),
            Keeper::Rank(keeper) => keeper.fetched_ahead(),
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
                let written = self.rights.take_written();
                self.release_written(caller, Call { op, words }, &written, publication)
            }
            Keeper::Rank(keeper) => {
                self.handler_watch.check();
                let _one = self.publishing.lock();
                let written = self.written_pages(keeper);
                let [first, second, ..] = words;
                checked(self.published(match op {
                    op::SET_FLAG => keeper.set_flag((first, second), &written),
                    op::FENCE => keeper.publish_node(&written),
                    _ => Err(CallFailure::Result(result::MISUSE)),
                }))
            }
        }
    }

    /// Takes the right to write from this rank, and returns the pages to be published.
    fn written_pages(&self, keeper: &DepositKeeper) -> Vec<u32> {
        keeper.with_sharers(|shares, is_exclusive| {
            self.rights.take_written_pages(shares, is_exclusive)
        })
    }

    /// Ends this rank if it could not keep what it was about to publish: others of its node wait
    /// for the interval.
    fn published(
        &self,
        done: std::result::Result<(), CallFailure>,
    ) -> std::result::Result<(), CallFailure> {
        let why = match done {
            Err(CallFailure::Result(result::NO_MEMORY)) => {
                "a machine has no memory left to publish it"
            }
            Err(CallFailure::Result(result::UNREACHABLE)) => {
                "another node refuses what is published"
            }
            _ => return done,
        };
        self.rights.end(self.rights.view.base().addr().get(), why)
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
            if self.sums().time(Part::Others, reduce)? == 0 {
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
            self.published(keeper.publish(&self.written_pages(keeper)))
        };
        let met = self.sums().time(Part::Others, || keeper.meet(team, self));
        checked(published).and(met)
    }

    /// Publishes what this rank has written. Returns true if it has, or if its node has anything
    /// that others have not seen.
    fn tell_changes(&self, caller: &Caller) -> Result<bool> {
        let publication = self.publication(caller);
        let noted = !self.rights.table.is_nothing_noted();
        let written = self.rights.take_written();
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
                return self.sums().time(Part::Lock, || {
                    if keeper.is_wanted() {
                        checked(self.publish_open())?;
                    }
                    checked(keeper.acquire_lock(lock, self))
                });
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
        self.sums().time(Part::Lock, || self.call(op::ACQUIRE, [lock, 0, 0, 0]))
    }

    /// Releases a lock: without a call if nobody wants it. What was written under it is published
    /// before another rank or node gets it.
    pub(crate) fn release_lock(&'static self, lock: u64) -> Result<()> {
        let caller = match &self.keeper {
            Keeper::Interface(caller) => caller,
            Keeper::Rank(keeper) => {
                self.handler_watch.check();
                return self.sums().time(Part::Release, || {
                    let _one = self.publishing.lock();
                    if keeper.may_put_off(lock) && self.late.is_ready(self) {
                        checked(keeper.release_lock_unpublished(lock))?;
                        self.late.watch();
                        self.sums().count_put_off();
                        return Ok(());
                    }
                    checked(self.published(keeper.release_lock(lock, &self.written_pages(keeper))))
                });
            }
        };
        let kept = caller.kept_lock(lock);
        let state = kept.map_or(KeptState::Unknown, |kept| kept.state());
        if state == KeptState::Kept {
            return Err(ErrorKind::Misuse.into());
        }
        let scans_here = self.rights.engine.scans() && !caller.is_scanned();
        if !scans_here && kept.is_some_and(|kept| kept.keep()) {
            // The interface knows which pages this rank may write, or finds those that it has
            // written.
            return Ok(());
        }
        self.sums().time(Part::Release, || {
            let publication = self.publication(caller);
            let written = self.rights.take_written();
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
        let done = caller.call(told, publication, |step| self.rights.change(step, &self.keeper));
        if let (Ok(waited_ns), true) = (&done, is_barrier) {
            self.sums().add(Part::Others, *waited_ns);
        }
        checked(done.map(drop))
    }

    /// Serves a fault. Returns false if it does not concern the heap, or is the program's own
    /// crash.
    fn serve(&self, fault: &AccessFault) -> bool {
        let base = self.rights.view.base().addr().get();
        let offset = fault.address.wrapping_sub(base);
        if offset >= self.rights.view.bytes() {
            return false;
        }
        if fault.bus != self.rights.engine.serves_bus() {
            if fault.bus {
                self.rights.tell(fault.address, "the machine has no memory left for it");
            }
            return false;
        }
        let page = (offset / PAGE) as u32;
        if self.fault_probe.serve(&self.rights.view, page) {
            return true;
        }
        let _published = (!self.rights.engine.scans()).then(|| self.publishing.lock());
        let had = self.rights.table.get(page);
        // Where the processor does not tell, a second fault on a page that can be read is a store.
        let stores = fault.stores.unwrap_or(had == Rights::Read) && !self.rights.engine.scans();
        let wanted = if stores { Rights::Write } else { Rights::Read };
        if had >= wanted {
            self.rights.restore(page);
            return true;
        }
        if stores {
            self.sums().count_store();
        }
        match self.sums().time(Part::Data, || self.obtain(page, wanted)) {
            Ok(()) => {}
            Err(CallFailure::Died(death)) => {
                let mut text = [0; 128];
                let mut rest = &mut text[..];
                let _ = write!(rest, "{death}");
                let left = rest.len();
                let len = text.len() - left;
                self.rights
                    .end(fault.address, std::str::from_utf8(&text[..len]).unwrap_or("a rank died"));
            }
            Err(CallFailure::Result(result::NO_MEMORY)) => {
                self.rights.end(fault.address, "a machine has no memory left for it");
            }
            Err(CallFailure::Result(result::UNREACHABLE)) => {
                self.rights.end(fault.address, "its home refuses to hand it out");
            }
            Err(CallFailure::Result(result::OTHER_THREAD)) => {
                let why = "in virtual time only the thread that has joined accesses the heap";
                self.rights.end(fault.address, why);
            }
            Err(CallFailure::Result(result::NO_INTERFACE)) => {
                let why = "in virtual time a handler of a message cannot fetch it: let the handler \
                           note what came, and access the heap behind the poll";
                self.rights.end(fault.address, why);
            }
            Err(CallFailure::Result(_)) => {
                self.rights.end(fault.address, "the interface of this node refuses to");
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
                    self.sums().count_own_fetch();
                }
                return Ok(());
            }
        };
        if own_fetch::with(|own| self.fetch(caller, own, page, stores)) == Some(true) {
            return Ok(());
        }
        let call = Call { op: op::FAULT, words: [u64::from(page), u64::from(stores), 0, 0] };
        caller.call((call, &[]), None, |step| self.rights.change(step, &self.keeper)).map(drop)
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
        let new_twin = terms.twin.is_none() && (stores || self.rights.engine.scans());
        let (note, twin) = (FetchNote { page, access, version }, new_twin.then(|| own.bytes()));
        // Steps of another thread that take the page away come behind its right.
        let _one = self.rights.changing.lock();
        let store = || caller.covers(&time) && own.store(page, &terms);
        let Some(soon) = lease.end(&note, twin, store) else { return false };
        if soon {
            caller.ring();
        }
        self.sums().count_own_fetch();
        let rights = if stores { Rights::Write } else { Rights::Read };
        self.rights.table.set(page, 1, rights);
        self.rights.grant((page, 1), rights);
        true
    }
}

impl PageRights for Domain {
    fn publish_open(&self) -> std::result::Result<(), CallFailure> {
        let Keeper::Rank(keeper) = &self.keeper else { return Ok(()) };
        let _one = self.publishing.lock();
        if keeper.open_number() == 0 {
            // Another thread has published it.
            return Ok(());
        }
        let published = self.published(keeper.publish(&self.written_pages(keeper)));
        debug_assert!(published.is_err() || keeper.open_number() == 0, "one thread at a time");
        published
    }

    fn drop_pages(&self, pages: Range<u32>, is_home: &dyn Fn(u32) -> bool) {
        self.rights.drop_pages(pages, is_home, &self.keeper);
    }

    fn take_right(&self, page: u32, page_use: PageUse, is_current: &dyn Fn() -> bool) -> bool {
        self.rights.take_right(page, page_use == PageUse::Stores, is_current)
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
