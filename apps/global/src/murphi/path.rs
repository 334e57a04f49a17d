//! A counterexample: the way from a start state to an error, found again from the keys of its
//! states, and replayed by the interpreter.

use crate::murphi::engine::{RuleList, StepEngine, StepOutcome};
use crate::murphi::explorer::DeadlockMode;
use crate::murphi::interpreter::TreeInterpreter;
use crate::murphi::packing::StatePacking;
use crate::murphi::search_result::{ErrorClass, FoundError};
use crate::murphi::store::StateStore;
use crate::murphi::symmetry::{StateReduction, inverse, permuted};
use crate::murphi::tree::{CheckedModel, RuleDefinition};

/// A rule of the path, and the state after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathStep {
    /// Number of the rule, or of the start state.
    pub rule: usize,
    /// Instance of it.
    pub instance: u64,
    /// The state after it.
    pub cells: Vec<i64>,
}

/// Finder of paths.
#[derive(Debug)]
pub struct PathFinder<'a> {
    /// The model.
    pub engine: &'a mut StepEngine,
    /// Bits of states.
    pub packing: &'a StatePacking,
    /// Symmetry.
    pub reduction: &'a StateReduction,
    /// A store, for its keys.
    pub keys: &'a StateStore,
    /// Kind of state that counts as a deadlock.
    pub deadlock: DeadlockMode,
}

impl PathFinder<'_> {
    fn key(&self, cells: &[i64]) -> u64 {
        let mut words = vec![0; self.packing.words()];
        self.packing.pack(cells, &mut words);
        self.keys.key(&words)
    }

    /// Returns the first instance of rules after which a state passes, and that state.
    fn first(
        &mut self,
        list: RuleList,
        from: &[i64],
        passes: impl Fn(&Self, &[i64]) -> bool,
    ) -> Option<PathStep> {
        let model = self.engine.model.clone();
        let counts: Vec<u64> =
            self.engine.rules(list).iter().map(|it| model.instances(it)).collect();
        for (rule, count) in counts.into_iter().enumerate() {
            for instance in 0..count {
                self.engine.set_state(from);
                if self.engine.fire(list, rule, instance, from) == StepOutcome::Fired {
                    let cells = self.engine.state().to_vec();
                    if passes(self, &cells) {
                        return Some(PathStep { rule, instance, cells });
                    }
                }
            }
        }
        None
    }

    /// Finds the path through states with keys, whatever permutations were made of them: each
    /// state of the path is the permutation of the one that stands for it that the steps before
    /// lead to.
    pub fn path(&mut self, keys: &[u64]) -> Option<Vec<PathStep>> {
        let model = self.engine.model.clone();
        let undefined = self.engine.undefined();
        let mut steps: Vec<PathStep> = Vec::new();
        let mut standing: Vec<i64> = Vec::new();
        // From the state that stands for the last one to the last one itself: applied in turn.
        let mut back = Vec::new();
        for (number, key) in keys.iter().enumerate() {
            let list = if number == 0 { RuleList::Starts } else { RuleList::Rules };
            let from = if number == 0 { undefined.clone() } else { standing.clone() };
            let found = self.first(list, &from, |it, cells| {
                let mut reduced = cells.to_vec();
                it.reduction.reduce(&it.engine.model, &mut reduced);
                it.key(&reduced) == *key
            })?;
            let real = back
                .iter()
                .rev()
                .fold(found.cells.clone(), |cells, map| permuted(&model, map, &cells));
            let step = if back.is_empty() {
                PathStep { cells: real, ..found.clone() }
            } else {
                let from = steps.last().map_or_else(|| undefined.clone(), |it| it.cells.clone());
                self.first(list, &from, |_, cells| cells == real)?
            };
            steps.push(step);
            standing = found.cells;
            let map = self.reduction.reduce(&model, &mut standing);
            if !map.is_empty() {
                back.push(inverse(&map));
            }
        }
        Some(steps)
    }

    /// Returns the description of the error at the end of a path, if the interpreter finds the
    /// same steps and an error of the same class.
    pub fn replay(&mut self, steps: &[PathStep], error: FoundError) -> Option<ReplayedPath> {
        let model = self.engine.model.clone();
        let mut interpreter = TreeInterpreter::new(&model);
        let mut state = self.engine.undefined();
        let mut lines = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            let rules = if number == 0 { &model.starts } else { &model.rules };
            let rule = rules.get(step.rule)?;
            let next = interpreter.fire(rule, step.instance, &state).ok()??;
            if next != step.cells {
                return None;
            }
            lines.push(format!("{number:>4}. {}", rule_name(&model, rule, step.instance)));
            lines.extend(changes(&model, (number > 0).then_some(&state[..]), &next));
            lines.extend(
                std::mem::take(&mut interpreter.printed)
                    .lines()
                    .map(|it| format!("      put: {it}")),
            );
            state = next;
        }
        let what = match error.class {
            ErrorClass::Invariant => violated(&model, &mut interpreter, &state)?,
            ErrorClass::Deadlock => self.dead_end(&mut interpreter, &state)?,
            ErrorClass::Rule => failing(&model, &model.rules, &mut interpreter, &state)?,
            ErrorClass::Start => failing(&model, &model.starts, &mut interpreter, &state)?,
            ErrorClass::Unordered => return None,
        };
        Some(ReplayedPath { lines, what })
    }

    fn dead_end(&self, interpreter: &mut TreeInterpreter<'_>, state: &[i64]) -> Option<String> {
        let model = &self.engine.model;
        for rule in &model.rules {
            for instance in 0..model.instances(rule) {
                match interpreter.fire(rule, instance, state) {
                    Ok(None) => (),
                    Ok(Some(next))
                        if self.deadlock == DeadlockMode::Stuttering && next == state => {}
                    _ => return None,
                }
            }
        }
        Some(match self.deadlock {
            DeadlockMode::Stuck => "deadlock: no rule can fire".into(),
            _ => "deadlock: no rule leads to another state".into(),
        })
    }
}

