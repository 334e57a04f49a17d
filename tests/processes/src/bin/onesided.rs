//! A program of one-sided operations for tests: `onesided WHAT [FOLDER]`, on two ranks or more.

use clump::rma::{AdvanceWord, AtomicOp, Comparison, Refusal, Rma, SpreadUpdate, Target, Update};
use clump_os::{clock, process, signal};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let what = std::env::args_os().nth(1).unwrap_or_default();
    let cl = clump::init()?;
    match &*what.to_string_lossy() {
        "deaf" => deaf(&cl),
        "widow" => widow(&cl),
        "lost" => lost(&cl),
        "hopes" => hopes(&cl),
        other => Err(format!("`{other}` is nothing to do").into()),
    }
}

/// Computes on all ranks but rank 0 until a word of their own memory tells them to stop; rank 0
/// accesses it.
fn deaf(cl: &clump::Clump) -> Result<()> {
    let rma = Rma::open(cl)?;
    let (mine, all) = cl.allocate(&rma, 1 << 20)?;
    cl.barrier()?;
    if cl.rank() != 0 {
        // Plain loads: no code here makes progress.
        while mine.get::<u64>(0)? == 0 {
            std::hint::spin_loop();
        }
        return Ok(());
    }
    let sent: Vec<u8> = (0..300_000_u32).map(|i| (i * 7 % 251) as u8).collect();
    let mut got = vec![0; sent.len()];
    for target in &all[1..] {
        for i in 0..100_u64 {
            target.put(8, i)?;
            rma.quiet()?;
            assert_eq!(target.get::<u64>(8)?, i);
            assert_eq!(target.fetch_add(16, 3_u64)?, 3 * i);
        }
        for bytes in [1, 7, 8, 9, 3000, 5000, sent.len()] {
            target.put_bytes(4097, &sent[..bytes])?;
            rma.quiet()?;
            got.fill(0);
            target.get_bytes(4097, &mut got[..bytes])?;
            assert!(got[..bytes] == sent[..bytes], "{bytes} bytes changed");
        }
        let refused = target.get::<u64>(1 << 20).map_err(|e| e.why());
        assert_eq!(refused, Err(Some(Refusal::OutOfBounds)));
        target.put(0, 1_u64)?;
    }
    rma.quiet()?;
    println!("all served");
    Ok(())
}

/// Gets until that is refused, and returns the reason.
fn refusal(target: &Target) -> Result<Option<Refusal>> {
    loop {
        match target.get::<u64>(8) {
            Ok(_) => clock::yield_now(),
            Err(error) => return Ok(error.why()),
        }
    }
}

/// Kills rank 2 of four while it holds a lock. Accesses to its exports are refused, its lock too;
/// accesses to those of rank 3, on the same node, are not.
fn widow(cl: &clump::Clump) -> Result<()> {
    let rma = Rma::open(cl)?;
    let (mine, all) = cl.allocate(&rma, 4096)?;
    let locks = rma.export_locks(1)?;
    let lock = rma.lock(cl.all_gather(locks.name())?[3], 0)?;
    match cl.rank() {
        2 => {
            let guard = lock.acquire()?;
            all[3].signal(0, 1, true)?;
            mine.wait_until(0, Comparison::Equal, 2_u64)?;
            process::signal(process::own_pid(), signal::KILL)?;
            drop(guard);
        }
        3 => {
            mine.wait_until(0, Comparison::Equal, 1_u64)?;
            mine.signal(0, 1, true)?;
            mine.wait_until(0, Comparison::Equal, 4_u64)?;
            assert_eq!(
                lock.acquire().map(drop).map_err(|e| e.why()),
                Err(Some(Refusal::HolderDied))
            );
        }
        _ => {
            while all[3].load::<u64>(0)? < 2 {
                clock::yield_now();
            }
            if cl.rank() == 0 {
                all[2].signal(0, 2, false)?;
            }
            assert_eq!(
                lock.acquire().map(drop).map_err(|e| e.why()),
                Err(Some(Refusal::HolderDied))
            );
            assert_eq!(refusal(&all[2])?, Some(Refusal::OwnerDead));
            all[3].get::<u64>(8)?;
            all[3].signal(0, 1, true)?;
            rma.quiet()?;
            println!("rank {} goes on", cl.rank());
        }
    }
    Ok(())
}

