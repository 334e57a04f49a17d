//! The transport of a rank whose node has proxies.

use super::ProxyClient;
use crate::transport::{Accept, Transport};
use clump_net::{Batch, FlowId, Progress};
use clump_shm::node::NodeMemory;
use clump_shm::rank::RankBlock;
use clump_wire::frame::FrameKind;
use clump_wire::{Message, OwnedMessage, Reason, SendResult};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Time a closing rank waits for news before it checks again.
const CLOSE_PAUSE: Duration = Duration::from_millis(2);

impl Transport for ProxyClient {
    fn open_flow(&self, from: u64, to: u64, peer: u32, ordered: bool) -> FlowId {
        self.open_flow(from, to, peer, ordered)
    }

    /// False: the thread may be inside a lane to the proxy, which shows nobody.
    fn is_free(&self) -> bool {
        false
    }

    #[inline]
    fn request(&self, flow: FlowId, message: &Message<'_>, progress: &mut Progress) -> SendResult {
        self.request(flow, message, progress)
    }

    #[inline]
    fn reply(&self, peer: u32, reply: &Message<'_>) -> SendResult {
        self.reply(peer, reply)
    }

    fn reply_anyway(&self, _peer: u32, reply: &Message<'_>) {
        self.reply_anyway(reply);
    }

    fn report(&self, _peer: u32, from: u64, to: u64, total: u64) {
        self.reply_anyway(&Message::answer((FrameKind::Credit, 0), (from, to), (&[total], &[])));
    }

    fn request_consumption_report(&self, flow: FlowId) -> bool {
        self.inner().ask(flow)
    }

    #[inline]
    fn poll(&self, _wanted: u8, _batch: &mut Batch) -> (usize, Option<usize>) {
        // Proxies put messages into lanes.
        self.flush();
        (0, None)
    }

    fn accept(&self, queued: &OwnedMessage) -> Accept {
        self.accept(queued)
    }

    /// Without effect: the proxy times messages.
    fn on_delivery(&self, _bytes: usize) {}

    fn packets_heard(&self) -> u64 {
        0
    }

    /// Returns false: requests go to a proxy at once.
    fn flush(&self) -> bool {
        false
    }

    fn service(&self) {
        self.flush();
    }

    fn before_sleep(&self) -> Option<Duration> {
        self.request_room();
        None
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn has_queued(&self, _index: u8) -> bool {
        false
    }

    fn return_queued(&self, queued: Vec<OwnedMessage>) {
        for queued in queued {
            if let Some(back) = queued.returned(Reason::EndpointGone) {
                self.reply_anyway(&back.message());
            }
        }
    }

    fn close_endpoint(&self, _index: u8, name: u64) {
        self.inner().flows.forget(name);
    }

    fn housekeeping(&self, _node: &NodeMemory, _block: &RankBlock) {
        self.housekeeping();
    }

    fn close(&self, node: &NodeMemory, block: &RankBlock, over: &dyn Fn() -> bool) {
        self.begin_close();
        let gone = || self.flush() && block.close_handshakes() >= node.proxies();
        while !over() && !gone() {
            let announced = block.park().announce(node.fence());
            self.request_room();
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

    fn memory_bytes(&self) -> usize {
        self.inner().kept_bytes
    }

    /// Without effect: proxies keep the buffers.
    fn set_spare(&self, _bytes: usize) {}

    fn job_tag(&self) -> Option<u32> {
        None
    }
}
