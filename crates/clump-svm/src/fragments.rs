//! Messages that are longer than one request between interfaces: cut, and put together again.

use clump_rma::protocol::MAX_PIECE;
use std::collections::HashMap;

/// Longest message, in bytes: write notices of some ten million pages.
const MAX_MESSAGE: u64 = 64 << 20;

/// Part of a message: its number, the bytes of the whole, the first byte of the part.
pub(crate) type FragmentWords = [u64; 4];

/// Returns the parts of message number `id`.
pub(crate) fn cut(id: u64, message: &[u8]) -> impl Iterator<Item = (FragmentWords, &[u8])> {
    debug_assert!(!message.is_empty(), "a message has a kind");
    debug_assert!(message.len() as u64 <= MAX_MESSAGE, "messages are bounded");
    let bytes = message.len() as u64;
    let first = (0..).step_by(MAX_PIECE);
    first.zip(message.chunks(MAX_PIECE)).map(move |(at, part)| ([id, bytes, at, 0], part))
}

/// Messages of other nodes of which parts are missing.
#[derive(Debug, Default)]
pub(crate) struct PartialMessages {
    /// By node and number: the bytes, and how many of them are there.
    partial: HashMap<(u16, u64), (Vec<u8>, u64)>,
}

impl PartialMessages {
    /// Takes a part, which comes once. Returns the message once it is complete, and an error if the
    /// part is none.
    pub(crate) fn take(
        &mut self,
        node: u16,
        [id, bytes, at, _]: FragmentWords,
        part: &[u8],
    ) -> Result<Option<Vec<u8>>, ()> {
        let len = part.len() as u64;
        let end = at.checked_add(len).filter(|&end| end <= bytes && len > 0);
        if bytes > MAX_MESSAGE || end.is_none() {
            return Err(());
        }
        if len == bytes {
            return Ok(Some(part.to_vec()));
        }
        let empty = || (vec![0; bytes as usize], 0);
        let (whole, present) = self.partial.entry((node, id)).or_insert_with(empty);
        let place = whole.get_mut(at as usize..(at + len) as usize).ok_or(())?;
        place.copy_from_slice(part);
        *present += len;
        debug_assert!(*present <= bytes, "each part comes once");
        if *present < bytes {
            return Ok(None);
        }
        Ok(self.partial.remove(&(node, id)).map(|(whole, _)| whole))
    }

    /// Returns the bytes kept.
    pub(crate) fn bytes(&self) -> usize {
        self.partial.values().map(|(whole, _)| whole.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_may_come_in_any_order() {
        let message: Vec<u8> = (0..3 * MAX_PIECE + 5).map(|at| (at / 7) as u8).collect();
        let mut parts: Vec<_> = cut(9, &message).collect();
        assert_eq!(parts.len(), 4);
        parts.reverse();
        let mut partial = PartialMessages::default();
        let last = parts.pop().unwrap();
        for (words, part) in parts {
            assert_eq!(partial.take(1, words, part), Ok(None));
        }
        assert_eq!(partial.take(2, last.0, last.1), Ok(None), "of another node");
        assert_eq!(partial.take(1, last.0, last.1), Ok(Some(message)));
        assert_eq!(partial.bytes(), 3 * MAX_PIECE + 5, "that of the other node");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut partial = PartialMessages::default();
        assert_eq!(partial.take(0, [1, 4, 1, 0], &[0; 4]), Err(()));
        assert_eq!(partial.take(0, [1, 4, u64::MAX, 0], &[0; 4]), Err(()));
        assert_eq!(partial.take(0, [1, u64::MAX, 0, 0], &[0; 4]), Err(()));
        assert_eq!(partial.take(0, [1, 0, 0, 0], &[]), Err(()));
        assert_eq!(partial.bytes(), 0);
    }
}
