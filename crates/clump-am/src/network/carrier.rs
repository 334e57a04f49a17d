//! What carries a rank's messages to other nodes: a stack of its own, or the proxies of its node.

use super::Network;
use super::portal::Portal;
use clump_net::{Batch, FlowId, Interface, Mail, Progress, Push, Refusal, Request};
use clump_os::{clock, forked};
use clump_wire::frame::Kind;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// See the module.
#[derive(Debug)]
pub(crate) enum Carrier {
    /// A stack of its own.
    Own(Interface),
    /// The proxies of its node.
    Proxies(Box<Portal>),
}

/// What is to become of something that came by a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accept {
    /// The endpoint handles it.
    Handle,
    /// It was about room only.
    Done,
}

impl Network {
    pub(crate) fn open_flow(&self, from: u64, to: u64, peer: u32, ordered: bool) -> FlowId {
        match &self.carrier {
            Carrier::Own(interface) => interface.open_flow(from, to, peer, ordered),
            Carrier::Proxies(portal) => portal.open_flow(from, to, peer, ordered),
        }
    }

    /// Sends a short or medium request.
    #[inline]
    pub(crate) fn request(&self, request: &Request<'_>, payload: &[u8]) -> Push {
        match &self.carrier {
            Carrier::Own(interface) => interface.request(request, payload),
            Carrier::Proxies(portal) => portal.request(request, payload),
        }
    }

    /// Sends a long request, or as much of it as there is room for.
    pub(crate) fn request_long(
        &self,
        request: &Request<'_>,
        payload: &[u8],
        progress: &mut Progress,
    ) -> Push {
        match &self.carrier {
            Carrier::Own(interface) => interface.request_long(request, payload, progress),
            Carrier::Proxies(portal) => portal.request_long(request, payload, progress),
        }
    }

    /// Answers a request.
    #[inline]
    pub(crate) fn reply(
        &self,
        peer: u32,
        head: (Kind, u8),
        names: (u64, u64),
        body: (&[u64], &[u8]),
    ) -> Push {
        if forked::is_child() {
            // A child that was made in a handler answers nobody.
            return Push::Lost(Refusal::EndpointGone);
        }
        match &self.carrier {
            Carrier::Own(interface) => interface.reply(peer, head, names, body),
            Carrier::Proxies(portal) => portal.reply(peer, head, names, body),
        }
    }

    /// The same, come what may: for what is bounded by what peers have asked.
    pub(crate) fn reply_anyway(
        &self,
        peer: u32,
        head: (Kind, u8),
        names: (u64, u64),
        body: (&[u64], &[u8]),
    ) {
        if forked::is_child() {
            return;
        }
        match &self.carrier {
            Carrier::Own(interface) => {
                interface.stack().reply_anyway(clock::ticked_ns, peer, head, names, body);
            }
            Carrier::Proxies(portal) => portal.reply_anyway(head, names, body),
        }
    }

    /// Tells the endpoint `to` how many bytes of its requests `from` has consumed, ever.
    pub(crate) fn report(&self, peer: u32, from: u64, to: u64, total: u64) {
        if forked::is_child() {
            return;
        }
        match &self.carrier {
            Carrier::Own(interface) => {
                interface.stack().report(clock::ticked_ns, peer, from, to, total);
            }
            Carrier::Proxies(portal) => {
                portal.reply_anyway((Kind::Credit, 0), (from, to), (&[total], &[]));
            }
        }
    }

    /// Whether something on a flow is not known to be consumed; then its peer has been asked to report.
    pub(crate) fn ask(&self, flow: FlowId) -> bool {
        match &self.carrier {
            Carrier::Own(interface) => interface.stack().ask(clock::ticked_ns, flow),
            Carrier::Proxies(portal) => portal.ask(flow),
        }
    }

    /// Looks once for messages of endpoint `wanted`: the number of packets, and which message is to be timed.
    #[inline]
    pub(crate) fn look(&self, wanted: u8, batch: &mut Batch) -> (usize, Option<usize>) {
        match &self.carrier {
            Carrier::Own(interface) => interface.look(wanted, batch),
            Carrier::Proxies(portal) => {
                portal.flush();
                (0, None)
            }
        }
    }

    /// The message that is to be timed, of so many bytes, is about to be handled.
    #[cold]
    pub(crate) fn on_delivery(&self, bytes: usize) {
        if let Carrier::Own(interface) = &self.carrier {
            interface.on_delivery(bytes);
        }
    }

    /// Packets of peers that looks have found: grows while something comes, be it no message yet.
    pub(crate) fn heard(&self) -> u64 {
        match &self.carrier {
            Carrier::Own(interface) => interface.heard(),
            Carrier::Proxies(_) => 0,
        }
    }

    /// Sends what messages since the last look have left to be sent; says whether there was anything.
    #[inline]
    pub(crate) fn settle(&self) -> bool {
        match &self.carrier {
            Carrier::Own(interface) => interface.settle(),
            Carrier::Proxies(_) => false,
        }
    }

    /// Sends and acknowledges everything that is due.
    pub(crate) fn service(&self) {
        match &self.carrier {
            Carrier::Own(interface) => interface.stack().service(clock::ticked_ns(), true),
            Carrier::Proxies(portal) => drop(portal.flush()),
        }
    }

    /// Before a sleep: sends what is due; says when to look again.
    pub(crate) fn before_sleep(&self) -> Option<Duration> {
        match &self.carrier {
            Carrier::Own(interface) => interface.before_sleep(),
            Carrier::Proxies(portal) => {
                portal.request_room();
                None
            }
        }
    }

    /// What becomes readable when packets arrive.
    pub(crate) fn readiness(&self) -> Option<BorrowedFd<'_>> {
        match &self.carrier {
            Carrier::Own(interface) => interface.readiness(),
            Carrier::Proxies(_) => None,
        }
    }

    /// Whether messages wait for an endpoint.
    pub(crate) fn has_mail(&self, index: u8) -> bool {
        match &self.carrier {
            Carrier::Own(interface) => interface.stack().has_mail(index),
            Carrier::Proxies(_) => false,
        }
    }

    /// Sends messages that were handed over and not handled back to where they came from.
    pub(crate) fn return_mail(&self, mail: impl IntoIterator<Item = Mail>) {
        match &self.carrier {
            Carrier::Own(interface) => interface.stack().return_mail(clock::ticked_ns, mail),
            Carrier::Proxies(portal) => {
                for mail in mail {
                    let Some(words) = mail.on_its_way_back(Refusal::EndpointGone) else { continue };
                    let names = (mail.route.to, mail.route.from);
                    portal.reply_anyway((Kind::Returned, 0), names, (&words, &mail.payload));
                }
            }
        }
    }

    /// An endpoint is closed: what waits for it goes back to where it came from.
    pub(crate) fn close_endpoint(&self, index: u8, name: u64) {
        match &self.carrier {
            Carrier::Own(interface) => {
                interface.stack().close_endpoint(clock::ticked_ns, index, name);
            }
            Carrier::Proxies(portal) => portal.forget(name),
        }
    }

    /// Takes the account of what came by a proxy.
    pub(crate) fn accept(&self, mail: &Mail) -> Accept {
        match &self.carrier {
            Carrier::Own(_) => Accept::Done,
            Carrier::Proxies(portal) => portal.accept(mail),
        }
    }
}
