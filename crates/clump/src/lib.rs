//! clump: active messages, and libraries built on them, for clusters of ordinary machines.
//!
//! Layer 7, the facade that a program imports. Start a program under `clump run -n N`; started
//! alone, it is a job of one rank.
//!
//! Types to know: [`Clump`] (the runtime object, one per process), [`Team`] (ranks that execute
//! collectives together), [`am::Endpoint`] and [`am::SharedEndpoint`], [`pgas::Pgas`], [`Error`].
//! Every type of a public signature is exported here, each under a name of its own, so a program
//! depends on no other crate of clump.
//!
//! # Invariants
//! 1. A process joins at most once, as the rank that its agent assigned.
//! 2. Dropping the last [`Clump`] finalizes the rank, unless the thread is panicking.
//!
//! ```
//! use clump::am::{Endpoint, Handler, Tag, Token};
//! use std::{cell::Cell, rc::Rc};
//! # fn main() -> clump::Result<()> {
//! let cl = clump::init()?;
//! let ep = Endpoint::open(&cl, Tag(0x5eed))?;
//! let seen = Rc::new(Cell::new(0));
//! ep.handler(Handler(1), |token: Token, i: u64| token.reply(Handler(2), i + 1))?;
//! let pong = seen.clone();
//! ep.handler(Handler(2), move |_, i: u64| pong.set(i))?;
//! let ranks = cl.map_ranks(&ep)?;
//! ep.request(ranks[(cl.rank() + 1) % cl.nranks()], Handler(1), 41_u64)?;
//! ep.poll_until(|| seen.get() == 42)?;
//! cl.barrier()
//! # }
//! ```
#![forbid(unsafe_code)]

mod addresses;
mod error;
mod executor;
mod leave;
mod rank_clock;
mod recording;
mod runtime;

pub use clump_boot::Error as BootError;
pub use clump_os::OsError;
pub use clump_os::limit::TooLow;
pub use clump_shm::Error as MemoryError;
pub use clump_shm::job::{Death, DeathCause};
pub use error::{Error, Result};
pub use rank_clock::{RankClock, SampledRegion};
pub use runtime::{Clump, init};

pub mod am {
    //! Active messages: a message names a handler, which runs at its target and may reply. For
    //! programs that react to what arrives: servers, task queues, searches, protocols
    //! (`docs/messages.md`).
    //!
    //! A program opens an [`Endpoint`] for each thread, or a [`SharedEndpoint`] for all of them,
    //! sets its handlers, and maps those of other ranks.
    //!
    //! ```
    //! use clump::am::{Endpoint, Handler, Payload, Reason, Tag, Token};
    //! use std::{cell::Cell, rc::Rc};
    //! # fn main() -> Result<(), Box<dyn std::error::Error>> {
    //! let cl = clump::init()?;
    //! let ep = Endpoint::open(&cl, Tag(1))?;
    //! let (bytes, lost) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(None)));
    //! let (count, reason) = (bytes.clone(), lost.clone());
    //! ep.handler_bulk(Handler(1), move |_: Token, _: u64, data: Payload| count.set(data.len()))?;
    //! ep.on_returned(move |message| reason.set(Some(message.reason)))?;
    //! let segment = ep.export_segment(4096)?;              // for long messages
    //! let ranks = cl.map_ranks(&ep)?;
    //! let next = ranks[(cl.rank() + 1) % cl.nranks()];
    //! ep.request_bulk(next, Handler(1), b"medium", cl.rank() as u64)?;
    //! ep.poll_until(|| bytes.get() == 6)?;
    //! ep.request_long(next, Handler(1), 0, &[7; 1000], cl.rank() as u64)?;
    //! ep.poll_until(|| bytes.get() == 1000)?;
    //! assert!(segment.bytes(0, 1000).is_some());
    //! ep.request(next, Handler(99), ())?; // there is no such handler: it comes back
    //! ep.poll_until(|| lost.get() == Some(Reason::BadHandler))?;
    //! cl.barrier()?;
    //! # Ok(())
    //! # }
    //! ```
    //!
    //! An endpoint that all threads of a rank use:
    //!
    //! ```
    //! use clump::am::{Endpoint, Handler, SharedEndpoint, Tag, Token};
    //! use std::sync::atomic::{AtomicU64, Ordering};
    //! use std::sync::Arc;
    //! # fn main() -> Result<(), Box<dyn std::error::Error>> {
    //! let cl = clump::init()?;
    //! let ep: SharedEndpoint = Endpoint::open_shared(&cl, Tag(2))?;
    //! let sum = Arc::new(AtomicU64::new(0));
    //! let total = sum.clone();
    //! ep.handler(Handler(1), move |_: Token, i: u64| {
    //!     total.fetch_add(i, Ordering::Relaxed);
    //! })?;
    //! let ranks = cl.map_ranks(&ep)?;
    //! let me = ranks[cl.rank()];
    //! std::thread::scope(|scope| {
    //!     let ep = &ep;
    //!     let send = |i: u64| scope.spawn(move || ep.request(me, Handler(1), i));
    //!     let all = [1, 2, 3].map(send);
    //!     all.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    //! })?;
    //! ep.poll_until(|| sum.load(Ordering::Relaxed) == 6)?;
    //! # Ok(())
    //! # }
    //! ```

