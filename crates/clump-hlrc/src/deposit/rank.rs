//! One rank of a node: what it does at page faults and acquires.

use crate::deposit::copy_word::CopyWord;
use crate::deposit::layout::DepositLayout;
use crate::deposit::notices::{NoticePlace, Notices};
use crate::deposit::port::{DepositPort, PAGE_BYTES, PageBytes};
use std::ops::Range;

/// Place of a rank in its job, and variants of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DepositConfig {
    /// The node.
    pub node: u16,
    /// The rank among those of its node.
    pub rank: u32,
    /// Pages of the heap.
    pub pages: u32,
    /// True if a fault acquires what the page's bytes depend on.
    pub acquires_at_faults: bool,
    /// True if stores are no faults: then every copy has a twin.
    pub scans: bool,
}

/// Use that a rank makes of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageUse {
    /// Loads.
    Loads,
    /// Loads and stores.
    Stores,
}

/// Set in the word of a lock while ranks wait for it.
const LOCK_WAITED: u64 = 1 << 31;

/// Interval that a node has not consumed.
type Missing = Option<(u16, u64)>;

/// Step towards a right on a page.
enum Step {
    /// The right has been taken.
    Granted,
    /// A notice has come meanwhile.
    Again,
    /// Bytes of the own node have to be at their home first.
    AwaitDeposit,
    /// The page was fetched, and may depend on intervals that have to be consumed first.
    Fetched { ahead: Option<Vec<u64>>, fetches: u64 },
}

/// Reading of a slot.
enum SlotRead {
    /// An earlier interval's, or one that changes just now.
    Earlier,
    /// Notices of the interval asked for.
    Notices(NoticePlace),
    /// All notices up to this interval found no room, or have been overwritten.
    Lost { number: u64, position: u64 },
}

/// Protocol of one rank. All state is in the memory of its node.
#[derive(Debug, Clone, Copy)]
pub struct DepositRank {
    pub(super) config: DepositConfig,
    pub(super) layout: DepositLayout,
}

/// Returns the third word of a slot, by which one that was read while it changed is told.
pub(super) fn slot_check(number: u64, place: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ place.rotate_left(17)
}

impl DepositRank {
    /// Returns the protocol of a rank.
    pub fn new(config: DepositConfig, layout: DepositLayout) -> Self {
        assert!(config.node < layout.nodes(), "the node is one of the job's");
        Self { config, layout }
    }

    /// Returns the places of words.
    pub fn layout(&self) -> &DepositLayout {
        &self.layout
    }

    pub(super) fn others(&self) -> impl Iterator<Item = u16> + use<> {
        let me = self.config.node;
        (0..self.layout.nodes()).filter(move |&node| node != me)
    }

    /// Runs `work` with the lock of the node's ranks; never waits for other nodes inside.
    pub(super) fn with_node<P: DepositPort, R>(
        &self,
        port: &P,
        work: impl FnOnce() -> R,
    ) -> Result<R, P::Error> {
        self.take_word(port, DepositLayout::LOCK)?;
        let done = work();
        self.give_word(port, DepositLayout::LOCK);
        Ok(done)
    }

    /// Takes the lock of a word of the node.
    pub(super) fn take_word<P: DepositPort>(&self, port: &P, at: u64) -> Result<(), P::Error> {
        let me = u64::from(self.config.rank) + 1;
        loop {
            let word = port.load(at);
            if word == 0 {
                if port.exchange(at, 0, me) {
                    return Ok(());
                }
            } else if word & LOCK_WAITED != 0 || port.exchange(at, word, word | LOCK_WAITED) {
                port.wait_changed(at, word | LOCK_WAITED)?;
            }
        }
    }

    /// Waits until nobody has the lock of a word.
    fn await_unlocked<P: DepositPort>(&self, port: &P, at: u64) -> Result<(), P::Error> {
        loop {
            let word = port.load(at);
            if word == 0 {
                return Ok(());
            }
            if word & LOCK_WAITED != 0 || port.exchange(at, word, word | LOCK_WAITED) {
                port.wait_changed(at, word | LOCK_WAITED)?;
            }
        }
    }

    /// Gives the lock of a word back, and wakes those that wait for it.
    pub(super) fn give_word<P: DepositPort>(&self, port: &P, at: u64) {
        loop {
            let word = port.load(at);
            debug_assert_eq!(word & !LOCK_WAITED, u64::from(self.config.rank) + 1, "it has the lock");
            if port.exchange(at, word, 0) {
                if word & LOCK_WAITED != 0 {
                    port.wake(at);
                }
                return;
            }
        }
    }

