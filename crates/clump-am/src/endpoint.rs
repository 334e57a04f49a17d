//! The endpoint as programs use it.

mod events;
mod handlers;
mod ownership;
mod sends;
mod shared_core;
mod waits;

pub use events::Events;
pub use ownership::{MultiThread, Ownership, SingleThread, is_in_handler};

use crate::context::RankContext;
use crate::core::Core;
use crate::emulation::RequestNote;
use crate::error::Result;
use crate::give_way::{give_way, note_arrival};
use crate::peer::{Dest, Tag};
use crate::pollable::Pollable;
use crate::progress::{block_on, enroll, take_kept_failure};
use crate::region::Region;
use crate::wait_for::{Condition, WaitFor};

use clump_shm::backoff::PollBackoff;
use clump_shm::name::Name;
use clump_shm::segment::Segment;
use shared_core::SharedCore;
use std::cell::{RefCell, RefMut};
use std::rc::Rc;
use std::sync::Arc;
use waits::{Drained, Event};

/// An object that belongs to a rank: the runtime object of a program.
pub trait AsContext {
    /// Returns the rank's context.
    fn context(&self) -> &Arc<RankContext>;
}

impl AsContext for Arc<RankContext> {
    fn context(&self) -> &Arc<RankContext> {
        self
    }
}

/// An endpoint of a virtual network (paper 000, 2.2).
///
/// `Endpoint` belongs to the thread that opened it (it is neither `Send` nor `Sync`); its calls
/// take no lock, and its handlers may hold whatever that thread holds. [`SharedEndpoint`] may be
/// used from any thread, one call at a time; its handlers must be `Send`. A rank may have up to 32
/// of either, in any of its threads. Clones are the same endpoint.
#[derive(Debug, Clone)]
pub struct Endpoint<H = SingleThread> {
    context: Arc<RankContext>,
    name: Name,
    hold: H,
    events: std::cell::Cell<Events>,
}

/// Returns an endpoint as waiting loops poll it: for what polls along with the waits of other
/// endpoints of a thread ([`crate::poll_also`]).
pub fn polled<H: Ownership>(endpoint: &Endpoint<H>) -> &impl Pollable {
    endpoint.hold.cell()
}

/// Makes an endpoint one of the runtime: where time is virtual, its handlers are no computation of
/// the program.
///
/// # Errors
/// Another call on it is under way.
pub fn belongs_to_runtime<H: Ownership>(endpoint: &Endpoint<H>) -> Result<()> {
    if let Some(inbox) = &mut endpoint.hold.core()?.handler_context.virtual_inbox {
        debug_assert!(!inbox.is_waiting(), "no message has come yet");
        inbox.of_runtime = true;
    }
    Ok(())
}

/// An endpoint that any thread may use.
pub type SharedEndpoint = Endpoint<MultiThread>;

// SAFETY: everything in it is Sync but the event mask, which shared endpoints do not change.
unsafe impl Sync for Endpoint<MultiThread> {}

impl Endpoint<SingleThread> {
    /// Opens an endpoint that only this thread will use.
    ///
    /// # Errors
    /// The rank has as many endpoints as it may; the process is a child by `fork`.
    pub fn open(rank: &impl AsContext, tag: Tag) -> Result<Self> {
        let context = rank.context().clone();
        let core = Core::open(&context, tag)?;
        let name = core.receiver.inbox.name();
        let core = Rc::new(RefCell::new(core));
        enroll(&core);
        debug_assert!(core.in_bundle(), "other calls of this thread poll it");
        Ok(Self { context, name, hold: SingleThread(core), events: Default::default() })
    }

