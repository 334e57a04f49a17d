//! Verdicts on facts: each function checks one feature, and reports its effect on clump.

use super::amount::bytes;
use super::facts::{Attempt, Facts};
use super::finding::{Finding, Verdict, ok};
use super::limits;
use clump_agent::MAX_LISTENERS;
use clump_os::printable::counted;
use clump_os::probe;

/// Oldest kernel with everything that the agent relies on: pidfd_open is of 5.3, and waiting on one
/// by waitid of 5.4.
const OLDEST: (u32, u32) = (5, 4);

/// Runs every check, in the order of the page.
pub fn all(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut area = |area: &'static str, found: Vec<Finding>| {
        findings.extend(found.into_iter().map(|finding| Finding { area, ..finding }));
    };
    area("cores and clock", vec![processor(facts), cores(facts), siblings(facts), cycles(facts)]);
    area("memory", vec![memory(facts), shared_huge(facts), reserved_huge(facts)]);
    area(
        "kernel",
        vec![version(facts), sealed(facts), pidfd(facts), futex(facts), membarrier(facts)],
    );
    area("limits", limits::limits(facts));
    area("between nodes", vec![udp(facts), packet(facts), xdp(facts)]);
    area("laboratory and tests", vec![namespaces(facts), tunnels(facts), counters(facts)]);
    area("companions", companions(facts));
    findings
}

fn processor(facts: &Facts) -> Finding {
    let name = facts.processor.as_deref().unwrap_or(&facts.kernel.1);
    let last = facts.machine.caches.iter().filter(|c| c.kind == "Unified").max_by_key(|c| c.level);
    let cache = last.map_or_else(String::new, |c| {
        format!(", L{} cache {} shared by {} CPUs", c.level, bytes(c.bytes), c.cpus.len())
    });
    let nodes = facts.machine.nodes();
    let found = format!("{name}, {}{cache}", counted(nodes as u64, "memory node"));
    ok("processor", found, "Messages between ranks that share a cache are the cheapest.")
}

fn cores(facts: &Facts) -> Finding {
    let (online, allowed) = (facts.machine.cpus.len(), facts.allowed.len());
    let quota = match facts.quota {
        Some(quota) => format!("control group grants {quota:.1} CPUs"),
        None => "no control-group quota".to_owned(),
    };
    let claimed = match facts.claimed {
        0 => String::new(),
        claimed => format!(", {claimed} claimed by jobs that run now"),
    };
    let found = format!("{allowed} of {online} CPUs by affinity, {quota}{claimed}");
    let finding = ok(
        "usable cores",
        found,
        "This many ranks run at once; more take turns. A job whose ranks fit starts each on a core that no \
         other job has claimed (`--bind`).",
    );
    #[allow(clippy::cast_precision_loss, reason = "a number of CPUs")]
    let throttled = facts.quota.is_some_and(|quota| quota < allowed as f64);
    if throttled {
        return finding.but(
            Verdict::Degraded,
            "The kernel stops all ranks together when the quota of a period is used up: latency has \
             pauses of tens of milliseconds.",
            "raise the quota (docker run --cpus, cpu.max), or start at most that many ranks",
        );
    }
    if allowed == 1 {
        return finding.but(
            Verdict::Degraded,
            "Ranks take turns: every message between them costs a switch of process.",
            "allow more CPUs (taskset, cpuset), or expect a tenth of the message rate",
        );
    }
    finding
}

fn siblings(facts: &Facts) -> Finding {
    let machine = facts.machine.clone().restricted_to(&facts.allowed);
    let pairs: Vec<String> = machine
        .cpus
        .iter()
        .filter(|cpu| cpu.siblings.len() > 1 && cpu.siblings.first() == Some(&cpu.id))
        .map(|cpu| cpu.siblings.iter().map(usize::to_string).collect::<Vec<_>>().join("+"))
        .collect();
    let cores = counted(machine.cores() as u64, "physical core");
    if pairs.is_empty() {
        let found = format!("none; {cores}");
        return ok("sibling threads", found, "No two ranks share the units of one core.");
    }
    let shown = pairs.iter().take(8).cloned().collect::<Vec<_>>().join(", ");
    let more = if pairs.len() > 8 { ", ..." } else { "" };
    ok(
        "sibling threads",
        format!("{cores}; CPUs {shown}{more} share one"),
        "Siblings exchange messages fastest and compute slowest. `--bind cores` gives every rank a \
         core of its own while cores last.",
    )
}

fn cycles(facts: &Facts) -> Finding {
    let (steady, source) = &facts.cycles;
    let source = if source.is_empty() { "unknown" } else { source };
    let found = match steady {
        Some(true) => format!("steady; kernel clock: {source}"),
        Some(false) => format!("changes with the processor's state; kernel clock: {source}"),
        None => format!("none that can be read; kernel clock: {source}"),
    };
    let finding = ok("cycle counter", found, "`clump lab` times single steps with it.");
    if *steady == Some(true) {
        return finding;
    }
    finding.but(
        Verdict::Degraded,
        "`clump lab` gives step times only roughly; round trips and rates do not depend on it.",
        "a processor, or a hypervisor setting, with an invariant cycle counter",
    )
}

