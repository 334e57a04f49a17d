//! Random programs without races: locks, barriers of all and of some, flags, fences, and bytes
//! whose neighbours are used by other rules.

use super::op::Op;

/// Source of random words.
struct Sampler<'a>(&'a mut dyn FnMut() -> u64);

impl Sampler<'_> {
    fn below(&mut self, bound: usize) -> usize {
        debug_assert!(bound > 0, "there is something to choose");
        ((self.0)() % bound as u64) as usize
    }

    fn byte(&mut self) -> u8 {
        (self.0)() as u8
    }
}

/// Discipline by which a byte is used without races; neighbours have different ones, so that pages
/// are shared falsely.
#[derive(Clone, Copy)]
enum Discipline {
    /// Used under this lock only.
    Locked(u64),
    /// Written by one rank between two barriers, and read by no other.
    Owned,
    /// Written before this flag is set, and read behind it.
    Flagged(u64),
}

/// Shape of random programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramShape {
    /// Ranks of the job.
    pub ranks: usize,
    /// Bytes that they share.
    pub bytes: usize,
    /// Locks, at least one.
    pub locks: u64,
    /// Flags, at least one.
    pub flags: u64,
    /// Barriers of all ranks.
    pub phases: usize,
}

fn discipline(shape: &ProgramShape, addr: usize) -> Discipline {
    match addr % 3 {
        0 => Discipline::Locked((addr / 3) as u64 % shape.locks),
        1 => Discipline::Owned,
        _ => Discipline::Flagged((addr / 3) as u64 % shape.flags),
    }
}

/// Rank that owns a byte, or sets a flag, in a phase.
fn owner(shape: &ProgramShape, salt: u64, number: usize, phase: usize) -> usize {
    // Some owners stay for long, so that homes move to them.
    let turn = if number.is_multiple_of(2) { phase } else { phase / 4 };
    let mixed = (salt ^ (number as u64 * 0x9e37_79b9)).wrapping_add(turn as u64 * 0x85eb_ca6b);
    (mixed.wrapping_mul(0xff51_afd7_ed55_8ccd) >> 33) as usize % shape.ranks
}

fn addresses(shape: &ProgramShape, wanted: impl Fn(Discipline, usize) -> bool) -> Vec<usize> {
    (0..shape.bytes).filter(|&addr| wanted(discipline(shape, addr), addr)).collect()
}

fn access(random: &mut Sampler<'_>, out: &mut Vec<Op>, from: &[usize], reads_only: bool) {
    if from.is_empty() {
        return;
    }
    let addr = from[random.below(from.len())];
    let write = !reads_only && random.below(2) == 0;
    out.push(if write { Op::Write(addr, random.byte()) } else { Op::Read(addr) });
}

/// Appends what one rank does between two barriers.
fn phase(
    shape: &ProgramShape,
    random: &mut Sampler<'_>,
    salt: u64,
    at: (usize, usize),
    out: &mut Vec<Op>,
) {
    let (rank, number) = at;
    let owned = addresses(shape, |d, addr| {
        matches!(d, Discipline::Owned) && owner(shape, salt, addr, number) == rank
    });
    let value = number as u64 + 1;
    let mut flag = 0;
    for _ in 0..random.below(6) {
        match random.below(4) {
            0 => {
                let lock = random.below(shape.locks as usize) as u64;
                let under =
                    addresses(shape, |d, _| matches!(d, Discipline::Locked(l) if l == lock));
                out.push(Op::Lock(lock));
                for _ in 0..random.below(4) {
                    access(random, out, &under, false);
                    access(random, out, &owned, false);
                }
                out.push(Op::Unlock(lock));
            }
            1 if flag < shape.flags => {
                let behind =
                    addresses(shape, |d, _| matches!(d, Discipline::Flagged(f) if f == flag));
                let sets = owner(shape, salt, flag as usize + 1000, number) == rank;
                if !sets {
                    out.push(Op::Await(flag, value));
                }
                for _ in 0..random.below(4) {
                    access(random, out, &behind, !sets);
                }
                if sets {
                    out.push(Op::Set(flag, value));
                }
                flag += 1;
            }
            2 => out.push(Op::Fence),
            _ => access(random, out, &owned, false),
        }
    }
    // Each flag is set in the end, and flags are awaited in ascending order: no rank waits for
    // ever.
    for late in flag..shape.flags {
        if owner(shape, salt, late as usize + 1000, number) == rank {
            out.push(Op::Set(late, value));
        }
    }
}

/// Returns a program for each rank, by words of `random`. None has a race, and none waits for ever.
pub fn random_programs(shape: &ProgramShape, random: &mut dyn FnMut() -> u64) -> Vec<Vec<Op>> {
    let salt = random();
    let random = &mut Sampler(random);
    let mut programs = vec![Vec::new(); shape.ranks];
    for number in 0..shape.phases {
        for (rank, program) in programs.iter_mut().enumerate() {
            phase(shape, random, salt, (rank, number), program);
            // A barrier of some, now and then, before that of all.
            let some = shape.ranks / 2 + 1;
            if number % 3 == 1 && rank < some && some < shape.ranks {
                program.push(Op::Barrier(7, some as u32));
            }
            program.push(Op::Barrier(number as u64 % 2, shape.ranks as u32));
        }
    }
    programs
}