    /// Returns the home of a page, if this node knows it.
    pub fn known_home<P: DepositPort>(&self, port: &P, page: u32) -> Option<u16> {
        debug_assert!(page < self.config.pages, "the page exists");
        match port.load(self.layout.home(page)) {
            0 => port.placed_home(page),
            known => Some((known - 1) as u16),
        }
    }

    /// Returns the home of a page; none if no node has claimed it.
    ///
    /// # Errors
    /// Fails if a node, or a rank, is lost.
    pub fn home<P: DepositPort>(
        &self,
        port: &P,
        page: u32,
        claims: bool,
    ) -> Result<Option<u16>, P::Error> {
        if let Some(home) = self.known_home(port, page) {
            return Ok(Some(home));
        }
        let at = self.layout.home(page);
        let (keeper, me) = (self.layout.keeper(u64::from(page)), u64::from(self.config.node) + 1);
        let claim = self.layout.claim(page);
        let found = match (keeper == self.config.node, claims) {
            (true, true) => {
                port.exchange(claim, 0, me);
                port.load(claim)
            }
            (true, false) => port.load(claim),
            (false, true) => port.claim(keeper, claim, me)?,
            (false, false) => {
                let mut word = [0];
                port.read_words(keeper, claim, &mut word)?;
                word[0]
            }
        };
        debug_assert!(!claims || found != 0, "a claim finds a home");
        if found != 0 {
            port.store(at, found);
        }
        Ok(found.checked_sub(1).map(|home| home as u16))
    }

    /// Makes the node's copy of a page current for this rank, and calls `grant` with a check that
    /// it still is, until `grant` has taken the right and returns true. Calls `acquired` when
    /// intervals have been consumed meanwhile: rights on other pages may have to go. Returns true
    /// if the page was fetched.
    ///
    /// # Errors
    /// Fails if a node, or a rank, is lost, or if there is no memory for the page.
    pub fn obtain<P: DepositPort>(
        &self,
        port: &P,
        (page, page_use): (u32, PageUse),
        mut acquired: impl FnMut() -> Result<(), P::Error>,
        mut grant: impl FnMut(&dyn Fn() -> bool) -> bool,
    ) -> Result<bool, P::Error> {
        let stores = self.config.scans || page_use == PageUse::Stores;
        let home = self.home(port, page, stores)?;
        if home == Some(self.config.node) {
            grant(&|| true);
            return Ok(false);
        }
        let mut fetched = false;
        loop {
            let step = self.try_obtain(port, (page, home), stores, &mut grant)?;
            // Nothing is waited for while the page is locked but the home's answer.
            match step {
                Step::Granted => return Ok(fetched),
                Step::Again => {}
                Step::AwaitDeposit => self.await_unlocked(port, self.layout.deposit(page))?,
                Step::Fetched { mut ahead, fetches } => {
                    fetched |= home.is_some();
                    if let Some(time) = &mut ahead {
                        self.consume(port, time)?;
                        acquired()?;
                        self.confirm(port, page, fetches)?;
                    }
                }
            }
        }
    }

    /// Takes one step towards a right on a page, with its lock.
    fn try_obtain<P: DepositPort>(
        &self,
        port: &P,
        (page, home): (u32, Option<u16>),
        stores: bool,
        grant: &mut impl FnMut(&dyn Fn() -> bool) -> bool,
    ) -> Result<Step, P::Error> {
        self.lock_page(port, page)?;
        let step = (|| {
            if !self.is_current(port, page) {
                // A fetch must find what the node has written itself.
                if port.load(self.layout.deposit(page)) != 0 {
                    return Ok(Step::AwaitDeposit);
                }
                return self.refetch(port, page, home);
            }
            if stores && !self.copy_word(port, page).has_twin() {
                let mut bytes = [0; PAGE_BYTES];
                port.read_frame(page, &mut bytes);
                port.write_twin(page, &bytes)?;
                self.change_copy(port, page, CopyWord::with_twin);
            }
            let granted = grant(&|| self.is_current(port, page));
            Ok(if granted { Step::Granted } else { Step::Again })
        })();
        self.unlock_page(port, page);
        step
    }

    /// Waits until an interval of the own node, and all before it, are completed.
    pub(super) fn wait_completed<P: DepositPort>(
        &self,
        port: &P,
        number: u64,
    ) -> Result<(), P::Error> {
        loop {
            let seen = port.load(DepositLayout::COMPLETED);
            if seen >= number {
                return Ok(());
            }
            port.set_bits(DepositLayout::AWAITED, 1);
            port.wait_changed(DepositLayout::COMPLETED, seen)?;
        }
    }

