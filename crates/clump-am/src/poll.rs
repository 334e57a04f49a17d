//! Polls of an endpoint: lanes at each, everything else when it is due.

use crate::core::Core;
use crate::due_messages;
use crate::error::Result;
use crate::receiver::Receiver;
use crate::sender::SendAttempt;
use crate::virtual_poll;
use clump_net::Progress;
use clump_os::clock;
use clump_trace::Counter;

/// Sends between two polls of the network, for a program that only sends.
const NETWORK_EVERY: u32 = 64;
/// Rounds over the lanes in one poll: a lane holds more messages than a round takes from it.
const ROUNDS: usize = 4;

/// The caller of a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The program.
    Program,
    /// A blocking call, which does nothing but poll.
    Wait,
    /// A send, after its message.
    Send,
}

impl Core {
    /// Polls everything once and handles what has arrived. Returns how many messages were handled.
    #[inline(always)]
    pub(crate) fn poll(&mut self) -> Result<usize> {
        self.poll_for(Caller::Program)
    }

    /// Polls for a blocking call, which polls repeatedly until something happens.
    #[inline(always)]
    pub(crate) fn poll_in_wait(&mut self) -> Result<usize> {
        self.poll_for(Caller::Wait)
    }

    /// Polls for a blocking call, and polls the network even if that is not due.
    #[cold]
    pub(crate) fn poll_thoroughly(&mut self) -> Result<usize> {
        let network = self.remote.is_some();
        if network {
            self.schedule.network_next();
        }
        let handled = self.poll_in_wait()?;
        debug_assert_eq!(self.remote.is_some(), network, "a poll gives the network back");
        Ok(handled)
    }

    /// Polls after a message was sent, and returns how many were handled. Sends follow each other
    /// closely, and arrivals from the network can wait meanwhile. An error, which is not the sent
    /// message's, is kept for the next poll.
    #[inline(always)]
    pub(crate) fn poll_after_send(&mut self) -> usize {
        match self.poll_for(Caller::Send) {
            Ok(handled) => handled,
            Err(error) => {
                self.handler_context.keep_failure(error);
                debug_assert!(self.handler_context.backlog.busy, "the next poll returns the error");
                0
            }
        }
    }

    #[inline(always)]
    fn poll_for(&mut self, caller: Caller) -> Result<usize> {
        let (mut handled, rare) = self.poll_lanes()?;
        if rare {
            handled += self.poll_rare(caller)?;
        }
        debug_assert!(rare || !self.handler_context.backlog.has_work(), "no poll does it");
        self.schedule.note_handled(handled);
        Ok(handled)
    }

    /// Handles messages in hot lanes; also returns true if there is more to do.
    #[inline(always)]
    pub(crate) fn poll_lanes(&mut self) -> Result<(usize, bool)> {
        self.schedule.begin();
        if self.handler_context.block.doorbell().rung() {
            self.process_doorbells()?;
        }
        let mut handled = 0;
        // Handlers cannot change the list of hot lanes.
        let Self { receiver, remote, handler_context, schedule, .. } = self;
        let lanes = receiver.inbox.hot.len();
        for at in 0..lanes {
            if receiver.inbox.hot[at].receiver.has_message() {
                handled += receiver.take(at, handler_context, remote, schedule)?;
            }
        }
        debug_assert_eq!(receiver.inbox.hot.len(), lanes, "a handler changed the lanes");
        let rare =
            receiver.inbox.anything_pending() | handler_context.backlog.busy | schedule.is_due();
        Ok((handled, rare))
    }

    /// Takes all messages out of the lanes that can be taken. Returns how many were handled, where
    /// time is virtual: those that come back.
    pub(crate) fn read_lanes(&mut self) -> Result<usize> {
        let mut handled = 0;
        // It is one poll, whose number decides what else is due.
        let polls = self.schedule.polls;
        for _ in 0..ROUNDS {
            let read = self.poll_lanes();
            self.schedule.polls = polls;
            handled += read?.0;
            if !self.receiver.inbox.hot.iter().any(|lane| lane.receiver.has_message()) {
                break;
            }
        }
        debug_assert!(self.handler_context.backlog.ordered, "where time is virtual");
        Ok(handled)
    }

