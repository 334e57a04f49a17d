//! Output of ranks onto the launcher's streams: whole lines, never blocking the launcher.
//!
//! Other processes use the launcher's streams too, so they stay blocking, and threads write to
//! them ([`Writer`]): one thread where both streams are one pipe, terminal or file, so that their
//! order is kept, else one each, so that errors are shown though the output is not read.

use crate::display::Display;
use crate::frame::Stream;
use clump_os::OsError;
use clump_os::alarm::Alarm;
use clump_os::file::is_same;
use clump_os::folder::Folder;
use clump_os::printable::printable_lines;
use clump_os::writer::Writer;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// Waiting bytes above which no more should be read.
const MAX_COUNT: usize = 256 << 10;
/// Longest line that is shown whole; a longer one is shown in parts.
const LONGEST_LINE: usize = 64 << 10;

/// One of the launcher's streams: a writer, and the index of its target.
#[derive(Debug, Clone)]
struct OutputStream {
    writer: Arc<Writer>,
    target: usize,
}

impl OutputStream {
    fn write(&self, bytes: &[u8]) {
        self.writer.write(self.target, bytes);
    }

    fn failure(&self, what: &str) -> Option<OsError> {
        let errno = self.writer.failure(self.target)?;
        Some(OsError::new(format!("{what} cannot be written"), errno))
    }
}

/// Returns the launcher's output and error streams.
fn own_streams(bell: &Arc<Alarm>) -> anyhow::Result<[OutputStream; 2]> {
    let output: OwnedFd = std::io::stdout().as_fd().try_clone_to_owned()?;
    let errors: OwnedFd = std::io::stderr().as_fd().try_clone_to_owned()?;
    let start =
        |targets| Ok::<_, OsError>(Arc::new(Writer::start(targets, MAX_COUNT, bell.clone())?));
    if is_same(&output, &errors) {
        let writer = start(vec![output, errors])?;
        return Ok([0, 1].map(|target| OutputStream { writer: writer.clone(), target }));
    }
    let (output, errors) = (start(vec![output])?, start(vec![errors])?);
    Ok([output, errors].map(|writer| OutputStream { writer, target: 0 }))
}

/// The files of a folder, one per rank and stream, and their writer.
#[derive(Debug)]
struct Files {
    writer: Writer,
    places: BTreeMap<(u32, Stream), usize>,
}

/// Assembles lines and writes them.
#[derive(Debug)]
pub(crate) struct Printer {
    label: bool,
    bell: Arc<Alarm>,
    sinks: [OutputStream; 2],
    files: Option<Files>,
    partial: BTreeMap<(u32, Stream), Vec<u8>>,
}

impl Printer {
    /// Prints as `display` says. Signals that other threads must not get have been blocked.
    pub(crate) fn new(display: &Display, ranks: u32) -> anyhow::Result<Self> {
        let bell = Arc::new(Alarm::new()?);
        let sinks = own_streams(&bell)?;
        let files = display.folder.as_deref().map(|folder| Files::create(folder, ranks, &bell));
        let files = files.transpose()?;
        Ok(Self { label: display.label, bell, sinks, files, partial: BTreeMap::new() })
    }

    /// Returns the alarm that is raised when there is room again, when nothing waits, and when a
    /// stream has failed.
    pub(crate) fn bell(&self) -> &Alarm {
        &self.bell
    }

    /// Takes output of a rank.
    pub(crate) fn on_wrote(&mut self, rank: u32, stream: Stream, bytes: &[u8]) {
        if let Some(files) = &self.files {
            if let Some(&place) = files.places.get(&(rank, stream)) {
                files.writer.write(place, bytes);
            }
            return;
        }
        let mut line = self.partial.remove(&(rank, stream)).unwrap_or_default();
        line.extend_from_slice(bytes);
        // A carriage return redraws a progress bar: it ends a part that should be seen now.
        let is_end = |&byte: &u8| byte == b'\n' || (byte == b'\r' && !self.label);
        let cut = line.iter().rposition(is_end).map_or(0, |at| at + 1);
        let cut = if line.len() - cut > LONGEST_LINE { line.len() } else { cut };
        let rest = line.split_off(cut);
        if !rest.is_empty() {
            self.partial.insert((rank, stream), rest);
        }
        self.queue(rank, stream, &line);
    }

    /// Shows lines without an end: no rank will write any more.
    pub(crate) fn finish(&mut self) {
        for ((rank, stream), mut line) in std::mem::take(&mut self.partial) {
            if self.label {
                line.push(b'\n');
            }
            self.queue(rank, stream, &line);
        }
    }

    /// Writes a text of the launcher itself, after all output that ranks wrote before.
    pub(crate) fn say(&self, stream: Stream, text: &str) {
        self.sink(stream).write(printable_lines(text).as_bytes());
    }

    /// Returns true if so much waits that no more should be read.
    pub(crate) fn is_full(&self) -> bool {
        self.writers().any(|writer| writer.pending() > MAX_COUNT)
    }

    /// Returns true if nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.writers().all(|writer| writer.pending() == 0)
    }

    /// Returns the reason why a stream of the launcher cannot be written any more.
    pub(crate) fn failure(&self, stream: Stream) -> Option<OsError> {
        let name = if stream == Stream::Output { "standard output" } else { "standard error" };
        self.sink(stream).failure(name)
    }

    /// Discards waiting output: the user wants to leave now.
    pub(crate) fn give_up(&self) {
        self.writers().for_each(Writer::discard);
    }

    /// Returns the first rank whose file could not be written, and the reason.
    pub(crate) fn file_failure(&self) -> Option<String> {
        let files = self.files.as_ref()?;
        let mut failed = files.places.iter().filter_map(|((rank, _), &place)| {
            let errno = files.writer.failure(place)?;
            Some(OsError::new(format!("what rank {rank} wrote is not kept"), errno).to_string())
        });
        failed.next()
    }

    fn writers(&self) -> impl Iterator<Item = &Writer> {
        let own = self.sinks.iter().map(|sink| &*sink.writer);
        own.chain(self.files.iter().map(|files| &files.writer))
    }

    fn sink(&self, stream: Stream) -> &OutputStream {
        &self.sinks[usize::from(stream == Stream::Errors)]
    }

    fn queue(&self, rank: u32, stream: Stream, lines: &[u8]) {
        if !self.label {
            return self.sink(stream).write(lines);
        }
        let mut labelled = Vec::with_capacity(lines.len() + lines.len() / 4);
        for line in lines.split_inclusive(|&byte| byte == b'\n') {
            labelled.extend_from_slice(format!("[{rank}] ").as_bytes());
            labelled.extend_from_slice(line);
        }
        self.sink(stream).write(&labelled);
    }
}

impl Files {
    fn create(folder: &Path, ranks: u32, bell: &Arc<Alarm>) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder).map_err(|e| named(folder, &e))?;
        let opened = Folder::open(folder)?;
        let (mut places, mut targets) = (BTreeMap::new(), Vec::new());
        for rank in 0..ranks {
            for (stream, ending) in [(Stream::Output, "out"), (Stream::Errors, "err")] {
                let file = opened.write(&format!("rank-{rank}.{ending}"));
                let file = file.map_err(|e| anyhow::anyhow!("{e} (--output)"))?;
                places.insert((rank, stream), targets.len());
                targets.push(OwnedFd::from(file));
            }
        }
        Ok(Self { writer: Writer::start(targets, MAX_COUNT, bell.clone())?, places })
    }
}

fn named(path: &Path, error: &std::io::Error) -> OsError {
    OsError::of(format!("cannot write {}", path.display()), error)
}
