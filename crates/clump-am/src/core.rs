//! The state of an endpoint: what it sends with and what it receives with.

use crate::context::RankContext;
use crate::error::{ErrorKind, Result};
use crate::handler::{Handler, Table};
use crate::link::Link;
use crate::peer::{Dest, Peer, Tag};
use crate::returned::{Reason, Returned};
use crate::token::MOST_ARGUMENTS;
use clump_shm::block::{EndpointBlock, Openness};
use clump_shm::inbox::Inbox;
use clump_shm::name::Name;
use clump_shm::path::Path;
use clump_shm::segment::{self, Segment};
use clump_shm::shared::Shared;
use clump_shm::slot::{Header, Kind};
use clump_trace::{Counter, Counters, Flow, Role, Size};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// A request that a handler queued.
#[derive(Debug)]
pub(crate) struct Deferred {
    pub(crate) dest: Dest,
    pub(crate) handler: Handler,
    pub(crate) words: Vec<u64>,
    pub(crate) payload: Option<Vec<u8>>,
    /// When it first found no room, in ns; zero before.
    pub(crate) since: u64,
}

/// What is left to do after handlers have run.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    pub(crate) deferred: VecDeque<Deferred>,
    pub(crate) returned: VecDeque<Returned>,
    /// Upper bound of the links that hold stashed replies.
    pub(crate) stuck_links: usize,
}

/// What a request carries besides words.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Body<'a> {
    Short,
    Medium(&'a [u8]),
    Long(u64, &'a [u8]),
}

/// What became of an attempt to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Attempt {
    /// The message is on its way (or on its way back).
    Sent,
    /// There is no room now; poll, and try again.
    Full,
}

/// Reply paths: by lane for senders that have one, by name for the others.
#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) by_lane: Vec<Option<Link>>,
    pub(crate) by_name: HashMap<Name, Link>,
}

pub(crate) type OnReturned = Box<dyn FnMut(&Returned)>;

