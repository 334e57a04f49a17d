//! Coherence by the ranks themselves: what each rank does at faults, acquires, releases and
//! barriers, by one-sided operations alone (paper 003, section 2).

use crate::breakdown::AheadPages;
use crate::caller::{CallFailure, Caller, HandlerLock, checked};
use crate::foresight::Foresight;
use crate::heap_view::{mapped, own_region, region};
use crate::lock_habit::LockHabit;
use crate::mailbox::{LOCK_REGION, RECORD_REGION, result};
use crate::rank_port::RankPort;
use crate::rank_threads::RankThreads;
use crate::settings::{PlacementRules, ProtocolSettings, place_rule};
use clump_am::{RankContext, own_actor};
use clump_boot::SvmAhead;
use clump_coll::{Max, Team};
use clump_hlrc::deposit::{
    DepositConfig, DepositLayout, DepositPort, DepositRank, MAX_LOCKING_NODES, PageUse,
};
use clump_hlrc::{Placement, PlacementTable};
use clump_os::sync::{AtomicU32, Ordering};
use clump_os::thread_value;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

/// Bytes of address space of a node's locks.
const LOCK_BYTES: u64 = 1 << 39;

thread_value! {
    static PORT: RefCell<Option<RankPort>> = RefCell::new(None);
}

/// Port of the thread that opened the heap; closed when it is dropped there.
#[derive(Debug)]
pub(crate) struct OwnPort(());

impl Drop for OwnPort {
    fn drop(&mut self) {
        let _ = PORT.with(|port| port.get().try_borrow_mut().map(|mut port| port.take()));
    }
}

/// Rights of this rank on pages, which the protocol grants and takes.
pub(crate) trait PageRights {
    /// Takes all rights on these pages that may have to go.
    fn drop_pages(&self, pages: Range<u32>, is_home: &dyn Fn(u32) -> bool);
    /// Takes a right on a page, if `is_current` says that its copy still is. Returns that.
    fn take_right(&self, page: u32, page_use: PageUse, is_current: &dyn Fn() -> bool) -> bool;
    /// Publishes what the rank has put off.
    fn publish_open(&self) -> Result<(), CallFailure>;
}

/// Coherence of one rank.
#[derive(Debug)]
pub(crate) struct DepositKeeper {
    context: Arc<RankContext>,
    rank: DepositRank,
    rules: Arc<PlacementRules>,
    /// Calls of the node's interface, which ranks in virtual time have none of.
    caller: Option<Arc<Caller>>,
    threads: RankThreads,
    /// Held while rights go behind an acquire.
    passing: HandlerLock,
    foresight: Foresight,
    /// Number of the port that has published last; 0: none.
    publisher: AtomicU32,
    habit: LockHabit,
}

impl DepositKeeper {
    /// Opens the memory of this node that others deposit into.
    pub(crate) fn open(
        context: &Arc<RankContext>,
        (settings, ahead): (&ProtocolSettings, SvmAhead),
        caller: Option<Caller>,
    ) -> crate::Result<Self> {
        let (number, nodes) = (context.node_number() as u16, context.nnodes() as u16);
        let first_rank = context.ranks_of(context.node_number()).start;
        debug_assert!(nodes > 1 && number < nodes, "one of several nodes");
        debug_assert!(settings.pages > 0, "a heap has pages");
        let is_virtual = context.actor().is_some();
        debug_assert!(caller.is_some() != is_virtual, "only nodes of machines have interfaces");
        if nodes > MAX_LOCKING_NODES {
            return Err(
                clump_shm::Error::NotANode("it is one of more nodes than share locks").into()
            );
        }
        let ranks = context.node().ranks() as u32;
        let layout = DepositLayout::new(nodes, ranks, settings.pages);
        mapped(context.node(), own_region(context, RECORD_REGION), layout.end())?;
        region(context.node(), own_region(context, LOCK_REGION), LOCK_BYTES)?;
        let config = DepositConfig {
            node: number,
            rank: context.rank() - first_rank,
            first_rank,
            pages: settings.pages,
            acquires_at_faults: settings.fetch_consistency,
            scans: settings.scans,
        };
        let table = RwLock::new(PlacementTable::default());
        let rules = Arc::new(PlacementRules { table, pages: settings.pages, nodes });
        Ok(Self {
            context: context.clone(),
            rank: DepositRank::new(config, layout),
            rules,
            caller: caller.map(Arc::new),
            threads: RankThreads::new(),
            passing: HandlerLock::default(),
            foresight: Foresight::new(ahead, settings.pages)?,
            publisher: AtomicU32::default(),
            habit: LockHabit::default(),
        })
    }

