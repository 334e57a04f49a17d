//! The machine that runs byte code.

use crate::murphi::checker::fold;
use crate::murphi::code::{ByteCode, Instruction as I, RuleCode};
use crate::murphi::tree::{BinaryOperation, SetLayout};
use crate::murphi::types::{UNDEFINED, ValueSegment, index_in};
use clump_app_frame::diagnostic::SourcePosition;

/// Routines that have been called and have not ended.
pub const MAX_CALLS: usize = 64;
/// Turns of a `while` loop.
pub const MAX_TURNS: i64 = 1000;

/// Turns of all loops, and calls, of a rule.
pub const MAX_STEPS: u32 = 1 << 24;

/// Error of code that no compiler makes.
const DAMAGED: &str = "this code is damaged";

/// An error that a model runs into.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModelFailure {
    /// Place in the text.
    pub at: SourcePosition,
    /// One sentence.
    pub what: String,
}

/// A routine that waits for the end of another.
#[derive(Debug, Clone, Copy)]
struct WaitingCall {
    next: usize,
    base: usize,
    top: usize,
}

/// A machine.
#[derive(Debug, Clone)]
pub struct CodeMachine {
    /// The state, and the frames behind it.
    pub cells: Vec<i64>,
    /// Cells of the state.
    state: usize,
    /// First cell of the frame, and the one behind it.
    base: usize,
    top: usize,
    stack: Vec<i64>,
    calls: Vec<WaitingCall>,
    /// Turns and calls so far.
    steps: u32,
    /// True if loops over scalarsets go backwards.
    pub backwards: bool,
}

impl CodeMachine {
    /// Creates a machine for states of so many cells.
    pub fn new(state: usize) -> Self {
        let cells = vec![UNDEFINED; state];
        let (stack, calls) = (Vec::new(), Vec::new());
        let (base, top) = (state, state);
        Self { cells, state, base, top, stack, calls, steps: 0, backwards: false }
    }

    /// Prepares the frame of a rule; its parameters are the caller's to store behind the state.
    pub fn frame(&mut self, rule: &RuleCode) {
        self.cells.truncate(self.state);
        self.cells.resize(self.state + rule.frame as usize, UNDEFINED);
    }

    /// Makes room for a state and the largest frame.
    pub fn widen(&mut self, cells: usize) {
        if self.cells.len() < cells {
            self.cells.resize(cells, UNDEFINED);
        }
    }

    /// Returns a cell of the prepared frame.
    pub fn local(&mut self, cell: u32) -> Option<&mut i64> {
        self.cells.get_mut(self.state + cell as usize)
    }

    /// Runs code from an instruction on, in the prepared frame. Returns its result.
    ///
    /// # Errors
    /// Fails if the model does something wrong.
    pub fn run(&mut self, code: &ByteCode, entry: u32) -> Result<bool, ModelFailure> {
        self.stack.clear();
        self.calls.clear();
        self.steps = 0;
        let mut next = entry as usize;
        let result = self.turn(code, &mut next);
        result.map_err(|what| {
            let at = code.places.get(next).copied().unwrap_or_default();
            ModelFailure { at, what }
        })
    }

    /// Counts a turn or a call.
    fn step(&mut self) -> Result<(), String> {
        self.steps += 1;
        if self.steps > MAX_STEPS { Err(too_many_steps()) } else { Ok(()) }
    }

    fn pop(&mut self) -> i64 {
        debug_assert!(!self.stack.is_empty(), "each instruction finds its operands");
        self.stack.pop().unwrap_or(0)
    }

    /// Makes the value on top another.
    fn change(&mut self, to: impl FnOnce(i64) -> i64) {
        debug_assert!(!self.stack.is_empty(), "each instruction finds its operands");
        if let Some(top) = self.stack.last_mut() {
            *top = to(*top);
        }
    }

    fn load(&self, address: usize) -> Result<i64, String> {
        match self.cells.get(address) {
            Some(&value) if value != UNDEFINED => Ok(value),
            _ => Err("an undefined value is read".into()),
        }
    }

