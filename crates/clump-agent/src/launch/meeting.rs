//! The beginning of a job: agents say hello, then get the key and their part of the job. Nothing of
//! the job is sent to anybody before all have been heard, and found to be of this build.

use super::agent_handle::AgentHandle;
use super::input::InputReader;
use super::ssh_starter::SshStarter;
use super::unreached::{self, Attempt};
use super::{Launcher, OWN_FAILURE, SWEEP_NS, suspension, token};
use crate::coordinator::Coordinator;
use crate::frame::{Frame, Key};
use crate::hello::Hello;
use crate::outcome::{JobEnd, JobOutcome};
use crate::sharing::KernelMap;
use crate::spec::NodePlan;
use crate::stream_watch::StreamWatch;
use crate::sweep;
use clump_os::printable::printable;
use clump_os::process::{self, Exit};
use clump_os::{clock, netns, signal};
use std::time::Duration;

/// Node timeouts without a sign of an agent on another machine, after which it counts as lost:
/// other agents notice sooner.
const AGENT_SILENCE: u64 = 5;
/// Time that each node of a machine adds to the limit for the start.
const START_EACH_MS: u64 = 250;

impl Launcher {
    /// Waits for the hellos of all agents, then sends each its job. Returns the outcome of a job
    /// that cannot begin.
    pub(super) fn meet(&mut self) -> anyhow::Result<Option<JobOutcome>> {
        let timeout_ns = self.start_timeout_ms * 1_000_000;
        let mut begin_ns = clock::now_ns();
        while self.agents.iter().any(|link| link.hello().is_none()) {
            // A machine that still takes files is not late.
            let waits = self.agents.iter().filter(|link| link.hello().is_none());
            let since_ns = waits.map(|link| link.uploaded_ns().max(begin_ns)).min();
            let give_up_ns = since_ns.unwrap_or(begin_ns).saturating_add(timeout_ns);
            self.retry_late_names()?;
            if let Some((why, code)) = self.failure(clock::now_ns() >= give_up_ns) {
                return Ok(Some(self.abandon(code, JobEnd::Refused { why, code })));
            }
            match self.signals.next() {
                Some(signal::TERMINAL_STOP) => begin_ns += suspension::stop_self(),
                Some(signal) if signal::ENDS.contains(&signal) => {
                    let ending = JobEnd::Interrupted { signal, doing: Vec::new(), killed: 0 };
                    return Ok(Some(self.abandon(128_u8.saturating_add(signal), ending)));
                }
                // There is no rank yet that it could mean something to.
                _ => {}
            }
            let next_ns = self.late_names.next_deadline_ns().unwrap_or(u64::MAX).min(give_up_ns);
            self.meet_for(Duration::from_nanos(next_ns.saturating_sub(clock::now_ns())))?;
        }
        let ours = Hello::own();
        let differs = |link: &AgentHandle| {
            link.hello()?.difference(&ours, link.machine().unwrap_or("this machine"))
        };
        if let Some(why) = self.agents.iter().find_map(differs) {
            let code = OWN_FAILURE;
            return Ok(Some(self.abandon(code, JobEnd::Refused { why, code })));
        }
        self.begin()?;
        // The end of an agent that was noticed among the hellos is not noticed again.
        self.note_losses(0..self.agents.len());
        Ok(None)
    }

