//! Fetches of pages that a rank is expected to use, many in one answer.

use crate::deposit::fault::{PageUse, Step};
use crate::deposit::port::DepositPort;
use crate::deposit::rank::DepositRank;
use std::collections::BTreeMap;

/// Most pages that are fetched at once: 1 MiB.
const MAX_PAGES: usize = 256;

impl DepositRank {
    /// Makes the node's copies of pages current as far as nobody else is at them, and calls `grant`
    /// with each that is, as [`obtain`](Self::obtain) does. Calls `acquired` when intervals have
    /// been consumed meanwhile. Pages without a home, and those of this node, are left alone.
    /// Returns the number of pages fetched. Pages ascend.
    ///
    /// # Errors
    /// Fails if a node, or a rank, is lost, or if there is no memory for a page.
    pub fn fetch_ahead<P: DepositPort>(
        &self,
        port: &P,
        pages: &[u32],
        mut acquired: impl FnMut() -> Result<(), P::Error>,
        mut grant: impl FnMut(u32, PageUse, &dyn Fn() -> bool) -> bool,
    ) -> Result<u32, P::Error> {
        debug_assert!(pages.is_sorted(), "pages ascend");
        let mut by_home: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
        for &page in pages.iter().filter(|&&page| page < self.node.config.pages) {
            match self.node.known_home(port, page) {
                Some(home) if home != self.node.config.node => {
                    by_home.entry(home).or_default().push(page);
                }
                _ => {}
            }
        }
        let mut fetched = 0;
        for (home, pages) in by_home {
            for part in pages.chunks(MAX_PAGES) {
                let copies = self.fetch_some(port, (home, part), &mut acquired)?;
                fetched += copies.len() as u32;
                let mut copies = copies.into_iter().peekable();
                for &page in part {
                    match copies.next_if(|&(copy, _)| copy == page) {
                        Some(copy) => self.confirm(port, copy, Some(&mut grant))?,
                        // Another rank of the node has fetched it.
                        None if self.node.is_current(port, page) => {
                            self.node.lock_page(port, page)?;
                            grant(page, PageUse::Loads, &|| self.node.is_current(port, page));
                            self.node.unlock_page(port, page);
                        }
                        None => {}
                    }
                }
            }
        }
        Ok(fetched)
    }

    /// Fetches those of some pages of a home that the node lacks. Returns them, with the numbers of
    /// their fetches, in ascending order.
    fn fetch_some<P: DepositPort>(
        &self,
        port: &P,
        (home, pages): (u16, &[u32]),
        acquired: &mut impl FnMut() -> Result<(), P::Error>,
    ) -> Result<Vec<(u32, u64)>, P::Error> {
        debug_assert!(pages.len() <= MAX_PAGES, "memory is bounded");
        loop {
            let locked = self.lock_lacking(port, home, pages.iter().copied());
            if locked.is_empty() {
                return Ok(Vec::new());
            }
            let step = self.refetch(port, home, &locked);
            locked.iter().for_each(|&page| self.node.unlock_page(port, page));
            match step? {
                Step::Early(home, bytes) => self.node.await_arrival(port, (home, bytes))?,
                Step::Fetched { time, copies } => {
                    if let Some(mut time) = time {
                        // Those intervals are being published.
                        self.consume(port, &mut time, &mut || Ok(()))?;
                        acquired()?;
                    }
                    return Ok(copies);
                }
                Step::Granted | Step::Again => {
                    clump_bug::bug!("a fetch grants nothing");
                    return Ok(Vec::new());
                }
            }
        }
    }
}
