//! Everything that a seed decides before time begins: the ranks, the network, the programs'
//! workload, and the faults with their times.

use crate::random::Random;
use crate::switch::{LinkFaults, Port, Time};
use clump_proto::{Config, Congestion};
use clump_wire::Security;

/// A microsecond of virtual time.
pub const MICROSECOND: Time = 1_000;
/// A millisecond of virtual time.
pub const MILLISECOND: Time = 1_000_000;
/// A second of virtual time.
pub const SECOND: Time = 1_000_000_000;

/// Lengths of datagrams: Ethernet, jumbo frames, loopback.
const DATAGRAMS: [usize; 3] = [1472, 8972, 65507];
/// Bytes that every path carries: tunnels may carry less than Ethernet.
const SHORTEST_DATAGRAM: usize = 1232;

/// A planned change to the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it")]
pub enum PlanStep {
    /// The link between two ranks changes; also the reverse link, if `both`.
    LinkChange { from: u32, to: u32, both: bool, link: Box<LinkFaults> },
    /// Ranks whose bits are set are cut off from the others, or (`false`) joined with them again.
    Partition { group: u64, cut: bool },
    /// Nothing gets from one rank to another, or (`false`) everything does again.
    OneWay { from: u32, to: u32, cut: bool },
    /// From now on no path carries more than this many bytes; also when everything else is healed.
    Narrow { most: usize },
    /// A rank computes: only its backstop serves the stack.
    Compute { rank: u32, span: Time },
    /// A rank is stopped altogether.
    Freeze { rank: u32, span: Time },
    /// A rank dies; after `known_after` the others are told.
    Kill { rank: u32, known_after: Time },
    /// A stack with the number of a dead rank, but another epoch, sends without the job's
    /// knowledge.
    Restart { rank: u32 },
    /// The others are told that a rank is gone for good.
    Tell { rank: u32, dead: bool },
    /// A rank closes its endpoints and its stack.
    Close { rank: u32 },
    /// A rank closes one endpoint and opens another in its place.
    Renew { rank: u32, endpoint: u32 },
    /// All faults end; no new requests from now on.
    Heal,
    /// Everything must be settled; ranks close.
    Finish,
}

/// Workload of the programs of all ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramDemand {
    /// Mean time between two bursts of requests of a rank.
    pub think: Time,
    /// Maximum number of requests in a burst.
    pub burst: u64,
    /// Longest payload.
    pub max_payload: u64,
    /// Chance in a million that a request is short; it is medium if neither short nor long.
    pub short: u32,
    /// Chance in a million that a request is long.
    pub long: u32,
    /// Chance that a request asks for a reply.
    pub replied: u32,
    /// Chance that a request has a bad tag, handler, endpoint or place.
    pub bad: u32,
    /// Chance that a flow is ordered.
    pub ordered: u32,
    /// Chance that an endpoint is slow.
    pub slow: u32,
    /// Polling interval of a slow endpoint.
    pub slow_every: Time,
}

/// A simulated cluster: ranks, network, programs and steps.
#[derive(Debug, Clone)]
pub struct ClusterPlan {
    /// Seed from which all of it follows.
    pub seed: u64,
    /// Number of ranks.
    pub ranks: u32,
    /// Endpoints of each rank.
    pub endpoints: u32,
    /// Protection of packets.
    pub security: Security,
    /// Configuration of every channel.
    pub channel: Config,
    /// Bytes of requests that may be unconsumed between two endpoints.
    pub credit_bytes: u64,
    /// Port between each rank and its links.
    pub port: Port,
    /// Initial properties of all links.
    pub link: LinkFaults,
    /// Minimum cost of a rank's turn.
    pub turn: Time,
    /// Workload of the programs.
    pub program_demand: ProgramDemand,
    /// Start of virtual time for each rank: clocks differ between machines.
    pub clocks: Vec<Time>,
    /// True if an outsider sends to all ranks under a key of its own.
    pub outsider: bool,
    /// Steps in order, with their times from 0.
    pub steps: Vec<(Time, PlanStep)>,
    /// Time at which faults end.
    pub heal_at: Time,
}

