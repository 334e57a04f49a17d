//! Routes of connections: messages of this job, or a stack of its own towards another job.

use crate::error::{End, Peer};
use crate::far::FarLink;
use crate::hub::{Hub, MAX_FRAGMENT};
use crate::line::{ConnectionLine, Rest};
use crate::outbound::Sending;
use crate::words::ask;
use clump_am::{Dest, Handler, Name, Result, SendAttempt};
use clump_shm::rank::RankState;
use std::sync::Arc;

/// Route to a rank of this job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LocalRoute {
    /// The number of the connection here.
    pub(crate) number: u64,
    pub(crate) peer: Name,
    pub(crate) dest: Dest,
}

/// The route of a connection to its other side.
#[derive(Debug)]
pub(crate) enum ConnectionRoute {
    Near(LocalRoute),
    Far(Arc<FarLink>),
}

/// Sender of the messages of one connection to its other side.
pub(crate) trait ConnectionTransport {
    /// Sends one message if there is space now. Its words begin with the two numbers of the
    /// connection.
    fn send(
        &self,
        line: &ConnectionLine,
        handler: u8,
        rest: &[u64],
        payload: &[u8],
    ) -> Result<SendAttempt>;

    /// Returns the maximum number of bytes of one fragment.
    fn max_fragment(&self) -> usize {
        MAX_FRAGMENT
    }
}

/// A route, and the hub that it goes through.
pub(crate) type RouteThroughHub<'a> = (&'a Hub, &'a ConnectionRoute);

impl ConnectionTransport for RouteThroughHub<'_> {
    fn send(
        &self,
        line: &ConnectionLine,
        handler: u8,
        rest: &[u64],
        payload: &[u8],
    ) -> Result<SendAttempt> {
        match self {
            (hub, ConnectionRoute::Near(near)) => (*hub, near).send(line, handler, rest, payload),
            (_, ConnectionRoute::Far(link)) => link.send(line, handler, rest, payload),
        }
    }

    fn max_fragment(&self) -> usize {
        match self {
            (hub, ConnectionRoute::Near(near)) => (*hub, near).max_fragment(),
            (_, ConnectionRoute::Far(link)) => link.max_fragment(),
        }
    }
}

impl ConnectionTransport for (&Hub, &LocalRoute) {
    fn send(
        &self,
        line: &ConnectionLine,
        handler: u8,
        rest: &[u64],
        payload: &[u8],
    ) -> Result<SendAttempt> {
        let (endpoint, near) = (&self.0.endpoint, self.1);
        let theirs = line.state().theirs;
        with_numbers(theirs, near.number, rest, |words| {
            if payload.is_empty() {
                return endpoint.try_request(near.dest, Handler(handler), words);
            }
            endpoint.try_request_bulk(near.dest, Handler(handler), payload, words)
        })
    }

    fn max_fragment(&self) -> usize {
        self.0.endpoint.max_medium().min(MAX_FRAGMENT)
    }
}

/// Puts the two numbers of a connection before the words of a message.
pub(crate) fn with_numbers<T>(
    theirs: u64,
    mine: u64,
    rest: &[u64],
    send: impl FnOnce(&[u64]) -> T,
) -> T {
    let mut words = [theirs, mine, 0, 0, 0];
    for (to, from) in words.iter_mut().skip(2).zip(rest) {
        *to = *from;
    }
    send(words.get(..rest.len() + 2).unwrap_or_default())
}

impl ConnectionRoute {
    /// Returns the other side.
    pub(crate) fn peer(&self, hub: &Hub) -> Peer {
        match self {
            ConnectionRoute::Near(near) => hub.peer_of(near.peer),
            ConnectionRoute::Far(link) => Peer::Far(link.address()),
        }
    }

    /// Polls for packets of this connection, besides the endpoint of the hub.
    pub(crate) fn poll(&self) {
        if let ConnectionRoute::Far(link) = self {
            link.poll();
        }
    }

    /// Returns why the other side's rank is gone, if it is; its earlier messages may still arrive.
    pub(crate) fn gone(&self, hub: &Hub) -> Option<End> {
        let ConnectionRoute::Near(near) = self else { return None };
        match hub.context.node().rank(near.peer.rank())?.state() {
            RankState::Dead => Some(End::PeerDied),
            RankState::Finalized => Some(End::PeerLeft),
            RankState::Absent | RankState::Joined => None,
        }
    }

    /// Returns the rank of the other side, if it is in this job.
    pub(crate) fn rank(&self) -> Option<u32> {
        match self {
            ConnectionRoute::Near(near) => Some(near.peer.rank()),
            ConnectionRoute::Far(_) => None,
        }
    }
}

/// Sends as much of a message as there is space for, to a peer that still takes it; true when that
/// was all. `message` is the message without its first `skipped` bytes. The caller has the right to
/// send.
pub(crate) fn push(
    transport: &impl ConnectionTransport,
    line: &ConnectionLine,
    (skipped, message): (u64, &[u8]),
    sending: &mut Sending,
) -> Result<bool> {
    let most = transport.max_fragment();
    while !sending.is_done() {
        let state = line.state();
        let next = state.outbound.poll_fragment(sending, most);
        let Some((fragment, bytes)) = next.filter(|_| state.end.is_none()) else {
            return Ok(false);
        };
        drop(state);
        let at = fragment.offset.saturating_sub(skipped) as usize;
        let payload = message.get(at..at + bytes).unwrap_or_default();
        let words = [fragment.number, fragment.bytes, fragment.offset];
        if transport.send(line, ask::FRAGMENT, &words, payload)? == SendAttempt::Full {
            return Ok(false);
        }
        line.state().outbound.on_sent(sending, bytes);
    }
    Ok(true)
}

/// Sends what a line owes: credit, and the rest of a message. False when credit found no space.
pub(crate) fn send_due(
    transport: &impl ConnectionTransport,
    line: &ConnectionLine,
) -> Result<bool> {
    let credit = line.state().inbound.poll_credit();
    if let Some(total) = credit {
        let sent = transport.send(line, ask::CREDIT, &[total], &[]);
        if !matches!(sent, Ok(SendAttempt::Sent)) {
            line.state().inbound.on_credit_unsent();
            return sent.map(|_| false);
        }
    }
    if let Some(_sender) = line.try_sender() {
        push_rest(transport, line)?;
    }
    Ok(true)
}

/// Sends the rest of a message that was taken over; true when nothing is left. The caller has the
/// right to send.
pub(crate) fn push_rest(
    transport: &impl ConnectionTransport,
    line: &ConnectionLine,
) -> Result<bool> {
    let Some(mut rest) = line.state().rest.take() else { return Ok(true) };
    let Rest { skipped, bytes, sending } = &mut rest;
    let done = push(transport, line, (*skipped, bytes), sending);
    if !matches!(done, Ok(true)) {
        line.state().rest = Some(rest);
    }
    done
}

/// Announces that nothing more is sent (`FINISH`), or also that nothing more is received (`CLOSE`).
/// False when there is no space for it.
pub(crate) fn send_last(
    transport: &impl ConnectionTransport,
    line: &ConnectionLine,
    handler: u8,
) -> Result<bool> {
    let (total, broken) = {
        let mut state = line.state();
        (state.outbound.finish(), state.rest.is_some())
    };
    let words = [total, u64::from(broken)];
    let words = if handler == ask::CLOSE { &words[..] } else { &words[..1] };
    Ok(transport.send(line, handler, words, &[])? == SendAttempt::Sent)
}
