//! Operations on the elements of a spread array, by their type.

use crate::indexes::Index;
use clump::pgas::{AtomicElement, Bits, Element, ElementPlace, GlobalRef, GlobalResult};
use clump::pgas::{Layout, Pgas, Spread};
use clump::pgas::{PendingElement, SpreadLayout};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// Spread array of one of the types that have atomics, or of bytes.
#[derive(Debug)]
pub(crate) enum Typed {
    I8(Spread<i8>),
    I16(Spread<i16>),
    I32(Spread<i32>),
    I64(Spread<i64>),
    U8(Spread<u8>),
    U16(Spread<u16>),
    U32(Spread<u32>),
    U64(Spread<u64>),
    F32(Spread<f32>),
    F64(Spread<f64>),
    /// Elements of any size, as bytes.
    Raw(Spread<u8>),
}

/// Indexes that are widened at a time.
const CHUNK: usize = 1 << 16;

/// Update of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Update {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
}

impl Update {
    /// Returns the update of a name.
    ///
    /// # Errors
    /// Fails if there is none.
    pub(crate) fn of(name: &str) -> PyResult<Self> {
        match name {
            "add" | "sum" => Ok(Self::Add),
            "min" => Ok(Self::Min),
            "max" => Ok(Self::Max),
            "and" => Ok(Self::And),
            "or" => Ok(Self::Or),
            "xor" => Ok(Self::Xor),
            _ => Err(pyo3::exceptions::PyValueError::new_err(format!(
                "there is no update {name:?}: use add, min, max, and, or, xor"
            ))),
        }
    }

    /// Returns true if only integers have it.
    pub(crate) fn is_of_bits(self) -> bool {
        matches!(self, Self::And | Self::Or | Self::Xor)
    }
}

/// Runs `$body` with the spread array of numbers; `$raw` with one of bytes.
macro_rules! with_numbers {
    ($typed:expr, $spread:ident => $body:expr, raw $bytes:ident => $raw:expr) => {
        match $typed {
            Typed::I8($spread) => $body,
            Typed::I16($spread) => $body,
            Typed::I32($spread) => $body,
            Typed::I64($spread) => $body,
            Typed::U8($spread) => $body,
            Typed::U16($spread) => $body,
            Typed::U32($spread) => $body,
            Typed::U64($spread) => $body,
            Typed::F32($spread) => $body,
            Typed::F64($spread) => $body,
            Typed::Raw($bytes) => $raw,
        }
    };
}
pub(crate) use with_numbers;

/// Runs `$body` with the slice of values of the type of `$spread`.
macro_rules! as_values {
    ($spread:expr, $at:expr, $len:expr) => {{
        fn typed<'a, T>(_: &clump::pgas::Spread<T>, at: *mut u8, len: usize) -> &'a [T] {
            // SAFETY: a contiguous array of this type, which the call keeps alive.
            unsafe { $crate::indexes::slice(at.cast(), len) }
        }
        typed($spread, $at, $len)
    }};
}
pub(crate) use as_values;

/// Runs `$body` with the places of a contiguous array of the type of `$spread`.
macro_rules! as_places {
    ($spread:expr, $at:expr, $len:expr) => {{
        fn typed<'a, T>(_: &clump::pgas::Spread<T>, at: *mut u8, len: usize) -> &'a mut [T] {
            if len == 0 {
                return &mut [];
            }
            // SAFETY: a contiguous writable array of this type, which the call keeps alive.
            unsafe { std::slice::from_raw_parts_mut(at.cast(), len) }
        }
        typed($spread, $at, $len)
    }};
}
pub(crate) use as_places;

/// Runs `$begun` with the spread array and the function that begins this update of its elements:
/// `$any`, or `$bits` for those that only integers have.
macro_rules! begin_update {
    ($typed:expr, $update:expr, $begun:ident, ($any:ident, $bits:ident)) => {
        match ($typed, $update.is_of_bits()) {
            ($crate::typed::Typed::I8(it), true) => $begun!(it, $crate::typed::$bits),
            ($crate::typed::Typed::I16(it), true) => $begun!(it, $crate::typed::$bits),
            ($crate::typed::Typed::I32(it), true) => $begun!(it, $crate::typed::$bits),
            ($crate::typed::Typed::I64(it), true) => $begun!(it, $crate::typed::$bits),
            ($crate::typed::Typed::U8(it), true) => $begun!(it, $crate::typed::$bits),
            ($crate::typed::Typed::U16(it), true) => $begun!(it, $crate::typed::$bits),
            ($crate::typed::Typed::U32(it), true) => $begun!(it, $crate::typed::$bits),
            ($crate::typed::Typed::U64(it), true) => $begun!(it, $crate::typed::$bits),
            (it, _) => with_numbers!(it, it => $begun!(it, $crate::typed::$any), raw _it => Ok(())),
        }
    };
}
pub(crate) use begin_update;

