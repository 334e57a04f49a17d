//! Cells of the interpreter: a state, and frames behind it.

use crate::murphi::tree::{BinaryOperation as Op, CheckedModel, SetLayout};
use crate::murphi::types::{TypeId, UNDEFINED};

/// Cells of a state and of frames.
#[derive(Debug, Clone, Default)]
pub struct PlainCells(pub Vec<i64>);

impl PlainCells {
    /// Stores a scalar.
    pub fn set(&mut self, address: usize, value: i64) {
        debug_assert!(address < self.0.len(), "a cell of the state or of a frame");
        if let Some(cell) = self.0.get_mut(address) {
            *cell = value;
        }
    }

    /// Copies cells, which may overlap.
    pub fn move_cells(&mut self, from: usize, to: usize, cells: usize) {
        if let (1, Some(value)) = (cells, self.0.get(from)) {
            return self.set(to, *value);
        }
        let source = self.0.get(from..from + cells).unwrap_or_default().to_vec();
        if let Some(to) = self.0.get_mut(to..to + source.len()) {
            to.copy_from_slice(&source);
        }
    }

    /// Returns the address of a slot of a multiset.
    ///
    /// # Errors
    /// Fails if it has no element.
    pub fn slot(&self, set: SetLayout, slot: i64, address: usize) -> Result<usize, String> {
        if !(0..i64::from(set.capacity)).contains(&slot) {
            return Err(format!("the multiset has no slot {slot}"));
        }
        let at = address + slot as usize * set.stride as usize;
        match self.0.get(at) {
            Some(1) => Ok(at),
            _ => Err("the multiset has no such element any more".into()),
        }
    }

    /// Returns the first slot of a multiset that has no element.
    pub fn free_slot(&self, address: usize, set: SetLayout) -> Option<usize> {
        let stride = set.stride as usize;
        let mut slots = (0..set.capacity as usize).map(|slot| address + slot * stride);
        slots.find(|slot| self.0.get(*slot) != Some(&1))
    }

    /// Removes the element of a slot.
    pub fn empty(&mut self, slot: usize, set: SetLayout) {
        debug_assert_eq!(self.0.get(slot), Some(&1), "a slot with an element");
        self.set(slot, 0);
        for at in slot + 1..slot + set.stride as usize {
            self.set(at, UNDEFINED);
        }
    }
}

/// Returns all values of a scalar type.
pub fn value_list(model: &CheckedModel, of: TypeId) -> Vec<i64> {
    let segments = model.types.segments(of).iter();
    segments.flat_map(|it| it.first..it.first + it.count as i64).collect()
}

/// Returns the result of an operation; `None` if it is too large.
pub fn operate(operation: Op, a: i64, b: i64) -> Option<i64> {
    let result = match operation {
        Op::Add => a.checked_add(b),
        Op::Subtract => a.checked_sub(b),
        Op::Multiply => a.checked_mul(b),
        Op::Divide => a.checked_div(b),
        Op::Remainder => a.checked_rem(b),
        Op::Equal => Some(i64::from(a == b)),
        Op::Unequal => Some(i64::from(a != b)),
        Op::Less => Some(i64::from(a < b)),
        Op::LessOrEqual => Some(i64::from(a <= b)),
        Op::And | Op::Or | Op::Implies => Some(i64::from(b != 0)),
    };
    result.filter(|value| *value != UNDEFINED)
}
