//! One rank's progress through a barrier: arrive, see its node complete, notify other nodes,
//! receive their messages.

use super::lines::Lines;
use super::rounds::{Round, rounds};
use crate::rank_map::RankMap;
use clump_os::fence::{self, FenceKind};
use std::ops::Range;

/// A message to be sent: this rank's node, and all nodes that notified it, arrived at barrier
/// `epoch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BarrierMessage {
    /// The lowest rank of the node to notify.
    pub rank: u32,
    /// The number of the barrier.
    pub epoch: u64,
}

/// The rank or node that keeps a barrier from being complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// This rank of the node has not arrived.
    Rank(u32),
    /// This node has sent no message, so one of its ranks has not arrived (or, above
    /// [`super::DIRECT`] nodes, a rank of a node that has not notified this one).
    Node(u32),
}

/// One rank's part in the barriers of its job. After [`BarrierProgress::arrive`], call
/// [`BarrierProgress::complete`] until it is true. After each false, send the message that
/// [`BarrierProgress::poll_message`] returns, and confirm it with
/// [`BarrierProgress::on_message_sent`].
#[derive(Debug)]
pub struct BarrierProgress {
    lines: Lines,
    /// The lowest rank of the node, and the line of this one.
    lowest: u32,
    me: usize,
    /// The lines of the other ranks of the node, from this one on: neighbours check different lines
    /// first.
    others: Box<[usize]>,
    epoch: u64,
    /// The first of `others` not seen at `epoch`.
    seen: usize,
    /// The part between nodes; `None` in a job of one.
    between: Option<Box<Between>>,
}

#[derive(Debug)]
struct Between {
    node: usize,
    map: RankMap,
    rounds: Vec<Round>,
    /// The current round; all before are complete.
    at: usize,
    /// Number of this round's nodes whose messages have arrived.
    received: usize,
    /// True if a rank of this node has claimed this round's messages.
    claimed: bool,
    /// Number of messages sent, if this rank claimed them.
    sent: Option<usize>,
}

impl BarrierProgress {
    /// Creates the part of rank `me` of `map` in barriers over `lines`, those of its node.
    ///
    /// Returns `None` when the lines do not fit the map, or no such rank.
    pub fn new(lines: &Lines, map: &RankMap, me: u32) -> Option<Self> {
        let node = map.node_of(me);
        let local = map.ranks_of(node);
        if lines.size() != (local.len(), map.nodes() as usize) || !local.contains(&me) {
            return None;
        }
        let (lowest, ranks, me) = (local.start, local.len(), (me - local.start) as usize);
        let others: Box<[usize]> = (me + 1..ranks).chain(0..me).collect();
        debug_assert_eq!(others.len() + 1, ranks, "this rank and the others are the node");
        let between = (map.nodes() > 1).then(|| Box::new(Between::new(map, node as usize)));
        Some(Self { lines: lines.clone(), lowest, me, others, epoch: 0, seen: 0, between })
    }

    /// Returns the number of the barrier that this rank arrived at last.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Arrives at the next barrier. Returns true if all others have arrived and some sleep: wake
    /// them.
    #[inline]
    #[must_use]
    pub fn arrive(&mut self, fence: FenceKind) -> bool {
        self.epoch += 1;
        self.seen = 0;
        if let Some(between) = &mut self.between {
            between.begin();
        }
        debug_assert!(!self.others.contains(&self.me), "a rank does not wait for itself");
        debug_assert!(self.lines.arrived(self.me) < self.epoch, "a line only grows");
        self.lines.arrive(self.me, self.epoch);
        fence::light(fence);
        self.lines.anyone_asleep() && self.must_wake()
    }

    /// Returns true if all have arrived. Two last arrivals could each miss the other; the full
    /// fence lets at least one see both.
    #[cold]
    fn must_wake(&mut self) -> bool {
        fence::full();
        debug_assert!(self.epoch != 0 && self.seen == 0, "checked right after the arrival");
        let from = self.between.iter().flat_map(|between| between.from());
        self.others.iter().all(|&rank| self.lines.arrived(rank) >= self.epoch)
            && from.into_iter().all(|node| self.lines.last_arrival_of(node) >= self.epoch)
    }

