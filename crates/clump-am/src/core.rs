//! The state of an endpoint, cut by what owns it: its sending part, its receiving part on its node,
//! the part that other nodes reach, and what handlers reach.

use crate::context::RankContext;
use crate::due_messages;
use crate::error::{ErrorKind, Result};
use crate::exported_segment::ExportedSegment;
use crate::handler_context::{Backlog, HandlerContext};
use crate::message::OutgoingMessage;
use crate::peer::{Dest, Tag};
use crate::poll_schedule::PollSchedule;
use crate::receiver::Receiver;
use crate::region::Region;
use crate::remote_side::RemoteSide;
use crate::sender::{SendAttempt, Sender};
use crate::wait_for::TOO_SHORT;
use clump_net::Progress;
use clump_os::{clock, virtual_thread};
use clump_shm::geometry::ENDPOINTS;
use clump_shm::inbox::Inbox;
use clump_shm::name::Name;
use clump_shm::segment::Segment;
use clump_shm::traffic::Traffic;
use clump_trace::{Counter, Flow, Role, Size};
use clump_transport::Urgency;
use std::sync::Arc;
use std::time::Duration;

/// An endpoint.
#[derive(Debug)]
pub struct Core {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    /// The part that other nodes reach, if there are any.
    pub(crate) remote: Option<Box<RemoteSide>>,
    pub(crate) handler_context: HandlerContext,
    pub(crate) schedule: PollSchedule,
    /// True if calls that block on this endpoint poll no other one, and other calls not this one.
    pub(crate) restricted: bool,
}

impl Core {
    pub(crate) fn open(context: &Arc<RankContext>, tag: Tag) -> Result<Self> {
        context.check_process()?;
        let is_virtual = context.actor().is_some();
        if is_virtual && !virtual_thread::is_virtual() {
            let why = "only the thread that has joined opens endpoints";
            return Err(ErrorKind::NotInVirtualTime(why).into());
        }
        let opening = context.opening();
        let indices = context.actor().map_or(0..ENDPOINTS, |actor| actor.endpoints());
        let inbox = Inbox::open_among(context.node(), context.rank(), tag.0, indices)?;
        let (network, name) = (context.network(), inbox.name());
        debug_assert!(usize::from(name.index()) < ENDPOINTS, "an index of the table");
        if let Some(network) = network {
            network.enter(name, inbox.block().clone());
        }
        drop(opening);
        let handler_context = HandlerContext {
            context: context.clone(),
            block: inbox.block().clone(),
            traffic: inbox.traffic()?,
            backlog: Backlog { ordered: is_virtual, busy: is_virtual, ..Backlog::default() },
            segment: ExportedSegment::default(),
            max_medium: context.node().geometry().max_medium(),
            name,
            emulates: context.trace().is_some() || is_virtual,
            emulation: None,
            virtual_inbox: is_virtual.then(Box::default),
        };
        debug_assert!(name.rank() == context.rank(), "another rank's endpoint");
        debug_assert!(name.generation() != 0, "no sender could map it");
        let mut core = Self {
            sender: Sender::new(name),
            receiver: Receiver::new(inbox),
            remote: network.map(|network| Box::new(RemoteSide::new(network, name))),
            handler_context,
            schedule: PollSchedule::default(),
            restricted: false,
        };
        // After it was opened: a change from now on rings its doorbell.
        core.refresh_knobs();
        Ok(core)
    }

    /// Maps `name` into the translation table, at the first free index.
    pub(crate) fn map(&mut self, name: Name, tag: Tag, ordered: bool) -> Result<Dest> {
        let inbox = &mut self.receiver.inbox;
        self.sender.map(&self.handler_context, inbox, (name, tag, ordered))
    }

