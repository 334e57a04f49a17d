//! A traced run as steps that can be played again on a slower network (M5, docs/adr/0043).

use crate::traces::matcher::{Matcher, MessageName};
use crate::traces::serial_phases::{ROOM, SerialPhases};
use crate::traces::timeline::{Timeline, TimelineEvent};
use crate::traces::virtual_nics::{MessageEnd, VirtualNics};
use clump_loggp::replay::{NOBODY, Run};
use clump_loggp::{KnobClass, KnobScope, KnobTable, Replay, Step, models, replay};
use clump_trace::{EventKind, MessageClass, PhaseName, TraceError, TraceEvent};
use clump_virtual::Machine;
use std::collections::{BTreeMap, HashMap};

/// Most events of a run that is played unless more are asked for: all of it is kept in memory.
pub const MAX_EVENTS: u64 = 1 << 25;
/// Bytes of memory that an event takes: 85 were measured of 10^7; more while vectors grow.
const EVENT_BYTES: u64 = 96;
/// Bit of the names of requests to interfaces: no message has it.
const TO_INTERFACE: u64 = 1 << 63;
/// Bit of the names of meetings of a rank with its node's executor: no barrier has it.
const WITH_EXECUTOR: u64 = 1 << 63;
/// Number of a wait for a word of memory, as [`clump_trace::event::AWAITED`] has it.
const WORD: u8 = 9;

/// The steps of a thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Track {
    steps: Vec<Step>,
    /// The NIC of its virtual node.
    nic: Option<u32>,
    /// Time up to which there are steps.
    until_ns: u64,
    /// Handlers that have begun, and whether their messages are known.
    handlers: Vec<bool>,
    waits: bool,
    /// True while it waits for room.
    room: bool,
    heard: bool,
    barrier: bool,
    /// Handlers outside of waits: the steps that began them.
    at_polls: Vec<usize>,
    /// True for an executor of virtual time, which does nothing but wait and handle.
    serves: bool,
    /// Begin of its wait for a word.
    word_since: Option<u64>,
}

/// Times of a message that was sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct SentTimes {
    /// Time at which it was injected.
    injected_ns: u64,
    /// Time at which it arrived, and that for which its bytes held its NIC, where NICs are known.
    due_ns: Option<u64>,
    bytes_ns: Option<u64>,
}

/// The steps of all threads of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunGraph {
    tracks: BTreeMap<(u32, u8), Track>,
    /// Times at which each rank sent, by path, ascending.
    sends: BTreeMap<u32, [Vec<u64>; 2]>,
    /// Messages of serial phases by path: n of M1b.
    pub serial_messages: [u64; 2],
    /// Time of the run as it was recorded, in ns.
    pub recorded_ns: u64,
    /// Gaps of the machine in whose time it ran, by path, in ns.
    gaps_ns: Option<[u64; 2]>,
    /// Time of all waits that no message in the traces ended, in ns, of the rank with most.
    pub unexplained_ns: u64,
}

/// The pass over the events.
#[derive(Debug, Default)]
struct Pass {
    graph: RunGraph,
    sends: Matcher<SentTimes>,
    /// Requests to interfaces, by rank and name: their times.
    asked: HashMap<(u32, u64), u64>,
    /// The shortest time of a message, by sender and target.
    least: HashMap<(u32, u32), u64>,
    /// Of each barrier: the time of the last arrival, and that of each rank how often it met there.
    arrivals: HashMap<u64, u64>,
    met: HashMap<(u32, u8, u32), u64>,
    unexplained: BTreeMap<(u32, u8), u64>,
    serial: SerialPhases,
    /// The NICs of the machine in whose virtual time the run was.
    nics: Option<VirtualNics>,
    /// Of each rank: its node, and the ranks before it there.
    places: Vec<(u32, u32)>,
    /// By node: the thread whose handler ended last there, and when.
    handled: HashMap<u32, ((u32, u8), u64)>,
    /// Meetings with executors.
    joined: u64,
}

impl RunGraph {
    /// Returns the reason, if the traces have more than `limit` events.
    ///
    /// # Errors
    /// They have: reading them takes more memory than that is worth.
    pub fn fits(timeline: &Timeline, limit: u64) -> Result<(), String> {
        let events = timeline.events();
        if events <= limit {
            return Ok(());
        }
        Err(format!(
            "the traces have {events} events, more than {limit}: a run that is played is kept in \
             memory, some {} MiB; trace fewer (CLUMP_TRACE_EVENTS), or allow more (clump lab \
             predict --limit)",
            events.saturating_mul(EVENT_BYTES) >> 20
        ))
    }

