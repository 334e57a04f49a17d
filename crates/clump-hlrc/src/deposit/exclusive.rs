//! Pages that no other node has a copy of: what ranks of their home write there concerns nobody
//! else, and is not looked for. (Cashmere has such pages, too: Stets et al., SOSP 1997.)
//!
//! A node that fetches a page for the first time says so at its home before it reads it. So a node
//! that a home has not heard of behind its stores sees them when it fetches.

use crate::deposit::copy_word::CopyWord;
use crate::deposit::node_side::NodeSide;
use crate::deposit::port::DepositPort;

impl NodeSide {
    /// Returns how often other nodes have said that they share a page, or one counted with it. Says
    /// nothing of stores that no fence separates from this.
    pub(super) fn shares<P: DepositPort>(&self, port: &P, page: u32) -> u64 {
        debug_assert!(page < self.config.pages, "the page exists");
        port.load(self.layout.shares(page))
    }

    /// Returns true if this node is the home of a page, and no other has said that it shares it.
    pub(super) fn is_exclusive<P: DepositPort>(&self, port: &P, page: u32) -> bool {
        debug_assert!(page < self.config.pages, "the page exists");
        // Nodes may have read zeroes where the first store decides on the home.
        let is_placed = self.config.scans || port.placed_home(page).is_some();
        port.fence();
        let is_home = is_placed && self.known_home(port, page) == Some(self.config.node);
        is_home && port.load(self.layout.shared(page)) == 0
    }

    /// Tells a home that this node shares those of its pages that it has never fetched.
    pub(super) fn share<P: DepositPort>(
        &self,
        port: &P,
        home: u16,
        pages: impl Iterator<Item = (u32, CopyWord)>,
    ) -> Result<(), P::Error> {
        debug_assert_ne!(home, self.config.node, "pages of another node");
        let new = pages.filter(|(_, before)| !before.is_fetched());
        let pages: Vec<u32> = new.map(|(page, _)| page).collect();
        if pages.is_empty() {
            return Ok(());
        }
        let mut counts: Vec<u64> = pages.iter().map(|&page| self.layout.shares(page)).collect();
        counts.dedup();
        let pages = pages.iter().map(|&page| self.layout.shared(page));
        let words: Vec<u64> = pages.chain(counts).collect();
        port.count(home, &words)
    }
}
