//! Who takes part: clump, and the peers that are installed.

use super::process::{self, Guard};
use super::score::Score;
use super::{CROWD, SIZES};
use crate::launch;
use anyhow::{Context, Result};
use clump_os::clock;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The program that both MPIs compile and run.
const MPI_SOURCE: &str = include_str!("../../peers/mpi_bench.c");

/// Somebody who can play.
#[derive(Debug)]
pub enum Contestant {
    /// This program, started as a job by `clump run`.
    Clump,
    /// Debian's `ucx-utils`.
    Ucx {
        /// `ucx_perftest`.
        program: PathBuf,
    },
    /// One of the two MPIs.
    Mpi {
        /// As tables name it.
        name: &'static str,
        /// Its launcher.
        launcher: PathBuf,
        /// What its launcher needs to run as root and with more ranks than cores.
        flags: &'static [&'static str],
        /// The compiled program.
        program: PathBuf,
    },
}

/// A peer that is not here.
#[derive(Debug)]
pub struct Missing {
    /// Its name.
    pub name: &'static str,
    /// How to get it.
    pub remedy: String,
}

/// Finds everybody; MPI programs are compiled into `folder`, which must live as long as they play.
pub fn gather(folder: &Path) -> (Vec<Contestant>, Vec<Missing>) {
    let mut here = vec![Contestant::Clump];
    let mut missing = Vec::new();
    match process::find("ucx_perftest") {
        Some(program) => here.push(Contestant::Ucx { program }),
        None => missing.push(absent("UCX", "ucx-utils")),
    }
    let mpis: [(_, _, _, &'static [&'static str]); 2] = [
        (
            "Open MPI",
            "openmpi",
            "openmpi-bin libopenmpi-dev",
            &["--allow-run-as-root", "--oversubscribe"],
        ),
        ("MPICH", "mpich", "mpich libmpich-dev", &[]),
    ];
    for (name, suffix, packages, flags) in mpis {
        let compiler = process::find(&format!("mpicc.{suffix}"));
        let launcher = process::find(&format!("mpirun.{suffix}"));
        let (Some(compiler), Some(launcher)) = (compiler, launcher) else {
            missing.push(absent(name, packages));
            continue;
        };
        match compile(&compiler, folder, suffix) {
            Ok(program) => here.push(Contestant::Mpi { name, launcher, flags, program }),
            Err(why) => missing.push(Missing { name, remedy: format!("{why:#}") }),
        }
    }
    (here, missing)
}

fn absent(name: &'static str, packages: &str) -> Missing {
    Missing { name, remedy: format!("not installed (Debian: apt-get install {packages})") }
}

fn compile(compiler: &Path, folder: &Path, suffix: &str) -> Result<PathBuf> {
    let source = folder.join("mpi_bench.c");
    let program = folder.join(format!("mpi_bench.{suffix}"));
    std::fs::write(&source, MPI_SOURCE).with_context(|| format!("writing {}", source.display()))?;
    process::run(Command::new(compiler).arg("-O2").arg("-o").arg(&program).arg(&source))
        .with_context(|| format!("compiling with {}", compiler.display()))?;
    Ok(program)
}

impl Contestant {
    /// As tables name it.
    pub fn name(&self) -> &str {
        match self {
            Contestant::Clump => "clump",
            Contestant::Ucx { .. } => "UCX",
            Contestant::Mpi { name, .. } => name,
        }
    }

    /// One turn: all games that it can play.
    pub fn play(&self) -> Result<Score> {
        match self {
            Contestant::Clump => both_sizes(|ranks| {
                process::run(launch::job(ranks)?.args(["lab", "compare", "--as-rank"]))
            }),
            Contestant::Mpi { launcher, flags, program, .. } => both_sizes(|ranks| {
                let mut command = Command::new(launcher);
                command.args(*flags).args(["-n", &ranks.to_string()]).arg(program);
                command.args(SIZES.iter().map(ToString::to_string));
                process::run(&mut command)
            }),
            Contestant::Ucx { program } => ucx(program),
        }
    }
}

/// A pair, then a crowd.
fn both_sizes(run: impl Fn(usize) -> Result<String>) -> Result<Score> {
    let mut score = Score::parse(&run(2)?, 2)?;
    score.join(Score::parse(&run(CROWD)?, CROWD)?);
    Ok(score)
}

fn ucx(program: &Path) -> Result<Score> {
    // The test reports half a round trip.
    let one_way_us = ucx_median_us(program, "ucp_am_lat", 8, 50_000)?;
    let interval_us = ucx_median_us(program, "ucp_am_bw", 8, 300_000)?;
    let mut bandwidth = BTreeMap::new();
    for bytes in SIZES {
        let count = ((64 << 20) / bytes).clamp(100, 20_000);
        let interval_us = ucx_median_us(program, "ucp_am_bw", bytes, count)?;
        #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
        bandwidth.insert(bytes, bytes as f64 * 1e6 / interval_us);
    }
    Ok(Score {
        round_trip_ns: Some(2e3 * one_way_us),
        rate_per_s: Some(1e6 / interval_us),
        bandwidth,
        barrier_ns: BTreeMap::new(),
    })
}

/// The median that `ucx_perftest` reports, microseconds: its server and its client over shared memory.
fn ucx_median_us(program: &Path, test: &str, bytes: usize, count: usize) -> Result<f64> {
    let port = free_port()?;
    let command = |host: Option<&str>| {
        let mut command = Command::new(program);
        command.args(host).args(["-t", test, "-s", &bytes.to_string(), "-n", &count.to_string()]);
        command.args(["-p", &port, "-f", "-v"]).env("UCX_TLS", "shm,self");
        command
    };
    let server = Guard::start(&mut command(None))?;
    // The server says nothing when it listens: knock until it answers, for at most two seconds.
    let deadline = clock::now_ns() + 2_000_000_000;
    let text = loop {
        match process::run(&mut command(Some("127.0.0.1"))) {
            Ok(text) => break text,
            Err(why) if clock::now_ns() > deadline => return Err(why.context("ucx_perftest")),
            Err(_) => clock::pass(Duration::from_millis(20)),
        }
    };
    server.finish(process::LIMIT).context("ucx_perftest's server")?;
    csv_median(&text)
}

/// A port that was free a moment ago.
fn free_port() -> Result<String> {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").context("looking for a free port")?;
    Ok(socket.local_addr()?.port().to_string())
}

/// The second column of the only line that starts with a number.
fn csv_median(text: &str) -> Result<f64> {
    let row = text.lines().find(|l| l.starts_with(|c: char| c.is_ascii_digit()));
    let cell = row.and_then(|l| l.split(',').nth(1)).context("ucx_perftest printed no figures")?;
    cell.trim().parse().with_context(|| format!("`{cell}` is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_ucx_is_its_second_column() {
        let text = "iterations,50.0_percentile_lat,avg_lat\n50000,0.551,2.538,2.538\n";
        assert_eq!(csv_median(text).unwrap(), 0.551);
        assert!(csv_median("nothing\n").is_err());
    }

    #[test]
    fn a_machine_without_peers_still_has_clump() {
        let nowhere = Path::new("/no/such/folder");
        let (here, missing) = gather(nowhere);
        assert!(matches!(here[0], Contestant::Clump));
        // A compiler that cannot write its program is a missing peer, not a failure.
        let mpis = here.iter().filter(|c| matches!(c, Contestant::Mpi { .. })).count();
        assert_eq!(mpis, 0);
        assert!(
            missing.iter().any(|m| m.name == "MPICH")
                && missing.iter().any(|m| m.name == "Open MPI")
        );
    }
}
