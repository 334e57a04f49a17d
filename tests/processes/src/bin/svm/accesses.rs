//! Accesses other than plain ones: by system calls, again and again, and of pages whose home has
//! died.

use crate::Result;
use clump::svm::{Home, TransferCall};
use clump_os::clock;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// `MSG_WAITALL`.
const WAIT_ALL: i32 = 0x100;

/// Each rank has the kernel read and write pages that are elsewhere.
pub fn system_calls() -> Result<()> {
    const PAGES: usize = 8;
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let (me, ranks) = (cl.rank(), cl.nranks());
    let words = svm.array::<u64>(512 * PAGES * ranks, Home::Cyclic)?;
    let path = std::env::temp_dir().join(format!("clump-svm-{}-{me}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    let (one, two) = UnixStream::pair()?;
    let own = |rank: usize| 512 * PAGES * rank..512 * PAGES * (rank + 1);
    // Behind the first word of a page, up to the last of another, without the one between.
    let parts = |rank: usize| {
        let first = own(rank).start;
        [words.part(first + 1..first + 1000), words.part(first + 1001..first + 512 * 7)]
    };
    let bytes = 8 * (999 + 512 * 7 - 1001);
    for round in 1..=6_u64 {
        let value = |rank: usize, at: usize| round * 1_000_000 + (rank * 10_000 + at) as u64;
        let data: Vec<u8> = (0..bytes / 8).flat_map(|at| value(me, at).to_le_bytes()).collect();
        let next = (me + 1) % ranks;
        svm.barrier()?;
        match round % 3 {
            0 => {
                file.write_all_at(&data, 5)?;
                assert_eq!(svm.transfer(&file, TransferCall::ReadAt(5), &parts(me))?, bytes);
            }
            1 => {
                // A socket takes so much without a reader.
                (&one).write_all(&data)?;
                let got = svm.transfer(&two, TransferCall::Receive(WAIT_ALL), &parts(me))?;
                assert_eq!(got, bytes);
            }
            _ => {
                file.write_all_at(&data, 0)?;
                (&file).rewind()?;
                assert_eq!(svm.transfer(&file, TransferCall::Read, &parts(me))?, bytes);
            }
        }
        svm.barrier()?;
        let mut there = vec![0; bytes];
        if round % 2 == 0 {
            assert_eq!(svm.transfer(&file, TransferCall::WriteAt(8 << 10), &parts(next))?, bytes);
            file.read_exact_at(&mut there, 8 << 10)?;
        } else {
            assert_eq!(svm.transfer(&one, TransferCall::Send(0), &parts(next))?, bytes);
            (&two).read_exact(&mut there)?;
        }
        let expected: Vec<u8> =
            (0..bytes / 8).flat_map(|at| value(next, at).to_le_bytes()).collect();
        assert!(there == expected, "what rank {next} had the kernel store in round {round}");
        let between = own(next).start + 1000;
        assert_eq!((words.get(between), words.get(own(next).start)), (0, 0), "left alone");
    }
    svm.barrier()?;
    if me == 0 {
        println!("the kernel read and wrote by {}", svm.faults().unwrap_or("the hardware"));
    }
    Ok(())
}

/// Rank 0 waits in a fault for a page of the last node, which answers no more: the node is to be
/// stopped once all ranks are ready, and then the file `go` made.
pub fn await_page(folder: &Path) -> Result<()> {
    let cl = clump::init()?;
    let svm = cl.svm()?;
    let words = svm.array::<u64>(512 * 4, Home::Node(cl.nnodes() - 1))?;
    svm.barrier()?;
    std::fs::write(folder.join(format!("ready-{}", cl.rank())), [])?;
    if cl.rank() == 0 {
        while !folder.join("go").exists() {
            clock::yield_now();
        }
        // Seen by the test just before the access.
        std::fs::write(folder.join("ready-100"), [])?;
        println!("read {}", words.get(512 * 2));
    }
    svm.barrier()?;
    Ok(())
}

/// Descriptors, mappings and threads of a process.
#[derive(Default)]
struct Held {
    /// Names of the files that they are open on, sorted.
    descriptors: Vec<String>,
    mappings: usize,
    threads: usize,
}

impl Held {
    fn by(process: &str) -> Result<Self> {
        let entries = |what: &str| std::fs::read_dir(format!("/proc/{process}/{what}"));
        // A descriptor may be closed while its name is read.
        let names = entries("fd")?.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        let mut descriptors: Vec<_> = names.map(|name| name.display().to_string()).collect();
        descriptors.sort_unstable();
        let mappings = std::fs::read_to_string(format!("/proc/{process}/maps"))?.lines().count();
        Ok(Self { descriptors, mappings, threads: entries("task")?.count() })
    }
}

/// Each rank uses pages, locks, flags, and memory of its own again and again: neither it nor its
/// agent holds more at the end than after the first rounds.
pub fn steady(rounds: usize) -> Result<()> {
    const WARM: usize = 4;
    /// Mappings that an allocator or a thread's first message may add later, and descriptors: the
    /// pipes of sockets that send without a copy for the first time. One a round would be more.
    const SLACK: usize = 16;
    assert!(rounds > SLACK, "what grows by one each round is seen");
    let cl = clump::init()?;
    let svm = cl.svm_with(&clump::svm::SvmOptions {
        dynamic_bytes: 1 << 30,
        ..clump::svm::SvmOptions::default()
    })?;
    let agent = std::os::unix::process::parent_id().to_string();
    let (me, ranks) = (cl.rank(), cl.nranks());
    let words = svm.array::<u64>(512 * 64, Home::Cyclic)?;
    let counter = svm.mutex::<u64>()?;
    let mut first = [Held::default(), Held::default()];
    for round in 0..WARM + rounds {
        (0..64).filter(|page| page % ranks == me).for_each(|page| {
            words.set(512 * page, (round + page) as u64);
        });
        svm.barrier()?;
        assert!((0..64).all(|page| words.get(512 * page) == (round + page) as u64));
        let guard = counter.lock()?;
        guard.set(guard.get() + 1);
        guard.release()?;
        let alone = svm.alloc_alone(20_000, Home::FirstWrite)?;
        svm.words_at(alone.addr().get(), 1)?.set(0, 1);
        svm.free(alone)?;
        svm.barrier()?;
        if round == WARM {
            first = [Held::by("self")?, Held::by(&agent)?];
        }
    }
    let last = [Held::by("self")?, Held::by(&agent)?];
    for (whose, (was, is)) in ["rank", "agent"].into_iter().zip(first.into_iter().zip(last)) {
        let (had, has) = (was.descriptors, is.descriptors);
        assert!(has.len() <= had.len() + SLACK, "{whose}: descriptors {has:?} were {had:?}");
        assert_eq!(was.threads, is.threads, "{whose}: threads");
        let (were, are) = (was.mappings, is.mappings);
        assert!(are <= were + SLACK, "{whose}: {are} mappings were {were}");
    }
    svm.barrier()?;
    if me == 0 {
        println!("nothing more is held after {rounds} rounds");
    }
    Ok(())
}
