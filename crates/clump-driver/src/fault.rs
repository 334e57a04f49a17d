//! A wrapper that injects faults: loses, duplicates, holds back, corrupts, delays and slows
//! datagrams, and cuts addresses off. Its effects follow from its seed, the clock, and the order of
//! calls alone.
//!
//! Datagrams are disturbed as they are sent, except for loss and marks on arrival. Those in flight
//! advance inside `send` and `receive`; nothing here waits, so a caller that sleeps must wake at
//! [`FaultSwitch::next_due_ns`].

mod delay_queue;
mod plan;
mod sampler;

pub use plan::{FaultCounts, FaultPlan};

use crate::clock::Clock;
use crate::driver::{Capabilities, Driver, Outgoing, PROBE_KEY_BYTES, PathCounts};
use crate::error::DriverError;
use crate::inbound::{Ecn, Inbound};
use crate::peer_paths::PeerPaths;
use delay_queue::{DelayQueue, DelayedDatagram};
use plan::Cuts;
use sampler::FaultSampler;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum number of datagrams handed to the inner driver at once.
const BATCH: usize = 64;

/// Maximum number of destinations whose largest datagram is remembered.
const PATHS: usize = 1024;

/// Maximum number of repetitions of one receive whose datagrams were all cut off.
const CUT_ROUNDS: usize = 16;

#[derive(Debug, Default)]
struct Settings {
    plan: FaultPlan,
    cuts: Cuts,
    counts: FaultCounts,
    next_due_ns: Option<u64>,
}

/// Control of a [`Fault`] that is in use elsewhere: changes its plan, and reads its counts. Clones
/// share one switch.
#[derive(Debug, Clone, Default)]
pub struct FaultSwitch {
    settings: Arc<Mutex<Settings>>,
}

impl FaultSwitch {
    /// Sets the plan from now on. Datagrams in flight stay due as they were.
    pub fn set_plan(&self, plan: FaultPlan) {
        self.lock().plan = plan;
    }

    /// Loses everything to and from `address`.
    pub fn cut(&self, address: SocketAddr) {
        self.lock().cuts.some.insert(address);
    }

    /// Loses everything.
    pub fn cut_all(&self) {
        self.lock().cuts.all = true;
    }

    /// Ends [`FaultSwitch::cut`] of `address`.
    pub fn mend(&self, address: SocketAddr) {
        self.lock().cuts.some.remove(&address);
    }

