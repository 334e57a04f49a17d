//! The clock of a simulated network interface: it advances only when it is set, or when work that
//! costs time is done.

use crate::kernel::Time;
use clump_interface::{Clock, Work};
use clump_os::sync::{AtomicU64, Ordering};
use std::sync::Arc;

/// Costs of an interface's work, in ns: parameters of a simulation, taken from measurements.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields, rename_all(deserialize = "kebab-case"))]
pub struct Costs {
    /// A turn: polling lanes and the driver.
    pub look: f64,
    /// Taking a message out of a rank's lane and packing it.
    pub take: f64,
    /// Putting a message into an endpoint's lane.
    pub bring: f64,
    /// Executing a one-sided operation.
    pub execute: f64,
    /// Each byte of a payload that is copied.
    pub byte: f64,
    /// Sending a datagram: sealing and the system call.
    pub send: f64,
    /// Receiving a datagram: the system call and opening.
    pub receive: f64,
    /// Each byte of a datagram, either way.
    pub datagram_byte: f64,
}

impl Costs {
    /// Returns the costs of docs/benchmarks/message-cost.md: short messages and 1 KiB with AEAD
    /// over loopback, system calls as on a quiet machine; lanes by their instruction counts.
    pub fn measured() -> Self {
        Self {
            // A `recvfrom` that finds nothing, and some loads.
            look: 300.0,
            // A lane read, then a frame built (11 ns) and a header made (29 ns).
            take: 130.0,
            bring: 100.0,
            execute: 100.0,
            byte: 0.1,
            // `sendto` (3.3 us) and a seal (176 ns).
            send: 3480.0,
            // `recvfrom` (0.8 us), opened and parsed (186 ns), taken in (27 ns).
            receive: 1010.0,
            datagram_byte: 0.3,
        }
    }

    /// Returns all costs with their names, for tables and settings.
    pub fn named(&mut self) -> [(&'static str, &mut f64); 8] {
        [
            ("look", &mut self.look),
            ("take", &mut self.take),
            ("bring", &mut self.bring),
            ("execute", &mut self.execute),
            ("byte", &mut self.byte),
            ("send", &mut self.send),
            ("receive", &mut self.receive),
            ("datagram-byte", &mut self.datagram_byte),
        ]
    }
}

/// The clock of a socket, with the costs that advance it. Clones share one clock.
#[derive(Debug, Clone)]
pub(crate) struct SocketClock {
    now: Arc<AtomicU64>,
    costs: Costs,
}

impl SocketClock {
    pub(crate) fn new(costs: Costs) -> Self {
        Self { now: Arc::new(AtomicU64::new(0)), costs }
    }

    pub(crate) fn set(&self, now: Time) {
        self.now.store(now, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Time {
        self.now.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, ns: f64) {
        self.set(self.get() + ns as Time);
    }

    /// Adds the cost of a datagram sent.
    pub(crate) fn on_sent(&self, bytes: usize) {
        self.add(self.costs.send + self.costs.datagram_byte * bytes as f64);
    }

    /// Adds the cost of a datagram received.
    pub(crate) fn on_received(&self, bytes: usize) {
        self.add(self.costs.receive + self.costs.datagram_byte * bytes as f64);
    }
}

impl Clock for SocketClock {
    fn ticked_ns(&self) -> u64 {
        self.get()
    }

    fn now_ns(&self) -> u64 {
        self.get()
    }

    fn spend(&self, work: Work) {
        let Costs { look, take, bring, execute, byte, .. } = self.costs;
        self.add(match work {
            Work::Look => look,
            Work::Take(bytes) => take + byte * bytes as f64,
            Work::Bring(bytes) => bring + byte * bytes as f64,
            Work::Execute(bytes) => execute + byte * bytes as f64,
        });
    }
}
