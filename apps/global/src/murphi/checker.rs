//! Rules of names and types: what the reader of a model builds passes through here.

use crate::murphi::tree::{
    BinaryOperation, CellPlace, CheckedModel, MurphiExpr, MurphiStatement, PlaceRoot, PlaceStep,
    SetLayout,
};
use crate::murphi::types::{
    BOOLEAN, INTEGER, ScalarClass, TypeEntry, TypeId, TypeShape, UNDEFINED, index_in,
};
use clump_app_frame::diagnostic::{Checked, Diagnostic, SourcePosition};
use std::collections::HashMap;

mod calls;

/// Cells of a frame.
const MAX_FRAME: u32 = 1 << 18;

/// Meaning of a name.
#[derive(Debug, Clone)]
pub enum NamedItem {
    /// A value.
    Value(i64, TypeId),
    /// A type.
    Type(TypeId),
    /// A variable, a parameter or an alias.
    Place(TypedPlace),
    /// A function or a procedure.
    Routine(usize),
}

/// A place, with what may be done with it.
#[derive(Debug, Clone)]
pub struct TypedPlace {
    /// Cells.
    pub place: CellPlace,
    /// Type.
    pub type_id: TypeId,
    /// False if statements may not change it.
    pub writable: bool,
    /// True if it is part of the state.
    pub of_state: bool,
}

/// An expression with its type.
#[derive(Debug, Clone)]
pub enum TypedOperand {
    /// A place.
    Place(TypedPlace),
    /// A scalar.
    Value(MurphiExpr, TypeId),
    /// No value, of any type.
    Undefined,
}

impl TypedOperand {
    /// Returns the type; `None` if it has none.
    pub fn type_id(&self) -> Option<TypeId> {
        match self {
            Self::Place(place) => Some(place.type_id),
            Self::Value(_, type_id) => Some(*type_id),
            Self::Undefined => None,
        }
    }
}

/// A model while it is being read.
#[derive(Debug, Default)]
pub struct ModelChecker {
    /// The model as far as it has been read.
    pub model: CheckedModel,
    scopes: Vec<HashMap<String, NamedItem>>,
    /// Cells of the frame of the routine that is being read.
    pub frame: u32,
    /// Type of the result of the routine that is being read: `None` outside of routines.
    pub result: Option<Option<TypeId>>,
    /// True where the state may not be changed: in guards and invariants.
    pub pure: bool,
    /// True in start states.
    pub in_start: bool,
    /// True if what is being read changes the state.
    pub changes_state: bool,
    /// True if what is being read has loops over scalarsets.
    pub has_set_loops: bool,
}

impl ModelChecker {
    /// Opens a scope: names of it are forgotten at its end.
    pub fn open(&mut self) {
        self.scopes.push(HashMap::new());
    }

    /// Ends a scope.
    pub fn close(&mut self) {
        self.scopes.pop();
    }

    /// Returns the meaning of a name.
    ///
    /// # Errors
    /// Fails if it has none.
    pub fn find(&self, name: &str, at: SourcePosition) -> Checked<NamedItem> {
        let found = self.scopes.iter().rev().find_map(|scope| scope.get(name));
        found.cloned().ok_or_else(|| Diagnostic::new(at, format!("`{name}` is not declared")))
    }

    /// Gives a name a meaning in the innermost scope.
    ///
    /// # Errors
    /// Fails if it has one there.
    pub fn declare(&mut self, name: &str, item: NamedItem, at: SourcePosition) -> Checked<()> {
        if self.scopes.is_empty() {
            self.open();
        }
        let scope = self.scopes.last_mut();
        if scope.is_some_and(|scope| scope.insert(name.to_owned(), item).is_some()) {
            return Err(Diagnostic::new(at, format!("`{name}` is declared twice")));
        }
        Ok(())
    }

    /// Takes cells of the frame.
    ///
    /// # Errors
    /// Fails if there are too many.
    pub fn local(&mut self, cells: u32, at: SourcePosition) -> Checked<u32> {
        let first = self.frame;
        self.frame = first.saturating_add(cells);
        if self.frame > MAX_FRAME {
            return Err(Diagnostic::new(
                at,
                format!("local variables take more than {MAX_FRAME} cells"),
            ));
        }
        Ok(first)
    }

