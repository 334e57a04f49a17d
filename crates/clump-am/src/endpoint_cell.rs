//! A cell for an endpoint: empty or not, owned by one thread or by none, and both may change.
//!
//! `Endpoint` stays with its thread for ever, and `SharedEndpoint` always takes a lock. Interfaces
//! in which endpoints move between threads (the bundles of Active Messages II) keep theirs in
//! cells. A cell lives as long as its owner likes; a caller that uses one whose endpoint has left
//! gets an error.

use crate::context::RankContext;
use crate::core::Core;
use crate::endpoint::Ownership;
use crate::error::{ErrorKind, Result};
use crate::handler::HandlerResult;
use crate::handler_context::DeferredRequest;
use crate::message::{Handler, LayerPayload, LongWords, MAX_CARRIED, MessageKind, OutgoingMessage};
use crate::payload::Payload;
use crate::peer::{Dest, Tag};
use crate::pollable::Pollable;
use crate::progress::Guarded;
use crate::returned::Returned;
use crate::send::send_slowly;
use crate::sender::SendAttempt;
use crate::thread_number::this_thread;
use crate::token::Token;
use clump_net::Progress;
use clump_os::sync::{AtomicBool, AtomicU64, Ordering};
use clump_shm::name::Name;
use clump_shm::segment::Segment;
use clump_shm::slot::INLINE;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

mod polled;

/// Senders that an endpoint admits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Senders with this tag.
    Tag(Tag),
    /// All senders, whatever tag they give.
    Everyone,
    /// No sender.
    Nobody,
}

/// A cell that holds one endpoint, owned by a thread (then no lock is taken) or by none (then any
/// thread may enter, by a lock).
///
/// # Invariants
/// 1. The core is reached only through a [`BorrowedEndpoint`], and there is one at a time: used by
///    the cell's owning thread, which sets `busy` meanwhile, or, while no thread owns the cell, by
///    the thread that holds `lock`.
/// 2. Only a thread that is inside changes the owner, and only from or to itself or none.
#[derive(Debug)]
pub struct EndpointCell {
    /// The owning thread; 0 while there is none.
    thread: AtomicU64,
    /// True while the owning thread is inside.
    busy: AtomicBool,
    lock: Mutex<()>,
    /// The thread that is inside by the lock.
    locked_by: AtomicU64,
    core: UnsafeCell<Option<Guarded>>,
}

// SAFETY: invariant 1; a Guarded is Send.
unsafe impl Sync for EndpointCell {}

impl Default for EndpointCell {
    fn default() -> Self {
        Self::new()
    }
}

impl EndpointCell {
    /// Creates an empty cell that no thread owns.
    pub const fn new() -> Self {
        Self {
            thread: AtomicU64::new(0),
            busy: AtomicBool::new(false),
            lock: Mutex::new(()),
            locked_by: AtomicU64::new(0),
            core: UnsafeCell::new(None),
        }
    }

    /// Opens an endpoint here that admits no senders yet.
    ///
    /// # Errors
    /// The rank has as many endpoints as it may; the cell holds one; another thread owns the cell.
    pub fn open(&self, context: &Arc<RankContext>) -> Result<Name> {
        let core = Core::open(context, nobodys_tag()?)?;
        let name = core.receiver.inbox.name();
        debug_assert!(name.rank() == context.rank(), "another rank's endpoint");
        let space = self.enter_any(true)?;
        // SAFETY: invariant 1; the borrow ends with this statement.
        let core_here = unsafe { &mut *self.core.get() };
        if core_here.is_some() {
            return Err(ErrorKind::Occupied.into());
        }
        *core_here = Some(Guarded(core));
        debug_assert!(self.is_inside(), "the cell was filled from outside");
        drop(space);
        Ok(name)
    }

    /// Closes the endpoint in the cell.
    ///
    /// # Errors
    /// The cell is empty; one of its endpoint's handlers runs on this thread; another thread owns
    /// the cell.
    pub fn close(&self) -> Result<()> {
        let space = self.enter_any(true)?;
        // SAFETY: invariant 1; the borrow ends with this statement.
        let core = unsafe { (*self.core.get()).take() };
        debug_assert!(self.is_inside(), "the cell was emptied from outside");
        let empty = core.is_none();
        drop(core);
        drop(space);
        debug_assert!(!self.is_inside(), "this thread has left");
        if empty { Err(ErrorKind::NoEndpoint.into()) } else { Ok(()) }
    }

