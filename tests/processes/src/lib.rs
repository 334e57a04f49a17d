//! Starts whole jobs, as a user does, and checks their ends.
//!
//! Top layer: runs the `clump` program of this build (`clump-under-test`) on the programs of this
//! package (`prog`), and searches `/proc` for processes that a job left behind.
//!
//! Types to know: [`Job`] (a job to start), [`Running`] (a started job), [`Finished`] (its
//! output).
//!
//! # Invariants
//! 1. Every job carries a mark of its own in its environment, by which all of its processes are
//!    found.
//! 2. Nothing here sleeps for a time: [`until`] waits for a condition, far longer than that should
//!    take.

#![forbid(unsafe_code)]
#![allow(clippy::expect_used, clippy::panic, reason = "what fails here fails a test")]

pub mod attack;
pub mod c_programs;
pub mod cables;
pub mod checkers;
pub mod far;
pub mod hung;
pub mod lock_storm;
pub mod memory_group;
pub mod open_mpi_wheel;
pub mod proxy_starts;
pub mod schemas;
pub mod slurm;
pub mod sshd_machines;
pub mod stall;
pub mod start_storm;
pub mod storm;
pub mod stroke;
pub mod update_storm;

use clump_os::procfs::{self, Process};
use clump_os::{clock, process, signal};
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// The variable that marks the processes of a job.
pub const MARK: &str = "CLUSTER_TEST_MARK";
/// Longest time that anything may take: ten times that of the slowest.
pub const TIME_LIMIT: Duration = Duration::from_secs(100);

/// Returns the path of a program of this package.
pub fn program(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("the path of this program");
    // Tests lie one folder below the programs.
    let mut folders = own.ancestors().skip(1).take(2);
    let found = folders.find(|folder| folder.join(name).is_file());
    found.unwrap_or_else(|| panic!("`{name}` is not built beside {}", own.display())).join(name)
}

/// Waits until `condition` returns a value.
///
/// # Panics
/// Panics if that takes longer than [`TIME_LIMIT`]; `what` names the condition.
pub fn until<T>(what: &str, condition: impl FnMut() -> Option<T>) -> T {
    within_limit(condition).unwrap_or_else(|| panic!("waited {TIME_LIMIT:?} for {what}"))
}

/// Waits until `condition` returns a value, but not longer than [`TIME_LIMIT`].
fn within_limit<T>(mut condition: impl FnMut() -> Option<T>) -> Option<T> {
    let start = clock::instant();
    while start.elapsed() < TIME_LIMIT {
        let value = condition();
        if value.is_some() {
            return value;
        }
        clock::pass(Duration::from_millis(1));
    }
    None
}

/// A job to start.
#[derive(Debug)]
pub struct Job {
    command: Command,
    mark: String,
}

impl Job {
    /// Creates `clump run` with `options` of `prog` with `args` (each words separated by spaces).
    pub fn of(options: &str, args: &str) -> Self {
        Self::of_program(options, program("prog"), args.split_whitespace().map(OsString::from))
    }

    /// Creates `clump run` with `options` of any program.
    pub fn of_program(
        options: &str,
        program: impl Into<OsString>,
        args: impl IntoIterator<Item = OsString>,
    ) -> Self {
        let mut job = Self::command(&format!("run {options}"));
        job.command.arg(program.into()).args(args);
        job
    }

    /// Creates any command of `clump`.
    pub fn command(words: &str) -> Self {
        let words: Vec<&str> = words.split_whitespace().collect();
        Self::any(program("clump-under-test")).with_args(&words)
    }

    /// Creates a command of any program, marked and watched like a job.
    pub fn any(program: impl Into<OsString>) -> Self {
        // Shells let background processes ignore some signals, nohup another: then these would not
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

    /// Adds these arguments.
    pub fn with_args(self, args: &[&str]) -> Self {
        self.with(|command| {
            command.args(args);
        })
    }

    /// Changes the command line.
    pub fn with(mut self, change: impl FnOnce(&mut Command)) -> Self {
        change(&mut self.command);
        self
    }

    /// Starts it.
    pub fn start(mut self) -> Running {
        let mut launcher = self.command.spawn().expect("starting clump");
        let (out, err) = (launcher.stdout.take(), launcher.stderr.take());
        let out = Output::gather(out.map(|s| Box::new(s) as Box<dyn Read + Send>));
        let err = Output::gather(err.map(|s| Box::new(s) as Box<dyn Read + Send>));
        Running { launcher, mark: self.mark, out, err }
    }

    /// Starts it and waits for its end.
    pub fn finish(self) -> Finished {
        self.start().finish()
    }
}

/// Bytes that a job has written to one of its streams, read by a thread.
#[derive(Debug)]
struct Output {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Output {
    /// Starts to read `stream` to its end.
    fn gather(stream: Option<Box<dyn Read + Send>>) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let gathered = Arc::clone(&bytes);
        let reader = std::thread::spawn(move || {
            let Some(mut stream) = stream else { return };
            let mut piece = [0; 4096];
            while let Ok(length @ 1..) = stream.read(&mut piece) {
                gathered.lock().expect("bytes of a stream").extend_from_slice(&piece[..length]);
            }
        });
        Self { bytes, reader: Some(reader) }
    }

    /// Returns what has been read so far.
    fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().expect("bytes of a stream")).into_owned()
    }

    /// Returns all of it, once the stream has ended.
    fn all(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            reader.join().expect("reading what the job wrote");
        }
        self.so_far()
    }
}

/// A started job.
#[derive(Debug)]
pub struct Running {
    launcher: Child,
    mark: String,
    out: Output,
    err: Output,
}

impl Running {
    /// Returns all living processes of the job.
    pub fn processes(&self) -> Vec<Process> {
        procfs::with_variable(MARK, &self.mark)
    }

