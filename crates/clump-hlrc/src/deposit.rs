//! Home-based lazy release consistency on deposit, fetch and locks alone (paper 003, sections 2 and
//! 4): ranks carry it out at their own synchronous points, and nobody else does.
//!
//! Each node keeps words for all others ([`DepositLayout`]), which their ranks read and write by
//! one-sided operations. A release deposits what was written into the homes' pages, waits until it
//! is there, and then deposits its notices at all nodes; an acquire waits for the notices that it
//! needs. So a page that is fetched behind an acquire has all that the acquire asks for.
//!
//! # Invariants
//! 1. An interval is completed, and its notices are sent, only once its bytes, and those of all
//!    earlier intervals of its node, are at their homes.
//! 2. A rank passes an acquire only once its node has consumed all that the acquire's time names,
//!    and all that those intervals depend on, and once its rights on their pages have gone.
//! 3. A copy is fetched only while no bytes of the own node for that page are on their way; one
//!    rank of a node at a time deposits bytes of a page.
//! 4. A copy that a rank may have written has a twin; a page at its home has none.
//! 5. No word of a node is waited for while one of its pages is locked.
//! 6. Notices are overwritten only once all ranks of their reader have passed them; those that find
//!    no room make all copies of the reader stale.
//!
//! Main types: [`DepositRank`] (one rank), [`DepositPort`] (its node's memory, and that of others),
//! [`DepositLayout`] (places of words).

mod acquire;
mod copy_word;
mod fault;
mod layout;
mod node_side;
mod notices;
mod port;
mod rank;
mod release;
mod sync;

pub use copy_word::CopyWord;
pub use fault::PageUse;
pub use layout::DepositLayout;
pub use node_side::DepositConfig;
pub use notices::Notices;
pub use port::{DepositPort, DepositedRun, PAGE_BYTES, PageBytes, PagePart};
pub use rank::DepositRank;
