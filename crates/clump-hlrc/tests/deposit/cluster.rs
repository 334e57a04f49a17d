//! Nodes in one process, whose ranks are threads that run one at a time: a seed says which, and
//! when operations on other nodes arrive.

use crate::deposit::rank::Rank;
use clump_hlrc::deposit::{DepositConfig, DepositLayout, DepositRank, PAGE_BYTES, PageBytes};
use clump_hlrc::testing::{Op, Oracle};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Homes of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placing {
    /// Page by page, each node in turn.
    Cyclic,
    /// The node that uses a page first.
    FirstUse,
    /// All at the first node.
    First,
}

/// Change of another node's memory that is on its way.
#[derive(Debug)]
pub enum Change {
    Bytes { page: u32, first: usize, bytes: Vec<u8> },
    Raise { at: u64, value: u64 },
    Word { at: u64, value: u64 },
    Grant { at: u64, bits: u64 },
}

/// Operation on its way.
#[derive(Debug)]
pub struct Flight {
    pub thread: usize,
    pub node: u16,
    pub number: u64,
    /// It comes behind all of this thread to this node with numbers below.
    pub behind: u64,
    pub change: Change,
}

/// Memory of a node.
#[derive(Default)]
pub struct NodeMemory {
    pub words: HashMap<u64, u64>,
    pub frames: BTreeMap<u32, Box<PageBytes>>,
    pub twins: BTreeMap<u32, Box<PageBytes>>,
    /// Pages, and parts of their copies, that have memory.
    pub committed: BTreeSet<(u32, u8)>,
}

impl NodeMemory {
    pub fn word(&self, at: u64) -> u64 {
        self.words.get(&at).copied().unwrap_or(0)
    }

    pub fn frame(&mut self, page: u32) -> &mut PageBytes {
        self.frames.entry(page).or_insert_with(|| Box::new([0; PAGE_BYTES]))
    }
}

/// Figures of a run.
#[derive(Debug, Default, Clone)]
pub struct Counts {
    pub fetches: u64,
    /// Pages fetched ahead of their use.
    pub ahead: u64,
    /// Pages written that no other node had a copy of.
    pub exclusive: u64,
    pub intervals: u64,
    /// Releases of locks that publish nothing.
    pub put_off: u64,
    pub reads: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Self) {
        self.fetches += other.fetches;
        self.ahead += other.ahead;
        self.exclusive += other.exclusive;
        self.intervals += other.intervals;
        self.put_off += other.put_off;
        self.reads += other.reads;
    }
}

/// Condition of a wait.
pub type Condition = Box<dyn Fn(&State) -> bool + Send>;

enum Thread {
    Ready,
    Blocked(Condition),
    Done,
}

/// Everything that threads share.
pub struct State {
    random: Xoshiro256PlusPlus,
    pub nodes: Vec<NodeMemory>,
    pub flights: Vec<Flight>,
    pub sent: u64,
    threads: Vec<Thread>,
    turn: usize,
    steps: u64,
    failed: Option<String>,
    pub oracle: Oracle,
    /// Locks of nodes that are taken, by node and number.
    pub locks: BTreeSet<(u16, u64)>,
    /// Locks of the job that are held.
    pub held: BTreeSet<u64>,
    /// Barriers: arrivals, their latest time, and the times of turns that are over.
    pub arrived: usize,
    pub arrival: Vec<u64>,
    pub ended: Vec<Vec<u64>>,
    pub counts: Counts,
    /// One access in so many lets others run, and one of those so many operations arrive.
    switches: u64,
    delays: usize,
}

/// A cluster, shared by its threads.
#[derive(Clone)]
pub struct Cluster {
    /// With what each thread waits for its turn by.
    state: Arc<(Mutex<State>, Vec<Condvar>)>,
    pub layout: DepositLayout,
    pub shape: (u16, u32),
    pub pages: u32,
    pub placing: Placing,
    scans: bool,
    acquires_at_faults: bool,
    /// One release of a lock in so many publishes; 0: all do.
    publishes: u64,
}

