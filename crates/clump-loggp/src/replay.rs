//! A run played again on a slower network (M5): the graph of its events with edges for
//! computation, overheads, latency, gap and bytes. Pure; recorded times are arguments.
//!
//! Each rank is a list of [`Step`]s. The time of a step is the latest of the times on which it
//! depends. A rank's computation takes as long as recorded; a message arrives when it was sent, and
//! later by its path; a wait ends when the last message that was handled before its end has been.
//! On a network that is no slower, the run takes as long as it was recorded. Each step's time is
//! kept with the number of overheads, latencies, gaps and bytes on the longest path to it, so that
//! the time of the run is a function of each parameter (with its derivative), until another path is
//! longest.

use crate::injector::Injector;
use crate::knobs::{KnobClass, KnobScope, KnobTable};
use std::collections::HashMap;

/// Target of messages that occur in no other trace: operations of an interface, whose sender waits
/// for a later answer.
pub const NOBODY: u32 = u32::MAX;

/// A step of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The rank computes.
    Compute {
        /// Time in ns.
        ns: u64,
    },
    /// Waits until all has arrived that it has handled by [`Step::WaitEnd`].
    Wait,
    /// End of the wait.
    WaitEnd,
    /// Sends a message.
    Send {
        /// The target.
        to: u32,
        /// The message's name: equal at both ends, and at no other message under way between them.
        key: u64,
        /// Bytes of its payload.
        bytes: u32,
        /// The path and class of the message.
        row: (KnobScope, KnobClass),
        /// True for a request, which waits for room in the interface; replies wait for none.
        waits: bool,
    },
    /// Handles a message.
    Receive {
        /// The sender.
        from: u32,
        /// The message's name.
        key: u64,
        /// Time between its sending and its arrival.
        transit_ns: u64,
    },
    /// The handler of that message is done.
    Handled,
    /// Meets others: none continues before all are there.
    Meet {
        /// The meeting.
        key: u64,
        /// Ranks that meet.
        ranks: u32,
    },
    /// Leaves the meeting.
    Part {
        /// The meeting.
        key: u64,
        /// Time from the last arrival until it leaves.
        after_ns: u64,
    },
}

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
    fn later(self, other: Self) -> Self {
        if other.ns > self.ns { other } else { self }
    }

    fn after(self, ns: u64) -> Self {
        Self { ns: self.ns.saturating_add(ns), ..self }
    }
}

/// Result of a replay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replay {
    /// Time at which each rank is done.
    pub ends: Vec<Moment>,
    /// Messages and meetings without a record when they were needed, as at the end of an incomplete
    /// trace: no rank waited for them.
    pub unmatched: u64,
}

impl Replay {
    /// Returns the moment at which the last rank is done.
    pub fn end(&self) -> Moment {
        self.ends.iter().fold(Moment::default(), |latest, &end| latest.later(end))
    }
}

/// A rank that is played.
#[derive(Debug, Default)]
struct Player {
    /// Steps that have been played.
    taken: usize,
    /// Time of its processor.
    now: Moment,
    /// Time at which the last message has been handled.
    heard: Moment,
    /// Times of the rank and of a handler for whose message the rank does not wait.
    detour: Option<(Moment, Moment)>,
    /// Its interface by path, and the longest path to the time at which that is free.
    interfaces: [(Injector, PathCounts); 2],
    waiting: bool,
}

/// The messages under way and the meetings of a run that is played.
#[derive(Debug, Default)]
struct World {
    /// By sender, target, name: the time at which the last byte leaves, and the time of sending.
    messages: HashMap<(u32, u32, u64), Sent>,
    /// Meetings: the latest arrival, and the ranks that are there.
    meetings: HashMap<u64, (Moment, u32, u32)>,
    unmatched: u64,
}

/// A message under way.
#[derive(Debug, Clone, Copy)]
struct Sent {
    /// Time at which it has left its interface.
    left: Moment,
    row: (KnobScope, KnobClass),
}

