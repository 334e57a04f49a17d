//! Everything that a seed determines before time begins: the ranks, the network, the programs'
//! workload, and the faults with their times.

use crate::kernel::{
    BasePlan, DATAGRAMS, LinkFaults, MICROSECOND, MILLISECOND, PlannedFault, Port, Random, SECOND,
    Time, channel, link_changes, port,
};
use clump_wire::Security;

/// Bytes that every path carries: tunnels may carry less than Ethernet.
const SHORTEST_DATAGRAM: usize = 1232;

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
    /// Chance that a request has a reply.
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

/// A simulated cluster: ranks, network, programs and faults.
#[derive(Debug, Clone)]
pub struct ClusterPlan {
    /// Network, clocks and faults; a socket for each rank, and one for the outsider.
    pub base: BasePlan,
    /// Number of ranks.
    pub ranks: u32,
    /// Endpoints of each rank.
    pub endpoints: u32,
    /// Bytes of requests that may be unconsumed between two endpoints.
    pub credit_bytes: u64,
    /// Workload of the programs.
    pub program_demand: ProgramDemand,
    /// True if an outsider sends to all ranks under a key of its own.
    pub outsider: bool,
}

impl ClusterPlan {
    /// Creates the plan of a seed.
    pub fn new(seed: u64) -> Self {
        Self::sized(seed, None, None)
    }

    /// Creates the plan of a seed, for so many ranks and with faults for so long, where that is
    /// given.
    pub fn sized(seed: u64, ranks: Option<u32>, span: Option<Time>) -> Self {
        let mut random = Random::new(seed);
        let drawn = if random.one_in(3) { 2 } else { random.between(2, 8) as u32 };
        let ranks = ranks.unwrap_or(drawn);
        let datagram = *random.pick(&DATAGRAMS);
        // Fast networks for a moment, or slow ones for long: the work is about the same.
        let drawn = match random.below(10) {
            0..3 => random.magnitude(20 * MILLISECOND, 2 * SECOND),
            3..8 => random.between(5 * SECOND, 25 * SECOND),
            _ => random.between(25 * SECOND, 60 * SECOND),
        };
        let span = span.unwrap_or(drawn);
        let delay = random.magnitude(MICROSECOND, 1 + span / 1000).min(50 * MILLISECOND);
        let mut link = LinkFaults::clean(delay, datagram);
        if random.one_in(4) {
            link.jitter = random.magnitude(MICROSECOND, 4 * delay);
        }
        if random.one_in(5) {
            // The path carries less than the card's MTU.
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
        let endpoints = random.between(1, 3) as u32;
        let security = if random.one_in(6) { Security::Aead } else { Security::Crc };
        let channel = channel(&mut random);
        let credit_bytes = random.magnitude(8 << 10, 512 << 10);
        let turn = random.magnitude(300, 20 * MICROSECOND);
        let outsider = random.one_in(8);
        let faults = Vec::new();
        let base =
            BasePlan { seed, security, channel, port, link, turn, clocks, faults, heal_at: span };
        let mut plan = Self { base, ranks, endpoints, credit_bytes, program_demand, outsider };
        plan.add_faults(&mut random);
        if random.one_in(5) {
            let most = narrow(&mut random, datagram);
            plan.base.faults.push((random.below(span), PlannedFault::Narrow { most }));
        }
        plan.base.close();
        plan
    }

    /// Returns the bytes that a stack may keep, except for answers. Per peer: data in flight (a
    /// window, and the message that its last unit belongs to), data queued (requests half of it),
    /// and data unconsumed.
    pub(crate) fn max_memory(&self) -> usize {
        let payload = self.program_demand.max_payload as usize;
        let flows = (self.endpoints * self.endpoints) as usize;
        let window = self.base.channel.max_window_bytes;
        let per_peer = window + (512 << 10) + 4 * payload;
        let unconsumed = flows * (self.credit_bytes as usize + payload);
        (self.ranks as usize - 1) * (per_peer + 2 * unconsumed)
    }

    fn add_faults(&mut self, random: &mut Random) {
        let span = self.base.heal_at;
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
                    let link = Box::new(link_changes(random, &self.base.link));
                    self.base.faults.push((
                        at,
                        PlannedFault::LinkChange { from, to, both: !random.one_in(3), link },
                    ));
                }
                5 => {
                    let sites = random.below((1 << self.ranks) - 2) + 1;
                    self.base.faults.push((at, PlannedFault::Partition { sites, cut: true }));
                    self.base.faults.push((until, PlannedFault::Partition { sites, cut: false }));
                }
                6 => {
                    self.base.faults.push((at, PlannedFault::OneWay { from, to, cut: true }));
                    self.base.faults.push((until, PlannedFault::OneWay { from, to, cut: false }));
                }
                7 | 8 => self.base.faults.push((at, PlannedFault::Compute { rank, span: pause })),
                9 => self.base.faults.push((at, PlannedFault::Freeze { actor: rank, span: pause })),
                10 => {
                    let endpoint = random.below(u64::from(self.endpoints)) as u32;
                    self.base.faults.push((at, PlannedFault::Renew { rank, endpoint }));
                }
                _ => self.add_end(random, at, rank),
            }
        }
        // Faulty links from the start, for some links or all.
        for from in 0..self.ranks {
            for to in (0..self.ranks).filter(|&to| to != from) {
                if random.one_in(2) {
                    let link = Box::new(link_changes(random, &self.base.link));
                    self.base
                        .faults
                        .push((0, PlannedFault::LinkChange { from, to, both: false, link }));
                }
            }
        }
    }

    /// Adds the end of a rank: at most two ranks end, and at least two stay.
    fn add_end(&mut self, random: &mut Random, at: Time, rank: u32) {
        let ends = |step: &PlannedFault| match step {
            PlannedFault::Kill { rank, .. } | PlannedFault::Close { rank } => Some(*rank),
            _ => None,
        };
        let ended: Vec<_> = self.base.faults.iter().filter_map(|(_, step)| ends(step)).collect();
        if ended.contains(&rank) || ended.len() as u32 + 2 >= self.ranks || ended.len() >= 2 {
            return;
        }
        if random.one_in(2) {
            self.base.faults.push((at, PlannedFault::Close { rank }));
            return;
        }
        let known_after = random.magnitude(MILLISECOND, 2 * SECOND);
        self.base.faults.push((at, PlannedFault::Kill { rank, known_after }));
        if random.one_in(2) {
            let later = at + random.below(2 * known_after);
            self.base.faults.push((later, PlannedFault::Restart { rank }));
        }
    }

    fn pair(&self, random: &mut Random) -> (u32, u32) {
        let from = random.below(u64::from(self.ranks)) as u32;
        let other = random.between(1, u64::from(self.ranks) - 1) as u32;
        (from, (from + other) % self.ranks)
    }
}

