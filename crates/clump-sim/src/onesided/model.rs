//! The model: the required contents of memory, and the permitted holder of each lock. It is
//! independent of requests, packets and engines.
//!
//! # Invariants
//! 1. No two additions to a word give the same value, and in the end the word is the sum of those
//!    that are known to have happened, plus no more than was requested besides.
//! 2. A part contains what its only writer put there last, once the writer has called quiet; and
//!    the data that a signal announces is there.
//! 3. No rank gets a lock while another holds it, nor after a holder died with it; its word is the
//!    last holder's; claims are served in the order in which they reached its home.
//! 4. Flags and signals never lose an addition.
//! 5. When proxies complete a rank's close handshake, all that it sent has been executed.

use super::layout::{Layout, PART, SLOT, SLOTS, TICKETS};
use crate::kernel::Time;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Word that ranks add to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum SharedSum {
    /// A ticket: the rank of its segment, and its number.
    Ticket(u32, u64),
    /// The flag of a rank's segment.
    Flag(u32),
}

#[derive(Debug, Default)]
struct Added {
    sure: u64,
    maybe: u64,
    given: HashSet<u64>,
}

#[derive(Debug, Default)]
struct LockState {
    holder: Option<u32>,
    word: u64,
    /// Rank that died with it, or may have.
    broken_by: Option<u32>,
    /// True once a rank was notified that its holder had died: it must not be granted any more.
    refused_for_good: bool,
    /// Ranks that may have a claim at home or on its way there.
    asking: u64,
    last_position: Option<u64>,
    /// Last release: by which rank, when, and whether the lock was passed to the successor.
    given_back: Option<(u32, Time, bool)>,
    /// Time of the last request of each rank.
    asked_at: BTreeMap<u32, Time>,
    /// Claims as first seen at home: turn and rank, by position.
    seen: BTreeMap<u64, (u64, u32)>,
}

/// The model of all memory and locks of a run.
#[derive(Debug)]
pub(crate) struct Model {
    ranks: u32,
    sums: BTreeMap<SharedSum, Added>,
    /// Additions that may not have happened yet, by rank that requested them and node.
    unsure: HashMap<(u32, u32), Vec<(SharedSum, u64)>>,
    /// Contents of parts, by owner and writer.
    parts: HashMap<(u32, u32), Vec<u8>>,
    /// Mailbox messages sent, by sender and receiver.
    queued: HashMap<(u32, u32), u64>,
    locks: Vec<LockState>,
    dead: u64,
    turns: u64,
    wrong: Option<String>,
    pub(crate) counts: ModelCounts,
}

/// Counts of operations done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ModelCounts {
    pub operations: u64,
    pub additions: u64,
    pub puts: u64,
    pub bytes_put: u64,
    pub gets: u64,
    pub signals: u64,
    pub signals_awaited: u64,
    pub locks_granted: u64,
    pub locks_far: u64,
    pub locks_passed: u64,
    /// Locks handed from one rank to another that had requested it before, where those and the home
    /// are on three nodes: number and total time, directly and by way of the home.
    pub handed_past: u64,
    pub handed_past_ns: u64,
    pub handed_by_home: u64,
    pub handed_by_home_ns: u64,
    pub locks_timed_out: u64,
    pub holders_dead: u64,
    pub flags_awaited: u64,
    pub quiets: u64,
    pub refused_of_dead: u64,
    pub batches: u64,
    pub gathers: u64,
    pub applies: u64,
    pub spreads: u64,
    pub words_awaited: u64,
    /// Additions that were collected in batches, and those of them that went over the grid.
    pub collected: u64,
    pub forwarded: u64,
}

impl ModelCounts {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        let Self { operations, additions, puts, bytes_put, gets, signals, signals_awaited, .. } =
            self;
        for (sum, one) in [
            (operations, other.operations),
            (additions, other.additions),
            (puts, other.puts),
            (bytes_put, other.bytes_put),
            (gets, other.gets),
            (signals, other.signals),
            (signals_awaited, other.signals_awaited),
            (&mut self.locks_granted, other.locks_granted),
            (&mut self.locks_far, other.locks_far),
            (&mut self.locks_passed, other.locks_passed),
            (&mut self.handed_past, other.handed_past),
            (&mut self.handed_past_ns, other.handed_past_ns),
            (&mut self.handed_by_home, other.handed_by_home),
            (&mut self.handed_by_home_ns, other.handed_by_home_ns),
            (&mut self.locks_timed_out, other.locks_timed_out),
            (&mut self.holders_dead, other.holders_dead),
            (&mut self.flags_awaited, other.flags_awaited),
            (&mut self.quiets, other.quiets),
            (&mut self.refused_of_dead, other.refused_of_dead),
            (&mut self.batches, other.batches),
            (&mut self.gathers, other.gathers),
            (&mut self.applies, other.applies),
            (&mut self.spreads, other.spreads),
            (&mut self.words_awaited, other.words_awaited),
            (&mut self.collected, other.collected),
            (&mut self.forwarded, other.forwarded),
        ] {
            *sum += one;
        }
    }
}

