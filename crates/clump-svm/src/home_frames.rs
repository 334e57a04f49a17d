//! Frames of pages at their home on another node, and words of its records beside them, as one
//! thread of a rank reaches them.

use crate::node_pages::PAGE;
use clump_hlrc::deposit::{DepositedRun, PageBytes};
use clump_onesided::protocol::MAX_PIECE;
use clump_onesided::{AdvanceWord, Range as Bytes};
use clump_rma::{Rma, Target};

/// Bytes of heads in a request: one for each run, and one for each word behind the runs.
pub(crate) const RUN_HEAD: usize = 16;
pub(crate) const WORD_HEAD: usize = 24;

/// Frames of a home.
#[derive(Debug)]
pub(crate) struct HomeFrames<'a> {
    pub(crate) rma: &'a Rma,
    pub(crate) records: &'a Target,
    pub(crate) heap: &'a Target,
}

impl HomeFrames<'_> {
    /// Reads words from a place on, then pages, and then other words.
    pub(crate) fn fetch(
        &self,
        (before, arrived): (u64, &mut [u64]),
        (pages, to): (&[u32], &mut [PageBytes]),
        (at, words): (u64, &mut [u64]),
    ) -> clump_rma::Result<()> {
        debug_assert_eq!(pages.len(), to.len(), "a place for each page");
        debug_assert_eq!(self.records.name().owner(), self.heap.name().owner(), "of one node");
        let (first, last) = (size_of_val(arrived), size_of_val(words));
        let mut bytes = vec![0; first + last];
        if bytes.len() + size_of_val(to) <= MAX_PIECE {
            bytes.resize(bytes.len() + size_of_val(to), 0);
            let frames: Vec<_> =
                pages.iter().map(|&page| Bytes::new(place(page), PAGE as u64)).collect();
            let around = (Bytes::new(before, first as u64), Bytes::new(at, last as u64));
            let around = (self.records, &[around.0][..], &[around.1][..]);
            self.heap.gather_between(&frames, around, &mut bytes)?;
            to.as_flattened_mut().copy_from_slice(&bytes[first..bytes.len() - last]);
        } else {
            let (first, last) = bytes.split_at_mut(first);
            let all = self.rma.phase(|phase| {
                if !first.is_empty() {
                    phase.get_bytes(self.records, before, first)?;
                    self.rma.fence();
                }
                let (mut pages, mut rest) = (pages, to);
                while let Some(&first) = pages.first() {
                    let follow =
                        (first..).zip(pages).take_while(|(due, page)| due == *page).count();
                    let (run, behind) = rest.split_at_mut(follow);
                    phase.get_bytes(self.heap, place(first), run.as_flattened_mut())?;
                    (pages, rest) = (pages.get(follow..).unwrap_or_default(), behind);
                }
                if last.is_empty() {
                    return Ok(());
                }
                self.rma.fence();
                phase.get_bytes(self.records, at, last)
            });
            all?;
        }
        copy_words(&bytes[..first], arrived);
        copy_words(&bytes[bytes.len() - last..], words);
        Ok(())
    }

    /// Writes runs, and makes a word at least so much behind them.
    pub(crate) fn deposit(
        &self,
        runs: &[DepositedRun],
        (at, value): (u64, u64),
    ) -> clump_rma::Result<()> {
        debug_assert!(!runs.is_empty() && at.is_multiple_of(8), "bytes, and a whole word");
        self.rma.fence();
        let word = [AdvanceWord::at_least(at, value)];
        let (mut batch, mut bytes, mut is_one) = (Vec::new(), WORD_HEAD, true);
        for run in runs {
            for (first, data) in run.diff.runs() {
                let more = RUN_HEAD + data.len();
                debug_assert!(first + data.len() <= PAGE, "a run of one page");
                if bytes + more > MAX_PIECE {
                    self.heap.apply(&batch, &[])?;
                    (batch, bytes, is_one) = (Vec::new(), WORD_HEAD, false);
                }
                batch.push((place(run.page) + first as u64, data));
                bytes += more;
            }
        }
        if !is_one {
            // Behind the bytes that went before.
            self.rma.fence();
        }
        self.heap.apply_beside(&batch, (self.records, &word))
    }
}

/// Copies the bytes of words.
pub(crate) fn copy_words(bytes: &[u8], to: &mut [u64]) {
    let (found, _) = bytes.as_chunks::<8>();
    debug_assert_eq!(found.len(), to.len(), "bytes of these words");
    to.iter_mut().zip(found).for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes));
}

/// Returns the place of a page in the heap.
pub(crate) fn place(page: u32) -> u64 {
    u64::from(page) * PAGE as u64
}
