//! The second opinion: an interpreter that walks the tree of a checked model, and shares with the
//! byte code only the tree. Counterexamples are replayed by it, and the serial version uses it.

use crate::murphi::cells::{PlainCells, operate, value_list};
use crate::murphi::machine::{MAX_CALLS, MAX_STEPS, MAX_TURNS, ModelFailure, too_many_steps};
use crate::murphi::packing::order_multisets;
use crate::murphi::tree::{
    BinaryOperation as Op, CallArgument, CellPlace, CheckedModel, ItemSource, LoopRange,
    LoopValues, MurphiExpr, MurphiStatement, NO_RESULT, PlaceRoot, PlaceStep, RoutineCall,
    RuleDefinition, SetLayout,
};
use crate::murphi::types::{TypeId, UNDEFINED, index_in};
use clump_app_frame::diagnostic::SourcePosition;

/// Result of a step of the walk.
type Walked<T> = Result<T, ModelFailure>;

/// End of statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StatementFlow {
    On,
    Ended(i64),
    Disabled,
}

/// An interpreter of a model.
#[derive(Debug)]
pub struct TreeInterpreter<'a> {
    model: &'a CheckedModel,
    /// The state, and frames behind it.
    cells: PlainCells,
    frame: usize,
    calls: usize,
    /// Turns and calls so far.
    steps: u32,
    at: SourcePosition,
    /// Text that statements have printed.
    pub printed: String,
}

impl<'a> TreeInterpreter<'a> {
    /// Creates an interpreter.
    pub fn new(model: &'a CheckedModel) -> Self {
        let (cells, printed) = (PlainCells::default(), String::new());
        Self { model, cells, frame: 0, calls: 0, steps: 0, at: SourcePosition::default(), printed }
    }

    fn begin(&mut self, rule: &RuleDefinition, instance: u64, state: &[i64]) {
        self.frame = state.len();
        (self.calls, self.steps) = (0, 0);
        self.cells = PlainCells(state.to_vec());
        self.cells.0.resize(state.len() + rule.frame as usize, UNDEFINED);
        let (model, frame, cells) = (self.model, self.frame, &mut self.cells);
        model.each_parameter(rule, instance, |parameter, value| {
            cells.set(frame + parameter.local as usize, value);
        });
    }

    /// Fires an instance of a rule. Returns the next state, or `None` if its guard does not hold.
    ///
    /// # Errors
    /// Fails if the model does something wrong.
    pub fn fire(
        &mut self,
        rule: &RuleDefinition,
        instance: u64,
        state: &[i64],
    ) -> Walked<Option<Vec<i64>>> {
        if !self.holds(rule, instance, state)? {
            return Ok(None);
        }
        self.begin(rule, instance, state);
        self.statements(&rule.prelude)?;
        self.statements(&rule.body)?;
        let mut next = self.cells.0.get(..state.len()).unwrap_or_default().to_vec();
        order_multisets(self.model, &mut next);
        Ok(Some(next))
    }

    /// Returns true if the guard of a rule or an invariant holds.
    ///
    /// # Errors
    /// Fails if the model does something wrong.
    pub fn holds(&mut self, rule: &RuleDefinition, instance: u64, state: &[i64]) -> Walked<bool> {
        self.begin(rule, instance, state);
        if self.statements(&rule.prelude)? == StatementFlow::Disabled {
            return Ok(false);
        }
        rule.guard.as_ref().map_or(Ok(true), |guard| Ok(self.eval(guard)? != 0))
    }

    fn failure<T>(&self, what: impl Into<String>) -> Walked<T> {
        Err(ModelFailure { at: self.at, what: what.into() })
    }

    /// Counts a turn or a call.
    fn step(&mut self) -> Walked<()> {
        self.steps += 1;
        if self.steps > MAX_STEPS { self.failure(too_many_steps()) } else { Ok(()) }
    }

    fn cell(&self, address: usize) -> Walked<i64> {
        match self.cells.0.get(address) {
            Some(value) if *value != UNDEFINED => Ok(*value),
            _ => self.failure("an undefined value is read"),
        }
    }

    fn typed(&self, of: TypeId, value: i64) -> Walked<i64> {
        if value == UNDEFINED || index_in(self.model.types.segments(of), value).is_some() {
            return Ok(value);
        }
        let name = &self.model.types.entry(of).name;
        let known = value.unsigned_abs() < 1 << 47;
        let number = if known { format!(" {value}") } else { String::new() };
        self.failure(format!("the value{number} is not one of {name}"))
    }

