//! Polling, and waiting for events.

use crate::bundle::{All, NamedBundle, eb_t};
use crate::bundle_slot::{BUNDLES, Bundle};
use crate::status::{Result, bad, call, call_hot, give, in_handler};
use crate::{job_context, token};
use clump_am::{ErrorKind, Pollable, WaitFor, block_on, give_way, note_arrival};
use clump_os::sync::Ordering;
use clump_shm::backoff::{PollBackoff, PollWindow, WINDOW};
use clump_shm::rank::WaitReason;
use std::cell::Cell;
use std::ffi::c_int;

/// `AM_NOEVENTS`: nothing is an event.
const NO_EVENTS: u32 = 0;
/// `AM_NOTEMPTY`: a message is an event.
const NOT_EMPTY: u32 = 1;

/// Consecutive empty polls of a thread: programs of this interface wait by polling, and the process
/// that they wait for may need the processor.
#[derive(Clone, Copy)]
struct EmptyPolls {
    polls: u32,
    /// Number of empty polls after which to consider yielding.
    most: u32,
    window: PollWindow,
}

thread_local! {
    static EMPTY_POLLS: Cell<EmptyPolls> = const { Cell::new(EmptyPolls { polls: 0, most: WINDOW, window: PollWindow::NONE }) };
}

/// Counts a poll that has handled `handled` messages.
#[inline(always)]
fn note_poll(handled: usize) -> Result<()> {
    let empty = EMPTY_POLLS.get();
    let polls = if handled == 0 { empty.polls + 1 } else { 0 };
    EMPTY_POLLS.set(EmptyPolls { polls, ..empty });
    if polls >= empty.most { consider_yield(empty.window) } else { Ok(()) }
}

#[cold]
fn consider_yield(window: PollWindow) -> Result<()> {
    let context = job_context::context()?;
    let only_polled = window.is_back_to_back(EMPTY_POLLS.get().polls);
    let gave_way = give_way(&context, &All, only_polled)?;
    if gave_way && All.poll_once()? > 0 {
        note_arrival();
    }
    let mut window = PollWindow::NONE;
    window.begin(0);
    EMPTY_POLLS.set(EmptyPolls {
        polls: 0,
        most: PollBackoff::window(context.spin_policy()),
        window,
    });
    Ok(())
}

thread_local! {
    /// Messages of each parallel bundle that had been handled when this thread last polled it or
    /// waited. A message that another thread handles later may have come before this one begins to
    /// wait, and is an event then. With the bundle's generation: the count is void for another
    /// bundle in the same table entry.
    static SEEN: [Cell<(u32, u64)>; BUNDLES] = const { [const { Cell::new((0, 0)) }; BUNDLES] };
}

#[inline(always)]
fn note_seen(bundle: &Bundle) {
    if bundle.is_parallel() {
        SEEN.with(|seen| seen[bundle.index()].set((bundle.generation(), bundle.handled())));
    }
}

/// Returns the number of handled messages that this thread has seen of a parallel bundle.
fn seen(bundle: &Bundle) -> u64 {
    let (generation, seen) = SEEN.with(|seen| seen[bundle.index()].get());
    if generation == bundle.generation() { seen } else { 0 }
}

/// Implements `AM_Poll` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_Poll(bundle: eb_t) -> c_int {
    call_hot(|| {
        if token::is_handling() {
            return Err(in_handler("AM_Poll"));
        }
        let bundle = NamedBundle::read(bundle)?.bundle;
        let mut handled = 0;
        for slot in bundle.members() {
            if !slot.cell.is_mine() {
                bundle.bind()?;
            }
            match slot.cell.try_enter() {
                Ok(mut inside) => handled += inside.poll()?,
                // Another thread polls it, or has just freed it.
                Err(error)
                    if matches!(error.kind(), ErrorKind::OtherThread | ErrorKind::NoEndpoint) => {}
                Err(error) => return Err(error.into()),
            }
            slot.check_claimed()?;
        }
        note_poll(handled)?;
        note_seen(bundle);
        Ok(())
    })
}

/// Implements `AM_SetEventMask` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_SetEventMask(bundle: eb_t, mask: c_int) -> c_int {
    call(|| {
        let bundle = NamedBundle::read(bundle)?.bundle;
        bundle.check_thread()?;
        let known = u32::try_from(mask).ok().filter(|mask| [NO_EVENTS, NOT_EMPTY].contains(mask));
        let mask = known.ok_or_else(|| {
            bad(format!("an event mask is AM_NOEVENTS or AM_NOTEMPTY, not {mask}"))
        })?;
        bundle.mask.store(mask, Ordering::Relaxed);
        Ok(())
    })
}

/// Implements `AM_GetEventMask` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_GetEventMask(bundle: eb_t, mask: *mut c_int) -> c_int {
    call(|| {
        let bundle = NamedBundle::read(bundle)?.bundle;
        give(mask, "the place for a mask", bundle.mask.load(Ordering::Relaxed) as c_int)
    })
}

/// Implements `AM_WaitSema` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_WaitSema(bundle: eb_t) -> c_int {
    call(|| {
        if token::is_handling() {
            return Err(in_handler("AM_WaitSema"));
        }
        let named = NamedBundle::read(bundle)?;
        wait(named)?;
        named.bundle.check_claimed()
    })
}

fn wait(named: NamedBundle) -> Result<()> {
    let bundle = named.bundle;
    if bundle.mask.load(Ordering::Relaxed) == NO_EVENTS {
        return Err(bad(
            "nothing would end this wait: the mask is AM_NOEVENTS; see AM_SetEventMask",
        ));
    }
    bundle.bind()?;
    let context = job_context::context()?;
    let before = match bundle.is_parallel() {
        true => seen(bundle),
        // All messages were handled by this thread.
        false => bundle.handled(),
    };
    let waiter = bundle.wait();
    let mut event = Event { bundle, named, before };
    let waited = block_on(&context, &All, &mut event);
    drop(waiter);
    note_seen(bundle);
    waited?;
    named.check()
}

/// The wait for an event of a bundle's mask.
struct Event {
    bundle: &'static Bundle,
    named: NamedBundle,
    /// Number of messages whose handling is no event any more.
    before: u64,
}

impl WaitFor for Event {
    fn done(&mut self) -> clump_am::Result<bool> {
        let masked = self.bundle.mask.load(Ordering::Relaxed) == NO_EVENTS;
        // A bundle that another thread frees has no events any more.
        let freed = self.named.check().is_err();
        Ok(freed || !masked && self.bundle.handled() != self.before)
    }

    fn waiting(&self) -> WaitReason {
        WaitReason::Message
    }
}
