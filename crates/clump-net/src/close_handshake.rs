//! The close handshake with one peer: the close is sent again until the peer has acknowledged it.

use clump_proto::Nanos;

/// A peer that has not answered after this time is told again that this stack is closed; every time
/// after twice as long, up to 32 times. Every answer of one peer triggers a check of the others, so
/// that without this they would all be told again each time.
const AGAIN_NS: Nanos = 1_000_000;
const MAX_DOUBLINGS: u32 = 5;

/// State of the close handshake with one peer.
#[derive(Debug, Default)]
pub(crate) struct CloseHandshake {
    /// True if the peer has seen that this stack is closed.
    pub(crate) seen: bool,
    told: u32,
    next_at: Nanos,
}

impl CloseHandshake {
    /// Returns true if the close is to be sent now; then it counts as sent.
    pub(crate) fn is_due(&mut self, now: Nanos) -> bool {
        debug_assert!((self.told > 0) == (self.next_at > 0), "once told, it waits");
        let due = !self.seen && (self.told == 0 || now >= self.next_at);
        if due {
            self.next_at = now.saturating_add(AGAIN_NS << self.told.min(MAX_DOUBLINGS));
            self.told += 1;
            debug_assert!(self.next_at > now, "it waits for an answer");
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_told_less_and_less_often_until_it_has_seen() {
        let mut close_handshake = CloseHandshake::default();
        let told: Vec<_> =
            (0..200_u64).filter(|ms| close_handshake.is_due(ms * AGAIN_NS)).collect();
        assert_eq!(told, [0, 1, 3, 7, 15, 31, 63, 95, 127, 159, 191]);
        close_handshake.seen = true;
        assert!(!close_handshake.is_due(Nanos::MAX));
    }
}
