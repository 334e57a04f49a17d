//! Reads of other nodes that ranks ask their interface for.

use crate::asked_reads;
use crate::mailbox::{Mailbox, Slot, result};
use crate::node_protocol::NodeProtocol;
use crate::node_regions::NodeRegions;

impl NodeProtocol {
    /// Returns the next read of another node that a rank has asked for.
    pub(crate) fn poll_ask(&mut self) -> Option<(u16, [u64; 4])> {
        self.asks.pop_front()
    }

    /// Ends a read that a rank has asked for: with what was read, or without.
    pub(crate) fn end_ask(
        &mut self,
        rank: u32,
        payload: Option<&[u8]>,
        context: &mut dyn NodeRegions,
    ) {
        let Some(cells) = self.control(context) else { return };
        let (Some(local), Some(mailbox)) = (
            self.ranks.get_mut(rank as usize),
            Mailbox::over(&cells, Mailbox::place(rank, Slot::FAULT)),
        ) else {
            return;
        };
        let left = payload.is_some_and(|bytes| asked_reads::leave(&cells, rank, bytes));
        local.answer(&mailbox, Slot::FAULT, if left { result::DONE } else { result::UNREACHABLE });
    }
}
