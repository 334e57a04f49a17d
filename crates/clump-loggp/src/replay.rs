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

mod player;
mod step;

use crate::knobs::KnobTable;
use player::{Player, World};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

pub use player::{Moment, PathCounts};
pub use step::{NOBODY, Step};

/// Result of a replay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replay {
    /// Time at which each rank is done.
    pub ends: Vec<Moment>,
    /// Time of each phase that the program times, by name, in ns: of all its turns, of the rank
    /// that took longest.
    pub phases_ns: BTreeMap<u64, u64>,
    /// Messages and meetings without a record when they were needed, as at the end of an incomplete
    /// trace: no rank waited for them.
    pub unmatched: u64,
}

impl Replay {
    /// Returns the moment at which the last rank is done.
    pub fn end(&self) -> Moment {
        self.ends.iter().fold(Moment::default(), |latest, &end| latest.later(end))
    }

    /// Returns the time of all phases that the program times, in ns; `None` where it times none.
    pub fn of_phases_ns(&self) -> Option<u64> {
        (!self.phases_ns.is_empty()).then(|| self.phases_ns.values().sum())
    }
}

/// A run that is to be played.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// Its rank. Threads of a rank have a run of their own each.
    pub rank: u32,
    /// The interface through which it sends to other nodes; those with equal numbers share one.
    pub nic: u32,
    /// Its steps.
    pub steps: &'a [Step],
}

/// Plays runs on a network that is slower by `knobs`, always that whose clock is first of those
/// that can go on: runs that share an interface use it in the order of their times.
///
/// Memory: the messages under way. Time: one look at each step, and one more at each that has to
/// wait for another run.
pub fn replay(runs: &[Run<'_>], knobs: &KnobTable) -> Replay {
    let mut nics = HashMap::new();
    let mut players = Vec::with_capacity(runs.len());
    for (at, run) in runs.iter().enumerate() {
        let next = runs.len() + nics.len();
        let nic = *nics.entry(run.nic).or_insert(next);
        players.push(Player::with_interfaces([at, nic]));
    }
    let (mut world, mut unmatched) = (World::with_interfaces(runs.len() + nics.len()), 0);
    let mut ready: BinaryHeap<_> = (0..runs.len()).map(|at| Reverse((0, at))).collect();
    loop {
        while let Some(Reverse((_, at))) = ready.pop() {
            play_on(at, (runs[at], knobs), &mut players, &mut world, &mut ready);
        }
        // What the first one waits for is in no trace.
        let Some(at) = world.give_up() else { break };
        unmatched += 1;
        players[at].taken += 1;
        ready.push(Reverse((players[at].now.ns, at)));
    }
    debug_assert!(players.iter().zip(runs).all(|(of, run)| of.taken == run.steps.len()), "all");
    let mut phases_ns = BTreeMap::new();
    for (&name, &(ns, _)) in players.iter().flat_map(|player| &player.phases) {
        let longest = phases_ns.entry(name).or_insert(ns);
        *longest = ns.max(*longest);
    }
    let ends = players.iter().map(|player| player.now).collect();
    Replay { ends, phases_ns, unmatched }
}

/// Plays steps of a run until it has no more, has to wait for another, or is later than another.
fn play_on(
    at: usize,
    (run, knobs): (Run<'_>, &KnobTable),
    players: &mut [Player],
    world: &mut World,
    ready: &mut BinaryHeap<Reverse<(u64, usize)>>,
) {
    while let Some(&step) = run.steps.get(players[at].taken) {
        let now_ns = players[at].now.ns;
        if ready.peek().is_some_and(|Reverse((first_ns, _))| *first_ns < now_ns) {
            ready.push(Reverse((now_ns, at)));
            return;
        }
        if let Err(awaited) = players[at].play(run.rank, step, knobs, world) {
            world.park(at, awaited);
            return;
        }
        players[at].taken += 1;
        while let Some(woken) = world.next_woken() {
            ready.push(Reverse((players[woken].now.ns, woken)));
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
mod tests;
