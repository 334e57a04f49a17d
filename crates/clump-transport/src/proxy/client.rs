//! A rank's connection to other nodes through its node's proxies: lanes to them, and an account of
//! the bytes that endpoints of other nodes have not consumed. Proxies put messages from other nodes
//! into the endpoints' own lanes.

mod account;
mod transport;

use super::forward::{Forward, stamp};
use crate::credit::credit_bytes;
use crate::error::Result;
use clump_boot::Dispatch;
use clump_net::{FlowId, Flows, Progress, REQUEST_COST};
use clump_os::clock;
use clump_shm::lane::CreditRequest;
use clump_shm::name::Name;
use clump_shm::node::NodeMemory;
use clump_shm::path::Path;
use clump_shm::slot::{Header, MAX_WORDS};
use clump_trace::Sampler;
use clump_wire::frame::{self, FrameKind, Route};
use clump_wire::{Message, Reason, SendResult};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Returns the name under which ranks address proxy `which` of this node.
pub fn proxy_name(node: &NodeMemory, which: u32) -> Name {
    debug_assert!(which < node.proxies(), "a node has few proxies");
    Name::new(node.interface_id(node.node()) + which, 0, 1)
}

/// A proxy client's source of time: nanoseconds of the clock that all processes of the machine
/// share.
pub type ProxyClientClock = Box<dyn Fn() -> u64 + Send>;

/// A rank's lanes to its node's proxies: its [`crate::Transport`] to other nodes. A simulation has
/// one of its own, with its own time.
#[derive(Debug)]
pub struct ProxyClient {
    inner: Mutex<Inner>,
}

struct Inner {
    clock: ProxyClientClock,
    node: NodeMemory,
    rank: u32,
    dispatch: Dispatch,
    ways: Vec<Path>,
    flows: Flows,
    credit: u64,
    /// Messages that may not be refused and found no room, with the index of their path; the oldest
    /// first.
    kept: VecDeque<(usize, Header, [u64; MAX_WORDS], Vec<u8>)>,
    kept_bytes: usize,
    /// Buffer in which messages with many words are put together.
    beside: Vec<u8>,
    next_way: usize,
    /// The path that was full at the last attempt, if any.
    full_way: Option<usize>,
    next_message: u32,
    /// Chooses the messages that carry the time, for the proxy's monitor.
    sampler: Sampler,
    /// Ranks of other nodes that accept nothing any more, and why.
    gone: BTreeMap<u32, Reason>,
    /// Ranks that are gone and may not have consumed all that was sent to them.
    left: Vec<u32>,
    asked_at: u64,
    /// Ranks that flows lead to and that are not gone.
    watched: Vec<u32>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "proxy client of rank {} to {} proxies", self.rank, self.ways.len())
    }
}

impl ProxyClient {
    pub(crate) fn open(node: &NodeMemory, rank: u32, dispatch: Dispatch) -> Result<Self> {
        Self::with_clock(node, rank, dispatch, Box::new(clock::now_ns))
    }

