//! Polls of an endpoint: lanes at each, everything else when it is due.

use crate::core::Core;
use crate::error::Result;
use clump_os::clock;
use clump_trace::{Counter, histogram};

/// Sends between two polls of the network, for a program that only sends.
const NETWORK_EVERY: u32 = 64;

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
        let lanes = self.inbox.hot.len();
        for at in 0..lanes {
            if self.inbox.hot[at].receiver.has_message() {
                handled += self.take(at)?;
            }
        }
        debug_assert_eq!(self.inbox.hot.len(), lanes, "a handler changed the lanes");
        let rare = self.inbox.anything_pending()
            | self.handler_context.backlog.busy
            | self.schedule.is_due();
        Ok((handled, rare))
    }

    #[cold]
    fn process_doorbells(&mut self) -> Result<()> {
        let disarmed = self.inbox.process_doorbells()?;
        self.refresh_knobs();
        self.handler_context.counters().add(Counter::LanesPolled, u64::from(disarmed));
        if std::mem::take(&mut self.inbox.queued) {
            // Another thread polled the network, and left something for this endpoint.
            self.schedule.network_now();
        }
        Ok(())
    }

    /// Handles shared queues, deferred work, and whatever is due periodically.
    #[cold]
    pub(crate) fn poll_rare(&mut self, caller: Caller) -> Result<usize> {
        let mut handled = if self.inbox.anything_pending() { self.drain_queues()? } else { 0 };
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
                handled += self.handle_due()?;
            }
            self.run_deferred()?;
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
            let (sent, after_send) = (self.handler_context.sent(), caller == Caller::Send);
            let (polls, time) = self.send_sampler.on_due(sent, after_send, clock::now_ns);
            if let Some(ns) = time {
                histogram::record(self.handler_context.block.send_intervals(), ns);
            }
            debug_assert!(polls > 0, "each poll would be sampled");
            self.schedule.sample_in(polls);
        }
        if self.schedule.is_idle_window_due() {
            let poll = self.schedule.polls;
            self.schedule.idle_window.on_due(poll, caller == Caller::Program);
            debug_assert!(!self.schedule.is_idle_window_due(), "each poll would consider yielding");
        }
        if self.remote.is_some() && self.schedule.is_network_due() {
            let found = self.poll_network();
            match (caller, &self.remote) {
                _ if found.is_err() => {}
                (Caller::Send, _) => self.schedule.network_not_before(NETWORK_EVERY),
                (Caller::Wait, Some(remote)) => {
                    self.schedule.network_not_before(remote.polling.interval_in_wait());
                }
                _ => {}
            }
            handled += found?;
        }
        Ok(handled)
    }
}
