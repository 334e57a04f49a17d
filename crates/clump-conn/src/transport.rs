//! Messages of one connection over any route: fragments, credit, and the last ones.

use crate::inbound::CreditReport;
use crate::line::{ConnectionLine, Rest};
use crate::outbound::Sending;
use crate::words::ask;
use clump_am::{Result, SendAttempt};
use clump_os::clock;

/// Maximum number of bytes of one fragment, so that no connection delays others for long.
pub(crate) const MAX_FRAGMENT: usize = 32 << 10;

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
    let credit = line.state().inbound.poll_credit(clock::now_ns());
    if let Some(CreditReport { total, window }) = credit {
        let sent = transport.send(line, ask::CREDIT, &[total, window], &[]);
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