    /// Confirms a copy whose dependencies have been consumed, unless it was fetched again.
    fn confirm<P: DepositPort>(
        &self,
        port: &P,
        page: u32,
        fetches: u64,
    ) -> Result<(), P::Error> {
        self.lock_page(port, page)?;
        let is_same = |word: CopyWord| word.fetches() == fetches;
        self.change_copy(port, page, |word| if is_same(word) { word.ahead(false) } else { word });
        self.unlock_page(port, page);
        Ok(())
    }

    fn copy_word<P: DepositPort>(&self, port: &P, page: u32) -> CopyWord {
        CopyWord(port.load(self.layout.copy(page)))
    }

    fn is_current<P: DepositPort>(&self, port: &P, page: u32) -> bool {
        self.copy_word(port, page).is_current(port.load(DepositLayout::GENERATION))
    }

    /// Changes the word of a page that this rank has locked; others may set bits meanwhile.
    pub(super) fn change_copy<P: DepositPort>(
        &self,
        port: &P,
        page: u32,
        change: impl Fn(CopyWord) -> CopyWord,
    ) -> CopyWord {
        let at = self.layout.copy(page);
        loop {
            let word = CopyWord(port.load(at));
            if port.exchange(at, word.0, change(word).0) {
                return word;
            }
        }
    }

    pub(super) fn lock_page<P: DepositPort>(&self, port: &P, page: u32) -> Result<(), P::Error> {
        let at = self.layout.copy(page);
        loop {
            let word = CopyWord(port.load(at));
            if !word.is_locked() {
                if port.exchange(at, word.0, word.locked().0) {
                    return Ok(());
                }
                continue;
            }
            let before = CopyWord(port.set_bits(at, CopyWord::WAITED));
            if before.is_locked() {
                port.wait_changed(at, before.0 | CopyWord::WAITED)?;
            }
        }
    }

    pub(super) fn unlock_page<P: DepositPort>(&self, port: &P, page: u32) {
        if self.change_copy(port, page, CopyWord::unlocked).is_waited() {
            port.wake(self.layout.copy(page));
        }
    }

    /// Fetches a page that this rank has locked, and merges it with what the node has written.
    fn refetch<P: DepositPort>(
        &self,
        port: &P,
        page: u32,
        home: Option<u16>,
    ) -> Result<Step, P::Error> {
        let generation = port.load(DepositLayout::GENERATION);
        // Notices that come from here on may be of bytes that the fetch has not.
        let before = self.change_copy(port, page, |word| word.refetched(generation));
        // Nobody has written a page without a home, so that it is zero.
        let fetches = self.copy_word(port, page).fetches();
        let Some(home) = home else { return Ok(Step::Fetched { ahead: None, fetches }) };
        let mut bytes = [0; PAGE_BYTES];
        let mut announced = vec![0; usize::from(self.layout.nodes())];
        let len = if self.config.acquires_at_faults { announced.len() } else { 0 };
        port.fetch(home, page, &mut bytes, (self.layout.announced(0), &mut announced[..len]))?;
        self.merge(port, page, (&bytes, before.has_twin()))?;
        let later = |writer: u16| announced[usize::from(writer)] > self.consumed(port, writer);
        if !self.others().any(later) {
            return Ok(Step::Fetched { ahead: None, fetches });
        }
        self.change_copy(port, page, |word| word.ahead(true));
        Ok(Step::Fetched { ahead: Some(announced), fetches })
    }

    fn merge<P: DepositPort>(
        &self,
        port: &P,
        page: u32,
        (fetched, has_twin): (&PageBytes, bool),
    ) -> Result<(), P::Error> {
        if has_twin {
            let mut twin = [0; PAGE_BYTES];
            port.read_twin(page, &mut twin);
            for (first, run) in port.difference(&twin, fetched).runs() {
                port.write_frame(page, first, run)?;
            }
        } else {
            port.write_frame(page, 0, fetched)?;
        }
        if has_twin || self.config.scans {
            port.write_twin(page, fetched)?;
            self.change_copy(port, page, CopyWord::with_twin);
        }
        Ok(())
    }

    /// Returns the last interval of a writer that the node has consumed.
    pub(super) fn consumed<P: DepositPort>(&self, port: &P, writer: u16) -> u64 {
        port.load(self.layout.consumed(writer))
    }

    /// Acquires `time`: the node consumes all notices up to it, and up to all that those depend on.
    /// The rank then [passes](DepositRank::pass) them.
    ///
    /// # Errors
    /// Fails if a rank has died.
    pub fn consume<P: DepositPort>(&self, port: &P, time: &mut [u64]) -> Result<(), P::Error> {
        debug_assert_eq!(time.len(), usize::from(self.layout.nodes()), "an interval a node");
        loop {
            let missing = self.with_node(port, || self.consume_deposited(port, time))?;
            let Some((writer, number)) = missing else { return Ok(()) };
            port.wait_deposited(self.layout.slot(writer, number), number)?;
        }
    }

