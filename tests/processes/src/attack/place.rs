//! The programs of this build, and a folder of its own for every job.

use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs, and the parent of the jobs' folders.
#[derive(Debug)]
pub struct AttackPlace {
    /// Folder of the programs.
    bin: PathBuf,
    /// Parent of the folders of jobs.
    base: PathBuf,
    /// Control group with a limited number of processes, if there is one.
    groups: Option<PathBuf>,
    /// Control group with a limit of memory, if there is one.
    memory_groups: Option<PathBuf>,
}

impl AttackPlace {
    /// Creates a place with the programs of this build, and makes the folder beside them.
    ///
    /// # Errors
    /// Fails if it cannot be made.
    pub fn of_build() -> Result<Self> {
        let hinder = crate::program("hinder");
        let bin = hinder.parent().context("the folder of the programs")?.to_owned();
        let base = bin.join(format!("attack-{}", std::process::id()));
        Self::at(bin, base)
    }

    /// Creates a place with programs in `bin`, and makes the folder `base` for those of jobs.
    ///
    /// # Errors
    /// Fails if it cannot be made.
    pub fn at(bin: PathBuf, base: PathBuf) -> Result<Self> {
        fs::create_dir_all(&base).with_context(|| base.display().to_string())?;
        let groups = groups(&["/sys/fs/cgroup/pids", "/sys/fs/cgroup"], &["pids.max"]);
        let memory = ["memory.max", "memory.limit_in_bytes"];
        let memory_groups = self::groups(&["/sys/fs/cgroup/memory", "/sys/fs/cgroup"], &memory);
        Ok(Self { bin, base, groups, memory_groups })
    }

    /// Returns the path of a program.
    pub fn program(&self, name: &str) -> PathBuf {
        self.bin.join(name)
    }

    /// Returns the path of `clump`, built for tests: the same `main`.
    pub fn clump(&self) -> PathBuf {
        self.program("clump-under-test")
    }

    /// Returns the control group in which processes can be limited in number, if there is one.
    pub fn groups(&self) -> Option<&Path> {
        self.groups.as_deref()
    }

    /// Returns the control group in which groups with a limit of memory can be made, if there is
    /// one.
    pub fn memory_groups(&self) -> Option<&Path> {
        self.memory_groups.as_deref()
    }

    /// Creates a new folder for a job.
    ///
    /// # Errors
    /// Fails if it cannot be made.
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

    /// Runs `clump` to its end without any condition; returns its standard output if it exits with
    /// 0.
    ///
    /// # Errors
    /// Fails if it cannot be started.
    pub fn ask(&self, args: &[&str], folder: &Folder) -> Result<Option<String>> {
        let mut clump = Command::new(self.clump());
        clump.args(args).current_dir(folder.work()).env("TMPDIR", folder.temporary());
        let ended = clump.output().context("starting clump")?;
        let text = || String::from_utf8_lossy(&ended.stdout).into_owned();
        Ok(ended.status.success().then(text))
    }
}

impl Drop for AttackPlace {
    fn drop(&mut self) {
        // Remains of a failed job have been reported.
        let _ = fs::remove_dir_all(&self.base);
    }
}

/// Returns the folder in which this process may make groups that have one of these limits
/// (cgroups(7), versions 1 and 2).
fn groups(tried: &[&str], limits: &[&str]) -> Option<PathBuf> {
    tried.iter().map(PathBuf::from).find(|base| {
        let group = base.join(format!("clump-attack-{}", std::process::id()));
        let made = fs::create_dir(&group).is_ok();
        let counts = limits.iter().any(|limit| group.join(limit).is_file());
        let _ = fs::remove_dir(&group);
        made && counts
    })
}

/// A job's own folder, with its working folder and its temporary files.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Returns the whole folder. Its path is in the environment of every process of the job, and
    /// marks them.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its working folder.
    pub fn work(&self) -> PathBuf {
        self.path.join("work")
    }

    /// Returns its `TMPDIR`.
    pub fn temporary(&self) -> PathBuf {
        self.path.join("tmp")
    }
}