impl Typed {
    /// Spreads an array of elements of a NumPy kind and size.
    pub(crate) fn spread(
        pgas: &Pgas,
        (kind, itemsize): (u8, usize),
        layout: &SpreadLayout,
    ) -> GlobalResult<Self> {
        let (len, block) = (layout.len(), Layout::BlockCyclic(layout.block()));
        Ok(match (kind, itemsize) {
            (b'i', 1) => Self::I8(pgas.spread(len, block)?),
            (b'i', 2) => Self::I16(pgas.spread(len, block)?),
            (b'i', 4) => Self::I32(pgas.spread(len, block)?),
            (b'i', 8) => Self::I64(pgas.spread(len, block)?),
            (b'u', 1) => Self::U8(pgas.spread(len, block)?),
            (b'u', 2) => Self::U16(pgas.spread(len, block)?),
            (b'u', 4) => Self::U32(pgas.spread(len, block)?),
            (b'u', 8) => Self::U64(pgas.spread(len, block)?),
            (b'f', 4) => Self::F32(pgas.spread(len, block)?),
            (b'f', 8) => Self::F64(pgas.spread(len, block)?),
            _ => {
                let bytes = |elements: usize| elements.saturating_mul(itemsize);
                let block = Layout::BlockCyclic(bytes(layout.block()));
                Self::Raw(pgas.spread(bytes(len), block)?)
            }
        })
    }

    /// Returns the segment, and its bytes, at a rank.
    pub(crate) fn part(&self, rank: usize) -> Option<clump::pgas::GlobalPtr<u8>> {
        with_numbers!(self, spread => spread.on(rank).map(|at| at.cast()), raw bytes => bytes.on(rank))
    }

    /// Returns true if `update` exists for its elements.
    pub(crate) fn has(&self, update: Update) -> bool {
        match self {
            Self::Raw(_) => false,
            Self::F32(_) | Self::F64(_) => !update.is_of_bits(),
            _ => true,
        }
    }
}

/// Begins to update an element.
#[inline(always)]
pub(crate) fn one<T: AtomicElement>(
    at: GlobalRef<'_, T>,
    update: Update,
    value: T,
) -> GlobalResult<()> {
    match update {
        Update::Add => at.add(value),
        Update::Min => at.min(value),
        _ => at.max(value),
    }
}

/// Begins to change bits of an element.
#[inline(always)]
pub(crate) fn one_of_bits<T: Bits>(
    at: GlobalRef<'_, T>,
    update: Update,
    value: T,
) -> GlobalResult<()> {
    match update {
        Update::And => at.and(value),
        Update::Or => at.or(value),
        _ => at.xor(value),
    }
}

/// Begins to update the elements of `indexes` by `values`, one each, or the same for all.
pub(crate) fn all<T: AtomicElement, I: Index>(
    spread: &Spread<T>,
    update: Update,
    indexes: &[I],
    values: &[T],
) -> GlobalResult<()> {
    match (update, values) {
        (Update::Add, &[value]) => {
            each_chunk((indexes, spread.len()), |_, some| spread.scatter_add(some, value))
        }
        _ => each(spread, indexes, values, |at, value| one(at, update, value)),
    }
}

/// Begins to change bits, as [`all`] does.
pub(crate) fn all_of_bits<T: Bits, I: Index>(
    spread: &Spread<T>,
    update: Update,
    indexes: &[I],
    values: &[T],
) -> GlobalResult<()> {
    each(spread, indexes, values, |at, value| one_of_bits(at, update, value))
}

