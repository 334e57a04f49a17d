//! A rank of a job in virtual time: executes the program of its rank, one argument a rank.
//!
//! A program is a list of words: `cN` costs N ns, `yN` computes for N ns of the processor, `mN:T`
//! is a region of N ns of which T executions are measured, `sK` sends to rank K, `sK:B` sends B
//! bytes, `qK` sends to rank K, which answers, `wN` waits until N messages more than it has
//! waited for so far were handled, `aN` for N answers, `b` meets all ranks, `p` polls once, `tN`
//! reads the clock until N ns have passed, `zN` sleeps for N ns, `kill` kills itself, `spin`
//! polls for ever. One-sided operations: `uK` adds one to the word of rank K, `fK` does so and
//! reads it before, `lK` reads it, `gK:B` and `xK:B` read and write B bytes beside it, `Q` waits
//! for the end of all. Shared virtual memory, with a page on each node in turn: `WN` adds one to
//! the word of page N, `RN` reads it, `B` meets all ranks in a barrier of the heap, `L` takes and
//! `U` gives back its lock.
//!
//! All ranks begin at the same time; each prints the ns that have passed since then, and the values
//! that it has read.
#![forbid(unsafe_code)]

use clump::am::{Endpoint, Handler, Tag, Token};
use clump::rma::{Rma, Segment, Target};
use clump::svm::{Home, SharedArray, Svm, SyncObject};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

const COUNT: Handler = Handler(1);
const ASK: Handler = Handler(2);
const ANSWER: Handler = Handler(3);
/// Time at which all ranks begin.
const BEGIN_NS: u64 = 50_000_000;
/// Time at which all have ended.
const END_NS: u64 = 10_000_000_000;
/// Time that reading the clock takes.
const READ_NS: u64 = 10;

type Failure = Box<dyn std::error::Error>;

/// A rank and what it has counted.
struct Rank {
    cl: clump::Clump,
    ep: Endpoint,
    dests: Vec<clump::am::Dest>,
    /// Messages and answers that were handled, and those that were waited for.
    handled: [Rc<Cell<u64>>; 2],
    awaited: [u64; 2],
    rma: Rma,
    /// This rank's memory, a word and bytes behind it, and that of all.
    _memory: Segment,
    targets: Vec<Target>,
    /// Values that it has read.
    values: Vec<u64>,
    /// The heap, where a rank uses it.
    heap: Option<Heap>,
}

/// The shared heap: a word at the beginning of each page, and a lock.
struct Heap {
    svm: Svm,
    words: SharedArray<u64>,
    lock: SyncObject,
}

impl Heap {
    /// Opens it with so many pages.
    fn open(cl: &clump::Clump, pages: usize) -> clump::Result<Self> {
        let svm = cl.svm()?;
        let words = svm.array(512 * pages, Home::Cyclic)?;
        let made = if cl.rank() == 0 { svm.sync_object()?.number() } else { 0 };
        let lock = SyncObject::from_number(cl.team().all_reduce(made, clump::Max)?)?;
        svm.barrier()?;
        Ok(Self { svm, words, lock })
    }
}

/// Bytes behind the word of each rank.
const MEMORY: u64 = 1 << 20;

fn main() -> Result<(), Failure> {
    let cl = clump::init()?;
    let all: Vec<String> =
        std::env::args_os().skip(1).map(|program| program.to_string_lossy().into_owned()).collect();
    let program = all.get(cl.rank()).cloned().unwrap_or_default();
    let mut rank = Rank::open(cl)?;
    if all.iter().any(|program| program.contains('B')) {
        rank.heap = Some(Heap::open(&rank.cl, 64)?);
    }
    rank.cl.barrier()?;
    let now_ns = rank.cl.clock().now_ns();
    assert!(now_ns < BEGIN_NS, "it took {now_ns} ns to begin");
    rank.cl.clock().cost(BEGIN_NS - now_ns);
    rank.cl.clock().now_ns();
    for word in program.split_whitespace() {
        rank.execute(word)?;
    }
    let passed_ns = rank.cl.clock().now_ns() - BEGIN_NS - 2 * READ_NS;
    let values: String = rank.values.iter().map(|value| format!(" {value}")).collect();
    println!("rank {} ends at {passed_ns} saw{values}", rank.cl.rank());
    // Messages of a barrier would delay those of ranks that have not ended.
    clump_os::clock::pass(Duration::from_nanos(END_NS.saturating_sub(passed_ns)));
    Ok(rank.cl.barrier()?)
}

