//! The requesting side of one-sided operations: operations in flight, progress of each node,
//! encoding of requests and decoding of answers. Pure: no endpoint, clock or thread. `clump-rma`
//! drives it over an endpoint, simulations over their own transports.

mod node_progress;
mod successors;

pub use successors::Successor;

use crate::protocol::{ask, atomic_of, tell};
use crate::refusal::Refusal;
use node_progress::NodeProgress;
use std::ptr::NonNull;
use successors::Successors;

/// Destination of an operation's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerSink {
    /// Into the entry.
    Value,
    /// Into a buffer, which is borrowed until the entry is taken or given up.
    Buffer(NonNull<u8>, usize),
    /// Into the entry, this many bytes.
    Bytes(usize),
}

/// State of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// In flight.
    Waiting,
    /// Executed, with this value, or 0 if it returns none.
    Done(u64),
    /// Acquired a lock: position and word.
    Granted(u64, u64),
    /// Refused: reason, segment and offset.
    Refused(Refusal, u64, u64),
}

/// An encoded request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodedRequest {
    /// Handler of the request, one of [`crate::protocol::ask`].
    pub handler: u8,
    words: [u64; 8],
    count: usize,
}

impl EncodedRequest {
    /// Returns the cookie of the request, or 0 if no answer names it.
    pub fn cookie(&self) -> u64 {
        cookie_of(self.handler, self.words()).1
    }

    /// Encodes up to seven words, and the number of requests that come before it, if it is ordered.
    fn new(handler: u8, words: &[u64], after: Option<u64>) -> Self {
        let (mut all, mut count, mut handler) = ([0; 8], words.len(), handler);
        debug_assert!(count < all.len(), "a request has at most seven words");
        debug_assert_eq!(handler & ask::AFTER, 0, "the flag is set here");
        if let Some(part) = all.get_mut(..count) {
            part.copy_from_slice(words);
        }
        if let (Some(after), Some(place)) = (after, all.get_mut(count)) {
            *place = after;
            (count, handler) = (count + 1, handler | ask::AFTER);
        }
        Self { handler, words: all, count }
    }

    /// Returns its words.
    pub fn words(&self) -> &[u64] {
        debug_assert!(self.count <= self.words.len(), "encoded words fit");
        self.words.get(..self.count).unwrap_or_default()
    }
}

#[derive(Debug)]
struct Entry {
    /// Half of the cookie, so that an answer to an earlier operation in this entry is recognised.
    turn: u32,
    node: u32,
    sink: AnswerSink,
    /// State; `None`: the entry is free.
    completion_of: Option<Completion>,
    /// Bytes received for [`AnswerSink::Bytes`].
    bytes: Vec<u8>,
}

impl Entry {
    fn is_free(&self) -> bool {
        self.completion_of.is_none()
    }
}

/// A thread's operations in flight, and its view of each node.
#[derive(Debug)]
pub struct Requester {
    entries: Vec<Entry>,
    free: Vec<u32>,
    nodes: Vec<NodeProgress>,
    /// Successors of the locks that this thread waits for or holds.
    successors: Successors,
}

impl Requester {
    /// Creates the requester of a job with this many nodes.
    pub fn new(nodes: u32) -> Self {
        debug_assert!(nodes > 0, "a job has nodes");
        let nodes = (0..nodes).map(|_| NodeProgress::default()).collect();
        Self { entries: Vec::new(), free: Vec::new(), nodes, successors: Successors::default() }
    }

    /// Begins an operation on `node` that returns a value, a lock, or only its end. Returns its
    /// cookie.
    pub fn begin(&mut self, node: u32) -> u64 {
        self.admit(node, AnswerSink::Value)
    }

    /// Begins an operation on `node` that returns this many bytes. Returns its cookie.
    pub fn begin_bytes(&mut self, node: u32, bytes: usize) -> u64 {
        self.admit(node, AnswerSink::Bytes(bytes))
    }

    /// Begins an operation on `node` whose answer goes to `sink`. Returns its cookie.
    ///
    /// # Safety
    /// The buffer of [`AnswerSink::Buffer`] is initialized, and nothing else accesses it until the
    /// operation is taken, or this requester dropped.
    pub unsafe fn begin_to(&mut self, node: u32, sink: AnswerSink) -> u64 {
        self.admit(node, sink)
    }

    fn admit(&mut self, node: u32, sink: AnswerSink) -> u64 {
        debug_assert!((node as usize) < self.nodes.len(), "operations go to nodes of the job");
        debug_assert!(self.free.len() <= self.entries.len(), "each entry is free once");
        let index = self.free.pop().unwrap_or_else(|| {
            let (turn, completion_of, bytes) = (0, None, Vec::new());
            self.entries.push(Entry { turn, node, sink, completion_of, bytes });
            (self.entries.len() - 1) as u32
        });
        let entry = &mut self.entries[index as usize];
        debug_assert_eq!(entry.completion_of, None, "a free entry has no operation");
        debug_assert!(entry.bytes.is_empty(), "bytes were taken with the operation before");
        entry.turn = entry.turn.wrapping_add(1).max(1);
        (entry.node, entry.sink, entry.completion_of) = (node, sink, Some(Completion::Waiting));
        u64::from(entry.turn) << 32 | u64::from(index)
    }

