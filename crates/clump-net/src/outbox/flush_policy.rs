//! Amount of waiting data that one flush sends.

/// Part of the waiting units that is sent now; the rest waits for more messages to share packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlushPolicy {
    /// All of it.
    Any,
    /// Only whole units.
    Whole,
    /// Nothing, unless there are many whole units.
    Batch,
}
