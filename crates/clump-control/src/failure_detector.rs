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

#[cfg(doc)]
use crate::membership_arbiter::PUT_OFF;
use crate::probe_order::{ProbeOrder, random_below};
use std::collections::VecDeque;

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
/// Missed periods of a question after which further peers are looked at.
const WIDENED: u64 = 2;
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

#[derive(Debug, Clone, Copy, Default)]
struct WatchedPeer {
    question: Option<Question>,
    silent: bool,
    /// True once it has been heard.
    known: bool,
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
    /// Every node of the job; this agent's own entry stays empty.
    peers: Vec<WatchedPeer>,
    order: ProbeOrder,
    random: u64,
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
            peers: vec![WatchedPeer::default(); nodes as usize],
            order: ProbeOrder::new(own, nodes, seed),
            random: seed ^ u64::from(own),
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
        let own = self.peers.get(self.own as usize);
        debug_assert!(own.is_some_and(|own| own.question.is_none() && !own.silent));
        for peer in &self.peers {
            debug_assert!(peer.known || !peer.silent || self.next_ns > self.starting_until_ns);
            debug_assert!(peer.question.is_none_or(|question| question.asked_ns < self.next_ns));
        }
    }

    /// Handles an authenticated message of `from`.
    pub fn handle_probe(&mut self, from: u32, probe: Heartbeat, now_ns: u64) {
        if from == self.own || from as usize >= self.peers.len() {
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
        debug_assert!(!self.peers[from as usize].silent, "who speaks is not silent");
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
        let mut widen = false;
        for node in 0..self.peers.len() {
            widen |= self.examine(node, late, now_ns);
        }
        if widen {
            self.look_further(now_ns);
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
        debug_assert!(to != self.own && (to as usize) < self.peers.len(), "peers are others");
        self.actions.push_back(DetectorAction::Send(to, probe));
    }

    /// Records a sign of life of a peer, its own or through another.
    fn handle_sign(&mut self, node: u32) {
        let Some(peer) = self.peers.get_mut(node as usize).filter(|_| node != self.own) else {
            return;
        };
        let was_silent = peer.silent;
        *peer = WatchedPeer { known: true, ..WatchedPeer::default() };
        if was_silent {
            self.actions.push_back(DetectorAction::Heard(node));
        }
        debug_assert!(self.peers[node as usize].question.is_none(), "a sign answers the question");
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
        if subject == self.own || subject == asker || subject as usize >= self.peers.len() {
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
        let Some(peer) = self.peers.get_mut(node as usize) else { return };
        let starting = !peer.known && now_ns < self.starting_until_ns;
        if !starting && !peer.silent && peer.question.is_none() {
            peer.question = Some(Question { asked_ns: now_ns, missed: 0 });
        }
    }

    /// Counts a period without an answer, and asks again. Returns true if further peers are to be
    /// looked at.
    fn examine(&mut self, at: usize, late: bool, now_ns: u64) -> bool {
        let several = self.peers.len() > 2;
        let (node, peer) = (at as u32, &mut self.peers[at]);
        let Some(question) = &mut peer.question else { return false };
        // Rule 2: this agent blames itself first.
        question.missed = if late { question.missed / 2 } else { question.missed + 1 };
        let missed = question.missed;
        let waited_ns = now_ns.saturating_sub(question.asked_ns);
        let alone = several && self.heard_ns <= question.asked_ns;
        let needed = MISSED + self.lateness + if alone { ALONE } else { 0 };
        let due = missed >= needed && waited_ns >= self.answer_limit_ns;
        if peer.silent {
            // For as long as the suspicion may be weighed, it may still be answered.
            if missed >= ASKED * MISSED {
                peer.question = None;
                return false;
            }
        } else if due {
            debug_assert!(!late, "rule 2: silence is noticed awake");
            peer.silent = true;
            self.actions.push_back(DetectorAction::Silent(node));
        }
        self.send(node, Heartbeat::Ping);
        for _ in 0..HELPERS {
            let others = self.peers.len() as u64;
            let helper = random_below(&mut self.random, others) as u32;
            if helper != self.own && helper != node {
                self.send(helper, Heartbeat::Ask(node));
            }
        }
        missed >= WIDENED && !self.peers[at].silent
    }

    /// Looks at further peers, beginning anywhere (rule 4).
    fn look_further(&mut self, now_ns: u64) {
        let open = |peer: &&WatchedPeer| peer.question.is_some() && !peer.silent;
        let mut room = FURTHER.saturating_sub(self.peers.iter().filter(open).count());
        let nodes = self.peers.len() as u32;
        let first = random_below(&mut self.random, nodes.into()) as u32;
        // They share the time of the oldest question: suspicions of one cause come together.
        let questions = self.peers.iter().filter(|peer| !peer.silent).filter_map(|p| p.question);
        let oldest = questions.max_by_key(|question| question.missed);
        for node in (0..nodes).map(|at| (first + at) % nodes) {
            if room == 0 {
                break;
            }
            if node == self.own {
                continue;
            }
            let before = self.peers[node as usize].question.is_some();
            self.doubt(node, now_ns);
            let opened = &mut self.peers[node as usize].question;
            if !before && opened.is_some() {
                *opened = oldest.map(|q| Question { missed: q.missed.min(WIDENED), ..q });
                room -= 1;
                self.send(node, Heartbeat::Ping);
            }
        }
        debug_assert!(room < FURTHER, "a question stands");
    }
}

#[cfg(test)]
mod tests;