    fn store(&mut self, address: usize, value: i64) {
        debug_assert!(address < self.cells.len(), "a cell of the state or of a frame");
        if let Some(cell) = self.cells.get_mut(address) {
            *cell = value;
        }
    }

    /// Runs instructions up to the end of the code.
    fn turn(&mut self, code: &ByteCode, next: &mut usize) -> Result<bool, String> {
        (self.base, self.top) = (self.state, self.cells.len());
        loop {
            let instruction = code.instructions.get(*next).copied().unwrap_or(I::Halt);
            let mut to = *next + 1;
            match instruction {
                I::Push(value) => self.stack.push(value),
                I::LoadGlobal(cell) => {
                    let value = self.load(cell as usize)?;
                    self.stack.push(value);
                }
                I::LoadLocal(cell) => {
                    let value = self.load(self.base + cell as usize)?;
                    self.stack.push(value);
                }
                I::LocalAddress(cell) => self.stack.push((self.base + cell as usize) as i64),
                I::Reference(cell) => {
                    let address = self.load(self.base + cell as usize)?;
                    self.stack.push(address);
                }
                I::StoreLocal(cell) => {
                    let value = self.pop();
                    self.store(self.base + cell as usize, value);
                }
                I::Jump(target) => to = target as usize,
                I::JumpIfFalse(target) => {
                    if self.pop() == 0 {
                        to = target as usize;
                    }
                }
                I::First(..)
                | I::Next(..)
                | I::StepTest(..)
                | I::StepNext(..)
                | I::CountTurn(_) => {
                    to = self.turn_loop(code, instruction, *next)?;
                }
                I::Call(routine) => to = self.call(code, routine, *next)?,
                I::ReturnValue | I::Return => {
                    let Some(call) = self.calls.pop() else { return Ok(true) };
                    (to, self.base, self.top) = (call.next, call.base, call.top);
                }
                I::Halt => return Ok(self.pop() != 0),
                I::Fail(text) => {
                    return Err(code.texts.get(text as usize).cloned().unwrap_or_default());
                }
                other => self.apply(code, other)?,
            }
            *next = to;
        }
    }

    /// Runs an instruction of a loop. Returns the next one.
    fn turn_loop(&mut self, code: &ByteCode, instruction: I, at: usize) -> Result<usize, String> {
        match instruction {
            I::First(local, of, set) => {
                let back = set && self.backwards;
                let first = if back { last_of(code, of) } else { first_of(code, of) };
                self.store(self.base + local as usize, first);
            }
            I::Next(local, of) => {
                let Some(I::NextTo(to, set)) = code.instructions.get(at + 1).copied() else {
                    return Err(DAMAGED.into());
                };
                let value = self.load(self.base + local as usize)?;
                let back = set && self.backwards;
                let Some(value) = following(segments(code, of), value, back) else {
                    return Ok(at + 2);
                };
                self.store(self.base + local as usize, value);
                self.step()?;
                return Ok(to as usize);
            }
            I::StepTest(local, exit) => {
                let cell = self.base + local as usize;
                let (value, to, by) =
                    (self.load(cell)?, self.load(cell + 1)?, self.load(cell + 2)?);
                if by == 0 {
                    return Err("a loop by 0 has no end".into());
                }
                if (by > 0 && value > to) || (by < 0 && value < to) {
                    return Ok(exit as usize);
                }
            }
            I::StepNext(local, back) => {
                let cell = self.base + local as usize;
                let sum = self.load(cell)?.checked_add(self.load(cell + 2)?);
                self.store(cell, sum.ok_or("a number is too large")?);
                self.step()?;
                return Ok(back as usize);
            }
            I::CountTurn(local) => {
                let cell = self.base + local as usize;
                let turns = self.load(cell)? + 1;
                if turns > MAX_TURNS {
                    return Err(format!("the loop makes more than {MAX_TURNS} turns"));
                }
                self.store(cell, turns);
                self.step()?;
            }
            _ => return Err(DAMAGED.into()),
        }
        Ok(at + 1)
    }

