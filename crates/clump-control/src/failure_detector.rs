//! Failure detection by probes of a constant number of peers, without sockets: messages of peers
//! and times in, messages to peers and suspicions out.
//!
//! The agent reports each message of a peer ([`FailureDetector::handle_probe`]), wakes the
//! detector at [`FailureDetector::next_deadline_ns`] ([`FailureDetector::handle_timeout`], after it
//! has read its sockets), and executes [`FailureDetector::poll_action`].
//!
//! 1. In each of [`BEATS`] periods of the time after which silence counts, an agent pings one peer,
//!    in an order that all agents of a job share ([`ProbeOrder`]). A peer that does not answer
//!    within a period is *in question*: it is pinged again in each period, and [`HELPERS`] others
//!    are asked to do so too. A sign of it, also through others, answers the question.
//! 2. A peer is suspected after [`MISSED`] periods in question, and only those count that began in
//!    time. A late period halves what had been counted, and costs this agent more of them for a
//!    while: an agent that was stopped, or not scheduled, hears no peer, through no fault of
//!    theirs.
//!    One that hears none of several peers waits longer: if it is cut off, they report it first.
//! 3. A peer that has never been heard is not questioned for [`STARTING`] times the silence that
//!    counts: its agent may still be starting ranks, each of which takes it some scheduler turns on
//!    a machine that many nodes share.
//! 4. While a question stands, up to [`FURTHER`] other peers are looked at too, as if they had
//!    been asked with it, so that what suffers from one cut is reported at about the same time.
//! 5. A suspected peer that is heard again is reported.
//! 6. For its questions an agent sends [`MAX_ASKING`] messages a period at most, however many peers
//!    it does not hear: those that are not suspected yet come first.

#[cfg(doc)]
use crate::membership_arbiter::PUT_OFF;
use crate::probe_order::{ProbeOrder, random_below};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::SeedableRng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Periods in the time after which silence counts.
pub const BEATS: u64 = 12;
/// Periods that a peer must be in question before it is suspected.
pub const MISSED: u64 = 10;
/// Multiple of [`MISSED`] for which a suspected peer is asked: as long as its eviction may be put
/// off ([`PUT_OFF`]).
const ASKED: u64 = 12;
/// Multiple of the time after which silence counts, for peers that have never been heard.
pub const STARTING: u64 = 6;
/// Others that are asked in each period to probe a peer in question.
pub const HELPERS: usize = 3;
/// Peers in question because another peer is.
pub const FURTHER: usize = 16;
/// Requests of others to probe a peer that are remembered; further ones displace the oldest.
pub const RELAYS: usize = 64;
/// Messages that an agent sends for its questions in a period: an agent that is cut off would
/// otherwise send as many as it has peers when its link is back.
pub const MAX_ASKING: usize = 64;
/// Missed periods of a question after which further peers are looked at.
const WIDENED: u64 = 2;
/// Missed periods that further peers share with the oldest question, at most. Each is one less of a
/// pause that a peer may make; with none, suspicions of one cut come too far apart.
const SHARED: u64 = 1;
/// Further periods before an agent suspects peers that has heard none of several meanwhile.
const ALONE: u64 = 4;
/// Largest number of late periods remembered against this agent itself.
const MAX_LATENESS: u64 = 4;

/// A message between agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Heartbeat {
    /// Asks for an answer.
    Ping,
    /// Answers a ping.
    Ack,
    /// Asks to ping this node, and to vouch for it if it answers.
    Ask(u32),
    /// Tells that this node, which was asked about, has been heard.
    Vouch(u32),
}

/// An action of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DetectorAction {
    /// Send this message to this peer.
    Send(u32, Heartbeat),
    /// Report that this peer has not been heard for too long.
    Silent(u32),
    /// Report that this peer is heard again.
    Heard(u32),
}

/// A question whether a peer lives.
#[derive(Debug, Clone, Copy)]
struct Question {
    asked_ns: u64,
    /// Periods without an answer.
    missed: u64,
}

/// A request of `asker` to vouch for `subject`.
#[derive(Debug, Clone, Copy)]
struct Relay {
    asker: u32,
    subject: u32,
    until_ns: u64,
}

/// The probes between agents, as one of them sees them.
#[derive(Debug)]
pub struct FailureDetector {
    own: u32,
    /// For every node of the job, true once it has been heard.
    known: Vec<bool>,
    /// Questions that stand, by peer; few of many peers are in question.
    questions: BTreeMap<u32, Question>,
    /// Peers that are suspected.
    silent: BTreeSet<u32>,
    order: ProbeOrder,
    random: SplitMix64,
    answer_limit_ns: u64,
    period_ns: u64,
    start_ns: u64,
    next_ns: u64,
    starting_until_ns: u64,
    lateness: u64,
    /// Time of the last message of any peer.
    heard_ns: u64,
    relays: VecDeque<Relay>,
    actions: VecDeque<DetectorAction>,
}

