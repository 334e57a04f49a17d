//! Rules, start states and invariants, with what they are nested in.

use super::expression::{known_number, simple_domain, slot_of, truth};
use super::statement::{aliases, statements};
use super::type_definition::range_of;
use super::words::ModelReader;
use crate::murphi::checker;
use crate::murphi::lexer::MurphiToken;
use crate::murphi::tree::{MurphiExpr, MurphiStatement, PlaceRoot, RuleDefinition, RuleParameter};
use crate::murphi::types::TypeId;
use clump_app_frame::diagnostic::{Checked, Diagnostic};

/// Instances of all rules together.
const MAX_INSTANCES: u64 = 1 << 24;

/// Surroundings of rules.
#[derive(Debug, Clone)]
pub struct RuleScope {
    /// Reader of a rule's own declarations.
    declarations: fn(&mut ModelReader) -> Checked<()>,
    parameters: Vec<RuleParameter>,
    prelude: Vec<MurphiStatement>,
    frame: u32,
}

impl RuleScope {
    /// Creates the scope of a whole model.
    pub fn new(declarations: fn(&mut ModelReader) -> Checked<()>) -> Self {
        Self { declarations, parameters: Vec::new(), prelude: Vec::new(), frame: 0 }
    }
}

/// Reads a rule, a start state or an invariant, or what they are nested in.
///
/// # Errors
/// Fails where the text is wrong.
pub fn rule(r: &mut ModelReader, scope: &RuleScope) -> Checked<()> {
    r.deeper(|r| {
        r.checker.frame = scope.frame;
        match r.peek() {
            MurphiToken::Keyword("ruleset") => ruleset(r, scope),
            MurphiToken::Keyword("choose") => choose(r, scope),
            MurphiToken::Keyword("alias") => alias(r, scope),
            MurphiToken::Keyword("rule") => simple(r, scope),
            MurphiToken::Keyword("startstate") => start(r, scope),
            MurphiToken::Keyword("invariant") => invariant(r, scope),
            _ => Err(r.unexpected("a declaration or a rule")),
        }
    })
}

fn nested(r: &mut ModelReader, scope: &RuleScope, of: &str) -> Checked<()> {
    loop {
        while r.skip(";") {}
        if r.is("end") || r.is(&format!("end{of}")) {
            break;
        }
        rule(r, scope)?;
    }
    r.end(of)?;
    r.checker.close();
    Ok(())
}

fn ruleset(r: &mut ModelReader, scope: &RuleScope) -> Checked<()> {
    r.take();
    r.checker.open();
    let mut inner = scope.clone();
    loop {
        let (name, at) = r.name()?;
        let type_id = if r.skip(":=") { steps(r)? } else { values(r)? };
        let local = r.checker.counter(&name, type_id, at)?;
        inner.parameters.push(RuleParameter { name, local, of: Ok(type_id) });
        if !(r.skip(";") || r.skip(",")) || r.is("do") {
            r.need_do()?;
            break;
        }
    }
    inner.frame = r.checker.frame;
    nested(r, &inner, "ruleset")
}

/// Reads `: type`.
fn values(r: &mut ModelReader) -> Checked<TypeId> {
    r.need(":")?;
    simple_domain(r)
}

/// Reads `from to to`, both known.
fn steps(r: &mut ModelReader) -> Checked<TypeId> {
    let at = r.at();
    let from = known_number(r)?;
    r.need("to")?;
    let to = known_number(r)?;
    if r.skip("by") && known_number(r)? != 1 {
        return Err(Diagnostic::new(at, "a ruleset takes all values of a range: steps are by 1"));
    }
    range_of(r, (from, to), at)
}

fn choose(r: &mut ModelReader, scope: &RuleScope) -> Checked<()> {
    r.take();
    r.checker.open();
    let MurphiToken::Name(name) = r.peek().clone() else { return Err(r.unexpected("a name")) };
    let (set, layout, local) = slot_of(r)?;
    r.need_do()?;
    let mut inner = scope.clone();
    inner.parameters.push(RuleParameter { name, local, of: Err(layout.capacity) });
    let slot = MurphiExpr::Read(checker::place(PlaceRoot::Local(local)), r.at());
    let present = MurphiExpr::Present(Box::new((set.place, slot)), layout);
    inner.prelude.push(MurphiStatement::Require(present));
    inner.frame = r.checker.frame;
    nested(r, &inner, "choose")
}

fn alias(r: &mut ModelReader, scope: &RuleScope) -> Checked<()> {
    r.checker.open();
    let mut inner = scope.clone();
    r.checker.pure = true;
    let read = aliases(r, &mut inner.prelude);
    r.checker.pure = false;
    read?;
    inner.frame = r.checker.frame;
    nested(r, &inner, "alias")
}

/// Begins a rule: its name and place.
fn begin(r: &mut ModelReader, scope: &RuleScope) -> RuleDefinition {
    let at = r.at();
    let word = r.take().show();
    let name = r.text().unwrap_or_else(|| format!("{} of line {}", word.replace('`', ""), at.line));
    r.checker.open();
    (r.checker.changes_state, r.checker.has_set_loops) = (false, false);
    RuleDefinition {
        name,
        at,
        parameters: scope.parameters.clone(),
        prelude: scope.prelude.clone(),
        ..RuleDefinition::default()
    }
}

/// Ends a rule.
fn finish(r: &mut ModelReader, made: &mut RuleDefinition) -> Checked<()> {
    r.checker.close();
    made.frame = r.checker.frame;
    made.has_set_loops = r.checker.has_set_loops;
    let model = &r.checker.model;
    if model.instances(made) > MAX_INSTANCES {
        let what = format!("the rule has more than {MAX_INSTANCES} instances");
        return Err(Diagnostic::new(made.at, what));
    }
    for parameter in &made.parameters {
        if let Ok(of) = parameter.of
            && r.checker.model.types.values(of) > MAX_INSTANCES
        {
            return Err(Diagnostic::new(made.at, "a parameter of the rule has too many values"));
        }
    }
    Ok(())
}

fn simple(r: &mut ModelReader, scope: &RuleScope) -> Checked<()> {
    let mut made = begin(r, scope);
    if !["begin", "var", "const", "type"].iter().any(|word| r.is(word)) {
        r.checker.pure = true;
        let guard = truth(r);
        r.checker.pure = false;
        made.guard = Some(guard?);
        r.need("==>")?;
    }
    (scope.declarations)(r)?;
    r.skip("begin");
    made.body = statements(r)?;
    r.end("rule")?;
    finish(r, &mut made)?;
    r.checker.model.rules.push(made);
    Ok(())
}

fn start(r: &mut ModelReader, scope: &RuleScope) -> Checked<()> {
    let mut made = begin(r, scope);
    (scope.declarations)(r)?;
    r.skip("begin");
    r.checker.in_start = true;
    let body = statements(r);
    r.checker.in_start = false;
    made.body = body?;
    r.end("startstate")?;
    finish(r, &mut made)?;
    r.checker.model.starts.push(made);
    Ok(())
}

fn invariant(r: &mut ModelReader, scope: &RuleScope) -> Checked<()> {
    let mut made = begin(r, scope);
    r.checker.pure = true;
    let holds = truth(r);
    r.checker.pure = false;
    made.guard = Some(holds?);
    finish(r, &mut made)?;
    r.checker.model.invariants.push(made);
    Ok(())
}
