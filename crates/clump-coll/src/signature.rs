//! Signature of a collective: an operation and its size, which its ranks must agree about. It
//! travels with every contribution, so that ranks that call different collectives, or of different
//! sizes, get an error and do not wait for each other.

use crate::choice::Operation;
use std::fmt;

/// An operation, and the bytes that each rank gives where all must give equally many; as a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Signature(u64);

/// Bits of the bytes, plus one.
const SIZE_BITS: u32 = 56;

impl Signature {
    /// Of collectives in two phases, which fits any.
    pub(crate) const ANY: Self = Self(0);

    /// Returns that of an operation; `bytes`: `None` where each rank gives as many as it likes.
    pub(crate) fn of(operation: Operation, bytes: Option<usize>) -> Self {
        let place = operation as u64;
        debug_assert!(Operation::ALL.get(place as usize) == Some(&operation), "in their order");
        let size = bytes.map_or(0, |bytes| bytes as u64 + 1);
        debug_assert!(size < 1 << SIZE_BITS, "collectives refuse as many");
        Self((place + 1) << SIZE_BITS | size)
    }

    /// Returns the place of the operation in the table of all, from 1.
    pub(crate) fn operation(self) -> u8 {
        (self.0 >> SIZE_BITS) as u8
    }

    /// Returns that of an operation of any size, given by its place.
    pub(crate) fn of_operation(place: u8) -> Self {
        Self(u64::from(place) << SIZE_BITS)
    }

    /// Returns the one that a message says.
    pub(crate) fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// Returns the word of a message.
    pub(crate) fn word(self) -> u64 {
        self.0
    }

    /// Returns true if one collective may have both.
    pub(crate) fn fits(self, other: Self) -> bool {
        self == other || self == Self::ANY || other == Self::ANY
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.operation().checked_sub(1);
        let operation = place.and_then(|place| Operation::ALL.get(usize::from(place)));
        f.write_str(operation.map_or("collective", |it| it.name()))?;
        match (self.0 & ((1 << SIZE_BITS) - 1)).checked_sub(1) {
            Some(bytes) => write!(f, " of {bytes} bytes"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observers_know_each_operation_by_its_place() {
        for (operation, name) in Operation::ALL.into_iter().zip(clump_shm::rank::COLLECTIVES) {
            let place = usize::from(Signature::of(operation, None).operation());
            assert_eq!((operation.name(), clump_shm::rank::COLLECTIVES[place - 1]), (name, name));
        }
        assert_eq!(Operation::ALL.len(), clump_shm::rank::COLLECTIVES.len());
    }

    #[test]
    fn a_signature_tells_operations_and_sizes_apart() {
        let sized = Signature::of(Operation::AllToAll, Some(16));
        assert_eq!(sized.to_string(), "all-to-all of 16 bytes");
        assert_eq!(Signature::of(Operation::Gather, None).to_string(), "gather");
        let others = [
            Signature::of(Operation::AllToAll, Some(0)),
            Signature::of(Operation::AllToAll, None),
            Signature::of(Operation::Scatter, Some(16)),
        ];
        assert!(others.iter().all(|other| !sized.fits(*other) && Signature::ANY.fits(*other)));
        assert!(sized.fits(Signature::from_word(sized.word())));
        assert_eq!(Signature::of_operation(sized.operation()).to_string(), "all-to-all");
        // A word that no rank of this version sends.
        assert_eq!(
            Signature::from_word(u64::MAX).to_string(),
            format!("collective of {} bytes", (1u64 << 56) - 2)
        );
    }
}
