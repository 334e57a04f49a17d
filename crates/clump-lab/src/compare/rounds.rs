//! Rounds of a comparison: a turn of each implementation, on a machine in one state.
//!
//! The round trip between the processors is measured around each turn. A round in which it changed
//! is played again; of rounds in unlike states those of the state that most of them have count, and
//! the others are named.

use super::score::Score;
use anyhow::Result;
use clump_loggp::Median;
use clump_os::signal;
use clump_trace::line_state::alike;
use serde::Serialize;

/// Rounds that are played again at most, for each that is wanted.
const AGAIN: usize = 1;

/// Turns of one implementation.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ImplementationTurns {
    /// Name and version.
    pub name: String,
    /// One score per round: without figures where the turn failed.
    pub rounds: Vec<Score>,
    /// Turns that failed, by their round, with the reason.
    pub failures: Vec<(usize, String)>,
}

/// A turn, as a journal keeps it.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct ComparisonTurn<'a> {
    /// Its round, from 1.
    pub round: usize,
    /// The implementation.
    pub name: &'a str,
    /// Its figures; `None` where it failed.
    pub score: Option<&'a Score>,
    /// Why it failed.
    pub failure: Option<&'a str>,
    /// Round trip between the processors before and after it, in ns, where there are two.
    pub line_ns: [Option<f64>; 2],
}

/// All rounds.
#[derive(Debug, Clone, Default, Serialize)]
pub struct PlayedRounds {
    /// Turns of each implementation, the first of which is clump.
    pub turns: Vec<ImplementationTurns>,
    /// Round trips between the processors by round: before the first turn, and after each, in ns.
    pub lines_ns: Vec<Vec<f64>>,
    /// Rounds that were played again because the machine changed.
    pub again: usize,
}

/// Returns true if round trips are of one state of the machine.
fn is_steady(lines_ns: &[f64]) -> bool {
    let least = lines_ns.iter().copied().reduce(f64::min);
    let most = lines_ns.iter().copied().reduce(f64::max);
    least.zip(most).is_none_or(|(least, most)| alike(least, most))
}

impl PlayedRounds {
    /// Returns true for each round that counts: of the state that most rounds have, and steady,
    /// where there is such a round at all.
    pub fn counting(&self) -> Vec<bool> {
        let state = |lines: &Vec<f64>| Some(Median::of(lines.iter().copied())?.value);
        let states: Vec<Option<f64>> = self.lines_ns.iter().map(state).collect();
        let like = |one: &Option<f64>, other: &Option<f64>| match (one, other) {
            (Some(one), Some(other)) => alike(*one, *other),
            _ => true,
        };
        let friends = |one: &Option<f64>| states.iter().filter(|other| like(one, other)).count();
        let common = states.iter().max_by_key(|state| friends(state));
        let counts = self.lines_ns.iter().zip(&states).map(|(lines, state)| {
            is_steady(lines) && common.is_none_or(|common| like(common, state))
        });
        let counts: Vec<bool> = counts.collect();
        if counts.contains(&true) { counts } else { vec![true; counts.len()] }
    }

    /// Returns lines about the state of the machine.
    pub fn notes(&self) -> Vec<String> {
        let counts = self.counting();
        let range = |counted: bool| {
            let rounds = self.lines_ns.iter().zip(&counts).filter(|(_, c)| **c == counted);
            let all: Vec<f64> = rounds.flat_map(|(lines, _)| lines.iter().copied()).collect();
            let least = all.iter().copied().reduce(f64::min)?;
            Some(format!("{least:.0} to {:.0} ns", all.iter().copied().fold(0.0, f64::max)))
        };
        let mut notes = Vec::new();
        notes.extend(range(true).map(|r| format!("round trip between the processors: {r}")));
        let out = counts.iter().enumerate().filter(|(_, counted)| !**counted);
        let out: Vec<String> = out.map(|(round, _)| (round + 1).to_string()).collect();
        notes.extend(range(false).filter(|_| !out.is_empty()).map(|r| {
            format!("left out, the machine was in another state: rounds {} ({r})", out.join(", "))
        }));
        if counts.iter().all(|counted| *counted) && self.lines_ns.iter().any(|l| !is_steady(l)) {
            notes.push("the machine changed in every round: repeat this".into());
        }
        if self.again > 0 {
            notes.push(format!("{} rounds were played again: the machine changed", self.again));
        }
        notes
    }
}

