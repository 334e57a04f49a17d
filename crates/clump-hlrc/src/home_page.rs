//! Pages at their home: their versions, and diffs and requests that arrive too early.

use std::collections::{BTreeMap, BTreeSet};

use crate::message::{DiffHeader, PageAccess, PageDiff};
use crate::page_version::PageVersion;
use crate::placement::WriterTally;
use crate::vector_time::VectorTime;

/// Use that the home makes of a diff.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Deposit<P> {
    /// The bytes are stored now.
    Apply(P),
    /// The bytes wait for the writer's diff before them.
    Parked,
    /// The page contains them.
    Known,
}

/// One page at its home.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HomePage<P> {
    version: PageVersion,
    time: VectorTime,
    parked: Vec<(DiffHeader, PageDiff<P>)>,
    /// Stored parts of the diff whose turn it is, by writer.
    partial: BTreeMap<u16, BTreeSet<u32>>,
    fetches: Vec<(u16, PageVersion)>,
    waiters: Vec<(u16, PageAccess)>,
    tally: WriterTally,
}

impl<P> HomePage<P> {
    /// Returns a page with `version`, whose bytes depend on `time`.
    pub fn new(version: PageVersion, time: VectorTime) -> Self {
        let (parked, fetches, waiters) = (Vec::new(), Vec::new(), Vec::new());
        let (partial, tally) = (BTreeMap::new(), WriterTally::default());
        Self { version, time, parked, partial, fetches, waiters, tally }
    }

    /// Returns the intervals that the page contains.
    pub fn version(&self) -> &PageVersion {
        &self.version
    }

    /// Returns everything that the bytes of other nodes depend on.
    pub fn time(&self) -> &VectorTime {
        &self.time
    }

    /// Returns the writers, from barrier to barrier.
    pub fn tally_mut(&mut self) -> &mut WriterTally {
        &mut self.tally
    }

    /// Notes an interval of the home itself, whose bytes are in place.
    pub fn note_own(&mut self, node: u16, interval: u32) {
        debug_assert!(interval > self.version.get(node), "intervals ascend");
        self.version.raise(node, interval);
        self.tally.note(node);
        debug_assert_eq!(self.version.get(node), interval);
    }

    /// Takes a diff, or a part of one. Parts are stored as they arrive; the page has the interval
    /// once all of them are.
    pub fn handle_diff(&mut self, header: DiffHeader, diff: PageDiff<P>) -> Deposit<P> {
        let (writer, known) = (header.writer, self.version.get(header.writer));
        debug_assert!(diff.of.after < header.interval, "a diff follows an earlier one");
        debug_assert!(diff.part < diff.parts, "parts count from 0");
        if header.interval <= known {
            return Deposit::Known;
        }
        if diff.of.after > known {
            self.parked.push((header, diff));
            return Deposit::Parked;
        }
        debug_assert_eq!(diff.of.after, known, "no diff of the writer is left out");
        if diff.parts > 1 {
            let stored = self.partial.entry(writer).or_default();
            if !stored.insert(diff.part) {
                return Deposit::Known;
            }
            if stored.len() < diff.parts as usize {
                self.time.join(&header.time);
                return Deposit::Apply(diff.payload);
            }
            self.partial.remove(&writer);
        }
        self.version.raise(writer, header.interval);
        self.time.join(&header.time);
        self.tally.note(writer);
        Deposit::Apply(diff.payload)
    }

    /// Takes a parked diff whose turn it is.
    pub fn take_ready(&mut self) -> Option<(DiffHeader, PageDiff<P>)> {
        let version = &self.version;
        let ready = |(header, diff): &(DiffHeader, PageDiff<P>)| {
            diff.of.after <= version.get(header.writer)
        };
        let at = self.parked.iter().position(ready)?;
        debug_assert!(self.parked[at].0.interval > self.parked[at].1.of.after);
        Some(self.parked.swap_remove(at))
    }

    /// Returns true if the page contains all of `required`.
    pub fn satisfies(&self, required: &PageVersion) -> bool {
        self.version.covers(required)
    }

    /// Keeps a request until the page contains what it needs.
    pub fn park_fetch(&mut self, node: u16, required: PageVersion) {
        debug_assert!(!self.version.covers(&required), "only what must wait waits");
        debug_assert!(self.fetches.iter().all(|fetch| fetch.0 != node), "a node fetches once");
        self.fetches.push((node, required));
    }

    /// Takes a request that can be answered by now.
    pub fn take_fetch(&mut self) -> Option<u16> {
        let at = self.fetches.iter().position(|(_, required)| self.version.covers(required))?;
        debug_assert!(at < self.fetches.len());
        Some(self.fetches.swap_remove(at).0)
    }

    /// Keeps a local rank until the page contains what it needs.
    pub fn park_rank(&mut self, rank: u16, access: PageAccess) {
        debug_assert!(self.waiters.iter().all(|waiter| waiter.0 != rank), "a rank waits once");
        self.waiters.push((rank, access));
    }

    /// Takes the local ranks that wait.
    pub fn take_waiters(&mut self) -> Vec<(u16, PageAccess)> {
        std::mem::take(&mut self.waiters)
    }

    /// Returns true if nothing waits for this page.
    pub fn is_idle(&self) -> bool {
        let stored = self.parked.is_empty() && self.partial.is_empty();
        stored && self.fetches.is_empty() && self.waiters.is_empty()
    }
}
