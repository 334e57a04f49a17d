//! Buffers for payloads that arrive in fragments, used again: memory fresh from the system costs
//! more than the copy into it.

/// Bytes that may be kept: those of a few of the longest medium messages.
const MAX_BYTES: usize = 1 << 20;
/// Shortest payload whose buffer is kept; the allocator is quick with shorter ones.
const MIN_PAYLOAD: usize = 4 << 10;

/// Buffers of payloads that were handled.
#[derive(Debug, Default)]
pub(crate) struct PayloadPool {
    /// Each with the bytes of its last payload, so that only what it grows by has to be cleared.
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl PayloadPool {
    /// Returns a buffer of `bytes` bytes, of any content.
    pub(crate) fn take(&mut self, bytes: usize) -> Vec<u8> {
        let fits = |buffer: &Vec<u8>| (bytes..=2 * bytes).contains(&buffer.capacity());
        let mut buffer = match self.buffers.iter().rposition(fits) {
            Some(at) => {
                let buffer = self.buffers.swap_remove(at);
                debug_assert!(self.bytes >= buffer.capacity(), "buffers are counted");
                self.bytes -= buffer.capacity();
                buffer
            }
            None => Vec::new(),
        };
        buffer.resize(bytes, 0);
        self.check_invariants();
        buffer
    }

    /// Keeps the buffer of a payload that was handled, if there is room.
    pub(crate) fn put(&mut self, buffer: Vec<u8>) {
        let bytes = buffer.capacity();
        if bytes >= MIN_PAYLOAD && self.bytes + bytes <= MAX_BYTES {
            self.bytes += bytes;
            self.buffers.push(buffer);
        }
        self.check_invariants();
    }

    /// Asserts what always holds between calls.
    fn check_invariants(&self) {
        debug_assert!(self.bytes <= MAX_BYTES, "memory is bounded");
        let bytes = || self.buffers.iter().map(Vec::capacity).sum::<usize>();
        debug_assert!(self.bytes == bytes(), "buffers are counted");
        let long = |buffer: &Vec<u8>| buffer.capacity() >= MIN_PAYLOAD;
        debug_assert!(self.buffers.iter().all(long), "short ones are not kept");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_for_a_payload_of_about_its_length() {
        let mut pool = PayloadPool::default();
        let buffer = pool.take(64 << 10);
        let place = buffer.as_ptr();
        pool.put(buffer);
        for (bytes, why) in [(4 << 10, "much too long"), (65 << 10, "too short")] {
            let other = pool.take(bytes);
            assert_ne!(other.as_ptr(), place, "{why}");
        }
        let again = pool.take(60 << 10);
        assert_eq!((again.as_ptr(), again.len()), (place, 60 << 10));
        assert_eq!(pool.bytes, 0);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut pool = PayloadPool::default();
        for bytes in (0..64).map(|n| n << 12) {
            pool.put(vec![0; bytes]);
        }
        assert!(pool.bytes <= MAX_BYTES && pool.bytes > MAX_BYTES / 2);
        pool.put(Vec::with_capacity(MAX_BYTES + 1));
        assert!(pool.bytes <= MAX_BYTES);
    }
}
