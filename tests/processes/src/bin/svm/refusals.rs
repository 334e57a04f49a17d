//! Allocations that fail, at one rank or at all, and what works afterwards.

use crate::Result;
use clump::Clump;
use clump::svm::{Home, Svm, SvmOptions};

/// Has each rank in turn pass what only it gets wrong: all ranks fail, say that they took part, and
/// the next allocation is the next one of all.
pub fn one_rank_is_wrong() -> Result<()> {
    let cl = clump::init()?;
    let svm = cl.svm()?;
    for wrong in 0..cl.nranks() {
        let home = if cl.rank() == wrong { Home::Node(cl.nnodes() + 7) } else { Home::Cyclic };
        let Err(why) = svm.array::<u64>(5000, home) else {
            return Err("there is no such node".into());
        };
        assert!(why.took_part(), "{why}");
        let named = if cl.rank() == wrong { "no such node" } else { "another rank" };
        assert!(why.to_string().contains(named), "{why}");

        let len = if cl.rank() == wrong { usize::MAX / 16 } else { 5000 };
        let Err(why) = svm.array::<u64>(len, Home::Block) else {
            return Err("the heap is smaller".into());
        };
        assert!(why.took_part(), "{why}");
        use_array(&cl, &svm)?;
    }
    assert!(svm.locks(usize::MAX).is_err(), "there are fewer");
    let guard = svm.mutex::<u64>()?;
    let held = guard.lock()?;
    held.set(held.get() + 1);
    held.release()?;
    svm.barrier()?;
    let held = guard.lock()?;
    assert_eq!(held.get(), cl.nranks() as u64, "each rank counts once");
    held.release()?;
    svm.barrier()?;
    println!("refused together");
    Ok(())
}

/// Allocates `bytes`, which the machine does not have, in each way, and then what it has.
pub fn more_than_memory(bytes: usize) -> Result<()> {
    let cl = clump::init()?;
    let (heap_bytes, dynamic_bytes) = (1 << 39, 1 << 38);
    let svm = cl.svm_with(&SvmOptions { heap_bytes, dynamic_bytes, ..SvmOptions::default() })?;
    for _ in 0..2 {
        let Err(why) = svm.array::<u8>(bytes, Home::Cyclic) else {
            return Err("no memory holds such an array".into());
        };
        assert!(why.took_part(), "{why}");
        let named = if cl.rank() == 0 { "of memory cannot be had" } else { "another rank" };
        assert!(why.to_string().contains(named), "{why}");
        let Err(why) = svm.alloc_alone(bytes as u64, Home::Block) else {
            return Err("no memory holds such an allocation".into());
        };
        assert!(why.to_string().contains("of memory cannot be had"), "{why}");
        use_array(&cl, &svm)?;
    }
    println!("nobody died");
    Ok(())
}

/// Shares an array that all ranks write, each its own elements.
fn use_array(cl: &Clump, svm: &Svm) -> Result<()> {
    let all = svm.array::<u64>(5000, Home::Cyclic)?;
    let (rank, ranks) = (cl.rank(), cl.nranks());
    (rank..5000).step_by(ranks).for_each(|at| all.set(at, (at * 3 + 1) as u64));
    svm.barrier()?;
    assert!((0..5000).all(|at| all.get(at) == (at * 3 + 1) as u64), "all see one array");
    svm.barrier()?;
    Ok(())
}
