//! Intervals: the writes of a node between two of its releases, as write notices.

use crate::varint::{ByteReader, DecodeError, push_u32};

/// Write notices of one interval of one node: the pages that it wrote.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Interval {
    /// Node that wrote.
    pub node: u16,
    /// Number of the interval among those of its node, from 1.
    pub number: u32,
    /// Barriers of all ranks that the node had passed.
    pub epoch: u32,
    /// Pages written, in ascending order.
    pub pages: Box<[u32]>,
}

impl Interval {
    /// Appends the interval, with its pages as runs.
    pub fn encode(&self, out: &mut Vec<u8>) {
        debug_assert!(self.number > 0, "intervals count from 1");
        debug_assert!(self.pages.is_sorted_by(|a, b| a < b), "pages ascend");
        push_u32(out, u32::from(self.node));
        push_u32(out, self.number);
        push_u32(out, self.epoch);
        let runs = || self.pages.chunk_by(|a, b| a + 1 == *b);
        push_u32(out, runs().count() as u32);
        let mut next = 0;
        for run in runs() {
            debug_assert!(run[0] >= next, "runs ascend");
            push_u32(out, run[0] - next);
            push_u32(out, run.len() as u32);
            next = run[0] + run.len() as u32;
        }
    }

    /// Takes an interval that [`Interval::encode`] wrote, of a job of `nodes` nodes that share
    /// `pages` pages.
    ///
    /// # Errors
    /// Fails if the bytes are no such interval.
    pub fn decode(
        nodes: usize,
        pages: u32,
        from: &mut ByteReader<'_>,
    ) -> Result<Self, DecodeError> {
        let node = from.take_node(nodes)?;
        let number = from.take_u32()?;
        if number == 0 {
            return Err(DecodeError::OutOfRange);
        }
        let epoch = from.take_u32()?;
        let mut named = Vec::new();
        let mut next = 0_u32;
        for _ in 0..from.take_u32()? {
            let first = next.checked_add(from.take_u32()?).ok_or(DecodeError::OutOfRange)?;
            let end = first.checked_add(from.take_u32()?).ok_or(DecodeError::OutOfRange)?;
            if end == first {
                return Err(DecodeError::Unordered);
            }
            if end > pages {
                return Err(DecodeError::OutOfRange);
            }
            named.extend(first..end);
            next = end;
        }
        debug_assert!(named.len() <= pages as usize, "no page twice");
        debug_assert!(named.is_sorted_by(|a, b| a < b), "pages ascend");
        Ok(Self { node, number, epoch, pages: named.into_boxed_slice() })
    }
}
