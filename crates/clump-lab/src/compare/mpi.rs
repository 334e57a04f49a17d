//! The two MPIs, and programs that they compile and start.

use super::missing::Missing;
use super::peer_source::PeerSource;
use super::process;
use crate::pair::Scope;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    pub(crate) crowds: bool,
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

/// A program that an MPI has compiled.
#[derive(Debug)]
pub struct MpiProgram {
    /// The MPI.
    pub(crate) mpi: &'static Mpi,
    launcher: PathBuf,
    program: PathBuf,
}

impl Mpi {
    /// Compiles a program into `folder`, which must exist as long as it runs.
    ///
    /// # Errors
    /// Returns the peer as missing, with the remedy.
    pub(crate) fn compile(
        &'static self,
        scope: Scope,
        folder: &Path,
        source: &PeerSource,
    ) -> Result<MpiProgram, Missing> {
        let (name, suffix) = (self.name(scope), self.suffix);
        let compiler = process::find(&format!("mpicc.{suffix}"));
        let launcher = process::find(&format!("mpirun.{suffix}"));
        let (Some(compiler), Some(launcher)) = (compiler, launcher) else {
            return Err(Missing::uninstalled(name, self.packages));
        };
        let compiled = source.compile(&compiler, folder, suffix);
        let program = compiled.map_err(|why| Missing { name, remedy: format!("{why:#}") })?;
        Ok(MpiProgram { mpi: self, launcher, program })
    }

    /// Returns its name in tables.
    pub(crate) const fn name(&self, scope: Scope) -> &'static str {
        match scope {
            Scope::Shm => self.names[0],
            Scope::Net => self.names[1],
        }
    }
}

impl MpiProgram {
    /// Returns the name of its MPI in tables.
    pub fn name(&self, scope: Scope) -> &'static str {
        self.mpi.name(scope)
    }

    /// Returns the command for so many ranks, to which the program's arguments are added.
    pub fn command(&self, scope: Scope, ranks: usize) -> Command {
        let mut command = Command::new(&self.launcher);
        command.args(self.mpi.flags).args(["-n", &ranks.to_string()]);
        if scope == Scope::Net {
            let (flags, variables) = self.mpi.apart;
            command.args(flags).envs(variables.iter().copied());
        }
        // Files of the launcher are to be removed with the folder, too.
        if let Some(folder) = self.program.parent() {
            command.env("TMPDIR", folder);
        }
        command.arg(&self.program);
        command
    }
}
