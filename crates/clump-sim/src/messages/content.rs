//! Contents of messages. All of it follows from the message's number, so a receiver can check that
//! a message is intact.

use crate::kernel::mix;

/// Returns word `index` of the pattern of `id`.
#[inline]
fn pattern(id: u64, index: u64) -> u64 {
    // One round suffices: no two places of two messages may have equal contents, nothing more.
    mix(id.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index.wrapping_add(0x5bf0_3635))
}

/// Fills `into` with the payload of message `id`.
pub(crate) fn fill(id: u64, into: &mut [u8]) {
    for (index, chunk) in (0..).zip(into.chunks_mut(8)) {
        chunk.copy_from_slice(&pattern(id, index).to_le_bytes()[..chunk.len()]);
    }
}

/// Returns true if `data` equals the payload of message `id` from offset `at`.
pub(crate) fn is_intact(id: u64, at: u64, data: &[u8]) -> bool {
    let skew = (at % 8) as usize;
    let (first, rest) = data.split_at(data.len().min((8 - skew) % 8));
    let start = pattern(id, at / 8).to_le_bytes();
    if !first.is_empty() && *first != start[skew..skew + first.len()] {
        return false;
    }
    let from = at.div_ceil(8);
    (from..)
        .zip(rest.chunks(8))
        .all(|(index, chunk)| *chunk == pattern(id, index).to_le_bytes()[..chunk.len()])
}

/// Returns the number of words that message `id` has after its number.
pub(crate) fn more_words(id: u64) -> usize {
    (pattern(id, u64::MAX) % 7) as usize
}

/// Returns the words of message `id`, its number first.
pub(crate) fn words(id: u64) -> impl Iterator<Item = u64> {
    let more = (0..more_words(id) as u64).map(move |index| pattern(!id, index));
    std::iter::once(id).chain(more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_piece_of_a_payload_can_be_checked() {
        let mut payload = vec![0; 1003];
        fill(42, &mut payload);
        for (at, bytes) in [(0, 1003), (1, 2), (5, 20), (8, 8), (7, 1), (1000, 3), (13, 0)] {
            assert!(is_intact(42, at as u64, &payload[at..at + bytes]), "{at} {bytes}");
        }
        assert!(!is_intact(43, 0, &payload));
        payload[501] ^= 1;
        assert!(!is_intact(42, 496, &payload[496..600]));
        assert!(is_intact(42, 502, &payload[502..]));
        assert!(!is_intact(42, 501, &payload[501..502]));
    }

    #[test]
    fn messages_have_at_max_seven_words() {
        for id in 0..1000 {
            assert!((1..=7).contains(&words(id).count()));
        }
    }
}
