//! The compiler from checked models to C, whose functions do the same as the byte code. Where the
//! model does something wrong they return [`FAILED`]: the byte code then finds what it is.

mod c_expr;

use crate::murphi::machine::{MAX_CALLS, MAX_STEPS, MAX_TURNS};
use crate::murphi::packing::StatePacking;
use crate::murphi::tree::{
    CheckedModel, ItemSource, MurphiRoutine, MurphiStatement, RuleDefinition, SetLayout,
};
use crate::murphi::types::{TypeId, UNDEFINED};
use std::fmt::Write;

/// Name of the function.
pub const FUNCTION: &str = "clump_model";
/// Its result if the model does something wrong.
pub const FAILED: i32 = 2;
/// Cells of states that it packs and unpacks.
pub const MAX_PACKED: u32 = 1 << 12;

/// Task of the function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeEntry {
    /// Fires a start state.
    Start(usize),
    /// Fires a rule.
    Rule(usize),
    /// Evaluates an invariant.
    Invariant(usize),
    /// Packs a state.
    Pack,
    /// Unpacks a state.
    Unpack,
}

impl CodeEntry {
    /// Returns the number that stands for it.
    pub fn number(self, model: &CheckedModel) -> u32 {
        let (starts, rules) = (model.starts.len(), model.rules.len());
        let number = match self {
            Self::Pack => 0,
            Self::Unpack => 1,
            Self::Start(at) => 2 + at,
            Self::Rule(at) => 2 + starts + at,
            Self::Invariant(at) => 2 + starts + rules + at,
        };
        number as u32
    }
}

/// Text that is being made.
struct CBuilder<'a> {
    model: &'a CheckedModel,
    text: String,
    /// Temporary variables and constants so far.
    names: usize,
    /// Constants, which precede functions.
    constants: String,
}

const HEAD: &str = "typedef long long i64; typedef unsigned long long u64;\n\
     #define U (-9223372036854775807LL - 1)\n\
     #define F (failed = 1)\n\
     static _Thread_local i64 failed, depth, steps;\n";

/// Returns the model as C.
pub fn c_text(model: &CheckedModel, packing: &StatePacking) -> String {
    let (text, constants) = Default::default();
    let mut builder = CBuilder { model, text, names: 0, constants };
    let mut heads = String::new();
    for (number, routine) in model.routines.iter().enumerate() {
        let _ = writeln!(heads, "{};", builder.head(number, routine));
    }
    for (number, routine) in model.routines.iter().enumerate() {
        builder.routine(number, routine);
    }
    let mut cases = String::new();
    let starts = model.starts.iter().enumerate().map(|(at, rule)| (CodeEntry::Start(at), rule));
    let rules = model.rules.iter().enumerate().map(|(at, rule)| (CodeEntry::Rule(at), rule));
    let invariants = model.invariants.iter().enumerate();
    let invariants = invariants.map(|(at, rule)| (CodeEntry::Invariant(at), rule));
    let mut frame = 0;
    for (entry, rule) in starts.chain(rules).chain(invariants) {
        let number = entry.number(model);
        builder.rule(number, rule);
        let _ = writeln!(cases, "  case {number}: result = rule{number}(s); break;");
        frame = rule.frame.max(frame);
    }
    if model.cells <= MAX_PACKED {
        builder.packing(packing);
        cases.push_str("  case 0: pack(s, w); break;\n  case 1: unpack(s, w); break;\n");
    }
    let CBuilder { text, constants, .. } = builder;
    let (cells, words) = (model.cells + frame, packing.words());
    format!(
        "{HEAD}const u64 {FUNCTION}_cells = {cells}, {FUNCTION}_words = {words};\n\
         {heads}{constants}{text}int {FUNCTION}(i64 *s, u64 *w, unsigned what)\n{{\n  \
         i64 result = 1;\n  failed = 0; depth = 0; steps = 0;\n  switch (what) {{\n{cases}  \
         default: return {FAILED};\n  }}\n  return failed ? {FAILED} : (int)result;\n}}\n"
    )
}

/// Returns a number as C writes it.
fn number(value: i64) -> String {
    match value {
        UNDEFINED => "U".into(),
        _ if value < 0 => format!("({value}LL)"),
        _ => format!("{value}LL"),
    }
}

