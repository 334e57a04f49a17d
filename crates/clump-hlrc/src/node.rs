//! The protocol of one node: its input is what its ranks do and other nodes send, its output are
//! actions for the driver.

mod acquire;
mod barriers;
mod directory;
mod faults;
mod home_side;
mod own_fetches;
mod places;
mod release;
mod sync;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

pub use own_fetches::OpenPage;

use crate::barrier_home::BarrierHome;
use crate::cached_page::CachedPage;
use crate::config::{Config, Consistency};
use crate::flag_home::FlagHome;
use crate::home_page::HomePage;
use crate::lock_home::LockHome;
use crate::lock_token::LockToken;
use crate::message::{Action, DiffHeader, NodeMessage, PageAccess, PageDiff, RankWait};
use crate::notice_log::NoticeLog;
use crate::page_version::PageVersion;
use crate::placement::HomeMove;
use crate::rank_view::RankView;
use crate::vector_time::VectorTime;

/// Step that waits until the notices of its time are here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Pending<P> {
    /// A wait of a rank ends.
    Acquire { rank: u16, wait: RankWait, time: VectorTime },
    /// A fetched page is used.
    Page { page: u32, version: PageVersion, time: VectorTime, payload: P },
    /// A diff is stored.
    Deposit { header: DiffHeader, diff: PageDiff<P> },
    /// A barrier's ranks continue.
    Depart {
        barrier: u64,
        everybody: bool,
        ranks: Vec<u16>,
        time: VectorTime,
        moves: Vec<HomeMove>,
    },
}

/// Lookup in the directory, and the ranks that wait for its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct HomeLookup {
    waiters: Vec<(u16, PageAccess)>,
}

/// Pages that change their home while the ranks of a barrier wait for that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Handover {
    /// Pages whose new home has not fetched them yet.
    outgoing: BTreeSet<u32>,
    /// Pages that have not arrived yet.
    incoming: BTreeSet<u32>,
    /// The barrier, and the ranks that continue behind it.
    barrier: u64,
    ranks: Vec<u16>,
}

/// Home-based lazy release consistency at one node. `P` holds bytes of pages; the state never reads
/// them.
///
/// Call an event, then carry out what [`NodeState::poll_action`] gives, in order, before the next
/// event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeState<P> {
    config: Config,
    ranks: Vec<RankView>,
    /// Everything that any rank of the node has seen.
    seen: VectorTime,
    log: NoticeLog,
    /// Last interval of this node that was sent or discarded, in pull mode.
    pulled: VectorTime,
    /// Time of the last barrier of all ranks.
    last_barrier: VectorTime,
    /// Barriers of all ranks that this node has passed.
    epoch: u32,
    /// Intervals of each page that applied notices and own releases require.
    required: BTreeMap<u32, PageVersion>,
    /// Pages of ended critical sections that no interval contains yet.
    unpublished: BTreeSet<u32>,
    homes: BTreeMap<u32, HomePage<P>>,
    cached: BTreeMap<u32, CachedPage>,
    /// Homes that the placement does not give.
    moved: BTreeMap<u32, u16>,
    /// Claims that this node has granted as a directory.
    claims: BTreeMap<u32, u16>,
    lookups: BTreeMap<u32, HomeLookup>,
    /// Messages for a home that this node is about to become.
    early: Vec<(u16, NodeMessage<P>)>,
    pending: Vec<Pending<P>>,
    handover: Handover,
    lock_homes: BTreeMap<u64, LockHome>,
    tokens: BTreeMap<u64, LockToken>,
    barrier_homes: BTreeMap<u64, BarrierHome>,
    barrier_ranks: BTreeMap<u64, Vec<u16>>,
    flag_homes: BTreeMap<u64, FlagHome>,
    /// Ranges that local ranks place, by first page: the rank, and the number of nodes that have
    /// not stored the rule.
    placing: BTreeMap<u32, (u16, u16)>,
    /// Pages that ranks may fetch by themselves now, or no longer.
    changed: Vec<Range<u32>>,
    loopback: VecDeque<NodeMessage<P>>,
    actions: VecDeque<Action<P>>,
}

