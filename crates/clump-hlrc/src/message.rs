//! Messages between nodes, and actions of a node's driver.

use crate::interval::Interval;
use crate::page_version::PageVersion;
use crate::placement::HomeMove;
use crate::vector_time::VectorTime;

/// Description of the diffs of an interval, beside their pages and bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DiffHeader {
    /// Node that wrote.
    pub writer: u16,
    /// Interval whose writes the diffs complete.
    pub interval: u32,
    /// Barriers of all ranks that the writer had passed: a home that is behind waits with the
    /// bytes.
    pub epoch: u32,
    /// Everything that the writer had seen; a causal home applies its notices before the bytes.
    pub time: VectorTime,
}

/// Page of an interval whose diff is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WrittenPage {
    /// Page that was written.
    pub page: u32,
    /// Interval of the writer's diff before this one, 0 for the first: it is applied first.
    pub after: u32,
}

/// Diff of a page, or one of the parts in which it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PageDiff<P> {
    /// The page, and the diff before.
    pub of: WrittenPage,
    /// Number of this part, from 0.
    pub part: u32,
    /// Parts of the diff, at least one: the page has the interval once all are stored.
    pub parts: u32,
    /// The bytes of the part.
    pub payload: P,
}

/// Message from one node to another; `P` holds bytes of pages.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeMessage<P> {
    /// Write notices.
    Notices(Interval),
    /// Request for the notices of the receiver's own intervals behind `after`, up to `until`.
    PullNotices {
        /// Last interval that is known.
        after: u32,
        /// Last interval that is needed.
        until: u32,
    },
    /// Bytes for pages that the receiver is the home of.
    Diffs(DiffHeader, Vec<PageDiff<P>>),
    /// Request for a page.
    Fetch {
        /// Requested page.
        page: u32,
        /// Intervals that it must contain.
        required: PageVersion,
        /// True if the sender becomes the page's home with the answer.
        moving: bool,
    },
    /// A whole page.
    Page {
        /// Page sent.
        page: u32,
        /// Intervals that it contains.
        version: PageVersion,
        /// Everything that its bytes may depend on.
        time: VectorTime,
        /// Bytes of the page.
        payload: P,
    },
    /// Request to the directory of a page that gets its home by the first write.
    AskHome {
        /// The page.
        page: u32,
        /// True if the sender becomes the home unless there is one.
        claim: bool,
    },
    /// Answer of the directory.
    HomeIs {
        /// The page.
        page: u32,
        /// Home of the page, or none if it was never written.
        home: Option<u16>,
    },
    /// Request for the token of a lock.
    RequestLock {
        /// Requested lock.
        lock: u64,
    },
    /// Token of a lock.
    GrantLock {
        /// Lock granted.
        lock: u64,
        /// Number of the grant.
        grant: u32,
        /// Time of the last release.
        time: VectorTime,
    },
    /// Request to return a token.
    RecallLock {
        /// Recalled lock.
        lock: u64,
        /// Number of the grant that is to end.
        grant: u32,
    },
    /// Returned token; `again` replaces a request behind it.
    ReturnLock {
        /// Lock returned.
        lock: u64,
        /// Time of the last release.
        time: VectorTime,
        /// True if the sender requests the token again.
        again: bool,
    },
    /// Arrival at a barrier.
    Arrive {
        /// Barrier arrived at.
        barrier: u64,
        /// Ranks that arrived.
        count: u32,
        /// Ranks that the barrier waits for.
        members: u32,
        /// Everything that they have seen.
        time: VectorTime,
        /// Pages of the sender that move away.
        moves: Vec<HomeMove>,
    },
    /// End of a barrier.
    Depart {
        /// Barrier that has ended.
        barrier: u64,
        /// True if it was one of all ranks.
        everybody: bool,
        /// Merged time.
        time: VectorTime,
        /// All pages that move.
        moves: Vec<HomeMove>,
    },
    /// A flag's new value.
    SetFlag {
        /// Flag set.
        flag: u64,
        /// Value, if the flag is not beyond it.
        value: u64,
        /// Everything that the setter has seen.
        time: VectorTime,
    },
    /// Wait for a flag.
    AwaitFlag {
        /// Flag awaited.
        flag: u64,
        /// Smallest value that ends the wait.
        at_least: u64,
        /// Rank that waits, of the sender.
        rank: u16,
    },
    /// Rule by which unused pages get their homes.
    Place {
        /// First page of the range.
        first: u32,
        /// Pages of the range.
        pages: u32,
        /// Rule of the pages.
        rule: RangeRule,
    },
    /// Answer to [`NodeMessage::Place`]: the sender has stored the rule.
    Placed {
        /// First page of the range.
        first: u32,
    },
    /// End of a wait for a flag.
    FlagReached {
        /// Flag awaited.
        flag: u64,
        /// Smallest value that ended the wait.
        at_least: u64,
        /// Rank that waited.
        rank: u16,
        /// Everything that the setters had seen.
        time: VectorTime,
    },
}

