//! Intake of streams: rank 0 reads pipes, FIFOs and standard input to their end and copies them to
//! the scratch folder, where all ranks find them. Records that are made go the same way.
//!
//! A copy has no name while it is written, if the file system supports that. It has one only from
//! the end of its stream until every rank has opened it, so a killed sort leaves it in that moment
//! at most; [`crate::output::sweep`] removes it then.

use crate::exchange::{Exchange, agree};
use crate::gensort;
use crate::input::Input;
use crate::output::shown;
use crate::progress::Progress;
use crate::record::{RECORD, RecordSum};
use crate::room;
use crate::spec::Spec;
use anyhow::{Context, Result, bail};
use clump_os::clock;
use clump_os::file::{BLOCK, DiskFile};
use clump_os::memory::Aligned;
use clump_os::stream::{ByteStream, FileKind};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes of a write: whole blocks and whole records at once (25 x 4,096 = 1,024 x 100).
const CHUNK: usize = 25 * BLOCK;
/// Time that rank 0 waits for a stream before it serves the other ranks.
const WAIT: Duration = Duration::from_millis(100);
/// Number of waits without a byte, after which rank 0 reports to the user what it waits for.
const WAITS_BEFORE_NOTE: u32 = 10;
/// Bytes of a stream between two checks of the free disk space.
const LOOK_EVERY: u64 = 64 << 20;
/// Context of the kernel's refusals.
const CONTEXT: &str = "the input cannot be read: check its name and its permissions";

/// Inputs as all ranks can open them.
#[derive(Debug)]
pub struct Intake {
    /// Files of records, in the order of the inputs.
    pub files: Vec<PathBuf>,
    /// Contents of the streams; `None` if there are none.
    pub streamed: Option<Streamed>,
    /// On rank 0: copies whose names are removed with this value.
    _copies: Vec<SpoolFile>,
}

/// Contents of the streams, as rank 0 read them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Streamed {
    /// Numbers of the inputs that are streams, and the records of each.
    pub inputs: Vec<(usize, u64)>,
    /// Sum of the CRC-32s of their records, in hexadecimal.
    pub checksum: String,
    /// Seconds that reading them took.
    pub seconds: f64,
    /// True if all inputs are streams.
    pub everything: bool,
}

impl Streamed {
    /// Returns the number of records of all streams.
    pub fn records(&self) -> u64 {
        self.inputs.iter().map(|(_, records)| records).sum()
    }
}

/// Returns true if `path` is standard input, which only rank 0 has.
pub fn is_standard_input(path: &Path) -> bool {
    ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"].iter().any(|name| path == Path::new(name))
}

impl Intake {
    /// Reads the streams among the inputs to their end, on rank 0. Collective. `ready` makes the
    /// folders before anything is written to them.
    ///
    /// # Errors
    /// Fails if an input is neither a file of records nor a stream, if a stream ends inside a
    /// record, or if the disk has too little room.
    pub fn take(
        exchange: &mut dyn Exchange,
        spec: &Spec,
        scratch: &Path,
        progress: &mut dyn Progress,
        ready: impl FnOnce() -> Result<()>,
    ) -> Result<Self> {
        let taken = if exchange.rank() == 0 {
            let taken = match spec.made {
                Some(records) => make_records(records, spec, scratch, progress, ready),
                None => take_streams(exchange, spec, scratch, progress, ready),
            };
            taken.map_err(room::explain).and_then(|(streamed, copies)| {
                Ok((serde_json::to_vec(&streamed).context("writing JSON")?, copies))
            })
        } else {
            Ok((Vec::new(), Vec::new()))
        };
        let (said, copies) = match taken {
            Ok((said, copies)) => (Ok(said), copies),
            Err(error) => (Err(error), Vec::new()),
        };
        let all = agree(exchange, said)?;
        let first = all.first().map_or(&[][..], Vec::as_slice);
        let streamed: Option<Streamed> =
            serde_json::from_slice(first).context("rank 0's report of the streams is no JSON")?;
        let held = |number: usize| {
            let inputs = streamed.iter().flat_map(|s| &s.inputs);
            inputs.filter(|(input, _)| *input == number).map(|(_, records)| *records).next()
        };
        // Made records are one input, without a path of its own.
        let inputs = if spec.made.is_some() { 1 } else { spec.inputs.len() };
        let files = (0..inputs).filter_map(|number| match held(number) {
            None => spec.inputs.get(number).cloned(),
            Some(0) => None,
            Some(_) => Some(scratch.join(copy_name(number))),
        });
        Ok(Self { files: files.collect(), streamed, _copies: copies })
    }
}

fn copy_name(number: usize) -> String {
    format!(".stream-{number:05}.partial")
}

/// The copy of a stream. Its name is removed when this is dropped.
#[derive(Debug)]
struct SpoolFile {
    file: DiskFile,
    path: PathBuf,
    named: bool,
}

