//! The `gensort` command: makes input for a sort, in parallel by ranges of records.

use crate::generate::{Generator, Keys};
use crate::output::shown;
use crate::record::{MAX_RECORDS, RECORD, RecordSum};
use anyhow::{Context, Result, bail};
use clap::Args;
use clump_app_frame::size::show_bytes;
use clump_os::file::{BLOCK, DiskFile, free_bytes, sync_dir};
use clump_os::memory::Aligned;
use clump_os::sync::{AtomicU64, Ordering};
use clump_os::{clock, console, thread};
use schemars::JsonSchema;
use serde::Serialize;
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Records of a range: whole records and whole blocks at once (25,600 x 100 = 625 x 4,096 bytes).
const RANGE: u64 = 25_600;
/// Most threads of a rank that make records.
const MAX_MAKERS: usize = 4;

/// Make records in the format of the sort benchmarks: 100 bytes, of which 10 are the key.
///
/// Without --skew and --distinct the bytes are those of gensort 1.5 (ordinal.com/gensort.html).
#[derive(Debug, Clone, Args)]
pub struct GensortArgs {
    /// Number of records, of 100 bytes each
    pub records: u64,
    /// File to write; '-' is standard output, and /dev/null only computes the checksum
    pub output: PathBuf,
    /// Number of the first record
    #[arg(short = 'b', long, default_value_t = 0, value_name = "RECORD")]
    pub begin: u64,
    /// Skewed keys, as gensort -s: three quarters of the keys share up to 48 leading bits
    #[arg(short = 's', long, conflicts_with = "distinct")]
    pub skew: bool,
    /// At most this many different keys (1: all equal)
    #[arg(long, value_name = "KEYS", value_parser = clap::value_parser!(u64).range(1..))]
    pub distinct: Option<u64>,
    /// Threads [default: one per core]
    #[arg(short = 't', long, value_name = "THREADS")]
    pub threads: Option<usize>,
    /// Replace an existing file
    #[arg(long)]
    pub force: bool,
    /// Write through the page cache instead of bypassing it
    #[arg(long)]
    pub buffered: bool,
    /// Print a summary as JSON
    #[arg(long)]
    pub json: bool,
}

/// A summary of the generated records.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Made {
    /// Number of the format.
    pub format: u32,
    /// Records.
    pub records: u64,
    /// Bytes.
    pub bytes: u64,
    /// Sum of the records' CRC-32s, in hexadecimal, as `gensort -c` prints it.
    pub checksum: String,
    /// Seconds it took.
    pub seconds: f64,
}

/// Makes the file and prints a summary, on standard error if standard output has the records.
///
/// # Errors
/// Fails if the file cannot be made or the summary cannot be printed.
pub fn run(args: &GensortArgs) -> Result<()> {
    let made = make(args)?;
    let summary = if args.json {
        serde_json::to_string(&made).context("writing JSON")?
    } else {
        format!(
            "{} records ({}) in {:.2} s: {}/s\nchecksum: {}",
            made.records,
            show_bytes(made.bytes),
            made.seconds,
            show_bytes((made.bytes as f64 / made.seconds.max(1e-9)) as u64),
            made.checksum
        )
    };
    if is_standard_output(&args.output) {
        console::err(&summary);
    } else {
        console::out(&format!("{summary}\n"))?;
    }
    Ok(())
}

fn is_standard_output(path: &Path) -> bool {
    ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|name| path == Path::new(name))
}

