//! Where attacks happen: the programs of this build, and a folder of its own for every job.

use crate::command::{self, cargo};
use crate::host;
use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Longest time for a build of everything.
const BUILD: Duration = Duration::from_secs(1200);
/// The same for a program that only looks.
const LOOK: Duration = Duration::from_secs(60);

/// The programs, and where jobs have their folders.
#[derive(Debug)]
pub struct AttackPlace {
    /// Where the programs are.
    bin: PathBuf,
    /// What holds the folders of jobs.
    base: PathBuf,
    /// Where groups of processes can be limited in number, if anywhere.
    groups: Option<PathBuf>,
}

impl AttackPlace {
    /// Builds the programs, and makes the folder.
    ///
    /// # Errors
    /// They do not build.
    pub fn prepare(root: &Path, release: bool) -> Result<Self> {
        let mut args = vec!["build", "--package", "clump-cluster-tests", "--bins"];
        args.extend(release.then_some("--release"));
        let built = command::run(&mut cargo(root, &args), BUILD)?;
        if !built.success {
            bail!("the programs do not build: {}", built.why);
        }
        let target = host::target(root);
        let target = target.canonicalize().with_context(|| target.display().to_string())?;
        let base = target.join(format!("attack-{}", std::process::id()));
        Self::at(target.join(if release { "release" } else { "debug" }), base)
    }

    /// Programs of a folder, and a folder for those of jobs, which is made.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn at(bin: PathBuf, base: PathBuf) -> Result<Self> {
        fs::create_dir_all(&base).with_context(|| base.display().to_string())?;
        Ok(Self { bin, base, groups: groups() })
    }

    /// The path of a program.
    pub fn program(&self, name: &str) -> PathBuf {
        self.bin.join(name)
    }

    /// `clump`, built for tests: the same `main`.
    pub fn clump(&self) -> PathBuf {
        self.program("clump-under-test")
    }

    /// Where groups of processes can be limited in number, if anywhere.
    pub fn groups(&self) -> Option<&Path> {
        self.groups.as_deref()
    }

    /// A new folder for a job.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn folder(&self) -> Result<Folder> {
        let taken = fs::read_dir(&self.base).with_context(|| self.base.display().to_string())?;
        let path = self.base.join(format!("job-{:04}", taken.count()));
        let folder = Folder { path };
        for part in [folder.path().to_owned(), folder.work(), folder.temporary()] {
            fs::create_dir(&part).with_context(|| part.display().to_string())?;
            // A job may run as another user.
            fs::set_permissions(&part, fs::Permissions::from_mode(0o777))?;
        }
        Ok(folder)
    }

    /// Runs `clump` to its end without any condition; its standard output when it exits with 0.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn ask(&self, args: &[&str], folder: &Folder) -> Result<Option<String>> {
        let mut clump = Command::new(self.clump());
        clump.args(args).current_dir(folder.work()).env("TMPDIR", folder.temporary());
        let ended = command::run_quiet(&mut clump, LOOK)?;
        Ok(ended.success.then_some(ended.stdout))
    }
}

impl Drop for AttackPlace {
    fn drop(&mut self) {
        // What a failed job left was told.
        let _ = fs::remove_dir_all(&self.base);
    }
}

/// Where this process may make groups whose processes are counted (cgroups(7), versions 1 and 2).
fn groups() -> Option<PathBuf> {
    let tried = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"].map(PathBuf::from);
    tried.into_iter().find(|base| {
        let group = base.join(format!("clump-attack-{}", std::process::id()));
        let made = fs::create_dir(&group).is_ok();
        let counts = group.join("pids.max").is_file();
        let _ = fs::remove_dir(&group);
        made && counts
    })
}

/// A job's own folder: where it works, and where its temporary files go.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// All of it. Its path is in the environment of every process of the job, and marks them.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its working folder.
    pub fn work(&self) -> PathBuf {
        self.path.join("work")
    }

    /// Its `TMPDIR`.
    pub fn temporary(&self) -> PathBuf {
        self.path.join("tmp")
    }
}