    /// Encodes a request to `node`, of at most seven words; it counts as sent from now on. Returns
    /// `None` when the node is lost.
    #[inline]
    pub fn word(&mut self, node: u32, handler: u8, words: &[u64]) -> Option<EncodedRequest> {
        let cookie = cookie_of(handler, words).1;
        debug_assert!(cookie == 0 || self.is_waiting(cookie), "its answer has an entry");
        let progress = self.nodes.get_mut(node as usize).filter(|progress| !progress.lost)?;
        progress.sent += 1;
        if cookie == 0 {
            progress.silent = progress.sent;
        }
        progress.check_invariants();
        if let (ask::LOCK, [_, _, cookie, ..]) = (handler, words) {
            self.successors.expect(*cookie);
        }
        let after = (progress.fence > progress.known).then_some(progress.fence);
        Some(EncodedRequest::new(handler, words, after))
    }

    /// Returns true if an operation is in flight.
    fn is_waiting(&self, cookie: u64) -> bool {
        let entry = self.entries.get((cookie & 0xffff_ffff) as usize);
        let waits = |entry: &Entry| entry.completion_of == Some(Completion::Waiting);
        entry.is_some_and(|entry| entry.turn == (cookie >> 32) as u32 && waits(entry))
    }

    /// Takes back an encoded request that was not sent.
    pub fn discount(&mut self, node: u32) {
        if let Some(progress) = self.nodes.get_mut(node as usize) {
            progress.take_back();
        } else {
            clump_bug::bug!("it was encoded for a node of the job");
        }
    }

    /// Encodes the message that this thread no longer waits for an answer. There will be an answer
    /// all the same.
    pub fn cancel(&self, node: u32, cookie: u64) -> Option<EncodedRequest> {
        let progress = self.nodes.get(node as usize).filter(|progress| !progress.lost)?;
        // It must not arrive before the request that it cancels.
        Some(EncodedRequest::new(ask::CANCEL, &[cookie], Some(progress.sent)))
    }

    /// Encodes a quiet request to `node`. Returns its cookie and the request, or `None` if all
    /// requests are known to be executed.
    pub fn quiet(&mut self, node: u32) -> Option<(u64, EncodedRequest)> {
        let progress =
            self.nodes.get(node as usize).filter(|progress| progress.sent > progress.known)?;
        debug_assert!(!progress.lost, "a lost node reports nothing more");
        let after = progress.sent;
        debug_assert!(after >= progress.fence, "it comes after all that is fenced");
        let cookie = self.begin(node);
        Some((cookie, EncodedRequest::new(ask::QUIET, &[cookie], Some(after))))
    }

    /// Orders requests, node by node: those encoded from now on come after all before.
    pub fn fence(&mut self) {
        for progress in &mut self.nodes {
            progress.fence = progress.sent;
        }
    }

    /// Returns true if requests sent now would have to wait for earlier ones.
    pub fn is_fenced(&self, node: u32) -> bool {
        self.nodes.get(node as usize).is_some_and(|progress| progress.fence > progress.known)
    }

    /// Returns true if the successor of that cookie's lock is known.
    pub fn has_successor(&self, cookie: u64) -> bool {
        self.successors.get(cookie).is_some()
    }

    /// Removes and returns the successor of a lock that is released from `position`, if the lock
    /// may be granted to it directly. It may not where earlier requests to the lock's home `node`
    /// have to be executed first.
    pub fn take_successor(&mut self, cookie: u64, node: u32, position: u64) -> Option<Successor> {
        let successor = self.successors.take(cookie)?;
        let next = successor.position == position.wrapping_add(1);
        (next && !self.is_fenced(node) && !self.is_lost(node)).then_some(successor)
    }

    /// Returns true if `node` is known to be lost.
    pub fn is_lost(&self, node: u32) -> bool {
        self.nodes.get(node as usize).is_none_or(|progress| progress.lost)
    }

    fn entry(&mut self, cookie: u64) -> Option<&mut Entry> {
        let entry = self.entries.get_mut((cookie & 0xffff_ffff) as usize)?;
        (entry.turn == (cookie >> 32) as u32 && entry.completion_of.is_some()).then_some(entry)
    }

    /// Returns the node of an operation that was not taken.
    pub fn node_of(&mut self, cookie: u64) -> Option<u32> {
        self.entry(cookie).map(|entry| entry.node)
    }