/// Runs all rounds. A turn that fails, as of a peer that hangs, is noted, and the others go on.
/// `play` runs a turn of the implementation of that index; `line` measures the round trip between
/// the processors; `note` is given what runs, and each turn once it has ended.
///
/// # Errors
/// The user interrupts, a turn cannot be noted, or no turn of the first implementation succeeds.
pub fn play(
    names: &[String],
    rounds: usize,
    mut play: impl FnMut(usize) -> Result<Score>,
    mut line: impl FnMut() -> Option<f64>,
    mut note: impl FnMut(&str, Option<ComparisonTurn<'_>>) -> Result<()>,
) -> Result<PlayedRounds> {
    let turns = |name: &String| ImplementationTurns { name: name.clone(), ..Default::default() };
    let mut played =
        PlayedRounds { turns: names.iter().map(turns).collect(), ..PlayedRounds::default() };
    let mut before = line();
    while played.lines_ns.len() < rounds {
        let round = played.lines_ns.len() + 1;
        let (mut lines, mut scores) = (Vec::from_iter(before), Vec::new());
        for (at, name) in names.iter().enumerate() {
            let what = format!("round {round} of {rounds}: {name}");
            note(&what, None)?;
            let (score, failure) = match play(at) {
                Ok(score) => (score, None),
                Err(why) if signal::pending(&signal::ENDS).is_some() => return Err(why),
                Err(why) => (Score::default(), Some(format!("{why:#}"))),
            };
            let after = line();
            let turn = ComparisonTurn {
                round,
                name,
                score: failure.is_none().then_some(&score),
                failure: failure.as_deref(),
                line_ns: [before, after],
            };
            note(&what, Some(turn))?;
            lines.extend(after);
            before = after;
            scores.push((score, failure));
        }
        if !is_steady(&lines) && played.again < AGAIN * rounds {
            played.again += 1;
            continue;
        }
        played.lines_ns.push(lines);
        for (one, (score, failure)) in played.turns.iter_mut().zip(scores) {
            one.rounds.push(score);
            one.failures.extend(failure.map(|why| (round, why)));
        }
    }
    if let Some(first) = played.turns.first()
        && first.failures.len() == rounds
        && let Some((_, why)) = first.failures.first()
    {
        anyhow::bail!("all turns of {} failed: {why}", first.name);
    }
    Ok(played)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score() -> Score {
        Score { round_trip_ns: Some(400.0), ..Score::default() }
    }

    #[test]
    fn a_peer_that_hangs_costs_its_turn_and_not_the_comparison() {
        let names = ["clump", "UCX"].map(String::from);
        let mut journal = Vec::new();
        let mut turns = 0;
        let run = |at| {
            turns += 1;
            if at == 1 && turns == 4 {
                anyhow::bail!("UCX did not end within 60 s")
            }
            Ok(score())
        };
        let line = || Some(95.0);
        let played = play(&names, 3, run, line, |_, turn| {
            journal.extend(turn.map(|turn| serde_json::to_string(&turn).unwrap()));
            Ok(())
        });
        let played = played.unwrap();
        let results = &played.turns;
        assert_eq!([&results[0], &results[1]].map(|one| one.rounds.len()), [3, 3]);
        assert_eq!(results[1].rounds[1], Score::default(), "rounds stay beside each other");
        assert_eq!(results[1].failures, [(2, "UCX did not end within 60 s".to_owned())]);
        assert_eq!(journal.len(), 6, "each turn, as it ends");
        assert!(journal[3].contains("did not end within 60 s"), "{}", journal[3]);
        assert!(journal[3].contains("\"line_ns\":[95.0,95.0]"), "{}", journal[3]);
        let table = crate::compare::table::ComparisonTable::of(&played);
        assert_eq!(table.rows[0].figures[1].unwrap().samples, 2);
        let none = |_| -> Result<Score> { anyhow::bail!("nothing works") };
        let error = play(&names, 2, none, line, |_, _| Ok(())).unwrap_err().to_string();
        assert!(error.contains("all turns of clump failed: nothing works"), "{error}");
    }

    /// Plays three rounds of one implementation while the round trip is each of these in turn.
    fn played(lines: &[f64]) -> PlayedRounds {
        let mut lines = lines.iter().copied();
        play(&["clump".into()], 3, |_| Ok(score()), || lines.next(), |_, _| Ok(())).unwrap()
    }

    #[test]
    fn a_round_in_which_the_machine_changed_is_played_again() {
        let steady = played(&[95.0, 100.0, 110.0, 90.0]);
        assert_eq!((steady.again, steady.counting()), (0, vec![true; 3]));
        assert_eq!(steady.notes(), ["round trip between the processors: 90 to 110 ns"]);
        let changed = played(&[95.0, 480.0, 100.0, 100.0, 100.0, 100.0]);
        assert_eq!((changed.again, changed.lines_ns.len()), (2, 3), "to far, and back");
        assert!(changed.notes()[1].starts_with("2 rounds were played again"));
    }

    #[test]
    fn rounds_of_unlike_states_do_not_mix() {
        let mixed = PlayedRounds {
            lines_ns: vec![vec![480.0, 500.0], vec![95.0, 99.0], vec![97.0, 110.0]],
            ..PlayedRounds::default()
        };
        assert_eq!(mixed.counting(), [false, true, true]);
        let expected = [
            "round trip between the processors: 95 to 110 ns",
            "left out, the machine was in another state: rounds 1 (480 to 500 ns)",
        ];
        assert_eq!(mixed.notes(), expected);
        let wild = PlayedRounds { lines_ns: vec![vec![95.0, 480.0]; 2], ..PlayedRounds::default() };
        assert_eq!(wild.counting(), [true; 2], "there are no others");
        assert!(wild.notes()[1].contains("in every round"), "{:?}", wild.notes());
        assert!(PlayedRounds::default().notes().is_empty());
    }
}
