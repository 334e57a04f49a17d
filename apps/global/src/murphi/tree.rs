//! A checked model: expressions, statements and rules with types resolved and places as cells.

use crate::murphi::types::{TypeId, TypeTable};
use clump_app_frame::diagnostic::SourcePosition;

/// Failure of a function that comes to its end without `return`.
pub const NO_RESULT: &str = "the function ends without a result";

/// Beginning of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceRoot {
    /// A cell of the state.
    Global(u32),
    /// A cell of the frame.
    Local(u32),
    /// The cell whose number is in this cell of the frame.
    Reference(u32),
}

/// A step from a value to a part of it.
#[derive(Debug, Clone)]
pub enum PlaceStep {
    /// So many cells on.
    Field(u32),
    /// To the element of an array.
    Index {
        /// Index.
        index: MurphiExpr,
        /// Its type.
        of: TypeId,
        /// Cells of an element.
        stride: u32,
        /// Place in the text.
        at: SourcePosition,
    },
    /// To the element of a multiset.
    Slot {
        /// Number of the slot.
        slot: MurphiExpr,
        /// The multiset.
        set: SetLayout,
        /// Place in the text.
        at: SourcePosition,
    },
}

/// Slots of a multiset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetLayout {
    /// Number of slots.
    pub capacity: u32,
    /// Cells of a slot.
    pub stride: u32,
}

/// A place: cells of a value.
#[derive(Debug, Clone)]
pub struct CellPlace {
    /// Beginning.
    pub root: PlaceRoot,
    /// Steps from there.
    pub steps: Vec<PlaceStep>,
}

/// Operation of two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryOperation {
    /// Sum.
    Add,
    /// Difference.
    Subtract,
    /// Product.
    Multiply,
    /// Quotient, towards zero.
    Divide,
    /// Remainder, with the sign of the first.
    Remainder,
    /// Equality.
    Equal,
    /// Inequality.
    Unequal,
    /// Lower.
    Less,
    /// Lower or equal.
    LessOrEqual,
    /// Both; the second is not evaluated if the first is false.
    And,
    /// One of them; the second is not evaluated if the first is true.
    Or,
    /// The second if the first; else true.
    Implies,
}

/// An expression whose value is a scalar.
#[derive(Debug, Clone)]
pub enum MurphiExpr {
    /// A value.
    Value(i64),
    /// The scalar at a place; undefined is an error.
    Read(CellPlace, SourcePosition),
    /// The scalar at a place that is copied to another: it may be undefined.
    Copied(CellPlace),
    /// No value: what an argument may be.
    Undefined,
    /// Negation of a truth value.
    Not(Box<MurphiExpr>),
    /// Negation of a number.
    Negate(Box<MurphiExpr>, SourcePosition),
    /// An operation.
    Binary(BinaryOperation, Box<(MurphiExpr, MurphiExpr)>, SourcePosition),
    /// The second or the third, by the first.
    Choose(Box<(MurphiExpr, MurphiExpr, MurphiExpr)>),
    /// True if the body holds for all values of a loop (`all`), or for one.
    Quantified(bool, Box<(LoopRange, MurphiExpr)>),
    /// Result of a function.
    Call(Box<RoutineCall>),
    /// True if the scalar at a place is undefined.
    IsUndefined(CellPlace),
    /// True if a value is of a type.
    IsMember(Box<MurphiExpr>, TypeId),
    /// True if a slot of a multiset has an element.
    Present(Box<(CellPlace, MurphiExpr)>, SetLayout),
    /// Number of elements of a multiset for which the expression holds; the cell of the frame has
    /// the slot.
    Count(Box<(CellPlace, MurphiExpr)>, SetLayout, u32),
}

/// Values that a cell of the frame goes through.
#[derive(Debug, Clone)]
pub struct LoopRange {
    /// Cell of the frame, followed by two that the loop may use.
    pub local: u32,
    /// Values.
    pub over: LoopValues,
}

/// Values of a loop.
#[derive(Debug, Clone)]
pub enum LoopValues {
    /// Those of a scalar type.
    Of(TypeId),
    /// From, to, by.
    Steps(Box<(MurphiExpr, MurphiExpr, MurphiExpr)>, SourcePosition),
}

/// An argument of a routine.
#[derive(Debug, Clone)]
pub enum CallArgument {
    /// A scalar, which has to be of the parameter's type, or undefined.
    Value(MurphiExpr),
    /// A copy of a value of several cells.
    Copy(CellPlace),
    /// The place itself.
    Reference(CellPlace),
}

/// A call of a function or a procedure.
#[derive(Debug, Clone)]
pub struct RoutineCall {
    /// Number of the routine.
    pub routine: usize,
    /// Arguments.
    pub arguments: Vec<CallArgument>,
    /// Place in the text.
    pub at: SourcePosition,
}

/// Source of an element of a multiset, or of text that is printed.
#[derive(Debug, Clone)]
pub enum ItemSource {
    /// A scalar of a type.
    Value(MurphiExpr, TypeId),
    /// A value at a place, of a type.
    Place(CellPlace, TypeId),
    /// Text.
    Text(String),
}

