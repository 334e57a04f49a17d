//! Runs one job to its end, or to its deadline; collects its output and its remains.

use super::event::{self, Event, What};
use super::job::Job;
use super::place::AttackPlace;
use super::remains::{self, Process};
use super::stream::{Opened, Output};
use anyhow::{Context, Result, bail};
use clump_os::clock;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

/// The variable that marks every process of a job.
const MARK: &str = "CLUMP_TEST_ATTACK_MARK";
/// Bytes of a stream that are kept; the rest is read and discarded.
const MAX_KEPT: usize = 4 << 20;

/// Time limits.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    /// Limit of a job: ten times that of the slowest.
    pub end: Duration,
    /// Limit of its last process after its end.
    pub remains: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self { end: Duration::from_secs(60), remains: Duration::from_secs(5) }
    }
}

/// The end of a job.
#[derive(Debug, Default)]
pub struct JobEnded {
    /// Its exit code, negative for a signal; `None` when it had to be killed.
    pub code: Option<i32>,
    /// Its standard output, if that can be read.
    pub output: Option<String>,
    /// Its standard error, if that can be read; it may be part of the output.
    pub errors: Option<String>,
    /// Its processes when it had not ended in time.
    pub stuck: Vec<Process>,
    /// Its processes long after its end.
    pub left: Vec<Process>,
    /// Files and names that it left.
    pub files: Vec<PathBuf>,
}

/// Runs jobs, one after the other.
#[derive(Debug)]
pub struct Supervisor<'a> {
    /// The programs.
    pub place: &'a AttackPlace,
    /// Time limits.
    pub deadlines: Deadlines,
    /// True if orphans become children of this process, so that none escapes.
    pub adopts: bool,
}

/// The other sides of a job's streams.
struct Others {
    read: [Option<JoinHandle<String>>; 2],
    files: [Option<File>; 2],
    held: Vec<OwnedFd>,
}

