//! The part of an endpoint that its handlers reach through their token.

use crate::context::RankContext;
use crate::emulation::Emulation;
use crate::error::Error;
use crate::exported_segment::ExportedSegment;
use crate::failures::Failures;
use crate::message::{KeptMessage, MAX_CARRIED, OutgoingMessage};
use crate::peer::Dest;
use crate::returned::Returned;
use crate::virtual_inbox::VirtualInbox;
use clump_net::Progress;
use clump_shm::block::EndpointBlock;
use clump_shm::name::Name;
use clump_shm::shared::Shared;
use clump_shm::slot::{Header, SlotKind};
use clump_shm::traffic::TrafficRow;
use clump_shm::virtual_time::MessageRole;
use clump_trace::{Counter, Counters, Flow, Role, Size};
use clump_wire::Reason;
use std::collections::VecDeque;
use std::sync::Arc;

/// Most requests that handlers of one endpoint may have queued.
pub const MAX_DEFERRED: usize = 1 << 16;

/// A request that a handler queued.
#[derive(Debug)]
pub(crate) struct DeferredRequest {
    pub(crate) dest: Dest,
    pub(crate) message: KeptMessage,
    /// Fragments of a long message that are packed for another node.
    pub(crate) progress: Progress,
    /// Time at which it first found no room, in ns; zero before.
    pub(crate) since: u64,
}

/// Work that handlers left behind.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    pub(crate) deferred: VecDeque<DeferredRequest>,
    pub(crate) returned: VecDeque<Returned>,
    /// Errors of polls behind sends that succeeded.
    pub(crate) failures: Failures,
    /// Upper bound of the reply queues that hold stored replies.
    pub(crate) stuck_queues: usize,
    /// Upper bound of the requesters on other nodes whose replies wait.
    pub(crate) stuck_remote: usize,
    /// True if messages are hidden until they are due.
    pub(crate) delayed: bool,
    /// True where time is virtual: every poll orders itself among those of other ranks.
    pub(crate) ordered: bool,
    /// True if any of the above is not empty; the one word that a poll reads.
    pub(crate) busy: bool,
}

impl Backlog {
    /// Queues a request.
    pub(crate) fn defer(&mut self, dest: Dest, message: KeptMessage, progress: Progress) {
        debug_assert!(self.deferred.len() < MAX_DEFERRED + 1, "more than handlers may queue");
        self.deferred.push_back(DeferredRequest { dest, message, progress, since: 0 });
        self.busy = true;
        debug_assert!(self.has_deferred(dest), "the request is forgotten");
    }

    /// Queues a message of this endpoint for its handler 0.
    pub(crate) fn give_back(&mut self, returned: Returned) {
        let before = self.returned.len();
        self.returned.push_back(returned);
        self.busy = true;
        debug_assert!(self.returned.len() == before + 1 && self.busy, "handler 0 is not called");
    }

    /// Returns true if something is left to do besides what waits for other nodes.
    pub(crate) fn has_work(&self) -> bool {
        self.ordered || self.is_unfinished()
    }

    /// Returns true if handlers have left something to do besides what waits for other nodes.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.stuck_queues != 0
            || self.delayed
            || !self.deferred.is_empty()
            || !self.returned.is_empty()
            || !self.failures.is_empty()
    }

    /// Checks relations that hold between calls.
    pub(crate) fn check_invariants(&self) {
        debug_assert!(self.busy || !self.has_work(), "no poll will do what is left to do");
        debug_assert!(self.deferred.len() <= MAX_DEFERRED + 1, "more than handlers may queue");
        let begun = |request: &&DeferredRequest| request.progress != Progress::default();
        debug_assert!(
            self.deferred.iter().filter(begun).all(|request| request.message.is_long()),
            "only long messages are sent in parts"
        );
        debug_assert!(
            self.returned.iter().all(|message| message.words.len() <= MAX_CARRIED),
            "a returned message has more words than it was sent with"
        );
        debug_assert!(
            self.returned
                .iter()
                .all(|message| message.payload.is_empty() || message.deposit.is_none()),
            "a message has a payload or a deposit"
        );
    }

    /// Returns true if a queued request is addressed to `dest`.
    pub(crate) fn has_deferred(&self, dest: Dest) -> bool {
        self.deferred.iter().any(|deferred| deferred.dest == dest)
    }
}

