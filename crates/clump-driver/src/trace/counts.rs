//! Counts of a capture.

/// Counts of datagrams that went through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TraceCounts {
    /// In the capture.
    pub written: u64,
    /// Left out, because the capture was full or could not be written.
    pub left_out: u64,
}
