//! The asking side of one-sided operations: what a thread has under way, how far each node is, what a request
//! looks like on its way out, and what an answer means. Pure: no endpoint, clock or thread. [`crate::Rma`]
//! drives it over an endpoint, simulations over whatever they have.

mod heirs;

pub use heirs::Heir;

use crate::error::Why;
use crate::protocol::{ask, atomic_of, tell};
use heirs::Heirs;
use std::ptr::NonNull;

/// Where the answer to an operation goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sink {
    /// Into the entry.
    Value,
    /// Into a buffer, which is borrowed until the entry is taken or given up.
    Buffer(NonNull<u8>, usize),
    /// Into the entry, so many bytes.
    Bytes(usize),
}

/// What became of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is under way.
    Waiting,
    /// It has happened, and gave this; nothing gives 0.
    Done(u64),
    /// A lock is this thread's: position and word.
    Granted(u64, u64),
    /// It was refused: why, and what it named.
    Refused(Why, u64, u64),
}

/// A request as it goes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Worded {
    /// Its handler, of [`crate::protocol::ask`].
    pub handler: u8,
    words: [u64; 8],
    count: usize,
}

impl Worded {
    /// Words, up to seven, and what it comes after, if anything.
    fn new(handler: u8, words: &[u64], after: Option<u64>) -> Self {
        let (mut all, mut count, mut handler) = ([0; 8], words.len(), handler);
        if let Some(part) = all.get_mut(..count) {
            part.copy_from_slice(words);
        }
        if let (Some(after), Some(place)) = (after, all.get_mut(count)) {
            *place = after;
            (count, handler) = (count + 1, handler | ask::AFTER);
        }
        Self { handler, words: all, count }
    }

    /// Its words.
    pub fn words(&self) -> &[u64] {
        self.words.get(..self.count).unwrap_or_default()
    }
}

#[derive(Debug)]
struct Entry {
    /// Half of the cookie, so that an answer to who had the place before is known as such.
    turn: u32,
    node: u32,
    sink: Sink,
    /// `None`: the place is free.
    fate: Option<Fate>,
    /// What [`Sink::Bytes`] got.
    bytes: Vec<u8>,
}

/// How far a node is.
#[derive(Debug, Default)]
struct Way {
    /// Requests that its interface has been sent, and how many of them it is known to have executed.
    sent: u64,
    known: u64,
    /// What is sent from now on comes after so many.
    fence: u64,
    /// The last of those sent whose end nobody but `quiet` tells.
    silent: u64,
    /// Refused ones without an answer: how many it has told, and how many the program knows of.
    failed: u64,
    reported: u64,
    failure: Option<(Why, u64, u64)>,
    /// Silent ones were under way when it was lost, and the program does not know that yet.
    unsure: bool,
    lost: bool,
}

impl Way {
    /// Nothing more will be heard of what is under way: whoever asks next is told so, once.
    fn give_up(&mut self) {
        self.unsure |= self.silent > self.known;
        self.known = self.sent;
    }

    fn take_back(&mut self) {
        self.sent = self.sent.saturating_sub(1);
        self.silent = self.silent.min(self.sent);
    }
}

/// See the module.
#[derive(Debug)]
pub struct Requester {
    entries: Vec<Entry>,
    free: Vec<u32>,
    ways: Vec<Way>,
    /// Who gets the locks next that this thread waits for or has.
    heirs: Heirs,
}

impl Requester {
    /// Of a job of so many nodes.
    pub fn new(nodes: u32) -> Self {
        let ways = (0..nodes).map(|_| Way::default()).collect();
        Self { entries: Vec::new(), free: Vec::new(), ways, heirs: Heirs::default() }
    }

    /// A new operation on `node` that gives a value, a lock, or word that it is done; gives its cookie.
    pub fn begin(&mut self, node: u32) -> u64 {
        self.enter(node, Sink::Value)
    }

    /// A new operation on `node` that gives so many bytes; gives its cookie.
    pub fn begin_bytes(&mut self, node: u32, bytes: usize) -> u64 {
        self.enter(node, Sink::Bytes(bytes))
    }

