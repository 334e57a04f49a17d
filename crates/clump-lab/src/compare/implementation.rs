//! The implementations that take part: clump, and the installed peers.
//!
//! Over the network every peer runs as the children of two ranks of a clump job, so that it gets
//! the same processors, addresses and network namespaces as clump itself.

use super::peer::{Peer, PeerFigure, PeerSource};
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
    },
    /// One of the two MPIs.
    Mpi {
        /// The MPI.
        mpi: &'static Mpi,
        /// Its launcher.
        launcher: PathBuf,
        /// The compiled program.
        program: PathBuf,
    },
}

/// An MPI: its names in tables by scope, and its programs.
#[derive(Debug)]
pub struct Mpi {
    names: [&'static str; 2],
    /// Suffix of its programs.
    suffix: &'static str,
    /// Its packages in Debian.
    packages: &'static str,
    /// Launcher options to run as root and with more ranks than cores.
    flags: &'static [&'static str],
    /// Options and variables that keep it off shared memory, as if every rank were on a machine of
    /// its own.
    apart: (&'static [&'static str], &'static [(&'static str, &'static str)]),
    /// True if it runs the crowd's barrier without shared memory: where ranks that spin wait for
    /// each other over TCP, each takes a good part of a second, and a turn minutes.
    crowds: bool,
}

pub(crate) const OPEN_MPI: Mpi = Mpi {
    names: ["Open MPI", "OMPI tcp"],
    suffix: "openmpi",
    packages: "openmpi-bin libopenmpi-dev",
    flags: &["--allow-run-as-root", "--oversubscribe"],
    apart: (
        &["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"],
        &[],
    ),
    crowds: true,
};
pub(crate) const MPICH: Mpi = Mpi {
    names: ["MPICH", "MPICH tcp"],
    suffix: "mpich",
    packages: "mpich libmpich-dev",
    flags: &[],
    // Over UCX or libfabric, whichever it was built with.
    apart: (&[], &[("MPIR_CVAR_NOLOCAL", "1"), ("UCX_TLS", "tcp,self"), ("FI_PROVIDER", "tcp")]),
    crowds: false,
};

impl Mpi {
    /// Compiles a program into `folder`. Returns the launcher and the program.
    ///
    /// # Errors
    /// Returns the peer as missing, with the remedy.
    pub(crate) fn compile(
        &self,
        scope: Scope,
        folder: &Path,
        source: &PeerSource,
    ) -> std::result::Result<(PathBuf, PathBuf), Missing> {
        let (name, suffix) = (self.name(scope), self.suffix);
        let compiler = process::find(&format!("mpicc.{suffix}"));
        let launcher = process::find(&format!("mpirun.{suffix}"));
        let (Some(compiler), Some(launcher)) = (compiler, launcher) else {
            return Err(absent(name, self.packages));
        };
        let compiled = compile(&compiler, folder, source, suffix);
        let program = compiled.map_err(|why| Missing { name, remedy: format!("{why:#}") })?;
        Ok((launcher, program))
    }

    pub(crate) const fn name(&self, scope: Scope) -> &'static str {
        match scope {
            Scope::Shm => self.names[0],
            Scope::Net => self.names[1],
        }
    }

    /// Returns the command of its launcher for so many ranks, to which the program is added.
    pub(crate) fn command(&self, launcher: &Path, scope: Scope, ranks: usize) -> Command {
        let mut command = Command::new(launcher);
        command.args(self.flags).args(["-n", &ranks.to_string()]);
        if scope == Scope::Net {
            let (flags, variables) = self.apart;
            command.args(flags).envs(variables.iter().copied());
        }
        command
    }
}

/// A peer that is not installed.
#[derive(Debug, Clone)]
pub struct Missing {
    /// Its name.
    pub name: &'static str,
    /// The way to install it.
    pub remedy: String,
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
            missing.push(absent(name, package));
            continue;
        };
        let program = match peer.source() {
            None => Ok(program),
            Some(source) => compile(&program, folder, &source, "peer"),
        };
        match program {
            Ok(program) => here.push(Implementation::Peer { peer, program }),
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
            Ok((launcher, program)) => here.push(Implementation::Mpi { mpi, launcher, program }),
            Err(absent) => missing.push(absent),
        }
    }
    (here, missing)
}

fn absent(name: &'static str, packages: &str) -> Missing {
    Missing { name, remedy: format!("not installed (Debian: apt-get install {packages})") }
}

fn compile(compiler: &Path, folder: &Path, source: &PeerSource, suffix: &str) -> Result<PathBuf> {
    let file = folder.join(source.file);
    let program = file.with_extension(suffix);
    std::fs::write(&file, source.text).with_context(|| format!("writing {}", file.display()))?;
    // Temporary files of the compiler are to be removed with the folder, too.
    let mut command = Command::new(compiler);
    command.env("TMPDIR", folder).arg("-O2").arg("-o").arg(&program).arg(&file);
    command.args(source.libraries);
    process::run(&mut command).with_context(|| format!("compiling with {}", compiler.display()))?;
    Ok(program)
}

impl Implementation {
    /// Returns the name in tables.
    pub fn name(&self, scope: Scope) -> &str {
        match self {
            Implementation::Clump => "clump",
            Implementation::Peer { peer, .. } => peer.name(scope),
            Implementation::Mpi { mpi, .. } => mpi.name(scope),
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
            Implementation::Mpi { mpi, launcher, program } => {
                let run = |ranks| {
                    let mut command = mpi.command(launcher, field.scope, ranks);
                    if let Some(folder) = program.parent() {
                        command.env("TMPDIR", folder);
                    }
                    command.arg(program).args(sizes(field.scope).iter().map(ToString::to_string));
                    process::run(&mut command)
                };
                if field.scope == Scope::Shm || mpi.crowds {
                    return both_sizes(run);
                }
                Score::parse(&run(2)?, 2)
            }
            Implementation::Peer { peer, program } => match field.scope {
                Scope::Shm => local(*peer, program),
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
fn local(peer: Peer, program: &Path) -> Result<Score> {
    const HERE: &str = "127.0.0.1";
    let mut score = Score::default();
    for question in peer.questions(Scope::Shm) {
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
            let mpis = here.iter().filter(|c| matches!(c, Implementation::Mpi { .. })).count();
            assert_eq!(mpis, 0);
            for mpi in [OPEN_MPI, MPICH] {
                assert!(missing.iter().any(|m| m.name == mpi.name(scope)));
            }
            // Every peer runs or is named.
            assert_eq!(here.len() + missing.len(), 1 + Peer::of(scope).len() + 2);
        }
    }
}
