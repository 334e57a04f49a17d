//! Expressions and places.
//!
//! From loose to tight: `? :`, `->`, `|`, `&`, `!`, comparisons, `+ -`, `* / %`.

use super::type_definition::type_of;
use super::words::ModelReader;
use crate::murphi::checker::{NamedItem, TypedOperand, TypedPlace, fold};
use crate::murphi::lexer::MurphiToken;
use crate::murphi::tree::{BinaryOperation, LoopRange, LoopValues, MurphiExpr};
use crate::murphi::types::{BOOLEAN, INTEGER, ScalarClass, TypeId};
use clump_app_frame::diagnostic::{Checked, Diagnostic, SourcePosition};

/// Reads an expression.
///
/// # Errors
/// Fails where the text is wrong.
pub fn expression(r: &mut ModelReader) -> Checked<TypedOperand> {
    r.deeper(|r| {
        let at = r.at();
        let first = implication(r)?;
        if !r.skip("?") {
            return Ok(first);
        }
        let condition = r.checker.truth(first, at)?;
        let (yes, yes_type) = scalar_of(r, expression)?;
        r.need(":")?;
        let (no, no_type) = scalar_of(r, expression)?;
        r.checker.agree(yes_type, no_type, at)?;
        let range = r.checker.model.types.class(yes_type) == Some(ScalarClass::Range);
        let type_id = if range { INTEGER } else { yes_type };
        Ok(TypedOperand::Value(MurphiExpr::Choose(Box::new((condition, yes, no))), type_id))
    })
}

/// Reads an expression that is a truth value.
///
/// # Errors
/// Fails where the text is wrong, or if it is none.
pub fn truth(r: &mut ModelReader) -> Checked<MurphiExpr> {
    let at = r.at();
    let operand = expression(r)?;
    r.checker.truth(operand, at)
}

/// Reads an expression that is a number.
///
/// # Errors
/// Fails where the text is wrong, or if it is none.
pub fn number(r: &mut ModelReader) -> Checked<MurphiExpr> {
    let at = r.at();
    let operand = expression(r)?;
    r.checker.number(operand, at)
}

/// Reads an expression that is known now, and a number.
///
/// # Errors
/// Fails where the text is wrong, or if it is not known.
pub fn known_number(r: &mut ModelReader) -> Checked<i64> {
    let at = r.at();
    // Sums only: `..` and `:` may follow.
    let operand = sum(r)?;
    match r.checker.number(operand, at)? {
        MurphiExpr::Value(value) => Ok(value),
        _ => Err(Diagnostic::new(at, "this has to be a constant")),
    }
}

/// Reads an expression that is a scalar.
///
/// # Errors
/// Fails where the text is wrong, or if it is none.
pub fn scalar_of(
    r: &mut ModelReader,
    read: fn(&mut ModelReader) -> Checked<TypedOperand>,
) -> Checked<(MurphiExpr, TypeId)> {
    let at = r.at();
    let operand = read(r)?;
    r.checker.scalar(operand, at)
}

type Level = fn(&mut ModelReader) -> Checked<TypedOperand>;
type Sides = (SourcePosition, SourcePosition, SourcePosition);

fn chain(
    r: &mut ModelReader,
    below: Level,
    operations: &[(&str, BinaryOperation)],
) -> Checked<TypedOperand> {
    let left_at = r.at();
    let mut left = below(r)?;
    while let Some((sign, operation)) = operations.iter().find(|(sign, _)| r.is(sign)) {
        let at = r.at();
        r.operator(sign)?;
        let sides: Sides = (left_at, at, r.at());
        let right = below(r)?;
        left = r.checker.binary(*operation, (left, right), sides)?;
    }
    Ok(left)
}

fn implication(r: &mut ModelReader) -> Checked<TypedOperand> {
    let left_at = r.at();
    let left = disjunction(r)?;
    let at = r.at();
    if !r.skip("->") {
        return Ok(left);
    }
    let sides = (left_at, at, r.at());
    // From the right: a -> b -> c is a -> (b -> c).
    let right = r.deeper(implication)?;
    r.checker.binary(BinaryOperation::Implies, (left, right), sides)
}

fn disjunction(r: &mut ModelReader) -> Checked<TypedOperand> {
    chain(r, conjunction, &[("|", BinaryOperation::Or)])
}

fn conjunction(r: &mut ModelReader) -> Checked<TypedOperand> {
    chain(r, negation, &[("&", BinaryOperation::And)])
}

fn negation(r: &mut ModelReader) -> Checked<TypedOperand> {
    if !r.skip("!") {
        return comparison(r);
    }
    let at = r.at();
    let operand = r.deeper(negation)?;
    let not = match r.checker.truth(operand, at)? {
        MurphiExpr::Value(value) => MurphiExpr::Value(1 - value),
        other => MurphiExpr::Not(Box::new(other)),
    };
    Ok(TypedOperand::Value(not, BOOLEAN))
}

