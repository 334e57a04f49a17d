//! The state of an endpoint: what it sends with and what it receives with.

use crate::context::RankContext;
use crate::error::{Error, ErrorKind, Result};
use crate::failures::Failures;
use crate::handler::{Handler, HandlerTable};
use crate::peer::{Dest, MappedPeer, PeerPath, Tag};
use crate::remote::Remote;
use crate::reply_queue::ReplyQueue;
use crate::returned::{Reason, Returned};
use crate::token::MAX_CARRIED;
use crate::vain::Vain;
use clump_net::Progress;
use clump_shm::block::{EndpointBlock, Openness};
use clump_shm::geometry::SEGMENT_SPACE;
use clump_shm::inbox::Inbox;
use clump_shm::name::Name;
use clump_shm::path::Path;
use clump_shm::segment::{self, Segment};
use clump_shm::shared::Shared;
use clump_shm::slot::{Header, SlotKind};
use clump_trace::{Counter, Counters, Flow, Role, Size};
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// A request that a handler queued.
#[derive(Debug)]
pub(crate) struct Deferred {
    pub(crate) dest: Dest,
    pub(crate) handler: Handler,
    pub(crate) words: Vec<u64>,
    pub(crate) payload: Option<Vec<u8>>,
    /// Offset of a long request's deposit, and how much of it has been packed for another node.
    pub(crate) deposit: Option<(u64, Cell<Progress>)>,
    /// Time at which it first found no room, in ns; zero before.
    pub(crate) since: u64,
}

/// Work that handlers left behind.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    pub(crate) deferred: VecDeque<Deferred>,
    pub(crate) returned: VecDeque<Returned>,
    /// Errors of polls behind sends that succeeded.
    pub(crate) failures: Failures,
    /// Upper bound of the reply queues that hold stored replies.
    pub(crate) stuck_links: usize,
    /// Upper bound of the requesters on other nodes whose replies wait.
    pub(crate) stuck_remote: usize,
    /// True if any of the above is not empty; the one word that a poll reads.
    pub(crate) busy: bool,
}

/// State that handlers reach through their token: everything of an endpoint but lanes and handlers.
#[derive(Debug)]
pub(crate) struct HandlerContext {
    pub(crate) context: Arc<RankContext>,
    pub(crate) block: Shared<EndpointBlock>,
    pub(crate) backlog: Backlog,
    pub(crate) segment: Option<Segment>,
    pub(crate) max_medium: usize,
    pub(crate) name: Name,
}

impl HandlerContext {
    #[inline(always)]
    pub(crate) fn counters(&self) -> Counters<'_> {
        Counters::over(self.block.counters())
    }

    /// Counts a short request that was sent.
    #[inline(always)]
    pub(crate) fn count_short_sent(&self, words: usize) {
        let counters = self.counters();
        counters.bump(Counter::RequestShortSent);
        counters.add(Counter::RequestShortSentBytes, words as u64 * 8);
    }

    /// Counts a short message that a handler got.
    #[inline(always)]
    pub(crate) fn count_short(&self, request: bool, header: Header) {
        let role = if request { Role::Request } else { Role::Reply };
        let counters = self.counters();
        counters.bump(Counter::messages(role, Size::Short, Flow::Received));
        let bytes = header.words() as u64 * 8;
        counters.add(Counter::bytes(role, Size::Short, Flow::Received), bytes);
        counters.bump(Counter::HandlerRuns);
    }

    /// Keeps an error for the next poll, because what the program called has succeeded.
    #[cold]
    pub(crate) fn keep_failure(&mut self, error: Error) {
        self.backlog.failures.keep(error);
        self.backlog.busy = true;
        debug_assert!(!self.backlog.failures.is_empty(), "the next poll has nothing to report");
    }

    /// Queues a message of this endpoint for its handler 0.
    #[cold]
    pub(crate) fn return_to_sender(&mut self, returned: Returned) {
        self.backlog.returned.push_back(returned);
        self.backlog.busy = true;
    }
}

/// Contents of a request besides words.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Body<'a> {
    Short,
    Medium(&'a [u8]),
    /// Offset, bytes, and how much of them has been packed for another node.
    Long(u64, &'a [u8], &'a Cell<Progress>),
}

impl Body<'_> {
    /// Returns true if a fragment of it has been packed.
    pub(crate) fn is_begun(&self) -> bool {
        matches!(self, Body::Long(_, _, progress) if progress.get() != Progress::default())
    }
}

/// Result of an attempt to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum SendAttempt {
    /// The message is on its way (or is being returned).
    Sent,
    /// There is no room now; poll, and try again.
    Full,
}

pub(crate) type OnReturned = Box<dyn FnMut(&Returned)>;

