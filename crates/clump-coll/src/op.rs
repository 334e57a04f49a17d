//! Operations of an all-reduce on two values.

use crate::Plain;

/// Number type that all-reduce supports.
pub trait Number: Plain + Send + 'static {
    /// Returns the sum, wrapping for integers.
    fn plus(self, other: Self) -> Self;
    /// Returns the product, wrapping for integers.
    fn times(self, other: Self) -> Self;
    /// Returns the smaller; for floats, a number wins over a NaN.
    fn smaller(self, other: Self) -> Self;
    /// Returns the larger; for floats, a number wins over a NaN.
    fn larger(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($t:ty)+) => {$(
        impl Number for $t {
            fn plus(self, other: Self) -> Self { self.wrapping_add(other) }
            fn times(self, other: Self) -> Self { self.wrapping_mul(other) }
            fn smaller(self, other: Self) -> Self { self.min(other) }
            fn larger(self, other: Self) -> Self { self.max(other) }
        }
        impl Op<$t> for And { fn combine(a: $t, b: $t) -> $t { a & b } }
        impl Op<$t> for Or { fn combine(a: $t, b: $t) -> $t { a | b } }
        impl Op<$t> for Xor { fn combine(a: $t, b: $t) -> $t { a ^ b } }
    )+};
}
integers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);

macro_rules! floats {
    ($($t:ty)+) => {$(
        impl Number for $t {
            fn plus(self, other: Self) -> Self { self + other }
            fn times(self, other: Self) -> Self { self * other }
            fn smaller(self, other: Self) -> Self { self.min(other) }
            fn larger(self, other: Self) -> Self { self.max(other) }
        }
    )+};
}
floats!(f32 f64);

/// Operation that combines two values into one. `combine(a, b)` gets the value of the lower ranks
/// first.
pub trait Op<T> {
    /// Combines the value of lower ranks with that of higher ranks.
    fn combine(lower: T, higher: T) -> T;
}

macro_rules! ops {
    ($($name:ident $method:ident $doc:literal;)+) => {$(
        #[doc = $doc]
        #[derive(Debug, Clone, Copy)]
        pub struct $name;
        impl<T: Number> Op<T> for $name {
            fn combine(lower: T, higher: T) -> T { lower.$method(higher) }
        }
    )+};
}
ops! {
    Sum plus "Sum, wrapping for integers.";
    Product times "Product, wrapping for integers.";
    Min smaller "Smallest.";
    Max larger "Largest.";
}

/// Bitwise and.
#[derive(Debug, Clone, Copy)]
pub struct And;
/// Bitwise or.
#[derive(Debug, Clone, Copy)]
pub struct Or;
/// Bitwise exclusive or.
#[derive(Debug, Clone, Copy)]
pub struct Xor;