impl CBuilder<'_> {
    fn head(&self, number: usize, routine: &MurphiRoutine) -> String {
        let parameters: String =
            (0..routine.parameters.len()).map(|at| format!(", i64 a{at}")).collect();
        format!("static i64 routine{number}(i64 *s{parameters})")
    }

    fn frame(&mut self, cells: u32) {
        let cells = cells.max(1);
        self.line(format!("i64 f[{cells}]; for (int i = 0; i < {cells}; i++) f[i] = U;"));
    }

    fn routine(&mut self, number: usize, routine: &MurphiRoutine) {
        let head = self.head(number, routine);
        self.line(format!("{head}\n{{"));
        self.frame(routine.frame);
        for (at, parameter) in routine.parameters.iter().enumerate() {
            let (local, cells) = (parameter.local, self.model.types.entry(parameter.type_id).cells);
            let scalar = self.model.types.class(parameter.type_id).is_some();
            if parameter.by_reference || scalar {
                self.line(format!("f[{local}] = a{at};"));
            } else {
                self.line(format!("__builtin_memcpy(f + {local}, (i64 *)a{at}, {cells} * 8);"));
            }
        }
        self.statements(&routine.body);
        self.line(if routine.result.is_some() { "F; return 0;\n}" } else { "return 0;\n}" });
    }

    fn rule(&mut self, entry: u32, rule: &RuleDefinition) {
        self.line(format!("static i64 rule{entry}(i64 *s)\n{{"));
        self.frame(rule.frame);
        for parameter in &rule.parameters {
            let local = parameter.local;
            self.line(format!("f[{local}] = s[{}];", self.model.cells + local));
        }
        self.statements(&rule.prelude);
        if let Some(guard) = &rule.guard {
            let holds = self.expr(guard);
            self.line(format!("if (!{holds} || failed) return 0;"));
        }
        self.statements(&rule.body);
        self.line("return 1;\n}");
    }

    fn packing(&mut self, packing: &StatePacking) {
        let (mut pack, mut unpack, mut at) = (String::new(), String::new(), 0);
        for (cell, (bits, segments)) in packing.scalars().enumerate() {
            let (mut code, mut value, mut before) = ("0".to_owned(), "U".to_owned(), 1);
            for segment in segments.iter().rev() {
                let first = number(segment.first);
                let count = segment.count;
                before = segments.iter().take_while(|it| *it != segment).map(|it| it.count).sum();
                before += 1;
                code = format!(
                    "(u64)v - (u64){first} < {count}ULL ? (u64)v - (u64){first} + {before} : {code}"
                );
                value = format!(
                    "c - {before} < {count}ULL ? (i64)((u64){first} + (c - {before})) : {value}"
                );
            }
            debug_assert!(before >= 1, "0 stands for undefined");
            let (word, shift) = (at / 64, at % 64);
            let _ = writeln!(
                pack,
                "  {{ i64 v = s[{cell}]; u64 c = {code}; w[{word}] |= c << {shift};"
            );
            let _ = writeln!(unpack, "  {{ u64 c = w[{word}] >> {shift};");
            if shift + bits > 64 {
                let _ = writeln!(pack, "  w[{word} + 1] |= c >> {};", 64 - shift);
                let _ = writeln!(unpack, "  c |= w[{word} + 1] << {};", 64 - shift);
            }
            let mask = u64::MAX >> (64 - bits.clamp(1, 64));
            let _ = writeln!(pack, "  }}");
            let _ = writeln!(unpack, "  c &= {mask}ULL; s[{cell}] = {value}; }}");
            at += bits;
        }
        let words = packing.words();
        self.line(format!(
            "static void pack(i64 *s, u64 *w)\n{{\n  for (int i = 0; i < {words}; i++) w[i] = 0;\n\
             {pack}}}\nstatic void unpack(i64 *s, u64 *w)\n{{\n{unpack}}}"
        ));
    }

    fn statements(&mut self, statements: &[MurphiStatement]) {
        for statement in statements {
            self.statement(statement);
        }
    }

    fn block(&mut self, head: &str, statements: &[MurphiStatement]) {
        self.line(format!("{head} {{"));
        self.statements(statements);
        self.line("}");
    }

    fn statement(&mut self, statement: &MurphiStatement) {
        match statement {
            MurphiStatement::Assign(place, of, value, _) => {
                let to = self.place(place);
                let value = self.expr(value);
                self.check(*of, &value);
                self.line(format!("*{to} = {value};"));
            }
            MurphiStatement::Copy(to, from, cells) => {
                let (to, from) = (self.place(to), self.place(from));
                self.line(format!("__builtin_memmove({to}, {from}, {cells} * 8);"));
            }
            MurphiStatement::Bind(local, place) => {
                let place = self.place(place);
                self.line(format!("f[{local}] = (i64){place};"));
            }
            MurphiStatement::Require(holds) => {
                let holds = self.expr(holds);
                self.line(format!("if (!{holds}) return 0;"));
            }
            MurphiStatement::If(cases, otherwise) => self.cases(cases, otherwise),
            MurphiStatement::For(range, body, _) => {
                self.each(range, |it| it.statements(body));
            }
            MurphiStatement::While(holds, body, _, _) => {
                let turns = self.name();
                self.line(format!("for (i64 n{turns} = 0;;) {{"));
                let holds = self.expr(holds);
                self.line(format!("if (!{holds} || failed) break;"));
                self.line(format!(
                    "if (++n{turns} > {MAX_TURNS} || ++steps > {MAX_STEPS}) {{ F; break; }}"
                ));
                self.statements(body);
                self.line("}");
            }
            MurphiStatement::Call(call) => {
                self.call(call);
            }
            MurphiStatement::Clear(place, of) => self.fill(place, (*of, true)),
            MurphiStatement::Undefine(place, of) => self.fill(place, (*of, false)),
            MurphiStatement::Error(..) => self.line("F; return 0;"),
            MurphiStatement::Assert(holds, ..) => {
                let holds = self.expr(holds);
                self.line(format!("if (!{holds}) {{ F; return 0; }}"));
            }
            MurphiStatement::Put(_) => (),
            MurphiStatement::Return(Some(value), _) => {
                let value = self.expr(value);
                self.line(format!("return {value};"));
            }
            MurphiStatement::Return(None, _) => self.line("return 1;"),
            other => self.set_change(other),
        }
    }

    fn cases(
        &mut self,
        cases: &[(crate::murphi::tree::MurphiExpr, Vec<MurphiStatement>)],
        otherwise: &[MurphiStatement],
    ) {
        for (holds, body) in cases {
            let holds = self.expr(holds);
            self.block(&format!("if ({holds})"), body);
            self.line("else {");
        }
        self.statements(otherwise);
        self.line("}".repeat(cases.len()));
    }

    fn fill(&mut self, place: &crate::murphi::tree::CellPlace, (of, cleared): (TypeId, bool)) {
        let place = self.place(place);
        let cells = self.model.types.template(of, cleared);
        let name = self.name();
        let values: Vec<String> = cells.iter().map(|it| number(*it)).collect();
        let _ = writeln!(self.constants, "static const i64 t{name}[] = {{{}}};", values.join(", "));
        self.line(format!("__builtin_memcpy({place}, t{name}, sizeof t{name});"));
    }

    /// Returns a pointer to the mark of a free slot.
    fn free_slot(&mut self, place: &str, set: SetLayout) -> String {
        let (name, SetLayout { capacity, stride }) = (self.name(), set);
        self.line(format!("i64 n{name} = 0, *p{name} = {place};"));
        self.line(format!(
            "while (n{name} < {capacity} && p{name}[n{name} * {stride}] == 1) n{name}++;"
        ));
        self.line(format!("if (n{name} == {capacity}) {{ F; n{name} = 0; }}"));
        self.line(format!("p{name} += n{name} * {stride};"));
        format!("p{name}")
    }

    fn set_change(&mut self, statement: &MurphiStatement) {
        match statement {
            MurphiStatement::SetAdd(place, set, item, _) => {
                let place = self.place(place);
                let value = match item {
                    ItemSource::Value(value, of) => {
                        let value = self.expr(value);
                        self.check(*of, &value);
                        let to = self.free_slot(&place, *set);
                        self.line(format!("*{to} = 1; {to}[1] = {value};"));
                        return;
                    }
                    ItemSource::Place(from, _) => self.place(from),
                    ItemSource::Text(_) => return clump_bug::bug!("a text as an element"),
                };
                let (to, cells) = (self.free_slot(&place, *set), set.stride - 1);
                self.line(format!("*{to} = 1; __builtin_memmove({to} + 1, {value}, {cells} * 8);"));
            }
            MurphiStatement::SetRemove(place, set, slot, _) => {
                let place = self.place(place);
                let slot = self.expr(slot);
                self.remove(&place, &slot, *set);
            }
            MurphiStatement::SetRemoveWhere(place, set, local, test) => {
                self.each_slot((place, *set, *local), |it| {
                    let test = it.expr(test);
                    it.line(format!("if ({test}) {{"));
                    let place = it.place(place);
                    it.remove(&place, &format!("f[{local}]"), *set);
                    it.line("}");
                });
            }
            _ => clump_bug::bug!("no change of a multiset"),
        }
    }

    fn remove(&mut self, place: &str, slot: &str, set: SetLayout) {
        let at = self.slot(place, slot, set);
        self.line(format!("{at}[-1] = 0;"));
        for cell in 0..set.stride - 1 {
            self.line(format!("{at}[{cell}] = U;"));
        }
    }
}
