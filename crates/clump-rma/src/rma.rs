//! A thread's access to one-sided operations: its endpoint, operations in flight, fence and quiet.

use crate::error::{ErrorKind, Refusal, Result, refused};
use crate::request_payload::RequestPayload;
use clump_am::{
    AsContext, Dest, Endpoint, Handler, RankContext, RequestNote, SendAttempt, Tag, WaitFor,
};
use clump_onesided::protocol::{MAX_PIECE, TAG, ask, interface_name, tell};
use clump_onesided::{
    AnswerSink, Completion, EncodedRequest, GetWindow, MAX_AHEAD, MIN_AHEAD, Requester, Successor,
};
use clump_os::clock;
use clump_os::sync::{Ordering, fence};
use clump_shm::export::SegmentName;
use clump_shm::name::Name;
use clump_shm::rank::WaitReason;
use clump_trace::EventKind;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// One-sided operations of one thread. Clones share the endpoint and all state.
///
/// ```
/// fn example(
///     context: &std::sync::Arc<clump_am::RankContext>,
///     name: clump_rma::SegmentName, // of a segment, announced by its rank
/// ) -> clump_rma::Result<()> {
///     let rma = clump_rma::Rma::open(context)?;
///     let table = rma.target(name)?;
///     table.put(8, 42_u64)?; // in flight
///     rma.quiet()?; // executed
///     assert_eq!(table.fetch_add(8, 1_u64)?, 42);
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Rma {
    pub(crate) inner: Rc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) endpoint: Endpoint,
    pub(crate) context: Arc<RankContext>,
    pub(crate) books: Rc<RefCell<Requester>>,
    /// Destinations of the nodes' interfaces, once they are mapped.
    dests: Vec<Cell<Option<Dest>>>,
    /// Endpoints of other ranks to which locks were granted from here, by rank and index.
    successors: RefCell<HashMap<(u32, u8), (Name, Dest)>>,
    /// Number of those grants.
    passed: Cell<u64>,
    /// Windows of gets, by node.
    get_windows: Vec<Cell<GetWindow>>,
}

impl Rma {
    /// Opens one-sided operations for this thread. Takes one of the rank's endpoints.
    ///
    /// # Errors
    /// Fails if all endpoints are open.
    pub fn open(rank: &impl AsContext) -> Result<Self> {
        Self::over(Endpoint::open(rank, Tag(TAG))?)
    }

    /// Opens one-sided operations for this thread whose waits are restricted to them: none of their
    /// calls runs a handler of the program, or of another layer, while it waits. For page faults,
    /// and for code that runs inside a handler. Their answers must arrive without such a handler:
    /// see [`Endpoint::open_restricted`]. Takes one of the rank's endpoints.
    ///
    /// # Errors
    /// Fails if all endpoints are open.
    pub fn open_restricted(rank: &impl AsContext) -> Result<Self> {
        Self::over(Endpoint::open_restricted(rank, Tag(TAG))?)
    }

    fn over(endpoint: Endpoint) -> Result<Self> {
        clump_am::belongs_to_runtime(&endpoint)?;
        let (context, nodes) = (endpoint.context().clone(), endpoint.context().nnodes());
        let books = Rc::new(RefCell::new(Requester::new(nodes)));
        equip(&endpoint, &books, context.node().interface_id(0))?;
        debug_assert!(context.node_number() < nodes, "this node is one of the job");
        let dests = (0..nodes).map(|_| Cell::new(None)).collect();
        let get_windows = (0..nodes).map(|_| Cell::default()).collect();
        let (successors, passed) = Default::default();
        let inner = Inner { endpoint, context, books, dests, successors, passed, get_windows };
        Ok(Self { inner: Rc::new(inner) })
    }

    /// Orders operations: those that this thread begins after it on a target come after all that it
    /// began before on targets of the same node. Does not wait.
    pub fn fence(&self) {
        // Between ranks of a node, for readers that use acquire.
        fence(Ordering::SeqCst);
        self.inner.books.borrow_mut().fence();
    }

