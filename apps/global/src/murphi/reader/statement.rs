//! Statements.

use super::expression::{arguments, expression, loop_ranges, place, scalar_of, slot_of, truth};
use super::words::ModelReader;
use crate::murphi::checker::{self, NamedItem, TypedOperand, TypedPlace};
use crate::murphi::lexer::MurphiToken;
use crate::murphi::tree::{
    BinaryOperation, ItemSource, LoopValues, MurphiExpr, MurphiStatement, PlaceRoot,
};
use crate::murphi::types::{ScalarClass, TypeShape};
use clump_app_frame::diagnostic::{Checked, Diagnostic, SourcePosition};

/// Words that may follow statements.
const ENDS: [&str; 15] = [
    "end",
    "else",
    "elsif",
    "case",
    "endif",
    "endfor",
    "endwhile",
    "endswitch",
    "endalias",
    "endrule",
    "endstartstate",
    "endfunction",
    "endprocedure",
    "endruleset",
    "endchoose",
];

/// Reads statements up to a word that ends them.
///
/// # Errors
/// Fails where the text is wrong.
pub fn statements(r: &mut ModelReader) -> Checked<Vec<MurphiStatement>> {
    r.deeper(|r| {
        let mut all = Vec::new();
        loop {
            while r.skip(";") {}
            if ENDS.iter().any(|end| r.is(end)) {
                return Ok(all);
            }
            statement(r, &mut all)?;
            if !r.is(";") && !ENDS.iter().any(|end| r.is(end)) {
                return Err(r.unexpected("`;`"));
            }
        }
    })
}

fn statement(r: &mut ModelReader, to: &mut Vec<MurphiStatement>) -> Checked<()> {
    let at = r.at();
    let made = match r.peek().clone() {
        MurphiToken::Name(name) => match r.checker.find(&name, at)? {
            NamedItem::Routine(routine) => {
                r.take();
                let arguments = arguments(r)?;
                MurphiStatement::Call(r.checker.call(routine, arguments, at)?)
            }
            _ => assignment(r, at)?,
        },
        MurphiToken::Keyword(word) => match word {
            "if" => condition(r)?,
            "switch" => return switch(r, to),
            "for" => return for_loop(r, to),
            "while" => while_loop(r, at)?,
            "alias" => return alias_statement(r, to),
            "clear" | "undefine" => forget(r, word)?,
            "error" => {
                r.take();
                let Some(text) = r.text() else { return Err(r.unexpected("a string")) };
                MurphiStatement::Error(text, at)
            }
            "assert" => {
                r.take();
                let holds = truth(r)?;
                let text = r.text().unwrap_or_else(|| "an assertion does not hold".into());
                MurphiStatement::Assert(holds, text, at)
            }
            "put" => put(r)?,
            "return" => give_back(r, at)?,
            "multisetadd" | "multisetremove" | "multisetremovepred" => set_change(r, word, at)?,
            _ => return Err(r.unexpected("a statement")),
        },
        _ => return Err(r.unexpected("a statement")),
    };
    to.push(made);
    Ok(())
}

fn assignment(r: &mut ModelReader, at: SourcePosition) -> Checked<MurphiStatement> {
    let to = place(r)?;
    r.need(":=")?;
    let from_at = r.at();
    let from = expression(r)?;
    r.checker.assign(to, from, (at, from_at))
}

fn condition(r: &mut ModelReader) -> Checked<MurphiStatement> {
    let (mut cases, mut otherwise) = (Vec::new(), Vec::new());
    r.need("if")?;
    loop {
        let holds = truth(r)?;
        r.need("then")?;
        cases.push((holds, statements(r)?));
        if r.skip("elsif") {
            continue;
        }
        if r.skip("else") {
            otherwise = statements(r)?;
        }
        r.end("if")?;
        return Ok(MurphiStatement::If(cases, otherwise));
    }
}

/// A switch evaluates its value once, and is then a row of conditions.
fn switch(r: &mut ModelReader, to: &mut Vec<MurphiStatement>) -> Checked<()> {
    r.need("switch")?;
    let at = r.at();
    let (value, type_id) = scalar_of(r, expression)?;
    let local = r.checker.local(1, at)?;
    let kept = || checker::place(PlaceRoot::Local(local));
    to.push(MurphiStatement::Assign(kept(), type_id, value, at));
    let (mut cases, mut otherwise) = (Vec::new(), Vec::new());
    while r.skip("case") {
        let mut holds: Option<MurphiExpr> = None;
        loop {
            let case_at = r.at();
            let (case, case_type) = scalar_of(r, expression)?;
            r.checker.agree(type_id, case_type, case_at)?;
            let read = MurphiExpr::Read(kept(), case_at);
            let equal = MurphiExpr::Binary(BinaryOperation::Equal, Box::new((read, case)), case_at);
            holds = Some(match holds {
                None => equal,
                Some(before) => {
                    MurphiExpr::Binary(BinaryOperation::Or, Box::new((before, equal)), case_at)
                }
            });
            if !r.skip(",") {
                break;
            }
        }
        r.need(":")?;
        cases.push((holds.unwrap_or(MurphiExpr::Value(0)), statements(r)?));
    }
    if r.skip("else") {
        otherwise = statements(r)?;
    }
    r.end("switch")?;
    to.push(MurphiStatement::If(cases, otherwise));
    Ok(())
}