fn comparison(r: &mut ModelReader) -> Checked<TypedOperand> {
    let left_at = r.at();
    let left = sum(r)?;
    let (operation, swap) = match r.peek() {
        MurphiToken::Sign("=") => (BinaryOperation::Equal, false),
        MurphiToken::Sign("!=") => (BinaryOperation::Unequal, false),
        MurphiToken::Sign("<") => (BinaryOperation::Less, false),
        MurphiToken::Sign("<=") => (BinaryOperation::LessOrEqual, false),
        MurphiToken::Sign(">") => (BinaryOperation::Less, true),
        MurphiToken::Sign(">=") => (BinaryOperation::LessOrEqual, true),
        MurphiToken::Sign("==") => return Err(r.unexpected("an operator")),
        _ => return Ok(left),
    };
    let at = r.at();
    r.take();
    let right_at = r.at();
    let right = sum(r)?;
    if swap {
        r.checker.binary(operation, (right, left), (right_at, at, left_at))
    } else {
        r.checker.binary(operation, (left, right), (left_at, at, right_at))
    }
}

/// Reads a sum: what may stand as a bound of a range.
///
/// # Errors
/// Fails where the text is wrong.
pub fn sum(r: &mut ModelReader) -> Checked<TypedOperand> {
    chain(r, product, &[("+", BinaryOperation::Add), ("-", BinaryOperation::Subtract)])
}

fn product(r: &mut ModelReader) -> Checked<TypedOperand> {
    let operations = [
        ("*", BinaryOperation::Multiply),
        ("/", BinaryOperation::Divide),
        ("%", BinaryOperation::Remainder),
    ];
    chain(r, sign, &operations)
}

fn sign(r: &mut ModelReader) -> Checked<TypedOperand> {
    let at = r.at();
    if r.skip("+") {
        return r.deeper(sign);
    }
    if !r.skip("-") {
        return primary(r);
    }
    let operand = r.deeper(sign)?;
    let negated = match r.checker.number(operand, at)? {
        MurphiExpr::Value(value) if fold(BinaryOperation::Subtract, 0, value).is_some() => {
            MurphiExpr::Value(-value)
        }
        other => MurphiExpr::Negate(Box::new(other), at),
    };
    Ok(TypedOperand::Value(negated, INTEGER))
}

fn primary(r: &mut ModelReader) -> Checked<TypedOperand> {
    let at = r.at();
    let truth_value = |value| Ok(TypedOperand::Value(value, BOOLEAN));
    match r.peek().clone() {
        MurphiToken::Number(number) => {
            r.take();
            Ok(TypedOperand::Value(MurphiExpr::Value(number), INTEGER))
        }
        MurphiToken::Keyword(word @ ("true" | "false")) => {
            r.take();
            truth_value(MurphiExpr::Value(i64::from(word == "true")))
        }
        MurphiToken::Keyword("undefined") => {
            r.take();
            Ok(TypedOperand::Undefined)
        }
        MurphiToken::Sign("(") => {
            r.take();
            let inside = expression(r)?;
            r.need(")")?;
            Ok(inside)
        }
        MurphiToken::Keyword(word @ ("forall" | "exists")) => quantified(r, word),
        MurphiToken::Keyword("isundefined") => {
            r.take();
            r.need("(")?;
            let at = r.at();
            let of = place(r)?;
            r.need(")")?;
            if r.checker.model.types.class(of.type_id).is_none() {
                return Err(Diagnostic::new(at, "only scalars can be undefined"));
            }
            truth_value(MurphiExpr::IsUndefined(of.place))
        }
        MurphiToken::Keyword("ismember") => {
            r.take();
            r.need("(")?;
            let (value, found) = scalar_of(r, expression)?;
            r.need(",")?;
            let id = simple_domain(r)?;
            r.need(")")?;
            r.checker.agree(id, found, at)?;
            truth_value(MurphiExpr::IsMember(Box::new(value), id))
        }
        MurphiToken::Keyword("multisetcount") => count(r),
        MurphiToken::Name(name) => named(r, &name, at),
        _ => Err(r.unexpected("an expression")),
    }
}

fn named(r: &mut ModelReader, name: &str, at: SourcePosition) -> Checked<TypedOperand> {
    match r.checker.find(name, at)? {
        NamedItem::Value(value, type_id) => {
            r.take();
            Ok(TypedOperand::Value(MurphiExpr::Value(value), type_id))
        }
        NamedItem::Place(_) => Ok(TypedOperand::Place(place(r)?)),
        NamedItem::Type(_) => Err(Diagnostic::new(at, format!("`{name}` is a type, not a value"))),
        NamedItem::Routine(routine) => {
            r.take();
            let result = r.checker.model.routines.get(routine).and_then(|it| it.result);
            let Some(result) = result else {
                return Err(Diagnostic::new(
                    at,
                    format!("`{name}` is a procedure, and has no result"),
                ));
            };
            let arguments = arguments(r)?;
            let call = r.checker.call(routine, arguments, at)?;
            let range = r.checker.model.types.class(result) == Some(ScalarClass::Range);
            let type_id = if range { INTEGER } else { result };
            Ok(TypedOperand::Value(MurphiExpr::Call(Box::new(call)), type_id))
        }
    }
}

