//! Home-based lazy release consistency of shared pages, as pure state machines.
//!
//! Layer 0: depends on nothing. A driver reports faults, releases, acquires and messages of other
//! nodes to [`NodeState`], and carries out the steps that it gives. Bytes of pages stay with the
//! driver, which compares them with twins ([`Diff`]) and brings copies up to date ([`merge`]).
//! Ranks of one node share one copy of each page, and have rights of their own.
//!
//! Main types: [`NodeState`] (a node), [`Action`] (what its driver does), [`Message`] (what nodes
//! send), [`Config`] (the protocol's variants), [`VectorTime`] and [`PageVersion`] (intervals seen
//! by a node, contained in bytes), [`Interval`] (write notices), [`Diff`]. Module [`deposit`] has
//! the protocol that ranks carry out by themselves, without a state machine of their node;
//! [`Strides`] and [`PageHistory`] say which pages ranks are likely to use.
//!
//! # Invariants
//! 1. No clock, socket, thread or random source; the bytes of pages are never read here.
//! 2. A rank may use a page only if the bytes at its node contain every interval whose notice it
//!    has applied.
//! 3. Notices of an interval are applied after all earlier ones of its node are known, and before
//!    a rank passes the acquire that its time came with.
//! 4. A home stores the diffs of one writer to a page in the order of its intervals, each once.
//! 5. A fetched page is merged only if it contains the last diff that this node sent of that page.
//! 6. A copy that a rank may have written has a twin until its diff is made; a home page has none.
//! 7. A page has one home; it moves only while all ranks wait in a barrier, and no rank of the old
//!    or the new home continues before the bytes have moved.
//! 8. A node requests a page, a lock's token or a home at most once at a time.
//! 9. In causal mode a node's ranks apply the notices that bytes depend on before they see them.
//! 10. A page that a rank may fetch by itself is not under way, and lacks something that the node
//!     needs ([`NodeState::open_page`]); the node reports when that changes.
#![forbid(unsafe_code)]

mod barrier_home;
mod cached_page;
mod config;
pub mod deposit;
mod diff;
mod diff_messages;
mod flag_home;
mod home_page;
mod interval;
mod lock_home;
mod lock_token;
mod message;
mod message_format;
mod node;
mod notice_log;
mod page_history;
mod page_version;
mod placement;
mod rank_view;
mod sequence;
mod strides;
pub mod testing;
mod varint;
mod vector_time;

pub use barrier_home::{BarrierEnd, BarrierHome};
pub use config::{Config, Consistency, DiffTransfer, FetchRule, NoticeTransfer, TwinTime};
pub use diff::{Diff, merge};
pub use flag_home::{FlagHome, FlagWaiter};
pub use interval::Interval;
pub use lock_home::{LockHome, LockOrder};
pub use lock_token::{LockToken, TokenStep};
pub use message::{
    Action, DiffHeader, NodeMessage, PageAccess, PageDiff, RangeRule, RankWait, WrittenPage,
};
pub use message_format::MessageLimits;
pub use node::{NodeState, OpenPage};
pub use notice_log::NoticeLog;
pub use page_history::{PageHistory, PageTurn};
pub use page_version::PageVersion;
pub use placement::{HomeMove, Placement, PlacementTable, WriterTally};
pub use sequence::Sequence;
pub use strides::Strides;
pub use varint::{ByteReader, DecodeError, push_u32};
pub use vector_time::VectorTime;
