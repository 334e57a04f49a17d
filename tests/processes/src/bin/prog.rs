//! Programs for ranks of test jobs, chosen by the first argument: each ends, or does not, in its
//! own way.

use anyhow::{Context, Result, bail};
use clap::Parser;
use clump::Clump;
use clump::am::{Dest, Endpoint, Handler, Tag};
use clump::rma::Rma;
use clump_os::clock;
use clump_os::process::{self, ChildEvent, ChildEvents, Exit};
use clump_os::signal::Signals;
use std::cell::Cell;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::rc::Rc;
use std::time::Duration;

const STOP: u8 = 19;

#[derive(Debug, Parser)]
enum What {
    /// Passes this many barriers and leaves.
    Barrier { times: u64 },
    /// One rank is killed by a signal of its own; the others are in a barrier.
    Die { signal: u8, rank: usize },
    /// One rank exits with a code; the others are in a barrier.
    Exit { code: u8, rank: usize },
    /// One rank takes memory until it is killed; the others are in a barrier.
    Hoard { rank: usize },
    /// One rank leaves without finalizing.
    Leave { rank: usize },
    /// One rank runs another program after it has joined.
    Replace { rank: usize },
    /// One rank panics, catches that, and runs on for a while.
    Panic { rank: usize },
    /// One rank leaves without joining.
    Absent { rank: u32 },
    /// One rank stops itself after the others have been told to leave; they send it so many
    /// requests before they do.
    StopSelf {
        rank: usize,
        #[arg(long, default_value_t = 0)]
        requests: u64,
    },
    /// One rank computes for ever, without calling the library; the others leave, or are in a
    /// barrier.
    Forever {
        rank: usize,
        #[arg(long)]
        together: bool,
        /// Ignores signals that can be blocked
        #[arg(long)]
        deaf: bool,
        /// Folder in which that rank creates `ready-RANK`, once the others are in the barrier if
        /// they go there
        #[arg(long)]
        ready: Option<PathBuf>,
    },
    /// Every rank starts processes that want to stay, two of them in sessions of their own; then
    /// ends, or waits in a barrier for a rank that computes for ever.
    Children {
        #[arg(long)]
        stay: bool,
    },
    /// Every rank writes this many lines, and the last one dies.
    Flood {
        lines: u64,
        #[arg(long)]
        die: bool,
    },
    /// Messages between all ranks, and barriers, until this many rounds are over (0: for ever).
    Talk {
        rounds: u64,
        #[arg(long)]
        ready: Option<PathBuf>,
        /// End when this file exists
        #[arg(long)]
        until: Option<PathBuf>,
    },
    /// One rank is killed; the others print how long it took them to notice.
    Notice { rank: usize },
    /// Joins twice: once itself, once in a process that it starts.
    Twice,
    /// Joins in a process that it starts, not itself.
    Child,
    /// Every rank forks; its children drop what it has, or exit.
    Fork,
}

fn main() -> ExitCode {
    match run(What::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("prog: {error:#}");
            ExitCode::from(3)
        }
    }
}

