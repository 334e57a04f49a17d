//! The side of a node that its ranks share: locks, records of pages, and homes, all words of its
//! memory.

use crate::deposit::copy_word::CopyWord;
use crate::deposit::layout::DepositLayout;
use crate::deposit::port::DepositPort;

/// Place of a rank in its job, and variants of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DepositConfig {
    /// The node.
    pub node: u16,
    /// The rank among those of its node.
    pub rank: u32,
    /// The first rank of the node among those of the job.
    pub first_rank: u32,
    /// Pages of the heap.
    pub pages: u32,
    /// True if a fault acquires what the page's bytes depend on.
    pub acquires_at_faults: bool,
    /// True if stores are no faults: then every copy has a twin.
    pub scans: bool,
}

/// Set in the word of a lock while ranks wait for it.
const LOCK_WAITED: u64 = 1 << 31;

/// Shared state of a node, as one of its ranks reaches it.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeSide {
    pub(super) config: DepositConfig,
    pub(super) layout: DepositLayout,
}

impl NodeSide {
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

    /// Gives the lock of a word back, and wakes those that wait for it.
    pub(super) fn give_word<P: DepositPort>(&self, port: &P, at: u64) {
        loop {
            let word = port.load(at);
            debug_assert_eq!(
                word & !LOCK_WAITED,
                u64::from(self.config.rank) + 1,
                "it has the lock"
            );
            if port.exchange(at, word, 0) {
                if word & LOCK_WAITED != 0 {
                    port.wake(at);
                }
                return;
            }
        }
    }

    /// Returns the home of a page, if this node knows it.
    pub(super) fn known_home<P: DepositPort>(&self, port: &P, page: u32) -> Option<u16> {
        debug_assert!(page < self.config.pages, "the page exists");
        match port.load(self.layout.home(page)) {
            0 => port.placed_home(page),
            DepositLayout::FIRST_USE => None,
            known => Some((known - 1) as u16),
        }
    }

    /// Returns the home of a page; none if no node has claimed it.
    ///
    /// # Errors
    /// Fails if a node, or a rank, is lost.
    pub(super) fn home<P: DepositPort>(
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

    pub(super) fn copy_word<P: DepositPort>(&self, port: &P, page: u32) -> CopyWord {
        CopyWord(port.load(self.layout.copy(page)))
    }

    pub(super) fn is_current<P: DepositPort>(&self, port: &P, page: u32) -> bool {
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

    /// Locks a page, if nobody has it locked.
    pub(super) fn try_lock_page<P: DepositPort>(&self, port: &P, page: u32) -> bool {
        let at = self.layout.copy(page);
        let word = CopyWord(port.load(at));
        !word.is_locked() && port.exchange(at, word.0, word.locked().0)
    }

    pub(super) fn unlock_page<P: DepositPort>(&self, port: &P, page: u32) {
        if self.change_copy(port, page, CopyWord::unlocked).is_waited() {
            port.wake(self.layout.copy(page));
        }
    }

    /// Returns the sum of all intervals that the node has consumed.
    pub(super) fn consumed_sum<P: DepositPort>(&self, port: &P) -> u64 {
        self.others().map(|writer| self.consumed(port, writer)).sum()
    }

    /// Returns the last interval of a writer that the node has consumed.
    pub(super) fn consumed<P: DepositPort>(&self, port: &P, writer: u16) -> u64 {
        port.load(self.layout.consumed(writer))
    }
}