    fn address(&mut self, place: &CellPlace) -> Walked<usize> {
        let mut address = match place.root {
            PlaceRoot::Global(at) => at as usize,
            PlaceRoot::Local(at) => self.frame + at as usize,
            PlaceRoot::Reference(at) => self.cell(self.frame + at as usize)? as usize,
        };
        for step in &place.steps {
            match step {
                PlaceStep::Field(cells) => address += *cells as usize,
                PlaceStep::Index { index, of, stride, at } => {
                    let value = self.eval(index)?;
                    self.at = *at;
                    let Some(index) = index_in(self.model.types.segments(*of), value) else {
                        let name = &self.model.types.entry(*of).name;
                        return self.failure(format!("an index is not one of {name}"));
                    };
                    address += index as usize * *stride as usize;
                }
                PlaceStep::Slot { slot, set, at } => {
                    let slot = self.eval(slot)?;
                    self.at = *at;
                    address = self.slot(*set, slot, address)? + 1;
                }
            }
        }
        Ok(address)
    }

    fn slot(&self, set: SetLayout, slot: i64, address: usize) -> Walked<usize> {
        self.cells.slot(set, slot, address).or_else(|what| self.failure(what))
    }

    fn eval(&mut self, expr: &MurphiExpr) -> Walked<i64> {
        Ok(match expr {
            MurphiExpr::Value(value) => *value,
            MurphiExpr::Read(place, at) => {
                let address = self.address(place)?;
                self.at = *at;
                self.cell(address)?
            }
            MurphiExpr::Copied(place) => {
                let address = self.address(place)?;
                self.cells.0.get(address).copied().unwrap_or(UNDEFINED)
            }
            MurphiExpr::Undefined => UNDEFINED,
            MurphiExpr::Not(inner) => i64::from(self.eval(inner)? == 0),
            MurphiExpr::Negate(inner, at) => {
                let value = self.eval(inner)?;
                self.at = *at;
                0_i64
                    .checked_sub(value)
                    .map_or_else(|| self.failure("a number is too large"), Ok)?
            }
            MurphiExpr::Binary(operation, sides, at) => self.binary(*operation, sides, *at)?,
            MurphiExpr::Choose(parts) => {
                let (holds, yes, no) = &**parts;
                if self.eval(holds)? != 0 { self.eval(yes)? } else { self.eval(no)? }
            }
            MurphiExpr::Quantified(all, parts) => {
                let (range, body) = &**parts;
                let mut result = *all;
                self.each(range, |it| {
                    if (it.eval(body)? != 0) == *all {
                        return Ok(StatementFlow::On);
                    }
                    result = !*all;
                    Ok(StatementFlow::Disabled)
                })?;
                i64::from(result)
            }
            MurphiExpr::Call(call) => self.call(call)?,
            MurphiExpr::IsUndefined(place) => {
                let address = self.address(place)?;
                i64::from(self.cells.0.get(address) == Some(&UNDEFINED))
            }
            MurphiExpr::IsMember(value, of) => {
                i64::from(index_in(self.model.types.segments(*of), self.eval(value)?).is_some())
            }
            MurphiExpr::Present(parts, set) => {
                let address = self.address(&parts.0)?;
                let slot = self.eval(&parts.1)?;
                i64::from(self.slot(*set, slot, address).is_ok())
            }
            MurphiExpr::Count(parts, set, local) => {
                let mut count = 0;
                for slot in 0..i64::from(set.capacity) {
                    if self.choose((&parts.0, *set), (*local, slot), &parts.1)? {
                        count += 1;
                    }
                }
                count
            }
        })
    }

    /// Returns true if a slot has an element for which an expression holds.
    fn choose(
        &mut self,
        (place, set): (&CellPlace, SetLayout),
        (local, slot): (u32, i64),
        test: &MurphiExpr,
    ) -> Walked<bool> {
        let address = self.address(place)?;
        self.cells.set(self.frame + local as usize, slot);
        Ok(self.slot(set, slot, address).is_ok() && self.eval(test)? != 0)
    }

    fn binary(
        &mut self,
        operation: Op,
        (left, right): &(MurphiExpr, MurphiExpr),
        at: SourcePosition,
    ) -> Walked<i64> {
        let a = self.eval(left)?;
        match operation {
            Op::And if a == 0 => return Ok(0),
            Op::Or if a != 0 => return Ok(1),
            Op::Implies if a == 0 => return Ok(1),
            _ => (),
        }
        let b = self.eval(right)?;
        self.at = at;
        if b == 0 && matches!(operation, Op::Divide | Op::Remainder) {
            return self.failure("division by zero");
        }
        let result = operate(operation, a, b);
        result.map_or_else(|| self.failure("a number is too large"), Ok)
    }