    /// Waits until everything that this thread began has been executed everywhere.
    ///
    /// An error is reported once, one node at a time, and this thread's operations on other nodes
    /// have been executed then. If a node is lost with operations in flight whose end nothing else
    /// reports, the next `quiet` reports the loss; after that it covers the nodes that are left.
    /// Operations begun on a lost node fail by themselves.
    ///
    /// # Errors
    /// Fails if operations without an answer were refused since the last time, with the first of
    /// them and its reason; if a node is lost ([`Refusal::NodeLost`]); if a rank is lost, and
    /// survivors do not continue.
    pub fn quiet(&self) -> Result<()> {
        fence(Ordering::SeqCst);
        self.inner.notice_losses();
        let nodes = 0..self.inner.context.nnodes();
        let asked: Vec<_> = nodes.clone().map(|node| self.inner.request_quiet(node)).collect();
        debug_assert_eq!(asked.len(), nodes.len(), "each node is asked once");
        let mut result = Ok(());
        for asked in asked {
            let ended = asked.and_then(|cookie| match cookie {
                Some(cookie) => self.inner.await_one(cookie).map(drop),
                None => Ok(()),
            });
            // The requester records if anything was lost with a node.
            let lost = ended.as_ref().is_err_and(|error| error.why() == Some(Refusal::NodeLost));
            result = if lost { result } else { result.and(ended) };
        }
        result?;
        nodes.filter_map(|node| self.inner.failure(node)).next().map_or(Ok(()), Err)
    }

    /// Returns the number of locks of other nodes that this thread has handed to the successor
    /// itself, past their homes.
    pub fn locks_passed(&self) -> u64 {
        self.inner.passed.get()
    }

    /// Handles answers that have arrived; every call that waits does so too, and handles messages
    /// to other endpoints of this thread, unless this access is restricted.
    ///
    /// # Errors
    /// Fails if handling a message fails.
    pub fn poll(&self) -> Result<usize> {
        Ok(self.inner.endpoint.poll()?)
    }

    /// Returns a failure of another endpoint of this thread that a wait has kept, if there is one.
    pub fn take_kept_failure(&self) -> Option<clump_am::Error> {
        self.inner.endpoint.take_kept_failure()
    }
}

/// Sets the handlers of an endpoint.
fn equip(
    endpoint: &Endpoint,
    books: &Rc<RefCell<Requester>>,
    interfaces: u32,
) -> clump_am::Result<()> {
    for number in tell::VALUE..=tell::NEXT {
        let books = books.clone();
        let context = endpoint.context().clone();
        endpoint.set_handler(Handler(number), move |token, words, payload| {
            let node = token.from().rank().saturating_sub(interfaces);
            let cookie = words.first().copied().unwrap_or(0);
            context.note_one_sided(EventKind::Answer, (node, cookie as u32));
            books.borrow_mut().on_answer(number, words, |to| payload.copy_to(to));
        })?;
    }
    let mine = books.clone();
    endpoint.on_returned(move |message| {
        // The rank that would have got a lock has left, and the lock's home is notified.
        let Some(node) = message.dest.rank().checked_sub(interfaces) else { return };
        mine.borrow_mut().on_returned(node, message.handler.0, &message.words);
    })
}

impl Inner {
    /// Sends a request of at most seven words to the interface of `node`.
    pub(crate) fn send(
        &self,
        node: u32,
        handler: u8,
        words: &[u64],
        load: RequestPayload<'_>,
    ) -> Result<()> {
        let memory = self.context.node();
        let direct = node == self.context.node_number() && memory.proxies() == 0;
        debug_assert!(!direct, "this node is operated on directly");
        let long = |bytes: &[u8]| bytes.len() > MAX_PIECE;
        debug_assert!(!matches!(load, RequestPayload::Bytes(bytes) if long(bytes)), "one message");
        let dest = self.node_route(node)?;
        let encoded = self.books.borrow_mut().word(node, handler, words).ok_or_else(lost)?;
        let (handler, words) = (Handler(encoded.handler), encoded.words());
        let bytes = load.len();
        debug_assert!(handler.0 != 0, "interfaces have handlers from 1");
        let sent = match load {
            RequestPayload::Nothing => self.endpoint.request(dest, handler, words),
            RequestPayload::Bytes(bytes) => self.endpoint.request_bulk(dest, handler, bytes, words),
            RequestPayload::Deposit(at, bytes) => {
                self.endpoint.request_long(dest, handler, at, bytes, words)
            }
        };
        if sent.is_err() {
            self.books.borrow_mut().discount(node);
        } else {
            self.note_request(node, &encoded, bytes);
        }
        Ok(sent?)
    }