    /// Returns an operation's state; `None` if it was taken.
    pub fn completion(&mut self, cookie: u64) -> Option<Completion> {
        self.entry(cookie).and_then(|entry| entry.completion_of)
    }

    /// Forgets an operation, in whatever state; later answers to it are ignored. Returns its state.
    pub fn take(&mut self, cookie: u64) -> Option<Completion> {
        self.take_bytes(cookie).map(|(completion_of, _)| completion_of)
    }

    /// Forgets an operation as [`Requester::take`] does. Returns its state and the bytes received.
    pub fn take_bytes(&mut self, cookie: u64) -> Option<(Completion, Vec<u8>)> {
        let entry = self.entry(cookie)?;
        let completion_of = entry.completion_of.take();
        let bytes = std::mem::take(&mut entry.bytes);
        let node = entry.node as usize;
        debug_assert!(node < self.nodes.len(), "operations go to nodes of the job");
        debug_assert!(self.free.len() < self.entries.len(), "this entry is not free yet");
        if let (Some(Completion::Waiting), Some(progress)) =
            (completion_of, self.nodes.get_mut(node))
        {
            progress.silent = progress.sent;
        }
        debug_assert!(self.entry(cookie).is_none(), "an operation is taken once");
        self.free.push((cookie & 0xffff_ffff) as u32);
        if !matches!(completion_of, Some(Completion::Granted(..))) {
            self.successors.take(cookie);
        }
        completion_of.map(|completion_of| (completion_of, bytes))
    }

    /// Completes an operation.
    fn complete(&mut self, cookie: u64, completion_of: Completion) {
        debug_assert_ne!(completion_of, Completion::Waiting, "an answer ends its operation");
        if let Some(entry) = self.entry(cookie)
            && entry.completion_of == Some(Completion::Waiting)
        {
            entry.completion_of = Some(completion_of);
        }
        debug_assert!(!self.is_waiting(cookie), "an answer ends its operation");
    }

    /// Takes in an answer, one of [`tell`]; `copy` copies the beginning of its payload, and returns
    /// the number of bytes.
    pub fn on_answer(&mut self, handler: u8, words: &[u64], copy: impl FnOnce(&mut [u8]) -> usize) {
        let Some((&cookie, rest)) = words.split_first() else { return };
        let word = |at: usize| rest.get(at).copied().unwrap_or(0);
        match (handler, rest) {
            (tell::VALUE, _) => self.on_value(cookie, word(0)),
            (tell::DONE, _) => self.on_value(cookie, 0),
            (tell::BYTES, _) => self.fill(cookie, None, copy),
            (tell::QUIET, _) => self.on_quiet(cookie, rest),
            (tell::GRANTED, &[position, word]) => {
                self.complete(cookie, Completion::Granted(position, word));
            }
            (tell::NEXT, &[name, other, position]) => {
                self.successors.name(cookie, Successor::new(name, other, position));
            }
            (tell::FAILED, _) => {
                self.complete(
                    cookie,
                    Completion::Refused(Refusal::from_bits(word(0)), word(1), word(2)),
                );
            }
            _ => {}
        }
    }

    /// Takes in an answer of few bytes.
    fn on_value(&mut self, cookie: u64, value: u64) {
        self.fill(cookie, Some(value), |to| {
            let bytes = value.to_le_bytes();
            let part = bytes.get(..to.len()).unwrap_or_default();
            to.get_mut(..part.len()).map_or(0, |to| {
                to.copy_from_slice(part);
                part.len()
            })
        });
    }

    fn fill(&mut self, cookie: u64, value: Option<u64>, copy: impl FnOnce(&mut [u8]) -> usize) {
        let Some(entry) =
            self.entry(cookie).filter(|entry| entry.completion_of == Some(Completion::Waiting))
        else {
            return;
        };
        let completion_of = match entry.sink {
            AnswerSink::Value => value.map(Completion::Done),
            AnswerSink::Bytes(len) => {
                debug_assert!(entry.bytes.is_empty(), "an operation is answered once");
                entry.bytes.resize(len, 0);
                let copied = copy(&mut entry.bytes);
                debug_assert!(copied <= len, "no more is copied than there is room for");
                (copied == len).then_some(Completion::Done(0))
            }
            AnswerSink::Buffer(base, len) => {
                // SAFETY: invariant 4 of the crate: the caller that entered the operation lends the
                // buffer, which is initialized and not used otherwise, until the entry is removed,
                // and it is there.
                let to = unsafe { std::slice::from_raw_parts_mut(base.as_ptr(), len) };
                let copied = copy(to);
                debug_assert!(copied <= len, "no more is copied than there is room for");
                (copied == len).then_some(Completion::Done(0))
            }
        };
        // An answer that does not fit cannot be from an interface of this version.
        entry.completion_of =
            Some(completion_of.unwrap_or(Completion::Refused(Refusal::Unknown, 0, 0)));
        debug_assert!(!self.is_waiting(cookie), "an answer ends its operation");
    }

