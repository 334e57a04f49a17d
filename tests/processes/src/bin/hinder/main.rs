//! Runs a program under adverse conditions: `hinder [CONDITION]... PROGRAM [ARGUMENT]...`.
//!
//! Used by `cargo xtask attack`, whose own code is without `unsafe`. Every signal has its default
//! disposition and none is blocked, whatever this process inherited; then the conditions are
//! established, and the program takes this process over. Exit code 99: a condition cannot be
//! established here, and standard error gives the reason.

mod condition;
mod filter;

use condition::Condition;
use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

/// Exit code when a condition cannot be established.
const IMPOSSIBLE: u8 = 99;
/// Exit codes of shells: the program cannot be started, or does not exist.
const CANNOT_START: u8 = 126;
const MISSING: u8 = 127;

fn main() -> ExitCode {
    let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let mut conditions = Vec::new();
    while let Some(read) = words.first().and_then(Condition::option) {
        let value = if words.len() > 1 { words.remove(1) } else { OsString::new() };
        words.remove(0);
        match read(&value.to_string_lossy()) {
            Ok(condition) => conditions.push(condition),
            Err(why) => return impossible(&why),
        }
    }
    if let Err(error) = condition::inherit_nothing() {
        return impossible(&error.to_string());
    }
    // Descriptors go last, or errors could not be written; filters before them may refuse later
    // calls.
    conditions.sort_by_key(Condition::rank);
    for condition in &conditions {
        if let Err(error) = condition.establish() {
            return impossible(&format!("{condition:?}: {error}"));
        }
    }
    match execute(words) {
        Some(libc::ENOENT) => MISSING.into(),
        _ => CANNOT_START.into(),
    }
}

fn impossible(why: &str) -> ExitCode {
    eprintln!("hinder: {why}");
    IMPOSSIBLE.into()
}

/// Becomes the program; returns the error if that fails.
fn execute(words: Vec<OsString>) -> Option<i32> {
    // std's own `exec` would restore SIGPIPE and the mask of signals.
    let words: Vec<CString> =
        words.into_iter().filter_map(|word| CString::new(word.into_vec()).ok()).collect();
    let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    let program = *pointers.first().filter(|first| !first.is_null())?;
    // SAFETY: `words` lives, every pointer is to a string that ends in zero, and the list ends in
    // null.
    unsafe { libc::execvp(program, pointers.as_ptr()) };
    io::Error::last_os_error().raw_os_error()
}