/// Rule of a range of pages, as published by one node to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RangeRule {
    /// [`crate::Placement::Block`].
    Block,
    /// [`crate::Placement::Cyclic`].
    Cyclic,
    /// [`crate::Placement::FirstWrite`].
    FirstWrite,
    /// [`crate::Placement::On`].
    On(u16),
}

/// Right of a rank to use a page without a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PageAccess {
    /// Reads.
    Read,
    /// Reads and writes.
    Write,
}

/// Step that the driver of a node carries out, in the order given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action<P> {
    /// Sends a message.
    Send {
        /// Node that gets it.
        to: u16,
        /// The message.
        message: NodeMessage<P>,
    },
    /// Compares pages with their twins, makes the twins equal to the pages, and sends the
    /// differences as [`crate::DiffTransfer::messages`] makes them, also those that are empty.
    SendDiffs {
        /// Home of the pages.
        to: u16,
        /// Description sent beside the bytes.
        header: DiffHeader,
        /// The pages.
        pages: Vec<WrittenPage>,
    },
    /// Sends the bytes of a home page as [`NodeMessage::Page`].
    SendPage {
        /// Requesting node.
        to: u16,
        /// Requested page.
        page: u32,
        /// Intervals that it contains.
        version: PageVersion,
        /// Everything that its bytes may depend on.
        time: VectorTime,
    },
    /// Copies a page to its twin.
    MakeTwin {
        /// The page.
        page: u32,
    },
    /// Frees a twin.
    DropTwin {
        /// The page.
        page: u32,
    },
    /// Brings a cached page up to date ([`crate::merge`] if it has a twin).
    Merge {
        /// The page.
        page: u32,
        /// All its bytes, as the home has them.
        payload: P,
        /// True if the bytes are the twin afterwards.
        keep_twin: bool,
    },
    /// Stores a diff into a home page, byte by byte.
    Apply {
        /// The page.
        page: u32,
        /// The diff.
        payload: P,
    },
    /// Lets a rank use a page, and continues it where it waits for that.
    Map {
        /// Rank within the node.
        rank: u16,
        /// The page.
        page: u32,
        /// Right of the rank.
        access: PageAccess,
    },
    /// Revokes a rank's right to write without a fault.
    Downgrade {
        /// Rank within the node.
        rank: u16,
        /// The page.
        page: u32,
    },
    /// Takes a page from a rank.
    Invalidate {
        /// Rank within the node.
        rank: u16,
        /// The page.
        page: u32,
    },
    /// Recalls a lock that a rank may keep ([`crate::NodeState::take_lock_back`]): others wait.
    AskLock {
        /// Rank within the node.
        rank: u16,
        /// The lock.
        lock: u64,
    },
    /// Ends a wait of a rank.
    Resume {
        /// Rank within the node.
        rank: u16,
        /// The wait that ends; a rank of several threads may have others.
        wait: RankWait,
    },
}

/// Wait of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RankWait {
    /// For a lock.
    Lock(u64),
    /// For a barrier.
    Barrier(u64),
    /// For a flag, until it is at least so much.
    Flag(u64, u64),
    /// Until all nodes have stored the rule of the pages from this one on.
    Place(u32),
}