    /// Borrows the endpoint for one call. Waits while another thread is inside, if no thread owns
    /// the cell.
    ///
    /// # Errors
    /// The cell is empty; one of its endpoint's handlers runs on this thread; another thread owns
    /// the cell.
    #[inline(always)]
    pub fn enter(&self) -> Result<BorrowedEndpoint<'_>> {
        BorrowedEndpoint::of(self.enter_any(true)?)
    }

    /// Makes this thread the cell's owner; it needs no lock then.
    ///
    /// # Errors
    /// As for [`EndpointCell::enter`], but the cell may be empty.
    pub fn take(&self) -> Result<()> {
        let space = self.enter_any(true)?;
        debug_assert!(self.is_inside(), "invariant 2: the owner changes from inside");
        if space.lock.is_some() {
            self.thread.store(this_thread(), Ordering::Release);
        }
        debug_assert!(self.is_mine(), "the cell is not this thread's");
        Ok(())
    }

    /// Gives up ownership of the cell.
    ///
    /// # Errors
    /// As for [`EndpointCell::take`].
    pub fn let_go(&self) -> Result<()> {
        let space = self.enter_any(true)?;
        debug_assert!(self.is_inside(), "invariant 2: the owner changes from inside");
        if space.lock.is_none() {
            drop(space);
            // SYNC 16: pairs with enter_locked
            self.thread.store(0, Ordering::Release);
        }
        debug_assert!(!self.is_mine(), "the cell is still this thread's");
        Ok(())
    }

    #[inline(always)]
    fn enter_any(&self, wait: bool) -> Result<CellAccess<'_>> {
        if self.thread.load(Ordering::Relaxed) != this_thread() {
            return self.enter_locked(wait);
        }
        // Only this thread writes it while it owns the cell.
        if self.busy.load(Ordering::Relaxed) {
            return Err(ErrorKind::InHandler.into());
        }
        debug_assert_eq!(self.locked_by.load(Ordering::Relaxed), 0, "its owner takes no lock");
        self.busy.store(true, Ordering::Relaxed);
        Ok(CellAccess { endpoint_cell: self, lock: None })
    }

    fn enter_locked(&self, wait: bool) -> Result<CellAccess<'_>> {
        let me = this_thread();
        if self.locked_by.load(Ordering::Relaxed) == me {
            return Err(ErrorKind::InHandler.into());
        }
        let lock = match self.lock.try_lock() {
            Ok(lock) => lock,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) if wait => {
                self.lock.lock().unwrap_or_else(PoisonError::into_inner)
            }
            Err(TryLockError::WouldBlock) => return Err(ErrorKind::OtherThread.into()),
        };
        // SYNC 16: pairs with let_go
        if self.thread.load(Ordering::Acquire) != 0 {
            return Err(ErrorKind::OtherThread.into());
        }
        debug_assert_eq!(self.locked_by.load(Ordering::Relaxed), 0, "two threads hold the lock");
        debug_assert!(!self.busy.load(Ordering::Relaxed), "its owner is inside, and is gone");
        self.locked_by.store(me, Ordering::Relaxed);
        Ok(CellAccess { endpoint_cell: self, lock: Some(lock) })
    }

    /// Returns true if this thread owns the cell.
    #[inline(always)]
    pub fn is_mine(&self) -> bool {
        self.thread.load(Ordering::Relaxed) == this_thread()
    }

    /// Borrows the endpoint for one call, unless another thread is inside.
    ///
    /// # Errors
    /// As for [`EndpointCell::enter`], and if another thread is inside.
    #[inline(always)]
    pub fn try_enter(&self) -> Result<BorrowedEndpoint<'_>> {
        BorrowedEndpoint::of(self.enter_any(false)?)
    }

    /// Returns true if this thread is inside: in a handler of the endpoint.
    pub fn is_inside(&self) -> bool {
        let me = this_thread();
        if self.thread.load(Ordering::Relaxed) == me {
            self.busy.load(Ordering::Relaxed)
        } else {
            self.locked_by.load(Ordering::Relaxed) == me
        }
    }
}

