//! Remote calls: functions that all ranks register, called at any rank.
//!
//! Calls travel in requests to an endpoint of their own at the target, many in one if it is on
//! another node; functions run in its handler, while that rank polls or waits for anything.
//! Arguments and results travel as `postcard` writes them.

use crate::aggregator::counter_of;
use crate::call_answers::{Answer, CallAnswers};
use crate::call_outbox::{CallBatch, CallOutbox, OutboxBounds};
use crate::call_record::{CallRecord, CallRecords, HEAD};
use crate::collector::SendCause;
use crate::error::{ErrorKind, Result};
use crate::executed_batch::{ANSWER, CALL, ONE_WAY, execute};
use crate::pgas::{Collected, Pgas};
use crate::remote_context::{CallTable, ExecutedCall, RemoteBody, RemoteContext};
use crate::remote_fn::{DistName, RawBytes, RemoteFn};
use clump_am::{Dest, Endpoint, Payload, Tag, Token};
use clump_os::clock;
use clump_rma::Update;
use clump_trace::{Counter, EventKind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::rc::Rc;

/// Tag of the endpoints of remote calls.
const TAG: u64 = 0x7ca1_1000;
/// Calls between two looks at the clock.
const CLOCK_EVERY: u32 = 16;

/// A thread's remote calls. Clones share all state.
#[derive(Clone)]
pub struct RemoteCalls {
    inner: Rc<CallsInner>,
}

struct CallsInner {
    pgas: Pgas,
    table: Rc<CallTable>,
    answers: Rc<CallAnswers>,
    endpoint: Endpoint,
    outbox: RefCell<CallOutbox>,
    /// Calls that were collected since the clock was read.
    unclocked: Cell<u32>,
}

impl std::fmt::Debug for CallsInner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CallsInner({:?})", self.outbox)
    }
}

impl std::fmt::Debug for RemoteCalls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RemoteCalls(rank {})", self.inner.pgas.rank())
    }
}

impl Pgas {
    /// Opens remote calls for this thread. A collective. Takes one of the rank's endpoints.
    ///
    /// # Errors
    /// Fails if endpoints have run out, or if a rank died or left.
    pub fn remote_calls(&self) -> Result<RemoteCalls> {
        let endpoint = Endpoint::open(self.context(), Tag(TAG))?;
        let names = self.inner.wait(|| Ok(self.team().all_gather(endpoint.name().to_bits())?))?;
        let map = |bits: u64| endpoint.map(&clump_am::Name::from_bits(bits), Tag(TAG));
        let ranks: clump_am::Result<Rc<[Dest]>> = names.into_iter().map(map).collect();
        let ranks = ranks?;
        let table = Rc::new(CallTable::new(ranks));
        let answers = Rc::new(CallAnswers::default());
        equip(&endpoint, &table, &answers)?;
        // Nobody calls before all can answer.
        self.barrier()?;
        let options = &self.inner.options;
        let batch_bytes = options.batch_updates.saturating_mul(size_of::<Update>());
        let outbox = RefCell::new(CallOutbox::new(OutboxBounds {
            batch_bytes: batch_bytes.min(endpoint.max_medium()),
            memory_bytes: options.memory_bytes,
            delay_ns: u64::try_from(options.delay.as_nanos()).unwrap_or(u64::MAX),
        }));
        let (pgas, unclocked) = (self.clone(), Cell::new(0));
        let inner = Rc::new(CallsInner { pgas, table, answers, endpoint, outbox, unclocked });
        let collected: Rc<dyn Collected> = inner.clone();
        self.inner.collect_with(Rc::downgrade(&collected));
        Ok(RemoteCalls { inner })
    }
}