impl FailureDetector {
    /// Watches the other nodes of a job of `nodes`, for node `own`; silence counts after
    /// `silence_ns`. The `seed` is the same at all nodes.
    pub fn new((own, nodes): (u32, u32), silence_ns: u64, seed: u64, now_ns: u64) -> Self {
        debug_assert!(silence_ns >= BEATS, "periods are apart");
        debug_assert!(own < nodes, "the agent is one of the job's");
        let period_ns = (silence_ns / BEATS).max(1);
        Self {
            own,
            known: vec![false; nodes as usize],
            questions: BTreeMap::new(),
            silent: BTreeSet::new(),
            order: ProbeOrder::new(own, nodes, seed),
            random: SplitMix64::seed_from_u64(seed ^ u64::from(own)),
            answer_limit_ns: period_ns * MISSED,
            period_ns,
            start_ns: now_ns,
            next_ns: now_ns,
            starting_until_ns: now_ns + STARTING * silence_ns,
            lateness: 0,
            heard_ns: now_ns,
            relays: VecDeque::new(),
            actions: VecDeque::new(),
        }
    }

    /// Asserts what always holds of the peers.
    pub fn check_invariants(&self) {
        debug_assert!(self.relays.len() <= RELAYS, "what others ask for is bounded");
        debug_assert!(self.lateness <= MAX_LATENESS, "rule 2: lateness is forgiven");
        let own = self.own;
        debug_assert!(!self.questions.contains_key(&own) && !self.silent.contains(&own));
        let starting = self.next_ns <= self.starting_until_ns;
        debug_assert!(
            !starting || self.silent.iter().all(|&node| self.is_known(node)),
            "rule 3: nobody that may be starting is suspected"
        );
        debug_assert!(self.questions.values().all(|one| one.asked_ns < self.next_ns));
    }

    fn is_known(&self, node: u32) -> bool {
        self.known.get(node as usize).copied().unwrap_or_default()
    }

    /// Handles an authenticated message of `from`.
    pub fn handle_probe(&mut self, from: u32, probe: Heartbeat, now_ns: u64) {
        if from == self.own || from as usize >= self.known.len() {
            return;
        }
        self.heard_ns = now_ns;
        self.handle_sign(from);
        self.vouch_for(from);
        match probe {
            Heartbeat::Ping => self.send(from, Heartbeat::Ack),
            Heartbeat::Ack => {}
            Heartbeat::Ask(subject) => self.handle_ask(from, subject, now_ns),
            // Late and unasked words count as well: the peer was heard since this agent asked.
            Heartbeat::Vouch(subject) if subject != from => self.handle_sign(subject),
            Heartbeat::Vouch(_) => {}
        }
        debug_assert!(!self.silent.contains(&from), "who speaks is not silent");
    }

    /// Returns the time for the next call of [`FailureDetector::handle_timeout`].
    pub fn next_deadline_ns(&self) -> u64 {
        self.next_ns
    }

    /// Begins the next period. Every message that has arrived has been reported.
    pub fn handle_timeout(&mut self, now_ns: u64) {
        if now_ns < self.next_ns {
            return;
        }
        let late = now_ns - self.next_ns >= self.period_ns;
        self.lateness = if late {
            MAX_LATENESS.min(self.lateness + 1)
        } else {
            self.lateness.saturating_sub(1)
        };
        // Periods lie on a grid, so that the agents' turns stay as they were shared out.
        let period = (now_ns - self.start_ns) / self.period_ns;
        self.next_ns = self.start_ns + (period + 1) * self.period_ns;
        self.relays.retain(|relay| relay.until_ns > now_ns);
        let widen = self.count_periods(late, now_ns);
        let room = self.ask_again();
        if widen {
            self.look_further(room, now_ns);
        }
        if let Some(peer) = self.order.peer_of(period) {
            self.doubt(peer, now_ns);
            self.send(peer, Heartbeat::Ping);
        }
        debug_assert!(self.next_ns > now_ns, "the next period lies ahead");
        self.check_invariants();
    }

    /// Returns the next action of the agent.
    pub fn poll_action(&mut self) -> Option<DetectorAction> {
        self.actions.pop_front()
    }

    fn send(&mut self, to: u32, probe: Heartbeat) {
        debug_assert!(to != self.own && (to as usize) < self.known.len(), "peers are others");
        self.actions.push_back(DetectorAction::Send(to, probe));
    }

    /// Records a sign of life of a peer, its own or through another.
    fn handle_sign(&mut self, node: u32) {
        let Some(known) = self.known.get_mut(node as usize).filter(|_| node != self.own) else {
            return;
        };
        *known = true;
        self.questions.remove(&node);
        if self.silent.remove(&node) {
            self.actions.push_back(DetectorAction::Heard(node));
        }
        debug_assert!(!self.questions.contains_key(&node), "a sign answers the question");
    }

