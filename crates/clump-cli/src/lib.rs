//! The `clump` program: starts jobs, and runs built-in applications.
//!
//! Top layer: combines the layers below and adds words only. It is a library so that other programs
//! (tests above all) can be a `clump` of their own.
//!
//! Main types: [`command::Cli`] (the command line), [`job::in_job`] (how a built-in command becomes
//! parallel).
//!
//! # Invariants
//! 1. A program whose `main` is [`main`] can be launcher, agent and rank: the command line and the
//!    inherited descriptors decide.
//! 2. Exit codes: 0 all went well, 2 the command line is wrong, 125 clump itself failed, 126 and
//!    127 the program cannot be started or does not exist, 141 the output has no reader any more,
//!    else the first failing rank's (128 + signal).
#![forbid(unsafe_code)]

pub mod allocation;
pub mod app;
pub mod command;
pub mod demo;
pub mod doctor;
pub mod hosts;
pub mod job;
pub mod layout;
pub mod machines;
mod ranks;
pub mod run;
pub mod schema;
mod shared_app;
mod sort_job;
mod stacks;
pub mod stats;
pub mod top;
mod waits;

use clump_lab::wrong_command::WrongCommand;
use clump_os::printable::printable_lines;
use clump_os::{OsError, console, limit, signal};
use std::io::Write;
use std::process::ExitCode;

/// Parses the command line and executes it.
pub fn main() -> ExitCode {
    clump_os::clock::begin();
    match prepared() {
        Ok(()) => work(),
        Err(error) => {
            console::err(&format!("clump: {error}"));
            ExitCode::from(job::OWN_FAILURE)
        }
    }
}

/// Restores process state that this program depends on and its caller may have changed.
fn prepared() -> anyhow::Result<()> {
    // Before all else: parsing the command line needs a sufficient stack.
    limit::check()?;
    signal::unblock_all();
    Ok(signal::set_own()?)
}

/// Does the work of [`main`], in a function of its own: `main`'s frame must fit the smallest
/// stack.
#[inline(never)]
fn work() -> ExitCode {
    use clap::Parser;
    let said = match command::Cli::try_parse() {
        Ok(cli) => cli.act(),
        Err(error) => said_by_parser(&error),
    };
    said.unwrap_or_else(|error| {
        let reader_left = |cause: &OsError| console::nobody_reads(cause);
        if error.chain().filter_map(|cause| cause.downcast_ref()).any(reader_left) {
            return ExitCode::from(UNREAD);
        }
        console::err(&format!("clump: {}", printable_lines(&format!("{error:#}"))));
        ExitCode::from(code_of(&error))
    })
}

/// Prints help, or the reason why a command line is wrong.
fn said_by_parser(error: &clap::Error) -> anyhow::Result<ExitCode> {
    if error.use_stderr() {
        // A failure to print the error cannot be reported.
        let _ = error.print();
        return Ok(ExitCode::from(WRONG_COMMAND));
    }
    match error.print().and_then(|()| std::io::stdout().flush()) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(why) => Err(console::not_written(&why).into()),
    }
}

/// Exit code when the output has no reader any more: 128 + SIGPIPE.
const UNREAD: u8 = 141;
/// Exit code for a wrong command line, as the parser's.
const WRONG_COMMAND: u8 = 2;

/// Returns the code to exit with after `error`.
fn code_of(error: &anyhow::Error) -> u8 {
    if clump_engines::started_as_rank() {
        return 1; // a rank's failure is its program's, not clump's
    }
    use clump_boot::Error as Settings;
    let is_the_users = |cause: &(dyn std::error::Error + 'static)| {
        let setting = cause.downcast_ref::<Settings>();
        cause.is::<WrongCommand>()
            || cause.is::<clump_loggp::KnobError>()
            || matches!(setting, Some(Settings::BadValue { .. } | Settings::BadFile { .. }))
    };
    if error.chain().any(is_the_users) { WRONG_COMMAND } else { job::OWN_FAILURE }
}
