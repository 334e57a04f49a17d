//! A doubly linked list through the entries of a table: no allocation, and removal anywhere.

/// Index that stands for no entry.
const NONE: u32 = u32::MAX;

/// Neighbours of an entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Links {
    before: u32,
    after: u32,
}

impl Links {
    /// Links of an entry in no list.
    pub(crate) const NONE: Links = Links { before: NONE, after: NONE };

    /// Follows a move of all entries to other indices.
    pub(crate) fn relocate(&mut self, place: impl Fn(usize) -> usize) {
        self.before = relocated(self.before, &place);
        self.after = relocated(self.after, &place);
    }
}

fn relocated(index: u32, place: impl Fn(usize) -> usize) -> u32 {
    if index == NONE {
        return NONE;
    }
    let moved = place(index as usize);
    debug_assert!(moved < NONE as usize, "the index has its 32 bits");
    moved as u32
}

/// A table of fewer than 2^32 - 1 entries with links in them.
pub(crate) trait Linked {
    /// Returns the links of an entry; `None` if there is no such entry.
    fn links(&mut self, index: usize) -> Option<&mut Links>;
}

/// First and last entry of a list. An entry is in at most one list.
#[derive(Debug)]
pub(crate) struct List {
    front: u32,
    back: u32,
}

impl List {
    pub(crate) const fn new() -> Self {
        Self { front: NONE, back: NONE }
    }

    /// Returns the index of the first entry.
    #[inline]
    pub(crate) fn front(&self) -> Option<usize> {
        if self.front == NONE { None } else { Some(self.front as usize) }
    }

    /// Appends an entry that is in no list.
    #[inline]
    pub(crate) fn push<T: Linked>(&mut self, table: &mut T, index: usize) {
        let back = self.back;
        debug_assert!(index < NONE as usize, "the index has its 32 bits");
        debug_assert!((self.front == NONE) == (back == NONE), "both ends or none");
        debug_assert!(back as usize != index, "an entry is listed once");
        let links = table.links(index);
        debug_assert!(links.is_some(), "an entry of the table");
        if let Some(links) = links {
            *links = Links { before: back, after: NONE };
        }
        self.back = index as u32;
        if back == NONE {
            self.front = index as u32;
        } else if let Some(links) = table.links(back as usize) {
            debug_assert!(links.after == NONE, "nothing is behind the last");
            links.after = index as u32;
        }
    }

    /// Puts an entry that is in no list before all others.
    pub(crate) fn push_front<T: Linked>(&mut self, table: &mut T, index: usize) {
        let front = self.front;
        debug_assert!(index < NONE as usize, "the index has its 32 bits");
        debug_assert!((front == NONE) == (self.back == NONE), "both ends or none");
        if let Some(links) = table.links(index) {
            *links = Links { before: NONE, after: front };
        }
        self.front = index as u32;
        if front == NONE {
            self.back = index as u32;
        } else if let Some(links) = table.links(front as usize) {
            debug_assert!(links.before == NONE, "nothing is before the first");
            links.before = index as u32;
        }
    }

    /// Removes an entry that is in this list.
    #[inline]
    pub(crate) fn remove<T: Linked>(&mut self, table: &mut T, index: usize) {
        let Some(Links { before, after }) = table.links(index).copied() else {
            clump_bug::bug!("an entry of the table");
            return;
        };
        if before == NONE {
            debug_assert!(self.front as usize == index, "nothing is before the first only");
            self.front = after;
        } else if let Some(links) = table.links(before as usize) {
            debug_assert!(links.after as usize == index, "its neighbour knows it");
            links.after = after;
        }
        if after == NONE {
            debug_assert!(self.back as usize == index, "nothing is behind the last only");
            self.back = before;
        } else if let Some(links) = table.links(after as usize) {
            debug_assert!(links.before as usize == index, "its neighbour knows it");
            links.before = before;
        }
        debug_assert!((self.front == NONE) == (self.back == NONE), "both ends or none");
    }

    /// Follows a move of all entries to other indices.
    pub(crate) fn relocate(&mut self, place: impl Fn(usize) -> usize) {
        self.front = relocated(self.front, &place);
        self.back = relocated(self.back, &place);
    }

    /// Returns the entries of the list in order, and asserts that their links agree.
    pub(crate) fn checked(&self, links: impl Fn(usize) -> Option<Links>) -> Vec<usize> {
        let (mut found, mut before, mut at) = (Vec::new(), NONE, self.front);
        while at != NONE {
            let entry = links(at as usize).unwrap_or(Links::NONE);
            assert_eq!(entry.before, before, "each entry knows the one before it");
            assert!(found.len() < NONE as usize, "the list comes to an end");
            found.push(at as usize);
            (before, at) = (at, entry.after);
        }
        assert_eq!(self.back, before, "the last entry is known");
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Linked for Vec<Links> {
        fn links(&mut self, index: usize) -> Option<&mut Links> {
            self.get_mut(index)
        }
    }

    proptest::proptest! {
        /// Compares the list with a vector.
        #[test]
        fn as_a_vector_would(steps in proptest::collection::vec(0_usize..8, 1..100)) {
            let (mut list, mut table, mut model) = (List::new(), vec![Links::NONE; 8], Vec::new());
            for index in steps {
                if let Some(place) = model.iter().position(|i| *i == index) {
                    model.remove(place);
                    list.remove(&mut table, index);
                } else {
                    model.push(index);
                    list.push(&mut table, index);
                }
                let found = list.checked(|at| table.get(at).copied());
                proptest::prop_assert_eq!(&found, &model);
                proptest::prop_assert_eq!(list.back, model.last().map_or(NONE, |i| *i as u32));
            }
        }
    }
}
