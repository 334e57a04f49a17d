//! Queries the machine, and keeps every answer, refusals too.

use clump_os::probe::{self, Limits, Memory};
use clump_os::topology::{self, Topology};
use clump_os::{OsError, clock};
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Duration;

/// An answer of the kernel to one attempt.
pub type Attempt = Result<(), OsError>;

/// All facts that the checks judge.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Kernel release and machine.
    pub kernel: (String, String),
    /// The processor's name.
    pub processor: Option<String>,
    /// All CPUs of the machine.
    pub machine: Topology,
    /// CPUs that this process may use.
    pub allowed: Vec<usize>,
    /// Number of these that running jobs have claimed.
    pub claimed: usize,
    /// CPUs' worth of time that the control group grants.
    pub quota: Option<f64>,
    /// True if the cycle counter is steady, and the kernel's clock source.
    pub cycles: (Option<bool>, String),
    /// Memory and huge pages.
    pub memory: Memory,
    /// Resource limits.
    pub limits: Limits,
    /// Sealed memory files.
    pub sealed_memory: Attempt,
    /// Process descriptors.
    pub pidfd: Attempt,
    /// Sleeping on shared words.
    pub futex: Attempt,
    /// True if the expedited global barrier is available.
    pub membarrier: Result<bool, OsError>,
    /// Packet sockets in the network namespace of this process.
    pub packet_socket: Attempt,
    /// Number of clump's packet sockets that listen on loopback there.
    pub listeners: Option<usize>,
    /// Bytes that a UDP socket gets as its buffer.
    pub udp_buffer: Result<usize, OsError>,
    /// XDP programs and sockets.
    pub xdp: Attempt,
    /// Namespaces without root.
    pub user_namespace: Attempt,
    /// TUN devices.
    pub tun_device: Attempt,
    /// Counting instructions.
    pub instructions: Attempt,
    /// The kernel's restriction of counters (perf_event_paranoid).
    pub perf_paranoia: Option<i32>,
    /// Programs that clump's checks and comparisons use, with the first line that each prints.
    pub programs: Programs,
}

/// First line that each program prints; `None` if it is not installed.
#[derive(Debug, Clone, Default)]
pub struct Programs {
    /// Counts instructions for `cargo xtask icount`.
    pub valgrind: Option<String>,
    /// Runs the oracles; `python VERSION` and, if it is there, ` numpy VERSION`.
    pub python: Option<String>,
    /// UCX's benchmark.
    pub ucx_perftest: Option<String>,
    /// An MPI's launcher.
    pub mpirun: Option<String>,
}

/// Queries everything; takes well under a second.
pub fn gather() -> Facts {
    let machine = Topology::read();
    let everything = || machine.cpus.iter().map(|cpu| cpu.id).collect();
    let allowed = topology::affinity().unwrap_or_else(|_| everything());
    let claimed = clump_os::claim::claimed();
    Facts {
        claimed: allowed.iter().filter(|&cpu| claimed.contains(cpu)).count(),
        kernel: probe::kernel(),
        processor: probe::processor_here(),
        allowed,
        machine,
        quota: topology::cpu_quota(),
        cycles: probe::cycle_counter(),
        memory: probe::memory(),
        limits: probe::limits(),
        sealed_memory: probe::sealed_memory(),
        pidfd: probe::pidfd(),
        futex: probe::futex(),
        membarrier: probe::global_membarrier(),
        packet_socket: probe::packet_socket(),
        listeners: clump_agent::loopback_listeners(),
        udp_buffer: probe::udp_buffer(),
        xdp: clump_os::xdp::probe(),
        user_namespace: probe::user_namespace(),
        tun_device: probe::tun_device(),
        instructions: probe::instruction_counter(),
        perf_paranoia: probe::perf_paranoia(),
        programs: programs(),
    }
}

fn programs() -> Programs {
    const PYTHON: &str = "import sys\nprint('python', sys.version.split()[0], end='')\n\
                          import numpy\nprint(' numpy', numpy.__version__)";
    Programs {
        valgrind: says("valgrind", &["--version"]),
        python: says("python3", &["-c", PYTHON]),
        ucx_perftest: says("ucx_perftest", &["-h"]).map(|_| "installed".to_owned()),
        mpirun: says("mpirun", &["--version"]),
    }
}

/// Returns the first line that a program prints, if it is installed. Some programs print help and
/// fail: only their presence counts. A program that does not end is killed.
fn says(program: &str, args: &[&str]) -> Option<String> {
    const TIME_LIMIT: Duration = Duration::from_secs(5);
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let started = clock::instant();
    while matches!(child.try_wait(), Ok(None)) && started.elapsed() < TIME_LIMIT {
        clock::pass(Duration::from_millis(2));
    }
    let _ = child.kill();
    let _ = child.wait();
    let mut text = Vec::new();
    // A pipe holds 64 KiB, far more than a version; the writer has ended, so this ends.
    let _ = child.stdout.take()?.read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text);
    Some(
        text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("installed").to_owned(),
    )
}
