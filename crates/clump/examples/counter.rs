//! A counter service: `clump run -n 4 --nodes 2 target/debug/examples/counter [TICKETS]`.
//!
//! Rank 0 keeps a counter and computes; all others take numbered tickets from it by fetch-add. The
//! network interface of rank 0's node executes them, so rank 0 never polls. Each rank reports when
//! it is done, and the tickets are counted.

use clump::rma::Rma;

/// Offsets in rank 0's memory of the next ticket, and of the number of ranks that are done.
const NEXT: u64 = 0;
const DONE: u64 = 64;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tickets = std::env::args_os()
        .nth(1)
        .map_or(Ok(1000), |text| text.to_string_lossy().parse::<u64>())?;
    let cl = clump::init()?;
    let rma = Rma::open(&cl)?;
    let (mine, all) = cl.allocate(&rma, 128)?;
    let counter = &all[0];
    let clients = cl.nranks() as u64 - 1;
    let mut taken = Vec::new();
    if cl.rank() == 0 {
        let mut work = 0_u64;
        while mine.load::<u64>(DONE)? < clients {
            work = work.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        }
        println!("rank 0 has computed {work:x} meanwhile");
    } else {
        for _ in 0..tickets {
            taken.push(counter.fetch_add(NEXT, 1_u64)?);
        }
        assert!(taken.is_sorted(), "later tickets have higher numbers");
        counter.add(DONE, 1_u64)?;
        rma.quiet()?;
    }
    let bytes: Vec<u8> = taken.iter().flat_map(|ticket| ticket.to_le_bytes()).collect();
    let mut everybody = cl.all_gather_bytes(&bytes)?.concat();
    let (all, _) = everybody.as_chunks_mut::<8>();
    all.sort_unstable_by_key(|ticket| u64::from_le_bytes(*ticket));
    let each_once = (0..).zip(&*all).all(|(number, t)| u64::from_le_bytes(*t) == number);
    assert!(each_once && all.len() as u64 == tickets * clients);
    if cl.rank() == 0 {
        println!("{} tickets were taken, each by one", all.len());
    }
    Ok(())
}
