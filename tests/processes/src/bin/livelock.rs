//! Ranks that contend for one lock at rank 0, which has work of its own (paper 001, section 5.1):
//! `livelock naive` asks rank 0 for the lock again and again, `livelock queue` waits in the queue
//! of a lock, without messages. Rank 0 serves all that waits before it goes on, as polls of 1997
//! did. Prints the attempts that failed.

use clump::Clump;
use clump::am::{Dest, Endpoint, Handler, Tag};
use clump::rma::{Rma, Target};
use std::cell::Cell;
use std::rc::Rc;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Critical sections of each rank.
const SECTIONS: u64 = 2;
/// Accesses to shared memory in a critical section.
const STEPS: u64 = 8;
/// Messages that rank 0 serves at a time before it gives up: many of each rank.
const LIVELOCK: usize = 300;

const TRY: Handler = Handler(1);
const ANSWER: Handler = Handler(2);
const UNLOCK: Handler = Handler(3);

fn main() -> Result<()> {
    let way = std::env::args_os().nth(1).unwrap_or_default();
    let cl = clump::init()?;
    let rma = Rma::open(&cl)?;
    let (_mine, all) = cl.allocate(&rma, 64)?;
    match &*way.to_string_lossy() {
        "naive" => naive(&cl, &rma, &all[0])?,
        "queue" => queue(&cl, &rma, &all[0])?,
        other => return Err(format!("`{other}`: there are naive and queue").into()),
    }
    cl.barrier()?;
    let counted = all[0].get::<u64>(0)?;
    let expected = cl.nranks() as u64 * SECTIONS;
    if counted != expected {
        return Err(format!("{counted} critical sections were counted, not {expected}").into());
    }
    Ok(cl.barrier()?)
}

/// Adds 1 to the counter as one who holds the lock may; `between`: what the rank does at each step.
fn critical_section(
    rma: &Rma,
    counter: &Target,
    mut between: impl FnMut() -> Result<()>,
) -> Result<()> {
    let before = counter.get::<u64>(0)?;
    for _ in 0..STEPS {
        between()?;
        if counter.get::<u64>(0)? != before {
            return Err("two ranks are in the critical section".into());
        }
    }
    counter.put(0, before + 1)?;
    Ok(rma.quiet()?)
}

fn queue(cl: &Clump, rma: &Rma, counter: &Target) -> Result<()> {
    let locks = rma.export_locks(1)?;
    let lock = rma.lock(cl.all_gather(locks.name())?[0], 0)?;
    for _ in 0..SECTIONS {
        let guard = lock.acquire()?;
        critical_section(rma, counter, || Ok(()))?;
        guard.release()?;
    }
    // Nobody needs the lock any more.
    Ok(cl.barrier()?)
}

/// The lock's word, where rank 0 has it, and what a rank that asked for it knows.
#[derive(Default)]
struct NaiveLock {
    is_held: Cell<bool>,
    failed: Cell<u64>,
    answer: Cell<Option<bool>>,
}

impl NaiveLock {
    /// Takes the lock if it is free.
    fn attempt(&self) -> bool {
        let was_held = self.is_held.replace(true);
        self.failed.set(self.failed.get() + u64::from(was_held));
        !was_held
    }
}

fn naive(cl: &Clump, rma: &Rma, counter: &Target) -> Result<()> {
    let ep = Endpoint::open(cl, Tag(7))?;
    let lock = Rc::new(NaiveLock::default());
    let [tried, answered, unlocked] = std::array::from_fn(|_| lock.clone());
    ep.set_handler(TRY, move |token, _, _| token.reply(ANSWER, &[tried.attempt().into()]))?;
    ep.set_handler(ANSWER, move |_, words, _| answered.answer.set(Some(words[0] != 0)))?;
    ep.set_handler(UNLOCK, move |_, _, _| unlocked.is_held.set(false))?;
    let names = cl.all_gather(ep.name())?;
    let home = ep.map(&names[0], Tag(7))?;
    cl.barrier()?;
    for section in 0..SECTIONS {
        if cl.rank() == 0 {
            ep.poll_until(|| !lock.is_held.get())?;
            lock.is_held.set(true);
            // All others ask by now.
            ep.poll_until(|| lock.failed.get() >= 4 * cl.nranks() as u64)?;
            critical_section(rma, counter, || serve_all(&ep, &lock, section))?;
            lock.is_held.set(false);
        } else {
            while !ask(&ep, home, &lock)? {}
            critical_section(rma, counter, || Ok(()))?;
            ep.request(home, UNLOCK, &[])?;
        }
    }
    cl.barrier()?;
    if cl.rank() == 0 {
        println!("{} attempts failed", lock.failed.get());
    }
    Ok(())
}

/// Asks rank 0 for the lock. Returns true if this rank holds it now.
fn ask(ep: &Endpoint, home: Dest, lock: &NaiveLock) -> Result<bool> {
    ep.request(home, TRY, &[])?;
    ep.poll_until(|| lock.answer.get().is_some())?;
    Ok(lock.answer.take() == Some(true))
}

/// Serves requests until none waits.
fn serve_all(ep: &Endpoint, lock: &NaiveLock, section: u64) -> Result<()> {
    let mut served = 0;
    loop {
        match ep.poll_network()? {
            0 => return Ok(()),
            now => served += now,
        }
        if served > LIVELOCK {
            let failed = lock.failed.get();
            let so_far = format!("{failed} attempts failed, in section {section} of rank 0");
            return Err(format!("livelock: requests for the lock never end; {so_far}").into());
        }
    }
}