    /// Notes a request that was sent, with so many bytes of payload: in the rank's trace, and for
    /// the network that is slower on purpose, which delays answers with their requests.
    #[inline]
    fn note_request(&self, node: u32, encoded: &EncodedRequest, bytes: usize) {
        debug_assert!((node as usize) < self.dests.len(), "a node of the job");
        if self.endpoint.is_observed() {
            self.note_observed(node, encoded.cookie(), bytes);
        }
    }

    /// Notes that the next request is one of the fragments of an operation; `continues`: not the
    /// first. On a network that is slower on purpose, all of them are one message.
    #[inline]
    pub(crate) fn note_fragment(&self, continues: bool) {
        if continues && self.endpoint.is_observed() {
            self.endpoint.note_request(RequestNote::NextContinues);
        }
    }

    #[cold]
    fn note_observed(&self, node: u32, cookie: u64, bytes: usize) {
        debug_assert!(node < self.context.nnodes(), "a node of the job");
        debug_assert!(self.endpoint.is_observed(), "there is a trace, or a knob");
        if cookie == 0 {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            self.context.note_one_sided(EventKind::Post, (node, bytes));
        } else {
            self.endpoint.note_request(RequestNote::AnsweredBy(cookie));
            self.context.note_one_sided(EventKind::Ask, (node, cookie as u32));
        }
    }

    /// Sends an encoded request.
    fn send_bare(&self, node: u32, encoded: &EncodedRequest) -> Result<()> {
        debug_assert_ne!(encoded.handler & ask::AFTER, 0, "it comes after all requests before it");
        let handler = Handler(encoded.handler);
        self.endpoint.request(self.node_route(node)?, handler, encoded.words())?;
        self.note_request(node, encoded, 0);
        Ok(())
    }

    /// Returns the destination of a node's interface, mapped first if need be.
    fn node_route(&self, node: u32) -> Result<Dest> {
        let cell = self.dests.get(node as usize).ok_or_else(lost)?;
        if let Some(dest) = cell.get() {
            return Ok(dest);
        }
        let executor = self.context.actor().and_then(|actor| actor.executor_name(node));
        let name = executor.unwrap_or_else(|| interface_name(self.context.node(), node));
        debug_assert!(executor.is_some() || !self.context.node().is_local(name.rank()));
        let dest = self.endpoint.map(&name, Tag(TAG))?;
        cell.set(Some(dest));
        Ok(dest)
    }

    /// Grants a lock whose home is `node` to its successor. Returns false when none is known, or
    /// when it cannot be granted from here now. Never waits.
    pub(crate) fn pass(&self, cookie: u64, node: u32, (position, word): (u64, u64)) -> bool {
        debug_assert_ne!(cookie, 0, "the home finds the claim by its cookie");
        if !self.books.borrow().has_successor(cookie) {
            // The announcement of a successor may have arrived since the last poll. Errors found
            // here are reported by the next call that waits.
            let _ = self.endpoint.poll_network();
        }
        let successor = self.books.borrow_mut().take_successor(cookie, node, position);
        let granted =
            successor.is_some_and(|successor| self.grant(successor, word).unwrap_or(false));
        debug_assert!(!self.books.borrow().has_successor(cookie), "a lock is passed once");
        self.passed.set(self.passed.get() + u64::from(granted));
        granted
    }

    fn grant(&self, successor: Successor, word: u64) -> Result<bool> {
        let node = self.context.node();
        let rank = successor.name.rank();
        if rank >= node.interface_id(0) || node.death_of(rank).is_some() {
            return Ok(false);
        }
        debug_assert_ne!(successor.cookie, 0, "a successor waits for an answer");
        let dest = self.route_to(successor.name)?;
        let granted =
            self.endpoint.try_request(dest, Handler(tell::GRANTED), &successor.grant(word))?;
        Ok(granted == SendAttempt::Sent)
    }

