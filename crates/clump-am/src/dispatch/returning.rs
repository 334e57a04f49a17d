//! Messages that no handler accepts: they are returned to their senders, whose handler 0 gets them.

use super::Handling;
use crate::core::{HandlerContext, OnReturned};
use crate::error::{ErrorKind, Result};
use crate::handler::HandlerFailure;
use crate::reply_queue::ReplyQueue;
use crate::returned::{Reason, Returned, pack_original, unpack_original};
use clump_shm::bulk::SharedBytes;
use clump_shm::inbox::InLane;
use clump_shm::name::Name;
use clump_shm::slot::{Header, MAX_WORDS, SlotKind};
use clump_trace::Counters;

/// Resolves the failure of a handler: an error, or true if the message was returned to its sender.
#[cold]
pub(crate) fn failed(
    header: Header,
    failure: HandlerFailure,
    give_back: impl FnOnce(Reason) -> Result<bool>,
) -> Result<bool> {
    match failure {
        HandlerFailure::Said(why) => {
            Err(ErrorKind::HandlerFailed { handler: header.handler(), why }.into())
        }
        HandlerFailure::Refused(reason) => give_back(reason),
    }
}

/// Ends a short message of one slot whose handler failed or does not exist. Returns false if it has
/// to be returned and there is no room, so that it stays.
#[cold]
pub(super) fn end_failed(
    lane: &mut InLane<ReplyQueue>,
    handler_context: &HandlerContext,
    header: Header,
    words: &[u64],
    failure: HandlerFailure,
) -> Result<bool> {
    let (from, link) = (lane.from, lane.link.as_mut());
    let back = |reason| return_request(from, reason, header, words, &[], link);
    let result = failed(header, failure, back);
    if !matches!(result, Ok(false)) {
        lane.receiver.advance_short();
        handler_context.count_short(lane.reply_lane.is_some(), header);
    }
    result
}

impl Handling<'_> {
    /// Takes a request of this endpoint that was returned.
    #[cold]
    pub(super) fn take_returned(
        &mut self,
        from: Name,
        header: Header,
        original: u64,
        words: &[u64],
        payload: SharedBytes,
    ) -> Result<bool> {
        let Some((reason, kind, handler)) = unpack_original(original) else {
            return Err(ErrorKind::Corrupt(from).into());
        };
        let mut bytes = Vec::new();
        payload.append_to(&mut bytes);
        let sent = Header::new(kind, handler, words.len(), header.payload());
        let me = self.handler_context.context.rank();
        let returned = Returned::of((me, from), (reason, false), sent, words, &bytes);
        hand_over(self.on_returned, self.handler_context.counters(), &returned).map(|()| true)
    }
}

/// Returns a request to its sender. Returns false if there is no room, so that the request has to
/// stay in its slot.
#[cold]
pub(crate) fn return_request(
    from: Name,
    reason: Reason,
    header: Header,
    all: &[u64],
    payload: &[u8],
    link: Option<&mut ReplyQueue>,
) -> Result<bool> {
    let Some(link) = link else {
        // A reply without a handler is this program's own mistake.
        return Err(ErrorKind::Unclaimed { dest: from, reason }.into());
    };
    debug_assert!(all.len() < MAX_WORDS, "no message carries so many words");
    let mut back = [0; MAX_WORDS];
    back[0] = pack_original(reason, header);
    back[1..=all.len()].copy_from_slice(all);
    let head = Header::new(SlotKind::Returned, 0, all.len() + 1, payload.len() as u32);
    // A requester that has closed accepts no returned messages.
    Ok(!link.path.is_open() || link.send_now(head, &back[..=all.len()], payload))
}

/// Gives a returned message to handler 0.
///
/// # Errors
/// There is no handler 0.
pub(crate) fn hand_over(
    on_returned: &mut Option<OnReturned>,
    counters: Counters<'_>,
    returned: &Returned,
) -> Result<()> {
    counters.bump(returned.reason.counter());
    match on_returned {
        Some(run) => {
            run(returned);
            Ok(())
        }
        None => {
            let (dest, reason) = (returned.dest, returned.reason);
            Err(ErrorKind::Unclaimed { dest, reason }.into())
        }
    }
}