    /// Returns true if all ranks have arrived, on all nodes, and this rank's messages are sent.
    #[inline]
    pub fn complete(&mut self) -> bool {
        debug_assert!(self.epoch != 0, "no barrier is complete before the first arrival");
        while let Some(&other) = self.others.get(self.seen) {
            if self.lines.arrived(other) < self.epoch {
                return false;
            }
            self.seen += 1;
        }
        match &mut self.between {
            None => true,
            Some(between) => between.complete(&self.lines, self.epoch),
        }
    }

    /// Returns the next message that this rank has to send now.
    #[inline]
    pub fn poll_message(&self) -> Option<BarrierMessage> {
        let between = self.between.as_ref()?;
        let to = *between.rounds.get(between.at)?.to.get(between.sent?)?;
        debug_assert_ne!(to, between.node, "a node does not notify itself");
        debug_assert_eq!(self.seen, self.others.len(), "a node is announced when it is complete");
        Some(BarrierMessage { rank: between.map.ranks_of(to as u32).start, epoch: self.epoch })
    }

    /// Confirms that the message of [`BarrierProgress::poll_message`] was sent.
    pub fn on_message_sent(&mut self) {
        debug_assert!(self.poll_message().is_some(), "a message was due");
        if let Some(between) = &mut self.between {
            between.sent = between.sent.map(|sent| sent + 1);
        }
        self.check_invariants();
    }

    /// Returns what is missing, while [`BarrierProgress::complete`] is false.
    pub fn missing(&self) -> Option<Missing> {
        if let Some(&at) = self.others.get(self.seen) {
            return Some(Missing::Rank(self.lowest + at as u32));
        }
        let between = self.between.as_ref()?;
        let from = &between.rounds.get(between.at)?.from;
        from.get(between.received).map(|&node| Missing::Node(node as u32))
    }

    /// Asserts the relations between the fields, for tests and after rare steps.
    pub fn check_invariants(&self) {
        debug_assert!(self.seen <= self.others.len(), "at most all others are seen");
        debug_assert!(self.epoch != 0 || self.seen == 0, "none is seen before the first arrival");
        if let Some(between) = &self.between {
            between.check_invariants();
            debug_assert!(
                !between.has_begun() || self.seen == self.others.len(),
                "a rank announces what it has seen: its node is complete before the first round"
            );
        }
    }

    /// Announces that this rank will sleep in the barrier. To be called before it announces itself
    /// to its park.
    pub fn announce_sleep(&self) {
        self.lines.announce_sleep();
    }

    /// Withdraws the announcement.
    pub fn awake(&self) {
        self.lines.awake();
    }
}

impl Between {
    fn new(map: &RankMap, node: usize) -> Self {
        let rounds = rounds(node, map.nodes() as usize);
        debug_assert!(!rounds.is_empty(), "several nodes notify each other");
        let map = map.clone();
        Self { node, map, rounds, at: 0, received: 0, claimed: false, sent: None }
    }

    /// Returns true if this rank has begun with the messages of a barrier.
    fn has_begun(&self) -> bool {
        self.at != 0 || self.claimed
    }

    fn check_invariants(&self) {
        debug_assert!(self.at <= self.rounds.len(), "no more rounds are complete than there are");
        debug_assert!(
            self.claimed || self.sent.is_none(),
            "the notifying rank has claimed the round"
        );
        debug_assert!(
            self.claimed || self.received == 0,
            "a round is claimed before it is received"
        );
        let (to, from) =
            self.rounds.get(self.at).map_or((0, 0), |round| (round.to.len(), round.from.len()));
        debug_assert!(self.sent.is_none_or(|sent| sent <= to), "no node is notified twice");
        debug_assert!(self.received <= from, "no node notifies twice in a round");
        debug_assert!(
            self.received == 0 || self.sent.is_none_or(|sent| sent == to),
            "a rank notifies all before it receives"
        );
    }