    /// Returns the destination of an endpoint of another rank, mapped first if need be.
    fn route_to(&self, name: Name) -> Result<Dest> {
        let place = (name.rank(), name.index());
        let known = self.successors.borrow().get(&place).copied();
        match known {
            Some((known, dest)) if known == name => return Ok(dest),
            Some((_, dest)) => self.endpoint.unmap(dest)?,
            None => {}
        }
        self.successors.borrow_mut().remove(&place);
        debug_assert!(name.rank() < self.context.node().interface_id(0), "an endpoint of a rank");
        let dest = self.endpoint.map(&name, Tag(TAG))?;
        let before = self.successors.borrow_mut().insert(place, (name, dest));
        debug_assert!(before.is_none(), "the endpoint before it is not mapped any more");
        Ok(dest)
    }

    /// Begins an operation that will be answered; `words` are made with its cookie.
    pub(crate) fn begin<const N: usize>(
        &self,
        node: u32,
        handler: u8,
        sink: AnswerSink,
        words: impl FnOnce(u64) -> [u64; N],
        load: RequestPayload<'_>,
    ) -> Result<u64> {
        // SAFETY: invariant 2 of the crate: callers lend a buffer until they have taken the
        // operation, or waited for it.
        let cookie = unsafe { self.books.borrow_mut().begin_to(node, sink) };
        debug_assert_ne!(cookie, 0, "an answer has a cookie");
        let words = words(cookie);
        debug_assert_eq!(words.get(2), Some(&cookie), "the answer carries the cookie");
        let sent = self.send(node, handler, &words, load);
        if sent.is_err() {
            self.books.borrow_mut().take(cookie);
        }
        sent.map(|()| cookie)
    }

    /// Notifies a node that this thread no longer waits for an answer. There will be one all the
    /// same.
    pub(crate) fn cancel(&self, node: u32, cookie: u64) -> Result<()> {
        let encoded = self.books.borrow().cancel(node, cookie).ok_or_else(lost)?;
        self.send_bare(node, &encoded)
    }

    /// Sends a quiet request to a node. Returns its cookie; `None` if all requests are known to be
    /// executed.
    fn request_quiet(&self, node: u32) -> Result<Option<u64>> {
        let asked = self.books.borrow_mut().quiet(node);
        let Some((cookie, encoded)) = asked else { return Ok(None) };
        debug_assert_eq!(encoded.words().first(), Some(&cookie), "the answer carries the cookie");
        let sent = self.send_bare(node, &encoded);
        if sent.is_err() {
            self.books.borrow_mut().take(cookie);
        }
        sent.map(|()| Some(cookie))
    }

    /// Waits until a node has executed everything.
    pub(crate) fn quiet_node(&self, node: u32) -> Result<()> {
        debug_assert!(node < self.context.nnodes(), "a node of the job");
        match self.request_quiet(node)? {
            Some(cookie) => self.await_one(cookie).map(drop),
            None => Ok(()),
        }
    }

    /// Returns true if requests sent now would have to wait for earlier ones.
    pub(crate) fn is_fenced(&self, node: u32) -> bool {
        self.books.borrow().is_fenced(node)
    }

    /// Returns the lowest rank of a node.
    pub(crate) fn first_rank(&self, node: u32) -> u32 {
        self.context.ranks_of(node).start
    }

    /// Returns the failure of operations without an answer on a node since the last call.
    fn failure(&self, node: u32) -> Option<crate::Error> {
        debug_assert!((node as usize) < self.dests.len(), "a node of the job");
        let mut books = self.books.borrow_mut();
        let Some((count, why, segment, offset)) = books.failure(node) else {
            return books.loss(node).then(|| ErrorKind::NodeLost { node }.into());
        };
        debug_assert!(count > 0, "a failure is of an operation");
        let segment = SegmentName::from_bits(segment);
        Some(ErrorKind::RefusedBefore { count, segment, offset, why }.into())
    }

