//! The `clump` program: starts jobs, and shows what is built in.
//!
//! Top layer: joins what the layers below offer and adds words only. It is a library so that other
//! programs (tests above all) can be a `clump` of their own.
//!
//! Types to know: [`command::Cli`] (the command line), [`job::in_job`] (how a built-in command becomes
//! parallel).
//!
//! # Invariants
//! 1. A program whose `main` is [`main`] can be launcher, agent and rank: which one, the command line and
//!    the inherited descriptors say.
//! 2. Exit codes: 0 all went well, 2 the command line is wrong, 125 clump itself failed, 126 and 127 the
//!    program cannot be started or does not exist, else the first failing rank's (128 + signal).
#![forbid(unsafe_code)]

pub mod app;
pub mod command;
pub mod demo;
pub mod doctor;
pub mod job;
pub mod layout;
pub mod run;
pub mod stats;

use std::process::ExitCode;

/// Reads the command line and does what it says.
pub fn main() -> ExitCode {
    use clap::Parser;
    match command::Cli::parse().act() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("clump: {}", clump_os::visible::visible(&format!("{error:#}")));
            ExitCode::from(code_of(&error))
        }
    }
}

/// Exit code for a wrong command line, as of the parser.
const WRONG_COMMAND: u8 = 2;

/// The code to exit with after `error`.
fn code_of(error: &anyhow::Error) -> u8 {
    if clump_boot::boot::started_as_rank() {
        return 1; // a rank's failure is its program's, not clump's
    }
    if error.is::<layout::WrongCommand>() {
        return WRONG_COMMAND;
    }
    match error.downcast_ref::<clump_boot::Error>() {
        Some(clump_boot::Error::BadValue { .. } | clump_boot::Error::BadFile { .. }) => {
            WRONG_COMMAND
        }
        _ => job::OWN_FAILURE,
    }
}
