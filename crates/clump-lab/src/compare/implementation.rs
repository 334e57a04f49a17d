//! The implementations that take part: clump, and the installed peers.
//!
//! Over the network every peer runs as the children of two ranks of a clump job, so that it gets
//! the same processors, addresses and network namespaces as clump itself.

use super::missing::Missing;
use super::mpi::{MPICH, MpiProgram, OPEN_MPI};
use super::peer::{Peer, PeerFigure, RING};
use super::peer_source::PeerSource;
use super::process::{self, Guard};
use super::score::Score;
use super::{CROWD, Venue, sizes};
use crate::launch::{self, JobShape};
use crate::pair::Scope;
use anyhow::{Context, Result};
use clap::ValueEnum;
use clump_os::{clock, signal};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The program that both MPIs compile and run.
const MPI_SOURCE: PeerSource = PeerSource {
    file: "mpi_bench.c",
    text: include_str!("../../peers/mpi_bench.c"),
    libraries: &[],
};

/// An implementation that can run workloads.
#[derive(Debug)]
pub enum Implementation {
    /// This program, started as a job by `clump run`.
    Clump,
    /// A server and a client program.
    Peer {
        /// The peer.
        peer: Peer,
        /// Its program.
        program: PathBuf,
        /// The program for streams that are read, where there is one.
        ring: Option<PathBuf>,
    },
    /// One of the two MPIs.
    Mpi(MpiProgram),
}

/// Finds all implementations; MPI programs are compiled into `folder`, which must exist as long as
/// they run.
pub fn gather(field: &Venue, folder: &Path) -> (Vec<Implementation>, Vec<Missing>) {
    let scope = field.scope;
    let mut here = vec![Implementation::Clump];
    let mut missing = Vec::new();
    for &peer in Peer::of(scope) {
        let (program, package) = peer.program();
        let name = peer.name(scope);
        let Some(program) = process::find(program) else {
            missing.push(Missing::uninstalled(name, package));
            continue;
        };
        let program = match peer.source() {
            None => Ok(program),
            Some(source) => source.compile(&program, folder, "peer"),
        };
        match program {
            Ok(program) => {
                let ring = (peer == Peer::Ucx && scope == Scope::Shm).then(|| {
                    let compiler = process::find("cc").context("no C compiler (Debian: gcc)")?;
                    RING.compile(&compiler, folder, "ring")
                });
                let why = ring.as_ref().and_then(|ring| ring.as_ref().err());
                missing.extend(why.map(|why| {
                    let package = "libucx-dev";
                    let remedy =
                        format!("long messages do not compile (Debian: {package}): {why:#}");
                    Missing { name, remedy }
                }));
                here.push(Implementation::Peer { peer, program, ring: ring.and_then(Result::ok) });
            }
            Err(why) => {
                let remedy = format!("does not compile (Debian: {package}): {why:#}");
                missing.push(Missing { name, remedy });
            }
        }
    }
    for mpi in [&OPEN_MPI, &MPICH] {
        let name = mpi.name(scope);
        if field.netns {
            let remedy = "its launcher does not start ranks in other network namespaces".into();
            missing.push(Missing { name, remedy });
            continue;
        }
        match mpi.compile(scope, folder, &MPI_SOURCE) {
            Ok(program) => here.push(Implementation::Mpi(program)),
            Err(absent) => missing.push(absent),
        }
    }
    (here, missing)
}

impl Implementation {
    /// Returns the name in tables.
    pub fn name(&self, scope: Scope) -> &str {
        match self {
            Implementation::Clump => "clump",
            Implementation::Peer { peer, .. } => peer.name(scope),
            Implementation::Mpi(program) => program.name(scope),
        }
    }

    /// Runs one turn: all workloads that it supports.
    ///
    /// # Errors
    /// Fails if a job or program cannot be run, or prints no score.
    pub fn play(&self, field: &Venue) -> Result<Score> {
        match self {
            Implementation::Clump => both_sizes(|ranks| {
                process::run(launch::job(field.shape(ranks), 0)?.args(field.rank_words()))
            }),
            Implementation::Mpi(program) => {
                let run = |ranks| {
                    let mut command = program.command(field.scope, ranks);
                    command.args((field.scope == Scope::Shm).then_some("--ring"));
                    command.args(sizes(field.scope).iter().map(ToString::to_string));
                    process::run(&mut command)
                };
                if field.scope == Scope::Shm || program.mpi.crowds {
                    return both_sizes(run);
                }
                Score::parse(&run(2)?, 2)
            }
            Implementation::Peer { peer, program, ring } => match field.scope {
                Scope::Shm => local(*peer, program, ring.as_deref()),
                Scope::Net => {
                    let value = peer.to_possible_value().context("every peer has a name")?;
                    let mut command = launch::job(field.shape(2), 0)?;
                    command.args(field.rank_words()).args(["--peer", value.get_name()]);
                    command.arg("--peer-program").arg(program);
                    Score::parse(&process::run(&mut command)?, 2)
                }
            },
        }
    }
}