    /// Sends a message once, or reports that there is no room ([`Sender::send`]).
    ///
    /// # Errors
    /// As for [`Sender::send`].
    #[inline(never)]
    pub(crate) fn attempt(
        &mut self,
        dest: Dest,
        message: &OutgoingMessage<'_>,
        progress: &mut Progress,
    ) -> Result<SendAttempt> {
        let Self { sender, handler_context, schedule, .. } = self;
        sender.send((handler_context, schedule), dest, message, progress)
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

    /// Returns a number that grows with all that the program does with this endpoint besides idle
    /// polls: messages sent and handled.
    pub(crate) fn activity(&self) -> u64 {
        let counters = self.handler_context.counters();
        let sent = [Size::Short, Size::Medium, Size::Long].map(|size| {
            let counter = Counter::messages(Role::Request, size, Flow::Sent);
            counters.get(counter).wrapping_add(counters.get(counter.over_network()))
        });
        sent.into_iter().fold(self.handled(), u64::wrapping_add)
    }

    /// Reads the laboratory's settings, if they have changed, and diverts the ways of short
    /// messages or ends that.
    #[cold]
    pub(crate) fn refresh_knobs(&mut self) {
        let Self { handler_context, sender, receiver, .. } = self;
        if !handler_context.refresh_knobs() {
            return;
        }
        let on = handler_context.emulates();
        sender.translation.divert(on);
        for queue in receiver.reply_queues() {
            queue.path.divert(on);
        }
        debug_assert_eq!(handler_context.emulates(), on, "it is what it was");
        debug_assert!(handler_context.emulation.is_some(), "its state was read");
    }

    /// Returns the time until the first delayed message is due.
    pub(crate) fn due_in(&self) -> Option<Duration> {
        let due_ns = self.handler_context.emulation.as_ref()?.first_due_ns()?;
        debug_assert!(self.handler_context.backlog.busy, "polls look for what is due");
        Some(Duration::from_nanos(due_ns.saturating_sub(clock::now_ns())))
    }

    /// Has senders ring the doorbell from now on. Where time is virtual, messages wake their
    /// receivers when they are due instead.
    pub(crate) fn arm_notifications(&mut self) {
        if self.handler_context.virtual_inbox.is_none() {
            self.receiver.inbox.arm_all_notifications();
        }
        debug_assert!(self.handler_context.backlog.busy || !self.handler_context.backlog.ordered);
    }

    /// Returns true if messages have arrived that are not due yet.
    pub(crate) fn hides_messages(&self) -> bool {
        let inbox = self.handler_context.virtual_inbox.as_ref();
        self.due_in().is_some() || inbox.is_some_and(|inbox| inbox.is_waiting())
    }

    /// Returns true if anything waits to be handled; called after the announcement of a sleep.
    pub(crate) fn anything_waiting(&mut self) -> bool {
        if self.handler_context.virtual_inbox.is_some() {
            // The last poll has taken all of each lane.
            let pending = self.receiver.inbox.anything_pending();
            return pending && self.handler_context.backlog.stuck_queues == 0;
        }
        let index = self.handler_context.name.index();
        let queued = self.handler_context.context.network().is_some_and(|n| n.has_queued(index));
        let soon = self.due_in().is_some_and(|due| due < TOO_SHORT);
        debug_assert!(!soon || self.handler_context.backlog.busy, "no poll handles what is due");
        // Always evaluated: only this finds a message that a sender stored in a lane before
        // notification was armed.
        self.receiver.inbox.anything_waiting() || queued || soon
    }

    /// Returns true if everything sent was read or returned.
    pub(crate) fn is_drained(&mut self) -> bool {
        let remotely = self.is_drained_remotely();
        // Messages that the other side hides have left their lane, but were not handled.
        let past = self.handler_context.emulation.as_ref().is_none_or(|knobs| knobs.is_past());
        let actor = self.handler_context.context.actor();
        let past = past && actor.is_none_or(|actor| actor.is_drained());
        let backlog = &self.handler_context.backlog;
        debug_assert!(
            backlog.busy || backlog.deferred.is_empty(),
            "no poll sends what is deferred"
        );
        remotely && past && !backlog.is_unfinished() && self.sender.translation.is_drained()
    }

    /// Returns true if everything sent to other nodes was consumed or returned; requests reports
    /// from the other peers.
    fn is_drained_remotely(&mut self) -> bool {
        let Self { sender, receiver, remote, handler_context, .. } = self;
        let Some(network) = handler_context.context.network() else { return true };
        debug_assert!(remote.is_some(), "a network without a state");
        let holding = receiver.inbox.is_holding();
        let idle = remote.as_ref().is_none_or(|remote| remote.is_idle(holding));
        let queued = network.has_queued(handler_context.name.index());
        let drained = sender.translation.is_drained_remotely(network);
        network.flush(Urgency::Due);
        idle && !queued && drained
    }

    /// Requests room for deferred requests and stored replies.
    pub(crate) fn request_room_for_backlog(&mut self) {
        let backlog = &self.handler_context.backlog;
        backlog.check_invariants();
        if let Some(first) = backlog.deferred.front() {
            debug_assert!(backlog.busy, "no poll sends what room is made for");
            self.sender.translation.request_room(first.dest);
        }
        if backlog.stuck_queues != 0 {
            self.receiver.request_room();
        }
    }

    /// Checks relations that hold between calls; release builds check none.
    pub(crate) fn check_invariants(&mut self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let Self { sender, receiver, remote, handler_context, schedule, .. } = self;
        handler_context.backlog.check_invariants();
        schedule.check_invariants();
        sender.translation.check_invariants(handler_context.name);
        debug_assert!(
            remote.is_some() == handler_context.context.network().is_some(),
            "an endpoint has a network state if its rank has a network"
        );
        receiver.check_invariants(handler_context.name, handler_context.backlog.stuck_queues);
        if let Some(remote) = remote {
            remote.check_invariants(handler_context.backlog.stuck_remote);
        }
    }

    /// Publishes what was sent by lanes and shared queues since the last call.
    pub(crate) fn publish_traffic(&mut self) {
        let Self { sender, receiver, handler_context, .. } = self;
        let traffic = &handler_context.traffic;
        let replies = receiver.reply_queues().map(|queue| &mut queue.path);
        for path in sender.translation.paths_mut().chain(replies) {
            traffic.add(path.to().rank(), path.take_traffic());
            debug_assert_eq!(path.take_traffic(), Traffic::default(), "counted twice");
        }
    }

    /// Closes the endpoint: nothing is read any more; messages it did not read are returned to
    /// their senders.
    pub(crate) fn close(&mut self) {
        debug_assert!(!clump_os::forked::is_child(), "a child closes its parent's endpoint");
        self.check_invariants();
        self.schedule.count(self.handler_context.counters());
        let remote = self.remote.as_deref_mut();
        due_messages::return_all(&mut self.receiver, remote, &mut self.handler_context);
        self.receiver.send_deferred_replies(&mut self.handler_context);
        self.publish_traffic();
        // Before the endpoint is closed: a lane of a closed sender may get another owner at once.
        self.sender.translation.close();
        self.receiver.close();
        let HandlerContext { context, name, segment, .. } = &mut self.handler_context;
        if let Some((remote, network)) = self.remote.take().zip(context.network()) {
            remote.close(network, *name);
        }
        debug_assert!(self.remote.is_none(), "nothing of other nodes is handled any more");
        segment.close();
        debug_assert!(segment.get().is_none(), "its memory is given back");
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
