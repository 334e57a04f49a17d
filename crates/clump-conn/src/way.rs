//! What carries a connection: messages of this job, or a stack of its own towards another.

use crate::error::{End, Peer};
use crate::far::Link;
use crate::hub::{Hub, MOST_PIECE};
use crate::line::Line;
use crate::outbound::Sending;
use crate::words::{Piece, ask};
use clump_am::{Attempt, Dest, Handler, Name, Result};
use clump_shm::rank::RankState;
use std::sync::Arc;

/// Towards a rank of this job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Near {
    /// The number of the connection here.
    pub(crate) number: u64,
    pub(crate) peer: Name,
    pub(crate) dest: Dest,
}

/// See the module.
#[derive(Debug)]
pub(crate) enum Way {
    Near(Near),
    Far(Arc<Link>),
}

impl Way {
    /// The other side.
    pub(crate) fn peer(&self, hub: &Hub) -> Peer {
        match self {
            Way::Near(near) => hub.peer_of(near.peer),
            Way::Far(link) => Peer::Far(link.address()),
        }
    }

    /// Sends one message if there is room now. Its words begin with the two numbers of the connection.
    fn send(
        &self,
        hub: &Hub,
        line: &Line,
        handler: u8,
        rest: &[u64],
        payload: &[u8],
    ) -> Result<Attempt> {
        let theirs = line.state().theirs;
        let mine = if let Way::Near(near) = self { near.number } else { 0 };
        let mut words = [theirs, mine, 0, 0, 0];
        for (to, from) in words.iter_mut().skip(2).zip(rest) {
            *to = *from;
        }
        let words = words.get(..rest.len() + 2).unwrap_or_default();
        match self {
            Way::Near(near) if payload.is_empty() => {
                Ok(hub.endpoint.try_request(near.dest, Handler(handler), words)?)
            }
            Way::Near(near) => {
                Ok(hub.endpoint.try_request_bulk(near.dest, Handler(handler), payload, words)?)
            }
            Way::Far(link) => Ok(link.send(handler, words, payload)),
        }
    }

    /// Looks for what has arrived for this connection, besides the endpoint of the hub.
    pub(crate) fn look(&self) {
        if let Way::Far(link) = self {
            link.look();
        }
    }

    /// Whether the other side's rank is gone; what it sent before may still arrive.
    pub(crate) fn gone(&self, hub: &Hub) -> Option<End> {
        let Way::Near(near) = self else { return None };
        match hub.context.node().rank(near.peer.rank())?.state() {
            RankState::Dead => Some(End::PeerDied),
            RankState::Finalized => Some(End::PeerLeft),
            RankState::Absent | RankState::Joined => None,
        }
    }

    /// The rank that has to act.
    pub(crate) fn rank(&self) -> Option<u32> {
        match self {
            Way::Near(near) => Some(near.peer.rank()),
            Way::Far(_) => None,
        }
    }
}

/// Most bytes of one piece.
fn most_piece(hub: &Hub) -> usize {
    hub.endpoint.max_medium().min(MOST_PIECE)
}

/// Sends as much of `message` as there is room for, to a peer that still takes it; true when that was all. The
/// caller has the right to send.
pub(crate) fn push(
    hub: &Hub,
    way: &Way,
    line: &Line,
    message: &[u8],
    sending: &mut Sending,
) -> Result<bool> {
    let most = most_piece(hub);
    let send = |piece: Piece, payload: &[u8]| {
        let words = [piece.number, piece.bytes, piece.offset];
        way.send(hub, line, ask::PIECE, &words, payload)
    };
    push_pieces(line, most, message, sending, send)
}

/// The same by whatever `send` is.
pub(crate) fn push_pieces(
    line: &Line,
    most: usize,
    message: &[u8],
    sending: &mut Sending,
    send: impl Fn(Piece, &[u8]) -> Result<Attempt>,
) -> Result<bool> {
    while !sending.is_done() {
        let state = line.state();
        let next = state.outbound.poll_piece(sending, most);
        let Some((piece, bytes)) = next.filter(|_| state.end.is_none()) else { return Ok(false) };
        drop(state);
        let at = piece.offset as usize;
        let payload = message.get(at..at + bytes).unwrap_or_default();
        if send(piece, payload)? == Attempt::Full {
            return Ok(false);
        }
        line.state().outbound.on_sent(sending, bytes);
    }
    Ok(true)
}

/// Sends what a line owes: credit, and the rest of a message. False when credit found no room.
pub(crate) fn tell_due(hub: &Hub, way: &Way, line: &Line) -> Result<bool> {
    let credit = line.state().inbound.poll_credit();
    if let Some(total) = credit
        && way.send(hub, line, ask::CREDIT, &[total], &[])? == Attempt::Full
    {
        line.state().inbound.on_credit_unsent();
        return Ok(false);
    }
    if let Some(_sender) = line.try_sender() {
        push_rest(hub, way, line)?;
    }
    Ok(true)
}

/// Sends what is left of a message that was taken over; true when nothing is. The caller has the right to
/// send.
pub(crate) fn push_rest(hub: &Hub, way: &Way, line: &Line) -> Result<bool> {
    let Some((message, mut sending)) = line.state().rest.take() else { return Ok(true) };
    let done = push(hub, way, line, &message, &mut sending);
    if !matches!(done, Ok(true)) {
        line.state().rest = Some((message, sending));
    }
    done
}

/// Says that nothing more is sent; or (`CLOSE`) also that nothing more is taken. False when there is no room
/// for it.
pub(crate) fn tell_last(hub: &Hub, way: &Way, line: &Line, handler: u8) -> Result<bool> {
    let (total, broken) = {
        let mut state = line.state();
        (state.outbound.finish(), state.rest.is_some())
    };
    let words = [total, u64::from(broken)];
    let words = if handler == ask::CLOSE { &words[..] } else { &words[..1] };
    Ok(way.send(hub, line, handler, words, &[])? == Attempt::Sent)
}
