//! Changes a virtual cable of a running job, in the network namespace of one of its processes.

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use clump_os::{cable, netns};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;

#[derive(Debug, Parser)]
struct Args {
    /// A process on one end of the cable
    pid: u32,
    /// The node at the other end
    there: u32,
    /// The index of the cable among those to that node
    cable: u32,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// No packet passes any more.
    Cut,
    /// Packets pass again; `here` is the node of the process.
    Mend { here: u32 },
    /// So many of a million packets that arrive are lost.
    Lose { ppm: u32 },
    /// No longer packet passes.
    Shorten { bytes: u32 },
    /// This end has another hardware address, ending in `last`.
    Readdress { last: u8 },
}

fn main() -> Result<()> {
    let Args { pid, there, cable: which, what } = Args::parse();
    let of = |pid: &str, kind: &str| PathBuf::from(format!("/proc/{pid}/ns/{kind}"));
    let pid = pid.to_string();
    let open = |kind: &str| {
        let path = of(&pid, kind);
        File::open(&path).with_context(|| path.display().to_string())
    };
    // Entering the user namespace that this process is in already is an error.
    let foreign = std::fs::read_link(of("self", "user"))? != std::fs::read_link(of(&pid, "user"))?;
    let user = foreign.then(|| open("user")).transpose()?;
    netns::enter(user.as_ref().map(AsFd::as_fd), open("net")?.as_fd())?;
    let end = (there, which);
    match what {
        What::Cut => cable::cut(end)?,
        What::Mend { here } => cable::mend(here, end)?,
        What::Lose { ppm } => cable::lose(end, ppm)?,
        What::Shorten { bytes } => cable::shorten(end, bytes)?,
        // Locally administered, for one station.
        What::Readdress { last } => cable::change_hardware_address(end, [2, 0, 0, 0, 0, last])?,
    }
    Ok(())
}
