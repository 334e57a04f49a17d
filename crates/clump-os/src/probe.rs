//! Capabilities of this kernel for this process, found by trying each once: a version number or a
//! setting promises more than a container's filter may permit.

use crate::error::{OsError, Result};
use crate::map;
use crate::udp;
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::path::Path;

/// A resource limit; `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Value in force now.
    pub soft: Option<u64>,
    /// Value to which the process may raise it.
    pub hard: Option<u64>,
}

/// Limits that a job can run into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Open descriptors.
    pub open_files: Limit,
    /// Processes of this user.
    pub processes: Limit,
    /// Bytes of locked memory.
    pub locked_bytes: Limit,
    /// Bytes of any file, memory files among them.
    pub file_bytes: Limit,
    /// Bytes of address space.
    pub address_bytes: Limit,
}

/// Returns this process's limits (`getrlimit`).
pub fn limits() -> Limits {
    use rustix::process::Resource;
    let limit = |resource| {
        let found = crate::refusal::limit(resource);
        Limit { soft: found.current, hard: found.maximum }
    };
    Limits {
        open_files: limit(Resource::Nofile),
        processes: limit(Resource::Nproc),
        locked_bytes: limit(Resource::Memlock),
        file_bytes: limit(Resource::Fsize),
        address_bytes: limit(Resource::As),
    }
}

/// Returns the bytes of the buffer that a UDP socket of this process gets when it asks for
/// [`udp::BUFFER_BYTES`]: less where `net.core.rmem_max` or `wmem_max` is less and the process has
/// no privilege to exceed them.
///
/// # Errors
/// No socket can be opened.
pub fn udp_buffer() -> Result<usize> {
    let socket = udp::bind((std::net::Ipv4Addr::LOCALHOST, 0).into())?;
    let prepared = udp::prepare(socket.as_fd(), udp::BUFFER_BYTES)?;
    // The kernel reports twice what it gave.
    Ok(prepared.receive_buffer.min(prepared.send_buffer) / 2)
}

/// Returns the kernel's release, such as `6.18.4-amd64`, and the machine, such as `x86_64`.
pub fn kernel() -> (String, String) {
    let names = rustix::system::uname();
    let text = |name: &std::ffi::CStr| name.to_string_lossy().into_owned();
    (text(names.release()), text(names.machine()))
}

/// Returns major and minor version of a release.
pub fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Returns true if `membarrier` orders memory of all registered processes at once, as
/// [`crate::fence`] requires.
///
/// # Errors
/// The kernel has no `membarrier`, or a filter refuses it.
pub fn global_membarrier() -> Result<bool> {
    const QUERY: libc::c_int = 0;
    const GLOBAL_EXPEDITED: libc::c_long = 1 << 1;
    // SAFETY: membarrier takes no pointers; the query changes nothing.
    let commands = unsafe { libc::syscall(libc::SYS_membarrier, QUERY, 0, 0) };
    if commands < 0 {
        return Err(OsError::last("membarrier"));
    }
    Ok(commands & GLOBAL_EXPEDITED != 0)
}

/// Creates a sealed memory file and checks that the seals hold.
///
/// # Errors
/// The kernel refuses, or the seals do not hold.
pub fn sealed_memory() -> Result<()> {
    let bytes = map::PAGE as u64;
    let file = map::sealed_memory("clump-probe", bytes)?;
    match map::sealed_size(file.as_fd())? {
        Some(size) if size == bytes => Ok(()),
        _ => Err(OsError::new("sealing a memfd", Errno::NOTSUP)),
    }
}

/// Opens a descriptor of this process, as the agent does of its ranks.
///
/// # Errors
/// The kernel has no such descriptors, or a filter refuses them.
pub fn pidfd() -> Result<()> {
    crate::process::pidfd(crate::process::own_pid()).map(drop)
}

