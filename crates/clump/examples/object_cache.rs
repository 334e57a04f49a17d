//! Copies of remote objects: `clump run -n 4 --nodes 2 target/release/examples/object_cache [N]`,
//! with N steps.
//!
//! Records of a graph are spread over all ranks; each names the next. Every rank follows many paths
//! at a time. A path stops where the next record is on another node and there is no copy of it;
//! when all have stopped, the missing records are fetched together.

use clump::Sum;
use clump::pgas::{Layout, ObjectCache};

/// Number of the next record, and four values.
type Record = [u64; 5];

const RECORDS: usize = 2000;
const PATHS: usize = 50;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let steps = std::env::args_os().nth(1);
    let steps = steps.map_or(Ok(1000), |text| text.to_string_lossy().parse::<usize>())?;
    let cl = clump::init()?;
    let gas = cl.pgas()?;
    let records = gas.spread::<Record>(RECORDS, Layout::Block)?;
    let local = records.local();
    for at in 0..local.len() {
        let number = local.index(at).unwrap_or_default() as u64;
        local.set(at, [(number * 1_103 + 331) % RECORDS as u64, number, 0, 0, 0])?;
    }
    gas.all_store_sync()?;

    // Room for a third of the records. They do not change, so copies stay valid.
    let cache = ObjectCache::new(&gas, RECORDS / 3 * size_of::<Record>());
    let class = cache.class::<Record>();
    let mut paths: Vec<(usize, u64)> = (0..PATHS).map(|path| (path * 37 + cl.rank(), 0)).collect();
    let mut left = vec![steps; PATHS];
    while left.iter().any(|&left| left > 0) {
        for ((at, sum), left) in paths.iter_mut().zip(&mut left) {
            while *left > 0
                && let Some([next, value, ..]) = class.find(records.at(*at))?
            {
                (*at, *sum, *left) = (next as usize, *sum + value, *left - 1);
            }
        }
        cache.fetch()?;
    }
    for (path, (at, sum)) in paths.iter().enumerate() {
        let (mut number, mut expected) = ((path * 37 + cl.rank()) as u64, 0);
        for _ in 0..steps {
            expected += number;
            number = (number * 1_103 + 331) % RECORDS as u64;
        }
        assert_eq!((*at as u64, *sum), (number, expected), "path {path}");
    }
    let (counts, requests) = (class.counts(), cache.requests());
    let hits = cl.all_reduce(counts.hits, Sum)?;
    let (misses, batches) =
        (cl.all_reduce(counts.misses, Sum)?, cl.all_reduce(requests.batches, Sum)?);
    gas.barrier()?;
    if cl.rank() == 0 {
        println!("{hits} hits, {misses} misses, fetched in {batches} requests");
    }
    Ok(gas.barrier()?)
}
