//! Bounds of a capture.

/// Bounds of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceLimits {
    /// Bytes of the whole capture.
    pub bytes: u64,
    /// Bytes kept of each packet, its IP and UDP headers (28 or 48) included.
    pub packet_bytes: usize,
}

impl Default for TraceLimits {
    /// Returns 64 MiB, packets whole.
    fn default() -> Self {
        Self { bytes: 64 << 20, packet_bytes: 65_575 }
    }
}
