//! Standard input of rank 0, as it comes from the launcher: into the pipe that the rank reads.

use clump_os::epoll::{Interest, Poller};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::OwnedFd;

/// The pipe, and what does not fit into it yet.
#[derive(Debug)]
pub(crate) struct RankInput {
    /// None once the rank reads no more, or everything has been written.
    pipe: Option<File>,
    waiting: VecDeque<u8>,
    ended: bool,
    token: u64,
    watching: bool,
}

impl RankInput {
    /// Writes into `pipe`, which does not block; the poller tells of room in it by `token`.
    pub(crate) fn new(pipe: OwnedFd, token: u64) -> Self {
        let (waiting, ended, watching) = (VecDeque::new(), false, false);
        Self { pipe: Some(pipe.into()), waiting, ended, token, watching }
    }

    /// Takes bytes, or the end if there are none. Returns the number that the rank has got.
    pub(crate) fn handle_input(&mut self, poller: &Poller, bytes: &[u8]) -> clump_os::Result<u32> {
        debug_assert!(!self.ended || bytes.is_empty(), "nothing comes behind the end");
        self.ended |= bytes.is_empty();
        self.waiting.extend(bytes);
        self.flush(poller)
    }

    /// Writes what there is room for. Returns the number of bytes.
    pub(crate) fn flush(&mut self, poller: &Poller) -> clump_os::Result<u32> {
        let mut written = 0;
        while let (Some(pipe), false) = (&mut self.pipe, self.waiting.is_empty()) {
            match pipe.write(self.waiting.as_slices().0) {
                Ok(bytes) => {
                    self.waiting.drain(..bytes);
                    written += u32::try_from(bytes).unwrap_or(u32::MAX);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                // The rank has closed it: it takes nothing more, and no room is reported.
                Err(_) => self.close(poller)?,
            }
        }
        if self.ended && self.waiting.is_empty() {
            self.close(poller)?;
        }
        let wanted = !self.waiting.is_empty();
        if let Some(pipe) = &self.pipe {
            match (std::mem::replace(&mut self.watching, wanted), wanted) {
                (false, true) => poller.add(pipe, self.token, Interest::Write)?,
                (true, false) => poller.remove(pipe)?,
                _ => {}
            }
        }
        Ok(written)
    }

    fn close(&mut self, poller: &Poller) -> clump_os::Result<()> {
        if let Some(pipe) = self.pipe.take()
            && std::mem::take(&mut self.watching)
        {
            poller.remove(&pipe)?;
        }
        self.waiting.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clump_os::socket;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn input_reaches_a_slow_rank_whole_and_one_that_has_closed_it_not_at_all() {
        let poller = Poller::new().unwrap();
        let (ours, theirs) = socket::stream_pair().unwrap();
        UnixStream::from(ours.try_clone().unwrap()).set_nonblocking(true).unwrap();
        let mut theirs = UnixStream::from(theirs);
        let mut input = RankInput::new(ours, 7);
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|n| n as u8).collect();
        let mut got = u64::from(input.handle_input(&poller, &bytes).unwrap());
        assert!(got < 1_000_000, "it does not fit");
        assert_eq!(input.handle_input(&poller, &[]).unwrap(), 0);
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            theirs.read_to_end(&mut all).map(|_| all)
        });
        while input.pipe.is_some() {
            assert!(!poller.wait(Some(std::time::Duration::from_secs(10))).unwrap().is_empty());
            got += u64::from(input.flush(&poller).unwrap());
        }
        assert_eq!(got, 1_000_000);
        assert_eq!(reader.join().unwrap().unwrap(), bytes);

        let (ours, theirs) = socket::stream_pair().unwrap();
        drop(theirs);
        let mut input = RankInput::new(ours, 7);
        assert_eq!(input.handle_input(&poller, b"x").unwrap(), 0);
        assert_eq!(input.handle_input(&poller, b"y").unwrap(), 0);
    }
}
