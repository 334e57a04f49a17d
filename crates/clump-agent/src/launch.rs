//! The launcher: starts the agents, shows the output of ranks, passes the user's signals on, and
//! explains the end. On a job with several nodes it decides about the job (`crate::coordinator`).
//! If an agent dies, it cleans up in its place.

mod agent_handle;
mod agent_starter;
mod backlog;
mod conclude;
mod fork_starter;
mod input;
mod late_names;
mod meeting;
mod processor_waits;
mod relay_link;
mod relayed_process;
mod retries;
pub(crate) mod ssh_starter;
pub(crate) mod staged;
mod start_tree;
mod suspension;
mod this_machine;
mod unreached;
mod user_signals;
mod wired;

use crate::coordinator::{Coordinator, Effect};
use crate::display::Display;
use crate::frame::{Frame, Stream};
use crate::notice_filter::NoticeFilter;
use crate::outcome::{JobEnd, JobOutcome, LossReport};
use crate::print::Printer;
use crate::spec::JobSpec;
use crate::sweep;
use agent_handle::AgentHandle;
use anyhow::Context;
use clump_boot::Config;
use clump_boot::boot::VARIABLES;
use clump_control::EndRequests;
use clump_os::epoll::{Interest, Poller};
use clump_os::process::{self, ChildEvent, ChildEvents};
use clump_os::signal::{self, Signals};
use clump_os::{OsError, clock, console, procfs};
use clump_trace::line_state::LineWatch;
use input::InputReader;
use late_names::LateNames;
use relay_link::RelayLink;
pub use start_tree::{StartCommand, commands};
use start_tree::{StartedAgents, fan_out_of, start_agents};
use std::ffi::OsString;
use std::ops::Range;
use std::time::Duration;
use suspension::Suspension;
use wired::NodeNetworks;

/// Meanings of tokens in the poller; the lower half is a node.
mod token {
    pub(super) const SIGNALS: u64 = 0;
    pub(super) const PRINTED: u64 = 1 << 32;
    pub(super) const INPUT: u64 = 1 << 32 | 1;
    pub(super) const ERRORS: u64 = 2 << 32;
    pub(super) const AGENT: u64 = 3 << 32;
    pub(super) const END: u64 = 4 << 32;
    pub(super) const KIND: u64 = !0 << 32;
}

/// Longest time that the launcher tries to kill what is left.
const SWEEP_NS: u64 = 2_000_000_000;
/// Delay until the launcher searches again for what a lost agent has left while the job goes on;
/// doubled each time that it finds nothing.
const SWEEP_AGAIN_NS: u64 = 2_000_000;

/// Exit code when clump itself failed, as docker and env(1) have it.
const OWN_FAILURE: u8 = 125;

/// Runs a job to its end, showing what `display` asks for, and returns its outcome.
///
/// The program that calls this must hand `agent --control N` on its own command line to
/// [`crate::agent_main`], since agents are the same program. This process adopts orphans from now
/// on, and everything that it starts elsewhere while the job runs is taken for a part of the job.
///
/// # Errors
/// Fails if an agent cannot be started or the output folder cannot be written. Anything that
/// happens to the job after that is an outcome, not an error.
pub fn launch(spec: &JobSpec, display: &Display) -> anyhow::Result<JobOutcome> {
    let options: Vec<_> = spec.settings.iter().map(|(name, text)| (&name[..], &text[..])).collect();
    let config = Config::load_with(&options)?;
    for line in clump_boot::unknown_variables() {
        console::err(&format!("clump: warning: {line}"));
    }
    let mut spec = spec.clone();
    spec.settings = config.settings();
    let of_rank = |(name, _): &(OsString, OsString)| VARIABLES.iter().any(|known| name == known);
    let ours = config.variables().into_iter().filter(|variable| !of_rank(variable));
    spec.variables.splice(0..0, ours);
    if let Some(path) = &display.profile {
        let named = || format!("the profile {} cannot be written", path.display());
        clump_os::file::check_writable(path).with_context(named)?;
    }
    // The distance of the processors decides the times of a profile.
    let watched = (display.profile.is_some() || display.stats) && spec.machines.is_empty();
    let watch = watched.then(LineWatch::begin);
    let mut launcher = Launcher::start(&spec, &config, display)?;
    let mut outcome = launcher.run()?;
    if let Some(profile) = &mut outcome.profile {
        profile.lines = watch.and_then(LineWatch::end);
    }
    launcher.conclude(&mut outcome, &spec, display)?;
    Ok(outcome)
}