impl Rank {
    fn open(cl: clump::Clump) -> Result<Self, Failure> {
        let ep = Endpoint::open(&cl, Tag(7))?;
        let handled = [Rc::<Cell<u64>>::default(), Rc::default()];
        let count = |of: &Rc<Cell<u64>>| {
            let of = of.clone();
            move || of.set(of.get() + 1)
        };
        let [message, asked] = [count(&handled[0]), count(&handled[0])];
        let bulk = count(&handled[0]);
        ep.handler_bulk(COUNT, move |_: Token<'_>, _: u64, _payload| bulk())?;
        ep.handler(Handler(4), move |_: Token<'_>, _: u64| message())?;
        ep.handler(ASK, move |token: Token<'_>, _: u64| {
            asked();
            token.reply(ANSWER, 0_u64)
        })?;
        let answer = count(&handled[1]);
        ep.handler(ANSWER, move |_: Token<'_>, _: u64| answer())?;
        let dests = cl.map_ranks(&ep)?;
        let rma = Rma::open(&cl)?;
        let (memory, targets) = cl.allocate(&rma, 8 + MEMORY)?;
        let (awaited, values) = ([0; 2], Vec::new());
        let heap = None;
        Ok(Self { cl, ep, dests, handled, awaited, rma, _memory: memory, targets, values, heap })
    }

    fn execute(&mut self, word: &str) -> Result<(), Failure> {
        let (what, rest) = word.split_at(1);
        let (number, bytes) = rest.split_once(':').unwrap_or((rest, ""));
        let number: u64 = number.parse().unwrap_or(0);
        let dest = self.dests.get(number as usize).copied();
        match (word, what) {
            ("kill", _) => {
                clump_os::process::signal(clump_os::process::own_pid(), clump_os::signal::KILL)?;
            }
            ("spin", _) => loop {
                self.ep.poll()?;
            },
            (_, "c") => self.cl.clock().cost(number),
            (_, "y") => {
                let until_ns = clump_os::clock::processor_ns() + number;
                while clump_os::clock::processor_ns() < until_ns {}
            }
            (_, "m") => {
                if let Some(_measured) = self.cl.clock().sample("m", bytes.parse()?) {
                    self.values.push(number);
                    self.cl.clock().cost(number);
                }
            }
            (_, "s") if bytes.is_empty() => {
                self.ep.request(dest.ok_or("no such rank")?, Handler(4), 0_u64)?;
            }
            (_, "s") => {
                let payload = vec![0; bytes.parse()?];
                self.ep.request_bulk(dest.ok_or("no such rank")?, COUNT, &payload, 0_u64)?;
            }
            (_, "q") => self.ep.request(dest.ok_or("no such rank")?, ASK, 0_u64)?,
            (_, "w") => self.wait(0, number)?,
            (_, "a") => self.wait(1, number)?,
            (_, "b") => self.cl.barrier()?,
            (_, "p") => drop(self.ep.poll()?),
            (_, "t") => {
                let until_ns = self.cl.clock().now_ns() + number;
                while self.cl.clock().now_ns() < until_ns {}
            }
            (_, "u" | "f" | "l" | "g" | "x") => self.operate(what, number, bytes)?,
            (_, "Q") => self.rma.quiet()?,
            (_, "W" | "R" | "B" | "L" | "U") => self.share(what, number as usize)?,
            (_, "z") => clump_os::clock::pass(Duration::from_nanos(number)),
            _ => return Err(format!("`{word}` is no word").into()),
        }
        Ok(())
    }

    fn operate(&mut self, what: &str, rank: u64, bytes: &str) -> Result<(), Failure> {
        let target = self.targets.get(rank as usize).ok_or("no such rank")?;
        match what {
            "u" => target.add(0, 1_u64)?,
            "f" => self.values.push(target.fetch_add(0, 1_u64)?),
            "l" => self.values.push(target.load(0)?),
            "g" => target.get_bytes(8, &mut vec![0; bytes.parse()?])?,
            _ => target.put_bytes(8, &vec![0; bytes.parse()?])?,
        }
        Ok(())
    }

    fn share(&mut self, what: &str, page: usize) -> Result<(), Failure> {
        let Heap { svm, words, lock } = self.heap.as_ref().ok_or("no program has a `B`")?;
        match what {
            "W" => words.set(512 * page, words.get(512 * page) + 1),
            "R" => self.values.push(words.get(512 * page)),
            "B" => svm.barrier()?,
            "L" => svm.enter(*lock)?,
            _ => svm.leave(*lock)?,
        }
        Ok(())
    }

    fn wait(&mut self, of: usize, more: u64) -> Result<(), Failure> {
        self.awaited[of] += more;
        let (handled, awaited) = (&self.handled[of], self.awaited[of]);
        Ok(self.ep.poll_until(|| handled.get() >= awaited)?)
    }
}