    /// Ends all cuts.
    pub fn mend_all(&self) {
        self.lock().cuts = Cuts::default();
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> FaultCounts {
        self.lock().counts
    }

    /// Returns the time at which the next datagram in flight is due, as of the last call of the
    /// driver.
    pub fn next_due_ns(&self) -> Option<u64> {
        self.lock().next_due_ns
    }

    fn lock(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A driver that injects faults into the traffic of an inner driver.
#[derive(Debug)]
pub struct Fault<D> {
    inner: D,
    capabilities: Capabilities,
    clock: Clock,
    switch: FaultSwitch,
    sampler: FaultSampler,
    waiting: DelayQueue,
    /// Time at which a rate-limited link has sent everything given to it.
    idle_at_ns: u64,
    /// Largest datagrams towards destinations: a datagram that is taken here must not be refused
    /// later.
    paths: BTreeMap<SocketAddr, usize>,
}

impl<D: Driver> Fault<D> {
    /// Wraps `inner` with the faults of `plan`; `seed` decides where they occur.
    pub fn new(inner: D, seed: u64, plan: FaultPlan, clock: Clock) -> Self {
        let mut capabilities = inner.capabilities().clone();
        capabilities.name = format!("fault({})", capabilities.name);
        let switch = FaultSwitch::default();
        switch.set_plan(plan);
        let (sampler, waiting) = (FaultSampler::new(seed), DelayQueue::default());
        let paths = BTreeMap::new();
        Self { inner, capabilities, clock, switch, sampler, waiting, idle_at_ns: 0, paths }
    }

    /// Returns a switch that changes this driver's plan while it is in use.
    pub fn switch(&self) -> FaultSwitch {
        self.switch.clone()
    }

    /// Returns the inner driver.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Returns true if the inner driver will carry a datagram of this many bytes.
    fn carries(&mut self, to: SocketAddr, bytes: usize) -> bool {
        let most = self.capabilities.max_datagram;
        if bytes > most {
            return false;
        }
        if self.paths.len() >= PATHS {
            self.paths.clear();
        }
        let inner = &self.inner;
        bytes <= *self.paths.entry(to).or_insert_with(|| inner.path_hint(to).unwrap_or(most))
    }

    /// Hands datagrams that are due to the inner driver.
    fn pump(&mut self, now_ns: u64, settings: &mut Settings) -> Result<(), DriverError> {
        self.waiting.release(now_ns);
        loop {
            let due: Vec<Outgoing<'_>> =
                self.waiting.due(now_ns).take(BATCH).map(outgoing).collect();
            if due.is_empty() {
                break;
            }
            let (passed, refused) = match self.inner.send(&due) {
                Ok(0) => break,
                Ok(taken) => (taken, 0),
                // To the sender it counts as taken since long; the path may have changed since.
                Err(e) => {
                    self.paths.clear();
                    (e.index().ok_or(e)?, 1)
                }
            };
            settings.counts.passed += passed as u64;
            settings.counts.refused += refused as u64;
            self.waiting.remove_first(passed + refused);
        }
        settings.next_due_ns = self.waiting.next_due_ns();
        Ok(())
    }

    /// Sends unaffected datagrams at once, zero-copy where `kept`; all others are copied.
    fn send_either(&mut self, batch: &[Outgoing<'_>], kept: bool) -> Result<usize, DriverError> {
        let switch = self.switch.clone();
        let mut settings = switch.lock();
        if settings.plan.spares_sent() && settings.cuts.is_empty() && self.waiting.is_empty() {
            let result =
                if kept { self.inner.send_zero_copy(batch) } else { self.inner.send(batch) };
            let taken = match &result {
                Ok(taken) => *taken,
                Err(e) => e.index().unwrap_or(0),
            };
            settings.counts.taken += taken as u64;
            settings.counts.passed += taken as u64;
            return result;
        }
        let now_ns = self.clock.now_ns();
        let mut taken = 0;
        for datagram in batch {
            let bytes = datagram.bytes();
            if !self.carries(datagram.to, bytes) {
                self.pump(now_ns, &mut settings)?;
                return Err(DriverError::Oversized { index: taken, bytes, to: datagram.to });
            }
            if !self.admit(datagram, now_ns, &mut settings) {
                break;
            }
            self.waiting.release(now_ns);
            taken += 1;
        }
        self.pump(now_ns, &mut settings)?;
        Ok(taken)
    }

    /// Decides the fate of one datagram. Returns `false` if it is not taken.
    fn admit(&mut self, datagram: &Outgoing<'_>, now_ns: u64, settings: &mut Settings) -> bool {
        let Settings { plan, cuts, counts, .. } = settings;
        let fits =
            self.waiting.bytes() + datagram.bytes() <= plan.queue_bytes || self.waiting.is_empty();
        if !fits && plan.rate_bytes_per_s.is_none() {
            return false;
        }
        counts.taken += 1;
        if cuts.covers(&datagram.to) {
            counts.cut += 1;
            return true;
        }
        let doubled = self.sampler.comes(plan.duplication);
        counts.duplicated += u64::from(doubled);
        for _ in 0..=usize::from(doubled) {
            if self.sampler.comes(plan.loss) {
                counts.lost += 1;
            } else if self.waiting.bytes() + datagram.bytes() > plan.queue_bytes
                && !self.waiting.is_empty()
            {
                counts.overflowed += 1;
            } else {
                self.take_along(datagram, now_ns, plan, counts);
            }
        }
        true
    }

    /// Queues one copy of a datagram.
    fn take_along(
        &mut self,
        datagram: &Outgoing<'_>,
        now_ns: u64,
        plan: &FaultPlan,
        counts: &mut FaultCounts,
    ) {
        let mut bytes = self.waiting.vector();
        datagram.append_to(&mut bytes);
        if self.sampler.comes(plan.corruption) && !bytes.is_empty() {
            counts.corrupted += 1;
            for _ in 0..=self.sampler.upto(3) {
                let bit = self.sampler.upto(bytes.len() as u64 * 8 - 1) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
        let mut due_ns = now_ns;
        if let Some(rate) = plan.rate_bytes_per_s {
            let span = bytes.len() as u128 * 1_000_000_000 / u128::from(rate.max(1));
            self.idle_at_ns = self.idle_at_ns.max(now_ns).saturating_add(span as u64);
            due_ns = self.idle_at_ns;
        }
        due_ns = due_ns.saturating_add(plan.delay_ns);
        if plan.jitter_ns > 0 {
            due_ns = due_ns.saturating_add(self.sampler.upto(plan.jitter_ns));
        }
        let held = DelayedDatagram { to: datagram.to, bytes };
        if self.sampler.comes(plan.reordering) {
            counts.reordered += 1;
            let span = 1 + self.sampler.upto(u64::from(plan.reorder_span.max(1)) - 1);
            let latest = due_ns.saturating_add(plan.reorder_hold_ns);
            self.waiting.hold_back(span, latest, held);
        } else {
            self.waiting.push(due_ns, held);
        }
    }

    /// Removes datagrams that are cut off, loses and marks others by chance, from `first` on.
    fn disturb_received(&mut self, into: &mut Inbound, first: usize, settings: &mut Settings) {
        let Settings { plan, cuts, counts, .. } = settings;
        if cuts.is_empty() && plan.spares_received() {
            return;
        }
        into.filter(first, |datagram| {
            if cuts.covers(&datagram.from) {
                counts.cut += 1;
                return false;
            }
            if plan.loss_on_arrival > 0.0 && self.sampler.comes(plan.loss_on_arrival) {
                counts.lost += 1;
                return false;
            }
            if self.sampler.comes(plan.congestion) {
                counts.marked += 1;
                datagram.ecn = Ecn::Ce;
            }
            true
        });
    }
}

fn outgoing(held: &DelayedDatagram) -> Outgoing<'_> {
    Outgoing { to: held.to, head: &held.bytes, body: &[], tail: &[] }
}

impl<D: Driver> Driver for Fault<D> {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn local(&self) -> SocketAddr {
        self.inner.local()
    }

    fn send(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, DriverError> {
        self.send_either(batch, false)
    }

    fn send_zero_copy(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, DriverError> {
        self.send_either(batch, true)
    }

    fn receive(&mut self, into: &mut Inbound) -> Result<usize, DriverError> {
        let switch = self.switch.clone();
        let mut settings = switch.lock();
        if !self.waiting.is_empty() {
            self.pump(self.clock.now_ns(), &mut settings)?;
        }
        let first = into.len();
        for _ in 0..CUT_ROUNDS {
            if self.inner.receive(into)? == 0 {
                return Ok(0);
            }
            self.disturb_received(into, first, &mut settings);
            if into.len() > first {
                break;
            }
            if first == 0 {
                into.clear();
            }
        }
        Ok(into.len() - first)
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        self.inner.readiness()
    }

    fn path_hint(&self, to: SocketAddr) -> Option<usize> {
        self.inner.path_hint(to)
    }

    fn due_in(&self) -> Option<Duration> {
        let due_ns = self.waiting.next_due_ns()?;
        Some(Duration::from_nanos(due_ns.saturating_sub(self.clock.now_ns())))
    }

    fn set_probe_key(&mut self, key: &[u8; PROBE_KEY_BYTES]) {
        self.inner.set_probe_key(key);
    }

    fn add_peer(&mut self, peer: PeerPaths) {
        self.inner.add_peer(peer);
    }

    fn on_authenticated(&mut self, peer: SocketAddr, path: u8) {
        self.inner.on_authenticated(peer, path);
    }

    fn unreachable(&self) -> u64 {
        self.inner.unreachable()
    }

    fn overflowed(&self) -> u64 {
        self.inner.overflowed()
    }

    fn paths(&self) -> Option<&PathCounts> {
        self.inner.paths()
    }
}

#[cfg(test)]
mod tests;