    /// Reads all events of a job. Memory: [`RunGraph::fits`] says how much. `machine`: that in
    /// whose virtual time it ran. Gaps of a real one are limits of the processor as much as of a
    /// NIC, and how long a message waited behind others is not known.
    ///
    /// # Errors
    /// A trace cannot be read, or is damaged.
    pub fn of(timeline: &mut Timeline, machine: Option<Machine>) -> Result<Self, TraceError> {
        let ranks = timeline.files().len() as u32;
        let mut pass = Pass { serial: SerialPhases::of_ranks(ranks), ..Pass::default() };
        pass.nics = machine.map(VirtualNics::of);
        let mut on_nodes = HashMap::new();
        pass.places = (0..ranks)
            .map(|rank| {
                let node = timeline.header(rank).node;
                let before = on_nodes.entry(node).or_insert(0);
                *before += 1;
                (node, *before - 1)
            })
            .collect();
        pass.graph.gaps_ns = pass.nics.as_ref().map(VirtualNics::gaps_ns);
        while let Some(event) = timeline.next_event()? {
            pass.take(timeline, event);
        }
        for rank in 0..ranks {
            let end = timeline.life(rank).1;
            if let (Some(end), Some(track)) = (end, pass.graph.tracks.get_mut(&(rank, 0))) {
                track.compute_until(end);
            }
        }
        Ok(pass.conclude())
    }

    /// Plays the run on a network that is slower by `knobs`.
    pub fn play(&self, knobs: &KnobTable) -> Replay {
        // Of a real rank each thread has an interface.
        let runs = (0..).zip(&self.tracks).map(|(at, (&(rank, _), track))| Run {
            rank,
            nic: track.nic.unwrap_or(at),
            steps: &track.steps,
        });
        let knobs = self.gaps_ns.map_or(*knobs, |gaps_ns| knobs.with_least_gaps(gaps_ns));
        replay(&runs.collect::<Vec<_>>(), &knobs)
    }

    /// Returns by how much the last message of a rank leaves later where a gap is set (M2e), of the
    /// rank and path whose is latest; in ns.
    pub fn late_by_gap(&self, knobs: &KnobTable) -> Option<f64> {
        let mut latest = None;
        for scope in [KnobScope::Shm, KnobScope::Net] {
            let gap_ns = knobs.get(scope, KnobClass::Short).gap_ns;
            if gap_ns == 0 {
                continue;
            }
            let sends = self.sends.values().map(|by_path| &by_path[scope as usize]);
            let most = sends.map(|times| models::replay(times, gap_ns)).max().unwrap_or(0);
            latest = latest.max(Some(most));
        }
        #[expect(clippy::cast_precision_loss, reason = "times are below 2^53 ns")]
        latest.map(|ns| ns as f64)
    }

    /// Returns the times at which each rank sent on a path, in ns, by rank.
    pub fn send_times(&self, scope: KnobScope) -> BTreeMap<u32, &[u64]> {
        self.sends.iter().map(|(&rank, by_path)| (rank, &by_path[scope as usize][..])).collect()
    }
}

impl Track {
    /// Accounts for the time until `at_ns` as computation.
    fn compute_until(&mut self, at_ns: u64) {
        let ns = at_ns.saturating_sub(self.until_ns);
        if ns > 0 {
            self.steps.push(Step::Compute { ns });
        }
        self.until_ns = at_ns.max(self.until_ns);
    }

    /// Begins a handler of a message that was under way for `transit_ns`.
    fn receive(&mut self, at_ns: u64, from: u32, key: u64, transit_ns: u64) {
        if self.waits {
            self.until_ns = at_ns.max(self.until_ns);
            self.heard = true;
        } else {
            self.compute_until(at_ns);
        }
        // It may have waited for the end of other handlers, or until the rank polled.
        if self.serves || !self.waits {
            self.at_polls.push(self.steps.len());
        }
        self.steps.push(Step::Receive { from, key, transit_ns });
    }
}

