//! The first word of a message on its way back: why, and what it was.

/// The one reason that an endpoint finds when it has consumed the message: no such handler.
pub const CONSUMED: u8 = 4;

/// What a returned message was when it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Original {
    /// Number of the reason.
    pub reason: u8,
    /// Number of its kind: 1 short, 2 medium, 3 long.
    pub kind: u8,
    /// The handler it was for.
    pub handler: u8,
    /// Whether it was a reply.
    pub reply: bool,
}

impl Original {
    /// As one word.
    pub fn pack(self) -> u64 {
        u64::from(self.reason)
            | u64::from(self.kind) << 8
            | u64::from(self.handler) << 16
            | u64::from(self.reply) << 24
    }

    /// Reads [`Original::pack`]; any word is read as something.
    pub fn unpack(word: u64) -> Self {
        let [reason, kind, handler, reply, ..] = word.to_le_bytes();
        Self { reason, kind, handler, reply: reply & 1 != 0 }
    }
}