/// Makes the file; on any error there is none.
///
/// # Errors
/// Fails if the options are invalid or the file cannot be written.
pub fn make(args: &GensortArgs) -> Result<Made> {
    let begin = clock::now_ns();
    let end = args.begin.checked_add(args.records).filter(|&end| end < MAX_RECORDS);
    if end.is_none() {
        bail!("record numbers end at 2^48: ask for fewer records or a smaller --begin");
    }
    let keys = match (args.skew, args.distinct) {
        (true, _) => Keys::Skewed,
        (false, Some(count)) => Keys::Distinct(count),
        (false, None) => Keys::Uniform,
    };
    let threads = args.threads.unwrap_or_else(cores).clamp(1, 256);
    let bytes = args.records * RECORD as u64;
    let work = Work { keys, begin: args.begin, records: args.records, next: AtomicU64::new(0) };
    let target = &args.output;
    let sum = if is_standard_output(target) {
        if std::io::stdout().is_terminal() {
            bail!("records are no text for a terminal: name a file, or pipe them on");
        }
        work.stream(&mut std::io::stdout().lock(), "standard output")?
    } else if target == Path::new("/dev/null") {
        work.run(threads, None)?
    } else if std::fs::metadata(target).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        // A FIFO or a device takes records in order, and must not be replaced by a file.
        let open = std::fs::OpenOptions::new().write(true).open(target);
        let mut open = open.with_context(|| format!("opening {}", shown(target)))?;
        work.stream(&mut open, &shown(target))?
    } else {
        write_file(args, &work, threads, bytes)?
    };
    let seconds = (clock::now_ns() - begin) as f64 / 1e9;
    let format = console::JSON_FORMAT;
    Ok(Made { format, records: args.records, bytes, checksum: sum.hex(), seconds })
}

/// Fills `file` with the first records of all, in as few threads as use little memory.
///
/// # Errors
/// Fails if the file cannot be written.
pub(crate) fn fill(file: &DiskFile, records: u64) -> Result<RecordSum> {
    file.reserve(0, records * RECORD as u64)?;
    first_records(records).run(cores().min(MAX_MAKERS), Some(file))
}

/// Returns the sum of the CRC-32s of the first records of all, without writing them.
///
/// # Errors
/// Fails if a thread cannot be started.
pub(crate) fn sum_of(records: u64) -> Result<RecordSum> {
    first_records(records).run(cores().min(MAX_MAKERS), None)
}

