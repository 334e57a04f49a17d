//! Decisions about the job, by this agent or by the launcher, and their execution.

use super::{Agent, Result, SWEEP_NS};
use crate::frame::Frame;
use crate::heartbeat_socket::HeartbeatSocket;
use crate::receiving::CODE;
use crate::{rank_state, report};
use clump_control::{
    AgentCommand, DetectorAction, Event, FinalizedRanks, RankSupervisor, SupervisorAction,
};
use clump_os::{clock, process, signal};
use clump_shm::job::Death;
use clump_shm::rank::{PublishedWait, RankState, WaitReason};
use std::ops::Range;

impl Agent {
    /// Reports an event to the process that decides: this one or the launcher.
    pub(super) fn tell(&mut self, event: Event) -> Result<()> {
        if self.watch.is_none() {
            return Ok(self.outputs.say(&self.poller, &Frame::Event(event))?);
        }
        if matches!(event, Event::Interrupted(_)) {
            self.set_scene(true);
        }
        if let Some(watch) = &mut self.watch {
            watch.handle(event, clock::now_ns());
        }
        Ok(())
    }

    /// Ends the job at once: the user asked twice.
    pub(super) fn kill_now(&mut self) {
        self.set_scene(true);
        if let Some(watch) = &mut self.watch {
            watch.handle_kill();
        }
    }

    /// Takes over after the launcher is lost: on one node as if the user had ended the job; on
    /// several nodes each agent decides for its own ranks.
    pub(super) fn on_launcher_lost(&mut self) {
        let now_ns = clock::now_ns();
        let mut watch = self.watch.take().unwrap_or_else(|| {
            let runs = |rank| self.local(rank).is_some_and(|at| self.ranks[at].end.is_none());
            RankSupervisor::of_orphaned_node(self.spec.ranks, self.spec.on_death, runs, now_ns)
        });
        self.set_scene(true);
        watch.handle_interrupt(signal::TERMINATE, now_ns);
        self.watch = Some(watch);
    }

    pub(super) fn next_deadline_ns(&self) -> Option<u64> {
        let decides = self.watch.as_ref().filter(|_| !self.suspended);
        let decision = decides.and_then(RankSupervisor::next_deadline_ns);
        let beat = self.heartbeats.as_ref().map(HeartbeatSocket::next_deadline_ns);
        let poll_notices = self.node.placement.next_deadline_ns();
        let sign = self.life.filter(|_| !self.launcher_lost);
        let sign = sign.map(|life| life.next_deadline_ns());
        let adoption = self.adoption_deadline_ns();
        decision.into_iter().chain(adoption).chain(sign).chain(beat).chain(poll_notices).min()
    }

    pub(super) fn handle_timeout(&mut self) -> Result<()> {
        let now_ns = clock::now_ns();
        self.node.placement.handle_timeout(now_ns);
        self.check_adoption()?;
        if let Some(watch) = self.watch.as_mut().filter(|_| !self.suspended) {
            watch.handle_timeout(now_ns);
        }
        let said = self
            .heartbeats
            .as_mut()
            .map(|heartbeats| heartbeats.handle_timeout(now_ns))
            .unwrap_or_default();
        // Without a launcher there is no receiver for notices.
        if self.watch.is_some() {
            return Ok(());
        }
        self.handle_probe_end()?;
        self.tell_of_peers(said)?;
        let key = self.heartbeats.as_mut().and_then(HeartbeatSocket::take_key_failure);
        if let Some(why) = key {
            self.outputs.say(&self.poller, &Frame::Refused(why.to_string(), CODE))?;
        }
        let own = self.heartbeats.as_ref().and_then(HeartbeatSocket::receive_failure);
        if let Some(why) = self.receiving.poll_notices(&self.node.memory, own) {
            self.outputs.say(&self.poller, &Frame::Refused(why, CODE))?;
        }
        // Ranks that are stopped with all others are not missed.
        let asked = !self.suspended;
        let silent = asked.then(|| self.silence.poll_notices(&self.node.memory, now_ns));
        for text in silent.unwrap_or_default() {
            self.outputs.say(&self.poller, &Frame::Notice(text))?;
        }
        let narrow = self.narrow.poll_notices(&self.node.memory);
        for text in narrow.into_iter().chain(self.overflow.poll_notice(&self.node.memory)) {
            self.outputs.say(&self.poller, &Frame::Notice(text))?;
        }
        self.tell_leaving()
    }

