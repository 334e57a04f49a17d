//! Pages that come before they are used, and pages whose stores are not looked for.

use crate::Result;
use clump::svm::{Home, SharedArray, Svm};

/// Elements of a page.
const PAGE: usize = 512;
/// Pages of an array.
const PAGES: usize = 64;

/// Returns the value of an element of a page.
fn value(round: u64, page: usize) -> u64 {
    round * 100_000 + page as u64
}

/// Ranks read arrays to their ends, and past rows at equal distances; others lie behind them, with
/// homes of their own.
fn allocations(svm: &Svm, (me, all, nodes): (usize, usize, usize)) -> Result<()> {
    for turn in 0..12 {
        let home = [Home::Node(turn % nodes), Home::Block, Home::Cyclic, Home::FirstWrite];
        let words = svm.array::<u64>(PAGES * PAGE, home[turn % home.len()])?;
        let writer = (turn / 2) % all;
        if me == writer {
            (0..PAGES).for_each(|page| words.set(page * PAGE + turn, value(1, page)));
        }
        svm.barrier()?;
        let step = 1 + turn % 3;
        for page in (0..PAGES).step_by(step) {
            assert_eq!(words.get(page * PAGE + turn), value(1, page), "page {page}, {turn}");
        }
        svm.barrier()?;
    }
    Ok(())
}

/// One rank writes pages apart from each other each period; the others read some of them, for a
/// while.
fn periods(svm: &Svm, me: usize, words: &SharedArray<u64>) -> Result<()> {
    for round in 1..=40_u64 {
        if me == 0 {
            (0..PAGES).for_each(|page| words.set(page * PAGE + 3, value(round, page)));
        }
        svm.barrier()?;
        // Others from then on.
        let first = if round <= 30 { 1 } else { 2 };
        for page in (first..PAGES).step_by(7) {
            assert_eq!(words.get(page * PAGE + 3), value(round, page), "page {page}, {round}");
        }
        svm.barrier()?;
    }
    Ok(())
}

/// Each rank writes pages of its own under a lock, and reads one more of another rank's in each
/// round: until then nobody had a copy.
fn private(svm: &Svm, (me, all): (usize, usize), words: &SharedArray<u64>) -> Result<()> {
    let lock = svm.mutex::<u64>()?;
    let own = PAGES / all * me..PAGES / all * (me + 1);
    for round in 1..=PAGES as u64 / all as u64 {
        let guard = lock.lock()?;
        own.clone().for_each(|page| words.set(page * PAGE + 9, value(round, page)));
        guard.set(guard.get() + 1);
        guard.release()?;
        svm.barrier()?;
        let next = (me + 1) % all;
        let others = PAGES / all * next..PAGES / all * next + round as usize;
        for page in others {
            assert_eq!(words.get(page * PAGE + 9), value(round, page), "page {page}, {round}");
        }
        svm.barrier()?;
    }
    Ok(())
}

/// Runs all of it. Rank 1 tells of its pages.
pub fn ahead() -> Result<()> {
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let (me, all) = (cl.rank(), cl.nranks());
    allocations(&svm, (me, all, cl.nnodes()))?;
    let words = svm.array::<u64>(PAGES * PAGE, Home::Node(0))?;
    periods(&svm, me, &words)?;
    private(&svm, (me, all), &svm.array::<u64>(PAGES * PAGE, Home::Block)?)?;
    if me == all - 1 {
        let ahead = svm.breakdown().ahead;
        println!("{} ahead, {} unused", ahead.pages, ahead.unused);
    }
    svm.barrier()?;
    Ok(())
}