    fn begin(&mut self) {
        (self.at, self.received, self.claimed, self.sent) = (0, 0, false, None);
    }

    /// Returns all nodes that notify this one, in any round.
    fn from(&self) -> impl Iterator<Item = usize> + '_ {
        self.rounds.iter().flat_map(|round| round.from.iter().copied())
    }

    /// Advances through the rounds as far as messages have arrived. To be called once the node is
    /// complete.
    #[inline(never)]
    fn complete(&mut self, lines: &Lines, epoch: u64) -> bool {
        while let Some(round) = self.rounds.get(self.at) {
            if !self.claimed {
                self.claimed = true;
                self.sent = lines.claim(self.node, epoch, self.at).then_some(0);
            }
            // The rank that claimed the messages sends them first: no other rank will.
            if self.sent.is_some_and(|sent| sent < round.to.len()) {
                return false;
            }
            while let Some(&from) = round.from.get(self.received) {
                if lines.last_arrival_of(from) < epoch {
                    return false;
                }
                self.received += 1;
            }
            self.check_invariants();
            (self.at, self.received, self.claimed, self.sent) = (self.at + 1, 0, false, None);
        }
        true
    }
}

/// The part of a node's lowest rank in receiving messages, for the handlers of its endpoint.
#[derive(Debug, Clone)]
pub struct Listener {
    lines: Lines,
    map: RankMap,
    me: u32,
    /// Nodes that notify this one, in any round.
    from: Vec<usize>,
}

impl Listener {
    /// Creates the listening part of rank `me`, which [`BarrierProgress::new`] accepted.
    pub fn new(lines: &Lines, map: &RankMap, me: u32) -> Self {
        let node = map.node_of(me) as usize;
        let from = rounds(node, map.nodes() as usize);
        let from: Vec<usize> = from.into_iter().flat_map(|round| round.from).collect();
        debug_assert!(!from.contains(&node), "no node notifies itself");
        debug_assert!(me < map.ranks(), "a rank of the job");
        Self { lines: lines.clone(), map: map.clone(), me, from }
    }

    /// Handles the message of `rank` that its node arrived at barrier `epoch`. Returns true if it
    /// was the last that was missing and some ranks sleep: wake them.
    ///
    /// # Errors
    /// No rank of another node that notifies this one could have sent it.
    pub fn handle_message(
        &self,
        rank: u32,
        epoch: u64,
        fence: FenceKind,
    ) -> Result<bool, &'static str> {
        let node = self.map.node_of(rank) as usize;
        if !self.from.contains(&node) {
            return Err("a barrier message came from a node that has none to send here");
        }
        let (own, local) = self.local();
        let mine = self.lines.arrived((self.me - local.start) as usize);
        // A node is one barrier ahead at most: it needed this one to complete the one before.
        if epoch > mine + 1 {
            return Err("a barrier message announces a barrier that no rank can have reached");
        }
        debug_assert_ne!(node, own as usize, "the own line holds claims, not arrivals");
        self.lines.record_arrival(node, epoch);
        fence::light(fence);
        Ok(self.lines.anyone_asleep() && self.must_wake(mine))
    }

    /// Returns true if all have arrived, as [`BarrierProgress::must_wake`] does. Sleepers sleep in
    /// the barrier that this rank is in: all ranks have left earlier ones, and no rank can be in a
    /// later one before this rank is.
    #[cold]
    fn must_wake(&self, epoch: u64) -> bool {
        fence::full();
        let mut lines = 0..self.local().1.len();
        lines.all(|rank| self.lines.arrived(rank) >= epoch)
            && self.from.iter().all(|&node| self.lines.last_arrival_of(node) >= epoch)
    }

    /// Returns the node of the rank that listens, and its ranks.
    fn local(&self) -> (u32, Range<u32>) {
        let node = self.map.node_of(self.me);
        (node, self.map.ranks_of(node))
    }

    /// Returns the rank that listens.
    pub fn me(&self) -> u32 {
        self.me
    }
}
