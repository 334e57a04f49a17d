//! Reads of other nodes' memory by the interface of a node, for ranks that cannot make them
//! themselves: a page fault has interrupted the rank's own stack.
//!
//! The rank leaves a call; its interface asks that of the other node; what comes back lies in the
//! rank's part of the region of mailboxes before the call is answered.

use crate::mailbox::{HEAP_REGION, RECORD_REGION, fetch_log_place};
use crate::node_pages::PAGE;
use crate::node_regions::NodeRegions;
use clump_interface::ServiceMessage;
use clump_onesided::protocol::{FREE_CODE, MAX_PIECE};
use clump_os::sync::Ordering;
use clump_shm::cells::Cells;
use clump_shm::export::SegmentName;

/// Requests between interfaces: to read, and what was read.
pub(crate) const ASK_CODE: u8 = FREE_CODE + 2;
pub(crate) const TOLD_CODE: u8 = FREE_CODE + 3;

/// Read of another node's memory, as words of a call and of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AskedRead {
    /// A page, and behind it `words` words of the records from a place on.
    Page { page: u32, at: u64, words: u32 },
    /// Words of the records.
    Words { at: u64, words: u32 },
    /// A word of the records, after it was set to a value if it was 0.
    Claim { at: u64, value: u64 },
    /// A word of the records, before a value was added to it.
    Add { at: u64, value: u64 },
}

impl AskedRead {
    /// Returns the read as words.
    pub(crate) fn pack(self) -> [u64; 3] {
        debug_assert!(self.bytes() <= MAX_PIECE, "an answer fits into a message");
        match self {
            Self::Page { page, at, words } => [u64::from(words) << 2, u64::from(page), at],
            Self::Words { at, words } => [1 | u64::from(words) << 2, 0, at],
            Self::Claim { at, value } => [2, value, at],
            Self::Add { at, value } => [3, value, at],
        }
    }

    /// Reads what [`AskedRead::pack`] wrote; none if it is nothing of that kind, or too long.
    pub(crate) fn unpack([kind, second, at]: [u64; 3]) -> Option<Self> {
        let words = u32::try_from(kind >> 2).ok()?;
        let read = match kind & 3 {
            0 => Self::Page { page: u32::try_from(second).ok()?, at, words },
            1 => Self::Words { at, words },
            2 => Self::Claim { at, value: second },
            _ => Self::Add { at, value: second },
        };
        (read.bytes() <= MAX_PIECE).then_some(read)
    }

    /// Returns the bytes that are read.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Page { words, .. } => PAGE + 8 * words as usize,
            Self::Words { words, .. } => 8 * words as usize,
            Self::Claim { .. } | Self::Add { .. } => 8,
        }
    }

    /// Carries the read out at the node whose memory it is; none if that has no such place.
    fn carry_out(self, node: u32, context: &mut dyn NodeRegions) -> Option<Vec<u8>> {
        let name = |region| SegmentName::of_node(node, region);
        debug_assert!(self.bytes() <= MAX_PIECE, "an answer fits into a message");
        let mut bytes = vec![0; self.bytes()];
        let mut read = |region: u8, at: u64, to: &mut [u8]| {
            let cells = context.segment(name(region), at, to.len() as u64).ok()?;
            cells.read(at, to).then_some(())
        };
        match self {
            Self::Page { page, at, .. } => {
                let (frame, words) = bytes.split_at_mut(PAGE);
                read(HEAP_REGION, u64::from(page) * PAGE as u64, frame)?;
                // Behind the bytes: they say which intervals those may be of.
                read(RECORD_REGION, at, words)?;
            }
            Self::Words { at, .. } => read(RECORD_REGION, at, &mut bytes)?,
            Self::Claim { at, value } => {
                let cells = context.segment(name(RECORD_REGION), at, 8).ok()?;
                let (done, missed) = (Ordering::SeqCst, Ordering::SeqCst);
                let found = match cells.word(at)?.compare_exchange(0, value, done, missed) {
                    Ok(_) => value,
                    Err(found) => found,
                };
                bytes.copy_from_slice(&found.to_le_bytes());
            }
            Self::Add { at, value } => {
                let cells = context.segment(name(RECORD_REGION), at, 8).ok()?;
                let before = cells.word(at)?.fetch_add(value, Ordering::SeqCst);
                bytes.copy_from_slice(&before.to_le_bytes());
            }
        }
        debug_assert_eq!(bytes.len(), self.bytes(), "all of it");
        Some(bytes)
    }
}

/// Returns the request of a rank to the interface of another node, by the words of its call; none
/// if they make no sense.
pub(crate) fn request(rank: u32, [node, rest @ ..]: [u64; 4]) -> Option<ServiceMessage> {
    let [kind, second, third] = AskedRead::unpack(rest)?.pack();
    let words = [u64::from(rank), kind, second, third];
    Some(ServiceMessage {
        node: u32::try_from(node).ok()?,
        code: ASK_CODE,
        words,
        payload: Vec::new(),
    })
}

/// Answers a request of another node's interface, at `node`.
pub(crate) fn answer(
    (from, node): (u32, u32),
    [rank, rest @ ..]: [u64; 4],
    context: &mut dyn NodeRegions,
) -> Option<ServiceMessage> {
    debug_assert_ne!(from, node, "a node reads its own memory itself");
    let payload = AskedRead::unpack(rest)?.carry_out(node, context)?;
    Some(ServiceMessage { node: from, code: TOLD_CODE, words: [rank, 0, 0, 0], payload })
}

/// Leaves what was read where the rank finds it. Returns false if it does not fit.
pub(crate) fn leave(cells: &Cells, rank: u32, payload: &[u8]) -> bool {
    debug_assert!(!payload.is_empty(), "something was read");
    payload.len() <= MAX_PIECE && cells.write(fetch_log_place(rank), payload)
}

/// Takes what was left for this rank.
pub(crate) fn take(cells: &Cells, rank: u32, to: &mut [u8]) -> bool {
    debug_assert!(to.len() <= MAX_PIECE, "that is the room for it");
    cells.read(fetch_log_place(rank), to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_told_as_they_were_asked_for() {
        let all = [
            AskedRead::Page { page: 77, at: 256, words: 4 },
            AskedRead::Words { at: 1 << 40, words: 64 },
            AskedRead::Claim { at: 8, value: u64::MAX },
            AskedRead::Add { at: 16, value: 48 },
        ];
        for read in all {
            assert_eq!(AskedRead::unpack(read.pack()), Some(read));
            let [kind, second, third] = read.pack();
            let request = request(3, [1, kind, second, third]).unwrap();
            assert_eq!((request.node, request.words[0]), (1, 3));
        }
        assert_eq!(AskedRead::unpack([1 | 4096 << 2, 0, 0]), None, "too long for an answer");
        assert_eq!(AskedRead::unpack([u64::MAX, 0, 0]), None);
    }
}