    /// Returns the name of a type.
    pub fn name(&self, id: TypeId) -> &str {
        &self.model.types.entry(id).name
    }

    /// Declares a scalar of the frame that statements may not change. Returns its cell, which two
    /// more follow that a loop may use.
    ///
    /// # Errors
    /// Fails if the name has a meaning in this scope.
    pub fn counter(&mut self, name: &str, type_id: TypeId, at: SourcePosition) -> Checked<u32> {
        let local = self.local(3, at)?;
        let place = place(PlaceRoot::Local(local));
        let typed = TypedPlace { place, type_id, writable: false, of_state: false };
        self.declare(name, NamedItem::Place(typed), at)?;
        Ok(local)
    }

    /// Returns the value of a scalar.
    ///
    /// # Errors
    /// Fails if it is no scalar.
    pub fn scalar(
        &self,
        operand: TypedOperand,
        at: SourcePosition,
    ) -> Checked<(MurphiExpr, TypeId)> {
        match operand {
            TypedOperand::Undefined => Err(Diagnostic::new(
                at,
                "`undefined` is no value: it can be assigned and passed, and `isundefined` asks for it",
            )),
            TypedOperand::Value(expr, type_id) => Ok((expr, type_id)),
            TypedOperand::Place(it) if self.model.types.class(it.type_id).is_none() => {
                let what = format!("{} is no scalar: take a part of it", self.name(it.type_id));
                Err(Diagnostic::new(at, what))
            }
            TypedOperand::Place(it) => Ok((MurphiExpr::Read(it.place, at), it.type_id)),
        }
    }

    /// Returns the value of a scalar that is copied: it may be undefined.
    ///
    /// # Errors
    /// Fails if it is no scalar.
    pub fn copied(
        &self,
        operand: TypedOperand,
        at: SourcePosition,
    ) -> Checked<(MurphiExpr, TypeId)> {
        let (expr, type_id) = self.scalar(operand, at)?;
        let copied = match expr {
            MurphiExpr::Read(place, _) => MurphiExpr::Copied(place),
            other => other,
        };
        Ok((copied, type_id))
    }

    /// Returns a truth value.
    ///
    /// # Errors
    /// Fails if it is none.
    pub fn truth(&self, operand: TypedOperand, at: SourcePosition) -> Checked<MurphiExpr> {
        let (expr, type_id) = self.scalar(operand, at)?;
        self.of_class((expr, type_id), ScalarClass::Boolean, at)
    }

    /// Returns a number.
    ///
    /// # Errors
    /// Fails if it is none.
    pub fn number(&self, operand: TypedOperand, at: SourcePosition) -> Checked<MurphiExpr> {
        let (expr, type_id) = self.scalar(operand, at)?;
        self.of_class((expr, type_id), ScalarClass::Range, at)
    }

    fn of_class(
        &self,
        (expr, type_id): (MurphiExpr, TypeId),
        class: ScalarClass,
        at: SourcePosition,
    ) -> Checked<MurphiExpr> {
        if self.model.types.class(type_id) == Some(class) {
            return Ok(expr);
        }
        let needed = if class == ScalarClass::Range { "a number" } else { "a truth value" };
        let what = format!("this has to be {needed}, and is of type {}", self.name(type_id));
        Err(Diagnostic::new(at, what))
    }

    /// Builds an operation of two operands.
    ///
    /// # Errors
    /// Fails if their types do not fit.
    pub fn binary(
        &self,
        operation: BinaryOperation,
        (left, right): (TypedOperand, TypedOperand),
        (left_at, at, right_at): (SourcePosition, SourcePosition, SourcePosition),
    ) -> Checked<TypedOperand> {
        use BinaryOperation as Op;
        let (left, right, type_id) = match operation {
            Op::Add | Op::Subtract | Op::Multiply | Op::Divide | Op::Remainder => {
                (self.number(left, left_at)?, self.number(right, right_at)?, INTEGER)
            }
            Op::Less | Op::LessOrEqual => {
                (self.number(left, left_at)?, self.number(right, right_at)?, BOOLEAN)
            }
            Op::And | Op::Or | Op::Implies => {
                (self.truth(left, left_at)?, self.truth(right, right_at)?, BOOLEAN)
            }
            Op::Equal | Op::Unequal => {
                let (left, a) = self.scalar(left, left_at)?;
                let (right, b) = self.scalar(right, right_at)?;
                self.agree(a, b, at)?;
                (left, right, BOOLEAN)
            }
        };
        let folded = match (&left, &right) {
            (MurphiExpr::Value(a), MurphiExpr::Value(b)) => fold(operation, *a, *b),
            _ => None,
        };
        let whole = || MurphiExpr::Binary(operation, Box::new((left, right)), at);
        Ok(TypedOperand::Value(folded.map_or_else(whole, MurphiExpr::Value), type_id))
    }

