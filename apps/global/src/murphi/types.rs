//! Types of a model, and the cells that values of them take.
//!
//! Each scalar takes a cell. Enumerations and scalarsets have values of their own, apart from all
//! numbers, so a union needs no tag.

use std::collections::BTreeMap;

/// Number of a type in its table.
pub type TypeId = usize;
/// Booleans, values 0 and 1.
pub const BOOLEAN: TypeId = 0;
/// Numbers, the type of arithmetic; no variable has it.
pub const INTEGER: TypeId = 1;
/// Cells of all variables together.
pub const MAX_CELLS: u32 = 1 << 18;
/// The cell of a scalar that is undefined.
pub const UNDEFINED: i64 = i64::MIN;
/// First value of enumerations and scalarsets.
const FIRST_NAMED: i64 = 1 << 48;

/// Values that follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueSegment {
    /// First value.
    pub first: i64,
    /// Number of values.
    pub count: u64,
}

impl ValueSegment {
    /// Returns the place of a value among these, if it is one.
    #[inline]
    pub fn index(&self, value: i64) -> Option<u64> {
        let index = (value as u64).wrapping_sub(self.first as u64);
        (index < self.count).then_some(index)
    }
}

/// Returns the place of a value in segments.
#[inline]
pub fn index_in(segments: &[ValueSegment], value: i64) -> Option<u64> {
    let mut before = 0;
    for segment in segments {
        if let Some(index) = segment.index(value) {
            return Some(before + index);
        }
        before += segment.count;
    }
    None
}

/// Class of scalars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalarClass {
    /// False and true.
    Boolean,
    /// Numbers.
    Range,
    /// Named values.
    Enumeration,
    /// Values that differ in nothing but identity.
    Scalarset,
    /// Values of several enumerations and scalarsets.
    Union,
}

/// A field of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordField {
    /// Name.
    pub name: String,
    /// Type.
    pub type_id: TypeId,
    /// Cells before it.
    pub offset: u32,
}

/// Structure of a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeShape {
    /// A scalar.
    Scalar {
        /// Class.
        class: ScalarClass,
        /// Values.
        segments: Vec<ValueSegment>,
    },
    /// Fields, one after the other.
    Record(Vec<RecordField>),
    /// Elements, by the values of a scalar type.
    Array {
        /// Type of indexes.
        index: TypeId,
        /// Type of elements.
        element: TypeId,
    },
    /// Slots, each with a cell before it that is 1 if the slot has an element, else 0.
    Multiset {
        /// Number of slots.
        capacity: u32,
        /// Type of elements.
        element: TypeId,
    },
}

/// A type.
#[derive(Debug, Clone)]
pub struct TypeEntry {
    /// Name, as messages have it.
    pub name: String,
    /// Structure.
    pub shape: TypeShape,
    /// Cells of a value.
    pub cells: u32,
}

/// All types of a model, and the names of values.
#[derive(Debug, Clone)]
pub struct TypeTable {
    entries: Vec<TypeEntry>,
    /// Names of values of enumerations and scalarsets.
    names: BTreeMap<i64, String>,
    next_named: i64,
}

impl Default for TypeTable {
    fn default() -> Self {
        let scalar = |name: &str, class, first, count| TypeEntry {
            name: name.into(),
            shape: TypeShape::Scalar { class, segments: vec![ValueSegment { first, count }] },
            cells: 1,
        };
        let all = scalar("integer", ScalarClass::Range, -FIRST_NAMED, 2 * FIRST_NAMED as u64);
        let entries = vec![scalar("boolean", ScalarClass::Boolean, 0, 2), all];
        Self { entries, names: BTreeMap::new(), next_named: FIRST_NAMED }
    }
}

impl TypeTable {
    /// Returns a type.
    pub fn entry(&self, id: TypeId) -> &TypeEntry {
        debug_assert!(id < self.entries.len(), "a type of this model");
        self.entries.get(id).unwrap_or(&self.entries[BOOLEAN])
    }

