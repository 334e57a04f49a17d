//! Files of traces: their layout, and their reader.

use crate::event::TraceEvent;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// Words in front of the events; a page.
pub(crate) const HEADER_WORDS: usize = 512;
/// First word of a file.
const MAGIC: u64 = u64::from_le_bytes(*b"clumptrc");
/// Version of the layout.
const VERSION: u64 = 1;
/// Words of the header that have a meaning.
const FIELDS: usize = 11;

/// Positions of the header's words that change while a rank runs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HeaderWord {
    /// Events that were noted, those without room included.
    Claimed = 6,
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
    /// Its node.
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
    /// It does not begin as a trace does.
    NoTrace,
    /// Another version of clump wrote it.
    Version(u64),
    /// Its header contradicts itself.
    Header,
    /// It ends before its last event.
    Truncated {
        /// Events that are there.
        found: u64,
        /// Events that were noted.
        noted: u64,
    },
    /// Words that are no event.
    Event {
        /// Their place, from 0.
        at: u64,
    },
    /// The folder has no traces, or not one for each rank.
    Missing(String),
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

/// The trace of one rank.
#[derive(Debug, Clone)]
pub struct RankTrace {
    /// Facts about it.
    pub header: TraceHeader,
    /// Its events by time.
    pub events: Vec<TraceEvent>,
    /// Events that a rank had begun to write when it died.
    pub unfinished: u64,
}

impl RankTrace {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, is no trace, or is damaged.
    pub fn read(path: &Path) -> Result<Self, TraceError> {
        let fault = |fault| TraceError { path: path.into(), fault };
        let unreadable = |e: std::io::Error| fault(TraceFault::Unreadable(e.to_string()));
        let file = File::open(path).map_err(unreadable)?;
        let length = file.metadata().map_err(unreadable)?.len();
        Self::parse(&mut BufReader::with_capacity(1 << 20, file), length).map_err(fault)
    }

    /// Reads the `length` bytes of a trace.
    ///
    /// # Errors
    /// As [`RankTrace::read`].
    pub fn parse(from: &mut impl Read, length: u64) -> Result<Self, TraceFault> {
        let mut bytes = [0; HEADER_WORDS * 8];
        if length < bytes.len() as u64 {
            return Err(TraceFault::NoTrace);
        }
        let unreadable = |e: std::io::Error| TraceFault::Unreadable(e.to_string());
        from.read_exact(&mut bytes).map_err(unreadable)?;
        let mut words = [0; FIELDS];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        let header = TraceHeader::of_words(words)?;
        let noted = header.claimed.min(header.capacity);
        let found = (length - bytes.len() as u64) / 16;
        if found < noted {
            return Err(TraceFault::Truncated { found, noted });
        }
        // The file is as long as that: no header asks for more memory than its file has bytes.
        let mut events = Vec::with_capacity(usize::try_from(noted).unwrap_or(0));
        let mut unfinished = 0;
        let mut pair = [0; 16];
        for at in 0..noted {
            from.read_exact(&mut pair).map_err(unreadable)?;
            let [first, second] = [0, 8].map(|from| {
                let bytes = pair[from..].first_chunk::<8>().copied().unwrap_or_default();
                u64::from_le_bytes(bytes)
            });
            if first == 0 {
                unfinished += 1;
                continue;
            }
            events.push(TraceEvent::of_words([first, second]).ok_or(TraceFault::Event { at })?);
        }
        // Handlers are noted when they end, and threads write side by side.
        events.sort_by_key(|event| event.at_ns);
        debug_assert!(events.len() as u64 + unfinished == noted, "all are read");
        Ok(Self { header, events, unfinished })
    }

    /// Returns the number of events that had no room.
    pub fn dropped(&self) -> u64 {
        self.header.claimed.saturating_sub(self.header.capacity)
    }
}

