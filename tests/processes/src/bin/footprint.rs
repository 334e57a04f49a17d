//! Prints what a rank's memory grows by: private pages of its process, and those of its node's
//! memory.

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use clump::am::{Endpoint, Handler, Tag};
use clump_os::clock;
use std::cell::Cell;
use std::rc::Rc;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Talk {
    /// Ranks take part, and send nothing
    Nobody,
    /// Each rank sends a message to each rank of other nodes
    Others,
}

#[derive(Debug, Parser)]
struct Args {
    talk: Talk,
    /// Growth of private memory a peer, in KiB, that ranks wait for once all are silent
    #[arg(long, default_value_t = 8)]
    most: u64,
    /// Longest time of that, in s
    #[arg(long, default_value_t = 5)]
    limit: u64,
}

/// Returns the private bytes of this process that no file has.
fn private() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")).context("smaps_rollup")?;
    Ok(kib.trim().parse::<u64>()? << 10)
}

fn main() -> Result<()> {
    let Args { talk, most, limit } = Args::parse();
    let before = private()?;
    let cl = clump::init()?;
    let begun = private()?;
    let (peers, is) = match talk {
        Talk::Nobody => (0, begun),
        Talk::Others => talk_to_others(&cl, begun, (most << 10, limit * 1_000_000_000))?,
    };
    let started = cl.all_gather(begun - before)?;
    let talked = cl.all_gather(is.saturating_sub(begun))?;
    if cl.rank() == 0 {
        let middle = |mut of: Vec<u64>| {
            of.sort_unstable();
            (of[of.len() / 2], of[of.len() - 1])
        };
        let (start, most) = middle(started);
        println!("start: {} KiB, at most {} KiB", start >> 10, most >> 10);
        let (grown, most) = middle(talked);
        let of_peer = |bytes: u64| bytes.checked_div(peers);
        if let (Some(each), Some(most)) = (of_peer(grown), of_peer(most)) {
            println!("{peers} peers: {each} bytes each, at most {most}");
        }
    }
    cl.barrier()?;
    Ok(())
}

/// Has each rank send a message to each rank of other nodes, and waits for at most `limit_ns` until
/// its memory is `begun` and no more than `most` bytes for each. Returns the number of them, and
/// the private bytes before the endpoint is closed.
fn talk_to_others(
    cl: &clump::Clump,
    begun: u64,
    (most, limit_ns): (u64, u64),
) -> Result<(u64, u64)> {
    const LOOK_NS: u64 = 100_000_000;
    let ep = Endpoint::open(cl, Tag(7))?;
    let answers = Rc::new(Cell::new(0_u64));
    ep.set_handler(Handler(1), move |token, words, _| token.reply(Handler(2), words))?;
    let answered = answers.clone();
    ep.set_handler(Handler(2), move |_, _, _| answered.set(answered.get() + 1))?;
    let names = cl.all_gather(ep.name())?;
    let here = cl.node().local_ranks();
    let mut sent = 0;
    for (_, name) in (0..).zip(&names).filter(|(rank, _)| !here.contains(rank)) {
        ep.request(ep.map(name, Tag(7))?, Handler(1), &[sent])?;
        sent += 1;
    }
    ep.poll_until(|| answers.get() == sent)?;
    cl.barrier()?;
    let (start, mut looked) = (clock::now_ns(), 0);
    let mut is = u64::MAX;
    while is > begun + most * sent && clock::now_ns() < start + limit_ns {
        ep.poll()?;
        clock::yield_now();
        if clock::now_ns() >= looked + LOOK_NS {
            (is, looked) = (private()?, clock::now_ns());
        }
    }
    Ok((sent, is))
}
