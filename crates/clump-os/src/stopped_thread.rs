//! One thread of another process, stopped alone: a signal would stop all of its process.

use crate::error::{OsError, Result};
use rustix::io::Errno;
use std::marker::PhantomData;
use std::ptr::null_mut;

/// A thread that stands still until this is dropped, as under a debugger (ptrace(2)). It belongs to
/// the calling thread, which alone may let it go on.
#[derive(Debug)]
pub struct StoppedThread {
    thread: libc::pid_t,
    /// A signal that had arrived; 0 if none had.
    signal: i32,
    /// Neither `Send` nor `Sync`: the kernel knows the thread that stopped it.
    _of_this_thread: PhantomData<*const ()>,
}

impl StoppedThread {
    /// Stops `thread`, of any process that this user may inspect and that is no child of this one;
    /// returns `None` if it is gone.
    ///
    /// # Errors
    /// This process may not, or a debugger has it.
    pub fn stop(thread: u32) -> Result<Option<Self>> {
        let Some(thread) = libc::pid_t::try_from(thread).ok().filter(|&thread| thread > 0) else {
            return Ok(None);
        };
        if !request(libc::PTRACE_SEIZE, thread, 0)? {
            return Ok(None);
        }
        // One that ends now ends without a stop.
        request(libc::PTRACE_INTERRUPT, thread, 0)?;
        let status = wait(thread)?;
        if !libc::WIFSTOPPED(status) {
            return Ok(None);
        }
        // A stop that is an event has a number above the signal's, which is none to be delivered.
        let is_event = status >> 16 != 0;
        let signal = if is_event { 0 } else { libc::WSTOPSIG(status) };
        debug_assert!((0..=64).contains(&signal), "a signal");
        Ok(Some(Self { thread, signal, _of_this_thread: PhantomData }))
    }
}

impl Drop for StoppedThread {
    fn drop(&mut self) {
        let runs = request(libc::PTRACE_DETACH, self.thread, self.signal).unwrap_or_default();
        if !runs {
            // It was killed meanwhile: its end is reported here first, then to its parent.
            let _ = wait(self.thread);
        }
    }
}

/// Sends one request about a thread; returns false if it is gone.
fn request(what: libc::c_uint, thread: libc::pid_t, signal: i32) -> Result<bool> {
    let signal = libc::c_long::from(signal);
    // SAFETY: these requests read and write no memory of this process.
    let done = unsafe { libc::ptrace(what, thread, null_mut::<libc::c_void>(), signal) };
    match Errno::from_io_error(&std::io::Error::last_os_error()) {
        _ if done == 0 => Ok(true),
        Some(Errno::SRCH) => Ok(false),
        errno => Err(OsError::new("stopping a thread", errno.unwrap_or(Errno::IO))),
    }
}

/// Waits until a thread that this one traces stops or ends; returns its status, as that of a thread
/// that has ended if it is gone.
fn wait(thread: libc::pid_t) -> Result<i32> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is a place to write to.
        if unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL) } == thread {
            return Ok(status);
        }
        match Errno::from_io_error(&std::io::Error::last_os_error()) {
            Some(Errno::INTR) => {}
            Some(Errno::CHILD) => return Ok(0),
            errno => return Err(OsError::new("waiting for a thread", errno.unwrap_or(Errno::IO))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procfs::Process;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    #[test]
    fn a_thread_stands_still_until_it_is_let_go() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        match StoppedThread::stop(child.id()) {
            Ok(stopped) => {
                assert_eq!(Process::read(child.id()).unwrap().state, 't');
                drop(stopped.unwrap());
                assert_ne!(Process::read(child.id()).unwrap().state, 't');
            }
            Err(why) => println!("SKIPPED: {why}"),
        }
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success(), "nothing has happened to it");
    }

    #[test]
    fn what_is_killed_while_it_stands_still_ends_for_its_parent() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 1000 & echo $!; wait $!; echo ended $?"]).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let mut lines =
            BufReader::new(shell.stdout.take().unwrap()).lines().map_while(std::result::Result::ok);
        let pid = lines.next().unwrap().parse().unwrap();
        let stopped = StoppedThread::stop(pid);
        crate::process::signal(pid, crate::signal::KILL).unwrap();
        if let Err(why) = &stopped {
            println!("SKIPPED: {why}");
        }
        drop(stopped);
        assert_eq!(lines.next().as_deref(), Some("ended 137"));
        assert!(shell.wait().unwrap().success());
        assert!(StoppedThread::stop(pid).unwrap().is_none(), "it is gone");
        assert!(StoppedThread::stop(0).unwrap().is_none());
        assert!(StoppedThread::stop(u32::MAX).unwrap().is_none());
    }
}
