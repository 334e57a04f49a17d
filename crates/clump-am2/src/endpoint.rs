//! Endpoints: functions that make, move and free them, and set their tags.

use crate::bundle::{self, eb_t};
use crate::endpoint_name::en_t;
use crate::endpoint_slot::{ENDPOINTS, NONE, Own, SLOTS, ep_t, handle_of};
use crate::message::MAX_ARGUMENTS;
use crate::named_endpoint::NamedEndpoint;
use crate::status::{AmFailure, Code, bad, call, give, in_handler};
use crate::translation_entry::FIRST_ENTRIES;
use crate::{job_context, receive, token};
use clump_am::{Access, Tag};
use clump_os::sync::Ordering;
use std::ffi::{c_int, c_void};

/// `AM_ALL`: the tag that every message matches.
pub(crate) const ALL: u64 = 1;

const _: () = assert!(MAX_ARGUMENTS == 16);

/// Implements `AM_AllocateEndpoint` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_AllocateEndpoint(bundle: eb_t, endpoint: *mut ep_t, name: *mut en_t) -> c_int {
    call(|| {
        if endpoint.is_null() {
            return Err(crate::status::null("the place for an endpoint"));
        }
        if token::is_handling() {
            return Err(in_handler("AM_AllocateEndpoint"));
        }
        let bundle = bundle::NamedBundle::read(bundle)?;
        let books = bundle::books();
        bundle.check()?;
        let bundle = bundle.bundle;
        bundle.check_thread()?;
        let context = job_context::context()?;
        let free = SLOTS.iter().find(|slot| slot.generation.load(Ordering::Relaxed) & 1 == 0);
        let Some(slot) = free else {
            let what = format!("this rank has {ENDPOINTS} endpoints, the most there may be");
            return Err(AmFailure::new(Code::Resource, what));
        };
        let given = slot.cell.open(&context)?;
        let mut inside = slot.cell.enter()?;
        receive::install(&mut inside, slot)?;
        let words = context.node().geometry().max_medium().div_ceil(8);
        let own = Own {
            name: en_t::of(given),
            table: vec![None; FIRST_ENTRIES],
            buffer: vec![0; words],
            ..Own::none()
        };
        // SAFETY: this thread is inside; nothing is called.
        unsafe { slot.own(|there| *there = own) };
        for handler in &slot.handlers {
            handler.store(std::ptr::null_mut(), Ordering::Relaxed);
        }
        slot.has_unclaimed.store(false, Ordering::Relaxed);
        slot.bundle.store(bundle.index(), Ordering::Relaxed);
        drop(inside);
        slot.generation.fetch_add(1, Ordering::Release);
        bundle.add(slot)?;
        drop(books);
        if !name.is_null() {
            give(name, "an endpoint's name", en_t::of(given))?;
        }
        give(endpoint, "an endpoint", handle_of(slot))
    })
}

/// Implements `AM_FreeEndpoint` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_FreeEndpoint(endpoint: ep_t) -> c_int {
    call(|| {
        if token::is_handling() {
            return Err(in_handler("AM_FreeEndpoint"));
        }
        let named = NamedEndpoint::read(endpoint)?;
        let _books = bundle::books();
        named.check()?;
        bundle::free_endpoint(named.slot)
    })
}

/// Implements `AM_MoveEndpoint` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_MoveEndpoint(endpoint: ep_t, from: eb_t, to: eb_t) -> c_int {
    call(|| {
        if token::is_handling() {
            return Err(in_handler("AM_MoveEndpoint"));
        }
        let (named, from, to) = (
            NamedEndpoint::read(endpoint)?,
            bundle::NamedBundle::read(from)?,
            bundle::NamedBundle::read(to)?,
        );
        let _books = bundle::books();
        named.check()?;
        from.check()?;
        to.check()?;
        let slot = named.slot;
        if slot.bundle.load(Ordering::Relaxed) != from.bundle.index() {
            return Err(bad("the endpoint is not in the bundle that it is to be moved from"));
        }
        from.bundle.check_thread()?;
        slot.cell.let_go()?;
        from.bundle.remove(slot);
        slot.bundle.store(to.bundle.index(), Ordering::Relaxed);
        to.bundle.add(slot)
    })
}

/// Implements `AM_SetTag` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_SetTag(endpoint: ep_t, tag: u64) -> c_int {
    call(|| {
        let named = NamedEndpoint::read(endpoint)?;
        if named.slot.cell.is_inside() {
            return Err(in_handler("AM_SetTag"));
        }
        let mut inside = named.visit()?;
        inside.set_access(match tag {
            NONE => Access::Nobody,
            ALL => Access::Everyone,
            tag => Access::Tag(Tag(tag)),
        })?;
        // SAFETY: this thread is inside; nothing is called.
        unsafe { named.slot.own(|own| own.tag = tag) };
        Ok(())
    })
}

/// Implements `AM_GetTag` of `<clump/am2.h>`.
#[unsafe(no_mangle)]
pub extern "C" fn AM_GetTag(endpoint: ep_t, tag: *mut u64) -> c_int {
    call(|| NamedEndpoint::read(endpoint)?.with_own(|own| give(tag, "a tag", own.tag)))
}

/// Writes the name of an endpoint, as `AM_AllocateEndpoint` returned it.
#[unsafe(no_mangle)]
pub extern "C" fn clump_am_name(endpoint: ep_t, name: *mut en_t) -> c_int {
    call(|| {
        NamedEndpoint::read(endpoint)?.with_own(|own| give(name, "an endpoint's name", own.name))
    })
}

/// Returns the rank of a named endpoint.
#[unsafe(no_mangle)]
pub extern "C" fn clump_am_rank_of(name: en_t) -> c_int {
    c_int::try_from(name.name().rank()).unwrap_or(c_int::MAX)
}

/// Converts a pointer that C gave as memory.
pub(crate) fn memory(at: *mut c_void) -> *mut u8 {
    at.cast()
}
