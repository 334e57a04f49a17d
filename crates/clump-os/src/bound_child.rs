//! Other programs that never outlive the process that started them.

use crate::error::{OsError, Result};
use crate::procfs::{self, Process};
use crate::{clock, process, signal};
use rustix::process::Signal;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

/// Time in ns that a program has between the request to end and its kill.
const GRACE_NS: u64 = 3_000_000_000;
/// Time between checks of whether it has ended.
const LOOK: Duration = Duration::from_millis(2);

/// A running program in a process group of its own. Dropping it ends the program: it sends SIGTERM
/// first, so that launchers can end their jobs, and kills the remaining processes of its tree some
/// seconds later. If this process is killed, the kernel sends the signal.
#[derive(Debug)]
pub struct BoundChild {
    child: Child,
    ended: bool,
}

impl BoundChild {
    /// Starts `command`, with no signal blocked. Call it on a thread that lives as long as the
    /// program is to.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let starter = rustix::process::getpid();
        let in_child = move || {
            signal::unblock_all();
            signal::unset_own();
            rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
            // The starter may have died before that call: then no process would end this one.
            if rustix::process::getppid() != Some(starter) {
                return Err(rustix::io::Errno::SRCH.into());
            }
            Ok(())
        };
        command.process_group(0);
        // SAFETY: the closure makes system calls on values captured before the fork; it neither
        // allocates nor takes locks, so it may run between fork and exec of a process with other
        // threads.
        unsafe { command.pre_exec(in_child) };
        Ok(Self { child: command.spawn()?, ended: false })
    }

    /// Returns the started process, for its pipes and its number.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Waits for the end, while `may_go_on` returns true; returns `None` when it returns false.
    ///
    /// # Errors
    /// The kernel cannot wait for the child, which it always can.
    pub fn wait_while(
        &mut self,
        mut may_go_on: impl FnMut() -> bool,
    ) -> Result<Option<ExitStatus>> {
        loop {
            let ended =
                self.child.try_wait().map_err(|e| OsError::of("waiting for a program", &e))?;
            if ended.is_some() {
                self.ended = true;
                return Ok(ended);
            }
            if !may_go_on() {
                return Ok(None);
            }
            clock::pass(LOOK);
        }
    }

    fn end(&mut self) {
        let pid = self.child.id();
        let below = procfs::descendants(pid);
        // All of these fail only where no process is left, which is their purpose.
        let _ = process::signal_group(pid, signal::TERMINATE);
        let _ = process::signal_group(pid, signal::CONTINUE);
        let give_up_ns = clock::now_ns() + GRACE_NS;
        if !matches!(self.wait_while(|| clock::now_ns() < give_up_ns), Ok(Some(_))) {
            let _ = process::signal_group(pid, signal::KILL);
            let _ = self.child.wait();
        }
        for process in below.iter().filter(|process| is_there(process)) {
            let _ = process.kill();
        }
    }
}

fn is_there(process: &Process) -> bool {
    Process::read(process.pid).is_some_and(|now| now.started == process.started)
}

impl Drop for BoundChild {
    fn drop(&mut self) {
        if !self.ended {
            self.end();
        }
    }
}
