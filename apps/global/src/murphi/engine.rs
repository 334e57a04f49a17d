//! Steps of a model by byte code or machine code: start states, rules that fire, invariants.

use crate::murphi::c_code::CodeEntry;
use crate::murphi::code::{ByteCode, RuleCode};
use crate::murphi::compiled::CompiledModel;
use crate::murphi::compiler::compile;
use crate::murphi::machine::{CodeMachine, ModelFailure, following};
use crate::murphi::packing::{StatePacking, order_multisets};
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
    compiled: Option<CompiledModel>,
    /// Cells of a state and the largest frame.
    wide: usize,
    parameters: ParameterWalk,
}

/// Parameters of an instance of a rule: those of the next one are the next values of the last ones.
#[derive(Debug, Clone, Default)]
struct ParameterWalk {
    /// List and number of the rule, and the instance.
    at: Option<(RuleList, usize, u64)>,
    /// Cell of the frame and value of each.
    values: Vec<(u32, i64)>,
}

/// List of a model's rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleList {
    /// Start states.
    Starts,
    /// Rules.
    Rules,
    /// Invariants.
    Invariants,
}

impl ParameterWalk {
    /// Goes to an instance.
    fn go(
        &mut self,
        model: &CheckedModel,
        rule: &RuleDefinition,
        (list, number, instance): (RuleList, usize, u64),
    ) {
        let before = self.at.replace((list, number, instance));
        let follows = instance > 0 && before == Some((list, number, instance - 1));
        if !follows {
            self.values.clear();
            model.each_parameter(rule, instance, |parameter, value| {
                self.values.push((parameter.local, value));
            });
            return;
        }
        // The last parameter comes first here, and changes first.
        for ((_, value), parameter) in self.values.iter_mut().zip(rule.parameters.iter().rev()) {
            let segments = match parameter.of {
                Ok(of) => model.types.segments(of),
                Err(slots) if *value + 1 < i64::from(slots) => {
                    *value += 1;
                    return;
                }
                Err(_) => {
                    *value = 0;
                    continue;
                }
            };
            match following(segments, *value, false) {
                Some(next) => {
                    *value = next;
                    return;
                }
                None => *value = segments.first().map_or(0, |it| it.first),
            }
        }
        debug_assert!(rule.parameters.is_empty(), "there is an instance {instance}");
    }
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
        let frames = [&model.starts, &model.rules, &model.invariants].into_iter().flatten();
        let wide = model.cells as usize + frames.map(|it| it.frame as usize).max().unwrap_or(0);
        let (kept, compiled, parameters) = Default::default();
        Self { model, code, machine, has_sets, tries_orders, kept, compiled, wide, parameters }
    }

    /// Runs machine code from now on, where it can.
    pub fn use_compiled(&mut self, compiled: CompiledModel) {
        self.compiled = Some(compiled);
    }

    /// Packs the present state.
    pub fn pack(&mut self, packing: &StatePacking, words: &mut [u64]) {
        match &self.compiled {
            Some(compiled) if compiled.packs => {
                self.machine.widen(self.wide);
                compiled.pack(&self.model, CodeEntry::Pack, &mut self.machine.cells, words);
            }
            _ => packing.pack(self.state(), words),
        }
    }

    /// Makes a packed state the present one.
    pub fn unpack(&mut self, packing: &StatePacking, words: &mut [u64]) {
        self.machine.widen(self.wide);
        match &self.compiled {
            Some(compiled) if compiled.packs => {
                compiled.pack(&self.model, CodeEntry::Unpack, &mut self.machine.cells, words);
            }
            _ => packing.unpack(words, &mut self.machine.cells),
        }
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
        let all = self.model.variables.iter().map(|it| types.template(it.type_id, false));
        all.flatten().collect()
    }

    /// Returns the rules of a list.
    pub fn rules(&self, list: RuleList) -> &[RuleDefinition] {
        match list {
            RuleList::Starts => &self.model.starts,
            RuleList::Rules => &self.model.rules,
            RuleList::Invariants => &self.model.invariants,
        }
    }

    /// Prepares the frame with the parameters that were gone to.
    fn prepare(&mut self, code: RuleCode) {
        self.machine.frame(&code);
        for (local, value) in &self.parameters.values {
            if let Some(cell) = self.machine.local(*local) {
                *cell = *value;
            }
        }
    }

    /// Runs machine code with the parameters that were gone to. Returns `None` if there is none, or
    /// if it finds something wrong: the state may be another then.
    fn run_compiled(&mut self, entry: CodeEntry) -> Option<bool> {
        let compiled = self.compiled.as_mut()?;
        self.machine.widen(self.wide);
        for (local, value) in &self.parameters.values {
            if let Some(cell) = self.machine.local(*local) {
                *cell = *value;
            }
        }
        compiled.run(&self.model, entry, &mut self.machine.cells)
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
            RuleList::Invariants => (&model.invariants, &self.code.invariants),
        };
        let (Some(definition), Some(&code)) = (rules.get(rule), codes.get(rule)) else {
            return StepOutcome::Disabled;
        };
        self.parameters.go(&model, definition, (list, rule, instance));
        let tries = self.tries_orders && definition.has_set_loops;
        if self.compiled.is_some() && !tries {
            let entry = if list == RuleList::Starts {
                CodeEntry::Start(rule)
            } else {
                CodeEntry::Rule(rule)
            };
            match self.run_compiled(entry) {
                Some(true) => {
                    self.order();
                    return StepOutcome::Fired;
                }
                Some(false) => return StepOutcome::Disabled,
                // The byte code finds what is wrong.
                None => self.set_state(from),
            }
        }
        self.prepare(code);
        let bytes = self.code.clone();
        let enabled = self.machine.run(&bytes, code.guard);
        if tries && enabled.is_ok() && self.guard_backwards(code) != enabled {
            return StepOutcome::Unordered;
        }
        match enabled {
            Ok(true) => (),
            Ok(false) => return StepOutcome::Disabled,
            Err(failure) => return StepOutcome::Failed(failure),
        }
        let first = self.body(code);
        if first != StepOutcome::Fired || !tries {
            return first;
        }
        let mut kept = std::mem::take(&mut self.kept);
        kept.clear();
        kept.extend_from_slice(self.state());
        self.set_state(from);
        self.machine.backwards = true;
        let second = self.body(code);
        self.machine.backwards = false;
        let same = second == StepOutcome::Fired && self.state() == kept;
        self.kept = kept;
        if same { StepOutcome::Fired } else { StepOutcome::Unordered }
    }

    /// Evaluates a guard or an invariant with loops over scalarsets in the other order.
    fn guard_backwards(&mut self, code: RuleCode) -> Result<bool, ModelFailure> {
        let bytes = self.code.clone();
        self.prepare(code);
        self.machine.backwards = true;
        let holds = self.machine.run(&bytes, code.guard);
        self.machine.backwards = false;
        holds
    }

    /// Orders the elements of multisets.
    fn order(&mut self) {
        if self.has_sets {
            let size = self.model.cells as usize;
            let cells = self.machine.cells.get_mut(..size).unwrap_or_default();
            order_multisets(&self.model, cells);
        }
    }

    fn body(&mut self, code: RuleCode) -> StepOutcome {
        self.prepare(code);
        let bytes = self.code.clone();
        match self.machine.run(&bytes, code.body) {
            Ok(true) => {
                self.order();
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
                self.parameters.go(&model, rule, (RuleList::Invariants, number, instance));
                let tries = self.tries_orders && rule.has_set_loops;
                if !tries && self.run_compiled(CodeEntry::Invariant(number)) == Some(true) {
                    continue;
                }
                self.prepare(*code);
                let holds = self.machine.run(&bytes, code.guard);
                if tries && holds == Ok(true) && self.guard_backwards(*code) != holds {
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
