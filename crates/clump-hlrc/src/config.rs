//! Settings of a node's protocol; all nodes of a job have the same but for their number.

use crate::placement::Placement;

/// Guarantee for programs that publish data without a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Consistency {
    /// Seeing a page implies nothing about others: pointers are published by locks, barriers or
    /// flags.
    Plain,
    /// A rank that faults on a page, and then sees bytes of it, sees everything that their writer
    /// had seen at its last release or fence. A page that the rank may use already can change
    /// without a fault: at the page's home, and where another rank of the node fetches it.
    Fetch,
    /// A rank that sees bytes of a page sees everything that their writer had seen at its last
    /// release or fence.
    Causal,
}

/// Transport of write notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoticeTransfer {
    /// A release sends them to all nodes.
    Push,
    /// An acquire requests those that it lacks.
    Pull,
}

/// Answer of a home that does not have the requested version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FetchRule {
    /// The home answers once it has the version.
    WaitAtHome,
    /// The home answers at once, and the requester retries.
    Retry,
}

/// Transport of diffs to a home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiffTransfer {
    /// One message for each run of changed bytes, as the direct diffs of paper 003 (section 2).
    Runs,
    /// One message for each page.
    Pages,
    /// One message for all pages of an interval: what paper 003 (section 4) calls scatter-gather.
    Home,
}

/// Moment at which a cached page gets its twin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TwinTime {
    /// With the first write, which must be reported as a fault.
    AtWrite,
    /// With the page, so that writes need no fault and are found by scans.
    AtFetch,
}

/// Settings of one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Number of this node.
    pub node: u16,
    /// Number of nodes.
    pub nodes: u16,
    /// Ranks of this node.
    pub ranks: u16,
    /// Ranks of all nodes.
    pub all_ranks: u32,
    /// Shared pages.
    pub pages: u32,
    /// First homes.
    pub placement: Placement,
    /// Guarantee beyond release consistency.
    pub consistency: Consistency,
    /// Transport of write notices.
    pub notices: NoticeTransfer,
    /// Answer of a home that is behind.
    pub fetch: FetchRule,
    /// Moment of twins.
    pub twins: TwinTime,
    /// Local ranks that may still enter a lock that another node waits for.
    pub local_turns: u32,
    /// Write notices kept; beyond it, ranks apply them before they need to.
    pub max_notices: usize,
    /// Periods between barriers after which a page moves to its sole writer; 0 is never.
    pub move_after: u8,
    /// True if ranks fetch pages by themselves ([`crate::NodeState::open_page`]): in plain and in
    /// fetch mode, where pages do not move.
    pub own_fetches: bool,
}
