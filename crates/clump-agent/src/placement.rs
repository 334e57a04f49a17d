//! CPUs of a node's ranks.
//!
//! Two ranks that the scheduler puts on one CPU take turns at it: a round trip then takes
//! microseconds instead of a fifth of one, until the load is balanced some milliseconds later. So
//! where every rank of the machine can have a CPU of its own, each agent claims one for each of
//! its ranks, machine-wide and for as long as it lives ([`CpuClaim`]): neither virtual nodes of
//! one job nor two jobs share one.
//!
//! [`Bind::Cores`] binds a rank when it starts, and it stays bound, with all that it starts.
//! [`Bind::Spread`] binds it when it joins, so that scripts and their children are free, and only
//! while its program has one thread: threads and children inherit the CPUs of their creator, and
//! must not be squeezed on one. The agent checks for threads, at first often, then four times a
//! second, and unbinds a rank that has some. Threads of the library are moved away from the rank's
//! CPU. (Unbinding a rank when it has started was measured: the first time that it sleeps, the
//! kernel wakes it on its peer's CPU.)

use crate::spec::{Bind, JobSpec, NodePlan};
use clump_os::claim::CpuClaim;
use clump_os::procfs;
use clump_os::topology::{self, Topology};
use std::ops::Range;

/// Delay of the first check after a rank has joined; each later one comes after as long as the
/// rank has been bound.
const FIRST_LOOK_NS: u64 = 1_000_000;
/// Longest time between two checks.
const LONGEST_LOOK_NS: u64 = 250_000_000;
/// CPU pressure above which ranks are not spread. Bound ranks run together only when both of their
/// CPUs happen to be given to them: on a machine whose CPUs are all in use 2,000 round trips took
/// 40 us each, and 10 us where both ranks took turns at one CPU.
const BUSY_PERCENT: f64 = 40.0;
/// Prefix of the names of the library's own threads.
const OWN_THREADS: &str = "clump-";

/// CPUs of a node's ranks.
#[derive(Debug, Default)]
pub(crate) struct Placement {
    /// The CPU of every rank of the node, in order; empty: any.
    cpus: Vec<usize>,
    /// CPUs of a rank that is unbound; empty: ranks are bound for ever.
    wider: Vec<usize>,
    /// Ranks that are bound until they have threads.
    bound: Vec<BoundRank>,
    /// Description of the placement, for reports.
    said: String,
    /// Held until the node's ranks have ended.
    _claims: Vec<CpuClaim>,
}

/// A rank that is bound.
#[derive(Debug)]
struct BoundRank {
    pid: u32,
    cpu: usize,
    since_ns: u64,
    look_ns: u64,
}

