//! Releases: deposits of bytes, and of notices.

use crate::deposit::copy_word::CopyWord;
use crate::deposit::layout::DepositLayout;
use crate::deposit::node_side::NodeSide;
use crate::deposit::notices::{NoticePlace, Notices, slot_check};
use crate::deposit::port::{
    DepositPort, DepositedBytes, DepositedNotices, DepositedRun, PAGE_BYTES,
};
use crate::diff::Diff;
use std::collections::BTreeMap;

/// Written pages, compared with their twins.
#[derive(Debug, Default)]
struct Written {
    /// Pages with new bytes, in ascending order.
    pages: Vec<u32>,
    /// Bytes for homes on other nodes.
    runs: BTreeMap<u16, Vec<DepositedRun>>,
}

/// Publication of what one rank has written.
#[derive(Debug)]
pub(super) struct Publisher {
    pub(super) node: NodeSide,
}

impl Publisher {
    /// Publishes pages; see [`DepositRank::publish`](super::DepositRank::publish).
    pub(super) fn publish<P: DepositPort>(
        &self,
        port: &P,
        written: &[u32],
        ranks_of: impl Fn(u16) -> u32,
    ) -> Result<(), P::Error> {
        let open = self.node.open_number(port);
        if open == 0 && written.is_empty() && !self.has_news(port) {
            return Ok(());
        }
        // From here on other ranks of the node wait for it, since they may have written the same
        // pages.
        let number = if open == 0 { self.node.begin_interval(port, false)? } else { open };
        self.node.await_earlier(port, (number, ranks_of(self.node.config.node)))?;
        let Written { pages, mut runs } = self.written(port, number, written)?;
        if open != 0 {
            self.node.end_open(port, number);
        }
        let homes: Vec<u16> = runs.keys().copied().collect();
        if port.load(DepositLayout::COMPLETED) < number - 1 {
            // Ranks of this node that others wait for may wait for these bytes.
            self.deposit_all(port, number, &mut runs)?;
            self.wait_completed(port, number - 1)?;
        }
        self.notify(port, (number, pages, homes), runs, ranks_of)?;
        self.complete_interval(port, number);
        Ok(())
    }

    /// Returns true if the node has consumed intervals since it began one itself: others must learn
    /// that what comes next depends on them. Of two nodes, the other has begun them itself.
    fn has_news<P: DepositPort>(&self, port: &P) -> bool {
        let others_lack = self.node.layout.nodes() > 2;
        others_lack && self.node.consumed_sum(port) != port.load(DepositLayout::CLOSED_SUM)
    }

    /// Compares pages with their twins, which are as the pages then.
    fn written<P: DepositPort>(
        &self,
        port: &P,
        number: u64,
        pages: &[u32],
    ) -> Result<Written, P::Error> {
        debug_assert!(pages.is_sorted(), "ranks wait for deposits of pages in one order");
        let mut written = Written::default();
        for &page in pages {
            let home = self.node.home(port, page, true)?;
            if home == Some(self.node.config.node) {
                written.pages.push(page);
                continue;
            }
            let Some(home) = home else {
                clump_bug::bug!("a claim finds a home");
                continue;
            };
            let diff = self.take_diff(port, number, (page, home))?;
            if !diff.is_empty() {
                written.pages.push(page);
                written.runs.entry(home).or_default().push(DepositedRun { page, diff });
            }
        }
        Ok(written)
    }

    /// Compares a page with its twin, which is as the page then, once bytes of other ranks of the
    /// node for that page are at the home: those of this one would overtake them.
    fn take_diff<P: DepositPort>(
        &self,
        port: &P,
        number: u64,
        (page, home): (u32, u16),
    ) -> Result<Diff, P::Error> {
        loop {
            self.node.lock_page(port, page)?;
            let deposit = self.node.own_deposit(port, (page, home));
            let Some(bytes) = deposit.filter(|bytes| bytes.rank != self.node.job_rank()) else {
                break;
            };
            self.node.unlock_page(port, page);
            self.node.await_arrival(port, (home, bytes))?;
        }
        debug_assert!(
            CopyWord(port.load(self.node.layout.copy(page))).has_twin(),
            "page {page} was written, and has a twin"
        );
        let (mut twin, mut now) = ([0; PAGE_BYTES], [0; PAGE_BYTES]);
        port.read_twin(page, &mut twin);
        // Other ranks may write meanwhile: the twin becomes what was compared.
        port.read_frame(page, &mut now);
        let diff = port.difference(&twin, &now);
        if !diff.is_empty() {
            port.write_twin(page, &now);
            self.node.note_deposit(port, page, number);
            port.store(self.node.layout.needed(home, self.node.job_rank()), number);
        }
        self.node.unlock_page(port, page);
        Ok(diff)
    }

    /// Deposits bytes at their homes. Leaves none.
    fn deposit_all<P: DepositPort>(
        &self,
        port: &P,
        number: u64,
        runs: &mut BTreeMap<u16, Vec<DepositedRun>>,
    ) -> Result<(), P::Error> {
        while let Some((home, runs)) = runs.pop_first() {
            port.deposit_bytes(home, &self.bytes(&runs, number))?;
        }
        debug_assert!(runs.is_empty(), "all are on their way");
        Ok(())
    }

