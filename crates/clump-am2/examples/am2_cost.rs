//! Compares the round trip time of Active Messages II with that of clump's own endpoints, in one
//! run: `clump run -n 2 target/release/examples/am2_cost`, and again with `--nodes 2`.
//!
//! `AM_Request4` and `AM_Reply4`, called as the inline functions of `<clump/am2.h>` call the
//! library, against `Endpoint::request` and `Token::reply` with the same sixteen bytes. Both ranks
//! only poll. The two take turns, so that other load of the machine affects both.

use clump::am::{Endpoint, Handler, Tag};
// The functions of `<clump/am2.h>` are called as C calls them.
use clump_am2 as _;
use clump_ffi::job;
use std::cell::Cell;
use std::error::Error;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

/// Round trips of a turn, and turns of each.
const ROUNDS: u32 = 2_000;
const TURNS: usize = 201;

const TAG: u64 = 0x5eed;
const PING: u8 = 1;
const PONG: u8 = 2;
const END: u8 = 3;

#[repr(C)]
#[derive(Clone, Copy)]
struct Name(u64);

type Function = *const c_void;

// SAFETY: as in the header; this program passes what the header requires.
unsafe extern "C" {
    safe fn AM_Init() -> c_int;
    safe fn AM_Terminate() -> c_int;
    fn AM_AllocateBundle(kind: c_int, bundle: *mut *mut c_void) -> c_int;
    fn AM_AllocateEndpoint(
        bundle: *mut c_void,
        endpoint: *mut *mut c_void,
        name: *mut Name,
    ) -> c_int;
    safe fn AM_SetTag(endpoint: *mut c_void, tag: u64) -> c_int;
    safe fn AM_Map(endpoint: *mut c_void, index: c_int, name: Name, tag: u64) -> c_int;
    safe fn AM_Poll(bundle: *mut c_void) -> c_int;
    safe fn clump_am_set_handler(endpoint: *mut c_void, at: u8, function: Function) -> c_int;
    fn clump_am_request(
        endpoint: *mut c_void,
        index: c_int,
        handler: u8,
        count: u32,
        arguments: *const i32,
    ) -> c_int;
    fn clump_am_reply(token: *mut c_void, at: u8, count: u32, arguments: *const i32) -> c_int;
}

thread_local! {
    static SEEN: Cell<u32> = const { Cell::new(0) };
    static ENDED: Cell<bool> = const { Cell::new(false) };
}

extern "C" fn ping(token: *mut c_void, a: c_int, b: c_int, c: c_int, d: c_int) {
    // SAFETY: four arguments.
    unsafe { clump_am_reply(token, PONG, 4, [a, b, c, d].as_ptr()) };
}

extern "C" fn pong(_: *mut c_void, a: c_int, _: c_int, _: c_int, _: c_int) {
    SEEN.set(a as u32);
}

extern "C" fn end(_: *mut c_void) {
    ENDED.set(true);
}

fn checked(what: &str, code: c_int) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("{what} gave {code}")) }
}

/// The C side: a bundle, and an endpoint mapped to the other rank's.
struct C {
    bundle: *mut c_void,
    endpoint: *mut c_void,
}

impl C {
    fn open(kind: c_int, cl: &clump::Clump) -> Result<Self, Box<dyn Error>> {
        let (mut bundle, mut endpoint) = (std::ptr::null_mut(), std::ptr::null_mut());
        let mut name = Name(0);
        // SAFETY: the places are there.
        unsafe {
            checked("AM_AllocateBundle", AM_AllocateBundle(kind, &raw mut bundle))?;
            let opened = AM_AllocateEndpoint(bundle, &raw mut endpoint, &raw mut name);
            checked("AM_AllocateEndpoint", opened)?;
        }
        checked("AM_SetTag", AM_SetTag(endpoint, TAG))?;
        for (at, function) in
            [(PING, ping as Function), (PONG, pong as Function), (END, end as Function)]
        {
            checked("AM_SetHandler", clump_am_set_handler(endpoint, at, function))?;
        }
        let names = cl.all_gather(name.0)?;
        let other = names.get(1 - cl.rank()).copied().unwrap_or(0);
        checked("AM_Map", AM_Map(endpoint, 0, Name(other), TAG))?;
        Ok(Self { bundle, endpoint })
    }

