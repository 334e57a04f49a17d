//! The state of an endpoint: its sending and its receiving part.

use crate::context::RankContext;
use crate::error::Result;
use crate::exported_segment::ExportedSegment;
use crate::handler::HandlerTable;
use crate::handler_context::{Backlog, HandlerContext};
use crate::peer::{Dest, MappedPeer, Route, Tag};
use crate::poll_schedule::PollSchedule;
use crate::region::Region;
use crate::remote::Remote;
use crate::reply_queue::ReplyQueue;
use crate::returned::OnReturned;
use crate::send_sampler::SendSampler;
use crate::translation_table::TranslationTable;
use clump_os::clock;
use clump_shm::geometry::ENDPOINTS;
use clump_shm::inbox::Inbox;
use clump_shm::name::Name;
use clump_shm::path::Path;
use clump_shm::segment::Segment;
use clump_trace::Counter;
use std::collections::HashMap;
use std::sync::Arc;

/// An endpoint.
pub struct Core {
    pub(crate) inbox: Inbox<ReplyQueue>,
    pub(crate) table: HandlerTable,
    pub(crate) handler_context: HandlerContext,
    pub(crate) on_returned: Option<OnReturned>,
    pub(crate) translation: TranslationTable,
    /// Reply paths of senders without a lane.
    pub(crate) reply_queues: HashMap<Name, ReplyQueue>,
    /// State of the network, if there is one.
    pub(crate) remote: Option<Box<Remote>>,
    pub(crate) schedule: PollSchedule,
    pub(crate) send_sampler: SendSampler,
    /// True if calls that block on this endpoint poll no other one, and other calls not this one.
    pub(crate) restricted: bool,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, destinations) = (self.inbox.name(), self.translation.len());
        write!(f, "{name}, {destinations} destinations, {:?}", self.table)
    }
}

impl Core {
    pub(crate) fn open(context: &Arc<RankContext>, tag: Tag) -> Result<Self> {
        context.check_process()?;
        let opening = context.opening();
        let inbox = Inbox::open(context.node(), context.rank(), tag.0)?;
        let network = context.network();
        if let Some(network) = network {
            network.enter(inbox.name(), inbox.block().clone());
        }
        drop(opening);
        let remote = network.map(|network| Box::new(Remote::new(network, inbox.name())));
        let handler_context = HandlerContext {
            context: context.clone(),
            block: inbox.block().clone(),
            traffic: inbox.traffic()?,
            backlog: Backlog::default(),
            segment: ExportedSegment::default(),
            max_medium: context.node().geometry().max_medium(),
            name: inbox.name(),
            emulates: context.trace().is_some(),
            emulation: None,
        };
        debug_assert!(handler_context.name.rank() == context.rank(), "another rank's endpoint");
        debug_assert!(handler_context.name.generation() != 0, "no sender could map it");
        let name = inbox.name();
        let mut core = Self {
            inbox,
            table: HandlerTable::new(),
            handler_context,
            on_returned: None,
            translation: TranslationTable::default(),
            reply_queues: HashMap::new(),
            remote,
            schedule: PollSchedule::default(),
            send_sampler: SendSampler::new(name.to_bits() ^ clock::cycles()),
            restricted: false,
        };
        // After it was opened: a change from now on rings its doorbell.
        core.refresh_knobs();
        Ok(core)
    }

    /// Maps `name` into the translation table, at the first free index.
    pub(crate) fn map(&mut self, name: Name, tag: Tag, ordered: bool) -> Result<Dest> {
        self.handler_context.context.check_process()?;
        let node = self.handler_context.context.node();
        // The network interfaces of nodes are numbered after the ranks.
        let known = name.generation() != 0
            && name.rank() < node.interface_id(node.nnodes())
            && usize::from(name.index()) < ENDPOINTS;
        let (route, reply_lane) = match known {
            false => (Route::Absent, None),
            true if node.is_local(name.rank()) => self.route_within(name)?,
            true => (self.route_between(name, ordered), None),
        };
        debug_assert!(known || matches!(route, Route::Absent), "a route to nowhere");
        let peer = MappedPeer::new(name, tag, route, reply_lane);
        let dest = self.translation.insert(peer, &self.handler_context.backlog);
        let mapped = self.translation.get(dest).map(|peer| (peer.name, peer.tag));
        debug_assert_eq!(mapped, Some((name, tag.0)), "the entry of another endpoint");
        Ok(dest)
    }