    /// Returns the number of types.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// Adds a type without a name. Returns `None` if values of it are too large.
    pub fn add(&mut self, name: String, shape: TypeShape) -> Option<TypeId> {
        let cells = match &shape {
            TypeShape::Scalar { .. } => Some(1),
            TypeShape::Record(fields) => fields
                .iter()
                .try_fold(0_u32, |sum, it| sum.checked_add(self.entry(it.type_id).cells)),
            TypeShape::Array { index, element } => u32::try_from(self.values(*index))
                .ok()
                .and_then(|count| count.checked_mul(self.entry(*element).cells)),
            TypeShape::Multiset { capacity, element } => {
                capacity.checked_mul(self.entry(*element).cells + 1)
            }
        };
        let cells = cells.filter(|cells| *cells <= MAX_CELLS)?;
        self.entries.push(TypeEntry { name, shape, cells });
        Some(self.entries.len() - 1)
    }

    /// Gives a type that has none its name; a scalarset's values get theirs.
    pub fn name(&mut self, id: TypeId, name: &str) {
        let Some(entry) = self.entries.get_mut(id).filter(|it| it.name.starts_with('(')) else {
            return;
        };
        entry.name = name.into();
        if let TypeShape::Scalar { class: ScalarClass::Scalarset, segments } = &entry.shape {
            for segment in segments {
                for at in 0..segment.count as i64 {
                    self.names.insert(segment.first + at, format!("{name}_{}", at + 1));
                }
            }
        }
    }

    /// Returns `count` values that no type has had, with names.
    pub fn new_values(&mut self, names: &[String], count: u64) -> ValueSegment {
        let first = self.next_named;
        self.next_named += count as i64;
        self.names.extend((first..).zip(names.iter().cloned()));
        ValueSegment { first, count }
    }

    /// Returns the values of a scalar type; none for others.
    pub fn segments(&self, id: TypeId) -> &[ValueSegment] {
        match &self.entry(id).shape {
            TypeShape::Scalar { segments, .. } => segments,
            _ => &[],
        }
    }

    /// Returns the number of values of a scalar type.
    pub fn values(&self, id: TypeId) -> u64 {
        self.segments(id).iter().map(|it| it.count).sum()
    }

    /// Returns the class of a scalar type; `None` for others.
    pub fn class(&self, id: TypeId) -> Option<ScalarClass> {
        match &self.entry(id).shape {
            TypeShape::Scalar { class, .. } => Some(*class),
            _ => None,
        }
    }

    /// Returns true if values of two scalar types can be compared and assigned.
    pub fn agree(&self, a: TypeId, b: TypeId) -> bool {
        let numbers = |id| self.class(id) == Some(ScalarClass::Range);
        let truth = |id| self.class(id) == Some(ScalarClass::Boolean);
        if numbers(a) || numbers(b) || truth(a) || truth(b) {
            return numbers(a) && numbers(b) || truth(a) && truth(b);
        }
        let within = |x: &ValueSegment, y: &ValueSegment| x.index(y.first).is_some();
        let (a, b) = (self.segments(a), self.segments(b));
        a.iter().any(|x| b.iter().any(|y| within(x, y) || within(y, x)))
    }

    /// Returns true if two types have the same structure and values, so that one cell or block of
    /// cells can be of both.
    pub fn same(&self, a: TypeId, b: TypeId) -> bool {
        if a == b {
            return true;
        }
        match (&self.entry(a).shape, &self.entry(b).shape) {
            (TypeShape::Array { index: i, element: e }, TypeShape::Array { index, element }) => {
                self.same(*i, *index) && self.same(*e, *element)
            }
            (
                TypeShape::Multiset { capacity: c, element: e },
                TypeShape::Multiset { capacity, element },
            ) => c == capacity && self.same(*e, *element),
            (a @ TypeShape::Scalar { .. }, b @ TypeShape::Scalar { .. }) => a == b,
            _ => false,
        }
    }

