//! State that the endpoints of a rank share: the node's memory, the rank's block, settings, segment
//! space.

use crate::emulation::EmulatedRank;
use crate::error::{Error, ErrorKind, Result};
use crate::interfaces::Interfaces;
use crate::thread_number::this_track;
use clump_boot::Dispatch;
use clump_os::virtual_thread::VirtualThread;
use clump_os::{clock, procfs, virtual_thread};
use clump_shm::job::Death;
use clump_shm::node::NodeMemory;
use clump_shm::rank::{RankBlock, WaitReason};
use clump_shm::segment::SegmentSpace;
use clump_shm::shared::Shared;
use clump_shm::virtual_time::{self, Actor, End};
use clump_shm::waiter::SpinPolicy;
use clump_trace::{Counter, Counters, EventKind, Recorder};
use clump_transport::{Network, NetworkResources};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most ranks that the report of a deadlock names.
const MAX_NAMED: usize = 16;

/// Settings of a program's endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Gives each destination a lane of its own, while lanes last; if false, only shared queues are
    /// used.
    pub lanes: bool,
    /// Time that a request waits for room before it is returned; `None` for ever.
    pub send_timeout: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { lanes: true, send_timeout: None }
    }
}

/// The rank that endpoints belong to.
#[derive(Debug)]
pub struct RankContext {
    node: NodeMemory,
    rank: u32,
    block: Shared<RankBlock>,
    spin_policy: SpinPolicy,
    segments: Mutex<SegmentSpace>,
    /// Held by the thread that opens an endpoint: it searches a free index, then takes it.
    opening: Mutex<()>,
    settings: Settings,
    network: Option<Network>,
    interfaces: Interfaces,
    trace: Option<Arc<Recorder>>,
    /// The rank's clock, where time is virtual.
    actor: Option<&'static Actor>,
    /// First failure of an endpoint that was closed before anything reported it.
    unreported: Mutex<Option<Error>>,
}

impl RankContext {
    /// Creates the context of `rank`. One per process and rank.
    ///
    /// # Errors
    /// The node's memory has no block for `rank`.
    pub fn new(node: &NodeMemory, rank: u32, settings: Settings) -> Result<Self> {
        let missing = clump_shm::Error::NotANode("this rank has no block in it");
        let block = node.rank(rank).ok_or(missing)?;
        let (spin_ns, yield_ns) = node.spin_policy_ns();
        let segments = Mutex::new(SegmentSpace::new(node, rank)?);
        let spin_policy = SpinPolicy::new(spin_ns, yield_ns);
        let node = node.clone();
        debug_assert!((rank as usize) < node.ranks(), "no rank of the job");
        debug_assert!(node.is_local(rank), "the rank is of another node");
        let (opening, network, interfaces) = (Mutex::new(()), None, Interfaces::default());
        Ok(Self {
            node,
            rank,
            block,
            spin_policy,
            segments,
            opening,
            settings,
            network,
            interfaces,
            trace: None,
            actor: None,
            unreported: Mutex::default(),
        })
    }

    /// Creates the context of a rank with a network interface of its own.
    ///
    /// # Errors
    /// The socket or the key cannot be used.
    pub fn with_network(
        node: &NodeMemory,
        rank: u32,
        settings: Settings,
        resources: NetworkResources,
    ) -> Result<Self> {
        debug_assert_eq!(node.proxies(), 0, "proxies drive the network of this node's ranks");
        let mut context = Self::new(node, rank, settings)?;
        context.network = Some(Network::open(node, rank, resources)?);
        Ok(context)
    }

    /// Creates the context of a rank on a node whose proxies drive the network.
    ///
    /// # Errors
    /// Address space has run out.
    pub fn with_proxies(
        node: &NodeMemory,
        rank: u32,
        settings: Settings,
        dispatch: Dispatch,
    ) -> Result<Self> {
        debug_assert!(node.proxies() > 0, "nothing takes what this rank sends");
        let mut context = Self::new(node, rank, settings)?;
        context.network = Some(Network::through_proxies(node, rank, dispatch)?);
        Ok(context)
    }

    /// Returns the network between nodes, if the job has several nodes.
    #[inline]
    pub fn network(&self) -> Option<&Network> {
        self.network.as_ref()
    }

