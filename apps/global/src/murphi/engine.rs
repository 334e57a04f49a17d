//! Steps of a model by byte code: start states, rules that fire, invariants.

use crate::murphi::code::{ByteCode, RuleCode};
use crate::murphi::compiler::{compile, template};
use crate::murphi::machine::{CodeMachine, ModelFailure};
use crate::murphi::packing::order_multisets;
use crate::murphi::tree::{CheckedModel, RuleDefinition};
use std::rc::Rc;

/// Result of firing an instance of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepOutcome {
    /// Its guard does not hold.
    Disabled,
    /// The state is now another, or the same again.
    Fired,
    /// The model did something wrong.
    Failed(ModelFailure),
    /// A loop over a scalarset gives another state in another order.
    Unordered,
}

/// A model that can be run.
#[derive(Debug, Clone)]
pub struct StepEngine {
    /// The model.
    pub model: Rc<CheckedModel>,
    code: Rc<ByteCode>,
    machine: CodeMachine,
    has_sets: bool,
    /// True if loops over scalarsets are tried in two orders.
    tries_orders: bool,
    kept: Vec<i64>,
}

/// List of a model's rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleList {
    /// Start states.
    Starts,
    /// Rules.
    Rules,
}

impl StepEngine {
    /// Compiles a model.
    pub fn new(model: Rc<CheckedModel>, tries_orders: bool) -> Self {
        let code = Rc::new(compile(&model));
        let machine = CodeMachine::new(model.cells as usize);
        let is_set = |it: &crate::murphi::types::TypeEntry| {
            matches!(it.shape, crate::murphi::types::TypeShape::Multiset { .. })
        };
        let has_sets = model.variables.iter().any(|it| model.types.any_part(it.type_id, &is_set));
        Self { model, code, machine, has_sets, tries_orders, kept: Vec::new() }
    }

    /// Returns the cells of the state.
    pub fn state(&self) -> &[i64] {
        self.machine.cells.get(..self.model.cells as usize).unwrap_or_default()
    }

    /// Sets the state.
    pub fn set_state(&mut self, cells: &[i64]) {
        let size = self.model.cells as usize;
        debug_assert_eq!(cells.len(), size, "a state");
        if let Some(to) = self.machine.cells.get_mut(..size) {
            to.copy_from_slice(cells);
        }
    }

    /// Returns the state in which all is undefined.
    pub fn undefined(&self) -> Vec<i64> {
        let types = &self.model.types;
        let all = self.model.variables.iter().map(|it| template(types, it.type_id, false));
        all.flatten().collect()
    }

    /// Returns the rules of a list.
    pub fn rules(&self, list: RuleList) -> &[RuleDefinition] {
        match list {
            RuleList::Starts => &self.model.starts,
            RuleList::Rules => &self.model.rules,
        }
    }

    fn prepare(&mut self, code: RuleCode, rule: &RuleDefinition, instance: u64) {
        self.machine.frame(&code);
        let (model, machine) = (&self.model, &mut self.machine);
        model.each_parameter(rule, instance, |parameter, value| {
            if let Some(cell) = machine.local(parameter.local) {
                *cell = value;
            }
        });
    }

    /// Fires an instance of a rule in the present state `from`, which has to be set.
    pub fn fire(
        &mut self,
        list: RuleList,
        rule: usize,
        instance: u64,
        from: &[i64],
    ) -> StepOutcome {
        debug_assert_eq!(self.state(), from, "the state is set");
        let model = self.model.clone();
        let (rules, codes) = match list {
            RuleList::Starts => (&model.starts, &self.code.starts),
            RuleList::Rules => (&model.rules, &self.code.rules),
        };
        let (Some(definition), Some(&code)) = (rules.get(rule), codes.get(rule)) else {
            return StepOutcome::Disabled;
        };
        self.prepare(code, definition, instance);
        let bytes = self.code.clone();
        let tries = self.tries_orders && definition.has_set_loops;
        let enabled = self.machine.run(&bytes, code.guard);
        if tries && enabled.is_ok() && self.guard_backwards(code, definition, instance) != enabled {
            return StepOutcome::Unordered;
        }
        match enabled {
            Ok(true) => (),
            Ok(false) => return StepOutcome::Disabled,
            Err(failure) => return StepOutcome::Failed(failure),
        }
        let first = self.body(code, definition, instance);
        if first != StepOutcome::Fired || !tries {
            return first;
        }
        let mut kept = std::mem::take(&mut self.kept);
        kept.clear();
        kept.extend_from_slice(self.state());
        self.set_state(from);
        self.machine.backwards = true;
        let second = self.body(code, definition, instance);
        self.machine.backwards = false;
        let same = second == StepOutcome::Fired && self.state() == kept;
        self.kept = kept;
        if same { StepOutcome::Fired } else { StepOutcome::Unordered }
    }

    /// Evaluates a guard or an invariant with loops over scalarsets in the other order.
    fn guard_backwards(
        &mut self,
        code: RuleCode,
        rule: &RuleDefinition,
        instance: u64,
    ) -> Result<bool, ModelFailure> {
        let bytes = self.code.clone();
        self.prepare(code, rule, instance);
        self.machine.backwards = true;
        let holds = self.machine.run(&bytes, code.guard);
        self.machine.backwards = false;
        holds
    }

    fn body(&mut self, code: RuleCode, rule: &RuleDefinition, instance: u64) -> StepOutcome {
        self.prepare(code, rule, instance);
        let bytes = self.code.clone();
        match self.machine.run(&bytes, code.body) {
            Ok(true) => {
                if self.has_sets {
                    let size = self.model.cells as usize;
                    let cells = self.machine.cells.get_mut(..size).unwrap_or_default();
                    order_multisets(&self.model, cells);
                }
                StepOutcome::Fired
            }
            Ok(false) => StepOutcome::Disabled,
            Err(failure) => StepOutcome::Failed(failure),
        }
    }

    /// Returns the first invariant, with its instance, that does not hold in the present state.
    pub fn violated(&mut self) -> Option<(usize, u64, Option<ModelFailure>)> {
        let (model, bytes) = (self.model.clone(), self.code.clone());
        for (number, (rule, code)) in model.invariants.iter().zip(&bytes.invariants).enumerate() {
            for instance in 0..model.instances(rule) {
                self.prepare(*code, rule, instance);
                let holds = self.machine.run(&bytes, code.guard);
                if self.tries_orders
                    && rule.has_set_loops
                    && holds == Ok(true)
                    && self.guard_backwards(*code, rule, instance) != holds
                {
                    // The interpreter does not confirm it, so the search ends as incomplete.
                    return Some((number, instance, None));
                }
                match holds {
                    Ok(true) => (),
                    Ok(false) => return Some((number, instance, None)),
                    Err(failure) => return Some((number, instance, Some(failure))),
                }
            }
        }
        None
    }
}
