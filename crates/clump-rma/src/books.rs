//! What a thread has under way: operations that are not finished, and how far each node is.

use crate::error::Why;
use clump_am::{Dest, Payload};
use std::ptr::NonNull;

/// Where the answer to an operation goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sink {
    /// Into the entry.
    Value,
    /// Into a buffer, which is borrowed until the entry is taken or given up.
    Buffer(NonNull<u8>, usize),
}

/// What became of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Waiting(Sink),
    Done(u64),
    /// A lock: position and word.
    Granted(u64, u64),
    Refused(Why, u64, u64),
}

#[derive(Debug)]
struct Entry {
    /// Half of the cookie, so that an answer to who had the place before is known as such.
    turn: u32,
    node: u32,
    /// `None`: the place is free.
    fate: Option<Fate>,
}

/// How far a node is.
#[derive(Debug, Default)]
pub(crate) struct Way {
    pub(crate) dest: Option<Dest>,
    /// Requests that its interface has been sent, and how many of them it is known to have executed.
    pub(crate) sent: u64,
    pub(crate) known: u64,
    /// What is sent from now on comes after so many.
    pub(crate) fence: u64,
    /// Refused ones without an answer: how many it has told, and how many the program knows of.
    pub(crate) failed: u64,
    pub(crate) reported: u64,
    pub(crate) failure: Option<(Why, u64, u64)>,
    pub(crate) lost: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Books {
    entries: Vec<Entry>,
    free: Vec<u32>,
    pub(crate) ways: Vec<Way>,
}

impl Books {
    pub(crate) fn new(nodes: u32) -> Self {
        let ways = (0..nodes).map(|_| Way::default()).collect();
        Self { entries: Vec::new(), free: Vec::new(), ways }
    }

    /// A new operation on `node`; gives its cookie.
    pub(crate) fn enter(&mut self, node: u32, sink: Sink) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry { turn: 0, node, fate: None });
            (self.entries.len() - 1) as u32
        });
        let entry = &mut self.entries[index as usize];
        entry.turn = entry.turn.wrapping_add(1).max(1);
        (entry.node, entry.fate) = (node, Some(Fate::Waiting(sink)));
        u64::from(entry.turn) << 32 | u64::from(index)
    }

    fn entry(&mut self, cookie: u64) -> Option<&mut Entry> {
        let entry = self.entries.get_mut((cookie & 0xffff_ffff) as usize)?;
        (entry.turn == (cookie >> 32) as u32 && entry.fate.is_some()).then_some(entry)
    }

    pub(crate) fn node_of(&mut self, cookie: u64) -> Option<u32> {
        self.entry(cookie).map(|entry| entry.node)
    }

    /// What became of it so far; `None` for one that was taken.
    pub(crate) fn fate(&mut self, cookie: u64) -> Option<Fate> {
        self.entry(cookie).and_then(|entry| entry.fate)
    }

    /// Ends an operation.
    pub(crate) fn settle(&mut self, cookie: u64, fate: Fate) {
        if let Some(entry) = self.entry(cookie)
            && matches!(entry.fate, Some(Fate::Waiting(_)))
        {
            entry.fate = Some(fate);
        }
    }

    /// An answer of few bytes.
    pub(crate) fn on_value(&mut self, cookie: u64, value: u64) {
        self.fill(cookie, Some(value), |to| {
            let bytes = value.to_le_bytes();
            let part = bytes.get(..to.len()).unwrap_or_default();
            to.get_mut(..part.len()).map_or(0, |to| {
                to.copy_from_slice(part);
                part.len()
            })
        });
    }

    /// An answer of bytes.
    pub(crate) fn on_bytes(&mut self, cookie: u64, bytes: &Payload<'_>) {
        self.fill(cookie, None, |to| bytes.copy_to(to));
    }

    fn fill(&mut self, cookie: u64, value: Option<u64>, copy: impl FnOnce(&mut [u8]) -> usize) {
        let Some(Fate::Waiting(sink)) = self.fate(cookie) else { return };
        let fate = match sink {
            Sink::Value => value.map(Fate::Done),
            Sink::Buffer(base, len) => {
                // SAFETY: invariant 4 of the crate: who entered the operation lends the buffer, which is
                // initialized and nobody else's, until the entry is gone, and it is there.
                let to = unsafe { std::slice::from_raw_parts_mut(base.as_ptr(), len) };
                (copy(to) == len).then_some(Fate::Done(0))
            }
        };
        // An answer that does not fit is none of an interface of this version.
        self.settle(cookie, fate.unwrap_or(Fate::Refused(Why::Unknown, 0, 0)));
    }

    /// Forgets an operation, in whatever state; later answers to it count for nothing.
    pub(crate) fn take(&mut self, cookie: u64) -> Option<Fate> {
        let entry = self.entry(cookie)?;
        let fate = entry.fate.take();
        self.free.push((cookie & 0xffff_ffff) as u32);
        fate
    }

    /// A node is lost: nothing of what it was asked will be answered.
    pub(crate) fn lose(&mut self, node: u32) {
        let Some(way) = self.ways.get_mut(node as usize).filter(|way| !way.lost) else { return };
        way.lost = true;
        for entry in self.entries.iter_mut().filter(|entry| entry.node == node) {
            if matches!(entry.fate, Some(Fate::Waiting(_))) {
                entry.fate = Some(Fate::Refused(Why::NodeLost, 0, 0));
            }
        }
    }

    /// A node has told how far it is.
    pub(crate) fn on_quiet(&mut self, cookie: u64, words: &[u64]) {
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

    /// A request came back: it was not executed.
    pub(crate) fn on_returned(&mut self, node: u32, counted: bool, cookie: u64, named: (u64, u64)) {
        let Some(way) = self.ways.get_mut(node as usize) else { return };
        way.sent -= u64::from(counted);
        if cookie == 0 {
            way.failed += 1;
            way.failure.get_or_insert((Why::NodeLost, named.0, named.1));
        }
        self.settle(cookie, Fate::Refused(Why::NodeLost, named.0, named.1));
    }
}
