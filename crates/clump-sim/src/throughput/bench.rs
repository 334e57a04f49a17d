//! Stations on one network, whose arrivals are counted from a time on.

use super::pauses::PauseSchedule;
use super::station::{BenchRank, TURN};
use super::tcp::TcpStream;
use crate::kernel::{
    self, Kernel, KernelConfig, LinkFaults, MILLISECOND, PlannedFault, Port, Random, SECOND, Time,
    World,
};
use crate::network::{Network, PathPlan};
use clump_net::Batch;

/// Stations that stop at a time.
pub(super) struct Bench {
    pub(super) kernel: Kernel,
    pub(super) stations: Vec<BenchRank>,
    /// Stream beside them, with the first two sockets beyond theirs.
    tcp: Option<TcpStream>,
    pauses: Option<PauseSchedule>,
    batch: Batch,
    /// Time from which arrivals count, and what had arrived before, by station and source.
    count_from: Time,
    before: Option<(Vec<Vec<u64>>, u64)>,
    /// Time at which the first [`START_BYTES`] had arrived anywhere.
    started_at: Option<Time>,
    /// Time of the next line of a trace.
    next_line: Time,
    over: bool,
}

/// Rate of the senders' cards, of that of the path.
const CARD_FACTOR: u64 = 4;
/// Time between lines of a trace.
const TRACE_EVERY: Time = 5 * MILLISECOND;
/// Bytes after which a stream counts as started.
pub(super) const START_BYTES: u64 = 1 << 20;

impl Bench {
    /// Creates a bench of `ranks` stations that consume, on a network that also loses `loss` in a
    /// million datagrams.
    pub(super) fn new(network: &Network, loss: u32, ranks: u32) -> anyhow::Result<Self> {
        let mut link = network.link.clone();
        link.loss = link.loss.max(loss);
        Self::on((&link, &network.port), u64::from(loss), (ranks, ranks), false)
    }

    /// Creates a bench on a path: a station that consumes, those that will send to it, and what
    /// disturbs them.
    pub(super) fn on_path(plan: &PathPlan, trace: bool) -> anyhow::Result<Self> {
        let ranks = plan.senders + 1;
        let sockets = ranks + if plan.beside_cubic { 2 } else { 0 };
        // Cards are faster than the port that all share, so that what queues does so there.
        let card = Port { rate: CARD_FACTOR * plan.port.rate, ..plan.port.clone() };
        let mut bench = Self::on((&plan.link, &card), plan.seed, (ranks, sockets), trace)?;
        let rate = plan.port.rate;
        bench.kernel.schedule(0, PlannedFault::PortRate { socket: 0, rate });
        for change in &plan.changes {
            let rate = change.rate.map(|rate| PlannedFault::PortRate { socket: 0, rate });
            let delayed = |delay| {
                let link = LinkFaults { delay, ..plan.link.clone() };
                (1..sockets).map(move |to| (to, link.clone()))
            };
            let links = change.delay.into_iter().flat_map(delayed).map(|(to, link)| {
                PlannedFault::LinkChange { from: 0, to, both: true, link: Box::new(link) }
            });
            rate.into_iter().chain(links).for_each(|fault| bench.kernel.schedule(change.at, fault));
        }
        for (sender, &delay) in (1..ranks).zip(plan.unequal.iter().cycle()) {
            let link = Box::new(LinkFaults { delay, ..plan.link.clone() });
            let fault = PlannedFault::LinkChange { from: 0, to: sender, both: true, link };
            bench.kernel.schedule(0, fault);
        }
        bench.pauses = plan.pauses.map(|pauses| PauseSchedule::new(pauses, ranks, plan.seed));
        if plan.beside_cubic {
            let ends = [ranks, ranks + 1];
            bench.kernel.switch.lock().share_port(ends[1], 0);
            bench.tcp = Some(TcpStream::new(&bench.kernel.switch, ends, plan.port.mtu));
            bench.kernel.wake(ends[0], 0);
        }
        Ok(bench)
    }

    fn on(
        (link, port): (&LinkFaults, &Port),
        seed: u64,
        (ranks, sockets): (u32, u32),
        trace: bool,
    ) -> anyhow::Result<Self> {
        let mut kernel = Kernel::new(KernelConfig {
            begin: 0,
            ports: vec![port.clone(); sockets as usize],
            link,
            random: Random::new(seed),
            actors: sockets,
            sites: (0..sockets).map(|socket| vec![socket]).collect(),
            max_events: u64::MAX,
            trace,
        });
        let switch = kernel.switch.clone();
        let channel = clump_proto::Config::default();
        let station = |me| BenchRank::new(&switch, (me, ranks), &channel);
        let stations = (0..ranks).map(station).collect::<anyhow::Result<Vec<_>>>()?;
        (0..ranks).for_each(|me| kernel.wake(me, 0));
        Ok(Self {
            kernel,
            stations,
            tcp: None,
            pauses: None,
            batch: Batch::default(),
            count_from: 0,
            before: None,
            started_at: None,
            next_line: 0,
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
        let before = |from: usize| before.and_then(|(all, _)| all.get(station)?.get(from).copied());
        let rate = |(from, bytes): (usize, &u64)| {
            let counted = bytes - before(from).unwrap_or_default();
            counted as f64 * SECOND as f64 / span as f64
        };
        counts.filter(|(from, _)| *from != station).map(rate).collect()
    }

    /// Returns the bytes of payload per second that the stream beside the stations had while they
    /// were counted.
    pub(super) fn tcp_rate(&self, span: Time) -> Option<f64> {
        let tcp = self.tcp.as_ref()?;
        let before = self.before.as_ref().map_or(0, |(_, bytes)| *bytes);
        Some((tcp.bytes() - before) as f64 * SECOND as f64 / span as f64)
    }

    /// Returns the time for which stations did nothing while they were counted.
    pub(super) fn paused(&self) -> Time {
        self.pauses.as_ref().map_or(0, PauseSchedule::paused)
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

    fn on_datagram(&mut self, now: Time, socket: u32) {
        self.kernel.wake(socket, now + TURN);
    }

    fn on_turn(&mut self, now: Time, actor: u32) -> anyhow::Result<()> {
        if let Some(until) = self.pauses.as_mut().and_then(|pauses| pauses.until(now, actor)) {
            self.kernel.wake(actor, until);
            return Ok(());
        }
        let Some(station) = self.stations.get_mut(actor as usize) else {
            let next = self.tcp.as_mut().map_or(Time::MAX, |tcp| tcp.act(now, actor));
            self.kernel.wake(actor, next);
            return Ok(());
        };
        let next = station.act(now, &mut self.batch);
        if actor > 0 && self.kernel.traces() && now >= self.next_line {
            self.next_line = now + TRACE_EVERY;
            self.kernel.say(now, &format!("{actor} {}", station.stack.describe()));
        }
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
            let tcp = self.tcp.as_ref().map_or(0, TcpStream::bytes);
            self.before = Some((self.arrived(), tcp));
            self.pauses.iter_mut().for_each(|pauses| pauses.count_from(now));
        }
        Ok(self.over.then_some(()))
    }

    fn failure(&self, what: String) -> anyhow::Error {
        anyhow::anyhow!("a bench of {} stations: {what}", self.stations.len())
    }
}
