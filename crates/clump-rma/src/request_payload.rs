//! Payloads of requests.

/// Data that a request carries besides words.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RequestPayload<'a> {
    Nothing,
    Bytes(&'a [u8]),
    /// Deposited at this offset of the interface's segment.
    Deposit(u64, &'a [u8]),
}

impl RequestPayload<'_> {
    /// Returns its length.
    pub(crate) fn len(&self) -> usize {
        let bytes = match self {
            RequestPayload::Nothing => 0,
            RequestPayload::Bytes(bytes) | RequestPayload::Deposit(_, bytes) => bytes.len(),
        };
        debug_assert!(isize::try_from(bytes).is_ok(), "a slice");
        bytes
    }
}