impl ClusterPlan {
    /// Creates the plan of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let ranks = if random.one_in(3) { 2 } else { random.between(2, 8) as u32 };
        let datagram = *random.pick(&DATAGRAMS);
        // Fast networks for a moment, or slow ones for long: the work is about the same.
        let span = match random.below(10) {
            0..3 => random.magnitude(20 * MILLISECOND, 2 * SECOND),
            3..8 => random.between(5 * SECOND, 25 * SECOND),
            _ => random.between(25 * SECOND, 60 * SECOND),
        };
        let delay = random.magnitude(MICROSECOND, 1 + span / 1000).min(50 * MILLISECOND);
        let mut link = LinkFaults::clean(delay, datagram);
        if random.one_in(4) {
            link.jitter = random.magnitude(MICROSECOND, 4 * delay);
        }
        if random.one_in(5) {
            // The path carries less than the card says.
            link.mtu = narrow(&mut random, datagram);
        }
        let port = port(&mut random, datagram, span);
        let program_demand = demand(&mut random, &port, ranks, span);
        let clocks = (0..ranks)
            // The 32-bit clock of packets wraps every 275 s: some begin just before.
            .map(|_| {
                if random.one_in(3) {
                    random.between(250, 276) * SECOND
                } else {
                    random.below(1 << 45)
                }
            })
            .collect();
        let mut plan = Self {
            seed,
            ranks,
            endpoints: random.between(1, 3) as u32,
            security: if random.one_in(6) { Security::Aead } else { Security::Crc },
            channel: channel(&mut random),
            credit_bytes: random.magnitude(8 << 10, 512 << 10),
            port,
            link,
            turn: random.magnitude(300, 20 * MICROSECOND),
            program_demand,
            clocks,
            outsider: random.one_in(8),
            steps: Vec::new(),
            heal_at: span,
        };
        plan.add_faults(&mut random);
        if random.one_in(5) {
            let most = narrow(&mut random, datagram);
            plan.steps.push((random.below(span), PlanStep::Narrow { most }));
        }
        plan.steps.push((span, PlanStep::Heal));
        plan.steps.sort_by_key(|(at, _)| *at);
        plan
    }

    /// Returns the bytes that a stack may keep, except for answers. Per peer: data in flight (a
    /// window, and the message that its last unit belongs to), data queued (requests half of it),
    /// and data unconsumed.
    pub(crate) fn max_memory(&self) -> usize {
        let payload = self.program_demand.max_payload as usize;
        let flows = (self.endpoints * self.endpoints) as usize;
        let window = self.channel.max_window_bytes;
        let per_peer = window + (512 << 10) + 4 * payload;
        let unconsumed = flows * (self.credit_bytes as usize + payload);
        (self.ranks as usize - 1) * (per_peer + 2 * unconsumed)
    }

    fn add_faults(&mut self, random: &mut Random) {
        let span = self.heal_at;
        if random.one_in(12) {
            return; // networks without faults must work too
        }
        for _ in 0..random.magnitude(1, 24) {
            let at = random.below(span);
            let (from, to) = self.pair(random);
            let (until, rank) =
                (at + random.below(span / 4 + 1), random.below(u64::from(self.ranks)));
            let rank = rank as u32;
            let pause = random.magnitude(MILLISECOND, 3 * SECOND).min(span / 4 + 1);
            match random.below(12) {
                0..5 => {
                    let link = Box::new(link_changes(random, &self.link));
                    self.steps.push((
                        at,
                        PlanStep::LinkChange { from, to, both: !random.one_in(3), link },
                    ));
                }
                5 => {
                    let group = random.below((1 << self.ranks) - 2) + 1;
                    self.steps.push((at, PlanStep::Partition { group, cut: true }));
                    self.steps.push((until, PlanStep::Partition { group, cut: false }));
                }
                6 => {
                    self.steps.push((at, PlanStep::OneWay { from, to, cut: true }));
                    self.steps.push((until, PlanStep::OneWay { from, to, cut: false }));
                }
                7 | 8 => self.steps.push((at, PlanStep::Compute { rank, span: pause })),
                9 => self.steps.push((at, PlanStep::Freeze { rank, span: pause })),
                10 => {
                    let endpoint = random.below(u64::from(self.endpoints)) as u32;
                    self.steps.push((at, PlanStep::Renew { rank, endpoint }));
                }
                _ => self.add_end(random, at, rank),
            }
        }
        // Faulty links from the start, for some links or all.
        for from in 0..self.ranks {
            for to in (0..self.ranks).filter(|&to| to != from) {
                if random.one_in(2) {
                    let link = Box::new(link_changes(random, &self.link));
                    self.steps.push((0, PlanStep::LinkChange { from, to, both: false, link }));
                }
            }
        }
    }

    /// Adds the end of a rank: at most two ranks end, and at least two stay.
    fn add_end(&mut self, random: &mut Random, at: Time, rank: u32) {
        let ends = |step: &PlanStep| match step {
            PlanStep::Kill { rank, .. } | PlanStep::Close { rank } => Some(*rank),
            _ => None,
        };
        let ended: Vec<_> = self.steps.iter().filter_map(|(_, step)| ends(step)).collect();
        if ended.contains(&rank) || ended.len() as u32 + 2 >= self.ranks || ended.len() >= 2 {
            return;
        }
        if random.one_in(2) {
            self.steps.push((at, PlanStep::Close { rank }));
            return;
        }
        let known_after = random.magnitude(MILLISECOND, 2 * SECOND);
        self.steps.push((at, PlanStep::Kill { rank, known_after }));
        if random.one_in(2) {
            let later = at + random.below(2 * known_after);
            self.steps.push((later, PlanStep::Restart { rank }));
        }
    }

    fn pair(&self, random: &mut Random) -> (u32, u32) {
        let from = random.below(u64::from(self.ranks)) as u32;
        let other = random.between(1, u64::from(self.ranks) - 1) as u32;
        (from, (from + other) % self.ranks)
    }
}

