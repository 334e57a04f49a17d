//! Transfers between accounts under many locks, in shared virtual memory: no money is lost, and
//! each rank's transfers are all there.
//!
//! ```text
//! clump run -n 4 --nodes 2 bank [TRANSFERS]
//! ```
#![forbid(unsafe_code)]

use clump::svm::Home;

/// Accounts; each has a lock.
const ACCOUNTS: usize = 64;
/// Balance of each at the beginning.
const BALANCE: i64 = 1000;

/// An account: its balance, and the transfers that it was part of.
#[derive(Clone, Copy)]
struct Account {
    balance: i64,
    transfers: i64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let transfers = std::env::args_os().nth(1).map(|word| word.to_string_lossy().parse());
    let transfers: u64 = transfers.transpose()?.unwrap_or(200);
    let cl = clump::init()?;
    let svm = cl.svm()?;
    // Two words an account: all lie on one page, under as many locks.
    let words = svm.array::<i64>(2 * ACCOUNTS, Home::FirstWrite)?;
    let locks = svm.locks(ACCOUNTS)?;
    let read = |at: usize| Account { balance: words.get(2 * at), transfers: words.get(2 * at + 1) };
    let write = |at: usize, account: Account| {
        words.set(2 * at, account.balance);
        words.set(2 * at + 1, account.transfers);
    };
    if cl.rank() == 0 {
        (0..ACCOUNTS).for_each(|at| write(at, Account { balance: BALANCE, transfers: 0 }));
    }
    svm.barrier()?;

    let mut random = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(cl.rank() as u64 + 1);
    let mut below = |limit: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 32) as usize % limit
    };
    for _ in 0..transfers {
        let (from, amount) = (below(ACCOUNTS), below(100) as i64);
        let to = (from + 1 + below(ACCOUNTS - 1)) % ACCOUNTS;
        // Locks are taken in one order, so that no two ranks wait for each other.
        let first = locks.lock(from.min(to))?;
        let second = locks.lock(from.max(to))?;
        let (mut giver, mut taker) = (read(from), read(to));
        giver = Account { balance: giver.balance - amount, transfers: giver.transfers + 1 };
        taker = Account { balance: taker.balance + amount, transfers: taker.transfers + 1 };
        write(from, giver);
        write(to, taker);
        second.release()?;
        first.release()?;
    }
    svm.barrier()?;
    let add = |sum: (i64, i64), it: Account| (sum.0 + it.balance, sum.1 + it.transfers);
    let (money, parts) = (0..ACCOUNTS).map(read).fold((0, 0), add);
    assert_eq!(money, BALANCE * ACCOUNTS as i64, "no money is lost");
    assert_eq!(parts, 2 * (transfers as i64) * cl.nranks() as i64, "every transfer has two parts");
    svm.barrier()?;
    if cl.rank() == 0 {
        let time = svm.breakdown();
        let waited = (time.lock.ns + time.release.ns) as f64 / 1e3;
        println!(
            "{} transfers, no money lost; {:.1} us of locks each at rank 0",
            transfers * cl.nranks() as u64,
            waited / transfers.max(1) as f64
        );
    }
    Ok(())
}