/// Steps after which a run is taken for one without end.
const MAX_STEPS: u64 = 4_000_000;

impl Cluster {
    pub fn new(seed: u64, (nodes, ranks): (u16, u32), pages: u32, placing: Placing) -> Self {
        let all = usize::from(nodes) * ranks as usize;
        let state = State {
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            nodes: (0..nodes).map(|_| NodeMemory::default()).collect(),
            flights: Vec::new(),
            sent: 0,
            threads: (0..all).map(|_| Thread::Ready).collect(),
            turn: 0,
            steps: 0,
            failed: None,
            oracle: Oracle::default(),
            locks: BTreeSet::new(),
            held: BTreeSet::new(),
            arrived: 0,
            arrival: vec![0; usize::from(nodes)],
            ended: Vec::new(),
            counts: Counts::default(),
            switches: [1, 2, 5][(seed / 3 % 3) as usize],
            delays: [2, 8, 100][(seed / 9 % 3) as usize],
        };
        let layout = DepositLayout::new(nodes, all as u32, pages);
        let state = Arc::new((Mutex::new(state), (0..all).map(|_| Condvar::new()).collect()));
        let shape = (nodes, ranks);
        let (scans, acquires_at_faults, publishes) = (false, false, 0);
        Self { state, layout, shape, pages, placing, scans, acquires_at_faults, publishes }
    }

    pub fn scanning(self, scans: bool) -> Self {
        Self { scans, ..self }
    }

    pub fn acquiring_at_faults(self, acquires_at_faults: bool) -> Self {
        Self { acquires_at_faults, ..self }
    }

    /// Lets one release of a lock in so many publish; 0: all.
    pub fn publishing_each(self, publishes: u64) -> Self {
        Self { publishes, ..self }
    }

    /// Returns true if a release publishes nothing.
    pub fn puts_off(&self) -> bool {
        let of = self.publishes;
        of != 0 && !self.lock().random.next_u64().is_multiple_of(of)
    }

    /// Keeps notices of so many intervals of each writer.
    pub fn with_slots(self, slots: u64) -> Self {
        Self { layout: self.layout.with_slots(slots), ..self }
    }

