//! What ranks wrote, onto the launcher's streams: whole lines, never blocking the launcher.
//!
//! The launcher's streams belong to others too, so they stay blocking; instead of writing when it wants
//! to, the launcher writes when the kernel says there is room, and only as much as then surely fits.

use crate::display::Display;
use crate::frame::Stream;
use clump_os::epoll::{Interest, Poller};
use clump_os::visible::visible;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Bytes waiting above which no more should be asked for.
const MOST: usize = 256 << 10;
/// A pipe that is ready takes this much without blocking (pipe(7): `PIPE_BUF`).
const PIECE: usize = 4096;
/// A line longer than this is shown in pieces.
const LONGEST_LINE: usize = 64 << 10;

/// One of the launcher's streams.
#[derive(Debug)]
struct Sink {
    file: File,
    token: u64,
    pending: Vec<u8>,
    /// Whether the kernel can say when there is room; files always have it.
    pollable: Option<bool>,
    registered: bool,
    broken: bool,
}

impl Sink {
    fn new(stream: impl AsFd, token: u64) -> std::io::Result<Self> {
        let own: OwnedFd = stream.as_fd().try_clone_to_owned()?;
        Ok(Self {
            file: File::from(own),
            token,
            pending: Vec::new(),
            pollable: None,
            registered: false,
            broken: false,
        })
    }

    /// Makes sure that pending bytes will be written, now or when there is room.
    fn settle(&mut self, poller: &Poller) {
        if self.broken {
            self.pending.clear();
        }
        if self.pollable == Some(false) {
            let all = std::mem::take(&mut self.pending);
            self.broken |= self.file.write_all(&all).is_err();
        }
        let wanted = !self.pending.is_empty();
        if wanted == self.registered {
            return;
        }
        if !wanted {
            let _ = poller.remove(&self.file);
        } else if poller.add(&self.file, self.token, Interest::Write).is_err() {
            // Files and /dev/null cannot be polled (epoll_ctl(2): EPERM), and need not be.
            self.pollable = Some(false);
            return self.settle(poller);
        }
        self.registered = wanted;
    }

    fn on_writable(&mut self, poller: &Poller) {
        let piece = self.pending.len().min(PIECE);
        match self.file.write(&self.pending[..piece]) {
            Ok(bytes) => drop(self.pending.drain(..bytes)),
            Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Err(_) => self.broken = true,
        }
        self.settle(poller);
    }
}

/// Puts lines together and writes them.
#[derive(Debug)]
pub(crate) struct Printer {
    label: bool,
    sinks: [Sink; 2],
    files: BTreeMap<(u32, Stream), File>,
    partial: BTreeMap<(u32, Stream), Vec<u8>>,
    /// The first file that could not be written, and why.
    failure: Option<String>,
}

impl Printer {
    /// Prints as `display` says; tokens are those of standard output and error.
    pub(crate) fn new(display: &Display, ranks: u32, tokens: [u64; 2]) -> std::io::Result<Self> {
        let sinks =
            [Sink::new(std::io::stdout(), tokens[0])?, Sink::new(std::io::stderr(), tokens[1])?];
        let mut files = BTreeMap::new();
        if let Some(folder) = &display.folder {
            std::fs::create_dir_all(folder).map_err(|e| named(folder, &e))?;
            for rank in 0..ranks {
                for (stream, ending) in [(Stream::Output, "out"), (Stream::Errors, "err")] {
                    let path = folder.join(format!("rank-{rank}.{ending}"));
                    let file = File::create(&path).map_err(|e| named(&path, &e))?;
                    files.insert((rank, stream), file);
                }
            }
        }
        Ok(Self { label: display.label, sinks, files, partial: BTreeMap::new(), failure: None })
    }

    /// A rank wrote something.
    pub(crate) fn on_wrote(&mut self, poller: &Poller, rank: u32, stream: Stream, bytes: &[u8]) {
        if let Some(file) = self.files.get_mut(&(rank, stream)) {
            if let Err(e) = file.write_all(bytes) {
                self.failure
                    .get_or_insert_with(|| format!("what rank {rank} wrote is not kept: {e}"));
            }
            return;
        }
        let mut line = self.partial.remove(&(rank, stream)).unwrap_or_default();
        line.extend_from_slice(bytes);
        // A carriage return redraws a progress bar: it ends a piece that should be seen now.
        let is_end = |&byte: &u8| byte == b'\n' || (byte == b'\r' && !self.label);
        let cut = line.iter().rposition(is_end).map_or(0, |at| at + 1);
        let cut = if line.len() - cut > LONGEST_LINE { line.len() } else { cut };
        let rest = line.split_off(cut);
        if !rest.is_empty() {
            self.partial.insert((rank, stream), rest);
        }
        self.queue(rank, stream, &line);
        self.sink(stream).settle(poller);
    }

    /// No rank will write any more: shows lines without an end.
    pub(crate) fn finish(&mut self, poller: &Poller) {
        for ((rank, stream), line) in std::mem::take(&mut self.partial) {
            self.queue(rank, stream, &line);
            if self.label {
                self.sink(stream).pending.push(b'\n');
            }
        }
        self.sinks.iter_mut().for_each(|sink| sink.settle(poller));
    }

    /// Something the launcher itself says, after all that ranks said before.
    pub(crate) fn say(&mut self, poller: &Poller, stream: Stream, text: &str) {
        self.sink(stream).pending.extend_from_slice(visible(text).as_bytes());
        self.sink(stream).settle(poller);
    }

    pub(crate) fn on_writable(&mut self, poller: &Poller, stream: Stream) {
        self.sink(stream).on_writable(poller);
    }

    /// Whether so much waits that no more should be asked for.
    pub(crate) fn is_full(&self) -> bool {
        self.sinks.iter().any(|sink| sink.pending.len() > MOST)
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.sinks.iter().all(|sink| sink.pending.is_empty())
    }

    /// Whether nobody reads standard output any more.
    pub(crate) fn is_unread(&self) -> bool {
        self.sinks[0].broken
    }

    /// Throws away what waits: the user wants to leave now.
    pub(crate) fn give_up(&mut self, poller: &Poller) {
        for sink in &mut self.sinks {
            sink.pending.clear();
            sink.settle(poller);
        }
    }

    /// The first file that could not be written, and why.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    fn sink(&mut self, stream: Stream) -> &mut Sink {
        &mut self.sinks[usize::from(stream == Stream::Errors)]
    }

    fn queue(&mut self, rank: u32, stream: Stream, lines: &[u8]) {
        let label = self.label;
        let pending = &mut self.sink(stream).pending;
        if !label {
            pending.extend_from_slice(lines);
            return;
        }
        for line in lines.split_inclusive(|&byte| byte == b'\n') {
            pending.extend_from_slice(format!("[{rank}] ").as_bytes());
            pending.extend_from_slice(line);
        }
    }
}

fn named(path: &Path, error: &std::io::Error) -> std::io::Error {
    std::io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))
}