    /// Closes the network, if there is one: returns once everything sent has arrived and all peers
    /// are notified. All endpoints should be closed.
    pub fn close_network(&self) {
        if let Some(network) = &self.network {
            // The agent reads this: a rank that leaves waits for nothing else.
            let record = self.block.begin_wait(WaitReason::Leave);
            network.close(&self.node, self.rank);
            debug_assert!(!clump_os::forked::is_child(), "a child closes its parent's network");
            self.block.end_wait(record);
        }
    }

    /// Returns this rank's own counters.
    pub fn counters(&self) -> Counters<'_> {
        Counters::over(self.block.counters())
    }

    /// Returns the node's memory.
    pub fn node(&self) -> &NodeMemory {
        &self.node
    }

    /// Returns this rank's number.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Returns this rank's block.
    pub fn block(&self) -> &Shared<RankBlock> {
        &self.block
    }

    /// Returns the times for which this rank spins and yields before it sleeps.
    pub fn spin_policy(&self) -> &SpinPolicy {
        &self.spin_policy
    }

    /// Notes all events of this rank's endpoints with `recorder`; before any is opened.
    #[must_use]
    pub fn traced(mut self, recorder: Option<Recorder>) -> Self {
        debug_assert!(self.trace.is_none(), "a rank has one trace");
        self.trace = recorder.map(Arc::new);
        self
    }

    /// Notes the events of this context, of the executor beside a rank, in the trace of the rank.
    #[must_use]
    pub fn traced_beside(mut self, rank: &Self) -> Self {
        debug_assert!(self.trace.is_none() && self.rank == rank.rank, "one trace a rank");
        self.trace.clone_from(&rank.trace);
        self
    }

    /// Returns the rank's trace, if it is traced.
    #[inline]
    pub fn trace(&self) -> Option<&Recorder> {
        self.trace.as_deref()
    }

    /// Gives the rank a clock of its own, where the time of the job is virtual; before any endpoint
    /// is opened.
    ///
    /// # Errors
    /// Address space has run out.
    pub fn in_virtual_time(mut self) -> Result<Self> {
        let Some(actor) = virtual_time::actor(&self.node, self.rank)? else { return Ok(self) };
        debug_assert!(self.network.is_none(), "one machine has all virtual nodes");
        actor.note_send_timeout(self.settings.send_timeout);
        if let Some(trace) = self.trace.as_mut().and_then(Arc::get_mut) {
            trace.begin_at(VirtualThread::now_ns(&actor), actor.node());
        }
        // Its thread refers to it until the process ends.
        self.actor = Some(Box::leak(Box::new(actor)));
        self.spin_policy = self.spin_policy.sleeping_at_once();
        Ok(self)
    }

    /// Makes this the context of the executor of one-sided operations that runs beside the rank,
    /// where time is virtual; `None` if none does.
    ///
    /// # Errors
    /// Address space has run out.
    pub fn as_executor(mut self) -> Result<Option<Self>> {
        let Some(actor) = virtual_time::executor(&self.node, self.rank)? else { return Ok(None) };
        debug_assert!(self.actor.is_none(), "it is no rank");
        self.actor = Some(Box::leak(Box::new(actor)));
        self.spin_policy = self.spin_policy.sleeping_at_once();
        Ok(Some(self))
    }

    /// Returns the rank's clock, where time is virtual.
    #[inline]
    pub fn actor(&self) -> Option<&'static Actor> {
        self.actor
    }

    /// Begins virtual time, if the time of the job is virtual: returns once all ranks have.
    pub fn begin_virtual_time(&self) {
        if let Some(actor) = self.actor {
            self.enter_virtual_time();
            actor.join();
            debug_assert!(virtual_thread::is_virtual(), "this thread is the actor");
        }
    }

    /// Makes this thread the actor, before it joins.
    pub fn enter_virtual_time(&self) {
        if let Some(actor) = self.actor {
            virtual_thread::register(Some(actor));
        }
        debug_assert!(self.actor.is_none() || virtual_thread::is_virtual(), "it is the actor");
    }

    /// Ends virtual time for this rank, which leaves: the others go on.
    pub fn end_virtual_time(&self) {
        if let Some(actor) = self.actor.filter(|_| virtual_thread::is_virtual()) {
            virtual_thread::register(None);
            actor.leave();
        }
    }

    /// Returns true if waits are noted: the rank is traced, or its time is virtual.
    #[inline]
    pub(crate) fn is_observed(&self) -> bool {
        self.trace.is_some() || self.actor.is_some()
    }

    /// Notes an event of this thread, if the rank is traced. `of`: the other rank, details, a
    /// value; [`clump_trace::TraceEvent`] defines them.
    #[inline]
    pub fn note(&self, kind: EventKind, of: (u32, u8, u32)) {
        if let Some(trace) = &self.trace {
            trace.note(clock::now_ns(), kind, this_track(), of);
        }
    }

    /// Notes a request to the interface of a node, or its answer. In virtual time the messages to
    /// and from a node's executor are traced as any others: these would be two of each.
    #[inline]
    pub fn note_one_sided(&self, kind: EventKind, (node, value): (u32, u32)) {
        if self.trace.is_some() && self.actor.is_none() {
            self.note(kind, (node, 0, value));
        }
    }

    /// Counts for how long and how often the rank, which leaves, has lacked a processor.
    pub fn note_processor(&self) {
        let pid = std::process::id();
        let counters = Counters::over(self.block.counters());
        debug_assert!(!clump_os::forked::is_child(), "a child by `fork` is no rank");
        counters.set(Counter::ProcessorWait, procfs::waited_ns(pid).unwrap_or(0));
        counters.set(Counter::Preemptions, procfs::preemptions(pid).unwrap_or(0));
        debug_assert!(self.node.is_local(self.rank), "the process of a rank of this node");
    }

    /// Returns the rank as messages that are delayed on purpose use it.
    pub(crate) fn emulated(&self) -> EmulatedRank<'_> {
        EmulatedRank {
            interfaces: &self.interfaces,
            shares_processor: self.spin_policy.shares_processor(),
        }
    }

    pub(crate) fn settings(&self) -> Settings {
        self.settings
    }

    /// Locks the memory for segments, and the table of exports with it.
    pub(crate) fn segment_space(&self) -> MutexGuard<'_, SegmentSpace> {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the opening of endpoints: one thread at a time takes an index.
    pub(crate) fn opening(&self) -> MutexGuard<'_, ()> {
        self.opening.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the death that ends this job, unless survivors continue.
    pub fn fatal_death(&self) -> Option<Death> {
        if self.node.job().survive() { None } else { self.node.job().first_death() }
    }

    /// Checks that this process is no forked child: a child's sockets and mappings are its parent's
    /// or unmapped.
    ///
    /// # Errors
    /// The process is a child by `fork`.
    #[inline]
    pub fn check_process(&self) -> Result<()> {
        if clump_os::forked::is_child() { Err(ErrorKind::Forked.into()) } else { Ok(()) }
    }

    /// Records a failure of a closed endpoint that the program never read. The first is kept for
    /// the end of the rank.
    #[cold]
    pub(crate) fn note_unreported(&self, error: Error) {
        debug_assert!(!clump_os::forked::is_child(), "the endpoint is this process's");
        self.unreported.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// Takes the first failure of closed endpoints that the program has not read.
    pub fn take_unreported(&self) -> Option<Error> {
        self.unreported.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Checks that not all ranks wait for each other, where time is virtual.
    ///
    /// # Errors
    /// They do.
    pub(crate) fn check_virtual_time(&self) -> Result<()> {
        match self.actor.and_then(|actor| actor.end()) {
            Some(End::Deadlock) => Err(ErrorKind::Deadlock(self.waiting_ranks()).into()),
            _ => Ok(()),
        }
    }

    /// Returns which rank waits for what, as text.
    fn waiting_ranks(&self) -> String {
        let what = |rank: u32| {
            let waiting = self.node.rank(rank).and_then(|block| block.waiting());
            let Some((reason, _)) = waiting else {
                return format!("rank {rank} polls, and finds nothing");
            };
            let of = reason.peer().map_or(String::new(), |peer| format!(" of rank {peer}"));
            format!("rank {rank} waits for {}{of}", reason.kind())
        };
        let ranks = self.node.local_ranks();
        let more = ranks.len().saturating_sub(MAX_NAMED);
        let mut all: Vec<String> = ranks.take(MAX_NAMED).map(what).collect();
        all.extend((more > 0).then(|| format!("and {more} more")));
        all.join("; ")
    }

    /// Checks that the job continues and that this process is no forked child.
    ///
    /// # Errors
    /// A rank died and survivors do not continue; the process is a child by `fork`.
    pub fn check_alive(&self) -> Result<()> {
        self.check_process()?;
        self.check_virtual_time()?;
        self.fatal_death().map_or(Ok(()), |death| Err(ErrorKind::RankDied(death).into()))
    }
}
