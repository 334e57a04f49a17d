//! Declarations: constants, types, variables, functions and procedures; and the whole of a model.

use super::expression::{expression, known_number};
use super::rules;
use super::statement::statements;
use super::type_definition::type_of;
use super::words::ModelReader;
use crate::murphi::checker::{self, NamedItem, TypedPlace};
use crate::murphi::lexer::MurphiToken;
use crate::murphi::tree::{
    MurphiExpr, MurphiRoutine, MurphiStatement, PlaceRoot, RoutineParameter, StateVariable,
};
use crate::murphi::types::{INTEGER, MAX_CELLS, TypeId};
use clump_app_frame::diagnostic::{Checked, Diagnostic, SourcePosition};

/// Reads a model.
///
/// # Errors
/// Fails where the text is wrong.
pub fn model(r: &mut ModelReader) -> Checked<()> {
    r.checker.open();
    while *r.peek() != MurphiToken::End {
        match r.peek() {
            MurphiToken::Sign(";") => {
                r.take();
            }
            MurphiToken::Keyword("const" | "type") => names(r)?,
            MurphiToken::Keyword("var") => variables(r, false)?,
            MurphiToken::Keyword("function" | "procedure") => routine(r)?,
            _ => rules::rule(r, &rules::RuleScope::new(local_declarations))?,
        }
    }
    Ok(())
}

/// Reads declarations that a routine or a rule begins with.
///
/// # Errors
/// Fails where the text is wrong.
pub fn local_declarations(r: &mut ModelReader) -> Checked<()> {
    loop {
        match r.peek() {
            MurphiToken::Keyword("const" | "type") => names(r)?,
            MurphiToken::Keyword("var") => variables(r, true)?,
            _ => return Ok(()),
        }
    }
}

/// Reads constants or types.
fn names(r: &mut ModelReader) -> Checked<()> {
    let types = r.is("type");
    r.take();
    while r.is_name_before(":") {
        let (name, at) = r.name()?;
        r.need(":")?;
        let item = if types {
            let id = type_of(r, known_number)?;
            r.checker.model.types.name(id, &name);
            NamedItem::Type(id)
        } else {
            constant(r, &name)?
        };
        r.checker.declare(&name, item, at)?;
        if !r.skip(";") {
            break;
        }
    }
    Ok(())
}

fn constant(r: &mut ModelReader, name: &str) -> Checked<NamedItem> {
    let at = r.at();
    let operand = expression(r)?;
    let (MurphiExpr::Value(value), type_id) = r.checker.scalar(operand, at)? else {
        return Err(Diagnostic::new(at, "this has to be a constant"));
    };
    if let Some(known) = r.constants.iter().position(|(given, _)| given == name) {
        let (_, value) = r.constants.remove(known);
        return Ok(NamedItem::Value(value, INTEGER));
    }
    Ok(NamedItem::Value(value, type_id))
}

/// Reads names with their places, and the type that follows them.
fn names_of_type(r: &mut ModelReader) -> Checked<(Vec<(String, SourcePosition)>, TypeId)> {
    let mut names = vec![r.name()?];
    while r.skip(",") {
        names.push(r.name()?);
    }
    r.need(":")?;
    Ok((names, type_of(r, known_number)?))
}

/// Reads variables: of the state, or of a frame.
fn variables(r: &mut ModelReader, in_frame: bool) -> Checked<()> {
    r.take();
    while matches!(r.peek(), MurphiToken::Name(_)) {
        let (names, type_id) = names_of_type(r)?;
        for (name, at) in names {
            let root = if in_frame {
                let cells = r.checker.model.types.entry(type_id).cells;
                PlaceRoot::Local(r.checker.local(cells, at)?)
            } else {
                PlaceRoot::Global(variable(r, &name, type_id, at)?)
            };
            let place = checker::place(root);
            let typed = TypedPlace { place, type_id, writable: true, of_state: !in_frame };
            r.checker.declare(&name, NamedItem::Place(typed), at)?;
        }
        if !r.skip(";") {
            break;
        }
    }
    Ok(())
}

