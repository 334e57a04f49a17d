//! Pages at their home: their versions, and diffs and requests that come too early.

use crate::message::{DiffHeader, PageAccess};
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
    parked: Vec<(DiffHeader, P)>,
    fetches: Vec<(u16, PageVersion)>,
    waiters: Vec<(u16, PageAccess)>,
    tally: WriterTally,
}

impl<P> HomePage<P> {
    /// Returns a page with `version`, whose bytes depend on `time`.
    pub fn new(version: PageVersion, time: VectorTime) -> Self {
        let (parked, fetches, waiters) = (Vec::new(), Vec::new(), Vec::new());
        Self { version, time, parked, fetches, waiters, tally: WriterTally::default() }
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

    /// Takes a diff.
    pub fn handle_diff(&mut self, header: DiffHeader, payload: P) -> Deposit<P> {
        let known = self.version.get(header.writer);
        debug_assert!(header.after < header.interval, "a diff follows an earlier one");
        if header.interval <= known {
            return Deposit::Known;
        }
        if header.after > known {
            self.parked.push((header, payload));
            return Deposit::Parked;
        }
        debug_assert_eq!(header.after, known, "no diff of the writer is left out");
        self.version.raise(header.writer, header.interval);
        self.time.join(&header.time);
        self.tally.note(header.writer);
        Deposit::Apply(payload)
    }

    /// Takes a parked diff whose turn has come.
    pub fn take_ready(&mut self) -> Option<(DiffHeader, P)> {
        let version = &self.version;
        let ready = |(header, _): &(DiffHeader, P)| header.after <= version.get(header.writer);
        let at = self.parked.iter().position(ready)?;
        debug_assert!(self.parked[at].0.interval > self.parked[at].0.after);
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
        self.parked.is_empty() && self.fetches.is_empty() && self.waiters.is_empty()
    }
}
