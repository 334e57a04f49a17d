//! A run that is played: its clock, and what it has in common with others.

use super::step::{NOBODY, Step};
use crate::injector::Injector;
use crate::knobs::{KnobClass, KnobScope, KnobTable, Knobs};
use std::collections::{BTreeMap, HashMap};

/// Uses of each parameter on the longest path to a moment: the derivatives of its time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PathCounts {
    /// Overheads, of sending and of receiving.
    pub overheads: u64,
    /// Latencies.
    pub latencies: u64,
    /// Gaps.
    pub gaps: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A time, and the contents of the longest path to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moment {
    /// Time since the beginning of the run.
    pub ns: u64,
    /// Uses of the parameters.
    pub counts: PathCounts,
}

impl Moment {
    /// Returns the later of two; of equals the first.
    pub(super) fn later(self, other: Self) -> Self {
        if other.ns > self.ns { other } else { self }
    }

    /// Returns the moment `ns` later on the same path.
    pub(super) fn after(self, ns: u64) -> Self {
        Self { ns: self.ns.saturating_add(ns), ..self }
    }
}

/// A rank that is played.
#[derive(Debug, Default)]
pub(super) struct Player {
    /// Steps that have been played.
    pub(super) taken: usize,
    /// Time of its processor.
    pub(super) now: Moment,
    /// Time at which the last message has been handled.
    heard: Moment,
    /// Times of the rank and of a handler for whose message the rank does not wait.
    detour: Option<(Moment, Moment)>,
    /// Its interfaces by path, as the world numbers them.
    interfaces: [usize; 2],
    waiting: bool,
    /// By name: the time of the phase's turns that have ended, and the begin of one that has not.
    pub(super) phases: BTreeMap<u64, (u64, Option<u64>)>,
}

/// The messages under way and the meetings of a run that is played.
#[derive(Debug, Default)]
pub(super) struct World {
    /// By sender, target, name: the time at which the last byte leaves, and the time of sending.
    messages: HashMap<(u32, u32, u64), Sent>,
    /// Meetings: the latest arrival, and the ranks that are there.
    meetings: HashMap<u64, (Moment, u32, u32)>,
    /// Interfaces, and of each the longest path to the time at which it is free.
    interfaces: Vec<(Injector, PathCounts)>,
    /// Players that cannot go on, by what they wait for.
    parked: BTreeMap<Awaited, Vec<usize>>,
    /// Those that can again.
    woken: Vec<usize>,
}

/// A message under way.
#[derive(Debug, Clone, Copy)]
struct Sent {
    /// Time at which it has left its interface.
    left: Moment,
    row: (KnobScope, KnobClass),
}

/// A [`Step::Send`] of a rank.
#[derive(Debug, Clone, Copy)]
struct SentStep {
    name: (u32, u32, u64),
    bytes: u32,
    bytes_ns: Option<u64>,
    row: (KnobScope, KnobClass),
    waits: bool,
}

/// Step of another run that has to be played first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Awaited {
    /// The sending of a message, by sender, target and name.
    Message((u32, u32, u64)),
    /// The last arrival at a barrier, by its name.
    Barrier(u64),
}

impl World {
    /// Begins with so many interfaces, all free.
    pub(super) fn with_interfaces(count: usize) -> Self {
        Self { interfaces: vec![Default::default(); count], ..Self::default() }
    }

    /// Lets a player wait.
    pub(super) fn park(&mut self, player: usize, awaited: Awaited) {
        self.parked.entry(awaited).or_default().push(player);
    }

    fn wake(&mut self, awaited: Awaited) {
        self.woken.extend(self.parked.remove(&awaited).into_iter().flatten());
    }

    /// Returns a player that can go on again.
    pub(super) fn next_woken(&mut self) -> Option<usize> {
        self.woken.pop()
    }

    /// Returns the first player of those that wait, which waits no more.
    pub(super) fn give_up(&mut self) -> Option<usize> {
        let players = self.parked.iter().map(|(&awaited, players)| (players[0], awaited));
        let (first, awaited) = players.min()?;
        let others = self.parked.get_mut(&awaited)?;
        others.retain(|&player| player != first);
        if others.is_empty() {
            self.parked.remove(&awaited);
        }
        Some(first)
    }
}

impl Player {
    /// Begins at time 0; its interfaces by path are those numbers of the world.
    pub(super) fn with_interfaces(interfaces: [usize; 2]) -> Self {
        Self { interfaces, ..Self::default() }
    }

