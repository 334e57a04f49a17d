//! The engine that started this process, as its environment tells.

use crate::slurm_step::SlurmStep;
use clump_boot::config::inherited_variable;
use clump_os::{process, socket};
use std::ffi::OsStr;

/// Variables of the engines.
const PMI_FD: &str = "PMI_FD";
const PMI_RANK: &str = "PMI_RANK";
const PMI_SIZE: &str = "PMI_SIZE";
const PMI_JOB: &str = "PMI_JOBID";
const PMIX_RANK: &str = "PMIX_RANK";
const PMIX_SPACE: &str = "PMIX_NAMESPACE";
/// Variables in which engines of PMIx say how many processes they have started.
const OPEN_MPI_SIZE: &str = "OMPI_COMM_WORLD_SIZE";
const SLURM_SIZE: &str = "SLURM_STEP_NUM_TASKS";
const SLURM_STEP: &str = "SLURM_STEP_ID";

/// An engine, and the way to speak with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartedBy {
    /// A process manager that speaks PMI on an inherited descriptor.
    Pmi {
        /// The descriptor.
        number: i32,
        /// The number that the engine gave to this process.
        rank: u32,
        /// Processes that it started together.
        size: u32,
        /// The job's name, which the second version of the protocol wants; none: the first.
        job: Option<String>,
        /// Its name in texts.
        name: &'static str,
    },
    /// A server of PMIx, which libpmix finds.
    Pmix {
        /// Processes that it started together, as far as the environment tells.
        size: Option<u32>,
        /// Its name in texts.
        name: &'static str,
    },
    /// Slurm, without a server that speaks PMI or PMIx: its variables have to do. Or the reason why
    /// they do not.
    Slurm(Result<SlurmStep, String>),
}

impl StartedBy {
    /// Returns the engine that these variables tell of, if one started this process. Variables of
    /// an engine further out are still there: a descriptor counts if it is open, a task of Slurm
    /// if this process is one.
    pub fn of(
        variable: impl Fn(&str) -> Option<String>,
        is_open: impl Fn(i32) -> bool,
        is_task: impl Fn(u32) -> bool,
    ) -> Option<Self> {
        let number = |name: &str| variable(name)?.trim().parse::<u32>().ok();
        let pmix = || {
            (number(PMIX_RANK).is_some() && variable(PMIX_SPACE).is_some()).then(|| {
                let open_mpi = number(OPEN_MPI_SIZE);
                let slurm = open_mpi.is_none() && variable(SLURM_STEP).is_some();
                let name = if slurm { "Slurm's srun (PMIx)" } else { "mpirun (PMIx)" };
                Self::Pmix { size: open_mpi.or_else(|| number(SLURM_SIZE)), name }
            })
        };
        let slurm = || SlurmStep::of(&variable, is_task).map(Self::Slurm);
        Self::pmi(&variable, is_open).or_else(pmix).or_else(slurm)
    }

    fn pmi(
        variable: impl Fn(&str) -> Option<String>,
        is_open: impl Fn(i32) -> bool,
    ) -> Option<Self> {
        let number = |name: &str| variable(name)?.trim().parse::<u32>().ok();
        let descriptor = number(PMI_FD).and_then(|fd| i32::try_from(fd).ok());
        let descriptor = descriptor.filter(|&fd| is_open(fd));
        let (number, rank, size) = (descriptor?, number(PMI_RANK)?, number(PMI_SIZE)?);
        // Slurm's plugin for the second version sets both; MPICH's mpiexec neither.
        let job = variable(PMI_JOB).filter(|_| variable(SLURM_STEP).is_some());
        let name = if job.is_some() { "Slurm's srun (PMI-2)" } else { "mpiexec (PMI-1)" };
        (rank < size).then_some(Self::Pmi { number, rank, size, job, name })
    }

    /// Returns the engine that started this process, if one did.
    pub fn find() -> Option<Self> {
        let inherited = |name: &str| inherited_variable(OsStr::new(name));
        let text =
            |name: &str| inherited(name)?.into_string().ok().filter(|value| !value.is_empty());
        // A task, or what its shell started.
        let is_task = |task| process::own_pid() == task || process::parent_pid() == task;
        Self::of(text, socket::is_open, is_task)
    }

