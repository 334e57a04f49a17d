//! Memory that frames are written to.

/// Memory to which bytes can be appended.
pub trait Append {
    /// Appends `bytes`.
    fn append(&mut self, bytes: &[u8]);
}

impl Append for Vec<u8> {
    #[inline]
    fn append(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}
