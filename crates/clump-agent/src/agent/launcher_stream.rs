//! The agent's stream to the launcher: frames, signs of life, and a job that its user suspends.

use super::{Agent, Result};
use crate::frame::Frame;
use clump_control::Event;
use clump_os::{clock, signal};
use std::io::ErrorKind;

impl Agent {
    pub(super) fn handle_launcher(&mut self) -> Result<()> {
        let mut piece = [0; 4096];
        let lost = match self.outputs.read_launcher(&mut piece) {
            Ok(0) => true,
            Ok(bytes) => {
                if let Some(life) = &mut self.life {
                    life.on_heard(clock::now_ns());
                }
                self.assembler.handle_bytes(&piece[..bytes]);
                false
            }
            Err(e) => !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        self.handle_frames()?;
        if lost { self.lose_launcher() } else { Ok(()) }
    }

    /// Handles the frames that have come.
    pub(super) fn handle_frames(&mut self) -> Result<()> {
        while let Some(frame) = self.assembler.poll_frame()? {
            match frame {
                Frame::OutputCredit(bytes) => self.outputs.on_room(&self.poller, bytes)?,
                Frame::Interrupt(signal) => self.tell(Event::Interrupted(signal))?,
                Frame::Kill => self.kill_now(),
                Frame::Probe(offers) => self.probe_paths(&offers)?,
                Frame::Go(table) => self.go(&table)?,
                Frame::Input(bytes) => self.feed_input(Some(&bytes))?,
                Frame::Order(order) => self.obey(order),
                Frame::Signal(signal) => self.signal_ranks(signal),
                Frame::Suspend => self.suspend()?,
                Frame::Resume => self.resume(),
                _ => {}
            }
        }
        Ok(())
    }

    /// Goes on without a launcher, to an end.
    fn lose_launcher(&mut self) -> Result<()> {
        if !self.launcher_lost {
            self.launcher_lost = true;
            self.suspended = false;
            self.outputs.on_launcher_lost(&self.poller)?;
            self.on_launcher_lost();
        }
        Ok(())
    }

    /// Gives the launcher a sign of life if one is due; takes it for lost if it gives none.
    pub(super) fn watch_stream(&mut self) -> Result<()> {
        let now_ns = clock::now_ns();
        let Some(life) = self.life.as_mut().filter(|_| !self.launcher_lost) else { return Ok(()) };
        if !life.handle_timeout(now_ns) {
            return Ok(());
        }
        // A launcher that the user has suspended is stopped.
        if life.is_dead(now_ns) && !self.suspended {
            return self.lose_launcher();
        }
        if self.outputs.all_sent() {
            Ok(self.outputs.say(&self.poller, &Frame::Alive)?)
        } else {
            Ok(())
        }
    }

    /// Stops the ranks of the node, and expects nothing of a launcher that stops too.
    pub(super) fn suspend(&mut self) -> Result<()> {
        if !self.killing {
            (self.suspended, self.suspended_at_ns) = (true, clock::now_ns());
            self.signal_ranks(signal::STOP);
        }
        Ok(self.outputs.say(&self.poller, &Frame::Suspended)?)
    }

    /// Continues the ranks. The time in which they were stopped is nobody's silence.
    pub(super) fn resume(&mut self) {
        if !std::mem::take(&mut self.suspended) {
            return;
        }
        let now_ns = clock::now_ns();
        if let Some(life) = &mut self.life {
            life.on_heard(now_ns);
        }
        self.silence.on_resumed(now_ns);
        if let Some(watch) = &mut self.watch {
            watch.handle_resumed(now_ns.saturating_sub(self.suspended_at_ns));
        }
        self.signal_ranks(signal::CONTINUE);
    }
}