    /// Returns how many processes it started together, as far as the environment tells.
    fn size(&self) -> u32 {
        match self {
            Self::Pmi { size, .. } => *size,
            Self::Pmix { size, .. } => size.unwrap_or(u32::MAX),
            Self::Slurm(step) => step.as_ref().map_or(u32::MAX, SlurmStep::size),
        }
    }

    /// Returns its name in texts.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pmi { name, .. } | Self::Pmix { name, .. } => name,
            Self::Slurm(_) => "Slurm's srun",
        }
    }
}

/// Returns true if this process is a rank: an agent has started it, or an engine together with
/// others.
pub fn started_as_rank() -> bool {
    clump_boot::boot::started_as_rank() || StartedBy::find().is_some_and(|by| by.size() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(all: &[(&str, &str)]) -> Option<StartedBy> {
        let known = |name: &str| Some(all.iter().find(|(one, _)| *one == name)?.1.to_owned());
        StartedBy::of(known, |number| number == 7, |task| task == 70)
    }

    #[test]
    fn an_engine_is_known_by_all_of_its_variables() {
        let all = [("PMI_FD", "7"), ("PMI_RANK", "1"), ("PMI_SIZE", "4")];
        let Some(StartedBy::Pmi { number: 7, rank: 1, size: 4, job: None, .. }) = of(&all) else {
            panic!("{:?}", of(&all))
        };
        for without in 0..all.len() {
            let mut some = all.to_vec();
            some.remove(without);
            assert_eq!(of(&some), None, "{some:?}");
        }
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn slurm_means_the_second_version() {
        let mut all = vec![("PMI_FD", "7"), ("PMI_RANK", "1"), ("PMI_SIZE", "4")];
        all.extend([("PMI_JOBID", "3.0"), ("SLURM_STEP_ID", "0")]);
        assert!(matches!(of(&all), Some(StartedBy::Pmi { job: Some(_), .. })));
    }

    #[test]
    fn an_engine_further_out_is_not_asked() {
        let pmi = [("PMI_FD", "8"), ("PMI_RANK", "1"), ("PMI_SIZE", "4")];
        assert_eq!(of(&pmi), None, "the descriptor is closed");
        let pmix = [("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "n"), ("OMPI_COMM_WORLD_SIZE", "3")];
        let both = [&pmi[..], &pmix].concat();
        assert!(matches!(of(&both), Some(StartedBy::Pmix { size: Some(3), .. })));
        let inner = [&[("PMI_FD", "7")], &pmi[1..], &pmix].concat();
        assert!(matches!(of(&inner), Some(StartedBy::Pmi { size: 4, .. })));
    }

    #[test]
    fn variables_of_slurm_count_where_nobody_can_be_asked() {
        let task = [("SLURM_TASK_PID", "70"), ("SLURM_STEP_NUM_TASKS", "2")];
        assert!(matches!(of(&task), Some(StartedBy::Slurm(Err(_)))), "the lists are missing");
        let pmi = [("PMI_FD", "7"), ("PMI_RANK", "1"), ("PMI_SIZE", "2")];
        assert!(matches!(of(&[&task[..], &pmi].concat()), Some(StartedBy::Pmi { .. })));
        let pmix = [("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "n")];
        assert!(matches!(of(&[&task[..], &pmix].concat()), Some(StartedBy::Pmix { .. })));
    }

    #[test]
    fn nonsense_is_no_engine() {
        assert_eq!(of(&[("PMI_FD", "-1"), ("PMI_RANK", "0"), ("PMI_SIZE", "4")]), None);
        assert_eq!(of(&[("PMI_FD", "7"), ("PMI_RANK", "4"), ("PMI_SIZE", "4")]), None);
        assert_eq!(of(&[("PMI_FD", "x"), ("PMI_RANK", "0"), ("PMI_SIZE", "4")]), None);
        assert_eq!(of(&[("PMI_FD", "7"), ("PMI_RANK", "0"), ("PMI_SIZE", "0")]), None);
    }
}
