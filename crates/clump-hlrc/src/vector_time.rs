//! Vector timestamps: of each node, the last interval that is known.

use crate::varint::{ByteReader, DecodeError, push_u32};

/// Number of the last interval of each node seen by its owner; 0 is none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VectorTime {
    intervals: Box<[u32]>,
}

impl VectorTime {
    /// Returns the time at which no node has ended an interval.
    pub fn zero(nodes: usize) -> Self {
        debug_assert!(nodes > 0, "there is a node");
        debug_assert!(nodes <= 1 << 16, "nodes have 16 bits");
        Self { intervals: vec![0; nodes].into_boxed_slice() }
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        self.intervals.len()
    }

    /// Returns the last interval of `node`.
    pub fn get(&self, node: u16) -> u32 {
        self.intervals[node as usize]
    }

    /// Makes the last interval of `node` at least `interval`.
    pub fn raise(&mut self, node: u16, interval: u32) {
        let entry = &mut self.intervals[node as usize];
        *entry = (*entry).max(interval);
    }

    /// Takes the later interval of each node.
    pub fn join(&mut self, other: &Self) {
        debug_assert_eq!(self.nodes(), other.nodes(), "times of one job");
        for (mine, &theirs) in self.intervals.iter_mut().zip(&other.intervals) {
            *mine = (*mine).max(theirs);
        }
        debug_assert!(self.covers(other), "a join covers both sides");
    }

    /// Keeps the earlier interval of each node.
    pub fn meet(&mut self, other: &Self) {
        debug_assert_eq!(self.nodes(), other.nodes(), "times of one job");
        for (mine, &theirs) in self.intervals.iter_mut().zip(&other.intervals) {
            *mine = (*mine).min(theirs);
        }
        debug_assert!(other.covers(self), "both sides cover what they share");
    }

    /// Returns true if every interval of `other` is contained in this one.
    pub fn covers(&self, other: &Self) -> bool {
        debug_assert_eq!(self.nodes(), other.nodes(), "times of one job");
        self.intervals.iter().zip(&other.intervals).all(|(mine, theirs)| mine >= theirs)
    }

    /// Appends the entries that are later than those of `base`, which this time covers.
    pub fn encode(&self, base: &Self, out: &mut Vec<u8>) {
        debug_assert!(self.covers(base), "a time is encoded as what it adds");
        let pairs = || self.intervals.iter().zip(&base.intervals).enumerate();
        let later = pairs().filter(|(_, (mine, theirs))| mine > theirs).count();
        debug_assert!(later <= self.nodes());
        push_u32(out, later as u32);
        let mut next = 0;
        for (node, (mine, theirs)) in pairs().filter(|(_, (mine, theirs))| mine > theirs) {
            push_u32(out, (node - next) as u32);
            push_u32(out, mine - theirs);
            next = node + 1;
        }
    }

    /// Takes a time that [`VectorTime::encode`] wrote with the same `base`.
    ///
    /// # Errors
    /// Fails if the bytes are no such time.
    pub fn decode(base: &Self, from: &mut ByteReader<'_>) -> Result<Self, DecodeError> {
        let mut time = base.clone();
        let mut next = 0_usize;
        for _ in 0..from.take_u32()? {
            let node = next + from.take_u32()? as usize;
            let added = from.take_u32()?;
            let entry = time.intervals.get_mut(node).ok_or(DecodeError::OutOfRange)?;
            *entry = entry.checked_add(added).ok_or(DecodeError::OutOfRange)?;
            next = node + 1;
        }
        debug_assert!(next <= time.nodes(), "entries ascend");
        debug_assert!(time.covers(base), "entries only add");
        Ok(time)
    }
}
