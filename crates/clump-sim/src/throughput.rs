//! The cost of loss and congestion, in virtual time: goodput, round trips, eight senders to one.
//!
//! Processors cost what [`TURN`] and [`PER_PACKET`] say, so the numbers describe protocol and
//! links, and are the same on every machine.

use crate::kernel::{
    self, Kernel, KernelConfig, LinkFaults, MILLISECOND, PlannedFault, Random, SECOND, SimDriver,
    Time, World,
};
use crate::messages::{AcceptAllEndpoints, config_of, name_of};
pub use crate::network::Network;
use crate::plan_file::{NamedPlan, PlanError, WorldPlan};
use clump_net::seal::JobKey;
use clump_net::{Batch, FlowId, REQUEST_COST, Stack};
use clump_wire::frame::{FrameKind, Route, stack_of};
use clump_wire::{Message, SendResult};
use serde::Serialize;

/// Cost of a rank's turn.
const TURN: Time = 500;
/// Cost of each packet received and each message sent, beyond that.
const PER_PACKET: Time = 100;
/// Payload of the messages of a stream, in bytes.
const MESSAGE: usize = 8 << 10;
/// Credit of a flow, as in `clump-am`.
const CREDIT: u64 = 256 << 10;
/// Maximum number of messages that a sender hands over in one turn.
const MAX_AT_ONCE: usize = 16;

/// Returns the networks of `plans/throughput.toml`.
///
/// # Errors
/// The plan is malformed.
pub fn networks() -> Result<Vec<Network>, PlanError> {
    let plan = NamedPlan::parse("throughput", include_str!("../plans/throughput.toml"))?;
    let runs = plan.runs(0)?.into_iter().filter_map(|run| match run {
        WorldPlan::Throughput(network) => Some(network),
        _ => None,
    });
    Ok(runs.collect())
}

/// Results on one network.
#[derive(Debug, Clone, Serialize)]
pub struct ThroughputReport {
    /// Name of the network.
    pub network: String,
    /// One sender, no loss: bytes of payload per second.
    pub goodput_bytes_per_s: f64,
    /// Goodput at 1 % loss, as a ratio of that without loss.
    pub ratio_at_loss_1: f64,
    /// Goodput at 5 % loss, as a ratio of that without loss.
    pub ratio_at_loss_5: f64,
    /// Median, 99th and 99.9th percentile of the round trip of 8 bytes, without loss, in ns.
    pub round_trip_ns: [u64; 3],
    /// Same percentiles at 0.1 % loss.
    pub round_trip_lossy_ns: [u64; 3],
    /// Eight senders to one: goodput of all, as a ratio of one sender's.
    pub incast_ratio: f64,
    /// Minimum and maximum share of one of them, as ratios of an eighth.
    pub incast_shares: [f64; 2],
    /// Fraction of datagrams that the switch lost meanwhile.
    pub incast_lost: f64,
}

/// Measures everything on one network.
///
/// # Errors
/// Fails if the keys cannot be made, or if a run comes to no end.
pub fn measure(network: &Network) -> anyhow::Result<ThroughputReport> {
    let stream = |loss: u32| {
        let span = 100 * MILLISECOND;
        let mut bench = Bench::new(network, loss, 2)?;
        bench.stations[0].role = Role::Stream;
        bench.run(span)?;
        anyhow::Ok(bench.goodput(span).0)
    };
    let lossless = stream(0)?;
    let round_trips = |loss: u32| {
        let mut bench = Bench::new(network, loss, 2)?;
        bench.stations[0].role = Role::Ping;
        bench.stations[1].role = Role::Echo;
        bench.run(SECOND)?;
        anyhow::Ok(bench.stations[0].percentiles())
    };
    let span = SECOND;
    let mut incast = Bench::new(network, 0, 9)?;
    for station in incast.stations.iter_mut().skip(1) {
        station.role = Role::Stream;
        station.to = 0;
    }
    incast.run(span)?;
    let (all, shares) = incast.goodput(span);
    let counts = incast.kernel.network().1;
    Ok(ThroughputReport {
        network: network.name.clone(),
        goodput_bytes_per_s: lossless,
        ratio_at_loss_1: stream(10_000)? / lossless,
        ratio_at_loss_5: stream(50_000)? / lossless,
        round_trip_ns: round_trips(0)?,
        round_trip_lossy_ns: round_trips(1_000)?,
        incast_ratio: all / lossless,
        incast_shares: shares,
        incast_lost: counts.overflowed as f64 / counts.sent.max(1) as f64,
    })
}

