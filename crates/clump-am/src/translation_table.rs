//! The destinations of an endpoint (paper 000, 2.2).

use crate::error::{ErrorKind, Result};
use crate::handler_context::{Backlog, HandlerContext};
use crate::message::OutgoingMessage;
use crate::peer::{Dest, MappedPeer, Route};
use crate::reply_queue::ReplyQueue;
use crate::returned::Returned;
use clump_net::FlowId;
use clump_shm::block::Openness;
use clump_shm::inbox::Inbox;
use clump_shm::lane::CreditRequest;
use clump_shm::name::Name;
use clump_shm::path::Path;
use clump_trace::{Counter, Counters, Role};
use clump_transport::Network;
use clump_wire::Reason;

/// The table, and unmapped destinations whose target has not read everything yet.
#[derive(Debug, Default)]
pub(crate) struct TranslationTable {
    entries: Vec<Option<MappedPeer>>,
    retiring: Vec<MappedPeer>,
    /// Flows to unmapped destinations of other nodes on which something may be outstanding.
    old_flows: Vec<FlowId>,
}

impl TranslationTable {
    /// Returns the destination at that index.
    #[inline(always)]
    pub(crate) fn get(&self, dest: Dest) -> Option<&MappedPeer> {
        self.entries.get(dest.0 as usize).and_then(Option::as_ref)
    }

