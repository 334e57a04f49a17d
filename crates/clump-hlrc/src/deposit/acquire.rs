//! Acquires: the node of a rank consumes notices, and the rank passes them.

use crate::deposit::copy_word::CopyWord;
use crate::deposit::layout::DepositLayout;
use crate::deposit::notices::{NoticePlace, Notices, slot_check};
use crate::deposit::port::DepositPort;
use crate::deposit::rank::DepositRank;
use std::ops::Range;

/// Interval that a node has not consumed.
type Missing = Option<(u16, u64)>;

/// Reading of a slot.
enum SlotRead {
    /// An earlier interval's, or one that changes just now.
    Earlier,
    /// Notices of the interval asked for.
    Notices(NoticePlace),
    /// All notices up to this interval found no room, or have been overwritten.
    Lost { number: u64, position: u64 },
}

impl DepositRank {
    /// Acquires `time`: the node consumes all notices up to it, and up to all that those depend on.
    /// The rank then [passes](DepositRank::pass) them. What is wanted of this rank meanwhile,
    /// `serve` publishes.
    ///
    /// # Errors
    /// Fails if a rank has died.
    pub fn consume<P: DepositPort>(
        &self,
        port: &P,
        time: &mut [u64],
        serve: &mut impl FnMut() -> Result<(), P::Error>,
    ) -> Result<(), P::Error> {
        debug_assert_eq!(time.len(), usize::from(self.node.layout.nodes()), "an interval a node");
        loop {
            let missing = self.node.with_node(port, || self.consume_deposited(port, time))?;
            let Some((writer, number)) = missing else { return Ok(()) };
            self.node.await_deposited(
                port,
                (self.node.layout.slot(writer, number), number),
                serve,
            )?;
        }
    }

    /// Consumes what is here of the notices up to `time`. Returns an interval that is not.
    fn consume_deposited<P: DepositPort>(&self, port: &P, time: &mut [u64]) -> Missing {
        loop {
            let mut missing = None;
            let mut has_grown = false;
            for writer in self.node.others() {
                while self.node.consumed(port, writer) < time[usize::from(writer)] {
                    let seen = match self.consume_next(port, writer) {
                        Ok(seen) => seen,
                        Err(number) => {
                            missing = Some((writer, number));
                            break;
                        }
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
    /// depends on; else the number of an interval that is not here.
    fn consume_next<P: DepositPort>(&self, port: &P, writer: u16) -> Result<Vec<u64>, u64> {
        let pair = self.node.layout.consumed(writer);
        let number = port.load(pair) + 1;
        let (number, position, time) = match self.read_slot(port, writer, number) {
            SlotRead::Earlier => return Err(number),
            SlotRead::Notices(place) => {
                let notices = self.read_notices(port, writer, place).ok_or(number)?;
                // A rank that fetches one of these pages now asks for these bytes, or its fetch has
                // begun, and becomes stale.
                for home in notices.homes {
                    port.store(self.node.layout.needed(home, notices.rank), number);
                }
                port.fence();
                for page in notices.pages.into_iter().flatten() {
                    let word = CopyWord(port.load(self.node.layout.copy(page)));
                    if word.is_fetched() {
                        port.set_bits(self.node.layout.copy(page), CopyWord::STALE);
                    }
                }
                (number, place.end(), notices.time)
            }
            SlotRead::Lost { number: last, position } => {
                // Those of other ranks of the writer that come late would overwrite later ones.
                let first = number.max(last.saturating_sub(self.node.layout.slots() - 1));
                let is_late =
                    |&number: &u64| port.load(self.node.layout.slot(writer, number)) < number;
                if let Some(late) = (first..last).find(is_late) {
                    return Err(late);
                }
                let number = last;
                let generation = port.load(DepositLayout::GENERATION);
                port.store(DepositLayout::GENERATION, generation + 1);
                (number, position, Vec::new())
            }
        };
        port.store(pair + 8, position);
        port.store(pair, number);
        Ok(time)
    }

    fn read_slot<P: DepositPort>(&self, port: &P, writer: u16, number: u64) -> SlotRead {
        let at = self.node.layout.slot(writer, number);
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
            words.map(|at| port.load(self.node.layout.notice(writer, at))).collect();
        let notices = {
            let layout = &self.node.layout;
            Notices::from_words(&words, (layout.nodes(), layout.ranks()), self.node.config.pages)
        };
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
            port.load(self.node.layout.passed(self.node.config.rank, writer))
                < self.node.consumed(port, writer)
        };
        if !self.node.others().any(news) {
            return Ok(());
        }
        let pairs = self.node.with_node(port, || {
            let pair = |writer| {
                let at = self.node.layout.consumed(writer);
                (writer, port.load(at), port.load(at + 8))
            };
            self.node.others().map(pair).collect::<Vec<_>>()
        })?;
        for (writer, until, position) in pairs {
            let pair = self.node.layout.passed(self.node.config.rank, writer);
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
                        drop(0..self.node.config.pages);
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
