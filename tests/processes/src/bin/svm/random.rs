//! A random program without races, whose every read has one right value: that of the same program
//! executed serially, which each rank does beside.

use crate::Result;
use clump::svm::{Home, SharedArray, SharedFlags, SharedLocks, Svm, SvmOptions, ThreadBarrier};

/// Bytes that are used, in clusters, so that pages are shared falsely.
const USED: usize = 240;
const LOCKS: usize = 3;
const FLAGS: usize = 2;
/// Elements of the arrays of words under locks: each of several pages.
const WORDS: usize = 1500;

/// Numbers that depend on a seed and a place alone.
fn mixed(seed: u64, place: [u64; 3]) -> u64 {
    place.into_iter().fold(seed ^ 0x9e37_79b9_7f4a_7c15, |state, part| {
        let z = (state ^ part).wrapping_mul(0xff51_afd7_ed55_8ccd);
        (z ^ z >> 29).wrapping_mul(0xc4ce_b9fe_1a85_ec53) ^ z >> 32
    })
}

#[derive(Clone)]
struct Program {
    seed: u64,
    /// Threads of all ranks, and the number of this one.
    workers: usize,
    worker: usize,
    barrier: ThreadBarrier,
    bytes: SharedArray<u8>,
    /// Under lock `l`: word `l` of both arrays.
    words: [SharedArray<u64>; 2],
    handed: SharedArray<u32>,
    locks: SharedLocks,
    flags: SharedFlags,
    /// Places of the used bytes.
    places: Vec<usize>,
    /// The bytes, as the serial program has them.
    serial: Vec<u8>,
    sums: [u64; LOCKS],
}

/// Runs phases of a seed by so many threads of each rank, and checks every read.
pub fn run(seed: u64, phases: u64, threads: usize) -> Result<()> {
    let cl = clump::init()?;
    let below = |place: u64, n: u64| mixed(seed, [u64::MAX, place, 0]) % n;
    let options = SvmOptions {
        move_after: below(0, 3) as u8,
        heap_bytes: 1 << (30 + below(1, 8)),
        dynamic_bytes: 0,
        ..SvmOptions::default()
    };
    let svm = cl.svm_with(&options)?;
    let home = |place| match below(place, 4) {
        0 => Home::Block,
        1 => Home::Cyclic,
        2 => Home::FirstWrite,
        _ => Home::Node(below(place + 1, cl.nnodes() as u64) as usize),
    };
    let pages = 1 + below(9, 5) as usize;
    let bytes = svm.array::<u8>(pages * 4096, home(10))?;
    let cluster = |n: usize| mixed(seed, [3, n as u64 / 8, 0]) as usize % (pages * 512) * 8 + n % 8;
    let mut places: Vec<usize> = (0..USED).map(cluster).collect();
    places.sort_unstable();
    places.dedup();
    let serial = vec![0; places.len()];
    let words = [svm.array(WORDS, home(12))?, svm.array(WORDS, home(14))?];
    let handed = svm.array(FLAGS * 2000, home(16))?;
    let (locks, flags) = (svm.locks(LOCKS)?, svm.flags(FLAGS)?);
    let barrier = svm.thread_barrier(threads);
    let (workers, worker) = (cl.nranks() * threads, cl.rank() * threads);
    let sums = [0; LOCKS];
    let first = Program {
        seed,
        workers,
        worker,
        barrier,
        bytes,
        words,
        handed,
        locks,
        flags,
        places,
        serial,
        sums,
    };
    // A thread that fails ends the process: the others would wait for it in a barrier.
    let run = |thread| {
        let _whole = EndOnPanic;
        let program = Program { worker: worker + thread, ..first.clone() };
        if let Err(error) = program.whole(phases) {
            eprintln!("svm: {error}");
            std::process::exit(3);
        }
    };
    std::thread::scope(|scope| {
        let run = &run;
        (1..threads).for_each(|thread| drop(scope.spawn(move || run(thread))));
        run(0);
    });
    finish(&svm, seed)
}

/// Ends the process if a thread panics.
struct EndOnPanic;

impl Drop for EndOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::exit(101);
        }
    }
}

fn finish(svm: &Svm, seed: u64) -> Result<()> {
    svm.barrier()?;
    if svm.rank() == 0 {
        println!("seed {seed} gave the serial result");
    }
    Ok(())
}