    /// Opens the port of the thread that has opened the heap, once all nodes have their memory.
    pub(crate) fn open_port(&self) -> crate::Result<OwnPort> {
        let port = RankPort::open(&self.context, &self.rules, self.caller.as_ref())?;
        let before = PORT.with(|own| own.get().replace(Some(port)));
        debug_assert!(before.is_none(), "a thread opens its port once");
        Ok(OwnPort(()))
    }

    /// Returns the threads of this rank that use the heap.
    pub(crate) fn threads(&self) -> &RankThreads {
        &self.threads
    }

    /// Returns the pages that this rank has fetched before their use.
    pub(crate) fn fetched_ahead(&self) -> AheadPages {
        self.foresight.counts()
    }

    /// Runs `work` with the port of the calling thread, which is opened if it has none.
    fn with_port<R>(
        &self,
        work: impl FnOnce(&RankPort) -> Result<R, CallFailure>,
    ) -> Result<R, CallFailure> {
        if self.context.actor().is_some() && own_actor(&self.context).is_none() {
            return Err(CallFailure::Result(result::OTHER_THREAD));
        }
        PORT.with(|own| {
            let cell = own.get();
            if cell.try_borrow().is_ok_and(|port| port.is_none()) {
                let port = RankPort::open(&self.context, &self.rules, self.caller.as_ref())
                    .map_err(|_| CallFailure::Result(result::NO_PORT))?;
                cell.replace(Some(port));
            }
            match cell.try_borrow() {
                Ok(port) => match port.as_ref() {
                    Some(port) => work(port),
                    None => Err(CallFailure::Result(result::NO_PORT)),
                },
                Err(_) => Err(CallFailure::Result(result::NO_PORT)),
            }
        })
    }

    /// Obtains a right on a page that the rank has faulted on. Returns true if it was fetched.
    pub(crate) fn obtain(
        &self,
        rights: &dyn PageRights,
        (page, page_use): (u32, PageUse),
    ) -> Result<bool, CallFailure> {
        debug_assert!(page < self.rules.pages, "the page exists");
        self.threads.are_several();
        self.with_port(|port| {
            let acquired = || self.pass(port, rights).map(drop);
            let grant = |page: u32, page_use: PageUse, current: &dyn Fn() -> bool| {
                rights.take_right(page, page_use, current)
            };
            let reads = page_use == PageUse::Loads && self.foresight.follows_strides();
            let mut ahead = if reads { port.ahead_of(page) } else { Vec::new() };
            // Others may be about to get their homes.
            ahead.retain(|&other| {
                self.rules.lie_together(page, other) || self.rank.is_placed(port, other)
            });
            self.foresight.note_use(page);
            self.rank.obtain(port, (page, page_use, &ahead), acquired, grant)
        })
    }

    /// Takes the rights that what the node has consumed asks for. Returns the pages that the rank
    /// is expected to use nevertheless.
    fn pass(&self, port: &RankPort, rights: &dyn PageRights) -> Result<Vec<u32>, CallFailure> {
        let _one = self.passing.lock();
        debug_assert!(self.rules.nodes > 1, "others have written");
        let me = self.context.node_number() as u16;
        let is_home = |page: u32| self.rank.known_home(port, page) == Some(me);
        let mut stale = Vec::new();
        self.rank.pass(port, |pages| {
            rights.drop_pages(pages.clone(), &is_home);
            // All of the heap: no page more than another.
            if self.foresight.follows_history() && pages.len() < self.rules.pages as usize {
                stale.extend(pages.filter(|&page| !is_home(page)));
            }
        })?;
        stale.sort_unstable();
        stale.dedup();
        self.foresight.expect(&mut stale);
        Ok(stale)
    }

    /// Takes the rights that what the node has consumed asks for, and fetches the pages that the
    /// rank is expected to use: many in one answer.
    fn pass_ahead(&self, port: &RankPort, rights: &dyn PageRights) -> Result<(), CallFailure> {
        let expected = self.pass(port, rights)?;
        debug_assert!(expected.is_sorted(), "pages ascend");
        if expected.is_empty() {
            return Ok(());
        }
        let acquired = || self.pass(port, rights).map(drop);
        let grant = |page: u32, page_use: PageUse, current: &dyn Fn() -> bool| {
            self.foresight.is_given(page) && rights.take_right(page, page_use, current)
        };
        match self.rank.fetch_ahead(port, &expected, acquired, grant) {
            Ok(pages) => self.foresight.count_fetched(u64::from(pages)),
            // A fault on a page tells, if it comes to that.
            Err(CallFailure::Result(result::NO_MEMORY)) => {}
            Err(other) => return Err(other),
        }
        Ok(())
    }

