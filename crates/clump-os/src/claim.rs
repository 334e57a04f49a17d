//! Claims on CPUs that every process of this machine can see, and that do not survive a crash.
//!
//! A claim is a socket bound to an abstract name (unix(7)): the kernel gives a name to one socket
//! at a time and forgets it with the descriptor. It takes no file, no privilege and no clean-up.
//! Such names belong to a network namespace, so containers with namespaces of their own do not see
//! each other's. A process that takes all names keeps jobs from claiming, and from nothing else.

use crate::error::{OsError, Result};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::os::fd::OwnedFd;

/// A CPU that this process has claimed, until the value is dropped.
#[derive(Debug)]
pub struct CpuClaim {
    cpu: usize,
    _name: OwnedFd,
}

impl CpuClaim {
    /// Claims `cpu`; returns `None` where another process has it.
    ///
    /// # Errors
    /// This process may make no such sockets.
    pub fn take(cpu: usize) -> Result<Option<Self>> {
        let failed = |e| OsError::new(format!("claiming CPU {cpu}"), e);
        let name = format!("clump-cpu-{cpu}");
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(failed)?;
        // The socket does not listen, so no peer can connect and make this process hold anything.
        let socket = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(failed)?;
        match rustix::net::bind(&socket, &address) {
            Ok(()) => Ok(Some(Self { cpu, _name: socket })),
            Err(Errno::ADDRINUSE) => Ok(None),
            Err(e) => Err(failed(e)),
        }
    }

    /// Returns the kernel's number of the CPU.
    pub fn cpu(&self) -> usize {
        self.cpu
    }
}

/// Returns the CPUs that some process has claimed now, as `/proc/net/unix` lists them. Claims
/// nothing, so it disturbs no other process.
pub fn claimed() -> Vec<usize> {
    let table = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let cpu = |line: &str| line.rsplit_once(" @clump-cpu-").and_then(|(_, cpu)| cpu.parse().ok());
    let mut cpus: Vec<usize> = table.lines().filter_map(cpu).collect();
    cpus.sort_unstable();
    cpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_is_claimed_once_until_the_claim_is_dropped() {
        // A number that no machine has, so that no job of this one interferes.
        let cpu = (1 << 20) + std::process::id() as usize;
        let first = CpuClaim::take(cpu).unwrap().unwrap();
        assert_eq!(first.cpu(), cpu);
        assert!(CpuClaim::take(cpu).unwrap().is_none(), "twice");
        assert!(claimed().contains(&cpu) && !claimed().contains(&(cpu + 1)));
        assert!(CpuClaim::take(cpu + 1).unwrap().is_some(), "another");
        drop(first);
        // A child that another test forks has it, too, until it ends.
        let until_ns = crate::clock::now_ns() + 20_000_000_000;
        while CpuClaim::take(cpu).unwrap().is_none() {
            assert!(crate::clock::now_ns() < until_ns, "again");
            std::thread::yield_now();
        }
    }
}
