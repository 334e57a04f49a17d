//! The service of network interfaces that runs the protocol of each node.

use crate::asked_reads::{self, ASK_CODE, TOLD_CODE};
use crate::fragments::{PartialMessages, cut};
use crate::node_protocol::{NodePlace, NodeProtocol};
use crate::protocol_thread::ProtocolThread;
use clump_interface::{
    Service, ServiceContext, ServiceId, ServiceMessage, ServiceOutcome, ServiceRequest, Services,
    Ticket, Wakeup,
};
use clump_onesided::Refusal;
use clump_onesided::protocol::{FREE_CODE, MAX_PIECE};
use clump_shm::node::NodeMemory;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Request of a rank: `segment page cookie`, answered by the bytes of a page, its version, and the
/// time that it depends on.
pub(crate) const PAGE_CODE: u8 = FREE_CODE + 1;

/// Bytes of messages of other nodes, kept until all of their parts are here, above which parts are
/// refused.
const MAX_KEPT: usize = 1 << 30;

/// The protocol of a node, as a service of its interface.
#[derive(Debug)]
struct HeapService {
    memory: NodeMemory,
    /// Shared with the thread.
    protocol: Arc<Mutex<NodeProtocol>>,
    /// Executes what the interface does not, on the lower steps of the ladder.
    thread: Option<ProtocolThread>,
    partial: PartialMessages,
    ready: VecDeque<ServiceMessage>,
    sent: u64,
}

/// Returns the services of the network interfaces of a node: those of one-sided operations, and
/// that of shared virtual memory.
pub fn services(memory: &NodeMemory) -> Services {
    let mut services = Services::default();
    let added = services.add(heap_service(memory));
    debug_assert!(added.is_ok(), "its request number is free");
    services
}

/// Returns the service of shared virtual memory of a node alone.
pub fn heap_service(memory: &NodeMemory) -> Box<dyn Service> {
    let ranks = memory.local_ranks().len();
    let place = NodePlace {
        node: memory.node() as u16,
        nodes: memory.nnodes() as u16,
        ranks: ranks as u16,
        all_ranks: memory.ranks() as u32,
    };
    let service = HeapService {
        memory: memory.clone(),
        protocol: Arc::new(Mutex::new(NodeProtocol::new(place, memory.clone()))),
        thread: None,
        partial: PartialMessages::default(),
        ready: VecDeque::new(),
        sent: 0,
    };
    Box::new(service)
}

impl HeapService {
    fn protocol(&self) -> MutexGuard<'_, NodeProtocol> {
        self.protocol.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the protocol thread, once there are settings that need it.
    fn start_thread(&mut self, context: &mut ServiceContext<'_>) {
        if self.thread.is_none() && self.protocol().wakes() {
            match ProtocolThread::start(&self.memory, &self.protocol) {
                Ok(thread) => self.thread = Some(thread),
                Err(_) => self.protocol().refuse_threads(context),
            }
        }
    }
}

impl Service for HeapService {
    fn id(&self) -> ServiceId {
        ServiceId { name: "svm", version: 4, first: FREE_CODE, count: 4 }
    }

    fn handle(
        &mut self,
        request: &ServiceRequest<'_>,
        context: &mut ServiceContext<'_>,
    ) -> ServiceOutcome {
        if request.code == PAGE_CODE {
            let read = self.protocol().read_home_page(request.offset, context);
            let Some((page, version, time)) = read else {
                return ServiceOutcome::Refused(Refusal::Unknown);
            };
            let answer = context.bytes();
            answer.extend_from_slice(&page);
            answer.extend_from_slice(&version.to_bytes());
            answer.extend_from_slice(&time.to_bytes());
            return ServiceOutcome::Bytes;
        }
        // Ranks of other nodes may send anything; interfaces send parts of messages.
        let node = self.memory.node_of_interface(request.from.rank());
        let words = <[u64; 4]>::try_from(request.words);
        let (Some(node), Ok(words)) = (node, words) else {
            return ServiceOutcome::Refused(Refusal::Unknown);
        };
        match request.code {
            ASK_CODE => {
                let place = (node, self.memory.node());
                let told = asked_reads::answer(place, words, context);
                let none = || ServiceMessage { node, code: TOLD_CODE, words, payload: Vec::new() };
                self.ready.push_back(told.unwrap_or_else(none));
                return ServiceOutcome::Done;
            }
            TOLD_CODE => {
                let payload = Some(request.payload).filter(|bytes| !bytes.is_empty());
                self.protocol().end_ask(words[0] as u32, payload, context);
                return ServiceOutcome::Done;
            }
            _ => {}
        }
        match self.partial.take(node as u16, words, request.payload) {
            Ok(Some(message)) => {
                let left = self.protocol().handle_message(node as u16, &message, context);
                if let (Some(request), Some(thread)) = (left, &self.thread) {
                    thread.hand_over(node as u16, request);
                }
            }
            Ok(None) => {}
            Err(()) => return ServiceOutcome::Refused(Refusal::Unknown),
        }
        ServiceOutcome::Done
    }

    fn resume(&mut self, _: Ticket, _: Wakeup<'_>, _: &mut ServiceContext<'_>) -> ServiceOutcome {
        clump_bug::bug!("no request ends later");
        ServiceOutcome::Refused(Refusal::Unknown)
    }

    fn forget(&mut self, _: Ticket) {}

    fn handle_calls(&mut self, calls: u64, context: &mut ServiceContext<'_>) {
        let first = self.memory.local_ranks().start;
        self.protocol().handle_calls(calls, first, context);
        let asks: Vec<_> = std::iter::from_fn(|| self.protocol().poll_ask()).collect();
        for (rank, words) in asks {
            match asked_reads::request(u32::from(rank), words) {
                Some(message) => self.ready.push_back(message),
                None => self.protocol().end_ask(u32::from(rank), None, context),
            }
        }
        self.start_thread(context);
    }

    fn poll_message(&mut self) -> Option<ServiceMessage> {
        if self.ready.is_empty() {
            let (to, message) = self.protocol().poll_outgoing()?;
            self.sent += 1;
            let (node, ready) = (u32::from(to), &mut self.ready);
            cut(self.sent, message, |words, payload| {
                debug_assert!(payload.len() <= MAX_PIECE, "a part is one request");
                ready.push_back(ServiceMessage { node, code: FREE_CODE, words, payload });
            });
        }
        self.ready.pop_front()
    }

    fn memory_bytes(&self) -> usize {
        self.partial.bytes()
    }

    fn memory_bound(&self) -> usize {
        MAX_KEPT
    }
}
