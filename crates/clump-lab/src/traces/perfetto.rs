//! The traces of a job as one of Perfetto: a process for each rank, a track for each of its
//! threads, slices, flows from sends to handlers.
//!
//! Numbers of fields are those of Perfetto's `trace_packet.proto`, `track_event.proto`,
//! `track_descriptor.proto` and `interned_data.proto`.

use crate::traces::matcher::{Matcher, MessageName};
use crate::traces::protobuf::ProtoMessage;
use crate::traces::timeline::{Timeline, TimelineEvent};
use crate::traces::track_times::TrackTimes;
use anyhow::Result;
use clump_trace::event::AWAITED;
use clump_trace::{EventKind, PhaseName, TraceEvent};
use std::collections::BTreeMap;
use std::io::Write;

/// Field of `Trace`: a packet.
const PACKET: u32 = 1;
/// The sequence of all packets: names are interned in it.
const SEQUENCE: u64 = 1;
/// `TrackEvent.Type`.
const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;
/// Names of waits, whose numbers begin here.
const FIRST_WAIT: u64 = 100;

/// The packets that are written, and the state that later ones depend on.
struct Writer<'a, W> {
    out: &'a mut W,
    packet: ProtoMessage,
    event: ProtoMessage,
    whole: ProtoMessage,
    tracks: BTreeMap<(u32, u8), TrackTimes>,
    /// Numbers of the messages under way: of their flows.
    flows: Matcher<u64>,
    numbered: u64,
}

/// Writes all events of a job.
///
/// # Errors
/// A trace cannot be read, or `out` not be written.
pub fn write(timeline: &mut Timeline, out: &mut impl Write) -> Result<()> {
    let mut writer = Writer {
        out,
        packet: ProtoMessage::new(),
        event: ProtoMessage::new(),
        whole: ProtoMessage::new(),
        tracks: BTreeMap::new(),
        flows: Matcher::default(),
        numbered: 0,
    };
    writer.names()?;
    for rank in 0..timeline.files().len() as u32 {
        writer.process(rank, timeline.header(rank).node)?;
        writer.dropped(rank, timeline.life(rank).0, 0)?;
    }
    let mut last_ns = 0;
    while let Some(event) = timeline.next_event()? {
        last_ns = event.at_ns;
        writer.note(timeline, event)?;
    }
    for (rank, file) in timeline.files().iter().enumerate() {
        let dropped = file.reader().dropped();
        if dropped > 0 {
            writer.dropped(rank as u32, last_ns, dropped)?;
        }
    }
    Ok(())
}

