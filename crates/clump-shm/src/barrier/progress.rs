//! One rank's way through a barrier: arrive, see its node complete, tell other nodes, hear from
//! them.

use super::lines::Lines;
use super::rounds::{Round, rounds};
use clump_os::fence::{self, FenceKind};
use std::ops::Range;

/// Who is where: the ranks of a node follow each other, and the lowest is spoken to for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRanks {
    /// This rank.
    pub me: usize,
    /// The node of this rank.
    pub node: usize,
    /// The ranks of every node.
    pub ranks: Vec<Range<usize>>,
}

/// A message to be sent: this rank's node, and all it has heard from, arrived at barrier `epoch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BarrierMessage {
    /// The lowest rank of the node that is to be told.
    pub rank: u32,
    /// The number of the barrier.
    pub epoch: u64,
}

/// What keeps a barrier from being complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// This rank of the node has not arrived.
    Rank(usize),
    /// This node has not told, so one of its ranks has not arrived (or, above [`super::DIRECT`]
    /// nodes, of one from which it has not heard).
    Node(usize),
}

/// One rank's part in the barriers of its job. After [`BarrierProgress::arrive`], call
/// [`BarrierProgress::complete`] until it is true, and after each look that says no send what
/// [`BarrierProgress::poll_message`] gives, confirming each with [`BarrierProgress::told`].
#[derive(Debug)]
pub struct BarrierProgress {
    lines: Lines,
    me: usize,
    /// The other ranks of the node, from this one on: neighbours look at different lines first.
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
    /// The lowest rank of each node.
    first: Vec<u32>,
    rounds: Vec<Round>,
    /// The round that this rank looks at; all before are complete.
    at: usize,
    /// How many of this round's nodes were heard.
    heard: usize,
    /// True if somebody of this node tells this round's nodes.
    claimed: bool,
    /// If it is this rank: how many of them it has told.
    told: Option<usize>,
}

impl BarrierProgress {
    /// The part of rank `places.me` in barriers over `lines`.
    ///
    /// `None` when the lines are too few for these places.
    pub fn new(lines: &Lines, places: &NodeRanks) -> Option<Self> {
        let (ranks, nodes) = lines.size();
        let local = places.ranks.get(places.node)?;
        let in_order = places.ranks.iter().all(|of| !of.is_empty() && of.end <= ranks);
        if !in_order || places.ranks.len() > nodes || !local.contains(&places.me) {
            return None;
        }
        let others = (places.me + 1..local.end).chain(local.start..places.me).collect();
        let between = (places.ranks.len() > 1).then(|| Box::new(Between::new(places)));
        Some(Self { lines: lines.clone(), me: places.me, others, epoch: 0, seen: 0, between })
    }

    /// The number of the barrier that this rank arrived at last.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Arrives at the next barrier. True: all others have arrived and some sleep, wake them.
    #[inline]
    #[must_use]
    pub fn arrive(&mut self, fence: FenceKind) -> bool {
        self.epoch += 1;
        self.seen = 0;
        if let Some(between) = &mut self.between {
            between.begin();
        }
        self.lines.arrive(self.me, self.epoch);
        fence::light(fence);
        self.lines.anyone_asleep() && self.must_wake()
    }

    /// Two last arrivals could each miss the other; the full fence lets at least one see both.
    #[cold]
    fn must_wake(&mut self) -> bool {
        fence::full();
        let from = self.between.iter().flat_map(|between| between.from());
        self.others.iter().all(|&rank| self.lines.arrived(rank) >= self.epoch)
            && from.into_iter().all(|node| self.lines.last_arrival_of(node) >= self.epoch)
    }

    /// Returns true if everybody has arrived, on all nodes, and what this rank has to tell is told.
    #[inline]
    pub fn complete(&mut self) -> bool {
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

    /// The next message that this rank has to send now.
    #[inline]
    pub fn poll_message(&self) -> Option<BarrierMessage> {
        let between = self.between.as_ref()?;
        let to = *between.rounds.get(between.at)?.to.get(between.told?)?;
        Some(BarrierMessage { rank: *between.first.get(to)?, epoch: self.epoch })
    }

    /// That message was sent.
    pub fn on_message_sent(&mut self) {
        if let Some(between) = &mut self.between {
            between.told = between.told.map(|told| told + 1);
        }
    }

    /// What is missing, while [`BarrierProgress::complete`] is false.
    pub fn missing(&self) -> Option<Missing> {
        if let Some(&rank) = self.others.get(self.seen) {
            return Some(Missing::Rank(rank));
        }
        let between = self.between.as_ref()?;
        let from = &between.rounds.get(between.at)?.from;
        from.get(between.heard).map(|&node| Missing::Node(node))
    }

    /// Announces that this rank will sleep in the barrier; before it announces itself to its park.
    pub fn announce_sleep(&self) {
        self.lines.announce_sleep();
    }

    /// Takes the announcement back.
    pub fn awake(&self) {
        self.lines.awake();
    }
}

impl Between {
    fn new(places: &NodeRanks) -> Self {
        let first = places.ranks.iter().map(|of| of.start as u32).collect();
        let rounds = rounds(places.node, places.ranks.len());
        let node = places.node;
        Self { node, first, rounds, at: 0, heard: 0, claimed: false, told: None }
    }

