//! The process that stands above an agent on another machine, and cleans up after it.
//!
//! On the launcher's machine the launcher adopts what a killed agent leaves behind. Elsewhere no
//! process would: so what the remote shell starts is a keeper, which starts the agent, hands its
//! standard input and output on, adopts orphans, and kills what is left when the agent is gone. If
//! the keeper is killed, the remote shell ends the streams, and with them the agent its ranks.

use crate::{rank_state, sweep};
use clump_boot::config::inherited_variable;
use clump_os::epoll::{Interest, Poller};
use clump_os::oom::OomCounters;
use clump_os::process::{self, ChildEvent, ChildEvents, Exit, Program};
use clump_os::signal::{self, Signals};
use clump_os::standard_streams;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

/// The hidden subcommand with which the launcher starts itself as an agent.
pub(crate) const AGENT_COMMAND: &str = "agent";
/// The option of a keeper whose folder, with clump and the program in it, goes with the job.
pub(crate) const STAGED: &str = "--staged";
/// The option of a relay, which reaches further machines, and the space before it.
pub(crate) const RELAY: &str = " --relay";
/// The option of the agent that has a keeper.
pub(crate) const KEPT: &str = "--kept";
/// Longest time of killing what is left.
const SWEEP_NS: u64 = 2_000_000_000;

/// Starts the agent, waits for its end, and kills what it has left. Returns the code to exit with.
pub(crate) fn keep(staged: bool) -> anyhow::Result<u8> {
    signal::set_own()?;
    // Batch systems send them to all processes of a job.
    let _blocked = Signals::block(&signal::OF_PROGRAMS)?;
    process::adopt_orphans()?;
    let own = own_path();
    let program = Program::new(&own, [AGENT_COMMAND, KEPT].map(OsString::from));
    let agent = process::start(&program)?;
    let mut oom = OomCounters::default();
    oom.watch(agent.pid);
    // Streams end when all their holders are gone.
    drop(standard_streams::take()?);
    let poller = Poller::new()?;
    poller.add(&agent.pidfd, 0, Interest::Read)?;
    let exit = loop {
        poller.wait(None)?;
        if let Some(exit) = end_of(agent.pid)? {
            break exit;
        }
    };
    let is_oom = exit == Exit::Signal(signal::KILL) && oom.account(agent.pid);
    sweep::sweep(&[], SWEEP_NS);
    if staged {
        remove_folder(&own);
    }
    Ok(match exit {
        Exit::Code(code) => code,
        Exit::Signal(n) => {
            // The remote shell shows it to the launcher.
            let how = rank_state::describe(exit, is_oom);
            clump_os::console::err(&format!("its agent {how}"));
            128_u8.saturating_add(n)
        }
    })
}

/// Returns the path of this program.
pub(crate) fn own_path() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into())
}

/// Returns the path by which this program was called, if that is a symbolic link to it, or leads
/// through one.
pub(crate) fn invoked_path() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let called = PathBuf::from(std::env::args_os().next()?);
    let path = inherited_variable(OsStr::new("PATH")).unwrap_or_default();
    let all: Vec<PathBuf> = match called.components().nth(1) {
        Some(_) => vec![called],
        None => std::env::split_paths(&path).map(|folder| folder.join(&called)).collect(),
    };
    let found = all.iter().find(|path| path.canonicalize().is_ok_and(|path| path == own))?;
    let is_plain = |path: &PathBuf| !path.components().any(|part| part == Component::ParentDir);
    std::path::absolute(found).ok().filter(|path| *path != own && is_plain(path))
}

/// Removes the folder of a staged clump, as the shell that made it does unless it was killed.
pub(crate) fn remove_folder(own: &Path) {
    let is_ours = |folder: &&Path| {
        let name = folder.file_name().and_then(OsStr::to_str);
        name.is_some_and(|name| name.starts_with("clump."))
    };
    if let Some(folder) = own.parent().filter(is_ours) {
        // The shell may have removed it already.
        let _ = std::fs::remove_dir_all(folder);
    }
}

/// Reaps children; returns the end of `agent`, once it has ended.
fn end_of(agent: u32) -> clump_os::Result<Option<Exit>> {
    loop {
        match process::changed()? {
            ChildEvents::Of(pid, ChildEvent::Ended(exit)) if pid == agent => return Ok(Some(exit)),
            ChildEvents::Of(..) => {}
            ChildEvents::Nothing | ChildEvents::Childless => return Ok(None),
        }
    }
}
