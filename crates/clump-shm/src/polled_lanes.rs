//! The lanes that an endpoint polls, at an address that code of other languages reads.

use crate::in_lane::InLane;
use std::ops::{Deref, DerefMut};

/// Polled lanes in a row. At its address are the pointer to the first one and their number, always
/// up to date: only functions of this type add and remove lanes.
#[derive(Debug)]
#[repr(C)]
pub struct PolledLanes<L> {
    first: *const InLane<L>,
    count: usize,
    lanes: Vec<InLane<L>>,
}

// SAFETY: `first` is where `lanes` has its own elements.
unsafe impl<L: Send> Send for PolledLanes<L> {}

impl<L> Default for PolledLanes<L> {
    fn default() -> Self {
        let lanes = Vec::new();
        Self { first: lanes.as_ptr(), count: 0, lanes }
    }
}

impl<'a, L> IntoIterator for &'a mut PolledLanes<L> {
    type Item = &'a mut InLane<L>;
    type IntoIter = std::slice::IterMut<'a, InLane<L>>;

    fn into_iter(self) -> Self::IntoIter {
        self.lanes.iter_mut()
    }
}

impl<L> PolledLanes<L> {
    fn note(&mut self) {
        (self.first, self.count) = (self.lanes.as_ptr(), self.lanes.len());
    }

    /// Asserts that code of other languages sees the lanes that there are.
    pub(crate) fn check_invariants(&self) {
        debug_assert_eq!(self.first, self.lanes.as_ptr(), "the first lane is where it is read");
        debug_assert_eq!(self.count, self.lanes.len(), "as many lanes are read as there are");
    }

    pub(crate) fn push(&mut self, lane: InLane<L>) {
        debug_assert_eq!(self.count, self.lanes.len(), "nobody else adds or removes lanes");
        self.lanes.push(lane);
        self.note();
    }

    pub(crate) fn swap_remove(&mut self, at: usize) -> InLane<L> {
        debug_assert_eq!(self.count, self.lanes.len(), "nobody else adds or removes lanes");
        let gone = self.lanes.swap_remove(at);
        self.note();
        gone
    }

    pub(crate) fn take_all(&mut self) -> Vec<InLane<L>> {
        let all = std::mem::take(&mut self.lanes);
        debug_assert_eq!(self.count, all.len(), "nobody else adds or removes lanes");
        self.note();
        all
    }
}

impl<L> Deref for PolledLanes<L> {
    type Target = [InLane<L>];
    #[inline(always)]
    fn deref(&self) -> &[InLane<L>] {
        &self.lanes
    }
}

impl<L> DerefMut for PolledLanes<L> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [InLane<L>] {
        &mut self.lanes
    }
}

#[cfg(not(loom))]
const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(PolledLanes<u64>, first) == 0 && offset_of!(PolledLanes<u64>, count) == 8);
    assert!(offset_of!(InLane<u64>, receiver) == 0);
};
