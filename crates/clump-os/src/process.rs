//! Starting, watching and ending processes, without the races that naive code has.
//!
//! A child is started in a process group of its own and dies with the thread that started it. The
//! starter adopts the processes that its children leave behind ([`adopt_orphans`]), so that
//! [`crate::procfs`] finds every descendant below it, even those in sessions of their own.

use crate::error::{OsError, Result};
use crate::refusal::{limit, no_process};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Resource, Rlimit, Signal, WaitId, WaitIdOptions, WaitOptions,
};
use std::ffi::{CString, OsStr, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// End of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Returned this code.
    Code(u8),
    /// This signal killed it.
    Signal(u8),
}

/// Change of a child's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildEvent {
    /// Ended, and was reaped.
    Ended(Exit),
    /// A signal stopped it.
    Stopped,
    /// Continued after a stop.
    Continued,
}

/// Result of [`changed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildEvents {
    /// The state of this child changed.
    Of(u32, ChildEvent),
    /// No change; there are children.
    Nothing,
    /// No child any more.
    Childless,
}

/// Standard input of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Standard input of this process.
    Inherited,
    /// Empty.
    Empty,
    /// A pipe, whose other end this process has.
    Piped,
}

/// A program to start.
#[derive(Debug)]
pub struct Program {
    /// File, or a name that is looked for in `PATH`.
    pub file: OsString,
    /// Arguments after the program's name.
    pub args: Vec<OsString>,
    /// Variables added to the environment of this process.
    pub variables: Vec<(OsString, OsString)>,
    /// Variables taken out of it.
    pub without: Vec<OsString>,
    /// Working directory; that of this process when absent.
    pub directory: Option<PathBuf>,
    /// Standard input of the program.
    pub input: Input,
    /// True if output and errors come through pipes; otherwise they go where this process's go.
    pub piped: bool,
    /// True if standard error is inherited, even if output is piped.
    pub errors_inherited: bool,
    /// A socket that is both its standard input and its standard output, whatever the other fields
    /// are; its errors come through a pipe.
    pub stream: Option<OwnedFd>,
    /// A descriptor that it inherits, under the same number.
    pub passes: Option<OwnedFd>,
    /// CPUs it is bound to; none: as this process.
    pub cpus: Vec<usize>,
    /// True if it is killed when the thread that starts it ends.
    pub dies_with_starter: bool,
    /// Limit of open descriptors it gets; none: as this process.
    pub descriptors: Option<u64>,
}

impl Program {
    /// Creates a description of `file` with `args`, everything else as this process.
    pub fn new(file: impl Into<OsString>, args: impl IntoIterator<Item = OsString>) -> Self {
        Self {
            file: file.into(),
            args: args.into_iter().collect(),
            variables: Vec::new(),
            without: Vec::new(),
            directory: None,
            input: Input::Inherited,
            piped: false,
            errors_inherited: false,
            stream: None,
            passes: None,
            cpus: Vec::new(),
            dies_with_starter: false,
            descriptors: None,
        }
    }

    /// Adds a variable.
    pub fn variable(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.variables.push((name.as_ref().into(), value.as_ref().into()));
        self
    }
}

/// A started child.
#[derive(Debug)]
pub struct Child {
    /// Process number, also that of its process group. Valid until [`changed`] reported its end.
    pub pid: u32,
    /// Becomes readable when it ends.
    pub pidfd: OwnedFd,
    /// The pipe to its standard input, if there is one; writing never blocks.
    pub input: Option<OwnedFd>,
    /// Standard output, if piped; reading never blocks.
    pub output: Option<OwnedFd>,
    /// Error stream, if piped; reading never blocks.
    pub errors: Option<OwnedFd>,
}

/// Starts `program` in a process group of its own, with no signal blocked. It ignores the signals
/// that this process inherited as ignored.
///
/// # Errors
/// The program cannot be started: it does not exist, or a limit is in the way.
pub fn start(program: &Program) -> Result<Child> {
    let name = program.file.to_string_lossy().into_owned();
    let mut command = Command::new(&program.file);
    command.args(&program.args).process_group(0);
    command.envs(program.variables.iter().map(|(name, value)| (name, value)));
    for variable in &program.without {
        command.env_remove(variable);
    }
    if let Some(directory) = &program.directory {
        command.current_dir(directory);
    }
    command.stdin(match program.input {
        Input::Inherited => Stdio::inherit(),
        Input::Empty => Stdio::null(),
        Input::Piped => Stdio::piped(),
    });
    if program.piped {
        command.stdout(Stdio::piped());
    }
    if program.piped && !program.errors_inherited {
        command.stderr(Stdio::piped());
    }
    if let Some(stream) = &program.stream {
        let end = || stream.try_clone().map_err(|e| OsError::of("duplicating a stream", &e));
        command.stdin(end()?).stdout(end()?).stderr(Stdio::piped());
    }
    prepare(&mut command, program);
    let mut child = command.spawn().map_err(|e| not_started(&name, &e))?;
    let pid = child.id();
    let pidfd = pidfd(pid)?;
    let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let quiet = |pipe: OwnedFd| {
        rustix::io::ioctl_fionbio(&pipe, true).map_err(|e| OsError::new("ioctl(FIONBIO)", e))?;
        Ok::<OwnedFd, OsError>(pipe)
    };
    Ok(Child {
        pid,
        pidfd,
        input: input.map(OwnedFd::from).map(quiet).transpose()?,
        output: output.map(OwnedFd::from).map(quiet).transpose()?,
        errors: errors.map(OwnedFd::from).map(quiet).transpose()?,
    })
}