impl<W: Write> Writer<'_, W> {
    /// Writes the packet that has been begun.
    fn finish(&mut self) -> Result<()> {
        self.packet.number(10, SEQUENCE);
        self.whole.clear();
        self.whole.message(PACKET, &self.packet);
        self.out.write_all(self.whole.bytes())?;
        self.packet.clear();
        Ok(())
    }

    /// Interns the names of all events.
    fn names(&mut self) -> Result<()> {
        let mut interned = ProtoMessage::new();
        let kinds = EventKind::ALL.map(|kind| (kind as u64, kind.name().to_owned()));
        let waits = (FIRST_WAIT..).zip(AWAITED).map(|(at, event)| (at, format!("wait: {event}")));
        for (number, name) in kinds.into_iter().chain(waits) {
            let mut entry = ProtoMessage::new();
            entry.number(1, number).text(2, &name);
            interned.message(2, &entry);
        }
        // SEQ_INCREMENTAL_STATE_CLEARED
        self.packet.number(13, 1).message(12, &interned);
        self.finish()
    }

    /// Writes the description of a track: its number, and the rest by `more`.
    fn describe(&mut self, uuid: u64, more: impl FnOnce(&mut ProtoMessage)) -> Result<()> {
        let mut track = ProtoMessage::new();
        track.number(1, uuid);
        more(&mut track);
        self.packet.message(60, &track);
        self.finish()
    }

    fn process(&mut self, rank: u32, node: u32) -> Result<()> {
        let mut process = ProtoMessage::new();
        process.number(1, pid(rank)).text(6, &format!("rank {rank} (node {node})"));
        self.describe(process_track(rank), |track| {
            track.message(3, &process);
        })?;
        self.describe(counter_track(rank), |track| {
            track.text(2, "events dropped").number(5, process_track(rank));
            track.message(8, &ProtoMessage::new());
        })
    }

    fn thread(&mut self, rank: u32, number: u8) -> Result<()> {
        let mut thread = ProtoMessage::new();
        thread.number(1, pid(rank)).number(2, pid(rank) + u64::from(number));
        thread.text(5, &format!("thread {number}"));
        self.describe(thread_track(rank, number), |track| {
            track.number(5, process_track(rank)).message(4, &thread);
        })
    }

    /// Writes the number of events of a rank that had no room.
    fn dropped(&mut self, rank: u32, at_ns: u64, count: u64) -> Result<()> {
        self.event.clear();
        self.event.number(9, COUNTER).number(11, counter_track(rank)).number(30, count);
        self.stamped(at_ns)
    }

    /// Writes the event that has been begun.
    fn stamped(&mut self, at_ns: u64) -> Result<()> {
        // SEQ_NEEDS_INCREMENTAL_STATE
        self.packet.number(8, at_ns).number(13, 2).message(11, &self.event);
        self.finish()
    }

    fn note(&mut self, timeline: &Timeline, of: TimelineEvent) -> Result<()> {
        let TimelineEvent { rank, at_ns, event } = of;
        let at = (rank, event.track);
        if !self.tracks.contains_key(&at) {
            self.thread(rank, event.track)?;
        }
        let track = self.tracks.entry(at).or_insert_with(|| TrackTimes::since(at_ns));
        let depth = track.open().len();
        if event.kind.is_end() {
            track.end(at_ns, event.kind);
            for _ in track.open().len()..depth {
                self.event.clear();
                self.event.number(9, END).number(11, thread_track(rank, event.track));
                self.stamped(at_ns)?;
            }
            return Ok(());
        }
        let slice = event.kind.end().is_some();
        if slice {
            track.begin(at_ns, event.kind, (event.detail, event.peer));
            if track.open().len() == depth {
                return Ok(());
            }
        }
        self.event.clear();
        self.event.number(9, if slice { BEGIN } else { INSTANT });
        self.event.number(11, thread_track(rank, event.track));
        if event.kind == EventKind::Phase {
            self.event.text(23, &format!("phase: {}", PhaseName::of_event(&event)));
        } else {
            self.event.number(10, name_of(&event));
        }
        self.add_facts(&event);
        self.add_flow(timeline, rank, &event);
        self.stamped(at_ns)
    }

    /// Adds peer and value of an event to it.
    fn add_facts(&mut self, event: &TraceEvent) {
        let [peer, value] = match event.kind {
            EventKind::Send => ["to", "bytes"],
            EventKind::Handle => ["from", ""],
            EventKind::Barrier => ["ranks", ""],
            EventKind::Ask | EventKind::Answer => ["node", "number"],
            EventKind::Batch => ["slot", "operations"],
            EventKind::Post => ["node", "bytes"],
            _ => ["", ""],
        };
        for (name, number) in [(peer, event.peer), (value, event.value)] {
            if !name.is_empty() {
                let mut fact = ProtoMessage::new();
                fact.text(10, name).number(3, u64::from(number));
                self.event.message(4, &fact);
            }
        }
    }

    /// Lets the flow of a message begin or end with an event.
    fn add_flow(&mut self, timeline: &Timeline, rank: u32, event: &TraceEvent) {
        let name = timeline.message(rank, event).or_else(|| {
            let asks = matches!(event.kind, EventKind::Ask | EventKind::Answer);
            // Interfaces are no ranks: their numbers lie beyond those of ranks.
            let to = event.peer | 1 << 31;
            asks.then_some(MessageName { from: rank, to, sent: event.value })
        });
        let Some(name) = name else { return };
        self.numbered += 1;
        let number = self.numbered;
        let (flow, field) = if matches!(event.kind, EventKind::Send | EventKind::Ask) {
            (self.flows.send(name, number), 47)
        } else {
            (self.flows.handle(name, number), 48)
        };
        debug_assert!(flow.is_none_or(|flow| flow < number), "the other end came before");
        self.event.fixed(field, flow.unwrap_or(number));
    }
}

fn name_of(event: &TraceEvent) -> u64 {
    if event.kind == EventKind::Wait {
        let known = usize::from(event.detail) < AWAITED.len();
        FIRST_WAIT + if known { u64::from(event.detail) } else { 0 }
    } else {
        event.kind as u64
    }
}

fn pid(rank: u32) -> u64 {
    (u64::from(rank) + 1) << 8
}

fn process_track(rank: u32) -> u64 {
    pid(rank) << 8
}

fn thread_track(rank: u32, number: u8) -> u64 {
    process_track(rank) + 1 + u64::from(number)
}

fn counter_track(rank: u32) -> u64 {
    process_track(rank) + 0x8000
}