/// Permission to access the endpoint in a cell, until it is dropped.
#[derive(Debug)]
struct CellAccess<'a> {
    endpoint_cell: &'a EndpointCell,
    lock: Option<MutexGuard<'a, ()>>,
}

impl Drop for CellAccess<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let EndpointCell { busy, locked_by, .. } = self.endpoint_cell;
        match &self.lock {
            None => {
                debug_assert!(busy.load(Ordering::Relaxed), "its owner was inside");
                busy.store(false, Ordering::Relaxed);
            }
            Some(_) => {
                debug_assert_eq!(locked_by.load(Ordering::Relaxed), this_thread(), "by the lock");
                locked_by.store(0, Ordering::Relaxed);
            }
        }
    }
}

/// The endpoint in a cell, borrowed for one call.
#[derive(Debug)]
pub struct BorrowedEndpoint<'a> {
    core: &'a mut Core,
    space: CellAccess<'a>,
}

impl<'a> BorrowedEndpoint<'a> {
    #[inline(always)]
    fn of(space: CellAccess<'a>) -> Result<Self> {
        debug_assert!(space.endpoint_cell.is_inside(), "borrowed from outside");
        // SAFETY: invariant 1; the space outlives the borrow.
        match unsafe { &mut *space.endpoint_cell.core.get() } {
            Some(Guarded(core)) => Ok(Self { core, space }),
            None => Err(ErrorKind::NoEndpoint.into()),
        }
    }

    /// Returns the endpoint's global name.
    pub fn name(&self) -> Name {
        self.core.handler_context.name
    }

    /// Handles arrived messages; returns their number. Never blocks.
    ///
    /// # Errors
    /// As for [`crate::Endpoint::poll`].
    #[inline(always)]
    pub fn poll(&mut self) -> Result<usize> {
        self.core.poll()
    }

    /// Sends a request with up to [`crate::MAX_CARRIED`] words, and polls this endpoint. Without
    /// room it leaves the cell and polls `bundle` until there is some, or until the rank's send
    /// timeout.
    ///
    /// # Errors
    /// As for [`EndpointCell::enter`] and [`crate::Endpoint::request_long`].
    #[inline(always)]
    pub fn send(
        self,
        bundle: &impl Pollable,
        (dest, handler): (Dest, Handler),
        words: &[u64],
        payload: LayerPayload<'_>,
    ) -> Result<()> {
        let (mut space, mut progress) = (LongWords::default(), Progress::default());
        let message = OutgoingMessage::new(handler, words, payload, &mut space)?;
        let sent = if message.kind == MessageKind::Short && words.len() <= INLINE {
            self.core.attempt_short(dest, handler, words)?
        } else {
            self.core.attempt(dest, &message, &mut progress)?
        };
        self.core.poll_after_send();
        if sent == SendAttempt::Sent {
            return Ok(());
        }
        let is_begun = progress != Progress::default();
        debug_assert!(!is_begun || message.kind == MessageKind::Long, "sent in parts");
        debug_assert!(words.len() <= MAX_CARRIED, "more words than a message carries");
        let (context, endpoint_cell) =
            (self.core.handler_context.context.clone(), self.space.endpoint_cell);
        drop(self);
        send_slowly(&endpoint_cell, bundle, &context, dest, &message, progress)
    }

    /// Sends if there is room now. Does not poll. If a long payload is partly packed, the rest is
    /// copied, and sent by later polls; until then there is no room for another one.
    ///
    /// # Errors
    /// As for [`crate::Endpoint::try_request`].
    pub fn try_send(
        &mut self,
        (dest, handler): (Dest, Handler),
        words: &[u64],
        payload: LayerPayload<'_>,
    ) -> Result<SendAttempt> {
        let (mut space, mut progress) = (LongWords::default(), Progress::default());
        let message = OutgoingMessage::new(handler, words, payload, &mut space)?;
        let is_long = message.kind == MessageKind::Long;
        let deferred = &self.core.handler_context.backlog.deferred;
        if is_long && deferred.iter().any(|earlier| earlier.message.is_long()) {
            return Ok(SendAttempt::Full);
        }
        let sent = self.core.attempt(dest, &message, &mut progress)?;
        debug_assert!(is_long || progress == Progress::default(), "a part of a short message");
        if sent == SendAttempt::Sent || progress == Progress::default() {
            return Ok(sent);
        }
        debug_assert!(is_long, "only long messages are packed in parts");
        let backlog = &mut self.core.handler_context.backlog;
        backlog.defer(dest, message.to_kept(), progress);
        let is_begun = |deferred: &&DeferredRequest| deferred.message.is_long();
        debug_assert_eq!(backlog.deferred.iter().filter(is_begun).count(), 1, "two are begun");
        Ok(SendAttempt::Sent)
    }