fn not_started(name: &str, why: &std::io::Error) -> OsError {
    let error = OsError::of(format!("cannot start `{name}`"), why);
    match error.errno {
        Errno::AGAIN => OsError::new(format!("{} ({})", error.call, no_process()), Errno::AGAIN),
        _ => error,
    }
}

/// Prepares the steps of the child between fork and exec: system calls only, no allocation.
fn prepare(command: &mut Command, program: &Program) {
    let passes = program.passes.as_ref().map(AsRawFd::as_raw_fd);
    let starter = rustix::process::getpid();
    let dies = program.dies_with_starter;
    let mut cpus = (!program.cpus.is_empty()).then(rustix::thread::CpuSet::new);
    if let Some(set) = &mut cpus {
        for &cpu in program.cpus.iter().filter(|&&cpu| cpu < rustix::thread::CpuSet::MAX_CPU) {
            set.set(cpu);
        }
    }
    let descriptors = program.descriptors;
    let in_child = move || {
        // Since Rust 1.66 a child inherits the signals that this process has blocked to read them
        // from a descriptor.
        crate::signal::unblock_all();
        crate::signal::unset_own();
        if dies {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            // The starter may have died before that call: then no process would kill this child.
            if rustix::process::getppid() != Some(starter) {
                return Err(Errno::SRCH.into());
            }
        }
        if let Some(number) = passes {
            // SAFETY: the descriptor is open: `program`, which owns it, lives until after the
            // spawn.
            let descriptor = unsafe { std::os::fd::BorrowedFd::borrow_raw(number) };
            rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::empty())?;
        }
        if let Some(set) = &cpus {
            rustix::thread::sched_setaffinity(None, set)?;
        }
        if let Some(soft) = descriptors {
            let now = limit(Resource::Nofile);
            let limit = Rlimit { current: Some(soft), maximum: now.maximum };
            rustix::process::setrlimit(Resource::Nofile, limit)?;
        }
        Ok(())
    };
    // SAFETY: the closure makes system calls on values captured before the fork; it neither
    // allocates nor takes locks, so it may run between fork and exec of a process with other
    // threads.
    unsafe { command.pre_exec(in_child) };
}

/// Opens a descriptor that becomes readable when process `pid` ends.
///
/// # Errors
/// There is no such process, or no more descriptors are allowed.
pub fn pidfd(pid: u32) -> Result<OwnedFd> {
    rustix::process::pidfd_open(number(pid)?, PidfdFlags::empty())
        .map_err(|e| OsError::new(format!("watching process {pid}"), e))
}

/// Makes processes whose parents have ended children of this process, however deep below it.
///
/// # Errors
/// The kernel refuses, which it does not.
pub fn adopt_orphans() -> Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|e| OsError::new("prctl(PR_SET_CHILD_SUBREAPER)", e))
}

/// Forbids dumps of this process's memory, and other processes of the user to read it.
///
/// # Errors
/// The kernel refuses, which it does not.
pub fn forbid_dumps() -> Result<()> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|e| OsError::new("prctl(PR_SET_DUMPABLE)", e))
}

/// Returns the next change of any child; reaps it if it ended. Never blocks.
///
/// # Errors
/// waitpid(2) fails, which it never does.
pub fn changed() -> Result<ChildEvents> {
    let options = WaitOptions::NOHANG | WaitOptions::UNTRACED | WaitOptions::CONTINUED;
    match rustix::process::wait(options) {
        Ok(None) => Ok(ChildEvents::Nothing),
        Ok(Some((pid, status))) => {
            let pid = pid.as_raw_nonzero().get().unsigned_abs();
            let small = |n: i32| u8::try_from(n & 0xff).unwrap_or(u8::MAX);
            let change = if let Some(signal) = status.terminating_signal() {
                ChildEvent::Ended(Exit::Signal(small(signal)))
            } else if let Some(code) = status.exit_status() {
                ChildEvent::Ended(Exit::Code(small(code)))
            } else if status.continued() {
                ChildEvent::Continued
            } else {
                ChildEvent::Stopped
            };
            Ok(ChildEvents::Of(pid, change))
        }
        Err(Errno::CHILD) => Ok(ChildEvents::Childless),
        Err(Errno::INTR) => Ok(ChildEvents::Nothing),
        Err(e) => Err(OsError::new("waiting for children", e)),
    }
}

/// Returns true if this process has no child, of any state: then, if it adopts orphans, no
/// descendant either.
pub fn is_childless() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(rustix::process::waitid(WaitId::All, options), Err(Errno::CHILD))
}