    /// Checks that values of two types can be compared and assigned.
    ///
    /// # Errors
    /// Fails if they cannot.
    pub fn agree(&self, a: TypeId, b: TypeId, at: SourcePosition) -> Checked<()> {
        if self.model.types.agree(a, b) {
            return Ok(());
        }
        let what =
            format!("values of {} and of {} have nothing in common", self.name(a), self.name(b));
        Err(Diagnostic::new(at, what))
    }

    /// Returns a part of a record.
    ///
    /// # Errors
    /// Fails if there is none of this name.
    pub fn field(&self, of: TypedPlace, name: &str, at: SourcePosition) -> Checked<TypedPlace> {
        let fields = match &self.model.types.entry(of.type_id).shape {
            TypeShape::Record(fields) => fields.as_slice(),
            _ => {
                let what = format!("{} is no record, and has no fields", self.name(of.type_id));
                return Err(Diagnostic::new(at, what));
            }
        };
        let Some(field) = fields.iter().find(|it| it.name == name) else {
            let what = format!("{} has no field `{name}`", self.name(of.type_id));
            return Err(Diagnostic::new(at, what));
        };
        let type_id = field.type_id;
        Ok(TypedPlace { type_id, place: further(of.place, field.offset), ..of })
    }

    /// Returns an element of an array or of a multiset.
    ///
    /// # Errors
    /// Fails if the index is not of the right type.
    pub fn element(
        &self,
        of: TypedPlace,
        index: TypedOperand,
        at: SourcePosition,
    ) -> Checked<TypedPlace> {
        let types = &self.model.types;
        match types.entry(of.type_id).shape {
            TypeShape::Array { index: index_type, element } => {
                let (index, found) = self.scalar(index, at)?;
                self.agree(index_type, found, at)?;
                let stride = types.entry(element).cells;
                let mut place = of.place;
                if let MurphiExpr::Value(value) = index {
                    let Some(known) = index_in(types.segments(index_type), value) else {
                        let what = format!(
                            "the index {} is not one of {}",
                            types.show(found, value),
                            self.name(index_type)
                        );
                        return Err(Diagnostic::new(at, what));
                    };
                    place = further(place, known as u32 * stride);
                } else {
                    place.steps.push(PlaceStep::Index { index, of: index_type, stride, at });
                }
                Ok(TypedPlace { type_id: element, place, ..of })
            }
            TypeShape::Multiset { element, .. } => {
                let set = self.set_layout(&of, at)?;
                let slot = self.number(index, at)?;
                let mut place = of.place;
                place.steps.push(PlaceStep::Slot { slot, set, at });
                Ok(TypedPlace { type_id: element, place, ..of })
            }
            _ => {
                let what = format!("{} is no array: it has no elements", self.name(of.type_id));
                Err(Diagnostic::new(at, what))
            }
        }
    }

    /// Returns the slots of a multiset.
    ///
    /// # Errors
    /// Fails if it is none.
    pub fn set_layout(&self, of: &TypedPlace, at: SourcePosition) -> Checked<SetLayout> {
        match self.model.types.entry(of.type_id).shape {
            TypeShape::Multiset { capacity, element } => {
                Ok(SetLayout { capacity, stride: self.model.types.entry(element).cells + 1 })
            }
            _ => Err(Diagnostic::new(at, format!("{} is no multiset", self.name(of.type_id)))),
        }
    }