/// Draws the bytes that a path carries that is narrower than its ends: half of the time no more
/// than Ethernet's.
fn narrow(random: &mut Random, datagram: usize) -> usize {
    let most = if random.one_in(2) { DATAGRAMS[0].min(datagram) } else { datagram };
    random.between(SHORTEST_DATAGRAM as u64, most as u64) as usize
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_leave_two_ranks_and_end_with_healing() {
        for seed in 0..2000 {
            let plan = ClusterPlan::new(seed);
            let ends = |(_, step): &&(Time, PlannedFault)| {
                matches!(step, PlannedFault::Kill { .. } | PlannedFault::Close { .. })
            };
            assert!(
                plan.base.faults.iter().filter(ends).count() as u32 + 2 <= plan.ranks,
                "seed {seed}"
            );
            assert!(
                plan.base.faults.iter().any(|(_, step)| *step == PlannedFault::Heal),
                "seed {seed}"
            );
            assert!(plan.base.port.socket_bytes >= 2 * plan.base.port.mtu, "seed {seed}");
        }
    }

    #[test]
    fn every_kind_of_fault_is_planned() {
        let steps: Vec<_> =
            (0..300).flat_map(|seed| ClusterPlan::new(seed).base.faults).map(|(_, s)| s).collect();
        let has = |test: fn(&PlannedFault) -> bool| steps.iter().any(test);
        assert!(has(|s| matches!(s, PlannedFault::LinkChange { link, .. } if link.loss > 0)));
        assert!(has(|s| matches!(s, PlannedFault::LinkChange { link, .. } if link.duplicate > 0)));
        assert!(has(|s| matches!(s, PlannedFault::LinkChange { link, .. } if link.reorder > 0)));
        assert!(has(|s| matches!(s, PlannedFault::LinkChange { link, .. } if link.corrupt > 0)));
        assert!(has(|s| matches!(s, PlannedFault::LinkChange { link, .. } if link.stale > 0)));
        assert!(has(|s| matches!(s, PlannedFault::LinkChange { link, .. } if link.burst > 0)));
        assert!(has(|s| matches!(s, PlannedFault::Narrow { .. })));
        assert!(has(|s| matches!(s, PlannedFault::Partition { .. })));
        assert!(has(|s| matches!(s, PlannedFault::OneWay { .. })));
        assert!(has(|s| matches!(s, PlannedFault::Compute { .. })));
        assert!(has(|s| matches!(s, PlannedFault::Freeze { .. })));
        assert!(has(|s| matches!(s, PlannedFault::Kill { .. })));
        assert!(has(|s| matches!(s, PlannedFault::Restart { .. })));
        assert!(has(|s| matches!(s, PlannedFault::Close { .. })));
        assert!(has(|s| matches!(s, PlannedFault::Renew { .. })));
    }
}
