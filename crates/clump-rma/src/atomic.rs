//! Atomic operations on words of a segment: the same code for local ranks and for network interfaces, so
//! that both agree.

use clump_os::sync::{AtomicU32, AtomicU64, Ordering};
use clump_shm::cells::Cells;

/// What is done to a word; all but the first four with the word and one operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum AtomicOp {
    /// Reads it.
    Load = 0,
    /// Writes it.
    Store = 1,
    /// Writes it and gives what was there.
    Swap = 2,
    /// Writes the operand if the word is the other operand.
    CompareSwap = 3,
    /// Adds, wrapping around.
    Add = 4,
    /// Keeps the bits of both.
    And = 5,
    /// Sets the bits of either.
    Or = 6,
    /// Sets the bits that differ.
    Xor = 7,
    /// Keeps the smaller, as numbers without sign.
    Min = 8,
    /// Keeps the larger, as numbers without sign.
    Max = 9,
}

impl AtomicOp {
    /// All of them.
    pub const ALL: [Self; 10] = [
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
    ];

    pub(crate) fn from_bits(bits: u8) -> Option<Self> {
        Self::ALL.get(usize::from(bits)).copied()
    }
}

/// Bytes of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// Eight.
    Word,
    /// Four.
    Half,
}

/// How the operations of all ranks on one word follow each other: acquire and release, so that who reads
/// what an operation wrote sees what was written before it.
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
        }
    }};
}

mod sealed {
    /// Only the two words of this module.
    pub trait Sealed {}
    impl Sealed for u64 {}
    impl Sealed for u32 {}
}

/// Words that operations work on: `u64` and `u32`.
pub trait Word: Copy + PartialEq + PartialOrd + sealed::Sealed + 'static {
    #[doc(hidden)]
    type Cell;
    #[doc(hidden)]
    const WIDTH: Width;
    #[doc(hidden)]
    fn to_bits(self) -> u64;
    #[doc(hidden)]
    fn from_bits(bits: u64) -> Self;
    /// The word at `offset`; `None` when it is not inside, or not aligned.
    #[doc(hidden)]
    fn find(cells: &Cells, offset: u64) -> Option<&Self::Cell>;
    /// Executes `op`; gives what was there before.
    #[doc(hidden)]
    fn apply(cell: &Self::Cell, op: AtomicOp, operand: Self, other: Self) -> Self;
    /// Reads the word, in no order with anything else.
    #[doc(hidden)]
    fn read(cell: &Self::Cell) -> Self;
    /// Writes the word, in no order with anything else.
    #[doc(hidden)]
    fn write(cell: &Self::Cell, value: Self);
}

macro_rules! word {
    ($word:ty, $cell:ty, $find:ident, $width:expr) => {
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

word!(u64, AtomicU64, word, Width::Word);
word!(u32, AtomicU32, half, Width::Half);

/// Executes `op` on a word of `width`; operands and result as 64 bits.
pub(crate) fn execute(
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

/// How a word is compared while somebody waits for it; numbers have no sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Comparison {
    /// It is the value.
    Equal = 0,
    /// It is not.
    NotEqual = 1,
    /// It is greater than the value, or the value.
    AtLeast = 2,
    /// It is less than the value, or the value.
    AtMost = 3,
}

impl Comparison {
    pub(crate) fn from_bits(bits: u64) -> Option<Self> {
        Some(match bits {
            0 => Self::Equal,
            1 => Self::NotEqual,
            2 => Self::AtLeast,
            3 => Self::AtMost,
            _ => return None,
        })
    }

    /// Whether `word` compares so to `value`.
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
