//! The agent: one event loop over the ends of its ranks, what they write, and the launcher.

mod ledger;
mod opening;

use crate::frame::{Assembler, Frame, Stream};
use crate::outcome::Doing;
use crate::output::Outputs;
use crate::rank::{Crew, Rank, Refusal};
use crate::spec::JobSpec;
use crate::sweep;
use crate::watch::{Action, Watch};
use clump_os::epoll::{Interest, Poller};
use clump_os::process::{Change, News};
use clump_os::procfs::Process;
use clump_os::signal::{self, Signals};
use clump_os::{clock, process};
use clump_shm::job::Death;
use clump_shm::rank::RankState;
use opening::{Connection, Node};
use std::io::{ErrorKind, Read};
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// What a token in the poller stands for; the lower half is a rank or a pipe.
mod token {
    pub(super) const LAUNCHER: u64 = 0;
    pub(super) const SIGNALS: u64 = 1 << 32;
    pub(super) const END: u64 = 2 << 32;
    pub(super) const PIPE: u64 = 3 << 32;
    pub(super) const SEAT: u64 = 4 << 32;
    pub(super) const KIND: u64 = !0 << 32;
}

/// How often to look for processes to kill while killing: the end of a grandchild makes no signal here.
const SWEEP_EVERY: Duration = Duration::from_millis(2);
/// How long to try to kill.
const SWEEP_NS: u64 = 2_000_000_000;

/// Runs the agent of a node; the launcher is at the other end of inherited descriptor `control`.
/// Gives the exit code.
pub fn agent_main(control: RawFd) -> u8 {
    match Connection::open(control).and_then(|connection| connection.serve()) {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("clump: the agent cannot go on: {why}");
            125
        }
    }
}

type Result<T> = std::result::Result<T, anyhow::Error>;

/// What everybody was doing when the job was told to end.
struct Scene {
    at_ns: u64,
    doing: Vec<Doing>,
}

struct Agent {
    launcher: Arc<UnixStream>,
    poller: Poller,
    signals: Signals,
    assembler: Assembler,
    outputs: Outputs,
    watch: Watch,
    node: Node,
    spec: JobSpec,
    ranks: Vec<Rank>,
    started_ns: u64,
    ended_ns: u64,
    scene: Option<Scene>,
    refusal: Option<Refusal>,
    leftovers: Vec<Process>,
    sweep_until: Option<u64>,
    launcher_lost: bool,
}

impl Agent {
    fn run(mut self) -> Result<()> {
        self.start_ranks()?;
        while self.refusal.is_none() && !self.watch.is_finished() {
            self.turn(None)?;
        }
        self.ended_ns = clock::now_ns();
        self.sweep_rest()?;
        // Nobody writes any more: what is left in the pipes is all there will be.
        while !self.outputs.all_ended() && !self.launcher_lost {
            self.turn(Some(Duration::from_secs(1)))?;
        }
        let outcome = self.outcome();
        self.outputs.say(&self.poller, &Frame::Finished(Box::new(outcome)))?;
        while !self.outputs.all_sent() && !self.launcher_lost {
            self.turn(Some(Duration::from_secs(1)))?;
        }
        if self.launcher_lost {
            let (job, ranks) = (self.spec.program_name(), self.ranks.len());
            eprintln!(
                "clump: the launcher of `{job}` is gone without a word; its {ranks} ranks have been ended"
            );
        }
        Ok(())
    }

    fn start_ranks(&mut self) -> Result<()> {
        let descriptors = process::raise_descriptor_limit();
        let crew = Crew::new(&self.spec, &self.node.memory, self.node.job_id, descriptors);
        for number in 0..self.spec.ranks {
            let mut rank = match crew.start(number) {
                Ok(rank) => rank,
                Err(refusal) => {
                    self.refusal = Some(refusal);
                    break;
                }
            };
            let low = u64::from(number);
            self.poller.add(&rank.child.pidfd, token::END | low, Interest::Read)?;
            self.poller.add(&rank.seat, token::SEAT | low, Interest::Read)?;
            let pipes = [rank.child.output.take(), rank.child.errors.take()];
            for (pipe, stream) in pipes.into_iter().zip([Stream::Output, Stream::Errors]) {
                if let Some(pipe) = pipe {
                    self.outputs.add(&self.poller, (number, stream), pipe, token::PIPE)?;
                }
            }
            self.ranks.push(rank);
        }
        Ok(())
    }

    /// One turn of the event loop: waits for something to happen, at most for `limit`, and deals with it.
    fn turn(&mut self, limit: Option<Duration>) -> Result<()> {
        let now = clock::now_ns();
        let due =
            self.watch.next_deadline_ns().map(|at| Duration::from_nanos(at.saturating_sub(now)));
        let sweep = self.watch.is_killing().then_some(SWEEP_EVERY);
        let limit = [limit, due, sweep].into_iter().flatten().min();
        for ready in self.poller.wait(limit)? {
            let low = usize::try_from(ready.token & !token::KIND).unwrap_or(usize::MAX);
            match ready.token & token::KIND {
                token::LAUNCHER => {
                    if ready.writable {
                        self.outputs.flush(&self.poller)?;
                    }
                    if ready.readable {
                        self.hear_launcher()?;
                    }
                }
                token::SIGNALS => self.read_signals(),
                token::END => self.reap()?,
                token::PIPE => self.outputs.on_readable(&self.poller, low)?,
                _ => self.hear_seat(low)?,
            }
            // Death is looked at between any two pieces of output.
            self.act()?;
        }
        self.watch.handle_timeout(clock::now_ns());
        self.act()?;
        if self.watch.is_killing() {
            self.reap()?;
            self.kill_everything();
            self.act()?;
        }
        Ok(())
    }

