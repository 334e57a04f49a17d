//! Estimates pi on all ranks: `clump run -n 4 target/debug/examples/sum [STEPS]`.
//!
//! Each rank integrates 4 / (1 + x^2) over its share of [0, 1]; one all-reduce adds the shares up,
//! and all ranks get the same bits.

use clump::Sum;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let steps = std::env::args_os()
        .nth(1)
        .map_or(Ok(10_000_000), |text| text.to_string_lossy().parse::<usize>())?;
    let cl = clump::init()?;
    let width = 1.0 / steps as f64;
    let height = |i: usize| {
        let x = (i as f64 + 0.5) * width;
        4.0 / (1.0 + x * x)
    };
    let share: f64 = (cl.rank()..steps).step_by(cl.nranks()).map(height).sum();
    let pi = cl.all_reduce(share * width, Sum)?;
    let shares = cl.all_gather(share * width)?;
    if cl.rank() == 0 {
        println!("pi = {pi:.12} from {} ranks", cl.nranks());
        for (rank, share) in shares.iter().enumerate() {
            println!("  rank {rank} gave {share:.12}");
        }
    }
    Ok(())
}