    /// Opens an endpoint that only this thread will use, and whose waits are restricted to it: a
    /// call that blocks on it handles messages of this endpoint alone, and no call on another
    /// endpoint handles any of it. For waits inside a handler, or a page fault, in which no other
    /// handler of the program may run.
    ///
    /// Meanwhile messages to other endpoints of this thread are left in their queues, and their
    /// senders find no room in the end. So a restricted wait must not depend on what a handler of
    /// another endpoint of this thread does, here or at a rank that waits for this one.
    ///
    /// # Errors
    /// As for [`Endpoint::open`].
    pub fn open_restricted(rank: &impl AsContext, tag: Tag) -> Result<Self> {
        let context = rank.context().clone();
        let mut core = Core::open(&context, tag)?;
        core.restricted = true;
        let name = core.receiver.inbox.name();
        let hold = SingleThread(Rc::new(RefCell::new(core)));
        debug_assert!(!hold.cell().in_bundle(), "other calls would poll it");
        Ok(Self { context, name, hold, events: Default::default() })
    }

    /// Opens an endpoint that any thread may use.
    ///
    /// # Errors
    /// As for [`Endpoint::open`].
    pub fn open_shared(rank: &impl AsContext, tag: Tag) -> Result<SharedEndpoint> {
        let context = rank.context().clone();
        let core = Core::open(&context, tag)?;
        let name = core.receiver.inbox.name();
        let hold = MultiThread(Arc::new(SharedCore::new(core)));
        debug_assert!(!hold.cell().in_bundle(), "an endpoint of all threads is in no bundle");
        Ok(Endpoint { context, name, hold, events: Default::default() })
    }

    /// Borrows the state for one call.
    pub(crate) fn borrow(&self) -> Result<RefMut<'_, Core>> {
        self.hold.core()
    }

    /// Sets the events that end an [`Endpoint::wait`].
    pub fn set_event_mask(&self, events: Events) {
        self.events.set(events);
    }
}

impl<H: Ownership> Endpoint<H> {
    /// Returns the endpoint's global name.
    pub fn name(&self) -> Name {
        self.name
    }

    /// Returns the right of access that senders need now.
    ///
    /// # Errors
    /// Inside one of the endpoint's handlers.
    pub fn tag(&self) -> Result<Tag> {
        Ok(Tag(self.hold.core()?.handler_context.block.tag()))
    }

    /// Changes the tag: senders with the old one are refused from now on.
    ///
    /// # Errors
    /// Inside one of the endpoint's handlers.
    pub fn set_tag(&self, tag: Tag) -> Result<()> {
        self.hold.core()?.handler_context.block.set_tag(tag.0);
        Ok(())
    }

    /// Maps an endpoint's name into the translation table. Purely local: a wrong name or tag shows
    /// when a message is sent (it is returned).
    ///
    /// # Errors
    /// Memory cannot be mapped; inside one of the endpoint's handlers.
    pub fn map(&self, name: &Name, tag: Tag) -> Result<Dest> {
        self.hold.core()?.map(*name, tag, false)
    }

    /// Maps an endpoint's name so that requests to it are handled in the order in which they were
    /// sent. With [`Endpoint::map`], messages between nodes may overtake each other (those of one
    /// node never do).
    ///
    /// # Errors
    /// As for [`Endpoint::map`].
    pub fn map_ordered(&self, name: &Name, tag: Tag) -> Result<Dest> {
        self.hold.core()?.map(*name, tag, true)
    }

    /// Removes a destination from the table. Messages already sent are still delivered, or
    /// returned.
    ///
    /// # Errors
    /// The table has no such destination; inside one of the endpoint's handlers.
    pub fn unmap(&self, dest: Dest) -> Result<()> {
        self.hold.core()?.sender.translation.remove(dest)
    }

    /// Returns the largest payload of a medium message on this node, in bytes.
    pub fn max_medium(&self) -> usize {
        self.context.node().geometry().max_medium()
    }

    /// Exports `bytes` bytes of zeroed memory for deposits. Once per endpoint.
    ///
    /// # Errors
    /// The endpoint has a segment; space or memory has run out; inside one of the endpoint's
    /// handlers.
    pub fn export_segment(&self, bytes: u64) -> Result<Segment> {
        self.hold.core()?.export(bytes)
    }