    /// Handles what happens before the hellos, at most for `limit`.
    fn meet_for(&mut self, limit: Duration) -> anyhow::Result<()> {
        for ready in self.poller.wait(Some(limit))? {
            let node = usize::try_from(ready.token & !token::KIND).unwrap_or(usize::MAX);
            match (ready.token & token::KIND, self.agents.get_mut(node)) {
                (token::AGENT, Some(link)) if !ready.readable => link.flush(&self.poller)?,
                (token::AGENT, Some(link)) => {
                    let early = link.receive(&self.poller)?;
                    debug_assert!(early.is_empty(), "agents speak when they have a job");
                }
                (token::ERRORS, Some(link)) => link.receive_errors(&self.poller)?,
                (token::END, _) => self.reap()?,
                (token::PRINTED, _) => drop(self.printer.bell().clear()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns why the job cannot begin, and the exit code, if that is known: an agent is gone, is
    /// none, or does not come though it is `late`.
    fn failure(&self, late: bool) -> Option<(String, u8)> {
        let failed = |(node, link): &(usize, &AgentHandle)| {
            let is_over = link.exit().is_some() && !self.late_names.awaits(*node);
            link.hello().is_none() && (late || is_over || link.is_other())
        };
        let mut all = self.agents.iter().enumerate().filter(failed).map(|(_, link)| link);
        let link = all.next()?;
        let Some(machine) = link.machine() else {
            let how = link.end().unwrap_or("gave no sign of itself in time");
            return Some((format!("an agent on this machine {how}"), OWN_FAILURE));
        };
        let shell = self.spec.remote.shell.first().map(printable);
        let shell = shell.map(|shell| shell.to_string()).unwrap_or_default();
        let (output, errors) = link.said();
        let code = link.exit().map(|exit| match exit {
            Exit::Code(code) => code,
            Exit::Signal(signal) => 128_u8.saturating_add(signal),
        });
        let starter = SshStarter::new(&self.spec.remote, None);
        let attempt = Attempt {
            machine,
            starter: link.starter(),
            shell: &shell,
            trial: &starter.trial(machine),
            clump: &printable(&starter.clump()).to_string(),
            code,
            errors: &errors,
            output: &output,
            waited_s: (code.is_none() && late && !link.is_other())
                .then(|| self.start_timeout_ms as f64 / 1e3),
        };
        let (mut why, code) = unreached::explain(&attempt);
        let others: Vec<&str> = all.filter_map(AgentHandle::machine).collect();
        if !others.is_empty() {
            why.push_str(&format!("\n  also:   {}", others.join(", ")));
        }
        Some((why, code))
    }

    /// Ends all agents, none of which has a job yet, and returns the outcome.
    fn abandon(&mut self, code: u8, ending: JobEnd) -> JobOutcome {
        for link in &mut self.agents {
            // An agent that has no job ends when its stream does.
            let _ = link.close(&self.poller);
            link.kill();
        }
        let (_, left) = sweep::sweep(&self.spared, SWEEP_NS);
        self.agents.clear();
        let mut outcome = JobOutcome::without_ranks(code, ending);
        outcome.survivors = left.iter().map(sweep::describe).collect();
        outcome
    }

    /// Sends every agent the key and its part of the job.
    fn begin(&mut self) -> anyhow::Result<()> {
        self.begun_ns = clock::now_ns();
        let limit_ns = self.spec.time_limit_ms.map(|ms| ms.saturating_mul(1_000_000));
        self.limit_ns = limit_ns.map(|limit| self.begun_ns.saturating_add(limit));
        let job_id = process::random()?;
        let key = (self.spec.nodes > 1).then(Key::random).transpose()?;
        let hellos = || self.agents.iter().filter_map(AgentHandle::hello);
        debug_assert_eq!(hellos().count(), self.agents.len(), "all have been heard");
        let kernels = KernelMap::new(hellos().map(|hello| hello.kernel.as_str()));
        let sharing = kernels.sharing(|node| self.spec.ranks_of(node));
        if self.spec.nodes > 1 {
            let pids: Vec<u32> = hellos().map(|hello| hello.pid).collect();
            let now_ns = clock::now_ns();
            let most = sharing.iter().map(|shared| shared.nodes).max().unwrap_or(1);
            let times = (self.node_timeout_ms, start_limit_ms(self.start_timeout_ms, most));
            let coordinator = Coordinator::new(&self.spec, &pids, times, now_ns);
            self.coordinator = Some(coordinator);
        }
        for ((node, link), sharing) in (0..).zip(&mut self.agents).zip(sharing) {
            let mut plan = NodePlan::new(&self.spec, node, job_id, self.node_timeout_ms);
            plan.sharing = sharing;
            plan.other_clocks = kernels.on_others(node);
            plan.elsewhere = link.machine().is_some();
            if let Some(namespaces) = self.networks.as_ref().and_then(|all| all.of(node)) {
                plan.namespaces = Some(namespaces);
                let cables = 0..self.spec.cables;
                plan.addresses = cables.map(|c| netns::cable_address(node, c).into()).collect();
            }
            let job = Frame::Start(Box::new((self.spec.clone(), plan)));
            let life = StreamWatch::new(self.node_timeout_ms, AGENT_SILENCE, clock::now_ns());
            link.start(&self.poller, key.as_ref(), &job, life)?;
        }
        let elsewhere = self.agents.first().is_some_and(|link| link.machine().is_some());
        if self.spec.input && (elsewhere || self.spec.keyboard) {
            self.input = Some(InputReader::start(&self.poller, token::INPUT)?);
        }
        Ok(())
    }
}

/// Returns the limit for the start of nodes of which so many share one machine: their agents create
/// memory and sockets one after another where it has few processors. Machines work beside each
/// other, so their number adds nothing.
fn start_limit_ms(timeout_ms: u64, most: u32) -> u64 {
    timeout_ms.saturating_add(u64::from(most).saturating_mul(START_EACH_MS))
}
