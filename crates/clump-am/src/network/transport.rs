//! Transports of a rank's messages to other nodes: a stack of its own, or the proxies of its node.

use super::Network;
use super::proxy_client::ProxyClient;
use clump_net::{Backstop, Batch, FlowId, Progress, Pushed, QueuedMessage, Refusal, Request};
use clump_os::{clock, forked};
use clump_wire::frame::FrameKind;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// The transport of a rank's messages to other nodes.
#[derive(Debug)]
pub(crate) enum Transport {
    /// A stack of its own.
    Own(Backstop),
    /// The proxies of its node.
    Proxies(Box<ProxyClient>),
}

/// Action for a message that a proxy brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accept {
    /// The endpoint handles it.
    Handle,
    /// It concerned flow control only.
    Done,
}

impl Network {
    pub(crate) fn open_flow(&self, from: u64, to: u64, peer: u32, ordered: bool) -> FlowId {
        match &self.transport {
            Transport::Own(interface) => interface.open_flow(from, to, peer, ordered),
            Transport::Proxies(client) => client.open_flow(from, to, peer, ordered),
        }
    }

    /// Sends a short or medium request.
    #[inline]
    pub(crate) fn request(&self, request: &Request<'_>, payload: &[u8]) -> Pushed {
        match &self.transport {
            Transport::Own(interface) => interface.request(request, payload),
            Transport::Proxies(client) => client.request(request, payload),
        }
    }

    /// Sends a long request, or as much of it as there is room for.
    pub(crate) fn request_long(
        &self,
        request: &Request<'_>,
        payload: &[u8],
        progress: &mut Progress,
    ) -> Pushed {
        match &self.transport {
            Transport::Own(interface) => interface.request_long(request, payload, progress),
            Transport::Proxies(client) => client.request_long(request, payload, progress),
        }
    }

    /// Sends a reply.
    #[inline]
    pub(crate) fn reply(
        &self,
        peer: u32,
        head: (FrameKind, u8),
        names: (u64, u64),
        body: (&[u64], &[u8]),
    ) -> Pushed {
        if forked::is_child() {
            // A child forked in a handler replies to nobody.
            return Pushed::Lost(Refusal::EndpointGone);
        }
        match &self.transport {
            Transport::Own(interface) => interface.reply(peer, head, names, body),
            Transport::Proxies(client) => client.reply(peer, head, names, body),
        }
    }

    /// Sends a reply without regard to limits. For messages whose number is bounded by the requests
    /// of peers.
    pub(crate) fn reply_anyway(
        &self,
        peer: u32,
        head: (FrameKind, u8),
        names: (u64, u64),
        body: (&[u64], &[u8]),
    ) {
        if forked::is_child() {
            return;
        }
        match &self.transport {
            Transport::Own(interface) => {
                interface.stack().reply_anyway(clock::ticked_ns, peer, head, names, body);
            }
            Transport::Proxies(client) => client.reply_anyway(head, names, body),
        }
    }

    /// Tells the endpoint `to` how many bytes of its requests `from` has consumed in all.
    pub(crate) fn report(&self, peer: u32, from: u64, to: u64, total: u64) {
        if forked::is_child() {
            return;
        }
        match &self.transport {
            Transport::Own(interface) => {
                interface.stack().report(clock::ticked_ns, peer, from, to, total);
            }
            Transport::Proxies(client) => {
                client.reply_anyway((FrameKind::Credit, 0), (from, to), (&[total], &[]));
            }
        }
    }

    /// Returns true if something sent on a flow is not known to be consumed; its peer has then been
    /// asked to report.
    pub(crate) fn request_consumption_report(&self, flow: FlowId) -> bool {
        match &self.transport {
            Transport::Own(interface) => {
                interface.stack().request_consumption_report(clock::ticked_ns, flow)
            }
            Transport::Proxies(client) => client.request_consumption_report(flow),
        }
    }

    /// Polls once for messages of endpoint `wanted`; returns the number of packets, and which
    /// message is to be timed.
    #[inline]
    pub(crate) fn poll(&self, wanted: u8, batch: &mut Batch) -> (usize, Option<usize>) {
        match &self.transport {
            Transport::Own(interface) => interface.poll(wanted, batch),
            Transport::Proxies(client) => {
                client.flush();
                (0, None)
            }
        }
    }

    /// Notes that the message to be timed, of so many bytes, is about to be handled.
    #[cold]
    pub(crate) fn on_delivery(&self, bytes: usize) {
        if let Transport::Own(interface) = &self.transport {
            interface.on_delivery(bytes);
        }
    }

    /// Returns the number of packets of peers that polls have found: it grows while fragments
    /// arrive, even before a message is complete.
    pub(crate) fn packets_heard(&self) -> u64 {
        match &self.transport {
            Transport::Own(interface) => interface.packets_heard(),
            Transport::Proxies(_) => 0,
        }
    }

    /// Sends what messages since the last poll have left to be sent; returns true if there was
    /// anything.
    #[inline]
    pub(crate) fn flush(&self) -> bool {
        match &self.transport {
            Transport::Own(interface) => interface.flush(),
            Transport::Proxies(_) => false,
        }
    }

    /// Sends and acknowledges everything that is due.
    pub(crate) fn service(&self) {
        match &self.transport {
            Transport::Own(interface) => interface.stack().service(clock::ticked_ns(), true),
            Transport::Proxies(client) => drop(client.flush()),
        }
    }

    /// Sends what is due before a sleep; returns the time until the next poll is needed.
    pub(crate) fn before_sleep(&self) -> Option<Duration> {
        match &self.transport {
            Transport::Own(interface) => interface.before_sleep(),
            Transport::Proxies(client) => {
                client.request_room();
                None
            }
        }
    }

    /// Returns a descriptor that becomes readable when packets arrive.
    pub(crate) fn readiness(&self) -> Option<BorrowedFd<'_>> {
        match &self.transport {
            Transport::Own(interface) => interface.readiness(),
            Transport::Proxies(_) => None,
        }
    }

    /// Returns true if messages wait for an endpoint.
    pub(crate) fn has_queued(&self, index: u8) -> bool {
        match &self.transport {
            Transport::Own(interface) => interface.stack().has_queued(index),
            Transport::Proxies(_) => false,
        }
    }

    /// Returns to their senders messages that were handed over and not handled.
    pub(crate) fn return_queued(&self, queued: impl IntoIterator<Item = QueuedMessage>) {
        match &self.transport {
            Transport::Own(interface) => interface.stack().return_queued(clock::ticked_ns, queued),
            Transport::Proxies(client) => {
                for queued in queued {
                    let Some(words) = queued.on_its_way_back(Refusal::EndpointGone) else {
                        continue;
                    };
                    let names = (queued.route.to, queued.route.from);
                    client.reply_anyway((FrameKind::Returned, 0), names, (&words, &queued.payload));
                }
            }
        }
    }

    /// Closes an endpoint: messages that wait for it are returned to their senders.
    pub(crate) fn close_endpoint(&self, index: u8, name: u64) {
        match &self.transport {
            Transport::Own(interface) => {
                interface.stack().close_endpoint(clock::ticked_ns, index, name);
            }
            Transport::Proxies(client) => client.forget(name),
        }
    }

    /// Updates the account of flows with a message that a proxy brought.
    pub(crate) fn accept(&self, queued: &QueuedMessage) -> Accept {
        match &self.transport {
            Transport::Own(_) => Accept::Done,
            Transport::Proxies(client) => client.accept(queued),
        }
    }
}