/// Adds a variable of the state. Returns its first cell.
fn variable(r: &mut ModelReader, name: &str, type_id: TypeId, at: SourcePosition) -> Checked<u32> {
    let model = &mut r.checker.model;
    let offset = model.cells;
    model.cells = offset.saturating_add(model.types.entry(type_id).cells);
    if model.cells > MAX_CELLS {
        let what = format!("the variables take more than {MAX_CELLS} cells");
        return Err(Diagnostic::new(at, what));
    }
    model.variables.push(StateVariable { name: name.into(), type_id, offset });
    Ok(offset)
}

fn routine(r: &mut ModelReader) -> Checked<()> {
    let word = if r.is("function") { "function" } else { "procedure" };
    r.take();
    let (name, at) = r.name()?;
    let number = r.checker.model.routines.len();
    r.checker.declare(&name, NamedItem::Routine(number), at)?;
    r.checker.open();
    (r.checker.frame, r.checker.changes_state, r.checker.has_set_loops) = (0, false, false);
    let parameters = parameters(r)?;
    let mut made = MurphiRoutine { name, parameters, at, ..MurphiRoutine::default() };
    if word == "function" {
        r.need(":")?;
        let at = r.at();
        let id = type_of(r, known_number)?;
        if r.checker.model.types.class(id).is_none() {
            let what = "the result of a function has to be a scalar: use a `var` parameter";
            return Err(Diagnostic::new(at, what));
        }
        made.result = Some(id);
    }
    r.need(";")?;
    // A routine may call itself: then it counts as one that changes the state.
    made.changes_state = true;
    made.has_set_loops = true;
    r.checker.model.routines.push(made.clone());
    local_declarations(r)?;
    r.skip("begin");
    r.checker.result = Some(made.result);
    made.body = statements(r)?;
    r.checker.result = None;
    // One that ends otherwise on some way is an error when it does.
    if made.result.is_some() && !gives_result(&made.body) {
        let what = format!("`{}` has no result: add `return`", made.name);
        return Err(Diagnostic::new(r.at(), what));
    }
    r.end(word)?;
    r.skip(";");
    made.frame = r.checker.frame;
    made.changes_state = r.checker.changes_state;
    made.has_set_loops = r.checker.has_set_loops;
    r.checker.close();
    if let Some(slot) = r.checker.model.routines.get_mut(number) {
        *slot = made;
    }
    Ok(())
}

fn parameters(r: &mut ModelReader) -> Checked<Vec<RoutineParameter>> {
    r.need("(")?;
    let mut all = Vec::new();
    while !r.is(")") {
        let by_reference = r.skip("var");
        let (names, type_id) = names_of_type(r)?;
        for (name, at) in names {
            let cells = if by_reference { 1 } else { r.checker.model.types.entry(type_id).cells };
            let local = r.checker.local(cells, at)?;
            let root =
                if by_reference { PlaceRoot::Reference(local) } else { PlaceRoot::Local(local) };
            let place = checker::place(root);
            let typed = TypedPlace { place, type_id, writable: by_reference, of_state: false };
            r.checker.declare(&name, NamedItem::Place(typed), at)?;
            all.push(RoutineParameter { name, local, type_id, by_reference });
        }
        if !r.skip(";") && !r.skip(",") {
            break;
        }
    }
    r.need(")")?;
    Ok(all)
}

/// Returns true if any of the statements gives a result, or ends in an error.
fn gives_result(statements: &[MurphiStatement]) -> bool {
    statements.iter().any(|it| match it {
        MurphiStatement::Return(..) | MurphiStatement::Error(..) => true,
        MurphiStatement::If(cases, otherwise) => {
            gives_result(otherwise) || cases.iter().any(|(_, body)| gives_result(body))
        }
        MurphiStatement::For(_, body, _) | MurphiStatement::While(_, body, ..) => {
            gives_result(body)
        }
        _ => false,
    })
}