fn memory(facts: &Facts) -> Finding {
    const ENOUGH: u64 = 1 << 30;
    let memory = &facts.memory;
    let found = format!("{} of {} free", bytes(memory.available_bytes), bytes(memory.total_bytes));
    let finding = ok("memory", found, "A job's shared memory takes what its ranks touch, no more.");
    if memory.available_bytes >= ENOUGH {
        return finding;
    }
    finding.but(
        Verdict::Degraded,
        "Jobs with large segments may fail to start, with an error that names the size.",
        "end other programs, or give segments and queues a smaller size",
    )
}

fn shared_huge(facts: &Facts) -> Finding {
    const FILE: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    let setting = facts.memory.shared_huge.as_deref();
    let found = setting.unwrap_or("not supported by this kernel");
    let finding = ok("huge pages", found, "Shared memory is requested in huge pages.");
    if matches!(setting, Some("always" | "within_size" | "advise" | "force")) {
        return finding;
    }
    finding.but(
        Verdict::Degraded,
        "Shared memory comes in 4 KiB pages: the first touch of a segment is slower, and long messages \
         over many pages miss the TLB more.",
        format!("echo advise | sudo tee {FILE}"),
    )
}

fn reserved_huge(facts: &Facts) -> Finding {
    let memory = &facts.memory;
    let found =
        format!("{} free of {} each", memory.reserved_free, bytes(memory.reserved_page_bytes));
    ok("reserved huge", found, "Not needed: clump uses transparent huge pages only.")
}

fn version(facts: &Facts) -> Finding {
    let (release, machine) = &facts.kernel;
    let found = format!("Linux {release}, {machine}");
    let finding = ok("kernel", found, "New enough for all that clump uses.").essential();
    match probe::version(release) {
        Some(version) if version >= OLDEST => finding,
        Some(_) => finding.but(
            Verdict::Missing,
            "The agent cannot watch its ranks without process descriptors.",
            format!("a kernel of {}.{} or later", OLDEST.0, OLDEST.1),
        ),
        None => finding.but(
            Verdict::Degraded,
            "The release has no version number that could be compared; the probes below decide.",
            "none needed if they are ok",
        ),
    }
}

fn attempt(
    name: &'static str,
    tried: &Attempt,
    meaning: &'static str,
    lack: &'static str,
    remedy: &str,
) -> Finding {
    match tried {
        Ok(()) => ok(name, "works", meaning),
        Err(error) => ok(name, error.to_string(), meaning).but(Verdict::Missing, lack, remedy),
    }
}

fn sealed(facts: &Facts) -> Finding {
    attempt(
        "sealed memory",
        &facts.sealed_memory,
        "A job's memory has no name, and goes away with its last process.",
        "A job has no memory to share.",
        "a kernel with memfd_create, and no filter (seccomp, file-size limit) that forbids it",
    )
    .essential()
}

fn pidfd(facts: &Facts) -> Finding {
    attempt(
        "pidfd",
        &facts.pidfd,
        "The agent learns of a rank's death at once, and never signals a stranger.",
        "The agent cannot watch its ranks.",
        "a kernel of 5.4 or later, and no seccomp filter that forbids pidfd_open",
    )
    .essential()
}

fn futex(facts: &Facts) -> Finding {
    attempt(
        "futex",
        &facts.futex,
        "A rank with nothing to do sleeps, and a message wakes it.",
        "Ranks cannot sleep while they wait.",
        "no seccomp filter that forbids futex",
    )
    .essential()
}

fn membarrier(facts: &Facts) -> Finding {
    let finding = ok(
        "membarrier",
        match &facts.membarrier {
            Ok(true) => "expedited, global".to_owned(),
            Ok(false) => "without the expedited global command".to_owned(),
            Err(error) => error.to_string(),
        },
        "A sender's look for a sleeping receiver costs no fence.",
    );
    if matches!(facts.membarrier, Ok(true)) {
        return finding;
    }
    finding.but(
        Verdict::Degraded,
        "Every send executes a full fence, about 10 ns.",
        "a kernel of 4.16 or later, and no seccomp filter that forbids membarrier",
    )
}

fn udp(facts: &Facts) -> Finding {
    const MEANING: &str = "Packets between nodes by UDP: everywhere, without privileges.";
    let asked = clump_os::udp::BUFFER_BYTES;
    match &facts.udp_buffer {
        Ok(got) if *got >= asked => ok("driver udp", "works", MEANING),
        Ok(got) => {
            let (got, of) = (bytes(*got as u64), bytes(asked as u64));
            let found = format!("works; sockets get buffers of {got}, and ask for {of}");
            ok("driver udp", found, MEANING).but(
                Verdict::Degraded,
                "Peers on a short path keep less in flight, and many of them at once may overrun a socket.",
                clump_os::udp::buffer_remedy(),
            )
        }
        Err(error) => ok("driver udp", error.to_string(), MEANING).but(
            Verdict::Degraded,
            "No UDP socket can be opened on 127.0.0.1: jobs of several nodes here need one.",
            "ip link set lo up, or a container with a network",
        ),
    }
}

