//! Waits of the ranks of a job, read from outside while they hang: for `clump stats --where`,
//! `clump top`, and the end of a job by a time limit.
//!
//! Ranks publish a wait when they begin to sleep for it (`clump_shm::rank::RankBlock::waits`). All
//! else is read from `/proc` and from the words of locks; nothing here asks a rank for anything. A
//! rank may have written anything there: numbers are checked, and nothing is trusted that another
//! process says about itself.

mod locks;
#[cfg(test)]
mod tests;
mod text;

pub use locks::LockState;
pub use text::lines;

use crate::rank_activity::RankActivity;
use crate::scene;
use clump_os::thread_state::{self, ThreadState};
use clump_os::{clock, procfs};
use clump_shm::node::{MEMORY_LABEL, NodeMemory};
use clump_shm::rank::{PublishedWait, RankState, WaitReason};
use clump_trace::{Counter, Snapshot};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A wait that a thread of a rank has published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Wait {
    /// The thread.
    pub thread: u32,
    /// The kind of wait, in a word.
    pub kind: String,
    /// Its aim, in words.
    pub what: String,
    /// Duration in ms.
    pub for_ms: u64,
    /// The rank that has to act, if it is one that is known.
    pub peer: Option<u32>,
    /// The collective, if it is one.
    pub collective: Option<CollectiveCall>,
}

/// A collective, as all ranks of its team number it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct CollectiveCall {
    /// The team; 0: all ranks.
    pub team: u64,
    /// True for a barrier of all ranks, which are counted by themselves.
    pub barrier: bool,
    /// Its number.
    pub number: u64,
}

/// A thread of a rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RankThread {
    /// Its number.
    pub thread: u32,
    /// Its name.
    pub name: String,
    /// Its state, in one letter.
    pub state: char,
    /// Function of the kernel in which it sleeps.
    pub kernel: Option<String>,
    /// System call in which it sleeps.
    pub call: Option<String>,
    /// Its stack by a debugger, innermost function first; empty where none was asked.
    #[serde(default)]
    pub stack: Vec<String>,
}

/// A rank at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RankWaits {
    /// The rank.
    pub rank: u32,
    /// Its node.
    pub node: u32,
    /// Its process; 0: it has not joined, or its process is not to be seen from here.
    pub pid: u32,
    /// Its activity, in words.
    pub what: String,
    /// Duration of that in ms; zero when unknown.
    pub for_ms: u64,
    /// True while it takes part in the job.
    pub is_joined: bool,
    /// The waits of its threads.
    pub waits: Vec<Wait>,
    /// Number of the last barrier of all ranks that it arrived at.
    pub last_barrier: u64,
    /// Messages that were sent to it and that it has not handled, as far as counters tell.
    pub unhandled: u64,
    /// Its threads.
    pub threads: Vec<RankThread>,
}

/// Waits of the ranks of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobWaits {
    /// The ranks, in order.
    pub ranks: Vec<RankWaits>,
    /// Locks that ranks wait for.
    pub locks: Vec<LockState>,
    /// Collectives that ranks are at.
    pub collectives: Vec<CollectiveState>,
    /// Ranks that wait for each other in a circle.
    pub circles: Vec<Vec<u32>>,
}

/// A collective that some ranks are at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CollectiveState {
    /// The collective.
    pub call: CollectiveCall,
    /// The ranks that wait in it.
    pub at: Vec<u32>,
    /// Ranks whose part they wait for, and that are not in it.
    pub awaited: Vec<u32>,
}

