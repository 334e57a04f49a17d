//! Many operations in one request, and *when* beside asking again and beside a get.

use super::{Result, median};
use clump::rma::{AdvanceWord, AtomicOp, Comparison, Range, Rma, Target, Update};
use clump_os::clock;

/// First of the words that are added to.
const WORDS: u64 = 1 << 20;
/// Word that is waited for.
const AWAITED: u64 = 96;

pub(crate) fn measure(rma: &Rma, target: &Target) -> super::Result<()> {
    for spread in [1_u32, 1 << 10, 1 << 16] {
        let index = |n: u32| n.wrapping_mul(0x9e37_79b1) % spread;
        let updates: Vec<_> = (0..Update::MOST as u32).map(|n| Update::new(index(n), 1)).collect();
        let mut rates: Vec<f64> = Vec::new();
        for _ in 0..5 {
            let (start, rounds) = (clock::instant(), 2000);
            for _ in 0..rounds {
                target.update_many(WORDS, AtomicOp::Add, &updates)?;
            }
            rma.quiet()?;
            rates.push((rounds * updates.len()) as f64 / start.elapsed().as_secs_f64() / 1e6);
        }
        rates.sort_unstable_by(f64::total_cmp);
        println!("batched adds, {spread:>6} words               {:8.2} M/s", rates[2]);
    }
    let indexes: Vec<u32> = (0..2048).map(|n| n * 31).collect();
    let mut values = vec![0; indexes.len()];
    let get = median(500, || Ok(target.get_many(WORDS, &indexes, &mut values)?))?;
    println!("batched gets, 2048 words                {:8.2} M/s", 2048.0 / get);
    let ranges: Vec<_> = (0..32).map(|n| Range::new(WORDS + n * 4096, 64)).collect();
    let mut bytes = [0; 32 * 64];
    let gather = median(2000, || Ok(target.gather(&ranges, &mut bytes)?))?;
    println!("gather of 32 ranges of 64 bytes         {gather:8.2} us");
    wait(rma, target)
}

/// A word reaches its value by an apply of this rank, which then learns of it in three ways.
fn wait(rma: &Rma, target: &Target) -> Result<()> {
    let mut turn = target.get::<u64>(AWAITED)?;
    let mut next = || {
        turn += 1;
        target.apply(&[(WORDS, &[1; 64])], &[AdvanceWord::to(AWAITED, turn)])?;
        Ok::<u64, clump::rma::OneSidedError>(turn)
    };
    let get = median(2000, || Ok(target.get::<u64>(AWAITED).map(drop)?))?;
    let when = median(2000, || {
        let turn = next()?;
        Ok(target.when(AWAITED, Comparison::AtLeast, turn).map(drop)?)
    })?;
    let again = median(2000, || {
        let turn = next()?;
        while target.load::<u64>(AWAITED)? < turn {}
        Ok(())
    })?;
    rma.quiet()?;
    println!("a get                                   {get:8.2} us");
    println!("apply, and when                         {when:8.2} us  {:.2} x", when / get);
    println!("apply, and asking again                 {again:8.2} us  {:.2} x", again / get);
    Ok(())
}