impl<P> NodeState<P> {
    /// Returns the state of a node whose ranks have used nothing.
    pub fn new(config: Config) -> Self {
        assert!(config.node < config.nodes, "the node is one of the job's");
        assert!(config.ranks > 0 && config.pages > 0, "there are ranks and pages");
        let nodes = usize::from(config.nodes);
        let zero = VectorTime::zero(nodes);
        Self {
            ranks: vec![RankView::new(nodes); usize::from(config.ranks)],
            seen: zero.clone(),
            log: NoticeLog::new(nodes),
            pulled: zero.clone(),
            last_barrier: zero,
            epoch: 0,
            required: BTreeMap::new(),
            unpublished: BTreeSet::new(),
            homes: BTreeMap::new(),
            cached: BTreeMap::new(),
            moved: BTreeMap::new(),
            claims: BTreeMap::new(),
            lookups: BTreeMap::new(),
            early: Vec::new(),
            pending: Vec::new(),
            handover: Handover::default(),
            lock_homes: BTreeMap::new(),
            tokens: BTreeMap::new(),
            barrier_homes: BTreeMap::new(),
            barrier_ranks: BTreeMap::new(),
            flag_homes: BTreeMap::new(),
            placing: BTreeMap::new(),
            changed: Vec::new(),
            loopback: VecDeque::new(),
            actions: VecDeque::new(),
            config,
        }
    }

    /// Returns the next step for the driver.
    pub fn poll_action(&mut self) -> Option<Action<P>> {
        self.actions.pop_front()
    }

    /// Returns a rank's right on a page.
    pub fn access(&self, rank: u16, page: u32) -> Option<PageAccess> {
        debug_assert!(rank < self.config.ranks, "the rank exists");
        self.ranks[usize::from(rank)].access(page)
    }

    /// Returns true if the node has bytes of a page that its ranks have used.
    pub fn has_page(&self, page: u32) -> bool {
        self.homes.contains_key(&page) || self.cached.contains_key(&page)
    }

    /// Returns the home of a page, if this node has its record.
    pub fn home_of(&self, page: u32) -> Option<u16> {
        debug_assert!(page < self.config.pages, "the page exists");
        let placed = || self.config.placement.home_of(page, self.config.pages, self.config.nodes);
        self.moved.get(&page).copied().or_else(placed)
    }

    /// Returns the write notices kept.
    pub fn notices(&self) -> usize {
        self.log.notices()
    }

    /// Handles a message of node `from`.
    pub fn handle_message(&mut self, from: u16, message: NodeMessage<P>) {
        debug_assert!(from < self.config.nodes, "the sender is one of the job's nodes");
        debug_assert!(self.loopback.is_empty(), "events are complete before the next");
        self.dispatch(from, message);
        self.drain_loopback();
    }

    /// Handles what the node sends itself.
    fn drain_loopback(&mut self) {
        while let Some(message) = self.loopback.pop_front() {
            self.dispatch(self.config.node, message);
        }
        debug_assert!(self.loopback.is_empty());
        debug_assert!(self.seen.get(self.config.node) <= self.closed(), "own intervals are logged");
    }

    /// Hands a message to the part that it concerns.
    fn dispatch(&mut self, from: u16, message: NodeMessage<P>) {
        match message {
            NodeMessage::Notices(interval) => self.on_notices(interval),
            NodeMessage::PullNotices { after, until } => self.on_pull(from, after, until),
            NodeMessage::Diffs(header, diffs) => self.on_diffs(from, &header, diffs),
            NodeMessage::Fetch { page, required, moving } => {
                self.on_fetch(from, page, required, moving);
            }
            NodeMessage::Page { page, version, time, payload } => {
                self.wait_for_notices(Pending::Page { page, version, time, payload });
            }
            NodeMessage::AskHome { page, claim } => self.on_ask_home(from, page, claim),
            NodeMessage::HomeIs { page, home } => self.on_home_is(page, home),
            NodeMessage::RequestLock { lock } => self.on_lock_request(from, lock),
            NodeMessage::GrantLock { lock, grant, time } => self.on_lock_grant(lock, grant, &time),
            NodeMessage::RecallLock { lock, grant } => self.on_lock_recall(lock, grant),
            NodeMessage::ReturnLock { lock, time, again } => {
                self.on_lock_return(from, lock, &time, again);
            }
            NodeMessage::Arrive { barrier, count, members, time, moves } => {
                self.on_arrive(from, barrier, (count, members), &time, &moves);
            }
            NodeMessage::Depart { barrier, everybody, time, moves } => {
                self.on_depart(barrier, everybody, time, moves);
            }
            NodeMessage::SetFlag { flag, value, time } => self.on_set_flag(flag, value, &time),
            NodeMessage::AwaitFlag { flag, at_least, rank } => {
                self.on_await_flag(from, flag, at_least, rank);
            }
            NodeMessage::Place { first, pages, rule } => self.on_place(from, first, pages, rule),
            NodeMessage::Placed { first } => self.on_placed(first),
            NodeMessage::FlagReached { flag, at_least, rank, time } => {
                let wait = RankWait::Flag(flag, at_least);
                self.wait_for_notices(Pending::Acquire { rank, wait, time });
            }
        }
    }