    /// Returns the time at which the first message is due, in virtual time, of all that have been
    /// sent.
    pub(crate) fn first_due_ns(&mut self) -> Option<u64> {
        let actor = self.handler_context.context.actor()?;
        // Other actors may have run since the last poll.
        if let Err(error) = self.read_lanes() {
            self.handler_context.keep_failure(error);
        }
        debug_assert!(self.handler_context.virtual_inbox.is_some(), "where time is virtual");
        self.handler_context.virtual_inbox.as_mut()?.next_due_ns(actor)
    }

    #[cold]
    fn process_doorbells(&mut self) -> Result<()> {
        let disarmed = self.receiver.inbox.process_doorbells()?;
        self.refresh_knobs();
        self.handler_context.counters().add(Counter::LanesPolled, u64::from(disarmed));
        if std::mem::take(&mut self.receiver.inbox.queued) {
            // Another thread polled the network, and left something for this endpoint.
            self.schedule.network_now();
        }
        Ok(())
    }

    /// Handles shared queues, deferred work, and whatever is due periodically.
    #[cold]
    pub(crate) fn poll_rare(&mut self, caller: Caller) -> Result<usize> {
        let mut handled = 0;
        if let Some(actor) = self.handler_context.context.actor() {
            virtual_poll::order(&self.handler_context, actor, caller == Caller::Send)?;
            handled += self.read_lanes()?;
        }
        let Self { receiver, remote, handler_context, schedule, .. } = &mut *self;
        if receiver.inbox.anything_pending() {
            handled += receiver.drain_queues(handler_context, remote, schedule)?;
        }
        if self.handler_context.backlog.busy
            && caller != Caller::Send
            && let Some(error) = self.handler_context.backlog.failures.next()
        {
            return Err(error);
        }
        // Before the requests that wait for room: the network's answers make it.
        let due = self.schedule.is_due();
        if due {
            handled += self.poll_due(caller)?;
        }
        debug_assert!(self.handler_context.backlog.busy || !self.handler_context.backlog.delayed);
        if self.handler_context.backlog.busy {
            if self.handler_context.backlog.delayed {
                let Self { receiver, remote, handler_context, schedule, .. } = &mut *self;
                let remote = remote.as_deref_mut();
                handled += due_messages::handle_due(receiver, remote, handler_context, schedule)?;
            }
            if let Some(actor) = self.handler_context.context.actor() {
                let Self { receiver, handler_context, .. } = &mut *self;
                handled += virtual_poll::handle_due(receiver, handler_context, actor)?;
            }
            self.run_deferred()?;
        }
        if let Some(actor) = self.handler_context.context.actor() {
            if caller == Caller::Program && handled == 0 {
                actor.set_first_due(self.first_due_ns());
                actor.note_empty_poll();
            }
            if caller != Caller::Wait {
                actor.begin_part();
            }
        }
        if due {
            self.schedule.reschedule(self.remote.is_some());
            self.schedule.check_invariants();
        }
        Ok(handled)
    }

    /// Does what is due periodically: housekeeping, times between sends, a decision about yielding,
    /// a poll of the network.
    fn poll_due(&mut self, caller: Caller) -> Result<usize> {
        debug_assert!(self.schedule.is_due(), "nothing is due");
        let mut handled = 0;
        if self.schedule.take_housekeeping() {
            self.housekeeping()?;
        }
        if self.schedule.is_sample_due() {
            let polls = self.sender.sample(&self.handler_context, caller == Caller::Send);
            self.schedule.sample_in(polls);
        }
        if self.schedule.is_idle_window_due() {
            let poll = self.schedule.polls;
            self.schedule.idle_window.on_due(poll, caller == Caller::Program);
            debug_assert!(!self.schedule.is_idle_window_due(), "each poll would consider yielding");
        }
        let Self { receiver, remote, handler_context, schedule, .. } = self;
        if let Some(remote) = remote
            && schedule.is_network_due()
        {
            // After a failure the next poll continues.
            schedule.network_in(1);
            let Receiver { inbox, handlers, .. } = receiver;
            let (count, found) = remote.poll((handlers, inbox.is_holding()), handler_context)?;
            debug_assert!(found || count == 0, "messages came, and nothing was found");
            schedule.network_in(remote.polling.on_poll(found));
            match caller {
                Caller::Send => schedule.network_not_before(NETWORK_EVERY),
                Caller::Wait => schedule.network_not_before(remote.polling.interval_in_wait()),
                Caller::Program => {}
            }
            handled += count;
        }
        Ok(handled)
    }