    pub use clump_am::{
        AsContext, Dest, Endpoint, Error as MessageError, ErrorKind as MessageErrorKind, Events,
        FromWords, Handler, HandlerFailure, HandlerResult, MultiThread, Name, Ownership, Payload,
        Reason, Returned, Segment as DepositSegment, SendAttempt, SharedEndpoint, SingleThread,
        Tag, Token, Word as MessageWord, Words,
    };
}

pub mod conn {
    //! Connections, within a job and between jobs: streams of messages between two processes that
    //! find each other by node and port, or by a token (`docs/connections.md`).
    //!
    //! A server binds a [`Listener`], a client makes a [`Connection`].
    //!
    //! ```no_run
    //! use clump::conn::{Connection, Listener, Order, Port, ServiceToken, wait_any};
    //! # fn handed_over() -> Result<ServiceToken, Box<dyn std::error::Error>> { unreachable!() }
    //! # fn main() -> Result<(), Box<dyn std::error::Error>> {
    //! let cl = clump::init()?;
    //! if cl.rank() == 0 {
    //!     let listener = Listener::bind(&cl, Port(7))?;
    //!     // clients of other jobs need it
    //!     let token = listener.invite(&[([127, 0, 0, 1], 0).into()])?;
    //!     println!("{token:?}");
    //!     let client = listener.accept()?;
    //!     while let Some(text) = client.recv()? {
    //!         client.send(&text)?;
    //!     }
    //! } else {
    //!     // node 0 of this job
    //!     let server = Connection::connect(&cl, 0, Port(7), Order::Ordered)?;
    //!     server.send(b"hello")?;
    //!     wait_any(&[&server], None)?;                                       // several at a time
    //!     println!("{:?}", server.recv()?);
    //! }
    //! let elsewhere = Connection::connect_to(&cl, &handed_over()?, Order::Ordered)?;
    //! elsewhere.send(b"from another job")?;
    //! # Ok(())
    //! # }
    //! ```

    pub use clump_conn::{
        Between, ConnectTarget, Connection, End, Error as ConnectionError, Listener, MAX_WAITING,
        Order, Peer, Port, Received, Refusal as ConnectionRefusal, Security, SendAttempt, Source,
        Token as ServiceToken, wait_any,
    };
}

pub mod pgas {
    //! The global address space: arrays whose elements lie at all ranks, global pointers,
    //! operations that are begun and complete together, atomics, locks, and calls of functions
    //! where data lies. Small operations for other nodes are collected by themselves
    //! (`docs/pgas.md`).
    //!
    //! All ranks open a [`Pgas`], and allocate [`Spread`] arrays, [`GlobalMutex`]es, and
    //! [`RemoteCalls`] with [`Dist`] objects.
    //!
    //! ```
    //! use clump::pgas::{GlobalPtr, Halo, HaloNeighbour, Layout, PgasOptions};
    //! use std::collections::HashMap;
    //! # fn main() -> Result<(), Box<dyn std::error::Error>> {
    //! let cl = clump::init()?;
    //! let gas = cl.pgas()?;
    //! let bins = gas.spread::<u64>(1000, Layout::Cyclic)?;
    //! for i in [3, 3, 998] {
    //!     bins.at(i).add(1)?;                                // begun; collected
    //! }
    //! gas.all_store_sync()?; // all additions of all ranks have landed
    //! let mut out = [0; 2];
    //! let [first, second] = &mut out;
    //! gas.phase(|phase| {                                    // gets complete at the end
    //!     phase.get(bins.at(3), first)?;
    //!     phase.get(bins.at(998), second)
    //! })?;
    //! assert_eq!(out, [2 * cl.nranks() as u64, cl.nranks() as u64]);
    //! let pointer: Option<GlobalPtr<u64>> = bins.ptr(3);     // none beyond the end
    //! assert!(pointer.is_some());
    //!
    //! let largest = gas.mutex(0_u64)?;                       // a value under a lock
    //! let mut guard = largest.lock()?;
    //! *guard = (*guard).max(17);
    //! drop(guard);
    //! gas.barrier()?;
    //!
    //! let next = (cl.rank() + 1) % cl.nranks();              // a ring; entry 0 is the one before
    //! let before = (cl.rank() + cl.nranks() - 1) % cl.nranks();
    //! let side = |(rank, entry)| HaloNeighbour { rank, entry, len: 1 };
    //! let sides = [(before, 1), (next, 0)].map(side);
    //! let ring: Halo<u64> = gas.halo(&sides)?;               // boundaries, in rounds
    //! let (mine, mut left, mut right) = ([cl.rank() as u64], [0], [0]);
    //! ring.exchange(&[&mine, &mine], &mut [&mut left, &mut right])?;
    //! assert_eq!([left, right], [[before as u64], [next as u64]]);
    //! gas.barrier()?;
    //!
    //! let calls = gas.remote_calls()?;
    //! let map = calls.dist(HashMap::<u64, u64>::new())?;     // an object of each rank
    //! let insert = calls.register("insert", |context, (map, k, v): (_, u64, u64)| {
    //!     context.with(map, |map: &mut HashMap<u64, u64>| map.insert(k, v).is_none())
    //! })?;
    //! let owner = 7 % cl.nranks();
    //! let fresh = calls.call(insert, owner, &(map.name(), 7, 49))?.wait()?;
    //! assert!(fresh || cl.nranks() > 1);
    //! calls.detect_termination(|| Ok(false))?;
    //! # let _ = PgasOptions::default();
    //! # Ok(())
    //! # }
    //! ```

