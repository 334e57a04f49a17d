//! Reader of one rank's trace: its events by time, with bounded memory.
//!
//! Events are nearly in the order of time in a file: handlers are recorded when they end, and
//! threads write concurrently. A window of [`WINDOW`] events puts them in order. An event that
//! comes even later is given the time of the one before it, and counted.

use crate::event::TraceEvent;
use crate::trace_file::{HEADER_BYTES, TraceError, TraceFault, TraceHeader, file_name};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// Events that are put in order at a time.
pub const WINDOW: usize = 1 << 16;

/// A trace that is being read.
#[derive(Debug)]
pub struct TraceReader<R> {
    from: R,
    header: TraceHeader,
    /// Events taken from the file so far, and those that it has.
    taken: u64,
    noted: u64,
    /// By time and place in the file.
    window: BinaryHeap<Reverse<(u64, u64, [u64; 2])>>,
    last_ns: u64,
    unfinished: u64,
    late: u64,
}

/// A trace in a file.
#[derive(Debug)]
pub struct FileReader {
    path: PathBuf,
    reader: TraceReader<BufReader<File>>,
}

impl<R: Read> TraceReader<R> {
    /// Begins to read the `length` bytes of a trace.
    ///
    /// # Errors
    /// It is no trace, is of another version, or is damaged.
    pub fn new(mut from: R, length: u64) -> Result<Self, TraceFault> {
        let header = TraceHeader::read(&mut from, length)?;
        let noted = header.claimed.min(header.capacity);
        let found = (length - HEADER_BYTES) / 16;
        if found < noted {
            return Err(TraceFault::Truncated { found, noted });
        }
        let (window, taken) = (BinaryHeap::new(), 0);
        Ok(Self { from, header, taken, noted, window, last_ns: 0, unfinished: 0, late: 0 })
    }

    /// Returns facts about the trace.
    pub fn header(&self) -> &TraceHeader {
        &self.header
    }

    /// Returns the number of events that had no room.
    pub fn dropped(&self) -> u64 {
        self.header.claimed.saturating_sub(self.header.capacity)
    }

    /// Returns the number of events so far that the rank had begun to write when it died.
    pub fn unfinished(&self) -> u64 {
        self.unfinished
    }

    /// Returns the number of events so far that lay too far behind their place, and have the time
    /// of the event before them.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Returns the next event by time; `None` after the last.
    ///
    /// # Errors
    /// The file cannot be read, or has words that are no event.
    pub fn next_event(&mut self) -> Result<Option<TraceEvent>, TraceFault> {
        while self.window.len() < WINDOW && self.taken < self.noted {
            self.take()?;
        }
        let Some(Reverse((at_ns, at, words))) = self.window.pop() else { return Ok(None) };
        let mut event = TraceEvent::of_words(words).ok_or(TraceFault::Event { at })?;
        if at_ns < self.last_ns {
            self.late += 1;
            event.at_ns = self.last_ns;
        }
        debug_assert!(event.at_ns >= self.last_ns, "events come by time");
        self.last_ns = event.at_ns;
        Ok(Some(event))
    }

    /// Takes an event from the file.
    fn take(&mut self) -> Result<(), TraceFault> {
        let mut pair = [0; 16];
        let read = self.from.read_exact(&mut pair);
        read.map_err(|e| TraceFault::Unreadable(e.to_string()))?;
        let at = self.taken;
        self.taken += 1;
        let words = u128::from_le_bytes(pair);
        let words = [words as u64, (words >> 64) as u64];
        if words[0] == 0 {
            self.unfinished += 1;
            return Ok(());
        }
        let event = TraceEvent::of_words(words).ok_or(TraceFault::Event { at })?;
        self.window.push(Reverse((event.at_ns, at, words)));
        Ok(())
    }
}

impl FileReader {
    /// Opens a file.
    ///
    /// # Errors
    /// It cannot be read, is no trace, or is damaged.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let fault = |fault| TraceError { path: path.into(), fault };
        let unreadable = |e: std::io::Error| fault(TraceFault::Unreadable(e.to_string()));
        let file = File::open(path).map_err(unreadable)?;
        let length = file.metadata().map_err(unreadable)?.len();
        let reader = TraceReader::new(BufReader::with_capacity(1 << 18, file), length);
        Ok(Self { path: path.into(), reader: reader.map_err(fault)? })
    }

    /// Returns the next event by time; `None` after the last.
    ///
    /// # Errors
    /// As [`TraceReader::next_event`], with the name of the file.
    pub fn next_event(&mut self) -> Result<Option<TraceEvent>, TraceError> {
        let next = self.reader.next_event();
        next.map_err(|fault| TraceError { path: self.path.clone(), fault })
    }

    /// Returns what is read.
    pub fn reader(&self) -> &TraceReader<BufReader<File>> {
        &self.reader
    }
}

