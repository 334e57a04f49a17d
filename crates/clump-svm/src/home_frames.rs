//! Frames of pages at their home on another node, and words of its records beside them, as one
//! thread of a rank reaches them.

use crate::node_pages::PAGE;
use clump_hlrc::deposit::{DepositedBytes, DepositedNotices, PageBytes};
use clump_onesided::protocol::MAX_PIECE;
use clump_onesided::{AdvanceWord, Range as Bytes};
use clump_rma::{Rma, Target};
use std::ops::Range;

/// Bytes of heads in a request: one for each run, and one for each word behind the runs.
pub(crate) const RUN_HEAD: usize = 16;
pub(crate) const WORD_HEAD: usize = 24;

/// Most words of notices that travel with bytes: each takes as much as three.
const MAX_WORDS_BESIDE: usize = 64;

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
        let frames: Vec<_> =
            pages.iter().map(|&page| Bytes::new(place(page), PAGE as u64)).collect();
        if bytes.len() + size_of_val(to) <= MAX_PIECE {
            bytes.resize(bytes.len() + size_of_val(to), 0);
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
                phase.gather(self.heap, &frames, to.as_flattened_mut())?;
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

    /// Writes runs, and words around them: in one request, where they fit.
    pub(crate) fn deposit(&self, bytes: &DepositedBytes<'_>) -> clump_rma::Result<()> {
        debug_assert!(!bytes.runs.is_empty(), "something is written");
        self.rma.fence();
        let mut words: Vec<_> = bytes
            .announced
            .map(|(at, value)| AdvanceWord::at_least(at, value).ahead())
            .into_iter()
            .collect();
        let (mut batch, mut load, mut is_one) = (Vec::new(), WORD_HEAD * 2, true);
        for run in bytes.runs {
            for (first, data) in run.diff.runs() {
                let more = RUN_HEAD + data.len();
                debug_assert!(first + data.len() <= PAGE, "a run of one page");
                if load + more > MAX_PIECE {
                    self.heap.apply_beside(&batch, (self.records, &words))?;
                    if !words.is_empty() {
                        // Ahead of all that follows.
                        self.rma.fence();
                    }
                    (batch, load, is_one) = (Vec::new(), WORD_HEAD * 2, false);
                    words.clear();
                }
                batch.push((place(run.page) + first as u64, data));
                load += more;
            }
        }
        if !is_one {
            // Behind the bytes that went before.
            self.rma.fence();
        }
        let (at, value) = bytes.arrived;
        words.push(AdvanceWord::at_least(at, value));
        let Some(notices) = &bytes.notices else {
            return self.heap.apply_beside(&batch, (self.records, &words));
        };
        let fit = notices.words.len() <= MAX_WORDS_BESIDE
            && load + (notices.words.len() + 3) * WORD_HEAD <= MAX_PIECE;
        if fit {
            words.extend(notice_words(notices));
            return self.heap.apply_beside(&batch, (self.records, &words));
        }
        self.heap.apply_beside(&batch, (self.records, &words))?;
        self.deposit_notices(notices)
    }

    /// Writes notices, and their slot behind them.
    pub(crate) fn deposit_notices(&self, notices: &DepositedNotices<'_>) -> clump_rma::Result<()> {
        debug_assert!(notices.parts.iter().all(|(_, part)| part.end <= notices.words.len()), "all");
        debug_assert!(notices.slot.0.is_multiple_of(8), "a slot of words");
        self.rma.fence();
        let bytes: Vec<u8> = notices.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let runs: Vec<(u64, &[u8])> = notices
            .parts
            .iter()
            .filter_map(|(at, part)| Some((*at, bytes.get(part.start * 8..part.end * 8)?)))
            .filter(|(_, bytes)| !bytes.is_empty())
            .collect();
        let slot = slot_words(notices.slot);
        let heads = RUN_HEAD * runs.len() + WORD_HEAD * slot.len();
        if bytes.len() + heads <= MAX_PIECE {
            return self.records.apply(&runs, &slot);
        }
        for (at, bytes) in runs {
            self.records.put_bytes(at, bytes)?;
        }
        self.rma.fence();
        self.records.apply(&[], &slot)
    }
}

fn slot_words((slot, [number, second, third]): (u64, [u64; 3])) -> [AdvanceWord; 3] {
    debug_assert!(number > 0, "intervals are counted from 1");
    [
        AdvanceWord::to(slot + 8, second),
        AdvanceWord::to(slot + 16, third),
        AdvanceWord::to(slot, number),
    ]
}

/// Returns notices, and their slot, as words that change one behind the other.
fn notice_words(notices: &DepositedNotices<'_>) -> Vec<AdvanceWord> {
    let of_part = |(at, part): &(u64, Range<usize>)| {
        let words = notices.words.get(part.clone()).unwrap_or_default();
        let places = (*at..).step_by(8).zip(words);
        places.map(|(at, &word)| AdvanceWord::to(at, word)).collect::<Vec<_>>()
    };
    debug_assert!(notices.slot.0.is_multiple_of(8), "a slot of words");
    let mut words: Vec<AdvanceWord> = notices.parts.iter().flat_map(of_part).collect();
    words.extend(slot_words(notices.slot));
    debug_assert!(words.len() <= notices.words.len() + 3, "each word once");
    words
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
