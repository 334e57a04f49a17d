//! The protocol thread of a node: asleep until a request of another node is left for it, as the
//! protocol process of paper 003 (section 2) is until an interrupt schedules it.

use crate::node_protocol::NodeProtocol;
use clump_hlrc::NodeMessage;
use clump_interface::NodeSegments;
use clump_os::{OsError, process, thread};
use clump_shm::node::NodeMemory;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Request of a node that waits for the thread.
type Waiting = (u16, NodeMessage<Vec<u8>>);

/// Requests on their way to the thread.
#[derive(Debug, Default)]
struct RequestQueue {
    waiting: VecDeque<Waiting>,
    /// True once the thread is to end.
    ended: bool,
}

/// The queue, and what the thread sleeps on.
type SharedQueue = (Mutex<RequestQueue>, Condvar);

/// A running protocol thread; ends when it is dropped.
#[derive(Debug)]
pub(crate) struct ProtocolThread {
    queue: Arc<SharedQueue>,
    thread: Option<JoinHandle<()>>,
}

/// Ends the process if the thread panics: the others would go on, and wait for what it does for
/// them, while reports say that all is well.
pub(crate) struct EndOnPanic;

impl Drop for EndOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            process::exit_at_once(1);
        }
    }
}

fn locked(queue: &SharedQueue) -> MutexGuard<'_, RequestQueue> {
    queue.0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a request; returns none at the end.
fn next(queue: &SharedQueue) -> Option<Waiting> {
    let mut requests = locked(queue);
    loop {
        if requests.ended {
            return None;
        }
        if let Some(request) = requests.waiting.pop_front() {
            return Some(request);
        }
        requests = queue.1.wait(requests).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Has the interface of a node send what the protocol has to send.
fn wake_interface(memory: &NodeMemory) {
    if let Some(interface) = memory.rank(memory.interface_id(memory.node())) {
        let alarm = memory.interface_alarm().map(|alarm| &**alarm);
        interface.call_interface(memory.local_ranks().start, alarm);
    }
}

impl ProtocolThread {
    /// Starts the thread of a node.
    ///
    /// # Errors
    /// Fails if the machine permits no more threads.
    pub(crate) fn start(
        memory: &NodeMemory,
        protocol: &Arc<Mutex<NodeProtocol>>,
    ) -> Result<Self, OsError> {
        let queue = Arc::new((Mutex::new(RequestQueue::default()), Condvar::new()));
        let (requests, memory, protocol) = (queue.clone(), memory.clone(), protocol.clone());
        let thread = thread::spawn("clump-svm", move || {
            let _whole = EndOnPanic;
            let mut regions = NodeSegments::new(memory.clone());
            while let Some((from, message)) = next(&requests) {
                let mut protocol = protocol.lock().unwrap_or_else(PoisonError::into_inner);
                protocol.execute_woken(from, message, &mut regions);
                drop(protocol);
                wake_interface(&memory);
            }
        })?;
        Ok(Self { queue, thread: Some(thread) })
    }

    /// Leaves a request for the thread, and wakes it.
    pub(crate) fn hand_over(&self, from: u16, message: NodeMessage<Vec<u8>>) {
        locked(&self.queue).waiting.push_back((from, message));
        self.queue.1.notify_one();
    }
}

impl Drop for ProtocolThread {
    fn drop(&mut self) {
        locked(&self.queue).ended = true;
        self.queue.1.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