/// Number of the last poll, and of the next that has more to do than check lanes.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct PollSchedule {
    /// Polls so far; wraps.
    pub(crate) polls: u32,
    /// Number of the next poll that polls the network, or does housekeeping.
    pub(crate) due: u32,
}

/// An endpoint.
pub struct Core {
    pub(crate) inbox: Inbox<ReplyQueue>,
    pub(crate) table: HandlerTable,
    pub(crate) handler_context: HandlerContext,
    pub(crate) on_returned: Option<OnReturned>,
    pub(crate) peers: Vec<Option<MappedPeer>>,
    pub(crate) retiring: Vec<MappedPeer>,
    /// Reply paths of senders without a lane.
    pub(crate) links: HashMap<Name, ReplyQueue>,
    /// State of the network, if there is one.
    pub(crate) remote: Option<Box<Remote>>,
    /// Offset of its segment, and the bytes reserved for it.
    segment_at: (u64, u64),
    pub(crate) schedule: PollSchedule,
    /// Number of the next poll that polls the network.
    pub(crate) net_due: u32,
    /// Number of the next poll that does housekeeping.
    pub(crate) housekeeping_due: u32,
    pub(crate) vain: Vain,
    pub(crate) busy_polls: u32,
    pub(crate) counted_polls: u32,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {} destinations, {:?}", self.inbox.name(), self.peers.len(), self.table)
    }
}

impl Core {
    pub(crate) fn open(context: &Arc<RankContext>, tag: Tag) -> Result<Self> {
        context.check_process()?;
        let inbox = Inbox::open(context.node(), context.rank(), tag.0)?;
        let network = context.network();
        if let Some(network) = network {
            network.enter(inbox.name(), inbox.block().clone());
        }
        let remote = network.map(|network| Box::new(Remote::new(network)));
        let handler_context = HandlerContext {
            context: context.clone(),
            block: inbox.block().clone(),
            backlog: Backlog::default(),
            segment: None,
            max_medium: context.node().geometry().max_medium(),
            name: inbox.name(),
        };
        Ok(Self {
            inbox,
            table: HandlerTable::new(),
            handler_context,
            on_returned: None,
            peers: Vec::new(),
            retiring: Vec::new(),
            links: HashMap::new(),
            remote,
            segment_at: (0, 0),
            schedule: PollSchedule { polls: 0, due: 1 },
            net_due: 1,
            housekeeping_due: 1,
            vain: Vain::default(),
            busy_polls: 0,
            counted_polls: 0,
        })
    }

    /// Maps `name` into the translation table, at the first free index.
    pub(crate) fn map(&mut self, name: Name, tag: Tag, ordered: bool) -> Result<Dest> {
        self.handler_context.context.check_process()?;
        let node = self.handler_context.context.node();
        // The network interfaces of nodes are numbered after the ranks.
        let known = name.generation() != 0
            && name.rank() < node.interface_id(node.nnodes())
            && usize::from(name.index()) < clump_shm::geometry::ENDPOINTS;
        let remote = known && !node.is_local(name.rank());
        let network = self.handler_context.context.network().filter(|_| remote);
        let from = self.inbox.name().to_bits();
        let remote_flow =
            network.map(|network| network.open_flow(from, name.to_bits(), name.rank(), ordered));
        let known = known && !remote;
        let lanes = known && self.handler_context.context.settings().lanes;
        let reply_lane = if lanes { self.inbox.claim_reply_lane(name) } else { None };
        let me = self.inbox.name();
        let path = match known {
            false => PeerPath::Absent,
            true => match Path::for_requests(node, me, name, reply_lane)? {
                path if name == me && path.has_lane() => PeerPath::Own(path),
                path => PeerPath::Other(path),
            },
        };
        if path.get().is_some_and(Path::has_lane) {
            self.handler_context.counters().bump(Counter::LaneClaims);
        }
        let (remote, tag, unchecked) = (remote_flow, tag.0, false);
        let hot_at = 0;
        let peer =
            MappedPeer { name, tag, path, hot_at, remote, reply_lane, unchecked, released: false };
        // What a handler has deferred to an entry that is gone must not reach the next.
        let is_free =
            |at: &usize| self.peers[*at].is_none() && !self.has_deferred(Dest(*at as u32));
        let free = (0..self.peers.len()).find(is_free).unwrap_or(self.peers.len());
        match self.peers.get_mut(free) {
            Some(entry) => *entry = Some(peer),
            None => self.peers.push(Some(peer)),
        }
        Ok(Dest(free as u32))
    }

    /// Returns true if a deferred request is addressed to `dest`.
    pub(crate) fn has_deferred(&self, dest: Dest) -> bool {
        self.handler_context.backlog.deferred.iter().any(|deferred| deferred.dest == dest)
    }

