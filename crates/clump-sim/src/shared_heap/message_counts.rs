//! Counts of the protocol's messages, by a service around that of the heap.

use clump_hlrc::{MessageLimits, NodeMessage};
use clump_interface::{
    Service, ServiceContext, ServiceId, ServiceMessage, ServiceOutcome, ServiceRequest, Ticket,
    Wakeup,
};
use std::sync::{Arc, Mutex, PoisonError};

/// Messages that nodes have sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct HeapMessageCounts {
    pub all: u64,
    pub pages: u64,
    pub diffs: u64,
    pub notices: u64,
    pub lock_grants: u64,
    pub lock_recalls: u64,
    pub barrier_ends: u64,
    pub flags_reached: u64,
}

impl HeapMessageCounts {
    fn note(&mut self, message: &NodeMessage<Vec<u8>>) {
        self.all += 1;
        match message {
            NodeMessage::Page { .. } => self.pages += 1,
            NodeMessage::Diffs(..) => self.diffs += 1,
            NodeMessage::Notices(_) => self.notices += 1,
            NodeMessage::GrantLock { .. } => self.lock_grants += 1,
            NodeMessage::RecallLock { .. } => self.lock_recalls += 1,
            NodeMessage::Depart { .. } => self.barrier_ends += 1,
            NodeMessage::FlagReached { .. } => self.flags_reached += 1,
            _ => {}
        }
    }
}

/// Counts of a job, shared by its nodes.
pub(crate) type SharedCounts = Arc<Mutex<HeapMessageCounts>>;

/// The service of the heap, whose messages are counted.
pub(crate) struct CountedService {
    pub(crate) inner: Box<dyn Service>,
    pub(crate) limits: MessageLimits,
    pub(crate) counts: SharedCounts,
}

impl Service for CountedService {
    fn id(&self) -> ServiceId {
        self.inner.id()
    }

    fn handle(
        &mut self,
        request: &ServiceRequest<'_>,
        context: &mut ServiceContext<'_>,
    ) -> ServiceOutcome {
        self.inner.handle(request, context)
    }

    fn resume(
        &mut self,
        ticket: Ticket,
        why: Wakeup<'_>,
        context: &mut ServiceContext<'_>,
    ) -> ServiceOutcome {
        self.inner.resume(ticket, why, context)
    }

    fn forget(&mut self, ticket: Ticket) {
        self.inner.forget(ticket);
    }

    fn rank_gone(&mut self, rank: u32) {
        self.inner.rank_gone(rank);
    }

    fn handle_calls(&mut self, calls: u64, context: &mut ServiceContext<'_>) {
        self.inner.handle_calls(calls, context);
    }

    fn poll_message(&mut self) -> Option<ServiceMessage> {
        let message = self.inner.poll_message()?;
        // Messages of small heaps are one part each.
        if let Ok(decoded) = NodeMessage::decode(&self.limits, &message.payload) {
            self.counts.lock().unwrap_or_else(PoisonError::into_inner).note(&decoded);
        }
        Some(message)
    }

    fn memory_bytes(&self) -> usize {
        self.inner.memory_bytes()
    }

    fn memory_bound(&self) -> usize {
        self.inner.memory_bound()
    }
}
