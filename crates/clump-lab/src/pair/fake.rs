//! A LogGP machine with known parameters and a virtual clock, for testing the measurements.

use super::{BulkPath, Pair, PairNetwork};
use crate::wire::WireWorkload;
use anyhow::Result;
use std::collections::VecDeque;

/// Times in nanoseconds; one tick is a tenth of one.
#[derive(Debug, Clone)]
pub struct FakePair {
    /// Send overhead.
    pub o_s: f64,
    /// Receive overhead.
    pub o_r: f64,
    /// Latency.
    pub l: f64,
    /// Gap, at least `o_s + o_r`.
    pub g: f64,
    /// Time per byte.
    pub big_g: f64,
    /// Fixed part of a bulk message.
    pub bulk_start: f64,
    /// Requests in flight before a sender waits.
    pub window: u32,
    /// One step of the delay loop.
    pub loop_ns: f64,
    /// Cost of reading the clock.
    pub clock_ns: f64,
    /// The network, if there is one.
    pub link: Option<PairNetwork>,
    /// Round trips after a burst or a train that take twice as long.
    pub linger: u32,
    now: f64,
    nic_free: f64,
    replies: VecDeque<f64>,
    /// Those still to come.
    slow: u32,
}

impl Default for FakePair {
    /// Returns the machine that the tests expect to recover.
    fn default() -> Self {
        Self {
            o_s: 20.0,
            o_r: 30.0,
            l: 150.0,
            g: 60.0,
            big_g: 0.1,
            bulk_start: 200.0,
            window: 64,
            loop_ns: 1.5,
            clock_ns: 20.0,
            link: None,
            linger: 0,
            now: 0.0,
            nic_free: 0.0,
            replies: VecDeque::new(),
            slow: 0,
        }
    }
}

impl FakePair {
    /// Returns the time from a request to its handled reply.
    pub fn rtt(&self) -> f64 {
        2.0 * (self.o_s + self.l + self.o_r)
    }

    fn inject(&mut self) -> f64 {
        self.now += self.o_s;
        self.nic_free = self.now.max(self.nic_free + self.g);
        self.nic_free
    }
}

impl Pair for FakePair {
    fn now(&mut self) -> u64 {
        self.now += self.clock_ns;
        (self.now * 10.0) as u64
    }

    fn ns_per_tick(&self) -> f64 {
        0.1
    }

    fn delay(&mut self, loops: u32) {
        self.now += f64::from(loops) * self.loop_ns;
    }

    fn request(&mut self) -> Result<()> {
        if self.replies.len() == self.window as usize {
            let first = self.replies.pop_front().unwrap_or(self.now);
            self.now = self.now.max(first) + self.o_r;
        }
        let out = self.inject();
        if self.replies.len() > 8 {
            self.slow = self.linger;
        }
        let more = if self.slow > 0 { self.rtt() } else { 0.0 };
        self.slow = self.slow.saturating_sub(1);
        self.replies.push_back(out + 2.0 * self.l + self.o_r + self.o_s + more);
        self.poll()
    }

    fn post(&mut self) -> Result<()> {
        self.slow = self.linger;
        self.inject();
        Ok(())
    }

    fn bulk(&mut self, _way: BulkPath, bytes: usize) -> Result<()> {
        self.now += self.bulk_start + self.big_g * bytes as f64;
        Ok(())
    }

    /// A byte that is read takes twice the time of one that is deposited.
    fn ring(&mut self, bytes: usize) -> Result<()> {
        self.now += self.bulk_start + 2.0 * self.big_g * bytes as f64;
        Ok(())
    }

    fn largest(&self, way: BulkPath) -> usize {
        match way {
            BulkPath::Medium => 1 << 16,
            BulkPath::Long => usize::MAX,
        }
    }

    fn poll(&mut self) -> Result<()> {
        while self.replies.front().is_some_and(|&at| at <= self.now) {
            self.replies.pop_front();
            self.now += self.o_r;
        }
        Ok(())
    }

    fn outstanding(&self) -> u64 {
        self.replies.len() as u64
    }

    fn await_handled(&mut self) -> Result<()> {
        self.now = self.now.max(self.nic_free) + self.rtt();
        Ok(())
    }

    fn window(&self) -> u32 {
        self.window
    }

    fn flag_rounds(&mut self, rounds: u32) -> Result<u64> {
        Ok((f64::from(rounds) * 2.0 * self.l * 10.0) as u64)
    }

    fn link(&self) -> Option<&PairNetwork> {
        self.link.as_ref()
    }

    /// A round of the bare network takes as long as latency alone, a byte half of clump's time.
    fn wire_game(&mut self, workload: WireWorkload) -> Result<f64> {
        let ns = match workload {
            WireWorkload::PingPong { rounds, .. } => f64::from(rounds) * 2.0 * self.l,
            WireWorkload::Stream { total, .. } => total as f64 * self.big_g / 2.0,
        };
        self.now += ns;
        Ok(ns)
    }

    fn drain(&mut self) -> Result<()> {
        while let Some(at) = self.replies.pop_front() {
            self.now = self.now.max(at) + self.o_r;
        }
        Ok(())
    }
}