impl JobWaits {
    /// Reads what the ranks of these nodes of a job wait for. `known` returns in words what the
    /// caller knows better than the memory.
    pub fn observe(nodes: &[NodeMemory], known: impl Fn(u32) -> Option<String>) -> Self {
        let sent = sent_to(nodes);
        let mut ranks = Vec::new();
        for node in nodes {
            let activities = scene::observe_ranks(node, &known);
            let handled = scene::counters(node).into_iter().map(|all| handled(&all));
            let with_counts = activities.into_iter().zip(handled);
            ranks.extend(with_counts.map(|(one, handled)| {
                let sent = sent.get(&one.rank).copied().unwrap_or(0);
                of_rank(node, one, sent.saturating_sub(handled))
            }));
        }
        Self::of(ranks, locks::read(nodes))
    }

    /// Joins what nodes have read of their ranks.
    pub fn join(parts: impl IntoIterator<Item = Self>) -> Self {
        let (mut ranks, mut locks) = (Vec::new(), Vec::new());
        for part in parts {
            ranks.extend(part.ranks);
            locks.extend(part.locks);
        }
        Self::of(ranks, locks::joined(locks))
    }

    fn of(mut ranks: Vec<RankWaits>, locks: Vec<LockState>) -> Self {
        ranks.sort_by_key(|rank| rank.rank);
        let collectives = collectives(&ranks);
        let mut found = Self { ranks, locks, collectives, circles: Vec::new() };
        found.circles = circles(&found.awaited());
        found
    }

    /// Returns the ranks that others wait for, each with those, in order.
    pub fn awaited(&self) -> BTreeMap<u32, Vec<u32>> {
        let mut awaited: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for rank in &self.ranks {
            for peer in rank.waits.iter().filter_map(|wait| wait.peer) {
                awaited.entry(peer).or_default().push(rank.rank);
            }
        }
        // The words of a lock may tell its holder where those that wait cannot.
        for lock in &self.locks {
            let waiting = lock.waiting.iter().filter(|rank| lock.holder != Some(**rank));
            if let Some(holder) = lock.holder {
                awaited.entry(holder).or_default().extend(waiting);
            }
        }
        for by in awaited.values_mut() {
            by.sort_unstable();
            by.dedup();
        }
        awaited.retain(|_, by| !by.is_empty());
        awaited
    }

    /// Returns the longest wait in ms.
    pub fn longest_ms(&self) -> u64 {
        let waits = self.ranks.iter().flat_map(|rank| &rank.waits);
        waits.map(|wait| wait.for_ms).max().unwrap_or(0)
    }
}

fn of_rank(node: &NodeMemory, activity: RankActivity, unhandled: u64) -> RankWaits {
    let RankActivity { rank, what, for_ms } = activity;
    let is_joined = node.peer(rank).is_some_and(|peer| peer.state() == RankState::Joined);
    let block = node.rank(rank).filter(|_| is_joined);
    let now_ns = clock::now_ns();
    let waits = block.iter().flat_map(|block| block.waits()).map(|wait| described(&wait, now_ns));
    // A rank writes the number of its process: only one that has the job's memory is one.
    let pid = block.as_ref().map_or(0, |block| block.pid());
    let pid = if procfs::maps_memory(pid, MEMORY_LABEL) == Some(true) { pid } else { 0 };
    let threads = if pid == 0 { Vec::new() } else { thread_state::threads(pid) };
    let threads = threads.into_iter().map(|thread| {
        let ThreadState { thread, name, state, kernel, call } = thread;
        RankThread { thread, name, state, kernel, call, stack: Vec::new() }
    });
    let waits: Vec<Wait> = waits.collect();
    RankWaits {
        rank,
        node: node.node(),
        pid,
        what,
        for_ms,
        is_joined,
        waits,
        last_barrier: if is_joined { node.last_barrier(rank) } else { 0 },
        unhandled: if is_joined { unhandled } else { 0 },
        threads: threads.collect(),
    }
}