/// Reads arguments of a call.
///
/// # Errors
/// Fails where the text is wrong.
pub fn arguments(r: &mut ModelReader) -> Checked<Vec<(TypedOperand, SourcePosition)>> {
    r.need("(")?;
    let mut all = Vec::new();
    while !r.is(")") {
        let at = r.at();
        all.push((expression(r)?, at));
        if !r.skip(",") {
            break;
        }
    }
    r.need(")")?;
    Ok(all)
}

/// Reads a place: a name, with fields and indexes.
///
/// # Errors
/// Fails where the text is wrong.
pub fn place(r: &mut ModelReader) -> Checked<TypedPlace> {
    let (name, at) = r.name()?;
    let NamedItem::Place(mut found) = r.checker.find(&name, at)? else {
        return Err(Diagnostic::new(at, format!("`{name}` is no variable")));
    };
    loop {
        let at = r.at();
        if r.skip(".") {
            let (field, field_at) = r.name()?;
            found = r.checker.field(found, &field, field_at)?;
        } else if r.skip("[") {
            let index = expression(r)?;
            r.need("]")?;
            found = r.checker.element(found, index, at)?;
        } else {
            return Ok(found);
        }
    }
}

/// Reads `name : type` or `name := from to to by by`, and declares the name. The scope is the
/// caller's.
///
/// # Errors
/// Fails where the text is wrong.
pub fn loop_range(r: &mut ModelReader) -> Checked<(LoopRange, TypeId)> {
    let (name, at) = r.name()?;
    if r.skip(":=") {
        let step_at = r.at();
        let from = number(r)?;
        r.need("to")?;
        let to = number(r)?;
        let by = if r.skip("by") { number(r)? } else { MurphiExpr::Value(1) };
        if matches!(by, MurphiExpr::Value(0)) {
            return Err(Diagnostic::new(step_at, "a loop by 0 has no end"));
        }
        let local = r.checker.counter(&name, INTEGER, at)?;
        let over = LoopValues::Steps(Box::new((from, to, by)), step_at);
        return Ok((LoopRange { local, over }, INTEGER));
    }
    r.need(":")?;
    let type_id = simple_domain(r)?;
    let local = r.checker.counter(&name, type_id, at)?;
    Ok((LoopRange { local, over: LoopValues::Of(type_id) }, type_id))
}

/// Reads a type of scalars: its name, or a range.
///
/// # Errors
/// Fails where the text is wrong.
pub fn simple_domain(r: &mut ModelReader) -> Checked<TypeId> {
    let at = r.at();
    let id = type_of(r, known_number)?;
    if r.checker.model.types.class(id).is_none() {
        let what = format!("{} is no type of scalars", r.checker.name(id));
        return Err(Diagnostic::new(at, what));
    }
    Ok(id)
}

/// Reads loops that are nested, up to `do`. The scope is the caller's.
///
/// # Errors
/// Fails where the text is wrong.
pub fn loop_ranges(r: &mut ModelReader) -> Checked<Vec<(LoopRange, TypeId)>> {
    let mut all = vec![loop_range(r)?];
    while r.skip(";") && !r.is("do") {
        all.push(loop_range(r)?);
    }
    r.need_do()?;
    Ok(all)
}

fn quantified(r: &mut ModelReader, word: &'static str) -> Checked<TypedOperand> {
    r.take();
    r.checker.open();
    let ranges = loop_ranges(r)?;
    let body = truth(r)?;
    r.end(word)?;
    r.checker.close();
    let whole = ranges.into_iter().rfold(body, |body, (range, _)| {
        MurphiExpr::Quantified(word == "forall", Box::new((range, body)))
    });
    Ok(TypedOperand::Value(whole, BOOLEAN))
}

fn count(r: &mut ModelReader) -> Checked<TypedOperand> {
    r.take();
    r.need("(")?;
    r.checker.open();
    let (set, layout, local) = slot_of(r)?;
    r.need(",")?;
    let test = truth(r)?;
    r.need(")")?;
    r.checker.close();
    let whole = MurphiExpr::Count(Box::new((set.place, test)), layout, local);
    Ok(TypedOperand::Value(whole, INTEGER))
}

/// Reads `name : multiset`, and declares the name as a slot of it.
///
/// # Errors
/// Fails where the text is wrong.
pub fn slot_of(r: &mut ModelReader) -> Checked<(TypedPlace, crate::murphi::tree::SetLayout, u32)> {
    let (name, at) = r.name()?;
    r.need(":")?;
    let set_at = r.at();
    let set = place(r)?;
    let layout = r.checker.set_layout(&set, set_at)?;
    let local = r.checker.counter(&name, INTEGER, at)?;
    Ok((set, layout, local))
}
