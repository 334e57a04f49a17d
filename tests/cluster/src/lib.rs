//! Starts whole jobs, as a user does, and looks at what becomes of them.
//!
//! Top of everything: runs the `clump` program of this build (`clump-under-test`) on the programs of
//! this package (`prog`), and looks for what a job left behind in `/proc`.
//!
//! Types to know: [`Job`] (what to start), [`Running`] (a started job), [`Finished`] (what it said).
//!
//! # Invariants
//! 1. Every job carries a mark of its own in its environment, by which all of its processes are found.
//! 2. Nothing here sleeps for a time: [`until`] waits for a condition, far longer than that should take.

#![forbid(unsafe_code)]
#![allow(clippy::expect_used, clippy::panic, reason = "what fails here fails a test")]

pub mod c_programs;
pub mod cables;
pub mod lock_storm;
pub mod stall;
pub mod storm;

use clump_os::procfs::{self, Process};
use clump_os::{clock, process, signal};
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

/// The variable that marks the processes of a job.
pub const MARK: &str = "CLUSTER_TEST_MARK";
/// How long anything may take: ten times what the slowest should.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The path of a program of this package.
pub fn program(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("the path of this program");
    // Tests lie one folder below the programs.
    let mut folders = own.ancestors().skip(1).take(2);
    let found = folders.find(|folder| folder.join(name).is_file());
    found.unwrap_or_else(|| panic!("`{name}` is not built beside {}", own.display())).join(name)
}

/// Waits until `condition` gives a value.
///
/// # Panics
/// When that takes longer than [`PATIENCE`]; `what` says what was waited for.
pub fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let start = clock::instant();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(start.elapsed() < PATIENCE, "waited {PATIENCE:?} for {what}");
        clock::pass(Duration::from_millis(1));
    }
}

/// A job to start.
#[derive(Debug)]
pub struct Job {
    command: Command,
    mark: String,
}

impl Job {
    /// `clump run` with `options` (words separated by spaces) of `prog` with `args` (the same).
    pub fn of(options: &str, args: &str) -> Self {
        Self::of_program(options, program("prog"), args.split_whitespace().map(OsString::from))
    }

    /// The same with any program.
    pub fn of_program(
        options: &str,
        program: impl Into<OsString>,
        args: impl IntoIterator<Item = OsString>,
    ) -> Self {
        let mut job = Self::command(&format!("run {options}"));
        job.command.arg(program.into()).args(args);
        job
    }

    /// Any command of `clump`.
    pub fn command(words: &str) -> Self {
        let words: Vec<&str> = words.split_whitespace().collect();
        Self::any(program("clump-under-test")).with_args(&words)
    }

    /// Any program, marked and watched like a job.
    pub fn any(program: impl Into<OsString>) -> Self {
        // Shells let what they start in the background ignore some, nohup another: then nothing would
        // end by them.
        for signal in [signals::HANGUP, signals::INTERRUPT, signals::QUIT] {
            signal::restore_default(signal).expect("restoring a signal");
        }
        let mark = format!("{:016x}", process::random().expect("random bits"));
        let mut command = Command::new(program.into());
        command.env(MARK, &mark);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { command, mark }
    }

    /// The same with these arguments added.
    pub fn with_args(self, args: &[&str]) -> Self {
        self.with(|command| {
            command.args(args);
        })
    }

    /// The command line, to add to.
    pub fn with(mut self, change: impl FnOnce(&mut Command)) -> Self {
        change(&mut self.command);
        self
    }

    /// Starts it.
    pub fn start(mut self) -> Running {
        let mut launcher = self.command.spawn().expect("starting clump");
        let (out, err) = (launcher.stdout.take(), launcher.stderr.take());
        let gather = |stream: Option<Box<dyn Read + Send>>| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                if let Some(mut stream) = stream {
                    let _ = stream.read_to_end(&mut bytes);
                }
                String::from_utf8_lossy(&bytes).into_owned()
            })
        };
        let out = gather(out.map(|s| Box::new(s) as Box<dyn Read + Send>));
        let err = gather(err.map(|s| Box::new(s) as Box<dyn Read + Send>));
        Running { launcher, mark: self.mark, out: Some(out), err: Some(err) }
    }

    /// Starts it and waits for its end.
    pub fn finish(self) -> Finished {
        self.start().finish()
    }
}

