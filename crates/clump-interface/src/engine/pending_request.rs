//! Requests to services that end later, with the words they watch and the requests they made.

use super::watches::Watches;
use crate::service::{ServiceEffects, ServiceMessage, Services, Ticket};
use clump_shm::export::SegmentName;
use clump_shm::name::Name;
use std::collections::{BTreeMap, HashMap};

/// Most requests of an endpoint that end later, at one time.
pub(super) const MAX_LATER: u32 = 64;
/// Most requests to other interfaces under way.
pub(super) const MAX_ASKS: usize = 256;
/// Requests to other interfaces that one request to forward may need. While fewer may be made, it
/// waits, with the later requests of its endpoint.
pub(super) const FORWARD_ROOM: usize = 128;

/// A request that ends later.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingRequest {
    pub(super) account: usize,
    pub(super) from: Name,
    pub(super) cookie: u64,
    pub(super) service: usize,
    pub(super) place: (SegmentName, u64),
    /// Requests to other interfaces that have not been answered.
    pub(super) asks: u32,
    /// True if it is one of those of which an endpoint may have [`MAX_LATER`].
    pub(super) limited: bool,
}

/// A request to another interface.
#[derive(Debug)]
pub(super) struct OwnAsk {
    /// Requests that it was made for, without those that have ended.
    pub(super) tickets: Vec<Ticket>,
    pub(super) node: u32,
    /// The request, while it has found no room.
    pub(super) unsent: Option<(u8, Vec<u64>, Vec<u8>)>,
}

/// A request to another interface that is being filled.
#[derive(Debug, Default)]
pub(super) struct JointAsk {
    pub(super) tickets: Vec<Ticket>,
    pub(super) payload: Vec<u8>,
}

/// Node, request number and kind of a [`JointAsk`].
pub(super) type JointKey = (u32, u8, u64);

/// Services of an engine, and the requests to them that end later.
#[derive(Debug, Default)]
pub(super) struct ServiceState {
    pub(super) services: Services,
    pub(super) tickets: Ticket,
    pub(super) pending: BTreeMap<Ticket, PendingRequest>,
    pub(super) watches: Watches,
    pub(super) asks: HashMap<u64, OwnAsk>,
    /// Requests that are sent when this turn ends.
    pub(super) joint: BTreeMap<JointKey, JointAsk>,
    pub(super) own_cookies: u64,
    /// True if requests to other interfaces wait for room.
    pub(super) unsent: bool,
    /// Requests to interfaces that are lost.
    pub(super) lost: Vec<u64>,
    pub(super) effects: ServiceEffects,
    /// True if a service has made a step since its messages were sent.
    pub(super) stepped: bool,
    /// Message that found no room.
    pub(super) kept: Option<ServiceMessage>,
}
