//! Writes that become visible in unusual ways: behind locks that others take back, and behind
//! barriers at which mostly nobody has written.

use crate::Result;
use clump::svm::Home;
use clump_os::clock;

/// Ranks keep locks, and publish by a fence just behind each release, while others take the locks;
/// then all but rank 0 leave with locks that they keep.
pub fn take_back(rounds: u64) -> Result<()> {
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let (ranks, rank) = (cl.nranks(), cl.rank());
    let locks = svm.locks(ranks)?;
    // Under lock `l`: word `l` of some pages at home and not, which are equal.
    let words = svm.array::<u64>(512 * 4 * ranks, Home::Cyclic)?;
    let processes = svm.array::<u32>(ranks, Home::Node(0))?;
    let add = |lock: usize| -> Result<u64> {
        let held = locks.lock(lock)?;
        let before = words.get(lock);
        for page in 0..4 * ranks {
            let at = 512 * page + lock;
            assert_eq!(words.get(at), before, "page {page} under lock {lock} at rank {rank}");
            words.set(at, before + 1);
        }
        held.release()?;
        Ok(before)
    };
    for round in 0..rounds {
        // Mostly its own lock.
        let other = round % 8 == 7;
        add(if other { (rank + 1 + round as usize / 8) % ranks } else { rank })?;
        if round % 2 == 0 {
            svm.fence()?;
        }
    }
    processes.set(rank, std::process::id());
    svm.barrier()?;
    // Nothing publishes these.
    (0..4).try_for_each(|_| add(rank).map(drop))?;
    if rank > 0 {
        return Ok(());
    }
    for other in 1..ranks {
        // A process that has ended has no mappings any more.
        let maps = format!("/proc/{}/maps", processes.get(other));
        while std::fs::read(&maps).is_ok_and(|maps| !maps.is_empty()) {
            clock::yield_now();
        }
    }
    let counts: Result<Vec<u64>> = (0..ranks).map(add).collect();
    let total: u64 = counts?.iter().sum();
    assert_eq!(total, (rounds + 4) * ranks as u64, "every addition counts");
    println!("locks that were taken back lost nothing: {total} additions");
    Ok(())
}

/// Periods between barriers: in some nobody writes, in others one rank does, plainly, under a lock
/// that it keeps, with a flag, or in another thread. All read what was written last.
pub fn periods(rounds: u64) -> Result<()> {
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let (ranks, rank) = (cl.nranks(), cl.rank());
    let (locks, flags) = (svm.locks(ranks)?, svm.flags(1)?);
    // A word in each of some pages.
    let words = svm.array::<u64>(512 * 8, Home::Cyclic)?;
    let mut due = [0; 8];
    let mixed = |round: u64| (round + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    for round in 0..rounds {
        let choice = mixed(round);
        let (writer, page) = (choice as usize / 8 % ranks, choice as usize / 128 % 8);
        let at = 512 * page + writer;
        let mine = writer == rank;
        match choice % 8 {
            0 if mine => words.set(at, round),
            1 if mine => {
                let held = locks.lock(rank)?;
                words.set(at, round);
                held.release()?;
            }
            2 if mine => {
                words.set(at, round);
                flags.set(0, round)?;
            }
            3 if mine => {
                let words = words.clone();
                let thread = std::thread::spawn(move || words.set(at, round));
                thread.join().map_err(|_| "the thread panicked")?;
            }
            _ => {}
        }
        if choice % 8 < 4 {
            due[page] = round;
        }
        if choice % 8 == 1 && !mine && choice & 1 << 20 != 0 {
            locks.lock(writer)?.release()?;
        }
        svm.barrier()?;
        for (page, &due) in due.iter().enumerate() {
            let last = (0..ranks).map(|rank| words.get(512 * page + rank)).max();
            assert_eq!(last, Some(due), "page {page} in period {round} at rank {rank}");
        }
        // Nobody writes while others read.
        svm.barrier()?;
    }
    if rank == 0 {
        println!("every period was seen");
    }
    Ok(())
}

/// Rank 0 publishes a pointer to a cell without a lock; rank 1, which has read the cell before,
/// faults on the pointer and follows it.
pub fn pointer() -> Result<()> {
    let cl = clump::init()?;
    let svm = cl.svm()?;
    // From the last to the first, with a gap: interfaces fetch pages in sequence.
    let pointer = svm.array::<u64>(2 * 512, Home::Node(0))?;
    let cell = svm.array::<u64>(512, Home::Node(0))?;
    if svm.rank() == 1 {
        assert_eq!(cell.get(0), 0, "nobody has written it");
    }
    svm.team().barrier()?;
    if svm.rank() == 0 {
        cell.set(0, 9);
        svm.fence()?;
        pointer.set(0, 1);
    }
    // Messages acquire nothing.
    svm.team().barrier()?;
    if svm.rank() == 1 {
        println!("pointer {} leads to {}", pointer.get(0), cell.get(0));
        println!("{} own fetches", svm.breakdown().own_fetches);
    }
    svm.barrier()?;
    Ok(())
}