/// State that handlers reach through their token: everything of an endpoint but lanes and handlers.
#[derive(Debug)]
pub(crate) struct HandlerContext {
    pub(crate) context: Arc<RankContext>,
    pub(crate) block: Shared<EndpointBlock>,
    /// Traffic of the endpoint by destination.
    pub(crate) traffic: TrafficRow,
    pub(crate) backlog: Backlog,
    pub(crate) segment: ExportedSegment,
    pub(crate) max_medium: usize,
    pub(crate) name: Name,
    /// True while messages are delayed on purpose; the one word that a send reads.
    pub(crate) emulates: bool,
    /// State of messages that are delayed on purpose; `None` while none ever was.
    pub(crate) emulation: Option<Box<Emulation>>,
    /// Messages that wait until they are due, where time is virtual.
    pub(crate) virtual_inbox: Option<Box<VirtualInbox>>,
}

impl HandlerContext {
    /// Returns the role of a message that this endpoint sends or handles, where time is virtual.
    pub(crate) fn role(&self, request: bool) -> MessageRole {
        let of_runtime = self.virtual_inbox.as_ref().is_some_and(|inbox| inbox.of_runtime);
        MessageRole { request, of_runtime }
    }

    #[inline(always)]
    pub(crate) fn counters(&self) -> Counters<'_> {
        Counters::over(self.block.counters())
    }

    /// Counts a message to another node by its destination. Apart, so that messages of this node
    /// keep their registers.
    #[inline(never)]
    pub(crate) fn count_remote(&self, to: Name, message: &OutgoingMessage<'_>) {
        debug_assert!(!self.context.node().is_local(to.rank()), "its lane's position counts it");
        debug_assert!(to.generation() != 0, "it was sent to an endpoint");
        self.traffic.add(to.rank(), message.traffic());
    }

    /// Returns the number of messages sent so far.
    pub(crate) fn sent(&self) -> u64 {
        let (mut sent, counters) = (0_u64, self.counters());
        for role in [Role::Request, Role::Reply] {
            for size in [Size::Short, Size::Medium, Size::Long] {
                let here = Counter::messages(role, size, Flow::Sent);
                let both = [here, here.over_network()].map(|counter| counters.get(counter));
                debug_assert!(here != here.over_network(), "each path is counted apart");
                sent = sent.wrapping_add(both[0]).wrapping_add(both[1]);
            }
        }
        sent
    }

    /// Counts a short request that was sent.
    #[inline(always)]
    pub(crate) fn count_short_sent(&self, words: usize) {
        debug_assert!(words <= MAX_CARRIED, "more words than a message carries");
        let counters = self.counters();
        counters.bump(Counter::RequestShortSent);
        counters.add(Counter::RequestShortSentBytes, words as u64 * 8);
    }

    /// Counts a short message that a handler got.
    #[inline(always)]
    pub(crate) fn count_short(&self, request: bool, header: Header) {
        debug_assert!(header.kind() == SlotKind::Short, "a message of one slot");
        let role = if request { Role::Request } else { Role::Reply };
        let counters = self.counters();
        counters.bump(Counter::messages(role, Size::Short, Flow::Received));
        let bytes = header.words() as u64 * 8;
        counters.add(Counter::bytes(role, Size::Short, Flow::Received), bytes);
        counters.bump(Counter::HandlerRuns);
    }

    /// Wakes the threads of this rank that sleep: what they wait for may have been handled.
    #[cold]
    pub(crate) fn wake_threads(&self) {
        let (node, rank) = (self.context.node(), self.context.rank());
        debug_assert!(node.is_local(rank), "a rank is on its own node");
        let alarm = node.alarm(rank).map(|alarm| &**alarm);
        self.context.block().park().wake_if_asleep(node.fence(), alarm);
    }

    /// Keeps an error for the next poll, because what the program called has succeeded.
    #[cold]
    pub(crate) fn keep_failure(&mut self, error: Error) {
        self.backlog.failures.keep(error);
        self.backlog.busy = true;
        debug_assert!(!self.backlog.failures.is_empty(), "the next poll has nothing to report");
    }

    /// Queues a message to `dest` for handler 0 of this endpoint.
    #[cold]
    pub(crate) fn return_to_sender(
        &mut self,
        dest: Name,
        (role, reason): (Role, Reason),
        message: &OutgoingMessage<'_>,
    ) {
        let rank = self.context.rank();
        debug_assert!(dest != self.name || self.name.rank() == rank, "of another rank");
        debug_assert!(message.arguments().len() <= MAX_CARRIED, "more words than it carries");
        self.backlog.give_back(Returned::of(rank, dest, (role, reason), message));
    }
}
