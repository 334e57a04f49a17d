//! Symmetry: values of a scalarset differ in nothing but identity, so of states that permutations
//! make of each other one is enough.

use crate::murphi::packing::order_multisets;
use crate::murphi::tree::CheckedModel;
use crate::murphi::types::{ScalarClass, TypeId, TypeShape, TypeTable, UNDEFINED, ValueSegment};
use clap::ValueEnum;

/// Permutations that a state is compared under.
pub const MAX_PERMUTATIONS: u64 = 50_000;
/// Cells of all permutations together that are kept.
const MAX_CELL_PERMUTATIONS: u64 = 1 << 24;

/// Extent to which states that permutations make of each other are taken for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SymmetryMode {
    /// Not at all
    Off,
    /// Always: the lowest of all permutations stands for them
    Exact,
    /// Mostly: values are sorted by what belongs to them, which is fast
    Normal,
}

impl SymmetryMode {
    /// Returns the name that the command line has for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Exact => "exact",
            Self::Normal => "normal",
        }
    }
}

/// Values of all scalarsets, and what a permutation makes of them.
pub type ValueMap = Vec<(ValueSegment, Vec<u32>)>;

/// A reduction of states.
#[derive(Debug, Clone)]
pub struct StateReduction {
    mode: SymmetryMode,
    sets: Vec<ValueSegment>,
    permutations: Vec<ValueMap>,
    /// Cells of each permutation; none if the state has multisets.
    cells: Vec<CellPermutation>,
}

/// A permutation of cells, and of the values of some.
#[derive(Debug, Clone)]
struct CellPermutation {
    /// Cell whose value comes to each cell; true if it is a value of a scalarset or a union.
    from: Vec<(u32, bool)>,
}

impl CellPermutation {
    fn new(model: &CheckedModel, map: &ValueMap) -> Self {
        let numbers: Vec<i64> = (0..i64::from(model.cells)).collect();
        let mut from = Vec::with_capacity(numbers.len());
        for variable in &model.variables {
            model.types.each_scalar(variable.type_id, (0, ""), &mut |_, of, _| {
                let class = model.types.class(of);
                let named = matches!(class, Some(ScalarClass::Scalarset | ScalarClass::Union));
                from.push((0, named));
            });
        }
        // Numbers of cells are values of no scalarset.
        for ((from, _), cell) in from.iter_mut().zip(permuted(model, map, &numbers)) {
            *from = cell as u32;
        }
        Self { from }
    }

    /// Makes `least` what the permutation makes of a state, if that is lower. Returns true then.
    fn lower(&self, map: &ValueMap, cells: &[i64], least: &mut [i64]) -> bool {
        debug_assert!(cells.len() == self.from.len() && least.len() == cells.len(), "states");
        let mut is_lower = false;
        for ((from, named), least) in self.from.iter().zip(least) {
            let value = cells.get(*from as usize).copied().unwrap_or(UNDEFINED);
            let value = if *named { image(map, value) } else { value };
            if !is_lower && value > *least {
                return false;
            }
            is_lower |= value < *least;
            *least = value;
        }
        is_lower
    }
}

impl StateReduction {
    /// Creates a reduction.
    ///
    /// # Errors
    /// Fails if there are too many permutations, or if the model has a statement that treats values
    /// of a scalarset differently.
    pub fn new(model: &CheckedModel, mode: SymmetryMode) -> Result<Self, String> {
        let sets: Vec<ValueSegment> = match mode {
            SymmetryMode::Off => Vec::new(),
            _ => model.types.scalarsets().into_iter().map(|(_, values)| values).collect(),
        };
        if let (Some((at, why)), false) = (model.asymmetry, sets.is_empty()) {
            return Err(format!("{at}: {why}, so there is no symmetry: use --symmetry off"));
        }
        let mut permutations = vec![ValueMap::new()];
        if mode == SymmetryMode::Exact {
            for set in &sets {
                let all = orders(set.count as u32);
                if permutations.len() as u64 * all.len() as u64 > MAX_PERMUTATIONS || all.is_empty()
                {
                    return Err(format!(
                        "the scalarsets have more than {MAX_PERMUTATIONS} permutations: use \
                         --symmetry normal"
                    ));
                }
                let with = |known: &ValueMap| {
                    let longer = |order: &Vec<u32>| {
                        let mut known = known.clone();
                        known.push((*set, order.clone()));
                        known
                    };
                    all.iter().map(longer).collect::<Vec<_>>()
                };
                permutations = permutations.iter().flat_map(with).collect();
            }
        }
        let is_set =
            |it: &crate::murphi::types::TypeEntry| matches!(it.shape, TypeShape::Multiset { .. });
        let has_sets = model.variables.iter().any(|it| model.types.any_part(it.type_id, &is_set));
        let small = permutations.len() as u64 * u64::from(model.cells) <= MAX_CELL_PERMUTATIONS;
        let cells = if has_sets || sets.is_empty() || !small {
            Vec::new()
        } else {
            permutations.iter().map(|map| CellPermutation::new(model, map)).collect()
        };
        Ok(Self { mode, sets, permutations, cells })
    }

