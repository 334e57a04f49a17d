//! Virtual cables of running jobs, and retransmissions on them.

use crate::{Folder, Job, Running, program, until};
use std::process::Command;

/// Starts a job of four ranks on two nodes, of which rank 0 computes for ever and the others wait
/// for it.
pub fn stuck(folder: &Folder, options: &str, deaf: &str) -> Running {
    let args = format!("forever 0 --together {deaf} --ready {}", folder.path().display());
    let job = Job::of(&format!("-n 4 --nodes 2 {options}"), &args).start();
    job.await_ready(folder.path(), 0..1);
    until("all ranks", || (job.ranks().len() == 4).then_some(()));
    job
}

/// Returns true if nodes can have network namespaces here; prints the reason if they cannot.
///
/// # Panics
/// Panics if they cannot and no reason is given.
pub fn are_here() -> bool {
    let tried = Job::command("run -n 2 --nodes 2 --netns true").finish();
    let why = tried.err.lines().find(|line| line.contains("--netns"));
    assert_eq!(tried.code == 0, why.is_none(), "{}", tried.err);
    if let Some(why) = why {
        println!("skipped: {why}");
    }
    why.is_none()
}

/// One end of the cable between the two nodes of a job.
#[derive(Debug)]
pub struct Cable {
    pid: u32,
    there: usize,
    which: usize,
}

impl Cable {
    /// Returns both ends: of node 0, of node 1.
    pub fn both(job: &Running) -> [Self; 2] {
        Self::both_of(job, 0)
    }

    /// Returns both ends of one of several cables.
    pub fn both_of(job: &Running, which: usize) -> [Self; 2] {
        let agents = job.agents(2);
        [0, 1].map(|node| Self { pid: agents[node], there: 1 - node, which })
    }

    /// Changes the cable, by a subcommand of the program `cable`.
    ///
    /// # Panics
    /// Panics if that fails.
    pub fn does(&self, what: &[&str]) {
        let ends = [self.pid as usize, self.there, self.which].map(|n| n.to_string());
        let done = Command::new(program("cable")).args(ends).args(what).output();
        let done = done.expect("starting `cable`");
        assert!(done.status.success(), "{what:?}: {}", String::from_utf8_lossy(&done.stderr));
    }
}

/// Returns the number of units that the ranks of a job have retransmitted; `pid` is any of its
/// processes.
///
/// # Panics
/// Panics if its counters cannot be read.
pub fn resent(pid: u32) -> u64 {
    let read = Job::command(&format!("stats --json --pid {pid}")).finish();
    let ranks = read.json()["counters"].clone();
    let of = |rank: &serde_json::Value| rank["net.units.resent"].as_u64().unwrap_or(0);
    ranks.as_array().expect("a list of ranks").iter().map(of).sum()
}
