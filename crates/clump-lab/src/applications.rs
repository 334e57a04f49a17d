//! `clump lab applications`: applications beside the same work in MPI, in one run.
//!
//! Implementations take turns, one job at a time, on equal ranks and the same amount of work. A
//! time is that of the parallel program at its slowest rank: drawing the input, starting and
//! checking are apart. Wrong answers are errors.

pub mod task;

use crate::compare::Venue;
use crate::compare::missing::Missing;
use crate::compare::mpi::{MPICH, MpiProgram, OPEN_MPI};
use crate::compare::process::Guard;
use crate::contrast::Contrast;
use crate::launch;
use crate::pair::Scope;
use crate::schema::{Figure, InstrumentReport, ReportColumn, ReportTable};
use anyhow::{Context, Result};
use clump_loggp::Median;
use clump_os::signal;
use serde::Serialize;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use task::{Task, TaskSize};

/// Time limit of a job.
const LIMIT: Duration = Duration::from_secs(300);

/// Settings of a comparison.
#[derive(Debug, Clone)]
pub struct TaskPlan {
    /// The tasks.
    pub tasks: Vec<Task>,
    /// Their size.
    pub size: TaskSize,
    /// The path, and the protection of clump's packets.
    pub venue: Venue,
    /// Ranks of each job.
    pub ranks: usize,
    /// Turns of each implementation.
    pub rounds: usize,
}

/// An implementation of one task.
#[derive(Debug)]
enum Contender {
    Clump,
    Mpi(MpiProgram),
}

/// Times of one task: a row for each implementation, clump first, with a time for each round.
#[derive(Debug, Clone, Serialize)]
pub struct TaskTimes {
    /// The task.
    pub task: Task,
    /// Names of the implementations.
    pub names: Vec<&'static str>,
    /// Seconds by implementation and round.
    pub seconds: Vec<Vec<f64>>,
}

/// Measures all tasks; programs for MPIs are compiled into `folder`.
///
/// # Errors
/// Fails if a job cannot be run, or its answer is wrong.
pub fn measure(
    plan: &TaskPlan,
    folder: &Path,
    mut progress: impl FnMut(&str),
) -> Result<(Vec<TaskTimes>, Vec<Missing>)> {
    let (mut times, mut missing) = (Vec::new(), Vec::new());
    for &task in &plan.tasks {
        let contenders = gather(task, plan, folder, &mut missing);
        let mut seconds = vec![Vec::new(); contenders.len()];
        for round in 1..=plan.rounds {
            for (contender, seconds) in contenders.iter().zip(&mut seconds) {
                let name = contender.name(plan.venue.scope);
                progress(&format!("{task}, round {round} of {}: {name}", plan.rounds));
                let time = contender.time(task, plan);
                let time = time.with_context(|| format!("running {task} on {name}"));
                // A peer that hangs costs its turn: medians leave out what is no number.
                match time {
                    Err(why) if contender.is_peer() && signal::pending(&signal::ENDS).is_none() => {
                        let remedy = format!("its turn in round {round} failed: {why:#}");
                        missing.push(Missing { name, remedy });
                        seconds.push(f64::NAN);
                    }
                    time => seconds.push(time?),
                }
            }
        }
        let names = contenders.iter().map(|it| it.name(plan.venue.scope)).collect();
        times.push(TaskTimes { task, names, seconds });
    }
    Ok((times, missing))
}

/// Finds the implementations of a task, clump first.
fn gather(
    task: Task,
    plan: &TaskPlan,
    folder: &Path,
    missing: &mut Vec<Missing>,
) -> Vec<Contender> {
    let mut here = vec![Contender::Clump];
    for mpi in [&OPEN_MPI, &MPICH] {
        let scope = plan.venue.scope;
        if task == Task::Fft3d && mpi.name(scope) == MPICH.name(scope) {
            let remedy = "Debian's FFTW is built for Open MPI alone".into();
            missing.push(Missing { name: mpi.name(scope), remedy });
            continue;
        }
        match mpi.compile(scope, folder, task.source()) {
            Ok(program) => here.push(Contender::Mpi(program)),
            Err(peer) => {
                let packages = if task == Task::Fft3d {
                    " (Debian: libfftw3-dev libfftw3-mpi-dev)"
                } else {
                    ""
                };
                let remedy = format!("{task}{packages}: {}", peer.remedy);
                missing.push(Missing { remedy, ..peer });
            }
        }
    }
    here
}

