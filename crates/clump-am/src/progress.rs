//! Waiting: every blocking call polls all endpoints of its thread, then yields, then sleeps.
//!
//! The endpoints that a thread opened are its bundle: a call that blocks on one polls them all, so
//! that two ranks flooding each other through different endpoints cannot stop each other. A
//! restricted endpoint is in no bundle, and a call that blocks on it polls it alone, so that no
//! handler of another endpoint runs meanwhile.

use crate::bundle::{BUNDLE, OTHERS, PolledEndpoint, each_beside};
use crate::context::RankContext;
use crate::core::Core;
use crate::error::{Error, ErrorKind, Result};
use crate::kept_failures::{KeptFailures, may_be_kept, note_kept, note_searched};
use crate::pollable::Pollable;
use crate::sleep::sleep;
use crate::wait_for::{TOO_SHORT, WaitFor};
use clump_shm::rank::{Published, RankState};
use clump_shm::waiter::{WaitStep, Waiter};
use clump_trace::{Counter, Counters, EventKind};
use clump_transport::Urgency;
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::time::Duration;

/// Longest sleep while waiting for room that only the timers of the rank's own stack may announce.
pub(crate) const NAP_FOR_ROOM: Duration = Duration::from_micros(200);

/// Yields between two checks for deaths and other housekeeping.
const HOUSEKEEPING_YIELDS: u64 = 16;

/// A core whose handlers may all move to another thread.
#[derive(Debug)]
pub struct Guarded(pub(crate) Core);

// SAFETY: a Guarded is only made by `Endpoint::open_shared`, and `SharedEndpoint` takes only
// handlers that are Send; all other parts of a Core are Send.
unsafe impl Send for Guarded {}

/// Adds an endpoint to the bundle of this thread.
pub(crate) fn enroll(core: &Rc<RefCell<Core>>) {
    BUNDLE.with(|bundle| {
        let mut bundle = bundle.get().borrow_mut();
        bundle.retain(|known| known.strong_count() > 0);
        let enrolled = |known: &Weak<_>| std::ptr::eq(known.as_ptr(), Rc::as_ptr(core));
        debug_assert!(!bundle.iter().any(enrolled), "an endpoint is polled once");
        debug_assert!(core.in_bundle(), "calls on other endpoints do not poll it");
        bundle.push(Rc::downgrade(core));
    });
}

/// Lets all endpoints of this thread read the laboratory's settings: after a change, messages sent
/// from now on are delayed by it. Endpoints in cells and of other threads read them with their next
/// poll.
pub fn refresh_knobs() {
    let bundle = BUNDLE.with(|bundle| bundle.get().borrow().clone());
    for core in bundle.iter().filter_map(Weak::upgrade) {
        if let Ok(mut core) = core.try_borrow_mut() {
            core.refresh_knobs();
        }
    }
}

/// Returns the number of endpoints in the bundle of this thread, those already closed included;
/// others count as one.
pub(crate) fn bundle_size() -> usize {
    BUNDLE.with(|bundle| bundle.get().borrow().len()) + usize::from(OTHERS.get().is_some())
}

/// Sums the activity of all endpoints of this thread.
pub(crate) fn activity_of_bundle() -> u64 {
    let others = OTHERS.get().map_or(0, |others| others.activity());
    BUNDLE.with(|bundle| {
        let bundle = bundle.get().borrow();
        let cores = bundle.iter().filter_map(Weak::upgrade);
        cores.fold(others, |sum, core| sum.wrapping_add(Pollable::activity(&*core)))
    })
}

/// Blocks until `what` is done, and polls `mine` and the other endpoints of this thread meanwhile;
/// a restricted one alone.
///
/// # Errors
/// Polling finds an error; a rank is dead, when survivors do not go on.
#[inline]
pub fn block_on(
    context: &RankContext,
    mine: &impl Pollable,
    what: &mut impl WaitFor,
) -> Result<()> {
    if what.done()? {
        return Ok(());
    }
    debug_assert!(!mine.in_bundle() || mine.polls_bundle(), "a bundle is polled as a whole");
    let waits_for = context.is_observed().then(|| what.waiting().number());
    if let Some(number) = waits_for {
        context.note(EventKind::Wait, (0, number, 0));
    }
    let mut waiter = Waiter::new(context.spin_policy());
    let network = context.network();
    if let Some(network) = network {
        context.check_process()?;
        // A rank that has just sent something is likely to wait for the reply.
        if network.flush(Urgency::Gathered).is_some() {
            mine.force_network_poll();
        }
    }
    let alone = !mine.polls_bundle() || bundle_size() <= usize::from(mine.in_bundle());
    let mut published: Option<Published<'_>> = None;
    let mut yields = 0;
    let mut heard = network.map_or(0, |network| network.packets_heard());
    let mut kept = what.keeps_failures().then(KeptFailures::default);
    let result = loop {
        let handled = if alone { mine.poll_once() } else { poll_all(mine, kept.as_mut()) };
        let mut next = WaitStep::Poll;
        match handled {
            Err(error) => break Err(error),
            Ok(0) => next = waiter.step(),
            Ok(_) => waiter.reset(),
        }
        // Called before the next poll: after a yield it is often done already, and a poll touches
        // pages that a crowded processor has to translate again.
        match what.done() {
            Err(error) => break Err(error),
            Ok(true) => break Ok(()),
            Ok(false) => {}
        }
        yields += u64::from(next == WaitStep::Yielded);
        if network.is_some() && next != WaitStep::Poll {
            mine.force_network_poll();
        }
        let housekeeping = match next {
            WaitStep::Poll => false,
            WaitStep::Yielded => yields % HOUSEKEEPING_YIELDS == 0,
            WaitStep::Sleep => true,
        };
        if next == WaitStep::Sleep {
            let before =
                std::mem::replace(&mut heard, network.map_or(0, |network| network.packets_heard()));
            let soon = mine.due_in().is_some_and(|due| due < TOO_SHORT);
            if heard != before || soon {
                // Fragments or acknowledgements are arriving: sleeping would mean an immediate
                // wake-up.
                waiter.reset();
                next = WaitStep::Yielded;
            }
        }
        debug_assert!(
            housekeeping || next == WaitStep::Poll || yields > 0,
            "a sleep without a check"
        );
        if housekeeping
            && let Err(error) =
                idle(context, mine, (&mut *what, kept.as_mut()), next, &mut published)
        {
            break Err(error);
        }
    };
    if let Some(kept) = kept {
        give_back(kept);
    }
    drop(published);
    end_wait(context, waits_for, yields);
    result
}

