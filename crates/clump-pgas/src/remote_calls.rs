//! Remote calls: functions that all ranks register, called at any rank.
//!
//! A call is a request to an endpoint of its own at the target; the function runs in its handler,
//! while that rank polls or waits for anything. Arguments and results travel as `postcard`
//! writes them.

use crate::call_answers::{Answer, CallAnswers};
use crate::error::{ErrorKind, Result};
use crate::pgas::Pgas;
use crate::remote_context::{CALL, CallFrame, CallTable, ExecutedCall, RemoteBody, RemoteContext};
use crate::remote_fn::{DistName, RawBytes, RemoteFn};
use clump_am::{Dest, Endpoint, Handler, Payload, Tag, Token};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;

/// Handler of their answers.
const ANSWER: Handler = Handler(2);
/// Tag of the endpoints of remote calls.
const TAG: u64 = 0x7ca1_1000;
/// Cookie of calls that are not answered.
const ONE_WAY: u64 = 0;

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
    ranks: Rc<[Dest]>,
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
        let table = Rc::new(CallTable::new(ranks.clone()));
        let answers = Rc::new(CallAnswers::default());
        equip(&endpoint, &table, &answers)?;
        // Nobody calls before all can answer.
        self.barrier()?;
        let pgas = self.clone();
        Ok(RemoteCalls { inner: Rc::new(CallsInner { pgas, table, answers, endpoint, ranks }) })
    }
}

/// Sets the handlers of an endpoint.
fn equip(endpoint: &Endpoint, table: &Rc<CallTable>, answers: &Rc<CallAnswers>) -> Result<()> {
    let called = table.clone();
    endpoint.handler_bulk(CALL, move |token: Token<'_>, words: (u64, u64), payload| {
        answer_call(&called, token, words, &payload)
    })?;
    let given = answers.clone();
    endpoint.handler_bulk(
        ANSWER,
        move |_: Token<'_>, (cookie, failed): (u64, u64), payload: Payload<'_>| {
            let bytes = payload.to_vec();
            given.give(
                cookie,
                if failed == 0 { Answer::Result(bytes) } else { Answer::Failure(bytes) },
            );
        },
    )?;
    let (lost, uncalled) = (answers.clone(), table.clone());
    endpoint.on_returned(move |message| {
        if message.handler == CALL {
            uncalled.note_executed();
            let cookie = message.words.get(1).copied().unwrap_or(ONE_WAY);
            lost.give(cookie, Answer::Failure(message.reason.to_string().into_bytes()));
        }
    })?;
    Ok(())
}

/// Runs a function, and sends its answer, if one is wanted.
fn answer_call(
    table: &Rc<CallTable>,
    token: Token<'_>,
    (number, cookie): (u64, u64),
    payload: &Payload<'_>,
) -> std::result::Result<(), String> {
    let most = token.max_medium();
    let from = token.from().rank() as usize;
    let call = CallFrame { from, number, table, token: RefCell::new(token) };
    let given = match table.function(number) {
        Some(body) => body(&call, &payload.to_vec()),
        None => Err(ErrorKind::NoSuchFunction { number }.into()),
    };
    // Counted after what it has sent, so that a count of calls under way is never too low.
    table.note_executed();
    let (failed, bytes) = match given {
        Ok(bytes) if bytes.len() <= most => (0, bytes),
        Ok(bytes) => (1, ErrorKind::CallTooLong { bytes: bytes.len(), most }.to_string().into()),
        Err(error) => (1, error.to_string().into_bytes()),
    };
    let bytes = bytes.get(..bytes.len().min(most)).unwrap_or_default();
    if cookie != ONE_WAY {
        let sent = call.token.into_inner().reply_bulk(ANSWER, bytes, (cookie, failed));
        return sent.map_err(|error| error.to_string());
    }
    if failed == 0 { Ok(()) } else { Err(String::from_utf8_lossy(bytes).into_owned()) }
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
        self.dist_raw(std::any::type_name::<T>(), value)
    }

    /// Makes an object as [`RemoteCalls::dist`] does, of a type that another language names.
    ///
    /// # Errors
    /// Fails as [`RemoteCalls::dist`] does.
    pub fn dist_raw<T: 'static>(&self, type_name: &str, value: T) -> Result<Dist<T>> {
        let value = Rc::new(RefCell::new(value));
        let id = self.inner.table.add_object(value.clone());
        self.agree("an object", id, [type_name, ""])?;
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
        self.send_call(rank, function.number(), cookie, bytes)?;
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
        self.send_call(rank, function.number(), ONE_WAY, &bytes)
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
        self.send_call(rank, function.number(), ONE_WAY, bytes)
    }

    fn send_call(&self, rank: usize, number: u64, cookie: u64, bytes: &[u8]) -> Result<()> {
        let inner = &self.inner;
        let dest = *inner.ranks.get(rank).ok_or(ErrorKind::NoSuchRank { rank })?;
        let (most, length) = (inner.endpoint.max_medium(), bytes.len());
        if length > most {
            return Err(ErrorKind::CallTooLong { bytes: length, most }.into());
        }
        inner.table.note_sent();
        let sent = inner.endpoint.request_bulk(dest, CALL, bytes, (number, cookie));
        if sent.is_err() {
            inner.table.note_executed();
        }
        Ok(sent?)
    }

    /// Runs functions that others have called here, without waiting.
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
    /// Returns true if the answer is there. Polls.
    ///
    /// # Errors
    /// Fails as [`RemoteCalls::poll`] does.
    pub fn is_done(&self) -> Result<bool> {
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
