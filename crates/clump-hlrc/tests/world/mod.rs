//! Nodes with memories, ranks with programs, and a network that delivers in any order.

mod directed;
mod own_fetches;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use clump_hlrc::testing::{Op, Oracle};
use clump_hlrc::{
    Action, ByteReader, Config, Consistency, Diff, DiffHeader, DiffTransfer, FetchRule,
    MessageLimits, NodeMessage, NodeState, NoticeTransfer, OpenPage, PageAccess, Placement,
    RangeRule, TwinTime, WrittenPage, merge,
};

use own_fetches::{FetchNote, OwnFetch};

/// Bytes of a page in these tests.
pub const PAGE: usize = 8;

type Packet = (u16, u16, NodeMessage<Vec<u8>>);

/// Memory of one node: one copy of each page, and twins.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct NodeMemory {
    pages: Vec<Vec<u8>>,
    twins: BTreeMap<u32, Vec<u8>>,
}

/// One rank: how far it is, what it has mapped, what a scan would find.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RankRun {
    next: usize,
    waits: bool,
    kept: u8,
    mapped: BTreeMap<u32, PageAccess>,
    scanned: BTreeSet<u32>,
    /// Found by scans at releases that nobody was told of.
    logged: BTreeSet<u32>,
    /// Locks that it has given back without telling.
    idle_locks: BTreeSet<u64>,
    /// Locks that it has, and that others wait for.
    wanted_locks: BTreeSet<u64>,
    /// Pages that it has fetched by itself, and its node does not know of.
    notes: Vec<FetchNote>,
}

/// A job, at one moment.
#[derive(Clone, Debug, Hash)]
pub struct World {
    nodes: Vec<NodeState<Vec<u8>>>,
    memories: Vec<NodeMemory>,
    ranks: Vec<RankRun>,
    wire: Vec<Packet>,
    /// Fetches by ranks themselves.
    fetches: Vec<OwnFetch>,
    /// Of each node, the pages that it has said its ranks may fetch: home, and version.
    open: Vec<BTreeMap<u32, OpenPage>>,
    /// True if ranks fetch by themselves.
    own_fetches: bool,
    oracle: Oracle,
    programs: Rc<Vec<Vec<Op>>>,
    per_node: usize,
    limits: MessageLimits,
    scans: bool,
    /// True if ranks keep locks that nobody else wants.
    keeps: bool,
    diffs: DiffTransfer,
    /// Locks that others want, of ranks.
    asked: Vec<(usize, u64)>,
    /// True if the programs publish without locks.
    racy: bool,
    /// Pages that ranks have fetched by themselves.
    pub own_fetched: usize,
    /// True once a rank has followed a pointer to a byte that was not there yet.
    pub broken_pointer: bool,
}

/// Returns settings of a small job.
pub fn settings(nodes: u16, ranks: u16, pages: u32) -> Config {
    Config {
        node: 0,
        nodes,
        ranks,
        all_ranks: u32::from(nodes) * u32::from(ranks),
        pages,
        placement: Placement::Cyclic,
        consistency: Consistency::Plain,
        notices: NoticeTransfer::Push,
        fetch: FetchRule::WaitAtHome,
        twins: TwinTime::AtWrite,
        local_turns: 1,
        max_notices: 1000,
        move_after: 0,
        own_fetches: false,
    }
}

impl World {
    /// Returns a job in which nothing has happened. Programs are in the order of ranks, node by
    /// node.
    pub fn new(config: &Config, programs: &Rc<Vec<Vec<Op>>>) -> Self {
        let nodes = usize::from(config.nodes);
        let per_node = usize::from(config.ranks);
        assert_eq!(programs.len(), nodes * per_node, "each rank has a program");
        let memory = NodeMemory {
            pages: vec![vec![0; PAGE]; config.pages as usize],
            twins: BTreeMap::new(),
        };
        let state = |node| NodeState::new(Config { node, ..config.clone() });
        let states: Vec<_> = (0..config.nodes).map(state).collect();
        let all = |node: &NodeState<_>| {
            (0..config.pages).filter_map(|page| Some((page, node.open_page(page)?))).collect()
        };
        let open = states.iter().map(all).collect();
        Self {
            nodes: states,
            fetches: Vec::new(),
            open,
            own_fetches: config.own_fetches,
            memories: vec![memory; nodes],
            ranks: vec![RankRun::default(); nodes * per_node],
            wire: Vec::new(),
            oracle: Oracle::default(),
            programs: Rc::clone(programs),
            per_node,
            limits: MessageLimits { nodes: config.nodes, ranks: config.ranks, pages: config.pages },
            scans: config.twins == TwinTime::AtFetch,
            keeps: false,
            diffs: DiffTransfer::Home,
            asked: Vec::new(),
            racy: programs.iter().flatten().any(|op| matches!(op, Op::Peek(_))),
            own_fetched: 0,
            broken_pointer: false,
        }
    }