/// Sets the handlers of an endpoint.
fn equip(endpoint: &Endpoint, table: &Rc<CallTable>, answers: &Rc<CallAnswers>) -> Result<()> {
    let called = table.clone();
    endpoint.handler_bulk(CALL, move |token: Token<'_>, _: u64, payload: Payload<'_>| {
        execute(&called, token, &payload)
    })?;
    let given = answers.clone();
    endpoint.handler_bulk(ANSWER, move |_: Token<'_>, _: u64, payload: Payload<'_>| {
        CallRecords::of(&payload.to_vec()).try_for_each(|record| -> Result<()> {
            let CallRecord { number, cookie, bytes } = record?;
            let answer = if number == 0 { Answer::Result } else { Answer::Failure };
            given.give(cookie, answer(bytes.to_vec()));
            Ok(())
        })
    })?;
    let (lost, uncalled) = (answers.clone(), table.clone());
    endpoint.on_returned(move |message| {
        if message.handler == CALL {
            fail(&uncalled, &lost, &message.payload, &message.reason.to_string());
        }
    })?;
    Ok(())
}

/// Gives calls up that no rank will execute.
fn fail(table: &CallTable, answers: &CallAnswers, records: &[u8], why: &str) {
    for call in CallRecords::of(records).flatten() {
        table.note_executed(1);
        answers.give(call.cookie, Answer::Failure(why.into()));
    }
}

impl Collected for CallsInner {
    fn send_old(&self, now: u64) -> Result<()> {
        self.send_unsent()?;
        loop {
            let old = self.outbox.borrow_mut().expired(now);
            let Some(old) = old else { return Ok(()) };
            self.send(old)?;
        }
    }

    fn send_all(&self) -> Result<()> {
        let mut result = self.send_unsent();
        loop {
            let next = self.outbox.borrow_mut().oldest(SendCause::Flushed);
            let Some(next) = next else { return result };
            result = result.and(self.send(next));
        }
    }
}

impl CallsInner {
    /// Calls a function at a rank: at once if that is on this node, else with others.
    fn begin(&self, rank: usize, call: &CallRecord<'_>) -> Result<()> {
        self.table.rank(rank)?;
        let (most, length) = (self.endpoint.max_medium() - HEAD, call.bytes.len());
        if length > most {
            return Err(ErrorKind::CallTooLong { bytes: length, most }.into());
        }
        // What is sent here may run handlers that call, too.
        loop {
            let obstacle = self.outbox.borrow_mut().obstacle(rank, length);
            let Some(obstacle) = obstacle else { break };
            self.send(obstacle)?;
        }
        self.table.note_sent();
        let node = self.endpoint.context().node();
        let near = u32::try_from(rank).is_ok_and(|rank| node.is_local(rank));
        if near || !self.pgas.inner.aggregates() {
            return self.send_alone(rank, call);
        }
        let opens = !self.outbox.borrow().is_open(rank);
        let looks = opens || self.unclocked.get() == 0;
        self.unclocked.set(if looks { CLOCK_EVERY } else { self.unclocked.get() - 1 });
        let now = if looks { clock::now_ns() } else { 0 };
        self.outbox.borrow_mut().push(rank, call, now);
        if looks { self.send_old(now) } else { Ok(()) }
    }

    /// Sends a call by itself.
    fn send_alone(&self, rank: usize, call: &CallRecord<'_>) -> Result<()> {
        let mut bytes = self.outbox.borrow_mut().buffer();
        call.append_to(&mut bytes);
        let sent = self.request(rank, 1, &bytes);
        self.outbox.borrow_mut().keep(bytes);
        sent
    }

    /// Sends a batch.
    fn send(&self, batch: CallBatch) -> Result<()> {
        let CallBatch { rank, calls, bytes, cause } = batch;
        let context = self.endpoint.context();
        context.counters().add(Counter::PgasCollected, calls);
        context.counters().bump(counter_of(cause));
        let (to, most) = (u32::try_from(rank).unwrap_or(u32::MAX), u64::from(u32::MAX));
        context.note(EventKind::Batch, (to, 0, calls.min(most) as u32));
        let sent = self.request(rank, calls, &bytes);
        self.outbox.borrow_mut().keep(bytes);
        sent
    }