    /// Runs `work` with counts of other nodes that share pages of this one, and a check whether a
    /// page is exclusive: none is where the thread gets no port.
    pub(crate) fn with_sharers<R>(
        &self,
        work: impl Fn(&dyn Fn(u32) -> u64, &dyn Fn(u32) -> bool) -> R,
    ) -> R {
        debug_assert!(self.rules.nodes > 1, "one of several nodes");
        let done = self.with_port(|port| {
            port.fence();
            let shares = |page: u32| self.rank.shares(port, page);
            Ok(work(&shares, &|page: u32| self.rank.is_exclusive(port, page)))
        });
        done.unwrap_or_else(|_| work(&|_| u64::MAX, &|_| false))
    }

    /// Publishes pages that this rank has written.
    pub(crate) fn publish(&self, written: &[u32]) -> Result<(), CallFailure> {
        self.with_port(|port| self.publish_by(port, written))
    }

    /// Publishes pages that this rank has written, and sees to it that other ranks of the node
    /// publish what they have put off.
    pub(crate) fn publish_node(&self, written: &[u32]) -> Result<(), CallFailure> {
        self.with_port(|port| {
            debug_assert!(written.is_sorted(), "pages ascend");
            self.settle_others(port)?;
            self.rank.publish_node(port, written, |node| self.ranks_of(node))
        })
    }

    /// Returns the number of the interval that this rank keeps open; 0 for none.
    pub(crate) fn open_number(&self) -> u64 {
        self.with_port(|port| Ok(self.rank.open_number(port))).unwrap_or(0)
    }

    /// Returns true if another rank waits for the interval that this one keeps open.
    pub(crate) fn is_wanted(&self) -> bool {
        self.with_port(|port| Ok(self.rank.is_wanted(port))).unwrap_or(false)
    }

    /// Returns true if the release of a lock is to publish nothing: nobody waits for this rank, and
    /// it is likely to enter the lock, or others that its node has, again.
    pub(crate) fn may_put_off(&self, lock: u64) -> bool {
        self.habit.release(lock) && !self.is_wanted()
    }

    fn ranks_of(&self, node: u16) -> u32 {
        let ranks = self.context.ranks_of(u32::from(node)).len() as u32;
        debug_assert!(ranks > 0, "a node has ranks");
        ranks
    }

    fn settle_others(&self, port: &RankPort) -> Result<(), CallFailure> {
        debug_assert!(port.number > 0, "ports are counted from 1");
        if self.publisher.swap(port.number, Ordering::AcqRel) != port.number {
            // Bytes of this thread would overtake those of another.
            self.rank.settle(port)?;
        }
        Ok(())
    }

    fn publish_by(&self, port: &RankPort, written: &[u32]) -> Result<(), CallFailure> {
        debug_assert!(written.is_sorted(), "pages ascend");
        self.settle_others(port)?;
        debug_assert!(written.last().is_none_or(|&page| page < self.rules.pages), "pages exist");
        let published = self.rank.publish(port, written, |node| self.ranks_of(node));
        debug_assert!(published.is_err() || self.rank.open_number(port) == 0, "it is published");
        published
    }

    /// Waits for a lock, and acquires what its last holder has released.
    pub(crate) fn acquire_lock(
        &self,
        lock: u64,
        rights: &dyn PageRights,
    ) -> Result<(), CallFailure> {
        self.with_port(|port| {
            if port.has_lock(lock) {
                return Err(CallFailure::Result(result::MISUSE));
            }
            // Also if nobody wants it yet: the rank that has the lock may be about to, as it
            // publishes behind it.
            port.enter_lock(lock, || rights.publish_open())?;
            debug_assert!(port.has_lock(lock), "this thread has it");
            let was_here = self.rank.acquire_lock(port, lock, || rights.publish_open())?;
            let was_here = was_here.ok_or(CallFailure::Result(result::MISUSE))?;
            self.habit.enter(lock, was_here);
            self.pass_ahead(port, rights)
        })
    }

    /// Puts off what this rank has to publish, and gives a lock back.
    pub(crate) fn release_lock_unpublished(&self, lock: u64) -> Result<(), CallFailure> {
        self.with_port(|port| {
            if !port.has_lock(lock) {
                return Err(CallFailure::Result(result::MISUSE));
            }
            self.rank.put_off(port)?;
            debug_assert_ne!(self.rank.open_number(port), 0, "the lock names it");
            let released = self.rank.release_lock(port, lock)?;
            debug_assert!(released, "it was acquired");
            port.leave_lock(lock)
        })
    }

