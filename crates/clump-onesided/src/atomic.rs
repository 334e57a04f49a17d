//! Atomic operations on words of a segment: the same code for local ranks and for network
//! interfaces, so that both agree.

use clump_os::sync::{AtomicU32, AtomicU64, Ordering};
use clump_shm::cells::Cells;

/// Operation on a word; all but the first four combine the word with one operand. Where numbers
/// have a sign or a point, so do the bits of word and operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum AtomicOp {
    /// Reads the word.
    Load = 0,
    /// Writes the word.
    Store = 1,
    /// Writes the word and returns its previous value.
    Swap = 2,
    /// Writes the operand if the word is the other operand.
    CompareSwap = 3,
    /// Adds, wrapping around.
    Add = 4,
    /// Keeps the bits set in both.
    And = 5,
    /// Sets the bits set in either.
    Or = 6,
    /// Sets the bits that differ.
    Xor = 7,
    /// Keeps the smaller, as unsigned numbers.
    Min = 8,
    /// Keeps the larger, as unsigned numbers.
    Max = 9,
    /// Keeps the smaller, as signed numbers.
    MinSigned = 10,
    /// Keeps the larger, as signed numbers.
    MaxSigned = 11,
    /// Adds, as floating-point numbers.
    AddFloat = 12,
    /// Keeps the smaller, as floating-point numbers; of a number and a NaN, the number.
    MinFloat = 13,
    /// Keeps the larger, as floating-point numbers; of a number and a NaN, the number.
    MaxFloat = 14,
}

impl AtomicOp {
    /// All operations.
    pub const ALL: [Self; 15] = [
        Self::Load,
        Self::Store,
        Self::Swap,
        Self::CompareSwap,
        Self::Add,
        Self::And,
        Self::Or,
        Self::Xor,
        Self::Min,
        Self::Max,
        Self::MinSigned,
        Self::MaxSigned,
        Self::AddFloat,
        Self::MinFloat,
        Self::MaxFloat,
    ];

    /// Returns true if an operation is made for the value that it finds, so that it is answered.
    pub fn is_answered(self) -> bool {
        matches!(self, Self::Load | Self::Swap | Self::CompareSwap)
    }

    /// Reads an operation from a request; `None` if there is none of that number.
    pub fn from_bits(bits: u8) -> Option<Self> {
        let op = Self::ALL.get(usize::from(bits)).copied();
        debug_assert!(op.is_none_or(|op| op as u8 == bits), "they are in order of their numbers");
        op
    }
}

/// Size of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// Eight bytes.
    Word,
    /// Four bytes.
    Half,
}

/// Memory ordering of read-modify-write operations. Acquire and release, so that a rank that reads
/// the result of an operation sees everything written before it.
const BOTH: Ordering = Ordering::AcqRel;

macro_rules! apply {
    ($cell:expr, $op:expr, $operand:expr, $other:expr) => {{
        let (cell, operand, other) = ($cell, $operand, $other);
        match $op {
            AtomicOp::Load => cell.load(Ordering::Acquire),
            AtomicOp::Store => {
                cell.store(operand, Ordering::Release);
                operand
            }
            AtomicOp::Swap => cell.swap(operand, BOTH),
            AtomicOp::CompareSwap => {
                cell.compare_exchange(other, operand, BOTH, Ordering::Acquire).unwrap_or_else(|v| v)
            }
            AtomicOp::Add => cell.fetch_add(operand, BOTH),
            AtomicOp::And => cell.fetch_and(operand, BOTH),
            AtomicOp::Or => cell.fetch_or(operand, BOTH),
            AtomicOp::Xor => cell.fetch_xor(operand, BOTH),
            AtomicOp::Min => cell.fetch_min(operand, BOTH),
            AtomicOp::Max => cell.fetch_max(operand, BOTH),
            op => {
                let mut before = cell.load(Ordering::Relaxed);
                loop {
                    let after = Self::combine(op, before, operand);
                    match cell.compare_exchange_weak(before, after, BOTH, Ordering::Relaxed) {
                        Ok(_) => break before,
                        Err(now) => before = now,
                    }
                }
            }
        }
    }};
}

mod sealed {
    /// Implemented by the two word types of this module only.
    pub trait Sealed {}
    impl Sealed for u64 {}
    impl Sealed for u32 {}
}

