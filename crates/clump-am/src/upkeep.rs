//! Work of an endpoint besides sending and receiving: deferred requests, stored replies, returned
//! messages, deaths of peers.

use crate::core::{Body, Core, HandlerContext, SendAttempt};
use crate::dispatch::hand_over;
use crate::error::Result;
use crate::peer::Dest;
use crate::returned::{Reason, Returned};
use clump_os::clock;
use clump_shm::block::Openness;
use clump_shm::lane::CreditRequest;
use clump_shm::path::Path;
use clump_trace::{Counter, Counters};
use std::time::Duration;

impl Core {
    /// Does the work that handlers left behind, as far as there is room.
    #[cold]
    pub(crate) fn run_deferred(&mut self) -> Result<()> {
        self.flush_links();
        for _ in 0..self.handler_context.backlog.deferred.len() {
            if !self.send_deferred()? {
                break;
            }
        }
        self.deliver_returned()?;
        let backlog = &mut self.handler_context.backlog;
        debug_assert!(backlog.returned.is_empty(), "a returned message was not delivered");
        backlog.busy = backlog.stuck_links != 0
            || !backlog.deferred.is_empty()
            || !backlog.returned.is_empty()
            || !backlog.failures.is_empty();
        Ok(())
    }

    /// Returns how many messages this endpoint has handled so far, returned ones included.
    pub(crate) fn handled(&self) -> u64 {
        self.handler_context.counters().get(Counter::HandlerRuns)
    }

    /// Returns true if everything sent was read or returned.
    pub(crate) fn is_drained(&mut self) -> bool {
        let remotely = self.is_drained_remotely();
        let peers = self.peers.iter().flatten().chain(&self.retiring);
        remotely
            && !self.handler_context.backlog.busy
            && peers.into_iter().all(|peer| !peer.unchecked)
    }

    /// Asks targets of this node that have not read everything to wake this rank once they have.
    pub(crate) fn request_drained(&self) {
        let peers = self.peers.iter().flatten().chain(&self.retiring);
        for path in peers.filter(|peer| peer.unchecked).filter_map(|peer| peer.path.get()) {
            path.request_credit(CreditRequest::Drained);
        }
    }

    /// Asks the target of `dest`, if it is of this node, to wake this rank once there is room.
    pub(crate) fn request_room(&self, dest: Dest) {
        let entry = self.peers.get(dest.0 as usize).and_then(Option::as_ref);
        if let Some(path) = entry.and_then(|peer| peer.path.get()) {
            path.request_credit(CreditRequest::Room);
        }
    }

    /// Asks for room for deferred requests and stored replies.
    pub(crate) fn request_room_for_backlog(&mut self) {
        if let Some(first) = self.handler_context.backlog.deferred.front() {
            self.request_room(first.dest);
        }
        if self.handler_context.backlog.stuck_links != 0 {
            let of_lanes = self.inbox.lanes().filter_map(|lane| lane.link.as_mut());
            for link in of_lanes.chain(self.links.values_mut()).filter(|link| link.is_stuck()) {
                link.path.request_credit(CreditRequest::Room);
            }
        }
    }

    pub(crate) fn flush_links(&mut self) {
        if self.handler_context.backlog.stuck_links == 0 {
            return;
        }
        let of_lanes = self.inbox.lanes().filter_map(|lane| lane.link.as_mut());
        let links = of_lanes.chain(self.links.values_mut());
        let mut stuck = 0;
        for link in links {
            link.flush();
            stuck += usize::from(link.is_stuck());
        }
        self.handler_context.backlog.stuck_links = stuck;
    }