/// A started job.
#[derive(Debug)]
pub struct Running {
    launcher: Child,
    mark: String,
    out: Option<JoinHandle<String>>,
    err: Option<JoinHandle<String>>,
}

impl Running {
    /// All living processes of the job.
    pub fn processes(&self) -> Vec<Process> {
        procfs::with_variable(MARK, &self.mark)
    }

    /// The process of the launcher.
    pub fn launcher(&self) -> u32 {
        self.launcher.id()
    }

    /// The process of the only agent, once it is there.
    pub fn agent(&self) -> u32 {
        self.agents(1)[0]
    }

    /// The processes of the agents of so many nodes, in order, once they are there.
    pub fn agents(&self, nodes: usize) -> Vec<u32> {
        until("the agents", || {
            let agents = self.agents_now();
            (agents.len() >= nodes).then_some(agents)
        })
    }

    /// The agents that there are now. The launcher starts them one after the other.
    fn agents_now(&self) -> Vec<u32> {
        let launcher = self.launcher();
        let is_agent = |p: &Process| {
            let line = procfs::command_line(p.pid);
            p.parent == launcher && line.to_string_lossy().contains(" agent --control ")
        };
        let mut agents: Vec<Process> = self.processes().into_iter().filter(is_agent).collect();
        agents.sort_by_key(|p| (p.started, p.pid));
        agents.into_iter().map(|p| p.pid).collect()
    }

    /// The process of `rank`, once it is there.
    pub fn rank(&self, rank: u32) -> u32 {
        until("a rank", || self.ranks().into_iter().find(|(r, _)| *r == rank).map(|(_, pid)| pid))
    }

    /// The ranks whose programs run, and their processes. What ranks themselves start is left out.
    pub fn ranks(&self) -> Vec<(u32, u32)> {
        let agents = self.agents_now();
        let rank_of = |p: &Process| {
            let found = procfs::variable(p.pid, "CLUMP_RANK")?;
            found.to_str()?.parse().ok().map(|rank| (rank, p.pid))
        };
        let children = self.processes().into_iter().filter(|p| agents.contains(&p.parent));
        children.filter_map(|p| rank_of(&p)).collect()
    }

    /// Waits until `count` processes of the job run a program called `name`.
    pub fn await_named(&self, name: &str, count: usize) {
        until(&format!("{count} processes called {name}"), || {
            (self.processes().iter().filter(|p| p.name == name).count() >= count).then_some(())
        });
    }

    /// Waits until all of `ranks` have created the file `folder/ready-RANK`.
    pub fn await_ready(&self, folder: &std::path::Path, ranks: std::ops::Range<u32>) {
        until("the ranks to be ready", || {
            ranks.clone().all(|r| folder.join(format!("ready-{r}")).exists()).then_some(())
        });
    }

    /// Sends a signal to one of its processes.
    pub fn signal(&self, pid: u32, number: u8) {
        process::signal(pid, number).expect("sending a signal");
    }

    /// Waits for the end of the launcher, and checks that no process of the job is left.
    pub fn finish(mut self) -> Finished {
        let start = clock::instant();
        let status = until("the launcher to end", || self.launcher.try_wait().expect("waiting"));
        let took = start.elapsed();
        let code = std::os::unix::process::ExitStatusExt::signal(&status)
            .map_or_else(|| status.code().unwrap_or(-1), |signal| -signal);
        let mark = self.mark.clone();
        until("every process of the job to be gone", || {
            procfs::with_variable(MARK, &mark).is_empty().then_some(())
        });
        let gone = start.elapsed();
        let read = |stream: Option<JoinHandle<String>>| {
            stream.map(|s| s.join().expect("reading what the job wrote")).unwrap_or_default()
        };
        let (out, err) = (read(self.out.take()), read(self.err.take()));
        Finished { code, out, err, took, gone }
    }
}

