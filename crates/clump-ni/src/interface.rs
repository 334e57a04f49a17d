//! A running network interface.

use crate::server::Server;
use clump_am::{NetworkSeat, Result};
use clump_os::alarm::Alarm;
use clump_os::sync::{AtomicBool, Ordering};
use clump_shm::node::NodeMemory;
use std::sync::Arc;
use std::thread::JoinHandle;

/// A running network interface; ends when dropped.
#[derive(Debug)]
pub struct Interface {
    ending: Arc<AtomicBool>,
    alarm: Arc<Alarm>,
    thread: Option<JoinHandle<()>>,
}

impl Interface {
    /// Starts interface number `which` of the node of `memory`, whose place and alarm stand there. It spins for
    /// so long before it sleeps: 0 unless a core is left for it.
    ///
    /// # Errors
    /// The seat cannot be used, or there is no thread to be had.
    pub fn start(memory: &NodeMemory, which: u32, seat: NetworkSeat, spin_ns: u64) -> Result<Self> {
        let refused = |why: &str| clump_am::ErrorKind::Network(why.into());
        let id = memory.interface_id(memory.node()) + which;
        let alarm = memory
            .alarm(id)
            .cloned()
            .ok_or_else(|| refused("this node's interface has no alarm"))?;
        let server = Server::new(memory, which, seat, spin_ns)?;
        let ending = Arc::new(AtomicBool::new(false));
        let (over, bell) = (ending.clone(), alarm.clone());
        let thread = std::thread::Builder::new().name(format!("clump-ni-{which}"));
        let thread = thread
            .spawn(move || server.serve(&bell, &over))
            .map_err(|e| refused(&format!("no thread for it: {e}")))?;
        Ok(Self { ending, alarm, thread: Some(thread) })
    }
}

impl Drop for Interface {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Release);
        self.alarm.ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
