//! A filter that refuses one system call (seccomp(2)), or one flag of it, to this process and its
//! descendants.

use std::io;

// linux/bpf_common.h, linux/seccomp.h
const LOAD_WORD: u16 = 0x20;
const IF_EQUAL: u16 = 0x15;
const IF_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;
/// Offsets in `struct seccomp_data`: the number of the call, and the lower halves of its arguments.
const NUMBER: u32 = 0;
const ARGUMENTS: u32 = 16;

/// One system call that is refused.
#[derive(Debug)]
pub struct Refusal {
    number: u32,
    /// An argument and bits: only calls with one of these are refused.
    only: Option<(u32, u32)>,
    errno: u32,
}

impl Refusal {
    /// Parses `CALL=ERRNO`, such as `recvmmsg=ENOSYS`.
    ///
    /// # Errors
    /// Fails if the call or the error is unknown here.
    pub fn read(text: &str) -> Result<Self, String> {
        let (call, errno) = text.split_once('=').unwrap_or((text, ""));
        let errno = match errno {
            "EPERM" => libc::EPERM,
            "ENOSYS" => libc::ENOSYS,
            "EACCES" => libc::EACCES,
            "ENOMEM" => libc::ENOMEM,
            "EINVAL" => libc::EINVAL,
            _ => return Err(format!("no error is called `{errno}` here")),
        };
        let only = match call {
            "mmap-hugetlb" => Some((3, libc::MAP_HUGETLB.cast_unsigned())),
            "mmap-populate" => Some((3, libc::MAP_POPULATE.cast_unsigned())),
            _ => None,
        };
        let number = number(call).ok_or_else(|| format!("no system call `{call}` here"))?;
        let number = u32::try_from(number).map_err(|_| format!("`{call}` has no number"))?;
        Ok(Self { number, only, errno: errno.cast_unsigned() })
    }

    /// Installs the filter, for good.
    ///
    /// # Errors
    /// Fails if the kernel has no filters.
    pub fn install(&self) -> io::Result<()> {
        let of = |code, k, (jt, jf)| libc::sock_filter { code, jt, jf, k };
        let mut program = vec![of(LOAD_WORD, NUMBER, (0, 0))];
        let refuse = of(RETURN, libc::SECCOMP_RET_ERRNO | self.errno, (0, 0));
        let allow = of(RETURN, libc::SECCOMP_RET_ALLOW, (0, 0));
        if let Some((argument, bits)) = self.only {
            program.push(of(IF_EQUAL, self.number, (0, 2)));
            program.push(of(LOAD_WORD, ARGUMENTS + 8 * argument, (0, 0)));
            program.push(of(IF_ANY_BIT, bits, (1, 0)));
        } else {
            program.push(of(IF_EQUAL, self.number, (1, 0)));
        }
        program.extend([allow, refuse]);
        let length = u16::try_from(program.len()).map_err(io::Error::other)?;
        let program = libc::sock_fprog { len: length, filter: program.as_mut_ptr() };
        // Without this only privileged processes may have filters (seccomp(2)).
        // SAFETY: takes numbers only.
        if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the program and its length live during the call; the kernel copies and checks
        // them.
        let done = unsafe {
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program)
        };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Returns the number of a system call.
fn number(call: &str) -> Option<libc::c_long> {
    Some(match call {
        "recvmmsg" => libc::SYS_recvmmsg,
        "sendmmsg" => libc::SYS_sendmmsg,
        "recvmsg" => libc::SYS_recvmsg,
        "sendmsg" => libc::SYS_sendmsg,
        "recvfrom" => libc::SYS_recvfrom,
        "sendto" => libc::SYS_sendto,
        "setsockopt" => libc::SYS_setsockopt,
        "getsockopt" => libc::SYS_getsockopt,
        "socket" => libc::SYS_socket,
        "socketpair" => libc::SYS_socketpair,
        "memfd_create" => libc::SYS_memfd_create,
        "membarrier" => libc::SYS_membarrier,
        "pidfd_open" => libc::SYS_pidfd_open,
        "pidfd_send_signal" => libc::SYS_pidfd_send_signal,
        "eventfd2" => libc::SYS_eventfd2,
        "signalfd4" => libc::SYS_signalfd4,
        "timerfd_create" => libc::SYS_timerfd_create,
        "epoll_create1" => libc::SYS_epoll_create1,
        "epoll_ctl" => libc::SYS_epoll_ctl,
        "epoll_pwait" => libc::SYS_epoll_pwait,
        "epoll_pwait2" => libc::SYS_epoll_pwait2,
        #[cfg(target_arch = "x86_64")]
        "epoll_wait" => libc::SYS_epoll_wait,
        #[cfg(target_arch = "x86_64")]
        "poll" => libc::SYS_poll,
        "ppoll" => libc::SYS_ppoll,
        "userfaultfd" => libc::SYS_userfaultfd,
        "sched_setaffinity" => libc::SYS_sched_setaffinity,
        "sched_getaffinity" => libc::SYS_sched_getaffinity,
        "sched_yield" => libc::SYS_sched_yield,
        "prctl" => libc::SYS_prctl,
        "clone3" => libc::SYS_clone3,
        "unshare" => libc::SYS_unshare,
        "setns" => libc::SYS_setns,
        "mmap-hugetlb" | "mmap-populate" => libc::SYS_mmap,
        "madvise" => libc::SYS_madvise,
        "mlock" => libc::SYS_mlock,
        "fallocate" => libc::SYS_fallocate,
        "fsync" => libc::SYS_fsync,
        "flock" => libc::SYS_flock,
        "linkat" => libc::SYS_linkat,
        "splice" => libc::SYS_splice,
        "vmsplice" => libc::SYS_vmsplice,
        "copy_file_range" => libc::SYS_copy_file_range,
        "getrandom" => libc::SYS_getrandom,
        "statx" => libc::SYS_statx,
        "prlimit64" => libc::SYS_prlimit64,
        "bpf" => libc::SYS_bpf,
        "io_uring_setup" => libc::SYS_io_uring_setup,
        "process_vm_readv" => libc::SYS_process_vm_readv,
        "rseq" => libc::SYS_rseq,
        "pipe2" => libc::SYS_pipe2,
        "kill" => libc::SYS_kill,
        _ => return None,
    })
}