pub(crate) fn channel(random: &mut Random) -> Config {
    let mut config = Config::default();
    if random.one_in(8) {
        config.congestion = Congestion::Static(random.magnitude(4 << 10, 512 << 10) as usize);
    }
    if random.one_in(8) {
        config.keepalive = Some(random.magnitude(100 * MILLISECOND, 5 * SECOND));
    }
    if random.one_in(4) {
        config.ack_packets = random.between(2, 32) as u32;
        config.ack_delay = random.magnitude(MICROSECOND, MILLISECOND);
    }
    config
}

/// Draws the bytes that a path carries that is narrower than its ends: half of the time no more
/// than Ethernet's.
fn narrow(random: &mut Random, datagram: usize) -> usize {
    let most = if random.one_in(2) { DATAGRAMS[0].min(datagram) } else { datagram };
    random.between(SHORTEST_DATAGRAM as u64, most as u64) as usize
}

pub(crate) fn port(random: &mut Random, datagram: usize, span: Time) -> Port {
    // Limits a run to some megabytes.
    let max_rate = (40_000_000_000_000_000 / span.max(1)).clamp(200_000, 2_000_000_000);
    let rate = random.magnitude(max_rate / 50, max_rate).max(100_000);
    let queue_bytes = random.magnitude(4 * datagram as u64, 2 << 20).max(3 * datagram as u64);
    Port {
        rate,
        queue_bytes,
        mark_bytes: random.one_in(3).then_some(queue_bytes / 4),
        socket_bytes: random.magnitude(256 << 10, 4 << 20) as usize,
        card_bytes: random.magnitude(4 * datagram as u64, 1 << 20),
        refuse: if random.one_in(6) { random.magnitude(100, 100_000) as u32 } else { 0 },
        mtu: datagram,
    }
}