    /// Creates the route to an endpoint of this node; also returns the lane that takes its replies.
    fn route_within(&mut self, name: Name) -> Result<(Route, Option<usize>)> {
        let HandlerContext { context, name: me, .. } = &self.handler_context;
        let lanes = context.settings().lanes;
        let reply_lane = if lanes { self.inbox.claim_reply_lane(name) } else { None };
        let mut path = Path::for_requests(context.node(), *me, name, reply_lane)?;
        path.divert(self.handler_context.emulates());
        let has_lane = path.has_lane();
        debug_assert!(reply_lane.is_some() || !has_lane, "a lane without one for its replies");
        if has_lane {
            self.handler_context.counters().bump(Counter::LaneClaims);
        }
        debug_assert!(name.generation() != 0, "no endpoint has generation 0");
        let own = name == self.handler_context.name && has_lane;
        Ok((if own { Route::Own(path) } else { Route::Local(path) }, reply_lane))
    }

    /// Creates the route to an endpoint of another node.
    fn route_between(&self, name: Name, ordered: bool) -> Route {
        debug_assert!(!self.handler_context.context.node().is_local(name.rank()), "of this node");
        let from = self.handler_context.name.to_bits();
        let network = self.handler_context.context.network();
        debug_assert!(network.is_some(), "a job of several nodes has a network");
        network.map_or(Route::Absent, |network| {
            Route::Remote(network.open_flow(from, name.to_bits(), ordered))
        })
    }

    /// Removes `dest` from the table. Messages already sent are still delivered or returned.
    pub(crate) fn unmap(&mut self, dest: Dest) -> Result<()> {
        let flow = self.translation.remove(dest)?;
        debug_assert!(flow.is_none() || self.remote.is_some(), "a flow without a network");
        if let (Some(flow), Some(remote)) = (flow, &mut self.remote) {
            remote.old_flows.push(flow);
        }
        Ok(())
    }

    /// Exports `bytes` bytes of zeroed memory for deposits.
    pub(crate) fn export(&mut self, bytes: u64) -> Result<Segment> {
        let HandlerContext { context, block, segment, name, .. } = &mut self.handler_context;
        segment.export(context, (*name, block), bytes)
    }

    /// Takes deposits in a region that this rank has registered.
    pub(crate) fn use_region(&mut self, region: &Region) -> Result<Segment> {
        let HandlerContext { context, block, segment, name, .. } = &mut self.handler_context;
        segment.use_region(context, (*name, block), region)
    }

    /// Exports memory that later calls with more bytes let grow, up to `reserved` bytes of the
    /// first call.
    pub(crate) fn export_growing(&mut self, reserved: u64, bytes: u64) -> Result<Segment> {
        let HandlerContext { context, block, segment, name, .. } = &mut self.handler_context;
        segment.export_growing(context, (*name, block), reserved, bytes)
    }

    /// Returns how many messages this endpoint has handled so far, returned ones included.
    pub(crate) fn handled(&self) -> u64 {
        self.handler_context.counters().get(Counter::HandlerRuns)
    }

    /// Closes the endpoint: nothing is read any more; messages it did not read are returned to
    /// their senders.
    pub(crate) fn close(&mut self) {
        debug_assert!(!clump_os::forked::is_child(), "a child closes its parent's endpoint");
        self.check_invariants();
        self.schedule.count(self.handler_context.counters());
        self.return_delayed();
        self.send_stashed();
        self.publish_traffic();
        // Before the endpoint is closed: a lane of a closed sender may get another owner at once.
        self.translation.close();
        for queue in self.inbox.lanes().filter_map(|lane| lane.reply_queue.as_ref()) {
            queue.path.abandon();
        }
        self.inbox.close();
        self.close_remotely();
        self.handler_context.segment.close();
        debug_assert!(self.remote.is_none() && self.handler_context.segment.get().is_none());
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // A child by `fork` has a copy of this; the endpoint is its parent's.
        if clump_os::forked::is_child() {
            return;
        }
        self.close();
        if let Some(error) = self.handler_context.backlog.failures.next() {
            self.handler_context.context.note_unreported(error);
        }
    }
}