    /// Reads heartbeats, and reports peers that are heard again.
    pub(super) fn handle_heartbeats(&mut self) -> Result<()> {
        let now_ns = clock::now_ns();
        let said = self.heartbeats.as_mut().map(|heartbeats| heartbeats.receive(now_ns));
        // Without a launcher there is no receiver for reports.
        if self.watch.is_some() { Ok(()) } else { self.tell_of_peers(said.unwrap_or_default()) }
    }

    fn tell_of_peers(&mut self, said: Vec<DetectorAction>) -> Result<()> {
        for action in said {
            match action {
                DetectorAction::Silent(node) => self.tell(Event::Silent(node))?,
                DetectorAction::Heard(node) => self.tell(Event::Heard(node))?,
                DetectorAction::Send(..) => clump_bug::bug!("the socket has sent it"),
            }
        }
        Ok(())
    }

    /// Reports once for each rank that it is leaving. A stopped rank would make it wait for ever.
    fn tell_leaving(&mut self) -> Result<()> {
        for at in 0..self.ranks.len() {
            let number = self.number(at);
            let (rank, block) = (&mut self.ranks[at], self.node.memory.rank(number));
            if rank.leaving {
                continue;
            }
            let leaves = |wait: PublishedWait| wait.reason == WaitReason::Leave;
            if block.is_some_and(|block| block.waits().any(leaves)) {
                rank.leaving = true;
                self.tell(Event::Leaving(number))?;
            }
        }
        Ok(())
    }

    /// Executes the decisions of this agent's own supervisor.
    pub(super) fn act(&mut self) -> Result<()> {
        while let Some(action) = self.watch.as_mut().and_then(RankSupervisor::poll_action) {
            match action {
                SupervisorAction::Declare(death) => self.obey(death.into()),
                SupervisorAction::Signal(signal) => self.obey(AgentCommand::Signal(signal)),
                SupervisorAction::Kill => self.obey(AgentCommand::Kill),
                SupervisorAction::Notice(left) => {
                    let text = report::lingering(&left);
                    self.outputs.say(&self.poller, &Frame::Notice(text))?;
                }
                SupervisorAction::Finished => self.obey(AgentCommand::Conclude),
            }
        }
        Ok(())
    }

    /// Executes a command.
    pub(super) fn obey(&mut self, order: AgentCommand) {
        match order {
            AgentCommand::Mirror(ends) => self.mirror(&ends),
            AgentCommand::Declare(ranks, manner) => {
                // Recorded before any rank can react.
                self.set_scene(false);
                let how = rank_state::cause_of(manner);
                for rank in ranks.into_iter().flat_map(|ranks| self.of_job(ranks)) {
                    self.node.memory.declare_dead(Death { rank, how });
                }
            }
            AgentCommand::Signal(signal) => {
                self.set_scene(true);
                self.signal_ranks(signal);
            }
            AgentCommand::Kill => {
                self.set_scene(true);
                self.killing = true;
                self.sweep_until = Some(clock::now_ns() + SWEEP_NS);
                self.signal_ranks(signal::KILL);
                self.kill_everything();
            }
            AgentCommand::Conclude => self.finished = true,
        }
    }

    /// Returns those of some ranks that the job has.
    fn of_job(&self, ranks: Range<u32>) -> Range<u32> {
        ranks.start..ranks.end.min(self.spec.ranks)
    }

    /// Records of ranks of other nodes that they have finalized.
    fn mirror(&self, ends: &[FinalizedRanks]) {
        let memory = &self.node.memory;
        for FinalizedRanks { ranks, barrier } in ends {
            for rank in self.of_job(ranks.clone()).filter(|&rank| !memory.is_local(rank)) {
                if let Some(peer) = memory.peer(rank) {
                    // A rank that reads the state then reads the barrier, so the barrier is stored
                    // first.
                    memory.mirror_last_barrier(rank, *barrier);
                    peer.mirror_state(RankState::Finalized);
                }
            }
        }
    }

    pub(super) fn signal_ranks(&self, signal: u8) {
        for rank in &self.ranks {
            // A process number is ours until the process has been reaped, and no longer.
            if rank.end.is_none() {
                // A rank of an engine may be in a group with others.
                let _ = match self.adoption {
                    Some(_) => process::signal_by_fd(&rank.child.pidfd, signal),
                    None => process::signal_group(rank.child.pid, signal),
                };
            }
        }
    }
}