    /// Sends the oldest deferred request; false when there is no room for it.
    fn send_deferred(&mut self) -> Result<bool> {
        let Some(mut first) = self.handler_context.backlog.deferred.pop_front() else {
            return Ok(false);
        };
        let body = match (&first.payload, &first.deposit) {
            (None, _) => Body::Short,
            (Some(payload), None) => Body::Medium(payload),
            (Some(payload), Some((offset, progress))) => Body::Long(*offset, payload, progress),
        };
        if self.attempt(first.dest, first.handler, &first.words, body)? == SendAttempt::Sent {
            return Ok(true);
        }
        let now = clock::now_ns();
        if first.since == 0 {
            first.since = now;
        }
        let waited = u128::from(now - first.since);
        let send_timeout = self.handler_context.context.settings().send_timeout;
        if send_timeout.is_some_and(|p| waited > p.as_nanos()) && !body.is_begun() {
            self.return_to_sender(
                first.dest,
                Reason::Congestion,
                first.handler,
                &first.words,
                body,
            );
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
        self.count_polls();
        let cooled = u64::from(self.inbox.tick());
        self.handler_context.counters().add(Counter::LanesArmed, cooled);
        self.inbox.give_back_all();
        let woken: u32 = self.inbox.lanes().map(|lane| lane.receiver.take_wakes()).sum();
        self.handler_context.counters().add(Counter::CreditWakes, u64::from(woken));
        if let Some(network) = self.handler_context.context.network() {
            network.housekeeping(
                self.handler_context.context.node(),
                self.handler_context.context.block(),
            );
        }
        self.check_peers();
        self.check_links();
        self.finish_retiring()?;
        // Replies that are not read yet may still have to be sent, or returned.
        self.inbox.free_retired(|link| {
            let done = !link.is_stuck() && link.path.is_drained();
            if done {
                link.path.conclude();
            }
            done
        });
        if self.handler_context.backlog.busy { self.run_deferred() } else { Ok(()) }
    }

    /// Adds the polls made since the last call to the counters; in between they are counted
    /// privately, because they are a hundred times as frequent as anything else.
    pub(crate) fn count_polls(&mut self) {
        let polls = self
            .schedule
            .polls
            .wrapping_sub(std::mem::replace(&mut self.counted_polls, self.schedule.polls));
        let busy = std::mem::take(&mut self.busy_polls);
        let counters = self.handler_context.counters();
        counters.add(Counter::Polls, u64::from(polls));
        counters.add(Counter::PollsEmpty, u64::from(polls.saturating_sub(busy)));
    }

    /// Returns requests that their target will never read to this endpoint.
    fn check_peers(&mut self) {
        let Self { peers, retiring, handler_context, .. } = self;
        let HandlerContext { context, block, backlog, .. } = handler_context;
        let counters = Counters::over(block.counters());
        for peer in peers.iter_mut().flatten().chain(retiring.iter_mut()) {
            let (rank, dest) = (context.rank(), peer.name);
            let Some(path) = peer.path.get_mut() else { continue };
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
                let why = (reason, false);
                backlog.returned.push_back(Returned::of((rank, dest), why, header, words, payload));
                backlog.busy = true;
            });
            path.abandon();
        }
    }

    /// Returns replies that their requester will never read to this endpoint.
    fn check_links(&mut self) {
        let Self { links, inbox, handler_context, .. } = self;
        let HandlerContext { context, block, backlog, .. } = handler_context;
        let counters = Counters::over(block.counters());
        let rank = context.rank();
        let of_lanes = inbox.lanes().filter_map(|lane| lane.link.as_mut());
        for link in of_lanes.chain(links.values_mut()) {
            let tally = link.path.take_tally();
            counters.add(Counter::DoorbellRings, tally.rings);
            counters.add(Counter::WakesSent, tally.wakes);
            let dest = link.path.to();
            let dead = context.node().death_of(dest.rank()).is_some();
            if !dead && link.path.openness() == Openness::Open {
                continue;
            }
            let reason = if dead { Reason::PeerLost } else { Reason::ReplyRejected };
            link.take_back(|header, words, payload| {
                if header.kind() != clump_shm::slot::SlotKind::Returned {
                    let why = (reason, true);
                    let back = Returned::of((rank, dest), why, header, words, payload);
                    backlog.returned.push_back(back);
                    backlog.busy = true;
                }
            });
            link.path.abandon();
        }
    }

    /// Frees the reply lanes of unmapped destinations once their target has read everything.
    fn finish_retiring(&mut self) -> Result<()> {
        let mut at = 0;
        while at < self.retiring.len() {
            let peer = &mut self.retiring[at];
            let gone = peer.path.get().is_none_or(|p| p.openness() != Openness::Open);
            let done = gone || peer.path.get().is_none_or(Path::is_released);
            // Replies were published before the release; a poll between the two looks reads them,
            // or their bell, answered now, shows them.
            let seen_before = std::mem::replace(&mut peer.released, done && !peer.unchecked);
            if seen_before {
                self.inbox.process_doorbells()?;
            }
            let idle = peer.reply_lane.is_none_or(|lane| self.inbox.reply_lane_is_idle(lane));
            if !(seen_before && peer.released && idle) {
                at += 1;
                continue;
            }
            let peer = self.retiring.swap_remove(at);
            if let Some(lane) = peer.reply_lane {
                self.inbox.free_reply_lane(lane);
            }
        }
        Ok(())
    }
}

/// Time for which a closing endpoint tries to send replies that found no room.
const LAST_REPLIES: Duration = Duration::from_millis(200);

impl Core {
    /// Sends replies that wait for room and are owed to requesters; requesters that read nothing
    /// lose them.
    pub(crate) fn send_stashed(&mut self) {
        if self.handler_context.backlog.stuck_links == 0 {
            return;
        }
        let started = clock::now_ns();
        while self.handler_context.backlog.stuck_links != 0
            && u128::from(clock::now_ns() - started) < LAST_REPLIES.as_nanos()
        {
            self.flush_links();
            clock::yield_now();
        }
    }
}
