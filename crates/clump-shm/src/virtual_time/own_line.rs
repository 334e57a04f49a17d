//! The line of an actor in the table of virtual time: its clock, its messages and its turns.

use super::messages::{Arrival, PendingMessage};
use super::table::{ActorLine, BEGIN_NS, TimeTable};
use super::turns::{End, State, time_of};
use crate::node::NodeMemory;
use clump_os::futex;
use clump_os::sync::{Ordering, Ordering::Relaxed};
use clump_virtual::PageCosts;
use clump_virtual::turn::{self, NEVER};
use std::ops::Range;
use std::time::Duration;

/// Machine time between two checks for deaths of those that wait for their turn.
const DEATH_CHECK: Duration = Duration::from_millis(100);

/// The line of an actor, which its thread changes while it has the token.
#[derive(Debug)]
pub struct OwnLine {
    pub(super) table: TimeTable,
    pub(super) node: NodeMemory,
    /// Its number: a rank's, or that of an executor behind all ranks.
    pub(super) me: usize,
}

impl OwnLine {
    /// Returns the number of virtual nodes.
    pub fn nodes(&self) -> u32 {
        self.table.nodes
    }

    /// Returns the virtual node of a rank.
    pub fn node_of(&self, rank: u32) -> Option<u32> {
        self.table.node_of.get(rank as usize).copied()
    }

    /// Returns the virtual node of this actor.
    pub fn node(&self) -> u32 {
        self.table.node_of_actor(self.me).unwrap_or(0)
    }

    /// Returns the ranks of a virtual node.
    pub fn ranks_of(&self, node: u32) -> Range<u32> {
        let [first, end] = [node, node + 1].map(|node| self.table.first_of(node) as u32);
        debug_assert!(first < end, "each node has a rank");
        first..end
    }

    /// Returns how the job ended early, if it did: then clocks stand still.
    pub fn end(&self) -> Option<End> {
        self.table.end()
    }

    /// Notes the time limit of sends: a wait of that length is no deadlock.
    pub fn note_send_timeout(&self, timeout: Option<Duration>) {
        let ns = timeout.map_or(0, |limit| u64::try_from(limit.as_nanos()).unwrap_or(NEVER));
        self.table.header.send_timeout_ns.fetch_max(ns, Relaxed);
    }

    /// Returns the costs of shared virtual memory.
    pub fn page_costs(&self) -> PageCosts {
        self.table.machine.pages
    }

    /// Returns the time in which a node executes a one-sided operation, in ns.
    pub fn execute_ns(&self) -> u64 {
        debug_assert!(self.me >= self.table.node_of.len(), "ranks execute none");
        self.table.machine.execute_ns
    }

    /// Returns the clock, in ns since the beginning.
    pub fn clock_ns(&self) -> u64 {
        let clock_ns = self.line().clock_ns.load(Relaxed);
        debug_assert!(clock_ns != NEVER, "clocks end before");
        clock_ns
    }

    /// Begins to send a request; `None`: too many messages are in flight.
    pub fn begin_send(&self) -> Option<PendingMessage> {
        self.table.take_record(true)
    }

    /// Begins to send a reply, for which there is always a record.
    pub fn begin_reply(&self) -> PendingMessage {
        let record = self.table.take_record(false);
        debug_assert!(record.is_some(), "requests leave records for their replies");
        record.unwrap_or_default()
    }

    /// Gives a message up that found no room.
    pub fn give_up(&self, message: PendingMessage) {
        debug_assert!(self.line().state.load(Relaxed) != State::Waits as u32, "it runs");
        self.table.give_back(message);
    }

    /// Returns the arrival of a message, once its due time is known, and forgets its record.
    pub fn arrival(&self, message: PendingMessage) -> Option<Arrival> {
        let record = self.table.record(message)?;
        let words = [&record.due_ns, &record.source, &record.number, &record.key, &record.sent_ns];
        let [due_ns, source, number, key, sent_ns] = words.map(|word| word.load(Relaxed));
        if due_ns == 0 {
            return None;
        }
        debug_assert_eq!(record.to.load(Relaxed), self.me as u64, "another rank's message");
        self.table.give_back(message);
        let sent_ns = BEGIN_NS.saturating_add(sent_ns);
        Some(Arrival { due_ns, source, number, key, sent_ns })
    }