    /// Begins a routine. Returns its first instruction.
    fn call(&mut self, code: &ByteCode, routine: u32, at: usize) -> Result<usize, String> {
        if self.calls.len() >= MAX_CALLS {
            return Err(format!("more than {MAX_CALLS} routines call each other"));
        }
        self.step()?;
        let called = code.routines.get(routine as usize).ok_or(DAMAGED)?;
        self.calls.push(WaitingCall { next: at + 1, base: self.base, top: self.top });
        self.base = self.top;
        self.top = self.base + called.frame as usize;
        self.cells.truncate(self.base);
        self.cells.resize(self.top, UNDEFINED);
        for parameter in called.parameters.iter().rev() {
            let (value, to) = (self.pop(), self.base + parameter.local as usize);
            match parameter.copied as usize {
                0 => self.store(to, value),
                cells => self.copy(value as usize, to, cells),
            }
        }
        Ok(called.entry as usize)
    }

    /// Runs an instruction that works on stack and cells alone.
    fn apply(&mut self, code: &ByteCode, instruction: I) -> Result<(), String> {
        match instruction {
            I::Offset(cells) => self.change(|address| address + i64::from(cells)),
            I::Index(of, stride) => {
                let (value, address) = (self.pop(), self.pop());
                let index = index_in(segments(code, of), value)
                    .ok_or_else(|| format!("an index is not one of {}", name(code, of)))?;
                self.stack.push(address + index as i64 * i64::from(stride));
            }
            I::Slot(set) => {
                let (slot, address) = (self.pop(), self.pop());
                let at = self.slot(set, slot, address)?;
                self.stack.push(at as i64 + 1);
            }
            I::Load => {
                let address = self.pop();
                let value = self.load(address as usize)?;
                self.stack.push(value);
            }
            I::LoadAny => {
                let address = self.pop() as usize;
                self.stack.push(self.cells.get(address).copied().unwrap_or(UNDEFINED));
            }
            I::Store(of) => {
                let (value, address) = (self.pop(), self.pop());
                check(code, of, value)?;
                self.store(address as usize, value);
            }
            I::Check(of) => {
                let value = self.pop();
                check(code, of, value)?;
                self.stack.push(value);
            }
            I::Copy(cells) => {
                let (from, to) = (self.pop(), self.pop());
                self.copy(from as usize, to as usize, cells as usize);
            }
            I::Fill(template) => {
                let to = self.pop() as usize;
                let cells = code.templates.get(template as usize).map_or(&[][..], Vec::as_slice);
                if let Some(range) = self.cells.get_mut(to..to + cells.len()) {
                    range.copy_from_slice(cells);
                }
            }
            I::Binary(operation) => {
                let (right, left) = (self.pop(), self.pop());
                let zero = right == 0
                    && matches!(operation, BinaryOperation::Divide | BinaryOperation::Remainder);
                let why = if zero { "division by zero" } else { "a number is too large" };
                self.stack.push(fold(operation, left, right).ok_or(why)?);
            }
            I::Not => self.change(|value| i64::from(value == 0)),
            I::Negate => {
                let value = self.pop();
                self.stack.push(value.checked_neg().ok_or("a number is too large")?);
            }
            I::IsUndefined => {
                let address = self.pop() as usize;
                self.stack.push(i64::from(self.load(address).is_err()));
            }
            I::IsMember(of) => {
                let found = index_in(segments(code, of), self.pop());
                self.stack.push(found.is_some().into());
            }
            other => self.apply_to_set(code, other)?,
        }
        Ok(())
    }

