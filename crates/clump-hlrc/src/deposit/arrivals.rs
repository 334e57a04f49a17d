//! Arrivals of bytes at their homes: what a fetch waits for, and what two ranks of a node do that
//! write one page.

use crate::deposit::node_side::NodeSide;
use crate::deposit::port::DepositPort;

/// Bits of a page's deposit below its rank.
const NUMBER_BITS: u32 = 40;

/// Bytes of one rank up to one of its intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrival {
    /// The rank among those of the job.
    pub(super) rank: u32,
    /// The interval.
    pub(super) number: u64,
}

impl NodeSide {
    /// Returns this rank's number among those of the job.
    pub(super) fn job_rank(&self) -> u32 {
        self.config.first_rank + self.config.rank
    }

    /// Notes that this rank deposits bytes of a page that it has locked.
    pub(super) fn note_deposit<P: DepositPort>(&self, port: &P, page: u32, number: u64) {
        debug_assert!(number < 1 << NUMBER_BITS, "intervals do not overflow");
        let word = u64::from(self.job_rank() + 1) << NUMBER_BITS | number;
        port.store(self.layout.deposit(page), word);
    }

    /// Returns the bytes of the own node for a page that are not known to be at its home.
    pub(super) fn own_deposit<P: DepositPort>(
        &self,
        port: &P,
        (page, home): (u32, u16),
    ) -> Option<Arrival> {
        let word = port.load(self.layout.deposit(page));
        let rank = ((word >> NUMBER_BITS) as u32).checked_sub(1)?;
        let own = Arrival { rank, number: word & ((1 << NUMBER_BITS) - 1) };
        (!self.is_known(port, home, own)).then_some(own)
    }

    /// Returns true if bytes are known to be at a home.
    pub(super) fn is_known<P: DepositPort>(&self, port: &P, home: u16, bytes: Arrival) -> bool {
        port.load(self.layout.known(home, bytes.rank)) >= bytes.number
    }

    /// Returns what must be at the home of pages before they are fetched, and is not known to be.
    pub(super) fn awaited<P: DepositPort>(
        &self,
        port: &P,
        (home, pages): (u16, &[u32]),
    ) -> Vec<Arrival> {
        debug_assert_ne!(home, self.config.node, "a home fetches nothing");
        let needed = |rank| Arrival { rank, number: port.load(self.layout.needed(home, rank)) };
        let others = (0..self.layout.ranks()).map(needed);
        let mut all: Vec<_> = others.filter(|bytes| !self.is_known(port, home, *bytes)).collect();
        all.extend(pages.iter().filter_map(|&page| self.own_deposit(port, (page, home))));
        all
    }

    /// Notes how far bytes of a rank have arrived at a home.
    pub(super) fn learn_arrival<P: DepositPort>(&self, port: &P, home: u16, bytes: Arrival) {
        let at = self.layout.known(home, bytes.rank);
        loop {
            let known = port.load(at);
            if known >= bytes.number || port.exchange(at, known, bytes.number) {
                return;
            }
        }
    }

    /// Waits until bytes are at a home. Asks it again and again: they are under way.
    ///
    /// # Errors
    /// Fails if the home, or a rank, is lost.
    pub(super) fn await_arrival<P: DepositPort>(
        &self,
        port: &P,
        (home, bytes): (u16, Arrival),
    ) -> Result<(), P::Error> {
        debug_assert_ne!(home, self.config.node, "bytes of the own node are there");
        while !self.is_known(port, home, bytes) {
            let mut arrived = [0];
            port.read_words(home, self.layout.arrived(bytes.rank), &mut arrived)?;
            self.learn_arrival(port, home, Arrival { number: arrived[0], ..bytes });
        }
        Ok(())
    }

    /// Waits until all bytes of ranks of this node are at their homes.
    ///
    /// # Errors
    /// Fails if a node, or a rank, is lost.
    pub(super) fn await_own<P: DepositPort>(
        &self,
        port: &P,
        ranks: std::ops::Range<u32>,
    ) -> Result<(), P::Error> {
        debug_assert!(ranks.end <= self.layout.ranks(), "ranks of the job");
        for home in self.others() {
            for rank in ranks.clone() {
                let number = port.load(self.layout.needed(home, rank));
                self.await_arrival(port, (home, Arrival { rank, number }))?;
            }
        }
        Ok(())
    }
}
