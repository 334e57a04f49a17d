//! Collectives that a handler calls: it gets an error, the rank has taken no part, and the
//! collective in which the rank waits goes on as if nothing had been called.

use clump_am::{Endpoint, Error, ErrorKind, Handler, Name, Tag};
use clump_coll::{Sum, Team};
use clump_test_bed::{Shape, run};
use clump_transport::Dispatch;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A call of a collective.
type Call = fn(&Team) -> Result<(), Error>;

const CALL: Handler = Handler(1);
const DONE: Handler = Handler(2);

/// Calls that a handler makes; the last ones have arguments that are wrong.
const IN_HANDLER: [(&str, Call); 12] = [
    ("barrier", Team::barrier),
    ("meet_all", Team::meet_all),
    ("split", |team| team.split(Some(0), 0).map(drop)),
    ("broadcast", |team| team.broadcast(0, &mut [1_u64; 9])),
    ("all_gather", |team| team.all_gather(1_u64).map(drop)),
    ("all_reduce_slice", |team| team.all_reduce_slice(&mut [1_u64; 5000], Sum)),
    ("start_barrier", |team| team.start_barrier().map(drop)),
    ("start_all_reduce", |team| team.start_all_reduce(&[1_u64], Sum).map(drop)),
    ("decline", |team| team.decline(&"it cannot")),
    ("broadcast of no root", |team| team.broadcast(1000, &mut [1_u64])),
    ("all_gather without room", |team| team.all_gather_slice(&[1_u8; 9], &mut [0; 2])),
    ("start_broadcast of no root", |team| team.start_broadcast(1000, &[1_u64]).map(drop)),
];

/// Calls in which a rank waits while its handler runs.
const WAITING: [(&str, Call); 6] = [
    ("barrier", Team::barrier),
    ("all_gather", |team| team.all_gather(1_u64).map(drop)),
    ("all_gather_bytes", |team| team.all_gather_bytes(&[1; 100]).map(drop)),
    ("all_reduce_slice", |team| team.all_reduce_slice(&mut [1_u64; 5000], Sum)),
    ("start_barrier", |team| team.start_barrier()?.wait()),
    ("split", |team| team.split(Some(0), 0).map(drop)),
];

/// Runs the calls of `IN_HANDLER` in a handler of rank 1, while that waits in each of `WAITING`, or
/// before if `is_before`. Rank 0 takes part once the handler has run.
fn every_call_in_a_handler(is_before: bool) {
    let proxies = Shape::of(3, 3).by_proxies(1, Dispatch::Fixed);
    for shape in [Shape::of(2, 1), Shape::of(3, 1), Shape::of(4, 2), proxies] {
        run(&shape, 9, move |seat| {
            let all = Rc::new(Team::form(&seat.context).unwrap());
            let part = Rc::new(all.split(Some(0), 0).unwrap().unwrap());
            let endpoint = Endpoint::open(&seat.context, Tag(7)).unwrap();
            for team in [all, part] {
                WAITING
                    .iter()
                    .for_each(|it| one_wait(&team, &endpoint, it, is_before, || seat.meet()));
            }
        });
    }
}

/// Has rank 1 wait in one collective.
fn one_wait(
    team: &Rc<Team>,
    endpoint: &Endpoint,
    (outer, waiting): &(&str, Call),
    is_before: bool,
    meet: impl Fn(),
) {
    let (results, done) = (Rc::new(RefCell::new(Vec::new())), Rc::new(Cell::new(false)));
    let (called, calls, sets) = (team.clone(), results.clone(), done.clone());
    endpoint
        .set_handler(CALL, move |token, _, _| {
            calls.borrow_mut().extend(IN_HANDLER.map(|it| it.1(&called)));
            token.reply(DONE, &[])
        })
        .unwrap();
    endpoint.set_handler(DONE, move |_, _, _| sets.set(true)).unwrap();
    meet();
    match team.rank() {
        0 => {
            let dest = endpoint.map(&Name::new(1, 1, 1), Tag(7)).unwrap();
            endpoint.request(dest, CALL, &[]).unwrap();
            endpoint.poll_until(|| done.get()).unwrap();
            endpoint.unmap(dest).unwrap();
        }
        1 if is_before => endpoint.poll_until(|| !results.borrow().is_empty()).unwrap(),
        _ => {}
    }
    // Rank 0 calls it last: the handler of rank 1 runs in this call, or has run.
    waiting(team).unwrap();
    let results = results.take();
    assert_eq!(results.len(), IN_HANDLER.len() * usize::from(team.rank() == 1), "{outer}");
    for (result, (inner, _)) in results.into_iter().zip(IN_HANDLER) {
        let error = result.expect_err(inner);
        let what = format!("{inner} in {outer}: {error}");
        assert!(matches!(error.kind(), ErrorKind::CollectiveInHandler), "{what}");
        assert!(!error.took_part(), "{what}");
    }
    // It was paired with no other.
    let all = team.all_gather(team.rank() as u64).unwrap();
    assert!(all.into_iter().eq(0..team.nranks() as u64), "{outer}");
}

#[test]
fn a_handler_that_runs_in_a_collective_calls_none() {
    every_call_in_a_handler(false);
}

#[test]
fn a_handler_that_runs_in_a_poll_calls_no_collective() {
    every_call_in_a_handler(true);
}
