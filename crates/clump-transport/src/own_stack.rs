//! The transport of a rank that drives a stack of its own.

use crate::error::{Error, Result};
use crate::peers::{NodeDirectory, gone_peers};
use crate::registry::Registry;
use crate::report::{
    count_stack, count_times, note_narrowed, note_receive_failure, note_unanswered,
};
use crate::resources::NetworkResources;
use crate::transport::{Accept, Transport};
use clump_net::{Backstop, Batch, FlowId, Progress};
use clump_os::fence::FenceKind;
use clump_os::{clock, socket};
use clump_shm::node::NodeMemory;
use clump_shm::rank::RankBlock;
use clump_trace::{Counters, Gauge, Gauges};
use clump_wire::{Message, OwnedMessage, SendResult};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// Time a closing rank waits for news before it announces its close again.
const CLOSE_PAUSE: Duration = Duration::from_millis(2);

/// A rank's own stack, which its polls drive, and a progress thread while it computes.
#[derive(Debug)]
pub(crate) struct OwnStack {
    backstop: Backstop,
}

impl OwnStack {
    /// Opens the stack of `rank`, and tells `registry` of arrivals.
    ///
    /// # Errors
    /// The rank has no address, or the socket or the key cannot be used.
    pub(crate) fn open(
        node: &NodeMemory,
        rank: u32,
        resources: NetworkResources,
        registry: &Arc<Registry>,
    ) -> Result<Self> {
        let mine = node.peer(rank).and_then(|mine| mine.place());
        let mine = mine.ok_or_else(|| Error::Unusable("this rank has no address".into()))?;
        let me = (rank, mine.epoch);
        debug_assert!(node.is_local(rank), "a rank drives its own stack");
        let peers = Arc::new(NodeDirectory::new(node, rank, 0, true));
        let stack = resources.into_stack(node, me, peers, Box::new(registry.endpoint_table()))?;
        let (home, fence): (NodeMemory, FenceKind) = (node.clone(), node.fence());
        let entries = registry.clone();
        let wake = Box::new(move |mailed: u32| {
            entries.notify(mailed);
            if let Some(block) = home.rank(rank) {
                block.park().wake_if_asleep(fence, home.alarm(rank).map(|alarm| &**alarm));
            }
        });
        let backstop = Backstop::new(stack, wake);
        if let Some(block) = node.rank(rank) {
            Gauges::over(block.gauges()).set(Gauge::Started, clock::now_ns());
        }
        Ok(Self { backstop })
    }
}

impl Transport for OwnStack {
    fn open_flow(&self, from: u64, to: u64, peer: u32, ordered: bool) -> FlowId {
        self.backstop.open_flow(from, to, peer, ordered)
    }

    fn is_free(&self) -> bool {
        self.backstop.is_free()
    }

    #[inline]
    fn request(&self, flow: FlowId, message: &Message<'_>, progress: &mut Progress) -> SendResult {
        self.backstop.request(flow, message, progress)
    }

    #[inline]
    fn reply(&self, peer: u32, reply: &Message<'_>) -> SendResult {
        self.backstop.reply(peer, reply)
    }

    fn reply_anyway(&self, peer: u32, reply: &Message<'_>) {
        self.backstop.stack().reply_anyway(clock::ticked_ns, peer, reply);
    }

    fn report(&self, peer: u32, from: u64, to: u64, total: u64) {
        self.backstop.stack().report(clock::ticked_ns, peer, from, to, total);
    }

    fn request_consumption_report(&self, flow: FlowId) -> bool {
        self.backstop.stack().request_consumption_report(clock::ticked_ns, flow)
    }

    #[inline]
    fn poll(&self, wanted: u8, batch: &mut Batch) -> (usize, Option<usize>) {
        self.backstop.poll(wanted, batch)
    }

    /// Never called: this transport puts nothing into lanes.
    fn accept(&self, _queued: &OwnedMessage) -> Accept {
        clump_bug::bug!("no lane brings messages of other nodes");
        Accept::Done
    }

    #[cold]
    fn on_delivery(&self, bytes: usize) {
        self.backstop.on_delivery(bytes);
    }

    fn packets_heard(&self) -> u64 {
        self.backstop.packets_heard()
    }

    #[inline]
    fn flush(&self) -> bool {
        self.backstop.flush()
    }

    fn service(&self) {
        self.backstop.stack().service(clock::ticked_ns(), true);
    }

    fn before_sleep(&self) -> Option<Duration> {
        self.backstop.before_sleep()
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        self.backstop.readiness()
    }

    fn has_queued(&self, index: u8) -> bool {
        self.backstop.stack().has_queued(index)
    }

    fn return_queued(&self, queued: Vec<OwnedMessage>) {
        self.backstop.stack().return_queued(clock::ticked_ns, queued);
    }

    fn close_endpoint(&self, index: u8, name: u64) {
        self.backstop.stack().close_endpoint(clock::ticked_ns, index, name);
    }

    fn housekeeping(&self, node: &NodeMemory, block: &RankBlock) {
        let mut stack = self.backstop.stack();
        for (peer, why) in gone_peers(&stack, node) {
            stack.lose(peer, why);
            debug_assert!(stack.is_lost(peer), "a peer that is gone is lost once");
        }
        count_stack(Counters::over(block.counters()), &stack);
        note_unanswered(block, &stack, (clock::ticked_ns(), clock::now_ns()));
        note_narrowed(block, &mut stack, clock::ticked_ns());
        note_receive_failure(block, &stack);
        let round_trips: Vec<_> = stack.round_trips().collect();
        drop(stack);
        count_times(Gauges::over(block.gauges()), self.backstop.times(), &round_trips);
    }

    fn close(&self, node: &NodeMemory, block: &RankBlock, over: &dyn Fn() -> bool) {
        let mut batch = Batch::default();
        loop {
            self.housekeeping(node, block);
            let mut stack = self.backstop.stack();
            while stack.receive(clock::ticked_ns, None, &mut batch) > 0 {}
            let now = stack.polled_at();
            stack.service(now, true);
            if stack.is_quiet() {
                stack.close(now);
            }
            stack.acknowledge_all(now);
            if stack.is_closed() || over() {
                return;
            }
            drop(stack);
            socket::wait_readable(self.backstop.readiness(), CLOSE_PAUSE);
        }
    }

    fn memory_bytes(&self) -> usize {
        self.backstop.stack().memory_bytes()
    }

    fn set_spare(&self, bytes: usize) {
        self.backstop.stack().set_spare(bytes);
    }

    fn job_tag(&self) -> Option<u32> {
        Some(self.backstop.stack().job_tag())
    }
}