/// Uses operations to the node of the last rank, which is killed once rank 0 has made `ready-0`.
fn lost(cl: &clump::Clump) -> Result<()> {
    let rma = Rma::open(cl)?;
    let (mine, all) = cl.allocate(&rma, 4096)?;
    let flags = rma.export_flags(1)?;
    let flag = rma.flag(cl.all_gather(flags.name())?[cl.nranks() - 1], 0)?;
    let last = &all[cl.nranks() - 1];
    if cl.rank() == 0 {
        last.put(0, 1_u64)?;
        last.get::<u64>(0)?;
        let folder = std::env::args_os().nth(2).unwrap_or_default();
        std::fs::write(std::path::Path::new(&folder).join("ready-0"), "")?;
        let by_word = std::env::args_os().nth(3).is_some_and(|which| which == "word");
        let waited = if by_word {
            last.when(16, Comparison::Equal, 1).map(drop)
        } else {
            flag.wait(Comparison::Equal, 1).map(drop)
        };
        assert_eq!(waited.map_err(|e| e.why()), Err(Some(Refusal::NodeLost)));
        assert_eq!(refusal(last)?, Some(Refusal::NodeLost));
        let again = last.when(16, Comparison::Equal, 1).map(drop).map_err(|e| e.why());
        assert_eq!(again, Err(Some(Refusal::NodeLost)));
        let spread = rma.spread(1, AtomicOp::Add, &[SpreadUpdate::new(last.name(), 0, 1)]);
        assert_eq!(spread.map_err(|e| e.why()), Err(Some(Refusal::NodeLost)));
        let many = last.update_many(0, AtomicOp::Add, &[Update::new(0, 1)]);
        assert_eq!(many.map_err(|e| e.why()), Err(Some(Refusal::NodeLost)));
        assert_eq!(last.put(0, 2_u64).map_err(|e| e.why()), Err(Some(Refusal::NodeLost)));
        // The first put was never acknowledged. That is reported once; survivors go on.
        assert_eq!(rma.quiet().map_err(|e| e.why()), Err(Some(Refusal::NodeLost)));
        mine.put(8, 3_u64)?;
        rma.quiet()?;
        println!("rank 0 goes on");
    } else {
        mine.wait_until(0, Comparison::Equal, u64::MAX)?;
    }
    Ok(())
}

/// Kills rank 2 of four while all others wait, at its node's interface, for a word of its memory
/// that never changes. Their waits end, and later ones for words of the living are answered.
fn hopes(cl: &clump::Clump) -> Result<()> {
    let rma = Rma::open(cl)?;
    let (mine, all) = cl.allocate(&rma, 4096)?;
    if cl.rank() == 2 {
        mine.wait_until(0, Comparison::Equal, 3_u64)?;
        process::signal(process::own_pid(), signal::KILL)?;
    }
    all[2].signal(0, 1, true)?;
    let ended = all[2].when(16, Comparison::Equal, 1);
    assert_eq!(ended.map_err(|error| error.why()), Err(Some(Refusal::OwnerDead)));
    // The signal that ended rank 2 may have got no answer.
    let _ = rma.quiet();
    if cl.rank() == 3 {
        all[3].apply(&[], &[AdvanceWord::to(24, 7)])?;
    }
    let seen = all[3].when(24, Comparison::AtLeast, 7)?;
    if cl.rank() == 3 {
        // Its memory is there for as long as it is.
        mine.wait_until(32, Comparison::Equal, 2_u64)?;
    } else {
        all[3].signal(32, 1, true)?;
        rma.quiet()?;
    }
    println!("rank {} has seen {seen} and goes on", cl.rank());
    Ok(())
}
