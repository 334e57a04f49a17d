//! The outcome of a job, composed by the process that decided about it: from the supervisor's
//! rules and from what each node knows. Pure.

use crate::outcome::{
    DeathReport, Heartbeats, JobEnd, JobOutcome, LossReport, NodeOutcome, RankActivity, RankOutcome,
};
use crate::spec::JobSpec;
use crate::waits::JobWaits;
use clump_control::{
    DeathManner, JobVerdict, OnDeath, ProcessEnd, RankDeath, RankEnd, RankSupervisor,
};
use clump_trace::profile::{FORMAT, MAX_PAIRS};
use clump_trace::{Counter, Intervals, Monitor, PairTraffic, Profile, Snapshot, Summary};
use std::collections::BTreeMap;

/// A node that was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeLoss {
    pub(crate) node: u32,
    pub(crate) pid: u32,
    pub(crate) host: String,
    /// Description of the event, as follows "its agent".
    pub(crate) how: String,
    /// Its ranks that had not ended.
    pub(crate) ranks: Vec<u32>,
}

/// All facts known at the end of a job.
#[derive(Debug)]
pub(crate) struct Ledger<'a> {
    pub(crate) spec: &'a JobSpec,
    pub(crate) watch: &'a RankSupervisor,
    /// Parts by node; `None` for lost nodes.
    pub(crate) parts: Vec<Option<NodeOutcome>>,
    /// Losses in the order in which they happened.
    pub(crate) losses: Vec<NodeLoss>,
    /// Reason why the job could not be started, and its exit code.
    pub(crate) refusal: Option<(String, u8)>,
    pub(crate) started_ns: u64,
    pub(crate) ended_ns: u64,
}

