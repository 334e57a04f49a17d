//! Errors that wait to be reported while collectives are executed: the rank takes part all the
//! same, the others notice nothing, and the error is reported behind a collective or by a later
//! call.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "helpers of a test may give up"
)]

use clump_am::{Endpoint, Handler, Name, Reason, Tag};
use clump_coll::{Sum, Team};
use clump_pgas::{ErrorKind, GlobalPtr, Layout, Pgas, RemoteCalls, RemoteFn};
use clump_test_bed::{Seat, Shape, run};
use clump_transport::Dispatch;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// The parts of a rank that call collectives.
struct Station {
    pgas: Pgas,
    calls: RemoteCalls,
    fails: RemoteFn<(), ()>,
}

/// Outcome of a collective at a rank.
type Outcome = clump_pgas::Result<()>;

/// A collective: its name, and the call.
type Collective = (&'static str, fn(&Station) -> Outcome);

/// Every collective of the layers that ranks as threads have.
const COLLECTIVES: [Collective; 25] = [
    ("barrier", |it| Ok(it.pgas.team().barrier()?)),
    ("barrier of the space", |it| it.pgas.barrier()),
    ("all_store_sync", |it| it.pgas.all_store_sync()),
    ("detect_termination", |it| it.calls.detect_termination(|| Ok(false))),
    ("split", |it| {
        let part = it.pgas.team().split(Some(0), 0)?.unwrap();
        assert_eq!(part.all_gather(1_u8)?.len(), it.pgas.nranks());
        part.meet_all()?;
        Ok(())
    }),
    ("broadcast", |it| Ok(it.pgas.team().broadcast(0, &mut [1_u64; 9])?)),
    ("all_gather", |it| Ok(it.pgas.team().all_gather(1_u64).map(drop)?)),
    ("all_gather_bytes", |it| Ok(it.pgas.team().all_gather_bytes(&[1; 100]).map(drop)?)),
    ("all_gather_slice", |it| {
        let mut all = vec![0; 40_000 * it.pgas.nranks()];
        Ok(it.pgas.team().all_gather_slice(&[1_u8; 40_000], &mut all)?)
    }),
    ("gather", |it| Ok(it.pgas.team().gather(0, 1_u64).map(drop)?)),
    ("gather_bytes", |it| Ok(it.pgas.team().gather_bytes(0, &[1; 10]).map(drop)?)),
    ("scatter", |it| {
        let all = vec![1_u64; it.pgas.nranks()];
        let mine = if it.pgas.rank() == 0 { &all[..] } else { &[] };
        Ok(it.pgas.team().scatter(0, mine).map(drop)?)
    }),
    ("all_to_all", |it| Ok(it.pgas.team().all_to_all(&vec![1_u64; it.pgas.nranks()]).map(drop)?)),
    ("all_to_all_bytes", |it| {
        Ok(it.pgas.team().all_to_all_bytes(&vec![[1_u8; 3]; it.pgas.nranks()]).map(drop)?)
    }),
    ("reduce", |it| Ok(it.pgas.team().reduce(0, 1_u64, Sum).map(drop)?)),
    ("all_reduce", |it| Ok(it.pgas.team().all_reduce(1_u64, Sum).map(drop)?)),
    ("all_reduce_slice", |it| Ok(it.pgas.team().all_reduce_slice(&mut [1_u64; 5000], Sum)?)),
    ("scan", |it| Ok(it.pgas.team().scan(1_u64, Sum).map(drop)?)),
    ("exclusive_scan", |it| Ok(it.pgas.team().exclusive_scan(1_u64, Sum).map(drop)?)),
    ("start_barrier", |it| Ok(it.pgas.team().start_barrier()?.wait()?)),
    ("start_all_reduce", |it| {
        Ok(it.pgas.team().start_all_reduce(&[1_u64; 3], Sum)?.wait().map(drop)?)
    }),
    ("spread", |it| {
        let array = it.pgas.spread::<u64>(it.pgas.nranks(), Layout::Cyclic)?;
        assert_eq!(array.len(), it.pgas.nranks());
        it.pgas.team().meet_all()?;
        Ok(())
    }),
    ("mutex", |it| {
        let mutex = it.pgas.mutex(7_u64)?;
        assert!(mutex.home() < it.pgas.nranks());
        it.pgas.team().meet_all()?;
        Ok(())
    }),
    ("register", |it| it.calls.register("more", |_, (): ()| Ok(())).map(drop)),
    ("dist", |it| it.calls.dist(7_u32).map(drop)),
];

/// Names of collectives that give nothing back: they may report a pending error behind their end.
const WITHOUT_RESULT: [&str; 4] =
    ["barrier", "barrier of the space", "all_store_sync", "detect_termination"];

fn open(seat: &Seat) -> Station {
    let team = Arc::new(Team::form(&seat.context).unwrap());
    let pgas = Pgas::open(&seat.context, &team).unwrap();
    let calls = pgas.remote_calls().unwrap();
    let fails = calls
        .register("fails", |_, (): ()| {
            Err(ErrorKind::FunctionFailed { text: "a planned failure".into() }.into())
        })
        .unwrap();
    Station { pgas, calls, fails }
}

/// Runs every collective with an error pending at each rank in turn, which `trouble` makes.
/// Returns nothing; each error is reported exactly at the rank that has it.
fn every_collective(shape: &Shape, trouble: fn(&Station, usize, usize)) {
    run(shape, 3, move |seat| {
        let it = open(seat);
        let (me, ranks) = (it.pgas.rank(), it.pgas.nranks());
        for (name, collective) in COLLECTIVES {
            for troubled in 0..ranks {
                trouble(&it, troubled, ranks);
                let outcome = collective(&it);
                let what = format!("{name}: rank {me} of {ranks}, trouble at {troubled}");
                let mut reported = 0;
                if let Err(error) = outcome {
                    assert!(me == troubled, "{what}: {error}");
                    assert!(error.took_part(), "{what}: {error}");
                    assert!(WITHOUT_RESULT.contains(&name), "{what}: its result is lost");
                    reported += 1;
                }
                // It is not paired with another one.
                let all = it.pgas.team().all_gather(me as u64).expect(&what);
                assert!(all.into_iter().eq(0..ranks as u64), "{what}");
                // The last of them returns when no call is under way any more.
                let end = || it.calls.detect_termination(|| Ok(false));
                for result in [it.pgas.sync(), it.calls.poll(), it.pgas.barrier(), end()] {
                    reported += u32::from(result.is_err());
                }
                assert_eq!(reported > 0, me == troubled, "{what}: reported {reported} times");
                seat.meet();
            }
        }
    });
}

#[test]
fn a_one_way_call_that_fails_takes_no_rank_out_of_a_collective() {
    for shape in [Shape::of(3, 1), Shape::of(4, 2), Shape::of(3, 3).by_proxies(1, Dispatch::Fixed)]
    {
        every_collective(&shape, |it, troubled, ranks| {
            if it.pgas.rank() == (troubled + 1) % ranks {
                it.calls.send(it.fails, troubled, &()).unwrap();
                it.pgas.flush().unwrap();
            }
        });
    }
}

#[test]
fn a_store_that_is_refused_takes_no_rank_out_of_a_collective() {
    for shape in [Shape::of(2, 2), Shape::of(3, 3).by_proxies(1, Dispatch::Fixed)] {
        every_collective(&shape, |it, troubled, ranks| {
            let array = it.pgas.spread::<u64>(ranks, Layout::Cyclic).unwrap();
            let next: GlobalPtr<u64> = array.on((troubled + 1) % ranks).unwrap();
            it.pgas.all_store_sync().unwrap();
            drop(array);
            it.pgas.all_store_sync().unwrap();
            if it.pgas.rank() == troubled {
                it.pgas.at(next).unwrap().store(7).unwrap();
                it.pgas.flush().unwrap();
            }
        });
    }
}

#[test]
fn a_failure_that_nothing_asks_for_is_kept_for_the_end() {
    for shape in [Shape::of(2, 1), Shape::of(2, 2)] {
        run(&shape, 11, |seat| {
            let team = Team::form(&seat.context).unwrap();
            let me = team.rank();
            let endpoint = Endpoint::open(&seat.context, Tag(7)).unwrap();
            let ran = Rc::new(Cell::new(false));
            let runs = ran.clone();
            endpoint
                .set_handler(Handler(1), move |_, _, _| {
                    runs.set(true);
                    Err::<(), _>("a planned failure")
                })
                .unwrap();
            seat.meet();
            if me == 0 {
                let dest = endpoint.map(&Name::new(1, 1, 1), Tag(7)).unwrap();
                endpoint.request(dest, Handler(1), &[]).unwrap();
            }
            // A collective of a result keeps it, and nothing else polls.
            while !team
                .all_gather(u8::from(me == 0 || ran.get()))
                .unwrap()
                .iter()
                .all(|&it| it == 1)
            {}
            assert!(seat.context.take_unreported().is_none(), "the endpoint may still be asked");
            drop(endpoint);
            let unreported = seat.context.take_unreported().map(|error| error.to_string());
            assert_eq!(unreported.is_some_and(|it| it.contains("a planned failure")), me == 1);
            team.barrier().unwrap();
        });
    }
}

/// Message from rank 0 to rank 1 that comes back: rank 1 has another tag meanwhile.
#[test]
fn a_message_that_comes_back_from_a_rank_that_lives_is_an_error_of_all() {
    for shape in [Shape::of(3, 1), Shape::of(3, 3), Shape::of(3, 3).by_proxies(1, Dispatch::Fixed)]
    {
        run(&shape, 5, |seat| {
            let team = Team::form(&seat.context).unwrap();
            let me = team.rank();
            let block = seat.context.node().endpoint_block(me as u32, 0).unwrap();
            let tag = block.tag();
            if me == 1 {
                block.set_tag(!tag);
            }
            seat.meet();
            let pending = (me == 0).then(|| team.start_broadcast(0, &[1_u64; 3]).unwrap());
            // Rank 0 has sent all of it, and has what came back once this holds.
            let returned = || pending.as_ref().is_some_and(|it| it.test().is_err());
            if me == 0 {
                while !returned() {
                    std::thread::yield_now();
                }
            }
            seat.meet();
            block.set_tag(tag);
            seat.meet();
            let outcome = match pending {
                Some(pending) => pending.wait().map(drop),
                None => team.start_broadcast(0, &[1_u64; 3]).and_then(|it| it.wait().map(drop)),
            };
            let outcome = outcome.and_then(|()| team.all_gather(1_u8).map(drop));
            let error = outcome.expect_err("a message is lost");
            let clump_am::ErrorKind::CollectiveReturned { rank: 1, reason: Reason::BadTag } =
                error.kind()
            else {
                panic!("rank {me}: {error}");
            };
            assert!(team.barrier().is_err(), "rank 1 would wait for ever in some collective");
            seat.meet();
        });
    }
}

#[test]
fn a_rank_without_its_part_of_an_array_takes_part() {
    for shape in [Shape::of(3, 1), Shape::of(4, 2)] {
        run(&shape, 7, |seat| {
            let it = open(seat);
            let (me, ranks) = (it.pgas.rank(), it.pgas.nranks());
            for without in 0..ranks {
                // No memory holds as much.
                let len = if me == without { usize::MAX / 8 } else { ranks };
                let error = it.pgas.spread::<u64>(len, Layout::Block).expect_err("one has none");
                match error.kind() {
                    ErrorKind::NoMemoryAt { rank, .. } => {
                        assert!(me != without && *rank == without);
                    }
                    _ => assert!(me == without && error.took_part(), "{error}"),
                }
                let all = it.pgas.team().all_gather(me as u64).unwrap();
                assert!(all.into_iter().eq(0..ranks as u64));
            }
        });
    }
}
