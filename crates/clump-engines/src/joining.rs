//! The way of a process from its engine into a job.

use crate::agent_start;
use crate::card::Card;
use crate::engine_job::{EngineJob, EngineNode};
use crate::error::{Error, Result};
use crate::key_store::KeyStore;
use crate::loaded_mpi;
use crate::pmi_store::PmiStore;
use crate::pmix::PmixStore;
use crate::roster::Roster;
use crate::started_by::StartedBy;
use clump_boot::config::inherited_variable;
use clump_boot::{Boot, Config};
use clump_os::socket::{self, Received};
use clump_os::{clock, lifeline, local_listener, process, topology};
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::time::Duration;

/// Variable with the number of an allocation of Slurm.
const ALLOCATION: &str = "SLURM_JOB_ID";
/// The key of cards.
const CARD: &str = "card";
/// Time between two attempts to reach an agent that may not be there yet.
const RETRY: Duration = Duration::from_millis(1);
/// The agent's message with a rank's end of its boot connection.
pub const BOOT_MESSAGE: &[u8] = b"boot";

/// The pair whose other end only the agent has. It stays open beyond the job, until this process
/// ends.
static LIFELINE: OnceLock<OwnedFd> = OnceLock::new();

/// Joins the job that this process is a rank of, if an engine started it together with others.
///
/// # Errors
/// The engine cannot be asked, no agent can be started, or the agent gives nothing.
pub fn join() -> Result<Option<Boot>> {
    let Some(started) = StartedBy::find() else { return Ok(None) };
    let config = Config::load()?;
    let engine = started.name();
    let (own, cards) = match &started {
        StartedBy::Pmix { name, .. } => {
            // libpmix counts those who use it.
            loaded_mpi::is_running(name)?;
            exchanged(&mut PmixStore::open(name)?)?
        }
        StartedBy::Pmi { number, rank, size, job, name } => {
            let is_shared = loaded_mpi::is_running(name)?;
            let place = (*rank, *size);
            exchanged(&mut PmiStore::open(*number, place, job.as_deref(), name, is_shared)?)?
        }
        StartedBy::Slurm(Ok(step)) => (step.rank(), step.cards()),
        StartedBy::Slurm(Err(why)) => return Err(Error::Engine { engine, why: why.clone() }),
    };
    if cards.len() < 2 {
        return Ok(None);
    }
    let machines = Roster::of(&cards);
    let is_virtual = machines.nodes().len() == 1;
    let parts = usize::try_from(config.engine_nodes).unwrap_or(1);
    let roster = machines.divided(parts);
    let missing = || Error::OtherCard { rank: own, why: "it is not among its own".into() };
    let (node, rank) = roster.place_of(own).ok_or_else(missing)?;
    let members = roster.nodes().get(node).ok_or_else(missing)?;
    let leader = members.first().copied().unwrap_or(own);
    // That of the first node starts the job's launcher, which starts the agents of all.
    let control = if rank == 0 {
        let job = job(engine, is_virtual, &roster, &cards);
        Some(agent_start::start(engine, &config, &job)?)
    } else {
        None
    };
    let name = cards.get(leader as usize).map(|card| card.listener.as_str());
    let identity = adopted(name.unwrap_or_default(), rank, &config, control.as_ref())?;
    Ok(Some(clump_boot::boot::join_by(identity, engine)?))
}

/// Exchanges cards through an engine's store, and takes leave of it; returns the engine's number of
/// this process, and the cards of all, in the engine's order: none where it is alone.
fn exchanged(store: &mut dyn KeyStore) -> Result<(u32, Vec<Card>)> {
    let (own, size) = store.place();
    let mut cards = Vec::new();
    if size > 1 {
        let name = format!("clump-{:016x}{:016x}", process::random()?, process::random()?);
        cards = exchange(store, &Card::own(&name))?;
    }
    store.finish()?;
    Ok((own, cards))
}