fn run(what: What) -> Result<()> {
    match what {
        What::Barrier { times } => {
            let cl = clump::init()?;
            (0..times).try_for_each(|_| cl.barrier())?;
        }
        What::Die { signal, rank } => one_ends(rank, || die(signal))?,
        What::Exit { code, rank } => one_ends(rank, || std::process::exit(i32::from(code)))?,
        What::Hoard { rank } => one_ends(rank, hoard)?,
        What::Leave { rank } => one_ends(rank, || std::process::exit(0))?,
        What::Replace { rank } => one_ends(rank, || {
            Err(Command::new("sleep").arg("9999").exec()).context("running sleep")
        })?,
        What::Panic { rank } => panic_and_run_on(rank)?,
        What::Absent { rank } => {
            if own_rank().context("no rank")? != rank {
                clump::init()?.barrier()?;
            }
        }
        What::StopSelf { rank, requests } => stop_self(rank, requests)?,
        What::Forever { rank, together, deaf, ready } => {
            let _deaf = deaf.then(|| Signals::block(&[1, 2, 15])).transpose()?;
            let cl = clump::init()?;
            cl.barrier()?;
            if cl.rank() == rank {
                if together {
                    await_others(&cl);
                }
                say_ready(ready.as_deref(), rank)?;
                loop {
                    clock::pass(Duration::from_secs(1));
                }
            } else if together {
                cl.barrier()?;
            }
        }
        What::Children { stay } => {
            let cl = clump::init()?;
            let mut started = Vec::new();
            for words in ["sleep 9999", "setsid sleep 9999", "setsid sh -c 'sleep 9999 & wait'"] {
                let line = format!("exec {words}");
                started.push(Command::new("sh").args(["-c", &line]).spawn()?.id());
            }
            // A job that ends before these processes run their programs would not show them.
            started[..2].iter().try_for_each(|&pid| await_name(pid, "sleep"))?;
            cl.barrier()?;
            if stay {
                cl.barrier()?;
                loop {
                    clock::pass(Duration::from_secs(1));
                }
            }
        }
        What::Flood { lines, die } => flood(lines, die)?,
        What::Talk { rounds, ready, until } => talk(rounds, ready.as_deref(), until.as_deref())?,
        What::Notice { rank } => notice(rank)?,
        What::Twice => {
            let cl = clump::init()?;
            let status = Command::new(std::env::current_exe()?).args(["barrier", "0"]).status()?;
            if status.success() {
                bail!("the second process of rank {} joined too", cl.rank());
            }
        }
        What::Child => {
            let status = Command::new(std::env::current_exe()?).args(["barrier", "3"]).status()?;
            if !status.success() {
                bail!("the child failed");
            }
        }
        What::Fork => fork_off()?,
    }
    Ok(())
}

unsafe extern "C" {
    /// fork(2). A child of this program does nothing that another thread's locks could be in the
    /// way of.
    safe fn fork() -> i32;
}

/// Forks children on every rank: one drops all that the rank has and returns from `main`, one
/// exits with it. Neither affects the rank, which continues to communicate.
fn fork_off() -> Result<()> {
    let cl = clump::init()?;
    let ep = Endpoint::open(&cl, Tag(7))?;
    let shared = Endpoint::open_shared(&cl, Tag(7))?;
    let rma = Rma::open(&cl)?;
    let (segment, targets) = cl.allocate(&rma, 64)?;
    let heard = Rc::new(Cell::new(0));
    let hears = heard.clone();
    ep.set_handler(Handler(1), move |_, words, _| hears.set(hears.get() + words[0]))?;
    let names = cl.all_gather(ep.name())?;
    let dests = names.iter().map(|name| ep.map(name, Tag(7))).collect::<Result<Vec<_>, _>>()?;
    cl.barrier()?;
    for exits in [false, true] {
        for &dest in &dests {
            ep.request(dest, Handler(1), &[1])?;
        }
        let child = fork();
        if child == 0 {
            for &dest in &dests {
                anyhow::ensure!(ep.request(dest, Handler(1), &[100]).is_err(), "a child sent");
            }
            anyhow::ensure!(ep.poll_until(|| false).is_err(), "a child waited");
            anyhow::ensure!(cl.barrier().is_err() && ep.drain().is_err(), "a child met others");
            anyhow::ensure!(Endpoint::open(&cl, Tag(8)).is_err(), "a child opened an endpoint");
            anyhow::ensure!(clump::init().is_err(), "a child joined");
            if exits {
                std::process::exit(0);
            }
            return Ok(());
        }
        let ended = loop {
            match process::changed()? {
                ChildEvents::Of(_, ChildEvent::Ended(how)) => break how,
                _ => clock::pass(Duration::from_millis(1)),
            }
        };
        anyhow::ensure!(child > 0 && ended == Exit::Code(0), "child {child}: {ended:?}");
        let wanted = dests.len() as u64 * (1 + u64::from(exits));
        ep.poll_until(|| heard.get() == wanted)?;
        cl.barrier()?;
    }
    drop((shared, segment, targets));
    cl.barrier()?;
    Ok(())
}

