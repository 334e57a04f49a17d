//! The first word of a returned message: the reason, and the head of the original.

use crate::reason::Reason;

/// Head of a returned message as it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Original {
    /// Number of the reason.
    pub reason: u8,
    /// Number of its kind: 1 short, 2 medium, 3 long.
    pub kind: u8,
    /// The handler it was for.
    pub handler: u8,
    /// True if it was a reply.
    pub reply: bool,
}

impl Original {
    /// Packs it into one word.
    pub fn pack(self) -> u64 {
        let word = u64::from(self.reason)
            | u64::from(self.kind) << 8
            | u64::from(self.handler) << 16
            | u64::from(self.reply) << 24;
        debug_assert!(Self::unpack(word) == self, "the sender reads what was packed");
        word
    }

    /// Unpacks [`Original::pack`]; accepts any word.
    pub fn unpack(word: u64) -> Self {
        let [reason, kind, handler, reply, ..] = word.to_le_bytes();
        Self { reason, kind, handler, reply: reply & 1 != 0 }
    }

    /// Returns true if the endpoint that returned it had consumed it: it had no such handler.
    pub fn was_consumed(self) -> bool {
        self.reason == Reason::BadHandler as u8
    }
}
