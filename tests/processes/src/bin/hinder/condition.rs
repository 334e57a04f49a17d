//! One adverse condition: its name on the command line, and the system call that establishes it.

use crate::filter::Refusal;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// An adverse condition for a program.
#[derive(Debug)]
pub enum Condition {
    /// A signal is ignored.
    Ignored(i32),
    /// A signal is blocked.
    Blocked(i32),
    /// A limit, soft and hard.
    Limit(libc::__rlimit_resource_t, libc::rlim_t),
    /// A group of processes (cgroups(7)).
    Group(PathBuf),
    /// Another user, of which no other process is here.
    User(libc::uid_t),
    /// A session of its own, whose controlling terminal is this descriptor.
    Terminal(i32),
    /// A system call is refused.
    Refused(Refusal),
    /// A descriptor is closed.
    Closed(i32),
}

/// Reads the value of an option.
type Read = fn(&str) -> Result<Condition, String>;

impl Condition {
    /// Returns the reader of an option's value; `None` if the word begins the program.
    pub fn option(word: &OsString) -> Option<Read> {
        Some(match word.to_str()? {
            "--ignore" => |value| signal(value).map(Self::Ignored),
            "--block" => |value| signal(value).map(Self::Blocked),
            "--limit" => limit,
            "--group" => |value| Ok(Self::Group(value.into())),
            "--user" => |value| number(value).map(Self::User),
            "--terminal" => |value| number(value).map(Self::Terminal),
            "--refuse" => |value| Refusal::read(value).map(Self::Refused),
            "--close" => |value| number(value).map(Self::Closed),
            _ => return None,
        })
    }

    /// Returns the order in which it is established: conditions that need privileges and
    /// descriptors come first.
    pub fn rank(&self) -> u8 {
        match self {
            Self::Terminal(_) => 0,
            Self::Limit(..) | Self::Group(_) => 1,
            Self::User(_) => 2,
            Self::Ignored(_) | Self::Blocked(_) => 3,
            Self::Refused(_) => 4,
            Self::Closed(_) => 5,
        }
    }

    /// Establishes it for this process and the program that it becomes.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub fn establish(&self) -> io::Result<()> {
        match *self {
            // Zero is the writer (cgroups(7)).
            Self::Group(ref group) => std::fs::write(group.join("cgroup.procs"), "0"),
            Self::Ignored(signal) => dispose(signal, libc::SIG_IGN),
            Self::Blocked(signal) => mask(libc::SIG_BLOCK, Some(signal)),
            Self::Limit(resource, value) => {
                let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
                // SAFETY: the limit lives during the call.
                checked(unsafe { libc::setrlimit(resource, &raw const limit) })
            }
            Self::User(user) => {
                // SAFETY: no memory but an empty list is handed over.
                checked(unsafe { libc::setgroups(0, std::ptr::null()) })?;
                // SAFETY: takes numbers only.
                checked(unsafe { libc::setresgid(user, user, user) })?;
                // SAFETY: takes numbers only.
                checked(unsafe { libc::setresuid(user, user, user) })
            }
            Self::Terminal(descriptor) => {
                // SAFETY: takes nothing. This process leads no group: its starter has just forked
                // it.
                checked(unsafe { libc::setsid() })?;
                // SAFETY: TIOCSCTTY takes a number, no pointer.
                checked(unsafe { libc::ioctl(descriptor, libc::TIOCSCTTY, 0) })
            }
            Self::Refused(ref refusal) => refusal.install(),
            // SAFETY: nothing in this process owns the standard descriptors, and nothing is opened
            // after.
            Self::Closed(descriptor) => checked(unsafe { libc::close(descriptor) }),
        }
    }
}

/// Gives every signal its default disposition, and blocks none.
///
/// # Errors
/// Fails if the kernel refuses.
pub fn inherit_nothing() -> io::Result<()> {
    for signal in 1..32 {
        if signal != libc::SIGKILL && signal != libc::SIGSTOP {
            dispose(signal, libc::SIG_DFL)?;
        }
    }
    mask(libc::SIG_SETMASK, None)
}

fn dispose(signal: i32, disposition: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: both dispositions are the kernel's own; no code of this program becomes a handler.
    let before = unsafe { libc::signal(signal, disposition) };
    if before == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn mask(how: i32, signal: Option<i32>) -> io::Result<()> {
    // SAFETY: a set of signals is plain numbers, and sigemptyset makes it an empty one.
    let mut set = unsafe { std::mem::zeroed::<libc::sigset_t>() };
    // SAFETY: the set lives during the calls.
    unsafe { libc::sigemptyset(&raw mut set) };
    if let Some(signal) = signal {
        // SAFETY: the set lives during the call.
        checked(unsafe { libc::sigaddset(&raw mut set, signal) })?;
    }
    // SAFETY: the set lives during the call; the old set is not requested.
    checked(unsafe { libc::sigprocmask(how, &raw const set, std::ptr::null_mut()) })
}

fn checked(returned: i32) -> io::Result<()> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

fn signal(name: &str) -> Result<i32, String> {
    Ok(match name {
        "CHLD" => libc::SIGCHLD,
        "PIPE" => libc::SIGPIPE,
        "INT" => libc::SIGINT,
        "TERM" => libc::SIGTERM,
        "HUP" => libc::SIGHUP,
        "QUIT" => libc::SIGQUIT,
        "XFSZ" => libc::SIGXFSZ,
        "USR1" => libc::SIGUSR1,
        "ALRM" => libc::SIGALRM,
        _ => return Err(format!("no signal is called `{name}` here")),
    })
}

/// Parses `NAME=BYTES`, or `NAME=unlimited`.
fn limit(text: &str) -> Result<Condition, String> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let resource = match name {
        "AS" => libc::RLIMIT_AS,
        "DATA" => libc::RLIMIT_DATA,
        "STACK" => libc::RLIMIT_STACK,
        "FSIZE" => libc::RLIMIT_FSIZE,
        "NOFILE" => libc::RLIMIT_NOFILE,
        "NPROC" => libc::RLIMIT_NPROC,
        "CPU" => libc::RLIMIT_CPU,
        "MEMLOCK" => libc::RLIMIT_MEMLOCK,
        "CORE" => libc::RLIMIT_CORE,
        "SIGPENDING" => libc::RLIMIT_SIGPENDING,
        _ => return Err(format!("no limit is called `{name}` here")),
    };
    let value = if value == "unlimited" { libc::RLIM_INFINITY } else { number(value)? };
    Ok(Condition::Limit(resource, value))
}