    fn read_signals(&mut self) {
        while let Some(signal) = self.signals.next() {
            if signal == signal::CHILD {
                // An error can only be "interrupted" or a broken kernel; the next signal tries again.
                let _ = self.reap();
            } else {
                self.interrupt(signal);
            }
        }
    }

    fn interrupt(&mut self, signal: u8) {
        self.set_scene();
        self.watch.on_interrupt(signal, clock::now_ns());
    }

    fn hear_launcher(&mut self) -> Result<()> {
        let mut piece = [0; 4096];
        let lost = match (&*self.launcher).read(&mut piece) {
            Ok(0) => true,
            Ok(bytes) => {
                self.assembler.handle_bytes(&piece[..bytes]);
                false
            }
            Err(e) => !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        while let Some(frame) = self.assembler.poll_frame()? {
            match frame {
                Frame::Interrupt(signal) => self.interrupt(signal),
                Frame::Kill => {
                    self.set_scene();
                    self.watch.on_kill();
                }
                _ => {}
            }
        }
        if lost && !self.launcher_lost {
            self.launcher_lost = true;
            self.outputs.on_launcher_lost(&self.poller)?;
            self.interrupt(signal::TERMINATE);
        }
        Ok(())
    }

    fn hear_seat(&mut self, rank: usize) -> Result<()> {
        let Some(seat) = self.ranks.get(rank).map(|rank| &rank.seat) else { return Ok(()) };
        let Some(taken) = clump_boot::boot::taken(seat) else { return Ok(()) };
        // One message is all that is ever said; the end of the connection says nothing new.
        self.poller.remove(seat)?;
        if taken {
            self.watch.on_joined(number(rank), clock::now_ns());
        }
        Ok(())
    }

    /// Takes note of every child that ended, stopped or went on.
    fn reap(&mut self) -> Result<()> {
        while let News::Of(pid, change) = process::changed()? {
            let Some(at) = self.ranks.iter().position(|rank| rank.child.pid == pid) else {
                continue; // an orphan
            };
            let (rank, now) = (number(at), clock::now_ns());
            match change {
                Change::Ended(exit) => {
                    if self.watch.end_of(rank).0.is_none() {
                        self.poller.remove(&self.ranks[at].child.pidfd)?;
                        let block = self.node.memory.rank(rank);
                        let state = block.map_or(RankState::Absent, |block| block.state());
                        self.watch.on_ended(rank, exit, state, now);
                        self.act()?;
                    }
                }
                Change::Stopped => self.watch.on_stopped(rank, now),
                Change::Continued => self.watch.on_continued(rank, now),
            }
        }
        Ok(())
    }

    /// Does what the watch demands.
    fn act(&mut self) -> Result<()> {
        while let Some(action) = self.watch.poll_action() {
            match action {
                Action::Declare(death) => self.declare(death),
                Action::Signal(signal) => self.signal_ranks(signal),
                Action::Kill => {
                    self.sweep_until = Some(clock::now_ns() + SWEEP_NS);
                    self.signal_ranks(signal::KILL);
                    self.kill_everything();
                }
                Action::Notice(text) => self.outputs.say(&self.poller, &Frame::Notice(text))?,
                Action::Finished => {}
            }
        }
        Ok(())
    }

    /// Notes what everybody is doing, then lets everybody know.
    fn declare(&mut self, death: Death) {
        self.set_scene();
        self.node.memory.declare_dead(death);
    }

    fn signal_ranks(&self, signal: u8) {
        for (at, rank) in self.ranks.iter().enumerate() {
            // A number is ours until the process has been reaped, and no longer.
            if self.watch.end_of(number(at)).0.is_none() {
                let _ = process::signal_group(rank.child.pid, signal);
            }
        }
    }

    fn kill_everything(&mut self) {
        for process in sweep::kill_below(&[]) {
            let is_rank = self.ranks.iter().any(|rank| rank.child.pid == process.pid);
            let known =
                self.leftovers.iter().any(|p| p.pid == process.pid && p.started == process.started);
            if !is_rank && !known {
                self.leftovers.push(process);
            }
        }
    }

    /// All ranks have ended: ends what they left running.
    fn sweep_rest(&mut self) -> Result<()> {
        let until = *self.sweep_until.get_or_insert(clock::now_ns() + SWEEP_NS);
        if self.refusal.is_some() {
            self.watch.on_kill();
        }
        loop {
            let mut news = process::changed()?;
            while let News::Of(..) = news {
                news = process::changed()?;
            }
            if news == News::Childless {
                return Ok(());
            }
            if clock::now_ns() > until {
                return self.outputs.abandon(&self.poller).map_err(Into::into);
            }
            self.kill_everything();
            self.turn(Some(SWEEP_EVERY))?;
        }
    }

    fn set_scene(&mut self) {
        if self.scene.is_none() {
            let known = |rank| match self.watch.end_of(rank) {
                (Some(_), true, _) => Some("ended".into()),
                _ if self.watch.is_stopped(rank) => Some("stopped (SIGSTOP)".into()),
                _ => None,
            };
            let doing = crate::scene::look(&self.node.memory, known);
            self.scene = Some(Scene { at_ns: clock::now_ns(), doing });
        }
    }
}

fn number(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