/// Calls the kernel to sleep on a word that has changed already: it must return `EAGAIN`.
///
/// # Errors
/// The kernel returns another error.
pub fn futex() -> Result<()> {
    let word = 1_u32;
    let none = std::ptr::null::<libc::timespec>();
    // SAFETY: `word` is a live, aligned 32-bit word, and differs from the expected value, so the
    // call does not sleep.
    let rc = unsafe {
        libc::syscall(libc::SYS_futex, std::ptr::from_ref(&word), libc::FUTEX_WAIT, 0, none)
    };
    match OsError::last("futex") {
        _ if rc == 0 => Ok(()),
        error if error.errno == Errno::AGAIN => Ok(()),
        error => Err(error),
    }
}

/// Opens a packet socket here, as the driver `packet` needs.
///
/// # Errors
/// This process may not, or the kernel has none.
pub fn packet_socket() -> Result<()> {
    crate::packet::open(0, None, &[]).map(drop)
}

/// Starts a child in a user and a network namespace of its own.
///
/// # Errors
/// This process may not.
pub fn user_namespace() -> Result<()> {
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};
    let mut child = Command::new("true");
    child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let enter = || {
        // SAFETY: unshare takes no pointers and changes nothing but the calling child.
        match unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
    unsafe { child.pre_exec(enter) };
    child.status().map(drop).map_err(|e| OsError::of("entering a user namespace", &e))
}

/// Opens the file that makes TUN devices.
///
/// # Errors
/// The kernel has none, or this user may not open it.
pub fn tun_device() -> Result<()> {
    crate::tun::open_maker().map(drop)
}

/// Opens a counter of this thread's instructions in user mode.
///
/// # Errors
/// This process may not, or the processor has none.
pub fn instruction_counter() -> Result<()> {
    // perf_event_open(2): struct perf_event_attr, version 0, 64 bytes as words. Bits of word 5:
    // exclude_kernel is 5, exclude_hv is 6; zero fields request nothing.
    const HARDWARE: u64 = 0;
    const ATTR_BYTES: u64 = 64;
    const INSTRUCTIONS: u64 = 1;
    const CLOSE_ON_EXEC: libc::c_long = 1 << 3;
    let attributes: [u64; 8] =
        [HARDWARE | (ATTR_BYTES << 32), INSTRUCTIONS, 0, 0, 0, (1 << 5) | (1 << 6), 0, 0];
    // SAFETY: `attributes` is a live block of the size that it announces; pid 0, cpu -1: this
    // thread.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, attributes.as_ptr(), 0, -1, -1, CLOSE_ON_EXEC)
    };
    if fd < 0 {
        return Err(OsError::last("perf_event_open"));
    }
    // SAFETY: a descriptor that was just opened and that no other code uses.
    unsafe { libc::close(fd as libc::c_int) };
    Ok(())
}

/// Memory and huge pages of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// Bytes of memory.
    pub total_bytes: u64,
    /// Bytes that can be had without swapping.
    pub available_bytes: u64,
    /// Setting for transparent huge pages in shared memory: `always`, `within_size`, `advise`,
    /// `never`, `deny`, `force`; `None` where the kernel has none.
    pub shared_huge: Option<String>,
    /// Huge pages reserved and not in use.
    pub reserved_free: u64,
    /// Bytes of one of them.
    pub reserved_page_bytes: u64,
}

/// Reads the machine's memory state.
pub fn memory() -> Memory {
    let meminfo = text("/proc/meminfo");
    let kib = |key| meminfo_value(&meminfo, key).unwrap_or(0) * 1024;
    Memory {
        total_bytes: kib("MemTotal"),
        available_bytes: kib("MemAvailable"),
        shared_huge: chosen(&text("/sys/kernel/mm/transparent_hugepage/shmem_enabled")),
        reserved_free: meminfo_value(&meminfo, "HugePages_Free").unwrap_or(0),
        reserved_page_bytes: kib("Hugepagesize"),
    }
}

/// Returns the number behind `KEY:` in the text of `/proc/meminfo`.
pub fn meminfo_value(meminfo: &str, key: &str) -> Option<u64> {
    let value = meminfo.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    value.split_whitespace().next()?.parse().ok()
}

/// Returns the setting in brackets: `advise` of `always [advise] never`.
pub fn chosen(settings: &str) -> Option<String> {
    let (_, from) = settings.split_once('[')?;
    Some(from.split_once(']')?.0.to_owned())
}