    /// Takes deposits in a region that this rank has registered, which one-sided operations access
    /// under its name, too. Once per endpoint, instead of [`Endpoint::export_segment`].
    ///
    /// # Errors
    /// The endpoint has a segment; the region is another rank's, or has no bytes; it cannot be
    /// mapped; inside one of the endpoint's handlers.
    pub fn use_region(&self, region: &Region) -> Result<Segment> {
        self.hold.core()?.use_region(region)
    }

    /// Handles arrived messages; returns their number. Does not wait for any; a program that only
    /// polls, and finds nothing, yields to other runnable threads, for some 200 us at most if
    /// nothing arrives.
    ///
    /// # Errors
    /// A handler fails, or has failed in a call that sent something meanwhile; a message is
    /// returned and handler 0 is not set; a peer sent or wrote invalid data; inside one of the
    /// endpoint's handlers.
    #[inline(always)]
    pub fn poll(&self) -> Result<usize> {
        let mut core = self.hold.core()?;
        let (handled, more) = core.begin_poll()?;
        if more { self.poll_on(core, handled) } else { Ok(handled) }
    }

    /// Performs what few polls have to do: handle queues and the network, and yield.
    #[cold]
    #[inline(never)]
    fn poll_on(&self, mut core: H::Guard<'_>, handled: usize) -> Result<usize> {
        let (handled, idle) = core.end_poll(handled)?;
        if !idle {
            return Ok(handled);
        }
        debug_assert_eq!(handled, 0, "a poll that finds messages is not idle");
        let only_polled = core.has_only_polled();
        drop(core);
        let gave_way = give_way(&self.context, self.hold.cell(), only_polled)?;
        let mut core = self.hold.core()?;
        core.schedule.begin_window(PollBackoff::window(self.context.spin_policy()));
        debug_assert!(!core.schedule.is_idle_window_due(), "a window ended before its first poll");
        if !gave_way {
            return Ok(0);
        }
        let handled = core.poll_in_wait()?;
        if handled > 0 {
            note_arrival();
        }
        Ok(handled)
    }

    /// Polls, and polls the network even if that is not due: messages that have arrived are found.
    ///
    /// # Errors
    /// As for [`Endpoint::poll`].
    pub fn poll_network(&self) -> Result<usize> {
        let mut core = self.hold.core()?;
        core.schedule.network_next();
        core.poll()
    }

    /// Polls until `condition` holds; sleeps if that takes long.
    ///
    /// # Errors
    /// A rank dies, when survivors do not continue; as for [`Endpoint::poll`].
    #[inline]
    pub fn poll_until(&self, condition: impl FnMut() -> bool) -> Result<()> {
        drop(self.hold.core()?);
        block_on(&self.context, self.hold.cell(), &mut Condition(condition, None))
    }

    /// Polls as [`Endpoint::poll_until`] does, for the answer of rank `peer` to a call: that rank
    /// is reported to observers of a long wait.
    ///
    /// # Errors
    /// As for [`Endpoint::poll_until`].
    pub fn poll_until_answer(&self, peer: u32, condition: impl FnMut() -> bool) -> Result<()> {
        drop(self.hold.core()?);
        debug_assert!(self.context.node().peer(peer).is_some(), "a rank of the job answers");
        block_on(&self.context, self.hold.cell(), &mut Condition(condition, Some(peer)))
    }

    /// Blocks until an event of the mask: by default, until at least one message was handled.
    /// Returns how many were.
    ///
    /// # Errors
    /// As for [`Endpoint::poll_until`].
    pub fn wait(&self) -> Result<usize> {
        let before = self.hold.core()?.handled();
        let mut event =
            Event { hold: &self.hold, name: self.name, events: &self.events, before, handled: 0 };
        block_on(&self.context, self.hold.cell(), &mut event)?;
        debug_assert!(event.handled > 0, "a message was handled");
        Ok(usize::try_from(event.handled).unwrap_or(usize::MAX))
    }

