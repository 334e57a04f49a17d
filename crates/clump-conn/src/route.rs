//! Routes of connections: messages of this job, or a stack of its own towards another job.

use crate::error::{End, Peer};
use crate::far::link::FarLink;
use crate::hub::Hub;
use crate::line::ConnectionLine;
use crate::local_route::LocalRoute;
use crate::transport::ConnectionTransport;
use clump_am::{Result, SendAttempt};
use clump_shm::rank::RankState;
use std::sync::Arc;

/// The route of a connection to its other side.
#[derive(Debug)]
pub(crate) enum ConnectionRoute {
    Near(LocalRoute),
    Far(Arc<FarLink>),
}

/// A route, and the hub that it goes through.
pub(crate) type RouteThroughHub<'a> = (&'a Hub, &'a ConnectionRoute);

impl ConnectionTransport for RouteThroughHub<'_> {
    fn send(
        &self,
        line: &ConnectionLine,
        handler: u8,
        rest: &[u64],
        payload: &[u8],
    ) -> Result<SendAttempt> {
        match self {
            (hub, ConnectionRoute::Near(near)) => {
                (&hub.endpoint, near).send(line, handler, rest, payload)
            }
            (_, ConnectionRoute::Far(link)) => link.send(line, handler, rest, payload),
        }
    }

    fn max_fragment(&self) -> usize {
        match self {
            (hub, ConnectionRoute::Near(near)) => (&hub.endpoint, near).max_fragment(),
            (_, ConnectionRoute::Far(link)) => link.max_fragment(),
        }
    }
}

impl ConnectionRoute {
    /// Returns the other side.
    pub(crate) fn peer(&self, hub: &Hub) -> Peer {
        match self {
            ConnectionRoute::Near(near) => hub.peer_of(near.peer),
            ConnectionRoute::Far(link) => Peer::Far(link.address()),
        }
    }

    /// Polls for packets of this connection, besides the endpoint of the hub.
    pub(crate) fn poll(&self) {
        if let ConnectionRoute::Far(link) = self {
            link.poll();
        }
    }

    /// Returns why the other side's rank is gone, if it is; its earlier messages may still arrive.
    pub(crate) fn gone(&self, hub: &Hub) -> Option<End> {
        let ConnectionRoute::Near(near) = self else { return None };
        match hub.context.node().peer(near.peer.rank())?.state() {
            RankState::Dead => Some(End::PeerDied),
            RankState::Finalized => Some(End::PeerLeft),
            RankState::Absent | RankState::Joined => None,
        }
    }

    /// Returns the rank of the other side, if it is in this job.
    pub(crate) fn rank(&self) -> Option<u32> {
        match self {
            ConnectionRoute::Near(near) => Some(near.peer.rank()),
            ConnectionRoute::Far(_) => None,
        }
    }
}
