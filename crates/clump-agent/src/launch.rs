//! The launcher: starts the agent, shows what ranks write, passes the user's signals on, and explains
//! the end. If the agent dies, it clears up in its place.

use crate::display::Display;
use crate::frame::{Assembler, Frame, Stream};
use crate::outcome::{Ending, JobOutcome};
use crate::print::Printer;
use crate::report;
use crate::spec::JobSpec;
use crate::sweep;
use clump_boot::boot::{BOOT_VARIABLE, NRANKS_VARIABLE, RANK_VARIABLE};
use clump_os::epoll::{Interest, Poller};
use clump_os::process::{self, Change, Child, Exit, News, Program};
use clump_os::signal::{self, Signals};
use clump_os::{clock, procfs, socket};
use std::ffi::OsString;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The hidden subcommand with which the launcher starts itself as the agent.
pub const AGENT_COMMAND: &str = "agent";

const AGENT: u64 = 0;
const END: u64 = 1;
const SIGNALS: u64 = 2;
const OUTPUT: u64 = 3;
const ERRORS: u64 = 4;

/// How long the agent has to end a job before the launcher does it: the agent itself needs 300 ms.
const PATIENCE_NS: u64 = 700_000_000;
/// The same after the user has asked twice.
const NO_PATIENCE_NS: u64 = 300_000_000;
/// How long the launcher tries to kill what is left.
const SWEEP_NS: u64 = 2_000_000_000;

/// Exit code when clump itself failed, as docker and env(1) have it.
const OWN_FAILURE: u8 = 125;
/// Exit code when nobody reads the output any more: 128 + SIGPIPE.
const UNREAD: u8 = 141;

/// Runs a job to its end, showing what `display` asks for, and gives what became of it.
///
/// The program that calls this must hand `agent --control N` on its own command line to
/// [`crate::agent_main`], since the agent is the same program. This process adopts orphans from now on,
/// and everything that it starts elsewhere while the job runs is taken for a part of the job.
///
/// # Errors
/// When the agent cannot be started or the output folder cannot be written. What happens to the job
/// after that is no error but an outcome.
pub fn launch(spec: &JobSpec, display: &Display) -> anyhow::Result<JobOutcome> {
    let mut launcher = Launcher::start(spec, display)?;
    let mut outcome = launcher.run()?;
    launcher.conclude(&mut outcome, spec, display)?;
    Ok(outcome)
}

struct Launcher {
    agent: Child,
    agent_ended: bool,
    connection: UnixStream,
    /// Whether the connection has come to its end, and whether the poller watches it.
    heard_all: bool,
    watched: bool,
    poller: Poller,
    signals: Signals,
    assembler: Assembler,
    printer: Printer,
    spared: Vec<u32>,
    ranks: u32,
    outcome: Option<JobOutcome>,
    /// First signal of the user, how often the user asked, and when the launcher loses patience.
    asked: Option<u8>,
    times: u32,
    deadline_ns: Option<u64>,
    unread: bool,
}

impl Launcher {
    fn start(spec: &JobSpec, display: &Display) -> anyhow::Result<Self> {
        let printer = Printer::new(display, spec.ranks, [OUTPUT, ERRORS])?;
        // What nohup or a shell had this process ignore stays ignored.
        let mut ends = vec![signal::INTERRUPT, signal::TERMINATE, signal::HANGUP];
        ends.retain(|&signal| !signal::is_ignored(signal));
        let signals = Signals::block(&ends)?;
        process::adopt_orphans()?;
        let spared = procfs::descendants(process::own_pid()).iter().map(|p| p.pid).collect();
        let (agent, mut connection) = start_agent()?;
        let mut bytes = Vec::new();
        Frame::Start(Box::new(spec.clone())).append_to(&mut bytes);
        // An agent that has died already is noticed by its pidfd.
        let _ = connection.write_all(&bytes);
        connection.set_nonblocking(true)?;
        let poller = Poller::new()?;
        poller.add(&agent.pidfd, END, Interest::Read)?;
        poller.add(&signals, SIGNALS, Interest::Read)?;
        Ok(Self {
            agent,
            agent_ended: false,
            connection,
            heard_all: false,
            watched: false,
            poller,
            signals,
            assembler: Assembler::default(),
            printer,
            spared,
            ranks: spec.ranks,
            outcome: None,
            asked: None,
            times: 0,
            deadline_ns: None,
            unread: false,
        })
    }

