//! Words of a message as programs write them: integers and tuples instead of slices of `u64`.
//!
//! C++ encodes values in the same bits, so ranks written in either language understand each other.

use crate::message::MAX_ARGUMENTS;
use std::borrow::Borrow;

/// A value that travels as one word of a message: an integer, a `bool`, a float.
///
/// The receiver takes as many of the low bits as its type has: a sent `-1_i32` arrives as -1 in
/// handlers that take `i32` or `i64`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not travel as a word of a message",
    note = "words are integers of up to 64 bits, `bool`, `f32` and `f64`; anything else goes into the payload"
)]
pub trait Word: Copy + 'static {
    /// Returns the value as a word.
    fn to_word(self) -> u64;
    /// Decodes a value from a word.
    fn from_word(word: u64) -> Self;
}

macro_rules! word_types {
    ($($type:ty: $to:expr, $from:expr;)*) => {$(
        impl Word for $type {
            #[inline(always)]
            fn to_word(self) -> u64 {
                $to(self)
            }

            #[inline(always)]
            fn from_word(word: u64) -> Self {
                $from(word)
            }
        }
    )*};
}
macro_rules! integers {
    ($($integer:ty)*) => {
        word_types! { $($integer: |value| value as u64, |word| word as $integer;)* }
    };
}
integers!(usize i8 i16 i32 i64 isize);
word_types! {
    u8: u64::from, |word| word as u8;
    u16: u64::from, |word| word as u16;
    u32: u64::from, |word| word as u32;
    u64: std::convert::identity, std::convert::identity;
    bool: u64::from, |word| word != 0;
    f32: |value: f32| u64::from(value.to_bits()), |word| f32::from_bits(word as u32);
    f64: f64::to_bits, f64::from_bits;
}

/// The words of a message that is sent: one [`Word`], a tuple of up to eight, `()`, or words that
/// are encoded already (`&[u64]`, `&[u64; N]`).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the words of a message",
    note = "give one word, a tuple of up to eight words, `()`, or a slice of `u64`"
)]
pub trait Words {
    /// The encoded words.
    type Encoded: Borrow<[u64]>;
    /// Encodes the words.
    fn encode(self) -> Self::Encoded;
}

/// The words that a handler takes: one [`Word`], a tuple of up to eight, `()`, or `[u64; N]`.
#[diagnostic::on_unimplemented(
    message = "a handler does not take `{Self}` as the words of its message",
    note = "take one word (`|token, i: u64|`), a tuple of up to eight (`|token, (i, x): (u64, f64)|`), \
            `()`, or `[u64; N]`"
)]
pub trait FromWords: Sized + 'static {
    /// Decodes a message's words; `None` if their number is wrong.
    fn decode(words: &[u64]) -> Option<Self>;
}

macro_rules! encoded {
    ($([$($n:tt)*] $type:ty;)*) => {$(
        impl<'a, $($n)*> Words for &'a $type {
            type Encoded = &'a [u64];

            #[inline(always)]
            fn encode(self) -> &'a [u64] {
                self
            }
        }
    )*};
}
encoded! {
    [] [u64];
    [const N: usize] [u64; N];
    [] Vec<u64>;
}

impl<const N: usize> FromWords for [u64; N] {
    #[inline(always)]
    fn decode(words: &[u64]) -> Option<Self> {
        const { assert!(N <= MAX_ARGUMENTS, "a message carries at most eight words") };
        words.try_into().ok()
    }
}

impl<W: Word> Words for W {
    type Encoded = [u64; 1];

    #[inline(always)]
    fn encode(self) -> [u64; 1] {
        [self.to_word()]
    }
}

impl<W: Word> FromWords for W {
    #[inline(always)]
    fn decode(words: &[u64]) -> Option<Self> {
        match words {
            [word] => Some(W::from_word(*word)),
            _ => None,
        }
    }
}

macro_rules! tuples {
    ($($count:literal: $($type:ident $word:ident),*;)*) => {$(
        impl<$($type: Word),*> Words for ($($type,)*) {
            type Encoded = [u64; $count];

            #[inline(always)]
            fn encode(self) -> [u64; $count] {
                let ($($word,)*) = self;
                [$($word.to_word()),*]
            }
        }

        impl<$($type: Word),*> FromWords for ($($type,)*) {
            #[inline(always)]
            fn decode(words: &[u64]) -> Option<Self> {
                match words {
                    [$($word),*] => Some(($($type::from_word(*$word),)*)),
                    _ => None,
                }
            }
        }
    )*};
}
tuples! {
    0: ;
    1: A a;
    2: A a, B b;
    3: A a, B b, C c;
    4: A a, B b, C c, D d;
    5: A a, B b, C c, D d, E e;
    6: A a, B b, C c, D d, E e, F f;
    7: A a, B b, C c, D d, E e, F f, G g;
    8: A a, B b, C c, D d, E e, F f, G g, H h;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back<T: Words + FromWords + Copy + PartialEq>(words: T) -> bool {
        T::decode(words.encode().borrow()) == Some(words)
    }

    #[test]
    fn words_of_every_type_come_back() {
        assert!(there_and_back(u64::MAX) && there_and_back(i64::MIN) && there_and_back(-1_i8));
        assert!(there_and_back((1_u8, -2_i16, 3_u32, -4_i32, true, 0.5_f32, -0.25_f64, 8_usize)));
        assert!(there_and_back(()) && there_and_back((7_u64,)));
    }

    #[test]
    fn another_number_of_words_is_refused() {
        assert_eq!(u64::decode(&[]), None);
        assert_eq!(u64::decode(&[1, 2]), None);
        assert_eq!(<()>::decode(&[1]), None);
        assert_eq!(<(u64, u64)>::decode(&[1]), None);
        assert_eq!(<[u64; 2]>::decode(&[1, 2, 3]), None);
    }

    #[test]
    fn a_wider_type_keeps_the_sign() {
        assert_eq!(i64::decode(&(-1_i32).encode()), Some(-1));
        assert_eq!(i32::decode(&(-1_i64).encode()), Some(-1));
    }
}
