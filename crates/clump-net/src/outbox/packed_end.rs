//! End of the data packed for a peer.

/// Numbers of units of bulk, and of control messages, up to some moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PackedEnd {
    /// Units of bulk.
    pub(super) bulk: u64,
    /// Units of control messages, which go ahead of bulk.
    pub(super) control: u64,
}

impl PackedEnd {
    /// Returns true if `other` counts no unit that this does not.
    #[inline]
    pub fn is_before(self, other: Self) -> bool {
        self.bulk <= other.bulk && self.control <= other.control
    }
}
