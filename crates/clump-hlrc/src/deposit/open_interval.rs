//! Open intervals: numbered when a rank releases a lock, and published when another waits for
//! them, so that a rank that enters its node's locks again and again publishes once.
//!
//! ```text
//! none -> open         a lock is released, whose word names the interval
//! open -> open         more is written, and more locks are released: they name it, too
//! open -> none         published: another node acquires such a lock, another rank of the node is
//!                      about to publish a later interval, or the rank meets others
//! ```
//!
//! A rank that waits raises a word of the writer's node ([`DepositLayout::WANTED`]). The writer
//! looks at it whenever it synchronises, and while it waits; where it does neither, a thread of its
//! own publishes after some time.

use crate::deposit::layout::DepositLayout;
use crate::deposit::node_side::NodeSide;
use crate::deposit::port::DepositPort;

impl NodeSide {
    fn own_open(&self) -> u64 {
        self.layout.open(self.config.rank)
    }

    /// Returns the number of the interval that this rank keeps open; 0 for none.
    pub(super) fn open_number<P: DepositPort>(&self, port: &P) -> u64 {
        port.load(self.own_open())
    }

    /// Ends the open interval of this rank, which has compared its pages. Not before: later
    /// intervals of other ranks would take this rank's bytes with them, and ranks that wait for
    /// this one would not learn of them.
    pub(super) fn end_open<P: DepositPort>(&self, port: &P, number: u64) {
        debug_assert_eq!(self.open_number(port), number, "one thread of the rank publishes");
        debug_assert!(number > port.load(DepositLayout::COMPLETED), "it is not published yet");
        port.store(self.own_open(), 0);
        port.wake(self.own_open());
    }

    /// Begins an interval of the node, as one that stays open or not. Returns its number.
    pub(super) fn begin_interval<P: DepositPort>(
        &self,
        port: &P,
        stays_open: bool,
    ) -> Result<u64, P::Error> {
        self.with_node(port, || {
            let number = port.load(DepositLayout::CLOSED) + 1;
            debug_assert!(number > port.load(DepositLayout::COMPLETED), "numbers ascend");
            port.store(DepositLayout::CLOSED_SUM, self.consumed_sum(port));
            if stays_open {
                // Ranks that begin later intervals find it.
                port.store(self.own_open(), number);
            }
            port.store(DepositLayout::CLOSED, number);
            number
        })
    }

    /// Waits until no rank of the node keeps an interval before `number` open.
    pub(super) fn await_earlier<P: DepositPort>(
        &self,
        port: &P,
        (number, ranks): (u64, u32),
    ) -> Result<(), P::Error> {
        debug_assert!(self.config.rank < ranks, "a rank of the node");
        for rank in (0..ranks).filter(|&rank| rank != self.config.rank) {
            let at = self.layout.open(rank);
            loop {
                let open = port.load(at);
                if open == 0 || open >= number {
                    break;
                }
                port.raise(self.config.node, &[(DepositLayout::WANTED, open)])?;
                port.wait_changed(at, open)?;
            }
        }
        Ok(())
    }

    /// Waits until a word that others deposit is at least so much. What is wanted of this rank
    /// meanwhile, `serve` publishes.
    pub(super) fn await_deposited<P: DepositPort>(
        &self,
        port: &P,
        word: (u64, u64),
        serve: &mut impl FnMut() -> Result<(), P::Error>,
    ) -> Result<(), P::Error> {
        loop {
            let open = self.open_number(port);
            let wanted = (open != 0).then_some((DepositLayout::WANTED, open));
            if port.wait_deposited(word, wanted)? {
                return Ok(());
            }
            debug_assert_ne!(open, 0, "that interval is wanted");
            serve()?;
        }
    }

    /// Asks for intervals that others may keep open: those of `time` whose notices are not here.
    pub(super) fn want<P: DepositPort>(&self, port: &P, time: &[u64]) -> Result<(), P::Error> {
        debug_assert_eq!(time.len(), usize::from(self.layout.nodes()), "an interval a node");
        for writer in self.others() {
            let number = time.get(usize::from(writer)).copied().unwrap_or(0);
            let is_here = self.consumed(port, writer) >= number
                || port.load(self.layout.slot(writer, number)) >= number;
            if !is_here {
                port.raise(writer, &[(DepositLayout::WANTED, number)])?;
            }
        }
        Ok(())
    }
}
