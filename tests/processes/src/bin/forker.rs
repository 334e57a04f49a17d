//! Ranks that fork: `forker WAY ROUNDS AT`. Every rank communicates for so many rounds, and forks
//! before round `AT`; the mode is the child's action. Communication must continue as if there had
//! been no fork.

use clump::am::{Dest, Endpoint, Handler, Tag};
use clump_os::{clock, process};
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Requests of a round.
const BURST: usize = 16;

/// The action of a child.
#[derive(Debug, Clone, Copy)]
enum ForkMode {
    /// Ends by exit(3), which runs the exit handlers.
    Exit,
    /// Ends by _exit(2).
    ExitAtOnce,
    /// Executes a program that does not exist, then ends by exit(3).
    FailedExec,
    /// Executes a program.
    Exec,
    /// Returns from `main`, and drops the rank's objects.
    Return,
    /// Starts a session and a grandchild in it that stays, then ends.
    Daemon,
    /// Sends a request, which is refused or never happens, then ends by exit(3).
    Send,
}

impl ForkMode {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "exit" => Self::Exit,
            "exit-at-once" => Self::ExitAtOnce,
            "failed-exec" => Self::FailedExec,
            "exec" => Self::Exec,
            "return" => Self::Return,
            "daemon" => Self::Daemon,
            "send" => Self::Send,
            _ => return None,
        })
    }
}

fn main() -> Result<()> {
    let words: Vec<String> =
        std::env::args_os().skip(1).filter_map(|word| word.into_string().ok()).collect();
    let [mode, rounds, at] = &words[..] else { return Err("forker MODE ROUNDS AT".into()) };
    let mode = ForkMode::named(mode).ok_or("no such mode")?;
    let (rounds, at): (usize, usize) = (rounds.parse()?, at.parse()?);
    // Before there is anything to inherit.
    if at == 0 && fork(mode, || Ok(()))? {
        return Ok(());
    }
    let cl = clump::init()?;
    let ep = Endpoint::open(&cl, Tag(7))?;
    let answers = Rc::new(Cell::new(0_usize));
    ep.set_handler(Handler(1), |token, words, _| token.reply(Handler(2), words))?;
    let answered = answers.clone();
    ep.set_handler(Handler(2), move |_, _, _| answered.set(answered.get() + 1))?;
    let names = cl.all_gather(ep.name())?;
    let peers: Vec<Dest> =
        names.iter().map(|n| ep.map(n, Tag(7))).collect::<std::result::Result<_, _>>()?;
    for round in 0..rounds {
        let request = || Ok(ep.request(peers[round % peers.len()], Handler(1), &[round as u64])?);
        if round + 1 == at && fork(mode, request)? {
            return Ok(());
        }
        for i in 0..BURST {
            ep.request(peers[(round + i) % peers.len()], Handler(1), &[round as u64])?;
        }
        let due = (round + 1) * BURST;
        ep.poll_until(|| answers.get() >= due)?;
        if answers.get() > due {
            return Err("more answers than requests".into());
        }
        cl.barrier()?;
    }
    cl.barrier()?;
    Ok(())
}

/// Forks; returns `true` in a child that shall return from `main`.
fn fork(mode: ForkMode, request: impl Fn() -> Result<()>) -> Result<bool> {
    // SAFETY: as careless as a program that knows nothing of threads: that is what is tried here.
    // The child uses memory that it has, and locks that no other thread of this program takes.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(io::Error::last_os_error().into());
    }
    if pid > 0 {
        if matches!(mode, ForkMode::Daemon) {
            return Ok(false);
        }
        let mut status = 0;
        // SAFETY: the status lives during the call.
        unsafe { libc::waitpid(pid, &raw mut status, 0) };
        return Ok(false);
    }
    match mode {
        ForkMode::Return => return Ok(true),
        ForkMode::ExitAtOnce => process::exit_at_once(0),
        ForkMode::FailedExec => execute(c"/no/such/program"),
        ForkMode::Exec => execute(c"/bin/true"),
        ForkMode::Daemon => stay(),
        ForkMode::Send => drop(request()),
        ForkMode::Exit => {}
    }
    std::process::exit(0)
}

fn execute(path: &std::ffi::CStr) {
    let words = [path.as_ptr(), std::ptr::null()];
    // SAFETY: both words end as execv(3) asks for.
    unsafe { libc::execv(path.as_ptr(), words.as_ptr()) };
}

/// Leaves a grandchild in a session of its own, which stays until it is killed.
fn stay() {
    // SAFETY: takes nothing.
    unsafe { libc::setsid() };
    // SAFETY: as in [`fork`].
    if unsafe { libc::fork() } == 0 {
        loop {
            clock::pass(Duration::from_secs(1));
        }
    }
}
