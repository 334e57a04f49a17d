//! Measures the diff of a page of 4 KiB with its twin: ns by the processor's vector instructions
//! and by words, for some numbers of changed runs of two bytes, and the bytes that are sent.
//!
//! `cargo run --release -p clump-svm --example diff_cost`; about a second. Medians of interleaved
//! slices, both pages in the cache.

use clump_hlrc::Diff;
use clump_os::clock::now_ns;
use clump_os::differing::mark_differing;
use std::hint::black_box;

const PAGE: usize = 4096;
const SLICES: usize = 101;
const ROUNDS: u32 = 200;

fn by_vectors(twin: &[u8], page: &[u8]) -> Option<Diff> {
    let mut marks = [0; PAGE / 64];
    mark_differing(twin, page, &mut marks).then(|| Diff::of_marked(page, marks))
}

fn marked(twin: &[u8], page: &[u8]) -> bool {
    let mut marks = [0; PAGE / 64];
    mark_differing(twin, page, &mut marks) && marks[PAGE / 64 - 1] != 1
}

/// Returns the time of one call, in ns.
fn time<R>(work: impl Fn() -> R) -> f64 {
    let start = now_ns();
    (0..ROUNDS).for_each(|_| drop(black_box(work())));
    (now_ns() - start) as f64 / f64::from(ROUNDS)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() {
    println!("  runs   marks   vectors   words (ns)   bytes sent");
    let twin = vec![5; PAGE];
    for runs in [0, 1, 16, 64, 256, 1024] {
        let mut page = twin.clone();
        for run in 0..runs {
            let first = run * PAGE / runs;
            page[first..first + 2].fill(6);
        }
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..SLICES {
            let (twin, page) = (black_box(&twin), black_box(&page));
            times[0].push(time(|| marked(twin, page)));
            times[1].push(time(|| by_vectors(twin, page)));
            times[2].push(time(|| Diff::between(twin, page)));
        }
        let [marks, vectors, words] = times.map(median);
        let mut sent = Vec::new();
        Diff::between(&twin, &page).encode(&mut sent);
        println!("{runs:6} {marks:7.0} {vectors:9.0} {words:12.0} {:12}", sent.len());
    }
}