    pub use clump_pgas::{
        Aggregation, AtomicElement, Bits, BlockStride, BorrowedForm, BulkChannel, ByteClass,
        CacheClass, CacheCounts, CacheRequests, CostZones, Dist, DistName, Element, ElementFn,
        ElementPlace, Error as GlobalError, ErrorKind as GlobalErrorKind, GlobalGuard, GlobalMutex,
        GlobalPtr, GlobalRef, Halo, HaloNeighbour, Layout, LocalPart, LockArray, LockAttempts,
        LockKind, ObjectCache, Pending as PendingElement, PendingCall, Pgas, PgasOptions,
        Phase as GlobalPhase, RawBytes, RemoteCalls, RemoteContext, RemoteFn,
        Result as GlobalResult, Spread, SpreadLayout, WorkCounts, WorkQueues,
    };
}

pub mod rma {
    //! One-sided operations: memory of other ranks is read, written and changed by atomics, and
    //! locks and flags in it are used, while its owner computes (`docs/onesided.md`).
    //!
    //! A thread opens an [`Rma`]. Ranks export [`Segment`]s, or open [`NodeRegion`]s of their node,
    //! and access those of others through [`Target`]s. A [`Lock`], a [`Flag`] and a [`Barrier`] lie
    //! in segments.
    //!
    //! ```
    //! use clump::rma::{Barrier, Comparison, Flag, Lock, NodeRegion, RegionOptions, Rma, Signal};
    //! # fn main() -> Result<(), Box<dyn std::error::Error>> {
    //! let cl = clump::init()?;
    //! let rma = Rma::open(&cl)?;
    //! let (mine, all) = cl.allocate(&rma, 256)?; // this rank's memory, targets of every rank's
    //! let next = &all[(cl.rank() + 1) % cl.nranks()];
    //! let ticket: u64 = all[0].fetch_add(0, 1)?;             // a different number for each
    //! assert!(ticket < cl.nranks() as u64);
    //! next.put_bytes(64, b"bytes of any length")?;
    //! rma.quiet()?; // what this thread began has happened
    //! let signal = Signal { segment: next.name(), offset: 8, value: 1, adds: true };
    //! next.put_signal(128, &[1, 2, 3], signal)?;             // a rank that sees it sees the bytes
    //! all[cl.rank()].wait_until(8, Comparison::AtLeast, 1_u64)?;
    //!
    //! let locks = rma.export_locks(1)?;
    //! let lock: Lock = rma.lock(cl.all_gather(locks.name())?[0], 0)?;
    //! let mut guard = lock.acquire()?;
    //! guard.set_word(guard.word() + 1);                      // a word travels with the lock
    //! guard.release()?;
    //!
    //! let flags = rma.export_flags(1)?;
    //! let flag: Flag = rma.flag(cl.all_gather(flags.name())?[0], 0)?;
    //! flag.add(1)?;
    //! flag.wait(Comparison::AtLeast, cl.nranks() as u64)?;
    //!
    //! let lines = rma.export_flags(Barrier::flags(&rma))?;
    //! let mut barrier = Barrier::over(&rma, &cl.all_gather(lines.name())?)?;
    //! barrier.meet()?;
    //!
    //! let region: NodeRegion = rma.node_region(3, 1 << 20, RegionOptions::default())?;
    //! region.put(0, 7_u64)?;
    //! cl.barrier()?;
    //! # drop(mine);
    //! # Ok(())
    //! # }
    //! ```

