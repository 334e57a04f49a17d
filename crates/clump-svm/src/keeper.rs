//! Executor of the protocol towards other ranks.

use crate::caller::Caller;
use crate::deposit_keeper::DepositKeeper;
use crate::rank_threads::RankThreads;

/// Executor of the protocol of a rank.
#[derive(Debug)]
pub(crate) enum Keeper {
    /// The interface of the node, which is called through mailboxes.
    Interface(Box<Caller>),
    /// The rank itself.
    Rank(DepositKeeper),
}

impl Keeper {
    /// Returns the threads of the rank that use the heap.
    pub(crate) fn threads(&self) -> &RankThreads {
        match self {
            Self::Interface(caller) => caller.threads(),
            Self::Rank(keeper) => keeper.threads(),
        }
    }
}
