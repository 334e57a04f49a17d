//! Programs on the shared heap, for tests of shared virtual memory.
#![deny(unsafe_code)]

mod accesses;
mod ahead;
mod own_fetches;
mod publishing;
mod putting_off;
mod random;
mod refusals;

use clump::Sum;
use clump::svm::Home;
use clump::svm::SvmOptions;
use clump_os::clock;
use clump_shm::rank::RankState;
use std::path::Path;
use std::process::ExitCode;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let what: Vec<String> =
        std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    match run(&what) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("svm: {error}");
            ExitCode::from(3)
        }
    }
}

fn run(what: &[String]) -> Result<()> {
    let what: Vec<&str> = what.iter().map(String::as_str).collect();
    match what[..] {
        ["count", rounds] => count(rounds.parse()?),
        ["alone"] => alone(),
        ["system-calls"] => accesses::system_calls(),
        ["await-page", folder] => accesses::await_page(Path::new(folder)),
        ["steady", rounds] => accesses::steady(rounds.parse()?),
        ["ladder"] => ladder(),
        ["keep", rounds] => keep(rounds.parse()?),
        ["take-back", rounds] => publishing::take_back(rounds.parse()?),
        ["periods", rounds] => publishing::periods(rounds.parse()?),
        ["pointer"] => publishing::pointer(),
        ["random", seed, phases] => random::run(seed.parse()?, phases.parse()?, 1),
        ["threads", seed, phases, threads] => {
            random::run(seed.parse()?, phases.parse()?, threads.parse()?)
        }
        ["fetch-once"] => fetch_once(),
        ["ahead"] => ahead::ahead(),
        ["putting-off"] => putting_off::putting_off(),
        ["own-fetches"] => own_fetches::own_fetches(),
        ["forever", what, folder] => forever(what, Path::new(folder)),
        ["scatter", pages] => scatter(pages.parse()?),
        ["leave"] => leave(),
        ["thread"] => thread(),
        ["overflow"] => overflow(),
        ["full"] => full(),
        ["one-wrong"] => refusals::one_rank_is_wrong(),
        ["too-much", bytes] => refusals::more_than_memory(bytes.parse()?),
        _ => Err("unknown program".into()),
    }
}

/// Every rank adds to one counter under a lock, and to others that share its page.
fn count(rounds: u64) -> Result<()> {
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let counter = svm.mutex::<u64>()?;
    let all = svm.array::<u64>(cl.nranks() * 3, Home::Cyclic)?;
    for round in 0..rounds {
        let guard = counter.lock()?;
        guard.set(guard.get() + 1);
        guard.release()?;
        let mine = cl.rank() * 3 + 1;
        all.set(mine, all.get(mine) + round);
    }
    svm.barrier()?;
    let guard = counter.lock()?;
    let total = guard.get();
    guard.release()?;
    assert_eq!(total, rounds * cl.nranks() as u64, "every addition counts");
    for rank in 0..cl.nranks() {
        assert_eq!(all.get(rank * 3 + 1), rounds * rounds.saturating_sub(1) / 2, "of rank {rank}");
        assert_eq!(all.get(rank * 3), 0);
    }
    svm.barrier()?;
    if cl.rank() == 0 {
        println!("counted to {total} by {:?}; {:?}", svm.faults(), svm.breakdown());
    }
    Ok(())
}

/// Uses pages, diffs, locks and barriers of other nodes, and says for which of them threads of
/// nodes were woken.
fn ladder() -> Result<()> {
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let words = svm.array::<u64>(512 * 8 * cl.nranks(), Home::Cyclic)?;
    let counter = svm.mutex::<u64>()?;
    let (me, all) = (cl.rank(), cl.nranks());
    for round in 1..=10_u64 {
        (0..8 * all).for_each(|page| words.set(512 * page + me, round + me as u64));
        svm.barrier()?;
        for (page, rank) in (0..8 * all).flat_map(|page| (0..all).map(move |rank| (page, rank))) {
            assert_eq!(words.get(512 * page + rank), round + rank as u64, "page {page}");
        }
        let guard = counter.lock()?;
        guard.set(guard.get() + round);
        guard.release()?;
        svm.barrier()?;
    }
    let guard = counter.lock()?;
    assert_eq!(guard.get(), 55 * all as u64, "every addition counts");
    guard.release()?;
    svm.barrier()?;
    let woken = svm.breakdown().woken;
    let kinds = [woken.notices, woken.fetches, woken.diffs, woken.locks];
    let mut sums = Vec::new();
    for kind in kinds {
        sums.push(svm.team().all_reduce(kind, Sum)?);
    }
    if me == 0 {
        println!("{}: woken for {sums:?}", svm.protocol().unwrap_or("none"));
    }
    Ok(())
}