    fn run(&mut self) -> anyhow::Result<JobOutcome> {
        // What the agent said before it ended is still in the socket.
        while !(self.agent_ended && self.heard_all) {
            if self.deadline_ns.is_some_and(|at| at <= clock::now_ns()) {
                return self.take_over();
            }
            self.turn()?;
        }
        let how = self.reap_agent();
        Ok(match self.outcome.take() {
            Some(outcome) => outcome,
            None => self.agent_lost(how),
        })
    }

    /// One turn of the event loop.
    fn turn(&mut self) -> anyhow::Result<()> {
        // Listens only while there is room for what the agent says; until then the agent keeps what it
        // has, and ranks that write too much wait in `write`.
        let listen = !self.heard_all && !self.printer.is_full();
        if listen != self.watched {
            match listen {
                true => self.poller.add(&self.connection, AGENT, Interest::Read)?,
                false => self.poller.remove(&self.connection)?,
            }
            self.watched = listen;
        }
        let left = self.deadline_ns.map(|at| at.saturating_sub(clock::now_ns()));
        for ready in self.poller.wait(left.map(Duration::from_nanos))? {
            match ready.token {
                AGENT => self.hear_agent()?,
                END => {
                    self.agent_ended = true;
                    self.poller.remove(&self.agent.pidfd)?;
                }
                SIGNALS => self.hear_user(),
                OUTPUT => self.printer.on_writable(&self.poller, Stream::Output),
                _ => self.printer.on_writable(&self.poller, Stream::Errors),
            }
        }
        if self.printer.is_unread() && !self.unread {
            self.unread = true;
            self.end_job(signal::TERMINATE);
        }
        if self.times > 0 && self.agent_ended && self.printer.is_full() {
            self.printer.give_up(&self.poller);
        }
        Ok(())
    }

    fn hear_agent(&mut self) -> anyhow::Result<()> {
        let mut piece = vec![0; 64 << 10];
        match self.connection.read(&mut piece) {
            Ok(0) => self.heard_all = true,
            Ok(bytes) => self.assembler.handle_bytes(&piece[..bytes]),
            Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Err(_) => self.heard_all = true,
        }
        while let Some(frame) = self.assembler.poll_frame()? {
            match frame {
                Frame::Wrote(rank, stream, bytes) => {
                    self.printer.on_wrote(&self.poller, rank, stream, &bytes);
                }
                Frame::Notice(text) => {
                    self.printer.say(&self.poller, Stream::Errors, &format!("clump: {text}\n"));
                }
                Frame::Finished(outcome) => self.outcome = Some(*outcome),
                Frame::Start(_) | Frame::Interrupt(_) | Frame::Kill => {}
            }
        }
        Ok(())
    }

    fn hear_user(&mut self) {
        while let Some(signal) = self.signals.next() {
            self.asked.get_or_insert(signal);
            self.end_job(signal);
        }
    }

    /// Asks the agent to end the job; the second time, to end it now.
    fn end_job(&mut self, signal: u8) {
        self.times += 1;
        let (frame, patience) = match self.times {
            1 => (Frame::Interrupt(signal), PATIENCE_NS),
            _ => (Frame::Kill, NO_PATIENCE_NS),
        };
        let mut bytes = Vec::new();
        frame.append_to(&mut bytes);
        // An agent that does not listen runs into the deadline.
        let _ = self.connection.write_all(&bytes);
        let deadline = clock::now_ns() + patience;
        self.deadline_ns = Some(self.deadline_ns.map_or(deadline, |at| at.min(deadline)));
    }