    /// Notes that a node is lost: no request to it will be answered. [`Requester::loss`] reports
    /// requests without an entry.
    pub fn lose(&mut self, node: u32) {
        let Some(progress) = self.nodes.get_mut(node as usize).filter(|progress| !progress.lost)
        else {
            return;
        };
        progress.lost = true;
        progress.give_up();
        debug_assert_eq!(progress.known, progress.sent, "nothing more will be known");
        for entry in self.entries.iter_mut().filter(|entry| entry.node == node) {
            if entry.completion_of == Some(Completion::Waiting) {
                entry.completion_of = Some(Completion::Refused(Refusal::NodeLost, 0, 0));
            }
        }
        self.check_invariants();
    }

    /// Takes in a node's progress.
    fn on_quiet(&mut self, cookie: u64, words: &[u64]) {
        let &[executed, failed, why, segment, offset] = words else { return };
        let Some(node) = self.node_of(cookie) else { return };
        if let Some(progress) = self.nodes.get_mut(node as usize) {
            progress.known = progress.known.max(executed.min(progress.sent));
            if failed > progress.failed {
                progress.failed = failed;
                progress.failure.get_or_insert((Refusal::from_bits(why), segment, offset));
            }
            progress.check_invariants();
        }
        self.complete(cookie, Completion::Done(0));
    }

    /// Takes in a request to `node` that was returned: it was not executed.
    pub fn on_returned(&mut self, node: u32, handler: u8, words: &[u64]) {
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        let (counted, cookie) = cookie_of(handler, words);
        let Some(progress) = self.nodes.get_mut(node as usize) else { return };
        if counted {
            progress.take_back();
        }
        if handler & !ask::AFTER == ask::QUIET {
            progress.give_up();
        }
        // The loss of a node reports all requests in flight to it together.
        if cookie == 0 && !progress.lost {
            progress.failed += 1;
            progress.failure.get_or_insert((Refusal::NodeLost, word(0), word(1)));
        }
        progress.check_invariants();
        self.complete(cookie, Completion::Refused(Refusal::NodeLost, word(0), word(1)));
    }

    /// Returns the failures of operations without an answer on a node since the last call: their
    /// number, the reason of the first, and the segment and offset that it named.
    pub fn failure(&mut self, node: u32) -> Option<(u64, Refusal, u64, u64)> {
        let progress = self.nodes.get_mut(node as usize)?;
        let (why, segment, offset) = progress.failure.take()?;
        progress.unsure &= why != Refusal::NodeLost;
        let count = progress.failed - std::mem::replace(&mut progress.reported, progress.failed);
        debug_assert!(count > 0, "a failure that is kept was counted");
        Some((count, why, segment, offset))
    }

    /// Returns true once if `node` was lost with operations in flight of which it is unknown
    /// whether they were executed.
    pub fn loss(&mut self, node: u32) -> bool {
        self.nodes
            .get_mut(node as usize)
            .is_some_and(|progress| std::mem::take(&mut progress.unsure))
    }
}

impl Requester {
    /// Checks that each entry is free or has an operation of a node of the job, that operations on
    /// lost nodes have ended, and the counts of each node.
    pub fn check_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        self.nodes.iter().for_each(NodeProgress::check_invariants);
        let is_free = |index: &u32| self.entries.get(*index as usize).is_some_and(Entry::is_free);
        debug_assert!(self.free.iter().all(is_free), "free entries have no operation");
        let free = self.entries.iter().filter(|entry| entry.is_free()).count();
        debug_assert_eq!(free, self.free.len(), "each free entry is listed once");
        for entry in &self.entries {
            debug_assert!((entry.node as usize) < self.nodes.len(), "a node of the job");
            debug_assert!(entry.turn > 0, "cookies are not 0");
            let waits = entry.completion_of == Some(Completion::Waiting);
            debug_assert!(!waits || !self.is_lost(entry.node), "no lost node will answer");
            let empty = entry.bytes.is_empty();
            debug_assert!(empty || !waits && !entry.is_free(), "bytes come with the answer");
        }
        self.successors.check_invariants();
    }
}

/// Returns true if the interface counts a request, and its cookie, or 0.
fn cookie_of(handler: u8, words: &[u64]) -> (bool, u64) {
    let handler = handler & !ask::AFTER;
    let word = |at: usize| words.get(at).copied().unwrap_or(0);
    match atomic_of(handler) {
        Some((_, _, answered)) => (true, if answered { word(2) } else { 0 }),
        None if matches!(handler, ask::QUIET | ask::CANCEL) => (false, word(0)),
        None => (true, word(2)),
    }
}

#[cfg(test)]
mod tests;
