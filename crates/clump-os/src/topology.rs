//! Cores, sibling threads, caches, memory nodes, and how much of them this process may use.
//!
//! A reader of `/sys` and `/proc` (no library): missing information is left out, never an error,
//! since containers hide parts of it. Placement of ranks uses [`Topology::spread`]; the choice of
//! the spin time uses [`usable_cores`].

use crate::error::{OsError, Result};
use std::path::{Path, PathBuf};

/// One processor as the scheduler sees it: a hardware thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpu {
    /// The kernel's number of it.
    pub id: usize,
    /// Hardware threads of the same core, itself among them, ascending.
    pub siblings: Vec<usize>,
    /// The socket.
    pub package: usize,
    /// The memory node whose memory is nearest.
    pub node: usize,
}

/// A cache and the CPUs that share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// 1, 2, 3.
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Size of a line in bytes.
    pub line_bytes: u64,
    /// The CPUs that share it, ascending.
    pub cpus: Vec<usize>,
}

/// The machine as this process may see it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    /// Every online CPU, ascending.
    pub cpus: Vec<Cpu>,
    /// Every distinct cache, nearest level first.
    pub caches: Vec<Cache>,
}

impl Topology {
    /// Reads the topology of this machine.
    pub fn read() -> Self {
        Self::read_below(Path::new("/sys/devices/system"))
    }

    /// Reads a tree laid out as `/sys/devices/system`.
    pub fn read_below(system: &Path) -> Self {
        let online = text(&system.join("cpu/online"))
            .map(|list| cpu_list(&list))
            .filter(|cpus| !cpus.is_empty())
            .unwrap_or_else(|| affinity().unwrap_or_else(|_| vec![0]));
        let nodes = memory_nodes(system);
        let cpus = online.iter().map(|&id| read_cpu(system, id, &nodes)).collect();
        let mut caches: Vec<Cache> = online
            .iter()
            .flat_map(|&id| read_caches(&system.join(format!("cpu/cpu{id}"))))
            .collect();
        caches.sort_by(|a, b| (a.level, &a.kind, &a.cpus).cmp(&(b.level, &b.kind, &b.cpus)));
        caches.dedup();
        Self { cpus, caches }
    }

    /// Returns the topology restricted to `allowed` CPUs.
    pub fn restricted_to(mut self, allowed: &[usize]) -> Self {
        self.cpus.retain(|cpu| allowed.contains(&cpu.id));
        for cpu in &mut self.cpus {
            cpu.siblings.retain(|id| allowed.contains(id));
        }
        for cache in &mut self.caches {
            cache.cpus.retain(|id| allowed.contains(id));
        }
        self.caches.retain(|cache| !cache.cpus.is_empty());
        self
    }

    /// Returns the number of physical cores: CPUs that share one count once.
    pub fn cores(&self) -> usize {
        self.cpus.iter().filter(|cpu| cpu.siblings.first().is_none_or(|&low| low == cpu.id)).count()
    }

    /// Returns the number of memory nodes that have a CPU here.
    pub fn nodes(&self) -> usize {
        distinct(self.cpus.iter().map(|cpu| cpu.node))
    }

    /// Returns the number of sockets.
    pub fn packages(&self) -> usize {
        distinct(self.cpus.iter().map(|cpu| cpu.package))
    }

    /// Returns the order in which to give CPUs to ranks: node by node, first one thread of every
    /// core of the machine, then the second threads, so that two ranks share a core only when cores
    /// run out.
    pub fn spread(&self) -> Vec<usize> {
        let mut order: Vec<(usize, usize, usize)> = self
            .cpus
            .iter()
            .map(|cpu| {
                let turn = cpu.siblings.iter().position(|&id| id == cpu.id).unwrap_or(0);
                (turn, cpu.node, cpu.id)
            })
            .collect();
        order.sort_unstable();
        order.into_iter().map(|(_, _, id)| id).collect()
    }

    /// Returns true if `a` and `b` are hardware threads of one core.
    pub fn siblings(&self, a: usize, b: usize) -> bool {
        self.cpus.iter().any(|cpu| cpu.id == a && cpu.siblings.contains(&b))
    }
}

/// Returns the CPUs on which the scheduler may run this thread, ascending (`sched_getaffinity`).
///
/// # Errors
/// A filter refuses the call.
pub fn affinity() -> Result<Vec<usize>> {
    cpus_of(None)
}