/// Returns the cards of all processes, in the engine's order.
fn exchange(store: &mut dyn KeyStore, own: &Card) -> Result<Vec<Card>> {
    store.put(CARD, &own.to_text())?;
    store.fence()?;
    let (_, size) = store.place();
    let one = |rank| {
        let text = store.get(rank, CARD)?;
        Card::of_text(&text).map_err(|why| Error::OtherCard { rank, why })
    };
    (0..size).map(one).collect()
}

fn job(engine: &str, is_virtual: bool, roster: &Roster, cards: &[Card]) -> EngineJob {
    let node = |members: &Vec<u32>| {
        let first = members.first().and_then(|&number| cards.get(number as usize));
        let host = first.map(|card| card.host.clone()).unwrap_or_default();
        let listener = first.map(|card| card.listener.clone()).unwrap_or_default();
        EngineNode { host, ranks: u32::try_from(members.len()).unwrap_or(u32::MAX), listener }
    };
    let program = std::env::current_exe().unwrap_or_else(|_| "program".into());
    let nodes = roster.nodes().iter().map(node).collect();
    let variable = inherited_variable(OsStr::new(ALLOCATION));
    let allocation = variable.and_then(|value| value.to_str()?.parse().ok());
    let cpus = topology::affinity_of(process::parent_pid()).unwrap_or_default();
    EngineJob {
        engine: engine.into(),
        program: program.into(),
        cpus,
        allocation,
        is_virtual,
        nodes,
    }
}

/// Connects to the agent, once it is there. If `launcher` is known, and gone, none will be.
fn connected(name: &str, config: &Config, launcher: Option<&UnixStream>) -> Result<UnixStream> {
    let limit = Duration::from_millis(config.start_timeout_ms);
    let start = clock::instant();
    loop {
        let tried = local_listener::connect(name);
        if let Ok(stream) = tried {
            return Ok(stream);
        }
        if launcher.is_some_and(socket::is_closed) {
            return Err(Error::NoAgent { how: "could not be started".into() });
        }
        if start.elapsed() > limit {
            let how = format!("was not there within {} s", limit.as_secs());
            return Err(Error::NoAgent { how });
        }
        clock::pass(RETRY);
    }
}

/// Has the agent that listens under `name` adopt this process as `rank`; returns the rank's end of
/// its boot connection.
fn adopted(
    name: &str,
    rank: u32,
    config: &Config,
    launcher: Option<&UnixStream>,
) -> Result<OwnedFd> {
    let gone = || Error::NoAgent { how: "is gone".into() };
    let stream = connected(name, config, launcher)?;
    // A pair by itself, on which nothing is ever sent: of the connection, the kernel may signal a
    // message after it was received.
    let (lifeline, theirs) = socket::message_pair()?;
    socket::send(&stream, &rank.to_le_bytes(), Some(theirs.as_fd())).map_err(|_| gone())?;
    drop(theirs);
    // The agent answers when all of its ranks have come, and other machines are reached; it has its
    // own limits, and this is the one for an agent that hangs.
    let limit = Duration::from_millis(config.start_timeout_ms.saturating_mul(4));
    let start = clock::instant();
    loop {
        let mut said = [0; BOOT_MESSAGE.len()];
        match socket::receive(&stream, &mut said)? {
            Received::Message(bytes, Some(control)) if said[..bytes] == *BOOT_MESSAGE => {
                lifeline::hold(&lifeline)?;
                // A process joins once.
                let _ = LIFELINE.set(lifeline);
                return Ok(control);
            }
            Received::Nothing => {}
            Received::Message(..) | Received::Closed => return Err(gone()),
        }
        let left = limit.saturating_sub(start.elapsed());
        if left.is_zero() {
            let how = format!("gave no sign of itself within {} s", limit.as_secs());
            return Err(Error::NoAgent { how });
        }
        socket::wait_readable(Some(stream.as_fd()), left);
    }
}
