//! Pages that a rank fetches by its own stack: as they are at their home, also new versions, and
//! not from inside a copy of the stack.

use crate::Result;
use clump::rma::{RegionOptions, Rma};
use clump::svm::{Home, SharedArray, Svm};

/// Pages of a round.
const PAGES: usize = 24;
/// Elements of a page.
const PAGE: usize = 512;

/// Reads every other page, from the last to the first, as no read-ahead expects it.
fn read_apart(words: &SharedArray<u64>, round: u64) {
    for page in (0..PAGES).rev().step_by(2) {
        let found = words.get(page * PAGE + 7);
        assert_eq!(found, round * 1000 + page as u64, "page {page} of round {round}");
    }
}

/// Returns the faults, and the own fetches among them, that `work` causes.
fn counted(svm: &Svm, work: impl FnOnce() -> Result<()>) -> Result<(u64, u64)> {
    let before = svm.breakdown();
    work()?;
    let after = svm.breakdown();
    Ok((after.data.count - before.data.count, after.own_fetches - before.own_fetches))
}

/// The last rank, whose node is the home, writes; rank 0 fetches.
pub fn own_fetches() -> Result<()> {
    let cl = clump::init()?;
    let (rma, svm) = (Rma::open(&cl)?, cl.svm()?);
    let (me, last) = (cl.rank(), cl.nranks() - 1);
    let home = Home::Node(cl.nnodes() - 1);
    let words = svm.array::<u64>(PAGES * PAGE, home)?;
    let (mut faults, mut own) = (0, 0);
    for round in 1..=5_u64 {
        if me == last {
            (0..PAGES).for_each(|page| words.set(page * PAGE + 7, round * 1000 + page as u64));
        }
        svm.barrier()?;
        if me == 0 {
            let count = counted(&svm, || {
                read_apart(&words, round);
                // Bytes of another writer on the same pages.
                (0..PAGES).rev().step_by(2).for_each(|page| words.set(page * PAGE, round));
                Ok(())
            })?;
            (faults, own) = (faults + count.0, own + count.1);
        }
        svm.barrier()?;
        if me == last {
            let found = (0..PAGES).rev().step_by(2).map(|page| words.get(page * PAGE));
            assert_eq!(found.filter(|found| *found != round).count(), 0, "round {round}");
        }
        svm.barrier()?;
    }
    let under_lock = put_from_heap(&cl, &rma, &svm)?;
    if me == 0 {
        println!("{own} own fetches of {faults} faults, {under_lock} of {PAGES} in a copy");
    }
    svm.barrier()?;
    Ok(())
}

/// Sends pages that are elsewhere straight from the heap: the faults interrupt the stack's own
/// copy, with its lock held. Returns the own fetches among them.
#[allow(unsafe_code, reason = "clump gives no slices of the heap")]
fn put_from_heap(cl: &clump::Clump, rma: &Rma, svm: &Svm) -> Result<u64> {
    let bytes = PAGES * PAGE * 8;
    let region = rma.node_region(0, bytes as u64, RegionOptions::default())?;
    let words = svm.array::<u64>(PAGES * PAGE, Home::Node(cl.nnodes() - 1))?;
    if cl.rank() == cl.nranks() - 1 {
        (0..words.len()).for_each(|at| words.set(at, at as u64 ^ 0x5a5a));
    }
    svm.barrier()?;
    let mut own = 0;
    if cl.rank() == 0 {
        // SAFETY: the array is there as long as the heap, and nobody writes it meanwhile.
        let from = unsafe { std::slice::from_raw_parts(words.address().as_ptr().cast(), bytes) };
        let there = rma.target_on(cl.nnodes() as u32 - 1, 0)?;
        let counted = counted(svm, || Ok(there.put_bytes(0, from)?))?;
        rma.quiet()?;
        own = counted.1;
        let mut back = vec![0; bytes];
        there.get_bytes(0, &mut back)?;
        let (back, _) = back.as_chunks::<8>();
        let wrong = (0..).zip(back).filter(|(at, word)| u64::from_le_bytes(**word) != at ^ 0x5a5a);
        assert_eq!(wrong.count(), 0, "what was put is what the heap has");
    }
    svm.barrier()?;
    drop(region);
    Ok(own)
}
