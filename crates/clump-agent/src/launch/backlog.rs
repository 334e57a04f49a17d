//! Bytes that wait to be sent to one agent: files, then frames, which other agents may be sent too.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;

/// Bytes of a file that are read at a time.
const UPLOAD: usize = 256 << 10;

/// Files and frames for one agent.
#[derive(Debug)]
pub(super) struct Backlog {
    /// Files to send before anything else.
    uploads: VecDeque<File>,
    /// Bytes to send, of the first from `sent` on.
    parts: VecDeque<Arc<[u8]>>,
    sent: usize,
}

impl Backlog {
    /// Creates a backlog of these files.
    pub(super) fn new(uploads: Vec<File>) -> Self {
        Self { uploads: uploads.into(), parts: VecDeque::new(), sent: 0 }
    }

    /// Appends a frame.
    pub(super) fn push(&mut self, frame: Arc<[u8]>) {
        debug_assert!(!frame.is_empty(), "a frame has a head");
        self.parts.push_back(frame);
    }

    /// Returns true if no frame, and no part of a file that was begun, waits.
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns what to send next; reads the next part of a file if it takes that.
    pub(super) fn first(&mut self) -> Option<&[u8]> {
        while self.parts.is_empty() {
            let mut part = vec![0; UPLOAD];
            // A file that has got shorter is noticed at the other end, which waits in vain.
            let bytes = self.uploads.front_mut()?.read(&mut part).unwrap_or(0);
            part.truncate(bytes);
            if bytes == 0 {
                self.uploads.pop_front();
            } else {
                self.parts.push_back(part.into());
            }
        }
        self.parts.front().and_then(|first| first.get(self.sent..))
    }

    /// Records that so many bytes of the first have been sent.
    pub(super) fn on_sent(&mut self, bytes: usize) {
        self.sent += bytes;
        let length = self.parts.front().map_or(0, |first| first.len());
        debug_assert!(self.sent <= length, "no more is sent than there is");
        if self.sent >= length {
            self.parts.pop_front();
            self.sent = 0;
        }
    }

    /// Forgets all of it: the agent reads no more.
    pub(super) fn clear(&mut self) {
        self.uploads.clear();
        self.parts.clear();
        self.sent = 0;
    }
}