fn packet(facts: &Facts) -> Finding {
    const REMEDY: &str =
        "root, or setcap cap_net_raw+ep on the clump program; until then UDP is used";
    match (&facts.packet_socket, &facts.user_namespace) {
        (Ok(()), _) => hearing(facts),
        (Err(error), Ok(())) => ok("driver packet", error.to_string(), "").but(
            Verdict::Degraded,
            "Used only between nodes in namespaces of their own (`clump run --netns`).",
            REMEDY,
        ),
        (Err(error), Err(_)) => ok("driver packet", error.to_string(), "").but(
            Verdict::Missing,
            "Packets between nodes go by UDP.",
            REMEDY,
        ),
    }
}

/// Checks the number of sockets on loopback. The smallest job of several nodes has a rank and an
/// interface on each of two.
fn hearing(facts: &Facts) -> Finding {
    let heard = match facts.listeners {
        Some(listeners) => format!("works; heard on loopback by {listeners} sockets"),
        None => "works; by how many sockets it is heard on loopback is not known".into(),
    };
    let finding = ok(
        "driver packet",
        heard,
        "Short messages between nodes go past the kernel's IP: half the round trip of UDP, over loopback three quarters.",
    );
    if facts.listeners.is_some_and(|listeners| listeners.saturating_add(4) <= MAX_LISTENERS) {
        return finding;
    }
    finding.but(
        Verdict::Degraded,
        "Jobs over loopback take UDP: each frame would be shown to too many sockets.",
        "end other jobs over loopback, or ask for frames all the same (`--driver packet`)",
    )
}

fn xdp(facts: &Facts) -> Finding {
    attempt(
        "driver xdp",
        &facts.xdp,
        "As packet, for one rank of a node, on cards whose driver supports XDP (`--driver xdp`).",
        "`--driver xdp` is refused.",
        "root, or setcap cap_net_raw,cap_net_admin,cap_bpf+ep on the clump program",
    )
}

fn namespaces(facts: &Facts) -> Finding {
    attempt(
        "user namespaces",
        &facts.user_namespace,
        "Networks of several machines can be played on this one without root (`clump run --netns`).",
        "`clump run --netns` needs root; tests over separate network namespaces are skipped.",
        "run them as root, or sysctl -w kernel.unprivileged_userns_clone=1 (Debian), \
         kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu)",
    )
}

fn tunnels(facts: &Facts) -> Finding {
    attempt(
        "TUN devices",
        &facts.tun_device,
        "`clump lab path` tries programs on a path with a length, a rate and a queue.",
        "`clump lab path` is refused; `--emu` delays messages without a path.",
        "chmod 666 /dev/net/tun as root; where there is none, modprobe tun, or for a container \
         --device /dev/net/tun",
    )
}

fn counters(facts: &Facts) -> Finding {
    let restricted = facts.perf_paranoia.is_some_and(|level| level > 2);
    let remedy = if restricted {
        "sysctl -w kernel.perf_event_paranoid=2"
    } else {
        "a machine, or a hypervisor setting, that shows the processor's counters; \
         `cargo xtask icount` counts with valgrind instead"
    };
    attempt(
        "perf counters",
        &facts.instructions,
        "`clump lab` counts the instructions of each step.",
        "`clump lab` gives steps in nanoseconds only.",
        remedy,
    )
}

fn companions(facts: &Facts) -> Vec<Finding> {
    let programs = &facts.programs;
    let mut found = vec![companion(
        "valgrind",
        programs.valgrind.as_deref(),
        "`cargo xtask icount` guards the cost of the hot paths with it.",
        "apt-get install valgrind",
    )];
    found.push(python(programs.python.as_deref()));
    found.push(companion(
        "ucx_perftest",
        programs.ucx_perftest.as_deref(),
        "Benchmarks put UCX beside clump in the same run.",
        "apt-get install ucx-utils",
    ));
    found.push(companion(
        "mpirun",
        programs.mpirun.as_deref(),
        "Benchmarks put MPI beside clump in the same run.",
        "apt-get install openmpi-bin, or mpich",
    ));
    found
}

/// Checks Python, which prints `python VERSION`, followed by ` numpy VERSION` if it has that too.
fn python(said: Option<&str>) -> Finding {
    const MEANING: &str = "The independent checkers of application output are written in it.";
    let remedy = match said {
        Some(_) => "apt-get install python3-numpy, or pip install numpy",
        None => "apt-get install python3 python3-numpy",
    };
    let finding =
        companion("python and numpy", said.filter(|s| s.contains(" numpy ")), MEANING, remedy);
    match said {
        Some(alone) if finding.verdict == Verdict::Missing => {
            Finding { found: format!("{alone}, without numpy"), ..finding }
        }
        _ => finding,
    }
}

fn companion(
    name: &'static str,
    said: Option<&str>,
    meaning: &'static str,
    remedy: &str,
) -> Finding {
    match said {
        Some(said) => ok(name, said, meaning),
        None => ok(name, "not installed", meaning).but(Verdict::Missing, meaning, remedy),
    }
}
