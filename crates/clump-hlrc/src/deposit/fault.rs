//! Page faults: the node's copy is made current, and rights are granted on it.

use crate::deposit::arrivals::Arrival;
use crate::deposit::copy_word::CopyWord;
use crate::deposit::layout::DepositLayout;
use crate::deposit::port::{DepositPort, PAGE_BYTES, PageBytes, PagePart};
use crate::deposit::rank::DepositRank;

/// Use that a rank makes of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageUse {
    /// Loads.
    Loads,
    /// Loads and stores.
    Stores,
}

/// Step towards a right on a page.
pub(super) enum Step {
    /// The right has been taken.
    Granted,
    /// A notice has come meanwhile.
    Again,
    /// Bytes have to be at the home first.
    Early(u16, Arrival),
    /// Pages were fetched, with the numbers of their fetches; they may depend on a time that has to
    /// be consumed first.
    Fetched { time: Option<Vec<u64>>, copies: Vec<(u32, u64)> },
}

impl DepositRank {
    /// Makes the node's copy of a page current for this rank, and calls `grant` with a check that
    /// it still is, until `grant` has taken the right and returns true. Pages of `ahead` of the
    /// same home come with it, and `grant` is called for those, too. Calls `acquired` when
    /// intervals have been consumed meanwhile: rights on other pages may have to go. Returns true
    /// if the page was fetched.
    ///
    /// # Errors
    /// Fails if a node, or a rank, is lost, or if there is no memory for a page.
    pub fn obtain<P: DepositPort>(
        &self,
        port: &P,
        (page, page_use, ahead): (u32, PageUse, &[u32]),
        mut acquired: impl FnMut() -> Result<(), P::Error>,
        mut grant: impl FnMut(u32, PageUse, &dyn Fn() -> bool) -> bool,
    ) -> Result<bool, P::Error> {
        let stores = self.node.config.scans || page_use == PageUse::Stores;
        let mut home = self.node.home(port, page, stores)?;
        let mut fetched = false;
        loop {
            if home == Some(self.node.config.node) {
                self.grant_here(port, (page, page_use, ahead), &mut grant);
                return Ok(fetched);
            }
            // Nothing is waited for while a page is locked but the home's answer.
            match self.try_obtain(port, (page, home), ahead, (stores, page_use, &mut grant))? {
                Step::Granted => return Ok(fetched),
                Step::Again if home.is_none() => home = self.node.home(port, page, stores)?,
                Step::Again => {}
                Step::Early(home, bytes) => self.node.await_arrival(port, (home, bytes))?,
                Step::Fetched { time, copies } => {
                    fetched |= home.is_some();
                    let depends = time.is_some();
                    if let Some(mut time) = time {
                        // Those intervals are being published.
                        self.consume(port, &mut time, &mut || Ok(()))?;
                        acquired()?;
                    }
                    for (copy, fetches) in copies {
                        if copy == page && !depends {
                            continue;
                        }
                        self.confirm(port, (copy, fetches), (copy != page).then_some(&mut grant))?;
                    }
                }
            }
        }
    }

    /// Grants rights on a page of this node, and on those of `ahead` that are.
    fn grant_here<P: DepositPort>(
        &self,
        port: &P,
        (page, page_use, ahead): (u32, PageUse, &[u32]),
        grant: &mut impl FnMut(u32, PageUse, &dyn Fn() -> bool) -> bool,
    ) {
        let me = Some(self.node.config.node);
        debug_assert_eq!(self.node.known_home(port, page), me, "the page is here");
        grant(page, page_use, &|| true);
        let pages = ahead.iter().copied().filter(|&other| other < self.node.config.pages);
        for other in pages.filter(|&other| self.node.known_home(port, other) == me) {
            grant(other, PageUse::Loads, &|| true);
        }
    }

    /// Takes one step towards a right on a page, with its lock.
    fn try_obtain<P: DepositPort>(
        &self,
        port: &P,
        (page, home): (u32, Option<u16>),
        ahead: &[u32],
        (stores, page_use, grant): (
            bool,
            PageUse,
            &mut impl FnMut(u32, PageUse, &dyn Fn() -> bool) -> bool,
        ),
    ) -> Result<Step, P::Error> {
        self.node.lock_page(port, page)?;
        let step = (|| {
            if !self.node.is_current(port, page) {
                return match home {
                    Some(home) => self.refetch_with(port, (page, home), ahead),
                    None => self.zeroes(port, page),
                };
            }
            if stores && !self.node.copy_word(port, page).has_twin() {
                let mut bytes = [0; PAGE_BYTES];
                port.commit(page, PagePart::Twin)?;
                port.read_frame(page, &mut bytes);
                port.write_twin(page, &bytes);
                self.node.change_copy(port, page, CopyWord::with_twin);
            }
            let granted = grant(page, page_use, &|| self.node.is_current(port, page));
            Ok(if granted { Step::Granted } else { Step::Again })
        })();
        self.node.unlock_page(port, page);
        step
    }

    /// Makes a page current that nobody has written: it has no home, and is zero.
    fn zeroes<P: DepositPort>(&self, port: &P, page: u32) -> Result<Step, P::Error> {
        port.commit(page, PagePart::Frame)?;
        let generation = port.load(DepositLayout::GENERATION);
        let before = self.node.change_copy(port, page, |word| word.refetched(generation));
        port.fence();
        // Notices of a first store that other ranks of the node have consumed meanwhile have found
        // no copy.
        if self.node.home(port, page, false)?.is_some() {
            self.node.change_copy(port, page, |word| word.unfetched(before));
            return Ok(Step::Again);
        }
        Ok(Step::Fetched { time: None, copies: Vec::new() })
    }

