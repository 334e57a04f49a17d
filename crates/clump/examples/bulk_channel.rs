//! One-way sends: `clump run -n 4 --nodes 2 target/release/examples/bulk_channel [NUMBERS]`.
//!
//! Every rank makes random numbers and sends each to the rank that counts its kind, many at a time.
//! A receiver has room for 1000 numbers of each sender, however many are sent: a sender without
//! room takes in what has arrived for itself meanwhile.

use clump::Sum;
use clump::pgas::BulkChannel;

const KINDS: usize = 64;
const AT_A_TIME: usize = 128;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count = std::env::args_os().nth(1);
    let count = count.map_or(Ok(100_000), |text| text.to_string_lossy().parse::<u64>())?;
    let cl = clump::init()?;
    let gas = cl.pgas()?;
    let ranks = cl.nranks();
    let channel = BulkChannel::<u64>::open(&gas, 1000)?;
    let mut counts = vec![0_u64; KINDS];
    let mut take = |_: usize, numbers: &[u64]| {
        numbers.iter().for_each(|number| counts[*number as usize % KINDS] += 1);
        Ok(())
    };
    let mut open: Vec<Vec<u64>> = vec![Vec::new(); ranks];
    let mut state = 0x9e37_79b9_7f4a_7c15 ^ cl.rank() as u64;
    for _ in 0..count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let to = state as usize % KINDS % ranks;
        open[to].push(state);
        if open[to].len() == AT_A_TIME {
            channel.send(to, &std::mem::take(&mut open[to]), &mut take)?;
        }
    }
    for (to, rest) in open.iter().enumerate() {
        channel.send(to, rest, &mut take)?;
    }
    // Nobody sends any more; the rest arrives.
    channel.finish(&mut take)?;
    let is_mine = |kind: &usize| kind % ranks == cl.rank();
    let others = (0..KINDS).filter(|kind| !is_mine(kind)).map(|kind| counts[kind]).sum::<u64>();
    assert_eq!(others, 0, "each rank counts its own kinds");
    let all = cl.all_reduce(counts.iter().sum::<u64>(), Sum)?;
    assert_eq!(all, count * ranks as u64, "each number is counted once");
    if cl.rank() == 0 {
        println!("{all} numbers, each counted at its rank");
    }
    Ok(gas.barrier()?)
}