/// Formats the reports as a table.
pub fn table(reports: &[ThroughputReport]) -> String {
    let mut text = format!(
        "{:14} {:>9} {:>7} {:>7} {:>22} {:>22} {:>7} {:>13} {:>7}\n",
        "network",
        "goodput",
        "1 %",
        "5 %",
        "round trip us",
        "at 0.1 % loss",
        "incast",
        "shares",
        "lost"
    );
    text.push_str(&format!(
        "{:14} {:>9} {:>7} {:>7} {:>22} {:>22} {:>7} {:>13} {:>7}\n",
        "",
        "MB/s",
        "ratio",
        "ratio",
        "50 / 99 / 99.9 %",
        "50 / 99 / 99.9 %",
        "ratio",
        "least, most",
        "%"
    ));
    let three = |ns: [u64; 3]| {
        let [a, b, c] = ns.map(|ns| ns as f64 / 1000.0);
        format!("{a:.1} / {b:.1} / {c:.1}")
    };
    for report in reports {
        let [least, most] = report.incast_shares;
        text.push_str(&format!(
            "{:14} {:>9.0} {:>7.3} {:>7.3} {:>22} {:>22} {:>7.3} {:>13} {:>7.2}\n",
            report.network,
            report.goodput_bytes_per_s / 1e6,
            report.ratio_at_loss_1,
            report.ratio_at_loss_5,
            three(report.round_trip_ns),
            three(report.round_trip_lossy_ns),
            report.incast_ratio,
            format!("{least:.2}, {most:.2}"),
            report.incast_lost * 100.0,
        ));
    }
    text
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Consumes what arrives.
    Sink,
    /// Sends as much as it may.
    Stream,
    /// Sends, waits for the reply, sends again.
    Ping,
    /// Replies.
    Echo,
}

#[derive(Debug)]
struct Station {
    stack: Stack,
    role: Role,
    me: u32,
    to: u32,
    flow: Option<FlowId>,
    /// By source: bytes of requests consumed, bytes reported, bytes of payload.
    taken: Vec<(u64, u64, u64)>,
    sent_at: Option<Time>,
    round_trips: Vec<u64>,
}

/// Stations that stop at a time.
struct Bench {
    kernel: Kernel,
    stations: Vec<Station>,
    batch: Batch,
    over: bool,
}

impl Bench {
    fn new(network: &Network, loss: u32, ranks: u32) -> anyhow::Result<Self> {
        let link = LinkFaults { loss, ..network.link.clone() };
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
        let key = JobKey::new(&mut [7; 32])?;
        let station = |me| {
            let driver = Box::new(SimDriver::new(&switch, me));
            switch.lock().attach(me, true);
            let config = config_of(
                (me, 1),
                ranks,
                clump_wire::Security::Crc,
                CREDIT,
                &clump_proto::Config::default(),
            );
            Ok(Station {
                stack: Stack::new(config, &key, driver, Box::new(AcceptAllEndpoints))?,
                role: Role::Sink,
                me,
                to: u32::from(me == 0),
                flow: None,
                taken: vec![(0, 0, 0); ranks as usize],
                sent_at: None,
                round_trips: Vec::new(),
            })
        };
        let stations = (0..ranks).map(station).collect::<anyhow::Result<Vec<_>>>()?;
        (0..ranks).for_each(|me| kernel.wake(me, 0));
        Ok(Self { kernel, stations, batch: Batch::default(), over: false })
    }

    /// Runs the stations for so long.
    fn run(&mut self, span: Time) -> anyhow::Result<()> {
        // Everything due at the end still happens.
        self.kernel.schedule(span + 1, PlannedFault::Finish);
        kernel::run(self)
    }

    /// Returns the bytes of payload per second that sinks got, and the minimum and maximum of one
    /// sender, as ratios of a fair share.
    fn goodput(&self, span: Time) -> (f64, [f64; 2]) {
        let sinks = self.stations.iter().filter(|station| station.role == Role::Sink);
        let got = sinks.flat_map(|station| &station.taken).map(|taken| taken.2 as f64);
        let got: Vec<f64> = got.filter(|&bytes| bytes > 0.0).collect();
        let senders = self.stations.iter().filter(|station| station.role == Role::Stream).count();
        let all: f64 = got.iter().sum();
        let fair = all / senders.max(1) as f64;
        let least =
            if got.len() < senders { 0.0 } else { got.iter().copied().fold(f64::MAX, f64::min) };
        let most = got.iter().copied().fold(0.0, f64::max);
        (all * SECOND as f64 / span as f64, [least / fair, most / fair])
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
        let next = self.stations[actor as usize].act(now, &mut self.batch);
        self.kernel.wake(actor, next);
        Ok(())
    }