/// Waits for the end of child `pid`, and for no other's.
///
/// # Errors
/// It is no child of this process, or has been waited for.
pub fn wait_for(pid: u32) -> Result<()> {
    loop {
        match rustix::process::waitpid(Some(number(pid)?), WaitOptions::empty()) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(e) => return Err(OsError::new(format!("waiting for process {pid}"), e)),
        }
    }
}

/// Sends a signal to every process of the group that child `pid` leads; an empty group is no error.
///
/// # Errors
/// The signal has no name, or this process may not send it.
pub fn signal_group(pid: u32, signal: u8) -> Result<()> {
    let (group, signal) = (number(pid)?, named(signal)?);
    quietly(rustix::process::kill_process_group(group, signal), || {
        format!("sending signal {} to process group {pid}", signal.as_raw())
    })
}

/// Sends a signal to one process; its absence is no error.
///
/// # Errors
/// The signal has no name, or this process may not send it.
pub fn signal(pid: u32, signal: u8) -> Result<()> {
    let (process, signal) = (number(pid)?, named(signal)?);
    quietly(rustix::process::kill_process(process, signal), || {
        format!("sending signal {} to process {pid}", signal.as_raw())
    })
}

/// Sends a signal to the process behind a [`pidfd`], and to no other; its absence is no error.
///
/// # Errors
/// The signal has no name, or this process may not send it.
pub fn signal_by_fd(pidfd: &OwnedFd, signal: u8) -> Result<()> {
    let signal = named(signal)?;
    quietly(rustix::process::pidfd_send_signal(pidfd, signal), || "pidfd_send_signal".into())
}

fn quietly(outcome: rustix::io::Result<()>, what: impl Fn() -> String) -> Result<()> {
    match outcome {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(e) => Err(OsError::new(what(), e)),
    }
}

/// Starts this program anew, with the arguments that it was started with, unless it is at addresses
/// that are the same in each process. Returns where they are, or where the kernel does not permit
/// that (personality(2)). The state of the process is lost but for its descriptors: to be called
/// first.
///
/// # Safety
/// `arguments` are those of `main`.
pub unsafe fn fix_addresses(arguments: *const *mut libc::c_char) {
    // SAFETY: reads the personality.
    let now = unsafe { libc::personality(0xffff_ffff) };
    let fixed = now | libc::ADDR_NO_RANDOMIZE;
    // SAFETY: reads a number that the kernel has left. A program with the rights of its file's
    // owner never gets there: it would begin again and again.
    let special = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    if now < 0 || now == fixed || special {
        return;
    }
    let Ok(own) = std::env::current_exe() else { return };
    let Ok(own) = CString::new(own.into_os_string().into_vec()) else { return };
    // SAFETY: a number; concerns the programs that this process starts.
    if unsafe { libc::personality(fixed as libc::c_ulong) } < 0 {
        return;
    }
    // SAFETY: a path and texts that the system has left.
    unsafe { libc::execv(own.as_ptr(), arguments.cast()) };
}

/// Ends this process now: buffers are not written, and no code runs at its end.
pub fn exit_at_once(code: i32) -> ! {
    // SAFETY: takes any number, touches no memory of this program, and does not return.
    unsafe { libc::_exit(code) }
}

/// Has a function called when this process ends by `exit`, also within a signal handler.
///
/// # Errors
/// Fails if memory has run out.
pub fn at_exit(run: extern "C" fn()) -> Result<()> {
    // SAFETY: the function lives as long as the library that has it, with which it is forgotten.
    match unsafe { libc::atexit(run) } {
        0 => Ok(()),
        _ => Err(OsError::new("atexit", Errno::NOMEM)),
    }
}

/// Returns this process's number.
pub fn own_pid() -> u32 {
    rustix::process::getpid().as_raw_nonzero().get().unsigned_abs()
}

/// Returns the number of this process's parent; zero when it is outside this process's PID
/// namespace.
pub fn parent_pid() -> u32 {
    rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs())
}

/// Raises the limit of open descriptors as far as allowed; returns the soft limit before, which
/// programs that use `select` may rely on.
pub fn raise_descriptor_limit() -> Option<u64> {
    let before = limit(Resource::Nofile);
    let most = Rlimit { current: before.maximum, maximum: before.maximum };
    let _ = rustix::process::setrlimit(Resource::Nofile, most);
    before.current
}

/// Returns 64 random bits from the operating system.
///
/// # Errors
/// The kernel has no random source, or a filter refuses it.
pub fn random() -> Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| OsError::new("getrandom", e))?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Returns the bytes of a page of memory.
pub fn page_bytes() -> u64 {
    // rustix reads the auxiliary vector, which checkers of memory do not present as it is.
    // SAFETY: no arguments in memory.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Returns the name of this machine, for reports only.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn number(pid: u32) -> Result<Pid> {
    let none = || OsError::new(format!("process {pid}"), Errno::SRCH);
    i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(none)
}

fn named(signal: u8) -> Result<Signal> {
    Signal::from_named_raw(i32::from(signal))
        .ok_or_else(|| OsError::new(format!("signal {signal}"), Errno::INVAL))
}
