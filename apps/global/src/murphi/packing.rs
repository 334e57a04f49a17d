//! States as bits: each scalar takes as many as its values and "undefined" need.

use crate::murphi::tree::CheckedModel;
use crate::murphi::types::{TypeId, TypeShape, TypeTable, UNDEFINED, ValueSegment, index_in};

/// A scalar of the state.
#[derive(Debug, Clone)]
struct PackedScalar {
    bits: u32,
    segments: Vec<ValueSegment>,
}

/// Bits of a state.
#[derive(Debug, Clone)]
pub struct StatePacking {
    scalars: Vec<PackedScalar>,
    bits: u64,
}

impl StatePacking {
    /// Returns the packing of a model's states.
    pub fn of(model: &CheckedModel) -> Self {
        let (mut scalars, mut bits) = (Vec::new(), 0);
        for variable in &model.variables {
            let place = (variable.offset, variable.name.as_str());
            model.types.each_scalar(variable.type_id, place, &mut |_, of, _| {
                let segments = model.types.segments(of).to_vec();
                let scalar =
                    PackedScalar { bits: 64 - model.types.values(of).leading_zeros(), segments };
                bits += u64::from(scalar.bits);
                scalars.push(scalar);
            });
        }
        debug_assert_eq!(scalars.len(), model.cells as usize, "a scalar for each cell");
        Self { scalars, bits }
    }

    /// Returns the bits and the values of each scalar.
    pub fn scalars(&self) -> impl Iterator<Item = (usize, &[ValueSegment])> {
        self.scalars.iter().map(|it| (it.bits as usize, it.segments.as_slice()))
    }

    /// Returns the bits of a state.
    pub fn bits(&self) -> u64 {
        self.bits
    }

    /// Returns the words of a state: at least one.
    pub fn words(&self) -> usize {
        self.bits.div_ceil(64).max(1) as usize
    }

    /// Packs the cells of a state.
    pub fn pack(&self, cells: &[i64], words: &mut [u64]) {
        debug_assert!(cells.len() >= self.scalars.len() && words.len() == self.words(), "a state");
        words.fill(0);
        let mut at = 0_usize;
        for (scalar, &value) in self.scalars.iter().zip(cells) {
            let code = match value {
                UNDEFINED => 0,
                _ => index_in(&scalar.segments, value).map_or(0, |index| index + 1),
            };
            let (word, shift) = (at / 64, at % 64);
            if let Some(low) = words.get_mut(word) {
                *low |= code << shift;
            }
            if shift + scalar.bits as usize > 64
                && let Some(high) = words.get_mut(word + 1)
            {
                *high |= code >> (64 - shift);
            }
            at += scalar.bits as usize;
        }
    }

    /// Unpacks a state.
    pub fn unpack(&self, words: &[u64], cells: &mut [i64]) {
        debug_assert!(cells.len() >= self.scalars.len() && words.len() == self.words(), "a state");
        let mut at = 0_usize;
        for (scalar, cell) in self.scalars.iter().zip(cells) {
            let (word, shift) = (at / 64, at % 64);
            let mut code = words.get(word).map_or(0, |low| low >> shift);
            if shift + scalar.bits as usize > 64 {
                code |= words.get(word + 1).map_or(0, |high| high << (64 - shift));
            }
            code &= (1 << scalar.bits) - 1;
            *cell = value_of(&scalar.segments, code);
            at += scalar.bits as usize;
        }
    }
}

fn value_of(segments: &[ValueSegment], code: u64) -> i64 {
    let Some(mut index) = code.checked_sub(1) else { return UNDEFINED };
    for segment in segments {
        if index < segment.count {
            return segment.first + index as i64;
        }
        index -= segment.count;
    }
    UNDEFINED
}

/// Orders the elements of all multisets of a state: they have none of their own.
pub fn order_multisets(model: &CheckedModel, cells: &mut [i64]) {
    for variable in &model.variables {
        order_in(
            &model.types,
            variable.type_id,
            cells.get_mut(variable.offset as usize..).unwrap_or_default(),
        );
    }
}

/// Orders the multisets in a value, whose cells are the first ones.
fn order_in(types: &TypeTable, id: TypeId, cells: &mut [i64]) {
    let is_set =
        |it: &crate::murphi::types::TypeEntry| matches!(it.shape, TypeShape::Multiset { .. });
    if !types.any_part(id, &is_set) {
        return;
    }
    match &types.entry(id).shape {
        TypeShape::Scalar { .. } => (),
        TypeShape::Record(fields) => {
            for field in fields {
                let part = cells.get_mut(field.offset as usize..).unwrap_or_default();
                order_in(types, field.type_id, part);
            }
        }
        TypeShape::Array { index, element } => {
            let (count, step) =
                (types.values(*index) as usize, types.entry(*element).cells as usize);
            for part in cells.chunks_mut(step.max(1)).take(count) {
                order_in(types, *element, part);
            }
        }
        TypeShape::Multiset { capacity, element } => {
            let step = types.entry(*element).cells as usize + 1;
            let mut slots: Vec<Vec<i64>> = Vec::with_capacity(*capacity as usize);
            for slot in cells.chunks_mut(step).take(*capacity as usize) {
                let Some((present, rest)) = slot.split_first_mut() else { continue };
                if *present == 1 {
                    order_in(types, *element, rest);
                    slots.push(slot.to_vec());
                }
            }
            slots.sort_unstable();
            let absent = [&[0][..], &vec![UNDEFINED; step - 1]].concat();
            for (at, slot) in cells.chunks_mut(step).take(*capacity as usize).enumerate() {
                slot.copy_from_slice(slots.get(at).unwrap_or(&absent));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::StatePacking;
    use crate::murphi::reader::read;
    use crate::murphi::types::UNDEFINED;

    #[test]
    fn a_state_comes_out_as_it_went_in() {
        let text = "type S: scalarset(3); E: enum {a, b}; U: union {E, S};
            var x: 0..1000000000000; y: array [1..40] of U; z: boolean; startstate clear x end";
        let model = read(text, &[]).unwrap();
        let packing = StatePacking::of(&model);
        assert_eq!((packing.bits(), packing.words()), (40 + 40 * 3 + 2, 3));
        let values: Vec<i64> =
            model.types.segments(model.variables[1].type_id).iter().map(|_| 0).collect();
        assert!(values.is_empty(), "an array is no scalar");
        let mut cells = vec![UNDEFINED; 42];
        cells[0] = 987_654_321_000;
        cells[41] = 1;
        let mut words = [0; 3];
        packing.pack(&cells, &mut words);
        let mut back = vec![7; 42];
        packing.unpack(&words, &mut back);
        assert_eq!(back, cells);
    }
}
