//! Starting the agent from a rank: `clump engine`, which belongs to nobody.

use crate::engine_job::EngineJob;
use crate::error::{Error, Result};
use clump_boot::Config;
use clump_boot::config::inherited_variable;
use clump_os::OsError;
use clump_os::process::{self, Input, Program};
use clump_os::socket;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The program's name.
const CLUMP: &str = "clump";
/// Its hidden command.
const COMMAND: [&str; 2] = ["engine", "--control"];

/// Starts the launcher of the job; returns the connection to it, which ends when it does.
///
/// # Errors
/// There is no clump, or it cannot be started.
pub(crate) fn start(engine: &'static str, config: &Config, job: &EngineJob) -> Result<UnixStream> {
    let clump = find(config).ok_or(Error::NoClump { engine })?;
    let (ours, theirs) = socket::stream_pair()?;
    let number = theirs.as_raw_fd().to_string();
    let words = COMMAND.map(OsString::from).into_iter().chain([number.into()]);
    let mut program = Program::new(clump, words);
    program.input = Input::Empty;
    program.passes = Some(theirs);
    let child = process::start(&program)?;
    // What remains is no child of this process: a program may wait for all of its own.
    drop(program);
    process::wait_for(child.pid)?;
    let text = serde_json::to_vec(job).unwrap_or_default();
    let gone = |e: std::io::Error| OsError::of("speaking with the agent of this machine", &e);
    let mut stream = UnixStream::from(ours);
    stream.write_all(&text).map_err(gone)?;
    stream.shutdown(Shutdown::Write).map_err(gone)?;
    Ok(stream)
}

/// Returns the clump to start: the one that is named, the one beside this program, or one in PATH.
fn find(config: &Config) -> Option<PathBuf> {
    let own = std::env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent).map(|folder| folder.join(CLUMP));
    let path = inherited_variable(OsStr::new("PATH")).unwrap_or_default();
    let in_path = std::env::split_paths(&path).map(|folder| folder.join(CLUMP));
    let known = beside.into_iter().chain(in_path);
    config.agent().or_else(|| known.into_iter().find(|file| file.is_file()))
}
