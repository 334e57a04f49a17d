//! Programs for sweeps: `serial phase` (three ranks) has a serial phase of a known length, `serial
//! locks` (two ranks) attempts at a lock that fail, `serial livelock` never ends where knobs are
//! turned.

use clump::Clump;
use clump::am::{Endpoint, Handler, Tag};
use clump::rma::Rma;
use std::cell::Cell;
use std::rc::Rc;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Messages that ranks 0 and 1 send each other at once.
const PARALLEL: u64 = 300;
/// Messages that rank 2 sends while the others wait.
const SERIAL: u64 = 250;
/// Attempts of rank 1 at a lock that rank 0 holds.
const ATTEMPTS: u64 = 20;

const COUNT: Handler = Handler(1);
const ASK: Handler = Handler(2);
const ANSWER: Handler = Handler(3);

fn main() -> Result<()> {
    let what = std::env::args_os().nth(1).unwrap_or_default();
    let cl = clump::init()?;
    match &*what.to_string_lossy() {
        "phase" => phase(&cl),
        "locks" => locks(&cl, false),
        "livelock" => locks(&cl, is_slower()),
        other => Err(format!("`{other}` is nothing to do").into()),
    }
}

/// Returns true if a sweep turns a knob.
#[allow(clippy::disallowed_methods, reason = "a test's program looks at what its sweep sets")]
fn is_slower() -> bool {
    std::env::var_os("CLUMP_EMU").is_some_and(|text| !text.is_empty())
}

/// Ranks 0 and 1 poll while they send each other messages, so that none of them waits. Then rank 0
/// waits for messages of rank 2, and rank 1 in a barrier.
fn phase(cl: &Clump) -> Result<()> {
    let ep = Endpoint::open(cl, Tag(7))?;
    let (heard, answer) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(None)));
    let (hears, answers) = (heard.clone(), answer.clone());
    ep.set_handler(COUNT, move |_, _, _| hears.set(hears.get() + 1))?;
    // Times that a rank has found that what it waits for has not come.
    let found = Rc::new(Cell::new(0_u64));
    let finds = found.clone();
    ep.set_handler(ASK, move |token, _, _| token.reply(ANSWER, &[finds.get()]))?;
    ep.set_handler(ANSWER, move |_, words, _| answers.set(Some(words[0])))?;
    let names = cl.all_gather(ep.name())?;
    let dests =
        names.iter().map(|n| ep.map(n, Tag(7))).collect::<std::result::Result<Vec<_>, _>>()?;
    cl.barrier()?;
    let ask = |rank: usize, least: u64| -> Result<()> {
        while answer.take().is_none_or(|found| found < least) {
            ep.request(dests[rank], ASK, &[])?;
            ep.poll_until(|| answer.get().is_some())?;
        }
        Ok(())
    };
    match cl.rank() {
        me @ (0 | 1) => {
            let poll_until = |count: u64| -> Result<()> {
                while heard.get() < count {
                    ep.poll()?;
                }
                Ok(())
            };
            // Both have left the first barrier.
            ep.request(dests[1 - me], COUNT, &[])?;
            poll_until(1)?;
            for _ in 0..PARALLEL {
                ep.request(dests[1 - me], COUNT, &[])?;
            }
            poll_until(1 + PARALLEL)?;
            ep.request(dests[2], COUNT, &[])?;
        }
        _ => {
            ep.poll_until(|| heard.get() == 2)?;
            // A rank that answers is in the barrier: it has nothing else to poll in. One that has
            // found nothing thrice is in its wait.
            ask(1, 0)?;
            ask(0, 3)?;
            for _ in 0..SERIAL {
                ep.request(dests[0], COUNT, &[])?;
            }
        }
    }
    if cl.rank() == 0 {
        ep.poll_until(|| {
            found.set(found.get() + 1);
            heard.get() == 1 + PARALLEL + SERIAL
        })?;
    }
    Ok(cl.barrier()?)
}

/// Rank 0 holds a lock until rank 1 has tried often enough; `forever`: until it is stopped.
fn locks(cl: &Clump, forever: bool) -> Result<()> {
    let rma = Rma::open(cl)?;
    let (mine, all) = cl.allocate(&rma, 64)?;
    let locks = rma.export_locks(1)?;
    let lock = rma.lock(cl.all_gather(locks.name())?[0], 0)?;
    let guard = if cl.rank() == 0 { Some(lock.acquire()?) } else { None };
    cl.barrier()?;
    if let Some(guard) = guard {
        while forever || mine.get::<u64>(0)? < ATTEMPTS {
            std::hint::spin_loop();
        }
        guard.release()?;
    } else {
        let mut tried = 0_u64;
        loop {
            if let Some(guard) = lock.try_acquire()? {
                break guard.release()?;
            }
            tried += 1;
            all[0].put(0, tried)?;
        }
    }
    Ok(cl.barrier()?)
}
