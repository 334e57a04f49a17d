//! Parts of collectives that arrived before they were asked for.

use std::collections::HashMap;

/// Which part: number of the collective, rank it came from, step of the collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Part {
    pub(crate) seq: u64,
    pub(crate) from: u32,
    pub(crate) step: u64,
}

/// Bytes of a part as they come in; a lane keeps the order of one sender's pieces.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    parts: HashMap<Part, Vec<u8>>,
}

impl Mailbox {
    /// The bytes of `part` so far, to be appended to.
    pub(crate) fn open(&mut self, part: Part) -> &mut Vec<u8> {
        self.parts.entry(part).or_default()
    }

    /// Takes `part` once it has `bytes` bytes.
    pub(crate) fn take(&mut self, part: Part, bytes: usize) -> Option<Vec<u8>> {
        if self.parts.get(&part)?.len() < bytes {
            return None;
        }
        self.parts.remove(&part)
    }
}
