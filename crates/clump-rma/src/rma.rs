//! A thread's access to one-sided operations: its endpoint, what it has under way, fence and quiet.

use crate::books::{Books, Fate, Sink, Way};
use crate::error::{ErrorKind, Result, Why, refused};
use crate::protocol::{TAG, ask, atomic_of, interface_name, tell};
use crate::target::Target;
use clump_am::{AsContext, Endpoint, Handler, RankContext, Returned, Tag, WaitFor};
use clump_os::sync::{Ordering, fence};
use clump_shm::export::SegmentName;
use clump_shm::rank::Waiting;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// One-sided operations of one thread. Clones are the same.
///
/// ```
/// fn example(
///     context: &std::sync::Arc<clump_am::RankContext>,
///     name: clump_rma::SegmentName, // of a segment, as its rank has told us
/// ) -> clump_rma::Result<()> {
///     let rma = clump_rma::Rma::open(context)?;
///     let table = rma.target(name)?;
///     table.put(8, 42_u64)?; // on its way
///     rma.quiet()?; // there
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
    pub(crate) books: Rc<RefCell<Books>>,
}

/// What a request carries besides words.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Load<'a> {
    Nothing,
    Bytes(&'a [u8]),
    /// Deposited at this offset of the interface's segment.
    Deposit(u64, &'a [u8]),
}

impl Rma {
    /// Opens one-sided operations for this thread. Takes one of the rank's endpoints.
    ///
    /// # Errors
    /// All endpoints are open.
    pub fn open(rank: &impl AsContext) -> Result<Self> {
        let context = rank.context().clone();
        let endpoint = Endpoint::open(&context, Tag(TAG))?;
        let books = Rc::new(RefCell::new(Books::new(context.node().nnodes())));
        equip(&endpoint, &books, context.node().interface_id(0));
        Ok(Self { inner: Rc::new(Inner { endpoint, context, books }) })
    }

    /// The segment of that name, to operate on. Whether it is still exported on another node shows when
    /// an operation reaches it.
    ///
    /// # Errors
    /// It is to be on this node, and is not; address space has run out.
    pub fn target(&self, name: SegmentName) -> Result<Target> {
        Target::open(&self.inner, name)
    }

    /// Orders: what this thread begins after it on a target comes after all that it began before on
    /// targets of the same node. Does not wait.
    pub fn fence(&self) {
        // Between ranks of a node, for those who read with acquire.
        fence(Ordering::SeqCst);
        for way in &mut self.inner.books.borrow_mut().ways {
            way.fence = way.sent;
        }
    }

    /// Waits until everything that this thread began has happened everywhere.
    ///
    /// # Errors
    /// Operations without an answer were refused since the last time: which was the first and why; a node
    /// or rank is lost.
    pub fn quiet(&self) -> Result<()> {
        fence(Ordering::SeqCst);
        let nodes = 0..self.inner.context.node().nnodes();
        let asked: Result<Vec<u64>> =
            nodes.clone().filter_map(|node| self.inner.ask_quiet(node).transpose()).collect();
        let waited = asked.and_then(|cookies| self.inner.await_all(&cookies));
        let told = nodes.filter_map(|node| self.inner.failure(node)).next();
        waited.and(told.map_or(Ok(()), Err))
    }

    /// Handles what has arrived; every call that waits does so too.
    ///
    /// # Errors
    /// What handling finds.
    pub fn poll(&self) -> Result<usize> {
        Ok(self.inner.endpoint.poll()?)
    }
}

/// Sets the handlers of an endpoint.
fn equip(endpoint: &Endpoint, books: &Rc<RefCell<Books>>, interfaces: u32) {
    let on = |number: u8, run: fn(&mut Books, u64, &[u64])| {
        let books = books.clone();
        endpoint.set_handler(Handler(number), move |_, words, _| {
            if let Some((&cookie, words)) = words.split_first() {
                run(&mut books.borrow_mut(), cookie, words);
            }
        });
    };
    on(tell::VALUE, |books, cookie, words| {
        books.on_value(cookie, words.first().copied().unwrap_or(0));
    });
    on(tell::DONE, |books, cookie, _| books.on_value(cookie, 0));
    on(tell::QUIET, |books, cookie, words| books.on_quiet(cookie, words));
    on(tell::GRANTED, |books, cookie, words| {
        if let &[position, word] = words {
            books.settle(cookie, Fate::Granted(position, word));
        }
    });
    on(tell::FAILED, |books, cookie, words| {
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        books.settle(cookie, Fate::Refused(Why::from_bits(word(0)), word(1), word(2)));
    });
    let mine = books.clone();
    endpoint.set_handler(Handler(tell::BYTES), move |_, words, payload| {
        if let Some(&cookie) = words.first() {
            mine.borrow_mut().on_bytes(cookie, &payload);
        }
    });
    let mine = books.clone();
    endpoint.on_returned(move |message| {
        let node = message.dest.rank().saturating_sub(interfaces);
        let (counted, cookie) = cookie_of(message);
        let word = |at: usize| message.words.get(at).copied().unwrap_or(0);
        mine.borrow_mut().on_returned(node, counted, cookie, (word(0), word(1)));
    });
}

/// Whether a request that came back counts as one, and its cookie, or 0.
fn cookie_of(message: &Returned) -> (bool, u64) {
    let handler = message.handler.0 & !ask::AFTER;
    let word = |at: usize| message.words.get(at).copied().unwrap_or(0);
    match atomic_of(handler) {
        Some((_, _, answered)) => (true, if answered { word(2) } else { 0 }),
        None if matches!(handler, ask::QUIET | ask::CANCEL) => (false, word(0)),
        None => (true, word(2)),
    }
}

impl Inner {
    /// Sends a request to the interface of `node`. `words` are at most seven.
    pub(crate) fn send(&self, node: u32, handler: u8, words: &[u64], load: Load<'_>) -> Result<()> {
        let (dest, after) = self.way(node, |way| {
            way.sent += 1;
            (way.dest, (way.fence > way.known).then_some(way.fence))
        })?;
        let Some(dest) = dest else { return Err(lost()) };
        let (mut all, mut count, mut handler) = ([0; 8], words.len(), handler);
        if let Some(part) = all.get_mut(..count) {
            part.copy_from_slice(words);
        }
        if let (Some(after), Some(place)) = (after, all.get_mut(count)) {
            *place = after;
            (count, handler) = (count + 1, handler | ask::AFTER);
        }
        let words = all.get(..count).unwrap_or_default();
        let handler = Handler(handler);
        let sent = match load {
            Load::Nothing => self.endpoint.request(dest, handler, words),
            Load::Bytes(bytes) => self.endpoint.request_bulk(dest, handler, bytes, words),
            Load::Deposit(at, bytes) => self.endpoint.request_long(dest, handler, at, bytes, words),
        };
        if sent.is_err() {
            self.way(node, |way| way.sent = way.sent.saturating_sub(1))?;
        }
        Ok(sent?)
    }

    /// Looks at the way to a node, which is opened first if need be.
    fn way<T>(&self, node: u32, look: impl FnOnce(&mut Way) -> T) -> Result<T> {
        let mut books = self.books.borrow_mut();
        let Some(way) = books.ways.get_mut(node as usize) else { return Err(lost()) };
        if way.dest.is_none() {
            let name = interface_name(self.context.node(), node);
            way.dest = Some(self.endpoint.map(&name, Tag(TAG))?);
        }
        if way.lost { Err(lost()) } else { Ok(look(way)) }
    }

    /// Begins an operation that will be answered; `words` are made with its cookie.
    pub(crate) fn begin<const N: usize>(
        &self,
        node: u32,
        handler: u8,
        sink: Sink,
        words: impl FnOnce(u64) -> [u64; N],
        load: Load<'_>,
    ) -> Result<u64> {
        let cookie = self.books.borrow_mut().enter(node, sink);
        let sent = self.send(node, handler, &words(cookie), load);
        if sent.is_err() {
            self.books.borrow_mut().take(cookie);
        }
        sent.map(|()| cookie)
    }

    /// Tells a node that nobody waits for an answer any more. There will be one all the same.
    pub(crate) fn cancel(&self, node: u32, cookie: u64) -> Result<()> {
        let (dest, sent) = self.way(node, |way| (way.dest, way.sent))?;
        let Some(dest) = dest else { return Err(lost()) };
        // It must not arrive before what it is about.
        let handler = Handler(ask::CANCEL | ask::AFTER);
        Ok(self.endpoint.request(dest, handler, &[cookie, sent])?)
    }

    /// Asks a node to say when it has executed everything; `None` if it is known to have.
    fn ask_quiet(&self, node: u32) -> Result<Option<u64>> {
        let (dest, sent) = {
            let books = self.books.borrow();
            let Some(way) = books.ways.get(node as usize) else { return Ok(None) };
            match way.dest {
                Some(dest) if way.sent > way.known => (dest, way.sent),
                _ => return Ok(None),
            }
        };
        let cookie = self.books.borrow_mut().enter(node, Sink::Value);
        let handler = Handler(ask::QUIET | ask::AFTER);
        self.endpoint.request(dest, handler, &[cookie, sent])?;
        Ok(Some(cookie))
    }

    /// Waits until a node has executed everything.
    pub(crate) fn quiet_node(&self, node: u32) -> Result<()> {
        match self.ask_quiet(node)? {
            Some(cookie) => self.await_one(cookie).map(drop),
            None => Ok(()),
        }
    }

    /// Whether requests sent now would have to wait for earlier ones.
    pub(crate) fn is_fenced(&self, node: u32) -> bool {
        let books = self.books.borrow();
        books.ways.get(node as usize).is_some_and(|way| way.fence > way.known)
    }

    /// The lowest rank of a node.
    pub(crate) fn first_rank(&self, node: u32) -> u32 {
        let memory = self.context.node();
        let ranks = 0..memory.ranks() as u32;
        ranks.clone().find(|&rank| memory.node_of(rank) == node).unwrap_or(ranks.end)
    }

    /// What operations without an answer failed with on a node since that was last asked.
    fn failure(&self, node: u32) -> Option<crate::Error> {
        let mut books = self.books.borrow_mut();
        let way = books.ways.get_mut(node as usize)?;
        let (why, segment, offset) = way.failure.take()?;
        let count = way.failed - std::mem::replace(&mut way.reported, way.failed);
        let segment = SegmentName::from_bits(segment);
        Some(ErrorKind::RefusedBefore { count, segment, offset, why }.into())
    }

    /// Waits for the end of an operation; gives its value.
    pub(crate) fn await_one(&self, cookie: u64) -> Result<u64> {
        Ok(self.await_pair(cookie)?.0)
    }

    /// The same for an answer of two words.
    pub(crate) fn await_pair(&self, cookie: u64) -> Result<(u64, u64)> {
        let waited = self.endpoint.block_on(&mut Ended { inner: self, cookie });
        let fate = self.books.borrow_mut().take(cookie);
        waited?;
        match fate {
            Some(Fate::Done(value)) => Ok((value, 0)),
            Some(Fate::Granted(position, word)) => Ok((position, word)),
            Some(Fate::Refused(why, segment, offset)) => {
                Err(refused(SegmentName::from_bits(segment), offset, why))
            }
            _ => Err(lost()),
        }
    }

    /// Waits for the ends of operations; gives the first failure.
    pub(crate) fn await_all(&self, cookies: &[u64]) -> Result<()> {
        let mut result = Ok(());
        for &cookie in cookies {
            result = result.and(self.await_one(cookie).map(drop));
        }
        result
    }

    /// Whether an operation has ended. Notices nodes that are lost.
    pub(crate) fn has_ended(&self, cookie: u64) -> bool {
        let mut books = self.books.borrow_mut();
        if !matches!(books.fate(cookie), Some(Fate::Waiting(_))) {
            return true;
        }
        let node = self.context.node();
        if node.job().deaths() == 0 {
            return false;
        }
        match books.node_of(cookie).filter(|&number| node.is_node_lost(number)) {
            Some(number) => {
                books.lose(number);
                true
            }
            None => false,
        }
    }
}

/// The node of an operation is lost.
#[cold]
fn lost() -> crate::Error {
    refused(SegmentName::from_bits(0), 0, Why::NodeLost)
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

    fn waiting(&self) -> Waiting {
        Waiting::Condition
    }
}