    /// Sends records of calls.
    fn request(&self, rank: usize, calls: u64, records: &[u8]) -> Result<()> {
        let sent = self.endpoint.request_bulk(self.table.rank(rank)?, CALL, records, calls);
        if let Err(error) = &sent {
            fail(&self.table, &self.answers, records, &error.to_string());
        }
        Ok(sent?)
    }

    /// Sends what handlers could not queue.
    fn send_unsent(&self) -> Result<()> {
        self.table.take_unsent().into_iter().try_for_each(|(rank, handler, records, bytes)| {
            let dest = self.table.rank(rank)?;
            Ok(self.endpoint.request_bulk(dest, handler, &bytes, records)?)
        })
    }
}

impl RemoteCalls {
    /// Registers a function. A collective: all ranks register the same functions in the same order.
    /// It runs at the ranks that it is called at, in a handler: it may call others one-way, by its
    /// context, and may not wait. Its error goes to the caller; one of a one-way call is an error
    /// of what polls at that rank.
    ///
    /// # Errors
    /// Fails if ranks register functions of different names or types, as ranks of different
    /// builds do; if a rank died or left.
    pub fn register<A, R>(
        &self,
        name: &str,
        function: impl Fn(&RemoteContext<'_, A>, A) -> Result<R> + 'static,
    ) -> Result<RemoteFn<A, R>>
    where
        A: Serialize + DeserializeOwned + 'static,
        R: Serialize + DeserializeOwned + 'static,
    {
        let body = move |call: &dyn ExecutedCall, bytes: &[u8]| -> Result<Vec<u8>> {
            let arguments = postcard::from_bytes(bytes).map_err(|_| ErrorKind::BadArguments)?;
            let result = function(&RemoteContext::of(call), arguments)?;
            Ok(postcard::to_stdvec(&result).map_err(|_| ErrorKind::BadArguments)?)
        };
        let number = self.inner.table.add(Rc::new(body) as Rc<RemoteBody>);
        self.agree(name, number, [std::any::type_name::<A>(), std::any::type_name::<R>()])?;
        Ok(RemoteFn::new(number))
    }

    /// Registers a function of bytes, as [`RemoteCalls::register`] does: for other languages, which
    /// encode arguments and results themselves. `signature` says how; ranks compare it.
    ///
    /// # Errors
    /// Fails as [`RemoteCalls::register`] does.
    pub fn register_raw(
        &self,
        name: &str,
        signature: &str,
        function: impl Fn(&RemoteContext<'_, RawBytes>, &[u8]) -> Result<Vec<u8>> + 'static,
    ) -> Result<RemoteFn<RawBytes, RawBytes>> {
        let body =
            move |call: &dyn ExecutedCall, bytes: &[u8]| function(&RemoteContext::of(call), bytes);
        let number = self.inner.table.add(Rc::new(body) as Rc<RemoteBody>);
        self.agree(name, number, [signature, "bytes"])?;
        Ok(RemoteFn::new(number))
    }

    /// Makes an object of which every rank has its own, and functions find that of their rank by
    /// its name. A collective: all ranks make the same objects in the same order.
    ///
    /// # Errors
    /// Fails if ranks make objects of different types, or if a rank died or left.
    pub fn dist<T: 'static>(&self, value: T) -> Result<Dist<T>> {
        let value = Rc::new(RefCell::new(value));
        let id = self.inner.table.add_object(value.clone());
        self.agree("an object", id, [std::any::type_name::<T>(), ""])?;
        Ok(Dist { name: DistName::new(id), value, table: self.inner.table.clone() })
    }

    /// Checks that all ranks have said the same.
    fn agree(&self, name: &str, number: u64, types: [&str; 2]) -> Result<()> {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ number;
        for byte in [name, types[0], types[1]].join("\n").bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        let inner = &self.inner;
        let all = inner.pgas.inner.wait(|| Ok(inner.pgas.team().all_gather(hash)?))?;
        match all.iter().position(|other| *other != hash) {
            None => Ok(()),
            Some(rank) => Err(ErrorKind::DifferentFunctions { name: name.into(), rank }.into()),
        }
    }

    /// Begins to call a function at a rank.
    ///
    /// # Errors
    /// Fails if there is no such rank, if arguments are longer than a message, or if sending fails.
    pub fn call<A: Serialize, R: DeserializeOwned>(
        &self,
        function: RemoteFn<A, R>,
        rank: usize,
        arguments: &A,
    ) -> Result<PendingCall<R>> {
        let bytes = postcard::to_stdvec(arguments).map_err(|_| ErrorKind::BadArguments)?;
        self.begin_call(function, rank, &bytes)
    }

    /// Begins to call a function of bytes at a rank.
    ///
    /// # Errors
    /// Fails as [`RemoteCalls::call`] does.
    pub fn call_raw(
        &self,
        function: RemoteFn<RawBytes, RawBytes>,
        rank: usize,
        bytes: &[u8],
    ) -> Result<PendingCall<RawBytes>> {
        self.begin_call(function, rank, bytes)
    }

    fn begin_call<A, R>(
        &self,
        function: RemoteFn<A, R>,
        rank: usize,
        bytes: &[u8],
    ) -> Result<PendingCall<R>> {
        let cookie = self.inner.answers.expect();
        debug_assert_ne!(cookie, ONE_WAY, "it is answered");
        let pending = PendingCall { calls: self.clone(), cookie, rank, of: PhantomData };
        self.begin(rank, function.number(), cookie, bytes)?;
        Ok(pending)
    }

    /// Calls a function at a rank, and does not wait for it: [`RemoteCalls::detect_termination`]
    /// does.
    ///
    /// # Errors
    /// Fails as [`RemoteCalls::call`] does.
    pub fn send<A: Serialize, R>(
        &self,
        function: RemoteFn<A, R>,
        rank: usize,
        arguments: &A,
    ) -> Result<()> {
        let bytes = postcard::to_stdvec(arguments).map_err(|_| ErrorKind::BadArguments)?;
        self.begin(rank, function.number(), ONE_WAY, &bytes)
    }

    /// Calls a function of bytes at a rank, as [`RemoteCalls::send`] does.
    ///
    /// # Errors
    /// Fails as [`RemoteCalls::call`] does.
    pub fn send_raw(
        &self,
        function: RemoteFn<RawBytes, RawBytes>,
        rank: usize,
        bytes: &[u8],
    ) -> Result<()> {
        self.begin(rank, function.number(), ONE_WAY, bytes)
    }

    fn begin(&self, rank: usize, number: u64, cookie: u64, bytes: &[u8]) -> Result<()> {
        let number = u32::try_from(number).map_err(|_| ErrorKind::NoSuchFunction { number })?;
        self.inner.begin(rank, &CallRecord { number, cookie, bytes })
    }

    /// Runs functions that others have called here, without waiting. Sends calls that were
    /// collected too long ago.
    ///
    /// # Errors
    /// Fails with the error of a one-way call, or if a peer sent what no correct rank does.
    pub fn poll(&self) -> Result<()> {
        self.inner.endpoint.poll()?;
        self.inner.pgas.poll()
    }

    /// Returns once no call is under way anywhere, what functions called included, and no rank has
    /// work of its own. A collective. `work` does some of this rank's own work, and returns false
    /// if it found none; it is called again whenever functions may have left some.
    ///
    /// # Errors
    /// Fails with the error of `work` or of a one-way call, or if a rank died or left.
    pub fn detect_termination(&self, mut work: impl FnMut() -> Result<bool>) -> Result<()> {
        let mut before = None;
        loop {
            let mut worked = 0;
            loop {
                self.poll()?;
                if !work()? {
                    break;
                }
                worked = 1;
            }
            // Four counters (Mattern 1987): calls sent and calls executed, at all ranks, in two
            // waves. If all four are equal, nothing was under way between the waves.
            let (sent, executed) = self.inner.table.counts();
            let mut counts = [sent, executed, worked];
            let inner = &self.inner;
            let sum = |counts: &mut [u64]| {
                inner
                    .pgas
                    .inner
                    .wait(|| Ok(inner.pgas.team().all_reduce_slice(counts, clump_coll::Sum)?))
            };
            sum(&mut counts)?;
            let [sent, executed, worked] = counts;
            debug_assert!(before.is_none_or(|(s, e)| s <= sent && e <= executed), "counts grow");
            let idle = sent == executed && worked == 0;
            if idle && before == Some((sent, executed)) {
                return Ok(());
            }
            before = Some((sent, executed));
        }
    }
}

/// An object of which every rank has its own.
pub struct Dist<T> {
    name: DistName<T>,
    value: Rc<RefCell<T>>,
    table: Rc<CallTable>,
}

impl<T> std::fmt::Debug for Dist<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dist({:?})", self.name)
    }
}

