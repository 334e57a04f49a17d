//! The way back to an endpoint that sent a request, and what waits for room on it.

use clump_shm::path::Path;
use clump_shm::slot::Header;
use std::collections::VecDeque;

/// A reply that found its way full.
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

    /// Whether replies wait. While they do, no more requests of this sender are handled, so that the
    /// stash of a link holds one reply at most.
    #[inline(always)]
    pub(crate) fn is_stuck(&self) -> bool {
        !self.stash.is_empty()
    }

    /// Sends; false when there is no room now.
    #[inline(always)]
    pub(crate) fn send_now(&mut self, header: Header, words: &[u64], payload: &[u8]) -> bool {
        self.stash.is_empty() && self.path.push_any(header, words, payload).is_ok()
    }

    /// The same for words alone.
    #[inline(always)]
    pub(crate) fn send_words(&mut self, header: Header, words: &[u64]) -> bool {
        self.stash.is_empty() && self.path.push(header, words).is_ok()
    }

    /// Sends, or puts aside; true when it was put aside.
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

    /// Sends what was put aside, as far as there is room.
    pub(crate) fn flush(&mut self) {
        while let Some(first) = self.stash.front() {
            if self.path.push_any(first.header, &first.words, &first.payload).is_err() {
                return;
            }
            self.stash.pop_front();
        }
    }

    /// The requester is gone: takes back what it never read, sent or not.
    pub(crate) fn take_back(&mut self, mut each: impl FnMut(Header, &[u64], &[u8])) {
        self.path.take_back(&mut each);
        for stashed in self.stash.drain(..) {
            each(stashed.header, &stashed.words, &stashed.payload);
        }
    }
}