/// Single ranks allocate, hand on, and give back; a bounded queue between all, by a condition
/// variable.
fn alone() -> Result<()> {
    let cl = clump::init()?;
    let options = SvmOptions { dynamic_bytes: 64 << 30, ..SvmOptions::default() };
    let svm = cl.svm_with(&options)?;
    let (ranks, rank) = (cl.nranks(), cl.rank());
    // Each rank allocates for the next, which finds the addresses behind the barrier.
    let sizes = [8_u64, 40, 1000, 1024, 1025, 20_000, 300_000];
    let homes = [Home::Block, Home::Cyclic, Home::FirstWrite, Home::Node(0)];
    let of_rank = sizes.len() * homes.len();
    let handed = svm.array::<u64>(ranks * of_rank, Home::Cyclic)?;
    for round in 0..4 {
        for (at, &bytes) in sizes.iter().enumerate() {
            for (home_at, &home) in homes.iter().enumerate() {
                let place = svm.alloc_alone(bytes, home)?;
                let address = place.addr().get();
                let words = svm.words_at(address, bytes as usize / 8)?;
                assert!((0..words.len()).all(|at| words.get(at) == 0), "zeroed, round {round}");
                (0..words.len()).for_each(|at| words.set(at, (address + at) as u64));
                handed.set(rank * of_rank + at * homes.len() + home_at, address as u64);
            }
        }
        svm.barrier()?;
        let giver = (rank + 1) % ranks;
        for at in 0..of_rank {
            let address = handed.get(giver * of_rank + at) as usize;
            let words = svm.words_at(address, sizes[at / homes.len()] as usize / 8)?;
            let wrong = (0..words.len()).filter(|&at| words.get(at) != (address + at) as u64);
            assert_eq!(wrong.count(), 0, "allocation {at} of rank {giver}");
            let place = std::ptr::NonNull::new(std::ptr::with_exposed_provenance_mut(address));
            svm.free(place.ok_or("an address")?)?;
        }
        svm.barrier()?;
    }
    assert!(svm.free(svm.base()).is_err(), "rank {rank} did not allocate that");
    queue(&cl, &svm)
}

/// Rank 0 puts numbers into a queue of four places, from which all others take them.
fn queue(cl: &clump::Clump, svm: &clump::svm::Svm) -> Result<()> {
    const NUMBERS: u64 = 40;
    let (locks, changed) = (svm.locks(1)?, svm.condvar()?);
    // First, last, sum of what was taken, and four places.
    let state = svm.array::<u64>(7, Home::Cyclic)?;
    let others = cl.nranks() as u64 - 1;
    let mut held = locks.lock(0)?;
    if cl.rank() == 0 {
        // A zero for each of the others ends it.
        for number in (1..=NUMBERS).chain((0..others).map(|_| 0)) {
            while others > 0 && state.get(1) - state.get(0) == 4 {
                held = changed.wait(held)?;
            }
            state.set(3 + (state.get(1) % 4) as usize, number);
            state.set(1, state.get(1) + 1);
            if others == 0 {
                state.set(0, state.get(0) + 1);
                state.set(2, state.get(2) + number);
            }
            changed.notify_all()?;
        }
    }
    while cl.rank() > 0 {
        while state.get(1) == state.get(0) {
            held = changed.wait(held)?;
        }
        let number = state.get(3 + (state.get(0) % 4) as usize);
        state.set(0, state.get(0) + 1);
        state.set(2, state.get(2) + number);
        changed.notify_one()?;
        changed.notify_all()?;
        if number == 0 {
            break;
        }
    }
    held.release()?;
    svm.barrier()?;
    assert_eq!(state.get(2), NUMBERS * (NUMBERS + 1) / 2, "every number was taken once");
    svm.barrier()?;
    if cl.rank() == 0 {
        println!("what ranks allocate alone is right");
    }
    Ok(())
}