/// Returns true if the processor's cycle counter runs at one rate in every state of the processor,
/// judged by the text of `/proc/cpuinfo`; `None` on processors that have no such flags.
pub fn steady_cycles(cpuinfo: &str) -> Option<bool> {
    let flags = cpuinfo.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "flags").then_some(value)
    })?;
    let has = |flag| flags.split_whitespace().any(|word| word == flag);
    Some(has("constant_tsc") && has("nonstop_tsc"))
}

/// Returns [`steady_cycles`] of this machine, and the clock that the kernel itself trusts.
pub fn cycle_counter() -> (Option<bool>, String) {
    let source = text("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    (steady_cycles(&text("/proc/cpuinfo")), source.trim().to_owned())
}

/// Returns how far the kernel restricts counters: 2 is user mode only, 3 and above (a
/// distribution's) nothing.
pub fn perf_paranoia() -> Option<i32> {
    text("/proc/sys/kernel/perf_event_paranoid").trim().parse().ok()
}

/// Returns the processor's name, as `/proc/cpuinfo` gives it.
pub fn processor(cpuinfo: &str) -> Option<&str> {
    cpuinfo.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then_some(value.trim())
    })
}

/// Returns [`processor`] of this machine.
pub fn processor_here() -> Option<String> {
    processor(&text("/proc/cpuinfo")).map(str::to_owned)
}

/// Returns a file of `/proc` or `/sys`, empty where it cannot be read.
fn text(path: &str) -> String {
    std::fs::read_to_string(Path::new(path)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_have_versions() {
        assert_eq!(version("6.18.44-fc-v657"), Some((6, 18)));
        assert_eq!(version("5.4-rc1"), Some((5, 4)));
        assert_eq!(version("4.19+"), Some((4, 19)));
        assert_eq!(version("linux"), None);
        assert_eq!(version(""), None);
    }

    #[test]
    fn meminfo_is_read_by_whole_keys() {
        let text =
            "MemTotal:       24614820 kB\nMemAvailable:    1024 kB\nHugePages_Free:        3\n";
        assert_eq!(meminfo_value(text, "MemTotal"), Some(24_614_820));
        assert_eq!(meminfo_value(text, "HugePages_Free"), Some(3));
        assert_eq!(meminfo_value(text, "Mem"), None);
        assert_eq!(meminfo_value("", "MemTotal"), None);
    }

    #[test]
    fn the_chosen_setting_is_in_brackets() {
        let shmem = "always within_size advise [never] deny force\n";
        assert_eq!(chosen(shmem).as_deref(), Some("never"));
        assert_eq!(chosen(""), None);
        assert_eq!(chosen("[open"), None);
    }

    #[test]
    fn a_cycle_counter_is_steady_only_with_both_flags() {
        let with = |flags: &str| format!("processor\t: 0\nflags\t\t: fpu {flags} sse\n\n");
        assert_eq!(steady_cycles(&with("constant_tsc nonstop_tsc")), Some(true));
        assert_eq!(steady_cycles(&with("constant_tsc")), Some(false));
        assert_eq!(steady_cycles("processor : 0\nFeatures : fp asimd\n"), None);
    }

    #[test]
    fn the_processor_has_a_name() {
        assert_eq!(processor("model\t\t: 1\nmodel name\t: AMD EPYC\n"), Some("AMD EPYC"));
        assert_eq!(processor("CPU part: 0xd0c\n"), None);
    }

    #[test]
    fn what_every_supported_kernel_has_works_here() {
        sealed_memory().unwrap();
        futex().unwrap();
        pidfd().unwrap();
        assert!(memory().total_bytes > 0);
        assert!(limits().open_files.soft.is_none_or(|n| n > 0));
        assert!(version(&kernel().0).is_some());
    }

    #[test]
    fn a_refusal_is_an_error_and_no_panic() {
        // Each may be forbidden where the test runs; it only matters that the result is orderly.
        for answer in [global_membarrier().map(drop), user_namespace(), instruction_counter()] {
            if let Err(error) = answer {
                assert!(!error.call.is_empty() && error.errno.raw_os_error() != 0, "{error:?}");
            }
        }
    }
}
