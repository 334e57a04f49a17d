//! A handler that fails while a long message waits for room: the message is sent all the same.
#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

use clump_am::{Endpoint, ErrorKind, Handler, Name, Tag};
use clump_test_bed::{Job, Shape};
use clump_wire::Security;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Barrier;

const TAG: Tag = Tag(0x1a7e);
/// Far more than is packed ahead.
const BYTES: usize = 4 << 20;
const FAILS: Handler = Handler(1);
const LANDED: Handler = Handler(2);
const AFTER: Handler = Handler(3);
/// Requests to the handler that fails.
const FAILURES: u64 = 3;

#[test]
fn what_is_packed_in_part_is_packed_whole_though_handlers_fail() {
    for security in [Security::Aead, Security::Crc] {
        let job = Job::new(&Shape::of_messages(2, 2, security), 1);
        let meet = Barrier::new(2);
        std::thread::scope(|scope| {
            let [a, b] = [&job.seats[0].context, &job.seats[1].context];
            let meet = &meet;
            scope.spawn(move || {
                let ep = Endpoint::open(a, TAG).unwrap();
                ep.set_handler(FAILS, |_, _, _| Err::<(), _>("as it should")).unwrap();
                meet.wait();
                let to = ep.map_ordered(&Name::new(1, 0, 1), TAG).unwrap();
                // The requests that make the handler fail have been sent by now, and this rank has
                // not polled.
                meet.wait();
                let data: Vec<u8> = (0..BYTES).map(|at| (at % 251) as u8).collect();
                ep.request_long(to, LANDED, 0, &data, &[7]).unwrap();
                let mut failed = 0;
                while failed < FAILURES && ep.poll().is_err() {
                    failed += 1;
                }
                assert!(failed > 0, "the next polls report what failed meanwhile");
                loop {
                    match ep.request(to, AFTER, &[]) {
                        Err(e) if matches!(e.kind(), ErrorKind::HandlerFailed { .. }) => {}
                        other => break other.unwrap(),
                    }
                }
                while let Err(e) = ep.drain() {
                    assert!(matches!(e.kind(), ErrorKind::HandlerFailed { .. }), "{e}");
                }
                drop(ep);
                a.close_network();
            });
            scope.spawn(move || {
                let ep = Endpoint::open(b, TAG).unwrap();
                let segment = ep.export_segment(BYTES as u64).unwrap();
                let (landed, after) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
                let (one, two) = (landed.clone(), after.clone());
                ep.set_handler(LANDED, move |_, words, payload| {
                    assert_eq!((words, payload.len()), (&[7][..], BYTES));
                    one.set(one.get() + 1);
                })
                .unwrap();
                let first = landed.clone();
                ep.set_handler(AFTER, move |_, _, _| {
                    assert_eq!(first.get(), 1, "it overtook the long message");
                    two.set(two.get() + 1);
                })
                .unwrap();
                meet.wait();
                let to = ep.map(&Name::new(0, 0, 1), TAG).unwrap();
                (0..FAILURES).for_each(|i| ep.request(to, FAILS, &[i]).unwrap());
                // Once they are acknowledged, rank 0 has them.
                while b.network().unwrap().snapshot().memory_bytes > 0 {
                    ep.poll().unwrap();
                    clump_os::clock::yield_now();
                }
                meet.wait();
                ep.poll_until(|| after.get() > 0).unwrap();
                assert_eq!((landed.get(), after.get()), (1, 1));
                let mut bytes = vec![0; BYTES];
                segment.bytes(0, BYTES as u64).unwrap().copy_to(&mut bytes);
                assert!(bytes.iter().enumerate().all(|(at, &byte)| byte == (at % 251) as u8));
                drop(ep);
                b.close_network();
            });
        });
    }
}
