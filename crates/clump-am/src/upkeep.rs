//! Work of an endpoint besides sending and receiving: deferred requests, stored replies, returned
//! messages, deaths of peers.

use crate::attempt::SendAttempt;
use crate::core::Core;
use crate::error::Result;
use crate::handler_context::HandlerContext;
use crate::handling::hand_over;
use crate::message::MessageKind;
use crate::reply_queue::ReplyQueue;
use crate::returned::Returned;
use clump_net::Progress;
use clump_os::clock;
use clump_shm::block::Openness;
use clump_shm::lane::CreditRequest;
use clump_shm::traffic::Traffic;
use clump_trace::{Counter, Counters, Role};
use clump_wire::Reason;
use std::time::Duration;

impl Core {
    /// Does the work that handlers left behind, as far as there is room.
    #[cold]
    pub(crate) fn run_deferred(&mut self) -> Result<()> {
        self.flush_reply_queues();
        let (deferred, mut sent) = (self.handler_context.backlog.deferred.len(), 0);
        while sent < deferred && self.send_deferred()? {
            sent += 1;
        }
        let left = self.handler_context.backlog.deferred.len();
        debug_assert_eq!(sent + left, deferred, "a deferred request is lost or sent twice");
        self.deliver_returned()?;
        let backlog = &mut self.handler_context.backlog;
        debug_assert!(backlog.returned.is_empty(), "a returned message was not delivered");
        backlog.busy = backlog.has_work();
        backlog.check_invariants();
        Ok(())
    }

    /// Returns true if everything sent was read or returned.
    pub(crate) fn is_drained(&mut self) -> bool {
        let remotely = self.is_drained_remotely();
        // Messages that the other side hides have left their lane, but were not handled.
        let past = self.handler_context.emulation.as_ref().is_none_or(|knobs| knobs.is_past());
        let backlog = &self.handler_context.backlog;
        debug_assert!(
            backlog.busy || backlog.deferred.is_empty(),
            "no poll sends what is deferred"
        );
        remotely && past && !backlog.busy && self.translation.is_drained()
    }

    /// Checks relations that hold between calls; release builds check none.
    pub(crate) fn check_invariants(&mut self) {
        if !cfg!(debug_assertions) {
            return;
        }
        self.handler_context.backlog.check_invariants();
        self.schedule.check_invariants();
        self.translation.check_invariants(self.handler_context.name);
        debug_assert_eq!(self.inbox.name(), self.handler_context.name, "two names");
        debug_assert!(
            self.remote.is_some() == self.handler_context.context.network().is_some(),
            "an endpoint has a network state if its rank has a network"
        );
        debug_assert!(
            self.reply_queues.iter().all(|(name, queue)| *name == queue.path.to()),
            "a reply path leads to another requester"
        );
        let mut stuck = self.reply_queues.values().filter(|queue| queue.is_stuck()).count();
        for lane in self.inbox.lanes() {
            let Some(queue) = &lane.reply_queue else { continue };
            debug_assert!(
                lane.reply_lane.is_some(),
                "replies that come by a lane have a path back"
            );
            debug_assert_eq!(queue.path.to(), lane.from, "replies go to another requester");
            queue.check_invariants();
            stuck += usize::from(queue.is_stuck());
        }
        self.reply_queues.values().for_each(ReplyQueue::check_invariants);
        debug_assert!(
            stuck <= self.handler_context.backlog.stuck_queues,
            "{stuck} reply queues are stuck, and no poll flushes them"
        );
        if let Some(remote) = &self.remote {
            remote.requesters.check_invariants();
            debug_assert!(
                !remote.requesters.is_stuck() || self.handler_context.backlog.stuck_remote > 0,
                "replies to other nodes wait, and no poll sends them"
            );
        }
    }

    /// Requests room for deferred requests and stored replies.
    pub(crate) fn request_room_for_backlog(&mut self) {
        self.handler_context.backlog.check_invariants();
        if let Some(first) = self.handler_context.backlog.deferred.front() {
            debug_assert!(self.handler_context.backlog.busy, "no poll sends what room is made for");
            self.translation.request_room(first.dest);
        }
        if self.handler_context.backlog.stuck_queues != 0 {
            let of_lanes = self.inbox.lanes().filter_map(|lane| lane.reply_queue.as_mut());
            for queue in
                of_lanes.chain(self.reply_queues.values_mut()).filter(|queue| queue.is_stuck())
            {
                queue.path.request_credit(CreditRequest::Room);
            }
        }
    }

    pub(crate) fn flush_reply_queues(&mut self) {
        if self.handler_context.backlog.stuck_queues == 0 {
            return;
        }
        let of_lanes = self.inbox.lanes().filter_map(|lane| lane.reply_queue.as_mut());
        let reply_queues = of_lanes.chain(self.reply_queues.values_mut());
        let mut stuck = 0;
        for queue in reply_queues {
            queue.flush();
            stuck += usize::from(queue.is_stuck());
        }
        debug_assert!(
            stuck <= self.handler_context.backlog.stuck_queues,
            "a flush stores no reply"
        );
        self.handler_context.backlog.stuck_queues = stuck;
    }