    fn begin(&mut self) {
        (self.at, self.heard, self.claimed, self.told) = (0, 0, false, None);
    }

    /// All nodes that tell this one, in any round.
    fn from(&self) -> impl Iterator<Item = usize> + '_ {
        self.rounds.iter().flat_map(|round| round.from.iter().copied())
    }

    /// The node is complete: goes on through the rounds as far as they have come.
    #[inline(never)]
    fn complete(&mut self, lines: &Lines, epoch: u64) -> bool {
        while let Some(round) = self.rounds.get(self.at) {
            if !self.claimed {
                self.claimed = true;
                self.told = lines.claim(self.node, epoch, self.at).then_some(0);
            }
            // Whoever undertook to tell does so before it goes on: nobody else will.
            if self.told.is_some_and(|told| told < round.to.len()) {
                return false;
            }
            while let Some(&from) = round.from.get(self.heard) {
                if lines.last_arrival_of(from) < epoch {
                    return false;
                }
                self.heard += 1;
            }
            (self.at, self.heard, self.claimed, self.told) = (self.at + 1, 0, false, None);
        }
        true
    }
}

/// The part of a node's lowest rank in hearing from others, for the handlers of its endpoint.
#[derive(Debug, Clone)]
pub struct Listener {
    lines: Lines,
    places: NodeRanks,
    from: Vec<usize>,
}

impl Listener {
    /// The listening part of rank `places.me`, which [`BarrierProgress::new`] accepted.
    pub fn new(lines: &Lines, places: &NodeRanks) -> Self {
        let from = rounds(places.node, places.ranks.len());
        let from = from.into_iter().flat_map(|round| round.from).collect();
        Self { lines: lines.clone(), places: places.clone(), from }
    }

    /// Rank `rank` told that its node arrived at barrier `epoch`. True: that was the last that was
    /// missing and some sleep, wake them.
    ///
    /// # Errors
    /// No rank of another node that tells this one could have said so.
    pub fn handle_message(
        &self,
        rank: usize,
        epoch: u64,
        fence: FenceKind,
    ) -> Result<bool, &'static str> {
        let node = self.node_of(rank).filter(|node| self.from.contains(node));
        let node = node.ok_or("a barrier was told by a node that has nothing to tell here")?;
        let mine = self.lines.arrived(self.places.me);
        // A node is one barrier ahead at most: it needed this one to complete the one before.
        if epoch > mine + 1 {
            return Err("a barrier was told that nobody can have come to");
        }
        self.lines.record_arrival(node, epoch);
        fence::light(fence);
        Ok(self.lines.anyone_asleep() && self.must_wake(mine))
    }

    /// As in [`BarrierProgress::must_wake`]. Who sleeps does so in the barrier that this rank is
    /// in: in an earlier one nobody sleeps any more, and in a later one nobody can be before this
    /// rank is.
    #[cold]
    fn must_wake(&self, epoch: u64) -> bool {
        fence::full();
        let mut local = self.places.ranks[self.places.node].clone();
        local.all(|rank| self.lines.arrived(rank) >= epoch)
            && self.from.iter().all(|&node| self.lines.last_arrival_of(node) >= epoch)
    }

    /// A rank of `node` that left before barrier `epoch`, if one is known.
    pub fn who_left(&self, node: usize, epoch: u64) -> Option<usize> {
        let mut ranks = self.places.ranks.get(node)?.clone();
        ranks.find(|&rank| (1..epoch).contains(&self.lines.arrived(rank)))
    }

    /// The rank that listens.
    pub fn me(&self) -> usize {
        self.places.me
    }

    fn node_of(&self, rank: usize) -> Option<usize> {
        self.places.ranks.iter().position(|of| of.contains(&rank))
    }
}
