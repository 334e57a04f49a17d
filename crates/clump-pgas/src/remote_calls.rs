//! Remote calls: functions that all ranks register, called at any rank.
//!
//! Calls travel in requests to an endpoint of their own at the target, many in one if it is on
//! another node, or this rank; functions run in its handler, while that rank polls or waits for
//! anything. Arguments and results travel as `postcard` writes them.

use crate::call_record::CallRecord;
use crate::call_sender::CallSender;
use crate::dist::Dist;
use crate::error::{ErrorKind, Result};
use crate::executed_batch::ONE_WAY;
use crate::pending_call::PendingCall;
use crate::pgas::{Pgas, took_part};
use crate::remote_context::{ExecutedCall, RemoteBody, RemoteContext};
use crate::remote_fn::{DistName, RawBytes, RemoteFn};
use crate::termination::TerminationWaves;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::RefCell;
use std::rc::Rc;

/// A thread's remote calls. Clones share all state.
#[derive(Clone)]
pub struct RemoteCalls {
    sender: Rc<CallSender>,
}

impl std::fmt::Debug for RemoteCalls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RemoteCalls(rank {})", self.sender.pgas.rank())
    }
}

impl Pgas {
    /// Opens remote calls for this thread. A collective. Takes one of the rank's endpoints.
    ///
    /// # Errors
    /// Fails if endpoints have run out, or if a rank died or left.
    pub fn remote_calls(&self) -> Result<RemoteCalls> {
        Ok(RemoteCalls { sender: CallSender::open(self)? })
    }
}

impl RemoteCalls {
    pub(crate) fn pgas(&self) -> &Pgas {
        &self.sender.pgas
    }

    /// Registers a function. A collective: all ranks register the same functions in the same order.
    /// It runs at the ranks that it is called at, in a handler: it may call others one-way, by its
    /// context, and may not wait. Its error is returned to the caller; one of a one-way call is an
    /// error of what polls at that rank.
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
        let number = self.sender.table.add(Rc::new(body) as Rc<RemoteBody>);
        self.agree(name, number, [std::any::type_name::<A>(), std::any::type_name::<R>()])?;
        Ok(RemoteFn::new(number))
    }

    /// Registers a function of bytes, as [`RemoteCalls::register`] does: for other languages, which
    /// encode arguments and results themselves. `signature` names the encoding; ranks compare it.
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
        let number = self.sender.table.add(Rc::new(body) as Rc<RemoteBody>);
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
        let id = self.sender.table.add_object(value.clone());
        self.agree("an object", id, [type_name, ""])?;
        Ok(Dist::of(DistName::new(id), value, self.sender.table.clone()))
    }

    /// Checks that all ranks have registered the same function.
    fn agree(&self, name: &str, number: u64, types: [&str; 2]) -> Result<()> {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ number;
        for byte in [name, types[0], types[1]].join("\n").bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        let pgas = &self.sender.pgas;
        let all = pgas.inner.together(|team| team.all_gather(hash))?;
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
        self.call_of(function, rank, arguments)
    }

    /// Begins to call a function with what is encoded as its arguments are.
    pub(crate) fn call_of<A, R>(
        &self,
        function: RemoteFn<A, R>,
        rank: usize,
        arguments: &impl Serialize,
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
        let pending = PendingCall::of(&self.sender, rank);
        debug_assert_ne!(pending.cookie(), ONE_WAY, "it is answered");
        self.begin(rank, function.number(), pending.cookie(), bytes)?;
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
        self.send_of(function, rank, arguments)
    }

    /// Calls a function one-way with what is encoded as its arguments are.
    pub(crate) fn send_of<A, R>(
        &self,
        function: RemoteFn<A, R>,
        rank: usize,
        arguments: &impl Serialize,
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
        self.sender.begin(rank, &CallRecord { number, cookie, bytes })
    }

    /// Runs functions that others have called here, without waiting. Sends calls that were
    /// collected too long ago.
    ///
    /// # Errors
    /// Fails with the error of a one-way call, or if a peer sent what no correct rank does.
    pub fn poll(&self) -> Result<()> {
        self.sender.poll()
    }

    /// Polls once, and returns the number of calls that were executed here.
    pub(crate) fn poll_counted(&self) -> Result<u64> {
        let (_, before) = self.sender.table.counts();
        self.poll()?;
        let (_, after) = self.sender.table.counts();
        debug_assert!(before <= after, "counts grow");
        Ok(after - before)
    }

    /// Returns once no call is under way anywhere, what functions called included, and no rank has
    /// work of its own. A collective. `work` does some of this rank's own work, and returns false
    /// if it found none; it is called again whenever functions may have left some.
    ///
    /// # Errors
    /// Fails with the first error of `work` or of a one-way call, once no rank has work: this rank
    /// took part, and called `work` no more after its error ([`crate::Error::took_part`]). Or if a
    /// rank died or left.
    pub fn detect_termination(&self, mut work: impl FnMut() -> Result<bool>) -> Result<()> {
        let (mut waves, mut failure) = (TerminationWaves::default(), Ok(()));
        let mut may_work = true;
        loop {
            let mut worked = 0;
            loop {
                if let Err(error) = self.poll() {
                    if !error.is_of_a_message() {
                        return Err(error);
                    }
                    // The next poll continues behind that message.
                    failure = failure.and(Err(error));
                    continue;
                }
                match if may_work { work() } else { Ok(false) } {
                    Ok(true) => worked = 1,
                    Ok(false) => break,
                    Err(error) => {
                        failure = failure.and(Err(error));
                        may_work = false;
                    }
                }
            }
            let (sent, executed) = self.sender.table.counts();
            let mut counts = [sent, executed, worked];
            let pgas = &self.sender.pgas;
            pgas.inner.together(|team| team.all_reduce_slice(&mut counts, clump_coll::Sum))?;
            if waves.wave(counts) {
                return took_part(failure);
            }
        }
    }
}