/// Reads loops, of which the last one is the innermost.
fn for_loop(r: &mut ModelReader, to: &mut Vec<MurphiStatement>) -> Checked<()> {
    r.need("for")?;
    r.checker.open();
    let ranges = loop_ranges(r)?;
    let mut body = statements(r)?;
    r.end("for")?;
    r.checker.close();
    for (range, type_id) in ranges.into_iter().rev() {
        let of_set = matches!(range.over, LoopValues::Of(_))
            && matches!(
                r.checker.model.types.class(type_id),
                Some(ScalarClass::Scalarset | ScalarClass::Union)
            );
        r.checker.has_set_loops |= of_set;
        body = vec![MurphiStatement::For(range, body, of_set)];
    }
    to.append(&mut body);
    Ok(())
}

fn while_loop(r: &mut ModelReader, at: SourcePosition) -> Checked<MurphiStatement> {
    r.need("while")?;
    let holds = truth(r)?;
    r.need_do()?;
    let local = r.checker.local(1, at)?;
    let body = statements(r)?;
    r.end("while")?;
    Ok(MurphiStatement::While(holds, body, local, at))
}

fn alias_statement(r: &mut ModelReader, to: &mut Vec<MurphiStatement>) -> Checked<()> {
    r.checker.open();
    aliases(r, to)?;
    let mut body = statements(r)?;
    r.end("alias")?;
    r.checker.close();
    to.append(&mut body);
    Ok(())
}

/// Reads `alias name : expression; ... do`, and declares the names. The scope is the caller's.
///
/// # Errors
/// Fails where the text is wrong.
pub fn aliases(r: &mut ModelReader, to: &mut Vec<MurphiStatement>) -> Checked<()> {
    r.need("alias")?;
    loop {
        let (name, at) = r.name()?;
        r.need(":")?;
        let of_at = r.at();
        let of = expression(r)?;
        let local = r.checker.local(1, at)?;
        let typed = match of {
            TypedOperand::Place(of) => {
                to.push(MurphiStatement::Bind(local, of.place));
                TypedPlace { place: checker::place(PlaceRoot::Reference(local)), ..of }
            }
            TypedOperand::Value(value, type_id) => {
                let place = checker::place(PlaceRoot::Local(local));
                to.push(MurphiStatement::Assign(place.clone(), type_id, value, of_at));
                TypedPlace { place, type_id, writable: false, of_state: false }
            }
            TypedOperand::Undefined => {
                return Err(Diagnostic::new(of_at, "`undefined` has no other name"));
            }
        };
        r.checker.declare(&name, NamedItem::Place(typed), at)?;
        if !r.skip(";") || r.is("do") {
            return r.need_do();
        }
    }
}

fn forget(r: &mut ModelReader, word: &'static str) -> Checked<MurphiStatement> {
    r.take();
    let at = r.at();
    let of = place(r)?;
    r.checker.change(&of, at)?;
    if word == "undefine" {
        return Ok(MurphiStatement::Undefine(of.place, of.type_id));
    }
    r.checker.note_asymmetry(of.type_id, "`clear` gives the first value of a scalarset", at);
    Ok(MurphiStatement::Clear(of.place, of.type_id))
}

fn put(r: &mut ModelReader) -> Checked<MurphiStatement> {
    r.take();
    if let Some(text) = r.text() {
        return Ok(MurphiStatement::Put(ItemSource::Text(text)));
    }
    Ok(MurphiStatement::Put(match expression(r)? {
        TypedOperand::Place(of) => ItemSource::Place(of.place, of.type_id),
        TypedOperand::Value(value, type_id) => ItemSource::Value(value, type_id),
        TypedOperand::Undefined => ItemSource::Text("undefined".into()),
    }))
}

fn give_back(r: &mut ModelReader, at: SourcePosition) -> Checked<MurphiStatement> {
    r.take();
    let Some(result) = r.checker.result else {
        // Rules end there.
        return Ok(MurphiStatement::Return(None, at));
    };
    let Some(needed) = result else { return Ok(MurphiStatement::Return(None, at)) };
    let value_at = r.at();
    let (value, found) = scalar_of(r, expression)?;
    r.checker.agree(needed, found, value_at)?;
    Ok(MurphiStatement::Return(Some(value), at))
}

fn set_change(
    r: &mut ModelReader,
    word: &'static str,
    at: SourcePosition,
) -> Checked<MurphiStatement> {
    r.take();
    r.need("(")?;
    if word == "multisetremovepred" {
        r.checker.open();
        let (set, layout, local) = slot_of(r)?;
        r.checker.change(&set, at)?;
        r.need(",")?;
        let test = truth(r)?;
        r.need(")")?;
        r.checker.close();
        return Ok(MurphiStatement::SetRemoveWhere(set.place, layout, local, test));
    }
    let item_at = r.at();
    let item = expression(r)?;
    r.need(",")?;
    let set_at = r.at();
    let set = place(r)?;
    r.need(")")?;
    r.checker.change(&set, set_at)?;
    let layout = r.checker.set_layout(&set, set_at)?;
    if word == "multisetremove" {
        let slot = r.checker.number(item, item_at)?;
        return Ok(MurphiStatement::SetRemove(set.place, layout, slot, at));
    }
    let TypeShape::Multiset { element, .. } = r.checker.model.types.entry(set.type_id).shape else {
        return Err(Diagnostic::new(set_at, "this is no multiset"));
    };
    let types = &r.checker.model.types;
    let item = match item {
        TypedOperand::Place(of) if types.class(element).is_none() => {
            if !types.same(element, of.type_id) {
                let what = format!("the multiset has elements of {}", r.checker.name(element));
                return Err(Diagnostic::new(item_at, what));
            }
            ItemSource::Place(of.place, element)
        }
        item => {
            let (value, found) = r.checker.copied(item, item_at)?;
            r.checker.agree(element, found, item_at)?;
            ItemSource::Value(value, element)
        }
    };
    Ok(MurphiStatement::SetAdd(set.place, layout, item, at))
}