    /// Sends a message, also to this node.
    fn send(&mut self, to: u16, message: NodeMessage<P>) {
        debug_assert!(to < self.config.nodes, "the receiver is one of the job's nodes");
        if to == self.config.node {
            self.loopback.push_back(message);
        } else {
            self.actions.push_back(Action::Send { to, message });
        }
    }

    /// Returns this node's last interval.
    fn closed(&self) -> u32 {
        self.log.known().get(self.config.node)
    }

    /// Returns the node that keeps the state of a lock, barrier or flag, or of a page's claim.
    fn keeper(&self, id: u64) -> u16 {
        let keeper = (id % u64::from(self.config.nodes)) as u16;
        debug_assert!(keeper < self.config.nodes);
        keeper
    }

    /// Returns a time at which nothing has happened.
    fn zero(&self) -> VectorTime {
        VectorTime::zero(usize::from(self.config.nodes))
    }

    /// Returns the time on which bytes of this node may depend; zero in plain mode.
    fn dependencies(&self) -> Cow<'_, VectorTime> {
        match self.config.consistency {
            Consistency::Plain => Cow::Owned(self.zero()),
            Consistency::Fetch | Consistency::Causal => Cow::Borrowed(&self.seen),
        }
    }

    /// Returns the intervals that a copy of a page must contain.
    fn required(&self, page: u32) -> PageVersion {
        self.required.get(&page).cloned().unwrap_or_default()
    }

    /// Returns true if the bytes at this node contain all that its ranks need.
    fn is_current(&self, page: u32) -> bool {
        let Some(required) = self.required.get(&page) else { return true };
        debug_assert!(!required.is_initial(), "what is listed asks for something");
        match (self.homes.get(&page), self.cached.get(&page)) {
            (Some(home), _) => home.satisfies(required),
            (None, Some(copy)) => copy.satisfies(required),
            (None, None) => false,
        }
    }

    /// Returns true if nothing is under way at this node.
    pub fn is_quiet(&self) -> bool {
        let homes = self.homes.values().all(HomePage::is_idle);
        let copies = self.cached.values().all(|copy| !copy.is_fetching());
        let ranks = self.handover.ranks.is_empty() && self.barrier_ranks.is_empty();
        let waits = self.pending.is_empty() && self.early.is_empty() && self.lookups.is_empty();
        homes && copies && ranks && waits
    }

    /// Asserts what holds between any two events.
    pub fn check_invariants(&self) {
        self.log.check_invariants();
        assert!(self.loopback.is_empty(), "events are complete");
        assert!(self.log.known().covers(&self.seen), "what is seen has been announced");
        for page in self.homes.keys() {
            assert!(!self.cached.contains_key(page), "page {page} is home or copy");
            let here = self.home_of(*page) == Some(self.config.node);
            assert!(here || self.handover.outgoing.contains(page), "page {page} has its home here");
        }
        for (number, rank) in self.ranks.iter().enumerate() {
            assert!(self.seen.covers(rank.time()), "rank {number} has seen no more than its node");
        }
        for (page, copy) in &self.cached {
            let written = self.ranks.iter().any(|rank| rank.has_written(*page));
            let needs_twin = written || self.unpublished.contains(page);
            assert!(copy.has_twin() || !needs_twin, "page {page} is written and has no twin");
        }
        for page in &self.handover.incoming {
            assert_eq!(self.home_of(*page), Some(self.config.node), "page {page} comes here");
        }
    }
}