/// An endpoint.
pub struct Core {
    pub(crate) context: Arc<RankContext>,
    pub(crate) inbox: Inbox,
    pub(crate) block: Shared<EndpointBlock>,
    pub(crate) peers: Vec<Option<Peer>>,
    pub(crate) retiring: Vec<Peer>,
    pub(crate) table: Table,
    pub(crate) on_returned: Option<OnReturned>,
    pub(crate) links: Links,
    pub(crate) backlog: Backlog,
    pub(crate) segment: Option<Segment>,
    segment_at: (u64, u64),
    pub(crate) max_medium: usize,
    pub(crate) polls: u32,
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
        let inbox = Inbox::open(context.node(), context.rank(), tag.0)?;
        let lanes = context.node().geometry().lanes();
        let by_lane = std::iter::repeat_with(|| None).take(lanes).collect();
        Ok(Self {
            context: context.clone(),
            block: inbox.block().clone(),
            inbox,
            peers: Vec::new(),
            retiring: Vec::new(),
            table: Table::new(),
            on_returned: None,
            links: Links { by_lane, by_name: HashMap::new() },
            backlog: Backlog::default(),
            segment: None,
            segment_at: (0, 0),
            max_medium: context.node().geometry().max_medium(),
            polls: 0,
            busy_polls: 0,
            counted_polls: 0,
        })
    }

    pub(crate) fn counters(&self) -> Counters<'_> {
        Counters::over(self.block.counters())
    }

    /// Maps `name` into the translation table, at the first free index.
    pub(crate) fn map(&mut self, name: Name, tag: Tag) -> Result<Dest> {
        let node = self.context.node();
        let known = name.generation() != 0
            && (name.rank() as usize) < node.ranks()
            && usize::from(name.index()) < clump_shm::geometry::ENDPOINTS;
        let lanes = known && self.context.settings().lanes;
        let reply_lane = if lanes { self.inbox.claim_reply_lane(name) } else { None };
        let me = self.inbox.name();
        let path = if known { Some(Path::for_requests(node, me, name, reply_lane)?) } else { None };
        if path.as_ref().is_some_and(Path::has_lane) {
            self.counters().bump(Counter::LaneClaims);
        }
        let peer = Peer { name, tag: tag.0, path, reply_lane, unchecked: false, released: false };
        let free = self.peers.iter().position(Option::is_none).unwrap_or(self.peers.len());
        match self.peers.get_mut(free) {
            Some(entry) => *entry = Some(peer),
            None => self.peers.push(Some(peer)),
        }
        Ok(Dest(free as u32))
    }

    /// Takes `dest` out of the table. What was sent is still delivered or returned.
    pub(crate) fn unmap(&mut self, dest: Dest) -> Result<()> {
        let entry = self.peers.get_mut(dest.0 as usize).and_then(Option::take);
        let peer = entry.ok_or(ErrorKind::NoSuchDestination(dest.0))?;
        if let Some(path) = &peer.path {
            path.retire();
        }
        self.retiring.push(peer);
        Ok(())
    }

    /// Exports `bytes` bytes of zeroed memory for deposits.
    pub(crate) fn export(&mut self, bytes: u64) -> Result<Segment> {
        if self.segment.is_some() {
            return Err(ErrorKind::HasSegment(self.segment_at.1).into());
        }
        let at = (self.context.take_segment(bytes)?, bytes);
        let segment = segment::announce(self.context.node(), self.context.rank(), &self.block, at)?;
        self.segment_at = at;
        self.segment = Some(segment.clone());
        Ok(segment)
    }

    /// Sends once, or says that there is no room.
    #[inline(always)]
    pub(crate) fn attempt(
        &mut self,
        dest: Dest,
        handler: Handler,
        words: &[u64],
        body: Body<'_>,
    ) -> Result<Attempt> {
        if words.len() > MOST_ARGUMENTS {
            return Err(ErrorKind::TooManyWords(words.len()).into());
        }
        let entry = self.peers.get_mut(dest.0 as usize).and_then(Option::as_mut);
        let Some(peer) = entry else { return Err(ErrorKind::NoSuchDestination(dest.0).into()) };
        if let (Some(path), true) = (&mut peer.path, handler.0 != 0) {
            if path.admits(peer.tag) {
                peer.unchecked = true;
                if let Body::Short = body {
                    let header = Header::short(handler.0, words.len());
                    if path.push(header, words).is_err() {
                        return Ok(self.full(dest));
                    }
                    let counters = Counters::over(self.block.counters());
                    counters.bump(Counter::RequestShortSent);
                    counters.add(Counter::RequestShortSentBytes, words.len() as u64 * 8);
                    return Ok(Attempt::Sent);
                }
                return self.attempt_payload(dest, handler, words, body);
            }
        }
        self.refuse(dest, handler, words, body);
        Ok(Attempt::Sent)
    }

    fn attempt_payload(
        &mut self,
        dest: Dest,
        handler: Handler,
        words: &[u64],
        body: Body<'_>,
    ) -> Result<Attempt> {
        let mut all = [0; MOST_ARGUMENTS + 2];
        let entry = self.peers.get_mut(dest.0 as usize).and_then(Option::as_mut);
        let path = entry.and_then(|peer| peer.path.as_mut());
        let Some(path) = path else { return Err(ErrorKind::NoSuchDestination(dest.0).into()) };
        let (pushed, size, bytes) = match body {
            Body::Short => (
                path.push(Header::short(handler.0, words.len()), words),
                Size::Short,
                words.len() * 8,
            ),
            Body::Medium(data) => {
                if data.len() > self.max_medium {
                    return Err(ErrorKind::PayloadTooLong {
                        given: data.len(),
                        most: self.max_medium,
                    }
                    .into());
                }
                let len = data.len() as u32;
                let header = Header::new(Kind::Medium, handler.0, words.len(), len);
                (path.push_payload(header, words, data), Size::Medium, data.len())
            }
            Body::Long(offset, data) => {
                let refused = match path.segment()? {
                    Some(segment) if segment.write(offset, data) => None,
                    Some(segment) if offset <= segment.len() as u64 => Some(Reason::BadLength),
                    _ => Some(Reason::BadOffset),
                };
                if let Some(reason) = refused {
                    self.come_back(dest, reason, handler, words, body);
                    return Ok(Attempt::Sent);
                }
                (all[0], all[1]) = (offset, data.len() as u64);
                all[2..words.len() + 2].copy_from_slice(words);
                let header = Header::new(Kind::Long, handler.0, words.len() + 2, 0);
                (path.push(header, &all[..words.len() + 2]), Size::Long, data.len())
            }
        };
        if pushed.is_err() {
            return Ok(self.full(dest));
        }
        let counters = self.counters();
        counters.bump(Counter::messages(Role::Request, size, Flow::Sent));
        counters.add(Counter::bytes(Role::Request, size, Flow::Sent), bytes as u64);
        Ok(Attempt::Sent)
    }

    #[cold]
    fn full(&mut self, dest: Dest) -> Attempt {
        let entry = self.peers.get(dest.0 as usize).and_then(Option::as_ref);
        let lane = entry.and_then(|p| p.path.as_ref()).is_some_and(Path::has_lane);
        self.counters().bump(if lane { Counter::LaneFull } else { Counter::QueueFull });
        Attempt::Full
    }

    /// The first check of a send failed: says why and sends the message back.
    #[cold]
    fn refuse(&mut self, dest: Dest, handler: Handler, words: &[u64], body: Body<'_>) {
        let Some(peer) = self.peers.get(dest.0 as usize).and_then(Option::as_ref) else { return };
        let dead = self.context.node().death_of(peer.name.rank()).is_some();
        let openness = peer.path.as_ref().map_or(Openness::Absent, Path::openness);
        let reason = match openness {
            _ if handler.0 == 0 => Reason::BadArguments,
            _ if dead => Reason::PeerLost,
            Openness::Open => Reason::BadTag,
            Openness::Closed => Reason::EndpointGone,
            Openness::Absent => Reason::NoSuchEndpoint,
        };
        self.come_back(dest, reason, handler, words, body);
    }

    /// Queues a request of this endpoint for its own handler 0.
    #[cold]
    pub(crate) fn come_back(
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
            Body::Long(offset, data) => (Vec::new(), Some((offset, data.len() as u64))),
        };
        self.backlog.returned.push_back(Returned {
            rank: self.context.rank(),
            dest: peer.name,
            reason,
            reply: false,
            handler,
            words: words.to_vec(),
            payload,
            deposit,
        });
    }

    /// Closes the endpoint: nothing is read any more; peers get back what this one did not read.
    pub(crate) fn close(&mut self) {
        self.inbox.close();
        for peer in self.peers.iter().flatten() {
            if let Some(path) = &peer.path {
                path.retire();
            }
        }
        if self.segment.take().is_some() {
            self.context.give_back_segment(self.segment_at.0, self.segment_at.1);
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.close();
    }
}
