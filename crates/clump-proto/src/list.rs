//! A doubly linked list through the entries of a table: no allocation, and removal anywhere.

/// Index that stands for no entry.
const NONE: u16 = u16::MAX;

/// Neighbours of an entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Links {
    before: u16,
    after: u16,
}

impl Links {
    /// Links of an entry in no list.
    pub(crate) const NONE: Links = Links { before: NONE, after: NONE };
}

/// A table of fewer than 65,535 entries with links in them.
pub(crate) trait Linked {
    /// Returns the links of an entry; `None` if there is no such entry.
    fn links(&mut self, index: usize) -> Option<&mut Links>;
}

/// First and last entry of a list. An entry is in at most one list.
#[derive(Debug)]
pub(crate) struct List {
    front: u16,
    back: u16,
}

impl List {
    pub(crate) const fn new() -> Self {
        Self { front: NONE, back: NONE }
    }

    /// Returns the index of the first entry.
    #[inline]
    pub(crate) fn front(&self) -> Option<usize> {
        if self.front == NONE { None } else { Some(self.front.into()) }
    }

    /// Appends an entry that is in no list.
    #[inline]
    pub(crate) fn push<T: Linked>(&mut self, table: &mut T, index: usize) {
        let back = self.back;
        if let Some(links) = table.links(index) {
            *links = Links { before: back, after: NONE };
        }
        self.back = index as u16;
        if back == NONE {
            self.front = index as u16;
        } else if let Some(links) = table.links(back.into()) {
            links.after = index as u16;
        }
    }

    /// Removes an entry that is in this list.
    #[inline]
    pub(crate) fn remove<T: Linked>(&mut self, table: &mut T, index: usize) {
        let Some(Links { before, after }) = table.links(index).copied() else { return };
        if before == NONE {
            self.front = after;
        } else if let Some(links) = table.links(before.into()) {
            links.after = after;
        }
        if after == NONE {
            self.back = before;
        } else if let Some(links) = table.links(after.into()) {
            links.before = before;
        }
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
                let (mut found, mut at) = (Vec::new(), list.front);
                while at != NONE {
                    found.push(usize::from(at));
                    at = table[usize::from(at)].after;
                }
                proptest::prop_assert_eq!(&found, &model);
                proptest::prop_assert_eq!(list.back, model.last().map_or(NONE, |i| *i as u16));
            }
        }
    }
}