impl<T> Dist<T> {
    /// Returns its name, which functions find their rank's by.
    pub fn name(&self) -> DistName<T> {
        self.name
    }

    /// Uses this rank's. Functions that are called here meanwhile, because `run` polls, fail if
    /// they need it.
    ///
    /// # Errors
    /// Fails if it is in use already.
    pub fn with<R>(&self, run: impl FnOnce(&mut T) -> R) -> Result<R> {
        let mut value = self.value.try_borrow_mut().map_err(|_| ErrorKind::ObjectInUse)?;
        Ok(run(&mut value))
    }
}

impl<T> Drop for Dist<T> {
    fn drop(&mut self) {
        self.table.remove_object(self.name.id());
    }
}

/// A call under way. One that is dropped is executed all the same.
#[derive(Debug)]
#[must_use = "what it gives is had by `wait`"]
pub struct PendingCall<R> {
    calls: RemoteCalls,
    cookie: u64,
    rank: usize,
    of: PhantomData<fn() -> R>,
}

impl PendingCall<RawBytes> {
    /// Waits for the result, as [`PendingCall::wait`] does.
    ///
    /// # Errors
    /// Fails as [`PendingCall::wait`] does.
    pub fn wait_raw(self) -> Result<Vec<u8>> {
        self.wait_bytes()
    }
}

