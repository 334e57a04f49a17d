//! An allocation of Slurm, as its variables describe it: machines, and ranks of each.

use crate::hosts::Hosts;
use clump_agent::spec::RemoteStart;
use clump_boot::config::inherited_variable;
use clump_engines::slurm_lists::{counts, names};
use std::ffi::{OsStr, OsString};

/// Variables of an allocation: its number, its machines, and the ranks or processors of each.
const JOB: &str = "SLURM_JOB_ID";
const NODES: &str = "SLURM_JOB_NODELIST";
const TASKS: &str = "SLURM_TASKS_PER_NODE";
const CPUS: &str = "SLURM_JOB_CPUS_PER_NODE";

/// An allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// Number of the batch job.
    job: u32,
    /// Machines, and the ranks that each may have.
    pub hosts: Hosts,
}

impl Allocation {
    /// Returns the allocation that this process is in, if it is in one of several machines.
    ///
    /// # Errors
    /// Fails if its variables are not understood.
    pub fn find() -> Result<Option<Self>, String> {
        let inherited = |name: &str| inherited_variable(OsStr::new(name));
        Self::of(|name| inherited(name)?.into_string().ok().filter(|value| !value.is_empty()))
    }

    /// Reads these variables.
    ///
    /// # Errors
    /// Fails if they are not understood.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        let (Some(job), Some(nodes)) = (variable(JOB), variable(NODES)) else { return Ok(None) };
        let job = job.trim().parse().map_err(|_| format!("{JOB} is `{job}`, no number"))?;
        let nodes = names(&nodes).ok_or_else(|| format!("{NODES} is `{nodes}`, no list"))?;
        if nodes.len() < 2 {
            return Ok(None);
        }
        let (name, text) = match (variable(TASKS), variable(CPUS)) {
            (Some(tasks), _) => (TASKS, tasks),
            (None, Some(cpus)) => (CPUS, cpus),
            (None, None) => (TASKS, format!("1(x{})", nodes.len())),
        };
        let counts = counts(&text).filter(|counts| counts.len() == nodes.len());
        let counts = counts.ok_or_else(|| {
            format!("{name} is `{text}`, no numbers for {} machines", nodes.len())
        })?;
        let entries = nodes.iter().zip(counts).map(|(name, count)| format!("{name}:{count}"));
        let hosts = entries.collect::<Vec<_>>().join(",").parse()?;
        Ok(Some(Self { job, hosts }))
    }

    /// Returns the command that runs a command on one of its machines.
    pub fn shell(&self) -> Vec<OsString> {
        RemoteStart::by_slurm(self.job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(all: &[(&str, &str)]) -> Result<Option<Allocation>, String> {
        Allocation::of(|name| Some(all.iter().find(|(known, _)| *known == name)?.1.to_owned()))
    }

    #[test]
    fn an_allocation_of_several_machines_is_found() {
        let job = ("SLURM_JOB_ID", "7");
        let nodes = ("SLURM_JOB_NODELIST", "n[1-3]");
        let found = of(&[job, nodes, ("SLURM_TASKS_PER_NODE", "4(x2),3")]).unwrap().unwrap();
        assert_eq!(found.hosts, "n1:4,n2:4,n3:3".parse().unwrap());
        assert!(found.shell().contains(&"--jobid".into()) && found.shell().contains(&"7".into()));
        let cpus = of(&[job, nodes, ("SLURM_JOB_CPUS_PER_NODE", "8(x3)")]).unwrap().unwrap();
        assert_eq!(cpus.hosts, "n1:8,n2:8,n3:8".parse().unwrap());
        assert_eq!(of(&[job, ("SLURM_JOB_NODELIST", "n1")]), Ok(None), "this machine alone");
        assert_eq!(of(&[]), Ok(None));
        assert!(of(&[job, nodes, ("SLURM_TASKS_PER_NODE", "4(x2)")]).is_err());
        assert!(of(&[("SLURM_JOB_ID", "x"), nodes]).is_err());
    }
}