impl Pass {
    fn take(&mut self, timeline: &Timeline, TimelineEvent { rank, at_ns, event }: TimelineEvent) {
        let at = (rank, event.track);
        self.graph.recorded_ns = self.graph.recorded_ns.max(at_ns);
        let node = timeline.header(rank).node;
        let scope = path(&event, node);
        let sent = self.sent((at, at_ns), &event, scope);
        let virtual_time = self.graph.gaps_ns.is_some();
        let nic = self.nics.as_ref().map(|nics| nics.number(self.end(at)));
        let track = self.graph.tracks.entry(at).or_default();
        track.nic = nic;
        if virtual_time && event.track != 0 && !track.serves {
            // Threads of a program have no endpoints in virtual time: it is an executor.
            (track.serves, track.waits) = (true, true);
            track.steps.push(Step::Wait);
        }
        self.serial.take(rank, &event, scope);
        if matches!(event.kind, EventKind::Send | EventKind::Ask | EventKind::Post) {
            self.graph.sends.entry(rank).or_default()[scope as usize].push(at_ns);
        }
        match event.kind {
            EventKind::Send => {
                track.compute_until(at_ns);
                let class = MessageClass::of_detail(event.detail);
                let kind = if class.bulk { KnobClass::Bulk } else { KnobClass::Short };
                let Some(name) = timeline.message(rank, &event) else { return };
                self.sends.send(name, sent);
                let (row, key) = ((scope, kind), key(name.sent, class));
                // A NIC of virtual time takes all that it is given.
                let (to, bytes) = (event.peer, event.payload_bytes());
                let (waits, bytes_ns) = (!class.reply && !virtual_time, sent.bytes_ns);
                track.steps.push(Step::Send { to, key, bytes, row, waits, bytes_ns });
            }
            EventKind::Handle => {
                let name = timeline.message(rank, &event);
                let here = SentTimes { injected_ns: at_ns, due_ns: None, bytes_ns: None };
                let sent = name.and_then(|name| Some((name, self.sends.handle(name, here)?)));
                track.handlers.push(sent.is_some());
                let Some((MessageName { from, sent, .. }, times)) = sent else { return };
                let transit_ns = times.due_ns.unwrap_or(at_ns).saturating_sub(times.injected_ns);
                let least = self.least.entry((from, rank)).or_insert(transit_ns);
                *least = transit_ns.min(*least);
                let key = key(sent, MessageClass::of_detail(event.detail));
                track.receive(at_ns, from, key, transit_ns);
            }
            EventKind::HandleEnd => {
                track.compute_until(at_ns);
                if track.handlers.pop() == Some(true) {
                    track.steps.push(Step::Handled);
                }
                self.handled.insert(node, (at, at_ns));
            }
            EventKind::Ask | EventKind::Post => {
                track.compute_until(at_ns);
                let (to, key, bytes) = if event.kind == EventKind::Post {
                    (NOBODY, 0, event.value)
                } else {
                    self.asked.insert((rank, asked(&event)), at_ns);
                    (rank, asked(&event), 0)
                };
                let row = (scope, KnobClass::OneSided);
                let bytes_ns = None;
                track.steps.push(Step::Send { to, key, bytes, row, waits: true, bytes_ns });
            }
            EventKind::Answer => {
                if let Some(sent_ns) = self.asked.remove(&(rank, asked(&event))) {
                    track.receive(at_ns, rank, asked(&event), at_ns.saturating_sub(sent_ns));
                    track.steps.push(Step::Handled);
                }
            }
            _ => self.synchronize((at, node), at_ns, &event),
        }
    }

    /// Returns a thread as the end of a message.
    fn end(&self, (rank, track): (u32, u8)) -> MessageEnd {
        let (node, place) = self.places.get(rank as usize).copied().unwrap_or_default();
        // An executor is of its node's first rank.
        MessageEnd { rank, track, node, place: if track == 0 { place } else { 0 } }
    }

    /// Returns the times of a message that is sent at `at_ns`.
    fn sent(
        &mut self,
        (at, at_ns): ((u32, u8), u64),
        event: &TraceEvent,
        scope: KnobScope,
    ) -> SentTimes {
        let ends = [self.end(at), self.end((event.peer, 0))];
        let nics = self.nics.as_mut().filter(|_| event.kind == EventKind::Send);
        let Some(nics) = nics else {
            return SentTimes { injected_ns: at_ns, due_ns: None, bytes_ns: None };
        };
        let times = nics.send(ends, scope, (at_ns, event.payload_bytes()));
        let (due_ns, bytes_ns) = (Some(times.due_ns), Some(times.bytes_ns));
        SentTimes { injected_ns: times.injected_ns, due_ns, bytes_ns }
    }

    /// Ends a wait for a word that no message to the thread has ended: with the last handler of its
    /// node's executor, which has stored it. Returns false where none has run meanwhile.
    fn join(&mut self, at: (u32, u8), node: u32, at_ns: u64) -> bool {
        let Some(since_ns) = self.graph.tracks.get(&at).and_then(|track| track.word_since) else {
            return false;
        };
        let Some(&(other, handled_ns)) = self.handled.get(&node) else { return false };
        if other == at || handled_ns < since_ns || self.graph.gaps_ns.is_none() {
            return false;
        }
        self.joined += 1;
        let key = WITH_EXECUTOR | self.joined;
        let executor = self.graph.tracks.entry(other).or_default();
        executor.steps.push(Step::Meet { key, ranks: 1 });
        let after_ns = at_ns.saturating_sub(handled_ns);
        let track = self.graph.tracks.entry(at).or_default();
        track.steps.push(Step::Part { key, after_ns });
        track.until_ns = at_ns.max(track.until_ns);
        true
    }