impl Model {
    /// Stands for the node of additions that interfaces forward.
    pub(crate) const SPREAD: u32 = u32::MAX;

    /// Returns the node number used for additions that a node's interface forwards: a close
    /// handshake confirms that they have reached it, and no more.
    pub(crate) fn forwarded_by(node: u32) -> u32 {
        debug_assert!(node < 1 << 16, "a node of a simulation");
        1 << 16 | node
    }

    pub(crate) fn new(ranks: u32) -> Self {
        Self {
            ranks,
            sums: BTreeMap::new(),
            unsure: HashMap::new(),
            parts: HashMap::new(),
            queued: HashMap::new(),
            locks: (0..ranks).map(|_| LockState::default()).collect(),
            dead: 0,
            turns: 0,
            wrong: None,
            counts: ModelCounts::default(),
        }
    }

    /// Records a violation; only the first is kept.
    pub(crate) fn complain(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }

    pub(crate) fn wrong(&self) -> Option<&str> {
        self.wrong.as_deref()
    }

    pub(crate) fn is_dead(&self, rank: u32) -> bool {
        self.dead >> rank & 1 != 0
    }

    /// Records the death of a rank, known to others or not.
    pub(crate) fn on_death(&mut self, rank: u32) {
        self.dead |= 1 << rank;
        for lock in &mut self.locks {
            if lock.holder == Some(rank) {
                lock.broken_by = Some(rank);
            }
        }
    }

    /// Records a requested addition. With `happened` it is known to have happened; else `node`
    /// reports that to `by` later.
    pub(crate) fn on_add(
        &mut self,
        by: u32,
        node: u32,
        (sum, operand): (SharedSum, u64),
        happened: bool,
    ) {
        self.counts.additions += 1;
        let added = self.sums.entry(sum).or_default();
        if happened {
            added.sure += operand;
        } else {
            added.maybe += operand;
            self.unsure.entry((by, node)).or_default().push((sum, operand));
        }
    }

    /// Records that an addition returned the value before it.
    pub(crate) fn on_given(&mut self, by: u32, sum: SharedSum, before: u64) {
        if !self.sums.entry(sum).or_default().given.insert(before) {
            self.complain(format!(
                "rank {by} was given {before} of {sum:?}, as somebody before it"
            ));
        }
    }

    /// Records that all requests of `by` to `node` have been executed.
    pub(crate) fn on_quiet(&mut self, by: u32, node: u32) {
        self.counts.quiets += 1;
        for (sum, operand) in self.unsure.remove(&(by, node)).unwrap_or_default() {
            let added = self.sums.entry(sum).or_default();
            (added.sure, added.maybe) = (added.sure + operand, added.maybe - operand);
        }
    }

    /// Records that all requests of `by` to `node` have been executed, also by other nodes to which
    /// its interface has forwarded them.
    pub(crate) fn on_quiet_of_all(&mut self, by: u32, node: u32) {
        self.on_quiet(by, node);
        self.on_quiet(by, Self::forwarded_by(node));
    }

    /// Records that it stays unknown which requests of `by` to `node` have been executed.
    pub(crate) fn on_unsure(&mut self, by: u32, node: u32) {
        self.unsure.remove(&(by, node));
    }

    /// Records that the proxies of a rank report that all it has handed over has arrived. None of
    /// it is owed an answer, so all of it has been executed.
    pub(crate) fn on_close(&mut self, layout: &Layout, rank: u32) {
        (0..layout.nodes()).for_each(|node| self.on_quiet(rank, node));
        let missing = self.missing_of(layout, rank);
        if let Some(first) = missing.into_iter().min() {
            self.complain(format!(
                "proxies finished the close handshake of rank {rank} too early: {first}"
            ));
        }
    }