    /// Sends the oldest deferred request; false when there is no room for it.
    fn send_deferred(&mut self) -> Result<bool> {
        let Some(mut first) = self.handler_context.backlog.deferred.pop_front() else {
            return Ok(false);
        };
        let message = first.message.outgoing();
        debug_assert!(first.since == 0 || first.since <= clock::now_ns(), "from the future");
        if self.attempt(first.dest, &message, &mut first.progress)? == SendAttempt::Sent {
            return Ok(true);
        }
        let now = clock::now_ns();
        if first.since == 0 {
            first.since = now;
        }
        let waited = u128::from(now - first.since);
        let send_timeout = self.handler_context.context.settings().send_timeout;
        let is_begun = first.progress != Progress::default();
        debug_assert!(!is_begun || first.message.is_long(), "only long ones are sent in parts");
        if send_timeout.is_some_and(|p| waited > p.as_nanos()) && !is_begun {
            self.give_up(first.dest, &message)?;
            return Ok(true);
        }
        self.handler_context.backlog.deferred.push_front(first);
        Ok(false)
    }

    /// Gives returned messages to handler 0.
    pub(crate) fn deliver_returned(&mut self) -> Result<()> {
        while let Some(returned) = self.handler_context.backlog.returned.pop_front() {
            self.handler_context.counters().bump(Counter::HandlerRuns);
            hand_over(&mut self.on_returned, self.handler_context.counters(), &returned)?;
        }
        debug_assert!(self.handler_context.backlog.returned.is_empty());
        Ok(())
    }

    /// Does everything that a poll does not: called periodically, and while waiting.
    #[cold]
    pub(crate) fn housekeeping(&mut self) -> Result<()> {
        self.handler_context.context.check_process()?;
        self.check_invariants();
        self.schedule.count(self.handler_context.counters());
        self.refresh_knobs();
        let armed = u64::from(self.inbox.tick());
        self.handler_context.counters().add(Counter::LanesArmed, armed);
        self.inbox.give_back_all();
        let woken: u32 = self.inbox.lanes().map(|lane| lane.receiver.take_wakes()).sum();
        self.handler_context.counters().add(Counter::CreditWakes, u64::from(woken));
        if let Some(network) = self.handler_context.context.network() {
            network.housekeeping(
                self.handler_context.context.node(),
                self.handler_context.context.block(),
            );
        }
        self.publish_traffic();
        self.translation.return_unread(&mut self.handler_context);
        self.check_reply_queues();
        self.translation.finish_retiring(&mut self.inbox)?;
        // Replies that are not read yet may still have to be sent, or returned.
        self.inbox.free_retired(|queue| {
            let done = !queue.is_stuck() && queue.path.is_drained();
            if done {
                queue.path.conclude();
            }
            done
        });
        debug_assert!(
            self.handler_context.backlog.busy || !self.handler_context.backlog.has_work(),
            "no poll will do what is left to do"
        );
        if self.handler_context.backlog.busy { self.run_deferred() } else { Ok(()) }
    }

    /// Publishes what was sent by lanes and shared queues since the last call.
    pub(crate) fn publish_traffic(&mut self) {
        let Self { reply_queues, inbox, handler_context, translation, .. } = self;
        let traffic = &handler_context.traffic;
        let of_lanes = inbox.lanes().filter_map(|lane| lane.reply_queue.as_mut());
        let replies = of_lanes.chain(reply_queues.values_mut()).map(|queue| &mut queue.path);
        for path in translation.paths_mut().chain(replies) {
            traffic.add(path.to().rank(), path.take_traffic());
            debug_assert_eq!(path.take_traffic(), Traffic::default(), "counted twice");
        }
    }

    /// Returns replies that their requester will never read to this endpoint.
    fn check_reply_queues(&mut self) {
        let Self { reply_queues, inbox, handler_context, .. } = self;
        let HandlerContext { context, block, backlog, .. } = handler_context;
        let counters = Counters::over(block.counters());
        let rank = context.rank();
        let of_lanes = inbox.lanes().filter_map(|lane| lane.reply_queue.as_mut());
        for queue in of_lanes.chain(reply_queues.values_mut()) {
            let tally = queue.path.take_tally();
            counters.add(Counter::DoorbellRings, tally.rings);
            counters.add(Counter::WakesSent, tally.wakes);
            let dest = queue.path.to();
            let dead = context.node().death_of(dest.rank()).is_some();
            if !dead && queue.path.openness() == Openness::Open {
                continue;
            }
            let reason = if dead { Reason::PeerLost } else { Reason::ReplyRejected };
            queue.take_back(|message| {
                if message.kind != MessageKind::Returned {
                    let back = Returned::of(rank, dest, (Role::Reply, reason), message);
                    backlog.give_back(back);
                }
            });
            debug_assert!(!queue.is_stuck(), "a reply to an endpoint that is gone waits for ever");
            queue.path.abandon();
        }
    }
}

/// Time for which a closing endpoint tries to send replies that found no room.
const LAST_REPLIES: Duration = Duration::from_millis(200);

impl Core {
    /// Sends replies that wait for room and are owed to requesters; requesters that read nothing
    /// lose them.
    pub(crate) fn send_stashed(&mut self) {
        if self.handler_context.backlog.stuck_queues == 0 {
            return;
        }
        debug_assert!(self.remote.is_some() || self.handler_context.backlog.stuck_remote == 0);
        let started = clock::now_ns();
        while self.handler_context.backlog.stuck_queues != 0
            && u128::from(clock::now_ns() - started) < LAST_REPLIES.as_nanos()
        {
            self.flush_reply_queues();
            clock::yield_now();
        }
    }
}