    /// Returns the value of a scalar as text.
    pub fn show(&self, id: TypeId, value: i64) -> String {
        match (self.class(id), self.names.get(&value)) {
            _ if value == UNDEFINED => "undefined".into(),
            (Some(ScalarClass::Boolean), _) => (value != 0).to_string(),
            (Some(ScalarClass::Range), _) | (_, None) => value.to_string(),
            (_, Some(name)) => name.clone(),
        }
    }

    /// Returns all scalars of a value as text; its cells begin at `at`.
    pub fn show_all(&self, id: TypeId, at: u32, cells: &[i64]) -> String {
        let mut texts = Vec::new();
        self.each_scalar(id, (at, ""), &mut |cell, of, name| {
            let value = self.show(of, cells.get(cell as usize).copied().unwrap_or(UNDEFINED));
            texts.push(if name.is_empty() { value } else { format!("{name}: {value}") });
        });
        texts.join(", ")
    }

    /// Returns all scalarsets, by type.
    pub fn scalarsets(&self) -> Vec<(TypeId, ValueSegment)> {
        let all = self.entries.iter().enumerate();
        let of = |(id, entry): (usize, &TypeEntry)| match &entry.shape {
            TypeShape::Scalar { class: ScalarClass::Scalarset, segments } => {
                segments.first().map(|segment| (id, *segment))
            }
            _ => None,
        };
        all.filter_map(of).collect()
    }

    /// Returns true if a value of this type may have a part that passes.
    pub fn any_part(&self, id: TypeId, passes: &dyn Fn(&TypeEntry) -> bool) -> bool {
        let entry = self.entry(id);
        passes(entry)
            || match &entry.shape {
                TypeShape::Scalar { .. } => false,
                TypeShape::Record(fields) => {
                    fields.iter().any(|it| self.any_part(it.type_id, passes))
                }
                TypeShape::Array { element, .. } | TypeShape::Multiset { element, .. } => {
                    self.any_part(*element, passes)
                }
            }
    }

    /// Returns the cells of a value that is undefined, or has its lowest scalars (`cleared`).
    /// Multisets are empty.
    pub fn template(&self, id: TypeId, cleared: bool) -> Vec<i64> {
        let mut cells = Vec::new();
        self.each_scalar(id, (0, ""), &mut |_, scalar, name| {
            let first = self.segments(scalar).first().map_or(0, |it| it.first);
            let slot = name.ends_with('}');
            let in_slot = name.contains('{');
            cells.push(match (slot && scalar == BOOLEAN, cleared && !in_slot) {
                (true, _) => 0,
                (false, true) => first,
                (false, false) => UNDEFINED,
            });
        });
        cells
    }

    /// Calls a function with the place, the type and the name of each scalar of a value; cells
    /// that say if a slot of a multiset is used are booleans.
    pub fn each_scalar(
        &self,
        id: TypeId,
        (at, name): (u32, &str),
        each: &mut dyn FnMut(u32, TypeId, &str),
    ) {
        match &self.entry(id).shape {
            TypeShape::Scalar { .. } => each(at, id, name),
            TypeShape::Record(fields) => {
                for field in fields {
                    let name = format!("{name}.{}", field.name);
                    self.each_scalar(field.type_id, (at + field.offset, &name), each);
                }
            }
            TypeShape::Array { index, element } => {
                let (step, mut at) = (self.entry(*element).cells, at);
                for segment in self.segments(*index) {
                    for value in 0..segment.count as i64 {
                        let name = format!("{name}[{}]", self.show(*index, segment.first + value));
                        self.each_scalar(*element, (at, &name), each);
                        at += step;
                    }
                }
            }
            TypeShape::Multiset { capacity, element } => {
                let step = self.entry(*element).cells + 1;
                for slot in 0..*capacity {
                    let name = format!("{name}{{{slot}}}");
                    each(at + slot * step, BOOLEAN, &name);
                    self.each_scalar(*element, (at + slot * step + 1, &name), each);
                }
            }
        }
    }
}