struct Launcher {
    spec: JobSpec,
    node_timeout_ms: u64,
    start_timeout_ms: u64,
    agents: Vec<AgentHandle>,
    late_names: LateNames,
    /// Relays that start agents on further machines.
    relays: Vec<RelayLink>,
    /// Decides about a job with several nodes; on one node, its agent does.
    coordinator: Option<Coordinator>,
    poller: Poller,
    signals: Signals,
    printer: Printer,
    notices: NoticeFilter,
    /// Standard input, for a rank 0 elsewhere.
    input: Option<InputReader>,
    spared: Vec<u32>,
    outcome: Option<JobOutcome>,
    /// Requests to end the job, and the launcher's deadline.
    requests: EndRequests,
    /// Set while agents stop their ranks because the user suspends the job.
    suspension: Option<Suspension>,
    /// Reason why nothing more can be shown, if so.
    unwritten: Option<OsError>,
    /// True once the job is over and only the remaining output is shown.
    concluding: bool,
    /// Time of the next search for what a lost agent has left, and the delay after it.
    clear: Option<(u64, u64)>,
    /// Time at which the job is ended; none once it has been.
    limit_ns: Option<u64>,
    /// True if its time limit has ended the job.
    timed_out: bool,
    /// Time when agents got their job.
    begun_ns: u64,
    networks: Option<NodeNetworks>,
}

impl Launcher {
    fn start(spec: &JobSpec, config: &Config, display: &Display) -> anyhow::Result<Self> {
        signal::set_own()?;
        let signals = Signals::block(&suspension::taken())?;
        let printer = Printer::new(display, spec.ranks)?;
        process::adopt_orphans()?;
        let spared = procfs::descendants(process::own_pid()).iter().map(|p| p.pid).collect();
        let poller = Poller::new()?;
        poller.add(&signals, token::SIGNALS, Interest::Read)?;
        poller.add(printer.bell(), token::PRINTED, Interest::Read)?;
        let networks = NodeNetworks::of_job(spec, config.netns())?;
        let StartedAgents { agents, relays } = start_agents(spec, fan_out_of(config))?;
        let mut launcher = Self {
            spec: spec.clone(),
            node_timeout_ms: config.node_timeout_ms,
            start_timeout_ms: config.start_timeout_ms,
            coordinator: None,
            agents,
            late_names: LateNames::default(),
            relays,
            poller,
            signals,
            printer,
            notices: NoticeFilter::default(),
            input: None,
            spared,
            outcome: None,
            requests: EndRequests::default(),
            suspension: None,
            unwritten: None,
            concluding: false,
            clear: None,
            limit_ns: None,
            timed_out: false,
            begun_ns: 0,
            networks,
        };
        for (node, link) in (0..).zip(&mut launcher.agents) {
            let tokens = (token::AGENT | node, token::END | node, token::ERRORS | node);
            link.watch(&launcher.poller, tokens)?;
        }
        for relay in &launcher.relays {
            launcher.poller.add(relay.end(), token::END, Interest::Read)?;
        }
        Ok(launcher)
    }

    fn run(&mut self) -> anyhow::Result<JobOutcome> {
        if let Some(outcome) = self.meet()? {
            return Ok(outcome);
        }
        // Frames that an agent sent before it ended are still in its socket.
        while self.agents.iter().any(|link| link.end().is_none()) {
            if self.requests.is_late(clock::now_ns()) {
                return self.take_over();
            }
            self.turn()?;
        }
        match (&mut self.coordinator, self.outcome.take()) {
            (Some(coordinator), _) => {
                let mut outcome = coordinator.close(clock::now_ns());
                let (_, left) = sweep::sweep(&self.spared, SWEEP_NS);
                outcome.survivors = left.iter().map(sweep::describe).collect();
                Ok(outcome)
            }
            (None, Some(outcome)) => Ok(outcome),
            (None, None) => Ok(self.agent_lost()),
        }
    }

