//! A connection as programs use it.

mod connect;

use crate::error::{End, Error, Peer, Result};
use crate::hub::{Hub, Notice};
use crate::line::{ConnectionLine, MAX_MESSAGE, Rest};
use crate::outbound::Sending;
use crate::route::{ConnectionRoute, RouteThroughHub, push, push_rest, send_due, send_last};
use crate::wait::{after, wait};
use crate::words::ask;
use clump_am::SendAttempt;
use clump_os::clock;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

/// How long connecting waits for an answer, if nobody says otherwise.
pub(crate) const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// How long a connection that is dropped waits until what was sent has left.
const LINGER: Duration = Duration::from_secs(2);

/// What a receive found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// The next message.
    Message(Vec<u8>),
    /// None is there yet.
    Nothing,
    /// The other side has sent all that it will, and everything was received.
    End,
}

/// One side of a connection: messages of up to 1 GiB, each received exactly once by the other side, in the
/// order that was asked for (paper 002, sections 2.2 and 2.3).
///
/// Any thread may use it; messages that several send at once follow each other. Calls that block handle what
/// arrives for this rank meanwhile. Dropping it closes it; what was sent before is received.
pub struct Connection {
    hub: Arc<Hub>,
    line: Arc<ConnectionLine>,
    way: ConnectionRoute,
}

impl Connection {
    pub(crate) fn over(hub: Arc<Hub>, line: Arc<ConnectionLine>, way: ConnectionRoute) -> Self {
        Self { hub, line, way }
    }

    /// The other side.
    pub fn peer(&self) -> Peer {
        self.way.peer(&self.hub)
    }

    /// Sends a message; blocks while the other side has too much that its program has not received.
    ///
    /// # Errors
    /// The connection has ended, this side has finished, or the message is too long. When waiting fails for
    /// another reason (another endpoint's handler), a message that has begun goes on by itself.
    pub fn send(&self, message: &[u8]) -> Result<()> {
        self.send_until(message, None).map(drop)
    }