impl Supervisor<'_> {
    /// Runs a job.
    ///
    /// # Errors
    /// Fails if it cannot be started, or if its event cannot be caused.
    pub fn run(&self, job: &Job) -> Result<JobEnded> {
        let names = remains::names();
        let group = job.group.map(|most| self.group(most)).transpose()?;
        let memory = job.memory_mib.map(|mib| self.memory_group(mib)).transpose()?;
        let groups: Vec<PathBuf> = group.into_iter().chain(memory).collect();
        let (mut command, mut others) = self.command(job, &groups)?;
        let started = command.spawn().context("starting `hinder`");
        // The command's copies of the streams would keep them open.
        drop(command);
        let mut child = started?;
        let mut ended = JobEnded::default();
        let outcome = self.watch(job, &mut child, &mut others, &mut ended);
        if ended.code.is_none() {
            ended.stuck = self.processes(job, 0);
            self.kill(job, ended.stuck.clone(), child.id());
            let _ = child.kill();
            let _ = child.wait();
        }
        ended.left = self.clear(job, child.id());
        for group in groups {
            // Succeeds on a group without processes; remaining ones have been reported.
            let _ = fs::remove_dir(group);
        }
        let [mut output, mut errors] = others.read.map(|reader| reader.map(JoinHandle::join));
        let text = |stream: &mut Option<std::thread::Result<String>>, file: Option<File>| {
            file.map(kept).or_else(|| stream.take().map(std::result::Result::unwrap_or_default))
        };
        let [output_file, errors_file] = others.files;
        ended.output = text(&mut output, output_file);
        ended.errors = text(&mut errors, errors_file);
        ended.files = remains::files(&job.folder, &names);
        outcome.map(|()| ended)
    }

    /// Waits for the end, and causes the event.
    fn watch(
        &self,
        job: &Job,
        child: &mut Child,
        others: &mut Others,
        ended: &mut JobEnded,
    ) -> Result<()> {
        let start = clock::instant();
        let mut event = job.event.as_ref();
        while start.elapsed() < self.deadlines.end {
            if let Some(status) = child.try_wait().context("waiting for the job")? {
                ended.code = Some(code(status));
                return Ok(());
            }
            if let Some(due) = event.filter(|event| event.is_due(start.elapsed())) {
                event = None;
                self.happen(job, due, child.id(), others)?;
            }
            pause();
        }
        Ok(())
    }

    fn happen(&self, job: &Job, event: &Event, pid: u32, others: &mut Others) -> Result<()> {
        match &event.what {
            What::Signal(name) => event::send(pid, name),
            What::Signals(steps) => event::send_all(pid, steps),
            What::HangUp => others.held.clear(),
            What::Narrow { steps, then } => {
                let is_agent =
                    |p: &Process| p.parent == pid && p.command.contains(" agent --control ");
                let mut agents = self.processes(job, pid);
                agents.retain(is_agent);
                let mut agents: Vec<u32> = agents.into_iter().map(|agent| agent.pid).collect();
                agents.sort_unstable();
                event::narrow(self.place, &agents, steps)?;
                fs::write(then, "").with_context(|| then.display().to_string())?;
            }
        }
        Ok(())
    }

    /// Returns the command of a job, with its streams, and their other sides.
    fn command(&self, job: &Job, groups: &[PathBuf]) -> Result<(Command, Others)> {
        let mut command = Command::new(self.place.program("hinder"));
        let input = job.input.open(&job.folder)?;
        let mut output = job.output.open(&job.folder, "output")?;
        let mut errors = job.errors.open(&job.folder, "errors")?;
        if job.errors == Output::Same {
            errors.inner = output.inner.as_ref().map(OwnedFd::try_clone).transpose()?;
        }
        for group in groups {
            command.arg("--group").arg(group);
        }
        command.args(&job.conditions);
        for (number, stream) in [(0, &input), (1, &output), (2, &errors)] {
            if stream.inner.is_none() {
                command.args(["--close", &number.to_string()]);
            }
        }
        command.args(&job.command).current_dir(job.folder.work());
        command.env("TMPDIR", job.folder.temporary()).env_remove("RUST_BACKTRACE");
        let variables: Vec<(&OsString, &OsString)> =
            job.variables.iter().map(|(name, value)| (name, value)).collect();
        command.envs(variables).env(MARK, job.folder.path());
        let others = Others {
            files: [&mut output, &mut errors].map(|o| o.read.take_if(|file| is_plain(file))),
            read: [&mut output, &mut errors]
                .map(|o| o.read.take().map(|file| std::thread::spawn(move || kept(file)))),
            held: [input.held, output.held.take(), errors.held.take()]
                .into_iter()
                .flatten()
                .collect(),
        };
        let stdio = |opened: Option<OwnedFd>| opened.map_or_else(Stdio::null, Stdio::from);
        let Opened { inner, .. } = input;
        command.stdin(stdio(inner)).stdout(stdio(output.inner)).stderr(stdio(errors.inner));
        Ok((command, others))
    }

    /// Makes a group of at most so many processes.
    fn group(&self, most: u64) -> Result<PathBuf> {
        let base = self.place.groups().context("no groups of processes here")?;
        let group = base.join(format!("clump-attack-{}", std::process::id()));
        // Removes a group that an attack could not remove.
        let _ = fs::remove_dir(&group);
        fs::create_dir(&group).with_context(|| group.display().to_string())?;
        fs::write(group.join("pids.max"), most.to_string()).context("limiting a group")?;
        Ok(group)
    }

    /// Makes a group of at most so much memory, swap included where that is limited by itself.
    fn memory_group(&self, mib: u64) -> Result<PathBuf> {
        let base = self.place.memory_groups().context("no groups with a limit of memory here")?;
        let group = base.join(format!("clump-attack-memory-{}", std::process::id()));
        let _ = fs::remove_dir(&group);
        fs::create_dir(&group).with_context(|| group.display().to_string())?;
        let limits = ["memory.max", "memory.limit_in_bytes"];
        let limited = limits.iter().any(|name| {
            let file = group.join(name);
            file.is_file() && fs::write(file, (mib << 20).to_string()).is_ok()
        });
        let _ = fs::write(group.join("memory.swap.max"), "0");
        if limited { Ok(group) } else { bail!("no limit of memory in {}", group.display()) }
    }

    fn processes(&self, job: &Job, spared: u32) -> Vec<Process> {
        let mut found = remains::processes(&job.folder);
        if self.adopts {
            let orphans = remains::orphans(spared);
            found.extend(orphans.into_iter().filter(|o| o.pid != spared));
            found.sort_by_key(|process| process.pid);
            found.dedup_by_key(|process| process.pid);
        }
        found
    }

    /// Waits until no process of the job is left; kills those that stay, and returns them.
    fn clear(&self, job: &Job, spared: u32) -> Vec<Process> {
        let start = clock::instant();
        let mut left = self.processes(job, spared);
        while !left.is_empty() && start.elapsed() < self.deadlines.remains {
            pause();
            left = self.processes(job, spared);
        }
        self.kill(job, left.clone(), spared);
        left
    }

    /// Kills processes of the job, until none is left.
    fn kill(&self, job: &Job, mut doomed: Vec<Process>, spared: u32) {
        while !doomed.is_empty() {
            doomed.iter().for_each(Process::kill);
            pause();
            doomed = self.processes(job, spared);
        }
    }
}

/// Waits a moment between two checks of a job.
pub(super) fn pause() {
    clock::pass(Duration::from_millis(20));
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| -status.signal().unwrap_or(0))
}

fn is_plain(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.is_file())
}

/// Returns all output as text, up to a bound.
fn kept(mut stream: File) -> String {
    let (mut all, mut part) = (Vec::new(), vec![0; 64 << 10]);
    // A terminal whose last user has gone ends in an error.
    while let Ok(bytes @ 1..) = stream.read(&mut part) {
        let room = MAX_KEPT.saturating_sub(all.len());
        all.extend_from_slice(&part[..bytes.min(room)]);
    }
    String::from_utf8_lossy(&all).into_owned()
}
