//! The traces of all ranks as one: events by time, on the clock of rank 0's machine.

use crate::traces::clock_offsets::{ClockOffset, LeastTimes};
use crate::traces::matcher::{Matcher, MessageName};
use clump_trace::trace_reader::open_folder;
use clump_trace::{EventKind, FileReader, TraceError, TraceEvent, TraceHeader};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;

/// An event of a job.
#[derive(Debug, Clone, Copy)]
pub struct TimelineEvent {
    /// Its rank.
    pub rank: u32,
    /// Time since the job's first trace began, in ns, on the common clock.
    pub at_ns: u64,
    /// The event; its time is that of the rank's trace.
    pub event: TraceEvent,
}

/// The clock of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankClock {
    /// Time to add to times of the rank's trace, in ns.
    pub add_ns: i64,
    /// Largest error of that in ns, if it is known: `None` where it rests on times of day.
    pub error_ns: Option<u64>,
}

/// All traces of a job, read side by side: memory for a window of each rank.
#[derive(Debug)]
pub struct Timeline {
    files: Vec<FileReader>,
    clocks: Vec<RankClock>,
    /// The next event of each rank, by time.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    events: Vec<Option<TraceEvent>>,
}

impl Timeline {
    /// Opens the traces in a folder. Reads them once where they are of several machines, for the
    /// offsets between the clocks.
    ///
    /// # Errors
    /// A trace is missing, or cannot be read.
    pub fn open(folder: &Path) -> Result<Self, TraceError> {
        let files = open_folder(folder)?;
        let headers: Vec<_> = files.iter().map(|file| *file.reader().header()).collect();
        let numbers = clock_numbers(&headers);
        let several = numbers.iter().any(|&number| number != 0);
        let by_day = by_time_of_day(&headers, &numbers);
        if !several {
            return Self::begin(files, by_day);
        }
        let mut rough = Self::begin(files, by_day.clone())?;
        let least = rough.least_times(&numbers)?;
        let clocks = numbers.iter().max().map_or(0, |last| last + 1);
        let offsets = least.offsets(clocks);
        let refined = numbers.iter().zip(by_day).map(|(&clock, day)| match offsets[clock] {
            Some(ClockOffset { add_ns, error_ns }) => {
                RankClock { add_ns: day.add_ns.saturating_add(add_ns), error_ns: Some(error_ns) }
            }
            None => day,
        });
        Self::begin(open_folder(folder)?, normal(refined.collect()))
    }

    fn begin(files: Vec<FileReader>, clocks: Vec<RankClock>) -> Result<Self, TraceError> {
        let events = vec![None; files.len()];
        let mut timeline = Self { files, clocks, heads: BinaryHeap::new(), events };
        for rank in 0..timeline.files.len() {
            timeline.refill(rank)?;
        }
        Ok(timeline)
    }

    fn refill(&mut self, rank: usize) -> Result<(), TraceError> {
        self.events[rank] = self.files[rank].next_event()?;
        if let Some(event) = self.events[rank] {
            self.heads.push(Reverse((self.clocks[rank].time(event.at_ns), rank)));
        }
        Ok(())
    }

    /// Returns the next event of the job; `None` after the last.
    ///
    /// # Errors
    /// A trace cannot be read, or is damaged.
    pub fn next_event(&mut self) -> Result<Option<TimelineEvent>, TraceError> {
        let Some(Reverse((at_ns, rank))) = self.heads.pop() else { return Ok(None) };
        debug_assert!(self.events[rank].is_some(), "a head is of an event");
        let Some(event) = self.events[rank] else { return Ok(None) };
        self.refill(rank)?;
        debug_assert!(self.heads.peek().is_none_or(|next| next.0.0 >= at_ns), "by time");
        Ok(Some(TimelineEvent { rank: rank as u32, at_ns, event }))
    }

