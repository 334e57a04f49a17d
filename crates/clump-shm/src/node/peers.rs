//! Facts about all ranks and network interfaces of the job, in the memory of a node.

use super::NodeMemory;
use crate::peer::Peer;

impl NodeMemory {
    /// Returns this node's record of a rank or network interface of the job, on any node; `None`
    /// beyond the last.
    #[inline]
    pub fn peer(&self, id: u32) -> Option<Peer<'_>> {
        debug_assert_eq!(self.records.len(), self.addresses.len(), "a record and an address each");
        let (record, address) = (self.records.get(id as usize)?, self.addresses.get(id as usize)?);
        Some(Peer::new(id, record, address))
    }

    /// Joins as `rank`, of this node, in process `pid`.
    ///
    /// # Errors
    /// Another process, which the error carries, has joined as this rank; 0: the rank is of another
    /// node.
    pub fn join(&self, rank: u32, pid: u32) -> Result<(), u32> {
        let (Some(block), Some(peer)) = (self.rank(rank), self.peer(rank)) else { return Err(0) };
        debug_assert!(self.is_local(rank), "network interfaces do not join");
        if !peer.join() {
            return Err(block.pid());
        }
        block.note_joined(pid);
        Ok(())
    }

    /// Marks `rank`, of this node, as finalized. Without effect unless it had joined.
    pub fn finalize(&self, rank: u32) {
        let (Some(block), Some(peer)) = (self.rank(rank), self.peer(rank)) else {
            clump_bug::bug!("a rank of this node finalizes");
            return;
        };
        block.note_finalized();
        peer.finalize();
    }
}