/// Returns the CPUs of one thread of any process; the number of a process is that of its first
/// thread.
///
/// # Errors
/// There is no such thread.
pub fn affinity_of(thread: u32) -> Result<Vec<usize>> {
    cpus_of(Some(numbered(thread)?))
}

fn cpus_of(thread: Option<rustix::process::Pid>) -> Result<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(thread)
        .map_err(|e| OsError::new("reading the CPU affinity", e))?;
    Ok((0..rustix::thread::CpuSet::MAX_CPU).filter(|&id| set.is_set(id)).collect())
}

/// Confines this thread, and threads and processes that it starts from now on, to `cpus`
/// (`sched_setaffinity`).
///
/// # Errors
/// None of them is a CPU that this process may use.
pub fn set_affinity(cpus: &[usize]) -> Result<()> {
    confine(None, cpus)
}

/// Confines one thread of any process to `cpus`; the number of a process is that of its first
/// thread.
///
/// # Errors
/// There is no such thread, or it is another user's.
pub fn set_affinity_of(thread: u32, cpus: &[usize]) -> Result<()> {
    confine(Some(numbered(thread)?), cpus)
}

fn numbered(thread: u32) -> Result<rustix::process::Pid> {
    let missing = || OsError::new(format!("thread {thread}"), rustix::io::Errno::SRCH);
    i32::try_from(thread).ok().and_then(rustix::process::Pid::from_raw).ok_or_else(missing)
}

fn confine(thread: Option<rustix::process::Pid>, cpus: &[usize]) -> Result<()> {
    let what = || format!("binding to CPUs {cpus:?}");
    let mut set = rustix::thread::CpuSet::new();
    for &id in cpus {
        if id >= rustix::thread::CpuSet::MAX_CPU {
            return Err(OsError::new(what(), rustix::io::Errno::INVAL));
        }
        set.set(id);
    }
    rustix::thread::sched_setaffinity(thread, &set).map_err(|e| OsError::new(what(), e))
}

/// Returns the CPU time that the control group grants, in CPUs, or `None` where it sets no limit.
pub fn cpu_quota() -> Option<f64> {
    let groups = text(Path::new("/proc/self/cgroup"))?;
    quota_below(Path::new("/sys/fs/cgroup"), &groups)
}

/// Returns the share of the last ten seconds in which some thread of the machine waited for a CPU,
/// in percent; `None` where the kernel does not report it (pressure stall information).
pub fn cpu_pressure() -> Option<f64> {
    pressure(&text(Path::new("/proc/pressure/cpu"))?)
}

/// Reads `some avg10=1.50 avg60=...`.
fn pressure(table: &str) -> Option<f64> {
    let some = table.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split(' ').find_map(|field| field.strip_prefix("avg10="))?.parse().ok()
}

/// Returns how many ranks can run at the same time here: affinity and quota taken together, at
/// least 1.
pub fn usable_cores() -> usize {
    let allowed = affinity().map_or(1, |cpus| cpus.len());
    usable(allowed, cpu_quota())
}

/// Returns [`usable_cores`] from its two inputs. A fraction of a core does not count: a rank that
/// spins on half a core is stopped by the kernel for half of every period.
fn usable(allowed: usize, quota: Option<f64>) -> usize {
    // The cast saturates, and a quota above usize::MAX cores limits nothing.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let granted = quota.map_or(usize::MAX, |cores| cores as usize);
    allowed.min(granted).max(1)
}

