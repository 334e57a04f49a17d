//! Faults on pages one behind the other.

use std::ops::Range;

/// Most pages that come ahead of a fault: each finds the next ones.
const MAX_AHEAD: u32 = 32;

/// Pages in sequence, as one thread reads them.
#[derive(Debug, Default)]
pub struct Sequence {
    /// Page behind the last fault.
    next: u32,
    /// Pages that are kept ahead.
    window: u32,
    /// First page that has not been asked for.
    end: u32,
}

impl Sequence {
    /// Takes in a fault of a read. Returns the pages to ask for: none unless the fault follows the
    /// one before, or lies in what was asked for then; ever more while that goes on.
    pub fn on_fault(&mut self, page: u32) -> Range<u32> {
        let follows = page >= self.next && page <= self.end.max(self.next);
        let sequential = follows && self.next != 0;
        self.window = if sequential { (self.window * 2).clamp(2, MAX_AHEAD) } else { 0 };
        self.next = page.saturating_add(1);
        let first = if sequential { self.end.max(self.next) } else { self.next };
        self.end = first.max(self.next.saturating_add(self.window));
        debug_assert!(self.end - self.next <= 2 * MAX_AHEAD, "bounded");
        first..self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read_ahead_of_a_sequence_only() {
        let mut ahead = Sequence::default();
        assert!(ahead.on_fault(10).is_empty());
        assert_eq!(ahead.on_fault(11), 12..14);
        assert_eq!(ahead.on_fault(12), 14..17);
        assert_eq!(ahead.on_fault(17), 18..26);
        assert!(ahead.on_fault(100).is_empty());
        assert!(ahead.on_fault(50).is_empty());
        assert_eq!(ahead.on_fault(51), 52..54);
        let mut next = 54;
        for _ in 0..20 {
            let asked = ahead.on_fault(next);
            assert!(asked.len() <= MAX_AHEAD as usize && asked.start > next, "{asked:?}");
            next = asked.end;
        }
        assert_eq!(ahead.on_fault(next).len(), MAX_AHEAD as usize);
    }
}