impl Ledger<'_> {
    /// Composes the outcome.
    pub(crate) fn close(mut self) -> JobOutcome {
        let (code, ending) = self.ending();
        let (mut counters, mut ranks, mut hosts) = (Vec::new(), Vec::new(), Vec::new());
        let (mut leftovers, mut survivors, mut waits) = (Vec::new(), Vec::new(), Vec::new());
        let (mut interfaces, mut stacks) = (Vec::new(), Vec::new());
        let (mut traffic, mut intervals) = (Vec::new(), Vec::new());
        let (mut heartbeats, mut virtual_time) = (Vec::new(), None);
        let mut config: BTreeMap<String, String> = BTreeMap::new();
        let parts = std::mem::take(&mut self.parts);
        for (node, part) in (0..).zip(parts) {
            let here = self.spec.ranks_of(node);
            let lost = part.is_none();
            let mut part = part.unwrap_or_default();
            if lost {
                part.host = self.loss_of(node).map(|loss| loss.host.clone()).unwrap_or_default();
                part.counters = here.clone().map(|_| Snapshot::ZERO).collect();
                part.intervals = here.clone().map(|_| Intervals::default()).collect();
            }
            let started = if lost { here.len() } else { part.pids.len() };
            for (at, rank) in here.take(started).enumerate() {
                let RankEnd { end, clean, .. } = self.watch.end_of(rank);
                let pid = part.pids.get(at).copied().unwrap_or(0);
                ranks.push(RankOutcome { pid, end: end.unwrap_or(ProcessEnd::Unknown), clean });
            }
            hosts.push(part.host);
            waits.extend(part.waits);
            counters.extend(self.by_path(part.counters));
            traffic.extend(part.traffic);
            intervals.extend(part.intervals);
            interfaces.extend(part.interfaces);
            stacks.extend(part.stacks);
            heartbeats.extend(part.heartbeats);
            virtual_time = virtual_time.or(part.virtual_time);
            leftovers.extend(part.leftovers);
            survivors.extend(part.survivors);
            for (setting, value) in part.config {
                add(config.entry(setting).or_default(), &value);
            }
        }
        let of_interfaces: Vec<_> =
            interfaces.iter().map(|one: &Monitor| one.network.clone()).collect();
        let anyone_joined = counters.iter().any(|all: &Snapshot| all[Counter::Joined] != 0);
        let ns = self.ended_ns.saturating_sub(self.started_ns);
        let wall_ms = std::time::Duration::from_nanos(ns).as_secs_f64() * 1e3;
        let virtual_ns = virtual_time.as_ref().map(|time| time.ns);
        let summary = anyone_joined.then(|| summary(&counters, &of_interfaces, virtual_ns));
        let matrix = Some(traffic).filter(|pairs| pairs.len() <= MAX_PAIRS);
        let known = (wall_ms, &counters[..], intervals, matrix);
        let monitors = [&interfaces[..], &stacks[..]];
        let profile =
            summary.clone().map(|summary| Box::new(self.profile(summary, known, monitors)));
        let waits = (!waits.is_empty()).then(|| Box::new(JobWaits::join(waits)));
        JobOutcome {
            security: (self.spec.nodes > 1).then(|| self.spec.security.name().into()),
            hosts,
            waits,
            ranks,
            wall_ms,
            leftovers,
            survivors,
            summary,
            profile,
            virtual_time,
            counters,
            interfaces,
            stacks,
            heartbeats: Heartbeats::mean(&heartbeats),
            config,
            ..JobOutcome::without_ranks(code, ending)
        }
    }

    /// Returns the counters of ranks by the paths of their messages. In virtual time ranks of one
    /// machine are on nodes of their own, though their lanes are those of one.
    fn by_path(&self, counters: Vec<Snapshot>) -> Vec<Snapshot> {
        let alone = self.spec.virtual_time.as_ref().map(|time| time.nodes == self.spec.ranks);
        debug_assert!(alone.is_none() || self.spec.nodes == 1, "one machine has all of them");
        match alone {
            Some(true) => counters.iter().map(Snapshot::all_between_nodes).collect(),
            _ => counters,
        }
    }

    /// Composes the profile.
    fn profile(
        &self,
        summary: Summary,
        (wall_ms, counters, intervals, matrix): (
            f64,
            &[Snapshot],
            Vec<Intervals>,
            Option<Vec<PairTraffic>>,
        ),
        [interfaces, stacks]: [&[Monitor]; 2],
    ) -> Profile {
        Profile {
            clump_profile: FORMAT,
            program: self.spec.command_line(),
            node_of: self.spec.modelled_node_of(),
            wall_ms,
            lines: None,
            summary,
            counters: counters.to_vec(),
            intervals,
            matrix,
            interfaces: interfaces.to_vec(),
            stacks: stacks.to_vec(),
        }
    }

    fn ending(&mut self) -> (u8, JobEnd) {
        if let Some((why, code)) = self.refusal.take() {
            return (code, JobEnd::Refused { why, code });
        }
        let doing: Vec<RankActivity> =
            self.parts.iter().flatten().flat_map(|part| part.doing.iter().cloned()).collect();
        let verdict = self.watch.verdict();
        let ending = match (verdict, self.losses.first()) {
            (JobVerdict::Clean, _) => JobEnd::Clean,
            (JobVerdict::Interrupted(signal), _) => {
                JobEnd::Interrupted { signal, doing, killed: self.count(None, |end| end.killed) }
            }
            (JobVerdict::Death(RankDeath { manner: DeathManner::NodeLost, .. }), Some(loss)) => {
                JobEnd::NodeLost(Box::new(self.loss(loss, doing)))
            }
            (JobVerdict::Death(death), _) => JobEnd::Death(Box::new(self.death(death, &doing))),
        };
        (verdict.exit_code(), ending)
    }

    fn death(&self, death: RankDeath, doing: &[RankActivity]) -> DeathReport {
        let RankDeath { rank, manner } = death;
        let is_first = |doing: &&RankActivity| doing.rank == rank;
        let nothing = RankActivity { rank, what: String::new(), for_ms: 0 };
        let node = (0..self.spec.nodes).find(|&node| self.spec.ranks_of(node).contains(&rank));
        let node = node.unwrap_or(0);
        let part = self.parts.get(node as usize).and_then(Option::as_ref);
        let pid = part.and_then(|part| {
            let first = self.spec.ranks_of(node).start;
            part.pids.get((rank - first) as usize).copied()
        });
        DeathReport {
            rank,
            manner,
            pid: pid.unwrap_or(0),
            node,
            host: part.map(|part| part.host.clone()).unwrap_or_default(),
            at_ms: self.at_ms(),
            last: doing.iter().find(is_first).cloned().unwrap_or(nothing),
            others: doing.iter().filter(|doing| !is_first(doing)).cloned().collect(),
            returned: self.count(Some(rank), returned),
            killed: self.count(Some(rank), |end| end.killed),
            continued: self.spec.on_death == OnDeath::Continue,
        }
    }

    fn loss(&self, loss: &NodeLoss, doing: Vec<RankActivity>) -> LossReport {
        LossReport {
            node: loss.node,
            host: loss.host.clone(),
            pid: loss.pid,
            how: loss.how.clone(),
            ranks: loss.ranks.clone(),
            at_ms: self.at_ms(),
            others: doing,
            returned: self.count(None, returned),
            killed: self.count(None, |end| end.killed),
            continued: self.spec.on_death == OnDeath::Continue,
        }
    }

    fn loss_of(&self, node: u32) -> Option<&NodeLoss> {
        self.losses.iter().find(|loss| loss.node == node)
    }

    fn at_ms(&self) -> u64 {
        let at = self.watch.first_death_ns().unwrap_or(self.ended_ns);
        at.saturating_sub(self.started_ns) / 1_000_000
    }

    /// Counts ranks other than `first` by how they ended and whether they were killed.
    fn count(&self, first: Option<u32>, which: fn(RankEnd) -> bool) -> u32 {
        let others = (0..self.spec.ranks).filter(|&rank| Some(rank) != first);
        let ends = others.map(|rank| self.watch.end_of(rank));
        let counted = ends.filter(|end| which(*end)).count();
        u32::try_from(counted).unwrap_or(u32::MAX)
    }
}

/// Sums up counters, of the lives of the ranks or of a time in ns that is virtual.
fn summary(counters: &[Snapshot], interfaces: &[Snapshot], virtual_ns: Option<u64>) -> Summary {
    debug_assert!(virtual_ns.is_none() || interfaces.is_empty(), "none in virtual time");
    match virtual_ns {
        Some(ns) => Summary::of(counters, interfaces, ns),
        None => Summary::of_lives(counters, interfaces),
    }
}

fn returned(end: RankEnd) -> bool {
    !end.killed && matches!(end.end, Some(ProcessEnd::Exit(code)) if code != 0)
}

/// Merges one more node's value of a setting: nodes may have different drivers.
fn add(all: &mut String, value: &str) {
    if all != value && !all.split(", ").any(|one| one == value) {
        let comma = if all.is_empty() { "" } else { ", " };
        *all += &format!("{comma}{value}");
    }
}