/// Returns the numbers of a kernel CPU list such as `0-3,8,10-11`, ascending; parts that are no
/// numbers are left out.
pub fn cpu_list(list: &str) -> Vec<usize> {
    // No kernel supports more CPUs; a garbled upper end must not become a gigabyte of numbers.
    const MAX_COUNT: usize = 1 << 16;
    let mut cpus = Vec::new();
    for part in list.trim().split(',').map(str::trim) {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(low), Ok(high)) = (low.parse::<usize>(), high.parse::<usize>()) {
            cpus.extend(low..=high.min(MAX_COUNT));
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

fn distinct(numbers: impl Iterator<Item = usize>) -> usize {
    let mut all: Vec<usize> = numbers.collect();
    all.sort_unstable();
    all.dedup();
    all.len()
}

fn text(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

fn number<T: std::str::FromStr>(path: &Path) -> Option<T> {
    text(path)?.trim().parse().ok()
}

/// Returns memory nodes with the CPUs of each.
fn memory_nodes(system: &Path) -> Vec<(usize, Vec<usize>)> {
    let Some(nodes) = text(&system.join("node/online")) else { return Vec::new() };
    cpu_list(&nodes)
        .into_iter()
        .filter_map(|node| {
            let cpus = text(&system.join(format!("node/node{node}/cpulist")))?;
            Some((node, cpu_list(&cpus)))
        })
        .collect()
}

fn read_cpu(system: &Path, id: usize, nodes: &[(usize, Vec<usize>)]) -> Cpu {
    let dir = system.join(format!("cpu/cpu{id}/topology"));
    // `core_cpus_list` is the name since Linux 5.4; older kernels have `thread_siblings_list`.
    let siblings = text(&dir.join("core_cpus_list"))
        .or_else(|| text(&dir.join("thread_siblings_list")))
        .map(|list| cpu_list(&list))
        .filter(|list| list.contains(&id))
        .unwrap_or_else(|| vec![id]);
    let package = number(&dir.join("physical_package_id")).unwrap_or(0);
    let node = nodes.iter().find(|(_, cpus)| cpus.contains(&id)).map_or(0, |(node, _)| *node);
    Cpu { id, siblings, package, node }
}

fn read_caches(cpu: &Path) -> Vec<Cache> {
    let indexes = (0..16).map(|i| cpu.join(format!("cache/index{i}")));
    indexes.take_while(|dir| dir.is_dir()).filter_map(|dir| read_cache(&dir)).collect()
}

fn read_cache(dir: &Path) -> Option<Cache> {
    Some(Cache {
        level: number(&dir.join("level"))?,
        kind: text(&dir.join("type"))?.trim().to_owned(),
        bytes: size(&text(&dir.join("size"))?)?,
        line_bytes: number(&dir.join("coherency_line_size")).unwrap_or(64),
        cpus: cpu_list(&text(&dir.join("shared_cpu_list"))?),
    })
}

/// Returns the bytes of `512K`, `32M`, `1G` or a plain number.
fn size(written: &str) -> Option<u64> {
    let written = written.trim();
    let (digits, unit) = match written.as_bytes().last()? {
        b'K' => (&written[..written.len() - 1], 1 << 10),
        b'M' => (&written[..written.len() - 1], 1 << 20),
        b'G' => (&written[..written.len() - 1], 1 << 30),
        _ => (written, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// Returns the tightest CPU limit on the way from this process's group up to the root of the
/// hierarchy.
fn quota_below(root: &Path, groups: &str) -> Option<f64> {
    let mut tightest: Option<f64> = None;
    let mut take = |quota: Option<f64>| {
        tightest = match (tightest, quota) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    };
    for line in groups.lines() {
        // hierarchy-ID:controllers:path, cgroups(7); the unified hierarchy names no controllers.
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let unified = controllers.is_empty();
        if !unified && !controllers.split(',').any(|c| c == "cpu") {
            continue;
        }
        let top = if unified { root.to_owned() } else { root.join(controllers) };
        for group in ancestors(&top, path) {
            take(if unified { quota_v2(&group) } else { quota_v1(&group) });
        }
    }
    tightest
}

/// Returns `top/a/b`, `top/a`, `top`, for the path `/a/b`. Inside a container `/a/b` may not be
/// visible.
fn ancestors(top: &Path, path: &str) -> Vec<PathBuf> {
    let group = top.join(path.trim_start_matches('/'));
    group.ancestors().take_while(|dir| dir.starts_with(top)).map(Path::to_owned).collect()
}

/// Reads `cpu.max`, which is `MAX PERIOD`, or `max PERIOD` for no limit.
fn quota_v2(group: &Path) -> Option<f64> {
    let max = text(&group.join("cpu.max"))?;
    let (quota, period) = max.trim().split_once(' ')?;
    ratio(quota.parse().ok()?, period.parse().ok()?)
}

fn quota_v1(group: &Path) -> Option<f64> {
    ratio(number(&group.join("cpu.cfs_quota_us"))?, number(&group.join("cpu.cfs_period_us"))?)
}

fn ratio(quota_us: f64, period_us: f64) -> Option<f64> {
    (quota_us > 0.0 && period_us > 0.0).then(|| quota_us / period_us)
}

#[cfg(test)]
mod tests;
