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
    let latency = ucx_figures(program, "ucp_am_lat", 8, 50_000)?;
    let small = ucx_figures(program, "ucp_am_bw", 8, 300_000)?;
    let mut bandwidth = BTreeMap::new();
    for bytes in SIZES {
        let count = ((256 << 20) / bytes).clamp(100, 20_000);
        let figures = ucx_figures(program, "ucp_am_bw", bytes, count)?;
        #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
        bandwidth.insert(bytes, bytes as f64 * figures.messages_per_s);
    }
    Ok(Score {
        // The test reports half a round trip.
        round_trip_ns: Some(2e3 * latency.median_us),
        rate_per_s: Some(small.messages_per_s),
        bandwidth,
        barrier_ns: BTreeMap::new(),
    })
}

/// What `ucx_perftest` reports.
#[derive(Debug, PartialEq)]
struct UcxFigures {
    /// Median of an operation as its sender sees it: of use for latency only, because a stream's sender
    /// is mostly done at once.
    median_us: f64,
    /// The better of its two averages (whole run, last second).
    messages_per_s: f64,
}

/// Runs its server and its client over shared memory.
fn ucx_figures(program: &Path, test: &str, bytes: usize, count: usize) -> Result<UcxFigures> {
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
    ucx_row(&text)
}

/// A port that was free a moment ago.
fn free_port() -> Result<String> {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").context("looking for a free port")?;
    Ok(socket.local_addr()?.port().to_string())
}

/// Reads the only line that starts with a number: iterations, median, average and overall latency,
/// average and overall bandwidth, average and overall rate.
fn ucx_row(text: &str) -> Result<UcxFigures> {
    let is_row = |line: &&str| line.trim_start().starts_with(|c: char| c.is_ascii_digit());
    let row = text.lines().find(is_row).context("ucx_perftest printed no figures")?;
    let cells: Vec<f64> = row.split(',').filter_map(|cell| cell.trim().parse().ok()).collect();
    match cells[..] {
        [_, median_us, _, _, _, _, average, overall] => {
            Ok(UcxFigures { median_us, messages_per_s: average.max(overall) })
        }
        _ => anyhow::bail!("ucx_perftest printed `{row}`, which is not its eight columns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_ucx_are_found_in_its_columns() {
        let head = "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,\
                    overall_mr\n";
        let row = " 100,0.551,2.538,2.538,29.03,3.52,3804970,460838\n";
        let expected = UcxFigures { median_us: 0.551, messages_per_s: 3_804_970.0 };
        assert_eq!(ucx_row(&format!("{head}{row}")).unwrap(), expected);
        assert!(ucx_row(head).is_err() && ucx_row("100,1.5\n").is_err());
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
