//! Diffs: the bytes of an interval, on their way to the homes of its pages.

use super::NodeProtocol;
use crate::mailbox::{MAYBE_WRITTEN, RightsStep};
use crate::node_pages::PageFailure;
use crate::node_regions::NodeRegions;
use clump_hlrc::{DiffHeader, WrittenPage};
use clump_onesided::protocol::MAX_PIECE;

/// Bytes of a message of diffs beside them and the times of nodes, at most.
const HEADER: usize = 32;
/// Bytes of the time of a node, at most.
const NODE_TIME: usize = 10;

impl NodeProtocol {
    /// Notes pages as written, as far as they exist.
    pub(super) fn note_written(
        &mut self,
        rank: u16,
        written: Vec<RightsStep>,
        context: &mut dyn NodeRegions,
    ) {
        let Some((settings, state)) = self.state.as_mut().filter(|(own, _)| own.scans) else {
            return;
        };
        for step in written {
            let end = step.first.saturating_add(step.pages).min(settings.pages);
            let maybe = step.access == MAYBE_WRITTEN;
            for page in step.first..end {
                let mut written = || !maybe || self.pages.may_differ(context, page);
                if state.has_page(page) && written() {
                    state.note_written(rank, page);
                }
            }
        }
    }

    /// Sends the diffs of an interval to the home of its pages, in messages of one request each
    /// where pages share them: the home stores each as it arrives.
    pub(super) fn send_diffs(
        &mut self,
        to: u16,
        (header, pages): (&DiffHeader, &[WrittenPage]),
        context: &mut dyn NodeRegions,
    ) -> Result<(), PageFailure> {
        let Some((settings, _)) = &self.state else { return Ok(()) };
        let transfer = settings.diffs;
        let mut diffs = Vec::with_capacity(pages.len());
        for &of in pages {
            diffs.push((of, self.pages.take_diff(context, of.page)?));
        }
        let room = MAX_PIECE.saturating_sub(HEADER + NODE_TIME * usize::from(self.place.nodes));
        debug_assert!(!diffs.is_empty(), "an interval has pages");
        for message in transfer.messages(room, header, diffs) {
            self.send(to, &message);
        }
        Ok(())
    }
}
