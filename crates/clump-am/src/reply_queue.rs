//! The path from an endpoint back to one requester, and the replies that wait for room on it.

use clump_shm::path::Path;
use clump_shm::slot::Header;
use std::collections::VecDeque;

/// A reply that found its path full.
#[derive(Debug)]
struct DeferredReply {
    header: Header,
    words: Vec<u64>,
    payload: Vec<u8>,
}

/// The reply path of one requester.
#[derive(Debug)]
pub(crate) struct ReplyQueue {
    pub(crate) path: Path,
    stash: VecDeque<DeferredReply>,
}

impl ReplyQueue {
    pub(crate) fn new(path: Path) -> Self {
        Self { path, stash: VecDeque::new() }
    }

    /// Returns true if replies wait. While they do, no more requests of this sender are handled, so
    /// that a queue holds one reply at most.
    #[inline(always)]
    pub(crate) fn is_stuck(&self) -> bool {
        !self.stash.is_empty()
    }

    /// Sends a reply; returns false if there is no room now.
    #[inline(always)]
    pub(crate) fn send_now(&mut self, header: Header, words: &[u64], payload: &[u8]) -> bool {
        self.stash.is_empty() && self.path.push_any(header, words, payload).is_ok()
    }

    /// Sends a reply of words alone; returns false if there is no room now.
    #[inline(always)]
    pub(crate) fn send_words(&mut self, header: Header, words: &[u64]) -> bool {
        self.stash.is_empty() && self.path.push(header, words).is_ok()
    }

    /// Sends a reply, or stores it for [`ReplyQueue::flush`]; returns true if it was stored.
    #[inline(always)]
    pub(crate) fn send(&mut self, header: Header, words: &[u64], payload: &[u8]) -> bool {
        if self.send_now(header, words, payload) {
            return false;
        }
        self.put_aside(header, words, payload);
        true
    }

    #[cold]
    fn put_aside(&mut self, header: Header, words: &[u64], payload: &[u8]) {
        let (words, payload) = (words.to_vec(), payload.to_vec());
        self.stash.push_back(DeferredReply { header, words, payload });
    }

    /// Sends stored replies as far as there is room.
    pub(crate) fn flush(&mut self) {
        while let Some(first) = self.stash.front() {
            if self.path.push_any(first.header, &first.words, &first.payload).is_err() {
                return;
            }
            self.stash.pop_front();
        }
    }

    /// Recovers every reply that a closed or dead requester never read, sent or not.
    pub(crate) fn take_back(&mut self, mut each: impl FnMut(Header, &[u64], &[u8])) {
        self.path.take_back(&mut each);
        for stashed in self.stash.drain(..) {
            each(stashed.header, &stashed.words, &stashed.payload);
        }
    }
}
