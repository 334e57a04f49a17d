//! A lock of one node that ranks of others pass to each other, beside a message between two of
//! those.

use super::{Result, median};
use clump::am::{Dest, Endpoint, Handler, Tag, Token};
use clump::rma::{Lock, Rma};
use clump_os::clock;
use std::cell::Cell;
use std::rc::Rc;

const TAG: Tag = Tag(0x72_656c_6179);
const PING: Handler = Handler(1);
const PONG: Handler = Handler(2);
/// Times that the lock is held, in us: from less than it takes to learn the successor to more than
/// it takes to fall asleep.
const HELD: [u64; 4] = [0, 50, 100, 300];
const TURNS: u32 = 500;
const BLOCKS: usize = 7;

/// Measures blocks of messages and of turns alternately, so that other load on the machine affects
/// both.
pub(crate) fn measure(cl: &clump::Clump, rma: &Rma) -> Result<()> {
    let endpoint = Endpoint::open(cl, TAG)?;
    let seen = Rc::new(Cell::new(0_u64));
    let pong = seen.clone();
    endpoint.handler(PING, |token: Token, i: u64| token.reply(PONG, i))?;
    endpoint.handler(PONG, move |_, i: u64| pong.set(i))?;
    let ranks = cl.map_ranks(&endpoint)?;
    let locks = rma.export_locks(1)?;
    let lock = rma.lock(cl.all_gather(locks.name())?[cl.nranks() - 1], 0)?;
    let next = ranks[1];
    let (mut ways, mut turns, mut passed) = (Vec::new(), [(); 4].map(|()| Vec::new()), [0; 4]);
    for _ in 0..BLOCKS {
        cl.barrier()?;
        if cl.rank() == 0 {
            ways.push(one_way(&endpoint, next, &seen)?);
        }
        for ((held, turns), passed) in HELD.iter().zip(&mut turns).zip(&mut passed) {
            cl.barrier()?;
            let before = rma.locks_passed();
            if cl.rank() + 1 < cl.nranks() {
                turns.push(contend(&lock, held * 1000)?);
            }
            *passed += rma.locks_passed() - before;
        }
    }
    let way = if ways.is_empty() { 0.0 } else { middle(ways) };
    if cl.rank() == 0 {
        println!("a short message, one way                {way:8.2} us");
    }
    for ((held, turns), passed) in HELD.into_iter().zip(turns).zip(passed) {
        let passed: u64 = cl.all_gather(passed)?.iter().sum();
        if cl.rank() == 0 {
            let all = BLOCKS as u64 * u64::from(TURNS) * (cl.nranks() as u64 - 1);
            let (turn, share) = (middle(turns), 100.0 * passed as f64 / all as f64);
            let what = format!("lock held {held:3} us: to the next in line");
            println!("{what}  {turn:8.2} us  {:.2} x, {share:.0} % past its home", turn / way);
        }
    }
    Ok(())
}

fn middle(mut all: Vec<f64>) -> f64 {
    all.sort_unstable_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Returns half of a round trip, in us.
fn one_way(endpoint: &Endpoint, next: Dest, seen: &Cell<u64>) -> Result<f64> {
    let mut number = seen.get();
    let there_and_back = median(1000, || {
        number += 1;
        endpoint.request(next, PING, &[number])?;
        Ok(endpoint.poll_until(|| seen.get() == number)?)
    })?;
    Ok(there_and_back / 2.0)
}

/// Returns the time from one rank to the next, in us: half of the turns take no longer.
fn contend(lock: &Lock, held_ns: u64) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..TURNS {
        let mut guard = lock.acquire()?;
        let now = clock::now_ns();
        // The word holds the time of release; ranks of one machine have one clock.
        if guard.word() != 0 {
            times.push(now.saturating_sub(guard.word()) as f64 / 1e3);
        }
        while clock::now_ns() - now < held_ns {
            std::hint::spin_loop();
        }
        guard.set_word(clock::now_ns());
        guard.release()?;
    }
    Ok(middle(times))
}
