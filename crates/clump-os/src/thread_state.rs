//! Threads of a process as the kernel shows them: state, place in the kernel, system call.

use crate::procfs;
use std::fs;

/// Most threads of a process that are read.
const MAX_THREADS: usize = 128;

/// A thread at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadState {
    /// Thread number.
    pub thread: u32,
    /// The first 15 bytes of its name.
    pub name: String,
    /// One letter, as [`procfs::Process`] has it.
    pub state: char,
    /// Function of the kernel in which it sleeps; none while it runs, or where the kernel does not
    /// report it.
    pub kernel: Option<String>,
    /// System call in which it sleeps, with its arguments: `futex(0x7f..., 0x80, ...)`. None while
    /// it runs, or where this process may not trace it.
    pub call: Option<String>,
}

/// Returns the threads of process `pid`, at most 128; none when it has ended.
pub fn threads(pid: u32) -> Vec<ThreadState> {
    let mut threads = procfs::threads(pid);
    threads.sort_unstable();
    threads.truncate(MAX_THREADS);
    threads.into_iter().filter_map(|(thread, name)| read(pid, thread, name)).collect()
}

fn read(pid: u32, thread: u32, name: String) -> Option<ThreadState> {
    let state = procfs::Process::read_thread(pid, thread)?.state;
    let file = |name: &str| fs::read_to_string(format!("/proc/{pid}/task/{thread}/{name}")).ok();
    let kernel = file("wchan").filter(|text| !text.is_empty() && text != "0");
    let call = file("syscall").and_then(|text| system_call(&text));
    Some(ThreadState { thread, name, state, kernel, call })
}

/// Formats the content of proc_pid_syscall(5): number and six arguments, stack pointer, program
/// counter; of a thread outside of calls -1 and these two, or `running`.
fn system_call(text: &str) -> Option<String> {
    let mut words = text.split_ascii_whitespace();
    let number: i64 = words.next()?.parse().ok()?;
    let number = u32::try_from(number).ok()?;
    let arguments: Vec<&str> = words.take(6).collect();
    let (name, count) = match NAMES.iter().find(|(known, ..)| *known == i64::from(number)) {
        Some((_, name, count)) => ((*name).to_owned(), *count),
        None => (format!("system call {number}"), 6),
    };
    Some(format!("{name}({})", arguments.get(..count)?.join(", ")))
}

/// Names of calls that may sleep, and the numbers of their arguments.
#[allow(clippy::unnecessary_cast, reason = "the type of the numbers differs between systems")]
const NAMES: &[(i64, &str, usize)] = &[
    (libc::SYS_read as i64, "read", 3),
    (libc::SYS_write as i64, "write", 3),
    (libc::SYS_readv as i64, "readv", 3),
    (libc::SYS_writev as i64, "writev", 3),
    (libc::SYS_pread64 as i64, "pread64", 4),
    (libc::SYS_pwrite64 as i64, "pwrite64", 4),
    (libc::SYS_ppoll as i64, "ppoll", 5),
    (libc::SYS_pselect6 as i64, "pselect6", 6),
    (libc::SYS_epoll_pwait as i64, "epoll_pwait", 6),
    (libc::SYS_futex as i64, "futex", 6),
    (libc::SYS_nanosleep as i64, "nanosleep", 2),
    (libc::SYS_clock_nanosleep as i64, "clock_nanosleep", 4),
    (libc::SYS_sendto as i64, "sendto", 6),
    (libc::SYS_sendmsg as i64, "sendmsg", 3),
    (libc::SYS_sendmmsg as i64, "sendmmsg", 4),
    (libc::SYS_recvfrom as i64, "recvfrom", 6),
    (libc::SYS_recvmsg as i64, "recvmsg", 3),
    (libc::SYS_recvmmsg as i64, "recvmmsg", 5),
    (libc::SYS_connect as i64, "connect", 3),
    (libc::SYS_accept as i64, "accept", 3),
    (libc::SYS_accept4 as i64, "accept4", 4),
    (libc::SYS_wait4 as i64, "wait4", 4),
    (libc::SYS_waitid as i64, "waitid", 5),
    (libc::SYS_flock as i64, "flock", 2),
    (libc::SYS_fcntl as i64, "fcntl", 3),
    (libc::SYS_fsync as i64, "fsync", 1),
    (libc::SYS_fdatasync as i64, "fdatasync", 1),
    (libc::SYS_openat as i64, "openat", 4),
    (libc::SYS_ioctl as i64, "ioctl", 3),
    (libc::SYS_rt_sigsuspend as i64, "rt_sigsuspend", 2),
    (libc::SYS_rt_sigtimedwait as i64, "rt_sigtimedwait", 4),
    (libc::SYS_semtimedop as i64, "semtimedop", 4),
    (libc::SYS_msgrcv as i64, "msgrcv", 5),
    (libc::SYS_restart_syscall as i64, "restart_syscall", 0),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_poll as i64, "poll", 3),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_select as i64, "select", 5),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_epoll_wait as i64, "epoll_wait", 4),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_pause as i64, "pause", 0),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_named_and_anything_else_is_none() {
        let futex = format!("{} 0x1 0x80 0x2 0x0 0x0 0x7 0x9 0xa\n", libc::SYS_futex);
        assert_eq!(system_call(&futex).unwrap(), "futex(0x1, 0x80, 0x2, 0x0, 0x0, 0x7)");
        let read = format!("{} 0x0 0xff 0x10 0x0 0x0 0x0 0x9 0xa", libc::SYS_read);
        assert_eq!(system_call(&read).unwrap(), "read(0x0, 0xff, 0x10)");
        assert_eq!(
            system_call("9999 1 2 3 4 5 6 7 8").unwrap(),
            "system call 9999(1, 2, 3, 4, 5, 6)"
        );
        for none in ["running\n", "-1 0x1 0x2\n", "", "x", "0 0x1"] {
            assert_eq!(system_call(none), None, "{none:?}");
        }
    }

    #[test]
    fn a_thread_that_sleeps_is_seen_in_its_call() {
        let (send, receive) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let sleeper = std::thread::Builder::new().name("sleeper".into());
        let sleeper = sleeper
            .spawn(move || {
                tell.send(crate::thread::number()).unwrap();
                let _ = receive.recv();
            })
            .unwrap();
        let number = told.recv().unwrap();
        let seen = loop {
            let all = threads(crate::process::own_pid());
            let seen = all.into_iter().find(|thread| thread.thread == number).unwrap();
            if seen.state == 'S' && seen.call.is_some() {
                break seen;
            }
            std::thread::yield_now();
        };
        assert_eq!(seen.name, "sleeper");
        assert!(seen.call.unwrap().starts_with("futex("));
        drop(send);
        sleeper.join().unwrap();
        assert_eq!(threads(u32::MAX), []);
    }
}