    fn request(&self, handler: u8, arguments: &[i32]) -> Result<(), String> {
        let (count, arguments) = (arguments.len() as u32, arguments.as_ptr());
        // SAFETY: that many.
        let sent = unsafe { clump_am_request(self.endpoint, 0, handler, count, arguments) };
        checked("AM_Request", sent)
    }

    fn turn(&self, rank: usize) -> Result<f64, Box<dyn Error>> {
        if rank == 1 {
            while !ENDED.take() {
                checked("AM_Poll", AM_Poll(self.bundle))?;
            }
            return Ok(0.0);
        }
        SEEN.set(0);
        let start = clump_os::clock::now_ns();
        for round in 1..=ROUNDS {
            self.request(PING, &[round as i32, 2, 3, 4])?;
            while SEEN.get() != round {
                checked("AM_Poll", AM_Poll(self.bundle))?;
            }
        }
        let took = clump_os::clock::now_ns() - start;
        self.request(END, &[])?;
        Ok(took as f64 / f64::from(ROUNDS))
    }
}

/// The Rust side.
struct Own {
    ep: Endpoint,
    to: clump::am::Dest,
    seen: Rc<Cell<u32>>,
    ended: Rc<Cell<bool>>,
}

impl Own {
    fn open(cl: &clump::Clump) -> Result<Self, Box<dyn Error>> {
        let ep = Endpoint::open(cl, Tag(TAG))?;
        let (seen, ended) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
        let (note, end) = (seen.clone(), ended.clone());
        ep.set_handler(Handler(PING), |token, words, _| token.reply(Handler(PONG), words))?;
        ep.set_handler(Handler(PONG), move |_, words, _| note.set(words[0] as u32))?;
        ep.set_handler(Handler(END), move |_, _, _| end.set(true))?;
        let names = cl.all_gather(ep.name())?;
        let to = ep.map(&names[1 - cl.rank()], Tag(TAG))?;
        Ok(Self { ep, to, seen, ended })
    }

    fn turn(&self, rank: usize) -> Result<f64, Box<dyn Error>> {
        if rank == 1 {
            while !self.ended.take() {
                self.ep.poll()?;
            }
            return Ok(0.0);
        }
        self.seen.set(0);
        let start = clump_os::clock::now_ns();
        for round in 1..=ROUNDS {
            self.ep.request(self.to, Handler(PING), &[u64::from(round), 3 << 32 | 4])?;
            while self.seen.get() != round {
                self.ep.poll()?;
            }
        }
        let took = clump_os::clock::now_ns() - start;
        self.ep.request(self.to, Handler(END), &[])?;
        Ok(took as f64 / f64::from(ROUNDS))
    }
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(0.0)
}

fn main() -> Result<(), Box<dyn Error>> {
    checked("AM_Init", AM_Init())?;
    let cl = job::runtime().ok_or("AM_Init began no job")?;
    if cl.nranks() != 2 {
        return Err("this program compares round trips between two ranks: clump run -n 2".into());
    }
    let (own, seq, par) = (Own::open(&cl)?, C::open(0, &cl)?, C::open(1, &cl)?);
    cl.barrier()?;
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..TURNS {
        times[0].push(own.turn(cl.rank())?);
        times[1].push(seq.turn(cl.rank())?);
        times[2].push(par.turn(cl.rank())?);
    }
    cl.barrier()?;
    if cl.rank() == 0 {
        let ratio = |at: usize| {
            median(times[at].iter().zip(&times[0]).map(|(theirs, ours)| theirs / ours).collect())
        };
        let (sequential, parallel) = (ratio(1), ratio(2));
        let [own, seq, par] = times.map(median);
        println!(
            "round trip, ns, median of {TURNS} turns of {ROUNDS}; ratio: median of those of each turn"
        );
        println!("{:32}{own:10.1}", "Rust, Endpoint");
        println!("{:32}{seq:10.1}{sequential:8.3}", "AM_Request4, AM_SEQ");
        println!("{:32}{par:10.1}{parallel:8.3}", "AM_Request4, AM_PAR");
    }
    drop((own, cl));
    checked("AM_Terminate", AM_Terminate())?;
    Ok(())
}