impl Placement {
    /// Chooses CPUs for the ranks of `plan`'s node. Called before the node enters namespaces of
    /// its own, where claims are separate.
    pub(crate) fn choose(spec: &JobSpec, plan: &NodePlan) -> Self {
        let Ok(allowed) = topology::affinity() else { return Self::none("no CPUs are known") };
        let order = Topology::read().restricted_to(&allowed).spread();
        let here = spec.ranks_of(plan.node);
        let first = plan.sharing.before;
        let places = first..first + here.len() as u32;
        let fits = plan.sharing.ranks as usize <= topology::usable_cores().min(order.len());
        if let Some(place) = plan.job_id.checked_rem(order.len() as u64)
            && spec.virtual_time.is_some()
        {
            // One rank runs at a time, and wakes the next: soonest on the same core.
            let cpu = order[place as usize];
            return Self::of("one core", here.map(|_| cpu).collect(), Vec::new(), Vec::new());
        }
        match spec.bind {
            Bind::None => Self::none("not asked for"),
            // Asked for by name: ranks of one job share CPUs evenly.
            Bind::Cores if !fits && !order.is_empty() => {
                let cpus = places.map(|place| order[place as usize % order.len()]).collect();
                Self::of("cores", cpus, Vec::new(), Vec::new())
            }
            Bind::Spread if !fits => Self::none("more ranks than cores"),
            Bind::Spread if plan.sharing.ranks == 1 => Self::none("one rank"),
            Bind::Spread
                if topology::cpu_pressure().is_some_and(|percent| percent > BUSY_PERCENT) =>
            {
                Self::none("the machine is busy")
            }
            Bind::Cores | Bind::Spread => {
                // Without claims the owner of a CPU is unknown.
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
        Self { cpus, wider, bound: Vec::new(), said, _claims: claims }
    }

    /// Returns the CPUs that rank `local` of the node starts on; empty: any.
    pub(crate) fn start_of(&self, local: usize) -> &[usize] {
        let cpus = if self.wider.is_empty() { &self.cpus[..] } else { &[] };
        cpus.get(local..=local).unwrap_or_default()
    }

    /// Binds rank `local`, which has joined as process `pid`, unless it has threads already.
    pub(crate) fn on_joined(&mut self, local: usize, pid: u32, now_ns: u64) {
        let Some(&cpu) = self.cpus.get(local).filter(|_| !self.wider.is_empty()) else { return };
        let alone = procfs::threads(pid).len() == 1;
        // A process that has ended since needs no CPU.
        if alone && topology::set_affinity_of(pid, &[cpu]).is_ok() {
            let look_ns = now_ns.saturating_add(FIRST_LOOK_NS);
            self.bound.push(BoundRank { pid, cpu, since_ns: now_ns, look_ns });
        }
        debug_assert!(self.bound.len() <= self.cpus.len(), "a rank joins once");
    }

    /// Returns the time for the next call of [`Placement::handle_timeout`].
    pub(crate) fn next_deadline_ns(&self) -> Option<u64> {
        self.bound.iter().map(|bound| bound.look_ns).min()
    }

    /// Checks the ranks that are due, and unbinds those that have threads or children.
    pub(crate) fn handle_timeout(&mut self, now_ns: u64) {
        let wider = &self.wider;
        self.bound.retain_mut(|bound| {
            if bound.look_ns > now_ns {
                return true;
            }
            let pause = (now_ns - bound.since_ns).clamp(FIRST_LOOK_NS, LONGEST_LOOK_NS);
            bound.look_ns = now_ns.saturating_add(pause);
            bound.keeps(wider)
        });
    }

    /// Returns the placement in words: `spread 0 1`, `cores 0 1`, `none (more ranks than cores)`.
    pub(crate) fn said(&self) -> &str {
        &self.said
    }
}

impl BoundRank {
    /// Returns true if the rank stays bound; unbinds threads that must not be.
    fn keeps(&self, wider: &[usize]) -> bool {
        let threads = procfs::threads(self.pid);
        let is_own = |name: &str| name.starts_with(OWN_THREADS);
        let alone = threads.iter().all(|(thread, name)| *thread == self.pid || is_own(name));
        let children = procfs::children(self.pid);
        let stays = !threads.is_empty() && alone && children.is_empty();
        for (thread, _) in &threads {
            if !stays || *thread != self.pid {
                self.let_go(*thread, wider);
            }
        }
        for child in children {
            procfs::threads(child).iter().for_each(|(thread, _)| self.let_go(*thread, wider));
        }
        stays
    }

    /// Unbinds a thread, unless it has chosen CPUs of its own.
    fn let_go(&self, thread: u32, wider: &[usize]) {
        if topology::affinity_of(thread).is_ok_and(|cpus| cpus == [self.cpu]) {
            // One that has ended since needs no CPUs.
            let _ = topology::set_affinity_of(thread, wider);
        }
    }
}

/// Takes a CPU for every one of `places`: of `order`, the one at the same index, or the next that
/// is free. `None`, and nothing taken, if there are too few.
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
    use clump_os::process;

    /// Returns the CPUs that jobs of `places` ranks each get of `order`, one after the other.
    fn jobs(order: &[usize], places: &[Range<u32>]) -> Vec<Option<Vec<usize>>> {
        let mut busy = Vec::new();
        let one = |places: &Range<u32>| {
            let mut mine = Vec::new();
            let got = take_each(order, places.clone(), |cpu| {
                let free = !busy.contains(&cpu) && !mine.contains(&cpu);
                free.then(|| mine.push(cpu)).map(|()| cpu)
            });
            busy.extend(got.iter().flatten());
            got
        };
        places.iter().map(one).collect()
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
        assert_eq!(jobs(&[], &[0..1, 0..2]), [None, None]);
    }

    #[test]
    fn a_node_claims_for_its_ranks_until_it_goes() {
        let mut spec = JobSpec::new("prog", Vec::new(), 1);
        let plan = NodePlan::new(&spec, 0, 1, 1000);
        spec.bind = Bind::None;
        assert!(Placement::choose(&spec, &plan).start_of(0).is_empty());
        spec.bind = Bind::Cores;
        let placed = Placement::choose(&spec, &plan);
        match placed.start_of(0) {
            // Other running jobs have claimed all CPUs.
            [] => assert!(placed.said().starts_with("none ("), "{placed:?}"),
            [cpu] => assert!(CpuClaim::take(*cpu).unwrap().is_none(), "claimed: {placed:?}"),
            more => panic!("one rank on CPUs {more:?}"),
        }
        assert!(placed.start_of(1).is_empty());
    }

    #[test]
    fn more_ranks_than_cores_are_bound_only_when_asked_to() {
        let mut spec = JobSpec::new("prog", Vec::new(), 10_000);
        let plan = NodePlan::new(&spec, 0, 1, 1000);
        spec.bind = Bind::Spread;
        assert_eq!(Placement::choose(&spec, &plan).said(), "none (more ranks than cores)");
        spec.bind = Bind::Cores;
        assert_eq!(Placement::choose(&spec, &plan).cpus.len(), 10_000);
    }

    #[test]
    fn a_rank_is_bound_when_it_joins_and_let_go_when_it_has_threads() {
        let allowed = topology::affinity().unwrap();
        let cpu = allowed[0];
        let mut placed = Placement::of("spread", vec![cpu; 2], allowed.clone(), Vec::new());
        assert!(placed.start_of(0).is_empty(), "free until it joins");
        let child = process::start(&process::Program::new("sleep", ["999".into()])).unwrap();
        placed.on_joined(0, child.pid, 0);
        assert_eq!(topology::affinity_of(child.pid).unwrap(), [cpu]);
        assert_eq!(placed.next_deadline_ns(), Some(FIRST_LOOK_NS));
        placed.handle_timeout(FIRST_LOOK_NS);
        assert_eq!(topology::affinity_of(child.pid).unwrap(), [cpu], "it has one thread");
        assert_eq!(placed.next_deadline_ns(), Some(2 * FIRST_LOOK_NS));

        // This process has threads: those of the tests.
        let me = process::own_pid();
        placed.on_joined(1, me, 0);
        assert_eq!(placed.bound.len(), 1, "one that has threads already is left alone");
        let before = topology::affinity_of(me).unwrap();
        topology::set_affinity_of(me, &[cpu]).unwrap();
        placed.bound.push(BoundRank { pid: me, cpu, since_ns: 0, look_ns: 0 });
        placed.handle_timeout(FIRST_LOOK_NS);
        assert_eq!(topology::affinity_of(me).unwrap(), before, "it may run anywhere again");
        assert_eq!(placed.bound.len(), 1);

        process::signal(child.pid, clump_os::signal::KILL).unwrap();
        process::wait_for(child.pid).unwrap();
        placed.handle_timeout(1 << 40);
        assert_eq!(placed.next_deadline_ns(), None, "nobody looks at a rank that is gone");
    }
}
