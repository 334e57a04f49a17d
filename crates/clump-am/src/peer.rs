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
    /// `None` if the name leads to no endpoint of this node.
    pub(crate) path: Option<Path>,
    /// The flow to an endpoint of another node.
    pub(crate) remote: Option<FlowId>,
    pub(crate) reply_lane: Option<usize>,
    /// True if requests were sent since the last check for the peer's death or close.
    pub(crate) unchecked: bool,
    /// True if the target released the lane (of an unmapped destination).
    pub(crate) released: bool,
}
