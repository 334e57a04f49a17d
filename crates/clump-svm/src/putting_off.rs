//! Publication by another thread of what a rank has put off, until the heap ends.

use crate::deposit_keeper::PageRights;
use crate::domain::Domain;
use crate::keeper::Keeper;
use crate::late_publisher::LateWork;

impl LateWork for Domain {
    fn begin(&self) -> bool {
        let Keeper::Rank(keeper) = self.keeper() else { return false };
        // The end of the thread closes it.
        keeper.open_port().map(std::mem::forget).is_ok()
    }

    fn open_number(&self) -> u64 {
        match self.keeper() {
            Keeper::Rank(keeper) => keeper.open_number(),
            Keeper::Interface(_) => 0,
        }
    }

    fn is_wanted(&self) -> bool {
        matches!(self.keeper(), Keeper::Rank(keeper) if keeper.is_wanted())
    }

    fn publish(&self) -> bool {
        self.publish_open().is_ok()
    }
}

/// Time in which a rank puts off what it has to publish: until the heap ends.
#[derive(Debug)]
pub(crate) struct PuttingOff(pub(crate) &'static Domain);

impl Drop for PuttingOff {
    fn drop(&mut self) {
        // Fails once a rank has died: then nobody waits for it.
        let _ = self.0.publish_open();
        self.0.late.end();
    }
}