/// Reads the traces of all ranks of a job from a folder, by rank.
///
/// # Errors
/// A trace is missing, of another job, or cannot be read.
pub fn read_folder(folder: &Path) -> Result<Vec<RankTrace>, TraceError> {
    let missing =
        |what: String| TraceError { path: folder.into(), fault: TraceFault::Missing(what) };
    if !folder.is_dir() {
        return Err(missing("no folder with traces (clump run --trace DIR writes one)".into()));
    }
    let first = RankTrace::read(&folder.join(file_name(0)))?;
    let ranks = first.header.ranks;
    let mut all = vec![first];
    for rank in 1..ranks {
        let path = folder.join(file_name(rank));
        if !path.exists() {
            return Err(missing(format!(
                "the trace of rank {rank} of {ranks} is missing: ranks of other machines write \
                 into their own folder of this name; copy it from there"
            )));
        }
        let trace = RankTrace::read(&path)?;
        if (trace.header.rank, trace.header.ranks) != (rank, ranks) {
            return Err(TraceError { path, fault: TraceFault::Header });
        }
        all.push(trace);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventKind;

    fn bytes(header: TraceHeader, events: &[[u64; 2]]) -> Vec<u8> {
        let mut words = header.to_words().to_vec();
        words.resize(HEADER_WORDS, 0);
        words.extend(events.iter().flatten());
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn parse(bytes: &[u8]) -> Result<RankTrace, TraceFault> {
        RankTrace::parse(&mut &bytes[..], bytes.len() as u64)
    }

    fn event(at_ns: u64) -> [u64; 2] {
        TraceEvent { at_ns, kind: EventKind::Send, track: 0, detail: 0, peer: 1, value: 2 }
            .to_words()
    }

    #[test]
    fn a_damaged_trace_is_an_error_that_says_what_is_wrong() {
        let header = TraceHeader { ranks: 1, capacity: 2, claimed: 5, ..TraceHeader::default() };
        let whole = bytes(header, &[event(7), event(3)]);
        let trace = parse(&whole).unwrap();
        assert_eq!((trace.events[0].at_ns, trace.dropped()), (3, 3), "by time");
        let cut = parse(&whole[..whole.len() - 1]).unwrap_err();
        assert_eq!(cut, TraceFault::Truncated { found: 1, noted: 2 });
        assert_eq!(parse(&whole[..99]).unwrap_err(), TraceFault::NoTrace);
        assert_eq!(parse(&[0; 5000]).unwrap_err(), TraceFault::NoTrace);
        let odd = parse(&bytes(header, &[event(1), [0xff00, 1]])).unwrap_err();
        assert_eq!(odd, TraceFault::Event { at: 1 });
        assert_eq!(parse(&bytes(header, &[event(1), [0, 1]])).unwrap().unfinished, 1);
        let (mut other, mut strange) = (whole.clone(), whole);
        other[8] = 9;
        assert!(parse(&other).unwrap_err().to_string().contains("version 9"));
        strange[16] = 1;
        assert_eq!(parse(&strange).unwrap_err(), TraceFault::Header);
        let huge = TraceHeader { capacity: u64::MAX, claimed: u64::MAX, ranks: 1, ..header };
        assert!(matches!(parse(&bytes(huge, &[])), Err(TraceFault::Truncated { .. })));
    }

    #[test]
    fn random_bytes_never_panic() {
        let mut seed = 1_u64;
        let header = TraceHeader { ranks: 1, capacity: 9, claimed: 3, ..TraceHeader::default() };
        let whole = bytes(header, &[event(7), event(3), event(4)]);
        for _ in 0..20_000 {
            let mut damaged = whole.clone();
            for _ in 0..1 + seed % 3 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let region = if seed & 1 == 0 { 0 } else { HEADER_WORDS * 8 };
                let at = (region + (seed >> 33) as usize % 96).min(damaged.len() - 1);
                damaged[at] = (seed >> 8) as u8;
            }
            damaged.truncate(damaged.len() - (seed >> 50) as usize % 40);
            if let Ok(trace) = parse(&damaged) {
                assert!(trace.events.len() <= 3);
            }
        }
    }
}
