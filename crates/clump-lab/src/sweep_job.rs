//! One run of a sweep's program: a job that this program starts, within a time limit.

use crate::launch::own_program;
use crate::sweep::RunEnd;
use anyhow::{Context, Result};
use clump_os::bound_child::BoundChild;
use clump_os::{clock, signal};
use std::path::Path;
use std::process::{Command, Stdio};

/// Variables that turn the knobs, and that name the file beside whose parameters they are set.
const VARIABLE: &str = "CLUMP_EMU";
const FILE_VARIABLE: &str = "CLUMP_LAB_MACHINE";

/// A job of a sweep.
#[derive(Debug, Clone, Copy, Default)]
pub struct SweepJob<'a> {
    /// Options of `clump run`, program and arguments.
    pub command: &'a [String],
    /// Text of the knobs; empty: none is turned.
    pub knobs: &'a str,
    /// File beside whose parameters knobs are set; `None`: the machine's own.
    pub machine_file: Option<&'a Path>,
    /// Time after which it is stopped, in s.
    pub limit_s: u64,
    /// File for its profile.
    pub profile: Option<&'a Path>,
    /// File for what it prints; else that goes nowhere.
    pub output: Option<&'a Path>,
    /// Folder for its traces.
    pub trace: Option<&'a Path>,
    /// Machine and cost of computation, where time is virtual.
    pub virtual_time: Option<(&'a str, &'a str)>,
}

impl SweepJob<'_> {
    /// Runs it to its end; `None` if the user interrupts.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn run(&self) -> Result<Option<RunEnd>> {
        let mut job = self.command()?;
        let output = match self.output {
            Some(path) => {
                let file = std::fs::File::create(path);
                file.with_context(|| format!("the file {}", path.display()))?.into()
            }
            None => Stdio::null(),
        };
        job.stdin(Stdio::null()).stdout(output).stderr(Stdio::null());
        let begun = clock::now_ns();
        let deadline = begun.saturating_add(self.limit_s.saturating_mul(1_000_000_000));
        let mut child = BoundChild::start(&mut job).context("starting a job of the program")?;
        let go_on = || clock::now_ns() <= deadline && signal::pending(&signal::ENDS).is_none();
        let status = child.wait_while(go_on)?;
        #[expect(clippy::cast_precision_loss, reason = "a run is far below 2^53 ns")]
        let seconds = (clock::now_ns() - begun) as f64 / 1e9;
        Ok(match status {
            None if signal::pending(&signal::ENDS).is_some() => None,
            None => Some(RunEnd::DidNotFinish(seconds)),
            Some(status) if status.success() => Some(RunEnd::Took(seconds)),
            Some(status) => Some(RunEnd::Failed(status.code().unwrap_or(-1))),
        })
    }

    /// Returns the command that starts it.
    fn command(&self) -> Result<Command> {
        let mut job = Command::new(own_program()?);
        job.arg("run");
        for (option, path) in [("--profile", self.profile), ("--trace", self.trace)] {
            if let Some(path) = path {
                job.arg(option).arg(path);
            }
        }
        match self.virtual_time {
            Some((machine, cpu)) => {
                job.args(["--virtual", machine, "--cpu", cpu, "--emu", self.knobs, "--json"]);
                job.env_remove(VARIABLE);
            }
            None => {
                job.env(VARIABLE, self.knobs);
                if let Some(file) = self.machine_file {
                    job.env(FILE_VARIABLE, file);
                }
            }
        }
        job.args(self.command);
        Ok(job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    /// A variable of another name would be ignored silently.
    #[test]
    fn knobs_of_a_run_are_set_beside_the_parameters_of_the_named_file() {
        let file = Some(Path::new("/study/machine.json"));
        let job = SweepJob { machine_file: file, knobs: "L=50us", ..SweepJob::default() };
        let command = job.command().unwrap();
        let of = |name: &str| {
            let found = command.get_envs().find(|(known, _)| *known == OsStr::new(name));
            found.and_then(|(_, value)| value)
        };
        assert_eq!(of("CLUMP_EMU"), Some(OsStr::new("L=50us")));
        assert_eq!(of("CLUMP_LAB_MACHINE"), Some(OsStr::new("/study/machine.json")));
        for variable in [VARIABLE, FILE_VARIABLE] {
            assert!(clump_boot::config::TEXT_KEYS.iter().any(|key| key.variable == variable));
        }
        let virtual_time = Some(("now1997", "fixed:100"));
        let command = SweepJob { virtual_time, ..job }.command().unwrap();
        assert!(command.get_envs().all(|(_, value)| value.is_none()), "the machine's knobs");
    }
}