    /// Confirms a copy whose dependencies have been consumed, unless it was fetched again, and
    /// grants a right on it if it was fetched ahead.
    pub(super) fn confirm<P: DepositPort>(
        &self,
        port: &P,
        (page, fetches): (u32, u64),
        grant: Option<&mut impl FnMut(u32, PageUse, &dyn Fn() -> bool) -> bool>,
    ) -> Result<(), P::Error> {
        self.node.lock_page(port, page)?;
        let is_same = |word: CopyWord| word.fetches() == fetches;
        self.node.change_copy(
            port,
            page,
            |word| if is_same(word) { word.ahead(false) } else { word },
        );
        if let Some(grant) = grant {
            grant(page, PageUse::Loads, &|| self.node.is_current(port, page));
        }
        self.node.unlock_page(port, page);
        Ok(())
    }

    /// Fetches a page that this rank has locked, and those of `ahead` that nobody else is at.
    fn refetch_with<P: DepositPort>(
        &self,
        port: &P,
        (page, home): (u32, u16),
        ahead: &[u32],
    ) -> Result<Step, P::Error> {
        let others = ahead.iter().copied().filter(|&other| other != page);
        let mut pages = self.lock_lacking(port, home, others);
        let came_with = pages.clone();
        pages.push(page);
        pages.sort_unstable();
        let step = self.refetch(port, home, &pages);
        came_with.iter().for_each(|&other| self.node.unlock_page(port, other));
        step
    }

    /// Locks those of `pages` that this node lacks and could fetch from a home now, and that nobody
    /// has locked.
    pub(super) fn lock_lacking<P: DepositPort>(
        &self,
        port: &P,
        home: u16,
        pages: impl Iterator<Item = u32>,
    ) -> Vec<u32> {
        debug_assert_ne!(home, self.node.config.node, "pages of the own node are here");
        let lacks = |&page: &u32| {
            page < self.node.config.pages
                && self.node.known_home(port, page) == Some(home)
                && !self.node.is_current(port, page)
                && self.node.own_deposit(port, (page, home)).is_none()
        };
        pages.filter(lacks).filter(|&page| self.node.try_lock_page(port, page)).collect()
    }

    /// Fetches pages that this rank has locked, and merges them with what the node has written.
    pub(super) fn refetch<P: DepositPort>(
        &self,
        port: &P,
        home: u16,
        pages: &[u32],
    ) -> Result<Step, P::Error> {
        debug_assert!(pages.is_sorted(), "pages ascend");
        let generation = port.load(DepositLayout::GENERATION);
        // Notices that come from here on may be of bytes that the fetch has not.
        let begin =
            |page: &u32| self.node.change_copy(port, *page, |word| word.refetched(generation));
        let before: Vec<_> = pages.iter().map(begin).collect();
        let all = || pages.iter().copied().zip(before.iter().copied());
        self.node.share(port, home, all())?;
        // What the node has written itself must be there, and what it has consumed.
        port.fence();
        let awaited = self.node.awaited(port, (home, pages));
        let ranks = || awaited.iter().map(|bytes| bytes.rank);
        let first = ranks().min().unwrap_or(0);
        let mut arrived = vec![0; ranks().max().map_or(0, |last| last - first + 1) as usize];
        let mut bytes = vec![[0; PAGE_BYTES]; pages.len()];
        let mut announced = self.node.layout.no_time();
        let len = if self.node.config.acquires_at_faults { announced.len() } else { 0 };
        let words = (self.node.layout.announced(0), &mut announced[..len]);
        let before_pages = (self.node.layout.arrived(first), &mut arrived[..]);
        port.fetch(home, before_pages, (pages, &mut bytes), words)?;
        for (rank, &number) in (first..).zip(&arrived) {
            self.node.learn_arrival(port, home, Arrival { rank, number });
        }
        // By what was read before the pages: meanwhile others may have learned of later bytes.
        let came = |bytes: &Arrival| arrived[(bytes.rank - first) as usize] >= bytes.number;
        if let Some(late) = awaited.into_iter().find(|bytes| !came(bytes)) {
            for (page, before) in all() {
                self.node.change_copy(port, page, |word| word.unfetched(before));
            }
            return Ok(Step::Early(home, late));
        }
        let later = |writer: u16| announced[usize::from(writer)] > self.node.consumed(port, writer);
        let is_ahead = self.node.others().any(later);
        let mut copies = Vec::new();
        for (at, ((page, before), fetched)) in all().zip(&bytes).enumerate() {
            if let Err(error) = self.merge(port, page, (fetched, before)) {
                for (page, before) in all().skip(at) {
                    self.node.change_copy(port, page, |word| word.unfetched(before));
                }
                return Err(error);
            }
            self.node.change_copy(port, page, |word| word.ahead(is_ahead));
            copies.push((page, self.node.copy_word(port, page).fetches()));
        }
        Ok(Step::Fetched { time: is_ahead.then_some(announced), copies })
    }

    fn merge<P: DepositPort>(
        &self,
        port: &P,
        page: u32,
        (fetched, before): (&PageBytes, CopyWord),
    ) -> Result<(), P::Error> {
        let has_twin = before.has_twin();
        if has_twin {
            let mut twin = [0; PAGE_BYTES];
            port.read_twin(page, &mut twin);
            for (first, run) in port.difference(&twin, fetched).runs() {
                port.write_frame(page, first, run);
            }
        } else {
            if !before.is_fetched() {
                port.commit(page, PagePart::Frame)?;
            }
            port.write_frame(page, 0, fetched);
        }
        if has_twin || self.node.config.scans {
            if !has_twin {
                port.commit(page, PagePart::Twin)?;
            }
            port.write_twin(page, fetched);
            self.node.change_copy(port, page, CopyWord::with_twin);
        }
        Ok(())
    }
}