impl SpoolFile {
    fn create(folder: &Path, number: usize, direct: bool) -> Result<Self> {
        let path = folder.join(copy_name(number));
        // Removes a file left by a killed run, if any.
        let _ = std::fs::remove_file(&path);
        let (file, named) = match DiskFile::unnamed(folder, direct)? {
            Some(file) => (file, false),
            None => (DiskFile::create(&path, direct)?, true),
        };
        Ok(Self { file, path, named })
    }

    /// Truncates it to `bytes` and names it, so that the other ranks find it.
    fn finish(&mut self, bytes: u64) -> Result<()> {
        self.file.truncate(bytes)?;
        if !self.named {
            self.file.link(&self.path)?;
            self.named = true;
        }
        Ok(())
    }
}

impl Drop for SpoolFile {
    fn drop(&mut self) {
        if self.named {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

type Spooled = (Option<Streamed>, Vec<SpoolFile>);

/// Makes records in the place of a stream's copy.
fn make_records(
    records: u64,
    spec: &Spec,
    scratch: &Path,
    progress: &mut dyn Progress,
    ready: impl FnOnce() -> Result<()>,
) -> Result<Spooled> {
    ready()?;
    let begin = clock::now_ns();
    let bytes = records * RECORD as u64;
    room::one_disk(scratch, bytes, "the records to sort")?;
    progress.phase("make records", 0);
    let mut copy = SpoolFile::create(scratch, 0, spec.direct)?;
    let sum = gensort::fill(&copy.file, records)?;
    copy.finish(bytes)?;
    let streamed = Streamed {
        inputs: vec![(0, records)],
        checksum: sum.hex(),
        seconds: (clock::now_ns() - begin) as f64 / 1e9,
        everything: true,
    };
    Ok((Some(streamed), vec![copy]))
}

fn take_streams(
    exchange: &mut dyn Exchange,
    spec: &Spec,
    scratch: &Path,
    progress: &mut dyn Progress,
    ready: impl FnOnce() -> Result<()>,
) -> Result<Spooled> {
    if spec.inputs.is_empty() {
        bail!("no input given: name at least one file with --input");
    }
    if spec.inputs.iter().filter(|path| is_standard_input(path)).count() > 1 {
        bail!("standard input is named twice: it can be read once");
    }
    let mut streams = Vec::new();
    for (number, path) in spec.inputs.iter().enumerate() {
        if let Some(stream) = stream_at(path)? {
            streams.push((number, stream));
        }
    }
    if streams.is_empty() {
        return Ok((None, Vec::new()));
    }
    ready()?;
    let begin = clock::now_ns();
    progress.phase("take in the stream", 0);
    let mut streamed =
        Streamed { everything: streams.len() == spec.inputs.len(), ..Streamed::default() };
    let (mut copies, mut total, mut sum) = (Vec::new(), 0, RecordSum::default());
    for (number, stream) in streams {
        let mut reader = Reader {
            exchange,
            progress,
            output: &spec.output,
            before: total,
            sum: &mut sum,
            silent_waits: 0,
        };
        let create = || SpoolFile::create(scratch, number, spec.direct);
        let mut bytes = 0;
        if let Some((mut copy, held)) = reader.copy(&stream, create)? {
            copy.finish(held)?;
            copies.push(copy);
            bytes = held;
        }
        total += bytes;
        streamed.inputs.push((number, bytes / RECORD as u64));
    }
    streamed.checksum = sum.hex();
    streamed.seconds = (clock::now_ns() - begin) as f64 / 1e9;
    Ok((Some(streamed), copies))
}

/// Opens the stream at `path`; returns `None` for a file with a size, which is read at offsets.
fn stream_at(path: &Path) -> Result<Option<ByteStream>> {
    let name = shown(path);
    let kind = match is_standard_input(path) {
        true => None,
        false => Some(FileKind::of(path).context(CONTEXT)?),
    };
    let stream = match kind {
        None => ByteStream::standard_input().context("there is no standard input")?,
        Some(FileKind::Regular(1..) | FileKind::BlockDevice) => return Ok(None),
        Some(kind) => {
            refuse(kind, &name)?;
            ByteStream::open(path).context(CONTEXT)?
        }
    };
    refuse(stream.kind()?, &name)?;
    Ok(Some(stream))
}

/// Refuses a file whose kind is neither one of records nor a stream with an end.
fn refuse(kind: FileKind, name: &str) -> Result<()> {
    match kind {
        FileKind::Folder => {
            bail!("{name} is a folder: --input takes files of {RECORD}-byte records")
        }
        FileKind::Socket => {
            bail!("{name} is a socket: pipe its bytes into the sort, and name '-' as its input")
        }
        FileKind::Terminal => bail!("{name} is a terminal: pipe records into the sort"),
        FileKind::MemoryDevice => bail!(
            "{name} is a device without records (/dev/null) or without an end (/dev/zero): name files, \
             or pipe records into the sort"
        ),
        _ => Ok(()),
    }
}

/// Checks an input of another process, and takes nothing from it if it is a stream.
///
/// # Errors
/// Fails if the input does not exist, may not be read, or holds no records.
pub fn check_input(path: &Path) -> Result<()> {
    if is_standard_input(path) {
        return Ok(());
    }
    let kind = FileKind::of(path).context(CONTEXT)?;
    refuse(kind, &shown(path))?;
    match kind {
        FileKind::Regular(1..) | FileKind::BlockDevice => {
            Input::open(&[path.into()], false).map(drop)
        }
        FileKind::Regular(0) => DiskFile::open(path, false).map(drop).context(CONTEXT),
        // The opening of a FIFO could be seen by its writer.
        _ => Ok(()),
    }
}

/// The context of reading a stream.
struct Reader<'a> {
    exchange: &'a mut dyn Exchange,
    progress: &'a mut dyn Progress,
    /// Folder of the sorted files.
    output: &'a Path,
    /// Bytes of the streams before this one.
    before: u64,
    sum: &'a mut RecordSum,
    /// Waits without a byte.
    silent_waits: u32,
}

impl Reader<'_> {
    /// Copies `stream` to the file that `create` makes, if it has any bytes; returns the file and
    /// its length.
    fn copy(
        &mut self,
        stream: &ByteStream,
        create: impl FnOnce() -> Result<SpoolFile>,
    ) -> Result<Option<(SpoolFile, u64)>> {
        let mut buffer = Aligned::new(CHUNK)?;
        let mut filled = self.fill(stream, &mut buffer)?;
        let (mut bytes, mut looked) = (0, 0);
        if filled == 0 {
            return Ok(None);
        }
        let target = create()?;
        while filled > 0 {
            let cut = filled % RECORD;
            if cut > 0 {
                bail!(
                    "{} ended after {} bytes, {cut} more than whole records of {RECORD}: it was cut off \
                     or is not in gensort's format",
                    stream.name(),
                    bytes + filled as u64
                );
            }
            buffer[..filled].chunks_exact(RECORD).for_each(|record| self.sum.add(record));
            target.file.write_at(&buffer[..filled.next_multiple_of(BLOCK)], bytes)?;
            bytes += filled as u64;
            self.progress.advance(filled as u64);
            if bytes - looked >= LOOK_EVERY {
                looked = bytes;
                room::check_stream(stream.name(), self.output, self.before + bytes)?;
            }
            filled = if filled < CHUNK { 0 } else { self.fill(stream, &mut buffer)? };
        }
        debug_assert!(bytes.is_multiple_of(RECORD as u64), "only whole records are kept");
        Ok(Some((target, bytes)))
    }

    /// Fills `into`, less only at the end of the stream. Serves the other ranks while no bytes
    /// arrive.
    fn fill(&mut self, stream: &ByteStream, into: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < into.len() {
            if stream.wait(WAIT)? {
                match stream.read(&mut into[filled..])? {
                    Some(0) => break,
                    Some(n) => filled += n,
                    None => {}
                }
            } else {
                self.exchange.progress()?;
                self.silent_waits += 1;
                if self.silent_waits == WAITS_BEFORE_NOTE {
                    let name = stream.name();
                    self.progress.note(&format!(
                        "the sort waits for what is written to {name}, until its end; Ctrl-C ends it"
                    ));
                }
            }
        }
        self.exchange.progress()?;
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Silent;
    use crate::threads;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_copy_that_finds_the_disk_full_says_so() {
        let (pipe, mut writer) = std::io::pipe().unwrap();
        writer.write_all(&[7; 200]).unwrap();
        drop(writer);
        let path = PathBuf::from(format!("/proc/self/fd/{}", pipe.as_raw_fd()));
        let told = threads::run(1, |mut rank| {
            let stream = ByteStream::open(&path).unwrap();
            let mut reader = Reader {
                exchange: &mut rank,
                progress: &mut Silent,
                output: Path::new("/tmp"),
                before: 0,
                sum: &mut RecordSum::default(),
                silent_waits: 0,
            };
            let full = || {
                let path = PathBuf::from("/dev/full");
                Ok(SpoolFile { file: DiskFile::open_existing(&path)?, path, named: false })
            };
            format!("{:#}", room::explain(reader.copy(&stream, full).unwrap_err()))
        });
        assert!(told[0].contains("filled up") && told[0].contains("/dev/full"), "{told:?}");
    }

    #[test]
    fn names_of_standard_input_are_known() {
        assert!(is_standard_input(Path::new("-")) && is_standard_input(Path::new("/dev/stdin")));
        assert!(!is_standard_input(Path::new("./-")));
    }
}
