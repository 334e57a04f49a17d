//! Peers whose connections need service, and the time of the next timer.

use clump_proto::Nanos;

/// Connections that [`Stack::service`](crate::Stack::service) has to handle.
#[derive(Debug)]
pub(crate) struct Schedule {
    touched: Vec<u32>,
    /// Peers that there are, or were, streams to or from.
    streams: Vec<u32>,
    /// No timer is due before this time.
    due_at: Nanos,
}

impl Schedule {
    pub(crate) fn new() -> Self {
        Self { touched: Vec::new(), streams: Vec::new(), due_at: Nanos::MAX }
    }

    /// Lists a peer; its connection remembers that it is listed.
    #[inline]
    pub(crate) fn list(&mut self, peer: u32) {
        debug_assert!(!self.touched.contains(&peer), "listed once");
        self.touched.push(peer);
    }

    /// Lists a peer whose streams are to be serviced.
    #[cold]
    pub(crate) fn list_streams(&mut self, peer: u32) {
        if !self.streams.contains(&peer) {
            self.streams.push(peer);
        }
        debug_assert!(self.streams.contains(&peer), "it is listed");
    }

    /// Returns true if there are, or were, streams.
    #[inline]
    pub(crate) fn has_streams(&self) -> bool {
        !self.streams.is_empty()
    }

    /// Returns the peer at `at` in the list of those with streams.
    #[inline]
    pub(crate) fn streams(&self, at: usize) -> Option<u32> {
        self.streams.get(at).copied()
    }

    /// Removes the entry at `at`; the last one takes its place.
    #[inline]
    pub(crate) fn remove(&mut self, at: usize) {
        debug_assert!(at < self.touched.len(), "an entry of the list");
        self.touched.swap_remove(at);
    }

    /// Returns the number of peers listed.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.touched.len()
    }

    /// Returns the peer listed at `at`.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<u32> {
        self.touched.get(at).copied()
    }

    /// Notes the next timer of a connection.
    #[inline]
    pub(crate) fn note_timeout(&mut self, due: Option<Nanos>) {
        self.due_at = self.due_at.min(due.unwrap_or(Nanos::MAX));
        debug_assert!(due.is_none_or(|due| self.due_at <= due), "no timer is missed");
    }

    /// Returns true if timers are due; the caller then notes the next of each connection.
    #[inline]
    pub(crate) fn take_due(&mut self, now: Nanos) -> bool {
        let due = now >= self.due_at;
        if due {
            self.due_at = Nanos::MAX;
        }
        debug_assert!(due || self.next_timeout().is_none_or(|at| at > now), "it is to come");
        due
    }

    /// Returns the time of the next timer.
    #[inline]
    pub(crate) fn next_timeout(&self) -> Option<Nanos> {
        (self.due_at != Nanos::MAX).then_some(self.due_at)
    }
}