    /// Tells those that asked about a peer that it has been heard. Words of others are not passed
    /// on: they could run in circles and outlive the peer.
    fn vouch_for(&mut self, node: u32) {
        let mut relays = std::mem::take(&mut self.relays);
        relays.retain(|relay| {
            let answered = relay.subject == node;
            if answered {
                self.send(relay.asker, Heartbeat::Vouch(node));
            }
            !answered
        });
        self.relays = relays;
        debug_assert!(self.relays.iter().all(|relay| relay.subject != node), "all are answered");
    }

    /// Pings a peer on behalf of another.
    fn handle_ask(&mut self, asker: u32, subject: u32, now_ns: u64) {
        // Nonsense of a faulty agent.
        if subject == self.own || subject == asker || subject as usize >= self.known.len() {
            return;
        }
        self.relays.retain(|relay| (relay.asker, relay.subject) != (asker, subject));
        if self.relays.len() == RELAYS {
            self.relays.pop_front();
        }
        let until_ns = now_ns + self.answer_limit_ns;
        self.relays.push_back(Relay { asker, subject, until_ns });
        debug_assert!(self.relays.len() <= RELAYS, "what others ask for is bounded");
        self.send(subject, Heartbeat::Ping);
    }

    /// Puts a peer in question, unless it is, or may still be starting (rule 3).
    fn doubt(&mut self, node: u32, now_ns: u64) {
        debug_assert_ne!(node, self.own, "an agent does not doubt itself");
        let starting = !self.is_known(node) && now_ns < self.starting_until_ns;
        if !starting && !self.silent.contains(&node) {
            let question = Question { asked_ns: now_ns, missed: 0 };
            self.questions.entry(node).or_insert(question);
        }
    }

    /// Counts a period without an answer for each question. Returns true if further peers are to be
    /// looked at.
    fn count_periods(&mut self, late: bool, now_ns: u64) -> bool {
        let several = self.known.len() > 2;
        let mut widen = false;
        let Self { questions, silent, actions, .. } = self;
        questions.retain(|&node, question| {
            // Rule 2: this agent blames itself first.
            question.missed = if late { question.missed / 2 } else { question.missed + 1 };
            let waited_ns = now_ns.saturating_sub(question.asked_ns);
            let alone = several && self.heard_ns <= question.asked_ns;
            let needed = MISSED + self.lateness + if alone { ALONE } else { 0 };
            let due = question.missed >= needed && waited_ns >= self.answer_limit_ns;
            if silent.contains(&node) {
                // For as long as the suspicion may be weighed, it may still be answered.
                return question.missed < ASKED * MISSED;
            }
            if due {
                debug_assert!(!late, "rule 2: silence is noticed awake");
                silent.insert(node);
                actions.push_back(DetectorAction::Silent(node));
            }
            widen |= question.missed >= WIDENED && !due;
            true
        });
        widen
    }

    /// Asks the peers in question again, and others about them (rule 6). Returns the number of
    /// messages that may still be sent.
    fn ask_again(&mut self) -> usize {
        let (nodes, mut room) = (self.known.len() as u64, MAX_ASKING);
        let all = self.questions.keys().copied();
        let (suspected, open): (Vec<u32>, Vec<u32>) =
            all.partition(|node| self.silent.contains(node));
        for mut peers in [open, suspected] {
            // Where there is no room for all, each has its turn.
            let first = random_below(&mut self.random, peers.len().max(1) as u64) as usize;
            peers.rotate_left(first);
            for &node in &peers {
                if room == 0 {
                    return 0;
                }
                self.send(node, Heartbeat::Ping);
                room -= 1;
            }
            for &node in std::iter::repeat_n(&peers, HELPERS).flatten() {
                let helper = random_below(&mut self.random, nodes) as u32;
                if helper != self.own && helper != node && room > 0 {
                    self.send(helper, Heartbeat::Ask(node));
                    room -= 1;
                }
            }
        }
        room
    }

    /// Looks at further peers, beginning anywhere (rule 4), with so many messages at most.
    fn look_further(&mut self, room: usize, now_ns: u64) {
        let is_open = |node: &u32| !self.silent.contains(node);
        let open = self.questions.keys().filter(|node| is_open(node)).count();
        let mut room = FURTHER.saturating_sub(open).min(room);
        let nodes = self.known.len() as u32;
        let first = random_below(&mut self.random, nodes.into()) as u32;
        // They share the time of the oldest question: suspicions of one cause come together.
        let questions = self.questions.iter().filter(|(node, _)| is_open(node)).map(|(_, one)| one);
        let oldest = questions.max_by_key(|question| question.missed).copied();
        debug_assert!(oldest.is_some(), "a question stands");
        for node in (0..nodes).map(|at| (first + at) % nodes) {
            if room == 0 {
                break;
            }
            if node == self.own || self.questions.contains_key(&node) {
                continue;
            }
            self.doubt(node, now_ns);
            if let (Some(opened), Some(oldest)) = (self.questions.get_mut(&node), oldest) {
                *opened = Question { missed: oldest.missed.min(SHARED), ..oldest };
                room -= 1;
                self.send(node, Heartbeat::Ping);
            }
        }
    }
}

#[cfg(test)]
mod tests;