fn first_records(records: u64) -> Work {
    Work { keys: Keys::Uniform, begin: 0, records, next: AtomicU64::new(0) }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn write_file(args: &GensortArgs, work: &Work, threads: usize, bytes: u64) -> Result<RecordSum> {
    let target = &args.output;
    if target.exists() && !args.force {
        bail!("{} exists: choose another name or give --force", shown(target));
    }
    let folder = match target.parent() {
        Some(parent) if parent != Path::new("") => parent.to_path_buf(),
        _ => PathBuf::from("."),
    };
    let free = free_bytes(&folder)
        .with_context(|| format!("the folder {} cannot be used: does it exist?", shown(&folder)))?;
    if free < bytes {
        bail!(
            "the disk of {} has {} free, the records take {}: free some room or make fewer",
            shown(&folder),
            show_bytes(free),
            show_bytes(bytes)
        );
    }
    let Some(name) = target.file_name() else {
        bail!("{} is no name of a file", shown(target));
    };
    // The name as bytes, since it need not be text: two that differ must not share one.
    let mut partial = OsString::from(".");
    partial.push(name);
    partial.push(".partial");
    let partial = folder.join(partial);
    let _ = std::fs::remove_file(&partial);
    let made = (|| -> Result<RecordSum> {
        let file = DiskFile::create(&partial, !args.buffered)?;
        file.reserve(0, bytes)?;
        let sum = work.run(threads, Some(&file))?;
        file.truncate(bytes)?;
        file.sync()?;
        std::fs::rename(&partial, target).with_context(|| format!("naming {}", shown(target)))?;
        sync_dir(&folder)?;
        Ok(sum)
    })();
    if made.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    made
}

/// Ranges of records, taken by threads in turn.
struct Work {
    keys: Keys,
    begin: u64,
    records: u64,
    next: AtomicU64,
}

impl Work {
    fn run(&self, threads: usize, file: Option<&DiskFile>) -> Result<RecordSum> {
        std::thread::scope(|scope| {
            // If one thread cannot be started, the others do all the work before the error is
            // returned.
            let start = |_| thread::spawn_scoped(scope, "gensort", || self.ranges(file));
            let hands: Vec<_> = (0..threads).map(start).collect::<Result<_, _>>()?;
            let mut sum = RecordSum::default();
            for hand in hands {
                sum.merge(hand.join().unwrap_or_else(|e| std::panic::resume_unwind(e))?);
            }
            Ok(sum)
        })
    }

    /// Writes all records in order to a file that cannot be written at offsets.
    fn stream(&self, into: &mut dyn Write, name: &str) -> Result<RecordSum> {
        let mut buffer = Aligned::new(RANGE as usize * RECORD)?;
        let mut generator = Generator::new(self.keys, self.begin);
        let (mut sum, mut left) = (RecordSum::default(), self.records);
        while left > 0 {
            let bytes = RANGE.min(left) as usize * RECORD;
            for record in buffer[..bytes].chunks_exact_mut(RECORD) {
                generator.next_record(record);
                sum.add(record);
            }
            into.write_all(&buffer[..bytes]).with_context(|| format!("writing to {name}"))?;
            left -= RANGE.min(left);
        }
        into.flush().with_context(|| format!("writing to {name}"))?;
        Ok(sum)
    }

    fn ranges(&self, file: Option<&DiskFile>) -> Result<RecordSum> {
        let mut buffer = Aligned::new(RANGE as usize * RECORD)?;
        let mut sum = RecordSum::default();
        loop {
            let first = self.next.fetch_add(1, Ordering::Relaxed) * RANGE;
            if first >= self.records {
                return Ok(sum);
            }
            let count = RANGE.min(self.records - first);
            let bytes = count as usize * RECORD;
            let mut generator = Generator::new(self.keys, self.begin + first);
            for record in buffer[..bytes].chunks_exact_mut(RECORD) {
                generator.next_record(record);
                sum.add(record);
            }
            if let Some(file) = file {
                file.write_at(&buffer[..bytes.next_multiple_of(BLOCK)], first * RECORD as u64)?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsRawFd;

    fn args(records: u64, output: PathBuf) -> GensortArgs {
        GensortArgs {
            records,
            output,
            begin: 0,
            skew: false,
            distinct: None,
            threads: Some(3),
            force: false,
            buffered: false,
            json: false,
        }
    }

    #[test]
    fn parts_made_apart_are_the_whole() {
        let dir = crate::test_dir("gensort");
        let whole = make(&args(60_001, dir.join("whole"))).unwrap();
        assert_eq!(whole.bytes, 6_000_100);
        make(&args(30_000, dir.join("a"))).unwrap();
        make(&GensortArgs { begin: 30_000, threads: Some(1), ..args(30_001, dir.join("b")) })
            .unwrap();
        let read = |name: &str| std::fs::read(dir.join(name)).unwrap();
        assert!([read("a"), read("b")].concat() == read("whole"));
        let summed = make(&args(60_001, "/dev/null".into())).unwrap();
        assert_eq!(summed.checksum, whole.checksum);
        let (mut reader, writer) = std::io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
        let streamed = std::thread::scope(|scope| {
            let maker = scope.spawn(|| {
                let made = make(&args(60_001, path.into())).unwrap();
                drop(writer);
                made
            });
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).unwrap();
            assert!(bytes == read("whole"), "a pipe gets the same records, in order");
            maker.join().unwrap()
        });
        assert_eq!(streamed.checksum, whole.checksum);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn what_cannot_be_made_leaves_nothing() {
        let dir = crate::test_dir("gensort-refused");
        make(&args(10, dir.join("x"))).unwrap();
        assert!(make(&args(10, dir.join("x"))).unwrap_err().to_string().contains("--force"));
        let told = make(&args(1 << 47, dir.join("big"))).unwrap_err().to_string();
        assert!(told.contains("free some room"), "{told}");
        assert!(make(&args(1 << 50, dir.join("big"))).is_err());
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
