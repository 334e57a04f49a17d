//! Which CPUs the ranks of a node start on.
//!
//! Where every rank of the machine can have a CPU of its own, each agent claims one for each of its ranks,
//! machine-wide and for as long as it lives ([`CpuClaim`]): so neither virtual nodes of one job nor two
//! jobs start ranks on the same one. A rank that is *spread* starts there and may move later, and so may
//! the threads that it starts; a *bound* one stays.

use crate::spec::{Bind, JobSpec, NodePlan};
use clump_os::claim::CpuClaim;
use clump_os::topology::{self, Topology};
use std::ops::Range;

/// CPUs of a node's ranks.
#[derive(Debug, Default)]
pub(crate) struct Placement {
    /// The CPU of every rank of the node, in order; empty: wherever the scheduler likes.
    cpus: Vec<usize>,
    /// Where a rank may run after it has started; empty: where it started.
    wider: Vec<usize>,
    /// What was done, for reports.
    said: String,
    /// Held until the node's ranks have ended.
    _claims: Vec<CpuClaim>,
}

impl Placement {
    /// Chooses CPUs for the ranks of `plan`'s node. Called before the node enters namespaces of its own,
    /// which have claims of their own.
    pub(crate) fn choose(spec: &JobSpec, plan: &NodePlan) -> Self {
        let Ok(allowed) = topology::affinity() else { return Self::none("no CPUs are known") };
        let order = Topology::read().restricted_to(&allowed).spread();
        let here = spec.ranks_of(plan.node);
        let places = here.start - plan.sharing.start..here.end - plan.sharing.start;
        let fits = plan.sharing.len() <= topology::usable_cores().min(order.len());
        match spec.bind {
            Bind::None => Self::none("not asked for"),
            // Asked for by name: ranks of one job share CPUs evenly.
            Bind::Cores if !fits && !order.is_empty() => {
                let cpus = places.map(|place| order[place as usize % order.len()]).collect();
                Self::of("cores", cpus, Vec::new(), Vec::new())
            }
            Bind::Spread if !fits => Self::none("more ranks than cores"),
            Bind::Cores | Bind::Spread => {
                // Without claims there is no telling whose a CPU is.
                let free = |cpu| CpuClaim::take(cpu).ok().flatten();
                let Some(claims) = take_each(&order, places, free) else {
                    return Self::none("other jobs have the cores");
                };
                let cpus = claims.iter().map(CpuClaim::cpu).collect();
                match spec.bind {
                    Bind::Spread => Self::of("spread", cpus, allowed, claims),
                    _ => Self::of("cores", cpus, Vec::new(), claims),
                }
            }
        }
    }

    fn none(why: &str) -> Self {
        Self { said: format!("none ({why})"), ..Self::default() }
    }

    fn of(how: &str, cpus: Vec<usize>, wider: Vec<usize>, claims: Vec<CpuClaim>) -> Self {
        let said = cpus.iter().fold(how.to_owned(), |text, cpu| format!("{text} {cpu}"));
        Self { cpus, wider, said, _claims: claims }
    }

    /// The CPUs that rank `local` of the node starts on; empty: any.
    pub(crate) fn start_of(&self, local: usize) -> &[usize] {
        self.cpus.get(local..=local).unwrap_or_default()
    }

    /// Lets a rank that has started move, if it may.
    pub(crate) fn started(&self, pid: u32) {
        if !self.wider.is_empty() {
            // A rank that has ended since needs no CPUs.
            let _ = topology::set_affinity_of(pid, &self.wider);
        }
    }

    /// What was done, in words: `spread 0 1`, `cores 0 1`, `none (more ranks than cores)`.
    pub(crate) fn said(&self) -> &str {
        &self.said
    }
}

/// Takes a CPU for every one of `places`: of `order`, the one at the same place, or the next that is free.
/// `None`, and nothing taken, where there are too few.
fn take_each<T>(
    order: &[usize],
    places: Range<u32>,
    mut take: impl FnMut(usize) -> Option<T>,
) -> Option<Vec<T>> {
    let mut left = order.iter().cycle().skip(places.start as usize).take(order.len());
    let taken: Vec<T> =
        places.clone().filter_map(|_| left.by_ref().find_map(|&cpu| take(cpu))).collect();
    (taken.len() == places.len()).then_some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What jobs of `places` ranks each get of `order`, one after the other.
    fn jobs(order: &[usize], places: &[Range<u32>]) -> Vec<Option<Vec<usize>>> {
        let mut busy = Vec::new();
        let mut one = |places: &Range<u32>| {
            let mut mine = Vec::new();
            let got = take_each(order, places.clone(), |cpu| {
                let free = !busy.contains(&cpu) && !mine.contains(&cpu);
                free.then(|| mine.push(cpu)).map(|()| cpu)
            });
            busy.extend(got.iter().flatten());
            got
        };
        places.iter().map(|places| one(places)).collect()
    }

    #[test]
    fn jobs_and_nodes_get_cpus_that_nobody_has() {
        // Two cores of two threads: first one thread of each core.
        let order = [0, 1, 2, 3];
        let some = |cpus: &[usize]| Some(cpus.to_vec());
        assert_eq!(jobs(&order, &[0..2, 0..2, 0..1]), [some(&[0, 1]), some(&[2, 3]), None]);
        // Two nodes of one job.
        assert_eq!(jobs(&order, &[0..2, 2..4]), [some(&[0, 1]), some(&[2, 3])]);
        assert_eq!(jobs(&order, &[2..4, 0..2]), [some(&[2, 3]), some(&[0, 1])], "in any order");
        // A job that does not fit takes nothing, so that the next one can.
        assert_eq!(jobs(&order, &[0..3, 0..2, 0..1]), [some(&[0, 1, 2]), None, some(&[3])]);
        assert_eq!(jobs(&[], &[0..1]), [None]);
    }

    #[test]
    fn a_node_claims_for_its_ranks_until_it_goes() {
        let mut spec = JobSpec::new("prog", Vec::new(), 1);
        let plan = NodePlan::virtual_node(&spec, 0, 1, 1000);
        for bind in [Bind::None, Bind::Spread, Bind::Cores] {
            spec.bind = bind;
            let placed = Placement::choose(&spec, &plan);
            match placed.start_of(0) {
                [] => assert!(placed.said().starts_with("none ("), "{placed:?}"),
                [cpu] => {
                    assert_ne!(bind, Bind::None);
                    assert!(CpuClaim::take(*cpu).unwrap().is_none(), "claimed: {placed:?}");
                    assert_eq!(placed.wider.is_empty(), bind == Bind::Cores);
                }
                more => panic!("one rank on CPUs {more:?}"),
            }
            assert!(placed.start_of(1).is_empty());
        }
    }

    #[test]
    fn more_ranks_than_cores_are_bound_only_when_asked_to() {
        let mut spec = JobSpec::new("prog", Vec::new(), 10_000);
        let plan = NodePlan::virtual_node(&spec, 0, 1, 1000);
        spec.bind = Bind::Spread;
        assert_eq!(Placement::choose(&spec, &plan).said(), "none (more ranks than cores)");
        spec.bind = Bind::Cores;
        assert_eq!(Placement::choose(&spec, &plan).cpus.len(), 10_000);
    }
}
