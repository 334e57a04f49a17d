//! Accesses to words within a node, beside plain loads and stores of the same memory. No loop can
//! be vectorised, since all accesses are atomic on both sides. Loops of `put` and `get` are not
//! unrolled, since they contain a call for words of other nodes: so plain ones are not either.
//! Beside them stand words of a slice (`near_words`), in loops that may be unrolled.

use clump::rma::{OneSidedError, Target};
use clump_os::clock;
use clump_os::sync::{AtomicU64, Ordering::Relaxed};

type Result<T> = std::result::Result<T, OneSidedError>;

/// Numbers of words accessed: in the first-level cache, and in 2 MiB.
const FEW: usize = 2048;
const MANY: usize = 256 << 10;
const COUNT: u64 = 1_000_000;

pub(crate) fn measure(target: &Target) -> super::Result<()> {
    let words = target.near_words().ok_or("rank 1 is on another node")?;
    println!("words of 8 bytes: ns, and beside plain ones of the same memory");
    of_memory("16 KiB", target, words, <&[_; FEW]>::try_from(&words[..FEW])?)?;
    of_memory("2 MiB", target, words, <&[_; MANY]>::try_from(&words[..MANY])?)
}

/// Returns the time of one of many accesses, in ns.
fn time(all: impl FnOnce() -> Result<u64>) -> Result<f64> {
    let start = clock::instant();
    std::hint::black_box(all()?);
    Ok(start.elapsed().as_secs_f64() * 1e9 / COUNT as f64)
}

fn of_memory<const N: usize>(
    what: &str,
    target: &Target,
    words: &[AtomicU64],
    plain: &[AtomicU64; N],
) -> super::Result<()> {
    let mut costs: [[Vec<f64>; 3]; 4] = Default::default();
    for _ in 0..31 {
        let [put, get, put_walk, get_walk] = &mut costs;
        put[0].push(time(|| put_stream::<N>(target))?);
        put[1].push(time(|| Ok(store_stream::<N>(words)))?);
        put[2].push(time(|| Ok(store_stream_plain(plain)))?);
        get[0].push(time(|| get_stream::<N>(target))?);
        get[1].push(time(|| Ok(load_stream::<N>(words)))?);
        get[2].push(time(|| Ok(load_stream_plain(plain)))?);
        put_walk[0].push(time(|| put_steps::<N>(target))?);
        put_walk[1].push(time(|| Ok(store_steps::<N>(words)))?);
        put_walk[2].push(time(|| Ok(store_steps_plain(plain)))?);
        // One cycle through all of them in an order that no prefetcher knows.
        let mut at = 0;
        for _ in 0..N {
            let to = (at * 5 + 12_345) % N;
            plain[at].store(to as u64, Relaxed);
            at = to;
        }
        get_walk[0].push(time(|| get_steps::<N>(target))?);
        get_walk[1].push(time(|| Ok(load_steps::<N>(words)))?);
        get_walk[2].push(time(|| Ok(load_steps_plain(plain)))?);
    }
    println!("{what}");
    let names = ["put, stream", "get, stream", "put, each step from the last", "get, the same"];
    for (name, costs) in names.iter().zip(costs) {
        let [call, near, plain] = costs.map(|mut times| {
            times.sort_unstable_by(f64::total_cmp);
            times[times.len() / 2]
        });
        let (ratio, words) = (call / plain, near / plain);
        println!(
            "  {name:29} {call:5.2} {ratio:5.2} x; `near_words` {near:5.2} {words:5.2} x; plain {plain:5.2}"
        );
    }
    Ok(())
}

/// Returns the index of access number `i` of a stream: in order through few words, in any order
/// through many.
#[inline(always)]
fn place<const N: usize>(i: u64) -> usize {
    if N == FEW {
        i as usize % N
    } else {
        (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % N
    }
}

/// Returns the successor of `x` in a pseudo-random sequence; [`of`] maps it to an index.
#[inline(always)]
fn next(x: u64) -> u64 {
    x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}

/// Returns the index to which `x` maps.
#[inline(always)]
fn of<const N: usize>(x: u64) -> usize {
    (x >> 40) as usize % N
}

/// Keeps the compiler from unrolling a loop: opaque code that does nothing.
#[inline(always)]
fn unroll_no_more() {
    std::hint::black_box(());
}

#[inline(never)]
fn put_stream<const N: usize>(target: &Target) -> Result<u64> {
    for i in 0..COUNT {
        target.put(place::<N>(i) as u64 * 8, i)?;
    }
    Ok(0)
}

#[inline(never)]
fn store_stream<const N: usize>(words: &[AtomicU64]) -> u64 {
    (0..COUNT).for_each(|i| words[place::<N>(i)].store(i, Relaxed));
    0
}

#[inline(never)]
fn store_stream_plain<const N: usize>(words: &[AtomicU64; N]) -> u64 {
    for i in 0..COUNT {
        words[place::<N>(i)].store(i, Relaxed);
        unroll_no_more();
    }
    0
}

#[inline(never)]
fn get_stream<const N: usize>(target: &Target) -> Result<u64> {
    let mut sum = 0_u64;
    for i in 0..COUNT {
        sum = sum.wrapping_add(target.get(place::<N>(i) as u64 * 8)?);
    }
    Ok(sum)
}

#[inline(never)]
fn load_stream<const N: usize>(words: &[AtomicU64]) -> u64 {
    (0..COUNT).fold(0, |sum, i| sum.wrapping_add(words[place::<N>(i)].load(Relaxed)))
}

#[inline(never)]
fn load_stream_plain<const N: usize>(words: &[AtomicU64; N]) -> u64 {
    (0..COUNT).fold(0, |sum, i| {
        unroll_no_more();
        sum.wrapping_add(words[place::<N>(i)].load(Relaxed))
    })
}

#[inline(never)]
fn put_steps<const N: usize>(target: &Target) -> Result<u64> {
    let mut x = 1;
    for _ in 0..COUNT {
        x = next(x);
        target.put(of::<N>(x) as u64 * 8, x)?;
    }
    Ok(x)
}

#[inline(never)]
fn store_steps<const N: usize>(words: &[AtomicU64]) -> u64 {
    let mut x = 1;
    for _ in 0..COUNT {
        x = next(x);
        words[of::<N>(x)].store(x, Relaxed);
    }
    x
}

#[inline(never)]
fn store_steps_plain<const N: usize>(words: &[AtomicU64; N]) -> u64 {
    let mut x = 1;
    for _ in 0..COUNT {
        x = next(x);
        unroll_no_more();
        words[of::<N>(x)].store(x, Relaxed);
    }
    x
}

#[inline(never)]
fn get_steps<const N: usize>(target: &Target) -> Result<u64> {
    let mut at = 0;
    for _ in 0..COUNT {
        at = target.get::<u64>(at % N as u64 * 8)?;
    }
    Ok(at)
}

#[inline(never)]
fn load_steps<const N: usize>(words: &[AtomicU64]) -> u64 {
    (0..COUNT).fold(0, |at, _| words[at as usize % N].load(Relaxed))
}

#[inline(never)]
fn load_steps_plain<const N: usize>(words: &[AtomicU64; N]) -> u64 {
    (0..COUNT).fold(0, |at, _| {
        unroll_no_more();
        words[at as usize % N].load(Relaxed)
    })
}