    /// Sends a message if there is room now, at least for its beginning: the rest is copied then, and sent
    /// by later calls for any connection of this rank. Never blocks.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub fn try_send(&self, message: &[u8]) -> Result<SendAttempt> {
        self.hub.endpoint.poll()?;
        self.send_until(message, Some(0))
    }

    /// The same, once there is room within `limit`.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub fn send_within(&self, message: &[u8], limit: Duration) -> Result<SendAttempt> {
        self.send_until(message, Some(after(limit)))
    }

    fn send_until(&self, message: &[u8], until: Option<u64>) -> Result<SendAttempt> {
        if message.len() > MAX_MESSAGE {
            return Err(Error::TooLong { given: message.len(), most: MAX_MESSAGE });
        }
        let Some(sender) = self.sender(until)? else { return Ok(SendAttempt::Full) };
        let mut sending: Option<Sending> = None;
        let Self { hub, line, way } = self;
        let sent = self.wait(until, || {
            let through: RouteThroughHub<'_> = (hub, way);
            if line.has_ended() || !push_rest(&through, line)? {
                return Ok(line.has_ended());
            }
            let sending = sending.get_or_insert_with(|| line.state().outbound.begin(message.len()));
            Ok(push(&through, line, (0, message), sending)? || line.has_ended())
        });
        let begun = sending.filter(|sending| sending.is_begun() && !sending.is_done());
        if let Some(sending) = begun {
            line.state().rest = Some(Rest::of(message, sending));
        }
        drop(sender);
        if !sent? && begun.is_none() {
            return Ok(SendAttempt::Full);
        }
        if sending.is_none_or(|sending| !sending.is_done()) {
            self.check_open()?;
        }
        Ok(SendAttempt::Sent)
    }

    /// The right to send, once no other thread has it; `None` when the time is over.
    fn sender(&self, until: Option<u64>) -> Result<Option<MutexGuard<'_, ()>>> {
        let mut sender = self.line.try_sender();
        if sender.is_none() {
            self.wait(until, || {
                sender = sender.take().or_else(|| self.line.try_sender());
                Ok(sender.is_some())
            })?;
        }
        if sender.is_some() {
            if self.line.state().outbound.is_finished() {
                return Err(Error::Finished(self.peer()));
            }
            self.check_open()?;
        }
        Ok(sender)
    }

    fn check_open(&self) -> Result<()> {
        match self.line.state().end {
            Some(why) => Err(Error::Ended { peer: self.peer(), why }),
            None => Ok(()),
        }
    }

    fn wait(
        &self,
        until: Option<u64>,
        ready: impl FnMut() -> clump_am::Result<bool>,
    ) -> Result<bool> {
        wait(&self.hub, &[(&self.way, &self.line)], until, ready)
    }

    /// The next message; `None` once the other side has finished or closed, and everything was received.
    ///
    /// # Errors
    /// The other side is gone without having finished, and everything that arrived was received.
    pub fn recv(&self) -> Result<Option<Vec<u8>>> {
        match self.recv_until(None)? {
            Received::Message(message) => Ok(Some(message)),
            Received::Nothing | Received::End => Ok(None),
        }
    }

    /// What is there now. Never blocks.
    ///
    /// # Errors
    /// As [`Connection::recv`].
    pub fn try_recv(&self) -> Result<Received> {
        if let Some(received) = self.take()? {
            return Ok(received);
        }
        self.hub.step()?;
        self.way.poll();
        self.line.handle_time(clock::now_ns());
        if !self.line.state().is_ready()
            && let Some(end) = self.way.gone(&self.hub)
        {
            // What it sent before is there now, if it is anywhere.
            while self.hub.endpoint.poll_network()? > 0 {}
            self.line.end(end);
        }
        Ok(self.take()?.unwrap_or(Received::Nothing))
    }

    /// The next message, if it comes within `limit`.
    ///
    /// # Errors
    /// As [`Connection::recv`].
    pub fn recv_within(&self, limit: Duration) -> Result<Received> {
        self.recv_until(Some(after(limit)))
    }

    fn recv_until(&self, until: Option<u64>) -> Result<Received> {
        loop {
            if let Some(received) = self.take()? {
                return Ok(received);
            }
            // Another thread may be quicker.
            if !self.wait(until, || Ok(self.line.state().is_ready()))? {
                return Ok(Received::Nothing);
            }
        }
    }

    /// Takes what is ready; `None` when that is nothing.
    fn take(&self) -> Result<Option<Received>> {
        let mut state = self.line.state();
        if let Some(message) = state.inbound.poll_message() {
            let due = state.inbound.wants_credit() && state.end.is_none();
            drop(state);
            // What goes wrong with that is no reason to lose the message: a later call meets it again.
            let through: RouteThroughHub<'_> = (&self.hub, &self.way);
            if due && !matches!(send_due(&through, &self.line), Ok(true)) {
                self.mark_due();
            }
            return Ok(Some(Received::Message(message)));
        }
        if state.inbound.is_over() {
            return Ok(Some(Received::End));
        }
        match state.end.filter(|_| state.is_cut()) {
            Some(why) => Err(Error::Ended { peer: self.peer(), why }),
            None => Ok(None),
        }
    }

    fn mark_due(&self) {
        match &self.way {
            ConnectionRoute::Near(near) => self.hub.book.mark_due(near.number),
            ConnectionRoute::Far(link) => link.mark_due(),
        }
    }

    /// Whether a receive would give something at once: a message, the end, or an error.
    pub fn is_ready(&self) -> bool {
        self.line.state().is_ready()
    }

    pub(crate) fn watched(&self) -> (&Hub, &ConnectionRoute, &ConnectionLine) {
        (&self.hub, &self.way, &self.line)
    }

    /// Says that this side sends no more: the other receives what was sent, and then the end. Blocks until
    /// what was sent has left. Receiving goes on.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn finish(&self) -> Result<()> {
        let Some(_sender) = self.sender(None)? else { return Ok(()) };
        if self.tell_last(ask::FINISH, None)? { Ok(()) } else { self.check_open() }
    }

    /// Sends the rest of what was taken over, and the last word; whether that was said.
    fn tell_last(&self, handler: u8, until: Option<u64>) -> Result<bool> {
        let Self { hub, line, way } = self;
        let through: RouteThroughHub<'_> = (hub, way);
        let flushed = self.wait(until, || Ok(line.has_ended() || push_rest(&through, line)?));
        if handler == ask::FINISH && flushed.is_err() {
            // The message that has begun goes on, and is counted only when it is whole.
            return flushed;
        }
        let limit = if flushed.is_ok() { until } else { Some(0) };
        let mut told = false;
        self.wait(limit, || {
            told = told || !line.has_ended() && send_last(&through, line, handler)?;
            Ok(told || line.has_ended())
        })?;
        flushed.map(|_| told)
    }

    /// Closes the connection: the other side receives what was sent, and then the end; what it sent and this
    /// side has not received is lost. Blocks until what was sent has left, as sending does; dropping does the same
    /// for 2 s at most, and then breaks off.
    ///
    /// # Errors
    /// What was sent has not left, because the other side is gone.
    pub fn close(self) -> Result<()> {
        let broken = self.hang_up(None);
        match self.line.state().end.filter(|&why| why != End::Closed) {
            Some(why) => Err(Error::Ended { peer: self.peer(), why }),
            None => broken,
        }
    }

    fn hang_up(&self, linger: Option<Duration>) -> Result<()> {
        if self.line.state().hung_up {
            return Ok(());
        }
        self.line.state().hung_up = true;
        let until = linger.map(after);
        let mut sender = None;
        let had = self.wait(until, || {
            // Another thread may be sending what was left to it.
            sender = sender.take().or_else(|| self.line.try_sender());
            Ok(sender.is_some())
        });
        let told = had.and_then(|_| self.tell_last(ask::CLOSE, until));
        drop(sender);
        if !matches!(told, Ok(true))
            && let ConnectionRoute::Near(near) = &self.way
            && !self.line.has_ended()
        {
            // There was no room for it: the hub says it when there is.
            let mut state = self.line.state();
            let (messages, broken) = (state.outbound.finish(), state.rest.is_some());
            let notice = Notice::hang_up(near.peer, state.theirs, near.number);
            self.hub.book.note(notice.after(messages, broken));
        }
        let broken = self.line.state().rest.is_some();
        match &self.way {
            ConnectionRoute::Near(near) => {
                self.hub.book.forget(near.number);
                self.hub.release_route(near.peer);
            }
            ConnectionRoute::Far(link) => link.begin_close(),
        }
        match told {
            Ok(_) if broken => {
                let why = self.line.state().end.unwrap_or(End::Broken);
                Err(Error::Ended { peer: self.peer(), why })
            }
            told => told.map(drop),
        }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "connection to {}", self.peer())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The connection is the rank's, not its child's by `fork`.
        if clump_os::forked::is_child() {
            return;
        }
        let linger = if std::thread::panicking() { Duration::ZERO } else { LINGER };
        // Nobody is left to be told.
        let _ = self.hang_up(Some(linger));
    }
}