/// Leaves the job by itself, while the process runs on: it runs no other program.
fn panic_and_run_on(rank: usize) -> Result<()> {
    let cl = clump::init()?;
    cl.barrier()?;
    if cl.rank() != rank {
        cl.barrier()?;
        return Ok(());
    }
    await_others(&cl);
    #[allow(clippy::panic, reason = "as any program may")]
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _cl = cl;
        panic!("on purpose");
    }));
    debug_assert!(caught.is_err());
    // Long enough for an agent to draw conclusions.
    clock::pass(Duration::from_millis(100));
    std::process::exit(9);
}

/// Returns the rank as scripts see it, without joining.
fn own_rank() -> Option<u32> {
    clump_os::procfs::variable(process::own_pid(), "CLUMP_RANK")?.to_str()?.parse().ok()
}

fn say_ready(folder: Option<&Path>, rank: usize) -> Result<()> {
    if let Some(folder) = folder {
        std::fs::write(folder.join(format!("ready-{rank}")), "")?;
    }
    Ok(())
}

/// Returns once process `pid` runs a program called `name`.
fn await_name(pid: u32, name: &str) -> Result<()> {
    let comm = PathBuf::from(format!("/proc/{pid}/comm"));
    while std::fs::read_to_string(&comm)?.trim_end() != name {
        clock::pass(Duration::from_millis(1));
    }
    Ok(())
}

/// Returns once process `pid` is stopped.
fn await_stopped(pid: u32) -> Result<()> {
    let stat = PathBuf::from(format!("/proc/{pid}/stat"));
    // proc(5): the state follows the name in parentheses.
    while !std::fs::read_to_string(&stat)?.contains(") T ") {
        clock::pass(Duration::from_millis(1));
    }
    Ok(())
}

/// Sends itself a signal until that kills it: Rust's runtime swallows the first SIGSEGV that is no
/// fault.
fn die(signal: u8) -> Result<()> {
    loop {
        process::signal(process::own_pid(), signal)?;
    }
}

/// Takes memory, and writes to all of it, until the kernel ends this process.
fn hoard() -> Result<()> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    loop {
        all.push(std::hint::black_box(vec![1; 1 << 20]));
    }
}

/// Kills one rank. It prints `dies at N us`, the others `notices at N us`, by the clock of the
/// machine.
fn notice(rank: usize) -> Result<()> {
    let cl = clump::init()?;
    let met = cl.barrier();
    if cl.rank() == rank {
        met?;
        await_others(&cl);
        println!("dies at {} us", clock::now_ns() / 1000);
        die(9)?;
        return Ok(());
    }
    // A rank of another node may still be about to leave the first barrier when it hears of the
    // death.
    let met = met.and_then(|()| cl.barrier());
    let Err(error) = met else { bail!("a barrier without rank {rank}") };
    println!("notices at {} us: {error}", clock::now_ns() / 1000);
    Ok(())
}

/// Returns once all other ranks of this node sleep in the third barrier (init and these programs
/// ran one each; a rank that is slow to leave the second still shows that it waits there). Waits
/// of ranks on other nodes cannot be seen from here.
fn await_others(cl: &Clump) {
    let blocked = |rank: u32| {
        let waiting = cl.node().rank(rank).and_then(|block| block.waiting());
        waiting.is_some_and(|(waiting, _)| waiting.to_string().starts_with("in barrier 3,"))
    };
    for rank in cl.node().local_ranks().filter(|&rank| rank as usize != cl.rank()) {
        while !blocked(rank) {
            clock::pass(Duration::from_millis(1));
        }
    }
}

/// Runs a barrier of all ranks; then one ends by `end`, and the others wait for it in a barrier.
fn one_ends(rank: usize, end: impl FnOnce() -> Result<()>) -> Result<()> {
    let cl = clump::init()?;
    cl.barrier()?;
    if cl.rank() == rank {
        await_others(&cl);
        end()?;
    }
    cl.barrier()?;
    Ok(())
}