/// Enters a lock of this rank's own again and again, which takes a call once; then all locks of
/// others, under which it must find what they wrote.
fn keep(rounds: u64) -> Result<()> {
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let (ranks, rank) = (cl.nranks(), cl.rank());
    let locks = svm.locks(ranks)?;
    // Under lock `l`: element `l` of each block. All share their pages.
    let words = svm.array::<u64>(ranks * 1024, Home::Cyclic)?;
    let add = |lock: usize| -> Result<()> {
        let held = locks.lock(lock)?;
        for block in 0..1024 {
            let at = block * ranks + lock;
            words.set(at, words.get(at) + 1);
        }
        Ok(held.release()?)
    };
    let before = svm.breakdown().lock.count;
    for _ in 0..rounds {
        add(rank)?;
    }
    let calls = svm.breakdown().lock.count - before;
    if svm.nnodes() > 1 {
        assert_eq!(calls, 1, "nobody else wanted it");
    }
    let held = locks.lock(rank)?;
    assert!(locks.lock(rank).is_err(), "this rank has it");
    held.release()?;
    // A barrier of messages: it publishes nothing.
    cl.barrier()?;
    for next in 0..ranks {
        add((rank + next) % ranks)?;
    }
    svm.barrier()?;
    let due = rounds + ranks as u64;
    let wrong = (0..ranks * 1024).filter(|&at| words.get(at) != due).count();
    assert_eq!(wrong, 0, "every addition counts");
    svm.barrier()?;
    if rank == 0 {
        println!("kept locks lost nothing");
    }
    Ok(())
}

/// Uses pages, a lock or a barrier of other nodes until a call fails.
fn forever(what: &str, folder: &Path) -> Result<()> {
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let pages = svm.array::<u64>(512 * 64 * cl.nnodes(), Home::Block)?;
    let counter = svm.mutex::<u64>()?;
    svm.barrier()?;
    std::fs::write(folder.join(format!("ready-{}", cl.rank())), [])?;
    for round in 1.. {
        let guard = counter.lock()?;
        guard.set(guard.get() + 1);
        // Each rank takes a fault where another has written.
        let at = 512 * (round % (64 * cl.nnodes()));
        pages.set(at, pages.get(at) + 1);
        guard.release()?;
        if what == "barrier" {
            svm.barrier()?;
        }
    }
    Ok(())
}

/// Overflows the stack of rank 1.
fn overflow() -> Result<()> {
    let cl = clump::init()?;
    let svm = cl.svm()?;
    svm.barrier()?;
    if cl.rank() == 1 {
        println!("{}", deep(1));
    }
    svm.barrier()?;
    Ok(())
}

fn deep(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 64]);
    if depth == 0 { 0 } else { deep(depth + 1) + frame[depth as usize % 64] }
}

/// Allocates more than the heap has.
fn full() -> Result<()> {
    let cl = clump::init()?;
    let svm = cl.svm_with(&SvmOptions { heap_bytes: 96 << 30, ..SvmOptions::default() })?;
    // Reserved, and not touched: it costs nothing.
    let most = svm.sparse_array::<u8>(95 << 30, Home::Block)?;
    most.set((95 << 30) - 1 - cl.rank(), 7);
    let refused = svm.array::<u8>(2 << 30, Home::Block).map(drop);
    let said = refused.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(said.contains("has 1073741824 left"), "{said}");
    assert!(svm.array::<u8>(1, Home::Node(cl.nnodes())).is_err(), "there is no such node");
    assert!(cl.svm().is_err(), "it is open");
    svm.barrier()?;
    for rank in 0..cl.nranks() {
        assert_eq!(most.get((95 << 30) - 1 - rank), 7, "of rank {rank}");
    }
    svm.barrier()?;
    if cl.rank() == 0 {
        println!("a full heap is an error");
    }
    Ok(())
}

