//! An entry of an endpoint's translation table.

use clump_net::FlowId;
use clump_shm::name::Name;
use clump_shm::path::Path;

/// Index into an endpoint's translation table (paper 000, 2.2: destinations are small integers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Dest(pub u32);

/// The right of access to a virtual network: a rank that knows an endpoint's tag may send to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag(pub u64);

/// A mapped destination.
#[derive(Debug)]
pub(crate) struct MappedPeer {
    pub(crate) name: Name,
    pub(crate) tag: u64,
    pub(crate) path: PeerPath,
    /// Index at which the lane of an endpoint to itself was last among the hot ones.
    pub(crate) hot_at: usize,
    /// The way to an endpoint of another node.
    pub(crate) remote: Option<FlowId>,
    pub(crate) reply_lane: Option<usize>,
    /// True if requests were sent since the last check for the peer's death or close.
    pub(crate) unchecked: bool,
    /// True if the target released the lane (of an unmapped destination).
    pub(crate) released: bool,
}

/// The path to a destination. It tells the endpoint itself from all others: what sends to others
/// matches [`PeerPath::Other`] alone, and so pays nothing for the difference.
#[derive(Debug)]
pub(crate) enum PeerPath {
    /// None: the name leads to no endpoint of this node.
    Absent,
    /// To another endpoint, or by a shared queue.
    Other(Path),
    /// To the endpoint itself, by a lane.
    Own(Path),
}

impl PeerPath {
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<&Path> {
        match self {
            PeerPath::Absent => None,
            PeerPath::Other(path) | PeerPath::Own(path) => Some(path),
        }
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self) -> Option<&mut Path> {
        match self {
            PeerPath::Absent => None,
            PeerPath::Other(path) | PeerPath::Own(path) => Some(path),
        }
    }
}