    /// Removes `dest` from the table. Messages already sent are still delivered or returned.
    pub(crate) fn unmap(&mut self, dest: Dest) -> Result<()> {
        let entry = self.peers.get_mut(dest.0 as usize).and_then(Option::take);
        let peer = entry.ok_or(ErrorKind::NoSuchDestination(dest.0))?;
        if let (Some(flow), Some(remote)) = (peer.remote, &mut self.remote) {
            remote.old_flows.push(flow);
            return Ok(());
        }
        if let Some(path) = peer.path.get() {
            path.retire();
        }
        self.retiring.push(peer);
        Ok(())
    }

    /// Exports `bytes` bytes of zeroed memory for deposits.
    pub(crate) fn export(&mut self, bytes: u64) -> Result<Segment> {
        if let Some(segment) = &self.handler_context.segment {
            return Err(ErrorKind::HasSegment(segment.len() as u64).into());
        }
        self.segment_at = (self.handler_context.context.take_segment(bytes)?, bytes);
        self.announce(bytes)
    }

    /// Exports memory that later calls with more bytes let grow, up to `reserved` bytes of the
    /// first call.
    pub(crate) fn export_growing(&mut self, reserved: u64, bytes: u64) -> Result<Segment> {
        match &self.handler_context.segment {
            Some(segment) if segment.len() as u64 >= bytes => return Ok(segment.clone()),
            Some(_) if bytes > self.segment_at.1 => {
                return Err(ErrorKind::HasSegment(self.segment_at.1).into());
            }
            Some(_) => self.handler_context.context.commit_segment(self.segment_at.0, bytes)?,
            None => {
                let reserved = reserved.max(bytes);
                let offset = self.handler_context.context.reserve_segment(reserved, bytes)?;
                self.segment_at = (offset, reserved);
            }
        }
        self.announce(bytes)
    }

    fn announce(&mut self, bytes: u64) -> Result<Segment> {
        let at = (self.segment_at.0, bytes);
        let HandlerContext { context, block, .. } = &self.handler_context;
        let segment = segment::announce(context.node(), context.rank(), block, at)?;
        self.handler_context.segment = Some(segment.clone());
        if let Some(network) = self.handler_context.context.network() {
            network.set_segment(self.handler_context.name, Some(segment.clone()));
        }
        Ok(segment)
    }

    /// Returns the rank that `dest` leads to.
    pub(crate) fn rank_of(&self, dest: Dest) -> u32 {
        let entry = self.peers.get(dest.0 as usize).and_then(Option::as_ref);
        entry.map_or(0, |peer| peer.name.rank())
    }

    /// Sends once, or says that there is no room. Up to [`MAX_CARRIED`] words.
    #[inline(never)]
    pub(crate) fn attempt(
        &mut self,
        dest: Dest,
        handler: Handler,
        words: &[u64],
        body: Body<'_>,
    ) -> Result<SendAttempt> {
        if words.len() > MAX_CARRIED {
            return Err(ErrorKind::TooManyWords(words.len()).into());
        }
        let entry = self.peers.get_mut(dest.0 as usize).and_then(Option::as_mut);
        let Some(peer) = entry else { return Err(ErrorKind::NoSuchDestination(dest.0).into()) };
        match body {
            Body::Medium(data) if data.len() > self.handler_context.max_medium => {
                let most = self.handler_context.max_medium;
                return Err(ErrorKind::PayloadTooLong { given: data.len(), most }.into());
            }
            Body::Long(_, data, _) if data.len() as u64 > SEGMENT_SPACE => {
                // No segment holds it, nor does any buffer.
                self.return_to_sender(dest, Reason::BadLength, handler, words, body);
                return Ok(SendAttempt::Sent);
            }
            _ => {}
        }
        if handler.0 != 0
            && let Some(path) = peer.path.get()
            && path.admits(peer.tag)
        {
            peer.unchecked = true;
            return self.attempt_body(dest, handler, words, body);
        }
        if let Some(flow) = peer.remote.filter(|_| handler.0 != 0) {
            let tag = peer.tag;
            return self.attempt_remote((dest, flow, tag), handler, words, body);
        }
        // The memory that a forked child sees says that all peers are gone.
        self.handler_context.context.check_process()?;
        self.refuse(dest, handler, words, body);
        Ok(SendAttempt::Sent)
    }

