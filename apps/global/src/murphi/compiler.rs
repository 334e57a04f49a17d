//! The compiler from checked models to byte code.

use crate::murphi::code::{ByteCode, Instruction as I, ParameterSlot, RoutineCode, RuleCode};
use crate::murphi::tree::{
    BinaryOperation, CallArgument, CellPlace, CheckedModel, ItemSource, LoopRange, LoopValues,
    MurphiExpr, MurphiStatement, NO_RESULT, PlaceRoot, PlaceStep, RoutineCall, RuleDefinition,
    SetLayout,
};
use crate::murphi::types::{TypeId, UNDEFINED};
use clump_app_frame::diagnostic::SourcePosition;

/// Code of a model that is being made.
struct CodeBuilder<'a> {
    model: &'a CheckedModel,
    code: ByteCode,
    at: SourcePosition,
    /// True inside of functions and procedures.
    in_routine: bool,
}

/// Compiles a model.
pub fn compile(model: &CheckedModel) -> ByteCode {
    let code = ByteCode::default();
    let mut builder = CodeBuilder { model, code, at: SourcePosition::default(), in_routine: true };
    for id in 0..model.types.count() {
        builder.code.segments.push(model.types.segments(id).to_vec());
        builder.code.names.push(model.types.entry(id).name.clone());
    }
    for routine in &model.routines {
        let parameters = routine.parameters.iter().map(|it| {
            let cells = model.types.entry(it.type_id).cells;
            let scalar = model.types.class(it.type_id).is_some();
            let copied = if it.by_reference || scalar { 0 } else { cells };
            ParameterSlot { local: it.local, copied }
        });
        let entry = builder.here();
        let made = RoutineCode { entry, frame: routine.frame, parameters: parameters.collect() };
        builder.code.routines.push(made);
        builder.statements(&routine.body);
        if routine.result.is_some() {
            builder.at = routine.at;
            builder.fail(NO_RESULT);
        }
        builder.emit(I::Return);
    }
    builder.in_routine = false;
    let all = |builder: &mut CodeBuilder<'_>, rules: &[RuleDefinition]| {
        rules.iter().map(|rule| builder.rule(rule)).collect()
    };
    builder.code.starts = all(&mut builder, &model.starts);
    builder.code.rules = all(&mut builder, &model.rules);
    builder.code.invariants = all(&mut builder, &model.invariants);
    debug_assert_eq!(builder.code.instructions.len(), builder.code.places.len());
    builder.code
}