    /// Returns all permutations that a state is compared under.
    #[cfg(test)]
    pub fn permutations(&self) -> &[ValueMap] {
        &self.permutations
    }

    /// Returns true if states are made others.
    pub fn changes(&self) -> bool {
        !self.sets.is_empty()
    }

    /// Makes a state the one that stands for it. Returns the permutation.
    pub fn reduce(&self, model: &CheckedModel, cells: &mut [i64]) -> ValueMap {
        match self.mode {
            _ if self.sets.is_empty() => ValueMap::new(),
            SymmetryMode::Off => ValueMap::new(),
            SymmetryMode::Exact if !self.cells.is_empty() => {
                let (mut least, mut chosen) = (cells.to_vec(), None);
                for (number, (map, of)) in self.permutations.iter().zip(&self.cells).enumerate() {
                    if of.lower(map, cells, &mut least) {
                        chosen = Some(number);
                    }
                }
                cells.copy_from_slice(&least);
                let identity = || self.identity();
                chosen.and_then(|it| self.permutations.get(it).cloned()).unwrap_or_else(identity)
            }
            SymmetryMode::Exact => {
                let (mut least, mut chosen) = (Vec::new(), 0);
                for (number, map) in self.permutations.iter().enumerate() {
                    let made = permuted(model, map, cells);
                    if number == 0 || made < least {
                        (least, chosen) = (made, number);
                    }
                }
                cells.copy_from_slice(&least);
                self.permutations.get(chosen).cloned().unwrap_or_default()
            }
            SymmetryMode::Normal => {
                let map = self.sorting(model, cells);
                let made = permuted(model, &map, cells);
                cells.copy_from_slice(&made);
                map
            }
        }
    }

    /// Returns the permutation that changes nothing.
    fn identity(&self) -> ValueMap {
        self.sets.iter().map(|set| (*set, (0..set.count as u32).collect())).collect()
    }

    /// Returns the permutation that sorts the values of each scalarset by what belongs to them.
    fn sorting(&self, model: &CheckedModel, cells: &[i64]) -> ValueMap {
        let mut marks: Vec<Vec<u64>> =
            self.sets.iter().map(|it| vec![0; it.count as usize]).collect();
        for variable in &model.variables {
            let part = cells.get(variable.offset as usize..).unwrap_or_default();
            let mut walk = MarkWalk { types: &model.types, sets: &self.sets, marks: &mut marks };
            walk.value(
                variable.type_id,
                part,
                &Path { hash: u64::from(variable.offset), of: None },
            );
        }
        let order = |(set, marks): (&ValueSegment, &Vec<u64>)| {
            let mut values: Vec<u32> = (0..set.count as u32).collect();
            values.sort_by_key(|value| marks.get(*value as usize).copied());
            let mut to = vec![0; values.len()];
            for (place, value) in values.into_iter().enumerate() {
                to[value as usize] = place as u32;
            }
            (*set, to)
        };
        self.sets.iter().zip(&marks).map(order).collect()
    }
}

/// Place of a scalar in a state: a number that permutations do not change, and the value of a
/// scalarset that it belongs to.
#[derive(Debug, Clone, Copy)]
struct Path {
    hash: u64,
    of: Option<i64>,
}

fn stir(hash: u64, word: u64) -> u64 {
    crate::murphi::store::keys::fingerprint(&[hash, word])
}

/// A walk over a state that marks values of scalarsets with what belongs to them.
struct MarkWalk<'a> {
    types: &'a TypeTable,
    sets: &'a [ValueSegment],
    marks: &'a mut Vec<Vec<u64>>,
}

