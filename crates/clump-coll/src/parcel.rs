//! Byte strings of several ranks in one contribution: their number, their lengths, their bytes.

use crate::mailbox::PartMismatch;
use clump_am::{ErrorKind, Result};

const WORD: usize = size_of::<u64>();

/// Packs byte strings, in order. The result is never empty.
pub(crate) fn pack<B: AsRef<[u8]>>(parts: &[B]) -> Result<Vec<u8>> {
    let bytes: usize = parts.iter().map(|part| part.as_ref().len()).sum();
    let all = (parts.len() + 1) * WORD + bytes;
    let mut parcel = Vec::new();
    parcel.try_reserve_exact(all).map_err(|_| ErrorKind::NoMemory(all))?;
    let lengths = parts.iter().map(|part| part.as_ref().len());
    for word in std::iter::once(parts.len()).chain(lengths) {
        parcel.extend_from_slice(&(word as u64).to_le_bytes());
    }
    parts.iter().for_each(|part| parcel.extend_from_slice(part.as_ref()));
    debug_assert_eq!(parcel.len(), all, "nothing else is in it");
    Ok(parcel)
}

/// Unpacks the parcel of `expected` strings that rank `from` sent for collective `seq`.
///
/// # Errors
/// It is no such parcel.
pub(crate) fn unpack(
    parcel: &[u8],
    expected: usize,
    (from, seq): (u32, u64),
) -> std::result::Result<Vec<Vec<u8>>, PartMismatch> {
    let unfit = PartMismatch::Pieces { from, seq };
    let (words, _) = parcel.as_chunks::<WORD>();
    let word = |at: usize| words.get(at).map(|word| u64::from_le_bytes(*word));
    if word(0) != Some(expected as u64) {
        return Err(unfit);
    }
    let mut rest = parcel.get((expected + 1) * WORD..).ok_or(unfit)?;
    let mut parts = Vec::with_capacity(expected);
    for at in 1..=expected {
        let bytes = word(at).and_then(|bytes| usize::try_from(bytes).ok()).ok_or(unfit)?;
        let (part, behind) = rest.split_at_checked(bytes).ok_or(unfit)?;
        parts.push(part.to_vec());
        rest = behind;
    }
    if rest.is_empty() { Ok(parts) } else { Err(unfit) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..9))
        {
            let parcel = pack(&parts).unwrap();
            prop_assert_eq!(unpack(&parcel, parts.len(), (1, 2)), Ok(parts.clone()));
            let unfit = Err(PartMismatch::Pieces { from: 1, seq: 2 });
            prop_assert_eq!(unpack(&parcel, parts.len() + 1, (1, 2)), unfit.clone());
            prop_assert_eq!(unpack(&[&parcel[..], &[0]].concat(), parts.len(), (1, 2)), unfit);
        }

        #[test]
        fn nonsense_is_refused_or_understood(
            parcel in prop::collection::vec(any::<u8>(), 0..64), expected in 0usize..9)
        {
            if let Ok(parts) = unpack(&parcel, expected, (0, 0)) {
                prop_assert_eq!(pack(&parts).unwrap(), parcel);
            }
        }
    }
}
