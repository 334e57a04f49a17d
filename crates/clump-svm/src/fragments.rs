//! Messages that are longer than one request between interfaces: cut, and put together again.

use clump_onesided::protocol::MAX_PIECE;
use std::borrow::Cow;
use std::collections::HashMap;

/// Longest message, in bytes: write notices of some ten million pages.
const MAX_MESSAGE: u64 = 64 << 20;

/// Part of a message: its number, the bytes of the whole, the first byte of the part.
pub(crate) type FragmentWords = [u64; 4];

/// Calls `each` with the parts of message number `id`.
pub(crate) fn cut(id: u64, message: Vec<u8>, mut each: impl FnMut(FragmentWords, Vec<u8>)) {
    debug_assert!(!message.is_empty(), "a message has a kind");
    debug_assert!(message.len() as u64 <= MAX_MESSAGE, "messages are bounded");
    let bytes = message.len() as u64;
    if message.len() <= MAX_PIECE {
        return each([id, bytes, 0, 0], message);
    }
    let first = (0..).step_by(MAX_PIECE);
    for (at, part) in first.zip(message.chunks(MAX_PIECE)) {
        each([id, bytes, at, 0], part.to_vec());
    }
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
    pub(crate) fn take<'a>(
        &mut self,
        node: u16,
        [id, bytes, at, _]: FragmentWords,
        part: &'a [u8],
    ) -> Result<Option<Cow<'a, [u8]>>, ()> {
        let len = part.len() as u64;
        let end = at.checked_add(len).filter(|&end| end <= bytes && len > 0);
        if bytes > MAX_MESSAGE || end.is_none() {
            return Err(());
        }
        if len == bytes {
            return Ok(Some(part.into()));
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
        Ok(self.partial.remove(&(node, id)).map(|(whole, _)| whole.into()))
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
        let mut parts = Vec::new();
        cut(9, message.clone(), |words, part| parts.push((words, part)));
        assert_eq!(parts.len(), 4);
        parts.reverse();
        let mut partial = PartialMessages::default();
        let last = parts.pop().unwrap();
        for (words, part) in parts {
            assert_eq!(partial.take(1, words, &part), Ok(None));
        }
        assert_eq!(partial.take(2, last.0, &last.1), Ok(None), "of another node");
        assert_eq!(partial.take(1, last.0, &last.1), Ok(Some(message.into())));
        assert_eq!(partial.bytes(), 3 * MAX_PIECE + 5, "that of the other node");
    }

    #[test]
    fn a_short_message_is_one_part() {
        let mut parts = Vec::new();
        cut(3, vec![7; MAX_PIECE], |words, part| parts.push((words, part)));
        let [(words, part)] = &parts[..] else { panic!("{parts:?}") };
        let taken = PartialMessages::default().take(1, *words, part);
        assert_eq!(taken, Ok(Some(Cow::Borrowed(&[7; MAX_PIECE][..]))));
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