    fn attempt_body(
        &mut self,
        dest: Dest,
        handler: Handler,
        words: &[u64],
        body: Body<'_>,
    ) -> Result<SendAttempt> {
        let entry = self.peers.get_mut(dest.0 as usize).and_then(Option::as_mut);
        let path = entry.and_then(|peer| peer.path.get_mut());
        let Some(path) = path else { return Err(ErrorKind::NoSuchDestination(dest.0).into()) };
        let (pushed, size, bytes) = match body {
            Body::Short => (
                path.push(Header::short(handler.0, words.len()), words),
                Size::Short,
                words.len() * 8,
            ),
            Body::Medium(data) => {
                let len = data.len() as u32;
                let header = Header::new(SlotKind::Medium, handler.0, words.len(), len);
                (path.push_payload(header, words, data), Size::Medium, data.len())
            }
            Body::Long(offset, data, _) => {
                // Checked before the deposit: a payload is not copied again on every attempt.
                if !path.has_room() {
                    return Ok(self.full(dest));
                }
                let refused = match path.segment()? {
                    Some(segment) if segment.write(offset, data) => None,
                    Some(segment) if offset <= segment.len() as u64 => Some(Reason::BadLength),
                    _ => Some(Reason::BadOffset),
                };
                if let Some(reason) = refused {
                    self.return_to_sender(dest, reason, handler, words, body);
                    return Ok(SendAttempt::Sent);
                }
                let mut all = [0; MAX_CARRIED + 2];
                (all[0], all[1]) = (offset, data.len() as u64);
                all[2..words.len() + 2].copy_from_slice(words);
                let header = Header::new(SlotKind::Long, handler.0, words.len() + 2, 0);
                (path.push(header, &all[..words.len() + 2]), Size::Long, data.len())
            }
        };
        if pushed.is_err() {
            return Ok(self.full(dest));
        }
        let counters = self.handler_context.counters();
        counters.bump(Counter::messages(Role::Request, size, Flow::Sent));
        counters.add(Counter::bytes(Role::Request, size, Flow::Sent), bytes as u64);
        Ok(SendAttempt::Sent)
    }

    #[cold]
    fn full(&mut self, dest: Dest) -> SendAttempt {
        let entry = self.peers.get(dest.0 as usize).and_then(Option::as_ref);
        let lane = entry.and_then(|p| p.path.get()).is_some_and(Path::has_lane);
        self.handler_context.counters().bump(if lane {
            Counter::LaneFull
        } else {
            Counter::QueueFull
        });
        SendAttempt::Full
    }

    /// Finds out why the first check of a send failed, and returns the message to its sender.
    #[cold]
    fn refuse(&mut self, dest: Dest, handler: Handler, words: &[u64], body: Body<'_>) {
        let Some(peer) = self.peers.get(dest.0 as usize).and_then(Option::as_ref) else { return };
        let dead = self.handler_context.context.node().death_of(peer.name.rank()).is_some();
        let openness = peer.path.get().map_or(Openness::Absent, Path::openness);
        let reason = match openness {
            _ if handler.0 == 0 => Reason::BadArguments,
            _ if dead => Reason::PeerLost,
            Openness::Open => Reason::BadTag,
            Openness::Closed => Reason::EndpointGone,
            Openness::Absent => Reason::NoSuchEndpoint,
        };
        self.return_to_sender(dest, reason, handler, words, body);
    }

    /// Queues a request of this endpoint for its own handler 0.
    #[cold]
    pub(crate) fn return_to_sender(
        &mut self,
        dest: Dest,
        reason: Reason,
        handler: Handler,
        words: &[u64],
        body: Body<'_>,
    ) {
        let Some(peer) = self.peers.get(dest.0 as usize).and_then(Option::as_ref) else { return };
        let (payload, deposit) = match body {
            Body::Short => (Vec::new(), None),
            Body::Medium(data) => (data.to_vec(), None),
            Body::Long(offset, data, _) => (Vec::new(), Some((offset, data.len() as u64))),
        };
        let returned = Returned {
            rank: self.handler_context.context.rank(),
            dest: peer.name,
            reason,
            reply: false,
            handler,
            words: words.to_vec(),
            payload,
            deposit,
        };
        self.handler_context.return_to_sender(returned);
    }

    /// Closes the endpoint: nothing is read any more; messages it did not read are returned to
    /// their senders.
    pub(crate) fn close(&mut self) {
        self.count_polls();
        self.send_stashed();
        self.inbox.close();
        self.close_remotely();
        // Either the target reads what is left and frees the lane, or it never will.
        for path in self.peers.iter().flatten().filter_map(|peer| peer.path.get()) {
            path.retire();
            path.abandon();
        }
        for link in self.inbox.lanes().filter_map(|lane| lane.link.as_ref()) {
            link.path.abandon();
        }
        if self.handler_context.segment.take().is_some() {
            self.handler_context.context.give_back_segment(self.segment_at.0, self.segment_at.1);
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // A child by `fork` has a copy of this; the endpoint is its parent's.
        if clump_os::forked::is_child() {
            return;
        }
        self.close();
    }
}
