//! Runs a command in a network namespace of its own, in which so many packet sockets listen to
//! loopback.

use anyhow::{Context, Result};
use clap::Parser;
use clump_os::packet::{self, Match};
use clump_os::{link, netns};
use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::process::{Command, ExitCode};

/// The type of clump's frames.
const ETHERTYPE: u16 = 0x88b5;

#[derive(Debug, Parser)]
struct Args {
    /// Sockets that receive clump's frames, and are addressed by none
    listeners: usize,
    /// The command to run
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<OsString>,
}

fn main() -> Result<ExitCode> {
    let Args { listeners, command } = Args::parse();
    let _networks = netns::create(1)?;
    let interface = link::interfaces_of(Ipv4Addr::LOCALHOST).first().copied();
    let nobody = [Match { at: 18, width: 2, value: 0 }];
    let open = |_| packet::open(ETHERTYPE, interface, &nobody);
    let _sockets = (0..listeners).map(open).collect::<Result<Vec<_>, _>>()?;
    let (program, args) = command.split_first().context("no command")?;
    let status = Command::new(program).args(args).status().context("starting it")?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1).into())
}
