//! What the agent tells the launcher at the end.

use super::{Agent, Scene, number};
use crate::outcome::{DeathReport, Doing, End, Ending, JobOutcome, Manner, RankOutcome};
use crate::rank::Refusal;
use crate::spec::OnDeath;
use crate::sweep;
use clump_os::{process, procfs};
use clump_trace::{Counter, Summary};
use std::collections::BTreeMap;
use std::time::Duration;

impl Agent {
    pub(super) fn outcome(&mut self) -> JobOutcome {
        let counters = crate::scene::counters(&self.node.memory);
        let ranks: Vec<RankOutcome> = (0..number(self.ranks.len()))
            .map(|rank| {
                let (end, clean, _) = self.watch.end_of(rank);
                let pid = self.ranks[rank as usize].child.pid;
                RankOutcome { pid, end: end.unwrap_or(End::Unknown), clean }
            })
            .collect();
        let mut config: BTreeMap<String, String> =
            self.node.config.entries().into_iter().map(|e| (e.key.name.into(), e.value)).collect();
        config.insert("spin_ns".into(), self.node.patience.spin_ns.to_string());
        config.insert("yield_ns".into(), self.node.patience.yield_ns.to_string());
        let (code, ending) = self.ending();
        let survivors = procfs::descendants(process::own_pid());
        let anyone_joined = counters.iter().any(|all| all[Counter::Joined] != 0);
        JobOutcome {
            code,
            ending,
            ranks,
            wall_ms: Duration::from_nanos(self.ended_ns - self.started_ns).as_secs_f64() * 1e3,
            leftovers: self.leftovers.iter().map(sweep::describe).collect(),
            survivors: survivors.iter().map(sweep::describe).collect(),
            summary: anyone_joined.then(|| Summary::of_lives(&counters)),
            counters,
            config,
        }
    }

    fn ending(&mut self) -> (u8, Ending) {
        if let Some(Refusal { why, code }) = self.refusal.take() {
            return (code, Ending::Refused { why, code });
        }
        let scene = self.scene.take().unwrap_or(Scene { at_ns: self.ended_ns, doing: Vec::new() });
        let first = self.watch.first_death();
        let count = |which: fn(Option<End>, bool) -> bool| {
            let ranks =
                (0..number(self.ranks.len())).filter(|r| first.is_none_or(|d| d.rank != *r));
            let ends = ranks.map(|rank| self.watch.end_of(rank));
            number(ends.filter(|(end, _, killed)| which(*end, *killed)).count())
        };
        let killed = count(|_, killed| killed);
        if let Some(death) = first {
            let rank = death.rank;
            let is_first = |doing: &Doing| doing.rank == rank;
            let nothing = Doing { rank, what: String::new(), for_ms: 0 };
            let others = scene.doing.iter().filter(|doing| !is_first(doing)).cloned().collect();
            let manner = Manner::from(death.how);
            let report = DeathReport {
                rank,
                manner,
                pid: self.ranks.get(rank as usize).map_or(0, |rank| rank.child.pid),
                node: 0,
                host: process::host_name(),
                at_ms: scene.at_ns.saturating_sub(self.started_ns) / 1_000_000,
                last: scene.doing.iter().find(|doing| is_first(doing)).cloned().unwrap_or(nothing),
                others,
                returned: count(|end, killed| {
                    !killed && matches!(end, Some(End::Exit(code)) if code != 0)
                }),
                killed,
                continued: self.spec.on_death == OnDeath::Continue,
            };
            return (manner.exit_code(), Ending::Death(Box::new(report)));
        }
        if let Some(signal) = self.watch.interrupted() {
            let ending = Ending::Interrupted { signal, doing: scene.doing, killed };
            return (128_u8.saturating_add(signal), ending);
        }
        (0, Ending::Clean)
    }
}
