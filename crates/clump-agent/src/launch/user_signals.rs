//! Signals to the launcher, of a terminal, a user or a batch system: those that end the job, those
//! whose meaning is the program's, which ranks get, and Ctrl-Z, which stops ranks and launcher.
//!
//! SIGKILL and SIGSTOP cannot be taken: agents end their ranks when the launcher is gone, or when
//! it has given no sign for long.

use super::Launcher;
use super::agent_handle::AgentHandle;
use super::suspension::{Suspension, stop_self};
use crate::frame::Frame;
use clump_control::EndRequest;
use clump_os::{clock, signal};

impl Launcher {
    /// Handles the signals that have come.
    pub(super) fn handle_user_signal(&mut self) -> anyhow::Result<()> {
        while let Some(signal) = self.signals.next() {
            match signal {
                signal::TERMINAL_STOP => self.suspend()?,
                signal::TERMINAL_INPUT => {}
                signal if signal::OF_PROGRAMS.contains(&signal) => {
                    self.say_to_agents(&Frame::Signal(signal))?;
                }
                signal => {
                    let request = self.requests.handle_signal(signal, clock::now_ns());
                    self.end_job(signal, request)?;
                }
            }
        }
        Ok(())
    }

    /// Has agents stop their ranks. This process stops when they have, since frames to agents of
    /// other machines pass through its threads.
    fn suspend(&mut self) -> anyhow::Result<()> {
        if self.suspension.is_some() {
            return Ok(());
        }
        let running = self.agents.iter().enumerate().filter(|(_, link)| link.end().is_none());
        let nodes = running.map(|(node, _)| node).collect();
        self.suspension = Some(Suspension::new(nodes, clock::now_ns()));
        self.say_to_agents(&Frame::Suspend)
    }

    /// Stops this process if no agent is waited for; afterwards has ranks continue.
    pub(super) fn finish_suspension(&mut self) -> anyhow::Result<()> {
        let agents = &self.agents;
        let runs = |node: &usize| agents.get(*node).is_some_and(|link| link.end().is_none());
        let Some(suspension) = &mut self.suspension else { return Ok(()) };
        if !suspension.is_over(runs, clock::now_ns()) {
            return Ok(());
        }
        self.suspension = None;
        let stopped_ns = stop_self();
        let now_ns = clock::now_ns();
        self.agents.iter_mut().for_each(|link| link.on_resumed(now_ns));
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.handle_resumed(stopped_ns);
        }
        self.say_to_agents(&Frame::Resume)
    }

    fn say_to_agents(&mut self, frame: &Frame) -> anyhow::Result<()> {
        if self.coordinator.is_some() {
            return self.say_to_all(frame);
        }
        let running = self.agents.iter_mut().filter(|link: &&mut AgentHandle| link.end().is_none());
        for link in running {
            link.say(&self.poller, frame)?;
        }
        Ok(())
    }

    /// Passes a request to end the job on. Agents that do not obey run into the deadline.
    pub(super) fn end_job(&mut self, signal: u8, request: EndRequest) -> anyhow::Result<()> {
        let frame = match request {
            EndRequest::Interrupt(signal) => Frame::Interrupt(signal),
            EndRequest::Kill => Frame::Kill,
        };
        match &mut self.coordinator {
            Some(coordinator) => coordinator.handle_interrupt(signal, clock::now_ns()),
            None => self.agents.iter_mut().try_for_each(|link| link.say(&self.poller, &frame))?,
        }
        self.act()
    }
}