impl Contender {
    fn name(&self, scope: Scope) -> &'static str {
        match self {
            Self::Clump => "clump",
            Self::Mpi(program) => program.name(scope),
        }
    }

    fn is_peer(&self) -> bool {
        !matches!(self, Self::Clump)
    }

    /// Runs a turn; returns its seconds.
    fn time(&self, task: Task, plan: &TaskPlan) -> Result<f64> {
        match self {
            Self::Clump => {
                let mut command = Command::new(launch::own_program()?);
                command.arg("app").args(task.words(plan.size));
                command.args(["-n", &plan.ranks.to_string()]);
                if plan.venue.scope == Scope::Net {
                    let security = plan.venue.security.name();
                    command.args(["--nodes", "2", "--security", security]);
                }
                task.seconds_of_app(&Guard::start(&mut command)?.finish(LIMIT)?)
            }
            Self::Mpi(program) => {
                let mut command = program.command(plan.venue.scope, plan.ranks);
                command.args(task.mpi_words(plan.size));
                task.seconds_of_mpi(&Guard::start(&mut command)?.finish(LIMIT)?)
            }
        }
    }
}

/// Builds the report: medians of times, and of the rounds' ratios.
///
/// # Errors
/// Fails if the times have no JSON form.
pub fn report(
    plan: &TaskPlan,
    times: &[TaskTimes],
    missing: &[Missing],
) -> Result<InstrumentReport> {
    let scope = plan.venue.scope;
    let columns = [
        ReportColumn::ours("clump"),
        ReportColumn::baseline(OPEN_MPI.name(scope)),
        ReportColumn::baseline(MPICH.name(scope)),
        ReportColumn::ratio("times as fast as the best"),
    ];
    let mut table = ReportTable::new("time of the parallel program", columns.into());
    for TaskTimes { task, names, seconds } in times {
        let median = |name: &str| {
            let at = names.iter().position(|it| *it == name)?;
            Some(Figure::from(Median::of(seconds[at].iter().copied())?.scaled(1e3, 0.0)))
        };
        let own = median("clump");
        let ratios = seconds.iter().skip(1).filter_map(|theirs| {
            let rounds = theirs.iter().copied().zip(seconds.first()?.iter().copied());
            Some(Contrast::of(&rounds.collect::<Vec<_>>())?.ratio.value)
        });
        let ahead = ratios.min_by(f64::total_cmp);
        let digits = if own.is_some_and(|own| own.value < 10.0) { 2 } else { 1 };
        let peers = [OPEN_MPI.name(scope), MPICH.name(scope)].map(median);
        let figures = [own, peers[0], peers[1], ahead.map(Figure::from)];
        let row = table.row(task.to_string(), ("ms", digits), figures.into());
        if let Some(ahead) = ahead {
            row.goal("ahead of the best", ahead > 1.0);
        }
    }
    table.notes.extend(missing.iter().map(|peer| format!("{}: {}", peer.name, peer.remedy)));
    let title = format!("applications beside the same work in MPI, through {}", scope.text());
    let mut report = InstrumentReport::new("applications", title, &times)?
        .with("ranks", plan.ranks)
        .with("security", plan.venue.security)
        .with("rounds", plan.rounds);
    report.tables.push(table);
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_peer_of_each_round_is_what_counts() {
        let venue = Venue { scope: Scope::Shm, security: clump_wire::Security::Aead, netns: false };
        let tasks = vec![Task::Radix, Task::Fft3d];
        let plan = TaskPlan { tasks, size: TaskSize::Ci, venue, ranks: 2, rounds: 3 };
        let names = vec!["clump", "Open MPI", "MPICH"];
        let seconds = vec![vec![1.0, 2.0, 1.0], vec![2.0, 4.0, 2.0], vec![0.5, 1.0, 0.5]];
        let radix = TaskTimes { task: Task::Radix, names, seconds };
        let fft = TaskTimes { task: Task::Fft3d, names: vec!["clump"], seconds: vec![vec![1.0]] };
        let report = report(&plan, &[radix, fft], &[]).unwrap();
        let [radix, fft] = &report.tables[0].rows[..] else { panic!("two rows") };
        let values: Vec<_> = radix.figures.iter().map(|f| f.map(|f| f.value)).collect();
        assert_eq!(values, [Some(1000.0), Some(2000.0), Some(500.0), Some(0.5)]);
        assert!(!radix.goals[0].met);
        assert!(fft.goals.is_empty() && fft.figures[1..].iter().all(Option::is_none));
    }
}