/// Result of one attempt to play a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Played {
    Done,
    /// Another rank has to go on first.
    Later,
}

/// Plays runs of steps, each with its rank, on a network that is slower by `knobs`. Threads of a
/// rank have a run of their own each.
///
/// Memory: the messages under way. Time: one look at each step, and one at each rank whenever no
/// rank could go on otherwise.
pub fn replay(runs: &[(u32, &[Step])], knobs: &KnobTable) -> Replay {
    let mut players: Vec<Player> = runs.iter().map(|_| Player::default()).collect();
    let (mut world, mut force) = (World::default(), false);
    loop {
        let (mut moved, mut left) = (false, false);
        for (&(rank, steps), player) in runs.iter().zip(&mut players) {
            while let Some(&step) = steps.get(player.taken) {
                if player.play(rank, step, knobs, &mut world) == Played::Later {
                    if !std::mem::take(&mut force) {
                        left = true;
                        break;
                    }
                    world.unmatched += 1;
                }
                player.taken += 1;
                moved = true;
            }
        }
        if !left {
            break;
        }
        // Nothing can be played: what the first one waits for is in no trace.
        force = !moved;
    }
    let ends = players.iter().map(|player| player.now).collect();
    Replay { ends, unmatched: world.unmatched }
}

impl Player {
    /// Plays a step of rank `me`, unless another has to go on first.
    fn play(&mut self, me: u32, step: Step, knobs: &KnobTable, world: &mut World) -> Played {
        match step {
            Step::Compute { ns } => self.now = self.now.after(ns),
            Step::Wait => self.waiting = true,
            Step::WaitEnd => {
                self.now = self.now.later(self.heard);
                self.waiting = false;
            }
            Step::Send { to, key, bytes, row, waits } => {
                self.send((me, to, key), (bytes, waits), row, knobs, world);
            }
            Step::Receive { from, key, transit_ns } => {
                let Some(sent) = world.messages.remove(&(from, me, key)) else {
                    return Played::Later;
                };
                self.receive(sent, transit_ns, knobs);
            }
            Step::Handled => self.end_handler(),
            Step::Meet { key, ranks } => {
                let now = self.now;
                let (latest, here, _) = world.meetings.entry(key).or_insert((now, 0, ranks));
                (*latest, *here) = (latest.later(now), *here + 1);
            }
            Step::Part { key, after_ns } => {
                let met = world.meetings.get(&key).filter(|(_, here, ranks)| here >= ranks);
                let Some(&(latest, ..)) = met else { return Played::Later };
                self.now = self.now.later(latest.after(after_ns));
            }
        }
        Played::Done
    }

