//! Standard input of rank 0, as it comes from the launcher: into the pipe that the rank reads, one
//! short piece at a time, so that it is known what the rank has taken.

use clump_os::epoll::{Interest, Poller};
use clump_os::error::Errno;
use clump_os::lookahead::PieceWriter;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;

/// The pipe, and what does not fit into it yet.
#[derive(Debug)]
pub(crate) struct RankInput {
    /// None once the rank reads no more, or everything has been read.
    pipe: Option<PieceWriter>,
    waiting: VecDeque<u8>,
    ended: bool,
    token: u64,
    watching: bool,
}

impl RankInput {
    /// Writes into `pipe`, which does not block; the poller tells of room in it by `token`.
    pub(crate) fn new(pipe: OwnedFd, token: u64) -> Self {
        let (waiting, ended, watching) = (VecDeque::new(), false, false);
        Self { pipe: Some(PieceWriter::new(pipe)), waiting, ended, token, watching }
    }

    /// Takes bytes, or the end if there are none. Returns the number that the rank has taken since
    /// it was last asked for.
    pub(crate) fn handle_input(&mut self, poller: &Poller, bytes: &[u8]) -> clump_os::Result<u32> {
        debug_assert!(!self.ended || bytes.is_empty(), "nothing comes behind the end");
        self.ended |= bytes.is_empty();
        self.waiting.extend(bytes);
        self.flush(poller)
    }

    /// Writes what there is room for. Returns the number of bytes that the rank has taken.
    pub(crate) fn flush(&mut self, poller: &Poller) -> clump_os::Result<u32> {
        let mut taken = 0;
        while let Some(pipe) = &mut self.pipe {
            if pipe.is_closed() {
                // The rank takes nothing more, and no room is reported.
                taken += self.close(poller)?;
                break;
            }
            taken += pipe.poll_read();
            if pipe.is_waiting() {
                break;
            }
            if self.waiting.is_empty() {
                if self.ended {
                    taken += self.close(poller)?;
                }
                break;
            }
            match pipe.write(self.waiting.as_slices().0) {
                Ok(bytes) => drop(self.waiting.drain(..bytes)),
                Err(e) if e.errno == Errno::INTR => {}
                Err(e) if e.errno == Errno::AGAIN => break,
                Err(_) => taken += self.close(poller)?,
            }
        }
        if let Some(pipe) = &self.pipe {
            let wanted = pipe.is_waiting() || !self.waiting.is_empty();
            match (std::mem::replace(&mut self.watching, wanted), wanted) {
                (false, true) => poller.add(pipe, self.token, Interest::Write)?,
                (true, false) => poller.remove(pipe)?,
                _ => {}
            }
        }
        Ok(u32::try_from(taken).unwrap_or(u32::MAX))
    }

    /// Writes nothing more. Returns the bytes that the rank has taken.
    fn close(&mut self, poller: &Poller) -> clump_os::Result<usize> {
        let Some(mut pipe) = self.pipe.take() else { return Ok(0) };
        if std::mem::take(&mut self.watching) {
            poller.remove(&pipe)?;
        }
        self.waiting.clear();
        Ok(pipe.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn input_reaches_a_slow_rank_whole_and_one_that_has_closed_it_not_at_all() {
        let poller = Poller::new().unwrap();
        let (mut theirs, ours) = std::io::pipe().unwrap();
        let mut input = RankInput::new(ours.into(), 7);
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|n| n as u8).collect();
        let mut got = u64::from(input.handle_input(&poller, &bytes).unwrap());
        assert_eq!(got, 0, "nothing was read");
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

        let (mut theirs, ours) = std::io::pipe().unwrap();
        let mut input = RankInput::new(ours.into(), 7);
        assert_eq!(input.handle_input(&poller, b"xyz").unwrap(), 0);
        theirs.read_exact(&mut [0]).unwrap();
        drop(theirs);
        assert_eq!(input.handle_input(&poller, b"more").unwrap(), 1, "the rest stays ours");
        assert_eq!(input.handle_input(&poller, b"y").unwrap(), 0);
    }
}
