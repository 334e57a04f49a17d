//! Jobs that hang in a known way until they are ended: `hang WHAT FOLDER`. Rank 0 computes for
//! ever, where nothing else is said; each rank makes `ready-RANK` in the folder before it hangs.
//!
//! `barrier`, `collective`: rank 0 does not take part. `lock`, `heap-lock`: rank 0 holds a lock
//! that the others want. `reply`: rank 0 answers no request. `circle`: each rank holds a lock that
//! the one before it wants.

use clump::am::{Endpoint, Handler, Tag};
use clump::rma::Rma;
use clump::{Clump, Sum};
use std::path::Path;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const ASK: Handler = Handler(1);

fn main() -> Result<()> {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let [what, folder] = &args[..] else { return Err("hang WHAT FOLDER".into()) };
    let cl = clump::init()?;
    let mark = |rank: usize| Path::new(folder).join(format!("ready-{rank}"));
    let ready = || std::fs::write(mark(cl.rank()), []);
    match &*what.to_string_lossy() {
        "barrier" => {
            ready()?;
            compute(&cl);
            cl.barrier()?;
        }
        "collective" => {
            ready()?;
            compute(&cl);
            cl.all_reduce(1_u64, Sum)?;
        }
        "lock" => lock(&cl, ready)?,
        "heap-lock" => heap_lock(&cl, ready)?,
        "circle" => circle(&cl, ready)?,
        "reply" => reply(&cl, ready, || mark(0).exists())?,
        other => return Err(format!("`{other}` is no way to hang").into()),
    }
    Ok(())
}

/// Computes for ever, as rank 0.
fn compute(cl: &Clump) {
    while cl.rank() == 0 {
        std::hint::spin_loop();
    }
}

fn lock(cl: &Clump, ready: impl Fn() -> std::io::Result<()>) -> Result<()> {
    let rma = Rma::open(cl)?;
    let locks = rma.export_locks(2)?;
    // At home with the last rank: on two nodes the holder is on another.
    let home = cl.all_gather(locks.name())?[cl.nranks() - 1];
    let lock = rma.lock(home, 1)?;
    let guard = if cl.rank() == 0 { Some(lock.acquire()?) } else { None };
    cl.barrier()?;
    ready()?;
    compute(cl);
    drop(guard);
    lock.acquire()?.release()?;
    Ok(cl.barrier()?)
}

fn heap_lock(cl: &Clump, ready: impl Fn() -> std::io::Result<()>) -> Result<()> {
    let svm = cl.svm()?;
    let locks = svm.locks(3)?;
    let held = if cl.rank() == 0 { Some(locks.lock(2)?) } else { None };
    svm.barrier()?;
    ready()?;
    compute(cl);
    drop(held);
    locks.lock(2)?.release()?;
    Ok(svm.barrier()?)
}

fn circle(cl: &Clump, ready: impl Fn() -> std::io::Result<()>) -> Result<()> {
    let rma = Rma::open(cl)?;
    let locks = rma.export_locks(cl.nranks() as u64)?;
    let home = cl.all_gather(locks.name())?[0];
    let of = |rank: usize| rma.lock(home, (rank % cl.nranks()) as u64);
    let (own, next) = (of(cl.rank())?, of(cl.rank() + 1)?);
    let held = own.acquire()?;
    cl.barrier()?;
    ready()?;
    next.acquire()?.release()?;
    held.release()?;
    Ok(())
}

fn reply(
    cl: &Clump,
    ready: impl Fn() -> std::io::Result<()>,
    rank_0_computes: impl Fn() -> bool,
) -> Result<()> {
    let endpoint = Endpoint::open(cl, Tag(3))?;
    let names = cl.all_gather(endpoint.name())?;
    let silent = endpoint.map(&names[0], Tag(3))?;
    cl.barrier()?;
    ready()?;
    compute(cl);
    // Rank 0 may leave the barrier last, and handles until then what arrives: a request for which
    // it has no handler would come back, and end the job.
    while !rank_0_computes() {
        std::thread::yield_now();
    }
    endpoint.request(silent, ASK, &[])?;
    Ok(endpoint.poll_until(|| false)?)
}
