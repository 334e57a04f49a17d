//! Connecting within a job: from a node and a port to a process, and its answer.

use super::{CONNECT_LIMIT, Connection};
use crate::deadline::after;
use crate::error::{ConnectTarget, Error, Refusal, Result};
use crate::hub::Hub;
use crate::line::{ConnectAnswer, ConnectionLine};
use crate::local_route::LocalRoute;
use crate::lock::lock;
use crate::port::{Order, Port};
use crate::route::ConnectionRoute;
use crate::wait::wait;
use crate::words::{ask, refusal};
use clump_am::{AsContext, Handler, Name, SendAttempt, Tag};
use clump_onesided::protocol::{self, interface_name};
use std::sync::Arc;
use std::time::Duration;

impl Connection {
    /// Connects to the process that listens at `port` of `node`. It need not have accepted when
    /// this returns; messages sent before wait for that.
    ///
    /// # Errors
    /// There is no such node, no rank listens there, its queue is full, or no answer comes within
    /// 10 s.
    pub fn connect(rank: &impl AsContext, node: u32, port: Port, order: Order) -> Result<Self> {
        Self::connect_within(rank, node, port, order, CONNECT_LIMIT)
    }

    /// Connects as [`Connection::connect`] does, within `limit`.
    ///
    /// # Errors
    /// As [`Connection::connect`].
    pub fn connect_within(
        rank: &impl AsContext,
        node: u32,
        port: Port,
        order: Order,
        limit: Duration,
    ) -> Result<Self> {
        let until = after(limit);
        let hub = Hub::within(rank, until)?;
        let (place, nodes) = (ConnectTarget::Node(node), hub.context.node().nnodes());
        if port.0 == 0 {
            return Err(Error::NoSuchPort);
        }
        if node >= nodes {
            return Err(Error::NoSuchNode { node, nodes });
        }
        let silent = Error::NoAnswer { place, port, limit };
        let refused = |why| Error::Refused { place, port, why };
        let found = if node == hub.context.node().node() {
            hub.context.node().port_holder(port.0)
        } else {
            let Some(bits) = ask_interface(&hub, node, port, until)? else { return Err(silent) };
            // Names from another process are checked: it must not name endpoints of other nodes.
            let name = Some(Name::from_bits(bits)).filter(|_| bits != 0);
            name.filter(|name| hub.context.node().node_of(name.rank()) == node)
        };
        let Some(name) = found else { return Err(refused(Refusal::NoListener)) };
        let connection = Self::towards(&hub, name, order)?;
        let answer = connection.ask(port, order, until);
        let why = match answer {
            Ok(Some(ConnectAnswer::Queued)) => return Ok(connection),
            Ok(Some(ConnectAnswer::Refused(refusal::QUEUE_FULL))) => refused(Refusal::QueueFull),
            Ok(Some(ConnectAnswer::Refused(_))) => refused(Refusal::NoListener),
            Ok(None) => silent,
            Err(error) => error,
        };
        // The other side does not know the connection; if an answer comes late, it is told then.
        connection.line.state().hung_up = true;
        if let ConnectionRoute::Near(near) = &connection.way {
            hub.book.forget(near.number);
            hub.release_route(near.peer);
        }
        Err(why)
    }

    /// Makes a connection that the other side does not know yet.
    fn towards(hub: &Arc<Hub>, peer: Name, order: Order) -> Result<Self> {
        let near = LocalRoute { number: hub.book.number(), peer, dest: hub.route_to(peer)? };
        let line = Arc::new(ConnectionLine::new(order, 0));
        hub.book.enter(near.number, line.clone(), peer);
        Ok(Self::over(hub.clone(), line, ConnectionRoute::Near(near)))
    }

    /// Asks the other side to queue the connection; `None` when no answer came in time.
    fn ask(&self, port: Port, order: Order, until: u64) -> Result<Option<ConnectAnswer>> {
        let ConnectionRoute::Near(near) = &self.way else { return Ok(None) };
        let mut asked = false;
        self.wait(Some(until), || {
            if !asked {
                let words = [u64::from(port.0), near.number, order.bit()];
                let sent =
                    self.hub.endpoint.try_request(near.dest, Handler(ask::CONNECT), &words)?;
                asked = sent == SendAttempt::Sent;
            }
            let state = self.line.state();
            Ok(state.answer.is_some() || state.end.is_some())
        })?;
        let state = self.line.state();
        let gone = state.end.map(|_| ConnectAnswer::Refused(refusal::NO_LISTENER));
        Ok(state.answer.or(gone))
    }
}

/// Asks the network interface of another node for the listener at `port`: the name of an endpoint,
/// or 0. `None` when no answer came in time.
fn ask_interface(hub: &Hub, node: u32, port: Port, until: u64) -> Result<Option<u64>> {
    let name = interface_name(hub.context.node(), node);
    let dest = hub.route_under(name, Tag(protocol::TAG))?;
    let cookie = hub.book.number();
    lock(&hub.book.found).insert(cookie, None);
    let mut asked = false;
    let waited = wait(hub, &[], Some(until), || {
        if !asked {
            let words = [cookie, u64::from(port.0)];
            let sent = hub.endpoint.try_request(dest, Handler(protocol::ask::PORT), &words)?;
            asked = sent == SendAttempt::Sent;
        }
        Ok(lock(&hub.book.found).get(&cookie).is_some_and(Option::is_some))
    });
    hub.release_route(name);
    let found = lock(&hub.book.found).remove(&cookie).flatten();
    waited.map(|_| found)
}