    /// Runs one turn of the event loop.
    fn turn(&mut self) -> anyhow::Result<()> {
        let read_ns = clock::now_ns();
        let decision = self.coordinator.as_ref().and_then(Coordinator::next_deadline_ns);
        let clearing = self.clear.map(|(at, _)| at);
        let reads = self.input.as_ref().and_then(|input| input.next_deadline_ns(read_ns));
        let life = self.agents.iter().filter_map(AgentHandle::next_deadline_ns).min();
        let stops = self.suspension.as_ref().map(Suspension::deadline_ns);
        let asked = self.requests.next_deadline_ns();
        let due = [reads, life, asked, decision, clearing, stops, self.limit_ns]
            .into_iter()
            .flatten()
            .min();
        let left = due.map(|at| Duration::from_nanos(at.saturating_sub(read_ns)));
        for ready in self.poller.wait(left)? {
            let node = usize::try_from(ready.token & !token::KIND).unwrap_or(usize::MAX);
            match ready.token & token::KIND {
                token::AGENT => {
                    if ready.writable
                        && let Some(link) = self.agents.get_mut(node)
                    {
                        link.flush(&self.poller)?;
                    }
                    if ready.readable {
                        self.handle_agent_event(node)?;
                    }
                }
                token::ERRORS => {
                    if let Some(link) = self.agents.get_mut(node) {
                        link.receive_errors(&self.poller)?;
                    }
                }
                token::END => self.reap()?,
                _ if ready.token == token::INPUT => self.forward_input(true)?,
                token::SIGNALS => self.handle_user_signal()?,
                _ => drop(self.printer.bell().clear()),
            }
        }
        self.forward_input(false)?;
        let now = clock::now_ns();
        self.agents.iter_mut().try_for_each(|link| link.handle_timeout(&self.poller, now))?;
        self.handle_time_limit(now)?;
        if self.unwritten.is_none() {
            self.unwritten = self.printer.failure(Stream::Output);
            if self.unwritten.is_some() && !self.concluding {
                let request = self.requests.handle_request(signal::TERMINATE, clock::now_ns());
                self.end_job(signal::TERMINATE, request)?;
            }
        }
        if let Some(coordinator) = &mut self.coordinator {
            let (agents, now) = (&self.agents, clock::now_ns());
            let starved =
                |node: u32| agents.get(node as usize).is_some_and(|agent| agent.is_starved(now));
            coordinator.handle_timeout(now, read_ns, &starved);
        }
        self.act()?;
        self.clear_up();
        self.finish_suspension()?;
        if !self.printer.is_full() {
            self.agents.iter_mut().try_for_each(|link| link.on_output_drained(&self.poller))?;
        }
        let all_ended = self.agents.iter().all(|link| link.end().is_some());
        if self.requests.times() > 0 && all_ended && self.printer.is_full() {
            self.printer.give_up();
        }
        Ok(())
    }

    fn handle_agent_event(&mut self, node: usize) -> anyhow::Result<()> {
        let Some(link) = self.agents.get_mut(node) else { return Ok(()) };
        for frame in link.receive(&self.poller)? {
            match frame {
                Frame::Output(rank, stream, bytes) => {
                    link.owe(bytes.len());
                    self.printer.on_wrote(rank, stream, &bytes);
                }
                Frame::Notice(text) => self.notices.show(&text, &self.printer),
                Frame::Routes(text) => self.printer.say(Stream::Errors, &text),
                Frame::InputRoom(bytes) => {
                    if let Some(input) = &mut self.input {
                        input.on_taken(&self.poller, bytes)?;
                    }
                }
                Frame::Suspended => {
                    if let Some(suspension) = &mut self.suspension {
                        suspension.note_suspended(node);
                    }
                }
                Frame::Finished(outcome) => self.outcome = Some(*outcome),
                frame => {
                    if let Some(coordinator) = &mut self.coordinator {
                        let from = u32::try_from(node).unwrap_or(u32::MAX);
                        coordinator.handle_frame(from, frame, clock::now_ns());
                    }
                }
            }
        }
        self.note_losses(node..node.saturating_add(1));
        Ok(())
    }

    /// Sends the agent of rank 0 what standard input has, if it is `ready` or a file.
    fn forward_input(&mut self, ready: bool) -> anyhow::Result<()> {
        let Some(input) = &mut self.input else { return Ok(()) };
        if !ready && input.next_deadline_ns(clock::now_ns()).is_none_or(|at| at > clock::now_ns()) {
            return Ok(());
        }
        let frame = input.read(&self.poller)?;
        if let (Some(frame), Some(link)) = (frame, self.agents.first_mut()) {
            link.say(&self.poller, &frame)?;
        }
        Ok(())
    }

    /// Records agents that have ended.
    fn reap(&mut self) -> anyhow::Result<()> {
        while let Ok(ChildEvents::Of(pid, change)) = process::changed() {
            let ChildEvent::Ended(exit) = change else { continue };
            if let Some(link) = self.agents.iter_mut().find(|link| link.pid() == Some(pid)) {
                link.on_ended(&self.poller, exit)?;
            } else if let Some(relay) = self.relays.iter().find(|relay| relay.pid() == Some(pid)) {
                self.poller.remove(relay.end())?;
                relay.on_client_ended(exit);
            }
        }
        for relay in &self.relays {
            if let Some(exit) = relay.relayed_exit() {
                self.poller.remove(relay.end())?;
                relay.on_client_ended(exit);
            }
        }
        for link in &mut self.agents {
            link.note_relayed_end(&self.poller)?;
        }
        self.note_losses(0..self.agents.len());
        Ok(())
    }

    /// Tells the coordinator of those of these agents that are lost; one that has left in good
    /// order is not missed.
    fn note_losses(&mut self, agents: Range<usize>) {
        let Some(coordinator) = &mut self.coordinator else { return };
        let now = clock::now_ns();
        let these = (0..).zip(&self.agents).skip(agents.start).take(agents.len());
        for (node, link) in these {
            if let Some(how) = link.end()
                && coordinator.handle_lost(node, how, now)
            {
                self.clear = Some((now, SWEEP_AGAIN_NS));
            }
        }
    }

