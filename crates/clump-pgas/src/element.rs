//! Types of elements, and the atomics that they have.

use clump_rma::AtomicOp;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Type of the elements of global memory: values that travel as they lie in memory.
pub trait Element: FromBytes + IntoBytes + Immutable + Copy + 'static {}
impl<T: FromBytes + IntoBytes + Immutable + Copy + 'static> Element for T {}

/// Number type that has remote atomics: all integers of up to 64 bits, `f32` and `f64`.
///
/// The interface of a node executes what [`AtomicElement::DIRECT`] names, on words of 4 and 8
/// bytes. Other operations (those of narrower types, minimum and maximum of signed ones, and
/// arithmetic of floats) are compare-and-swaps from here, repeated until one succeeds; they are
/// atomic with respect to all others.
pub trait AtomicElement: Element + PartialEq + private::Sealed {
    /// Operations that the interface executes on a whole word of this type.
    const DIRECT: &'static [AtomicOp];

    /// Combines an element with an operand, as `op` does.
    #[doc(hidden)]
    fn combine(op: AtomicOp, before: Self, operand: Self) -> Self;
}

/// Integer type, which also has bitwise atomics.
pub trait Bits: AtomicElement {}

mod private {
    /// Implemented by number types only.
    pub trait Sealed {}
}

/// Operations that work on the bits of a word, whatever they mean.
const PLAIN: &[AtomicOp] = &[AtomicOp::Load, AtomicOp::Store, AtomicOp::Swap];

/// Those, and operations that are alike for signed and unsigned integers.
const SIGNED: &[AtomicOp] = &[
    AtomicOp::Load,
    AtomicOp::Store,
    AtomicOp::Swap,
    AtomicOp::Add,
    AtomicOp::And,
    AtomicOp::Or,
    AtomicOp::Xor,
];

macro_rules! integers {
    ($($t:ty, $direct:expr;)+) => {$(
        impl private::Sealed for $t {}
        impl Bits for $t {}
        impl AtomicElement for $t {
            const DIRECT: &'static [AtomicOp] = $direct;

            fn combine(op: AtomicOp, before: Self, operand: Self) -> Self {
                match op {
                    AtomicOp::Load => before,
                    AtomicOp::Store | AtomicOp::Swap | AtomicOp::CompareSwap => operand,
                    AtomicOp::Add => before.wrapping_add(operand),
                    AtomicOp::And => before & operand,
                    AtomicOp::Or => before | operand,
                    AtomicOp::Xor => before ^ operand,
                    AtomicOp::Min => before.min(operand),
                    AtomicOp::Max => before.max(operand),
                }
            }
        }
    )+};
}
integers! {
    u64, &AtomicOp::ALL;
    u32, &AtomicOp::ALL;
    i64, SIGNED;
    i32, SIGNED;
    u16, &[];
    i16, &[];
    u8, &[];
    i8, &[];
}

macro_rules! floats {
    ($($t:ty)+) => {$(
        impl private::Sealed for $t {}
        impl AtomicElement for $t {
            const DIRECT: &'static [AtomicOp] = PLAIN;

            fn combine(op: AtomicOp, before: Self, operand: Self) -> Self {
                match op {
                    AtomicOp::Add => before + operand,
                    AtomicOp::Min => before.min(operand),
                    AtomicOp::Max => before.max(operand),
                    AtomicOp::Store | AtomicOp::Swap | AtomicOp::CompareSwap => operand,
                    AtomicOp::Load | AtomicOp::And | AtomicOp::Or | AtomicOp::Xor => before,
                }
            }
        }
    )+};
}
floats!(f32 f64);

/// Returns true if the interface executes `op` on words of this type.
#[inline(always)]
pub(crate) fn is_direct<T: AtomicElement>(op: AtomicOp) -> bool {
    T::DIRECT.contains(&op)
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
