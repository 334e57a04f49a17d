//! A program of one-sided operations for tests: `onesided WHAT`, on two ranks or more.

use clump::rma::{Rma, Why};
use clump_os::clock;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let what = std::env::args().nth(1).unwrap_or_default();
    let cl = clump::init()?;
    match what.as_str() {
        "deaf" => deaf(&cl),
        "fetch" => fetch(&cl),
        other => Err(format!("`{other}` is nothing to do").into()),
    }
}

/// All but rank 0 compute until a word of their own memory tells them to stop; rank 0 works on it.
fn deaf(cl: &clump::Clump) -> Result<()> {
    let rma = Rma::open(cl)?;
    let (mine, all) = cl.allocate(&rma, 1 << 20)?;
    cl.barrier()?;
    if cl.rank() != 0 {
        // Plain loads: nothing here makes progress for anybody.
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
        assert_eq!(refused, Err(Some(Why::OutOfBounds)));
        target.put(0, 1_u64)?;
    }
    rma.quiet()?;
    println!("all served");
    Ok(())
}

/// Rank 0 times fetches of 8 bytes from the last rank, which waits or computes meanwhile.
fn fetch(cl: &clump::Clump) -> Result<()> {
    let rma = Rma::open(cl)?;
    let (mine, all) = cl.allocate(&rma, 4096)?;
    cl.barrier()?;
    let last = cl.nranks() - 1;
    if cl.rank() == last {
        while mine.get::<u64>(0)? == 0 {
            std::hint::spin_loop();
        }
    } else if cl.rank() == 0 {
        let rounds = 20_000;
        let mut times = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            let start = clock::now_ns();
            all[last].get::<u64>(8)?;
            times.push(clock::now_ns() - start);
        }
        times.sort_unstable();
        println!("get of 8 bytes: median {} ns", times[rounds / 2]);
        let start = clock::now_ns();
        let adds = 1_000_000_u64;
        for _ in 0..adds {
            all[last].add(16, 1_u64)?;
        }
        rma.quiet()?;
        let spent = clock::now_ns() - start;
        assert_eq!(all[last].get::<u64>(16)?, adds);
        println!("add: {} k/s", adds * 1_000_000 / spent);
        all[last].put(0, 1_u64)?;
        rma.quiet()?;
    }
    Ok(())
}