    pub use clump_rma::{
        AdvanceWord, AtomicOp, Barrier, Comparison, Error as OneSidedError,
        ErrorKind as OneSidedErrorKind, Flag, Guard, Lock, LockTable, NodeRegion, Pages, Pending,
        Phase, Range, Refusal, RegionOptions, RegionView, Rma, Segment, SegmentName, Signal,
        SpreadUpdate, Strides, Target, Update, Word,
    };
}

pub mod svm {
    //! Shared virtual memory: one heap at the same address in all ranks of all nodes, read and
    //! written as threads do, with locks, barriers, flags and condition variables (`docs/svm.md`;
    //! what makes it fast: `docs/svm-tuning.md`).
    //!
    //! All ranks open an [`Svm`], and allocate a [`SharedArray`], [`SharedMatrix`],
    //! [`SharedMutex`], [`SharedLocks`], [`SharedFlags`], [`SharedCondvar`] or [`ThreadBarrier`] in
    //! the same order.
    //!
    //! ```
    //! use clump::svm::{Home, SvmOptions};
    //! # fn main() -> Result<(), Box<dyn std::error::Error>> {
    //! let cl = clump::init()?;
    //! let svm = cl.svm_with(&SvmOptions::default())?;        // or cl.svm()
    //! let (me, all) = (cl.rank(), cl.nranks());
    //! let row = svm.array::<u64>(1024, Home::Block)?;
    //! for at in row.own_block() {
    //!     row.set(at, at as u64);                            // at its home: no message
    //! }
    //! let grid = svm.matrix::<f64>(all, 512, Home::Block)?;
    //! grid.write_row(me, &[1.0; 512]);
    //! let largest = svm.mutex::<f64>()?;                     // a value under a lock
    //! let guard = largest.lock()?;
    //! guard.set(guard.get().max(me as f64));
    //! guard.release()?;
    //! let locks = svm.locks(64)?;                            // many locks
    //! locks.lock(me % 64)?.release()?;
    //! let flags = svm.flags(all)?;                           // numbers that grow
    //! flags.set(me, 1)?;
    //! flags.wait((me + 1) % all, 1)?;
    //! let changed = svm.condvar()?; // waits under a lock: changed.wait(held)
    //! changed.notify_all()?;
    //! let threads = svm.thread_barrier(1);                   // of the threads of each rank
    //! threads.wait()?;
    //! svm.barrier()?;                                        // all see everything
    //! assert_eq!(row.get(1023), 1023);
    //! println!("{} ns in locks", svm.breakdown().lock.ns);
    //! # Ok(())
    //! # }
    //! ```

    pub use clump_svm::{
        Breakdown, Error as SharedMemoryError, ErrorKind as SharedMemoryErrorKind, HeldLock, Home,
        PartSum, ProgramGlobals, SentMessages, SharedArray, SharedCondvar, SharedFlags,
        SharedGuard, SharedLocks, SharedMatrix, SharedMutex, SharedPart, Svm, SvmOptions,
        SyncObject, ThreadBarrier, TransferCall, TransferPart, WokenRequests, end_handler_watch,
    };
}

pub mod op {
    //! Operations that collectives combine values by, and the types of their operands
    //! (`docs/collectives.md`). A type of the program's that implements [`Op`] is one, too.
    //!
    //! ```
    //! use clump::op::{And, Max, Op, Product, Sum, Xor};
    //!
    //! /// The greatest common divisor.
    //! struct Gcd;
    //! impl Op<u64> for Gcd {
    //!     fn combine(a: u64, b: u64) -> u64 {
    //!         if b == 0 { a } else { Self::combine(b, a % b) }
    //!     }
    //! }
    //! # fn main() -> Result<(), Box<dyn std::error::Error>> {
    //! let cl = clump::init()?;
    //! let sums = cl.all_reduce(2_u64, Sum)?;
    //! let product = cl.all_reduce(2.0, Product)?;
    //! let (common, parity) = (cl.all_reduce(0b1100_u32, And)?, cl.all_reduce(1_u8, Xor)?);
    //! assert_eq!(cl.all_reduce(12_u64, Gcd)?, 12);
    //! let half = cl.team().split(Some(cl.rank() as u64 % 2), 0)?; // a team of every other rank
    //! let sum = half.map(|team| team.start_all_reduce(&[1.0, 2.0], Max)?.wait()).transpose()?;
    //! # let _ = (sums, product, common, parity, sum);
    //! # Ok(())
    //! # }
    //! ```

    pub use clump_coll::{And, Max, Min, Number, Op, Or, Plain, Product, Sum, Xor};
}

pub use clump_coll::{Max, Min, PendingCollective, Sum, Team, TimedPhase};