impl CodeBuilder<'_> {
    fn here(&self) -> u32 {
        self.code.instructions.len() as u32
    }

    fn emit(&mut self, instruction: I) -> usize {
        self.code.instructions.push(instruction);
        self.code.places.push(self.at);
        self.code.instructions.len() - 1
    }

    /// Lets a jump, which has no target yet, lead here.
    fn land(&mut self, jump: usize) {
        let here = self.here();
        match self.code.instructions.get_mut(jump) {
            Some(I::Jump(to) | I::JumpIfFalse(to) | I::StepTest(_, to)) => *to = here,
            _ => clump_bug::bug!("no jump at {jump}"),
        }
    }

    fn fail(&mut self, text: &str) {
        let number = self.code.texts.len() as u32;
        self.code.texts.push(text.to_owned());
        self.emit(I::Fail(number));
    }

    fn rule(&mut self, rule: &RuleDefinition) -> RuleCode {
        self.at = rule.at;
        let guard = self.here();
        self.statements(&rule.prelude);
        match &rule.guard {
            Some(holds) => self.expr(holds),
            None => {
                self.emit(I::Push(1));
            }
        }
        self.emit(I::Halt);
        let body = self.here();
        self.statements(&rule.prelude);
        self.statements(&rule.body);
        self.emit(I::Push(1));
        self.emit(I::Halt);
        RuleCode { guard, body, frame: rule.frame }
    }

    fn place(&mut self, place: &CellPlace) {
        self.emit(match place.root {
            PlaceRoot::Global(at) => I::Push(i64::from(at)),
            PlaceRoot::Local(at) => I::LocalAddress(at),
            PlaceRoot::Reference(at) => I::Reference(at),
        });
        for step in &place.steps {
            match step {
                PlaceStep::Field(cells) => {
                    self.emit(I::Offset(*cells));
                }
                PlaceStep::Index { index, of, stride, at } => {
                    self.expr(index);
                    self.at = *at;
                    self.emit(I::Index(*of as u32, *stride));
                }
                PlaceStep::Slot { slot, set, at } => {
                    self.expr(slot);
                    self.at = *at;
                    self.emit(I::Slot(*set));
                }
            }
        }
    }

    fn expr(&mut self, expr: &MurphiExpr) {
        match expr {
            MurphiExpr::Value(value) => {
                self.emit(I::Push(*value));
            }
            MurphiExpr::Read(place, at) => match (place.root, place.steps.is_empty()) {
                (PlaceRoot::Global(cell), true) => self.emit_at(*at, I::LoadGlobal(cell)),
                (PlaceRoot::Local(cell), true) => self.emit_at(*at, I::LoadLocal(cell)),
                _ => {
                    self.place(place);
                    self.emit_at(*at, I::Load);
                }
            },
            MurphiExpr::Copied(place) => {
                self.place(place);
                self.emit(I::LoadAny);
            }
            MurphiExpr::Undefined => {
                self.emit(I::Push(UNDEFINED));
            }
            MurphiExpr::Not(inner) => {
                self.expr(inner);
                self.emit(I::Not);
            }
            MurphiExpr::Negate(inner, at) => {
                self.expr(inner);
                self.emit_at(*at, I::Negate);
            }
            MurphiExpr::Binary(operation, sides, at) => self.binary(*operation, sides, *at),
            MurphiExpr::Choose(parts) => {
                let (holds, yes, no) = &**parts;
                self.choose(holds, |it| it.expr(yes), |it| it.expr(no));
            }
            MurphiExpr::Quantified(all, parts) => self.quantified(*all, &parts.0, &parts.1),
            MurphiExpr::Call(call) => self.call(call),
            MurphiExpr::IsUndefined(place) => {
                self.place(place);
                self.emit(I::IsUndefined);
            }
            MurphiExpr::IsMember(value, of) => {
                self.expr(value);
                self.emit(I::IsMember(*of as u32));
            }
            MurphiExpr::Present(parts, set) => {
                self.place(&parts.0);
                self.expr(&parts.1);
                self.emit(I::Present(*set));
            }
            MurphiExpr::Count(parts, set, local) => {
                self.emit(I::Push(0));
                self.each_slot((&parts.0, *set, *local), |it| {
                    // The count stays below what the test pushes.
                    it.expr(&parts.1);
                    it.emit(I::Binary(BinaryOperation::Add));
                });
            }
        }
    }

    fn emit_at(&mut self, at: SourcePosition, instruction: I) {
        self.at = at;
        self.emit(instruction);
    }

    /// Either of two, by a condition.
    fn choose(
        &mut self,
        holds: &MurphiExpr,
        yes: impl FnOnce(&mut Self),
        no: impl FnOnce(&mut Self),
    ) {
        self.expr(holds);
        let otherwise = self.emit(I::JumpIfFalse(0));
        yes(self);
        let end = self.emit(I::Jump(0));
        self.land(otherwise);
        no(self);
        self.land(end);
    }

    fn binary(
        &mut self,
        operation: BinaryOperation,
        (left, right): &(MurphiExpr, MurphiExpr),
        at: SourcePosition,
    ) {
        let known = |value| {
            move |it: &mut Self| {
                it.emit(I::Push(value));
            }
        };
        match operation {
            BinaryOperation::And => self.choose(left, |it| it.expr(right), known(0)),
            BinaryOperation::Or => self.choose(left, known(1), |it| it.expr(right)),
            BinaryOperation::Implies => self.choose(left, |it| it.expr(right), known(1)),
            _ => {
                self.expr(left);
                self.expr(right);
                self.emit_at(at, I::Binary(operation));
            }
        }
    }

    /// A loop; `body` returns jumps that leave it.
    fn each(
        &mut self,
        range: &LoopRange,
        set: bool,
        body: impl FnOnce(&mut Self) -> Vec<usize>,
    ) -> Vec<usize> {
        let local = range.local;
        match &range.over {
            LoopValues::Of(of) => {
                self.emit(I::First(local, *of as u32, set));
                let top = self.here();
                let leaving = body(self);
                self.emit(I::Next(local, *of as u32));
                self.emit(I::NextTo(top, set));
                leaving
            }
            LoopValues::Steps(bounds, at) => {
                let (from, to, by) = &**bounds;
                self.expr(from);
                self.expr(to);
                self.expr(by);
                for cell in [local + 2, local + 1, local] {
                    self.emit(I::StoreLocal(cell));
                }
                let top = self.here();
                self.at = *at;
                let past = self.emit(I::StepTest(local, 0));
                let leaving = body(self);
                self.at = *at;
                self.emit(I::StepNext(local, top));
                self.land(past);
                leaving
            }
        }
    }

    fn quantified(&mut self, all: bool, range: &LoopRange, body: &MurphiExpr) {
        let leaving = self.each(range, false, |it| {
            it.expr(body);
            if !all {
                it.emit(I::Not);
            }
            vec![it.emit(I::JumpIfFalse(0))]
        });
        self.emit(I::Push(i64::from(all)));
        let end = self.emit(I::Jump(0));
        for jump in leaving {
            self.land(jump);
        }
        self.emit(I::Push(i64::from(!all)));
        self.land(end);
    }

    /// Runs code for each element of a multiset; the cell of the frame has its slot, and one more
    /// is the bound.
    fn each_slot(
        &mut self,
        (place, set, local): (&CellPlace, SetLayout, u32),
        body: impl FnOnce(&mut Self),
    ) {
        self.emit(I::Push(0));
        self.emit(I::StoreLocal(local));
        self.emit(I::Push(i64::from(set.capacity) - 1));
        self.emit(I::StoreLocal(local + 1));
        self.emit(I::Push(1));
        self.emit(I::StoreLocal(local + 2));
        let top = self.here();
        let past = self.emit(I::StepTest(local, 0));
        self.place(place);
        self.emit(I::LoadLocal(local));
        self.emit(I::Present(set));
        let absent = self.emit(I::JumpIfFalse(0));
        body(self);
        self.land(absent);
        self.emit(I::StepNext(local, top));
        self.land(past);
    }

    fn call(&mut self, call: &RoutineCall) {
        let Some(routine) = self.model.routines.get(call.routine) else { return };
        for (argument, parameter) in call.arguments.iter().zip(&routine.parameters) {
            match argument {
                CallArgument::Value(value) => {
                    self.expr(value);
                    self.emit_at(call.at, I::Check(parameter.type_id as u32));
                }
                CallArgument::Copy(place) | CallArgument::Reference(place) => self.place(place),
            }
        }
        self.emit_at(call.at, I::Call(call.routine as u32));
    }

    fn statements(&mut self, statements: &[MurphiStatement]) {
        for statement in statements {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &MurphiStatement) {
        match statement {
            MurphiStatement::Assign(place, of, value, at) => {
                self.place(place);
                self.expr(value);
                self.emit_at(*at, I::Store(*of as u32));
            }
            MurphiStatement::Copy(to, from, cells) => {
                self.place(to);
                self.place(from);
                self.emit(I::Copy(*cells));
            }
            MurphiStatement::Bind(local, place) => {
                self.place(place);
                self.emit(I::StoreLocal(*local));
            }
            MurphiStatement::Require(holds) => {
                self.choose(
                    holds,
                    |_| (),
                    |it| {
                        it.emit(I::Push(0));
                        it.emit(I::Halt);
                    },
                );
            }
            MurphiStatement::If(cases, otherwise) => self.cases(cases, otherwise),
            MurphiStatement::For(range, body, set) => {
                self.each(range, *set, |it| {
                    it.statements(body);
                    Vec::new()
                });
            }
            MurphiStatement::While(holds, body, local, at) => {
                self.turns((holds, body), *local, *at);
            }
            MurphiStatement::Call(call) => self.call_statement(call),
            MurphiStatement::Clear(place, of) => self.fill(place, *of, true),
            MurphiStatement::Undefine(place, of) => self.fill(place, *of, false),
            MurphiStatement::Error(text, at) => {
                self.at = *at;
                self.fail(text);
            }
            MurphiStatement::Assert(holds, text, at) => self.choose(
                holds,
                |_| (),
                |it| {
                    it.at = *at;
                    it.fail(text);
                },
            ),
            // Exploring prints nothing.
            MurphiStatement::Put(_) => (),
            MurphiStatement::Return(value, at) => {
                if let Some(value) = value {
                    self.expr(value);
                }
                self.emit_at(*at, self.ending(value.is_some()));
                if !self.in_routine {
                    self.emit(I::Halt);
                }
            }
            other => self.set_change(other),
        }
    }

    /// Returns how a routine ends; a rule pushes its result.
    fn ending(&self, with_value: bool) -> I {
        match (self.in_routine, with_value) {
            (true, true) => I::ReturnValue,
            (true, false) => I::Return,
            (false, _) => I::Push(1),
        }
    }

    fn turns(
        &mut self,
        (holds, body): (&MurphiExpr, &[MurphiStatement]),
        local: u32,
        at: SourcePosition,
    ) {
        self.emit(I::Push(0));
        self.emit(I::StoreLocal(local));
        let top = self.here();
        self.expr(holds);
        let past = self.emit(I::JumpIfFalse(0));
        self.emit_at(at, I::CountTurn(local));
        self.statements(body);
        self.emit(I::Jump(top));
        self.land(past);
    }

    fn call_statement(&mut self, call: &RoutineCall) {
        self.call(call);
        let result = self.model.routines.get(call.routine).and_then(|it| it.result);
        if result.is_some() {
            // The result is not used: a jump that goes to the next instruction takes it away.
            let jump = self.emit(I::JumpIfFalse(0));
            self.land(jump);
        }
    }

    fn cases(
        &mut self,
        cases: &[(MurphiExpr, Vec<MurphiStatement>)],
        otherwise: &[MurphiStatement],
    ) {
        let mut ends = Vec::new();
        for (holds, body) in cases {
            self.expr(holds);
            let next = self.emit(I::JumpIfFalse(0));
            self.statements(body);
            ends.push(self.emit(I::Jump(0)));
            self.land(next);
        }
        self.statements(otherwise);
        for end in ends {
            self.land(end);
        }
    }

    fn fill(&mut self, place: &CellPlace, of: TypeId, cleared: bool) {
        self.place(place);
        let number = self.code.templates.len() as u32;
        self.code.templates.push(self.model.types.template(of, cleared));
        self.emit(I::Fill(number));
    }

    fn set_change(&mut self, statement: &MurphiStatement) {
        match statement {
            MurphiStatement::SetAdd(place, set, item, at) => {
                self.place(place);
                match item {
                    ItemSource::Value(value, of) => {
                        self.expr(value);
                        self.emit_at(*at, I::SetAddValue(*set, *of as u32));
                    }
                    ItemSource::Place(from, _) => {
                        self.place(from);
                        self.emit_at(*at, I::SetAddCopy(*set));
                    }
                    ItemSource::Text(_) => clump_bug::bug!("a text as an element"),
                }
            }
            MurphiStatement::SetRemove(place, set, slot, at) => {
                self.place(place);
                self.expr(slot);
                self.emit_at(*at, I::SetRemove(*set));
            }
            MurphiStatement::SetRemoveWhere(place, set, local, test) => {
                self.each_slot((place, *set, *local), |it| {
                    it.expr(test);
                    let kept = it.emit(I::JumpIfFalse(0));
                    it.place(place);
                    it.emit(I::LoadLocal(*local));
                    it.emit(I::SetRemove(*set));
                    it.land(kept);
                });
            }
            _ => clump_bug::bug!("no change of a multiset"),
        }
    }
}