    /// Maps an endpoint's name into the translation table.
    ///
    /// # Errors
    /// As for [`crate::Endpoint::map`].
    pub fn map(&mut self, name: Name, tag: Tag) -> Result<Dest> {
        self.core.map(name, tag, false)
    }

    /// Takes a destination out of the table.
    ///
    /// # Errors
    /// The table has no such destination.
    pub fn unmap(&mut self, dest: Dest) -> Result<()> {
        self.core.sender.translation.remove(dest)
    }

    /// Returns true if a deferred request is addressed to `dest`, which is not to be unmapped
    /// before it is sent.
    pub fn has_deferred(&self, dest: Dest) -> bool {
        self.core.handler_context.backlog.has_deferred(dest)
    }

    /// Sets which senders are admitted from now on.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn set_access(&mut self, access: Access) -> Result<()> {
        let (tag, everyone) = match access {
            Access::Tag(tag) => (tag, false),
            Access::Everyone => (nobodys_tag()?, true),
            Access::Nobody => (nobodys_tag()?, false),
        };
        self.core.handler_context.block.set_tag(tag.0);
        self.core.handler_context.block.set_everyone(everyone);
        debug_assert!(self.space.endpoint_cell.is_inside(), "changed from outside");
        Ok(())
    }

    /// Sets the handler of that number.
    ///
    /// # Errors
    /// Handler 0, which is for returned messages.
    pub fn set_handler<R: HandlerResult>(
        &mut self,
        handler: Handler,
        run: impl FnMut(Token<'_>, &[u64], Payload<'_>) -> R + Send + 'static,
    ) -> Result<()> {
        self.core.receiver.handlers.table.set(handler, run)
    }

    /// Sets handler 0, for returned messages.
    pub fn on_returned(&mut self, run: impl FnMut(&Returned) + Send + 'static) {
        self.core.receiver.handlers.on_returned = Some(Box::new(run));
    }

    /// Exports memory for deposits: `bytes` of it, which later calls let grow up to `reserved`.
    ///
    /// # Errors
    /// Space or memory has run out; more than was reserved.
    pub fn export_growing(&mut self, reserved: u64, bytes: u64) -> Result<Segment> {
        self.core.export_growing(reserved, bytes)
    }
}

impl Deref for BorrowedEndpoint<'_> {
    type Target = Core;
    fn deref(&self) -> &Core {
        self.core
    }
}

impl DerefMut for BorrowedEndpoint<'_> {
    fn deref_mut(&mut self) -> &mut Core {
        self.core
    }
}

impl<'b> Ownership for &'b EndpointCell {
    type Cell = EndpointCell;

    fn cell(&self) -> &EndpointCell {
        self
    }

    type Guard<'a>
        = BorrowedEndpoint<'a>
    where
        'b: 'a;

    fn core(&self) -> Result<BorrowedEndpoint<'_>> {
        self.enter()
    }
}

impl EndpointCell {
    /// Calls `run` with the endpoint, if there is one and this thread may use it now.
    fn if_free<T: Default>(&self, wait: bool, run: impl FnOnce(&mut Core) -> T) -> T {
        match self.enter_any(wait).and_then(BorrowedEndpoint::of) {
            Ok(mut inside) => run(&mut inside),
            Err(_) => T::default(),
        }
    }
}

/// Returns a random tag that no sender has.
fn nobodys_tag() -> Result<Tag> {
    let random = clump_os::process::random();
    random.map(Tag).map_err(|error| clump_shm::Error::from(error).into())
}