    /// Plays a step of rank `me`.
    ///
    /// # Errors
    /// Another run has to go on first: nothing has changed.
    pub(super) fn play(
        &mut self,
        me: u32,
        step: Step,
        knobs: &KnobTable,
        world: &mut World,
    ) -> Result<(), Awaited> {
        match step {
            Step::Compute { ns } => self.now = self.now.after(ns),
            Step::Wait => self.waiting = true,
            Step::WaitEnd => {
                self.now = self.now.later(self.heard);
                self.waiting = false;
            }
            Step::Send { to, key, bytes, row, waits, bytes_ns } => {
                let sent = SentStep { name: (me, to, key), bytes, bytes_ns, row, waits };
                self.send(sent, knobs, world);
            }
            Step::Receive { from, key, transit_ns } => {
                let name = (from, me, key);
                let sent = world.messages.remove(&name).ok_or(Awaited::Message(name))?;
                self.receive(sent, transit_ns, knobs);
            }
            Step::Handled => self.end_handler(),
            Step::Meet { key, ranks } => {
                let now = self.now;
                let (latest, here, _) = world.meetings.entry(key).or_insert((now, 0, ranks));
                (*latest, *here) = (latest.later(now), *here + 1);
                if *here >= ranks {
                    world.wake(Awaited::Barrier(key));
                }
            }
            Step::Phase { name } => {
                self.phases.entry(name).or_default().1 = Some(self.now.ns);
            }
            Step::PhaseEnd { name } => {
                let (sum_ns, begun) = self.phases.entry(name).or_default();
                *sum_ns += begun.take().map_or(0, |begun| self.now.ns.saturating_sub(begun));
            }
            Step::Part { key, after_ns } => {
                let met = world.meetings.get(&key).filter(|(_, here, ranks)| here >= ranks);
                let &(latest, ..) = met.ok_or(Awaited::Barrier(key))?;
                self.now = self.now.later(latest.after(after_ns));
            }
        }
        Ok(())
    }

    fn send(&mut self, sent: SentStep, knobs: &KnobTable, world: &mut World) {
        let SentStep { name, bytes, bytes_ns, row, waits } = sent;
        let knob = *knobs.get(row.0, row.1);
        self.now = self.now.after(knob.send_ns);
        self.now.counts.overheads += 1;
        let (interface, to_free) = &mut world.interfaces[self.interfaces[row.0 as usize]];
        let free = Moment { ns: interface.free_ns(), counts: *to_free };
        let before = self.now.later(free);
        let bulk = if row.1 == KnobClass::Short { 0 } else { bytes };
        let added_ns = knob.stream_ps * u64::from(bulk) / 1000;
        let behind_ns = bytes_ns.map_or(0, |ns| ns + added_ns);
        // The interface adds the time of added bytes to its gap.
        let gap_ns = bytes_ns.map_or(knob.gap_ns, |_| knob.gap_ns.max(behind_ns) - added_ns);
        let (room_ns, at_ns) = (interface.room_ns(), self.now.ns);
        let plan = interface.inject(&Knobs { gap_ns, ..knob }, at_ns, (bulk as usize, false));
        debug_assert_eq!(plan.at_ns, before.ns, "it is injected once the interface is free");
        if waits && room_ns > at_ns {
            self.now = Moment { ns: room_ns, ..before };
        }
        let mut left = Moment { ns: plan.end_ns, ..before };
        left.counts.bytes += u64::from(bulk);
        *to_free = before.counts;
        let by_bytes = behind_ns > knob.gap_ns;
        if !by_bytes {
            to_free.gaps += 1;
        }
        if by_bytes || bytes_ns.is_none() {
            to_free.bytes += u64::from(bulk);
        }
        if name.1 != NOBODY {
            world.messages.insert(name, Sent { left, row });
            world.wake(Awaited::Message(name));
        }
    }

    fn receive(&mut self, sent: Sent, transit_ns: u64, knobs: &KnobTable) {
        let knob = knobs.get(sent.row.0, sent.row.1);
        // An interface answers by itself: the latency of both directions is between.
        let latencies = if sent.row.1 == KnobClass::OneSided { 2 } else { 1 };
        let mut arrived = sent.left.after(transit_ns + latencies * knob.latency_ns);
        arrived.counts.latencies += latencies;
        if self.waiting || arrived.ns <= self.now.ns {
            self.now = self.now.later(arrived);
        } else {
            // It is handled at a later poll, for as long as it was; the rank's work continues.
            self.detour = Some((self.now, arrived));
            self.now = arrived;
        }
        self.now = self.now.after(knob.receive_ns);
        self.now.counts.overheads += 1;
    }

    fn end_handler(&mut self) {
        // A wait that follows may be for what it did.
        self.heard = self.heard.later(self.now);
        if let Some((before, begun)) = self.detour.take() {
            debug_assert!(self.now.ns >= begun.ns, "a handler takes time");
            let more = PathCounts {
                overheads: self.now.counts.overheads - begun.counts.overheads,
                gaps: self.now.counts.gaps - begun.counts.gaps,
                ..PathCounts::default()
            };
            self.now = before.after(self.now.ns - begun.ns);
            self.now.counts.overheads += more.overheads;
            self.now.counts.gaps += more.gaps;
        }
    }
}