    /// Returns the process of the launcher.
    pub fn launcher(&self) -> u32 {
        self.launcher.id()
    }

    /// Returns the process of the only agent, once it exists.
    pub fn agent(&self) -> u32 {
        self.agents(1)[0]
    }

    /// Returns the processes of the agents of so many nodes, in order, once they exist.
    pub fn agents(&self, nodes: usize) -> Vec<u32> {
        until("the agents", || {
            let agents = self.agents_now();
            (agents.len() >= nodes).then_some(agents)
        })
    }

    /// Returns the current agents. The launcher starts them one after the other.
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

    /// Returns the process of `rank`, once it exists.
    pub fn rank(&self, rank: u32) -> u32 {
        until("a rank", || self.ranks().into_iter().find(|(r, _)| *r == rank).map(|(_, pid)| pid))
    }

    /// Returns the ranks whose programs run, and their processes, without processes that ranks
    /// start.
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

    /// Returns what it has written to its standard output so far.
    pub fn so_far(&self) -> String {
        self.out.so_far()
    }

    /// Returns what it has written to its error stream so far.
    pub fn errors_so_far(&self) -> String {
        self.err.so_far()
    }

    /// Waits for the end of the launcher, and checks that no process of the job is left.
    pub fn finish(mut self) -> Finished {
        let start = clock::instant();
        let ended = within_limit(|| self.launcher.try_wait().expect("waiting"));
        let status = ended.unwrap_or_else(|| {
            panic!("waited {TIME_LIMIT:?} for the launcher to end\n{}", self.describe())
        });
        let took = start.elapsed();
        let code = std::os::unix::process::ExitStatusExt::signal(&status)
            .map_or_else(|| status.code().unwrap_or(-1), |signal| -signal);
        let mark = self.mark.clone();
        until("every process of the job to be gone", || {
            procfs::with_variable(MARK, &mark).is_empty().then_some(())
        });
        let gone = start.elapsed();
        let (out, err) = (self.out.all(), self.err.all());
        Finished { code, out, err, took, gone }
    }

    /// Returns its processes, the waits of their threads, and all it has written so far.
    pub fn describe(&self) -> String {
        format!(
            "{}output:\n{}errors:\n{}",
            hung::threads(&self.processes()),
            self.out.so_far(),
            self.err.so_far()
        )
    }
}

impl Drop for Running {
    /// Kills the job, so that a failed test leaves none behind.
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
    /// Its standard output.
    pub out: String,
    /// Its error stream.
    pub err: String,
    /// Time that the launcher was waited for.
    pub took: Duration,
    /// Time until the last process was gone.
    pub gone: Duration,
}

impl Finished {
    /// Returns the lines of clump's report: from the last line that begins with `clump:` on.
    pub fn report(&self) -> Vec<&str> {
        let lines: Vec<&str> = self.err.lines().collect();
        let start = lines.iter().rposition(|line| line.starts_with("clump:"));
        start.map_or(Vec::new(), |at| lines[at..].to_vec())
    }

    /// Checks exit code and report: every one of `parts` is in it, and it is short.
    ///
    /// # Panics
    /// Panics if they are not as expected.
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

    /// Checks that the report shows rank 0 as computing: alone, or with others that had not
    /// reached their wait for it when they were asked.
    ///
    /// # Panics
    /// Panics if it does not.
    #[track_caller]
    pub fn expect_rank_0_computing(&self) -> &Self {
        let mut computing = self.err.lines().filter(|line| line.contains(": computing"));
        let named = computing.any(|line| line.contains("rank 0:") || line.contains("ranks 0, "));
        assert!(named, "rank 0 is not said to compute:\n{}", self.err);
        self
    }

    /// Checks that all went well and clump printed nothing.
    ///
    /// # Panics
    /// Panics if it did not.
    #[track_caller]
    pub fn expect_clean(&self) -> &Self {
        assert_eq!(self.code, 0, "exit code; said:\n{}\n{}", self.out, self.err);
        assert!(self.report().is_empty(), "a report after a clean end:\n{}", self.err);
        self
    }

    /// Returns the JSON object in the last line of the output.
    ///
    /// # Panics
    /// Panics if there is none.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        let last = self.out.lines().last().unwrap_or_default();
        serde_json::from_str(last)
            .unwrap_or_else(|e| panic!("{e} in the last line of\n{}", self.out))
    }

    /// Returns the driver of the network in that object: one driver, or those of the nodes.
    ///
    /// # Panics
    /// Panics if there is none.
    #[track_caller]
    pub fn driver(&self) -> String {
        self.json()["config"]["net_driver"].as_str().expect("a driver").to_owned()
    }
}

/// A folder of one test, removed when dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Creates a new, empty folder that only this user can access.
    pub fn new() -> Self {
        Self::inside(&std::env::temp_dir())
    }

    /// Creates a new, empty folder in `parent` that only this user can access.
    pub fn inside(parent: &std::path::Path) -> Self {
        let name = format!("clump-cluster-{:016x}", process::random().expect("random bits"));
        let path = parent.join(name);
        let mut builder = std::fs::DirBuilder::new();
        builder.mode(0o700).create(&path).expect("creating a temporary folder");
        Self(path)
    }

    /// Returns its path.
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
    /// The signal of abort().
    pub const ABORT: u8 = 6;
    /// The signal of Ctrl-\\.
    pub const QUIT: u8 = 3;
    /// Stops a process.
    pub const STOP: u8 = 19;
    /// The signal of Ctrl-Z.
    pub const TERMINAL_STOP: u8 = 20;
    /// A signal whose meaning is the program's.
    pub const USER_1: u8 = 10;
}