fn stop_self(rank: usize, requests: u64) -> Result<()> {
    let cl = clump::init()?;
    let ep = Endpoint::open(&cl, Tag(7))?;
    ep.set_handler(Handler(1), |_, _, _| {})?;
    ep.on_returned(|_| {})?;
    let names = cl.all_gather(ep.name())?;
    let dest = ep.map(&names[rank], Tag(7))?;
    let pid = cl.all_gather(process::own_pid())?[rank];
    cl.barrier()?;
    if cl.rank() == rank {
        process::signal(process::own_pid(), STOP)?;
    } else if requests > 0 {
        await_stopped(pid)?;
        (0..requests).try_for_each(|i| ep.request(dest, Handler(1), &[i]))?;
    }
    Ok(())
}

fn flood(lines: u64, end: bool) -> Result<()> {
    let cl = clump::init()?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in 0..lines {
        writeln!(out, "rank {} line {line} of {lines} ...........................", cl.rank())?;
    }
    out.flush()?;
    drop(out);
    if end && cl.rank() + 1 == cl.nranks() {
        die(11)?;
    }
    cl.barrier()?;
    Ok(())
}

/// Exchanges requests and replies, short and medium, in bursts between all ranks, with a barrier
/// now and then. At the end every message must have been handled exactly once.
fn talk(rounds: u64, ready: Option<&Path>, until: Option<&Path>) -> Result<()> {
    const BURST: u64 = 64;
    const LAST: u64 = 1 << 32;
    let cl = clump::init()?;
    let ep = Endpoint::open(&cl, Tag(7))?;
    // A rank that is blocked in a collective has more than one endpoint to poll.
    let _second = Endpoint::open(&cl, Tag(8))?;
    let (answers, handled) = (Rc::new(Cell::new(0_u64)), Rc::new(Cell::new(0_u64)));
    let asked = handled.clone();
    ep.set_handler(Handler(1), move |token, words, _| {
        asked.set(asked.get() + 1);
        token.reply(Handler(2), words)
    })?;
    let answered = answers.clone();
    ep.set_handler(Handler(2), move |_, _, _| answered.set(answered.get() + 1))?;
    // A survivor that ends first closes its endpoints; without a death none comes back.
    ep.on_returned(|returned| eprintln!("returned: {}", returned.reason))?;
    let names = cl.all_gather(ep.name())?;
    let peers: Vec<Dest> = names.iter().map(|n| ep.map(n, Tag(7))).collect::<Result<_, _>>()?;
    let page = vec![7; ep.max_medium().min(4096)];
    let mut sent = 0;
    for round in 0.. {
        if rounds != 0 && round == rounds {
            break;
        }
        for i in 0..BURST {
            let peer = peers[usize::try_from(round + i)? % peers.len()];
            match i % 8 {
                0 => ep.request_bulk(peer, Handler(1), &page, &[i])?,
                _ => ep.request(peer, Handler(1), &[round, i])?,
            }
            sent += 1;
        }
        ep.poll_until(|| answers.get() == sent)?;
        let last = until.is_some_and(Path::exists);
        let met = cl.all_reduce(if last { 1 + LAST } else { 1 }, clump::Sum)?;
        if met % LAST != cl.nranks() as u64 {
            bail!("an all-reduce of {} ranks lost some", cl.nranks());
        }
        if round % 16 == 0 {
            cl.barrier()?;
        }
        if round == 0 {
            say_ready(ready, cl.rank())?;
        }
        if met >= LAST {
            break;
        }
    }
    cl.barrier()?;
    let (sent, all) = (cl.all_reduce(sent, clump::Sum)?, cl.all_reduce(handled.get(), clump::Sum)?);
    if (sent, sent) != (all, cl.all_reduce(answers.get(), clump::Sum)?) {
        bail!("{sent} requests were sent, {all} handled");
    }
    Ok(())
}
