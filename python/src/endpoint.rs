//! Endpoints of a Python program: active messages whose handlers are Python functions (paper 000,
//! section 2).
//!
//! # Invariants
//! 1. No lock of an endpoint is taken by a thread that holds the interpreter's lock: a handler
//!    takes them in the other order. But for the end of one, by its last reference: then no call of
//!    it goes on, and no handler.
//! 2. A handler's failure is raised by the wait that handled its message, or the next one of this
//!    rank; at the end of the program, if there is none.

use crate::bytes::{Chunk, buffer, chunks};
use crate::error::{FailureKind, failure, raised};
use crate::hook::{Limit, running_handler, waiting};
use crate::job::world;
use crate::open_endpoints;
use clump_am::{Dest, Endpoint, Handler, Name, Payload, Returned, SharedEndpoint, Tag, Token};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// A message that a handler sends: a reply, or a request to a destination.
struct Queued {
    to: Option<Dest>,
    handler: u8,
    words: Vec<u64>,
    payload: Option<Vec<u8>>,
}

/// A handler's view of its message: it keeps what the handler sends until that has returned.
#[pyclass(frozen)]
pub(crate) struct NativeToken {
    from: Name,
    /// Messages in order; `None` once the handler has returned.
    queued: Mutex<Option<Vec<Queued>>>,
    may_reply: bool,
}

impl NativeToken {
    fn queue(&self, message: Queued) -> PyResult<()> {
        let mut queued = self.queued.lock().unwrap_or_else(PoisonError::into_inner);
        let queued = queued.as_mut().ok_or_else(|| {
            failure(FailureKind::Handler, "a token is of use while its handler runs only")
        })?;
        if message.to.is_none() {
            if !self.may_reply {
                return Err(failure(FailureKind::Handler, "a reply is not replied to"));
            }
            if queued.iter().any(|other| other.to.is_none()) {
                return Err(failure(FailureKind::Handler, "a request is replied to once"));
            }
        }
        queued.push(message);
        Ok(())
    }
}

#[pymethods]
impl NativeToken {
    /// The rank that sent the message.
    #[getter]
    fn rank(&self) -> u32 {
        self.from.rank()
    }

    /// The name of the endpoint that sent the message.
    #[getter]
    fn source(&self) -> u64 {
        self.from.to_bits()
    }

    fn reply(&self, handler: u8, words: Vec<u64>, payload: Option<Vec<u8>>) -> PyResult<()> {
        self.queue(Queued { to: None, handler, words, payload })
    }

    fn request(
        &self,
        dest: &NativeDest,
        handler: u8,
        words: Vec<u64>,
        payload: Option<Vec<u8>>,
    ) -> PyResult<()> {
        self.queue(Queued { to: Some(dest.0), handler, words, payload })
    }
}

/// A destination in the translation table of an endpoint.
#[pyclass(frozen)]
pub(crate) struct NativeDest(Dest);

/// An endpoint whose handlers are Python functions.
#[pyclass(frozen)]
pub(crate) struct NativeEndpoint {
    endpoint: RwLock<Option<Arc<SharedEndpoint>>>,
    name: Name,
    max_medium: usize,
}

/// Sends what a handler has queued.
fn send_queued(mut token: Token<'_>, queued: Vec<Queued>) -> clump_am::Result<()> {
    let mut reply = None;
    for message in queued {
        let Queued { to: Some(dest), handler, words, payload } = message else {
            reply = Some(message);
            continue;
        };
        token.defer_bulk(dest, Handler(handler), payload.as_deref(), &words[..])?;
    }
    match reply {
        Some(Queued { handler, words, payload: Some(payload), .. }) => {
            token.reply_bulk(Handler(handler), &payload, &words[..])
        }
        Some(Queued { handler, words, .. }) => token.reply(Handler(handler), &words[..]),
        None => Ok(()),
    }
}

/// Runs a Python function as the handler of a message.
fn handle(
    function: &Py<PyAny>,
    token: Token<'_>,
    words: &[u64],
    payload: Payload<'_>,
) -> PyResult<()> {
    let queued = Python::try_attach(|py| {
        let own = NativeToken {
            from: token.from(),
            queued: Mutex::new(Some(Vec::new())),
            may_reply: token.may_reply(),
        };
        let own = Bound::new(py, own)?;
        let mut bytes = Vec::new();
        payload.append_to(&mut bytes);
        let words = PyTuple::new(py, words)?;
        let done = running_handler(|| function.bind(py).call1((&own, words, buffer(py, bytes)?)));
        // The token is of no use from here on, also to a handler that has failed.
        let taken = own.get().queued.lock().unwrap_or_else(PoisonError::into_inner).take();
        done.map(|_| taken.unwrap_or_default())
    });
    // Without an interpreter, at its end, nothing handles the message.
    let Some(queued) = queued else { return Ok(()) };
    send_queued(token, queued?).map_err(raised)
}

/// Raises what a handler has failed with.
fn report() -> PyResult<()> {
    open_endpoints::take_failure().map_or(Ok(()), Err)
}

fn handler(number: u8) -> PyResult<Handler> {
    match number {
        0 => Err(PyValueError::new_err("handler 0 is that of returned messages: on_returned")),
        _ => Ok(Handler(number)),
    }
}

impl NativeEndpoint {
    fn open_endpoint(&self) -> PyResult<Arc<SharedEndpoint>> {
        if clump_os::forked::is_child() {
            return Err(crate::job::forked());
        }
        let endpoint = self.endpoint.read().unwrap_or_else(PoisonError::into_inner);
        endpoint.clone().ok_or_else(|| failure(FailureKind::Clump, "the endpoint is closed"))
    }