/// Opens the traces of all ranks of a job in a folder, by rank.
///
/// # Errors
/// A trace is missing, of another job, or cannot be read.
pub fn open_folder(folder: &Path) -> Result<Vec<FileReader>, TraceError> {
    let missing =
        |what: String| TraceError { path: folder.into(), fault: TraceFault::Missing(what) };
    if !folder.is_dir() {
        return Err(missing("no folder with traces (clump run --trace DIR writes one)".into()));
    }
    let path = folder.join(file_name(0));
    if !path.exists() {
        return Err(missing("the trace of rank 0 is missing (clump run --trace DIR)".into()));
    }
    let ranks = FileReader::open(&path)?.reader.header.ranks.max(1);
    let mut all = Vec::new();
    for rank in 0..ranks {
        let path = folder.join(file_name(rank));
        if !path.exists() {
            return Err(missing(format!(
                "the trace of rank {rank} of {ranks} is missing: ranks of other machines write \
                 into their own folder of this name; copy it from there"
            )));
        }
        let opened = FileReader::open(&path)?;
        let header = opened.reader.header;
        if (header.rank, header.ranks) != (rank, ranks) {
            let what = format!("rank {} of {} ranks", header.rank, header.ranks);
            return Err(TraceError { path, fault: TraceFault::OtherJob(what) });
        }
        all.push(opened);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventKind;
    use crate::trace_file::HEADER_WORDS;

    fn bytes(header: TraceHeader, events: &[[u64; 2]]) -> Vec<u8> {
        let mut words = header.to_words().to_vec();
        words.resize(HEADER_WORDS, 0);
        words.extend(events.iter().flatten());
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    type Whole = (Vec<u64>, u64, u64, u64);

    /// Times, and the numbers of events dropped, unfinished and late.
    fn parse(bytes: &[u8]) -> Result<Whole, TraceFault> {
        let mut reader = TraceReader::new(bytes, bytes.len() as u64)?;
        let mut times = Vec::new();
        while let Some(event) = reader.next_event()? {
            times.push(event.at_ns);
        }
        Ok((times, reader.dropped(), reader.unfinished(), reader.late()))
    }

    fn event(at_ns: u64) -> [u64; 2] {
        TraceEvent { at_ns, kind: EventKind::Send, track: 0, detail: 0, peer: 1, value: 2 }
            .to_words()
    }

    #[test]
    fn a_damaged_trace_is_an_error_that_says_what_is_wrong() {
        let header = TraceHeader { ranks: 1, capacity: 2, claimed: 5, ..TraceHeader::default() };
        let whole = bytes(header, &[event(7), event(3)]);
        assert_eq!(parse(&whole).unwrap(), (vec![3, 7], 3, 0, 0), "by time");
        let cut = parse(&whole[..whole.len() - 1]).unwrap_err();
        assert_eq!(cut, TraceFault::Truncated { found: 1, noted: 2 });
        assert_eq!(parse(&whole[..99]).unwrap_err(), TraceFault::NoTrace);
        assert_eq!(parse(&[0; 5000]).unwrap_err(), TraceFault::NoTrace);
        let odd = parse(&bytes(header, &[event(1), [0xff00, 1]])).unwrap_err();
        assert_eq!(odd, TraceFault::Event { at: 1 });
        assert_eq!(parse(&bytes(header, &[event(1), [0, 1]])).unwrap().2, 1);
        let (mut other, mut strange) = (whole.clone(), whole);
        other[8] = 9;
        assert!(parse(&other).unwrap_err().to_string().contains("version 9"));
        strange[16] = 1;
        assert_eq!(parse(&strange).unwrap_err(), TraceFault::Header);
        let huge = TraceHeader { capacity: u64::MAX, claimed: u64::MAX, ranks: 1, ..header };
        assert!(matches!(parse(&bytes(huge, &[])), Err(TraceFault::Truncated { .. })));
    }

    #[test]
    fn events_are_put_in_order_within_the_window_and_counted_beyond_it() {
        let count = WINDOW as u64 + 50;
        let mut events: Vec<_> = (1..count).map(event).collect();
        events.push(event(0));
        let header =
            TraceHeader { ranks: 1, capacity: count, claimed: count, ..TraceHeader::default() };
        let (times, _, _, late) = parse(&bytes(header, &events)).unwrap();
        assert_eq!((times.len() as u64, late), (count, 1));
        assert!(times.is_sorted());
        let within = WINDOW - 1;
        events.swap(0, within);
        events.pop();
        let header = TraceHeader { claimed: count - 1, ..header };
        let (times, _, _, late) = parse(&bytes(header, &events)).unwrap();
        assert_eq!((times, late), ((1..count).collect(), 0));
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
            if let Ok((times, ..)) = parse(&damaged) {
                assert!(times.len() <= 3);
            }
        }
    }
}
