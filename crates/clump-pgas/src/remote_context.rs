//! The surroundings of a function that another rank has called.

use crate::error::{ErrorKind, Result};
use crate::remote_fn::{DistName, RawBytes, RemoteFn};
use clump_am::{Dest, Handler};
use serde::Serialize;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::marker::PhantomData;
use std::rc::Rc;

/// Messages that the endpoint refused to queue, to be sent by what polls next: rank, handler and
/// records.
type UnsentMessages = Vec<(usize, Handler, Vec<u8>)>;

/// A registered function, whose arguments and result are bytes.
pub(crate) type RemoteBody = dyn Fn(&dyn ExecutedCall, &[u8]) -> Result<Vec<u8>>;

/// Functions and objects of a thread, and counts of calls.
pub(crate) struct CallTable {
    functions: RefCell<Vec<Rc<RemoteBody>>>,
    objects: RefCell<HashMap<u64, Rc<dyn Any>>>,
    last_object: Cell<u64>,
    ranks: Rc<[Dest]>,
    unsent: RefCell<UnsentMessages>,
    sent: Cell<u64>,
    executed: Cell<u64>,
}

impl CallTable {
    pub(crate) fn new(ranks: Rc<[Dest]>) -> Self {
        debug_assert!(!ranks.is_empty(), "this rank is one of them");
        let (functions, objects, last_object, unsent, sent, executed) = Default::default();
        Self { functions, objects, last_object, ranks, unsent, sent, executed }
    }

    /// Adds a function. Returns its number.
    pub(crate) fn add(&self, body: Rc<RemoteBody>) -> u64 {
        let mut functions = self.functions.borrow_mut();
        functions.push(body);
        functions.len() as u64 - 1
    }

    pub(crate) fn function(&self, number: u64) -> Option<Rc<RemoteBody>> {
        let number = usize::try_from(number).ok()?;
        self.functions.borrow().get(number).cloned()
    }

    /// Adds an object. Returns its number.
    pub(crate) fn add_object(&self, object: Rc<dyn Any>) -> u64 {
        let id = self.last_object.get() + 1;
        self.last_object.set(id);
        self.objects.borrow_mut().insert(id, object);
        id
    }

    pub(crate) fn remove_object(&self, id: u64) {
        let removed = self.objects.borrow_mut().remove(&id);
        debug_assert!(removed.is_some(), "an object is removed once");
    }

    /// Returns the endpoint of a rank.
    pub(crate) fn rank(&self, rank: usize) -> Result<Dest> {
        Ok(*self.ranks.get(rank).ok_or(ErrorKind::NoSuchRank { rank })?)
    }

    /// Keeps a message for what polls next.
    pub(crate) fn keep_unsent(&self, message: (usize, Handler, Vec<u8>)) {
        self.unsent.borrow_mut().push(message);
    }

    /// Takes the messages out that were kept.
    pub(crate) fn take_unsent(&self) -> UnsentMessages {
        self.unsent.take()
    }

    pub(crate) fn note_sent(&self) {
        self.sent.set(self.sent.get() + 1);
    }

    pub(crate) fn note_executed(&self, calls: u64) {
        self.executed.set(self.executed.get() + calls);
    }

    /// Returns the numbers of calls that were sent and executed here.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.sent.get(), self.executed.get())
    }
}

/// A call that is being executed, whatever its token's lifetime.
pub(crate) trait ExecutedCall {
    /// Returns rank that has called, and number of the function.
    fn origin(&self) -> (usize, u64);
    /// Returns functions and objects.
    fn table(&self) -> &CallTable;
    /// Collects a one-way call, which is sent after the function has returned.
    fn send(&self, rank: usize, number: u64, bytes: &[u8]) -> Result<()>;
}

/// The surroundings of a function with arguments `A` that another rank has called.
pub struct RemoteContext<'a, A> {
    call: &'a dyn ExecutedCall,
    of: PhantomData<fn(A)>,
}

impl<A> std::fmt::Debug for RemoteContext<'_, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RemoteContext(call from rank {})", self.from())
    }
}

impl<'a, A> RemoteContext<'a, A> {
    pub(crate) fn of(call: &'a dyn ExecutedCall) -> Self {
        Self { call, of: PhantomData }
    }

    /// Returns the rank that has called.
    pub fn from(&self) -> usize {
        self.call.origin().0
    }

    /// Uses this rank's object of that name.
    ///
    /// # Errors
    /// Fails if it was removed, is of another type, or in use.
    pub fn with<T: 'static, R>(
        &self,
        name: DistName<T>,
        run: impl FnOnce(&mut T) -> R,
    ) -> Result<R> {
        let found = self.call.table().objects.borrow().get(&name.id()).cloned();
        let object = found.and_then(|object| object.downcast::<RefCell<T>>().ok());
        let object = object.ok_or(ErrorKind::NoSuchObject)?;
        let mut value = object.try_borrow_mut().map_err(|_| ErrorKind::ObjectInUse)?;
        Ok(run(&mut value))
    }

    /// Calls a function at a rank, once this one has returned, and does not wait for it.
    ///
    /// # Errors
    /// Fails if there is no such rank, if arguments are longer than a message, or if too many calls
    /// are queued.
    pub fn send<B: Serialize, R>(
        &self,
        function: RemoteFn<B, R>,
        rank: usize,
        arguments: &B,
    ) -> Result<()> {
        self.send_as(rank, function.number(), arguments)
    }

    /// Calls this function again, at any rank, as [`RemoteContext::send`] does.
    ///
    /// # Errors
    /// Fails as [`RemoteContext::send`] does.
    pub fn again(&self, rank: usize, arguments: &A) -> Result<()>
    where
        A: Serialize,
    {
        self.send_as(rank, self.call.origin().1, arguments)
    }

    /// Calls a function of bytes at a rank, as [`RemoteContext::send`] does.
    ///
    /// # Errors
    /// Fails as [`RemoteContext::send`] does.
    pub fn send_raw(
        &self,
        function: RemoteFn<RawBytes, RawBytes>,
        rank: usize,
        bytes: &[u8],
    ) -> Result<()> {
        self.call.send(rank, function.number(), bytes)
    }

    fn send_as(&self, rank: usize, number: u64, arguments: &impl Serialize) -> Result<()> {
        let bytes = postcard::to_stdvec(arguments).map_err(|_| ErrorKind::BadArguments)?;
        self.call.send(rank, number, &bytes)
    }
}
