//! Types as a model writes them.

use super::words::ModelReader;
use crate::murphi::checker::NamedItem;
use crate::murphi::lexer::MurphiToken;
use crate::murphi::types::{
    BOOLEAN, MAX_CELLS, RecordField, ScalarClass, TypeId, TypeShape, ValueSegment,
};
use clump_app_frame::diagnostic::{Checked, Diagnostic, SourcePosition};

/// Values of a scalarset: each permutation of them may be tried.
const MAX_SCALARSET: i64 = 64;

/// Reader of an expression that is a number and known now.
pub type ReadNumber = fn(&mut ModelReader) -> Checked<i64>;

/// Reads a type.
///
/// # Errors
/// Fails where the text is wrong.
pub fn type_of(r: &mut ModelReader, number: ReadNumber) -> Checked<TypeId> {
    r.deeper(|r| {
        let at = r.at();
        match r.peek().clone() {
            MurphiToken::Keyword("boolean") => {
                r.take();
                Ok(BOOLEAN)
            }
            MurphiToken::Keyword("enum") => enumeration(r),
            MurphiToken::Keyword("scalarset") => {
                r.take();
                r.need("(")?;
                let count = number(r)?;
                r.need(")")?;
                if !(1..=MAX_SCALARSET).contains(&count) {
                    let what = format!("a scalarset has 1 to {MAX_SCALARSET} values, not {count}");
                    return Err(Diagnostic::new(at, what));
                }
                let values = r.checker.model.types.new_values(&[], count as u64);
                scalar(r, "(scalarset)", ScalarClass::Scalarset, vec![values], at)
            }
            MurphiToken::Keyword("union") => union(r, number),
            MurphiToken::Keyword("record") => record(r, number),
            MurphiToken::Keyword("array") => array(r, number),
            MurphiToken::Keyword("multiset") => multiset(r, number),
            MurphiToken::Name(name) if matches!(r.checker.find(&name, at)?, NamedItem::Type(_)) => {
                r.take();
                match r.checker.find(&name, at)? {
                    NamedItem::Type(id) => Ok(id),
                    _ => Err(r.unexpected("a type")),
                }
            }
            MurphiToken::Name(_) | MurphiToken::Number(_) | MurphiToken::Sign("(" | "-") => {
                range(r, number)
            }
            _ => Err(r.unexpected("a type")),
        }
    })
}

fn add(r: &mut ModelReader, name: &str, shape: TypeShape, at: SourcePosition) -> Checked<TypeId> {
    let added = r.checker.model.types.add(name.into(), shape);
    let too_large = || format!("a value of this type takes more than {MAX_CELLS} cells");
    added.ok_or_else(|| Diagnostic::new(at, too_large()))
}

fn scalar(
    r: &mut ModelReader,
    name: &str,
    class: ScalarClass,
    segments: Vec<ValueSegment>,
    at: SourcePosition,
) -> Checked<TypeId> {
    add(r, name, TypeShape::Scalar { class, segments }, at)
}

fn range(r: &mut ModelReader, number: ReadNumber) -> Checked<TypeId> {
    let at = r.at();
    let low = number(r)?;
    r.need("..")?;
    let high = number(r)?;
    range_of(r, (low, high), at)
}

/// Adds a range.
///
/// # Errors
/// Fails if it has no values, or too many.
pub fn range_of(
    r: &mut ModelReader,
    (low, high): (i64, i64),
    at: SourcePosition,
) -> Checked<TypeId> {
    if low > high {
        return Err(Diagnostic::new(at, format!("the range {low}..{high} has no values")));
    }
    let count = high.abs_diff(low).saturating_add(1);
    if count > 1 << 40 {
        return Err(Diagnostic::new(at, format!("the range {low}..{high} is too large")));
    }
    let name = format!("({low}..{high})");
    scalar(r, &name, ScalarClass::Range, vec![ValueSegment { first: low, count }], at)
}

