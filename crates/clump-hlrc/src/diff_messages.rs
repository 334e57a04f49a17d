//! Messages of diffs: the runs, pages or homes that share one.

use crate::config::DiffTransfer;
use crate::diff::Diff;
use crate::message::{DiffHeader, NodeMessage, PageDiff, WrittenPage};

/// Bytes of a diff beside its payload, at most: five numbers.
const MAX_FRAME: usize = 25;

impl DiffTransfer {
    /// Returns the messages in which the diffs of an interval for one home are sent. Those with
    /// several diffs have no more than `max_bytes` bytes beside their header.
    pub fn messages(
        self,
        max_bytes: usize,
        header: &DiffHeader,
        diffs: impl IntoIterator<Item = (WrittenPage, Diff)>,
    ) -> Vec<NodeMessage<Vec<u8>>> {
        let mut messages: Vec<Vec<PageDiff<Vec<u8>>>> = Vec::new();
        let mut left = 0;
        for (of, diff) in diffs {
            let pieces = if self == Self::Runs { diff.into_runs() } else { vec![diff] };
            let parts = pieces.len() as u32;
            debug_assert!(parts > 0, "a diff that is empty is sent all the same");
            for (part, piece) in (0..).zip(pieces) {
                let mut payload = Vec::with_capacity(piece.byte_count() + 8);
                piece.encode(&mut payload);
                let bytes = payload.len() + MAX_FRAME;
                let diff = PageDiff { of, part, parts, payload };
                match messages.last_mut().filter(|_| self == Self::Home && bytes <= left) {
                    Some(last) => {
                        last.push(diff);
                        left -= bytes;
                    }
                    None => {
                        messages.push(vec![diff]);
                        left = max_bytes.saturating_sub(bytes);
                    }
                }
            }
        }
        debug_assert!(self == Self::Home || messages.iter().all(|diffs| diffs.len() == 1));
        messages.into_iter().map(|diffs| NodeMessage::Diffs(header.clone(), diffs)).collect()
    }
}