impl Venue {
    /// Returns the shape of a job for this comparison.
    fn shape(&self, ranks: usize) -> JobShape {
        let nodes = match self.scope {
            Scope::Shm => 1,
            Scope::Net => 2,
        };
        JobShape { ranks, nodes, security: self.security, netns: self.netns }
    }

    /// Returns the arguments of its ranks.
    fn rank_words(&self) -> Vec<&'static str> {
        let scope = match self.scope {
            Scope::Shm => "shm",
            Scope::Net => "net",
        };
        let security = self.security.name();
        let mut words =
            vec!["lab", "compare", "--as-rank", "--scope", scope, "--security", security];
        if self.netns {
            words.push("--netns");
        }
        words
    }
}

/// Runs a pair, then a crowd.
fn both_sizes(run: impl Fn(usize) -> Result<String>) -> Result<Score> {
    let mut score = Score::parse(&run(2)?, 2)?;
    score.join(Score::parse(&run(CROWD)?, CROWD)?);
    Ok(score)
}

/// Runs a peer over shared memory: both of its programs are children of this one.
fn local(peer: Peer, main: &Path, ring: Option<&Path>) -> Result<Score> {
    const HERE: &str = "127.0.0.1";
    let mut score = Score::default();
    for question in peer.questions(Scope::Shm) {
        let program = if question.is_ring() { ring } else { Some(main) };
        let Some(program) = program else { continue };
        let port = free_port(HERE)?;
        let server = Guard::start(&mut question.server(program, HERE, port))?;
        score.join(ask(&question, || question.client(program, HERE, port))?);
        server.finish(process::LIMIT).with_context(|| format!("{}'s server", program.display()))?;
    }
    Ok(score)
}

/// Runs a client. Servers do not report when they listen, so it tries repeatedly for two seconds.
///
/// # Errors
/// Fails if the client does not succeed in time, or if a signal arrives.
pub fn ask(question: &PeerFigure, client: impl Fn() -> Command) -> Result<Score> {
    let deadline = clock::now_ns() + 2_000_000_000;
    loop {
        let text = process::run(&mut client());
        match text.and_then(|text| question.score(&text)) {
            Ok(score) => return Ok(score),
            Err(why) if clock::now_ns() > deadline || signal::pending(&signal::ENDS).is_some() => {
                return Err(why.context(client().get_program().display().to_string()));
            }
            Err(_) => clock::pass(Duration::from_millis(20)),
        }
    }
}

/// Returns a port of this address that was free a moment ago.
///
/// # Errors
/// Fails if the address cannot be bound to.
pub fn free_port(address: &str) -> Result<u16> {
    let socket = std::net::TcpListener::bind((address, 0)).context("looking for a free port")?;
    Ok(socket.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_peers_still_has_clump() {
        let nowhere = Path::new("/no/such/folder");
        let field = |scope, netns| Venue { scope, security: clump_wire::Security::Aead, netns };
        for (scope, netns) in [(Scope::Shm, false), (Scope::Net, false), (Scope::Net, true)] {
            let (here, missing) = gather(&field(scope, netns), nowhere);
            assert!(matches!(here[0], Implementation::Clump));
            // A compiler that cannot write its program is a missing peer, not a failure.
            let mpis = here.iter().filter(|c| matches!(c, Implementation::Mpi(_))).count();
            assert_eq!(mpis, 0);
            for mpi in [OPEN_MPI, MPICH] {
                assert!(missing.iter().any(|m| m.name == mpi.name(scope)));
            }
            // Every peer runs or is named; one whose program does not compile is both.
            let both = here.iter().any(|it| matches!(it, Implementation::Peer { ring: None, .. }))
                && scope == Scope::Shm;
            assert_eq!(
                here.len() + missing.len() - usize::from(both),
                1 + Peer::of(scope).len() + 2
            );
        }
    }
}
