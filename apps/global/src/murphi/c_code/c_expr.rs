//! Expressions and places as C: lines that compute a temporary variable, in the model's order.

use crate::murphi::c_code::{CBuilder, MAX_CALLS, MAX_STEPS, number};
use crate::murphi::tree::{
    BinaryOperation as Op, CallArgument, CellPlace, LoopRange, LoopValues, MurphiExpr, PlaceRoot,
    PlaceStep, RoutineCall, SetLayout,
};
use crate::murphi::types::TypeId;

impl CBuilder<'_> {
    pub(super) fn line(&mut self, text: impl AsRef<str>) {
        self.text.push_str(text.as_ref());
        self.text.push('\n');
    }

    pub(super) fn name(&mut self) -> usize {
        self.names += 1;
        self.names
    }

    /// A loop; its body may `break`.
    pub(super) fn each(&mut self, range: &LoopRange, body: impl FnOnce(&mut Self)) {
        let (local, name) = (range.local, self.name());
        match &range.over {
            LoopValues::Of(of) => {
                let mut value = "0".to_owned();
                let mut before = self.model.types.values(*of);
                let all = before;
                for segment in self.model.types.segments(*of).iter().rev() {
                    before -= segment.count;
                    let here = format!("{} + (i64)(n{name} - {before})", number(segment.first));
                    let last = before + segment.count == all;
                    let test =
                        format!("n{name} < {}ULL ? {here} : {value}", before + segment.count);
                    value = if last { here } else { test };
                }
                self.line(format!("for (u64 n{name} = 0; n{name} < {all}ULL; n{name}++) {{"));
                self.line(format!("if (++steps > {MAX_STEPS}) {{ F; break; }}"));
                self.line(format!("f[{local}] = {value};"));
                body(self);
            }
            LoopValues::Steps(bounds, _) => {
                let (from, to, by) = &**bounds;
                let (from, to, by) = (self.expr(from), self.expr(to), self.expr(by));
                let at = format!("n{name}");
                self.line(format!(
                    "for (i64 {at} = {from}; {by} > 0 ? {at} <= {to} : {at} >= {to};) {{"
                ));
                self.line(format!("if (!{by} || ++steps > {MAX_STEPS}) {{ F; break; }}"));
                self.line(format!("f[{local}] = {at};"));
                body(self);
                self.line(format!(
                    "if (__builtin_add_overflow({at}, {by}, &{at})) {{ F; break; }}"
                ));
            }
        }
        self.line("}");
    }

    /// Computes a value into a new variable.
    fn let_(&mut self, value: impl std::fmt::Display) -> String {
        let name = format!("v{}", self.name());
        self.line(format!("i64 {name} = {value};"));
        name
    }

    /// Returns a pointer to the first cell of a place.
    pub(super) fn place(&mut self, place: &CellPlace) -> String {
        let root = match place.root {
            PlaceRoot::Global(at) => format!("s + {at}"),
            PlaceRoot::Local(at) => format!("f + {at}"),
            PlaceRoot::Reference(at) => format!("(i64 *)f[{at}]"),
        };
        let mut pointer = format!("p{}", self.name());
        self.line(format!("i64 *{pointer} = {root};"));
        for step in &place.steps {
            match step {
                PlaceStep::Field(cells) => self.line(format!("{pointer} += {cells};")),
                PlaceStep::Index { index, of, stride, .. } => {
                    let index = self.expr(index);
                    let at = self.index(*of, &index);
                    self.line(format!("{pointer} += {at} * {stride};"));
                }
                PlaceStep::Slot { slot, set, .. } => {
                    let slot = self.expr(slot);
                    pointer = self.slot(&pointer, &slot, *set);
                }
            }
        }
        pointer
    }

    /// Returns the place of a value among those of a type.
    fn index(&mut self, of: TypeId, value: &str) -> String {
        let name = format!("v{}", self.name());
        let mut text = "({ F; 0LL; })".to_owned();
        let mut before = self.model.types.values(of);
        for segment in self.model.types.segments(of).iter().rev() {
            before -= segment.count;
            let offset = format!("(u64){value} - (u64){}", number(segment.first));
            text = format!("{offset} < {}ULL ? (i64)({offset} + {before}) : {text}", segment.count);
        }
        self.line(format!("i64 {name} = {text};"));
        name
    }

    /// Fails unless a value is of a type, or undefined.
    pub(super) fn check(&mut self, of: TypeId, value: &str) {
        let test = self.is_member(of, value);
        self.line(format!("if ({value} != U && !({test})) F;"));
    }

    fn is_member(&self, of: TypeId, value: &str) -> String {
        let test = |it: &crate::murphi::types::ValueSegment| {
            format!("(u64){value} - (u64){} < {}ULL", number(it.first), it.count)
        };
        let tests: Vec<String> = self.model.types.segments(of).iter().map(test).collect();
        if tests.is_empty() { "0".into() } else { tests.join(" || ") }
    }

    /// Returns a pointer to the element of a slot.
    pub(super) fn slot(&mut self, place: &str, slot: &str, set: SetLayout) -> String {
        let (pointer, SetLayout { capacity, stride }) = (format!("p{}", self.name()), set);
        self.line(format!("i64 *{pointer} = {place};"));
        self.line(format!(
            "if ((u64){slot} >= {capacity}) F; else {pointer} += {slot} * {stride};"
        ));
        self.line(format!("if (*{pointer} != 1) F;"));
        self.line(format!("{pointer}++;"));
        pointer
    }

    /// Runs code for each element of a multiset.
    pub(super) fn each_slot(
        &mut self,
        (place, set, local): (&CellPlace, SetLayout, u32),
        body: impl FnOnce(&mut Self),
    ) {
        let (name, SetLayout { capacity, stride }) = (self.name(), set);
        self.line(format!("for (i64 n{name} = 0; n{name} < {capacity}; n{name}++) {{"));
        self.line(format!("if (++steps > {MAX_STEPS}) {{ F; break; }}"));
        self.line(format!("f[{local}] = n{name};"));
        let at = self.place(place);
        self.line(format!("if ({at}[n{name} * {stride}] == 1) {{"));
        body(self);
        self.line("}\n}");
    }

    /// Computes an expression. Returns a variable or a number.
    pub(super) fn expr(&mut self, expr: &MurphiExpr) -> String {
        match expr {
            MurphiExpr::Value(value) => number(*value),
            MurphiExpr::Read(place, _) => {
                let at = self.place(place);
                let value = self.let_(format!("*{at}"));
                self.line(format!("if ({value} == U) {{ F; {value} = 0; }}"));
                value
            }
            MurphiExpr::Copied(place) => {
                let at = self.place(place);
                self.let_(format!("*{at}"))
            }
            MurphiExpr::Undefined => "U".into(),
            MurphiExpr::Not(inner) => {
                let inner = self.expr(inner);
                self.let_(format!("!{inner}"))
            }
            MurphiExpr::Negate(inner, _) => {
                let inner = self.expr(inner);
                // The lowest number is no value.
                self.let_(format!("-{inner}"))
            }
            MurphiExpr::Binary(operation, sides, _) => self.binary(*operation, &sides.0, &sides.1),
            MurphiExpr::Choose(parts) => {
                let (holds, yes, no) = &**parts;
                self.choose(holds, |it| it.expr(yes), |it| it.expr(no))
            }
            MurphiExpr::Quantified(all, parts) => {
                let value = self.let_(i64::from(*all));
                let (range, body) = &**parts;
                self.each(range, |it| {
                    let holds = it.expr(body);
                    let (ends, is) = if *all { ("!", 0) } else { ("", 1) };
                    it.line(format!("if ({ends}{holds}) {{ {value} = {is}; break; }}"));
                });
                value
            }
            MurphiExpr::Call(call) => self.call(call),
            MurphiExpr::IsUndefined(place) => {
                let at = self.place(place);
                self.let_(format!("*{at} == U"))
            }
            MurphiExpr::IsMember(value, of) => {
                let value = self.expr(value);
                let test = self.is_member(*of, &value);
                self.let_(test)
            }
            MurphiExpr::Present(parts, set) => {
                let at = self.place(&parts.0);
                let slot = self.expr(&parts.1);
                let SetLayout { capacity, stride } = *set;
                self.let_(format!("(u64){slot} < {capacity} && {at}[{slot} * {stride}] == 1"))
            }
            MurphiExpr::Count(parts, set, local) => {
                let count = self.let_(0);
                self.each_slot((&parts.0, *set, *local), |it| {
                    let holds = it.expr(&parts.1);
                    it.line(format!("{count} += {holds};"));
                });
                count
            }
        }
    }

    fn choose(
        &mut self,
        holds: &MurphiExpr,
        yes: impl FnOnce(&mut Self) -> String,
        no: impl FnOnce(&mut Self) -> String,
    ) -> String {
        let holds = self.expr(holds);
        let value = format!("v{}", self.name());
        self.line(format!("i64 {value};\nif ({holds}) {{"));
        let yes = yes(self);
        self.line(format!("{value} = {yes};\n}} else {{"));
        let no = no(self);
        self.line(format!("{value} = {no};\n}}"));
        value
    }

    fn binary(&mut self, operation: Op, left: &MurphiExpr, right: &MurphiExpr) -> String {
        let known = |value: i64| move |_: &mut Self| value.to_string();
        match operation {
            Op::And => return self.choose(left, |it| it.expr(right), known(0)),
            Op::Or => return self.choose(left, known(1), |it| it.expr(right)),
            Op::Implies => return self.choose(left, |it| it.expr(right), known(1)),
            _ => (),
        }
        let (a, b) = (self.expr(left), self.expr(right));
        let checked = match operation {
            Op::Add => "add",
            Op::Subtract => "sub",
            Op::Multiply => "mul",
            Op::Divide | Op::Remainder => {
                let sign = if operation == Op::Divide { "/" } else { "%" };
                // No value is the lowest number, so no quotient is too large.
                return self.let_(format!("{b} ? {a} {sign} {b} : ({{ F; 0LL; }})"));
            }
            Op::Equal => return self.let_(format!("{a} == {b}")),
            Op::Unequal => return self.let_(format!("{a} != {b}")),
            Op::Less => return self.let_(format!("{a} < {b}")),
            _ => return self.let_(format!("{a} <= {b}")),
        };
        let value = self.let_(0);
        self.line(format!(
            "if (__builtin_{checked}_overflow({a}, {b}, &{value}) || {value} == U) \
             {{ F; {value} = 0; }}"
        ));
        value
    }

    /// Calls a routine. Returns its result.
    pub(super) fn call(&mut self, call: &RoutineCall) -> String {
        let Some(routine) = self.model.routines.get(call.routine) else { return "0".into() };
        let mut arguments = "s".to_owned();
        for (argument, parameter) in call.arguments.iter().zip(&routine.parameters) {
            let value = match argument {
                CallArgument::Value(value) => {
                    let value = self.expr(value);
                    self.check(parameter.type_id, &value);
                    value
                }
                CallArgument::Copy(place) | CallArgument::Reference(place) => {
                    let place = self.place(place);
                    format!("(i64){place}")
                }
            };
            arguments.push_str(", ");
            arguments.push_str(&value);
        }
        let result = self.let_(0);
        let limits = format!("depth >= {MAX_CALLS} || ++steps > {MAX_STEPS}");
        self.line(format!(
            "if (failed || {limits}) F; else {{ depth++; {result} = routine{}({arguments}); depth--; }}",
            call.routine
        ));
        result
    }
}