    /// Opens the client of `rank` to the proxies of its node, which must have opened.
    ///
    /// # Errors
    /// Address space has run out.
    pub fn with_clock(
        node: &NodeMemory,
        rank: u32,
        dispatch: Dispatch,
        clock: ProxyClientClock,
    ) -> Result<Self> {
        debug_assert!(node.is_local(rank), "a rank hands messages to proxies of its node");
        debug_assert!(node.proxies() > 0, "its node has proxies");
        let me = Name::new(rank, 0, 1);
        // No replies are sent on these lanes; they are lanes of requests all the same.
        let no_reply = Some(0);
        let ways = (0..node.proxies())
            .map(|which| Path::for_requests(node, me, proxy_name(node, which), no_reply))
            .collect::<clump_shm::Result<Vec<_>>>()?;
        let inner = Inner {
            clock,
            rank,
            dispatch,
            ways,
            flows: Flows::default(),
            credit: credit_bytes(node),
            kept: VecDeque::new(),
            kept_bytes: 0,
            beside: Vec::new(),
            next_way: rank as usize,
            full_way: None,
            next_message: 0,
            sampler: Sampler::new(rank.into()),
            gone: BTreeMap::new(),
            left: Vec::new(),
            asked_at: 0,
            watched: Vec::new(),
            node: node.clone(),
        };
        Ok(Self { inner: Mutex::new(inner) })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a short or medium request.
    #[inline]
    fn request_whole(&self, flow: FlowId, message: &Message<'_>) -> SendResult {
        let mut inner = self.inner();
        let bytes = message.payload.len();
        debug_assert!(bytes <= inner.node.geometry().max_medium(), "a message of one fragment");
        let cost = REQUEST_COST + bytes as u64;
        let forward = match inner.admit(flow, message, cost) {
            Ok(forward) => forward,
            Err(push) => return push,
        };
        let way = inner.proxy_for(&forward);
        if !inner.push(way, &forward) {
            return SendResult::Full;
        }
        inner.spend(flow, cost);
        SendResult::Sent
    }

    /// Sends a long request, or as much of it as there is room for.
    fn request_long(
        &self,
        flow: FlowId,
        message: &Message<'_>,
        progress: &mut Progress,
    ) -> SendResult {
        let payload = message.payload;
        let mut inner = self.inner();
        debug_assert!(progress.done <= payload.len(), "no more has gone than there is");
        debug_assert_eq!(message.kind, FrameKind::Long, "others have no fragments");
        let (mut forward, way) = match progress.message {
            None => {
                debug_assert_eq!(progress.done, 0, "fragments of a message have its number");
                let mut forward = match inner.admit(flow, message, REQUEST_COST) {
                    Ok(forward) => forward,
                    Err(push) => return push,
                };
                inner.next_message = inner.next_message.wrapping_add(1);
                forward.number = inner.next_message;
                let way = inner.proxy_for(&forward);
                (forward, way)
            }
            Some(number) => {
                let (number, way) = (number as u32, (number >> 32) as usize);
                let Some(flow) = inner.flows.get(flow) else { return closed_flow() };
                let route = flow.route(0);
                (part(route, false, number), way)
            }
        };
        let most = inner.node.geometry().max_medium();
        loop {
            let rest = payload.get(progress.done..).unwrap_or_default();
            if progress.message.is_some() && rest.is_empty() {
                debug_assert_eq!(progress.done, payload.len(), "all of it has gone");
                return SendResult::Sent;
            }
            let fragment = rest.get(..most).unwrap_or(rest);
            forward.message.payload = fragment;
            if !inner.push(way, &forward) {
                return SendResult::Full;
            }
            if progress.message.is_none() {
                inner.spend(flow, REQUEST_COST);
            }
            progress.done += fragment.len();
            debug_assert!(progress.done <= payload.len(), "each byte goes once");
            progress.message = Some((way as u64) << 32 | u64::from(forward.number));
            forward = part(forward.message.route, false, forward.number);
        }
    }

    /// Begins the close handshake with all proxies: they tell when everything has arrived.
    pub fn begin_close(&self) {
        let mut inner = self.inner();
        let inner = &mut *inner;
        debug_assert_eq!(inner.ways.len(), inner.node.proxies() as usize, "a path to each proxy");
        let from = Name::new(inner.rank, 0, 0).to_bits();
        for (which, way) in (0..inner.node.proxies()).zip(0..) {
            let to = proxy_name(&inner.node, which).to_bits();
            let message = Message::answer((FrameKind::Ask, 0), (from, to), (&[], &[]));
            inner.keep(way, &Forward { message, ordered: false, number: 0 });
        }
        debug_assert!(inner.kept.len() >= inner.ways.len(), "each proxy is told");
    }

    /// Checks the account of stored messages, paths and ranks, which holds between two calls.
    ///
    /// # Panics
    /// Panics if it does not, in builds with debug assertions.
    pub fn check_invariants(&self) {
        self.inner().check_invariants();
    }
}

/// Returns the result for a flow that is not open: its endpoint was closed. A caller that waited
/// for room would wait for ever.
#[cold]
fn closed_flow() -> SendResult {
    clump_bug::bug!("requests go over open flows");
    SendResult::Refused(Reason::EndpointGone)
}

/// Returns a further fragment of a long message, without its bytes.
fn part(route: Route, reply: bool, number: u32) -> Forward<'static> {
    let (kind, handler, words, payload) = (FrameKind::Part, 0, &[][..], &[][..]);
    let message = Message { kind, reply, handler, route, words, payload };
    Forward { message, ordered: false, number }
}