    /// Returns the destination at that index, to send to it.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, dest: Dest) -> Option<&mut MappedPeer> {
        self.entries.get_mut(dest.0 as usize).and_then(Option::as_mut)
    }

    /// Returns the destination at that index, to send to it.
    ///
    /// # Errors
    /// The table has no such destination.
    #[inline(always)]
    pub(crate) fn find_mut(&mut self, dest: Dest) -> Result<&mut MappedPeer> {
        self.get_mut(dest).ok_or_else(|| ErrorKind::NoSuchDestination(dest.0).into())
    }

    /// Returns the number of indices in use or free.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the address of the first entry; it changes when the table grows.
    pub(crate) fn address(&self) -> usize {
        self.entries.as_ptr().addr()
    }

    /// Diverts the paths to all destinations, or ends that.
    pub(crate) fn divert(&mut self, on: bool) {
        for path in self.entries.iter_mut().flatten().filter_map(|peer| peer.route.path_mut()) {
            path.divert(on);
        }
    }

    /// Adds a destination at the first free index. Messages that a handler has deferred to a
    /// removed entry must not reach the next.
    pub(crate) fn insert(&mut self, peer: MappedPeer, backlog: &Backlog) -> Dest {
        let is_free =
            |at: &usize| self.entries[*at].is_none() && !backlog.has_deferred(Dest(*at as u32));
        let free = (0..self.entries.len()).find(is_free).unwrap_or(self.entries.len());
        debug_assert!(!backlog.has_deferred(Dest(free as u32)), "it would get another's requests");
        debug_assert!(!peer.unchecked && !peer.released, "nothing was sent there");
        match self.entries.get_mut(free) {
            Some(entry) => *entry = Some(peer),
            None => self.entries.push(Some(peer)),
        }
        debug_assert!(self.get(Dest(free as u32)).is_some(), "entry {free} is empty");
        Dest(free as u32)
    }

    /// Takes a destination out of the table. It is kept until its target has read everything.
    ///
    /// # Errors
    /// The table has no such destination.
    pub(crate) fn remove(&mut self, dest: Dest) -> Result<()> {
        let entry = self.entries.get_mut(dest.0 as usize).and_then(Option::take);
        let Some(peer) = entry else {
            return Err(ErrorKind::NoSuchDestination(dest.0).into());
        };
        debug_assert!(self.get(dest).is_none(), "destination {} is still mapped", dest.0);
        if let Some(flow) = peer.route.flow() {
            debug_assert!(peer.reply_lane.is_none(), "its lane for replies is never free again");
            self.old_flows.push(flow);
            return Ok(());
        }
        if let Some(path) = peer.route.path() {
            path.retire();
        }
        debug_assert!(!peer.released, "released before it was unmapped");
        self.retiring.push(peer);
        Ok(())
    }

    /// Checks relations that hold between calls; `me` is the endpoint that the table is of.
    pub(crate) fn check_invariants(&self, me: Name) {
        let mut lanes: Vec<_> = self.all().filter_map(|peer| peer.reply_lane).collect();
        let count = lanes.len();
        lanes.sort_unstable();
        lanes.dedup();
        debug_assert_eq!(lanes.len(), count, "a lane takes the replies of two destinations");
        for peer in self.all() {
            let own = matches!(peer.route, Route::Own(_));
            debug_assert!(!own || peer.name == me, "{} is not the endpoint itself", peer.name);
            debug_assert!(!own || peer.reply_lane.is_some(), "no lane for its replies");
            let far = peer.route.flow().is_some();
            debug_assert!(!far || peer.reply_lane.is_none(), "a lane for replies of another node");
            debug_assert!(!far || !peer.unchecked, "flows account for their requests themselves");
            let path = peer.route.path();
            debug_assert!(path.is_none_or(|path| path.to() == peer.name), "another's path");
        }
        debug_assert!(self.entries.iter().flatten().all(|peer| !peer.released), "mapped, released");
        debug_assert!(
            self.retiring.iter().all(|peer| peer.route.flow().is_none()),
            "a flow of an unmapped destination is kept with the old flows"
        );
    }

    /// Returns the rank that `dest` leads to.
    pub(crate) fn rank_of(&self, dest: Dest) -> u32 {
        self.get(dest).map_or(0, |peer| peer.name.rank())
    }

    /// Returns true if targets of other nodes have consumed everything; requests reports from the
    /// others.
    pub(crate) fn is_drained_remotely(&mut self, network: &Network) -> bool {
        self.old_flows.retain(|&flow| network.request_consumption_report(flow));
        let mut drained = self.old_flows.is_empty();
        for flow in self.entries.iter().flatten().filter_map(|peer| peer.route.flow()) {
            drained &= !network.request_consumption_report(flow);
        }
        debug_assert!(!drained || self.old_flows.is_empty(), "something is outstanding on a flow");
        drained
    }

    /// Returns the paths to endpoints of this node, those of unmapped ones included.
    pub(crate) fn paths_mut(&mut self) -> impl Iterator<Item = &mut Path> {
        let all = self.entries.iter_mut().flatten().chain(&mut self.retiring);
        debug_assert!(!clump_os::forked::is_child(), "a child counts for its parent");
        all.filter_map(|peer| peer.route.path_mut())
    }

    fn all(&self) -> impl Iterator<Item = &MappedPeer> {
        self.entries.iter().flatten().chain(&self.retiring)
    }

    /// Returns true if targets of this node have read everything, or returned it.
    pub(crate) fn is_drained(&self) -> bool {
        self.all().all(|peer| !peer.unchecked)
    }

    /// Requests wake-ups from targets of this node that have not read everything, for when they
    /// have.
    pub(crate) fn request_drained(&self) {
        for path in self.all().filter(|peer| peer.unchecked).filter_map(|peer| peer.route.path()) {
            path.request_credit(CreditRequest::Drained);
        }
    }

    /// Requests a wake-up from the target of `dest`, if it is of this node, for when there is room.
    pub(crate) fn request_room(&self, dest: Dest) {
        if let Some(path) = self.get(dest).and_then(|peer| peer.route.path()) {
            path.request_credit(CreditRequest::Room);
        }
    }

    /// Returns requests that their target will never read to this endpoint.
    pub(crate) fn return_unread(&mut self, handler_context: &mut HandlerContext) {
        let HandlerContext { context, block, backlog, .. } = handler_context;
        let counters = Counters::over(block.counters());
        for peer in self.entries.iter_mut().flatten().chain(self.retiring.iter_mut()) {
            let (rank, dest) = (context.rank(), peer.name);
            let Some(path) = peer.route.path_mut() else { continue };
            if !peer.unchecked {
                path.abandon();
                continue;
            }
            let tally = path.take_tally();
            counters.add(Counter::DoorbellRings, tally.rings);
            counters.add(Counter::WakesSent, tally.wakes);
            let dead = context.node().death_of(dest.rank()).is_some();
            if !dead && path.openness() == Openness::Open {
                peer.unchecked = !path.is_drained();
                continue;
            }
            let reason = if dead { Reason::PeerLost } else { Reason::EndpointGone };
            peer.unchecked = false;
            path.take_back(|header, words, payload| {
                let message = OutgoingMessage::of_slot(header, words, payload);
                backlog.give_back(Returned::of(rank, dest, (Role::Request, reason), &message));
            });
            path.abandon();
            debug_assert!(!peer.unchecked, "what was returned is not looked at again");
        }
    }

    /// Frees the reply lanes of unmapped destinations once their target has read everything.
    ///
    /// # Errors
    /// A doorbell shows a lane that cannot be mapped.
    pub(crate) fn finish_retiring(&mut self, inbox: &mut Inbox<ReplyQueue>) -> Result<()> {
        let mut at = 0;
        while at < self.retiring.len() {
            let peer = &mut self.retiring[at];
            let gone = peer.route.path().is_none_or(|p| p.openness() != Openness::Open);
            let done = gone || peer.route.path().is_none_or(Path::is_released);
            // Replies were published before the release; a poll between the two looks reads them,
            // or their bell, answered now, shows them.
            let seen_before = std::mem::replace(&mut peer.released, done && !peer.unchecked);
            if seen_before {
                inbox.process_doorbells()?;
            }
            let idle = peer.reply_lane.is_none_or(|lane| inbox.reply_lane_is_idle(lane));
            if !(seen_before && peer.released && idle) {
                at += 1;
                continue;
            }
            let peer = self.retiring.swap_remove(at);
            debug_assert!(peer.released, "{} may still write replies", peer.name);
            debug_assert!(!peer.unchecked, "requests to {} are not accounted for", peer.name);
            if let Some(lane) = peer.reply_lane {
                let shared = self.all().any(|other| other.reply_lane == Some(lane));
                debug_assert!(!shared, "replies to another destination come by that lane");
                inbox.free_reply_lane(lane);
            }
        }
        Ok(())
    }

    /// Lets go of all paths. Either a target reads what is left and frees the lane, or it never
    /// will.
    pub(crate) fn close(&self) {
        debug_assert!(!clump_os::forked::is_child(), "a child lets go of its parent's lanes");
        for path in self.entries.iter().flatten().filter_map(|peer| peer.route.path()) {
            path.retire();
            path.abandon();
        }
    }
}