impl<R: DeserializeOwned> PendingCall<R> {
    /// Waits for the result.
    ///
    /// # Errors
    /// Fails if the function did, if the rank has left, or if a rank died.
    pub fn wait(self) -> Result<R> {
        let bytes = self.wait_bytes()?;
        Ok(postcard::from_bytes(&bytes).map_err(|_| ErrorKind::BadArguments)?)
    }
}

impl<R> PendingCall<R> {
    /// Returns true if the answer is there. Sends what was collected, and polls.
    ///
    /// # Errors
    /// Fails as [`RemoteCalls::poll`] does.
    pub fn is_done(&self) -> Result<bool> {
        self.calls.inner.pgas.flush()?;
        self.calls.poll()?;
        Ok(!self.calls.inner.answers.is_awaited(self.cookie))
    }

    fn wait_bytes(self) -> Result<Vec<u8>> {
        let (inner, cookie) = (&self.calls.inner, self.cookie);
        inner.pgas.inner.wait(|| {
            let answered = || !inner.answers.is_awaited(cookie);
            Ok(inner.endpoint.poll_until(answered)?)
        })?;
        let failed = |text: String| ErrorKind::CallFailed { rank: self.rank, text };
        match inner.answers.take(cookie) {
            Some(Answer::Result(bytes)) => Ok(bytes),
            Some(Answer::Failure(text)) => {
                Err(failed(String::from_utf8_lossy(&text).into_owned()).into())
            }
            Some(Answer::Awaited) | None => Err(failed("it has no answer".into()).into()),
        }
    }
}

impl<R> Drop for PendingCall<R> {
    fn drop(&mut self) {
        self.calls.inner.answers.take(self.cookie);
    }
}