impl Program {
    /// Runs all phases of one thread.
    fn whole(mut self, phases: u64) -> Result<()> {
        for phase in 1..=phases {
            self.phase(phase)?;
            self.barrier.wait()?;
            self.check(phase)?;
            if mixed(self.seed, [u64::MAX, 20 + phase, 0]).is_multiple_of(3) {
                self.barrier.wait()?;
            }
        }
        self.barrier.wait()?;
        self.check(0)
    }

    /// Thread that writes a byte in a phase, if any does.
    fn writer(&self, at: usize, phase: u64) -> Option<usize> {
        // Some keep their writer for long, so that homes move.
        let turn = if at.is_multiple_of(3) { phase / 5 } else { phase };
        let chosen = mixed(self.seed, [1, at as u64, turn]) as usize % (self.workers + 1);
        (chosen < self.workers).then_some(chosen)
    }

    fn value(&self, at: usize, phase: u64) -> u8 {
        mixed(self.seed, [2, at as u64, phase]) as u8
    }

    fn phase(&mut self, phase: u64) -> Result<()> {
        let mine = |n: u64| mixed(self.seed, [4 + n, phase, self.worker as u64]);
        for step in 0..3 {
            self.write_own(phase, step);
            if mine(10 + step).is_multiple_of(2) {
                let lock = mine(20 + step) as usize % LOCKS;
                self.locked(lock, mine(30 + step) % 100)?;
            }
        }
        self.hand_on(phase)?;
        // What all threads do in this phase, serially.
        for at in 0..self.places.len() {
            if self.writer(at, phase).is_some() {
                self.serial[at] = self.value(at, phase);
            }
        }
        for worker in 0..self.workers as u64 {
            let its = |n: u64| mixed(self.seed, [4 + n, phase, worker]);
            for step in 0..3 {
                if its(10 + step).is_multiple_of(2) {
                    self.sums[its(20 + step) as usize % LOCKS] += its(30 + step) % 100;
                }
            }
        }
        Ok(())
    }

    /// Writes a third of the bytes that this thread writes in a phase, and reads bytes that nobody
    /// writes.
    fn write_own(&self, phase: u64, step: u64) {
        for (at, &place) in self.places.iter().enumerate() {
            if at as u64 % 3 != step {
                continue;
            }
            match self.writer(at, phase) {
                Some(worker) if worker == self.worker => {
                    assert_eq!(
                        self.bytes.get(place),
                        self.serial[at],
                        "byte {place} before {phase}"
                    );
                    self.bytes.set(place, self.value(at, phase));
                }
                Some(_) => {}
                None => {
                    assert_eq!(self.bytes.get(place), self.serial[at], "byte {place} in {phase}");
                }
            }
        }
    }

    /// Adds under a lock to two words of different pages, which are always equal there.
    fn locked(&self, lock: usize, amount: u64) -> Result<()> {
        let held = self.locks.lock(lock)?;
        let at = lock * 500;
        let (one, two) = (self.words[0].get(at), self.words[1].get(at));
        assert_eq!(one, two, "both words under lock {lock}");
        self.words[0].set(at, one + amount);
        self.words[1].set(at, two + amount);
        held.release()?;
        Ok(())
    }

    /// One thread writes a word for each flag and sets it; some others wait for that.
    fn hand_on(&self, phase: u64) -> Result<()> {
        for flag in 0..FLAGS {
            let of = |n: u64| mixed(self.seed, [50 + n, phase, flag as u64]);
            let giver = of(0) as usize % self.workers;
            let at = flag * 2000 + of(1) as usize % 2000;
            if self.worker == giver {
                self.handed.set(at, of(2) as u32);
                self.flags.set(flag, phase)?;
            } else if (of(3) as usize + self.worker).is_multiple_of(2) {
                self.flags.wait(flag, phase)?;
                assert_eq!(self.handed.get(at), of(2) as u32, "behind flag {flag} in {phase}");
            }
        }
        Ok(())
    }

    /// Reads everything that no thread writes before the next barrier; in phase 0, all of it.
    fn check(&self, phase: u64) -> Result<()> {
        if phase != 0 {
            return Ok(());
        }
        for (at, &place) in self.places.iter().enumerate() {
            assert_eq!(self.bytes.get(place), self.serial[at], "byte {place} at the end");
        }
        for (lock, sum) in self.sums.iter().enumerate() {
            let held = self.locks.lock(lock)?;
            let found = [&self.words[0], &self.words[1]].map(|words| words.get(lock * 500));
            assert_eq!(found, [*sum; 2], "the sums under lock {lock}");
            held.release()?;
        }
        Ok(())
    }
}
