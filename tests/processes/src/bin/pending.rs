//! Calls that fail while other ranks depend on this one: `pending COLLECTIVE RANK`, `pending spread
//! BYTES`, `pending unasked RANK`.
//!
//! The first has an error pending at one rank when all ranks call the collective: that rank takes
//! part and reports, the others get their results, and the next collective is paired with no other.
//! The second asks for an array that may be larger than memory, and prints how that ended. The
//! third has a handler of one rank fail in a collective, and ends without a call that would report
//! it.

use clump::Sum;
use clump::am::{Endpoint, Handler, Tag};
use clump::pgas::{GlobalErrorKind, GlobalResult, Layout, RemoteContext};
use std::cell::Cell;
use std::rc::Rc;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Text of the error.
const FAILED: &str = "this call fails on purpose";
/// Collectives after the first, which show that none was paired with another.
const ROUNDS: u64 = 5;

fn main() -> Result<()> {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let words: Vec<_> = args.iter().map(|word| word.to_string_lossy()).collect();
    match &words[..] {
        [what, bytes] if what == "spread" => spread(bytes.parse()?),
        [what, rank] if what == "unasked" => unasked(rank.parse()?),
        [what, rank] => pending(what, rank.parse()?),
        _ => Err("pending COLLECTIVE RANK".into()),
    }
}

/// Allocates an array over all ranks, and uses its ends.
fn spread(bytes: usize) -> Result<()> {
    let cl = clump::init()?;
    let pgas = cl.pgas()?;
    let array = match pgas.spread::<u64>(bytes / 8, Layout::Block) {
        Ok(array) => array,
        Err(error) => return Err(format!("no array of {bytes} bytes: {error}").into()),
    };
    if let (0, Some(last)) = (cl.rank(), (bytes / 8).checked_sub(1)) {
        array.at(0).put(7)?;
        array.at(last).put(7)?;
    }
    pgas.all_store_sync()?;
    Ok(cl.barrier()?)
}

/// Ends as if nothing had happened, although a handler of rank `failing` has failed.
fn unasked(failing: usize) -> Result<()> {
    let cl = clump::init()?;
    let (me, all) = (cl.rank(), cl.nranks());
    let endpoint = Endpoint::open(&cl, Tag(5))?;
    let ran = Rc::new(Cell::new(false));
    let runs = ran.clone();
    endpoint.set_handler(Handler(1), move |_, _, _| {
        runs.set(true);
        Err::<(), _>(FAILED)
    })?;
    let names = cl.all_gather(endpoint.name())?;
    if me == (failing + 1) % all {
        endpoint.request(endpoint.map(&names[failing], Tag(5))?, Handler(1), &[])?;
    }
    // A collective of a result keeps the failure, and nothing else polls.
    while cl.all_reduce(u64::from(ran.get()), Sum)? == 0 {}
    Ok(())
}

fn pending(what: &str, failing: usize) -> Result<()> {
    let cl = clump::init()?;
    let (me, all) = (cl.rank(), cl.nranks());
    let pgas = cl.pgas()?;
    let calls = pgas.remote_calls()?;
    let fails = calls.register("fails", |_: &RemoteContext<'_, u64>, _: u64| -> Refused {
        Err(GlobalErrorKind::FunctionFailed { text: FAILED.into() }.into())
    })?;
    // A rank may leave the barrier and call before the failing one has left it.
    heed(cl.barrier().map_err(Into::into), me == failing)?;
    if me == (failing + 1) % all {
        calls.send(fails, failing, &0)?;
        pgas.flush()?;
    }
    let sum = all as u64 * (all as u64 - 1) / 2;
    let first = match what {
        "barrier" => cl.barrier().map_err(Into::into),
        "all-reduce" => {
            cl.all_reduce(me as u64, Sum).map_err(Into::into).and_then(|is| same(is, sum))
        }
        "broadcast" => {
            let mut value = [if me == 0 { 17 } else { 0_u64 }];
            cl.broadcast(0, &mut value).map_err(Into::into).and_then(|()| same(value[0], 17))
        }
        "all-gather" => {
            cl.all_gather(me as u64).map_err(Into::into).and_then(|is| same(is.iter().sum(), sum))
        }
        "split" => cl.split(Some(0), 0).map(drop).map_err(Into::into),
        "all-store-sync" => pgas.all_store_sync().map_err(Into::into),
        "pgas-barrier" => pgas.barrier().map_err(Into::into),
        "termination" => calls.detect_termination(|| Ok(false)).map_err(Into::into),
        "spread" => pgas.spread::<u64>(64, Layout::Block).map(drop).map_err(Into::into),
        other => return Err(format!("`{other}` is no collective").into()),
    };
    heed(first, me == failing)?;
    for round in 0..ROUNDS {
        let expected = all as u64 * round + sum;
        let is = cl.all_reduce(me as u64 + round, Sum).map_err(Into::into);
        heed(is.and_then(|is| same(is, expected)), me == failing)?;
    }
    Ok(())
}

type Refused = GlobalResult<u64>;

fn same(is: u64, expected: u64) -> Result<()> {
    if is == expected { Ok(()) } else { Err(format!("{is} is not {expected}").into()) }
}

/// Accepts the pending error where it is pending; no other, and nowhere else.
fn heed(result: Result<()>, may_fail: bool) -> Result<()> {
    match result {
        Err(error) if may_fail && error.to_string().contains(FAILED) => Ok(()),
        other => other,
    }
}