    /// Consumes what is here of the notices up to `time`. Returns an interval that is not.
    fn consume_deposited<P: DepositPort>(&self, port: &P, time: &mut [u64]) -> Missing {
        loop {
            let mut missing = None;
            let mut has_grown = false;
            for writer in self.others() {
                while self.consumed(port, writer) < time[usize::from(writer)] {
                    let Some(seen) = self.consume_next(port, writer) else {
                        missing = Some((writer, self.consumed(port, writer) + 1));
                        break;
                    };
                    for (own, seen) in time.iter_mut().zip(seen) {
                        has_grown |= seen > *own;
                        *own = seen.max(*own);
                    }
                }
            }
            if missing.is_some() || !has_grown {
                return missing;
            }
        }
    }

    /// Consumes the next interval of a writer, if its notices are here. Returns the time that it
    /// depends on.
    fn consume_next<P: DepositPort>(&self, port: &P, writer: u16) -> Option<Vec<u64>> {
        let pair = self.layout.consumed(writer);
        let number = port.load(pair) + 1;
        let (number, position, time) = match self.read_slot(port, writer, number) {
            SlotRead::Earlier => return None,
            SlotRead::Notices(place) => {
                let notices = self.read_notices(port, writer, place)?;
                for page in notices.pages.into_iter().flatten() {
                    let word = CopyWord(port.load(self.layout.copy(page)));
                    if word.is_fetched() {
                        port.set_bits(self.layout.copy(page), CopyWord::STALE);
                    }
                }
                (number, place.end(), notices.time)
            }
            SlotRead::Lost { number, position } => {
                let generation = port.load(DepositLayout::GENERATION);
                port.store(DepositLayout::GENERATION, generation + 1);
                (number, position, Vec::new())
            }
        };
        port.store(pair + 8, position);
        port.store(pair, number);
        Some(time)
    }

    fn read_slot<P: DepositPort>(&self, port: &P, writer: u16, number: u64) -> SlotRead {
        let at = self.layout.slot(writer, number);
        let (found, word, check) = (port.load(at), port.load(at + 8), port.load(at + 16));
        if found < number || check != slot_check(found, word) {
            return SlotRead::Earlier;
        }
        let place = NoticePlace::unpack(word);
        if found == number && place.length.is_some() {
            return SlotRead::Notices(place);
        }
        SlotRead::Lost { number: found, position: place.position }
    }

    fn read_notices<P: DepositPort>(
        &self,
        port: &P,
        writer: u16,
        place: NoticePlace,
    ) -> Option<Notices> {
        let words = place.position..place.end();
        let words: Vec<_> =
            words.map(|at| port.load(self.layout.notice(writer, at))).collect();
        let notices = Notices::from_words(&words, self.layout.nodes(), self.config.pages);
        if notices.is_none() {
            clump_bug::bug!("notices of node {writer} are none: {words:?}");
        }
        notices
    }

    /// Passes all that the node has consumed: calls `drop` with the pages on which this rank has
    /// no right from now on. One thread of the rank at a time.
    ///
    /// # Errors
    /// Fails if a rank has died.
    pub fn pass<P: DepositPort>(
        &self,
        port: &P,
        mut drop: impl FnMut(Range<u32>),
    ) -> Result<(), P::Error> {
        let news = |writer: u16| {
            port.load(self.layout.passed(self.config.rank, writer)) < self.consumed(port, writer)
        };
        if !self.others().any(news) {
            return Ok(());
        }
        let pairs = self.with_node(port, || {
            let pair = |writer| {
                let at = self.layout.consumed(writer);
                (writer, port.load(at), port.load(at + 8))
            };
            self.others().map(pair).collect::<Vec<_>>()
        })?;
        for (writer, until, position) in pairs {
            let pair = self.layout.passed(self.config.rank, writer);
            while port.load(pair) < until {
                let number = port.load(pair) + 1;
                let (number, position) = match self.read_slot(port, writer, number) {
                    SlotRead::Notices(place) => {
                        let notices = self.read_notices(port, writer, place);
                        let pages = notices.map_or(Vec::new(), |notices| notices.pages);
                        pages.into_iter().for_each(&mut drop);
                        (number, place.end())
                    }
                    SlotRead::Earlier | SlotRead::Lost { .. } => {
                        drop(0..self.config.pages);
                        (until, position)
                    }
                };
                port.store(pair + 8, position);
                port.store(pair, number);
            }
        }
        Ok(())
    }
}