    /// Blocks until every request that this endpoint has sent was handled or returned: its handler
    /// has returned at the target, or handler 0 here. Requests that handlers here have deferred
    /// count. Replies, also those of the targets' handlers to these requests, are not waited for.
    ///
    /// # Errors
    /// As for [`Endpoint::poll_until`].
    pub fn drain(&self) -> Result<()> {
        let mut drained = Drained { hold: &self.hold, asked: false };
        block_on(&self.context, self.hold.cell(), &mut drained)
    }

    /// Polls once, and returns true if [`Endpoint::drain`] would return at once. Never blocks.
    ///
    /// # Errors
    /// As for [`Endpoint::poll`].
    pub fn try_drain(&self) -> Result<bool> {
        let mut core = self.hold.core()?;
        core.schedule.network_next();
        core.poll()?;
        core.housekeeping()?;
        let drained = core.is_drained();
        debug_assert!(
            !drained || core.handler_context.backlog.deferred.is_empty(),
            "a deferred request is not sent yet"
        );
        Ok(drained)
    }

    /// Holds requests of other endpoints back until [`Endpoint::release`]: no handler runs for one,
    /// whichever call polls, and in the end their senders find no room. Replies and returned
    /// messages are handled, so blocking calls continue to work. For a rank that is still inside a
    /// collective, to which others send messages that belong after it.
    ///
    /// A rank that waits for the effect of a held request waits until the release, and so does
    /// another rank's [`Endpoint::drain`]. On a node with proxies, and only where this endpoint has
    /// more senders than lanes, replies from other nodes may be held back with requests.
    ///
    /// # Errors
    /// Inside one of the endpoint's handlers.
    pub fn hold(&self) -> Result<()> {
        let mut core = self.hold.core()?;
        core.receiver.inbox.hold();
        debug_assert!(core.receiver.inbox.is_holding(), "requests are still handled");
        Ok(())
    }

    /// Lets requests be handled again, from the next poll on. Without effect if they are not held.
    ///
    /// # Errors
    /// Inside one of the endpoint's handlers.
    pub fn release(&self) -> Result<()> {
        let mut core = self.hold.core()?;
        core.receiver.inbox.release();
        debug_assert!(!core.receiver.inbox.is_holding(), "requests are handled again");
        core.schedule.network_next();
        Ok(())
    }

    /// Returns true if sends are traced, or may be slower on purpose.
    #[inline]
    pub fn is_observed(&self) -> bool {
        self.context.trace().is_some() || self.context.node().job().knob_epoch() != 0
    }

    /// Notes what the laboratory's knobs have to know about a request to an interface, if any is
    /// turned.
    pub fn note_request(&self, note: RequestNote) {
        let core = self.hold.core();
        debug_assert!(core.is_ok(), "the endpoint sends, so none of its handlers runs");
        let Ok(mut core) = core else { return };
        if let Some(emulation) = core.handler_context.emulation.as_mut().filter(|knobs| knobs.on) {
            emulation.note_request(note);
        }
    }

    /// Returns the rank's context.
    pub fn context(&self) -> &Arc<RankContext> {
        &self.context
    }

    /// Returns a failure of another endpoint of this thread that a wait of this one has kept
    /// ([`WaitFor::keeps_failures`]), if there is one: its next poll would report it.
    pub fn take_kept_failure(&self) -> Option<crate::Error> {
        take_kept_failure(self.hold.cell())
    }

    /// Blocks until `what` is done, polling this endpoint and all others of this thread; a
    /// restricted endpoint alone.
    ///
    /// # Errors
    /// As for [`block_on`].
    pub fn block_on(&self, what: &mut impl WaitFor) -> Result<()> {
        block_on(&self.context, self.hold.cell(), what)
    }
}
