//! An entry of an endpoint's translation table.

use clump_net::FlowId;
use clump_shm::name::Name;
use clump_shm::path::Path;

/// Index into an endpoint's translation table (paper 000, 2.2: destinations are small integers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Dest(pub u32);

/// The right of access to a virtual network: whoever knows an endpoint's tag may send to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag(pub u64);

/// A mapped destination.
#[derive(Debug)]
pub(crate) struct MappedPeer {
    pub(crate) name: Name,
    pub(crate) tag: u64,
    /// `None` when the name leads to no endpoint of this node.
    pub(crate) path: Option<Path>,
    /// The way to an endpoint of another node.
    pub(crate) remote: Option<FlowId>,
    pub(crate) reply_lane: Option<usize>,
    /// Requests sent since the last look at the peer's fate.
    pub(crate) unchecked: bool,
    /// The target let go of the lane (of an unmapped destination).
    pub(crate) released: bool,
}