/// Records the end of a wait, for observers.
fn end_wait(context: &RankContext, waited_for: Option<u8>, yields: u64) {
    debug_assert!(waited_for.is_none_or(|number| number > 0), "0 is no reason to wait");
    if let Some(number) = waited_for {
        context.note(EventKind::WaitEnd, (0, number, 0));
        if let Some(actor) = context.actor() {
            actor.begin_part();
        }
    }
    let counters = Counters::over(context.block().counters());
    counters.bump(Counter::Waits);
    if yields > 0 {
        counters.add(Counter::Yields, yields);
    }
}

fn poll_all(mine: &impl Pollable, mut kept: Option<&mut KeptFailures>) -> Result<usize> {
    debug_assert!(mine.polls_bundle(), "a restricted endpoint is polled alone");
    let mut handled = if mine.in_bundle() { 0 } else { mine.poll_once()? };
    let mut failure = None;
    each_beside(mine, |member| match member.poll_once() {
        Ok(n) => handled += n,
        Err(error) => {
            failure = unkept(mine, &member, error, kept.as_deref_mut()).or(failure.take());
        }
    });
    failure.map_or(Ok(handled), Err)
}

/// Keeps the failure of an endpoint other than `mine` for later; returns one that ends the wait.
#[cold]
fn unkept(
    mine: &impl Pollable,
    member: &PolledEndpoint<'_>,
    error: Error,
    kept: Option<&mut KeptFailures>,
) -> Option<Error> {
    debug_assert!(mine.polls_bundle(), "an endpoint that is polled alone finds no other's failure");
    match (member, kept) {
        (PolledEndpoint::Core(core), Some(kept)) if !is_same(core, mine) => {
            kept.keep(core, error);
            None
        }
        // An interface above keeps it, if it can.
        (PolledEndpoint::Others(others), Some(_)) => {
            let left = others.keep_failure(error);
            if left.is_none() {
                note_kept();
            }
            left
        }
        _ => Some(error),
    }
}

/// Gives failures back to their endpoints, whose next polls report them.
fn give_back(kept: KeptFailures) {
    for (core, error) in kept.into_open() {
        let left = core.keep_failure(error);
        debug_assert!(left.is_none(), "no handler of it runs when a wait is over");
        note_kept();
    }
}

/// Returns true if both are one endpoint.
fn is_same(core: &RefCell<Core>, mine: &impl Pollable) -> bool {
    std::ptr::addr_eq(std::ptr::from_ref(core), std::ptr::from_ref(mine))
}

/// Returns a failure of another endpoint of this thread that waits on which other ranks depend have
/// kept, if there is one; `mine` is the endpoint of those waits.
pub(crate) fn take_kept_failure(mine: &impl Pollable) -> Option<Error> {
    if may_be_kept() { search_kept(mine) } else { None }
}

#[cold]
fn search_kept(mine: &impl Pollable) -> Option<Error> {
    debug_assert!(may_be_kept(), "nothing to search for");
    let mut found = None;
    each_beside(mine, |member| found = found.take().or_else(|| member.slow().take_kept_failure()));
    note_searched(found.is_some());
    found
}

/// Slow part of a wait: housekeeping, deaths, sleep.
#[cold]
fn idle<'a>(
    context: &'a RankContext,
    mine: &impl Pollable,
    (what, mut kept): (&mut impl WaitFor, Option<&mut KeptFailures>),
    next: WaitStep,
    published: &mut Option<Published<'a>>,
) -> Result<()> {
    debug_assert!(next != WaitStep::Poll, "a wait that spins does nothing else");
    context.check_alive()?;
    if let Some(rank) = what.depends_on() {
        let state = context.node().peer(rank).map(|peer| peer.state());
        // What the rank sent before it finalized is there now: one more poll finds it, unless
        // another thread has found it and is handling it, or it is hidden until it is due.
        let has_left = state == Some(RankState::Finalized);
        if has_left && mine.poll_thoroughly()? == 0 && !mine.hides_messages() && !what.done()? {
            return Err(ErrorKind::RankLeft(rank).into());
        }
        if let Some(death) = context.node().death_of(rank) {
            return Err(ErrorKind::RankDied(death).into());
        }
    }
    mine.housekeeping()?;
    debug_assert!(context.check_process().is_ok(), "a child works on its parent's endpoints");
    let mut failure = None;
    each_beside(mine, |member| {
        if let Err(error) = member.slow().housekeeping() {
            failure = unkept(mine, &member, error, kept.as_deref_mut()).or(failure.take());
        }
    });
    failure.map_or(Ok(()), Err)?;
    if next == WaitStep::Sleep {
        let published = published.get_or_insert_with(|| Published::none(context.block()));
        published.publish(what.waiting());
        sleep(context, mine, what)?;
    }
    Ok(())
}
