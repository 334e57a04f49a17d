//! Single keys of a terminal: read as they are pressed, without echo.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use std::os::fd::AsFd;

/// The keyboard of this process's standard input. Restores the terminal when it is dropped.
#[derive(Debug)]
pub struct Keyboard {
    before: Termios,
}

impl Keyboard {
    /// Opens the keyboard; `None` where standard input is no terminal, or one that another process
    /// group uses.
    pub fn open() -> Option<Self> {
        let stdin = std::io::stdin();
        let before = tcgetattr(&stdin).ok()?;
        // A process in the background that changes a terminal is stopped.
        let group = rustix::termios::tcgetpgrp(&stdin).ok()?;
        if group != rustix::process::getpgrp() {
            return None;
        }
        let mut keys = before.clone();
        // Signals stay: Ctrl-C ends a view.
        keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        keys.special_codes[SpecialCodeIndex::VMIN] = 1;
        keys.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&stdin, OptionalActions::Now, &keys).ok()?;
        Some(Self { before })
    }

    /// Returns the bytes of the keys that were pressed since the last call. Never blocks.
    pub fn pressed(&self) -> Vec<u8> {
        let stdin = std::io::stdin();
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        if !matches!(poll(&mut fds, Some(&now)), Ok(1)) || !fds[0].revents().contains(PollFlags::IN)
        {
            return Vec::new();
        }
        let mut bytes = [0; 64];
        let read = rustix::io::read(stdin.as_fd(), &mut bytes).unwrap_or(0);
        bytes.get(..read).unwrap_or_default().to_vec()
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
    }
}
