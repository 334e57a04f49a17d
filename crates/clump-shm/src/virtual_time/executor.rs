//! Executors of one-sided operations: actors behind the ranks, one for each of several virtual
//! nodes. And the words that they and the ranks of their node share.

use super::actor::{Actor, EMPTY_POLL_NS};
use super::turns::{State, time_of};
use crate::geometry::ENDPOINTS;
use crate::name::Name;
use clump_os::sync::{Ordering, Ordering::Relaxed};
use clump_virtual::CallKind;
use clump_virtual::turn::NEVER;
use std::ops::Range;
use std::time::Duration;

/// Index of an executor's endpoint at the first rank of its node: the last.
const ENDPOINT: u8 = ENDPOINTS as u8 - 1;

/// Longest time after which an executor looks again for room that nothing announces.
const LOOK: Duration = Duration::from_micros(50);

impl Actor {
    /// Returns the name of the endpoint that executes one-sided operations on a node; `None` where
    /// all ranks are of one node.
    pub fn executor_name(&self, node: u32) -> Option<Name> {
        debug_assert!(node < self.nodes(), "a node of the job");
        (self.nodes() > 1).then(|| Name::new(self.table.first_of(node) as u32, ENDPOINT, 1))
    }

    /// Returns the indices at which this actor's thread opens endpoints.
    pub fn endpoints(&self) -> Range<usize> {
        debug_assert!(usize::from(ENDPOINT) < ENDPOINTS, "an index of the table");
        if self.me < self.table.node_of.len() { 0..ENDPOINTS } else { ENDPOINT.into()..ENDPOINTS }
    }

    /// Returns the number of the actor that handles messages to an endpoint.
    pub fn number_of(&self, name: Name) -> u32 {
        let node = self.node_of(name.rank()).filter(|_| name.index() == ENDPOINT);
        let executor = node.filter(|&node| self.executor_name(node) == Some(name));
        debug_assert!(executor.is_none() || self.nodes() > 1, "else ranks need none");
        executor.map_or(name.rank(), |node| self.table.executor_of(node) as u32)
    }

    /// Returns true if an endpoint is of another virtual node.
    pub fn is_far(&self, name: Name) -> bool {
        let node = self.node_of(name.rank());
        debug_assert!(node.is_some(), "the endpoint of a rank");
        node != Some(self.node())
    }

    /// Lets an executor wait for its next message, or for a word that ranks of its node change.
    /// `looks`: it also looks again after a while, because nothing announces what it waits for.
    pub fn await_request(&self, first_due_ns: Option<u64>, looks: bool) {
        self.set_first_due(first_due_ns);
        if self.line().changed.load(Relaxed) == 0 && self.end().is_none() {
            self.suspend(State::Waits, if looks { self.nap(Some(LOOK)) } else { NEVER }, None);
        }
    }

    /// Tells the executor of this actor's node that a word has changed.
    pub fn notify_executor(&self) {
        if self.nodes() > 1 {
            debug_assert!(self.node() < self.nodes(), "a node of the job");
            self.notify(self.table.executor_of(self.node()));
        }
    }

    fn notify(&self, executor: usize) {
        let Some(line) = self.table.actors.get(executor) else {
            clump_bug::bug!("executor {executor} is to be woken, and there is none");
            return;
        };
        debug_assert!(executor >= self.table.node_of.len(), "ranks wait for words by themselves");
        line.changed.store(1, Relaxed);
        line.wake_ns.store(line.wake_ns.load(Relaxed).min(self.clock_ns()), Relaxed);
    }

    /// Returns true, once, if words may have changed.
    pub fn take_changed(&self) -> bool {
        self.line().changed.swap(0, Relaxed) != 0
    }

    /// Returns true once all ranks have left: executors follow.
    pub fn have_ranks_left(&self) -> bool {
        let left = self.table.header.left.load(Ordering::Acquire) as usize;
        debug_assert!(left <= self.table.node_of.len(), "each rank leaves once");
        left == self.table.node_of.len()
    }

    /// Leaves: the others go on.
    pub fn leave(&self) {
        debug_assert!(self.table.header.joined.load(Relaxed) > 0, "it has joined");
        debug_assert!(self.line().state.load(Relaxed) != State::Absent as u32, "it leaves once");
        self.enter(CallKind::Other);
        self.line().diverged_ns.store(self.computation.diverged_ns(), Relaxed);
        self.line().preempted_ns.store(self.computation.preempted_ns(), Relaxed);
        self.set_state(State::Absent);
        self.note_left();
        if let Some(next) = self.table.choose() {
            self.table.hand_over(next);
        }
    }

    /// Notes that a rank has left; the last one sends the executors after it.
    fn note_left(&self) {
        let ranks = self.table.node_of.len();
        if self.me < ranks {
            let left = self.table.header.left.fetch_add(1, Ordering::AcqRel) + 1;
            debug_assert!(left as usize <= ranks, "each rank leaves once");
            if left as usize == ranks {
                (ranks..self.table.actors.len()).for_each(|executor| self.notify(executor));
            }
        }
    }

    /// Orders an access to a word that ranks of a node share, and charges it: no other actor of the
    /// node acts before it.
    pub fn access_word(&self) {
        let began = self.enter(CallKind::Word);
        self.advance(EMPTY_POLL_NS);
        self.order_words();
        if began {
            self.begin_part();
        }
    }

    /// Waits until no other actor of this node can act at or before this one's time: between ranks
    /// of a node, and with their executor, words have no latency.
    pub fn order_words(&self) {
        let began = self.enter(CallKind::Word);
        while self.end().is_none() {
            self.order();
            let mine = (self.clock_ns(), self.me);
            let node = self.node();
            let others = self
                .table
                .actors
                .iter()
                .enumerate()
                .filter(|&(at, _)| at != self.me && self.table.node_of_actor(at) == Some(node));
            let first = others.map(|(at, line)| (time_of(line), at)).min();
            if first.is_none_or(|first| first > mine) {
                break;
            }
            self.set_state(State::Ready);
            self.pass_turn();
        }
        if began {
            self.begin_part();
        }
    }
}