fn demand(random: &mut Random, port: &Port, ranks: u32, span: Time) -> ProgramDemand {
    let max_payload = *random.pick(&[200, 3_000, 20_000, 70_000, 200_000]);
    let burst = random.magnitude(1, 200);
    // Now and then more small messages at once than one receive hands over.
    let (max_payload, burst) =
        if random.one_in(12) { (16, random.between(2000, 6000)) } else { (max_payload, burst) };
    // Bytes requested per rank: between little and about what the ports carry.
    let bytes = random.magnitude(200_000, 12_000_000) / u64::from(ranks);
    let mean = max_payload / 8 + 100;
    let bursts = (bytes / (mean * burst.div_ceil(2))).clamp(3, 1000);
    let think = (span / bursts).max(mean * burst * 500_000_000 / port.rate);
    ProgramDemand {
        think,
        burst,
        max_payload,
        short: random.between(0, 600_000) as u32,
        long: random.between(0, 300_000) as u32,
        replied: random.between(0, 1_000_000) as u32,
        bad: if random.one_in(2) { random.magnitude(1_000, 100_000) as u32 } else { 0 },
        ordered: *random.pick(&[0, 300_000, 1_000_000]),
        slow: *random.pick(&[0, 200_000, 600_000]),
        slow_every: random.magnitude(MILLISECOND, 500 * MILLISECOND).min(span / 10 + 1),
    }
}

/// Returns a link like `base` with random faults.
pub(crate) fn link_changes(random: &mut Random, base: &LinkFaults) -> LinkFaults {
    let mut link = base.clone();
    if random.one_in(2) {
        link.loss = random.magnitude(500, 300_000) as u32;
    }
    if random.one_in(4) {
        link.burst = random.magnitude(100, 20_000) as u32;
        link.burst_length = random.magnitude(2, 100) as u32;
    }
    if random.one_in(3) {
        link.duplicate = random.magnitude(1_000, 300_000) as u32;
    }
    if random.one_in(3) {
        link.reorder = random.magnitude(1_000, 300_000) as u32;
        link.held = random.magnitude(link.delay.max(MICROSECOND), 20 * link.delay.max(MICROSECOND));
    }
    if random.one_in(3) {
        link.corrupt = random.magnitude(500, 200_000) as u32;
    }
    if random.one_in(3) {
        link.stale = random.magnitude(1_000, 50_000) as u32;
    }
    if random.one_in(4) {
        link.jitter = random.magnitude(MICROSECOND, 10 * link.delay.max(MICROSECOND));
    }
    link
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_leave_two_ranks_and_end_with_healing() {
        for seed in 0..2000 {
            let plan = ClusterPlan::new(seed);
            let ends = |(_, step): &&(Time, PlanStep)| {
                matches!(step, PlanStep::Kill { .. } | PlanStep::Close { .. })
            };
            assert!(plan.steps.iter().filter(ends).count() as u32 + 2 <= plan.ranks, "seed {seed}");
            assert!(plan.steps.iter().any(|(_, step)| *step == PlanStep::Heal), "seed {seed}");
            assert!(plan.port.socket_bytes >= 2 * plan.port.mtu, "seed {seed}");
        }
    }

    #[test]
    fn every_kind_of_fault_is_planned() {
        let steps: Vec<_> =
            (0..300).flat_map(|seed| ClusterPlan::new(seed).steps).map(|(_, s)| s).collect();
        let has = |test: fn(&PlanStep) -> bool| steps.iter().any(test);
        assert!(has(|s| matches!(s, PlanStep::LinkChange { link, .. } if link.loss > 0)));
        assert!(has(|s| matches!(s, PlanStep::LinkChange { link, .. } if link.duplicate > 0)));
        assert!(has(|s| matches!(s, PlanStep::LinkChange { link, .. } if link.reorder > 0)));
        assert!(has(|s| matches!(s, PlanStep::LinkChange { link, .. } if link.corrupt > 0)));
        assert!(has(|s| matches!(s, PlanStep::LinkChange { link, .. } if link.stale > 0)));
        assert!(has(|s| matches!(s, PlanStep::LinkChange { link, .. } if link.burst > 0)));
        assert!(has(|s| matches!(s, PlanStep::Narrow { .. })));
        assert!(has(|s| matches!(s, PlanStep::Partition { .. })));
        assert!(has(|s| matches!(s, PlanStep::OneWay { .. })));
        assert!(has(|s| matches!(s, PlanStep::Compute { .. })));
        assert!(has(|s| matches!(s, PlanStep::Freeze { .. })));
        assert!(has(|s| matches!(s, PlanStep::Kill { .. })));
        assert!(has(|s| matches!(s, PlanStep::Restart { .. })));
        assert!(has(|s| matches!(s, PlanStep::Close { .. })));
        assert!(has(|s| matches!(s, PlanStep::Renew { .. })));
    }
}