    fn bytes<'a>(&self, runs: &'a [DepositedRun], number: u64) -> DepositedBytes<'a> {
        debug_assert!(!runs.is_empty(), "something was written");
        let announced = self.node.layout.announced(self.node.config.node);
        let announced = self.node.config.acquires_at_faults.then_some((announced, number));
        let arrived = (self.node.layout.arrived(self.node.job_rank()), number);
        DepositedBytes { runs, announced, arrived, notices: None }
    }

    /// Deposits the notices of an interval at all nodes, as the only rank of its node; with them
    /// the bytes that are left.
    fn notify<P: DepositPort>(
        &self,
        port: &P,
        (number, pages, homes): (u64, Vec<u32>, Vec<u16>),
        mut runs: BTreeMap<u16, Vec<DepositedRun>>,
        ranks_of: impl Fn(u16) -> u32,
    ) -> Result<(), P::Error> {
        let mut time = self.node.with_node(port, || {
            let nodes = 0..self.node.layout.nodes();
            // It may have been open for long.
            port.store(DepositLayout::CLOSED_SUM, self.node.consumed_sum(port));
            nodes.map(|node| self.node.consumed(port, node)).collect::<Vec<_>>()
        })?;
        if let Some(own) = time.get_mut(usize::from(self.node.config.node)) {
            *own = number;
        }
        let by = (self.node.job_rank(), homes);
        let words = Notices::of(time, by, pages).to_words();
        let length = words.len() as u64;
        for reader in self.node.others() {
            if !self.has_room(port, reader, (number, length)) {
                self.learn_room(port, reader, ranks_of(reader))?;
            }
            let sent = self.node.layout.sent(reader);
            let length = self.has_room(port, reader, (number, length)).then_some(length);
            if length.is_none() {
                // The reader will not learn which bytes it lacks.
                self.deposit_all(port, number, &mut runs)?;
                let own = self.node.config.first_rank;
                self.node.await_own(port, own..own + ranks_of(self.node.config.node))?;
                self.await_slot(port, reader, number)?;
            }
            let place = NoticePlace { position: port.load(sent), length };
            let notices = self.notices((number, place), &words);
            match runs.remove(&reader) {
                Some(runs) => {
                    let notices = Some(notices);
                    let bytes = DepositedBytes { notices, ..self.bytes(&runs, number) };
                    port.deposit_bytes(reader, &bytes)?;
                }
                None => port.deposit_notices(reader, &notices)?,
            }
            port.store(sent, place.end());
        }
        debug_assert!(runs.is_empty(), "homes on other nodes are readers");
        Ok(())
    }

    /// Returns true if notices of `length` words, and their slot, find room at a reader.
    fn has_room<P: DepositPort>(
        &self,
        port: &P,
        reader: u16,
        (number, length): (u64, u64),
    ) -> bool {
        let room = self.node.layout.room(reader);
        let (passed, position) = (port.load(room), port.load(room + 8));
        let behind = port.load(self.node.layout.sent(reader)) + length;
        debug_assert!(number > passed, "nobody passes what was not sent");
        let (slots, words) = (self.node.layout.slots(), self.node.layout.ring_words());
        number - passed <= slots && behind.saturating_sub(position) <= words
    }

    /// Waits until the interval before in a slot has arrived there, which nobody has passed: it
    /// could be of another rank of the node, and overtaken.
    fn await_slot<P: DepositPort>(
        &self,
        port: &P,
        reader: u16,
        number: u64,
    ) -> Result<(), P::Error> {
        let Some(before) =
            number.checked_sub(self.node.layout.slots()).filter(|&before| before > 0)
        else {
            return Ok(());
        };
        let slot = self.node.layout.slot(self.node.config.node, number);
        let mut found = [0];
        while found[0] < before {
            port.read_words(reader, slot, &mut found)?;
        }
        debug_assert_eq!(found[0], before, "slots are used in turn");
        Ok(())
    }

    /// Asks a reader which notices all of its ranks have passed.
    fn learn_room<P: DepositPort>(
        &self,
        port: &P,
        reader: u16,
        ranks: u32,
    ) -> Result<(), P::Error> {
        debug_assert!(ranks > 0, "a node has ranks");
        let mut pairs = vec![0; 2 * ranks as usize];
        port.read_words(reader, self.node.layout.passed(0, self.node.config.node), &mut pairs)?;
        let (pairs, _) = pairs.as_chunks::<2>();
        let least = |word: usize| pairs.iter().map(|pair| pair[word]).min().unwrap_or(0);
        let (number, position) = (least(0), least(1));
        let room = self.node.layout.room(reader);
        port.store(room, number);
        port.store(room + 8, position);
        Ok(())
    }

    /// Ends an interval, all before which are completed.
    fn complete_interval<P: DepositPort>(&self, port: &P, number: u64) {
        debug_assert_eq!(port.load(DepositLayout::COMPLETED) + 1, number, "in turn");
        port.store(self.node.layout.announced(self.node.config.node), number);
        let ended = port.exchange(DepositLayout::COMPLETED, number - 1, number);
        debug_assert!(ended, "an interval is completed once");
        if port.load(DepositLayout::AWAITED) != 0 {
            port.store(DepositLayout::AWAITED, 0);
            port.wake(DepositLayout::COMPLETED);
        }
    }

    fn notices<'a>(
        &self,
        (number, place): (u64, NoticePlace),
        words: &'a [u64],
    ) -> DepositedNotices<'a> {
        let (me, word) = (self.node.config.node, place.pack());
        let (slot, check) = (self.node.layout.slot(me, number), slot_check(number, word));
        let length = place.length.map_or(0, |length| length as usize);
        debug_assert!(length == 0 || length == words.len(), "all or nothing");
        // Words up to the end of the ring, and those from its beginning on.
        let in_ring = self.node.layout.ring_words();
        let first = length.min((in_ring - place.position % in_ring) as usize);
        let at = |skipped: usize| self.node.layout.notice(me, place.position + skipped as u64);
        let parts = [(at(0), 0..first), (at(first), first..length)];
        let words = words.get(..length).unwrap_or_default();
        DepositedNotices { parts, words, slot: (slot, [number, word, check]) }
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
}