    /// Runs an instruction that works on multisets.
    fn apply_to_set(&mut self, code: &ByteCode, instruction: I) -> Result<(), String> {
        match instruction {
            I::Present(set) => {
                let (slot, address) = (self.pop(), self.pop());
                self.stack.push(i64::from(self.slot(set, slot, address).is_ok()));
            }
            I::SetAddValue(set, of) => {
                let (value, address) = (self.pop(), self.pop());
                check(code, of, value)?;
                let at = self.free_slot(set, address as usize)?;
                self.store(at, 1);
                self.store(at + 1, value);
            }
            I::SetAddCopy(set) => {
                let (from, address) = (self.pop(), self.pop());
                let at = self.free_slot(set, address as usize)?;
                self.store(at, 1);
                self.copy(from as usize, at + 1, set.stride as usize - 1);
            }
            I::SetRemove(set) => {
                let (slot, address) = (self.pop(), self.pop());
                let at = self.slot(set, slot, address)?;
                self.store(at, 0);
                let end = at + set.stride as usize;
                if let Some(cells) = self.cells.get_mut(at + 1..end) {
                    cells.fill(UNDEFINED);
                }
            }
            _ => return Err(DAMAGED.into()),
        }
        Ok(())
    }

    fn copy(&mut self, from: usize, to: usize, cells: usize) {
        let inside = from + cells <= self.cells.len() && to + cells <= self.cells.len();
        debug_assert!(inside, "cells of the state or of a frame");
        if inside {
            self.cells.copy_within(from..from + cells, to);
        }
    }

    /// Returns the address of a slot that has an element.
    fn slot(&self, set: SetLayout, slot: i64, address: i64) -> Result<usize, String> {
        if !(0..i64::from(set.capacity)).contains(&slot) {
            return Err(format!("the multiset has no slot {slot}"));
        }
        let at = (address + slot * i64::from(set.stride)) as usize;
        match self.cells.get(at) {
            Some(1) => Ok(at),
            _ => Err("the multiset has no such element any more".into()),
        }
    }

    fn free_slot(&self, set: SetLayout, address: usize) -> Result<usize, String> {
        let stride = set.stride as usize;
        let mut slots = (0..set.capacity as usize).map(|slot| address + slot * stride);
        let free = slots.find(|at| self.cells.get(*at) != Some(&1));
        free.ok_or_else(|| format!("the multiset is full: it has {} slots", set.capacity))
    }
}

/// Returns what is wrong with a rule that takes too long.
pub fn too_many_steps() -> String {
    format!("the rule takes more than {MAX_STEPS} turns of loops and calls")
}

fn segments(code: &ByteCode, of: u32) -> &[ValueSegment] {
    code.segments.get(of as usize).map_or(&[], Vec::as_slice)
}

fn name(code: &ByteCode, of: u32) -> &str {
    code.names.get(of as usize).map_or("", String::as_str)
}

fn check(code: &ByteCode, of: u32, value: i64) -> Result<(), String> {
    match index_in(segments(code, of), value) {
        Some(_) => Ok(()),
        None if value == UNDEFINED => Ok(()),
        None if value.unsigned_abs() < 1 << 47 => {
            Err(format!("the value {value} is not one of {}", name(code, of)))
        }
        None => Err(format!("the value is not one of {}", name(code, of))),
    }
}

fn first_of(code: &ByteCode, of: u32) -> i64 {
    segments(code, of).first().map_or(0, |it| it.first)
}

fn last_of(code: &ByteCode, of: u32) -> i64 {
    segments(code, of).last().map_or(0, |it| it.first + it.count as i64 - 1)
}

/// Returns the value after another, or before it.
pub fn following(segments: &[ValueSegment], value: i64, back: bool) -> Option<i64> {
    let at = segments.iter().position(|it| it.index(value).is_some())?;
    let (step, beside) = if back { (-1, at.checked_sub(1)) } else { (1, Some(at + 1)) };
    if segments[at].index(value + step).is_some() {
        return Some(value + step);
    }
    let next = segments.get(beside?)?;
    Some(if back { next.first + next.count as i64 - 1 } else { next.first })
}
