//! State of a hub for message handlers, which must not hold its endpoint.

use crate::known::Known;
use crate::line::ConnectionLine;
use crate::lock::lock;
use crate::queue::Queue;
use crate::words::ask;
use clump_am::Name;
use clump_os::sync::{AtomicU64, Ordering};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

/// State for handlers, which must not hold the endpoint.
#[derive(Debug)]
pub(crate) struct HubState {
    lines: Mutex<HashMap<u64, Known>>,
    queues: Mutex<HashMap<u16, Arc<Queue>>>,
    /// At most as many as connections that this rank had, or requested: each is sent once.
    notices: Mutex<VecDeque<Notice>>,
    /// Connections of this job that have credit to report, or the rest of a message to send.
    due: Mutex<Vec<u64>>,
    /// Answers to port requests, by the number of the request.
    pub(crate) found: Mutex<HashMap<u64, Option<u64>>>,
    next: AtomicU64,
}

/// A message to a peer of which no other state is kept.
#[derive(Debug)]
pub(crate) struct Notice {
    pub(crate) to: Name,
    pub(crate) handler: u8,
    pub(crate) words: Vec<u64>,
}

impl HubState {
    pub(super) fn new() -> Self {
        Self {
            lines: Mutex::default(),
            queues: Mutex::default(),
            notices: Mutex::default(),
            due: Mutex::default(),
            found: Mutex::default(),
            next: AtomicU64::new(1),
        }
    }

    /// Returns a number that no connection or request of this rank has had.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn enter(&self, number: u64, line: Arc<ConnectionLine>, peer: Name) {
        lock(&self.lines).insert(number, Known { line, peer });
    }

    pub(crate) fn forget(&self, number: u64) {
        lock(&self.lines).remove(&number);
    }

    pub(crate) fn known(&self, number: u64) -> Option<Known> {
        lock(&self.lines).get(&number).cloned()
    }

    pub(crate) fn queue(&self, port: u16) -> Option<Arc<Queue>> {
        lock(&self.queues).get(&port).cloned()
    }

    /// Enters the queue of a port; false when this rank listens at that port.
    pub(crate) fn enter_queue(&self, port: u16, queue: &Arc<Queue>) -> bool {
        match lock(&self.queues).entry(port) {
            Entry::Occupied(_) => false,
            Entry::Vacant(free) => {
                free.insert(queue.clone());
                true
            }
        }
    }

    pub(crate) fn forget_queue(&self, port: u16) {
        lock(&self.queues).remove(&port);
    }

    pub(crate) fn note(&self, notice: Notice) {
        lock(&self.notices).push_back(notice);
    }

    /// Returns the notice that has waited longest.
    pub(super) fn next_notice(&self) -> Option<Notice> {
        lock(&self.notices).pop_front()
    }

    /// Puts back a notice that found no space, before all others.
    pub(super) fn put_back(&self, notice: Notice) {
        lock(&self.notices).push_front(notice);
    }

    pub(super) fn has_notices(&self) -> bool {
        !lock(&self.notices).is_empty()
    }

    /// Returns the connections that have something to send, which count as served.
    pub(super) fn take_due(&self) -> Vec<u64> {
        std::mem::take(&mut *lock(&self.due))
    }

    pub(crate) fn mark_due(&self, number: u64) {
        let mut due = lock(&self.due);
        if !due.contains(&number) {
            due.push(number);
        }
    }
}

/// Gives up a connection that waited to be accepted.
pub(crate) fn hang_up(book: &HubState, number: u64, known: &Known) {
    book.forget(number);
    let theirs = known.line.state().theirs;
    book.note(Notice::hang_up(known.peer, theirs, number));
}

impl Notice {
    /// Makes a notice that closes the connection that is `theirs` at the endpoint `to`, and `mine`
    /// here.
    pub(crate) fn hang_up(to: Name, theirs: u64, mine: u64) -> Self {
        Self { to, handler: ask::CLOSE, words: vec![theirs, mine, 0, 0] }
    }

    /// Adds the number of messages that were sent, and that the last of them is incomplete if
    /// `broken`.
    pub(crate) fn after(mut self, messages: u64, broken: bool) -> Self {
        self.words.splice(2.., [messages, u64::from(broken)]);
        self
    }
}