    /// Does the work that handlers left behind, as far as there is room.
    #[cold]
    fn run_deferred(&mut self) -> Result<()> {
        self.receiver.flush_reply_queues(&mut self.handler_context);
        let (deferred, mut sent) = (self.handler_context.backlog.deferred.len(), 0);
        while sent < deferred && self.send_deferred()? {
            sent += 1;
        }
        let left = self.handler_context.backlog.deferred.len();
        debug_assert_eq!(sent + left, deferred, "a deferred request is lost or sent twice");
        self.receiver.handlers.deliver_returned(&mut self.handler_context)?;
        let backlog = &mut self.handler_context.backlog;
        debug_assert!(backlog.returned.is_empty(), "a returned message was not delivered");
        backlog.busy = backlog.has_work();
        backlog.check_invariants();
        Ok(())
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
            self.sender.give_up(&mut self.handler_context, first.dest, &message)?;
            return Ok(true);
        }
        self.handler_context.backlog.deferred.push_front(first);
        Ok(false)
    }

    /// Does everything that a poll does not: called periodically, and while waiting.
    #[cold]
    pub(crate) fn housekeeping(&mut self) -> Result<()> {
        self.handler_context.context.check_process()?;
        self.check_invariants();
        self.schedule.count(self.handler_context.counters());
        self.refresh_knobs();
        let inbox = &mut self.receiver.inbox;
        let armed = u64::from(inbox.tick());
        self.handler_context.counters().add(Counter::LanesArmed, armed);
        inbox.give_back_all();
        let woken: u32 = inbox.lanes().map(|lane| lane.receiver.take_wakes()).sum();
        self.handler_context.counters().add(Counter::CreditWakes, u64::from(woken));
        if let Some(network) = self.handler_context.context.network() {
            network.housekeeping(
                self.handler_context.context.node(),
                self.handler_context.context.block(),
            );
        }
        self.publish_traffic();
        self.sender.translation.return_unread(&mut self.handler_context);
        self.receiver.return_unread(&mut self.handler_context);
        let inbox = &mut self.receiver.inbox;
        self.sender.translation.finish_retiring(inbox)?;
        // Replies that are not read yet may still have to be sent, or returned.
        inbox.free_retired(|queue| {
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

    /// Performs the first part of a poll of the program: returns how many messages were handled,
    /// and true if [`Core::end_poll`] has to follow.
    #[inline(always)]
    pub(crate) fn begin_poll(&mut self) -> Result<(usize, bool)> {
        let (handled, rare) = self.poll_lanes()?;
        if !rare {
            debug_assert!(!self.handler_context.backlog.has_work(), "no poll does it");
            self.schedule.note_handled(handled);
        }
        Ok((handled, rare))
    }

    /// Performs the rest of a poll that has more to do than check lanes. Returns how many messages
    /// were handled in all, and true if a series of idle polls has become long enough to consider
    /// yielding.
    #[cold]
    pub(crate) fn end_poll(&mut self, handled: usize) -> Result<(usize, bool)> {
        let handled = handled + self.poll_rare(Caller::Program)?;
        debug_assert!(
            !self.schedule.is_idle_window_due(),
            "the window ends with every poll from now on"
        );
        self.schedule.note_handled(handled);
        Ok((handled, handled == 0 && self.schedule.idle_window.take_due()))
    }

    /// Returns true if the program only polled during the window of idle polls that has just ended.
    pub(crate) fn has_only_polled(&mut self) -> bool {
        let (poll, activity) = (self.schedule.polls, self.activity());
        self.schedule.idle_window.has_only_polled(poll, activity)
    }
}