    /// Checks that a statement may change a place.
    ///
    /// # Errors
    /// Fails if not.
    pub fn change(&mut self, it: &TypedPlace, at: SourcePosition) -> Checked<()> {
        if !it.writable {
            return Err(Diagnostic::new(
                at,
                "this may not be changed: it is a parameter without `var`, a loop's value or an alias of an expression",
            ));
        }
        self.changes_state |= it.of_state;
        if self.pure && it.of_state {
            return Err(Diagnostic::new(at, "guards and invariants may not change the state"));
        }
        Ok(())
    }

    /// Builds an assignment.
    ///
    /// # Errors
    /// Fails if the types do not fit.
    pub fn assign(
        &mut self,
        to: TypedPlace,
        from: TypedOperand,
        (at, from_at): (SourcePosition, SourcePosition),
    ) -> Checked<MurphiStatement> {
        self.change(&to, at)?;
        if matches!(from, TypedOperand::Undefined) {
            return Ok(MurphiStatement::Undefine(to.place, to.type_id));
        }
        let types = &self.model.types;
        let same = from.type_id().is_some_and(|found| types.same(to.type_id, found));
        if types.class(to.type_id).is_some() && !(same && matches!(from, TypedOperand::Place(_))) {
            let (value, found) = self.copied(from, from_at)?;
            self.agree(to.type_id, found, at)?;
            if let MurphiExpr::Value(known) = value
                && index_in(types.segments(to.type_id), known).is_none()
            {
                let what = format!(
                    "the value {} is not one of {}",
                    types.show(found, known),
                    self.name(to.type_id)
                );
                return Err(Diagnostic::new(from_at, what));
            }
            return Ok(MurphiStatement::Assign(to.place, to.type_id, value, at));
        }
        match from {
            TypedOperand::Place(from) if same => {
                let cells = types.entry(to.type_id).cells;
                Ok(MurphiStatement::Copy(to.place, from.place, cells))
            }
            from => {
                let from = from.type_id().map_or("no type", |it| self.name(it));
                let to = self.name(to.type_id);
                Err(Diagnostic::new(
                    at,
                    format!("a value of {from} cannot be stored in one of {to}"),
                ))
            }
        }
    }

    /// Notes a statement that treats values of a scalarset differently.
    pub fn note_asymmetry(&mut self, type_id: TypeId, what: &'static str, at: SourcePosition) {
        let named = |it: &TypeEntry| {
            let TypeShape::Scalar { class, .. } = it.shape else { return false };
            matches!(class, ScalarClass::Scalarset | ScalarClass::Union)
        };
        if !self.in_start && self.model.types.any_part(type_id, &named) {
            self.model.asymmetry.get_or_insert((at, what));
        }
    }
}

/// Returns the place that begins at a root.
pub fn place(root: PlaceRoot) -> CellPlace {
    CellPlace { root, steps: Vec::new() }
}

/// Returns the place so many cells on.
fn further(mut place: CellPlace, cells: u32) -> CellPlace {
    match (place.steps.last_mut(), &mut place.root) {
        (Some(PlaceStep::Field(offset)), _) => *offset += cells,
        (None, PlaceRoot::Global(at) | PlaceRoot::Local(at)) => *at += cells,
        _ => place.steps.push(PlaceStep::Field(cells)),
    }
    place
}

/// Returns the value of an operation of two known values, unless it is an error.
pub fn fold(operation: BinaryOperation, a: i64, b: i64) -> Option<i64> {
    use BinaryOperation as Op;
    debug_assert!(a != UNDEFINED && b != UNDEFINED, "values");
    Some(match operation {
        Op::Add => a.checked_add(b)?,
        Op::Subtract => a.checked_sub(b)?,
        Op::Multiply => a.checked_mul(b)?,
        Op::Divide => a.checked_div(b)?,
        Op::Remainder => a.checked_rem(b)?,
        Op::Equal => i64::from(a == b),
        Op::Unequal => i64::from(a != b),
        Op::Less => i64::from(a < b),
        Op::LessOrEqual => i64::from(a <= b),
        Op::And => i64::from(a != 0 && b != 0),
        Op::Or => i64::from(a != 0 || b != 0),
        Op::Implies => i64::from(a == 0 || b != 0),
    })
    .filter(|value| *value != UNDEFINED)
}
