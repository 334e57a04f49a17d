//! Home-based lazy release consistency on deposit, fetch and locks alone (paper 003, sections 2 and
//! 4): ranks carry it out at their own synchronous points, and nobody else does.
//!
//! Each node keeps words for all others ([`DepositLayout`]), which their ranks read and write by
//! one-sided operations. A release deposits what was written in the homes' pages, behind it a word
//! at each home, and its notices at all nodes; it waits for nothing. An acquire waits for the
//! notices that it needs. A fetch reads the words of the home before the page, and is repeated if
//! bytes that the node must see have not arrived there.
//!
//! # Invariants
//! 1. Notices of an interval are sent behind its bytes, and behind the notices of all earlier
//!    intervals of its node. Those for a home come behind the bytes there.
//! 2. A rank passes an acquire only once its node has consumed all that the acquire's time names,
//!    and all that those intervals depend on, and once its rights on their pages have gone.
//! 3. A copy is current only if all bytes that its node had consumed, or deposited itself, were at
//!    the home before it was read. Bytes of a page by one rank of a node are deposited only once
//!    those of another are at the home.
//! 4. A copy that a rank may have written has a twin; a page at its home has none.
//! 5. No word of a node is waited for while one of its pages is locked.
//! 6. A home leaves notices of its own pages out only while no other node has said that it shares
//!    them, which each does before its first fetch.
//! 7. Notices are overwritten only once all ranks of their reader have passed them; those that find
//!    no room make all copies of the reader stale.
//! 8. A rank compares its pages for an interval before other ranks of its node do for later ones,
//!    also if it keeps the interval open. Those are published once another rank waits.
//!
//! Main types: [`DepositRank`] (one rank), [`DepositPort`] (its node's memory, and that of others),
//! [`DepositLayout`] (places of words).

mod acquire;
mod arrivals;
mod copy_word;
mod exclusive;
mod fault;
mod fetch_ahead;
mod layout;
mod lock;
mod node_side;
mod notices;
mod open_interval;
mod port;
mod rank;
mod release;

pub use copy_word::CopyWord;
pub use fault::PageUse;
pub use layout::{DepositLayout, SHARED_TOGETHER};
pub use lock::MAX_LOCKING_NODES;
pub use node_side::DepositConfig;
pub use notices::Notices;
pub use port::{
    DepositPort, DepositedBytes, DepositedNotices, DepositedRun, PAGE_BYTES, PageBytes, PagePart,
};
pub use rank::DepositRank;