    /// Runs a body for all values of a loop, until it ends otherwise than by going on.
    fn each(
        &mut self,
        range: &LoopRange,
        mut body: impl FnMut(&mut Self) -> Walked<StatementFlow>,
    ) -> Walked<StatementFlow> {
        let cell = range.local as usize;
        match &range.over {
            LoopValues::Of(of) => {
                for value in value_list(self.model, *of) {
                    self.cells.set(self.frame + cell, value);
                    let flow = body(self)?;
                    if flow != StatementFlow::On {
                        return Ok(flow);
                    }
                    self.step()?;
                }
            }
            LoopValues::Steps(bounds, at) => {
                let from = self.eval(&bounds.0)?;
                let (to, by) = (self.eval(&bounds.1)?, self.eval(&bounds.2)?);
                self.at = *at;
                if by == 0 {
                    return self.failure("a loop by 0 has no end");
                }
                let mut value = from;
                while (by > 0 && value <= to) || (by < 0 && value >= to) {
                    self.cells.set(self.frame + cell, value);
                    let flow = body(self)?;
                    if flow != StatementFlow::On {
                        return Ok(flow);
                    }
                    let Some(next) = value.checked_add(by) else {
                        self.at = *at;
                        return self.failure("a number is too large");
                    };
                    value = next;
                    self.step()?;
                }
            }
        }
        Ok(StatementFlow::On)
    }

    fn call(&mut self, call: &RoutineCall) -> Walked<i64> {
        let Some(routine) = self.model.routines.get(call.routine) else {
            return self.failure("there is no such routine");
        };
        let mut frame = vec![UNDEFINED; routine.frame as usize];
        for (argument, parameter) in call.arguments.iter().zip(&routine.parameters) {
            let at = parameter.local as usize;
            match argument {
                CallArgument::Value(value) => {
                    let value = self.eval(value)?;
                    self.at = call.at;
                    frame[at] = self.typed(parameter.type_id, value)?;
                }
                CallArgument::Reference(place) => frame[at] = self.address(place)? as i64,
                CallArgument::Copy(place) => {
                    let from = self.address(place)?;
                    let cells = self.model.types.entry(parameter.type_id).cells as usize;
                    let source = self.cells.0.get(from..from + cells).unwrap_or_default();
                    frame[at..at + source.len()].copy_from_slice(source);
                }
            }
        }
        self.at = call.at;
        if self.calls >= MAX_CALLS {
            return self.failure(format!("more than {MAX_CALLS} routines call each other"));
        }
        self.calls += 1;
        self.step()?;
        let (before, top) = (self.frame, self.cells.0.len());
        self.frame = top;
        self.cells.0.append(&mut frame);
        let flow = self.statements(&routine.body)?;
        self.cells.0.truncate(top);
        self.frame = before;
        self.calls -= 1;
        match flow {
            StatementFlow::Ended(value) => Ok(value),
            _ if routine.result.is_none() => Ok(0),
            _ => Err(ModelFailure { at: routine.at, what: NO_RESULT.into() }),
        }
    }

    fn statements(&mut self, statements: &[MurphiStatement]) -> Walked<StatementFlow> {
        for statement in statements {
            let flow = self.statement(statement)?;
            if flow != StatementFlow::On {
                return Ok(flow);
            }
        }
        Ok(StatementFlow::On)
    }