impl Inner {
    /// Admits a request if it may be sent now, and returns its encoded form.
    #[inline]
    fn admit<'a>(
        &mut self,
        id: FlowId,
        message: &Message<'a>,
        cost: u64,
    ) -> std::result::Result<Forward<'a>, SendResult> {
        let Some(flow) = self.flows.get(id) else { return Err(closed_flow()) };
        debug_assert!(flow.carries(message), "another flow's message");
        if let Some(refusal) = self.gone.get(&flow.peer) {
            return Err(SendResult::Refused(*refusal));
        }
        let ordered = flow.ordered;
        if flow.lacks_credit(cost) {
            // The outstanding bytes may be too few for the peer to report by itself.
            self.ask(id);
            return Err(SendResult::Full);
        }
        if !self.flush() {
            return Err(SendResult::Full);
        }
        debug_assert!(self.kept.is_empty(), "a request overtakes nothing that is stored");
        debug_assert!(message.words.len() <= frame::MAX_WORDS, "programs are told of more");
        Ok(Forward { message: *message, ordered, number: self.stamp() })
    }

    /// Returns the time for one message in some, and 0 for the others.
    #[inline]
    fn stamp(&mut self) -> u32 {
        if self.sampler.is_timed() { stamp((self.clock)()) } else { 0 }
    }

    fn spend(&mut self, flow: FlowId, cost: u64) {
        let Some(flow) = self.flows.get_mut(flow) else {
            clump_bug::bug!("a request was admitted to an open flow");
            return;
        };
        flow.spend(cost);
        debug_assert!(
            flow.outstanding() <= flow.credit().max(cost),
            "requests keep to their credit"
        );
    }

    /// Chooses the proxy for a message.
    #[inline]
    fn proxy_for(&mut self, forward: &Forward<'_>) -> usize {
        let count = self.ways.len();
        if count <= 1 {
            return 0;
        }
        let to = Name::from_bits(forward.message.route.to).rank();
        if to >= self.node.interface_id(0) {
            // One-sided operations are executed by the first interface of a node.
            return 0;
        }
        if forward.ordered || self.dispatch == Dispatch::Fixed {
            return self.rank as usize % count;
        }
        self.next_way = (self.next_way + 1) % count;
        if self.dispatch == Dispatch::LeastLoaded {
            // Ties are broken in turn.
            let turn = (0..count).map(|step| (self.next_way + step) % count);
            let mut load = |at: &usize| self.ways.get_mut(*at).map_or(u64::MAX, Path::outstanding);
            self.next_way = turn.min_by_key(&mut load).unwrap_or(0);
        }
        debug_assert!(self.next_way < count, "a message goes to a proxy of this node");
        self.next_way
    }

    /// Hands a message to a proxy; returns false if there is no room.
    #[inline]
    fn push(&mut self, way: usize, forward: &Forward<'_>) -> bool {
        // The caller has checked what programs give: it has no more words than fit.
        let encoded = forward.encode(&mut self.beside);
        let Some((header, words, beside)) = encoded else {
            // The words of what is returned are those of its sender.
            debug_assert_eq!(
                forward.message.kind,
                FrameKind::Returned,
                "programs are told of more words"
            );
            return true;
        };
        let pushed = push(&mut self.ways, way, header, &words, beside);
        if !pushed {
            self.full_way = Some(way);
        }
        pushed
    }

    fn keep(&mut self, way: usize, forward: &Forward<'_>) {
        debug_assert!(way < self.ways.len(), "it is stored for a proxy of this node");
        if let Some((header, words, beside)) = forward.encode(&mut self.beside) {
            self.kept_bytes += beside.len();
            self.kept.push_back((way, header, words, beside.to_vec()));
        } else {
            debug_assert_eq!(
                forward.message.kind,
                FrameKind::Returned,
                "programs are told of more words"
            );
        }
    }

    fn flush(&mut self) -> bool {
        while let Some((way, header, words, payload)) = self.kept.front() {
            if !push(&mut self.ways, *way, *header, words, payload) {
                self.full_way = Some(*way);
                return false;
            }
            debug_assert!(self.kept_bytes >= payload.len(), "stored bytes are counted");
            self.kept_bytes -= payload.len();
            self.kept.pop_front();
        }
        debug_assert_eq!(self.kept_bytes, 0, "nothing is stored any more");
        true
    }

    /// Requests that the proxy that had no room last, if any, wakes this rank once it has.
    fn request_room(&self) {
        debug_assert!(self.kept.is_empty() || self.full_way.is_some(), "it waits for a proxy");
        if let Some(path) = self.full_way.and_then(|way| self.ways.get(way)) {
            path.request_credit(CreditRequest::Room);
        }
    }

    /// Sends a reply, and stores the fragments that find no room.
    fn answer(&mut self, message: &Message<'_>) {
        let (kind, route, payload) = (message.kind, message.route, message.payload);
        debug_assert!(message.reply && route.tag == 0, "replies show no tag");
        self.next_message = self.next_message.wrapping_add(1);
        let number = if kind == FrameKind::Long { self.next_message } else { self.stamp() };
        let mut forward = Forward { message: *message, ordered: false, number };
        let way = self.proxy_for(&forward);
        let most = self.node.geometry().max_medium();
        let whole = payload.len() <= most || kind == FrameKind::Returned;
        debug_assert!(whole || kind == FrameKind::Long, "others have one fragment");
        let mut rest = payload;
        loop {
            let (fragment, more) = rest.split_at(rest.len().min(most));
            forward.message.payload = fragment;
            if !self.kept.is_empty() || !self.push(way, &forward) {
                self.keep(way, &forward);
            }
            if more.is_empty() {
                return;
            }
            (rest, forward) = (more, part(route, true, number));
        }
    }

    fn ask(&mut self, id: FlowId) -> bool {
        let Some(flow) = self.flows.get_mut(id).filter(|flow| flow.outstanding() != 0) else {
            return false;
        };
        let (from, to) = (flow.from, flow.to);
        if let Some(total) = flow.poll_credit_request() {
            debug_assert!(total >= flow.outstanding(), "it is asked about all that is unconsumed");
            self.answer(&Message::answer((FrameKind::Ask, 0), (from, to), (&[total], &[])));
        }
        true
    }
}

fn push(
    ways: &mut [Path],
    way: usize,
    header: Header,
    words: &[u64; MAX_WORDS],
    payload: &[u8],
) -> bool {
    let words = words.get(..header.words()).unwrap_or(words);
    debug_assert!(way < ways.len(), "a message without a path would be lost");
    debug_assert_eq!(header.payload() as usize, payload.len(), "the header tells the length");
    ways.get_mut(way).is_none_or(|path| path.push_any(header, words, payload).is_ok())
}

#[cfg(test)]
mod tests;