    /// Executes the coordinator's decisions.
    fn act(&mut self) -> anyhow::Result<()> {
        while let Some(effect) = self.coordinator.as_mut().and_then(Coordinator::poll_effect) {
            match effect {
                Effect::Say(frame) => self.say_to_all(&frame)?,
                Effect::Notice(text) => self.notices.show(&text, &self.printer),
                Effect::CutOff(node) => {
                    if let Some(link) = self.agents.get(node as usize) {
                        link.kill();
                    }
                }
            }
        }
        Ok(())
    }

    /// Sends a frame to all agents that are not lost, in bytes that they share.
    fn say_to_all(&mut self, frame: &Frame) -> anyhow::Result<()> {
        let bytes = frame.encode();
        for node in self.coordinator.iter().flat_map(Coordinator::listeners) {
            if let Some(link) = self.agents.get_mut(node as usize) {
                link.say_encoded(&self.poller, bytes.clone())?;
            }
        }
        Ok(())
    }

    /// Kills what a lost agent has left while others go on. A process that loses its parent is for
    /// a moment a child of no process, so the search is repeated even if it found nothing.
    fn clear_up(&mut self) {
        let now = clock::now_ns();
        let Some((_, again)) = self.clear.filter(|(at, _)| *at <= now) else { return };
        let mut spared = self.spared.clone();
        spared.extend(self.agents.iter().filter_map(AgentHandle::pid));
        spared.extend(self.relays.iter().filter_map(RelayLink::pid));
        let again = if sweep::kill_below(&spared).is_empty() { again * 2 } else { SWEEP_AGAIN_NS };
        self.clear = (again < SWEEP_NS).then_some((now + again, again));
        // Errors recur, and are reported at the end.
        let _ = self.reap();
    }

    /// Ends a job whose time limit is over.
    fn handle_time_limit(&mut self, now_ns: u64) -> anyhow::Result<()> {
        if self.limit_ns.is_none_or(|at| now_ns < at) {
            return Ok(());
        }
        self.limit_ns = None;
        if self.requests.times() > 0 || self.concluding {
            return Ok(());
        }
        self.timed_out = true;
        let request = self.requests.handle_request(signal::TERMINATE, now_ns);
        self.end_job(signal::TERMINATE, request)
    }

    /// Ends the job in place of agents that did not in time.
    fn take_over(&mut self) -> anyhow::Result<JobOutcome> {
        self.agents.iter().for_each(AgentHandle::kill);
        let (killed, left) = sweep::sweep(&self.spared, SWEEP_NS);
        self.agents.clear();
        self.coordinator = None;
        self.requests.handle_taken_over();
        self.printer.give_up();
        let signal = self.requests.signal().unwrap_or(signal::TERMINATE);
        let killed = u32::try_from(killed.len()).unwrap_or(u32::MAX);
        let ending = JobEnd::TakenOver { signal, ranks: self.spec.ranks, killed };
        let mut outcome = JobOutcome::without_ranks(128_u8.saturating_add(signal), ending);
        outcome.survivors = left.iter().map(sweep::describe).collect();
        Ok(outcome)
    }

    /// Cleans up after the only agent, which died before it could report the outcome.
    fn agent_lost(&mut self) -> JobOutcome {
        let (killed, left) = sweep::sweep(&self.spared, SWEEP_NS);
        let killed = u32::try_from(killed.len()).unwrap_or(u32::MAX);
        let agent = self.agents.first();
        let pid = agent.and_then(AgentHandle::pid).unwrap_or(0);
        let how = agent.and_then(|link| link.end()).unwrap_or("ended").to_owned();
        let signal = agent.and_then(|link| link.signal());
        let out_of_memory = agent.is_some_and(AgentHandle::is_out_of_memory);
        let machine = agent.and_then(AgentHandle::machine).map(str::to_owned);
        let ending = match machine {
            None => {
                let ranks = self.spec.ranks;
                JobEnd::AgentLost { pid, how, signal, out_of_memory, ranks, killed }
            }
            Some(host) => JobEnd::NodeLost(Box::new(LossReport {
                node: 0,
                host,
                pid: agent.and_then(AgentHandle::hello).map_or(0, |hello| hello.pid),
                how,
                ranks: (0..self.spec.ranks).collect(),
                at_ms: clock::now_ns().saturating_sub(self.begun_ns) / 1_000_000,
                others: Vec::new(),
                returned: 0,
                killed: 0,
                continued: false,
            })),
        };
        let mut outcome = JobOutcome::without_ranks(OWN_FAILURE, ending);
        outcome.survivors = left.iter().map(sweep::describe).collect();
        outcome
    }
}
