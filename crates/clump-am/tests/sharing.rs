//! Threads of one rank that open endpoints, and use one together.
#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

use clump_am::{Endpoint, Handler, Settings, Tag};
use clump_os::sync::AtomicU64;
use clump_os::sync::Ordering::Relaxed;
use std::sync::Arc;

const TAG: Tag = Tag(5);
const PING: Handler = Handler(1);

#[test]
fn threads_share_a_shared_endpoint() {
    let node = clump_test_bed::node(1, false);
    let context = clump_test_bed::context(&node, 0, Settings::default());
    let ep = Endpoint::open_shared(&context, TAG).unwrap();
    let dest = ep.map(&ep.name(), TAG).unwrap();
    let hits = Arc::new(AtomicU64::new(0));
    let count = hits.clone();
    ep.set_handler(PING, move |_, _, _| {
        count.fetch_add(1, Relaxed);
    })
    .unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for i in 0..2000 {
                    ep.request(dest, PING, &[i]).unwrap();
                }
            });
        }
    });
    ep.poll_until(|| hits.load(Relaxed) == 8000).unwrap();
}

#[test]
fn threads_that_open_endpoints_at_once_get_different_ones() {
    const THREADS: usize = 4;
    let node = clump_test_bed::node(1, false);
    let context = clump_test_bed::context(&node, 0, Settings::default());
    let meet = std::sync::Barrier::new(THREADS);
    for _ in 0..clump_test_tier::pick(200, 2000) {
        let names = std::thread::scope(|scope| {
            let open = || {
                meet.wait();
                let ep = Endpoint::open_shared(&context, TAG).unwrap();
                let name = ep.name();
                meet.wait();
                name
            };
            let threads = [(); THREADS].map(|()| scope.spawn(open));
            threads.map(|thread| thread.join().unwrap())
        });
        let mut places: Vec<u8> = names.iter().map(|name| name.index()).collect();
        places.sort_unstable();
        assert!(places.iter().map(|&i| usize::from(i)).eq(0..THREADS), "{names:?}");
    }
}