/// Word types that operations work on: `u64` and `u32`.
pub trait Word: Copy + PartialEq + PartialOrd + sealed::Sealed + 'static {
    #[doc(hidden)]
    type Cell;
    #[doc(hidden)]
    const WIDTH: Width;
    #[doc(hidden)]
    fn to_bits(self) -> u64;
    #[doc(hidden)]
    fn from_bits(bits: u64) -> Self;
    /// Returns the word at `offset`; `None` when it is not inside, or not aligned.
    #[doc(hidden)]
    fn find(cells: &Cells, offset: u64) -> Option<&Self::Cell>;
    /// Executes `op`. Returns the previous value.
    #[doc(hidden)]
    fn apply(cell: &Self::Cell, op: AtomicOp, operand: Self, other: Self) -> Self;
    /// Returns what an operation that processors do not have makes of a word.
    #[doc(hidden)]
    fn combine(op: AtomicOp, before: Self, operand: Self) -> Self;
    /// Reads the word, unordered with anything else.
    #[doc(hidden)]
    fn read(cell: &Self::Cell) -> Self;
    /// Writes the word, unordered with anything else.
    #[doc(hidden)]
    fn write(cell: &Self::Cell, value: Self);
}

macro_rules! word {
    ($word:ty, $signed:ty, $float:ty, $cell:ty, $find:ident, $width:expr) => {
        impl Word for $word {
            type Cell = $cell;
            const WIDTH: Width = $width;

            #[inline(always)]
            fn to_bits(self) -> u64 {
                u64::from(self)
            }

            #[inline(always)]
            fn from_bits(bits: u64) -> Self {
                bits as Self
            }

            #[inline(always)]
            fn find(cells: &Cells, offset: u64) -> Option<&$cell> {
                cells.$find(offset)
            }

            #[inline(always)]
            fn apply(cell: &$cell, op: AtomicOp, operand: Self, other: Self) -> Self {
                apply!(cell, op, operand, other)
            }

            #[inline(always)]
            fn combine(op: AtomicOp, before: Self, operand: Self) -> Self {
                let signed = |combine: fn($signed, $signed) -> $signed| {
                    combine(before.cast_signed(), operand.cast_signed()).cast_unsigned()
                };
                let float = |combine: fn($float, $float) -> $float| {
                    combine(<$float>::from_bits(before), <$float>::from_bits(operand)).to_bits()
                };
                match op {
                    AtomicOp::MinSigned => signed(Ord::min),
                    AtomicOp::MaxSigned => signed(Ord::max),
                    AtomicOp::AddFloat => float(std::ops::Add::add),
                    AtomicOp::MinFloat => float(<$float>::min),
                    AtomicOp::MaxFloat => float(<$float>::max),
                    _ => {
                        clump_bug::bug!("processors execute {op:?}");
                        before
                    }
                }
            }

            #[inline(always)]
            fn read(cell: &$cell) -> Self {
                cell.load(Ordering::Relaxed)
            }

            #[inline(always)]
            fn write(cell: &$cell, value: Self) {
                cell.store(value, Ordering::Relaxed);
            }
        }
    };
}

word!(u64, i64, f64, AtomicU64, word, Width::Word);
word!(u32, i32, f32, AtomicU32, half, Width::Half);

/// Result type of an operation.
pub trait Given: Sized {
    #[doc(hidden)]
    fn from_word(bits: u64) -> Self;
}

impl<T: Word> Given for T {
    fn from_word(bits: u64) -> Self {
        T::from_bits(bits)
    }
}

impl Given for () {
    fn from_word(_: u64) -> Self {}
}

/// Executes `op` on a word of `width`; operands and result are 64 bits wide. Returns the previous
/// value; `None` when the word is not inside, or not aligned.
#[inline]
pub fn execute(
    cells: &Cells,
    offset: u64,
    (op, width): (AtomicOp, Width),
    (operand, other): (u64, u64),
) -> Option<u64> {
    match width {
        Width::Word => Some(u64::apply(cells.word(offset)?, op, operand, other)),
        Width::Half => {
            let before = u32::apply(cells.half(offset)?, op, operand as u32, other as u32);
            Some(before.into())
        }
    }
}

/// Comparison that ends a wait for a word; numbers are unsigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Comparison {
    /// The word equals the value.
    Equal = 0,
    /// The word differs from the value.
    NotEqual = 1,
    /// The word is greater than or equal to the value.
    AtLeast = 2,
    /// The word is less than or equal to the value.
    AtMost = 3,
}

impl Comparison {
    /// Reads a comparison from a request; `None` if there is none of that number.
    pub fn from_bits(bits: u64) -> Option<Self> {
        let comparison = match bits {
            0 => Self::Equal,
            1 => Self::NotEqual,
            2 => Self::AtLeast,
            3 => Self::AtMost,
            _ => return None,
        };
        debug_assert_eq!(comparison as u64, bits, "requests carry its number");
        Some(comparison)
    }

    /// Returns true if `word` compares to `value` in this way.
    #[inline]
    pub fn holds(self, word: u64, value: u64) -> bool {
        match self {
            Self::Equal => word == value,
            Self::NotEqual => word != value,
            Self::AtLeast => word >= value,
            Self::AtMost => word <= value,
        }
    }
}