    fn on_fault(&mut self, _now: Time, fault: &PlannedFault) -> anyhow::Result<()> {
        anyhow::ensure!(*fault == PlannedFault::Finish, "a bench does not support {fault:?}");
        self.over = true;
        Ok(())
    }

    fn check_progress(&mut self, _now: Time) -> anyhow::Result<Option<()>> {
        Ok(self.over.then_some(()))
    }

    fn failure(&self, what: String) -> anyhow::Error {
        anyhow::anyhow!("a bench of {} stations: {what}", self.stations.len())
    }
}

impl Station {
    fn act(&mut self, now: Time, batch: &mut Batch) -> Time {
        let received = self.stack.receive(|| now, Some(0), batch);
        for number in 0..batch.len() {
            let mut words = clump_net::Words::default();
            let Some(arrival) = batch.arrival(number, &mut words) else { break };
            let (from, reply) = (arrival.route.from, arrival.reply);
            let (bytes, ask) = (arrival.payload.len() as u64, arrival.kind);
            if reply && self.role == Role::Ping {
                self.round_trips.extend(self.sent_at.take().map(|sent| now - sent));
            } else if ask == FrameKind::Ask {
                self.report(now, from, true);
            } else if !reply {
                let peer = stack_of(from) as usize;
                self.taken[peer].0 += REQUEST_COST + bytes;
                self.taken[peer].2 += bytes;
                if self.role == Role::Echo {
                    let names = (name_of(self.me, 1, 0), from);
                    let echo = Message::answer((FrameKind::Short, 1), names, (&[1], &[]));
                    let _ = self.stack.reply(|| now, peer as u32, &echo);
                }
                self.report(now, from, false);
            }
        }
        self.stack.service(now, !batch.is_empty());
        let sent = self.send(now);
        if received + sent > 0 {
            return now + TURN + PER_PACKET * (received + sent) as Time;
        }
        self.stack.service(now, true);
        self.stack.acknowledge_all(now);
        self.stack.next_timeout().unwrap_or(Time::MAX).max(now + TURN)
    }

    fn report(&mut self, now: Time, from: u64, asked: bool) {
        let peer = stack_of(from) as usize;
        let (consumed, reported, _) = &mut self.taken[peer];
        if asked || *consumed - *reported >= CREDIT / 4 {
            *reported = *consumed;
            self.stack.report(|| now, peer as u32, name_of(self.me, 1, 0), from, *consumed);
        }
    }

    fn send(&mut self, now: Time) -> usize {
        let most = match self.role {
            Role::Stream => MAX_AT_ONCE,
            Role::Ping if self.sent_at.is_none() => 1,
            _ => return 0,
        };
        let (from, to) = (name_of(self.me, 1, 0), name_of(self.to, 1, 0));
        let Self { stack, flow, .. } = self;
        let flow = *flow.get_or_insert_with(|| stack.open_flow(from, to, self.to, false));
        let (kind, bytes) = match self.role {
            Role::Stream => (FrameKind::Medium, MESSAGE),
            _ => (FrameKind::Short, 0),
        };
        let route = Route { from, to, tag: 0 };
        let request = Message::request((kind, 1), route, (&[7], &[5; MESSAGE][..bytes]));
        let mut sent = 0;
        while sent < most && stack.request(|| now, flow, &request) == SendResult::Sent {
            sent += 1;
        }
        if self.role == Role::Ping && sent > 0 {
            self.sent_at = Some(now);
        }
        sent
    }

    /// Returns the 50th, 99th and 99.9th percentile of its round trips.
    fn percentiles(&mut self) -> [u64; 3] {
        self.round_trips.sort_unstable();
        let count = self.round_trips.len();
        [count / 2, count * 99 / 100, count * 999 / 1000]
            .map(|at| self.round_trips.get(at).copied().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::MICROSECOND;
    use clump_test_tier::first_of;

    #[test]
    fn a_clean_link_is_nearly_filled_and_loss_costs_something() {
        let network = &networks().unwrap()[1];
        let report = measure(network).unwrap();
        assert!(report.goodput_bytes_per_s > 0.8 * network.port.rate as f64, "{report:?}");
        assert!(report.ratio_at_loss_5 < 1.0 && report.ratio_at_loss_1 > 0.5, "{report:?}");
        let [median, ..] = report.round_trip_ns;
        assert!((20 * MICROSECOND..30 * MICROSECOND).contains(&median), "{report:?}");
    }

    #[test]
    fn eight_senders_share_a_link_from_the_first_second_on() {
        for network in first_of(1, &networks().unwrap()) {
            let report = measure(network).unwrap();
            let [least, most] = report.incast_shares;
            assert!(least > 0.8 && most < 1.2 && report.incast_ratio > 0.9, "{report:?}");
        }
    }
}