    fn send(
        &mut self,
        name: (u32, u32, u64),
        (bytes, waits): (u32, bool),
        row: (KnobScope, KnobClass),
        knobs: &KnobTable,
        world: &mut World,
    ) {
        let knob = knobs.get(row.0, row.1);
        self.now = self.now.after(knob.send_ns);
        self.now.counts.overheads += 1;
        let (interface, to_free) = &mut self.interfaces[row.0 as usize];
        let free = Moment { ns: interface.free_ns(), counts: *to_free };
        let before = self.now.later(free);
        let bulk = if row.1 == KnobClass::Short { 0 } else { bytes };
        let (room_ns, at_ns) = (interface.room_ns(), self.now.ns);
        let plan = interface.inject(knob, at_ns, (bulk as usize, false));
        debug_assert_eq!(plan.at_ns, before.ns, "it is injected once the interface is free");
        if waits && room_ns > at_ns {
            self.now = Moment { ns: room_ns, ..before };
        }
        let mut left = Moment { ns: plan.end_ns, ..before };
        left.counts.bytes += u64::from(bulk);
        *to_free = before.counts;
        to_free.gaps += 1;
        to_free.bytes += u64::from(bulk);
        if name.1 != NOBODY {
            world.messages.insert(name, Sent { left, row });
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

/// Returns the largest value of a knob, up to `most`, with which the run takes at most `slowdown`
/// times as long (1.01: 1 % longer): its tolerance. `run` plays the run with a value added and
/// returns its time; `None`: it takes no longer with `most` either.
pub fn tolerance(slowdown: f64, most: u64, mut run: impl FnMut(u64) -> u64) -> Option<u64> {
    let base = run(0);
    let limit = (base as f64 * slowdown) as u64;
    if run(most) <= limit {
        return None;
    }
    let (mut holds, mut fails) = (0, most);
    while fails - holds > 1 {
        let middle = holds + (fails - holds) / 2;
        if run(middle) <= limit { holds = middle } else { fails = middle }
    }
    debug_assert!(holds < fails, "the bound lies between");
    Some(holds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: (KnobScope, KnobClass) = (KnobScope::Net, KnobClass::Short);

    fn play(ranks: &[Vec<Step>], knobs: &str) -> Replay {
        let knobs = KnobTable::parse(knobs, &Default::default()).unwrap();
        let runs = (0..).zip(ranks.iter().map(|steps| &steps[..])).collect::<Vec<_>>();
        replay(&runs, &knobs)
    }

    /// Rank 0 sends `rounds` requests and waits for each answer; rank 1 waits for each request.
    fn ping_pong(rounds: u64) -> Vec<Vec<Step>> {
        let [mut zero, mut one] = [Vec::new(), Vec::new()];
        for key in 0..rounds {
            let send = |to| Step::Send { to, key, bytes: 8, row: ROW, waits: true };
            let receive = |from| Step::Receive { from, key, transit_ns: 1_000 };
            zero.extend([Step::Compute { ns: 50 }, send(1), Step::Wait, receive(1)]);
            zero.extend([Step::Compute { ns: 10 }, Step::Handled, Step::WaitEnd]);
            one.extend([Step::Wait, receive(0), Step::Compute { ns: 10 }, send(0)]);
            one.extend([Step::Handled, Step::WaitEnd]);
        }
        vec![zero, one]
    }

    #[test]
    fn round_trips_take_what_they_took_and_more_by_each_parameter() {
        // By hand: 50 + 1000 + 10 + 1000 + 10 a round.
        let base = play(&ping_pong(7), "");
        assert_eq!((base.end().ns, base.unmatched), (7 * 2_070, 0));
        let counts = base.end().counts;
        assert_eq!((counts.overheads, counts.latencies), (7 * 4, 7 * 2));
        assert_eq!(play(&ping_pong(7), "L=+5us").end().ns, 7 * (2_070 + 10_000));
        assert_eq!(play(&ping_pong(7), "o=+3us").end().ns, 7 * (2_070 + 12_000));
        // Two sends of a rank are 2,070 ns apart.
        assert_eq!(play(&ping_pong(7), "g=+1us").end().ns, 7 * 2_070);
    }

    #[test]
    fn a_burst_is_limited_by_the_gap_and_hides_latency() {
        // Rank 0 sends ten messages in 1 us and computes for 100 us; rank 1 waits for all.
        let mut zero = Vec::new();
        let mut one = vec![Step::Wait];
        let send = |key| Step::Send { to: 1, key, bytes: 8, row: ROW, waits: true };
        for key in 0..10 {
            zero.extend([Step::Compute { ns: 100 }, send(key)]);
            one.extend([Step::Receive { from: 0, key, transit_ns: 2_000 }, Step::Handled]);
        }
        zero.push(Step::Compute { ns: 100_000 });
        one.push(Step::WaitEnd);
        let ends = |knobs: &str| {
            let played = play(&[zero.clone(), one.clone()], knobs);
            played.ends.iter().map(|end| end.ns).collect::<Vec<_>>()
        };
        assert_eq!(ends(""), [101_000, 3_000]);
        // The first is sent at 100 ns; each further one 4 us later.
        let gap = KnobTable::parse("g=+4us", &Default::default()).unwrap();
        let gap = gap.get(ROW.0, ROW.1).gap_ns;
        assert_eq!(ends("g=+4us"), [101_000, 100 + 9 * gap + 2_000]);
        assert_eq!(ends("L=+50us"), [101_000, 53_000]);
    }

    #[test]
    fn an_interface_that_holds_all_it_can_holds_its_rank_up() {
        // Requests without an answer, at once; the interface holds 256 of them.
        let run = |messages: usize, class, waits| {
            let row = (KnobScope::Net, class);
            let send = Step::Send { to: NOBODY, key: 0, bytes: 8, row, waits };
            play(&[vec![send; messages]], "g=+4us").end().ns
        };
        for class in [KnobClass::OneSided, KnobClass::Short] {
            assert_eq!([257, 300].map(|all| run(all, class, true)), [0, (299 - 256) * 4_000]);
        }
        assert_eq!(run(300, KnobClass::Short, false), 0, "replies wait for no room");
    }

    #[test]
    fn bytes_that_hold_up_those_behind_them_are_on_the_path() {
        let row = (KnobScope::Net, KnobClass::Bulk);
        let send = |key| Step::Send { to: 1, key, bytes: 1_000, row, waits: true };
        let receive = |key| Step::Receive { from: 0, key, transit_ns: 100 };
        let one = vec![Step::Wait, receive(1), receive(2), Step::Handled, Step::WaitEnd];
        let played = play(&[vec![send(1), send(2)], one], "G=+3ns/B");
        assert_eq!(played.end().ns, 2 * 3_000 + 100);
        assert_eq!(played.end().counts.bytes, 2 * 1_000);
    }

    #[test]
    fn a_handler_that_nobody_waits_for_delays_what_depends_on_it_alone() {
        // Rank 1 computes for 10 us, handles a request at a poll in between, and answers.
        let send = |to, key| Step::Send { to, key, bytes: 8, row: ROW, waits: true };
        let receive = |from, key| Step::Receive { from, key, transit_ns: 1_000 };
        let zero = vec![send(1, 1), Step::Wait, receive(1, 2), Step::Handled, Step::WaitEnd];
        let one = vec![
            Step::Compute { ns: 5_000 },
            receive(0, 1),
            Step::Compute { ns: 10 },
            send(0, 2),
            Step::Handled,
            Step::Compute { ns: 4_990 },
        ];
        let ends = |knobs: &str| {
            let played = play(&[zero.clone(), one.clone()], knobs);
            played.ends.iter().map(|end| end.ns).collect::<Vec<_>>()
        };
        assert_eq!(ends(""), [6_010, 10_000]);
        assert_eq!(ends("L=+20us"), [21_000 + 10 + 21_000, 10_000], "the rank computes on");
    }

    #[test]
    fn ranks_meet_and_what_no_trace_has_stops_nobody() {
        let meet = Step::Meet { key: 3, ranks: 2 };
        let part = Step::Part { key: 3, after_ns: 30 };
        let slow = vec![Step::Compute { ns: 500 }, meet, part];
        let played = play(&[vec![meet, part], slow.clone()], "");
        assert_eq!(played.ends.iter().map(|end| end.ns).collect::<Vec<_>>(), [530, 530]);
        let lost = Step::Receive { from: 1, key: 9, transit_ns: 5 };
        let played = play(&[vec![Step::Wait, lost, Step::Handled, Step::WaitEnd], slow], "");
        assert_eq!(played.unmatched, 2, "a message, and rank 0 at the meeting");
    }

    #[test]
    fn the_tolerance_is_the_largest_value_within_the_bound() {
        assert_eq!(tolerance(1.01, 1_000_000, |x| 1_000_000 + 2 * x), Some(5_000));
        assert_eq!(tolerance(1.01, 1_000, |_| 77), None);
    }
}
