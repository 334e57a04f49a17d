//! Waiting for a contribution.

use crate::mailbox::{PartId, Pieces, failed};
use crate::members::Members;
use crate::post::Post;
use clump_am::{ErrorKind, Result, WaitFor};
use clump_shm::node::NodeMemory;
use clump_shm::rank::WaitReason;

/// A contribution of another rank that a collective needs.
pub(crate) struct AwaitedPart<'a> {
    pub(crate) post: &'a Post,
    pub(crate) members: &'a Members,
    pub(crate) node: &'a NodeMemory,
    pub(crate) part: PartId,
    /// The place of the operation among all, from 1.
    pub(crate) call: u8,
    /// Bytes of it, if they are known.
    pub(crate) bytes: Option<usize>,
    pub(crate) got: Option<Pieces>,
}

impl WaitFor for AwaitedPart<'_> {
    fn done(&mut self) -> Result<bool> {
        self.post.send_unsent()?;
        if self.got.is_none() {
            let mut mailbox = self.post.mailbox();
            // First: a contribution to another collective may have the right length.
            if let Some(found) = mailbox.disagreement(self.part.team, self.part.seq) {
                return Err(ErrorKind::Disagreement(found.why.clone()).into());
            }
            self.got = mailbox.take(self.part, self.bytes).map_err(failed)?;
            if self.got.is_none()
                && let Some(by) = mailbox.is_broken(self.part.team, self.part.seq)
            {
                return Err(ErrorKind::RankLeft(by).into());
            }
        }
        Ok(self.got.is_some())
    }

    fn waiting(&self) -> WaitReason {
        let PartId { team, seq, from: peer, .. } = self.part;
        WaitReason::Collective { team, seq, peer, call: self.call }
    }

    fn depends_on(&self) -> Option<u32> {
        // The death of any member keeps the collective from ending: a rank that waits for the dead
        // one fails, and contributes nothing more.
        Some(self.members.first_dead(self.node).unwrap_or(self.part.from))
    }

    /// Other ranks wait for this one.
    fn keeps_failures(&self) -> bool {
        true
    }
}
