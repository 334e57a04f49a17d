//! Short requests: the fast way to another endpoint, and the short cut of an endpoint to itself.
//!
//! A request to the endpoint itself needs no lane: [`Core::request_short`] runs its handler before
//! the poll that belongs to each request and would have found it. It does so only while the
//! endpoint's lane to itself is hot and empty and no reply waits on the way back. Else the request
//! is sent by the lane, as all others are, and handled in its turn.

use crate::arrived_message::ArrivedMessage;
use crate::core::Core;
use crate::error::{ErrorKind, Result};
use crate::handler::HandlerTable;
use crate::handler_context::HandlerContext;
use crate::handler_failure::HandlerFailure;
use crate::message::{Handler, MAX_ARGUMENTS, MAX_CARRIED, OutgoingMessage};
use crate::peer::{Dest, MappedPeer, Route};
use crate::reply_queue::ReplyQueue;
use crate::reply_to::ReplyTo;
use crate::sender::SendAttempt;
use clump_net::Progress;
use clump_shm::inbox::InLane;
use clump_shm::polled_lanes::PolledLanes;
use clump_shm::slot::{Header, INLINE};

impl Core {
    /// Sends a short message once, or reports that there is no room. The budget of the fast path:
    /// five checks, the stores of one slot, one read of the receiver's state, two counters.
    #[inline(always)]
    pub(crate) fn attempt_short(
        &mut self,
        dest: Dest,
        handler: Handler,
        words: &[u64],
    ) -> Result<SendAttempt> {
        match self.sender.push_short(&self.handler_context, dest, handler, words) {
            true => Ok(SendAttempt::Sent),
            false => self.attempt_rarely(dest, handler, words),
        }
    }

    /// Sends a short request once, or reports that there is no room; and polls.
    #[inline(always)]
    pub(crate) fn request_short(
        &mut self,
        dest: Dest,
        handler: Handler,
        words: &[u64],
    ) -> Result<SendAttempt> {
        let sent = 'sent: {
            if words.len() <= INLINE
                && handler.0 != 0
                && let Some(peer) = self.sender.translation.get_mut(dest)
            {
                if let Route::Local(path) = &mut peer.route {
                    if path.admits(peer.tag) {
                        peer.unchecked = true;
                        if path.push(Header::short(handler.0, words.len()), words).is_ok() {
                            debug_assert!(!self.handler_context.emulates(), "paths are diverted");
                            self.handler_context.count_short_sent(words.len());
                            break 'sent SendAttempt::Sent;
                        }
                    }
                } else {
                    let Self { receiver, handler_context, .. } = self;
                    let (hot, table) = (&mut receiver.inbox.hot, &mut receiver.handlers.table);
                    match run_own(peer, hot, table, handler_context, handler, words) {
                        Ok(true) => break 'sent SendAttempt::Sent,
                        Ok(false) => {}
                        // Its handler ran, and failed: the request was sent.
                        Err(error) => {
                            handler_context.keep_failure(error);
                            break 'sent SendAttempt::Sent;
                        }
                    }
                }
            }
            self.attempt_rarely(dest, handler, words)?
        };
        self.poll_after_send();
        Ok(sent)
    }

    /// Sends a short message that no push of one slot has sent.
    #[cold]
    #[inline(never)]
    fn attempt_rarely(
        &mut self,
        dest: Dest,
        handler: Handler,
        words: &[u64],
    ) -> Result<SendAttempt> {
        if words.len() > MAX_ARGUMENTS {
            return Err(ErrorKind::TooManyWords(words.len()).into());
        }
        debug_assert!(words.len() <= MAX_CARRIED, "a program gives fewer than a message carries");
        let message = OutgoingMessage::short(handler, words);
        let Self { sender, handler_context, schedule, .. } = self;
        sender.send((handler_context, schedule), dest, &message, &mut Progress::default())
    }
}

/// Runs the handler of a request to the endpoint itself; false when that has to go by the lane, or
/// nowhere. The order of requests stays: none is run here while another waits in the lane.
#[inline(never)]
fn run_own(
    peer: &mut MappedPeer,
    hot: &mut PolledLanes<ReplyQueue>,
    table: &mut HandlerTable,
    handler_context: &mut HandlerContext,
    handler: Handler,
    words: &[u64],
) -> Result<bool> {
    let Route::Own(path) = &peer.route else { return Ok(false) };
    if handler_context.emulates() {
        return Ok(false);
    }
    let is_own =
        |lane: &InLane<ReplyQueue>| lane.from == peer.name && lane.reply_lane == peer.reply_lane;
    let Some(lane) = hot.get_mut(peer.hot_at).filter(|lane| is_own(lane)) else {
        peer.hot_at = find(hot, is_own);
        return Ok(false);
    };
    debug_assert!(peer.name == handler_context.name && peer.reply_lane.is_some());
    let Some(queue) = lane.reply_queue.as_mut().filter(|queue| !queue.is_stuck()) else {
        return Ok(false);
    };
    if !path.admits(peer.tag) || lane.receiver.has_message() {
        return Ok(false);
    }
    let Some(run) = table.find(handler.0) else { return Ok(false) };
    debug_assert!(words.len() <= INLINE && handler.0 != 0, "a short request of one slot");
    debug_assert_eq!(queue.path.to(), peer.name, "replies of its own handler come back to it");
    let header = Header::short(handler.0, words.len());
    let failure = run.run_short(peer.name, ReplyTo::Local(queue), handler_context, words);
    if let Some(failure) = failure
        && !end_own(handler_context, queue, header, words, *failure)?
    {
        return Ok(false);
    }
    lane.recent = lane.recent.wrapping_add(1);
    path.count_own(words.len());
    handler_context.count_short_sent(words.len());
    handler_context.count_short(true, header);
    Ok(true)
}

/// Returns the index of an endpoint's lane to itself among the hot ones; 0 while it is not hot.
#[cold]
fn find(hot: &PolledLanes<ReplyQueue>, is_own: impl Fn(&InLane<ReplyQueue>) -> bool) -> usize {
    hot.iter().position(is_own).unwrap_or(0)
}

/// Ends a request to the endpoint itself whose handler failed; false when it has to go back and
/// there is no room, so that it has to wait in the lane.
#[cold]
fn end_own(
    handler_context: &mut HandlerContext,
    queue: &mut ReplyQueue,
    header: Header,
    words: &[u64],
    failure: HandlerFailure,
) -> Result<bool> {
    debug_assert!(words.len() <= INLINE, "a message of one slot");
    let message = ArrivedMessage::short(handler_context.name, true, header, words);
    let resolved = ReplyTo::Local(queue).resolve(handler_context, &message, failure);
    if resolved.is_err() {
        handler_context.count_short_sent(words.len());
        handler_context.count_short(true, header);
    }
    resolved
}
