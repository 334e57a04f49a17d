//! Standard input of the launcher, for a rank 0 on another machine: read only as that rank takes
//! it, so that what it does not read stays for others, up to [`MAX_BYTES`].

use crate::frame::Frame;
use clump_os::epoll::{Interest, Poller};
use clump_os::stream::ByteStream;

/// Most bytes that have been read and that the rank has not taken.
const MAX_BYTES: u32 = 256 << 10;
/// Bytes read at a time.
const PIECE: usize = 64 << 10;

/// Reads it.
#[derive(Debug)]
pub(super) struct InputReader {
    stream: ByteStream,
    token: u64,
    /// True if the poller can watch it; of a file there is always something to read.
    is_watched: bool,
    /// True while it is in the poller.
    watching: bool,
    room: u32,
    ended: bool,
}

impl InputReader {
    /// Begins to read; the poller tells of it by `token`.
    ///
    /// # Errors
    /// Fails if no more descriptors are allowed.
    pub(super) fn start(poller: &Poller, token: u64) -> clump_os::Result<Self> {
        let stream = ByteStream::standard_input()?;
        let is_watched = stream.is_waited_for();
        let room = MAX_BYTES;
        let mut reader = Self { stream, token, is_watched, watching: false, room, ended: false };
        reader.watch(poller)?;
        Ok(reader)
    }

    /// Returns true if there is something to read that the poller does not tell of.
    pub(super) fn is_always_ready(&self) -> bool {
        !self.is_watched && self.wants()
    }

    fn wants(&self) -> bool {
        !self.ended && self.room > 0
    }

    /// Reads what is there, as a frame for the agent.
    pub(super) fn read(&mut self, poller: &Poller) -> clump_os::Result<Option<Frame>> {
        if !self.wants() {
            return Ok(None);
        }
        let mut piece = vec![0; PIECE.min(self.room as usize)];
        // Input that cannot be read has ended: its reader notices what it lacks.
        let read = self.stream.read(&mut piece).unwrap_or(Some(0));
        let Some(bytes) = read else { return Ok(None) };
        debug_assert!(bytes <= self.room as usize, "no more than the rank may take");
        self.ended = bytes == 0;
        self.room -= u32::try_from(bytes).unwrap_or(self.room);
        self.watch(poller)?;
        piece.truncate(bytes);
        Ok(Some(Frame::Input(piece)))
    }

    /// Records that the rank has taken so many bytes.
    pub(super) fn on_room(&mut self, poller: &Poller, bytes: u32) -> clump_os::Result<()> {
        self.room = self.room.saturating_add(bytes).min(MAX_BYTES);
        self.watch(poller)
    }

    /// Has the poller tell of input while it is wanted.
    fn watch(&mut self, poller: &Poller) -> clump_os::Result<()> {
        let wanted = self.is_watched && self.wants();
        match (std::mem::replace(&mut self.watching, wanted), wanted) {
            (false, true) => poller.add(&self.stream, self.token, Interest::Read),
            (true, false) => poller.remove(&self.stream),
            _ => Ok(()),
        }
    }
}
