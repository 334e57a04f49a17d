//! A wrapper that records: writes every datagram that goes through to a capture that Wireshark
//! opens.
//!
//! It never disturbs the traffic: when the capture reaches its limit or cannot be written any more,
//! datagrams pass unrecorded and are counted.

mod counts;
mod limits;
mod pcap;

pub use counts::TraceCounts;
pub use limits::TraceLimits;

use crate::clock::Clock;
use crate::driver::{Capabilities, Driver, Outgoing, PROBE_KEY_BYTES, PathCounts};
use crate::error::DriverError;
use crate::inbound::{Ecn, Inbound};
use crate::peer_paths::PeerPaths;
use clump_os::OsError;
use pcap::{Capture, Frame};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

/// A driver that records the traffic of the inner one.
#[derive(Debug)]
pub struct Trace<D> {
    inner: D,
    capabilities: Capabilities,
    local: SocketAddr,
    clock: Clock,
    /// Offset from the clock to time since 1970, which captures use.
    clock_offset_ns: u64,
    capture: Capture,
    /// Buffer in which a datagram's parts are joined.
    whole: Vec<u8>,
}

impl<D: Driver> Trace<D> {
    /// Wraps `inner`, and records to `sink`. The times of a clock that is set are recorded as they
    /// are.
    pub fn new(inner: D, sink: Box<dyn Write + Send>, limits: TraceLimits, clock: Clock) -> Self {
        let mut capabilities = inner.capabilities().clone();
        capabilities.name = format!("trace({})", capabilities.name);
        let clock_offset_ns = match &clock {
            Clock::Set(_) => 0,
            Clock::Steady => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let since_ns = u64::try_from(since.as_nanos()).unwrap_or(0);
                since_ns.saturating_sub(clock.now_ns())
            }
        };
        let (local, capture) = (inner.local(), Capture::new(sink, limits));
        Self { inner, capabilities, local, clock, clock_offset_ns, capture, whole: Vec::new() }
    }

    /// Records to a file, which only its user reads: packets are in it. A link is not followed.
    ///
    /// # Errors
    /// Fails if the file cannot be created.
    pub fn to_file(inner: D, path: &Path, limits: TraceLimits) -> Result<Self, DriverError> {
        let failed = |e: io::Error| {
            let errno = rustix::io::Errno::from_io_error(&e).unwrap_or(rustix::io::Errno::IO);
            OsError::new(format!("creating the capture {}", path.display()), errno)
        };
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let no_follow = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
        let file = options.custom_flags(no_follow).open(path).map_err(failed)?;
        Ok(Self::new(inner, Box::new(file), limits, Clock::Steady))
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> TraceCounts {
        self.capture.counts()
    }

    /// Writes out buffered records. Dropping does so too.
    pub fn flush(&mut self) {
        self.capture.flush();
    }

    /// Returns the inner driver.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    fn now_ns(&self) -> u64 {
        self.clock.now_ns().saturating_add(self.clock_offset_ns)
    }

    fn record_sent(&mut self, sent: &[Outgoing<'_>]) {
        let time_ns = self.now_ns();
        let ecn = if self.capabilities.ecn { Ecn::Ect0 } else { Ecn::NotEct };
        for datagram in sent {
            self.whole.clear();
            datagram.append_to(&mut self.whole);
            let (from, to) = (self.local, datagram.to);
            self.capture.write(&Frame { time_ns, from, to, ecn, payload: &self.whole });
        }
    }
}

impl<D: Driver> Driver for Trace<D> {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn local(&self) -> SocketAddr {
        self.local
    }

    fn send(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, DriverError> {
        let result = self.inner.send(batch);
        let taken = match &result {
            Ok(taken) => *taken,
            Err(e) => e.index().unwrap_or(0),
        };
        self.record_sent(&batch[..taken.min(batch.len())]);
        result
    }

    fn receive(&mut self, into: &mut Inbound) -> Result<usize, DriverError> {
        let first = into.len();
        let received = self.inner.receive(into)?;
        if received > 0 {
            let now_ns = self.now_ns();
            for i in first..into.len() {
                let datagram = into.datagram(i);
                self.capture.write(&Frame {
                    time_ns: datagram.arrived_ns.unwrap_or(now_ns),
                    from: datagram.from,
                    to: self.local,
                    ecn: datagram.ecn,
                    payload: datagram.bytes,
                });
            }
        }
        Ok(received)
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        self.inner.readiness()
    }

    fn path_hint(&self, to: SocketAddr) -> Option<usize> {
        self.inner.path_hint(to)
    }

    fn due_in(&self) -> Option<Duration> {
        self.inner.due_in()
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