/// A statement.
#[derive(Debug, Clone)]
pub enum MurphiStatement {
    /// Stores a scalar, which has to be of the type, or undefined.
    Assign(CellPlace, TypeId, MurphiExpr, SourcePosition),
    /// Copies cells: to, from, count.
    Copy(CellPlace, CellPlace, u32),
    /// Puts the number of a place's first cell into a cell of the frame.
    Bind(u32, CellPlace),
    /// Ends the routine as a rule that cannot fire, unless the expression holds.
    Require(MurphiExpr),
    /// The statements behind the first condition that holds, or the last ones.
    If(Vec<(MurphiExpr, Vec<MurphiStatement>)>, Vec<MurphiStatement>),
    /// A loop over values; true if they are of a scalarset.
    For(LoopRange, Vec<MurphiStatement>, bool),
    /// A loop while a condition holds; the cell of the frame counts.
    While(MurphiExpr, Vec<MurphiStatement>, u32, SourcePosition),
    /// A call of a procedure.
    Call(RoutineCall),
    /// Gives all scalars their lowest values.
    Clear(CellPlace, TypeId),
    /// Makes all scalars undefined.
    Undefine(CellPlace, TypeId),
    /// An error.
    Error(String, SourcePosition),
    /// An error unless the expression holds.
    Assert(MurphiExpr, String, SourcePosition),
    /// Prints, in the replay of a counterexample.
    Put(ItemSource),
    /// Ends the routine.
    Return(Option<MurphiExpr>, SourcePosition),
    /// Adds an element to a multiset.
    SetAdd(CellPlace, SetLayout, ItemSource, SourcePosition),
    /// Removes an element, by its slot.
    SetRemove(CellPlace, SetLayout, MurphiExpr, SourcePosition),
    /// Removes the elements for which the expression holds; the cell of the frame has the slot.
    SetRemoveWhere(CellPlace, SetLayout, u32, MurphiExpr),
}

/// A parameter of a function or a procedure.
#[derive(Debug, Clone)]
pub struct RoutineParameter {
    /// Name.
    pub name: String,
    /// Its cells of the frame.
    pub local: u32,
    /// Type.
    pub type_id: TypeId,
    /// True if it is another name of the argument.
    pub by_reference: bool,
}

/// A function or a procedure.
#[derive(Debug, Clone, Default)]
pub struct MurphiRoutine {
    /// Name.
    pub name: String,
    /// Parameters.
    pub parameters: Vec<RoutineParameter>,
    /// Place of its name.
    pub at: SourcePosition,
    /// Type of the result of a function.
    pub result: Option<TypeId>,
    /// Cells of the frame.
    pub frame: u32,
    /// Statements.
    pub body: Vec<MurphiStatement>,
    /// True if it changes the state other than by parameters.
    pub changes_state: bool,
    /// True if it has loops over scalarsets.
    pub has_set_loops: bool,
}

/// A parameter of a rule.
#[derive(Debug, Clone)]
pub struct RuleParameter {
    /// Name.
    pub name: String,
    /// Its cell of the frame.
    pub local: u32,
    /// Its values; `None`: the slots of a multiset, so many.
    pub of: Result<TypeId, u32>,
}

/// A rule, a start state or an invariant.
#[derive(Debug, Clone, Default)]
pub struct RuleDefinition {
    /// Name.
    pub name: String,
    /// Place in the text.
    pub at: SourcePosition,
    /// Parameters.
    pub parameters: Vec<RuleParameter>,
    /// Statements before the guard: aliases, and choices that must be present.
    pub prelude: Vec<MurphiStatement>,
    /// Guard; `None`: always true.
    pub guard: Option<MurphiExpr>,
    /// Statements.
    pub body: Vec<MurphiStatement>,
    /// Cells of the frame.
    pub frame: u32,
    /// True if it has loops over scalarsets, routines that it calls included.
    pub has_set_loops: bool,
}

/// A variable of the state.
#[derive(Debug, Clone)]
pub struct StateVariable {
    /// Name.
    pub name: String,
    /// Type.
    pub type_id: TypeId,
    /// Cells before it.
    pub offset: u32,
}

/// A checked model.
#[derive(Debug, Clone, Default)]
pub struct CheckedModel {
    /// Types.
    pub types: TypeTable,
    /// Variables of the state.
    pub variables: Vec<StateVariable>,
    /// Cells of the state.
    pub cells: u32,
    /// Functions and procedures.
    pub routines: Vec<MurphiRoutine>,
    /// Start states.
    pub starts: Vec<RuleDefinition>,
    /// Rules.
    pub rules: Vec<RuleDefinition>,
    /// Invariants.
    pub invariants: Vec<RuleDefinition>,
    /// Statement that treats values of a scalarset differently, if there is one outside of start
    /// states.
    pub asymmetry: Option<(SourcePosition, &'static str)>,
}

impl CheckedModel {
    /// Returns the instances of a rule: a combination of its parameters' values each.
    pub fn instances(&self, rule: &RuleDefinition) -> u64 {
        let counts = rule.parameters.iter().map(|it| self.parameter_values(it));
        counts.fold(1, u64::saturating_mul)
    }

    fn parameter_values(&self, parameter: &RuleParameter) -> u64 {
        match parameter.of {
            Ok(type_id) => self.types.values(type_id),
            Err(slots) => slots.into(),
        }
    }

    /// Calls a function with the frame's cell and the value of each parameter of an instance.
    pub fn each_parameter(
        &self,
        rule: &RuleDefinition,
        mut instance: u64,
        mut each: impl FnMut(&RuleParameter, i64),
    ) {
        for parameter in rule.parameters.iter().rev() {
            let count = self.parameter_values(parameter).max(1);
            let (mut index, mut value) = (instance % count, 0);
            instance /= count;
            match parameter.of {
                Err(_) => value = index as i64,
                Ok(type_id) => {
                    for segment in self.types.segments(type_id) {
                        if index < segment.count {
                            value = segment.first + index as i64;
                            break;
                        }
                        index -= segment.count;
                    }
                }
            }
            each(parameter, value);
        }
    }
}
