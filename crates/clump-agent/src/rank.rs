//! Starting the ranks of a node.

use crate::net::NodeNetwork;
use crate::placement::Placement;
use crate::refusal::Refusal;
use crate::spec::{JobSpec, NodePlan};
use clump_boot::boot::{
    self, BOOT_VARIABLE, NNODES_VARIABLE, NODE_VARIABLE, NRANKS_VARIABLE, RANK_VARIABLE,
    RankIdentity,
};
use clump_control::ProcessEnd;
use clump_os::printable::printable;
use clump_os::process::{self, Child, Input, Program};
use clump_shm::node::NodeMemory;
use clump_shm::rank::RankState;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

/// A started rank.
#[derive(Debug)]
pub(crate) struct Rank {
    /// Its process.
    pub(crate) child: Child,
    /// The agent's end of its boot connection.
    pub(crate) boot_socket: OwnedFd,
    /// The end of its process, and the state in its block at that time.
    pub(crate) end: Option<(ProcessEnd, RankState)>,
    /// True while its process is stopped.
    pub(crate) stopped: bool,
    /// True once its leaving has been reported.
    pub(crate) leaving: bool,
}

/// Data that all ranks have in common.
#[derive(Debug)]
pub(crate) struct RankEnvironment<'a> {
    pub(crate) spec: &'a JobSpec,
    pub(crate) plan: &'a NodePlan,
    pub(crate) memory: &'a NodeMemory,
    net: Option<&'a NodeNetwork>,
    alarms: Vec<BorrowedFd<'a>>,
    /// Soft descriptor limit that ranks get back, if the agent raised its own.
    pub(crate) descriptors: Option<u64>,
    placement: &'a Placement,
}

impl<'a> RankEnvironment<'a> {
    pub(crate) fn new(
        spec: &'a JobSpec,
        plan: &'a NodePlan,
        memory: &'a NodeMemory,
        net: Option<&'a NodeNetwork>,
        descriptors: Option<u64>,
        placement: &'a Placement,
    ) -> Self {
        let alarms = net.map(|net| net.alarms(memory)).unwrap_or_default();
        Self { spec, plan, memory, net, alarms, descriptors, placement }
    }

    /// Offers `rank` its boot connection: the rank's end of it, and the agent's.
    fn offer(&self, rank: u32) -> Result<(OwnedFd, OwnedFd), Refusal> {
        let spec = self.spec;
        let identity = RankIdentity {
            rank,
            nranks: spec.ranks,
            node: self.plan.node,
            nnodes: spec.nodes,
            job_id: self.plan.job_id,
            stats: spec.stats,
            terminal: spec.terminal,
            services: clump_svm::services(self.memory).fingerprint(),
            net: false,
            line: false,
        };
        let first = self.memory.local_ranks().start;
        let net = self.net.map(|net| net.offer(rank, first, &self.alarms));
        boot::offer(&identity, self.memory.fd(), net.as_ref()).map_err(|e| {
            Refusal::new(format!("cannot start rank {rank} of {}: {e}", spec.ranks), 126)
        })
    }

    /// Adopts process `pid` as `rank`; returns the rank's end of its boot connection too.
    pub(crate) fn adopt(&self, rank: u32, pid: u32) -> Result<(Rank, OwnedFd), Refusal> {
        let (theirs, ours) = self.offer(rank)?;
        let pidfd = process::pidfd(pid).map_err(|e| {
            Refusal::new(format!("rank {rank} of {} is gone: {e}", self.spec.ranks), 126)
        })?;
        let child = Child { pid, pidfd, input: None, output: None, errors: None };
        Ok((Rank { child, boot_socket: ours, end: None, stopped: false, leaving: false }, theirs))
    }

    /// Starts `rank`.
    pub(crate) fn start(&self, rank: u32) -> Result<Rank, Refusal> {
        let spec = self.spec;
        let (theirs, ours) = self.offer(rank)?;
        let first = self.memory.local_ranks().start;
        let file = spec.staged.as_ref().unwrap_or(&spec.program);
        let mut program = Program::new(file, spec.args.iter().cloned());
        program.variables.clone_from(&spec.variables);
        program
            .variable(BOOT_VARIABLE, theirs.as_raw_fd().to_string())
            .variable(RANK_VARIABLE, rank.to_string())
            .variable(NRANKS_VARIABLE, spec.ranks.to_string())
            .variable(NODE_VARIABLE, self.plan.node.to_string())
            .variable(NNODES_VARIABLE, spec.nodes.to_string());
        program.directory = spec.directory.as_ref().map(Into::into);
        let by_frames = self.plan.elsewhere || spec.keyboard;
        program.input = match (rank == 0 && spec.input, by_frames) {
            (true, true) => Input::Piped,
            (true, false) => Input::Inherited,
            (false, _) => Input::Empty,
        };
        program.piped = true;
        program.errors_inherited = rank == 0 && spec.direct_errors;
        program.passes = Some(theirs);
        program.dies_with_starter = true;
        program.descriptors = self.descriptors;
        program.cpus = self.placement.start_of(rank.saturating_sub(first) as usize).to_vec();
        let child = process::start(&program).map_err(|e| self.explain(rank, &e))?;
        Ok(Rank { child, boot_socket: ours, end: None, stopped: false, leaving: false })
    }

    /// Explains why a program does not start, with the codes that shells give.
    fn explain(&self, rank: u32, error: &clump_os::OsError) -> Refusal {
        let (spec, io) = (self.spec, error.io());
        let name = printable(&spec.program);
        let is_path = spec.program.as_bytes().contains(&b'/');
        match io.kind() {
            std::io::ErrorKind::NotFound => {
                let why = match &spec.directory {
                    Some(folder) if !std::path::Path::new(folder).is_dir() => {
                        format!("the working directory {} does not exist", printable(folder))
                    }
                    _ if is_path => {
                        format!("`{name}` does not exist (or its interpreter does not)")
                    }
                    _ => format!(
                        "there is no program `{name}` in PATH; for a file of this folder write `./{name}`"
                    ),
                };
                Refusal::new(why, 127)
            }
            std::io::ErrorKind::PermissionDenied => {
                Refusal::new(format!("`{name}` is not an executable file (chmod +x?)"), 126)
            }
            std::io::ErrorKind::WouldBlock => Refusal::new(
                format!(
                    "cannot start rank {rank} of {}: no more processes allowed; raise the limit \
                     (ulimit -u, or the container's pids limit) or start fewer ranks",
                    spec.ranks
                ),
                126,
            ),
            _ => Refusal::new(format!("cannot start rank {rank} of {}: {error}", spec.ranks), 126),
        }
    }
}
