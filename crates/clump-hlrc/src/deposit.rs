//! Home-based lazy release consistency on deposit, fetch and locks alone (paper 003, sections 2 and
//! 4): ranks carry it out at their own synchronous points, and nobody else does.
//!
//! Each node keeps words for all others ([`DepositLayout`]), which their ranks read and write by
//! one-sided operations. A release deposits what was written into the homes' pages, waits until it
//! is there, and then deposits its notices at all nodes; an acquire waits for the notices that it
//! needs. So a page that is fetched behind an acquire has all that the acquire asks for.
//!
//! Main types: [`DepositRank`] (one rank), [`DepositPort`] (its node's memory, and that of others),
//! [`DepositLayout`] (places of words).

mod acquire;
mod copy_word;
mod fault;
mod layout;
mod notices;
mod port;
mod rank;
mod release;
mod sync;

pub use copy_word::CopyWord;
pub use fault::PageUse;
pub use layout::DepositLayout;
pub use notices::Notices;
pub use port::{DepositPort, DepositedRun, PAGE_BYTES, PageBytes};
pub use rank::{DepositConfig, DepositRank};
