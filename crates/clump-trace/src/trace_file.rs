//! Files of traces: their layout and faults.

use std::io::Read;
use std::path::{Path, PathBuf};

/// Words in front of the events; a page.
pub(crate) const HEADER_WORDS: usize = 512;
/// Bytes of the header.
pub(crate) const HEADER_BYTES: u64 = HEADER_WORDS as u64 * 8;
/// First word of a file.
const MAGIC: u64 = u64::from_le_bytes(*b"clumptrc");
/// Version of the layout.
const VERSION: u64 = 2;
/// Words of the header that have a meaning.
const FIELDS: usize = 11;

/// Positions of the header's words that change while a rank runs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HeaderWord {
    /// Node of the rank.
    Node = 4,
    /// Events that were noted, those without room included.
    Claimed = 6,
    /// Time at which the trace begins.
    Start = 7,
    /// Time at which the rank left.
    End = 10,
}

/// Returns the name of a rank's file.
pub fn file_name(rank: u32) -> String {
    format!("rank-{rank:05}.trace")
}

/// Returns true if a file has the name of a rank's trace.
pub fn is_trace(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let number = name.and_then(|name| name.strip_prefix("rank-")?.strip_suffix(".trace"));
    number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Facts about a rank's trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TraceHeader {
    /// The rank.
    pub rank: u32,
    /// Ranks of its job.
    pub ranks: u32,
    /// Node of the rank.
    pub node: u32,
    /// Events that have room.
    pub capacity: u64,
    /// Events noted so far.
    pub claimed: u64,
    /// Time of the rank's monotonic clock at which its trace begins, in ns.
    pub start_ns: u64,
    /// Time of day at that moment, in ns since 1970.
    pub real_ns: u64,
    /// Number of the clock: equal where two ranks read one.
    pub clock: u64,
    /// Time at which the rank left, since the trace began, in ns; 0: it did not.
    pub end_ns: u64,
}

impl TraceHeader {
    pub(crate) fn to_words(self) -> [u64; FIELDS] {
        let Self { rank, ranks, node, capacity, claimed, start_ns, real_ns, clock, end_ns } = self;
        let [rank, ranks, node] = [rank, ranks, node].map(u64::from);
        [MAGIC, VERSION, rank, ranks, node, capacity, claimed, start_ns, real_ns, clock, end_ns]
    }

    /// Reads the header of a trace of `length` bytes.
    pub(crate) fn read(from: &mut impl Read, length: u64) -> Result<Self, TraceFault> {
        let mut bytes = [0; HEADER_WORDS * 8];
        if length < bytes.len() as u64 {
            return Err(TraceFault::NoTrace);
        }
        let read = from.read_exact(&mut bytes);
        read.map_err(|e| TraceFault::Unreadable(e.to_string()))?;
        let mut words = [0; FIELDS];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        Self::of_words(words)
    }

    fn of_words(words: [u64; FIELDS]) -> Result<Self, TraceFault> {
        let [
            magic,
            version,
            rank,
            ranks,
            node,
            capacity,
            claimed,
            start_ns,
            real_ns,
            clock,
            end_ns,
        ] = words;
        if magic != MAGIC {
            return Err(TraceFault::NoTrace);
        }
        if version != VERSION {
            return Err(TraceFault::Version(version));
        }
        let number = |word: u64| u32::try_from(word).map_err(|_| TraceFault::Header);
        let [rank, ranks, node] = [number(rank)?, number(ranks)?, number(node)?];
        if rank >= ranks {
            return Err(TraceFault::Header);
        }
        Ok(Self { rank, ranks, node, capacity, claimed, start_ns, real_ns, clock, end_ns })
    }
}

/// The reason for which a file is no trace that can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TraceFault {
    /// The file cannot be read.
    Unreadable(String),
    /// No trace: the beginning differs.
    NoTrace,
    /// Another version of clump wrote it.
    Version(u64),
    /// Contradictory header.
    Header,
    /// End of the file before the last event.
    Truncated {
        /// Events that are there.
        found: u64,
        /// Events that were noted.
        noted: u64,
    },
    /// Words that are no event.
    Event {
        /// Place of the event, from 0.
        at: u64,
    },
    /// The folder has no traces, or not one for each rank.
    Missing(String),
    /// The file is that of another rank or job.
    OtherJob(String),
}

impl std::fmt::Display for TraceFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreadable(why) => f.write_str(why),
            Self::NoTrace => f.write_str("no trace of clump (clump run --trace writes them)"),
            Self::Version(version) => {
                write!(
                    f,
                    "a trace of version {version}, written by another build of clump; this \
                           one reads version {VERSION}"
                )
            }
            Self::Header => f.write_str("the header of this trace is damaged"),
            Self::Truncated { found, noted } => {
                write!(f, "this trace ends after {found} of {noted} events: the file was cut")
            }
            Self::Event { at } => write!(f, "event {at} of this trace is damaged"),
            Self::Missing(what) => f.write_str(what),
            Self::OtherJob(what) => write!(f, "this trace is of {what}, so of another job"),
        }
    }
}

/// An error about one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceError {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub fault: TraceFault,
}

impl std::fmt::Display for TraceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.fault)
    }
}

impl std::error::Error for TraceError {}
