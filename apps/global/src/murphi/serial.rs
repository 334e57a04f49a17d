//! The serial version: all states of a model by the interpreter, in plain memory.

use crate::murphi::interpreter::TreeInterpreter;
use crate::murphi::symmetry::StateReduction;
use crate::murphi::tree::CheckedModel;
use std::collections::{HashSet, VecDeque};

/// Counts of a serial search.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SerialCounts {
    /// Distinct states.
    pub states: u64,
    /// Rules that fired.
    pub fired: u64,
    /// True if something is wrong: a rule fails, or an invariant does not hold.
    pub wrong: bool,
}

/// Searches all states of a model, up to the first error.
pub fn search(model: &CheckedModel, reduction: &StateReduction) -> SerialCounts {
    let mut counts = SerialCounts::default();
    let mut interpreter = TreeInterpreter::new(model);
    let mut known: HashSet<Vec<i64>> = HashSet::new();
    let mut queue = VecDeque::new();
    let undefined = model.variables.iter().map(|it| model.types.template(it.type_id, false));
    let undefined: Vec<i64> = undefined.flatten().collect();
    let mut from = (true, undefined);
    loop {
        let (start, state) = &from;
        let rules = if *start { &model.starts } else { &model.rules };
        for rule in rules {
            for instance in 0..model.instances(rule) {
                match interpreter.fire(rule, instance, state) {
                    Ok(None) => (),
                    Ok(Some(mut next)) => {
                        counts.fired += u64::from(!*start);
                        reduction.reduce(model, &mut next);
                        if known.insert(next.clone()) {
                            queue.push_back(next);
                        }
                    }
                    Err(_) => counts.wrong = true,
                }
            }
        }
        counts.states = known.len() as u64;
        let Some(next) = queue.pop_front().filter(|_| !counts.wrong) else { return counts };
        for rule in &model.invariants {
            for instance in 0..model.instances(rule) {
                counts.wrong |= interpreter.holds(rule, instance, &next) != Ok(true);
            }
        }
        from = (false, next);
    }
}