fn enumeration(r: &mut ModelReader) -> Checked<TypeId> {
    let at = r.at();
    r.take();
    r.need("{")?;
    let mut names = Vec::new();
    loop {
        names.push(r.name()?);
        if !r.skip(",") || r.is("}") {
            break;
        }
    }
    r.need("}")?;
    let texts: Vec<String> = names.iter().map(|(name, _)| name.clone()).collect();
    let values = r.checker.model.types.new_values(&texts, texts.len() as u64);
    let id = scalar(r, "(enumeration)", ScalarClass::Enumeration, vec![values], at)?;
    for (value, (name, at)) in (values.first..).zip(&names) {
        r.checker.declare(name, NamedItem::Value(value, id), *at)?;
    }
    Ok(id)
}

fn union(r: &mut ModelReader, number: ReadNumber) -> Checked<TypeId> {
    let at = r.at();
    r.take();
    r.need("{")?;
    let mut segments: Vec<ValueSegment> = Vec::new();
    loop {
        let part_at = r.at();
        let part = type_of(r, number)?;
        let class = r.checker.model.types.class(part);
        if !matches!(
            class,
            Some(ScalarClass::Enumeration | ScalarClass::Scalarset | ScalarClass::Union)
        ) {
            let what = format!(
                "a union has enumerations and scalarsets as parts, and {} is neither",
                r.checker.name(part)
            );
            return Err(Diagnostic::new(part_at, what));
        }
        for segment in r.checker.model.types.segments(part).to_vec() {
            if segments.contains(&segment) {
                return Err(Diagnostic::new(part_at, "a part of this union occurs twice"));
            }
            segments.push(segment);
        }
        if !r.skip(",") || r.is("}") {
            break;
        }
    }
    r.need("}")?;
    scalar(r, "(union)", ScalarClass::Union, segments, at)
}

fn record(r: &mut ModelReader, number: ReadNumber) -> Checked<TypeId> {
    let at = r.at();
    r.take();
    let (mut fields, mut offset) = (Vec::<RecordField>::new(), 0_u32);
    while !r.is("end") && !r.is("endrecord") {
        let mut names = vec![r.name()?];
        while r.skip(",") {
            names.push(r.name()?);
        }
        r.need(":")?;
        let type_id = type_of(r, number)?;
        for (name, at) in names {
            if fields.iter().any(|field| field.name == name) {
                return Err(Diagnostic::new(
                    at,
                    format!("the record has a field `{name}` already"),
                ));
            }
            fields.push(RecordField { name, type_id, offset });
            offset = offset.saturating_add(r.checker.model.types.entry(type_id).cells);
        }
        if !r.skip(";") {
            break;
        }
    }
    r.end("record")?;
    if fields.is_empty() {
        return Err(Diagnostic::new(at, "a record has at least one field"));
    }
    add(r, "(record)", TypeShape::Record(fields), at)
}

fn array(r: &mut ModelReader, number: ReadNumber) -> Checked<TypeId> {
    let at = r.at();
    r.take();
    r.need("[")?;
    let index_at = r.at();
    let index = type_of(r, number)?;
    if r.checker.model.types.class(index).is_none() {
        let what = format!("{} is no type of scalars, as indexes are", r.checker.name(index));
        return Err(Diagnostic::new(index_at, what));
    }
    r.need("]")?;
    r.need("of")?;
    let element = type_of(r, number)?;
    add(r, "(array)", TypeShape::Array { index, element }, at)
}

fn multiset(r: &mut ModelReader, number: ReadNumber) -> Checked<TypeId> {
    let at = r.at();
    r.take();
    r.need("[")?;
    let capacity = number(r)?;
    r.need("]")?;
    r.need("of")?;
    let element = type_of(r, number)?;
    let Ok(capacity @ 1..=4096) = u32::try_from(capacity) else {
        let what = format!("a multiset has 1 to 4096 slots, not {capacity}");
        return Err(Diagnostic::new(at, what));
    };
    add(r, "(multiset)", TypeShape::Multiset { capacity, element }, at)
}