    pub(crate) fn enter(&mut self, node: u32, sink: Sink) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            let (turn, fate, bytes) = (0, None, Vec::new());
            self.entries.push(Entry { turn, node, sink, fate, bytes });
            (self.entries.len() - 1) as u32
        });
        let entry = &mut self.entries[index as usize];
        entry.turn = entry.turn.wrapping_add(1).max(1);
        (entry.node, entry.sink, entry.fate) = (node, sink, Some(Fate::Waiting));
        u64::from(entry.turn) << 32 | u64::from(index)
    }

    /// A request as it goes out to `node`; it counts as sent from now on. `words` are at most seven. `None`
    /// when the node is lost.
    #[inline]
    pub fn word(&mut self, node: u32, handler: u8, words: &[u64]) -> Option<Worded> {
        let way = self.ways.get_mut(node as usize).filter(|way| !way.lost)?;
        way.sent += 1;
        if cookie_of(handler, words).1 == 0 {
            way.silent = way.sent;
        }
        if let (ask::LOCK, [_, _, cookie, ..]) = (handler, words) {
            self.heirs.expect(*cookie);
        }
        let after = (way.fence > way.known).then_some(way.fence);
        Some(Worded::new(handler, words, after))
    }

    /// What was worded was not sent after all.
    pub fn unsend(&mut self, node: u32) {
        if let Some(way) = self.ways.get_mut(node as usize) {
            way.take_back();
        }
    }

    /// Tells `node` that nobody waits for an answer any more. There will be one all the same.
    pub fn cancel(&self, node: u32, cookie: u64) -> Option<Worded> {
        let way = self.ways.get(node as usize).filter(|way| !way.lost)?;
        // It must not arrive before what it is about.
        Some(Worded::new(ask::CANCEL, &[cookie], Some(way.sent)))
    }

    /// Asks `node` to say when it has executed everything; gives cookie and request, or `None` if it is known
    /// to have.
    pub fn quiet(&mut self, node: u32) -> Option<(u64, Worded)> {
        let way = self.ways.get(node as usize).filter(|way| way.sent > way.known)?;
        let after = way.sent;
        let cookie = self.begin(node);
        Some((cookie, Worded::new(ask::QUIET, &[cookie], Some(after))))
    }

    /// What is worded from now on comes after what was worded before, node by node.
    pub fn fence(&mut self) {
        for way in &mut self.ways {
            way.fence = way.sent;
        }
    }

    /// Whether requests sent now would have to wait for earlier ones.
    pub fn is_fenced(&self, node: u32) -> bool {
        self.ways.get(node as usize).is_some_and(|way| way.fence > way.known)
    }

    /// Whether it is known who gets the lock of that cookie next.
    pub fn has_heir(&self, cookie: u64) -> bool {
        self.heirs.get(cookie).is_some()
    }

    /// The lock of that cookie, whose home is `node`, is given back from `position`: who may be granted it at once,
    /// if anybody. Nobody where what was asked of its home has to be done first.
    pub fn take_heir(&mut self, cookie: u64, node: u32, position: u64) -> Option<Heir> {
        let heir = self.heirs.take(cookie)?;
        let next = heir.position == position.wrapping_add(1);
        (next && !self.is_fenced(node) && !self.is_lost(node)).then_some(heir)
    }

    /// Whether `node` is known to be lost.
    pub fn is_lost(&self, node: u32) -> bool {
        self.ways.get(node as usize).is_none_or(|way| way.lost)
    }

    fn entry(&mut self, cookie: u64) -> Option<&mut Entry> {
        let entry = self.entries.get_mut((cookie & 0xffff_ffff) as usize)?;
        (entry.turn == (cookie >> 32) as u32 && entry.fate.is_some()).then_some(entry)
    }

    /// The node of an operation that was not taken.
    pub fn node_of(&mut self, cookie: u64) -> Option<u32> {
        self.entry(cookie).map(|entry| entry.node)
    }

    /// What became of it so far; `None` for one that was taken.
    pub fn fate(&mut self, cookie: u64) -> Option<Fate> {
        self.entry(cookie).and_then(|entry| entry.fate)
    }

    /// Forgets an operation, in whatever state; later answers to it count for nothing.
    pub fn take(&mut self, cookie: u64) -> Option<Fate> {
        self.take_bytes(cookie).map(|(fate, _)| fate)
    }

    /// The same, with the bytes that it gave.
    pub fn take_bytes(&mut self, cookie: u64) -> Option<(Fate, Vec<u8>)> {
        let entry = self.entry(cookie)?;
        let fate = entry.fate.take();
        let bytes = std::mem::take(&mut entry.bytes);
        let node = entry.node as usize;
        if let (Some(Fate::Waiting), Some(way)) = (fate, self.ways.get_mut(node)) {
            way.silent = way.sent;
        }
        self.free.push((cookie & 0xffff_ffff) as u32);
        if !matches!(fate, Some(Fate::Granted(..))) {
            self.heirs.take(cookie);
        }
        fate.map(|fate| (fate, bytes))
    }

    /// Ends an operation.
    fn settle(&mut self, cookie: u64, fate: Fate) {
        if let Some(entry) = self.entry(cookie)
            && entry.fate == Some(Fate::Waiting)
        {
            entry.fate = Some(fate);
        }
    }

    /// An answer has come, of [`tell`]; `copy` copies the beginning of its payload, and says how much.
    pub fn on_answer(&mut self, handler: u8, words: &[u64], copy: impl FnOnce(&mut [u8]) -> usize) {
        let Some((&cookie, rest)) = words.split_first() else { return };
        let word = |at: usize| rest.get(at).copied().unwrap_or(0);
        match (handler, rest) {
            (tell::VALUE, _) => self.on_value(cookie, word(0)),
            (tell::DONE, _) => self.on_value(cookie, 0),
            (tell::BYTES, _) => self.fill(cookie, None, copy),
            (tell::QUIET, _) => self.on_quiet(cookie, rest),
            (tell::GRANTED, &[position, word]) => {
                self.settle(cookie, Fate::Granted(position, word));
            }
            (tell::NEXT, &[name, other, position]) => {
                self.heirs.name(cookie, Heir::new(name, other, position));
            }
            (tell::FAILED, _) => {
                self.settle(cookie, Fate::Refused(Why::from_bits(word(0)), word(1), word(2)));
            }
            _ => {}
        }
    }

    /// An answer of few bytes.
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
        let Some(entry) = self.entry(cookie).filter(|entry| entry.fate == Some(Fate::Waiting))
        else {
            return;
        };
        let fate = match entry.sink {
            Sink::Value => value.map(Fate::Done),
            Sink::Bytes(len) => {
                entry.bytes.resize(len, 0);
                (copy(&mut entry.bytes) == len).then_some(Fate::Done(0))
            }
            Sink::Buffer(base, len) => {
                // SAFETY: invariant 4 of the crate: who entered the operation lends the buffer, which is
                // initialized and nobody else's, until the entry is gone, and it is there.
                let to = unsafe { std::slice::from_raw_parts_mut(base.as_ptr(), len) };
                (copy(to) == len).then_some(Fate::Done(0))
            }
        };
        // An answer that does not fit is none of an interface of this version.
        entry.fate = Some(fate.unwrap_or(Fate::Refused(Why::Unknown, 0, 0)));
    }

    /// A node is lost: nothing of what it was asked will be answered. [`Requester::loss`] tells of what has no
    /// entry.
    pub fn lose(&mut self, node: u32) {
        let Some(way) = self.ways.get_mut(node as usize).filter(|way| !way.lost) else { return };
        way.lost = true;
        way.give_up();
        for entry in self.entries.iter_mut().filter(|entry| entry.node == node) {
            if entry.fate == Some(Fate::Waiting) {
                entry.fate = Some(Fate::Refused(Why::NodeLost, 0, 0));
            }
        }
    }

    /// A node has told how far it is.
    fn on_quiet(&mut self, cookie: u64, words: &[u64]) {
        let &[executed, failed, why, segment, offset] = words else { return };
        let Some(node) = self.node_of(cookie) else { return };
        if let Some(way) = self.ways.get_mut(node as usize) {
            way.known = way.known.max(executed.min(way.sent));
            if failed > way.failed {
                way.failed = failed;
                way.failure.get_or_insert((Why::from_bits(why), segment, offset));
            }
        }
        self.settle(cookie, Fate::Done(0));
    }

    /// A request to `node` came back: it was not executed.
    pub fn on_returned(&mut self, node: u32, handler: u8, words: &[u64]) {
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        let (counted, cookie) = cookie_of(handler, words);
        let Some(way) = self.ways.get_mut(node as usize) else { return };
        if counted {
            way.take_back();
        }
        if handler & !ask::AFTER == ask::QUIET {
            way.give_up();
        }
        // What was under way to a lost node has been told of, all together.
        if cookie == 0 && !way.lost {
            way.failed += 1;
            way.failure.get_or_insert((Why::NodeLost, word(0), word(1)));
        }
        self.settle(cookie, Fate::Refused(Why::NodeLost, word(0), word(1)));
    }

    /// What operations without an answer failed with on a node since that was last asked: how many, why the
    /// first, and what it named.
    pub fn failure(&mut self, node: u32) -> Option<(u64, Why, u64, u64)> {
        let way = self.ways.get_mut(node as usize)?;
        let (why, segment, offset) = way.failure.take()?;
        way.unsure &= why != Why::NodeLost;
        let count = way.failed - std::mem::replace(&mut way.reported, way.failed);
        Some((count, why, segment, offset))
    }

    /// Whether `node` was lost with operations under way of which nobody can say whether they have happened;
    /// once.
    pub fn loss(&mut self, node: u32) -> bool {
        self.ways.get_mut(node as usize).is_some_and(|way| std::mem::take(&mut way.unsure))
    }
}

/// Whether a request is one that the interface counts, and its cookie, or 0.
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