    fn statement(&mut self, statement: &MurphiStatement) -> Walked<StatementFlow> {
        match statement {
            MurphiStatement::Assign(place, of, value, at) => {
                let to = self.address(place)?;
                let value = self.eval(value)?;
                self.at = *at;
                let value = self.typed(*of, value)?;
                self.cells.set(to, value);
            }
            MurphiStatement::Copy(to, from, cells) => {
                let (to, from) = (self.address(to)?, self.address(from)?);
                self.cells.move_cells(from, to, *cells as usize);
            }
            MurphiStatement::Bind(local, place) => {
                let address = self.address(place)?;
                self.cells.set(self.frame + *local as usize, address as i64);
            }
            MurphiStatement::Require(holds) => {
                if self.eval(holds)? == 0 {
                    return Ok(StatementFlow::Disabled);
                }
            }
            MurphiStatement::If(cases, otherwise) => {
                for (holds, body) in cases {
                    if self.eval(holds)? != 0 {
                        return self.statements(body);
                    }
                }
                return self.statements(otherwise);
            }
            MurphiStatement::For(range, body, _) => {
                return self.each(range, |it| it.statements(body));
            }
            MurphiStatement::While(holds, body, _, at) => return self.turns(holds, body, *at),
            MurphiStatement::Call(call) => {
                self.call(call)?;
            }
            MurphiStatement::Clear(place, of) => self.fill(place, *of, true)?,
            MurphiStatement::Undefine(place, of) => self.fill(place, *of, false)?,
            MurphiStatement::Error(text, at) => {
                self.at = *at;
                return self.failure(text.clone());
            }
            MurphiStatement::Assert(holds, text, at) => {
                if self.eval(holds)? == 0 {
                    self.at = *at;
                    return self.failure(text.clone());
                }
            }
            MurphiStatement::Put(item) => self.put(item)?,
            MurphiStatement::Return(value, at) => {
                let value = value.as_ref().map_or(Ok(0), |value| self.eval(value))?;
                self.at = *at;
                return Ok(StatementFlow::Ended(value));
            }
            other => self.set_change(other)?,
        }
        Ok(StatementFlow::On)
    }

    fn turns(
        &mut self,
        holds: &MurphiExpr,
        body: &[MurphiStatement],
        at: SourcePosition,
    ) -> Walked<StatementFlow> {
        for _ in 0..MAX_TURNS {
            if self.eval(holds)? == 0 {
                return Ok(StatementFlow::On);
            }
            self.step()?;
            let flow = self.statements(body)?;
            if flow != StatementFlow::On {
                return Ok(flow);
            }
        }
        if self.eval(holds)? == 0 {
            return Ok(StatementFlow::On);
        }
        self.at = at;
        self.failure(format!("the loop makes more than {MAX_TURNS} turns"))
    }

    fn fill(&mut self, place: &CellPlace, of: TypeId, cleared: bool) -> Walked<()> {
        let at = self.address(place)?;
        for (at, value) in (at..).zip(self.model.types.template(of, cleared)) {
            self.cells.set(at, value);
        }
        Ok(())
    }

    fn put(&mut self, item: &ItemSource) -> Walked<()> {
        let types = &self.model.types;
        match item {
            ItemSource::Text(text) => self.printed.push_str(text),
            ItemSource::Value(value, of) => {
                let value = self.eval(value)?;
                self.printed.push_str(&types.show(*of, value));
            }
            ItemSource::Place(place, of) => {
                let at = self.address(place)? as u32;
                self.printed.push_str(&types.show_all(*of, at, &self.cells.0));
            }
        }
        Ok(())
    }

    fn set_change(&mut self, statement: &MurphiStatement) -> Walked<()> {
        match statement {
            MurphiStatement::SetAdd(place, set, item, at) => {
                let address = self.address(place)?;
                let (value, from) = match item {
                    ItemSource::Value(value, of) => {
                        let value = self.eval(value)?;
                        self.at = *at;
                        (self.typed(*of, value)?, None)
                    }
                    ItemSource::Place(from, _) => (0, Some(self.address(from)?)),
                    ItemSource::Text(_) => return Ok(()),
                };
                self.at = *at;
                let Some(to) = self.cells.free_slot(address, *set) else {
                    return self
                        .failure(format!("the multiset is full: it has {} slots", set.capacity));
                };
                self.cells.set(to, 1);
                match from {
                    None => self.cells.set(to + 1, value),
                    Some(from) => self.cells.move_cells(from, to + 1, set.stride as usize - 1),
                }
            }
            MurphiStatement::SetRemove(place, set, slot, at) => {
                let address = self.address(place)?;
                let slot = self.eval(slot)?;
                self.at = *at;
                let at = self.slot(*set, slot, address)?;
                self.cells.empty(at, *set);
            }
            MurphiStatement::SetRemoveWhere(place, set, local, test) => {
                for slot in 0..i64::from(set.capacity) {
                    if self.choose((place, *set), (*local, slot), test)? {
                        let address = self.address(place)?;
                        let at = self.slot(*set, slot, address)?;
                        self.cells.empty(at, *set);
                    }
                }
            }
            _ => clump_bug::bug!("no change of a multiset"),
        }
        Ok(())
    }
}
