//! Releases of locks that publish nothing until another rank waits for it.

use crate::Result;
use clump::svm::{Home, SharedArray, SharedLocks};

/// Elements of a page.
const PAGE: usize = 512;
/// Entries of a rank into its own lock, in a row.
const TURNS: u64 = 300;

/// A lock for each rank, and what it guards: a page of its own, and one with all others.
struct Guarded {
    locks: SharedLocks,
    own: SharedArray<u64>,
    together: SharedArray<u64>,
}

impl Guarded {
    fn add(&self, rank: usize) -> Result<u64> {
        let held = self.locks.lock(rank)?;
        let value = self.own.get(rank * PAGE) + 1;
        self.own.set(rank * PAGE, value);
        assert_eq!(self.together.get(rank) + 1, value, "of rank {rank}");
        self.together.set(rank, value);
        held.release()?;
        Ok(value)
    }
}

/// Ranks enter their own locks again and again. Then one rank enters those of the others, which
/// wait for a message meanwhile, and have nothing to do with the heap. Prints the releases of the
/// last rank that published nothing.
pub fn putting_off() -> Result<()> {
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let (me, all) = (cl.rank(), cl.nranks());
    let guarded = Guarded {
        locks: svm.locks(all)?,
        own: svm.array(all * PAGE, Home::Cyclic)?,
        together: svm.array(all, Home::Node(0))?,
    };
    svm.barrier()?;
    for asking in 0..all {
        for turn in 1..=TURNS {
            let before = asking as u64 * (TURNS + 1) - u64::from(asking > me);
            assert_eq!(guarded.add(me)?, before + turn, "rank {me}, round {asking}");
        }
        // Messages alone.
        cl.barrier()?;
        if me == asking {
            for other in (0..all).filter(|&other| other != me) {
                let due = (asking as u64 + 1) * (TURNS + 1) - u64::from(asking > other);
                assert_eq!(guarded.add(other)?, due, "lock {other}, round {asking}");
            }
        }
        cl.barrier()?;
    }
    svm.barrier()?;
    let due = all as u64 * (TURNS + 1) - 1;
    for rank in 0..all {
        assert_eq!([guarded.own.get(rank * PAGE), guarded.together.get(rank)], [due; 2]);
    }
    svm.barrier()?;
    if me == all - 1 {
        println!("{} put off", svm.breakdown().put_off);
    }
    Ok(())
}