    /// Records the nodes that are lost by now.
    fn notice_losses(&self) {
        let node = self.context.node();
        if node.job().deaths() == 0 {
            return;
        }
        debug_assert_eq!(self.context.nnodes() as usize, self.dests.len(), "all nodes");
        let lost = (0..self.context.nnodes()).filter(|&number| node.is_node_lost(number));
        lost.for_each(|number| self.books.borrow_mut().lose(number));
    }

    /// Orders an access to words that ranks of this node share, where time is virtual: nothing
    /// acts on them before it.
    #[inline]
    pub(crate) fn order_words(&self) {
        if let Some(actor) = self.context.actor() {
            actor.order_words();
        }
    }

    /// Waits for the end of an operation. Returns its value.
    pub(crate) fn await_one(&self, cookie: u64) -> Result<u64> {
        Ok(self.await_pair(cookie)?.0)
    }

    /// Waits for the end of an operation that returns two words.
    pub(crate) fn await_pair(&self, cookie: u64) -> Result<(u64, u64)> {
        debug_assert_ne!(cookie, 0, "an answer has a cookie");
        let waited = self.endpoint.block_on(&mut Ended { inner: self, cookie });
        let completion_of = self.books.borrow_mut().take(cookie);
        waited?;
        match completion_of {
            Some(Completion::Done(value)) => Ok((value, 0)),
            Some(Completion::Granted(position, word)) => Ok((position, word)),
            Some(Completion::Refused(why, segment, offset)) => {
                Err(refused(SegmentName::from_bits(segment), offset, why))
            }
            Some(Completion::Waiting) | None => {
                clump_bug::bug!("an operation is waited for once, and until it has ended");
                Err(lost())
            }
        }
    }

    /// Returns the fragments of gets from a node that may be in flight.
    pub(crate) fn fragments_ahead(&self, node: u32) -> usize {
        let window = self.get_windows.get(node as usize);
        window.map_or(MIN_AHEAD as usize, |window| window.get().ahead())
    }

    /// Notes that a fragment of a get has ended that was requested at `begun_ns`: its `first`, or a
    /// later one.
    pub(crate) fn note_fragment_end(
        &self,
        node: u32,
        (begun_ns, first): (u64, bool),
        others: usize,
    ) {
        debug_assert!(others < MAX_AHEAD as usize, "in flight with it");
        let Some(cell) = self.get_windows.get(node as usize) else {
            clump_bug::bug!("fragments come from a node of the job");
            return;
        };
        let mut window = cell.get();
        window.on_end(clock::now_ns().saturating_sub(begun_ns), first, others);
        cell.set(window);
    }

    /// Returns true if an operation has ended. Notices nodes that are lost.
    pub(crate) fn has_ended(&self, cookie: u64) -> bool {
        debug_assert_ne!(cookie, 0, "an answer has a cookie");
        let mut books = self.books.borrow_mut();
        if books.completion(cookie) != Some(Completion::Waiting) {
            return true;
        }
        let node = self.context.node();
        if node.job().deaths() == 0 {
            return false;
        }
        match books.node_of(cookie).filter(|&number| node.is_node_lost(number)) {
            Some(number) => {
                books.lose(number);
                debug_assert_ne!(books.completion(cookie), Some(Completion::Waiting));
                true
            }
            None => false,
        }
    }
}

/// Returns the error for an operation whose node is lost.
#[cold]
fn lost() -> crate::Error {
    refused(SegmentName::from_bits(0), 0, Refusal::NodeLost)
}

/// Waits for the end of an operation.
struct Ended<'a> {
    inner: &'a Inner,
    cookie: u64,
}

impl WaitFor for Ended<'_> {
    #[inline]
    fn done(&mut self) -> clump_am::Result<bool> {
        Ok(self.inner.has_ended(self.cookie))
    }

    /// Returns true: the operation happens all the same, and its value would be lost.
    fn keeps_failures(&self) -> bool {
        true
    }

    fn waiting(&self) -> WaitReason {
        WaitReason::Answer { node: self.inner.books.borrow_mut().node_of(self.cookie) }
    }
}
