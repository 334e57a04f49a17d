//! The verdict: what a search says about a model, and what it does not.

use crate::murphi::explorer::ModelSearch;
use crate::murphi::path::{PathFinder, rule_name};
use crate::murphi::search_result::{ErrorClass, FoundError, SearchResult};
use crate::murphi::serial;
use crate::run::AppRun;
use anyhow::Result;

/// End of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchEnding {
    /// All states were searched, and there is no error.
    NoError,
    /// The model has an error.
    ModelError,
    /// Not all states were searched, or not surely.
    Incomplete,
}

/// Conditions of the verdict "no error".
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VerdictBounds {
    /// Bits of a key that stands for its state.
    pub compact: Option<u32>,
    /// Largest probability that a state was omitted.
    pub max_omission: f64,
    /// True if the serial version has to find the same counts.
    pub check: bool,
}

impl SearchEnding {
    /// Returns the exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::NoError => 0,
            Self::ModelError => 1,
            Self::Incomplete => 3,
        }
    }
}

/// Returns a bound of the probability that a search with keys of so many bits omitted any state:
/// each pair of states has the same key with probability 2^-bits.
pub fn omission(states: u64, bits: u32) -> f64 {
    let pairs = states as f64 * states.saturating_sub(1) as f64 / 2.0;
    (pairs / 2_f64.powi(bits as i32)).min(1.0)
}

/// Reports how a search ended. Collective.
///
/// # Errors
/// Fails if a rank is lost.
pub fn reach(
    run: &mut AppRun,
    search: &mut ModelSearch<'_>,
    result: &SearchResult,
    bounds: &VerdictBounds,
) -> Result<SearchEnding> {
    if let Some(bits) = bounds.compact {
        run.report().figure("omission probability, at most", omission(result.states, bits));
    }
    if let Some(error) = result.error {
        return counterexample(run, search, error);
    }
    let report = run.report();
    if result.lost > 0 {
        report.choice("result", "incomplete: memory");
        report.line(format!(
            "memory for states is full: {} states or more were not searched, so this says nothing \
             about the model; give more by --memory, or by more nodes, or use --compact",
            result.lost
        ));
        return Ok(SearchEnding::Incomplete);
    }
    if result.ended_early {
        report.choice("result", "incomplete: --max-states");
        report.line("the search ended at --max-states: this says nothing about the model".into());
        return Ok(SearchEnding::Incomplete);
    }
    if bounds.compact.is_some_and(|bits| omission(result.states, bits) > bounds.max_omission) {
        report.choice("result", "incomplete: states may be omitted");
        report.line(
            "no error was found, but states may have been omitted: use more bits, or none".into(),
        );
        return Ok(SearchEnding::Incomplete);
    }
    report.choice("result", "no error");
    let compared = if bounds.check { "those of the serial version" } else { "not compared" };
    report.choice("counts", compared);
    if bounds.check && !agrees(run, search, result)? {
        return Ok(SearchEnding::Incomplete);
    }
    Ok(SearchEnding::NoError)
}

/// Compares the counts with those of the serial version.
fn agrees(run: &mut AppRun, search: &ModelSearch<'_>, result: &SearchResult) -> Result<bool> {
    let serial = run.serial(|| serial::search(&search.engine.model, &search.reduction))?;
    let unlike = serial
        .is_some_and(|it| (it.states, it.fired, it.wrong) != (result.states, result.fired, false));
    if let (true, Some(it)) = (unlike, serial) {
        let line =
            format!("the serial version finds {} states, and fires {} rules", it.states, it.fired);
        run.report().line(line);
        run.report().choice("result", "incomplete: counts differ");
    }
    Ok(run.total(u64::from(unlike))? == 0)
}

/// Reports an error, with the path to it. Collective.
fn counterexample(
    run: &mut AppRun,
    search: &mut ModelSearch<'_>,
    error: FoundError,
) -> Result<SearchEnding> {
    let keys = match error.class {
        ErrorClass::Start => Vec::new(),
        _ => {
            let before = match error.class {
                ErrorClass::Rule | ErrorClass::Unordered => error.steps.max(1) - 1,
                _ => error.steps,
            };
            let Some(keys) = search.way_to(error.key, before)? else {
                run.report().choice("result", "incomplete: an error without a path");
                run.report().line(
                    "an error was found, and its path was not kept: search without --no-trace"
                        .into(),
                );
                return Ok(SearchEnding::Incomplete);
            };
            keys
        }
    };
    let model = search.engine.model.clone();
    if error.class == ErrorClass::Unordered {
        let rule = model.rules.get(error.rule as usize);
        let name = rule.map_or_else(String::new, |it| rule_name(&model, it, error.instance));
        run.report().choice("result", "incomplete: no symmetry");
        run.report().line(format!(
            "a loop over a scalarset in {name} gives another state in another order, so there is no \
             symmetry: use --symmetry off"
        ));
        return Ok(SearchEnding::Incomplete);
    }
    let mut engine = search.engine.clone();
    let (packing, reduction, deadlock) =
        (&search.packing, &search.reduction, search.bounds.deadlock);
    let replayed = search.exchange.with(|keys_of| {
        let (engine, keys_of) = (&mut engine, &*keys_of);
        let mut finder = PathFinder { engine, packing, reduction, keys: keys_of, deadlock };
        let path = finder.path(&keys)?;
        finder.replay(&path, error)
    });
    let report = run.report();
    let fires = matches!(error.class, ErrorClass::Rule | ErrorClass::Start);
    let steps = (keys.len() as u64 + u64::from(fires)).saturating_sub(1);
    report.count("steps to the error", steps);
    let Some(replayed) = replayed else {
        report.choice("result", "incomplete: unconfirmed error");
        report.line(
            "an error was found whose path cannot be replayed: with --compact, states may have been \
             taken for others; else this is a bug of clump"
                .into(),
        );
        return Ok(SearchEnding::Incomplete);
    };
    report.choice("result", "error");
    report.line(format!("error: {}", replayed.what));
    report.line("path to it, replayed:".into());
    for line in replayed.lines {
        report.line(line);
    }
    Ok(SearchEnding::ModelError)
}
