//! Standard input of the launcher, for a rank 0 on another machine or at a terminal: read ahead of
//! that rank by up to [`MAX_BYTES`]. What the rank has not taken at the end stays in a file or a
//! pipe for the next reader, as when a shell's loop starts a job for each line.

use crate::frame::Frame;
use clump_os::clock;
use clump_os::epoll::{Interest, Poller};
use clump_os::lookahead::Lookahead;
use clump_os::stream::ByteStream;

/// Most bytes that have been read and that the rank has not taken.
const MAX_BYTES: u32 = 256 << 10;
/// Bytes read at a time.
const PIECE: usize = 64 << 10;
/// Time until a terminal is tried again that another process group reads.
const BACKGROUND_NS: u64 = 200_000_000;

/// Reads it.
#[derive(Debug)]
pub(super) struct InputReader {
    source: Lookahead,
    token: u64,
    /// True if the poller can watch it; of a file there is always something to read.
    is_watched: bool,
    /// True while it is in the poller.
    watching: bool,
    /// Time of the next try, while this process is in the background of its terminal.
    retry_ns: Option<u64>,
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
        let mut reader = Self {
            source: Lookahead::new(stream)?,
            token,
            is_watched,
            watching: false,
            retry_ns: None,
            room: MAX_BYTES,
            ended: false,
        };
        reader.watch(poller)?;
        Ok(reader)
    }

    /// Returns the time of the next read that the poller does not tell of.
    pub(super) fn next_deadline_ns(&self, now_ns: u64) -> Option<u64> {
        self.retry_ns.or_else(|| (!self.is_watched && self.wants()).then_some(now_ns))
    }

    fn wants(&self) -> bool {
        !self.ended && self.room > 0 && !self.source.is_full()
    }

    /// Reads what is there, as a frame for the agent.
    pub(super) fn read(&mut self, poller: &Poller) -> clump_os::Result<Option<Frame>> {
        self.retry_ns = None;
        if !self.wants() {
            return Ok(None);
        }
        let mut piece = vec![0; PIECE.min(self.room as usize)];
        let read = match self.source.read(&mut piece) {
            Err(_) if self.source.stream().is_in_background() => {
                self.retry_ns = Some(clock::now_ns().saturating_add(BACKGROUND_NS));
                None
            }
            // Input that cannot be read has ended: its reader notices what it lacks.
            read => read.unwrap_or(Some(0)),
        };
        if let Some(bytes) = read {
            debug_assert!(bytes <= self.room as usize, "no more than the rank may take");
            self.ended = bytes == 0;
            self.room -= u32::try_from(bytes).unwrap_or(self.room);
            piece.truncate(bytes);
        }
        self.watch(poller)?;
        Ok(read.map(|_| Frame::Input(piece)))
    }

    /// Records that the rank has taken so many bytes.
    pub(super) fn on_taken(&mut self, poller: &Poller, bytes: u32) -> clump_os::Result<()> {
        self.source.take(bytes as usize)?;
        self.room = self.room.saturating_add(bytes).min(MAX_BYTES);
        self.watch(poller)
    }

    /// Has the poller tell of input while it is wanted.
    fn watch(&mut self, poller: &Poller) -> clump_os::Result<()> {
        let wanted = self.is_watched && self.wants() && self.retry_ns.is_none();
        let stream = self.source.stream();
        match (std::mem::replace(&mut self.watching, wanted), wanted) {
            (false, true) => poller.add(stream, self.token, Interest::Read),
            (true, false) => poller.remove(stream),
            _ => Ok(()),
        }
    }
}
