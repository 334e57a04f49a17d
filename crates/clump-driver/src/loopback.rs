//! Drivers inside one process: a hub, and the drivers attached to it. For tests and simulation.
//!
//! Deterministic: a sent datagram is in the receiver's queue when `send` returns, in order, and
//! nothing is lost except by a full queue or a missing destination.

use crate::driver::{Capabilities, Driver, Outgoing};
use crate::error::DriverError;
use crate::inbound::{Ecn, FilledBuffer, Inbound};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Reaction of a hub to a datagram for a queue that is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overflow {
    /// Refuses it (as a local wire does): the sender tries again.
    #[default]
    Refuse,
    /// Takes it and loses it (as a distant receiver does), counted.
    Lose,
}

/// Limits of a hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HubLimits {
    /// Largest datagram in bytes.
    pub max_datagram: usize,
    /// Datagrams that wait for one receiver.
    pub queue_datagrams: usize,
    /// Bytes that wait for one receiver.
    pub queue_bytes: usize,
    /// Reaction beyond them.
    pub overflow: Overflow,
}

impl Default for HubLimits {
    /// Returns the limits of UDP over the loopback interface, with 4 MiB of receive buffer.
    fn default() -> Self {
        Self {
            max_datagram: 65_507,
            queue_datagrams: 4096,
            queue_bytes: 4 << 20,
            overflow: Overflow::Refuse,
        }
    }
}

/// Counts of datagrams that were sent through a hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HubCounts {
    /// Put into a queue.
    pub delivered: u64,
    /// Lost to a full queue.
    pub overflowed: u64,
    /// Lost because no driver was attached under the address.
    pub unreachable: u64,
}

#[derive(Debug)]
struct Waiting {
    from: SocketAddr,
    bytes: Vec<u8>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Wires {
    queues: BTreeMap<SocketAddr, Queue>,
    /// Vectors of datagrams that were received, used again (as many as a queue holds, at most).
    spare: Vec<Vec<u8>>,
    counts: HubCounts,
}

/// Switch between the drivers of one process. Clones share one hub.
#[derive(Debug, Clone, Default)]
pub struct Hub {
    limits: HubLimits,
    wires: Arc<Mutex<Wires>>,
}

impl Hub {
    /// Creates a hub with these limits.
    pub fn new(limits: HubLimits) -> Self {
        let max_datagram = limits.max_datagram.min(Inbound::BUFFER_BYTES);
        Self { limits: HubLimits { max_datagram, ..limits }, wires: Arc::default() }
    }

    /// Attaches a driver that is reached under `address`, until it is dropped.
    ///
    /// # Errors
    /// Fails if a driver is attached under this address already.
    pub fn attach(&self, address: SocketAddr) -> Result<Loopback, DriverError> {
        let mut wires = lock(&self.wires);
        if wires.queues.contains_key(&address) {
            return Err(DriverError::AddressTaken(address));
        }
        wires.queues.insert(address, Queue::default());
        let capabilities = Capabilities {
            name: "loopback".to_owned(),
            max_datagram: self.limits.max_datagram,
            gso: false,
            gro: false,
            ecn: true,
            timestamps: false,
            answerable: true,
            receive_buffer: self.limits.queue_bytes,
            send_buffer: self.limits.queue_bytes,
        };
        let wires = Arc::clone(&self.wires);
        Ok(Loopback { address, limits: self.limits, wires, capabilities })
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> HubCounts {
        lock(&self.wires).counts
    }

    /// Returns the number of datagrams that wait to be received, all receivers together.
    pub fn waiting(&self) -> usize {
        lock(&self.wires).queues.values().map(|queue| queue.waiting.len()).sum()
    }
}

fn lock(wires: &Mutex<Wires>) -> MutexGuard<'_, Wires> {
    wires.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A driver attached to a [`Hub`].
#[derive(Debug)]
pub struct Loopback {
    address: SocketAddr,
    limits: HubLimits,
    wires: Arc<Mutex<Wires>>,
    capabilities: Capabilities,
}

impl Loopback {
    /// Puts a datagram into its queue. Returns true if it was taken.
    fn put(&self, wires: &mut Wires, datagram: &Outgoing<'_>) -> bool {
        let Wires { queues, spare, counts } = wires;
        let Some(queue) = queues.get_mut(&datagram.to) else {
            counts.unreachable += 1;
            return true;
        };
        // An empty queue takes any datagram, so that none waits for ever.
        let full = queue.waiting.len() >= self.limits.queue_datagrams
            || queue.bytes + datagram.bytes() > self.limits.queue_bytes;
        if full && !queue.waiting.is_empty() {
            let loses = self.limits.overflow == Overflow::Lose;
            counts.overflowed += u64::from(loses);
            return loses;
        }
        let mut bytes = spare.pop().unwrap_or_default();
        datagram.append_to(&mut bytes);
        queue.bytes += bytes.len();
        queue.waiting.push_back(Waiting { from: self.address, bytes });
        counts.delivered += 1;
        true
    }
}

impl Driver for Loopback {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn local(&self) -> SocketAddr {
        self.address
    }

    fn send(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, DriverError> {
        let mut wires = lock(&self.wires);
        for (index, datagram) in batch.iter().enumerate() {
            let bytes = datagram.bytes();
            if bytes > self.limits.max_datagram {
                return Err(DriverError::Oversized { index, bytes, to: datagram.to });
            }
            if !self.put(&mut wires, datagram) {
                return Ok(index);
            }
        }
        Ok(batch.len())
    }

    fn receive(&mut self, into: &mut Inbound) -> Result<usize, DriverError> {
        let mut wires = lock(&self.wires);
        let Wires { queues, spare, .. } = &mut *wires;
        let Some(queue) = queues.get_mut(&self.address) else { return Ok(0) };
        let mut received = 0;
        while let Some(buffer) = into.buffer()
            && let Some(Waiting { from, mut bytes }) = queue.waiting.pop_front()
        {
            queue.bytes -= bytes.len();
            // It fits: `Hub::new` keeps max_datagram below the size of a buffer.
            let length = bytes.len().min(buffer.len());
            buffer[..length].copy_from_slice(&bytes[..length]);
            let ecn = Ecn::Ect0;
            received += into.commit(&FilledBuffer {
                bytes: length,
                segment: None,
                from,
                ecn,
                arrived_ns: None,
                waited_ns: None,
            });
            if spare.len() < self.limits.queue_datagrams {
                bytes.clear();
                spare.push(bytes);
            }
        }
        Ok(received)
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn path_hint(&self, _to: SocketAddr) -> Option<usize> {
        Some(self.limits.max_datagram)
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        lock(&self.wires).queues.remove(&self.address);
    }
}
