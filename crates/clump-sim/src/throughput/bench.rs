//! Stations on one network, whose arrivals are counted from a time on.

use super::station::{BenchRank, TURN};
use crate::kernel::{self, Kernel, KernelConfig, PlannedFault, Random, SECOND, Time, World};
use crate::network::Network;
use clump_net::Batch;

/// Stations that stop at a time.
pub(super) struct Bench {
    pub(super) kernel: Kernel,
    pub(super) stations: Vec<BenchRank>,
    batch: Batch,
    /// Time from which arrivals count, and what had arrived before, by station and source.
    count_from: Time,
    before: Option<Vec<Vec<u64>>>,
    /// Time at which the first [`START_BYTES`] had arrived anywhere.
    started_at: Option<Time>,
    over: bool,
}

/// Bytes after which a stream counts as started.
pub(super) const START_BYTES: u64 = 1 << 20;

impl Bench {
    /// Creates a bench of `ranks` stations that consume, on a network that also loses `loss` in a
    /// million datagrams.
    pub(super) fn new(network: &Network, loss: u32, ranks: u32) -> anyhow::Result<Self> {
        let mut link = network.link.clone();
        link.loss = link.loss.max(loss);
        let mut kernel = Kernel::new(KernelConfig {
            begin: 0,
            ports: vec![network.port.clone(); ranks as usize],
            link: &link,
            random: Random::new(u64::from(loss)),
            actors: ranks,
            sites: Vec::new(),
            max_events: u64::MAX,
            trace: false,
        });
        let switch = kernel.switch.clone();
        let channel = clump_proto::Config::default();
        let station = |me| BenchRank::new(&switch, (me, ranks), &channel);
        let stations = (0..ranks).map(station).collect::<anyhow::Result<Vec<_>>>()?;
        (0..ranks).for_each(|me| kernel.wake(me, 0));
        Ok(Self {
            kernel,
            stations,
            batch: Batch::default(),
            count_from: 0,
            before: None,
            started_at: None,
            over: false,
        })
    }

    /// Runs the stations for `warm` without counting, and for `span` with.
    pub(super) fn run(&mut self, warm: Time, span: Time) -> anyhow::Result<()> {
        self.count_from = warm;
        // Everything due at the end still happens.
        self.kernel.schedule(warm + span + 1, PlannedFault::Finish);
        kernel::run(self)
    }

    fn arrived(&self) -> Vec<Vec<u64>> {
        self.stations.iter().map(|station| station.arrived.counts()).collect()
    }

    /// Returns the bytes of payload per second that `station` got while they were counted, from
    /// each of the others.
    pub(super) fn rates(&self, station: usize, span: Time) -> Vec<f64> {
        let (after, before) = (self.arrived(), self.before.as_ref());
        let counts = after.get(station).into_iter().flatten().enumerate();
        let before = |from: usize| before.and_then(|all| all.get(station)?.get(from).copied());
        let rate = |(from, bytes): (usize, &u64)| {
            let counted = bytes - before(from).unwrap_or_default();
            counted as f64 * SECOND as f64 / span as f64
        };
        counts.filter(|(from, _)| *from != station).map(rate).collect()
    }

    /// Returns the time at which the first [`START_BYTES`] had arrived.
    pub(super) fn started_at(&self) -> Option<Time> {
        self.started_at
    }
}

impl World for Bench {
    type End = ();
    type Error = anyhow::Error;

    fn kernel(&mut self) -> &mut Kernel {
        &mut self.kernel
    }

    fn on_datagram(&mut self, now: Time, seat: u32) {
        self.kernel.wake(seat, now + TURN);
    }

    fn on_turn(&mut self, now: Time, actor: u32) -> anyhow::Result<()> {
        let station = &mut self.stations[actor as usize];
        let next = station.act(now, &mut self.batch);
        self.kernel.wake(actor, next);
        if self.started_at.is_none() {
            let arrived: u64 = self.stations[actor as usize].arrived.counts().iter().sum();
            self.started_at = (arrived >= START_BYTES).then_some(now);
        }
        Ok(())
    }

    fn on_fault(&mut self, _now: Time, fault: &PlannedFault) -> anyhow::Result<()> {
        anyhow::ensure!(*fault == PlannedFault::Finish, "a bench does not support {fault:?}");
        self.over = true;
        Ok(())
    }

    fn check_progress(&mut self, now: Time) -> anyhow::Result<Option<()>> {
        if self.before.is_none() && now >= self.count_from {
            self.before = Some(self.arrived());
        }
        Ok(self.over.then_some(()))
    }

    fn failure(&self, what: String) -> anyhow::Error {
        anyhow::anyhow!("a bench of {} stations: {what}", self.stations.len())
    }
}
