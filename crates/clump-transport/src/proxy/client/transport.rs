//! The transport of a rank whose node has proxies.

use super::ProxyClient;
use crate::transport::{Accept, ReplyRoom, Snapshot, Transport, Urgency};
use clump_net::{Batch, FlowId, Progress};
use clump_os::forked;
use clump_shm::name::Name;
use clump_shm::node::NodeMemory;
use clump_shm::rank::RankBlock;
use clump_wire::frame::{FrameKind, stack_of};
use clump_wire::{Message, OwnedMessage, Reason, SendResult};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Time a closing rank waits for news before it checks again.
const CLOSE_PAUSE: Duration = Duration::from_millis(2);

/// Longest sleep while messages are stored, in case no proxy announces room.
const NAP_FOR_ROOM: Duration = Duration::from_millis(10);

impl Transport for ProxyClient {
    fn open_flow(&self, from: u64, to: u64, ordered: bool) -> FlowId {
        let mut inner = self.inner();
        debug_assert_eq!(Name::from_bits(from).rank(), inner.rank, "a rank opens its own flows");
        let peer = stack_of(to);
        inner.watch(peer);
        let credit = inner.credit;
        inner.flows.open((from, to), peer, ordered, credit)
    }

    #[inline]
    fn send(&self, flow: FlowId, message: &Message<'_>, progress: &mut Progress) -> SendResult {
        debug_assert!(!forked::is_child(), "invariant 2: endpoints refuse what a child sends");
        match message.kind {
            FrameKind::Long => self.request_long(flow, message, progress),
            _ => self.request_whole(flow, message),
        }
    }

    /// Stores a reply that finds no room, and refuses a limited one while any is stored.
    #[inline]
    fn reply(&self, reply: &Message<'_>, room: ReplyRoom) -> SendResult {
        let mut inner = self.inner();
        debug_assert!(reply.reply, "it goes the way of replies");
        if room == ReplyRoom::Limited
            && let Some(refusal) = inner.gone.get(&stack_of(reply.route.to))
        {
            return SendResult::Refused(*refusal);
        }
        if !inner.flush() && room == ReplyRoom::Limited {
            return SendResult::Full;
        }
        inner.answer(reply);
        SendResult::Sent
    }

    fn request_consumption_report(&self, flow: FlowId) -> bool {
        self.inner().ask(flow)
    }

    #[inline]
    fn poll(&self, _wanted: u8, _batch: &mut Batch) -> (usize, Option<usize>) {
        // Proxies put messages into lanes.
        self.inner().flush();
        (0, None)
    }

    fn accept(&self, queued: &OwnedMessage) -> Accept {
        let message = queued.message();
        self.inner().flows.on_arrival(
            &message.head(),
            message.first_words(),
            message.payload.len(),
        );
        // A report without a flow is of an endpoint that has closed.
        if queued.kind == FrameKind::Credit { Accept::Done } else { Accept::Handle }
    }

    /// Without effect: the proxy times messages.
    fn on_delivery(&self, _bytes: usize) {}

    /// Sends what is stored; requests go to a proxy at once, so that nothing gathers. Before a
    /// sleep, the proxy that had no room is to wake this rank once it has: call this after the
    /// announcement.
    fn flush(&self, urgency: Urgency) -> Option<Duration> {
        if urgency == Urgency::Gathered {
            return None;
        }
        let mut inner = self.inner();
        let done = inner.flush();
        debug_assert_eq!(done, inner.kept.is_empty(), "nothing is stored any more");
        if urgency == Urgency::Sleep {
            // Also where nothing is stored: a request of the rank may have found no room.
            inner.request_room();
        }
        (!done).then_some(NAP_FOR_ROOM)
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Without effect: proxies wait for packets.
    fn note_watched(&self) {}

    fn packets_heard(&self) -> u64 {
        0
    }

    fn has_queued(&self, _index: u8) -> bool {
        false
    }

    fn close_endpoint(&self, name: u64, unhandled: Vec<OwnedMessage>) {
        let mut inner = self.inner();
        inner.flush();
        debug_assert!(unhandled.iter().all(|one| one.route.to == name), "it was handed its own");
        for queued in unhandled {
            if let Some(back) = queued.returned(Reason::EndpointGone) {
                inner.answer(&back.message());
            }
        }
        inner.flows.forget(name);
        inner.flush();
    }

    /// Checks which ranks of other nodes have died or finalized.
    fn housekeeping(&self, _node: &NodeMemory, _block: &RankBlock) {
        self.inner().housekeeping();
    }

    fn close(&self, node: &NodeMemory, block: &RankBlock, over: &dyn Fn() -> bool) {
        debug_assert!(node.proxies() > 0, "a proxy answers");
        self.begin_close();
        let gone = || self.inner().flush() && block.close_handshakes() >= node.proxies();
        while !over() && !gone() {
            let announced = block.park().announce(node.fence());
            self.flush(Urgency::Sleep);
            // A waker that saw no sleeper before the announcement had published its news by then.
            if over() || gone() {
                block.park().withdraw(announced);
                return;
            }
            if let Some(alarm) = node.alarm(self.inner().rank) {
                block.park().sleep_on(announced, alarm, None, Some(CLOSE_PAUSE));
            } else {
                block.park().sleep(announced, Some(CLOSE_PAUSE));
            }
        }
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot { memory_bytes: self.inner().kept_bytes, job_tag: None }
    }

    /// Without effect: proxies keep the buffers.
    fn set_spare(&self, _bytes: usize) {}

    /// False: the thread may be inside a lane to the proxy, which shows nobody.
    fn is_free(&self) -> bool {
        false
    }
}