/// Reads and writes every other page of the other node, and counts the mappings of the heap.
fn scatter(pages: usize) -> Result<()> {
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let words = svm.array::<u64>(512 * pages, Home::Node(cl.nnodes() - 1))?;
    svm.barrier()?;
    if cl.rank() == 0 {
        (0..pages).step_by(2).for_each(|page| assert_eq!(words.get(512 * page), 0));
        (0..pages).step_by(6).for_each(|page| words.set(512 * page + 5, page as u64 + 1));
        let base = words.address().addr().get();
        let inside = |line: &&str| {
            let first = line.split('-').next().and_then(|at| usize::from_str_radix(at, 16).ok());
            first.is_some_and(|first| first >= base && first < base + 4096 * pages)
        };
        let maps = std::fs::read_to_string("/proc/self/maps")?;
        println!(
            "{} mappings by {}",
            maps.lines().filter(inside).count(),
            svm.faults().unwrap_or("none")
        );
    }
    svm.barrier()?;
    for page in (0..pages).step_by(6) {
        assert_eq!(words.get(512 * page + 5), page as u64 + 1, "page {page}");
    }
    svm.barrier()?;
    Ok(())
}

/// Leaves with what was written at home; rank 0 stays, and reads it.
fn leave() -> Result<()> {
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let last = cl.nnodes() - 1;
    let words = svm.array::<u64>(512 * 100, Home::Node(last))?;
    let written = svm.flags(cl.nranks())?;
    let (me, pages) = (cl.rank(), cl.nranks()..100);
    words.set(512 * me, 1000 + me as u64);
    written.set(me, 1)?;
    if me == 0 {
        (1..cl.nranks()).try_for_each(|rank| written.wait(rank, 1))?;
        let peer = cl.node().peer(cl.nranks() as u32 - 1).ok_or("its record")?;
        while peer.state() != RankState::Finalized {
            clock::yield_now();
        }
        for rank in 0..cl.nranks() {
            assert_eq!(words.get(512 * rank), 1000 + rank as u64, "of rank {rank}");
        }
        pages.for_each(|page| assert_eq!(words.get(512 * page), 0));
        println!("read what others left");
    }
    Ok(())
}

/// Several threads of rank 0 read the same pages of the last node at once, while another adds to
/// them: rank 0 says how often pages were asked for (on the lowest step of the ladder).
fn fetch_once() -> Result<()> {
    const PAGES: usize = 64;
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let words = svm.array::<u64>(512 * PAGES, Home::Node(cl.nnodes() - 1))?;
    let at_home = cl.rank() + 1 == cl.nranks();
    if at_home {
        (0..PAGES).for_each(|page| words.set(512 * page, page as u64 + 1));
    }
    svm.barrier()?;
    if cl.rank() == 0 {
        let sum = |thread: usize| -> u64 {
            let page = |at: usize| (at * (2 * thread + 1) + 7 * thread) % PAGES;
            (0..PAGES).map(|at| words.get(512 * page(at))).sum()
        };
        let sums: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || sum(thread))).collect();
            // This thread writes while pages of the others are on their way.
            (0..PAGES).for_each(|page| words.set(512 * page + 1, 1000 + page as u64));
            threads.into_iter().map(|thread| thread.join().unwrap_or(0)).collect()
        });
        assert_eq!(sums, [(PAGES * (PAGES + 1) / 2) as u64; 4], "what each thread read");
    }
    svm.barrier()?;
    if at_home {
        let right = |page: &usize| words.get(512 * page + 1) == 1000 + *page as u64;
        assert_eq!((0..PAGES).filter(right).count(), PAGES, "what was written meanwhile");
    }
    let fetches = svm.team().all_reduce(svm.breakdown().woken.fetches, Sum)?;
    if cl.rank() == 0 {
        println!("{fetches} fetches of {PAGES} pages");
    }
    Ok(())
}

/// Uses the heap in a thread that did not open it.
fn thread() -> Result<()> {
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let words = svm.array::<u64>(512 * 64, Home::Cyclic)?;
    let mine: Vec<usize> = (0..64).filter(|page| page % cl.nranks() == cl.rank()).collect();
    let others = words.clone();
    let of_thread = svm.clone();
    let thread = std::thread::spawn(move || -> clump::Result<u64> {
        mine.iter().for_each(|page| words.set(512 * page, 1));
        of_thread.barrier()?;
        Ok((0..64).map(|page| words.get(512 * page)).sum())
    });
    let sum = thread.join().map_err(|_| "the thread panicked")??;
    assert_eq!(sum, 64, "what all threads wrote");
    assert_eq!((0..64).map(|page| others.get(512 * page)).sum::<u64>(), 64);
    svm.barrier()?;
    if cl.rank() == 0 {
        println!("threads took turns");
    }
    Ok(())
}
