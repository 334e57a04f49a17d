//! Figures of a traced job: times of each rank, messages, the longest waits.

use crate::traces::matcher::Matcher;
use crate::traces::timeline::{Timeline, TimelineEvent};
use crate::traces::track_times::{ActivityTimes, OpenSlice, TrackTimes};
use clump_trace::event::waits_for;
use clump_trace::{EventKind, MessageClass, TraceError, TraceEvent};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Longest waits that are kept.
const LONGEST: usize = 10;

/// The traces of a job in figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TraceSummary {
    /// Time from the first trace's beginning to the last rank's end, in ns.
    pub span_ns: u64,
    /// The ranks.
    pub ranks: Vec<RankSummary>,
    /// Messages by path and class.
    pub messages: BTreeMap<&'static str, MessageSummary>,
    /// Messages that were sent, and of which no trace notes a handler.
    pub unhandled: u64,
    /// Handlers of messages whose sending no trace notes.
    pub unsent: u64,
    /// Ends of messages for which there was no memory while the other end was looked for.
    pub forgotten: u64,
    /// Waits by what they were for: how often, and for how many ns in all.
    pub waits: BTreeMap<&'static str, (u64, u64)>,
    /// The longest waits, barriers, page faults and locks, the longest first.
    pub longest: Vec<LongWait>,
}

/// The trace of a rank in figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RankSummary {
    /// Events that were read.
    pub events: u64,
    /// Events without room.
    pub dropped: u64,
    /// Events that the rank had begun to write when it died.
    pub unfinished: u64,
    /// Events that lay too far behind their place, and have the time of the event before them.
    pub late: u64,
    /// Threads with events.
    pub threads: u64,
    /// True if the rank left the job.
    pub left: bool,
    /// Times of all its threads.
    pub times: ActivityTimes,
    /// Largest error of its clock in ns, where it is another machine's; `None`: unknown.
    pub clock_error_ns: Option<u64>,
}

/// Messages of one path and class.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct MessageSummary {
    /// Messages sent.
    pub sent: u64,
    /// Bytes of their words and payloads.
    pub bytes: u64,
    /// Messages whose handlers were noted.
    pub handled: u64,
    /// Shortest time from sending to the handler, in ns.
    pub least_ns: u64,
    /// Sum of these times, in ns.
    pub sum_ns: u64,
    /// Longest of these times, in ns.
    pub most_ns: u64,
}

/// A long wait.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LongWait {
    /// Its duration, in ns.
    pub ns: u64,
    /// The rank that waited.
    pub rank: u32,
    /// Its beginning, in ns since that of the job.
    pub since_ns: u64,
    /// The event that it was for.
    pub what: String,
    /// The sender of the last message that was handled meanwhile.
    pub heard_from: Option<u32>,
}

/// A thread.
#[derive(Debug)]
struct Track {
    times: TrackTimes,
    heard: Option<u32>,
}

/// The pass over the events.
#[derive(Debug, Default)]
struct Pass {
    summary: TraceSummary,
    tracks: BTreeMap<(u32, u8), Track>,
    matcher: Matcher<u64>,
    longest: BinaryHeap<Reverse<LongWait>>,
}

impl TraceSummary {
    /// Reads all events of a job.
    ///
    /// # Errors
    /// A trace cannot be read, or is damaged.
    pub fn of(timeline: &mut Timeline) -> Result<Self, TraceError> {
        let mut pass = Pass::default();
        pass.summary.ranks.resize(timeline.files().len(), RankSummary::default());
        while let Some(event) = timeline.next_event()? {
            pass.take(timeline, event);
        }
        Ok(pass.conclude(timeline))
    }

    /// Returns the number of events that were read.
    pub fn events(&self) -> u64 {
        self.ranks.iter().map(|rank| rank.events).sum()
    }
}

impl Pass {
    fn take(&mut self, timeline: &Timeline, TimelineEvent { rank, at_ns, event }: TimelineEvent) {
        self.summary.ranks[rank as usize].events += 1;
        self.summary.span_ns = self.summary.span_ns.max(at_ns);
        self.note_message(timeline, rank, at_ns, &event);
        let track = self.tracks.entry((rank, event.track)).or_insert_with(|| {
            // The first thread was there when the trace began.
            let since = if event.track == 0 { timeline.life(rank).0 } else { at_ns };
            Track { times: TrackTimes::since(since), heard: None }
        });
        let slice = if matches!(event.kind, EventKind::Phase | EventKind::PhaseEnd) {
            // All of a program may be phases: what it waits for is within them.
            track.times.until(at_ns);
            None
        } else if event.kind.end().is_some() {
            if event.kind == EventKind::Handle {
                track.heard = Some(event.peer);
            } else if track.times.open().is_empty() {
                track.heard = None;
            }
            track.times.begin(at_ns, event.kind, (event.detail, event.peer));
            return;
        } else if event.kind.is_end() {
            track.times.end(at_ns, event.kind)
        } else {
            track.times.until(at_ns);
            None
        };
        let outermost = track.times.open().is_empty();
        let heard = track.heard;
        if let Some(slice) = slice {
            self.note_slice((rank, at_ns), slice, outermost, heard);
        }
    }

