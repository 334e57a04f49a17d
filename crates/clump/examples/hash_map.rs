//! A hash map over all ranks: `clump run -n 4 --nodes 2 target/release/examples/hash_map [WORDS]`.
//!
//! Every rank has a part of the map. A function that all ranks have registered runs where a key
//! belongs; arguments and results are any types that serde knows. Calls are begun many at a time,
//! and waited for when their results are needed.

use clump::Sum;
use clump::pgas::DistName;
use std::collections::HashMap;

type Counts = HashMap<String, u64>;

/// Returns the rank that a word belongs to.
fn owner(word: &str, ranks: usize) -> usize {
    word.bytes().fold(5381, |hash: usize, byte| hash.wrapping_mul(33) ^ usize::from(byte)) % ranks
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words = std::env::args_os().nth(1);
    let words = words.map_or(Ok(2000), |text| text.to_string_lossy().parse::<u64>())?;
    let cl = clump::init()?;
    let gas = cl.pgas()?;
    let calls = gas.remote_calls()?;
    let counts = calls.dist(Counts::new())?;
    let note = calls.register("note", |context, (name, word): (DistName<Counts>, String)| {
        context.with(name, |counts| *counts.entry(word).or_insert(0) += 1)
    })?;
    let look = calls.register("look", |context, (name, word): (DistName<Counts>, String)| {
        context.with(name, |counts| counts.get(&word).copied())
    })?;

    // One-way calls: no rank waits for an answer before its next word.
    for n in 0..words {
        let word = format!("word {}", n % 97);
        calls.send(note, owner(&word, cl.nranks()), &(counts.name(), word.clone()))?;
    }
    // No call is under way any more, anywhere.
    calls.detect_termination(|| Ok(false))?;

    let ask = |n: u64| {
        let word = format!("word {n}");
        calls.call(look, owner(&word, cl.nranks()), &(counts.name(), word.clone()))
    };
    // All are asked for before the first is waited for.
    let pending: Result<Vec<_>, _> = (0..97).map(ask).collect();
    let mut total = 0;
    for found in pending? {
        total += found.wait()?.unwrap_or(0);
    }
    assert_eq!(total, words * cl.nranks() as u64, "every word was counted once");
    let here = counts.with(|counts| counts.len() as u64)?;
    let distinct = cl.all_reduce(here, Sum)?;
    if cl.rank() == 0 {
        println!("{total} words of {} ranks, {distinct} distinct", cl.nranks());
    }
    Ok(gas.barrier()?)
}