impl MarkWalk<'_> {
    fn set_of(&self, value: i64) -> Option<(usize, usize)> {
        let find = |(set, values): (usize, &ValueSegment)| {
            values.index(value).map(|index| (set, index as usize))
        };
        self.sets.iter().enumerate().find_map(find)
    }

    fn mark(&mut self, value: i64, with: u64) {
        if let Some((set, index)) = self.set_of(value)
            && let Some(mark) = self.marks.get_mut(set).and_then(|it| it.get_mut(index))
        {
            *mark = mark.wrapping_add(with);
        }
    }

    /// Marks by one scalar: its owner by its value, and its value, if of a scalarset, by its place.
    fn scalar(&mut self, value: i64, path: &Path) {
        let named = self.set_of(value).map(|(set, _)| set as u64);
        let seen = match named {
            None => value as u64,
            Some(set) => 1 << 60 | set << 1 | u64::from(path.of == Some(value)),
        };
        let with = stir(path.hash, seen);
        if let Some(of) = path.of {
            self.mark(of, with);
        }
        if named.is_some() {
            self.mark(value, with.rotate_left(17));
        }
    }

    fn value(&mut self, id: TypeId, cells: &[i64], path: &Path) {
        match &self.types.entry(id).shape {
            TypeShape::Scalar { .. } => self.scalar(cells.first().copied().unwrap_or(0), path),
            TypeShape::Record(fields) => {
                for field in fields {
                    let path = Path { hash: stir(path.hash, u64::from(field.offset)), ..*path };
                    let part = cells.get(field.offset as usize..).unwrap_or_default();
                    self.value(field.type_id, part, &path);
                }
            }
            TypeShape::Array { index, element } => {
                let step = self.types.entry(*element).cells as usize;
                let values = self.types.segments(*index).iter();
                let values = values.flat_map(|it| it.first..it.first + it.count as i64);
                for (value, part) in values.zip(cells.chunks(step.max(1))) {
                    let path = match self.set_of(value) {
                        None => Path { hash: stir(path.hash, value as u64), ..*path },
                        Some((set, _)) => {
                            Path { hash: stir(path.hash, 1 << 61 | set as u64), of: Some(value) }
                        }
                    };
                    self.value(*element, part, &path);
                }
            }
            TypeShape::Multiset { capacity, element } => {
                let step = self.types.entry(*element).cells as usize + 1;
                let path = Path { hash: stir(path.hash, 1 << 62), ..*path };
                for slot in cells.chunks(step).take(*capacity as usize) {
                    if let Some((1, rest)) = slot.split_first() {
                        self.value(*element, rest, &path);
                    }
                }
            }
        }
    }
}

/// Returns all orders of so many values; none if there are too many.
fn orders(count: u32) -> Vec<Vec<u32>> {
    if count > 8 {
        return Vec::new();
    }
    let mut all = vec![Vec::new()];
    for next in 0..count {
        let longer = |order: &Vec<u32>| {
            let insert = |at: usize| {
                let mut order = order.clone();
                order.insert(at, next);
                order
            };
            (0..=order.len()).map(insert).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// Returns the inverse of a permutation.
pub fn inverse(map: &ValueMap) -> ValueMap {
    let invert = |(set, to): &(ValueSegment, Vec<u32>)| {
        let mut back = vec![0; to.len()];
        for (value, place) in to.iter().enumerate() {
            if let Some(slot) = back.get_mut(*place as usize) {
                *slot = value as u32;
            }
        }
        (*set, back)
    };
    map.iter().map(invert).collect()
}

/// Returns the state that a permutation makes of another.
pub fn permuted(model: &CheckedModel, map: &ValueMap, cells: &[i64]) -> Vec<i64> {
    let mut made = vec![UNDEFINED; cells.len()];
    for variable in &model.variables {
        let (at, size) =
            (variable.offset as usize, model.types.entry(variable.type_id).cells as usize);
        let (from, to) = (cells.get(at..at + size), made.get_mut(at..at + size));
        if let (Some(from), Some(to)) = (from, to) {
            permute(&model.types, map, variable.type_id, (from, to));
        }
    }
    order_multisets(model, &mut made);
    made
}

fn image(map: &ValueMap, value: i64) -> i64 {
    for (set, to) in map {
        if let Some(index) = set.index(value) {
            return set.first + i64::from(to.get(index as usize).copied().unwrap_or(index as u32));
        }
    }
    value
}

fn permute(types: &TypeTable, map: &ValueMap, id: TypeId, (from, to): (&[i64], &mut [i64])) {
    let entry = types.entry(id);
    debug_assert!(from.len() == to.len(), "cells of one value");
    match &entry.shape {
        TypeShape::Scalar { class: ScalarClass::Scalarset | ScalarClass::Union, .. } => {
            for (to, from) in to.iter_mut().zip(from) {
                *to = image(map, *from);
            }
        }
        TypeShape::Scalar { .. } => to.copy_from_slice(from),
        TypeShape::Record(fields) => {
            for field in fields {
                let cells = types.entry(field.type_id).cells as usize;
                let range = field.offset as usize..field.offset as usize + cells;
                if let (Some(from), Some(to)) = (from.get(range.clone()), to.get_mut(range)) {
                    permute(types, map, field.type_id, (from, to));
                }
            }
        }
        TypeShape::Array { index, element } => {
            let step = types.entry(*element).cells as usize;
            let segments = types.segments(*index);
            let values = segments.iter().flat_map(|it| it.first..it.first + it.count as i64);
            for (value, part) in values.zip(from.chunks(step.max(1))) {
                let place = crate::murphi::types::index_in(segments, image(map, value));
                let at = place.unwrap_or(0) as usize * step;
                if let Some(to) = to.get_mut(at..at + step) {
                    permute(types, map, *element, (part, to));
                }
            }
        }
        TypeShape::Multiset { element, .. } => {
            let step = types.entry(*element).cells as usize + 1;
            for (from, to) in from.chunks(step).zip(to.chunks_mut(step)) {
                let (Some((present, from)), Some((mark, to))) =
                    (from.split_first(), to.split_first_mut())
                else {
                    continue;
                };
                *mark = *present;
                permute(types, map, *element, (from, to));
            }
        }
    }
}