/// Begins to write the elements of `indexes`.
pub(crate) fn put<T: Element, I: Index>(
    spread: &Spread<T>,
    indexes: &[I],
    values: &[T],
) -> GlobalResult<()> {
    if values.len() == 1 {
        return each(spread, indexes, values, |at, value| at.put(value));
    }
    each_chunk((indexes, spread.len()), |first, some| {
        let values = values.get(first..first + some.len());
        values.map_or(Ok(()), |values| spread.scatter(some, values))
    })
}

/// Calls `run` with the elements that indexes mean, and the position of the first of them: with all
/// at once where they are these numbers already.
#[inline(always)]
fn each_chunk<I: Index>(
    (indexes, len): (&[I], usize),
    mut run: impl FnMut(usize, &[usize]) -> GlobalResult<()>,
) -> GlobalResult<()> {
    if let Some(elements) = I::elements(indexes) {
        return run(0, elements);
    }
    let mut wide = Vec::with_capacity(CHUNK.min(indexes.len()));
    for (chunk, indexes) in indexes.chunks(CHUNK).enumerate() {
        wide.clear();
        wide.extend(indexes.iter().map(|index| index.element(len)));
        run(chunk * CHUNK, &wide)?;
    }
    Ok(())
}

#[inline(always)]
fn each<T: Element, I: Index>(
    spread: &Spread<T>,
    indexes: &[I],
    values: &[T],
    run: impl Fn(GlobalRef<'_, T>, T) -> GlobalResult<()>,
) -> GlobalResult<()> {
    if let [value] = *values {
        let chunked = (indexes, spread.len());
        return each_chunk(chunked, |_, some| spread.each(some, |_, element| run(element, value)));
    }
    each_chunk((indexes, spread.len()), |first, some| {
        let values = values.get(first..).unwrap_or_default();
        spread.each(some, |position, element| {
            values.get(position).map_or(Ok(()), |&value| run(element, value))
        })
    })
}

/// Reads the elements of `indexes`.
pub(crate) fn gather<T: Element, I: Index>(
    spread: &Spread<T>,
    indexes: &[I],
    to: &mut [T],
) -> GlobalResult<()> {
    each_chunk((indexes, spread.len()), |first, some| {
        let to = to.get_mut(first..first + some.len());
        to.map_or(Ok(()), |to| spread.gather(some, to))
    })
}

/// Reads elements of `size` bytes.
pub(crate) fn gather_raw<I: Index>(
    spread: &Spread<u8>,
    indexes: &[I],
    (layout, size): (&SpreadLayout, usize),
    to: &mut [u8],
) -> GlobalResult<()> {
    let places = indexes.iter().zip(to.chunks_exact_mut(size));
    spread.pgas().phase(|phase| {
        for (index, to) in places {
            if let Some(at) = pointer(spread, (layout, size), index.element(layout.len())) {
                phase.bulk_get(at, to)?;
            }
        }
        Ok(())
    })
}

/// Begins to write elements of `size` bytes.
pub(crate) fn put_raw<I: Index>(
    spread: &Spread<u8>,
    indexes: &[I],
    (layout, size): (&SpreadLayout, usize),
    from: &[u8],
) -> GlobalResult<()> {
    let one = from.len() == size;
    for (position, index) in indexes.iter().enumerate() {
        let begin = if one { 0 } else { position * size };
        let at = pointer(spread, (layout, size), index.element(layout.len()));
        if let (Some(at), Some(from)) = (at, from.get(begin..begin + size)) {
            spread.pgas().bulk_put(at, from)?;
        }
    }
    Ok(())
}

fn pointer(
    spread: &Spread<u8>,
    (layout, size): (&SpreadLayout, usize),
    index: usize,
) -> Option<clump::pgas::GlobalPtr<u8>> {
    let ElementPlace { rank, local } = layout.place(index)?;
    Some(spread.on(rank)?.offset_by((local * size) as isize))
}

/// Begins an update whose former value is given.
pub(crate) fn fetch<T: AtomicElement>(
    spread: &Spread<T>,
    update: Update,
    index: usize,
    value: T,
) -> GlobalResult<PendingElement<'_, T>> {
    match update {
        Update::Add => spread.at(index).fetch_add(value),
        Update::Min => spread.at(index).fetch_min(value),
        _ => spread.at(index).fetch_max(value),
    }
}

/// The error for an update that elements of a type do not have.
pub(crate) fn no_such_update(update: Update, dtype: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!(
        "elements of type {dtype} have no update {update:?}: integers have all, floats add, min and max"
    ))
}