    /// Has ranks keep locks until others want them.
    pub fn keeping(mut self) -> Self {
        self.keeps = true;
        self
    }

    /// Has nodes send diffs in that way.
    pub fn sending(mut self, diffs: DiffTransfer) -> Self {
        self.diffs = diffs;
        self
    }

    /// Returns the number of messages under way.
    pub fn packets(&self) -> usize {
        self.wire.len() + self.fetches.len()
    }

    /// Returns the ranks that can make a step.
    pub fn runnable(&self) -> Vec<usize> {
        let runs = |&rank: &usize| {
            !self.ranks[rank].waits && self.ranks[rank].next < self.programs[rank].len()
        };
        (0..self.ranks.len()).filter(runs).collect()
    }

    /// Returns a rank whose next step concerns no other rank, if the job's order of steps may begin
    /// with it.
    pub fn private_step(&self) -> Option<usize> {
        self.runnable().into_iter().find(|&rank| {
            let run = &self.ranks[rank];
            let right = |addr: usize| run.mapped.get(&((addr / PAGE) as u32));
            match self.programs[rank][run.next] {
                Op::Read(addr) => right(addr).is_some(),
                Op::Write(addr, _) => right(addr) == Some(&PageAccess::Write),
                _ => false,
            }
        })
    }

    /// Returns a number that identifies this state, whatever the order of messages.
    pub fn fingerprint(&self) -> u128 {
        let digest = |salt: u64, value: &dyn Fn(&mut DefaultHasher)| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u64(salt);
            value(&mut hasher);
            hasher.finish()
        };
        let half = |salt: u64| {
            let packets = self.wire.iter().map(|packet| digest(salt, &|h| packet.hash(h)));
            let fetches = self.fetches.iter().map(|fetch| digest(salt, &|h| fetch.hash(h)));
            let sum = packets.chain(fetches).fold(0_u64, u64::wrapping_add);
            digest(salt, &|h| {
                (&self.nodes, &self.memories, &self.ranks, &self.oracle, sum).hash(h);
                self.keeps.hash(h);
            })
        };
        u128::from(half(1)) << 64 | u128::from(half(2))
    }

    /// Puts notices or a diff on the wire once more.
    pub fn duplicate(&mut self, at: usize) {
        if at < self.wire.len()
            && matches!(self.wire[at].2, NodeMessage::Notices(_) | NodeMessage::Diffs(..))
        {
            self.wire.push(self.wire[at].clone());
        }
    }

    /// Delivers the message at this place.
    pub fn deliver(&mut self, at: usize) {
        if let Some(at) = at.checked_sub(self.wire.len()) {
            self.deliver_fetch(at);
            return;
        }
        let (from, to, message) = self.wire.swap_remove(at);
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        assert_eq!(NodeMessage::decode(&self.limits, &bytes).as_ref(), Ok(&message), "as written");
        self.take_all_notes(usize::from(to));
        self.nodes[usize::from(to)].handle_message(from, message);
        self.carry_out(usize::from(to));
    }

    /// Lets a rank make its next step.
    pub fn step(&mut self, rank: usize) {
        self.make_step(rank);
        assert_eq!(self.oracle.wrong(), None, "behind a step of rank {rank}");
    }

    fn make_step(&mut self, rank: usize) {
        let node = rank / self.per_node;
        let local = (rank % self.per_node) as u16;
        let op = self.programs[rank][self.ranks[rank].next];
        match op {
            Op::Lock(lock) if self.ranks[rank].idle_locks.remove(&lock) => {
                self.oracle.enter(rank, lock);
                self.ranks[rank].next += 1;
                return;
            }
            Op::Unlock(lock) if self.may_keep(rank, lock) => {
                self.oracle.leave(rank, lock);
                let run = &mut self.ranks[rank];
                run.next += 1;
                run.idle_locks.insert(lock);
                run.logged.append(&mut run.scanned);
                return;
            }
            Op::Unlock(_) | Op::Barrier(..) | Op::Set(..) | Op::Fence => {
                self.take_all_notes(node);
                let run = &mut self.ranks[rank];
                run.logged.append(&mut run.scanned);
                self.note_logged(rank);
            }
            _ => {}
        }
        if !matches!(op, Op::Read(_) | Op::Write(..) | Op::Peek(_) | Op::Follow(..)) {
            self.take_all_notes(node);
        }
        let state = &mut self.nodes[node];
        match op {
            Op::Read(_) | Op::Write(..) | Op::Peek(_) | Op::Follow(..) => {
                self.access(rank, op);
                return;
            }
            Op::Lock(lock) => {
                self.ranks[rank].waits = true;
                state.acquire_lock(local, lock);
            }
            Op::Barrier(barrier, members) => {
                self.ranks[rank].waits = true;
                self.oracle.arrive(rank, barrier);
                state.arrive(local, barrier, members);
            }
            Op::Await(flag, at_least) => {
                self.ranks[rank].waits = true;
                state.await_flag(local, flag, at_least);
            }
            Op::Place(first, pages) => {
                self.ranks[rank].waits = true;
                assert!(state.place_for(local, first, pages, RangeRule::On(1)), "it is new");
            }
            Op::Unlock(lock) => {
                self.ranks[rank].next += 1;
                self.oracle.leave(rank, lock);
                state.release_lock(local, lock);
            }
            Op::Set(flag, value) => {
                self.ranks[rank].next += 1;
                self.oracle.set(rank, flag, value);
                state.set_flag(local, flag, value);
            }
            Op::Fence => {
                self.ranks[rank].next += 1;
                state.fence(local);
            }
        }
        self.carry_out(node);
    }

    /// Returns true if a rank releases a lock without a report: no rank waits for it, and the rank
    /// publishes its writes later.
    fn may_keep(&mut self, rank: usize, lock: u64) -> bool {
        let run = &mut self.ranks[rank];
        let later = &self.programs[rank][run.next + 1..];
        let publishes =
            |op: &Op| matches!(op, Op::Unlock(_) | Op::Barrier(..) | Op::Set(..) | Op::Fence);
        !run.wanted_locks.remove(&lock) && self.keeps && later.iter().any(publishes)
    }

    /// Reports to the node the writes that scans at releases have found.
    fn note_logged(&mut self, rank: usize) {
        let (node, local) = (rank / self.per_node, (rank % self.per_node) as u16);
        for page in std::mem::take(&mut self.ranks[rank].logged) {
            self.nodes[node].note_written(local, page);
        }
    }

    /// Takes a lock that others wait for from a rank that keeps it, or recalls it.
    fn ask_for_lock(&mut self, rank: usize, lock: u64) {
        let run = &mut self.ranks[rank];
        if run.idle_locks.remove(&lock) {
            self.note_logged(rank);
            let local = (rank % self.per_node) as u16;
            self.nodes[rank / self.per_node].take_lock_back(local, lock);
        } else {
            run.wanted_locks.insert(lock);
        }
    }

    /// Reads or writes, or has the rank wait for the page.
    fn access(&mut self, rank: usize, op: Op) {
        let node = rank / self.per_node;
        let (addr, needed) = match op {
            Op::Write(addr, _) => (addr, PageAccess::Write),
            Op::Read(addr) | Op::Peek(addr) | Op::Follow(addr, _) => (addr, PageAccess::Read),
            _ => return,
        };
        let page = (addr / PAGE) as u32;
        // Where writes are found by scans, the right to read is enough.
        let enough = if self.scans { PageAccess::Read } else { needed };
        if self.ranks[rank].mapped.get(&page).is_none_or(|&had| had < enough) {
            if self.own_fetches && self.fetch_own(rank, page, enough) {
                return;
            }
            self.take_all_notes(node);
            self.ranks[rank].waits = true;
            let local = (rank % self.per_node) as u16;
            self.nodes[node].handle_fault(local, page, enough);
            self.carry_out(node);
            return;
        }
        let byte = &mut self.memories[node].pages[page as usize][addr % PAGE];
        let run = &mut self.ranks[rank];
        run.next += 1;
        match op {
            Op::Write(_, value) => {
                *byte = value;
                if !self.racy {
                    self.oracle.write(rank, addr, value);
                }
                if self.scans {
                    run.scanned.insert(page);
                }
            }
            Op::Peek(_) => run.kept = *byte,
            Op::Follow(_, value) => {
                self.broken_pointer |= run.kept == value && *byte != value;
            }
            _ => assert_eq!(*byte, self.oracle.read(rank, addr), "rank {rank} read byte {addr}"),
        }
    }

    /// Carries out a node's actions.
    fn carry_out(&mut self, node: usize) {
        loop {
            while let Some(action) = self.nodes[node].poll_action() {
                self.act(node, action);
            }
            let Some((rank, lock)) = self.asked.pop() else { break };
            self.ask_for_lock(rank, lock);
        }
        self.nodes[node].check_invariants();
        self.check_open(node);
        assert_eq!(self.oracle.wrong(), None, "behind an event of node {node}");
    }

    fn act(&mut self, node: usize, action: Action<Vec<u8>>) {
        let memory = &mut self.memories[node];
        let from = node as u16;
        match action {
            Action::Send { to, message } => self.wire.push((from, to, message)),
            Action::SendDiffs { to, header, pages } => {
                self.send_diffs((from, to), &header, &pages);
            }
            Action::SendPage { to, page, version, time } => {
                let payload = memory.pages[page as usize].clone();
                self.wire.push((from, to, NodeMessage::Page { page, version, time, payload }));
            }
            Action::MakeTwin { page } => {
                let copy = memory.pages[page as usize].clone();
                assert!(memory.twins.insert(page, copy).is_none(), "page {page} has a twin");
            }
            Action::DropTwin { page } => {
                assert!(memory.twins.remove(&page).is_some(), "page {page} has no twin");
            }
            Action::Merge { page, payload, keep_twin } => {
                let bytes = &mut memory.pages[page as usize];
                match memory.twins.get_mut(&page) {
                    Some(twin) => merge(bytes, twin, &payload),
                    None => bytes.clone_from(&payload),
                }
                if keep_twin {
                    memory.twins.insert(page, payload);
                }
            }
            Action::Apply { page, payload } => {
                let diff = Diff::decode(PAGE as u32, &mut ByteReader::new(&payload));
                assert!(!memory.twins.contains_key(&page), "home page {page} has a twin");
                assert!(diff.is_ok(), "a diff that was encoded");
                diff.unwrap_or_default().apply(&mut memory.pages[page as usize]);
            }
            Action::Map { rank, page, access } => {
                let run = &mut self.ranks[node * self.per_node + usize::from(rank)];
                run.mapped.insert(page, access);
                run.waits = false;
            }
            Action::Downgrade { rank, page } => {
                let run = &mut self.ranks[node * self.per_node + usize::from(rank)];
                run.mapped.insert(page, PageAccess::Read);
            }
            Action::Invalidate { rank, page } => {
                let run = &mut self.ranks[node * self.per_node + usize::from(rank)];
                assert!(run.mapped.remove(&page).is_some(), "page {page} was mapped");
            }
            Action::AskLock { rank, lock } => {
                self.asked.push((node * self.per_node + usize::from(rank), lock));
            }
            Action::Resume { rank, wait: _ } => {
                self.resume(node * self.per_node + usize::from(rank));
            }
        }
    }

    fn send_diffs(&mut self, (from, to): (u16, u16), header: &DiffHeader, pages: &[WrittenPage]) {
        let NodeMemory { pages: bytes, twins } = &mut self.memories[usize::from(from)];
        let mut diffs = Vec::new();
        for &of in pages {
            let page = &bytes[of.page as usize];
            let twin = twins.insert(of.page, page.clone());
            assert!(twin.is_some(), "page {} has no twin", of.page);
            diffs.push((of, Diff::between(&twin.unwrap_or_default(), page)));
        }
        // Two pages share a message, and three do not.
        for message in self.diffs.messages(2 * (25 + PAGE + 4), header, diffs) {
            self.wire.push((from, to, message));
        }
    }

    /// Continues a rank behind a lock, a barrier or a flag.
    fn resume(&mut self, rank: usize) {
        let run = &mut self.ranks[rank];
        assert!(run.waits, "rank {rank} waits");
        run.waits = false;
        match self.programs[rank][run.next] {
            Op::Lock(lock) => {
                self.oracle.enter(rank, lock);
                run.wanted_locks.remove(&lock);
                if self.nodes[rank / self.per_node].is_lock_wanted(lock) {
                    run.wanted_locks.insert(lock);
                }
            }
            Op::Place(..) => {}
            Op::Barrier(barrier, members) => self.oracle.depart(rank, barrier, members),
            Op::Await(flag, at_least) => self.oracle.reached(rank, flag, at_least),
            other => assert!(run.mapped.is_empty(), "rank {rank} waits for no {other:?}"),
        }
        run.next += 1;
    }

    /// Asserts that all ranks are done, nothing is under way, and homes have the last bytes.
    pub fn check_end(&self) {
        for (rank, run) in self.ranks.iter().enumerate() {
            let program = &self.programs[rank];
            assert_eq!(run.next, program.len(), "rank {rank} waits at {:?}", program.get(run.next));
        }
        for (number, node) in self.nodes.iter().enumerate() {
            assert!(node.is_quiet(), "node {number} waits for something: {node:?}");
        }
        for (addr, value) in self.oracle.bytes() {
            let page = (addr / PAGE) as u32;
            let home = self.nodes.iter().find_map(|node| node.home_of(page)).unwrap_or(0);
            let home = self.nodes[usize::from(home)].home_of(page).unwrap_or(home);
            let found = self.memories[usize::from(home)].pages[page as usize][addr % PAGE];
            assert_eq!(found, value, "byte {addr} at home {home}");
        }
    }

    /// Returns the largest log of notices.
    pub fn most_notices(&self) -> usize {
        self.nodes.iter().map(NodeState::notices).max().unwrap_or(0)
    }
}
