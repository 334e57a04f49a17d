//! Types of elements, and the atomics that they have.

use clump_rma::AtomicOp;
use private::NumberKind;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Type of the elements of global memory: values that are sent as they are in memory.
pub trait Element: FromBytes + IntoBytes + Immutable + Copy + 'static {}
impl<T: FromBytes + IntoBytes + Immutable + Copy + 'static> Element for T {}

/// Number type that has remote atomics: all integers of up to 64 bits, `f32` and `f64`.
///
/// The interface of a node executes those of 4 and 8 bytes. Those of narrower types are
/// compare-and-swaps by the caller, repeated until one succeeds; they are atomic with respect to
/// all others.
pub trait AtomicElement: Element + PartialEq + private::Sealed {}

/// Integer type, which also has bitwise atomics.
pub trait Bits: AtomicElement {}

mod private {
    /// Meaning of a number's bits.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum NumberKind {
        Unsigned,
        Signed,
        Float,
    }

    /// Implemented by number types only.
    pub trait Sealed {
        const KIND: NumberKind;
    }
}

macro_rules! numbers {
    ($($kind:ident: $($t:ty)+;)+) => {$($(
        impl private::Sealed for $t {
            const KIND: NumberKind = NumberKind::$kind;
        }
        impl AtomicElement for $t {}
    )+)+};
}
numbers! {
    Unsigned: u8 u16 u32 u64;
    Signed: i8 i16 i32 i64;
    Float: f32 f64;
}

macro_rules! bits {
    ($($t:ty)+) => {$(impl Bits for $t {})+};
}
bits!(u8 u16 u32 u64 i8 i16 i32 i64);

/// Returns the operation on whole words equivalent to `op` on elements of this type; `None` if they
/// are narrower.
#[inline(always)]
pub(crate) fn on_words<T: AtomicElement>(op: AtomicOp) -> Option<AtomicOp> {
    let op = match (T::KIND, op) {
        (NumberKind::Signed, AtomicOp::Min) => AtomicOp::MinSigned,
        (NumberKind::Signed, AtomicOp::Max) => AtomicOp::MaxSigned,
        (NumberKind::Float, AtomicOp::Add) => AtomicOp::AddFloat,
        (NumberKind::Float, AtomicOp::Min) => AtomicOp::MinFloat,
        (NumberKind::Float, AtomicOp::Max) => AtomicOp::MaxFloat,
        _ => op,
    };
    (size_of::<T>() >= 4).then_some(op)
}

/// Combines an integer that is no whole word with an operand.
pub(crate) fn combine_narrow<T: AtomicElement>(op: AtomicOp, before: T, operand: T) -> T {
    debug_assert!(T::KIND != NumberKind::Float, "all of these are whole words");
    let unused = 64 - 8 * size_of::<T>() as u32;
    let widened = |value: T| {
        let word = (to_word(value) << unused).cast_signed();
        let unsigned = (word.cast_unsigned() >> unused).cast_signed();
        if T::KIND == NumberKind::Signed { word >> unused } else { unsigned }
    };
    let (before, operand) = (widened(before), widened(operand));
    let after = match op {
        AtomicOp::Add => before + operand,
        AtomicOp::And => before & operand,
        AtomicOp::Or => before | operand,
        AtomicOp::Xor => before ^ operand,
        AtomicOp::Min => before.min(operand),
        AtomicOp::Max => before.max(operand),
        _ => {
            debug_assert!(
                matches!(op, AtomicOp::Store | AtomicOp::Swap),
                "{op:?} combines nothing"
            );
            operand
        }
    };
    // The lowest bits are those of the narrower sum, too.
    from_word(after.cast_unsigned())
}

/// Returns the bytes of a value of up to eight bytes, as the lowest of a word.
#[inline(always)]
pub(crate) fn to_word<T: Element>(value: T) -> u64 {
    let mut word = [0; 8];
    debug_assert!(size_of::<T>() <= word.len(), "longer elements are no words");
    if let Some(bytes) = word.get_mut(..size_of::<T>()) {
        bytes.copy_from_slice(value.as_bytes());
    }
    u64::from_le_bytes(word)
}

/// Returns the value whose bytes are the lowest of a word.
#[inline(always)]
pub(crate) fn from_word<T: Element>(word: u64) -> T {
    debug_assert!(size_of::<T>() <= 8, "longer elements are no words");
    T::read_from_prefix(&word.to_le_bytes()).map_or_else(|_| T::new_zeroed(), |(value, _)| value)
}