/// A path that the interpreter has found to be one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayedPath {
    /// Steps, and what they change.
    pub lines: Vec<String>,
    /// The error at the end.
    pub what: String,
}

/// Returns the name of an instance of a rule, with its parameters.
pub fn rule_name(model: &CheckedModel, rule: &RuleDefinition, instance: u64) -> String {
    let mut parameters = Vec::new();
    model.each_parameter(rule, instance, |parameter, value| {
        let value =
            parameter.of.map_or_else(|_| value.to_string(), |of| model.types.show(of, value));
        parameters.push(format!("{}: {value}", parameter.name));
    });
    parameters.reverse();
    match parameters.is_empty() {
        true => format!("\"{}\"", rule.name),
        false => format!("\"{}\", {}", rule.name, parameters.join(", ")),
    }
}

/// Returns a line for each scalar that differs; for all of them without a state before.
fn changes(model: &CheckedModel, before: Option<&[i64]>, after: &[i64]) -> Vec<String> {
    let mut lines = Vec::new();
    for variable in &model.variables {
        let place = (variable.offset, variable.name.as_str());
        model.types.each_scalar(variable.type_id, place, &mut |cell, of, name| {
            let (was, is) = (before.and_then(|it| it.get(cell as usize)), after.get(cell as usize));
            if let Some(is) = is.filter(|is| was != Some(is)) {
                lines.push(format!("      {name} := {}", model.types.show(of, *is)));
            }
        });
    }
    lines
}

fn violated(
    model: &CheckedModel,
    interpreter: &mut TreeInterpreter<'_>,
    state: &[i64],
) -> Option<String> {
    for rule in &model.invariants {
        for instance in 0..model.instances(rule) {
            let name = rule_name(model, rule, instance);
            match interpreter.holds(rule, instance, state) {
                Ok(true) => (),
                Ok(false) => {
                    return Some(format!("{}: the invariant {name} does not hold", rule.at));
                }
                Err(failure) => {
                    return Some(format!(
                        "{}: {}, in the invariant {name}",
                        failure.at, failure.what
                    ));
                }
            }
        }
    }
    None
}

fn failing(
    model: &CheckedModel,
    rules: &[RuleDefinition],
    interpreter: &mut TreeInterpreter<'_>,
    state: &[i64],
) -> Option<String> {
    for rule in rules {
        for instance in 0..model.instances(rule) {
            if let Err(failure) = interpreter.fire(rule, instance, state) {
                let name = rule_name(model, rule, instance);
                return Some(format!("{}: {}, in {name}", failure.at, failure.what));
            }
        }
    }
    None
}