    /// Lets a thread run on at most accesses: for long programs.
    pub fn seldom_switching(self) -> Self {
        self.lock().switches = 40;
        self
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn protocol(&self, thread: usize) -> DepositRank {
        let ranks = self.shape.1 as usize;
        let config = DepositConfig {
            node: (thread / ranks) as u16,
            rank: (thread % ranks) as u32,
            first_rank: (thread / ranks * ranks) as u32,
            pages: self.pages,
            acquires_at_faults: self.acquires_at_faults,
            scans: self.scans,
        };
        DepositRank::new(config, self.layout)
    }

    pub fn scans(&self) -> bool {
        self.scans
    }

    /// Lets others run, if the seed says so.
    pub fn step(&self, thread: usize) {
        let mut state = self.lock();
        state.steps += 1;
        assert!(state.steps < MAX_STEPS, "the run does not end");
        let every = state.switches;
        if state.random.next_u64().is_multiple_of(every) {
            state.threads[thread] = Thread::Ready;
            self.pass_turn(state, thread);
        }
    }

    /// Waits until a condition holds.
    pub fn wait(&self, thread: usize, condition: Condition) {
        let mut state = self.lock();
        state.threads[thread] = Thread::Blocked(condition);
        self.pass_turn(state, thread);
    }

    /// Gives the turn to the thread that the seed names, and waits for the next one.
    fn pass_turn(&self, mut state: MutexGuard<'_, State>, thread: usize) {
        state.choose();
        self.notify(&state);
        while state.turn != thread && state.failed.is_none() {
            state = self.state.1[thread].wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        assert!(state.failed.is_none(), "another thread has failed");
    }

    fn begin(&self, thread: usize) {
        let mut state = self.lock();
        while state.turn != thread && state.failed.is_none() {
            state = self.state.1[thread].wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn end(&self, thread: usize, failed: Option<String>) {
        let mut state = self.lock();
        state.threads[thread] = Thread::Done;
        if state.failed.is_none() {
            state.failed = failed;
        }
        if state.failed.is_none() {
            state.choose();
        }
        self.notify(&state);
    }

    /// Wakes the thread whose turn it is; all behind a failure.
    fn notify(&self, state: &State) {
        let next = &self.state.1[state.turn];
        let all =
            if state.failed.is_some() { &self.state.1[..] } else { std::slice::from_ref(next) };
        all.iter().for_each(Condvar::notify_one);
    }

    /// Runs a program for each rank to its end.
    pub fn run(self, programs: &[Vec<Op>]) -> Counts {
        self.run_each(|thread, rank| programs[thread].iter().for_each(|op| rank.step(*op)))
    }

    /// Runs all ranks to the end of their work.
    #[allow(clippy::panic, reason = "that is how a test says what failed")]
    pub fn run_each(self, work: impl Fn(usize, &mut Rank) + Sync) -> Counts {
        let work = &work;
        std::thread::scope(|scope| {
            for thread in 0..self.shape.0 as usize * self.shape.1 as usize {
                let cluster = self.clone();
                scope.spawn(move || {
                    cluster.begin(thread);
                    let run = || {
                        let mut rank = Rank::new(cluster.clone(), thread);
                        work(thread, &mut rank);
                        rank.end();
                    };
                    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
                    let why = |panic: Box<dyn std::any::Any + Send>| {
                        let text = panic.downcast_ref::<String>().cloned();
                        text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
                            .unwrap_or_default()
                    };
                    cluster.end(thread, ended.err().map(why));
                });
            }
        });
        let state = self.lock();
        if let Some(why) = &state.failed {
            panic!("{why}");
        }
        assert_eq!(state.oracle.wrong(), None);
        let closed = |node: &NodeMemory| node.word(DepositLayout::CLOSED);
        let mut counts = state.counts.clone();
        counts.intervals = state.nodes.iter().map(closed).sum();
        counts
    }
}

impl State {
    fn may_arrive(&self, at: usize) -> bool {
        let flight = &self.flights[at];
        self.flights.iter().all(|other| {
            let same = other.thread == flight.thread && other.node == flight.node;
            !same || other.number >= flight.behind || other.number >= flight.number
        })
    }

    fn arrive(&mut self, at: usize) {
        let Flight { node, change, .. } = self.flights.swap_remove(at);
        let memory = &mut self.nodes[usize::from(node)];
        match change {
            Change::Bytes { page, first, bytes } => {
                memory.frame(page)[first..first + bytes.len()].copy_from_slice(&bytes);
            }
            Change::Raise { at, value } => {
                let word = memory.words.entry(at).or_default();
                *word = value.max(*word);
            }
            Change::Word { at, value } => {
                memory.words.insert(at, value);
            }
            Change::Grant { at, bits } => {
                let word = memory.words.entry(at).or_default();
                assert_eq!(*word & bits, 0, "bits that are not set");
                *word |= bits;
            }
        }
    }

    /// Lets operations arrive, and chooses the thread that goes on.
    fn choose(&mut self) {
        loop {
            let can = |thread: &Thread| match thread {
                Thread::Ready => true,
                Thread::Blocked(condition) => condition(self),
                Thread::Done => false,
            };
            let ready: Vec<_> =
                (0..self.threads.len()).filter(|&thread| can(&self.threads[thread])).collect();
            let coming: Vec<_> =
                (0..self.flights.len()).filter(|&at| self.may_arrive(at)).collect();
            let pick = self.random.next_u64() as usize;
            if !coming.is_empty() && (ready.is_empty() || pick.is_multiple_of(self.delays)) {
                self.arrive(coming[pick / self.delays % coming.len()]);
                continue;
            }
            match ready.get(pick % ready.len().max(1)) {
                Some(&thread) => self.turn = thread,
                None if self.threads.iter().all(|thread| matches!(thread, Thread::Done)) => {}
                None => self.failed = Some("all ranks wait".into()),
            }
            return;
        }
    }
}