    /// Returns the shortest one-way times between clocks, by the times of day.
    fn least_times(&mut self, numbers: &[usize]) -> Result<LeastTimes, TraceError> {
        let (mut least, mut matcher) = (LeastTimes::default(), Matcher::default());
        while let Some(TimelineEvent { rank, at_ns, event }) = self.next_event()? {
            let Some(name) = self.message(rank, &event) else { continue };
            if numbers.get(name.from as usize) == numbers.get(name.to as usize) {
                continue;
            }
            let at_ns = at_ns as i64;
            let times = if event.kind == EventKind::Send {
                matcher.send(name, at_ns).map(|handled| (at_ns, handled))
            } else {
                matcher.handle(name, at_ns).map(|sent| (sent, at_ns))
            };
            let ends = [name.from, name.to].map(|rank| numbers.get(rank as usize).copied());
            if let (Some((sent, handled)), [Some(from), Some(to)]) = (times, ends) {
                least.add((from, to), sent, handled);
            }
        }
        Ok(least)
    }

    /// Returns the name of the message that an event is an end of.
    pub fn message(&self, rank: u32, event: &TraceEvent) -> Option<MessageName> {
        match event.kind {
            EventKind::Send => {
                let now = self.header(rank).start_ns.wrapping_add(event.at_ns);
                Some(MessageName::of(rank, event.peer, now))
            }
            EventKind::Handle => {
                Some(MessageName { from: event.peer, to: rank, sent: event.value })
            }
            _ => None,
        }
    }

    /// Returns facts about the trace of a rank.
    pub fn header(&self, rank: u32) -> &TraceHeader {
        self.files[rank as usize].reader().header()
    }

    /// Returns the number of events in all traces.
    pub fn events(&self) -> u64 {
        let kept = |header: &TraceHeader| header.claimed.min(header.capacity);
        self.files.iter().map(|file| kept(file.reader().header())).sum()
    }

    /// Returns the readers of all ranks.
    pub fn files(&self) -> &[FileReader] {
        &self.files
    }

    /// Returns the clocks of all ranks.
    pub fn clocks(&self) -> &[RankClock] {
        &self.clocks
    }

    /// Returns the time at which a rank's trace begins, and that at which the rank left, if it did.
    pub fn life(&self, rank: u32) -> (u64, Option<u64>) {
        let clock = self.clocks[rank as usize];
        let end_ns = self.header(rank).end_ns;
        (clock.time(0), (end_ns > 0).then(|| clock.time(end_ns)))
    }
}

impl RankClock {
    /// Returns a time of the rank's trace on the common clock.
    fn time(self, at_ns: u64) -> u64 {
        at_ns.saturating_add_signed(self.add_ns)
    }
}

/// Numbers the clocks of the ranks from 0, by first use.
fn clock_numbers(headers: &[TraceHeader]) -> Vec<usize> {
    let mut known: Vec<u64> = Vec::new();
    let number = |header: &TraceHeader| {
        known.iter().position(|&clock| clock == header.clock).unwrap_or_else(|| {
            known.push(header.clock);
            known.len() - 1
        })
    };
    headers.iter().map(number).collect()
}

/// Returns the clocks of ranks: those of rank 0's machine, others by the time of day.
fn by_time_of_day(headers: &[TraceHeader], numbers: &[usize]) -> Vec<RankClock> {
    // The first rank of each clock says when that clock began.
    let of_day = |number: usize| {
        let first = numbers.iter().position(|&other| other == number).unwrap_or(0);
        headers[first].real_ns.wrapping_sub(headers[first].start_ns) as i64
    };
    let clocks = headers.iter().zip(numbers).map(|(header, &number)| {
        let difference = of_day(number).wrapping_sub(of_day(0));
        let add_ns = (header.start_ns as i64).wrapping_add(difference);
        RankClock { add_ns, error_ns: (number == 0).then_some(0) }
    });
    normal(clocks.collect())
}

/// Lets the earliest trace begin at 0.
fn normal(mut clocks: Vec<RankClock>) -> Vec<RankClock> {
    let first = clocks.iter().map(|clock| clock.add_ns).min().unwrap_or(0);
    clocks.iter_mut().for_each(|clock| clock.add_ns = clock.add_ns.saturating_sub(first));
    debug_assert!(clocks.iter().all(|clock| clock.add_ns >= 0), "no trace begins before the first");
    clocks
}