    /// Publishes what this rank has written, and gives a lock back.
    pub(crate) fn release_lock(&self, lock: u64, written: &[u32]) -> Result<(), CallFailure> {
        self.with_port(|port| {
            if !port.has_lock(lock) {
                return Err(CallFailure::Result(result::MISUSE));
            }
            self.publish_by(port, written)?;
            debug_assert!(port.has_lock(lock), "nobody takes a lock away");
            let released = self.rank.release_lock(port, lock)?;
            debug_assert!(released, "it was acquired");
            port.leave_lock(lock)
        })
    }

    /// Publishes what this rank has written, and makes a flag at least `value`.
    pub(crate) fn set_flag(
        &self,
        (flag, value): (u64, u64),
        written: &[u32],
    ) -> Result<(), CallFailure> {
        self.with_port(|port| {
            self.publish_by(port, written)?;
            debug_assert!(self.rank.layout().keeper(flag) < self.rules.nodes, "a node of the job");
            let set = self.rank.set_flag(port, flag, value)?;
            if set { Ok(()) } else { Err(CallFailure::Result(result::MISUSE)) }
        })
    }

    /// Waits until a flag is at least `value`, and acquires what was released before.
    pub(crate) fn await_flag(
        &self,
        (flag, value): (u64, u64),
        rights: &dyn PageRights,
    ) -> Result<(), CallFailure> {
        self.with_port(|port| {
            debug_assert!(self.rank.layout().keeper(flag) < self.rules.nodes, "a node of the job");
            if !self.rank.await_flag(port, (flag, value), || rights.publish_open())? {
                return Err(CallFailure::Result(result::MISUSE));
            }
            self.pass_ahead(port, rights)
        })
    }

    /// Meets all ranks in a barrier, behind what they have published, and acquires that.
    pub(crate) fn meet(&self, team: &Team, rights: &dyn PageRights) -> crate::Result<()> {
        // A rank without a port comes, too: the others wait for it.
        let arrival = self.with_port(|port| Ok(self.rank.arrival(port)));
        let mut time = arrival.unwrap_or_else(|_| self.rank.layout().no_time());
        debug_assert_eq!(time.len(), usize::from(self.rules.nodes), "an interval a node");
        team.all_reduce_slice(&mut time, Max)?;
        checked(self.with_port(|port| {
            self.rank.consume(port, &mut time, &mut || rights.publish_open())?;
            self.pass_ahead(port, rights)
        }))
    }

    /// Gives unused pages a rule for their homes; all ranks give them the same.
    pub(crate) fn place(&self, words: [u64; 4]) -> Result<(), CallFailure> {
        let (first, pages, rule) = self.rule(words)?;
        let mut table = self.rules.table.write().unwrap_or_else(PoisonError::into_inner);
        let placed = table.insert(first, pages, rule);
        debug_assert!(!placed || pages > 0, "a rule is of pages");
        if placed { Ok(()) } else { Err(CallFailure::Result(result::MISUSE)) }
    }

    fn rule(
        &self,
        [first, pages, rule, node]: [u64; 4],
    ) -> Result<(u32, u32, Placement), CallFailure> {
        let misuse = CallFailure::Result(result::MISUSE);
        let rule = place_rule(rule, node, self.rules.nodes).ok_or(misuse)?;
        let end = first.checked_add(pages).filter(|&end| end <= u64::from(self.rules.pages));
        end.ok_or(misuse)?;
        debug_assert!(first + pages <= u64::from(u32::MAX), "pages are counted in 32 bits");
        Ok((first as u32, pages as u32, rule.into()))
    }

    /// Gives unused pages their homes for one rank, which all nodes know when it returns.
    pub(crate) fn place_alone(&self, words: [u64; 4]) -> Result<(), CallFailure> {
        let (first, pages, rule) = self.rule(words)?;
        let home = |page: u32| rule.home_of(page, pages, self.rules.nodes);
        let word = |page: u32| home(page).map_or(DepositLayout::FIRST_USE, |it| u64::from(it) + 1);
        let homes: Vec<u64> = (0..pages).map(word).collect();
        debug_assert_eq!(homes.len(), pages as usize, "a home for each page");
        let at = self.rank.layout().home(first);
        self.with_port(|port| {
            for node in 0..self.rules.nodes {
                port.put_words(node, at, &homes)?;
            }
            port.complete()
        })
    }
}