    fn note_message(&mut self, timeline: &Timeline, rank: u32, at_ns: u64, event: &TraceEvent) {
        if event.kind == EventKind::Post {
            let posts = self.summary.messages.entry(POSTS).or_default();
            (posts.sent, posts.bytes) = (posts.sent + 1, posts.bytes + u64::from(event.value));
        }
        let Some(name) = timeline.message(rank, event) else { return };
        let class = MessageClass::of_detail(event.detail);
        let summary = self.summary.messages.entry(text_of(class)).or_default();
        let took = if event.kind == EventKind::Send {
            summary.sent += 1;
            summary.bytes += u64::from(event.value);
            self.matcher.send(name, at_ns).map(|handled| handled.saturating_sub(at_ns))
        } else {
            self.matcher.handle(name, at_ns).map(|sent| at_ns.saturating_sub(sent))
        };
        let Some(took) = took else { return };
        summary.least_ns = if summary.handled == 0 { took } else { summary.least_ns.min(took) };
        summary.most_ns = summary.most_ns.max(took);
        summary.sum_ns += took;
        summary.handled += 1;
    }

    fn note_slice(
        &mut self,
        (rank, at_ns): (u32, u64),
        slice: OpenSlice,
        outermost: bool,
        heard_from: Option<u32>,
    ) {
        let ns = at_ns.saturating_sub(slice.since_ns);
        if slice.kind == EventKind::Handle {
            return;
        }
        if slice.kind == EventKind::Wait {
            let waits = self.summary.waits.entry(waits_for(slice.of.0)).or_default();
            *waits = (waits.0 + 1, waits.1 + ns);
        }
        let short = self.longest.len() >= LONGEST
            && self.longest.peek().is_some_and(|Reverse(least)| least.ns >= ns);
        if !outermost || short {
            return;
        }
        let what = match slice.kind {
            EventKind::Wait => format!("wait: {}", waits_for(slice.of.0)),
            EventKind::Barrier => format!("barrier of {} ranks", slice.of.1),
            kind => kind.name().into(),
        };
        let since_ns = slice.since_ns;
        self.longest.push(Reverse(LongWait { ns, rank, since_ns, what, heard_from }));
        if self.longest.len() > LONGEST {
            self.longest.pop();
        }
    }

    fn conclude(self, timeline: &Timeline) -> TraceSummary {
        let Self { mut summary, tracks, matcher, longest } = self;
        for ((rank, number), mut track) in tracks {
            let of = &mut summary.ranks[rank as usize];
            if let (0, Some(end)) = (number, timeline.life(rank).1) {
                track.times.until(end);
            }
            of.threads += 1;
            of.times.add(&track.times.times);
        }
        for (rank, (of, file)) in summary.ranks.iter_mut().zip(timeline.files()).enumerate() {
            let end = timeline.life(rank as u32).1;
            (of.dropped, of.unfinished) = (file.reader().dropped(), file.reader().unfinished());
            of.late = file.reader().late();
            of.left = end.is_some();
            of.clock_error_ns = timeline.clocks()[rank].error_ns;
            summary.span_ns = summary.span_ns.max(end.unwrap_or(0));
        }
        (summary.unhandled, summary.unsent) = matcher.unmatched();
        summary.forgotten = matcher.forgotten();
        summary.longest = longest.into_sorted_vec().into_iter().map(|Reverse(wait)| wait).collect();
        debug_assert!(summary.longest.is_sorted_by(|a, b| a.ns >= b.ns), "the longest first");
        summary
    }
}

/// Requests to interfaces that have no answer, beside messages of a path and class.
const POSTS: &str = "posts to interfaces";

/// Returns the name of a path and class of messages.
fn text_of(MessageClass { remote, reply, bulk }: MessageClass) -> &'static str {
    match (remote, reply, bulk) {
        (false, false, false) => "shm request short",
        (false, false, true) => "shm request bulk",
        (false, true, false) => "shm reply short",
        (false, true, true) => "shm reply bulk",
        (true, false, false) => "net request short",
        (true, false, true) => "net request bulk",
        (true, true, false) => "net reply short",
        (true, true, true) => "net reply bulk",
    }
}
