//! Byte code of a model: instructions for a machine with a stack of values and one array of cells,
//! the state first and the frames of routines behind it.

use crate::murphi::tree::{BinaryOperation, SetLayout};
use crate::murphi::types::ValueSegment;
use clump_app_frame::diagnostic::SourcePosition;

/// An instruction. Values and numbers of cells (addresses) are on the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instruction {
    /// Pushes a value.
    Push(i64),
    /// Pushes the address of a cell of the frame.
    LocalAddress(u32),
    /// Pushes the address that a cell of the frame holds.
    Reference(u32),
    /// Adds to an address.
    Offset(u32),
    /// Pops an index, and adds so many cells for each element before it to an address.
    Index(u32, u32),
    /// Pops a slot, and makes the address of a multiset that of the slot's element.
    Slot(SetLayout),
    /// Makes an address the scalar there.
    Load,
    /// Makes an address the scalar there, which may be undefined.
    LoadAny,
    /// Pushes the scalar of a cell of the state.
    LoadGlobal(u32),
    /// Pushes the scalar of a cell of the frame.
    LoadLocal(u32),
    /// Pops a value of a type, and an address, and stores the value there.
    Store(u32),
    /// Pops a value, and stores it in a cell of the frame.
    StoreLocal(u32),
    /// Fails unless the value on top is of a type.
    Check(u32),
    /// Pops the addresses of source and destination, and copies cells.
    Copy(u32),
    /// Pops an address, and stores a template there.
    Fill(u32),
    /// Operation of two values that are popped.
    Binary(BinaryOperation),
    /// Negates a truth value.
    Not,
    /// Negates a number.
    Negate,
    /// Makes an address true if its scalar is undefined.
    IsUndefined,
    /// Makes a value true if it is of a type.
    IsMember(u32),
    /// Pops a slot, and makes the address of a multiset true if the slot has an element.
    Present(SetLayout),
    /// Goes on elsewhere.
    Jump(u32),
    /// Pops a value, and goes on elsewhere if it is false.
    JumpIfFalse(u32),
    /// Stores the first value of a type in a cell of the frame; true: of a scalarset.
    First(u32, u32, bool),
    /// Stores the next value there, and goes on elsewhere; does nothing after the last one.
    Next(u32, u32),
    /// Direction and target of the instruction before.
    NextTo(u32, bool),
    /// Leaves a loop by steps if its end has been passed: cells of value, bound and step follow
    /// each other.
    StepTest(u32, u32),
    /// Makes a step, and goes on elsewhere.
    StepNext(u32, u32),
    /// Adds 1 to a cell of the frame; fails if that is too much for a loop.
    CountTurn(u32),
    /// Calls a routine, whose arguments are on the stack.
    Call(u32),
    /// Ends a routine with a value on the stack.
    ReturnValue,
    /// Ends a routine.
    Return,
    /// Fails with a text.
    Fail(u32),
    /// Pops a value, and an address of a multiset, and adds an element of one scalar.
    SetAddValue(SetLayout, u32),
    /// Pops the addresses of an element and of a multiset, and adds the element.
    SetAddCopy(SetLayout),
    /// Pops a slot, and the address of a multiset, and removes the element.
    SetRemove(SetLayout),
    /// Ends the code: the value on top is its result.
    Halt,
}

/// Place of an argument in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParameterSlot {
    /// First cell.
    pub local: u32,
    /// Cells to copy from the address on the stack; 0: the value on the stack itself.
    pub copied: u32,
}

/// Code of a function or a procedure.
#[derive(Debug, Clone, Default)]
pub struct RoutineCode {
    /// First instruction.
    pub entry: u32,
    /// Cells of the frame.
    pub frame: u32,
    /// Parameters.
    pub parameters: Vec<ParameterSlot>,
}

/// Code of a rule, a start state or an invariant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RuleCode {
    /// First instruction of prelude and guard.
    pub guard: u32,
    /// First instruction of prelude and body.
    pub body: u32,
    /// Cells of the frame.
    pub frame: u32,
}

/// Byte code of a model.
#[derive(Debug, Clone, Default)]
pub struct ByteCode {
    /// Instructions.
    pub instructions: Vec<Instruction>,
    /// Places in the text, by instruction.
    pub places: Vec<SourcePosition>,
    /// Texts of errors.
    pub texts: Vec<String>,
    /// Values of types, by number; none of those that are no scalars.
    pub segments: Vec<Vec<ValueSegment>>,
    /// Names of types.
    pub names: Vec<String>,
    /// Cells that [`Instruction::Fill`] stores.
    pub templates: Vec<Vec<i64>>,
    /// Routines.
    pub routines: Vec<RoutineCode>,
    /// Start states.
    pub starts: Vec<RuleCode>,
    /// Rules.
    pub rules: Vec<RuleCode>,
    /// Invariants.
    pub invariants: Vec<RuleCode>,
}