    /// Takes waits and barriers.
    fn synchronize(&mut self, (at, node): ((u32, u8), u32), at_ns: u64, event: &TraceEvent) {
        let is_end = event.kind == EventKind::WaitEnd;
        let heard = self.graph.tracks.get(&at).is_some_and(|track| track.heard || track.barrier);
        let joined = is_end && !heard && self.join(at, node, at_ns);
        let track = self.graph.tracks.entry(at).or_default();
        match event.kind {
            // It ends when the network takes more, whatever is handled meanwhile: time of its own.
            EventKind::Wait if event.detail == ROOM => {
                track.compute_until(at_ns);
                track.room = true;
            }
            EventKind::WaitEnd if std::mem::take(&mut track.room) => track.compute_until(at_ns),
            EventKind::Wait => {
                track.compute_until(at_ns);
                (track.waits, track.heard) = (true, false);
                track.word_since = (event.detail == WORD).then_some(at_ns);
                track.steps.push(Step::Wait);
            }
            EventKind::WaitEnd => {
                if !track.heard && !track.barrier && !joined {
                    *self.unexplained.entry(at).or_default() +=
                        at_ns.saturating_sub(track.until_ns);
                }
                track.waits = false;
                track.steps.push(Step::WaitEnd);
                if track.heard || !track.barrier {
                    // It woke up after what it waited for; or that is in no trace.
                    track.compute_until(at_ns);
                } else {
                    track.until_ns = at_ns.max(track.until_ns);
                }
            }
            EventKind::Barrier => {
                track.compute_until(at_ns);
                track.barrier = true;
                // The same ranks meet again and again.
                *self.met.entry((at.0, at.1, event.value)).or_default() += 1;
                let key = self.meeting(at, event.value);
                let latest = self.arrivals.entry(key).or_default();
                *latest = at_ns.max(*latest);
                let track = self.graph.tracks.entry(at).or_default();
                track.steps.push(Step::Meet { key, ranks: event.peer });
            }
            EventKind::BarrierEnd => {
                track.barrier = false;
                track.until_ns = at_ns.max(track.until_ns);
                let key = self.meeting(at, event.value);
                let latest = self.arrivals.get(&key).copied().unwrap_or(at_ns);
                let after_ns = at_ns.saturating_sub(latest);
                let track = self.graph.tracks.entry(at).or_default();
                track.steps.push(Step::Part { key, after_ns });
            }
            EventKind::Phase | EventKind::PhaseEnd => {
                track.compute_until(at_ns);
                let name = PhaseName::of_event(event).number();
                let begins = event.kind == EventKind::Phase;
                track.steps.push(if begins {
                    Step::Phase { name }
                } else {
                    Step::PhaseEnd { name }
                });
            }
            // Page faults and locks are times of their own; their messages are those of interfaces.
            // The message that carries a batch is traced separately.
            _ => track.compute_until(at_ns),
        }
    }

    /// Returns the name of the meeting at which a thread is.
    fn meeting(&self, (rank, number): (u32, u8), value: u32) -> u64 {
        let times = self.met.get(&(rank, number, value)).copied().unwrap_or(0);
        times << 32 | u64::from(value)
    }

    fn conclude(self) -> RunGraph {
        let Self { mut graph, least, unexplained, serial, .. } = self;
        graph.serial_messages = serial.finish();
        for (&(rank, _), track) in &mut graph.tracks {
            for at in std::mem::take(&mut track.at_polls) {
                let step = &mut track.steps[at];
                debug_assert!(matches!(step, Step::Receive { .. }), "a message handled at a poll");
                let Step::Receive { from, transit_ns, .. } = step else { continue };
                if graph.gaps_ns.is_none() {
                    // It had come before the rank polled.
                    *transit_ns =
                        least.get(&(*from, rank)).map_or(*transit_ns, |&l| l.min(*transit_ns));
                }
            }
            graph.recorded_ns = graph.recorded_ns.max(track.until_ns);
        }
        graph.unexplained_ns = unexplained.into_values().max().unwrap_or(0);
        graph
    }
}

/// Returns the path of what a rank of `node` sends.
fn path(event: &TraceEvent, node: u32) -> KnobScope {
    let remote = match event.kind {
        EventKind::Send => MessageClass::of_detail(event.detail).remote,
        EventKind::Ask | EventKind::Post => event.peer != node,
        _ => false,
    };
    if remote { KnobScope::Net } else { KnobScope::Shm }
}

/// Returns the key of a message by the time of sending in its stamp. In virtual time a rank and the
/// executor beside it may send a request and a reply at once.
fn key(sent: u32, class: MessageClass) -> u64 {
    u64::from(class.reply) << 32 | u64::from(sent)
}

/// Returns the name of a request to an interface.
fn asked(event: &TraceEvent) -> u64 {
    TO_INTERFACE | u64::from(event.peer) << 32 | u64::from(event.value)
}

#[cfg(test)]
mod tests;