impl Drop for Running {
    /// A test that fails leaves no job behind either.
    fn drop(&mut self) {
        if matches!(self.launcher.try_wait(), Ok(None)) {
            let _ = process::signal(self.launcher.id(), signal::TERMINATE);
            let _ = self.launcher.wait();
        }
    }
}

/// A job that has ended, with nothing left of it.
#[derive(Debug)]
pub struct Finished {
    /// The exit code; negative for a signal.
    pub code: i32,
    /// What it wrote.
    pub out: String,
    /// What it wrote to its error stream.
    pub err: String,
    /// How long the launcher was waited for.
    pub took: Duration,
    /// The same until the last process was gone.
    pub gone: Duration,
}

impl Finished {
    /// The lines of clump's report: from the last line that begins with `clump:` on.
    pub fn report(&self) -> Vec<&str> {
        let lines: Vec<&str> = self.err.lines().collect();
        let start = lines.iter().rposition(|line| line.starts_with("clump:"));
        start.map_or(Vec::new(), |at| lines[at..].to_vec())
    }

    /// Checks exit code and report: every one of `parts` is in it, and it is short.
    ///
    /// # Panics
    /// When they are not as expected.
    #[track_caller]
    pub fn expect(&self, code: i32, parts: &[&str]) -> &Self {
        let report = self.report();
        let text = report.join("\n");
        assert_eq!(self.code, code, "exit code; said:\n{}\n{}", self.out, self.err);
        for part in parts {
            assert!(text.contains(part), "`{part}` is not in the report:\n{}", self.err);
        }
        assert!(report.len() <= 15, "a report of {} lines:\n{text}", report.len());
        assert!(parts.is_empty() || !report.is_empty(), "no report:\n{}", self.err);
        self
    }

    /// Checks that the report says of rank 0 that it computed: alone, or with others that had not come to where they
    /// wait for it when they were asked.
    ///
    /// # Panics
    /// When it does not.
    #[track_caller]
    pub fn expect_rank_0_computing(&self) -> &Self {
        let mut computing = self.err.lines().filter(|line| line.contains(": computing"));
        let named = computing.any(|line| line.contains("rank 0:") || line.contains("ranks 0, "));
        assert!(named, "rank 0 is not said to compute:\n{}", self.err);
        self
    }

    /// Checks that all went well and clump had nothing to say.
    ///
    /// # Panics
    /// When it did not.
    #[track_caller]
    pub fn expect_clean(&self) -> &Self {
        assert_eq!(self.code, 0, "exit code; said:\n{}\n{}", self.out, self.err);
        assert!(self.report().is_empty(), "a report after a clean end:\n{}", self.err);
        self
    }

    /// The JSON object in the last line of the output.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        let last = self.out.lines().last().unwrap_or_default();
        serde_json::from_str(last)
            .unwrap_or_else(|e| panic!("{e} in the last line of\n{}", self.out))
    }

    /// What that object says drove the network: one driver, or those of the nodes.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn driver(&self) -> String {
        self.json()["config"]["net_driver"].as_str().expect("a driver").to_owned()
    }
}

/// A folder of one test, removed when dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// A new, empty folder that nobody else may look into.
    pub fn new() -> Self {
        let name = format!("clump-cluster-{:016x}", process::random().expect("random bits"));
        let path = std::env::temp_dir().join(name);
        let mut builder = std::fs::DirBuilder::new();
        builder.mode(0o700).create(&path).expect("creating a temporary folder");
        Self(path)
    }

    /// Where it is.
    pub fn path(&self) -> &std::path::Path {
        &self.0
    }
}

impl Default for Folder {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The signals that tests send.
pub mod signals {
    pub use super::signal::{CONTINUE, HANGUP, INTERRUPT, KILL, TERMINATE};
    /// What abort() sends.
    pub const ABORT: u8 = 6;
    /// Ctrl-\\.
    pub const QUIT: u8 = 3;
    /// Stops a process.
    pub const STOP: u8 = 19;
}
