//! Locks of cells: `clump run -n 4 --nodes 2 target/release/examples/lock_array [KIND]`, of kind
//! `queue`, `spin` or `served`.
//!
//! Accounts are spread over all ranks, each under a lock. Every rank moves money between two
//! accounts at a time; it takes both locks, the lower first. Ranks that wait for a queue send
//! nothing; the others try again and again, and count the attempts that failed.

use clump::Sum;
use clump::pgas::{GlobalError, Layout, LockArray, LockKind};

const ACCOUNTS: usize = 8;
const MOVES: usize = 200;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let kind = std::env::args_os().nth(1).unwrap_or_else(|| "queue".into());
    let kind = match &*kind.to_string_lossy() {
        "queue" => LockKind::Queue,
        "spin" => LockKind::Spin,
        "served" => LockKind::Served(u64::MAX),
        other => return Err(format!("`{other}`: there are queue, spin and served").into()),
    };
    let cl = clump::init()?;
    let gas = cl.pgas()?;
    let accounts = gas.spread::<u64>(ACCOUNTS, Layout::Cyclic)?;
    let locks = LockArray::create(&gas, ACCOUNTS, kind)?;
    let local = accounts.local();
    (0..local.len()).try_for_each(|at| local.set(at, 1000))?;
    gas.barrier()?;

    let mut state = 7 + cl.rank();
    for _ in 0..MOVES {
        state = (state * 1_664_525 + 1_013_904_223) % (1 << 31);
        let (from, to) = (state / 64 % ACCOUNTS, state / 4096 % ACCOUNTS);
        if from == to {
            continue;
        }
        locks.with(from.min(to), || {
            locks.with(from.max(to), || {
                let (less, more) = (accounts.at(from).read()?, accounts.at(to).read()?);
                let amount = less.min(10);
                accounts.at(from).put(less - amount)?;
                accounts.at(to).put(more + amount)?;
                // Both have been written when the locks are given back.
                Ok::<_, GlobalError>(())
            })
        })?;
    }
    gas.all_store_sync()?;
    let mine: u64 = accounts.local().to_vec()?.iter().sum();
    let sum = cl.all_reduce(mine, Sum)?;
    assert_eq!(sum, 1000 * ACCOUNTS as u64, "money is only moved");
    let failed = cl.all_reduce(locks.attempts().failed, Sum)?;
    if cl.rank() == 0 {
        println!("{sum} in all accounts; {failed} attempts at locks failed");
    }
    Ok(gas.barrier()?)
}