    /// Returns the value that a word surely reaches at least.
    pub(crate) fn sure(&self, sum: SharedSum) -> u64 {
        self.sums.get(&sum).map_or(0, |added| added.sure)
    }

    /// Returns the part of `writer` in the segment of `owner`.
    pub(crate) fn part(&mut self, owner: u32, writer: u32) -> &mut Vec<u8> {
        self.parts.entry((owner, writer)).or_insert_with(|| vec![0; PART as usize])
    }

    /// Counts another mailbox message from a rank to another. Returns its number.
    pub(crate) fn next_mail(&mut self, from: u32, to: u32) -> u64 {
        let sent = self.queued.entry((from, to)).or_default();
        *sent += 1;
        self.counts.signals += 1;
        *sent
    }

    /// Returns the number of mailbox messages sent.
    pub(crate) fn queued_messages(&self, from: u32, to: u32) -> u64 {
        self.queued.get(&(from, to)).copied().unwrap_or(0)
    }

    /// Returns the content of mailbox message `n`.
    pub(crate) fn content(from: u32, n: u64) -> [u8; SLOT as usize] {
        let mut bytes = [0; SLOT as usize];
        for (index, word) in (0_u64..).zip(bytes.chunks_exact_mut(8)) {
            let value = if index == 0 { n } else { n << 16 | u64::from(from) << 8 | index };
            word.copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// Records that `to` has seen signal `n` of `from`: all mailbox messages up to it must be
    /// there.
    pub(crate) fn on_signal(&mut self, layout: &Layout, from: u32, to: u32, n: u64) {
        let sent = self.queued_messages(from, to);
        if n > sent {
            self.complain(format!("rank {to} sees signal {n} of rank {from}, which sent {sent}"));
        }
        for number in n.saturating_sub(SLOTS - 1).max(1)..=n.min(sent) {
            let mut got = [0; SLOT as usize];
            layout.cells(to).read(Layout::slot(from, number), &mut got);
            let (first, _) = got.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
            let says = u64::from_le_bytes(*first);
            // A later one may have arrived already.
            let whole = got == Self::content(from, says) || says != number;
            if !whole || says < number || says % SLOTS != number % SLOTS || says > sent {
                let what = format!(
                    "signal {n} of rank {from} arrived at rank {to} before message {number}"
                );
                return self.complain(format!("{what}: its slot has {says}, {sent} were sent"));
            }
        }
    }

    /// Records that a rank requests a lock.
    pub(crate) fn on_lock_request(&mut self, home: u32, rank: u32, now: Time) {
        let lock = &mut self.locks[home as usize];
        lock.asking |= 1 << rank;
        lock.asked_at.insert(rank, now);
    }

    /// Records that a rank got a lock.
    pub(crate) fn on_granted(&mut self, home: u32, rank: u32, (position, word): (u64, u64)) {
        self.counts.locks_granted += 1;
        let lock = &mut self.locks[home as usize];
        let wrong = match lock {
            LockState { holder: Some(holder), .. } => format!("while rank {holder} has it"),
            LockState { broken_by: Some(dead), .. } => format!("with which rank {dead} died"),
            LockState { refused_for_good: true, .. } => {
                "after a rank was notified that its holder had died".to_owned()
            }
            LockState { last_position: Some(last), .. } if *last >= position => {
                format!("at position {position}, after {last}")
            }
            _ if lock.word != word => format!("with the word {word} instead of {}", lock.word),
            _ => String::new(),
        };
        lock.holder = Some(rank);
        lock.last_position = Some(position);
        if !wrong.is_empty() {
            self.complain(format!("rank {rank} got the lock of rank {home} {wrong}"));
        }
    }

    /// Records that a rank releases a lock, with a word.
    pub(crate) fn on_release(&mut self, home: u32, rank: u32, word: u64, now: Time) {
        let lock = &mut self.locks[home as usize];
        (lock.holder, lock.word) = (None, word);
        lock.given_back = Some((rank, now, false));
    }

    /// Records that it granted the lock to its successor itself.
    pub(crate) fn on_passed(&mut self, home: u32) {
        self.counts.locks_passed += 1;
        if let Some((.., passed)) = &mut self.locks[home as usize].given_back {
            *passed = true;
        }
    }

    /// Records that a rank got a lock now, and the time of the hand-over if its request came before
    /// the release.
    pub(crate) fn on_handed(&mut self, layout: &Layout, home: u32, rank: u32, now: Time) {
        let lock = &mut self.locks[home as usize];
        let asked = lock.asked_at.get(&rank).copied().unwrap_or(now);
        let Some((by, at, passed)) = lock.given_back.take() else { return };
        let nodes = [home, rank, by].map(|rank| layout.node(rank));
        let apart = nodes[0] != nodes[1] && nodes[1] != nodes[2] && nodes[2] != nodes[0];
        if !apart || asked > at {
            return;
        }
        let counts = &mut self.counts;
        let (count, sum) = match passed {
            true => (&mut counts.handed_past, &mut counts.handed_past_ns),
            false => (&mut counts.handed_by_home, &mut counts.handed_by_home_ns),
        };
        (*count, *sum) = (*count + 1, *sum + (now - at));
    }

    /// Records that a rank was notified that a holder died with the lock.
    pub(crate) fn on_holder_died(&mut self, home: u32, rank: u32) {
        self.counts.holders_dead += 1;
        let lock = &mut self.locks[home as usize];
        lock.refused_for_good = true;
        if lock.asking & self.dead == 0 {
            self.complain(format!(
                "rank {rank} was notified that the lock of rank {home} is a dead rank's, but none has requested it"
            ));
        }
    }

    /// Checks the claims of all locks of living homes after a turn: claims are served in the order
    /// in which they arrived.
    pub(crate) fn check_lock_order(&mut self, layout: &Layout, node: u32) {
        self.turns += 1;
        for home in (0..self.ranks).filter(|&home| layout.node(home) == node) {
            let Some(view) = layout.lock(home) else { continue };
            let lock = &mut self.locks[home as usize];
            let mut holders = 0;
            for (position, rank, held) in view.claims() {
                holders += u32::from(held);
                lock.seen.entry(position).or_insert((self.turns, rank));
            }
            let mut newest = 0;
            let in_order = lock.seen.values().all(|&(turn, _)| {
                let later = turn >= newest;
                newest = newest.max(turn);
                later
            });
            // Claims before the head are settled.
            lock.seen.retain(|&position, _| position >= view.head());
            if !in_order || holders > 1 {
                let claims: Vec<_> = view.claims().collect();
                let what =
                    format!("{holders} hold the lock of rank {home}, or somebody jumped its queue");
                self.complain(format!("{what}: {claims:?}"));
            }
        }
    }

    /// Returns descriptions of data that a rank has put into segments of living ranks and that is
    /// not there, although it must be.
    fn missing_of(&self, layout: &Layout, writer: u32) -> Vec<String> {
        let mut missing = Vec::new();
        if self.is_dead(writer) {
            return missing;
        }
        for owner in (0..self.ranks).filter(|&owner| !self.is_dead(owner)) {
            if let Some(part) = self.parts.get(&(owner, writer)) {
                let mut got = vec![0; PART as usize];
                layout.cells(owner).read(Layout::part(writer), &mut got);
                let at = got.iter().zip(part).position(|(a, b)| a != b);
                let what = format!("the part of rank {writer} at rank {owner} is wrong from");
                missing.extend(at.map(|at| format!("{what} {at} on")));
            }
            let (sent, seen) =
                (self.queued_messages(writer, owner), layout.word(owner, Layout::signal(writer)));
            if seen != sent {
                missing.push(format!(
                    "signal {sent} of rank {writer} to rank {owner} is lost; it has {seen}"
                ));
            }
        }
        missing
    }

    /// Checks memory of living nodes against the model after everything has ended.
    pub(crate) fn check_end(&mut self, layout: &Layout) {
        let mut wrong = Vec::new();
        for (&sum, added) in &self.sums {
            let (owner, offset) = match sum {
                SharedSum::Ticket(owner, which) => (owner, which % TICKETS * 8),
                SharedSum::Flag(owner) => (owner, layout.flag_at()),
            };
            let word = layout.word(owner, offset);
            let (least, most) = (added.sure, added.sure + added.maybe);
            if !self.is_dead(owner) && !(least..=most).contains(&word) {
                wrong.push(format!(
                    "{sum:?} is {word}; it must be {least} at least, {most} at most"
                ));
            }
        }
        (0..self.ranks).for_each(|writer| wrong.extend(self.missing_of(layout, writer)));
        wrong.sort();
        if let Some(first) = wrong.into_iter().next() {
            self.complain(first);
        }
    }
}