    /// Notes the time of the first message of this rank that is due; `None`: none is known.
    pub fn set_first_due(&self, due_ns: Option<u64>) {
        debug_assert!(due_ns.is_none_or(|due_ns| due_ns > 0), "no message is due at the beginning");
        self.line().due_ns.store(due_ns.unwrap_or(NEVER), Relaxed);
    }

    /// Notes that a request of another actor is handled: it hears of it as soon as a message could
    /// tell it.
    pub(super) fn note_handled(&self, source: usize) {
        let Some(line) = self.table.actors.get(source) else {
            clump_bug::bug!("a request of actor {source}, which there is not, was handled");
            return;
        };
        let left = line.unhandled.load(Relaxed).saturating_sub(1);
        line.unhandled.store(left, Relaxed);
        if left == 0 && source != self.me {
            let costs = self.table.machine.costs(self.table.is_between_nodes(source, self.me));
            let heard_ns = self.clock_ns().saturating_add(costs.latency_ns);
            line.wake_ns.store(line.wake_ns.load(Relaxed).min(heard_ns), Relaxed);
        }
    }

    /// Returns true if all requests of this actor were handled.
    pub fn is_drained(&self) -> bool {
        self.line().unhandled.load(Relaxed) == 0
    }

    /// Waits until no other actor can have an effect on this one at its time: what is due by now is
    /// known then.
    pub fn order(&self) {
        let lookahead_ns = self.table.machine.lookahead_ns();
        debug_assert!(lookahead_ns > 0, "the actor with the least time always goes on");
        while self.end().is_none() {
            let now_ns = self.clock_ns();
            let other_ns = self.table.first_of_others(self.me);
            if turn::sees_all(now_ns, other_ns, lookahead_ns) {
                let first_ns = now_ns.min(other_ns).min(self.table.first_arrival());
                if !self.table.resolve(turn::horizon(first_ns, self.table.machine.least_send_ns()))
                {
                    return;
                }
            } else {
                self.set_state(State::Ready);
                self.pass_turn();
            }
        }
    }

    pub(super) fn line(&self) -> &ActorLine {
        debug_assert!(self.me < self.table.actors.len(), "each rank is an actor");
        &self.table.actors[self.me]
    }

    pub(super) fn advance(&self, ns: u64) {
        let clock = &self.line().clock_ns;
        let before_ns = clock.load(Relaxed);
        debug_assert!(before_ns != NEVER, "invariant 3");
        clock.store(before_ns.saturating_add(ns).min(NEVER - 1), Relaxed);
        debug_assert!(clock.load(Relaxed) >= before_ns, "invariant 3");
    }

    pub(super) fn set_state(&self, state: State) {
        debug_assert!(state as u32 <= State::Watches as u32, "a state in shared memory");
        self.line().state.store(state as u32, Relaxed);
    }

    /// Gives the token to the actor that is next, and waits for it if that is another one.
    pub(super) fn pass_turn(&self) {
        match self.table.choose() {
            Some(next) if next != self.me => {
                self.table.hand_over(next);
                self.await_turn();
            }
            _ => {}
        }
    }

    /// Waits for the token, or the end of virtual time.
    pub(super) fn await_turn(&self) {
        let turn = &self.line().turn;
        while turn.swap(0, Ordering::Acquire) == 0 && self.end().is_none() {
            let woken = futex::sleep(turn, 0, Some(DEATH_CHECK));
            if !woken && self.node.job().first_death().is_some() {
                self.table.break_off(End::Death);
            }
        }
    }

    /// Lets the others go on until this actor's wait ends; then its clock says when. `word`: the
    /// place of the word that it waits for.
    pub(super) fn suspend(&self, state: State, span_ns: u64, word: Option<u32>) {
        let line = self.line();
        let until_ns = self.clock_ns().saturating_add(span_ns).min(NEVER - 1);
        line.timer_ns.store(until_ns, Relaxed);
        line.wake_ns.store(NEVER, Relaxed);
        line.word.store(word.unwrap_or(u32::MAX), Relaxed);
        debug_assert!(state != State::Absent && state != State::Ready, "it waits for something");
        debug_assert!(until_ns < NEVER, "a wait ends by its timer at last");
        self.set_state(state);
        self.pass_turn();
        if self.end().is_none() {
            line.clock_ns.store(time_of(line), Relaxed);
        }
        line.word.store(u32::MAX, Relaxed);
        line.wake_ns.store(NEVER, Relaxed);
        self.set_state(State::Ready);
    }
}