fn described(wait: &PublishedWait, now_ns: u64) -> Wait {
    let PublishedWait { thread, reason, since_ns } = *wait;
    let collective = match reason {
        WaitReason::Barrier { epoch, .. } => {
            Some(CollectiveCall { team: 0, barrier: true, number: epoch })
        }
        WaitReason::Collective { team, seq, .. } => {
            Some(CollectiveCall { team, barrier: false, number: seq })
        }
        _ => None,
    };
    Wait {
        thread,
        kind: reason.kind().into(),
        what: reason.to_string(),
        for_ms: now_ns.saturating_sub(since_ns) / 1_000_000,
        peer: reason.peer(),
        collective,
    }
}

/// Returns the messages that were sent to each rank.
fn sent_to(nodes: &[NodeMemory]) -> BTreeMap<u32, u64> {
    let mut sent: BTreeMap<u32, u64> = BTreeMap::new();
    for pair in nodes.iter().flat_map(|node| scene::traffic(node).0) {
        let messages = [pair.short[0], pair.medium[0], pair.long[0]];
        let sum = sent.entry(pair.to).or_default();
        *sum = messages.iter().fold(*sum, |sum, &count| sum.saturating_add(count));
    }
    sent
}

/// Returns the messages that a rank with these counters has given to handlers.
fn handled(counters: &Snapshot) -> u64 {
    const RECEIVED: [Counter; 12] = [
        Counter::RequestShortReceived,
        Counter::RequestMediumReceived,
        Counter::RequestLongReceived,
        Counter::ReplyShortReceived,
        Counter::ReplyMediumReceived,
        Counter::ReplyLongReceived,
        Counter::NetRequestShortReceived,
        Counter::NetRequestMediumReceived,
        Counter::NetRequestLongReceived,
        Counter::NetReplyShortReceived,
        Counter::NetReplyMediumReceived,
        Counter::NetReplyLongReceived,
    ];
    RECEIVED.iter().fold(0, |sum: u64, &one| sum.saturating_add(counters[one]))
}

fn collectives(ranks: &[RankWaits]) -> Vec<CollectiveState> {
    let mut found: BTreeMap<CollectiveCall, (Vec<u32>, Vec<u32>)> = BTreeMap::new();
    for rank in ranks {
        for wait in &rank.waits {
            let Some(call) = &wait.collective else { continue };
            let (at, awaited) = found.entry(call.clone()).or_default();
            at.push(rank.rank);
            awaited.extend(wait.peer);
        }
    }
    let state = |(call, (mut at, mut awaited)): (CollectiveCall, (Vec<u32>, Vec<u32>))| {
        at.dedup();
        if call.barrier {
            // A rank that arrived at a later one has passed it.
            let missing = ranks.iter().filter(|rank| rank.last_barrier < call.number);
            awaited = missing.map(|rank| rank.rank).collect();
        }
        awaited.retain(|rank| !at.contains(rank));
        awaited.sort_unstable();
        awaited.dedup();
        CollectiveState { call, at, awaited }
    };
    found.into_iter().map(state).collect()
}

/// Returns the circles of ranks of which each waits for the next, by the ranks that wait for each.
/// A rank that waits for several is followed to the lowest of them; every rank is in one circle at
/// most.
fn circles(awaited: &BTreeMap<u32, Vec<u32>>) -> Vec<Vec<u32>> {
    let mut next: BTreeMap<u32, u32> = BTreeMap::new();
    for (&peer, by) in awaited {
        for &rank in by {
            next.entry(rank).or_insert(peer);
        }
    }
    // By rank: the walk that came by first.
    let mut seen: BTreeMap<u32, u32> = BTreeMap::new();
    let mut found = Vec::new();
    for &start in next.keys() {
        let mut at = start;
        while let Some(&after) = next.get(&at).filter(|_| !seen.contains_key(&at)) {
            seen.insert(at, start);
            at = after;
        }
        // A walk that comes back to itself has found a circle, whose first rank is `at`.
        if seen.get(&at) == Some(&start) {
            let mut circle = vec![at];
            while let Some(&after) = circle.last().and_then(|last| next.get(last))
                && after != at
            {
                circle.push(after);
            }
            found.push(circle);
        }
    }
    found
}