    /// The agent did not end the job in time: does it in its place.
    fn take_over(&mut self) -> anyhow::Result<JobOutcome> {
        let _ = process::signal_by_fd(&self.agent.pidfd, signal::KILL);
        let (killed, left) = sweep::sweep(&self.spared, SWEEP_NS);
        if std::mem::take(&mut self.watched) {
            self.poller.remove(&self.connection)?;
        }
        (self.heard_all, self.agent_ended, self.deadline_ns) = (true, true, None);
        self.printer.give_up(&self.poller);
        let signal = self.asked.unwrap_or(signal::TERMINATE);
        let killed = u32::try_from(killed.len()).unwrap_or(u32::MAX);
        let ending = Ending::Interrupted { signal, doing: Vec::new(), killed };
        let mut outcome = JobOutcome::without_ranks(128_u8.saturating_add(signal), ending);
        outcome.survivors = left.iter().map(sweep::describe).collect();
        Ok(outcome)
    }

    fn reap_agent(&self) -> String {
        while let Ok(News::Of(pid, change)) = process::changed() {
            if pid == self.agent.pid {
                match change {
                    Change::Ended(Exit::Code(code)) => return format!("exited with code {code}"),
                    Change::Ended(Exit::Signal(n)) => {
                        return format!("was killed by signal {n} {}", signal::name(n))
                            .trim_end()
                            .into();
                    }
                    Change::Stopped | Change::Continued => {}
                }
            }
        }
        "ended".into()
    }

    /// The agent died before it could say how the job ended: clears up in its place.
    fn agent_lost(&mut self, how: String) -> JobOutcome {
        let (killed, left) = sweep::sweep(&self.spared, SWEEP_NS);
        let killed = u32::try_from(killed.len()).unwrap_or(u32::MAX);
        let ending = Ending::AgentLost { pid: self.agent.pid, how, ranks: self.ranks, killed };
        let mut outcome = JobOutcome::without_ranks(OWN_FAILURE, ending);
        outcome.survivors = left.iter().map(sweep::describe).collect();
        outcome
    }

    /// Shows what is left to show, and corrects the outcome by what only the launcher knows.
    fn conclude(
        &mut self,
        outcome: &mut JobOutcome,
        spec: &JobSpec,
        display: &Display,
    ) -> anyhow::Result<()> {
        if self.unread && self.asked.is_none() {
            (outcome.code, outcome.ending) = (UNREAD, Ending::Unread);
        }
        self.printer.finish(&self.poller);
        if let Some(why) = self.printer.failure().map(str::to_owned) {
            self.printer.say(&self.poller, Stream::Errors, &format!("clump: {why}\n"));
            outcome.code = if outcome.code == 0 { OWN_FAILURE } else { outcome.code };
        }
        let said = display.brief && outcome.explains_itself();
        if let Some(text) = report::explain(&spec.program_name(), outcome).filter(|_| !said) {
            self.printer.say(&self.poller, Stream::Errors, &text);
        }
        if display.stats {
            let text = match &outcome.summary {
                Some(summary) => summary.to_string(),
                None => {
                    "clump: no rank joined the job, so there is no communication to sum up\n".into()
                }
            };
            self.printer.say(&self.poller, Stream::Errors, &text);
        }
        if display.json {
            let text = serde_json::to_string(outcome)?;
            self.printer.say(&self.poller, Stream::Output, &format!("{text}\n"));
        }
        // Whoever asked to leave does not wait for somebody who does not read.
        let asked = self.times;
        self.deadline_ns = (asked > 0).then(|| clock::now_ns() + NO_PATIENCE_NS);
        while !self.printer.is_empty() {
            let late = self.deadline_ns.is_some_and(|at| at <= clock::now_ns());
            if late || self.times > asked {
                self.printer.give_up(&self.poller);
                break;
            }
            self.turn()?;
        }
        Ok(())
    }
}

/// Starts this program again, as the agent.
fn start_agent() -> anyhow::Result<(Child, UnixStream)> {
    let (ours, theirs) = socket::stream_pair()?;
    let number = theirs.as_raw_fd().to_string();
    let own = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    let mut program = Program::new(own, [AGENT_COMMAND, "--control", &number].map(OsString::from));
    // This process may itself be a rank of another job.
    program.without = [BOOT_VARIABLE, RANK_VARIABLE, NRANKS_VARIABLE].map(OsString::from).into();
    program.passes = Some(theirs);
    let agent = process::start(&program)?;
    Ok((agent, UnixStream::from(ours)))
}
