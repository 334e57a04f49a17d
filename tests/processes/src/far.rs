//! Jobs on other machines without any: a program that stands for `ssh` runs the command here, in
//! another folder and without this process's environment.

use crate::{Folder, Job, MARK};
use clump_os::procfs;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A program that stands for a remote shell.
#[derive(Debug)]
pub struct FakeShell {
    folder: Folder,
    shell: PathBuf,
}

impl FakeShell {
    /// Creates one that runs commands on any machine.
    pub fn new() -> Self {
        Self::with_script("")
    }

    /// Creates one that runs `script` first, in which `$machine` is the machine's name and
    /// `$command` the command.
    pub fn with_script(script: &str) -> Self {
        let folder = Folder::new();
        let shell = folder.path().join("fake-ssh");
        let text = format!(
            "#!/bin/sh\nmachine=$1; shift; command=\"$*\"\n{script}\ncd /\n\
             exec env -i PATH=/usr/bin:/bin {MARK}=\"${MARK}\" MACHINE=\"$machine\" sh -c \"$command\"\n"
        );
        std::fs::write(&shell, text).expect("writing a script");
        let mode = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(&shell, mode).expect("making a script a program");
        Self { folder, shell }
    }

    /// Returns its folder, for files of a test.
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Creates `clump run` with `options` of `prog` with `args` on machines that it reaches.
    pub fn job(&self, options: &str, args: &str) -> Job {
        Job::of(&self.options(options), args)
    }

    /// Creates `clump run` with `options` of any program on machines that it reaches.
    pub fn job_of(&self, options: &str, words: &[&str]) -> Job {
        let rest = words[1..].iter().map(OsString::from);
        Job::of_program(&self.options(options), words[0], rest)
    }

    /// Creates any command of `clump` with this shell for machines.
    pub fn command(&self, words: &str) -> Job {
        Job::command(&self.options_of(words))
    }

    fn options_of(&self, words: &str) -> String {
        format!("{words} --ssh {}", self.shell.display())
    }

    fn options(&self, options: &str) -> String {
        format!("--ssh {} {options}", self.shell.display())
    }
}

impl Default for FakeShell {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the processes of a job that are agents on the machine of that name.
pub fn agents_on(job: &crate::Running, machine: &str) -> Vec<u32> {
    let is_it = |pid: u32| {
        let line = procfs::command_line(pid);
        let line = line.to_string_lossy();
        line.ends_with(" agent --kept")
            && procfs::variable(pid, "MACHINE").is_some_and(|is| is == machine)
    };
    job.processes().into_iter().map(|process| process.pid).filter(|pid| is_it(*pid)).collect()
}
