//! An entry of an endpoint's translation table.

use crate::context::RankContext;
use clump_net::FlowId;
use clump_shm::block::Openness;
use clump_shm::name::Name;
use clump_shm::path::Path;
use clump_trace::Counter;
use clump_wire::Reason;

/// Index into an endpoint's translation table (paper 000, 2.2: destinations are small integers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Dest(pub u32);

/// The right of access to a virtual network: a rank with an endpoint's tag may send to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag(pub u64);

/// A mapped destination.
#[derive(Debug)]
pub(crate) struct MappedPeer {
    pub(crate) name: Name,
    pub(crate) tag: u64,
    pub(crate) route: Route,
    /// Index at which the lane of an endpoint to itself was last among the hot ones.
    pub(crate) hot_at: usize,
    pub(crate) reply_lane: Option<usize>,
    /// True if requests were sent since the last check for the peer's death or close.
    pub(crate) unchecked: bool,
    /// True if the target released the lane (of an unmapped destination).
    pub(crate) released: bool,
}

/// The route to a destination. The endpoint itself has a variant of its own: sends to other
/// endpoints of the node match [`Route::Local`] alone, and so pay nothing for the difference.
#[derive(Debug)]
pub(crate) enum Route {
    /// None: no endpoint has the name.
    Absent,
    /// To another endpoint of this node, or by a shared queue.
    Local(Path),
    /// To the endpoint itself, by a lane.
    Own(Path),
    /// To an endpoint of another node.
    Remote(FlowId),
}

impl Route {
    /// Returns the path through this node's memory.
    #[inline(always)]
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Route::Local(path) | Route::Own(path) => Some(path),
            Route::Absent | Route::Remote(_) => None,
        }
    }

    /// Returns the path through this node's memory, to send by it.
    #[inline(always)]
    pub(crate) fn path_mut(&mut self) -> Option<&mut Path> {
        if let Route::Local(path) | Route::Own(path) = self { Some(path) } else { None }
    }

    /// Returns the counter of messages that found no room on it.
    pub(crate) fn full_counter(&self) -> Counter {
        match self {
            Route::Local(path) | Route::Own(path) if path.has_lane() => Counter::LaneFull,
            Route::Local(_) | Route::Own(_) => Counter::QueueFull,
            Route::Remote(_) => Counter::NetFull,
            Route::Absent => {
                clump_bug::bug!("a route to nowhere refuses");
                Counter::QueueFull
            }
        }
    }

    /// Returns the flow to an endpoint of another node.
    pub(crate) fn flow(&self) -> Option<FlowId> {
        if let Route::Remote(flow) = self { Some(*flow) } else { None }
    }
}

impl MappedPeer {
    pub(crate) fn new(name: Name, tag: Tag, route: Route, reply_lane: Option<usize>) -> Self {
        debug_assert!(reply_lane.is_none() || route.path().is_some(), "nothing brings replies");
        debug_assert!(route.path().is_none_or(|path| path.to() == name), "another's path");
        let (unchecked, released, hot_at) = (false, false, 0);
        Self { name, tag: tag.0, route, hot_at, reply_lane, unchecked, released }
    }
}

/// Returns the reason for which the endpoint `to` admits nothing; `path` leads there, if there is
/// one.
#[cold]
pub(crate) fn reason_for_refusal(path: Option<&Path>, to: Name, context: &RankContext) -> Reason {
    debug_assert!(path.is_none_or(|path| path.to() == to), "another's path");
    let dead = context.node().death_of(to.rank()).is_some();
    match path.map_or(Openness::Absent, Path::openness) {
        _ if dead => Reason::PeerLost,
        Openness::Open => Reason::BadTag,
        Openness::Closed => Reason::EndpointGone,
        Openness::Awaited | Openness::WasOpen | Openness::Absent => Reason::NoSuchEndpoint,
    }
}