    /// Runs a call of the endpoint without the interpreter's lock; then raises what a handler has
    /// failed with meanwhile.
    fn run<R>(
        &self,
        py: Python<'_>,
        timeout: Limit,
        call: impl FnOnce(&SharedEndpoint) -> clump_am::Result<R>,
    ) -> PyResult<R> {
        let endpoint = self.open_endpoint()?;
        let done = waiting(py, timeout, || {
            let done = call(&endpoint);
            // The last reference to a closed endpoint ends here, without the lock (invariant 1).
            drop(endpoint);
            done
        })?;
        let done = done.map_err(raised);
        report()?;
        done
    }
}

#[pymethods]
impl NativeEndpoint {
    /// Opens an endpoint; `tag`: the access right to it.
    #[new]
    fn open(py: Python<'_>, tag: u64) -> PyResult<Self> {
        let world = world()?;
        let opened = waiting(py, Limit::NONE, || Endpoint::open_shared(world.clump(), Tag(tag)))?;
        let endpoint = Arc::new(opened.map_err(raised)?);
        let (name, max_medium) = (endpoint.name(), endpoint.max_medium());
        open_endpoints::add(&endpoint);
        let endpoint = RwLock::new(Some(endpoint));
        Ok(Self { endpoint, name, max_medium })
    }

    /// The name, by which others map the endpoint.
    #[getter]
    fn name(&self) -> u64 {
        self.name.to_bits()
    }

    /// Most bytes of a payload.
    #[getter]
    fn max_payload(&self) -> usize {
        self.max_medium
    }

    /// Maps the endpoint of that name.
    fn map(&self, py: Python<'_>, name: u64, tag: u64, ordered: bool) -> PyResult<NativeDest> {
        let name = Name::from_bits(name);
        let mapped = self.run(py, Limit::NONE, |endpoint| {
            let map = if ordered { SharedEndpoint::map_ordered } else { SharedEndpoint::map };
            map(endpoint, &name, Tag(tag))
        })?;
        Ok(NativeDest(mapped))
    }

    /// Removes a destination.
    fn unmap(&self, py: Python<'_>, dest: &NativeDest) -> PyResult<()> {
        let dest = dest.0;
        self.run(py, Limit::NONE, |endpoint| endpoint.unmap(dest))
    }

    /// Sets the handler of a number.
    fn set_handler(&self, py: Python<'_>, number: u8, function: Py<PyAny>) -> PyResult<()> {
        let number = handler(number)?;
        let run = move |token: Token<'_>, words: &[u64], payload: Payload<'_>| {
            if let Err(error) = handle(&function, token, words, payload) {
                open_endpoints::keep_failure(error);
            }
        };
        self.run(py, Limit::NONE, |endpoint| endpoint.set_handler(number, run))
    }

    /// Sets the handler of returned messages.
    fn on_returned(&self, py: Python<'_>, function: Py<PyAny>) -> PyResult<()> {
        let run = move |message: &Returned| {
            let called = Python::try_attach(|py| {
                let Returned { dest, reason, reply, handler, words, payload, .. } = message;
                let facts = (dest.rank(), reason.to_string(), *reply, handler.0);
                let words = PyTuple::new(py, words)?;
                let payload = buffer(py, payload.clone())?;
                let (rank, reason, reply, handler) = facts;
                let facts = (rank, reason, reply, handler, words, payload);
                running_handler(|| function.bind(py).call1(facts)).map(|_| ())
            });
            if let Some(Err(error)) = called {
                open_endpoints::keep_failure(error);
            }
        };
        self.run(py, Limit::NONE, |endpoint| endpoint.on_returned(run))
    }

    /// Sends a request, with a payload or without.
    #[pyo3(signature = (dest, number, words, payload=None, timeout=Limit::NONE))]
    fn request(
        &self,
        py: Python<'_>,
        dest: &NativeDest,
        number: u8,
        words: Vec<u64>,
        payload: Option<Bound<'_, PyAny>>,
        timeout: Limit,
    ) -> PyResult<()> {
        let (dest, number) = (dest.0, handler(number)?);
        let taken = chunks(payload.as_slice())?.first().copied();
        self.run(py, timeout, |endpoint| match taken {
            Some(chunk) => {
                // SAFETY: the call keeps the object, and nobody changes it meanwhile.
                let bytes = unsafe { Chunk::bytes(&chunk) };
                endpoint.request_bulk(dest, number, bytes, &words[..])
            }
            None => endpoint.request(dest, number, &words[..]),
        })
    }

    /// Handles what has arrived. Returns how many messages.
    fn poll(&self, py: Python<'_>) -> PyResult<usize> {
        self.run(py, Limit::NONE, SharedEndpoint::poll_network)
    }

    /// Waits until a message has been handled.
    #[pyo3(signature = (timeout=Limit::NONE))]
    fn wait(&self, py: Python<'_>, timeout: Limit) -> PyResult<usize> {
        self.run(py, timeout, SharedEndpoint::wait)
    }

    /// Waits until all requests of the endpoint have been handled or returned.
    #[pyo3(signature = (timeout=Limit::NONE))]
    fn drain(&self, py: Python<'_>, timeout: Limit) -> PyResult<()> {
        self.run(py, timeout, SharedEndpoint::drain)
    }

    /// Closes the endpoint: messages to it are returned from then on.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let taken = self.endpoint.write().unwrap_or_else(PoisonError::into_inner).take();
        waiting(py, Limit::NONE, || drop(taken))?;
        report()
    }
}
