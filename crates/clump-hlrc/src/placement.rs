//! Homes of pages: where they lie at first, and the rule by which they move.

/// Rule by which a page gets its first home.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// Consecutive pages share a home, as many for each node.
    Block,
    /// Page by page, each node in turn.
    Cyclic,
    /// The node that first writes a page becomes its home.
    FirstWrite,
    /// Homes are listed, one a page.
    Explicit(Box<[u16]>),
}

impl Placement {
    /// Returns the first home of `page`, or none if that is not known before it is written.
    pub fn home_of(&self, page: u32, pages: u32, nodes: u16) -> Option<u16> {
        debug_assert!(page < pages, "the page exists");
        debug_assert!(nodes > 0, "there is a node");
        match self {
            Self::Block => Some((page / pages.div_ceil(u32::from(nodes))) as u16),
            Self::Cyclic => Some((page % u32::from(nodes)) as u16),
            Self::FirstWrite => None,
            Self::Explicit(homes) => {
                debug_assert_eq!(homes.len(), pages as usize, "every page has a home");
                Some(homes[page as usize])
            }
        }
    }
}

/// Home that a page moves to, from a barrier on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HomeMove {
    /// Page that moves.
    pub page: u32,
    /// Node that is its home so far.
    pub from: u16,
    /// Node that becomes its home.
    pub to: u16,
}

/// Writers of one page as its home sees them, from barrier to barrier.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct WriterTally {
    /// Sole writer since the last barrier; several if `shared`.
    writer: Option<u16>,
    shared: bool,
    /// Sole writer of the last periods in which anybody wrote, and their number.
    streak: Option<(u16, u8)>,
}

impl WriterTally {
    /// Counts a write of `node`.
    pub fn note(&mut self, node: u16) {
        self.shared |= self.writer.is_some_and(|writer| writer != node);
        self.writer = Some(node);
    }

    /// Ends a period at a barrier. Returns the node that was the sole writer of `periods`
    /// consecutive periods in which anybody wrote.
    pub fn end_period(&mut self, periods: u8) -> Option<u16> {
        debug_assert!(periods > 0, "one period at least");
        debug_assert!(!self.shared || self.writer.is_some(), "several are more than none");
        let writer = self.writer.take()?;
        let shared = std::mem::take(&mut self.shared);
        let before = match self.streak {
            Some((node, count)) if node == writer => count,
            _ => 0,
        };
        self.streak = (!shared).then_some((writer, before.saturating_add(1)));
        self.streak.filter(|&(_, count)| count >= periods).map(|(node, _)| node)
    }
}
